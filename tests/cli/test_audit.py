"""``dpcov audit``: a table, files that hold the same, an exit code that says if a claim fell."""

import json

import pytest

from dpcov.audit import suite
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.gaussian import Gaussian

PLANT = "--module tests.audit.zoo:ReusedSeed "


@pytest.fixture
def audited(desk, monkeypatch):
    def run(arguments):
        # A fixed number of draws, and all the time they take on a busy machine.
        monkeypatch.setattr(suite, "QUICK", suite.Effort(draws=1500, candidates=1, seconds=1000.0))
        command = "audit --neighbors replace-one --processes 1 --seed 1 "
        return desk.run(command + arguments)

    return run


def test_a_sound_mechanism_passes_and_its_table_is_written(audited, tmp_path):
    result = audited(f"gaussian --rho 4 --out {tmp_path / 'audit.json'}")
    assert result.exit_code == 0, result.output
    assert "gaussian" in result.output and "ok" in result.output
    (line,) = json.loads((tmp_path / "audit.json").read_text())["findings"]
    assert line["verdict"] == "ok" and line["bound"] <= line["claim"] == 4 < line["half noise"]


def test_a_private_geometry_is_audited_and_named(audited, tmp_path):
    # What costs nothing finds no geometry and is fast.
    result = audited(f"zero --private-geometry --epsilon 1 --out {tmp_path / 'audit.json'}")
    assert result.exit_code == 0, result.output
    (line,) = json.loads((tmp_path / "audit.json").read_text())["findings"]
    assert line["mechanism"] == "zero, private geometry" and line["pair"] == "far out"


def test_an_audit_without_power_says_so_and_is_exit_code_nine(audited):
    result = audited("gaussian --rho 0.01")
    assert result.exit_code == 9
    assert "no power" in result.output and "half the noise" in result.output


def test_a_third_party_mechanism_is_audited_and_a_refuted_claim_is_exit_code_one(audited):
    result = audited(PLANT + "gaussian --rho 1")
    assert result.exit_code == 1
    assert result.output.count("refuted") == 2


@pytest.mark.parametrize(
    "arguments",
    [
        "no-such-mechanism",
        "--module tests.audit.zoo",
        "--module tests.audit.zoo:Nothing",
        "--module no.such.module:Thing",
        "--module tests.audit.zoo:Plant",
        "--module dpcov.mechanisms.base:Mechanism",
        "gaussian --out audit.xlsx",
        "gaussian --epsilon 1",
        "gaussian --seed -1",
    ],
)
def test_what_cannot_be_audited_is_wrong_usage(desk, arguments):
    result = desk.run(f"audit --seconds 0.1 --seed 1 --processes 1 --quiet {arguments}")
    assert result.exit_code == 2
    assert "Error" in result.output


class Failing(Gaussian):
    """Fails when it draws."""

    def draw(self, *_):
        raise ValueError("no noise today")


class Unfinished(Mechanism):
    """Draws nothing yet."""


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("tests.cli.test_audit:Failing", "Failing failed (ValueError at test_audit.py:"),
        ("tests.cli.test_audit:Failing", "no noise today"),
        ("tests.cli.test_audit:Unfinished", "abstract"),
        ("no.such.module:Thing", "No module named 'no'"),
    ],
)
def test_what_is_wrong_with_a_mechanism_of_another_package_is_told(desk, module, said):
    result = desk.run(f"audit --processes 1 --quiet --rho 1 --module {module}")
    assert result.exit_code == 2
    assert said in result.output

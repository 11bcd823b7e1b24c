"""``dpcov audit``: a table, files that hold the same, an exit code that says whether a claim fell."""

import csv
import json

import pytest

from dpcov.audit import suite

FAST = ("--seconds", "0.1", "--seed", "1", "--quiet")
PLANT = "tests.audit.zoo:ReusedSeed"


def test_a_sound_mechanism_passes_and_its_table_is_written(desk, tmp_path):
    for name in ("audit.json", "audit.csv"):
        result = desk.run(
            "audit", "laplace", "--neighbors", "replace-one", *FAST, "--out", str(tmp_path / name)
        )
        assert result.exit_code == 0, result.output
        assert "laplace" in result.output and "ok" in result.output
    (line,) = json.loads((tmp_path / "audit.json").read_text())["findings"]
    with (tmp_path / "audit.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert line["refuted"] is False and line["bound"] <= line["claim"] == 1
    assert set(row) == set(line)


def test_a_third_party_mechanism_is_audited_and_a_refuted_claim_is_exit_code_one(desk, monkeypatch):
    # Few draws and all the time they take on a busy machine.
    monkeypatch.setattr(suite, "QUICK", suite.Effort(draws=300, candidates=1, search_draws=1, seconds=1.0))
    result = desk.run(
        "audit", "--module", PLANT, "--rho", "1", "--neighbors", "replace-one", "--seconds", "1000", "--quiet"
    )
    assert result.exit_code == 1
    assert "FAIL" in result.output
    assert "refuted" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-mechanism",),
        ("--module", "tests.audit.zoo"),
        ("--module", "tests.audit.zoo:Nothing"),
        ("--module", "no.such.module:Thing"),
        ("--module", "tests.audit.zoo:Plant"),
        ("--module", "dpcov.mechanisms.base:Mechanism"),
        ("gaussian", "--out", "audit.xlsx"),
        ("gaussian", "--epsilon", "1"),
    ],
)
def test_what_cannot_be_audited_is_wrong_usage(desk, arguments):
    result = desk.run("audit", *arguments, *FAST)
    assert result.exit_code == 2
    assert "Error" in result.output


def test_an_existing_file_is_kept(desk, tmp_path):
    kept = tmp_path / "kept.json"
    kept.write_text("mine")
    assert desk.run("audit", "zero", *FAST, "--out", str(kept)).exit_code == 2
    assert kept.read_text() == "mine"

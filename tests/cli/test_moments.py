"""``dpcov moments``: sites gather, somebody merges, one release."""

import numpy as np
import pytest
from typer.testing import CliRunner

from dpcov import Ledger, Release
from dpcov.cli.main import app

SCHEMA = """
[columns.x0]
type = "numeric"
lower = -3
upper = 3
[columns.x1]
type = "numeric"
lower = 0
upper = 1
"""
BUDGET = ["--rho", "0.5"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for place, name in enumerate(("jan.csv", "feb.csv", "mar.csv")):
        rows = np.column_stack([rng.normal(size=50 + place), rng.uniform(size=50 + place)])
        np.savetxt(name, rows, delimiter=",", header="x0,x1", comments="")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    assert dpcov("moments", "key", "k").exit_code == 0
    return tmp_path


def dpcov(*words):
    return CliRunner().invoke(app, list(words))


def checkpoint(*parts, output="all.moments", more=()):
    return dpcov(
        "moments",
        "checkpoint",
        *parts,
        "--schema",
        "schema.toml",
        "--key",
        "k",
        "-o",
        output,
        *BUDGET,
        *more,
    )


def test_sites_gather_somebody_merges_and_one_release_is_paid_once(folder):
    assert checkpoint("jan.csv", "feb.csv", output="north.moments").exit_code == 0
    assert checkpoint("mar.csv", output="south.moments").exit_code == 0
    merged = dpcov(
        "moments", "merge", "north.moments", "south.moments", "--key", "k", "-o", "all.moments"
    )
    assert merged.exit_code == 0, merged.output
    assert "3 parts" in merged.output
    assert dpcov("ledger", "create", "l.sqlite", "--dataset", "p", "--rho", "0.5").exit_code == 0
    spending = [
        "--schema",
        "schema.toml",
        *BUDGET,
        "--ledger",
        "l.sqlite",
        "--dataset",
        "p",
        "-o",
        "p.dpcov",
    ]
    made = dpcov("release", "all.moments", "--key", "k", *spending)
    assert made.exit_code == 0, made.output
    assert Release.load("p.dpcov").n_rows == 50 + 51 + 52
    assert len(Ledger("l.sqlite").entries("p")) == 1


def test_an_interrupted_gathering_goes_on_where_it_stopped(folder):
    (folder / "feb.csv").rename(folder / "later.csv")
    (folder / "feb.csv").write_text("x0,x1\n1,oops\n")
    stopped = checkpoint("jan.csv", "feb.csv", "mar.csv")
    assert stopped.exit_code == 4
    assert "oops" not in stopped.output
    (folder / "later.csv").rename(folder / "feb.csv")
    (folder / "jan.csv").write_text("x0,x1\n0,oops\n")
    resumed = checkpoint("jan.csv", "feb.csv", "mar.csv", more=["--resume"])
    assert resumed.exit_code == 0, resumed.output
    assert "3 parts" in resumed.output


def test_mistakes_are_refused_before_anything_is_read(folder):
    assert "twice" in checkpoint("jan.csv", "jan.csv").output
    assert "no file" in checkpoint("jan.csv", "absent.csv").output
    assert not (folder / "all.moments").exists()
    assert checkpoint("jan.csv").exit_code == 0
    assert "exists already" in checkpoint("feb.csv").output
    assert (
        "twice"
        in dpcov(
            "moments", "merge", "all.moments", "all.moments", "--key", "k", "-o", "b.moments"
        ).output
    )
    release = [
        "release",
        "all.moments",
        "--schema",
        "schema.toml",
        *BUDGET,
        "--no-ledger",
        "-o",
        "p.dpcov",
    ]
    assert "need their key" in dpcov(*release).output
    assert dpcov("moments", "key", "other").exit_code == 0
    assert "key is another one" in dpcov(*release, "--key", "other").output
    assert "for saved moments" in dpcov(*release[:1], "jan.csv", *release[2:], "--key", "k").output
    assert not (folder / "p.dpcov").exists()


def test_a_passphrase_from_the_environment_works(folder, monkeypatch):
    monkeypatch.setenv("SECRET", "correct horse battery")
    words = ["--schema", "schema.toml", "--passphrase-env", "SECRET", "-o", "a.moments", *BUDGET]
    assert dpcov("moments", "checkpoint", "jan.csv", *words).exit_code == 0
    release = [
        "--schema",
        "schema.toml",
        *BUDGET,
        "--no-ledger",
        "-o",
        "p.dpcov",
        "--passphrase-env",
        "SECRET",
    ]
    assert dpcov("release", "a.moments", *release).exit_code == 0


def test_what_cannot_be_written_is_refused_before_a_part_is_read(folder):
    (folder / "bad.csv").write_text("x0,x1\nnone of a number,1\n")
    (folder / "old.moments").write_bytes(b"mine")
    for output, words in (
        ("old.moments", "--overwrite"),
        ("absent/all.moments", "create it first"),
        ("all.dat", ".moments"),
    ):
        refused = checkpoint("bad.csv", output=output)
        assert refused.exit_code != 0
        assert words in refused.output
    assert (folder / "old.moments").read_bytes() == b"mine"


def test_parts_are_never_written_over(folder):
    (folder / "jan.csv").rename("jan.moments")
    before = (folder / "jan.moments").read_bytes()
    refused = checkpoint("feb.csv", "jan.moments", output="jan.moments", more=("--overwrite",))
    assert refused.exit_code == 2
    assert (folder / "jan.moments").read_bytes() == before


def test_a_part_named_in_two_ways_is_one_part(folder):
    refused = checkpoint("jan.csv", "./jan.csv", str(folder / "jan.csv"))
    assert refused.exit_code == 2
    assert "named twice" in refused.output


def test_a_passphrase_that_is_not_set_is_told(folder):
    options = [
        "--schema",
        "schema.toml",
        "--passphrase-env",
        "DPCOV_ABSENT",
        "-o",
        "all.moments",
        *BUDGET,
    ]
    refused = dpcov("moments", "checkpoint", "jan.csv", *options)
    assert refused.exit_code == 2
    assert "is not set" in refused.output

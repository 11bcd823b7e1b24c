"""What does not depend on the rows at fixed public parameters with a private number of rows."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import dpcov
from benchmarks.sidechannels import __main__ as bench
from dpcov.cli.main import app

UNIT = dpcov.Numeric(lower=0, upper=1)
COLUMNS = {"x": UNIT, "y": UNIT, "g": dpcov.Categorical(categories=("a", "b"))}
SCHEMA = dpcov.Schema(columns=COLUMNS, intercept=False)
RHO, EPSILON = dpcov.Budget(rho=1), dpcov.Budget(epsilon=1)
MECHANISMS = [
    *((name, RHO) for name in ("gaussian", "thresholding", "projection", "separate")),
    *(("eigenvectors", RHO), ("coinpress", RHO), ("zero", RHO)),
    *(("laplace", EPSILON), ("nuclear", EPSILON)),
]
SIZES = (1, 199, 200, 201, 10_000)
"""Rows; neighbors, and tables whose numbers of rows have other numbers of digits."""


def table(n_rows, value=None):
    random = np.random.default_rng(0).uniform(size=n_rows)
    numbers = random if value is None else np.full(n_rows, value)
    groups = [("a", "b")[place % 2] for place in range(n_rows)]
    return pa.table({"x": numbers, "y": numbers[::-1], "g": groups})


def released(data, mechanism, budget, **options):
    how = {"schema": SCHEMA, "neighbors": "add-remove-one", "threads": 1, **options}
    made = dpcov.release(data, budget=budget, mechanism=mechanism, geometry="schema", **how)
    return len(made.to_bytes()), made


@pytest.mark.parametrize(("mechanism", "budget"), MECHANISMS, ids=lambda value: str(value))
def test_a_release_is_as_long_whatever_the_rows_are(mechanism, budget):
    tables = [*map(table, SIZES), table(200, 0.0), table(200, 1.0), table(200, 1e9)]
    assert len({released(data, mechanism, budget)[0] for data in tables}) == 1


@pytest.mark.parametrize(
    ("mechanism", "budget", "by"),
    [("stratified", RHO, None), ("stratified", RHO, "g"), ("stratified-nuclear", EPSILON, None)],
)
def test_the_length_of_strata_follows_from_what_they_publish(mechanism, budget, by):
    """How many matrices there are is decided by noisy traces; nothing else moves the length."""
    lengths = {}
    for data in [*map(table, SIZES), table(200, 0.0), table(200, 0.5), table(200, 1.0)]:
        length, made = released(data, mechanism, budget, by=by)
        published = len(made.statistics.arrays["sscp"]), made.manifest.statistics.notes
        lengths.setdefault(published, set()).add(length)
    assert all(len(found) == 1 for found in lengths.values())


def test_a_public_number_of_rows_does_move_the_length():
    """The comparison above would see a number of rows that is written down."""
    lengths = {
        len(dpcov.release(table(n), schema=SCHEMA, budget=RHO).to_bytes()) for n in (9, 10_000)
    }
    assert len(lengths) == 2


@pytest.mark.parametrize("n_rows", [199, 200, 10_000])
def test_the_screen_says_the_same(n_rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pa.parquet.write_table(table(n_rows), "t.parquet")
    (tmp_path / "s.toml").write_text(SCHEMA.dumps())
    fixed = ["--schema", "s.toml", "--rho", "0.1", "--neighbors", "add-remove-one"]
    command = ["release", "t.parquet", *fixed, "--no-ledger", "-o", "out.dpcov"]
    run = CliRunner().invoke(app, command)
    assert run.output.splitlines() == [
        "Wrote out.dpcov: (0.1)-zCDP, 4 features.",
        dpcov.load("out.dpcov").diagnose().headline,
        "Next: dpcov doctor out.dpcov   ·   dpcov export out.dpcov -o covariance.csv",
    ]


def test_the_measurement_sees_a_difference_and_no_chance():
    usual = [bench.Run(10 + place / 10, 5, 7, 3) for place in range(9)]
    slower = [dataclasses.replace(each, milliseconds=each.milliseconds + 3) for each in usual]
    runs = {bench.REFERENCE: usual, "the same again": usual[::-1], "slow": slower}
    told = {row[0]: row[3] for row in bench.rows(runs)}
    assert (told["slow"], told["the same again"]) == ("yes", "")

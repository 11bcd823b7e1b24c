"""``dpcov sample`` writes rows that other software reads."""

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import dpcov
from dpcov import Budget, Numeric, Schema
from dpcov.cli.main import app


@pytest.fixture
def release(tmp_path):
    rows = np.random.default_rng(0).uniform(size=(500, 2))
    schema = Schema(columns={"x0": Numeric(lower=0, upper=1), "x1": Numeric(lower=0, upper=1)})
    dpcov.release(rows, schema=schema, budget=Budget(rho=1), output=tmp_path / "a.dpcov")
    return str(tmp_path / "a.dpcov")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize(
    ("name", "read"), [("s.csv", pyarrow.csv.read_csv), ("s.parquet", pyarrow.parquet.read_table)]
)
def test_rows_are_written_and_read_back(release, tmp_path, name, read):
    done = run("sample", release, "--rows", 70, "--seed", 1, "-o", tmp_path / name)
    assert done.exit_code == 0, done.output
    rows = read(tmp_path / name)
    assert (rows.num_rows, rows.column_names) == (70, ["x0", "x1"])
    assert run("sample", release, "-o", tmp_path / name).exit_code == 7


def test_unknown_endings_are_refused(release, tmp_path):
    assert run("sample", release, "-o", tmp_path / "s.xls").exit_code == 2

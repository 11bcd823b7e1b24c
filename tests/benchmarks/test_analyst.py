"""What analysts read: the short form of the benchmark, and that its scores mean what they say."""

import argparse
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpcov
from benchmarks.analyst import r_tables
from benchmarks.analyst.__main__ import GEOMETRIES, Score, run
from benchmarks.analyst.measure import Truth
from benchmarks.analyst.spreads import measure
from benchmarks.analyst.tables import made
from benchmarks.analyst.within import GEOMETRIES as OF_RELEASES
from benchmarks.analyst.within import held


def lines(**more):
    terms = {"quick": True, "data": None, "only": None, "repetitions": 3, "geometry": GEOMETRIES}
    terms |= {"epsilon": [4.0], "wide": [1.0, 1000.0]} | more
    return {(line.wide, line.geometry): line.score for line in run(argparse.Namespace(**terms))}


@pytest.mark.thorough
def test_a_private_geometry_reads_as_well_as_the_true_one_whatever_the_bounds():
    found = lines()
    floor = found[1.0, "floor"]
    for wide in (1.0, 1000.0):
        private = found[wide, "private"]
        assert private.rms < 1.4 * floor.rms
        assert private.coefficient < 2 * floor.coefficient
        assert private.covered > 0.9
        assert private.undefined == 0
    assert found[1000.0, "schema"].rms > 3 * floor.rms


@pytest.fixture(scope="module")
def truth():
    return Truth(made(1, n_rows=2_000, n_columns=5))


def scored(truth, frame, **more):
    terms = {"schema": truth.table.schema(), "budget": dpcov.Budget(rho=1000)} | more
    release = dpcov.release(frame, entropy=dpcov.SeededEntropy(0), **terms)
    return truth.score(release, (release, truth.table.frame))


def test_a_release_without_noise_has_no_error(truth):
    score = scored(truth, truth.table.frame)
    assert isinstance(score, Score)
    assert max(score.rms, score.largest, score.whitened, score.undefined) < 0.05
    assert score.coefficient < 0.5
    assert (score.finite, score.covered > 0.9) == (1, True)


def test_a_release_of_other_rows_has_large_errors(truth):
    rng, frame = np.random.default_rng(0), truth.table.frame
    shuffled = frame.apply(lambda column: rng.permutation(column.to_numpy()))
    score = scored(truth, shuffled)
    assert score.rms > 0.2
    assert score.whitened > 0.5
    assert score.covered < 0.7


@pytest.mark.parametrize("geometry", OF_RELEASES)
def test_errors_lie_within_what_a_release_states(geometry):
    table = made(6, n_rows=8_000, n_columns=8)
    assert 0.9 < held(table, geometry) <= 1


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ((0, 1), (0.0, 1.0)),
        ((3, 41), (0.0, 50.0)),
        ((-7, 120), (-200.0, 200.0)),
        ((1987, 2013), (1900.0, 2100.0)),
        ((1840, 1960), (1800.0, 2100.0)),
        ((0.02, 0.09), (0.0, 0.1)),
    ],
)
def test_bounds_of_other_tables_are_typed_by_a_rule(values, bounds):
    assert r_tables.typed(pd.Series(values, dtype=float)) == pytest.approx(bounds)


def test_another_table_keeps_complete_rows_of_numbers():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(2_000, 5)), columns=list("abcde"))
    frame["id"], frame["name"], frame["same"] = range(2_000), "x", 1.0
    frame.loc[:9, "a"], frame.loc[:1_000, "b"] = np.nan, np.nan
    found = r_tables.usable(frame, levels=False)
    assert found is not None and list(found[0]) == ["a", "c", "d", "e"] and not found[1]
    assert len(found[0]) == 1_990
    assert r_tables.usable(frame[["a", "c", "d", "id"]], levels=False) is None
    # A name that is always the same is no column of levels.
    assert r_tables.usable(frame, levels=True) is None
    frame["kind"] = np.where(frame["c"] > 0, "x", "y")
    with_levels = r_tables.usable(frame, levels=True)
    assert with_levels is not None and with_levels[1] == {"kind": ("x", "y")}
    assert list(with_levels[0]) == ["a", "c", "d", "e", "kind"]


def test_tables_of_a_folder_are_read_each_once(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(1_600, 4)), columns=list("abcd"))
    (tmp_path / "inner").mkdir()
    for name, rows in (("a,b.csv", frame), ("inner/same.csv", frame), ("few.csv", frame[:100])):
        rows.to_csv(tmp_path / name, index=False)
    found = list(r_tables.tables(None, levels=False, folder=tmp_path))
    assert [table.name for table in found] == ["a b.csv"]
    assert list(r_tables.tables(["few.csv"], levels=False, folder=tmp_path)) == []


def test_a_summary_of_other_tables_has_geometric_means():
    line = r_tables.Line("t", 6_000, 5, 1.0, 0.02, 0.1, 0.01, 0.02, 0.04, 0.9)
    other = replace(line, floor=0.01, private=0.02, wide_100=0.02, held=1.0)
    *_, row = r_tables.summary(pd.DataFrame([line, other])).splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == ["5,000 and more", "1", "2", "1.00", "0.14", "1.41", "2.83", "0%", "95%"]


def test_a_line_of_another_table_has_the_errors_of_its_releases():
    line = r_tables.line(made(1, n_rows=4_000, n_columns=4), 4.0, 1)
    assert (line.rows, line.columns, line.epsilon) == (4_000, 4, 4.0)
    assert line.private < line.bounds and line.wide_1000 < line.bounds
    assert 0 < line.floor < line.bounds and 0.5 <= line.held <= 1


def test_deviations_err_less_where_a_release_says_what_columns_lost():
    before, now = measure(made(6, n_rows=20_000, n_columns=8), 1.0, 2)
    assert now[0] < 0.8 * before[0]
    assert now[2] >= 0.8

"""The accuracy comparison at a handful of points; the full one is python -m benchmarks.accuracy."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import dpcov
from benchmarks.accuracy import contestants, populations, report
from benchmarks.accuracy.contestants import Contestant
from benchmarks.accuracy.measure import measure
from benchmarks.accuracy.populations import Population, pure, robustness, sparse, zcdp
from benchmarks.accuracy.rows import SHAPES, Blocks, shaped_rows, zipf_rows
from benchmarks.accuracy.tables import Table
from benchmarks.data import digits
from dpcov.data.exact.moments import MomentsSpec

TOLERANCE = 3.0
"""How many standard errors of the few repetitions the ratio may exceed 1 by."""

GRID = ((10, 2_000, 1), (40, 5_000, 4), (20, 5_000, 8), (30, 2_000, 16))


def population(d, n, bins, **budget):
    load, budgets = partial(zipf_rows, n, d, bins), (budget or {"rho": 0.1},)
    return Population(name=f"d={d} n={n} N={bins}", group="CI", budgets=budgets, load=load)


POINTS = [
    Population(name="digits", group="CI", budgets=({"rho": 0.1},), load=digits),
    *(population(*point) for point in GRID),
]


def compared(population, competing, repetitions):
    measured, _ = measure(population, competing, repetitions)
    (point,) = report.points(measured)
    return point


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_auto_is_at_least_as_good_as_every_rival(point):
    found = compared(point, contestants.ZCDP, 4)
    assert found.ratio <= 1 + TOLERANCE * found.uncertainty, found
    assert found.oracle >= 1 - 1e-9, found


def test_auto_is_at_least_as_good_as_every_pure_rival():
    point = compared(population(*GRID[0], epsilon=1.0), contestants.PURE, 3)
    assert point.ratio <= 1 + TOLERANCE * point.uncertainty, point


def test_a_contestant_of_ours_that_loses_is_reported_as_losing():
    planted = Contestant(label="auto", mechanism="eigenvectors", role="ours")
    point = compared(POINTS[1], (planted, contestants.PUBLISHED_GAUSSIAN), 4)
    assert point.significantly_above(1.0)
    assert "<-- above 1" in report.table([point], 1.0)


@pytest.mark.slow
def test_auto_is_at_least_as_good_as_every_rival_on_the_quick_grid():
    chosen = populations.zcdp(quick=True, directory=Path("nowhere"))
    found = report.points([m for each in chosen for m in measure(each, contestants.ZCDP, 4)[0]])
    assert len(found) > 20
    assert [point for point in found if point.ratio > 1 + TOLERANCE * point.uncertainty] == []
    assert report.geometric_mean(p.ratio for p in found if p.best_rival != "zero") <= 0.65


def test_contestants_that_do_not_apply_are_skipped_with_a_reason():
    (gaussian,), _ = measure(population(3, 100, 1, epsilon=1.0), [contestants.ISOTROPIC], 1)
    assert "cannot honor" in gaussian.skipped
    assert report.points([gaussian]) == []
    assert report.remarks([gaussian])[0].startswith("not measured: gaussian (isotropic): ")


def test_missing_tables_are_skipped_with_a_line(tmp_path):
    missing = next(p for p in populations.zcdp(True, tmp_path) if p.name == "adult")
    measured, line = measure(missing, contestants.ZCDP, 1)
    assert measured == []
    assert "skipped adult: adult.csv.gz is not in" in line


def listed(quick):
    return [p for part in (zcdp, pure, sparse, robustness) for p in part(quick, Path("nowhere"))]


@pytest.mark.parametrize("quick", [True, False])
def test_a_name_means_the_same_rows_everywhere(quick):
    loads = {}
    for population in listed(quick):
        described = repr(population.load)
        assert loads.setdefault((population.name, population.norm), described) == described


@pytest.mark.parametrize("quick", [True, False])
def test_no_point_is_measured_twice_in_a_group(quick):
    for part in (zcdp, pure, sparse, robustness):
        keys = [
            (p.group, p.name, *budget.items())
            for p in part(quick, Path("nowhere"))
            for budget in p.budgets
        ]
        assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_made_in_blocks_have_the_moments_of_all_rows(shape, monkeypatch):
    monkeypatch.setattr("benchmarks.accuracy.rows.BLOCK_VALUES", 64)
    blocks = shaped_rows(50, 5, shape)
    rows = np.concatenate(list(blocks.make()))
    assert len(list(blocks.make())) > 1
    assert rows.shape == (50, 5)
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12
    table = Table(Population(name="", group="", budgets=(), load=lambda: blocks))
    spec = MomentsSpec(shells=8)
    assert table.moments(spec) == dpcov.moments(rows, norm_bound=1.0, shells=8)
    np.testing.assert_allclose(table.truth, rows.T @ rows / 50)


def test_a_stated_truth_is_what_errors_are_measured_against():
    truth = np.eye(2) / 3
    made = Blocks.of(np.full((4, 2), 0.5), truth)
    table = Table(Population(name="", group="", budgets=(), load=lambda: made))
    table.moments(MomentsSpec())
    np.testing.assert_array_equal(table.truth, truth)

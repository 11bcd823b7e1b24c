"""The populations: what results are stored by is unambiguous, and blocks are the same rows."""

from pathlib import Path

import numpy as np
import pytest

import dpcov
from benchmarks.accuracy.populations import Population, pure, robustness, sparse, zcdp
from benchmarks.accuracy.rows import SHAPES, Blocks, shaped_rows
from benchmarks.accuracy.tables import Table
from dpcov.data.moments import MomentsSpec


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


def test_the_full_lists_hold_what_they_promise():
    names = {f"{p.group}: {p.name}" for p in listed(quick=False)}
    assert {f"mnist digits: mnist digit {digit}" for digit in range(10)} <= names
    assert {f"mnist: mnist n={n}" for n in (6_000, 20_000, 60_000)} <= names
    assert {f"reuters21578: reuters21578 d=512 {kind}" for kind in ("unit", "raw")} <= names
    assert {f"{shape}: {shape} d=1000 n=1000000" for shape in SHAPES} <= names
    assert {"Dong 7: d=200 n=500000 N=1", "Dong 8 large d: d=200 n=500000 N=4"} <= names
    tables = ("wine", "airfoil", "adult")
    assert {f"Amin 1: {table} raw, largest norm 1" for table in tables} <= names


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

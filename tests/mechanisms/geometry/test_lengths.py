"""The length of rows: what scaling down is said to take is what it takes, up to the noise."""

from fractions import Fraction
from math import inf, sqrt
from types import SimpleNamespace

import numpy as np
import pytest

from dpcov.data.geometry import Geometry
from dpcov.data.histograms import MISSING
from dpcov.mechanisms.base import Calibration, Problem
from dpcov.mechanisms.blocks.counts import CountNoise
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.geometry.lengths import (
    _STARTS,
    CELLS,
    Stakes,
    _counted,
    _with_clumps,
    entry_std,
    find_lengths,
)
from dpcov.mechanisms.nuclear import Nuclear, noise_law
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, PureDP
from dpcov.published.estimate.scaled_down import USUAL, correlation_error

RNG = np.random.default_rng(7)
N, D = 20_000, 10
NORMAL = RNG.normal(size=(N, D))
# A column in which one row of seventy is as long as all others together.
RARE = np.where(RNG.random(N) < 1 / 70, 5.8, 0.0)
TABLES = {
    "normal rows": (NORMAL**2).mean(axis=1),
    "a rare value": ((NORMAL[:, 1:] ** 2).sum(axis=1) + RARE**2) / D,
    "a long tail": (np.exp(1.2 * NORMAL) / 3).mean(axis=1),
}
COSTS = {"zcdp": ZCDP(rho=Fraction("0.007")), "pure": PureDP(epsilon=Fraction("0.16"))}


def chosen(energies, cost, seed, variance=0.0):
    """What is found of rows of these squared lengths per column."""
    counts = np.zeros(MISSING + 1 + CELLS)
    cells = np.minimum((energies / (1 + energies) * CELLS).astype(int), CELLS - 1)
    np.add.at(counts, MISSING + 1 + cells, 1)
    problem = Problem(n_features=D + 1, neighbors="replace-one", n_rows=N, rows_per_person=1)
    ask = lambda question: SimpleNamespace(counts=[counts.astype(int)])  # noqa: E731
    entropy = SeededEntropy(seed)
    stakes = Stakes(entry_std=1.5, n_values=D, variance=variance)
    return find_lengths(ask, Geometry(columns={}), cost, problem, entropy, stakes)


def test_every_bin_has_the_rows_from_its_first_cell_to_its_last():
    """With noise that is rounded to none."""
    counts, own = np.zeros(MISSING + 1 + CELLS, dtype=int), np.arange(2, len(_STARTS) + 1)
    counts[MISSING + 1 + _STARTS[:-1]] = own
    counts[MISSING + _STARTS[1:]] += 100
    ask = lambda question: SimpleNamespace(counts=[counts])  # noqa: E731
    problem = Problem(n_features=D + 1, neighbors="replace-one", n_rows=N)
    noise = CountNoise(ZCDP(rho=Fraction(10**6)), problem)
    found, _, last = _counted(ask, Geometry(columns={}), noise, SeededEntropy(0))
    assert found.tolist() == (own + 100).tolist()
    assert last == len(own) - 1


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize("budget", [Budget(rho="0.5"), Budget(epsilon=1, delta="1e-6")], ids=str)
def test_what_lengths_are_chosen_for_is_the_noise_that_is_drawn(neighbors, budget, k):
    n_rows = N if neighbors == "replace-one" else None
    problem = Problem(n_features=D + 1, neighbors=neighbors, n_rows=n_rows, rows_per_person=k)
    made = Gaussian().calibrate(problem, budget)
    std = sqrt(made.off_diagonal_variance) / 4**20
    assert entry_std(made, problem) == pytest.approx(std, rel=0.05)
    other = Calibration(promise=made.promise) if budget.delta is None else made
    assert entry_std(other, problem) == pytest.approx(std, rel=0.05)
    pure = Nuclear().calibrate(problem, Budget(epsilon=1))
    law = noise_law("nuclear", pure.scale, D + 1)
    std = sqrt(float(law.off_diagonal_variance)) / 4**20
    assert entry_std(pure, problem) == pytest.approx(std, rel=0.2)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("cost", COSTS)
def test_what_is_lost_is_hardly_ever_stated_far_too_small(table, cost):
    energies = TABLES[table]
    stated, true = [], []
    for seed in range(200):
        found = chosen(energies, COSTS[cost], seed)
        stated.append(found.lost)
        true.append(np.maximum(energies - found.energy, 0).sum() / energies.sum())
    far_too_small = np.array(stated) < 0.5 * np.array(true) - 0.005
    assert far_too_small.mean() <= 0.03
    # Nor does it hide everything behind a large number.
    assert np.median(stated) <= 2 * np.median(true) + 0.06


def test_a_look_that_shows_nothing_promises_nothing():
    """Taken for a small error, it made a release keep a map of which nothing was known."""
    hidden = chosen(TABLES["normal rows"], ZCDP(rho=Fraction(1, 10**9)), 0)
    assert hidden.error == inf
    assert 0 < chosen(TABLES["normal rows"], COSTS["zcdp"], 0).error < 0.01


def test_rows_that_share_a_length_behind_the_others_are_not_taken_for_noise():
    """Without a word of them in what is expected, half of these releases hid them."""
    energies = TABLES["normal rows"].copy()
    # Four and a half deviations of the noise, and a seventh of all squared lengths.
    energies[:55] = 60.0
    lost = [chosen(energies, COSTS["zcdp"], seed) for seed in range(100)]
    true = [np.maximum(energies - each.energy, 0).sum() / energies.sum() for each in lost]
    hidden = [each.lost < 0.5 * taken - 0.005 for each, taken in zip(lost, true, strict=True)]
    # A quarter are, with a deviation of 0.04.
    assert np.mean(hidden) < 0.4


@pytest.mark.parametrize("place", [3, 4, 5])
def test_every_bin_behind_those_that_show_may_hold_a_clump(place):
    """Of as much as all that shows, where the noise is a tenth of it."""
    squares, rows = 2.0 ** np.arange(6), np.array([800.0, 400.0, 1.0, 60.0, 1e-3, 1e-3])
    clumps = rows[:3] @ squares[:3] / squares
    # The last bin that shows is as it was seen.
    counts = np.where(np.isin(np.arange(6), [2, place]), clumps, rows)
    problem = Problem(n_features=D + 1, neighbors="replace-one", n_rows=N)
    noise = CountNoise(ZCDP(rho=Fraction(100 / clumps[place] ** 2)), problem)
    found, variances = _with_clumps(rows, np.ones(6), counts, noise, 2, squares)
    assert found[place] == pytest.approx(clumps[place], rel=0.01)
    # Of the size that it has, which is sure, the count's own noise is left.
    assert variances[place] == pytest.approx((clumps[place] / 10) ** 2, rel=0.05)
    others = np.arange(6) != place
    assert (found[others] == rows[others]).all() and (variances[others] == 1).all()


def test_rounded_noise_is_taken_for_no_row_far_out():
    """Noise of a fifth of a row is rounded to one now and then, far beyond its deviation."""
    cost = ZCDP(rho=Fraction(20))
    lost = [chosen(TABLES["normal rows"], cost, seed).lost for seed in range(100)]
    assert sum(each > 0.01 for each in lost) <= 2


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("share", [0.05, 0.8])
def test_a_column_whose_scale_is_far_too_small_does_not_drown_the_others(cost, share):
    giant = np.where(RNG.random(N) < share, 1e6, 1.0)
    energies = ((NORMAL[:, 1:] ** 2).sum(axis=1) + giant * NORMAL[:, 0] ** 2) / D
    for seed in range(20):
        assert chosen(energies, COSTS[cost], seed).energy <= 3


@pytest.mark.parametrize("cost", COSTS)
def test_columns_keep_their_variances_where_a_map_makes_rows_short(cost):
    """A correlation's noise is that of an entry over two deviations of the columns."""
    short = np.full(N, 0.1)
    for seed in range(5):
        found = chosen(short, COSTS[cost], seed, variance=0.8)
        noise = 1.5 * (found.energy * D + 1) / (0.8 * N)
        taken = correlation_error(found.lost, N, USUAL)
        assert found.lost < 0.01
        assert found.error == pytest.approx(noise**2 + taken**2, rel=0.05)

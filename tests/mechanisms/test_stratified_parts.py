from dataclasses import replace
from fractions import Fraction
from math import ceil

import numpy as np
import pytest

import dpcov
from dpcov.data.moments import Moments, MomentsSpec
from dpcov.data.questions import Ask
from dpcov.errors import BudgetError
from dpcov.mechanisms.stratified import Stratified, StratifiedCalibration, _aligned, _run_sum
from dpcov.mechanisms.stratified_rules import Run
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.lattice import LARGEST_STD
from dpcov.privacy.guarantee import ZCDP
from tests.mechanisms.chosen import choose, problem

BITS, SHELLS = 6, 4
NAME = "dpcov.mechanisms.stratified."
MECHANISM = Stratified(shells=SHELLS, bits=BITS)
ROWS = np.array([[1.0, 0.0], [0.0, 0.75], [0.25, 0.25], [0.0, 0.125], [2.0**-9, 0.0]])
GROUPS = np.array([0, 1, 0, 1, 0])


def grouped(neighbors="replace-one", n_groups=2, k=1):
    return replace(problem(2, neighbors, k, n_rows=5), n_groups=n_groups)


def gathered(rows=ROWS, n_groups=1, mechanism=MECHANISM, d=2):
    moments = Moments(d, mechanism.moments_spec(replace(problem(d), n_groups=n_groups)))
    moments.add(rows, GROUPS if n_groups > 1 else None)
    return moments


def shell_sscps(rows, shells=SHELLS, bits=BITS):
    """Shell by shell in lattice units, from the rows' norms."""
    norms = np.linalg.norm(rows, axis=1)
    number = np.minimum(np.floor(-np.log2(norms) + 1e-12), shells - 1)
    return [4.0 ** (bits + s) * rows[number == s].T @ rows[number == s] for s in range(shells)]


@pytest.mark.parametrize("d", [1, 64, 65])
def test_rows_are_gathered_at_a_second_length_where_that_is_cheap(d):
    spec = Stratified(shells=5, bits=9).moments_spec(replace(problem(d), n_groups=3))
    assert spec == MomentsSpec(shells=5, bits=9, groups=3, normalized=d <= 64)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(
    ("neighbors", "n_groups", "moved", "extra"),
    [
        ("replace-one", 1, 2, 0),
        ("replace-one", 2, 2, Fraction(1, 16)),
        ("add-remove-one", 1, 1, Fraction(1, 16)),
        ("add-remove-one", 2, 1, Fraction(1, 16)),
    ],
)
def test_variances_are_those_of_the_theorems(k, neighbors, n_groups, moved, extra):
    made = MECHANISM.calibrate(grouped(neighbors, n_groups, k), dpcov.Budget(rho="0.3"))
    # Of two columns the trace has weight 1/64; every shell of every group may be rounded in each
    # column.
    unit, rounding = 4**BITS * k, SHELLS * n_groups * 2
    squared = (
        moved * (1 + Fraction(1, 64) + extra) * unit**2 + 4 * rounding * unit + 2 * rounding**2
    )
    variance = 2 * ceil(squared / Fraction("0.6") / 2)
    assert made.promise == ZCDP(rho=Fraction("0.3"))
    assert made.diagonal_variance == variance
    assert made.trace_variance == 64 * variance
    assert made.row_count_variance == (16 * Fraction(variance, 16**BITS) if extra else None)
    assert made.noise_multiplier**2 * squared <= variance
    assert float(made.noise_multiplier**2 * squared) == pytest.approx(variance, rel=1e-12)


def test_the_largest_noise_that_can_be_drawn_is_drawn():
    # Traces of few columns have the largest noise: 64 times the variance.
    public = problem(2)
    squared = MECHANISM._squared_sensitivity(public)
    least = squared * 64 / (2 * Fraction(LARGEST_STD) ** 2)
    assert MECHANISM.calibrate(public, dpcov.Budget(rho=least)).trace_variance == LARGEST_STD**2
    with pytest.raises(BudgetError):
        MECHANISM.calibrate(public, dpcov.Budget(rho=least * (1 - Fraction(1, 10**12))))


def choose_noise(monkeypatch, *lots):
    # Draws of one number or several are these, one lot after another; matrices get 9 * [[3, 1], [1,
    # 2]].
    waiting = list(lots)
    gaussian = choose(
        monkeypatch,
        NAME + "rounded_gaussian",
        lambda variance, size: np.array(waiting.pop(0), dtype=np.int64),
    )
    matrix = choose(monkeypatch, NAME + "symmetric_noise", lambda d, variance: NOISE)
    return gaussian, matrix


NOISE = np.array([[27, 9], [9, 18]])
CALIBRATION = StratifiedCalibration(
    promise=ZCDP(rho=Fraction(1)), diagonal_variance=100, trace_variance=6400
)


def test_traces_first_then_the_joint_trace_and_the_matrices_of_the_runs(monkeypatch):
    gaussian, matrix = choose_noise(monkeypatch, [5, -6, 7, 8], [40, 99])
    rule = choose(monkeypatch, NAME + "choose_runs", lambda *asked: [Run(0, 1, 1), Run(2, 2, 3)])
    moments = gathered()
    made = MECHANISM.draw(Ask.saved(moments), CALIBRATION, problem(2), SeededEntropy(0))
    assert gaussian.asked == [(6400, 4), (100, 1)]
    assert matrix.asked == [(2, 100)] * 2
    shells = shell_sscps(ROWS)
    traces = [int(np.trace(s)) + z for s, z in zip(shells, (5, -6, 7, 8), strict=True)]
    assert rule.asked == [(traces, 100, 6400, 2)]
    shortened = moments.strata[0].normalized.to_float() + shells[1]
    joined = shells[2] + np.floor(shells[3] / 4)
    np.testing.assert_array_equal(made.arrays["sscp"], [shortened + NOISE, joined + NOISE])
    assert made.arrays["trace"].tolist() == traces
    assert made.arrays["joint_trace"].tolist() == [np.trace(shortened) + np.trace(joined) + 40]
    assert made.arrays["outermost_shell"].tolist() == [0, 2]
    assert made.arrays["first_shell"].tolist() == [1, 2]
    assert made.arrays["last_shell"].tolist() == [1, 3]
    shells = {"outermost_shell", "first_shell", "last_shell"}
    assert set(made.arrays) == {"sscp", "trace", "joint_trace", *shells}
    assert (made.layout, made.post) == ("strata", "shrink")
    assert (made.lattice_bits, made.dropped_bits) == (BITS, 0)
    law = made.noise
    assert (law.diagonal_variance, law.off_diagonal_variance) == ("100", "50")
    assert (law.trace_variance, law.row_count_variance) == ("6400", None)


def test_every_group_has_runs_traces_and_counts_of_its_own(monkeypatch):
    gaussian, _ = choose_noise(monkeypatch, range(8), [0, 99], [10, -20])
    rule = choose(
        monkeypatch,
        NAME + "choose_runs",
        lambda traces, *rest: [Run(1, 1, 3)] if 0 in traces else [Run(0, 0, 0), Run(2, 2, 3)],
    )
    calibration = replace(CALIBRATION, row_count_variance=Fraction(7, 2))
    made = MECHANISM.draw(Ask.saved(gathered(n_groups=2)), calibration, grouped(), SeededEntropy(0))
    shells = [shell_sscps(ROWS[group == GROUPS]) for group in (0, 1)]
    traces = [int(np.trace(s)) for each in shells for s in each]
    noisy = [trace + z for z, trace in enumerate(traces)]
    assert gaussian.asked == [(6400, 8), (100, 1), (Fraction(7, 2), 2)]
    assert [asked[0] for asked in rule.asked] == [noisy[:4], noisy[4:]]
    first, second = (
        [Run(1, 1, 3)] if 0 in noisy[part : part + 4] else [Run(0, 0, 0), Run(2, 2, 3)]
        for part in (0, 4)
    )
    runs = [*first, *second]
    for field in Run._fields:
        assert made.arrays[f"{field}_shell"].tolist() == [getattr(run, field) for run in runs]
    assert made.arrays["group"].tolist() == [0] * len(first) + [1] * len(second)
    assert made.arrays["row_count"].tolist() == [13, -18]
    assert made.n_groups == 2
    expected = []
    for run, group in zip(runs, made.arrays["group"], strict=True):
        inside = range(run.first, run.last + 1)
        joined = sum(np.floor(shells[group][s] / 4 ** (s - run.first)) for s in inside)
        expected.append(joined + NOISE)
    np.testing.assert_array_equal(made.arrays["sscp"], expected)
    assert made.noise.row_count_variance == "3.5"


def test_a_private_number_of_rows_has_no_joint_trace_and_may_draw_nothing(monkeypatch):
    choose_noise(monkeypatch, [0] * 4, [1000], [-3])
    choose(monkeypatch, NAME + "choose_runs", lambda *asked: [])
    calibration = replace(CALIBRATION, row_count_variance=Fraction(7))
    made = MECHANISM.draw(
        Ask.saved(gathered()), calibration, problem(2, "add-remove-one"), SeededEntropy(0)
    )
    assert made.arrays["row_count"].tolist() == [2]
    assert made.arrays["sscp"].shape == (0, 2, 2)
    assert "joint_trace" not in made.arrays
    assert "group" not in made.arrays
    assert made.arrays["first_shell"].shape == (0,)


def test_outer_rows_keep_their_length_where_they_were_not_gathered_at_another():
    mechanism = Stratified(shells=3, bits=BITS)
    rows = np.zeros((2, 65))
    rows[0, 0], rows[1, 1] = 0.75, 0.25
    total = _run_sum(gathered(rows, mechanism=mechanism, d=65), Run(0, 2, 2))
    assert total.to_float()[0, 0] == 0.5625 * 4**BITS
    assert total.to_float()[1, 1] == 4**BITS


@pytest.mark.parametrize(
    ("bits", "numbers", "dropped"),
    [
        (0, [[0]], 0),
        (0, [[2**62 - 1, -5]], 0),
        (0, [[5], [-(2**62)]], 1),
        (0, [[2**70]], 9),
        (3, [[2**63]], 3),
        (3, [[2**70]], 9),
    ],
)
def test_low_bits_are_dropped_from_everything_alike(bits, numbers, dropped):
    named = {str(place): several for place, several in enumerate(numbers)}
    arrays, found = _aligned([(np.array([[4096]]), bits), (np.array([[-4096]]), 0)], named, 1)
    assert found == dropped
    assert arrays["sscp"].tolist() == [[[4096 >> (dropped - bits)]], [[-4096 >> dropped]]]
    for name, several in named.items():
        assert arrays[name].tolist() == [number >> dropped for number in several]

import math
from fractions import Fraction

import numpy as np
import pytest

import dpcov
from dpcov.data.moments import gather
from dpcov.data.questions import Ask
from dpcov.errors import BudgetError
from dpcov.mechanisms import stratified_nuclear as module
from dpcov.mechanisms.stratified_nuclear import (
    Look,
    StratifiedNuclear,
    StratifiedNuclearCalibration,
)
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.lattice import LARGEST_STD
from dpcov.privacy.guarantee import PureDP
from dpcov.published.estimate import nuclear_law as ullman
from tests.mechanisms.chosen import choose, problem

UNIT = 4**20
NAME = "dpcov.mechanisms.stratified_nuclear."
ENTROPY = SeededEntropy(0)
ROWS = np.array([[1.0, 0.0], [0.0, 0.75], [0.25, 0.25], [0.0, 0.125], [2.0**-9, 0.0]])
"""Norms in shells 0, 0, 1, 3 and, of four shells, the last; exact on the lattice."""


def gathered(rows=ROWS, shells=4):
    d = rows.shape[1]
    return gather([rows], d, StratifiedNuclear(shells=shells).moments_spec(problem(d)))


def shell_sscps(rows, shells):
    """Shell by shell in lattice units, from the rows' norms."""
    norms = np.linalg.norm(rows, axis=1)
    number = np.minimum(np.floor(-np.log2(norms) + 1e-12), shells - 1)
    return [UNIT * 4.0**s * rows[number == s].T @ rows[number == s] for s in range(shells)]


@pytest.mark.parametrize("k", [1, 3])
def test_scales_under_add_remove_one(k):
    made = StratifiedNuclear().calibrate(
        problem(10, "add-remove-one", k), dpcov.Budget(epsilon="0.7")
    )
    scale = k * (1 + Fraction(1, 7) + Fraction(1, 16)) / Fraction("0.7")
    assert made == StratifiedNuclearCalibration(
        promise=PureDP(epsilon=Fraction("0.7")),
        matrix_scale=UNIT * scale,
        trace_scale=UNIT * scale * 7,
        row_count_scale=scale * 16,
        look=None,
        folded_scale=None,
    )


@pytest.mark.parametrize(
    ("k", "n_rows", "share"),
    [
        (1, 10, 0),
        (1, 320, Fraction(1, 16)),
        (1, 319, 0),
        (1, 420, Fraction(14 * 10, 420 * 7)),
        (3, 1260, Fraction(14 * 10, 420 * 7)),
        (1, 10**6, Fraction(1, 200)),
        (1, None, 0),
    ],
)
def test_scales_under_replace_one(k, n_rows, share):
    made = StratifiedNuclear().calibrate(
        problem(10, k=k, n_rows=n_rows), dpcov.Budget(epsilon="0.7")
    )
    epsilon = Fraction("0.7") * (1 - share)
    scale, one = 2 * k * Fraction(8, 7) / epsilon, 2 * k * UNIT + 1
    look = (
        Look(scale=UNIT * k / (share * Fraction("0.7")), whole_scale=one / epsilon)
        if share
        else None
    )
    assert made == StratifiedNuclearCalibration(
        promise=PureDP(epsilon=Fraction("0.7")),
        matrix_scale=UNIT * scale,
        trace_scale=UNIT * scale * 7,
        row_count_scale=None,
        look=look,
        folded_scale=one * Fraction(8, 7) / epsilon,
    )


def test_the_largest_noise_that_can_be_drawn_is_drawn():
    # Traces have the largest noise, UNIT 2 (1 + w) / (w epsilon) with w = 1/5.
    least = Fraction(UNIT * 12, LARGEST_STD)
    StratifiedNuclear().calibrate(problem(1), dpcov.Budget(epsilon=least))
    with pytest.raises(BudgetError):
        StratifiedNuclear().calibrate(
            problem(1), dpcov.Budget(epsilon=least * (1 - Fraction(1, 10**12)))
        )


@pytest.mark.parametrize(("noise", "long"), [(0, False), (1, True)])
def test_most_rows_are_long_when_a_third_of_the_largest_trace_is_in_the_outermost_shell(
    monkeypatch, noise, long
):
    laplace = choose(
        monkeypatch, NAME + "discrete_laplace", lambda scale, size: np.array([noise, 10**9])
    )
    moments = gathered(np.array([[1.0], [0.5], [0.5]]))
    found = module._most_rows_are_long(moments, Fraction(5), problem(1, n_rows=3), ENTROPY)
    assert found is long
    assert laplace.asked == [(Fraction(5), 1)]


def choose_noise(monkeypatch, *traces):
    """Traces get these draws in turn; matrix noise is 1000 everywhere and 500 more at (0, 0)."""
    waiting = list(traces)
    laplace = choose(
        monkeypatch,
        NAME + "discrete_laplace",
        lambda scale, size: np.array([waiting.pop(0) for _ in range(size)]),
    )
    matrix = choose(
        monkeypatch,
        NAME + "symmetric_nuclear_noise",
        lambda d, scale: np.full((d, d), 1000.0) + 500 * np.outer(np.eye(d)[0], np.eye(d)[0]),
    )
    return laplace, matrix


NOISE = np.array([[1500.0, 1000.0], [1000.0, 1000.0]])


def calibration(**others):
    scales = {"matrix_scale": Fraction(7), "trace_scale": Fraction(35)}
    return StratifiedNuclearCalibration(promise=PureDP(epsilon=Fraction(1)), **{**scales, **others})


def law_of(scale, trace, row_count, law, d=2):
    # What a release must say: total square and the part off the diagonal as the noise is simulated.
    off, whole = ullman.off_diagonal_variance(d) * scale**2, ullman.mean_square(d) * scale**2
    assert float(law.off_diagonal_variance) == pytest.approx(off, abs=0.5)
    assert d * float(law.diagonal_variance) + d * (d - 1) * off == pytest.approx(whole, abs=d)
    assert float(law.trace_variance) == 2 * trace**2
    assert float(law.scale) == math.nextafter(scale, math.inf)
    return law.row_count_variance == (None if row_count is None else str(2.0 * row_count**2))


def test_a_look_that_is_enough_ends_in_one_matrix(monkeypatch):
    laplace, matrix = choose_noise(monkeypatch, 1, 77)
    look = Look(scale=Fraction(3), whole_scale=Fraction(1001))
    made = StratifiedNuclear(shells=4).draw(
        Ask.saved(gathered()),
        calibration(look=look, folded_scale=Fraction(9)),
        problem(2, n_rows=4),
        ENTROPY,
    )
    assert laplace.asked == [(Fraction(3), 1), (Fraction(1001), 1)]
    assert matrix.asked == [(2, math.nextafter(1001.0, math.inf))]
    np.testing.assert_array_equal(made.arrays["sscp"], [UNIT * ROWS.T @ ROWS + NOISE])
    assert made.arrays["trace"].tolist() == [math.floor(UNIT * np.sum(ROWS**2)) + 77]
    assert [made.arrays[f"{end}_shell"].tolist() for end in ("first", "last")] == [[0], [0]]
    assert made.radius == 1.0
    assert made.notes == (module.AS_ONE,)
    assert law_of(1001.0, 1001, None, made.noise)


@pytest.mark.parametrize("fold", [None, 0, 1, 3])
def test_after_the_traces_one_matrix_or_one_for_every_run(monkeypatch, fold):
    laplace, matrix = choose_noise(monkeypatch, 5, -6, 7, 8, 40)
    fold_rule = choose(monkeypatch, NAME + "choose_fold", lambda traces, scale, d, shorten: fold)
    run_rule = choose(
        monkeypatch, NAME + "choose_runs", lambda traces, scale, d: [range(0, 1), range(1, 4)]
    )
    made = StratifiedNuclear(shells=4, shorten=True).draw(
        Ask.saved(gathered()), calibration(folded_scale=Fraction(9)), problem(2), ENTROPY
    )
    shells = shell_sscps(ROWS, 4)
    traces = [int(np.trace(s)) + z for s, z in zip(shells, (5, -6, 7, 8), strict=True)]
    scale = math.nextafter(7.0, math.inf)
    assert laplace.asked[0] == (Fraction(35), 4)
    assert fold_rule.asked == [(traces, scale, 2, True)]
    if fold is None:
        assert run_rule.asked == [(traces, scale, 2)]
        assert matrix.asked == [(2, scale)] * 2
        joined = sum(shells[s] / 4.0 ** (s - 1) for s in (1, 2, 3))
        np.testing.assert_array_equal(made.arrays["sscp"], [shells[0] + NOISE, joined + NOISE])
        assert made.arrays["trace"].tolist() == traces
        assert made.arrays["first_shell"].tolist() == [0, 1]
        assert made.arrays["last_shell"].tolist() == [0, 3]
        assert (made.notes, made.radius) == ((), 1.0)
        assert law_of(7.0, 35, None, made.noise)
        return
    assert laplace.asked[1:] == [(Fraction(9), 1)]
    folded = sum(shell / 4.0 ** max(s - fold, 0) for s, shell in enumerate(shells))
    np.testing.assert_array_equal(made.arrays["sscp"], [folded + NOISE])
    assert made.arrays["trace"].tolist() == [math.floor(np.trace(folded)) + 40]
    assert made.radius == 0.5**fold
    assert made.notes[0].startswith(module.NONE_STANDS_OUT)
    assert made.notes[0].endswith(f"2^-{fold} of the norm bound shortened to that") == (fold > 0)
    assert law_of(9.0, 9, None, made.noise)


def test_a_private_number_of_rows_gets_noise_and_is_released(monkeypatch):
    laplace, _ = choose_noise(monkeypatch, 0, 0, 0, 0, -2)
    made = StratifiedNuclear(shells=4).draw(
        Ask.saved(gathered()),
        calibration(row_count_scale=Fraction(3)),
        problem(2, "add-remove-one"),
        ENTROPY,
    )
    assert laplace.asked == [(Fraction(35), 4), (Fraction(3), 1)]
    assert made.arrays["row_count"].tolist() == [3]
    assert made.arrays["row_count"].dtype == np.int64
    assert law_of(7.0, 35, 3, made.noise)
    assert (made.layout, made.post) == ("strata", "shrink")
    assert (made.lattice_bits, made.dropped_bits) == (20, 0)


@pytest.mark.parametrize("d", [1, 2, 9])
def test_the_law_states_the_size_of_the_noise(d):
    assert law_of(3e6, 10**7, None, module._law(Fraction(3 * 10**6), Fraction(10**7), None, d), d)


@pytest.mark.parametrize(
    ("traces", "dropped"),
    [
        ([0], 0),
        ([2**62 - 1, 5], 0),
        ([2**62, 5], 1),
        ([8, 1 - 2**62], 0),
        ([8, -(2**62)], 1),
        ([2**70, 3], 9),
    ],
)
def test_low_bits_are_dropped_as_the_longest_trace_needs(traces, dropped):
    law = module._law(Fraction(7), Fraction(35), None, 1)
    made = module._statistics([np.array([[2.0**20]])], [range(2, 5)], traces, law, n_features=1)
    assert made.dropped_bits == dropped
    assert made.arrays["sscp"].tolist() == [[[2.0 ** (20 - dropped)]]]
    assert made.arrays["trace"].tolist() == [trace >> dropped for trace in traces]
    assert (made.arrays["first_shell"].tolist(), made.arrays["last_shell"].tolist()) == ([2], [4])
    assert (made.radius, made.notes, "row_count" in made.arrays) == (1.0, (), False)

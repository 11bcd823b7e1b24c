import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize

from dpcov.data.exact.moments import MomentsSpec
from dpcov.mechanisms.blocks import clip_search
from dpcov.mechanisms.blocks.clip_search import (
    Candidates,
    choose_clip,
    clipped_sscp,
    clipped_trace,
    clipping_bias,
    outlier_counts,
    private_radius,
    shell_counts,
    sparse_vector,
)
from dpcov.mechanisms.separate import mend_spectrum
from dpcov.noise.entropy import SeededEntropy
from tests.data.reading import gather
from tests.mechanisms.chosen import choose

ENTROPY = SeededEntropy(0)
COUNTS = np.array([3, 5, 0, 7, 11])


def choose_draws(monkeypatch, *draws):
    """Laplace numbers of scale 1, one after another: the threshold's, then one for every query."""
    waiting = list(draws)
    return choose(
        monkeypatch,
        "dpcov.mechanisms.blocks.clip_search.laplaces",
        lambda size: np.array([*(waiting.pop(0) for _ in range(size)), 1e9]),
    )


@pytest.mark.parametrize("sensitivity", [1.0, 3.0])
def test_noise_on_threshold_and_queries(monkeypatch, sensitivity):
    """Scale 2 s / epsilon on the threshold and on queries; equality ends it."""
    scale = 2 * sensitivity / 0.5
    level = 10.0 + scale * 0.25
    for short, expected in ((0.0, 1), (2.0**-20, 2)):
        drawn = choose_draws(monkeypatch, 0.25, -0.5, 1.5, -0.25)
        queries = [level + scale * 0.5 - 0.5, level - scale * 1.5 - short, level + scale * 0.25]
        found = sparse_vector(
            queries,
            threshold=10.0,
            epsilon=Fraction(1, 2),
            sensitivity=sensitivity,
            entropy=ENTROPY,
        )
        assert found == expected
        assert drawn.asked == [(1,)] * (expected + 2)
    choose_draws(monkeypatch, 0.0, 0.0)
    assert sparse_vector([9.0], threshold=10.0, epsilon=1, entropy=ENTROPY) is None


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("beta", [0.05, 0.5])
def test_a_radius_is_found_where_outliers_are_few_enough(monkeypatch, k, beta):
    patience = 4 * k / 0.5 * math.log(2 / beta)
    least, most = math.floor(patience), math.ceil(patience)
    for outliers, expected in (
        ([most, least, 0], 1),
        ([most, most, 0], 2),
        ([least, most, 0], 0),
        ([10**9] * 3, 2),
        ([10**9], 0),
    ):
        choose_draws(monkeypatch, *[0.0] * 4)
        found = private_radius(outliers, epsilon=0.5, beta=beta, rows_per_person=k, entropy=ENTROPY)
        assert found == expected


def test_a_radius_is_searched_with_the_noise_of_monotone_counts(monkeypatch):
    search = choose(
        monkeypatch,
        "dpcov.mechanisms.blocks.clip_search.sparse_vector",
        lambda queries, **options: (list(queries), options)[0].index(-4.0),
    )
    assert private_radius([9, 4, 1], epsilon=0.5, beta=0.1, rows_per_person=3, entropy=ENTROPY) == 1
    assert search.asked[0][1:] == (pytest.approx(-24 * math.log(20)), 0.5, 3)


def test_the_bias_of_clipping_counts_rows_by_the_radius_of_their_shell():
    for first in range(4):
        for shell in range(first, 5):
            expected = sum(
                COUNTS[s] * (Fraction(1, 4 ** max(s, first)) - Fraction(1, 4**shell))
                for s in range(shell)
            )
            assert clipping_bias(COUNTS, first, shell) == float(expected)


OFFERED = Candidates(
    shells=range(1, 5),
    together=np.array([8.0, 5.0, 1.0, 0.5]),
    separately=np.array([9.0, 4.0, 2.0, 0.5]),
)


def test_queries_of_a_balance_are_bias_less_noise_in_units_of_the_first_radius():
    found = list(clip_search._balance_queries(COUNTS, OFFERED))
    expected = [4 * (clipping_bias(COUNTS, 1, t) - OFFERED.noise[t - 1]) for t in range(1, 5)]
    assert found == pytest.approx(expected, rel=1e-14)
    later = Candidates(
        shells=range(3, 5), together=np.array([3.0, 2.0]), separately=np.array([4.0, 1.0])
    )
    found = list(clip_search._balance_queries(COUNTS, later))
    assert found == pytest.approx([-64 * 3.0, 64 * (clipping_bias(COUNTS, 3, 4) - 1.0)], rel=1e-14)


def test_queries_of_margins_are_rows_that_are_clipped_further_less_what_they_would_cost():
    found = list(clip_search._marginal_queries(COUNTS, OFFERED))
    rows = {2: 8, 3: 8, 4: 15}
    saved = {2: 4.0, 3: 3.0, 4: 0.5}
    expected = [rows[t] - saved[t] / (0.55 * 3 / 4**t) for t in (2, 3, 4)]
    assert found[0] == -math.inf
    assert found[1:] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("found", "choice"),
    [(None, (4, False)), (0, (1, False)), (1, (1, False)), (2, (2, True)), (3, (3, False))],
)
@pytest.mark.parametrize("search", ["balance", "marginal"])
def test_the_candidate_before_the_query_found_is_taken(monkeypatch, found, choice, search):
    asked = choose(
        monkeypatch,
        "dpcov.mechanisms.blocks.clip_search.sparse_vector",
        lambda queries, **options: found,
    )
    made = choose_clip(
        COUNTS, OFFERED, search=search, epsilon=0.5, rows_per_person=3, entropy=ENTROPY
    )
    assert (made.shell, made.separately) == choice
    assert (next(asked.asked[0][0]) == -math.inf) == (search == "marginal")
    assert asked.asked[0][1:] == (0.0, 0.5, 3)


EPSILON = 1.0
_GRID = np.linspace(-120.0, 120.0, 8_001)


def result_probabilities(answers, *, epsilon, threshold=0.0):
    """P(result = i), and P(none) last, by integrating over the threshold's noise; sensitivity 1."""
    scale = 2.0 / epsilon
    noise = stats.laplace(scale=scale)
    weights = noise.pdf(_GRID)
    below = np.array([noise.cdf(threshold + _GRID - answer) for answer in answers])
    before = np.vstack([np.ones_like(_GRID), np.cumprod(below, axis=0)])
    above = np.vstack([1.0 - below, np.ones_like(_GRID)])
    return np.trapezoid(weights * before * above, _GRID, axis=1)


def largest_loss(answers, changes, **options):
    p = result_probabilities(answers, **options)
    q = result_probabilities(np.add(answers, changes), **options)
    return float(np.max(np.abs(np.log(p / q))))


def test_results_have_the_law_of_the_algorithm():
    answers, entropy, draws = [-2.0, 0.0, 1.0], SeededEntropy(4), 4_000
    expected = result_probabilities(answers, epsilon=EPSILON)
    counts = np.zeros(4)
    for _ in range(draws):
        found = sparse_vector(answers, threshold=0.0, epsilon=EPSILON, entropy=entropy)
        counts[3 if found is None else found] += 1
    assert expected.sum() == pytest.approx(1.0, abs=1e-4)
    statistic = np.sum((counts - draws * expected) ** 2 / (draws * expected))
    assert stats.chi2.sf(statistic, 3) > 1e-9
    wrong = result_probabilities(answers, epsilon=1.5 * EPSILON)
    assert stats.chi2.sf(np.sum((counts - draws * wrong) ** 2 / (draws * wrong)), 3) < 1e-9


@settings(max_examples=30, deadline=None)
@given(answers=st.lists(st.floats(-8, 8), min_size=1, max_size=6), data=st.data())
@example(answers=[0.0], data=None)
def test_privacy_of_monotone_queries(answers, data):
    changes = (
        [1.0]
        if data is None
        else data.draw(st.lists(st.floats(0, 1), min_size=len(answers), max_size=len(answers)))
    )
    for sign in (-1.0, 1.0):
        moved = sign * np.array(changes)
        assert largest_loss(answers, moved, epsilon=EPSILON) <= EPSILON + 1e-6


def test_the_privacy_loss_is_nearly_attained_so_half_the_noise_is_caught():
    # Many answers before the threshold go up by one and the next one goes down by one.
    answers, changes = [0.0] * 100 + [-3.0], [1.0] * 100 + [-1.0]
    assert largest_loss(answers, changes, epsilon=EPSILON) > EPSILON
    changes[-1] = 0.0
    assert 0.7 < largest_loss(answers, changes, epsilon=EPSILON) <= EPSILON
    assert largest_loss(answers, changes, epsilon=2 * EPSILON) > EPSILON


def test_the_radius_is_rarely_too_large_and_leaves_few_rows_outside():
    beta, epsilon, draws, entropy = 0.1, 0.5, 400, SeededEntropy(3)
    outliers = [5000, 4000, 900, 300, 60, 5, 0, 0, 0]
    found = np.array(
        [
            private_radius(outliers, epsilon=epsilon, beta=beta, rows_per_person=1, entropy=entropy)
            for _ in range(draws)
        ]
    )
    assert np.sum(found > 6) <= stats.binom.isf(1e-9, draws, beta / 2)
    # blocks.md, Theorem 4: patience, and the noise of seven comparisons.
    allowed = (6 * math.log(2 / beta) + 2 * math.log(14 / beta)) / epsilon
    assert np.sum(np.take(outliers, found) > allowed) <= stats.binom.isf(1e-9, draws, beta)
    assert allowed < 100


SHELLS = 6


def table(seed, n_rows=200, d=3):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, d))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    rows *= 2.0 ** -rng.uniform(0, SHELLS + 2, size=(n_rows, 1))
    rows[0] = 0.0
    return rows


def moments_of(rows):
    return gather([rows], rows.shape[1], MomentsSpec(shells=SHELLS, normalized=True))


def clipped(rows, norm):
    lengths = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
    return rows * np.minimum(1.0, norm / lengths)[:, None]


@pytest.mark.parametrize("shell", range(SHELLS))
def test_clipping_read_off_the_shells_is_clipping_the_rows(shell):
    rows = table(1)
    moments, expected = moments_of(rows), clipped(rows, 2.0**-shell)
    sscp = expected.T @ expected
    np.testing.assert_allclose(
        clipped_sscp(moments, shell) * 4.0**-shell, sscp, atol=1e-5 * np.trace(sscp)
    )
    assert clipped_trace(moments, shell) == pytest.approx(np.trace(sscp), rel=1e-5)


def test_counts_of_rows_in_and_beyond_shells():
    rows = table(2)
    lengths, moments = np.linalg.norm(rows, axis=1), moments_of(rows)
    counts = shell_counts(moments)
    assert counts.sum() == len(rows)
    np.testing.assert_array_equal(
        outlier_counts(counts), [np.sum(lengths > 2.0**-shell) for shell in range(SHELLS)]
    )


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), first=st.integers(0, SHELLS - 1))
def test_the_bias_bound_holds_and_one_row_moves_it_in_one_direction_by_at_most_one(seed, first):
    rows = table(seed, n_rows=12)
    other = rows.copy()
    other[3] = table(seed + 1, n_rows=12)[5]
    both = [moments_of(each) for each in (rows, other)]
    moves = []
    for shell in range(first, SHELLS):
        biases = [clipping_bias(shell_counts(each), first, shell) for each in both]
        moves.append((biases[1] - biases[0]) * 4.0**first)
        lost = (
            clipped_sscp(both[0], first) * 4.0**-first - clipped_sscp(both[0], shell) * 4.0**-shell
        )
        assert np.linalg.norm(lost) <= biases[0] + 1e-4
    assert np.all(np.abs(moves) <= 1)
    assert np.all(np.array(moves) >= 0) or np.all(np.array(moves) <= 0)


def test_monotone_spectra_are_the_nearest_possible_ones():
    rng = np.random.default_rng(3)
    for _ in range(10):
        noisy = rng.normal(size=5) + np.arange(5) / 2
        mended = mend_spectrum(noisy, 3.0, "monotone")
        assert np.all(np.diff(mended) >= -1e-12)
        assert mended.min() >= 0
        assert mended.sum() <= 3.0 + 1e-9
        constraints = [
            {"type": "ineq", "fun": lambda x: np.diff(x, prepend=0.0)},
            {"type": "ineq", "fun": lambda x: 3.0 - x.sum()},
        ]
        best = minimize(
            lambda x, y=noisy: np.sum((x - y) ** 2), np.full(5, 0.5), constraints=constraints
        )
        np.testing.assert_allclose(mended, best.x, atol=1e-4)
    noisy = np.array([-1.0, 5.0, 2.0])
    np.testing.assert_array_equal(mend_spectrum(noisy, 3.0, "clip"), [0.0, 3.0, 2.0])
    np.testing.assert_array_equal(mend_spectrum(noisy, 3.0, "raw"), noisy)

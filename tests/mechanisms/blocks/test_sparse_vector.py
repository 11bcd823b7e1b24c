import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcov.mechanisms.blocks.sparse_vector import private_radius, sparse_vector
from dpcov.noise.entropy import SeededEntropy

EPSILON = 1.0
_GRID = np.linspace(-120.0, 120.0, 8_001)


def result_probabilities(answers, *, epsilon, monotone, threshold=0.0):
    """P(result = i), and P(none) last, by integrating over the threshold's noise; sensitivity 1."""
    scale = 2.0 / epsilon
    query = stats.laplace(scale=scale if monotone else 2.0 * scale)
    weights = stats.laplace(scale=scale).pdf(_GRID)
    below = np.array([query.cdf(threshold + _GRID - answer) for answer in answers])
    before = np.vstack([np.ones_like(_GRID), np.cumprod(below, axis=0)])
    above = np.vstack([1.0 - below, np.ones_like(_GRID)])
    return np.trapezoid(weights * before * above, _GRID, axis=1)


def largest_loss(answers, changes, **options):
    p = result_probabilities(answers, **options)
    q = result_probabilities(np.add(answers, changes), **options)
    return float(np.max(np.abs(np.log(p / q))))


@pytest.mark.parametrize("monotone", [False, True])
def test_results_have_the_law_of_the_algorithm(monotone):
    answers, entropy, draws = [-2.0, 0.0, 1.0], SeededEntropy(4), 4_000
    expected = result_probabilities(answers, epsilon=EPSILON, monotone=monotone)
    counts = np.zeros(4)
    for _ in range(draws):
        found = sparse_vector(
            answers, threshold=0.0, epsilon=EPSILON, monotone=monotone, entropy=entropy
        )
        counts[3 if found is None else found] += 1
    assert expected.sum() == pytest.approx(1.0, abs=1e-4)
    statistic = np.sum((counts - draws * expected) ** 2 / (draws * expected))
    assert stats.chi2.sf(statistic, 3) > 1e-9
    wrong = result_probabilities(answers, epsilon=1.5 * EPSILON, monotone=monotone)
    assert stats.chi2.sf(np.sum((counts - draws * wrong) ** 2 / (draws * wrong)), 3) < 1e-9


@settings(max_examples=30, deadline=None)
@given(answers=st.lists(st.floats(-8, 8), min_size=1, max_size=6), data=st.data())
def test_privacy_of_general_queries(answers, data):
    changes = data.draw(st.lists(st.floats(-1, 1), min_size=len(answers), max_size=len(answers)))
    assert largest_loss(answers, changes, epsilon=EPSILON, monotone=False) <= EPSILON + 1e-6


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
        assert largest_loss(answers, moved, epsilon=EPSILON, monotone=True) <= EPSILON + 1e-6


def test_the_privacy_loss_is_nearly_attained_so_half_the_noise_is_caught():
    # Many answers before the threshold go up by one and the next one goes down by one.
    answers, changes = [0.0] * 100 + [-3.0], [1.0] * 100 + [-1.0]
    assert 0.7 < largest_loss(answers, changes, epsilon=EPSILON, monotone=False) <= EPSILON
    assert largest_loss(answers, changes, epsilon=2 * EPSILON, monotone=False) > EPSILON
    assert largest_loss(answers, changes, epsilon=EPSILON, monotone=True) > EPSILON
    changes[-1] = 0.0
    assert 0.7 < largest_loss(answers, changes, epsilon=EPSILON, monotone=True) <= EPSILON
    assert largest_loss(answers, changes, epsilon=2 * EPSILON, monotone=True) > EPSILON


@pytest.mark.parametrize("monotone", [False, True])
def test_accuracy_at_the_stated_probability(monotone):
    beta, entropy, draws, failures = 0.1, SeededEntropy(2), 500, 0
    answers = np.linspace(-30.0, 30.0, 12)
    # blocks.md, Theorem 3: all comparisons are right up to this.
    error = (4 if monotone else 6) * 3.0 / 2.0 * math.log(2 * 12 / beta)
    for _ in range(draws):
        found = sparse_vector(
            answers, threshold=5.0, epsilon=2.0, sensitivity=3.0, monotone=monotone, entropy=entropy
        )
        passed = answers if found is None else answers[:found]
        failures += bool(np.any(passed > 5.0 + error)) or (
            found is not None and answers[found] < 5.0 - error
        )
    assert failures <= stats.binom.isf(1e-9, draws, beta)


def test_endless_queries_are_read_only_up_to_the_result():
    found = sparse_vector(
        itertools.count(-50), threshold=0.0, epsilon=1.0, entropy=SeededEntropy(1)
    )
    assert 0 <= found < 200


def test_the_radius_is_rarely_too_large_and_leaves_few_rows_outside():
    beta, epsilon, draws, entropy = 0.1, 0.5, 400, SeededEntropy(3)
    outliers = [5000, 4000, 900, 300, 60, 5, 0, 0, 0]
    found = np.array(
        [
            private_radius(outliers, epsilon=epsilon, beta=beta, entropy=entropy)
            for _ in range(draws)
        ]
    )
    assert np.sum(found > 6) <= stats.binom.isf(1e-9, draws, beta / 2)
    # blocks.md, Theorem 4: patience, and the noise of seven comparisons.
    allowed = (6 * math.log(2 / beta) + 2 * math.log(14 / beta)) / epsilon
    assert np.sum(np.take(outliers, found) > allowed) <= stats.binom.isf(1e-9, draws, beta)
    assert allowed < 100


def test_a_radius_that_holds_nobody_is_passed_over_and_the_last_one_is_always_allowed():
    entropy = SeededEntropy(1)
    assert private_radius([10**6] * 5 + [0], epsilon=1.0, beta=0.1, entropy=entropy) == 5
    assert private_radius([0], epsilon=1.0, beta=0.1, entropy=entropy) == 0

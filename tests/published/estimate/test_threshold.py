import numpy as np
import pytest

from dpcov.published.estimate.threshold import (
    RULES,
    choose_threshold,
    estimated_risks,
    threshold_matrix,
    universal_threshold,
)
from tests.published.estimate.noises import noise


def sparse_matrix(d, share, random):
    signal = np.triu(random.normal(size=(d, d)) * (random.random((d, d)) < share), 1)
    return signal + signal.T + np.diag(1 + random.random(d))


def test_hard_and_soft_by_hand():
    matrix = np.array([[0.1, 0.5, -0.2], [0.5, 3.0, -0.7], [-0.2, -0.7, 0.0]])
    hard = threshold_matrix(matrix, 0.3, "hard")
    soft = threshold_matrix(matrix, 0.3, "soft")
    np.testing.assert_allclose(hard, [[0.1, 0.5, 0], [0.5, 3.0, -0.7], [0, -0.7, 0]])
    np.testing.assert_allclose(soft, [[0.1, 0.2, 0], [0.2, 3.0, -0.4], [0, -0.4, 0]])
    for result in (hard, soft):
        assert (result == result.T).all()
    np.testing.assert_array_equal(threshold_matrix(matrix, 0.0, "soft"), matrix)


@pytest.mark.parametrize(("rule", "slack"), [("soft", 0.0), ("hard", 0.05)])
def test_the_risk_estimate_is_unbiased(rule, slack):
    """Mean of estimated less true error, in standard errors; hard ones have a small bias."""
    random, v, d = np.random.default_rng(0), 0.04, 40
    truth, upper = sparse_matrix(d, 0.2, random), np.triu_indices(d, 1)
    thresholds = np.array([0.05, 0.2, 0.4, 0.6])
    gaps = []
    for _ in range(300):
        noisy = truth + noise(d, v, random)
        estimated = estimated_risks(rule, np.sort(np.abs(noisy[upper])), thresholds, v)
        found = [threshold_matrix(noisy, t, rule) for t in thresholds]
        gaps.append(estimated - [np.sum((each - truth)[upper] ** 2) for each in found])
    error = np.std(gaps, axis=0) / np.sqrt(len(gaps))
    allowed = 6 * error + slack * v * len(upper[0])
    assert (np.abs(np.mean(gaps, axis=0)) < allowed).all()


@pytest.mark.parametrize("share", [0.0, 0.02, 0.2, 1.0])
def test_the_choice_is_close_to_the_best_threshold(share):
    random, v, d = np.random.default_rng(1), 0.04, 100
    truth = sparse_matrix(d, share, random)
    noisy = truth + noise(d, v, random)
    upper = np.triu_indices(d, 1)

    def error(matrix):
        return np.linalg.norm((matrix - truth)[upper])

    grid = np.linspace(0, universal_threshold(len(upper[0]), v), 50)
    best = min(error(threshold_matrix(noisy, t, rule)) for t in grid for rule in ("hard", "soft"))
    result = choose_threshold(noisy, off_diagonal_variance=v)
    assert error(result.matrix) <= 1.15 * best + 0.04 * error(noisy)
    np.testing.assert_allclose(np.diagonal(result.matrix), np.diagonal(noisy))


def test_each_rule_alone_is_obeyed():
    random = np.random.default_rng(2)
    noisy = noise(30, 1.0, random) + 9 * sparse_matrix(30, 0.2, random)
    alone = [choose_threshold(noisy, off_diagonal_variance=1.0, rules=(rule,)) for rule in RULES]
    best = choose_threshold(noisy, off_diagonal_variance=1.0)
    assert best.risk == min(each.risk for each in alone) < max(each.risk for each in alone)
    hard, soft = (each.matrix for each in alone)
    assert set(hard[hard != 0]) <= set(noisy.flat)
    moved = np.abs(noisy - soft)[np.triu(soft != 0, 1)]
    np.testing.assert_allclose(moved, moved[0])

import math

import numpy as np
import pytest

from dpcov.audit import attaining, half_noise
from dpcov.mechanisms.nuclear import Nuclear
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.nuclear import nuclear_singular_values
from dpcov.privacy.budget import Budget
from dpcov.published.estimate.unit import unit_estimate
from tests.audit.bounds import lower_bound_of_event
from tests.mechanisms.chosen import audited_sscps, drawn, nuclear_scores, sscps
from tests.statistical.goodness import GoodnessError, assert_same_law

ROWS = np.repeat(np.array([[1.0, 0.0], [0.6, 0.6]]), [4, 3], axis=0)


def sscp_noise(mechanism, rows, epsilon, size, neighbors="replace-one"):
    made = sscps(mechanism, rows, Budget(epsilon=epsilon), size, neighbors=neighbors)
    return made - rows.T @ rows


def naive_square(scale, size, generator):
    # Hardt and Talwar's recipe for any norm: Gamma(D + 1) times a uniform point of the unit ball.
    drawn = []
    while len(drawn) < size:
        point = generator.uniform(-1, 1, size=(2, 2))
        if np.linalg.svd(point, compute_uv=False).sum() <= 1:
            drawn.append(generator.gamma(5, scale) * point)
    drawn = np.array(drawn)
    return (drawn + drawn.transpose(0, 2, 1)) / 2


def assert_same_matrices(first, second):
    for i, j in ((0, 0), (1, 1), (0, 1)):
        assert_same_law(first[:, i, j], second[:, i, j])
    assert_same_law(np.linalg.det(first), np.linalg.det(second))


@pytest.mark.parametrize(
    ("relation", "scale"), [("replace-one", 2 / 1.5), ("add-remove-one", 1 / (1.5 * 0.95))]
)
def test_law_against_naive_transcription(relation, scale):
    slow = naive_square(scale, 1_000, np.random.default_rng(0))
    assert_same_matrices(sscp_noise(Nuclear(), ROWS, "1.5", 1_000, relation), slow)


def test_law_is_tested_with_power():
    slow = naive_square(1.5 * 2 / 1.5, 1_000, np.random.default_rng(0))
    with pytest.raises(GoodnessError):
        assert_same_matrices(sscp_noise(Nuclear(), ROWS, "1.5", 1_000), slow)


def schatten(matrix, p):
    return np.linalg.norm(np.linalg.eigvalsh(matrix), p)


@pytest.mark.parametrize("shape", ["square", "nuclear", "wishart"])
def test_theorem_bounds_the_error(shape):
    # Theorem 1 of the paper at d = 30; with its constant where that is right (p <= 2), else 2 pi.
    rows, epsilon, d = np.eye(30), 1.0, 30
    for noise in sscp_noise(Nuclear(noise=shape), rows, 1, 8):
        for p, constant in ((1, 3), (2, 3), (np.inf, 2 * math.pi)):
            assert schatten(noise, p) <= constant * d ** (1 + 1 / p) / epsilon
    twice = sscp_noise(Nuclear(noise=shape), rows, "0.4", 8)
    assert all(schatten(noise, 2) > 3 * d**1.5 / epsilon for noise in twice)


def test_the_papers_spectral_constant_is_too_small():
    # Claimed: at most 3 d / epsilon with high probability.  The law of the singular values gives 2
    # pi.
    entropy, d = SeededEntropy(0), 100
    largest = [nuclear_singular_values(d, 2.0, entropy)[-1] / d for _ in range(6)]
    assert 5.5 < min(largest) <= max(largest) < 7


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_the_nuclear_norm_has_its_gamma_law(relation):
    # ||Z||_* ~ Gamma(d (d + 1) / 2, scale) for the symmetric law: mean 6 scale, variance 6
    # scale**2.
    scale = 2.0 if relation == "replace-one" else 1 / 0.95
    noise = sscp_noise(Nuclear(noise="nuclear"), np.eye(3), 1, 1_000, relation)
    norms = np.abs(np.linalg.eigvalsh(noise)).sum(axis=1)
    assert norms.mean() == pytest.approx(6 * scale, abs=6.2 * scale * math.sqrt(6 / 1_000))


def test_audit_under_replace_one():
    budget, pair = Budget(epsilon="1.5"), attaining("replace-one")
    mechanism = Nuclear(noise="wishart")

    def bound(spent, draws):
        return lower_bound_of_event(
            *nuclear_scores(mechanism, spent, pair, draws), lambda x: x > 1.5
        )

    assert bound(budget, 1_500) <= 1.5
    assert bound(half_noise(budget), 5_000) > 1.5


@pytest.mark.parametrize("shape", ["square", "wishart"])
def test_audit_under_add_remove_one(shape):
    # With one feature the law is Laplace's, and the row count takes a twentieth.
    budget, pair = Budget(epsilon="1.5"), attaining("add-remove-one", n_features=1)

    def bound(spent):
        both = audited_sscps(Nuclear(noise=shape), spent, pair, 1_200)
        return lower_bound_of_event(*(each[:, 0, 0] for each in both), lambda x: x > 1)

    assert 0.5 < bound(budget) <= 1.5
    assert bound(half_noise(budget)) > 1.5


@pytest.mark.parametrize("shape", ["square", "nuclear", "gauge", "wishart"])
def test_a_release_states_the_variances_of_its_noise(shape):
    mechanism, n = Nuclear(noise=shape), len(ROWS)
    noise = sscp_noise(mechanism, ROWS, 2, 600)
    (made,) = drawn(mechanism, ROWS, Budget(epsilon=2), seed=2)
    stated = unit_estimate(made, n)
    variances = stated.noise_variance * n**2, stated.off_diagonal_variance * n**2
    seen = np.mean(noise[:, 0, 0] ** 2), np.mean(noise[:, 0, 1] ** 2)
    assert seen == pytest.approx(variances, rel=0.3)

import math

import numpy as np
import pytest

import dpcov
from benchmarks.papers.synthetic import synthetic_rows
from dpcov.noise.entropy import SeededEntropy
from tests.statistical.goodness import assert_same_law

N_ROWS = 50
RHO = 0.5


def rows(d, seed=0):
    drawn = np.random.default_rng(seed).normal(size=(N_ROWS, d))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True) * 0.999


def released_moments(moments, repeats, budget=None, **options):
    entropy = SeededEntropy(1)
    budget = budget or dpcov.Budget(rho=RHO)
    terms = {"budget": budget, "mechanism": "gaussian", "entropy": entropy, **options}
    return [dpcov.second_moment(moments, **terms) for _ in range(repeats)]


def gauss_cov(X, rho, random):
    """Algorithm GaussCov of Dong et al., entry by entry."""
    n, d = X.shape
    noise = np.zeros((d, d))
    for i in range(d):
        for j in range(i, d):
            noise[i, j] = noise[j, i] = random.normal()
    return X.T @ X / n + noise * (math.sqrt(2) / n) / math.sqrt(2 * rho)


def wang_perturbation(X, epsilon, delta, random):
    """Equation (7) of Wang et al. with the sensitivity that two records apart have."""
    n, d = X.shape
    std = math.sqrt(2 * math.log(1.25 / delta)) / epsilon * math.sqrt(2) / n
    noise = np.triu(random.normal(size=(d, d))) * std
    return X.T @ X / n + noise + np.triu(noise, 1).T


def same_entries(ours, naive, truth):
    upper = np.triu_indices(len(truth))
    assert_same_law(
        np.concatenate([(matrix - truth)[upper] for matrix in ours]),
        np.concatenate([(matrix - truth)[upper] for matrix in naive]),
    )


def test_upper_triangle_noise_is_the_papers():
    X = rows(4)
    made = released_moments(dpcov.moments(X, norm_bound=1.0), 500, noise="upper-triangle")
    random = np.random.default_rng(2)
    naive = [gauss_cov(X, RHO, random) for _ in range(500)]
    same_entries([each.second_moment("none") for each in made], naive, X.T @ X / N_ROWS)


def test_classical_calibration_is_the_papers():
    X, budget = rows(4), dpcov.Budget(epsilon="0.9", delta="1e-5")
    moments = dpcov.moments(X, norm_bound=1.0)
    made = released_moments(moments, 500, budget, noise="upper-triangle", calibration="classical")
    random = np.random.default_rng(3)
    naive = [wang_perturbation(X, 0.9, 1e-5, random) for _ in range(500)]
    same_entries([each.second_moment("none") for each in made], naive, X.T @ X / N_ROWS)


def test_isotropic_noise_has_almost_sqrt_two_lower_error():
    d, repeats = 40, 20
    X = rows(d)
    truth, moments = X.T @ X / N_ROWS, dpcov.moments(X, norm_bound=1.0)
    errors, expected = [], []
    for noise in ("upper-triangle", "isotropic"):
        made = released_moments(moments, repeats, noise=noise)
        squares = [np.linalg.norm(each.second_moment("none") - truth) ** 2 for each in made]
        errors.append(math.sqrt(np.mean(squares)))
        expected.append(made[0].expected_error())
        # 16,400 degrees of freedom: six standard deviations are below five percent.
        assert errors[-1] == pytest.approx(expected[-1], rel=0.05)
    merged = 1 / (1 - 2 / (d + 1) ** 2)
    assert expected[0] / expected[1] == pytest.approx(math.sqrt(2 * d / (d + 1) * merged), rel=1e-6)
    assert 1.3 < errors[0] / errors[1] < 1.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("d", "clipped", "raw"), [(10, 0.00063, None), (100, 0.00477, None), (200, 0.00905, 0.0127)]
)
def test_the_papers_noise_has_the_error_of_the_published_code(d, clipped, raw):
    """Synthetic data of Dong et al., n = 50,000, N = 4, rho = 0.1; means over 10 tables."""
    errors = {"clip": [], "none": []}
    for seed in range(10):
        X = synthetic_rows(50_000, d, 4, np.random.default_rng(seed))
        made = dpcov.second_moment(
            X,
            norm_bound=1.0,
            budget=dpcov.Budget(rho="0.1"),
            noise="upper-triangle",
            entropy=SeededEntropy(seed),
        )
        truth = X.T @ X / len(X)
        for post, found in errors.items():
            found.append(np.linalg.norm(made.second_moment(post) - truth))
    assert np.mean(errors["clip"]) == pytest.approx(clipped, rel=0.1)
    assert raw is None or np.mean(errors["none"]) == pytest.approx(raw, rel=0.02)

import math

import numpy as np
import pytest

import dpcov
from dpcov.errors import UsageError
from dpcov.noise.entropy import SeededEntropy
from tests.releases import released_of

N_ROWS = 2000


def sparse_rows(d, seed=0):
    """Pairs of correlated columns, all others independent."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(N_ROWS, d))
    rows[:, 1::2] = 0.8 * rows[:, ::2] + 0.6 * rows[:, 1::2]
    return rows / np.linalg.norm(rows, axis=1).max()


def released(moments, seed=1, **options):
    return dpcov.second_moment(
        moments,
        budget=dpcov.Budget(epsilon=1, delta="1e-6"),
        mechanism="thresholding",
        entropy=SeededEntropy(seed),
        **options,
    )


def algorithm_one(noisy, gamma, n, noise_std):
    """Steps 2 and 3 of Wang et al., entry by entry, the diagonal kept."""
    p = len(noisy)
    level = gamma * math.sqrt(math.log(p) / n) + 4 * noise_std * math.sqrt(math.log(p))
    kept = np.zeros((p, p))
    for i in range(p):
        for j in range(p):
            if i == j or abs(noisy[i, j]) > level:
                kept[i, j] = noisy[i, j]
    values, vectors = np.linalg.eigh(kept)
    return sum(
        max(value, 0) * np.outer(vector, vector)
        for value, vector in zip(values, vectors.T, strict=True)
    )


@pytest.mark.parametrize("noise", ["isotropic", "upper-triangle"])
@pytest.mark.parametrize("gamma", [0.0, 0.01, 1.0])
def test_a_given_gamma_is_the_papers_algorithm(gamma, noise):
    made = released(dpcov.moments(sparse_rows(12), norm_bound=1.0), gamma=gamma, noise=noise)
    law = made.statistics.noise
    noise_std = math.sqrt(int(law.off_diagonal_variance)) / 4.0**20 / N_ROWS
    expected = algorithm_one(made.second_moment("none"), gamma, N_ROWS, noise_std)
    np.testing.assert_allclose(made.second_moment(), expected, atol=1e-12)


def test_the_estimated_threshold_beats_no_threshold_and_the_papers():
    d = 60
    X = sparse_rows(d)
    moments, truth = dpcov.moments(X, norm_bound=1.0), X.T @ X / N_ROWS
    errors = {}
    for name, options in {"chosen": {}, "paper": {"gamma": 1.0}}.items():
        made = released(moments, **options)
        errors[name] = np.linalg.norm(made.second_moment() - truth)
        errors["psd"] = np.linalg.norm(made.second_moment("psd") - truth)
    assert errors["chosen"] < 0.6 * errors["psd"]
    assert errors["chosen"] < errors["paper"]


def test_a_covariance_is_thresholded_in_its_own_units():
    columns = {f"x{index}": dpcov.Numeric(lower=-2, upper=2) for index in range(4)}
    rows = np.clip(np.random.default_rng(0).normal(size=(20_000, 4)) / 2, -2, 2)
    left = []
    for seed in range(4):
        made = released_of(columns, rows, seed, rho=1, mechanism="thresholding", geometry="schema")
        found = [made.covariance_matrix(post) for post in ("threshold", "none")]
        left.append([np.linalg.norm(each - np.diag(np.diagonal(each))) for each in found])
        np.testing.assert_allclose(np.diagonal(found[0]), 0.25, atol=0.05)
    kept, noise = np.mean(left, axis=0)
    assert kept < noise


def test_noise_of_another_law_cannot_be_thresholded():
    made = dpcov.second_moment(
        np.eye(3), norm_bound=1, budget=dpcov.Budget(epsilon=1), mechanism="laplace"
    )
    with pytest.raises(UsageError, match="Gaussian"):
        made.second_moment("threshold")

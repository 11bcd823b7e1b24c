import math

import numpy as np
import pytest
from scipy import stats

import dpcov
from dpcov.noise.entropy import SeededEntropy
from dpcov.published.linalg.project import project_psd_trace

N_ROWS = 300
ZCDP = dpcov.Budget(rho="0.1")
PURE = dpcov.Budget(epsilon=2)


def unit_rows(d, n_rows=N_ROWS, seed=0):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n_rows, d)) * np.arange(1, d + 1) ** -1.0
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * 0.999


def released(X, budget=ZCDP, seed=1, **options):
    return dpcov.second_moment(
        X,
        norm_bound=1.0,
        budget=budget,
        mechanism="projection",
        entropy=SeededEntropy(seed),
        **options,
    )


def frank_wolfe(noisy, steps):
    """The mechanism as the paper quotes it: minimize over {PSD, trace <= 1}, vertex by vertex."""
    current = np.zeros_like(noisy)
    for step in range(steps):
        values, vectors = np.linalg.eigh(noisy - current)
        vertex = (
            np.outer(vectors[:, -1], vectors[:, -1]) if values[-1] > 0 else np.zeros_like(noisy)
        )
        current += (vertex - current) * 2 / (step + 2)
    return current


@pytest.mark.parametrize("budget", [ZCDP, PURE], ids=str)
def test_one_eigendecomposition_finds_what_frank_wolfe_approaches(budget):
    made = released(unit_rows(6), budget, trace="public")
    noisy, steps = made.second_moment("none"), 2000
    exact, approached = made.second_moment(), frank_wolfe(noisy, steps)
    gap = np.linalg.norm(approached - noisy) ** 2 - np.linalg.norm(exact - noisy) ** 2
    # Jaggi (2013): the gap is at most 2 C / (steps + 2) with curvature C = 2 diameter**2 = 4.
    assert -1e-9 <= gap <= 8 / (steps + 2)
    np.testing.assert_allclose(exact, approached, atol=0.05)


@pytest.mark.parametrize(
    ("budget", "family"), [(ZCDP, "gaussian"), (PURE, "laplace")], ids=["zcdp", "pure"]
)
def test_the_result_is_possible_and_the_noise_is_of_the_right_kind(budget, family):
    made = released(unit_rows(20), budget)
    assert family in made.statistics.noise.family
    values = np.linalg.eigvalsh(made.second_moment())
    assert values.min() >= -1e-12
    assert values.sum() <= 1 + 1e-9
    assert made.guarantee.promise == budget.promise


def test_the_error_bound():
    """Theorem 2 at beta = 0.1 on 100 releases; a correct sampler fails with probability 1e-9."""
    d, beta, repeats = 20, 0.1, 100
    X = unit_rows(d)
    moments, truth = dpcov.moments(X, norm_bound=1.0), X.T @ X / N_ROWS
    spectral, frobenius = 0, 0
    for seed in range(repeats):
        made = dpcov.second_moment(
            moments,
            budget=ZCDP,
            mechanism="projection",
            trace="public",
            entropy=SeededEntropy(seed),
        )
        variance = int(made.statistics.noise.diagonal_variance) / 16.0**20 / N_ROWS**2
        bound = math.sqrt(2 * variance * d) + math.sqrt(2 * variance * math.log(2 / beta))
        spectral += np.linalg.norm(made.second_moment("none") - truth, 2) > bound
        frobenius += np.linalg.norm(made.second_moment() - truth) > math.sqrt(2 * bound)
    allowed = stats.binom.isf(1e-9, repeats, beta)
    assert spectral <= allowed
    assert frobenius <= allowed


def test_the_error_may_exceed_the_norm_of_the_noise_but_not_the_root_of_twice_it():
    # Dong et al., appendix E, leave the root out: inside the set nothing is taken off the noise.
    truth, noise = np.eye(30) / 60, np.random.default_rng(0).normal(size=(30, 30)) / 3000
    error = np.linalg.norm(project_psd_trace(truth + (noise + noise.T) / 2, 1.0) - truth)
    spectral = np.linalg.norm((noise + noise.T) / 2, 2)
    assert spectral < error <= math.sqrt(2 * spectral)


def test_it_beats_the_noise_in_many_dimensions():
    X = unit_rows(100)
    truth, made = X.T @ X / N_ROWS, released(X)
    errors = {
        post: np.linalg.norm(made.second_moment(post) - truth)
        for post in ("none", "psd", "projection")
    }
    assert errors["projection"] < 0.5 * errors["psd"] < errors["none"]


def test_the_noisy_trace_helps_short_rows():
    X = unit_rows(50) / 8
    truth = X.T @ X / N_ROWS
    noisy, public = (
        np.linalg.norm(released(X, trace=trace).second_moment() - truth)
        for trace in ("noisy", "public")
    )
    assert noisy < 0.5 * public


def test_clipped_rows_have_a_smaller_public_trace():
    made = released(unit_rows(10), trace="public", clip=0.5)
    assert np.trace(made.second_moment()) <= 0.25 + 1e-9

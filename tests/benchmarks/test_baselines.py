"""The papers' methods and data are what the papers say."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.papers.baselines import (
    classical_gaussian,
    nonsymmetric_noise,
    output_perturbation,
    published_thresholding,
)
from benchmarks.papers.figure import table
from benchmarks.papers.figures.dorsi import trace
from benchmarks.papers.figures.wang import norm_bound
from benchmarks.papers.metrics import measure
from benchmarks.papers.ridge import excess_risk, lemma_bound, ridge_weights
from benchmarks.papers.synthetic import synthetic_rows
from benchmarks.papers.tables import Data, sparse_covariance
from dpcov import Budget, SeededEntropy


def unit_ball_rows(seed, n, d):
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return rows / np.maximum(1, np.linalg.norm(rows, axis=1))[:, None]


def sensitivity(n, alpha):
    largest = 1 / sqrt(2 * alpha)
    return (largest + sqrt(largest**2 + 1)) / 2 / (alpha * n)


def drawn(method, data, budget, number, **options):
    return np.array([method(data, budget, SeededEntropy(s), **options) for s in range(number)])


@given(st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([0.001, 0.01, 0.1, 1.0]))
def test_ridge_weights_move_no_further_than_output_perturbation_assumes(seed, n, alpha):
    rows = unit_ball_rows(seed, n + 1, 3)
    first, second = rows[:n], np.vstack([rows[: n - 1], rows[n:]])
    moved = ridge_weights(first.T @ first / n, alpha) - ridge_weights(second.T @ second / n, alpha)
    assert np.linalg.norm(moved) <= sensitivity(n, alpha)


def test_output_perturbation_draws_the_noise_it_states():
    """The radius is gamma with shape 3: mean 3, variance 3; six standard errors of 2000 draws."""
    data, alpha = Data(rows=unit_ball_rows(0, 50, 4)), 0.1
    draws = drawn(output_perturbation, data, Budget(epsilon=2), 2000, alpha=alpha)
    radii = np.linalg.norm(draws - ridge_weights(data.second_moment, alpha), axis=1)
    assert abs(radii.mean() / (sensitivity(50, alpha) / 2) - 3) < 6 * sqrt(3 / 2000)


@pytest.mark.parametrize("p", [1, 2, 8])
def test_schatten_norms_are_those_of_singular_values(p):
    data = Data(rows=unit_ball_rows(0, 5, 2))
    error = np.array([[0.0, 3.0], [0.0, 0.0]])
    assert measure(f"schatten:{p}", data.second_moment + error, data) == pytest.approx(3.0)


def test_the_papers_nuclear_noise_has_its_radius_and_is_not_symmetric():
    """||Z||_* is gamma with shape d**2; six standard errors of 500 draws."""
    data, d = Data(rows=unit_ball_rows(0, 50, 4)), 4
    noise = drawn(nonsymmetric_noise, data, Budget(epsilon=2), 500) - data.second_moment
    radii = np.linalg.norm(noise, "nuc", axis=(1, 2)) * 50
    assert abs(radii.mean() - d**2) < 6 * d / sqrt(500)
    assert np.linalg.norm(noise[0] - noise[0].T) > 0.1 * np.linalg.norm(noise[0])


def test_the_classical_formula_is_used_at_every_epsilon():
    """Eigenvalues stay inside (0, 1), so clipping leaves the noise; six standard errors."""
    data, upper = Data(rows=np.vstack([np.eye(5)] * 2000)), np.triu_indices(5)
    draws = drawn(classical_gaussian, data, Budget(epsilon=4, delta="1e-3"), 100)
    noise = (draws - data.second_moment)[:, *upper]
    expected = sqrt(2) * sqrt(2 * np.log(1250)) / 4 / 10_000
    assert abs(noise.std() / expected - 1) < 6 / sqrt(2 * 1500)


@given(st.integers(0, 10**6), st.sampled_from([0.01, 0.1, 1.0]))
def test_lemma_bounds_the_weights(seed, alpha):
    rows = unit_ball_rows(seed, 20, 4)
    truth = rows.T @ rows / 20
    noise = np.random.default_rng(seed).normal(size=(4, 4)) / 10
    estimate = truth + noise @ noise.T
    distance = np.linalg.norm(ridge_weights(estimate, alpha) - ridge_weights(truth, alpha))
    assert distance <= lemma_bound(estimate, truth, alpha) * (1 + 1e-9)


def test_excess_risk_is_that_of_the_objective():
    rows, alpha, weights = unit_ball_rows(3, 30, 3), 0.05, np.array([0.3, -0.2])

    def objective(w):
        return np.mean((rows[:, :2] @ w - rows[:, 2]) ** 2) / 2 + alpha * w @ w

    moment = rows.T @ rows / 30
    excess = (objective(weights) - objective(ridge_weights(moment, alpha))) / objective(np.zeros(2))
    assert excess_risk(weights, moment, alpha) == pytest.approx(excess)


@pytest.mark.parametrize("p", [50, 200])
def test_sparse_covariance_is_what_the_paper_describes_and_its_norm_bound_holds(p):
    generator = np.random.default_rng(p)
    population = sparse_covariance(p, 0.5, generator)
    off = population[~np.eye(p, dtype=bool)]
    assert abs((off != 0).mean() - 0.5) < 0.05 and off.max() <= 1 / p
    rows = generator.standard_normal((20_000, p)) @ np.linalg.cholesky(population).T
    assert np.linalg.norm(rows, axis=1).max() <= norm_bound(p)


def test_published_thresholding_keeps_large_entries_only():
    data = Data(rows=unit_ball_rows(1, 5000, 6) * [1, 1, 1, 0.1, 0.1, 0.1])
    (estimate,) = drawn(published_thresholding, data, Budget(epsilon=1, delta="1e-3"), 1, gamma=0.5)
    assert np.count_nonzero(estimate) == 3
    assert np.allclose(np.diagonal(estimate)[:3], np.diagonal(data.second_moment)[:3], atol=0.01)
    quiet = Data(rows=data.rows * 1e-3)
    assert not drawn(
        published_thresholding, quiet, Budget(epsilon=1, delta="1e-3"), 9, gamma=0
    ).any()


@pytest.mark.parametrize("bins", [1, 3, 6])
def test_trace_of_zipf_rows_is_known(bins):
    rows = synthetic_rows(20_000, 5, bins, np.random.default_rng(0))
    told = trace(table("zipf", n=20_000, d=5, N=bins))
    assert np.mean(rows**2) * 5 == pytest.approx(told, rel=1e-2)

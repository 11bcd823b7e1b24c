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
from benchmarks.papers.published import published_error
from benchmarks.papers.ridge import excess_risk, lemma_bound, ridge_weights
from benchmarks.papers.synthetic import synthetic_rows
from benchmarks.papers.tables import Data, sparse_covariance
from dpcov import Budget, SeededEntropy


def unit_ball_rows(seed, n, d):
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((n, d))
    return rows / np.maximum(1, np.linalg.norm(rows, axis=1))[:, None]


def sensitivity(n, alpha):
    largest = 1 / sqrt(2 * alpha)
    return (largest + sqrt(largest**2 + 1)) / 2 / (alpha * n)


@given(st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([0.001, 0.01, 0.1, 1.0]))
def test_ridge_weights_move_no_further_than_output_perturbation_assumes(seed, n, alpha):
    rows = unit_ball_rows(seed, n + 1, 3)
    first, second = rows[:n], np.vstack([rows[: n - 1], rows[n:]])
    moved = ridge_weights(first.T @ first / n, alpha) - ridge_weights(second.T @ second / n, alpha)
    assert np.linalg.norm(moved) <= sensitivity(n, alpha)


def test_output_perturbation_draws_the_noise_it_states():
    data, alpha, budget = Data(rows=unit_ball_rows(0, 50, 4)), 0.1, Budget(epsilon=2)
    truth = ridge_weights(data.second_moment, alpha)
    draws = [
        output_perturbation(data, budget, SeededEntropy(s), alpha=alpha) - truth
        for s in range(2000)
    ]
    radii = np.linalg.norm(draws, axis=1)
    # The radius is gamma with shape 3: mean 3, standard deviation sqrt(3); six standard errors of 2000 draws.
    unit = sensitivity(50, alpha) / 2
    assert abs(radii.mean() / unit - 3) < 6 * sqrt(3 / 2000)


@pytest.mark.parametrize(("n", "d"), [(1000, 100), (4000, 70)])
def test_singular_vectors_of_an_indefinite_matrix_explain_the_published_error_of_separate_noise(
    n, d
):
    """Their SeparateCov puts noisy eigenvalues between the singular vectors; eigenvectors do better (papers.md)."""
    truth = synthetic_rows(n, d, 1, np.random.default_rng(1))
    truth = truth.T @ truth / n
    values, random, errors = (
        np.linalg.eigvalsh(truth)[::-1],
        np.random.default_rng(2),
        {"svd": [], "eigh": []},
    )
    for _ in range(10):
        upper = np.triu(random.normal(size=(d, d)))
        noisy = truth + (upper + np.triu(upper, 1).T) * sqrt(2 / 0.1) / n
        spectrum = np.clip(values + random.normal(size=d) * sqrt(2 / 0.1) / n, 0, 1)
        left, _, right = np.linalg.svd(noisy)
        vectors = np.linalg.eigh(noisy)[1][:, ::-1]
        errors["svd"].append(np.linalg.norm(left * spectrum @ right - truth))
        errors["eigh"].append(np.linalg.norm(vectors * spectrum @ vectors.T - truth))
    theirs = published_error("SeparateCov", n, d)
    assert np.mean(errors["svd"]) == pytest.approx(theirs, rel=0.1)
    assert np.mean(errors["eigh"]) < 0.9 * theirs


def test_schatten_norms_are_those_of_singular_values():
    data = Data(rows=unit_ball_rows(0, 5, 2))
    for p in (1, 2, 8):
        error = np.array([[0.0, 3.0], [0.0, 0.0]])
        assert measure(f"schatten:{p}", data.second_moment + error, data) == pytest.approx(3.0)


def test_the_papers_nuclear_noise_has_its_radius_and_is_not_symmetric():
    """||Z||_* is gamma with shape d**2; six standard errors of 500 draws."""
    data, d = Data(rows=unit_ball_rows(0, 50, 4)), 4
    draws = [
        nonsymmetric_noise(data, Budget(epsilon=2), SeededEntropy(s)) - data.second_moment
        for s in range(500)
    ]
    radii = np.array([np.linalg.norm(each, "nuc") for each in draws]) * 50
    assert abs(radii.mean() - d**2) < 6 * d / sqrt(500)
    assert np.linalg.norm(draws[0] - draws[0].T) > 0.1 * np.linalg.norm(draws[0])


def test_the_classical_formula_is_used_at_every_epsilon():
    """Eigenvalues stay inside (0, 1) here, so that clipping leaves the noise; six standard errors of 1500 entries."""
    data = Data(rows=np.vstack([np.eye(5)] * 2000))
    upper = np.triu_indices(5)
    draws = [
        classical_gaussian(data, Budget(epsilon=4, delta="1e-3"), SeededEntropy(s))
        for s in range(100)
    ]
    noise = np.concatenate([(draw - data.second_moment)[upper] for draw in draws])
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
    rows, alpha = unit_ball_rows(3, 30, 3), 0.05
    weights = np.array([0.3, -0.2])

    def objective(w):
        return np.mean((rows[:, :2] @ w - rows[:, 2]) ** 2) / 2 + alpha * w @ w

    moment = rows.T @ rows / 30
    excess = (objective(weights) - objective(ridge_weights(moment, alpha))) / objective(np.zeros(2))
    assert excess_risk(weights, moment, alpha) == pytest.approx(excess)


def test_sparse_covariance_is_what_the_paper_describes():
    made = sparse_covariance(200, 0.2, np.random.default_rng(0))
    off = made[~np.eye(200, dtype=bool)]
    assert np.array_equal(made, made.T)
    assert np.linalg.eigvalsh(made).min() > 0
    assert abs((off != 0).mean() - 0.2) < 0.02
    assert off.max() <= 1 / 200


@pytest.mark.parametrize("p", [50, 100, 200, 500])
def test_norm_bound_of_sparse_rows_holds(p):
    generator = np.random.default_rng(p)
    population = sparse_covariance(p, 0.5, generator)
    rows = generator.standard_normal((20_000, p)) @ np.linalg.cholesky(population).T
    assert np.linalg.norm(rows, axis=1).max() <= norm_bound(p)


def test_published_thresholding_keeps_large_entries_only():
    data = Data(rows=unit_ball_rows(1, 5000, 6) * [1, 1, 1, 0.1, 0.1, 0.1])
    estimate = published_thresholding(
        data, Budget(epsilon=1, delta="1e-3"), SeededEntropy(0), gamma=0.5
    )
    assert np.count_nonzero(estimate) == 3
    assert np.allclose(np.diagonal(estimate)[:3], np.diagonal(data.second_moment)[:3], atol=0.01)


@pytest.mark.parametrize("bins", [1, 3, 6])
def test_trace_of_zipf_rows_is_known(bins):
    rows = synthetic_rows(20_000, 5, bins, np.random.default_rng(0))
    assert np.mean(rows**2) * 5 == pytest.approx(
        trace(table("zipf", n=20_000, d=5, N=bins)), rel=1e-2
    )

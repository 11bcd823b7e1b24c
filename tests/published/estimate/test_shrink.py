import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcov.published.estimate.risk import NoisySpectrum
from dpcov.published.estimate.shrink import shrink_spectrum, shrink_values
from dpcov.published.linalg.project import project_psd, project_psd_trace
from dpcov.published.linalg.symmetric import eigh
from tests.published.estimate.noises import noise, shrunk


def squared_error(estimate, truth):
    return np.sum((estimate - truth) ** 2)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.floats(1e-3, 1e3), st.integers(0, 2**32 - 1), st.booleans())
def test_result_is_positive_semidefinite_and_keeps_the_eigenvectors(d, scale, seed, with_trace):
    generator = np.random.default_rng(seed)
    noisy = scale * np.diag(generator.random(d)) + noise(d, 1.0, generator)
    known = (float(scale), 2.0) if with_trace else ()
    matrix, risk, _ = shrunk(noisy, 1.0, *known)
    vectors = eigh(noisy).vectors
    seen, size = vectors.T @ matrix @ vectors, 1e-9 * (1 + np.abs(matrix).max())
    np.testing.assert_allclose(seen, np.diag(np.diagonal(seen)), atol=size)
    assert np.diagonal(seen).min() >= -size
    assert np.diff(np.diagonal(seen)).min(initial=0.0) >= -size
    np.testing.assert_array_equal(matrix, matrix.T)
    # The same input gives the same bits.
    again = shrunk(noisy.copy(), 1.0, *known)
    np.testing.assert_array_equal(matrix, again.matrix)
    assert risk == again.risk


@pytest.mark.parametrize("factor", [1e-8, 3.0, 1e9])
def test_units_do_not_matter(factor):
    noisy = np.diag([3.0, 1.0, 0.0, 0.0]) + noise(4, 0.5, np.random.default_rng(1))
    plain = shrunk(noisy, 0.5, 4.2, 1.0)
    scaled = shrunk(factor * noisy, 0.5 * factor**2, 4.2 * factor, factor**2)
    np.testing.assert_allclose(scaled.matrix, factor * plain.matrix, rtol=1e-5, atol=1e-6 * factor)
    assert scaled.risk == pytest.approx(factor**2 * plain.risk, rel=1e-3)


SPECTRA = {
    "identity": np.ones(60),
    "power law": 1.0 / np.arange(1.0, 61.0),
    "rank 3": (np.arange(60) < 3) * 1.0,
    "exponential": np.exp(-np.arange(60) / 6.0),
}


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("signal", [0.5, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("with_trace", [False, True])
def test_error_is_near_the_oracle_and_below_every_trivial_estimate(name, signal, with_trace):
    generator = np.random.default_rng(3)
    levels = SPECTRA[name] * signal / np.linalg.norm(SPECTRA[name])
    truth, v = np.diag(levels), 1.0 / (60 * 61)
    noisy = truth + noise(60, v, generator)
    known = (levels.sum() + np.sqrt(2 * v) * generator.normal(), 2 * v) if with_trace else ()
    matrix, risk, _ = shrunk(noisy, v, *known)
    error = squared_error(matrix, truth)
    projections = project_psd(noisy), project_psd_trace(noisy, levels.sum())
    trivial = [squared_error(each, truth) for each in (noisy, *projections, 0 * noisy)]
    assert error <= 1.02 * min(trivial)
    oracle = (eigh(noisy).vectors ** 2).T @ levels
    # In units of the noise energy, 1: what the unknown spectrum costs beside the eigenvectors.
    assert squared_error(np.linalg.eigvalsh(matrix), np.sort(oracle)) <= 0.03
    assert risk == pytest.approx(error, abs=0.1)


def test_clear_signal_is_left_alone():
    noisy = np.diag([1e6, 3e5, 1e5]) + noise(3, 1.0, np.random.default_rng(5))
    result = shrunk(noisy, 1.0)
    np.testing.assert_allclose(result.matrix, noisy, atol=0.5)
    assert result.risk == pytest.approx(12.0, rel=0.1)
    # Without noise all but the positive part is kept.
    np.testing.assert_array_equal(shrunk(np.diag([2.0, -1.0]), 0.0).matrix, np.diag([2.0, 0.0]))
    # Also where it is enormous against the noise, and where eigenvalues are tied.
    enormous = np.linalg.eigvalsh(shrunk(np.diag([1e12, 1e6, 0.0]), 1.0).matrix)
    np.testing.assert_allclose(enormous[1:], [1e6, 1e12], rtol=1e-6)
    assert np.ptp(np.linalg.eigvalsh(shrunk(5.0 * np.eye(6), 1.0).matrix)) < 1e-6


@pytest.mark.parametrize("ratio", [0.25, 1.0, 3.0])
def test_a_noisy_trace_counts_by_its_precision(ratio):
    """The mean eigenvalue of noise has the variance 2v/d, and a trace of d times that tells d."""
    values, v, trace = np.array([1.0, 4.0, 9.0, 20.0]), 0.5, 42.0
    variance = ratio * 2 * v * len(values)
    mean = (values.sum() + trace / ratio) / (1 + 1 / ratio) / len(values)
    moved, mean_variance = values + mean - values.mean(), 2 * v / (1 + 1 / ratio)
    law = NoisySpectrum(values=moved, off_diagonal_variance=v, mean_variance=mean_variance)
    expected, risk = shrink_spectrum(law)
    found, found_risk = shrink_values(values, v, trace, variance)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert found_risk == pytest.approx(risk)


@pytest.mark.parametrize("dimension", [1, 4, 40])
def test_an_exact_trace_is_met(dimension):
    noisy = np.eye(dimension) + noise(dimension, 0.05, np.random.default_rng(6))
    matrix = shrunk(noisy, 0.05, float(dimension), 0.0).matrix
    assert np.trace(matrix) == pytest.approx(dimension, rel=0.02)

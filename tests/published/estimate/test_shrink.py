import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcov.errors import NumericError, UsageError
from dpcov.published.estimate.shrink import shrink
from dpcov.published.linalg.project import project_psd, project_psd_trace
from dpcov.published.linalg.symmetric import eigh
from tests.published.estimate.noises import noise


def squared_error(estimate, truth):
    return np.sum((estimate - truth) ** 2)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.floats(1e-3, 1e3), st.integers(0, 2**32 - 1), st.booleans())
def test_result_is_positive_semidefinite_and_keeps_the_eigenvectors(d, scale, seed, with_trace):
    generator = np.random.default_rng(seed)
    noisy = scale * np.diag(generator.random(d)) + noise(d, 1.0, generator)
    known = {"trace": float(scale), "trace_variance": 2.0} if with_trace else {}
    result = shrink(noisy, off_diagonal_variance=1.0, **known)
    assert result.eigenvalues.min() >= 0.0
    assert np.diff(result.eigenvalues).min(initial=0.0) >= -1e-9 * scale
    np.testing.assert_array_equal(result.eigenvectors, eigh(noisy).vectors)
    np.testing.assert_array_equal(result.matrix, result.matrix.T)
    # The same input gives the same bits.
    again = shrink(noisy.copy(), off_diagonal_variance=1.0, **known)
    np.testing.assert_array_equal(result.eigenvalues, again.eigenvalues)
    assert result.expected_squared_error == again.expected_squared_error


@pytest.mark.parametrize("factor", [1e-8, 3.0, 1e9])
def test_units_do_not_matter(factor):
    noisy = np.diag([3.0, 1.0, 0.0, 0.0]) + noise(4, 0.5, np.random.default_rng(1))
    plain = shrink(noisy, off_diagonal_variance=0.5, trace=4.2, trace_variance=1.0)
    law = {"trace": 4.2 * factor, "trace_variance": factor**2}
    scaled = shrink(factor * noisy, off_diagonal_variance=0.5 * factor**2, **law)
    expected, error = factor * plain.eigenvalues, factor**2 * plain.expected_squared_error
    np.testing.assert_allclose(scaled.eigenvalues, expected, rtol=1e-5, atol=1e-6 * factor)
    assert scaled.expected_squared_error == pytest.approx(error, rel=1e-3)


def test_rotations_pass_through():
    generator = np.random.default_rng(2)
    noisy = np.diag([5.0, 2.0, 0.0, 0.0, 0.0]) + noise(5, 0.5, generator)
    rotation, _ = np.linalg.qr(generator.standard_normal((5, 5)))
    direct = shrink(noisy, off_diagonal_variance=0.5).matrix
    turned = shrink(rotation @ noisy @ rotation.T, off_diagonal_variance=0.5).matrix
    np.testing.assert_allclose(turned, rotation @ direct @ rotation.T, atol=1e-6)


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
    known = {"trace": levels.sum() + np.sqrt(2 * v) * generator.normal(), "trace_variance": 2 * v}
    result = shrink(noisy, off_diagonal_variance=v, **(known if with_trace else {}))
    error = squared_error(result.matrix, truth)
    projections = project_psd(noisy), project_psd_trace(noisy, levels.sum())
    trivial = [squared_error(each, truth) for each in (noisy, *projections, 0 * noisy)]
    assert error <= 1.02 * min(trivial)
    oracle = (result.eigenvectors**2).T @ levels
    # In units of the noise energy, 1: what the unknown spectrum costs beside the eigenvectors.
    assert squared_error(result.eigenvalues, oracle) <= 0.03
    assert result.expected_squared_error == pytest.approx(error, abs=0.1)


def test_no_signal_is_shrunk_to_almost_nothing():
    v = 1.0 / (100 * 101)
    noisy = noise(100, v, np.random.default_rng(4))
    result = shrink(noisy, off_diagonal_variance=v, trace=0.0, trace_variance=2.0 * v)
    assert np.sum(result.eigenvalues**2) < 1e-3


def test_clear_signal_is_left_alone():
    noisy = np.diag([1e6, 3e5, 1e5]) + noise(3, 1.0, np.random.default_rng(5))
    result = shrink(noisy, off_diagonal_variance=1.0)
    np.testing.assert_allclose(result.matrix, noisy, atol=0.5)
    assert result.expected_squared_error == pytest.approx(12.0, rel=0.1)
    # Also where it is enormous against the noise, and where eigenvalues are tied.
    enormous = shrink(np.diag([1e12, 1e6, 0.0]), off_diagonal_variance=1.0).eigenvalues
    np.testing.assert_allclose(enormous[1:], [1e6, 1e12], rtol=1e-6)
    assert np.ptp(shrink(5.0 * np.eye(6), off_diagonal_variance=1.0).eigenvalues) < 1e-6


@pytest.mark.parametrize("dimension", [1, 4, 40])
def test_an_exact_trace_is_met(dimension):
    noisy = np.eye(dimension) + noise(dimension, 0.05, np.random.default_rng(6))
    result = shrink(noisy, off_diagonal_variance=0.05, trace=float(dimension), trace_variance=0.0)
    assert result.eigenvalues.sum() == pytest.approx(dimension, rel=0.02)


def test_no_noise_leaves_only_the_positive_part():
    result = shrink(np.diag([2.0, -1.0]), off_diagonal_variance=0.0)
    np.testing.assert_array_equal(result.eigenvalues, [0.0, 2.0])
    assert result.expected_squared_error == 0.0


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_impossible_variances_raise(bad):
    for law in ({"off_diagonal_variance": bad}, {"trace": 1.0, "trace_variance": bad}):
        with pytest.raises(UsageError):
            shrink(np.eye(2), **{"off_diagonal_variance": 1.0} | law)


@pytest.mark.parametrize(
    ("law", "match"),
    [
        ({"trace": 1.0}, "both"),
        ({"trace_variance": 1.0}, "both"),
        ({"trace": np.nan, "trace_variance": 1.0}, "finite"),
    ],
)
def test_half_a_trace_raises(law, match):
    with pytest.raises(UsageError, match=match):
        shrink(np.eye(2), off_diagonal_variance=1.0, **law)


def test_entries_that_are_not_finite_raise():
    with pytest.raises(NumericError):
        shrink([[np.nan]], off_diagonal_variance=1.0)

from dataclasses import replace

import numpy as np
import pytest

from dpcov.published.estimate.curve import increasing_basis, least_risk_curve, noise_knots
from dpcov.published.estimate.risk import NoisySpectrum, SpectralEstimate, risk_weights, stein_risk
from dpcov.published.estimate.shrink import candidates
from dpcov.published.linalg.project import capped_simplex_projection
from dpcov.published.linalg.symmetric import compose, eigh
from tests.published.estimate.noises import noise, smat, svec

VARIANCE, STEP = 0.3, 1e-5


def spectrum_of(values, mean_variance=2.0 * VARIANCE, variance=VARIANCE):
    values = np.asarray(values, dtype=float)
    return NoisySpectrum(values=values, off_diagonal_variance=variance, mean_variance=mean_variance)


def jacobian(function, point):
    """By central differences along every axis."""
    axes = STEP * np.eye(point.size)
    return np.array([(function(point + e) - function(point - e)) / (2 * STEP) for e in axes]).T


def differentiated(estimator, spectrum):
    """The estimate of a function of eigenvalues, with its slopes."""
    values = spectrum.separated
    slopes = jacobian(estimator, values)
    return SpectralEstimate(estimator(values), np.trace(slopes), slopes.sum() / values.size)


def risk_by_full_differentiation(estimator, matrix, spectrum):
    """Stein's risk with the d(d+1)/2-dimensional Jacobian of the matrix function."""
    d, v = matrix.shape[0], spectrum.off_diagonal_variance

    def apply(vector):
        values, vectors = eigh(smat(vector))
        return svec(compose(estimator(values), vectors))

    point, identity = svec(matrix), svec(np.eye(d)) / np.sqrt(d)
    covariance = 2 * v * np.eye(point.size)
    covariance -= (2 * v - spectrum.mean_variance) * np.outer(identity, identity)
    residual = np.sum((apply(point) - point) ** 2)
    divergence = np.trace(covariance @ jacobian(apply, point))
    return residual - np.trace(covariance) + 2 * divergence


ESTIMATORS = {
    "identity": lambda values: values,
    "zero": np.zeros_like,
    "damped": lambda values: 0.7 * values,
    "mean": lambda values: np.full_like(values, values.mean()),
    "softplus": lambda values: np.logaddexp(0.0, values),
    "projected": lambda values: capped_simplex_projection(values, 1.5),
    "rank weights": lambda values: values * np.arange(1.0, values.size + 1) / values.size,
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("mean_variance", [2.0 * VARIANCE, 0.1])
def test_risk_agrees_with_the_jacobian_of_the_matrix_function(name, mean_variance):
    matrix = np.diag([2.0, 1.0, 0.2, 0.0]) + noise(4, VARIANCE, np.random.default_rng(2))
    spectrum = spectrum_of(eigh(matrix).values, mean_variance)
    expected = risk_by_full_differentiation(ESTIMATORS[name], matrix, spectrum)
    estimate = differentiated(ESTIMATORS[name], spectrum)
    assert stein_risk(estimate, spectrum) == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", ["coarse", "fine", "projected"])
@pytest.mark.parametrize("dimension", [2, 5, 40])
@pytest.mark.parametrize("mean_variance", [2.0 * VARIANCE, 0.05])
def test_slopes_of_every_estimate_are_its_derivatives(name, dimension, mean_variance):
    generator = np.random.default_rng(dimension)
    matrix = np.diag(10.0 / np.arange(1.0, dimension + 1)) + noise(dimension, VARIANCE, generator)
    spectrum = spectrum_of(eigh(matrix).values, mean_variance)

    def estimated(values):
        return candidates(replace(spectrum, values=values))[name].values

    spectra = [spectrum]
    if name == "projected":
        # One eigenvalue alone may be positive.
        values = np.append(np.full(dimension - 1, -0.5 / dimension), 4.0)
        spectra += [replace(spectrum, values=values)]
    for each in spectra:
        stated, measured = candidates(each)[name], differentiated(estimated, each)
        assert stated[1:] == pytest.approx(measured[1:], rel=1e-3, abs=1e-3)
    # Where no eigenvalue is positive, the estimate is zero, and so are its slopes.
    lost = candidates(replace(spectrum, values=-1.0 - np.abs(spectrum.values)))[name]
    assert not any(map(np.any, lost))


def test_tied_eigenvalues_have_the_risk_of_nearly_tied_ones():
    tied, near = spectrum_of([0.0, 1.0, 1.0]), spectrum_of([0.0, 1.0, 1.0 + 1e-6])
    risks = [stein_risk(least_risk_curve(spectrum, 1), spectrum) for spectrum in (tied, near)]
    assert risks[0] == pytest.approx(risks[1], rel=1e-4)
    # Distinct even if huge against the noise.
    assert np.all(np.diff(spectrum_of(np.full(50, 1e12), variance=1e-6).separated) > 0.0)


POINTS = np.linspace(-3.0, 40.0, 4001)


@pytest.mark.parametrize("pieces", [0, 1, 2, 5])
@pytest.mark.parametrize("largest", [-5.0, 0.5, 3.0, 1e3, 1e12])
def test_knots_cover_the_noise_and_the_largest_value(pieces, largest):
    knots = noise_knots(2.0, largest, pieces)
    inside = np.linspace(-2.0, 2.0, max(2, 2 * pieces + 1))
    np.testing.assert_allclose(knots[knots <= 2.0], inside, atol=1e-12)
    assert np.all(np.diff(knots) > 0.0)
    assert knots[-2] > min(largest, knots[1])
    assert knots.size < 60


@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_curves_are_increasing_between_zero_and_one_with_the_stated_slopes(pieces):
    knots = noise_knots(2.0, 40.0, pieces)
    basis = increasing_basis(POINTS, knots)
    assert basis.heights.min() >= -1e-12
    assert basis.heights.max() <= 1.0 + 1e-12
    assert np.diff(basis.heights, axis=0).min() >= -1e-12
    assert basis.slopes.min() >= 0.0
    step = POINTS[1] - POINTS[0]
    midpoints = increasing_basis(POINTS[:-1] + step / 2, knots)
    np.testing.assert_allclose(np.diff(basis.heights, axis=0) / step, midpoints.slopes, atol=0.02)
    smooth = np.abs(midpoints.curvatures[1:] - midpoints.curvatures[:-1]) < 1e-12
    bent = np.diff(midpoints.slopes, axis=0) / step
    np.testing.assert_allclose(bent[smooth], midpoints.curvatures[1:][smooth], atol=1e-9)


def test_the_averaged_risk_of_projections_is_that_of_their_average():
    """At four times the variance of the noise (Leung, Barron 2006); not at twice as much."""
    truth, generator = np.array([1.5, 0.7]), np.random.default_rng(5)
    projections = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    found = []
    for seen in truth + generator.normal(size=(20_000, 2)):
        risks = (1 - projections) @ seen**2 + 2 * projections.sum(axis=1) - 2
        both = [risk_weights(risks, temperature) for temperature in (4.0, 8.0)]
        found.append([w @ risks - np.sum((w @ projections * seen - truth) ** 2) for w in both])
    bias, other = np.mean(found, axis=0)
    error = np.std(found, axis=0)[0] / np.sqrt(len(found))
    assert abs(bias) < 4 * error < abs(other) / 2

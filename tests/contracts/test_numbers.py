"""One number is the same wherever it is read: estimators, intervals, pages, the release itself."""

import warnings

import numpy as np
import pytest

import dpcov
from dpcov.analysis import (
    NoiseWarning,
    PrivateCorrelation,
    PrivateCovariance,
    PrivatePCA,
    correlation_intervals,
)
from dpcov.published.synthetic import Copula
from dpcov.published.words.numbers import group_numbers

GAUSSIAN, PURE = dpcov.Budget(rho=5), dpcov.Budget(epsilon=5)
TERMS = {
    "gaussian": {"budget": GAUSSIAN, "mechanism": "gaussian"},
    "n private": {"budget": GAUSSIAN, "mechanism": "gaussian", "neighbors": "add-remove-one"},
    "stratified": {"budget": GAUSSIAN, "mechanism": "stratified"},
    "drowned": {"budget": dpcov.Budget(rho="0.002"), "mechanism": "stratified"},
    "laplace": {"budget": PURE, "mechanism": "laplace"},
    "nuclear": {"budget": PURE, "mechanism": "nuclear"},
    "strata of nuclear noise": {"budget": PURE, "mechanism": "stratified-nuclear"},
}


def rows(means=0.9, n_rows=3000, n_features=6):
    """Correlated columns of -1 and 1."""
    rng = np.random.default_rng(0)
    common = rng.random((n_rows, 1)) < (1 + means) / 2
    own = rng.random((n_rows, n_features)) < (1 + means) / 2
    return np.where(np.where(rng.random(own.shape) < 0.7, common, own), 1.0, -1.0)


def made(bounds=((-1, 1),) * 6, **terms):
    columns = {
        f"x{k}": dpcov.Numeric(lower=low, upper=high) for k, (low, high) in enumerate(bounds)
    }
    half = np.array([(high - low) / 2 for low, high in bounds])
    schema = dpcov.Schema(columns=columns, missing="never")
    terms = {"geometry": "schema", "entropy": dpcov.SeededEntropy(3)} | terms
    return dpcov.release(rows() * half, schema=schema, **terms)


@pytest.fixture(params=TERMS)
def release(request):
    return made(**TERMS[request.param])


@pytest.mark.filterwarnings("ignore::dpcov.analysis.NoiseWarning")
def test_pages_and_estimators_say_the_same(release):
    page = group_numbers(release).estimates
    correlation = PrivateCorrelation.from_release(release)
    np.testing.assert_allclose(page.correlation_noise, correlation.noise_std_)
    np.testing.assert_allclose(
        np.nan_to_num(page.correlation), correlation.correlation_ * np.isfinite(page.correlation)
    )
    np.testing.assert_allclose(page.correlation, release.correlation())
    covariance = PrivateCovariance.from_release(release)
    np.testing.assert_allclose(page.means, covariance.location_)
    np.testing.assert_allclose(page.deviations, np.sqrt(np.diagonal(covariance.covariance_)))
    np.testing.assert_allclose(Copula(release, np.random.default_rng(0)).mean, covariance.location_)
    pca = PrivatePCA.from_release(release, scaling="encoded")
    np.testing.assert_allclose(page.spectrum.estimate, pca.scree_, atol=1e-12)
    assert page.spectrum.n_above == (None if page.spectrum.edge is None else pca.n_above_noise_)
    edges = {each.noise_edge_ for each in (pca, covariance, correlation)}
    assert edges == {page.spectrum.edge}


@pytest.mark.parametrize("name", ["gaussian", "n private", "nuclear"])
def test_intervals_have_the_noise_that_estimators_state(name):
    budget = dpcov.Budget(epsilon=100) if name == "nuclear" else dpcov.Budget(rho=1000)
    release = made(**TERMS[name] | {"budget": budget})
    stated = PrivateCorrelation.from_release(release, post="none").noise_std_[np.triu_indices(6, 1)]
    np.testing.assert_allclose(correlation_intervals(release).privacy_std, stated, rtol=0.02)


def test_a_page_of_a_plain_array_is_in_the_units_of_the_array():
    release = dpcov.second_moment(rows(), norm_bound=4.0, budget=GAUSSIAN, mechanism="gaussian")
    page = group_numbers(release)
    pca = PrivatePCA.from_release(release, scaling="encoded", assume_centered=True)
    np.testing.assert_allclose(page.estimates.spectrum.estimate, pca.scree_, atol=1e-12)
    assert page.estimates.spectrum.edge == pytest.approx(pca.noise_edge_)


def test_means_lie_within_the_public_bounds():
    release = made(budget=dpcov.Budget(rho="1e-6"), mechanism="gaussian")
    assert np.abs(release.mean()).max() == 1.0


def test_units_do_not_change_correlations():
    """A column in units a billion times as large is no column without variance."""
    terms = {"budget": dpcov.Budget(rho=1000), "mechanism": "gaussian"}
    bounds = [((-unit, unit), *((-1, 1),) * 5) for unit in (1.0, 1e9)]
    found = [PrivateCorrelation.from_release(made(bounds=each, **terms)) for each in bounds]
    for name in ("correlation_", "partial_correlation_", "noise_std_"):
        np.testing.assert_allclose(getattr(found[0], name), getattr(found[1], name))
    assert np.abs(found[0].partial_correlation_[0, 1:]).min() > 0.05


def test_a_component_that_noise_makes_of_large_means_does_not_stand_out():
    columns = {f"x{k}": dpcov.Numeric(lower=-1, upper=1) for k in range(40)}
    terms = {"budget": dpcov.Budget(rho="0.01"), "mechanism": "gaussian"}
    terms |= {"schema": dpcov.Schema(columns=columns)}
    moments = dpcov.checkpoint(np.full((2000, 40), 0.9), **terms)
    above = []
    for seed in range(10):
        release = dpcov.release(moments, entropy=dpcov.SeededEntropy(seed), **terms)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseWarning)
            pca = PrivatePCA.from_release(release, post="none", scaling="encoded")
        above.append(pca.n_above_noise_)
    assert np.mean(above) < 0.5

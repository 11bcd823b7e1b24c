"""Fit factor analysis to a release by maximum likelihood, as if rows were Gaussian."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from dpcov.analysis.estimators.base import ReleaseEstimator, require_number, with_signs
from dpcov.analysis.problems import InputError, warn_noise
from dpcov.errors import NumericError
from dpcov.published.linalg.symmetric import Array, correlation_of, eigh
from dpcov.published.release import Release

# Share of a column's variance that is its own at least: below, the likelihood may have no maximum
# (Heywood cases).
SMALLEST_UNIQUENESS = 0.005


@dataclass(eq=False, repr=False)
class PrivateFactorAnalysis(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ReleaseEstimator,
):
    """Factor analysis: covariance = loadings times loadings plus uniquenesses.

    Parameters
    ----------
    n_components : int
        Number of factors.

    Attributes
    ----------
    components_ : (k, p) float64
        Loadings in original units; factors have unit variance, by decreasing strength, unrotated.
    noise_variance_ : (p,) float64
        Uniquenesses in original units.
    mean_ : (p,) float64
    noise_edge_ : float
        Largest variance that noise alone would show, in encoded units.
    """

    n_components: int = 1

    def _read(self, release: Release) -> None:
        reading = self._reading()
        k, p = int(require_number("n_components", self.n_components, 1)), len(reading.columns)
        if k > p:
            raise InputError(f"{k} factors cannot be told from {p} features.")
        encoded = reading.floored_covariance("factor analysis")
        self.noise_edge_, level = reading.noise_levels()
        strong = int(np.sum(eigh(reading.encoded_covariance).values > level))
        if strong < k:
            warn_noise(
                f"{k} factors were asked for, but only {strong} directions stand out of the noise "
                "of the release."
            )
        uniqueness, loadings = self._maximize(correlation_of(encoded, undefined=0.0), k)
        variances = np.diagonal(encoded)
        deviations = np.sqrt(np.where(variances > 0, variances, 0.0)) * reading.half_ranges
        self.mean_ = reading.mean
        self.components_ = (loadings * deviations[:, None]).T
        self.noise_variance_ = uniqueness * deviations**2

    def _maximize(self, correlation: Array, k: int) -> tuple[Array, Array]:
        p = len(correlation)
        found = minimize(
            _discrepancy,
            np.log(np.full(p, max(SMALLEST_UNIQUENESS, 0.5 * (1 - k / (2 * p))))),
            args=(correlation, k),
            jac=True,
            method="L-BFGS-B",
            bounds=[(np.log(SMALLEST_UNIQUENESS), 0.0)] * p,
            options={"maxiter": 1000},
        )
        if not np.all(np.isfinite(found.x)):
            raise NumericError("Factor analysis did not converge. Use fewer factors or features.")
        uniqueness = np.exp(found.x)
        return uniqueness, _loadings(correlation, uniqueness, k)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def get_covariance(self) -> Array:
        """Return the model's covariance, in original units."""
        self._require_fitted()
        return np.asarray(self.components_.T @ self.components_ + np.diag(self.noise_variance_))

    def transform(self, X: Any) -> Array:
        """Expected factors of new rows given the model, (n_rows, k)."""
        features, own = self._features_of(X), self.noise_variance_
        # A column without variance says nothing about the factors.
        inverse = np.divide(1.0, own, out=np.zeros_like(own), where=own > 0)
        weighted = self.components_ * inverse
        posterior = np.eye(len(weighted)) + weighted @ self.components_.T
        return np.asarray(np.linalg.solve(posterior, weighted @ (features - self.mean_).T).T)


# With S the correlations and Ψ the diagonal uniquenesses, the loadings of k factors that maximize
# the likelihood for given Ψ are Ψ^½ V (Θ − I)^½, from the k largest eigenvalues Θ and eigenvectors
# V of S* = Ψ^-½ S Ψ^-½ (Lawley, Maxwell 1971).
def _loadings(correlation: Array, uniqueness: Array, k: int) -> Array:
    root = np.sqrt(uniqueness)
    values, vectors = eigh(correlation / np.outer(root, root))
    strengths = np.sqrt(np.maximum(values[::-1][:k] - 1.0, 0.0))
    return with_signs((root[:, None] * vectors[:, ::-1][:, :k] * strengths).T).T


# That leaves −Σ_{j>k} (log θ_j − θ_j + 1) to be minimized over Ψ (Jöreskog 1967); its derivative to
# log ψ_i is that of the full discrepancy, ((ΛΛ' + Ψ − S) / ψ)_ii.
def _discrepancy(log_uniqueness: Array, correlation: Array, k: int) -> tuple[float, Array]:
    uniqueness = np.exp(log_uniqueness)
    root = np.sqrt(uniqueness)
    values = eigh(correlation / np.outer(root, root)).values[::-1]
    # The logarithm of zero would end the search.
    rest = np.maximum(values[k:], np.finfo(np.float64).tiny ** 0.25)
    modeled = np.sum(_loadings(correlation, uniqueness, k) ** 2, axis=1) + uniqueness
    gradient = (modeled - np.diagonal(correlation)) / uniqueness
    return float(np.sum(rest - np.log(rest) - 1.0)), gradient

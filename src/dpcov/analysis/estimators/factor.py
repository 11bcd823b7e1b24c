"""Maximum likelihood factor analysis of a release.

Contract: a release alone; the likelihood is that of a Gaussian with the released correlations.

Notes
-----
With S the correlations and Ψ the diagonal uniquenesses, the loadings of k factors that maximize the likelihood for
given Ψ are Ψ^½ V (Θ − I)^½ from the k largest eigenvalues Θ and eigenvectors V of S* = Ψ^-½ S Ψ^-½ (Lawley, Maxwell
1971), which leaves −Σ_{j>k} (log θ_j − θ_j + 1) to be minimized over Ψ (Jöreskog 1967); its derivative to log ψ_i is
that of the full discrepancy, ((ΛΛ' + Ψ − S) / ψ)_ii.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from dpcov.analysis.estimators.base import Array, ReleaseEstimator, Transformer, require_numbers
from dpcov.analysis.problems import InputError, warn_noise
from dpcov.errors import NumericError
from dpcov.published.linalg.symmetric import correlation_of, eigh
from dpcov.published.release import Release

SMALLEST_UNIQUENESS = 0.005
"""Share of a column's variance that is its own at least: below, the likelihood may have no maximum (Heywood cases)."""


@dataclass(eq=False, repr=False)
class PrivateFactorAnalysis(ClassNamePrefixFeaturesOutMixin, Transformer, ReleaseEstimator):  # type: ignore[misc]
    """Factor analysis: covariance = loadings times loadings plus uniquenesses.

    Parameters
    ----------
    n_components : int
        Number of factors.
    max_iter : int
        Of the optimizer.
    features, post, budget, ...
        As in :class:`~dpcov.analysis.estimators.base.ReleaseEstimator`.

    Attributes
    ----------
    components_ : (k, p) float64
        Loadings in original units; factors have unit variance, by decreasing strength, unrotated.
    noise_variance_ : (p,) float64
        Uniquenesses in original units.
    mean_ : (p,) float64
    n_iter_ : int
    noise_edge_ : float
        Largest variance that noise alone would show, in encoded units.
    """

    n_components: int = 1
    max_iter: int = 1000

    def _read(self, release: Release) -> None:
        reading = self._reading()
        p = len(reading.columns)
        k = int(require_numbers("n_components", self.n_components, 1))
        if k > p:
            raise InputError(f"{k} factors cannot be told from {p} features.")
        encoded = reading.floored_covariance("factor analysis")
        self.noise_edge_ = reading.largest_noise()
        strong = int(
            np.sum(eigh(reading.encoded_covariance).values > reading.clear_of_noise(np.ones(p)))
        )
        if strong < k:
            warn_noise(
                f"{k} factors were asked for, but only {strong} directions stand out of the noise of the release."
            )
        uniqueness, loadings = self._maximize(correlation_of(encoded, undefined=0.0), k)
        variances = np.diagonal(encoded)
        deviations = np.sqrt(np.where(variances > 0, variances, 0.0)) * reading.half_ranges
        self.mean_ = reading.mean
        self.components_ = (loadings * deviations[:, None]).T
        self.noise_variance_ = uniqueness * deviations**2

    def _maximize(self, correlation: Array, k: int) -> tuple[Array, Array]:
        """Uniquenesses (p,) and loadings (p, k) of a correlation matrix."""
        p = len(correlation)
        start = np.log(np.full(p, max(SMALLEST_UNIQUENESS, 0.5 * (1 - k / (2 * p)))))
        found = minimize(
            _discrepancy,
            start,
            args=(correlation, k),
            jac=True,
            method="L-BFGS-B",
            bounds=[(np.log(SMALLEST_UNIQUENESS), 0.0)] * p,
            options={"maxiter": int(self.max_iter)},
        )
        if not np.all(np.isfinite(found.x)):
            raise NumericError("Factor analysis did not converge. Use fewer factors or features.")
        self.n_iter_ = max(1, int(found.nit))
        uniqueness = np.exp(found.x)
        return uniqueness, _loadings(correlation, uniqueness, k)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def get_covariance(self) -> Array:
        """The model's covariance, in original units."""
        self._require_fitted()
        return np.asarray(self.components_.T @ self.components_ + np.diag(self.noise_variance_))

    def transform(self, X: Any) -> Array:
        """Expected factors of new rows given the model, (n_rows, k)."""
        features = self._features_of(X)
        inverse = np.divide(
            1.0,
            self.noise_variance_,
            out=np.zeros_like(self.noise_variance_),
            where=self.noise_variance_ > 0,
        )
        weighted = self.components_ * inverse
        posterior = np.eye(len(weighted)) + weighted @ self.components_.T
        return np.asarray(np.linalg.solve(posterior, weighted @ (features - self.mean_).T).T)


def _loadings(correlation: Array, uniqueness: Array, k: int) -> Array:
    """Most likely loadings for given uniquenesses; the largest entry of each factor is positive."""
    root = np.sqrt(uniqueness)
    values, vectors = eigh(correlation / np.outer(root, root))
    strengths = np.sqrt(np.maximum(values[::-1][:k] - 1.0, 0.0))
    loadings = root[:, None] * vectors[:, ::-1][:, :k] * strengths
    largest = np.take_along_axis(loadings, np.abs(loadings).argmax(axis=0)[None], axis=0)
    return np.asarray(loadings * np.where(largest < 0, -1.0, 1.0))


def _discrepancy(log_uniqueness: Array, correlation: Array, k: int) -> tuple[float, Array]:
    """Concentrated negative log likelihood and its gradient (the module's notes)."""
    uniqueness = np.exp(log_uniqueness)
    root = np.sqrt(uniqueness)
    values = eigh(correlation / np.outer(root, root)).values[::-1]
    rest = np.maximum(values[k:], np.finfo(np.float64).tiny ** 0.25)
    loadings = _loadings(correlation, uniqueness, k)
    modelled = np.sum(loadings**2, axis=1) + uniqueness
    return float(np.sum(rest - np.log(rest) - 1.0)), (
        modelled - np.diagonal(correlation)
    ) / uniqueness

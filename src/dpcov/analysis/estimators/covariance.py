"""Give the covariance of a release as scikit-learn's EmpiricalCovariance gives that of rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.covariance import EmpiricalCovariance, log_likelihood

from dpcov.analysis.estimators.base import ReleaseEstimator
from dpcov.analysis.features import Array
from dpcov.analysis.intervals.inference import variance_intervals
from dpcov.published.base import on_one_thread
from dpcov.published.release import Release


@dataclass(eq=False, repr=False)
class PrivateCovariance(ReleaseEstimator, EmpiricalCovariance):  # type: ignore[misc]
    """Location and covariance of a release.

    Parameters
    ----------
    store_precision : bool
        Keep the inverse.
    assume_centered : bool
        Take the mean to be zero: ``covariance_`` is then the second moment.

    Attributes
    ----------
    location_ : (p,) float64
        Means, within the public bounds.
    covariance_ : (p, p) float64
        Divided by n, in original units.
    precision_ : (p, p) float64 or None
        Inverse, after variances that the noise hides are raised to the noise edge; constant and
        collinear columns get a pseudo-inverse where there is no noise.
    noise_edge_ : float
        Largest eigenvalue of noise alone, in encoded units; 0 where it is unknown.

    Examples
    --------
    >>> import numpy as np, dpcov
    >>> rows = np.random.default_rng(0).uniform(size=(10_000, 2))
    >>> made = PrivateCovariance(bounds=(0, 1), budget=dpcov.Budget(rho=1)).fit(rows)
    >>> made.covariance_.shape
    (2, 2)
    """

    store_precision: bool = True
    assume_centered: bool = False

    def _read(self, release: Release) -> None:
        reading = self._reading(self.assume_centered)
        self.location_ = reading.mean
        self.covariance_ = reading.covariance
        self.noise_edge_ = reading.noise_levels()[0]
        self.precision_ = reading.precision() if self.store_precision else None

    @on_one_thread
    def get_precision(self) -> Array:
        """Inverse of the covariance, as ``precision_``."""
        self._require_fitted()
        precision = self.precision_
        return self._reading(self.assume_centered).precision() if precision is None else precision

    def _intervals(self, **options: Any) -> Any:
        return variance_intervals(self.release_, list(self.get_encoded_names()), **options)

    def score(self, X_test: Any, y: Any = None) -> float:
        """Mean Gaussian log likelihood of new rows; ``y`` is ignored."""
        centered = self._features_of(X_test) - self.location_
        return float(log_likelihood(centered.T @ centered / len(centered), self.get_precision()))

    def mahalanobis(self, X: Any) -> Array:
        """Squared Mahalanobis distances of new rows from the location, shape (n_rows,)."""
        centered = self._features_of(X) - self.location_
        return np.asarray(np.einsum("ij,jk,ik->i", centered, self.get_precision(), centered))

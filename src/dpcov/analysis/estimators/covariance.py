"""Give covariances of a release, correlations, partial correlations and sparse graphs.

A column without variance, or whose variance the noise hides, is uncorrelated with all others.
"""

import itertools
from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Any, Literal

import numpy as np
from sklearn.covariance import EmpiricalCovariance, log_likelihood

from dpcov.analysis.estimators.base import ReleaseEstimator
from dpcov.analysis.estimators.sparse_inverse import sparse_inverse
from dpcov.analysis.features import Columns
from dpcov.analysis.intervals.inference import correlation_intervals, variance_intervals
from dpcov.analysis.problems import (
    UNKNOWN_PENALTY,
    InputError,
    UnknownNoiseError,
    check_penalty,
    checked,
    require_matrix,
    warn_noise,
)
from dpcov.analysis.reading import Reading
from dpcov.published.estimate.entry_noise import clear_of_pairs, hidden_variance
from dpcov.published.linalg.symmetric import Array, correlation_of
from dpcov.published.release import Release
from dpcov.published.words.design import design_of


@dataclass(eq=False, repr=False)
class PrivateCovariance(ReleaseEstimator, EmpiricalCovariance):  # type: ignore[misc]
    """Location and covariance; ``assume_centered`` gives zeros and the second moment.

    Attributes
    ----------
    location_, covariance_ : (p,) and (p, p) float64
        Means, within the public bounds; covariance, divided by n, in original units.
    precision_ : (p, p) float64
        Inverse, after variances that the noise hides are raised to the noise edge; constant and
        collinear columns get a pseudo-inverse where there is no noise.
    noise_edge_ : float
        Largest eigenvalue of noise alone, in encoded units; 0 where it is unknown.
    """

    assume_centered: bool = False
    # For scikit-learn's get_precision.
    store_precision = True

    def _read(self, release: Release) -> None:
        reading = self._reading(self.assume_centered)
        self.location_ = reading.mean
        self.covariance_ = reading.covariance
        self.noise_edge_ = reading.noise_levels()[0]
        scale = np.outer(reading.half_ranges, reading.half_ranges)
        self.precision_ = reading.encoded_precision() / scale

    def _intervals(self, **options: Any) -> Any:
        return variance_intervals(self.release_, list(self.get_encoded_names()), **options)

    def score(self, X_test: Any, y: Any = None) -> float:
        """Mean Gaussian log likelihood of new rows; ``y`` is ignored."""
        centered = self._features_of(X_test) - self.location_
        return float(log_likelihood(centered.T @ centered / len(centered), self.precision_))

    def mahalanobis(self, X: Any) -> Array:
        """Squared Mahalanobis distances of new rows from the location, shape (n_rows,)."""
        centered = self._features_of(X) - self.location_
        return np.asarray(np.einsum("ij,jk,ik->i", centered, self.precision_, centered))

    def error_norm(
        self,
        comp_cov: Any,
        norm: Literal["frobenius", "spectral"] = "frobenius",
        scaling: bool = True,
        squared: bool = True,
    ) -> float:
        """Distance from another covariance, (p, p), as scikit-learn measures it."""
        self._require_fitted()
        checked("norm", norm, Literal["frobenius", "spectral"])
        p = len(self.covariance_)
        other = require_matrix(comp_cov, wanted := f"Give a covariance of numbers, ({p}, {p}).")
        if other.shape != (p, p):
            raise InputError(wanted)
        return float(super().error_norm(other, norm, scaling, squared))


def partial_correlation_of(precision: Array) -> Array:
    """Correlations of pairs with all other columns held fixed, from the inverse covariance."""
    partial = -correlation_of(precision, undefined=0.0)
    np.fill_diagonal(partial, 1.0)
    return partial


@dataclass(eq=False, repr=False)
class PrivateCorrelation(ReleaseEstimator):
    """Correlations and partial correlations.

    Attributes
    ----------
    correlation_, partial_correlation_ : (p, p) float64
        The partial ones and ``noise_edge_`` are from ``precision_`` as in `PrivateCovariance`.
    noise_std_ : (p, p) float64
        Standard deviation of the noise alone, before post-processing; 1 where nothing is known,
        NaN where the noise has no known law or leaves a column no variance.
    """

    def _read(self, release: Release) -> None:
        reading = self._reading()
        # Encoded units are comparable, so that "no variance" means the same for every column.
        hidden = hidden_variance(reading.shifts, reading.noise)
        self.correlation_ = correlation_of(reading.encoded_covariance, undefined=0.0, least=hidden)
        self.partial_correlation_ = partial_correlation_of(reading.encoded_precision())
        self.noise_std_ = reading.correlation_noise
        laplace_part = 1.0 if reading.noise is None else reading.noise.laplace_part
        self._clear = clear_of_pairs(len(self._places), laplace_part)
        self.noise_edge_ = reading.noise_levels()[0]

    def _intervals(self, **options: Any) -> Any:
        return correlation_intervals(self.release_, list(self.get_encoded_names()), **options)

    def to_frame(self, *, partial: bool = False) -> Any:
        """Correlations, or the partial ones, as a pandas data frame with names."""
        import pandas as pd  # type: ignore[import-untyped]

        names = self.get_encoded_names()
        chosen = self.partial_correlation_ if partial else self.correlation_
        return pd.DataFrame(chosen, index=names, columns=names)

    def to_pairs(self) -> Any:
        """Pairs of different table columns as a pandas data frame, the clearest first.

        ``noise_std`` is the standard deviation of the noise; ``below_noise`` says that noise alone
        makes any correlation of the table so large in one of twenty releases, or more often.
        """
        import pandas as pd

        places = itertools.combinations(enumerate(self._columns()), 2)
        pairs = [
            (a.name, b.name, self.correlation_[i, j], self.noise_std_[i, j])
            for (i, a), (j, b) in places
            if a.source != b.source
        ]
        made = pd.DataFrame(pairs, columns=["first", "second", "correlation", "noise_std"])
        clearness = made["correlation"].abs() / made["noise_std"]
        made["below_noise"] = ~(clearness >= self._clear)
        return made.loc[clearness.sort_values(ascending=False).index].reset_index(drop=True)


def _sampling(release: Release, shares: Array | None) -> float:
    """Sampling variance of a correlation of zero, of a usual pair of features."""
    n = release.n_rows
    if not np.isfinite(n):
        return 0.0
    off = np.ones(1) if shares is None else shares[np.triu_indices(len(shares), 1)]
    present = float(np.median(off)) if off.size else 1.0
    # Of pairs that hardly any row has both of, nothing is known.
    return design_of(release).effect / (n * present) if present else inf


@dataclass(eq=False, repr=False)
class PrivateGraphicalLasso(ReleaseEstimator):
    """Sparse inverse covariance, by the graphical lasso on the correlation scale.

    Parameters
    ----------
    alpha : float or "auto"
        Penalty on correlations.  ``"auto"``: what the largest of p (p - 1) / 2 correlations would
        reach by noise and sampling alone, sqrt(2 log(p (p - 1) / 2)) standard deviations.

    Attributes
    ----------
    covariance_, precision_, partial_correlation_ : (p, p) float64
        In original units; ``precision_`` has exact zeros.
    location_, alpha_ : (p,) float64, float
        Means, and the penalty in use.
    """

    alpha: float | Literal["auto"] = "auto"

    def _check(self, columns: Columns, unasked: str | None) -> None:
        super()._check(columns, unasked)
        check_penalty(self.alpha)

    def _read(self, release: Release) -> None:
        reading = self._reading()
        # The algorithm needs a positive definite matrix.
        encoded = reading.floored_covariance("the graphical lasso")
        self.alpha_ = self._penalty(reading)
        covariance, precision = self._solve(correlation_of(encoded, undefined=0.0))
        variances = np.diagonal(encoded)
        scale = np.sqrt(np.where(variances > 0, variances, 1.0)) * reading.half_ranges
        self.location_ = reading.mean
        self.covariance_ = covariance * np.outer(scale, scale)
        self.precision_ = precision / np.outer(scale, scale)
        self.partial_correlation_ = partial_correlation_of(precision)

    def _penalty(self, reading: Reading) -> float:
        if self.alpha != "auto":
            return float(self.alpha)
        if reading.noise is None:
            raise UnknownNoiseError(UNKNOWN_PENALTY)
        p = len(reading.places)
        # A hidden column has the noise 1: its correlations can be anything.
        off = np.nan_to_num(reading.correlation_noise[np.triu_indices(p, 1)], nan=1.0)
        noise = float(np.median(off)) if off.size else 0.0
        sampling = _sampling(reading.release, reading.noise.shares)
        alpha = sqrt(2 * log(max(2.0, p * (p - 1) / 2)) * (min(noise, 1.0) ** 2 + sampling))
        if alpha >= 1:
            warn_noise("The noise on correlations hides all of them: no edge can be found.")
        return min(alpha, 1.0)

    def _solve(self, correlation: Array) -> tuple[Array, Array]:
        identity = np.eye(len(correlation))
        if self.alpha_ >= np.abs(correlation - identity).max(initial=0.0):
            # No edge survives.
            return identity, identity
        return sparse_inverse(correlation, self.alpha_)

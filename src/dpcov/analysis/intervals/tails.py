"""Fourth moments that a release does not have, from what it has: means, variances, covariances and public bounds.

Contract: public numbers only; never lighter tails than the normal law's, except for yes-or-no columns, whose
moments of every order are known.  docs/inference.md derives and measures the rules.

Notes
-----
A column of mean m and variance s has most of its rows in a bulk and a few outliers.  The bulk gets the excess kurtosis
6 s / b² of the Gamma law that starts at the nearer bound, at the distance b from m (the exponential law if s = b²).
Outliers at the farther bound, at the distance B, may make up the share w of the variance, and |u| <= B then adds
w (B² / s - 3) to the kurtosis.  w = 0 is the bulk alone; w = 1 the worst law within the bounds.
For a pair of columns the law is elliptical with the larger kurtosis; with one yes-or-no column, that of a linear
regression on it; with two, the exact one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcov.published.columns import EncodedColumn

Array = NDArray[np.float64]

TWO_VALUED = ("boolean", "category", "missing")

OUTLIERS = 0.05
"""Share w of a column's variance that may come from values at its farther bound; measured in docs/inference.md."""


@dataclass(frozen=True, kw_only=True)
class ColumnShape:
    """A centered column.

    Parameters
    ----------
    variance : float
    kurtosis : float
        E u⁴ / variance², relative to the normal law's 3.
    skew_slope : float or None
        For a column of two values, t with u² = t u + variance.
    outliers : float
        What outliers add to E u⁴, relative to the variance.
    """

    variance: float
    kurtosis: float
    skew_slope: float | None
    outliers: float = 0.0

    @property
    def square_variance(self) -> tuple[float, float]:
        """(p, q) with Var u² = p t + q t² for a column of this shape and variance t."""
        added = self.outliers / self.variance if self.variance > 0 else 0.0
        return self.outliers, 3 * self.kurtosis - added - 1


def column_shape(
    column: EncodedColumn, mean: float, variance: float, lower: float, upper: float
) -> ColumnShape:
    """Shape of an encoded column."""
    if column.kind in TWO_VALUED:
        slope = lower + upper - 2 * mean
        own = (slope**2 / variance + 1) / 3 if variance > 0 else 1.0
        return ColumnShape(variance=variance, kurtosis=max(1.0, own), skew_slope=slope)
    reach = max(mean - lower, upper - mean) ** 2
    largest = reach / variance if variance > 0 else 3.0
    if largest <= 3:
        return ColumnShape(variance=variance, kurtosis=1.0, skew_slope=None)
    bulk = gamma_excess(variance, min(mean - lower, upper - mean))
    return ColumnShape(
        variance=variance,
        kurtosis=min(3 + bulk + OUTLIERS * (largest - 3), largest) / 3,
        skew_slope=None,
        outliers=OUTLIERS * reach,
    )


def gamma_excess(variance: float, distance: float) -> float:
    """Excess kurtosis of the Gamma law with this variance, whose mean is this far from where it starts.

    Examples
    --------
    >>> gamma_excess(4.0, 2.0)
    6.0
    """
    return 6 * variance / distance**2 if distance > 0 else 0.0


def pair_covariance(first: ColumnShape, second: ColumnShape, covariance: float) -> Array:
    """Covariance matrix of (u², uw, w²) for one row, (3, 3)."""
    if first.skew_slope is not None and second.skew_slope is not None:
        return _two_valued_pair(first, second, covariance)
    if second.skew_slope is not None:
        return _regression_pair(second, first, covariance)[::-1, ::-1]
    if first.skew_slope is not None:
        return _regression_pair(first, second, covariance)
    return _elliptical_pair(first, second, covariance)


def _elliptical_pair(first: ColumnShape, second: ColumnShape, c: float) -> Array:
    kappa, a, b = max(first.kurtosis, second.kurtosis), first.variance, second.variance
    means = np.array([a, c, b])
    normal = np.array(
        [
            [2 * a * a, 2 * a * c, 2 * c * c],
            [2 * a * c, a * b + c * c, 2 * b * c],
            [2 * c * c, 2 * b * c, 2 * b * b],
        ]
    )
    return np.asarray(kappa * normal + (kappa - 1) * np.outer(means, means))


def _two_valued_pair(first: ColumnShape, second: ColumnShape, c: float) -> Array:
    """Exact, since u² = t u + variance."""
    t, s = float(first.skew_slope or 0.0), float(second.skew_slope or 0.0)
    a, b = first.variance, second.variance
    uu, ww, uw = t * t * a, s * s * b, t * s * c + a * b - c * c
    return np.array(
        [[uu, t * t * c, t * s * c], [t * t * c, uw, s * s * c], [t * s * c, s * s * c, ww]]
    )


def _regression_pair(first: ColumnShape, second: ColumnShape, c: float) -> Array:
    """The second is slope times the first, which has two values, plus an independent symmetric rest."""
    t, a = float(first.skew_slope or 0.0), first.variance
    slope = c / a if a > 0 else 0.0
    rest = max(0.0, second.variance - slope * c)
    spread = t * t * a
    last = slope**4 * (spread + a * a) + 6 * slope**2 * a * rest + 3 * second.kurtosis * rest**2
    return np.array(
        [
            [spread, slope * spread, slope**2 * spread],
            [
                slope * spread,
                slope**2 * spread + rest * a,
                slope**3 * spread + 2 * slope * a * rest,
            ],
            [
                slope**2 * spread,
                slope**3 * spread + 2 * slope * a * rest,
                max(0.0, last - (slope**2 * a + rest) ** 2),
            ],
        ]
    )

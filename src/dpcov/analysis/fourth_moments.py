"""Fourth moments that a release does not have, from what it has: means, variances, covariances and public bounds.

Promise: public numbers only; never lighter tails than the normal law's, except for yes-or-no columns, whose moments
of every order are known.  docs/inference.md derives and measures the rules.

Notes
-----
A column within [l, h] of mean m and variance s gets the kurtosis of the Beta law with these, or 3 if that is larger.
Beta contains the cases that the bounds can tell: the exponential-like column that starts at its bound, and the
yes-or-no column, of which it is exact.  For a pair of columns the law is elliptical with the larger kurtosis; with one
yes-or-no column, that of a linear regression on it; with two, the exact one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcov.columns import EncodedColumn

Array = NDArray[np.float64]

TWO_VALUED = ("boolean", "category", "missing")


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
    """

    variance: float
    kurtosis: float
    skew_slope: float | None


def column_shape(
    column: EncodedColumn, mean: float, variance: float, lower: float, upper: float
) -> ColumnShape:
    """Shape of an encoded column."""
    slope = lower + upper - 2 * mean if column.kind in TWO_VALUED else None
    return ColumnShape(
        variance=variance,
        kurtosis=max(1.0, beta_kurtosis(mean, variance, lower, upper) / 3),
        skew_slope=slope,
    )


def beta_kurtosis(mean: float, variance: float, lower: float, upper: float) -> float:
    """Kurtosis of the Beta law on [lower, upper] with this mean and variance; 3 where there is none.

    Examples
    --------
    >>> round(beta_kurtosis(0.5, 0.25, 0, 1), 6), round(beta_kurtosis(0, 1e-6, -1, 1), 3)
    (1.0, 3.0)
    """
    width = upper - lower
    m, s = (mean - lower) / width, variance / width**2
    if not (0 < m < 1 and s > 0):
        return 3.0
    # Sum of the law's two parameters; zero for a law on the ends alone.
    total = max(0.0, m * (1 - m) / s - 1)
    share = m * (1 - m)
    excess = 6 * ((total + 1) * (1 - 4 * share) - share * (total + 2)) / (share * (total + 2) * (total + 3))
    return float(3 + excess)


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
    return np.array([[uu, t * t * c, t * s * c], [t * t * c, uw, s * s * c], [t * s * c, s * s * c, ww]])


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
            [slope * spread, slope**2 * spread + rest * a, slope**3 * spread + 2 * slope * a * rest],
            [
                slope**2 * spread,
                slope**3 * spread + 2 * slope * a * rest,
                max(0.0, last - (slope**2 * a + rest) ** 2),
            ],
        ]
    )

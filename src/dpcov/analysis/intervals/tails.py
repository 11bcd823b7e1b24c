"""Guess the fourth moments that a release does not have from means, variances and public bounds.

Tails are never lighter than the normal law's, except for yes-or-no columns, whose moments of every
order are known.  docs/inference.md derives and measures the rules.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpcov.published.columns import EncodedColumn
from dpcov.published.linalg.symmetric import Array

# What stands in for fourth moments: a law that fits a column's mean, variance and public bounds,
# never with lighter tails than the normal law; or the worst law within the bounds.
Tails = Literal["moments", "bounded"]

TWO_VALUED = ("boolean", "category", "missing")

# Share w of a column's variance that may come from values at its farther bound (measured).
OUTLIERS = 0.05


@dataclass(frozen=True, kw_only=True)
class ColumnShape:
    """The law of a centered column u, as far as intervals need it."""

    variance: float
    # E u⁴ / variance², relative to the normal law's 3.
    kurtosis: float
    # For a column of two values, t with u² = t u + variance.
    skew_slope: float | None
    # What outliers add to E u⁴, relative to the variance.
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
    # The bulk follows the Gamma law that starts at the nearer bound: excess kurtosis 6 s / b².
    nearer = min(mean - lower, upper - mean)
    bulk = 6 * variance / nearer**2 if nearer > 0 else 0.0
    # Outliers at the farther bound B add w (B² / s - 3), and no law exceeds the bounds' B² / s.
    kurtosis = min(3 + bulk + OUTLIERS * (largest - 3), largest) / 3
    outliers = OUTLIERS * reach
    return ColumnShape(variance=variance, kurtosis=kurtosis, skew_slope=None, outliers=outliers)


def pair_covariance(first: ColumnShape, second: ColumnShape, covariance: float) -> Array:
    """Covariance matrix of (u², uw, w²) for one row, (3, 3)."""
    if first.skew_slope is not None and second.skew_slope is not None:
        return _two_valued_pair(first, second, covariance)
    if second.skew_slope is not None:
        return _regression_pair(second, first, covariance)[::-1, ::-1]
    if first.skew_slope is not None:
        return _regression_pair(first, second, covariance)
    return _elliptical_pair(first, second, covariance)


# Two columns of numbers: elliptical with the larger kurtosis.
def _elliptical_pair(first: ColumnShape, second: ColumnShape, c: float) -> Array:
    kappa, a, b = max(first.kurtosis, second.kurtosis), first.variance, second.variance
    normal = _symmetric(2 * a * a, 2 * a * c, 2 * c * c, a * b + c * c, 2 * b * c, 2 * b * b)
    means = np.array([a, c, b])
    return np.asarray(kappa * normal + (kappa - 1) * np.outer(means, means))


# Two yes-or-no columns: exact, since u² = t u + variance.
def _two_valued_pair(first: ColumnShape, second: ColumnShape, c: float) -> Array:
    t, s = float(first.skew_slope or 0.0), float(second.skew_slope or 0.0)
    a, b = first.variance, second.variance
    products = t * s * c + a * b - c * c
    return _symmetric(t * t * a, t * t * c, t * s * c, products, s * s * c, s * s * b)


# The second column is slope times the first, which has two values, plus a symmetric rest.
def _regression_pair(first: ColumnShape, second: ColumnShape, c: float) -> Array:
    t, a = float(first.skew_slope or 0.0), first.variance
    slope = c / a if a > 0 else 0.0
    rest = max(0.0, second.variance - slope * c)
    spread = t * t * a
    last = slope**4 * (spread + a * a) + 6 * slope**2 * a * rest + 3 * second.kurtosis * rest**2
    return _symmetric(
        spread,
        slope * spread,
        slope**2 * spread,
        slope**2 * spread + rest * a,
        slope**3 * spread + 2 * slope * a * rest,
        max(0.0, last - (slope**2 * a + rest) ** 2),
    )


def _symmetric(aa: float, ab: float, ac: float, bb: float, bc: float, cc: float) -> Array:
    return np.array([[aa, ab, ac], [ab, bb, bc], [ac, bc, cc]])

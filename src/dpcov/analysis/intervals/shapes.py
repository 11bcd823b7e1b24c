"""Guess the fourth moments of columns, which no release has, from what it has.

Contract: from means, variances, public bounds, and the length to which rows are scaled down.  Tails
are never lighter than the normal law's, except for yes-or-no columns, whose moments of every order
are known.  Derived in docs/inference.md.
"""

from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

from dpcov.published.file.columns import TWO_VALUED, EncodedColumn
from dpcov.published.linalg.symmetric import Array

# Share w of a column's variance that may come from values at its farther bound (measured).
OUTLIERS = 0.05


@dataclass(frozen=True)
class ColumnShape:
    """The law of a centered column u, as far as intervals need it; or of several, in arrays."""

    variance: Any
    # E u⁴ / variance², relative to the normal law's 3.
    kurtosis: Any
    # For a column of two values, t with u² = t u + variance; else NaN.
    skew_slope: Any = nan
    # What outliers add to E u⁴, relative to the variance.
    outliers: Any = 0.0

    @property
    def square_variance(self) -> tuple[float, float]:
        """(p, q) with Var u² = p t + q t² for a column of this shape and variance t."""
        added = self.outliers / self.variance if self.variance > 0 else 0.0
        return self.outliers, 3 * self.kurtosis - added - 1


def column_shape(
    column: EncodedColumn, ends: tuple[float, float], mean: float, variance: float
) -> ColumnShape:
    """Shape of an encoded column whose values in the rows lie between these ends."""
    nearer, farther = sorted((mean - ends[0], ends[1] - mean))
    if column.kind in TWO_VALUED:
        slope = column.lowest + column.largest - 2 * mean
        own = (slope**2 / variance + 1) / 3 if variance > 0 else 1.0
        return ColumnShape(variance, max(1.0, own), slope)
    reach = farther**2
    largest = reach / variance if variance > 0 else 3.0
    if largest <= 3:
        return ColumnShape(variance, 1.0)
    # The bulk follows the Gamma law that starts at the nearer end: excess kurtosis 6 s / b².
    bulk = 6 * variance / nearer**2 if nearer > 0 else 0.0
    # Outliers at the farther end B add w (B² / s - 3), and no law exceeds the bounds' B² / s.
    kurtosis = min(3 + bulk + OUTLIERS * (largest - 3), largest) / 3
    return ColumnShape(variance, kurtosis, outliers=OUTLIERS * reach)


def pair_covariance(first: ColumnShape, second: ColumnShape, covariance: Any) -> Array:
    """Covariance matrix of (u², uw, w²) for one row, (3, 3); of several pairs (3, 3, n)."""
    two, other = ~np.isnan(first.skew_slope), ~np.isnan(second.skew_slope)
    found = [
        _two_valued_pair(first, second, covariance),
        _regression_pair(first, second, covariance),
        _regression_pair(second, first, covariance)[::-1, ::-1],
    ]
    return np.select([two & other, two, other], found, _pair(first, second, covariance))


def _pair(first: ColumnShape, second: ColumnShape, c: Any) -> Array:
    # Two columns of numbers: elliptical with the larger kurtosis.
    a, b, kappa = first.variance, second.variance, np.maximum(first.kurtosis, second.kurtosis)
    normal = symmetric(2 * a * a, 2 * a * c, 2 * c * c, a * b + c * c, 2 * b * c, 2 * b * b)
    means = of_pair(a, c, b)
    return np.asarray(kappa * normal + (kappa - 1) * means[:, None] * means)


def _two_valued_pair(first: ColumnShape, second: ColumnShape, c: Any) -> Array:
    # Exact, since u² = t u + variance.
    a, b, t, s = first.variance, second.variance, first.skew_slope, second.skew_slope
    c = _possible(first, second, c)
    products = t * s * c + a * b - c * c
    return symmetric(t * t * a, t * t * c, t * s * c, products, s * s * c, s * s * b)


def _possible(first: ColumnShape, second: ColumnShape, c: Any) -> Any:
    """The covariance of two yes-or-no columns, moved to where some law has it (Fréchet 1951)."""
    # With t = 1 - 2 p in units of the distance of the two values, whose square is t² + 4 variance.
    widths = [np.sqrt(x.skew_slope**2 + 4 * x.variance) for x in (first, second)]
    p, q = (
        (1 - _ratio(x.skew_slope, width)) / 2
        for x, width in zip((first, second), widths, strict=True)
    )
    unit = widths[0] * widths[1]
    least = unit * (np.maximum(0.0, p + q - 1) - p * q)
    return np.clip(c, least, unit * (np.minimum(p, q) - p * q))


# The first column has two values, and the second is slope times it, plus a symmetric rest.
def _regression_pair(first: ColumnShape, second: ColumnShape, c: Any) -> Array:
    a, t = first.variance, first.skew_slope
    slope = _ratio(c, a)
    rest = np.maximum(0.0, second.variance - slope * c)
    spread = t * t * a
    last = slope**4 * (spread + a * a) + 6 * slope**2 * a * rest + 3 * second.kurtosis * rest**2
    return symmetric(
        spread,
        slope * spread,
        slope**2 * spread,
        slope**2 * spread + rest * a,
        slope**3 * spread + 2 * slope * a * rest,
        np.maximum(0.0, last - (slope**2 * a + rest) ** 2),
    )


def _ratio(of: Any, over: Any) -> Array:
    """Zero where ``over`` is zero, or where there is none."""
    of, over = np.broadcast_arrays(of, over)
    return np.asarray(np.divide(of, over, out=np.zeros(of.shape), where=over > 0))


def of_pair(*parts: Any) -> Array:
    """Numbers or arrays one after the other, (k, ...)."""
    return np.stack(np.broadcast_arrays(*parts))


def symmetric(aa: Any, ab: Any, ac: Any, bb: Any, bc: Any, cc: Any) -> Array:
    """Of the upper triangle, (3, 3, ...)."""
    return of_pair(aa, ab, ac, bb, bc, cc)[[[0, 1, 2], [1, 3, 4], [2, 4, 5]]]

"""Guess the fourth moments of columns, which no release has, from what it has.

Contract: from means, variances, public bounds, and the length to which rows are scaled down.  Tails
are never lighter than the normal law's, except for yes-or-no columns, whose moments of every order
are known.  docs/inference.md derives and measures the rules.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from dpcov.published.columns import TWO_VALUED, EncodedColumn
from dpcov.published.linalg.symmetric import Array

# Share w of a column's variance that may come from values at its farther bound (measured).
OUTLIERS = 0.05


@dataclass(frozen=True)
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
        return ColumnShape(variance, 1.0, None)
    # The bulk follows the Gamma law that starts at the nearer end: excess kurtosis 6 s / b².
    bulk = 6 * variance / nearer**2 if nearer > 0 else 0.0
    # Outliers at the farther end B add w (B² / s - 3), and no law exceeds the bounds' B² / s.
    kurtosis = min(3 + bulk + OUTLIERS * (largest - 3), largest) / 3
    return ColumnShape(variance, kurtosis, None, OUTLIERS * reach)


def pair_covariance(first: ColumnShape, second: ColumnShape, covariance: float) -> Array:
    """Covariance matrix of (u², uw, w²) for one row, (3, 3)."""
    a, b, c, t, s = first.variance, second.variance, covariance, first.skew_slope, second.skew_slope
    if t is not None and s is not None:
        # Two yes-or-no columns: exact, since u² = t u + variance.
        c = _possible(first, second, c)
        products = t * s * c + a * b - c * c
        return _symmetric(t * t * a, t * t * c, t * s * c, products, s * s * c, s * s * b)
    if s is not None:
        return _regression_pair(s, second, first, c)[::-1, ::-1]
    if t is not None:
        return _regression_pair(t, first, second, c)
    # Two columns of numbers: elliptical with the larger kurtosis.
    kappa, means = max(first.kurtosis, second.kurtosis), np.array([a, c, b])
    normal = _symmetric(2 * a * a, 2 * a * c, 2 * c * c, a * b + c * c, 2 * b * c, 2 * b * b)
    return np.asarray(kappa * normal + (kappa - 1) * np.outer(means, means))


def _possible(first: ColumnShape, second: ColumnShape, c: float) -> float:
    """The covariance of two yes-or-no columns, moved to where some law has it (Fréchet 1951)."""
    # With t = 1 - 2 p in units of the distance of the two values, whose square is t² + 4 variance.
    widths = [sqrt((x.skew_slope or 0.0) ** 2 + 4 * x.variance) for x in (first, second)]
    if not min(widths) > 0:
        return 0.0
    p, q = (
        (1 - (x.skew_slope or 0.0) / width) / 2
        for x, width in zip((first, second), widths, strict=True)
    )
    unit = widths[0] * widths[1]
    return float(np.clip(c, unit * (max(0.0, p + q - 1) - p * q), unit * (min(p, q) - p * q)))


# The second column is slope times the first, which has two values, plus a symmetric rest.
def _regression_pair(t: float, first: ColumnShape, second: ColumnShape, c: float) -> Array:
    a = first.variance
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

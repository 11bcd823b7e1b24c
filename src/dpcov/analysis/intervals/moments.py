"""Intervals for means and variances.

Contract: a release alone; limits within the public bounds.
"""

import numpy as np

from dpcov.analysis.features import Places
from dpcov.analysis.intervals.law import Array, MomentLaw, Tails, public_range
from dpcov.analysis.intervals.table import Interval, ratio_interval
from dpcov.analysis.intervals.tails import TWO_VALUED, ColumnShape, column_shape

Triple = tuple[float, float, float]


def mean_lines(law: MomentLaw, places: Places, level: float) -> list[Interval]:
    """Ratios of two noisy moments, the column's and the intercept's; in original units."""
    lower, upper = public_range(law.columns)
    lines = []
    for place in places + 1:
        column = law.columns[place]
        line = ratio_interval(
            column.name,
            (float(law.moment[0, place]), law.count),
            _mean_sampling(law, int(place), lower[place], upper[place]),
            _privacy(law, int(place), np.array([[0.0, 0.5], [0.5, 0.0]])),
            reach=law.reaches(level),
        )
        lines.append(
            line.clipped(lower[place], upper[place]).scaled(column.half_range, column.center)
        )
    return lines


def _mean_sampling(law: MomentLaw, place: int, lower: float, upper: float) -> Triple:
    """Variance of a row about a candidate mean t: (t - lower)(upper - t) where there are two values (Wilson 1927)."""
    rows = law.sampling_factor
    if law.columns[place].kind in TWO_VALUED:
        return -lower * upper * rows, -(lower + upper) / 2 * rows, -rows
    return float(shape_of(law, place).variance) * rows, 0.0, 0.0


def variance_lines(law: MomentLaw, places: Places, level: float, tails: Tails) -> list[Interval]:
    """In squared original units."""
    ranges = mean_lines(law, places, level)
    return [
        _variance_line(law, int(place), mean, level, tails)
        for place, mean in zip(places + 1, ranges, strict=True)
    ]


def _variance_line(
    law: MomentLaw, place: int, mean: Interval, level: float, tails: Tails
) -> Interval:
    column = law.columns[place]
    lower, upper = (float(bound[place]) for bound in public_range(law.columns))
    encoded = mean.scaled(1.0, -column.center).scaled(1 / column.half_range)
    middle = float(np.clip((lower + upper) / 2, encoded.lower, encoded.upper))
    allowed = [(upper - m) * (m - lower) for m in (encoded.lower, middle, encoded.upper)]
    if column.kind in TWO_VALUED:
        # A yes-or-no column's mean tells its variance.
        m, slope = encoded.estimate, abs(upper + lower - 2 * encoded.estimate)
        line = Interval(
            name=column.name,
            estimate=(upper - m) * (m - lower),
            lower=min(allowed),
            upper=max(allowed),
            sampling_std=slope * encoded.sampling_std,
            privacy_std=slope * encoded.privacy_std,
        )
        return line.scaled(column.half_range**2)
    pair = np.array([-law.means[place], 1.0])
    line = ratio_interval(
        column.name,
        (float(law.covariance[place, place]) * law.count, law.count),
        _variance_sampling(law, place, tails),
        _privacy(law, place, np.outer(pair, pair)),
        reach=law.reaches(level),
    )
    return line.clipped(0.0, max(allowed)).scaled(column.half_range**2)


def _variance_sampling(law: MomentLaw, place: int, tails: Tails) -> Triple:
    """Variance of u² at a candidate variance t; t (B² - t) if nothing but |u| <= B is known."""
    rows = law.sampling_factor
    linear, square = shape_of(law, place).square_variance
    if tails == "bounded":
        linear, square = reach_of(law, place) ** 2, -1.0
    return 0.0, -linear / 2 * rows, square * rows


def _privacy(law: MomentLaw, place: int, form: Array) -> Triple:
    """Noise variance of ⟨form, W⟩ - t W_00 on the intercept and one column."""
    forms = np.array([form, [[1.0, 0.0], [0.0, 0.0]]])
    covariance = law.privacy_covariance(forms, np.array([0, place], dtype=np.intp))
    return float(covariance[0, 0]), float(covariance[0, 1]), float(covariance[1, 1])


def shape_of(law: MomentLaw, place: int) -> ColumnShape:
    """Shape of a column, with a variance that its bounds allow."""
    lower, upper = public_range(law.columns)
    mean = float(law.means[place])
    largest = max(0.0, (upper[place] - mean) * (mean - lower[place]))
    variance = float(np.clip(law.covariance[place, place], 0.0, largest))
    return column_shape(
        law.columns[place], mean, variance, float(lower[place]), float(upper[place])
    )


def reach_of(law: MomentLaw, place: int) -> float:
    """Largest distance of a value from the mean."""
    lower, upper = public_range(law.columns)
    mean = law.means[place]
    return float(max(upper[place] - mean, mean - lower[place]))

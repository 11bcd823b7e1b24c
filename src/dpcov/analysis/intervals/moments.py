"""Give intervals for means and variances, within the public bounds."""

from dataclasses import replace

import numpy as np

from dpcov.analysis.features import Array, Places
from dpcov.analysis.intervals.law import MomentLaw
from dpcov.analysis.intervals.table import Interval, Triple, ratio_interval, triple
from dpcov.analysis.intervals.tails import TWO_VALUED

# Times the average that one of forty columns loses, and the most that is taken for it: measured.
SEVERAL, MOST_LOST = 4.0, 0.9


def mean_lines(law: MomentLaw, places: Places) -> list[Interval]:
    """Ratios of two noisy moments, the column's and the intercept's; in original units."""
    lines = []
    for place in map(int, places + 1):
        column = law.columns[place]
        point = float(law.moment[0, place]), law.count
        privacy = _privacy(law, place, np.array([[0.0, 0.5], [0.5, 0.0]]))
        sampling = _mean_sampling(law, place)
        line = ratio_interval(column.name, point, sampling, privacy, reach=law.reaches())
        within = line.clipped(float(law.lowest[place]), float(law.largest[place]))
        lines.append(within.scaled(column.half_range, column.center))
    return lines


def _mean_sampling(law: MomentLaw, place: int) -> Triple:
    rows, lower, upper = law.sampling_factor, float(law.lowest[place]), float(law.largest[place])
    if law.columns[place].kind in TWO_VALUED:
        # A row varies by (t - lower)(upper - t) about a candidate mean t (Wilson 1927).
        return -lower * upper * rows, -(lower + upper) / 2 * rows, -rows
    return float(law.shape(place).variance) * rows, 0.0, 0.0


def variance_lines(law: MomentLaw, places: Places) -> list[Interval]:
    """In squared original units."""
    paired = zip(map(int, places + 1), mean_lines(law, places), strict=True)
    return [_variance_line(law, place, mean) for place, mean in paired]


def _variance_line(law: MomentLaw, place: int, mean: Interval) -> Interval:
    column, lower, upper = law.columns[place], float(law.lowest[place]), float(law.largest[place])
    encoded = mean.scaled(1.0, -column.center).scaled(1 / column.half_range)
    middle = float(np.clip((lower + upper) / 2, encoded.lower, encoded.upper))
    allowed = [(upper - m) * (m - lower) for m in (encoded.lower, middle, encoded.upper)]
    if column.kind in TWO_VALUED:
        # A yes-or-no column's mean tells its variance.
        m, slope = encoded.estimate, abs(upper + lower - 2 * encoded.estimate)
        stds = slope * encoded.sampling_std, slope * encoded.privacy_std
        line = Interval(column.name, min(allowed), max(allowed), (upper - m) * (m - lower), *stds)
        return line.scaled(column.half_range**2)
    pair = np.array([-law.means[place], 1.0])
    point = float(law.covariance[place, place]) * law.count, law.count
    laws = _variance_sampling(law, place), _privacy(law, place, np.outer(pair, pair))
    line = ratio_interval(column.name, point, *laws, reach=law.reaches())
    # A column may have lost several times as much as the average one.
    taken = line.upper / (1 - min(MOST_LOST, SEVERAL * law.lost))
    longer = replace(line, upper=max(line.upper, taken))
    return longer.clipped(0.0, max(allowed)).scaled(column.half_range**2)


def _variance_sampling(law: MomentLaw, place: int) -> Triple:
    linear, square = law.shape(place).square_variance
    if law.tails == "bounded":
        # u² varies by t (B² - t) at most if nothing but |u| <= B is known.
        linear, square = law.reach(place) ** 2, -1.0
    return 0.0, -linear / 2 * law.sampling_factor, square * law.sampling_factor


def _privacy(law: MomentLaw, place: int, form: Array) -> Triple:
    """Noise variance of ⟨form, W⟩ - t W_00 on the intercept and one column."""
    forms = np.array([form, [[1.0, 0.0], [0.0, 0.0]]])
    return triple(law.privacy_covariance(forms, np.array([0, place], dtype=np.intp)))

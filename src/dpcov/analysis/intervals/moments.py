"""Give intervals for means and variances, within the public bounds, and for correlations.

For a pair with variances a, b and covariance c the statistic T(r) = c - r (a / k + k b) / 2 with
k = sqrt(a / b) is zero at the true correlation and linear in the moments (docs/inference.md).
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import astuple, replace
from math import inf, nan, sqrt
from typing import Any, NamedTuple

import numpy as np

from dpcov.analysis.intervals.law import MomentLaw
from dpcov.analysis.intervals.shapes import ColumnShape, of_pair, pair_covariance, symmetric
from dpcov.analysis.intervals.table import (
    Interval,
    Triple,
    clip_ends,
    pair_name,
    ratio_ends,
    ratio_interval,
)
from dpcov.published.estimate.scaled_down import MOST_LOST, error_at
from dpcov.published.estimate.stretch import SKEW
from dpcov.published.file.columns import TWO_VALUED
from dpcov.published.linalg.symmetric import Array, Places

# Times the average that one of forty columns loses: measured.
SEVERAL = 4.0


def mean_lines(law: MomentLaw, places: Places) -> list[Interval]:
    """Ratios of two noisy moments, the column's and the intercept's; in original units."""
    lines, scaled = [], law.scaled
    every = np.arange(len(law.moment))
    noise = law.noise_of_pairs(np.eye(len(every))[np.append(0, places + 1)])(0)
    # Long rows were pulled toward the center, and they have more of a skew column's long side.
    errors = scaled.mean_errors(law.n_rows * np.diagonal(law.present(every))[1:])
    for place, own in zip(map(int, places + 1), noise.T[1:], strict=True):
        rows = _rows(law, place)
        column = law.columns[place]
        lower, upper = column.lowest, column.largest
        point = float(law.moment[0, place]), law.count
        pulled = float(errors[place - 1]) ** 2 * law.count * float(law.plausible[place, place])
        privacy = own[1, 1] + pulled, own[0, 1], own[0, 0]
        sampling = float(law.shape(place).variance) * rows, 0.0, 0.0
        if column.kind in TWO_VALUED:
            # A row varies by (t - lower)(upper - t) about a candidate mean t (Wilson 1927).
            sampling = -lower * upper * rows, -(lower + upper) / 2 * rows, -rows
        line = ratio_interval(column.name, point, sampling, privacy, law.reaches())
        if scaled.shorter is not None:
            shift, factor = scaled.shorter[:, place].tolist()
            line = line.scaled(1 / factor, -shift / factor)
        line = replace(line, lower=-inf, upper=inf) if law.unknown[place] else line
        lines.append(line.clipped(lower, upper).scaled(column.half_range, column.center))
    return lines


def _rows(law: MomentLaw, place: int) -> float:
    # Variance of a mean over the rows in which a column is present, relative to that of one.  The
    # ratio's denominator is the moment of the intercept, small where weights are.
    present = float(law.present(np.array([place]))[0, 0])
    return float(law.sampling_factor * law.count**2 / present)


def variance_lines(law: MomentLaw, places: Places) -> list[Interval]:
    """In squared original units."""
    means = mean_lines(law, places)
    around = law.around_means.noise_of_pairs(law.centered(np.append(0, places + 1)))(0)
    found = zip(map(int, places + 1), means, around.T[1:], strict=True)
    return [_variance_line(law, place, mean, noise) for place, mean, noise in found]


def _variance_line(law: MomentLaw, place: int, mean: Interval, noise: Array) -> Interval:
    column, scaled = law.columns[place], law.scaled
    lower, upper = column.lowest, column.largest
    encoded = mean.scaled(1 / column.half_range, -column.center / column.half_range)
    middle = float(np.clip((lower + upper) / 2, encoded.lower, encoded.upper))
    allowed = [(upper - m) * (m - lower) for m in (encoded.lower, middle, encoded.upper)]
    if column.kind in TWO_VALUED:
        # A yes-or-no column's mean tells its variance.
        m, slope = encoded.estimate, abs(upper + lower - 2 * encoded.estimate)
        stds = slope * encoded.sampling_std, slope * encoded.privacy_std
        # Rounding must not leave the variance of equal shares out, which is the largest.
        most = max(allowed) * (1 + 1e-12)
        line = Interval(column.name, min(allowed), most, (upper - m) * (m - lower), *stds)
        return line.scaled(column.half_range**2)
    point = float(law.covariance[place, place]) * law.count, law.count
    linear, square = law.shape(place).square_variance
    # Given back is what other rows would have lost less or more of.
    linear += float(scaled.lost_parts[place]) * (law.reach(place) ** 2 + scaled.most_lost)
    if law.tails == "bounded":
        # u² varies by t (B² - t) at most if nothing but |u| <= B is known.
        linear, square = law.reach(place) ** 2, -1.0
    rows = _rows(law, place)
    sampling = 0.0, -linear / 2 * rows, square * rows
    privacy = noise[2, 2], noise[0, 2], noise[0, 0]
    line = ratio_interval(column.name, point, sampling, privacy, law.reaches())
    if scaled.stretch_stds is not None and column.kind == "numeric":
        longer = line.times_unsure(float(scaled.stretch_stds[place]), law.reaches()[0], SKEW)
    else:
        # A column may have lost several times as much as the average one.
        taken = line.upper / (1 - min(MOST_LOST, SEVERAL * scaled.lost))
        longer = replace(line, upper=max(line.upper, taken))
    longer = replace(longer, lower=0.0, upper=inf) if law.unknown[place] else longer
    return longer.clipped(0.0, max(allowed)).scaled(column.half_range**2)


class _Pairs(NamedTuple):
    """Pairs of centered combinations of the encoded columns, in arrays of n."""

    # Places of the two columns in the law, (2, n).
    columns: Array
    # Variance of the first, covariance, and variance of the second, (3, n), and the covariances of
    # the noise on them, (3, 3, n).
    moments: Array
    noise: Array
    # Largest distances from their means, (2, n).
    reach: Array
    # Variances and covariances of the three by sampling, relative to those in all rows, (3, 3, n).
    thinning: Array
    shapes: tuple[ColumnShape, ColumnShape]


def correlation_lines(law: MomentLaw, places: Places, *, partial: bool = False) -> list[Interval]:
    """One line for every pair, in the order of the upper triangle."""
    # Of two features nothing else is held fixed.
    if partial and len(places) > 2:
        blocks: Iterable[_Pairs] = [_stacked(_partial_pairs(law.of_pairs(places + 1), places))]
    else:
        law = law.restored
        blocks = _pairs(law, places + 1)
    return [line for block in blocks for line in _correlation_lines(law, block)]


def _pairs(law: MomentLaw, chosen: Places) -> Iterator[_Pairs]:
    """Pairs of columns themselves, those with one first column at a time."""
    shapes = np.array([astuple(law.shape(place)) for place in chosen])
    reach = np.array([law.reach(place) for place in chosen])
    present, rarity = law.present(chosen), law.rarity(chosen)
    own, lost = np.diagonal(present), law.scaled.lost_parts[chosen]
    covariance = law.covariance[np.ix_(chosen, chosen)]
    noise = law.unbiased.around_means.noise_of_pairs(law.centered(chosen))
    for i in range(len(chosen) - 1):
        after = slice(i + 1, None)
        both, rows = present[i, after], law.n_rows * present[i, after]
        a, c, b = moments = of_pair(
            covariance[i, i], covariance[i, after], np.diagonal(covariance)[after]
        )
        # Of columns that hardly any row has together nothing is known.
        seen = (both > 0) & (own[i] > 0) & (own[after] > 0)
        moments *= seen
        found = noise(i)[..., after] / law.count**2
        found[1] *= rarity[i, after]
        found[:, 1] *= rarity[i, after]
        with np.errstate(divide="ignore", invalid="ignore"):
            # It is known how much of a correlation scaling rows down takes.
            error = error_at(c / np.sqrt(a * b), lost[i], lost[after], rows)
            found[1, 1] += error**2 * a * b
            thinning = np.where(seen, _thinning(own[i], both, own[after]), 1.0)
        yield _Pairs(
            columns=of_pair(chosen[i], chosen[after]),
            moments=moments,
            noise=found,
            shapes=(ColumnShape(*shapes[i]), ColumnShape(*shapes[after].T)),
            reach=of_pair(reach[i], reach[after]),
            thinning=thinning,
        )


def _thinning(first: Any, both: Any, second: Any) -> Array:
    # A variance is over the rows of its own column, the covariance over those of both: sums over
    # rows covary as often as rows are in both.  Rows of both are rows of each, also where shares
    # stand for what values are worth.
    both = np.minimum(both, np.minimum(first, second))
    crossed = both / (first * second)
    return symmetric(1 / first, 1 / first, crossed, 1 / both, 1 / second, 1 / second)


def _partial_pairs(law: MomentLaw, places: Places) -> Iterator[_Pairs]:
    # Residuals of two columns after regression on the others.
    chosen, q = np.array([0, *map(int, places + 1)], dtype=np.intp), len(places) + 1
    moment = law.moment[np.ix_(chosen, chosen)] / law.count
    used, shapes = 1 - (q - 2) * law.sampling_factor, [law.shape(int(i)) for i in chosen]
    for a, b, rows in _residuals(law, moment, chosen):
        # A regression that drowned leaves no variance, so the interval is [-1, 1].
        covariance, noise, reach, thinning = np.zeros((2, 2)), np.zeros((3, 3)), np.zeros(2), 1.0
        if rows is not None and used > 0.5:
            covariance = rows @ moment @ rows.T
            directions = np.zeros((2, len(law.columns)))
            directions[:, chosen] = rows
            reach = np.array([law.largest(direction) for direction in directions])
            thinning = _thinned(law, chosen, rows, covariance) / used
            noise = law.around_means.noise_of_pairs(directions)(0)[..., 1] / law.count**2
        # A residual has the kurtosis of its column, but no longer two values.
        first, second = (
            replace(shapes[i], variance=max(0.0, float(v)), skew_slope=nan)
            for i, v in zip((a, b), np.diagonal(covariance), strict=True)
        )
        yield _Pairs(
            columns=np.array([chosen[a], chosen[b]]),
            moments=covariance[[0, 0, 1], [0, 1, 1]],
            noise=noise,
            shapes=(first, second),
            reach=reach,
            thinning=np.full((3, 3), thinning),
        )


def _residuals(
    law: MomentLaw, moment: Array, chosen: Places
) -> Iterator[tuple[int, int, Array | None]]:
    """Every pair of columns, and the combinations, (2, q), that regression on the others leaves.

    None where noise hides a direction of the others.
    """
    q = len(chosen)
    # Where all directions stand out, those of some columns do; and a direction more that does not
    # than columns are left out is among the others (Cauchy's interlacing).
    clear = _hidden_directions(law, moment, chosen, q) == 0
    none = _hidden_directions(law, moment, chosen, q - 2) > 2
    none = none or law.hardly_together(chosen[1:])
    inverse = np.linalg.inv(moment) if clear else moment
    for a, b in itertools.combinations(range(1, q), 2):
        rows: Array | None = None
        pair = np.array([a, b], dtype=np.intp)
        if clear and not none:
            rows = np.linalg.solve(inverse[np.ix_(pair, pair)], inverse[pair])
        elif not none:
            others = np.delete(np.arange(q), pair)
            inner = moment[np.ix_(others, others)]
            if _hidden_directions(law, inner, chosen[others], q - 2) == 0:
                rows = np.eye(q)[pair]
                rows[:, others] = -np.linalg.solve(inner, moment[np.ix_(others, pair)]).T
        yield a, b, rows


def _stacked(pairs: Iterable[_Pairs]) -> _Pairs:
    """Single pairs together."""
    *arrays, shapes = zip(*pairs, strict=True)
    tables = np.array([[astuple(shape) for shape in two] for two in shapes])
    first, second = (ColumnShape(*table) for table in np.moveaxis(tables, 0, -1))
    columns, moments, noise, reach, thinning = (np.stack(each, axis=-1) for each in arrays)
    return _Pairs(columns, moments, noise, reach, thinning, (first, second))


def _thinned(law: MomentLaw, places: Places, rows: Array, covariance: Array) -> float:
    """Sampling variance of T(r), relative to that of rows in which no value is missing."""
    scales = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    if law.shares is None or not scales.all():
        return 1.0
    r = float(np.clip(covariance[0, 1] / scales.prod(), -1.0, 1.0))
    combined = np.zeros((2, len(law.moment)))
    combined[:, places] = rows / scales[:, None]
    # T(r) is x'My up to a factor, with x'My = 0 at the correlation r of both combinations.
    both, apart = combined[0] + combined[1], combined[0] - combined[1]
    x, y = (sqrt(1 - r) * both + sign * sqrt(1 + r) * apart for sign in (-1, 1))
    complete = float(x @ law.plausible @ x) * float(y @ law.plausible @ y)
    thinned = float(law.thinning.forms(y[None])(x)[0, 0])
    return max(1.0, thinned / complete) if complete > 0 else 1.0


def _hidden_directions(law: MomentLaw, moment: Array, places: Places, size: int) -> int:
    """How many directions have less variance than noise on ``size`` columns shows in any."""
    # In the noise's own coordinates, where it is the same in all directions.
    hidden = np.zeros_like(moment)
    for each in law.noises:
        edge = sqrt(each.off_diagonal) * (2 * sqrt(size) + sqrt(2) * law.reaches()[0])
        rows = each.back[places]
        hidden += max(edge, 1e-12) * (rows @ rows.T)
    return int(np.count_nonzero(np.linalg.eigvalsh(moment - hidden) <= 0))


def _correlation_lines(law: MomentLaw, pairs: _Pairs) -> list[Interval]:
    a, c, b = pairs.moments
    names = [pair_name(law.columns[i].name, law.columns[j].name) for i, j in pairs.columns.T]
    seen = (a > 0) & (b > 0)
    # At this k errors of the scales count in second order only.
    ratio = np.sqrt(np.divide(a, b, out=np.ones_like(a), where=seen))
    zero = np.zeros_like(a)
    slopes = np.array([[zero, zero + 1.0, zero], [0.5 / ratio, zero, 0.5 * ratio]])
    first, second = pairs.shapes
    scale = np.sqrt(first.variance * second.variance)
    spread = pair_covariance(first, second, np.clip(c, -scale, scale)) * pairs.thinning
    sampling = _along(slopes, spread * law.sampling_factor)
    if law.tails == "bounded":
        # T(r) varies by A² √(ab) (1 - r²) / 2 at most, A² the largest (u/√k + √k w)² / 2.
        largest = (pairs.reach[0] / np.sqrt(ratio) + pairs.reach[1] * np.sqrt(ratio)) ** 2 / 2
        most = largest * scale / 2 * law.sampling_factor * pairs.thinning.max(axis=(0, 1))
        known = ~np.isnan(first.skew_slope) & ~np.isnan(second.skew_slope)
        worst = most, zero, -most
        sampling = tuple(np.where(known, x, y) for x, y in zip(sampling, worst, strict=True))
    point, privacy = (c, np.sum(slopes[1] * pairs.moments, axis=0)), _along(slopes, pairs.noise)
    lower, upper, estimate, *stds = ratio_ends(point, sampling, privacy, law.reaches())
    lower, upper, estimate = clip_ends(lower, upper, estimate, -1.0, 1.0)
    ends = np.where(seen, [lower, upper, estimate, *stds], np.array([[-1.0, 1.0, nan, nan, nan]]).T)
    return [Interval(name, *line) for name, line in zip(names, ends.T.tolist(), strict=True)]


def _along(slopes: Array, covariance: Array) -> Triple:
    found = np.einsum("ikn,kln,jln->ijn", slopes, covariance, slopes)
    return found[0, 0], found[0, 1], found[1, 1]

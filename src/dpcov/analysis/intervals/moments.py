"""Give intervals for means and variances, within the public bounds, and for correlations.

For a pair with variances a, b and covariance c the statistic T(r) = c - r (a / k + k b) / 2 with
k = sqrt(a / b) is zero at the true correlation and linear in the moments (docs/inference.md).
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from dpcov.analysis.intervals.law import MomentLaw
from dpcov.analysis.intervals.shapes import ColumnShape, pair_covariance
from dpcov.analysis.intervals.table import Interval, Triple, pair_name, ratio_interval, triple
from dpcov.published.columns import TWO_VALUED
from dpcov.published.estimate.scaled_down import MOST_LOST, error_at, mean_error
from dpcov.published.estimate.stretch import SKEW
from dpcov.published.linalg.symmetric import Array, Places

# Times the average that one of forty columns loses: measured.
SEVERAL = 4.0


def mean_lines(law: MomentLaw, places: Places) -> list[Interval]:
    """Ratios of two noisy moments, the column's and the intercept's; in original units."""
    lines, scaled = [], law.scaled
    for place in map(int, places + 1):
        rows = _rows(law, place)
        column = law.columns[place]
        lower, upper = column.lowest, column.largest
        point = float(law.moment[0, place]), law.count
        privacy = _privacy(law, place, np.array([[0.0, 0.5], [0.5, 0.0]]))
        # Long rows were pulled toward the center, and they have more of a skew column's long side.
        present = law.n_rows * float(law.present(np.array([place]))[0, 0])
        parts, whole = float(scaled.lost_parts[place]), float(scaled.whole[place])
        error = mean_error(scaled.lost, parts, whole, present)
        error = np.hypot(error, scaled.moved_stds[place])
        pulled = float(error) ** 2 * law.count * float(law.plausible[place, place])
        privacy = privacy[0] + pulled, *privacy[1:]
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
    paired = zip(map(int, places + 1), mean_lines(law, places), strict=True)
    return [_variance_line(law, place, mean) for place, mean in paired]


def _variance_line(law: MomentLaw, place: int, mean: Interval) -> Interval:
    column, scaled = law.columns[place], law.scaled
    lower, upper = column.lowest, column.largest
    encoded = mean.scaled(1.0, -column.center).scaled(1 / column.half_range)
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
    pair = np.array([-law.means[place], 1.0])
    point = float(law.covariance[place, place]) * law.count, law.count
    linear, square = law.shape(place).square_variance
    # Given back is what other rows would have lost less or more of.
    linear += float(scaled.lost_parts[place]) * (law.reach(place) ** 2 + scaled.most_lost)
    if law.tails == "bounded":
        # u² varies by t (B² - t) at most if nothing but |u| <= B is known.
        linear, square = law.reach(place) ** 2, -1.0
    rows = _rows(law, place)
    sampling = 0.0, -linear / 2 * rows, square * rows
    privacy = _privacy(law.around_means, place, np.outer(pair, pair))
    line = ratio_interval(column.name, point, sampling, privacy, law.reaches())
    if scaled.stretch_stds is not None and column.kind == "numeric":
        longer = line.times_unsure(float(scaled.stretch_stds[place]), law.reaches()[0], SKEW)
    else:
        # A column may have lost several times as much as the average one.
        taken = line.upper / (1 - min(MOST_LOST, SEVERAL * scaled.lost))
        longer = replace(line, upper=max(line.upper, taken))
    longer = replace(longer, lower=0.0, upper=inf) if law.unknown[place] else longer
    return longer.clipped(0.0, max(allowed)).scaled(column.half_range**2)


def _privacy(law: MomentLaw, place: int, form: Array) -> Triple:
    """Noise variance of ⟨form, W⟩ - t W_00 on the intercept and one column."""
    forms = np.array([form, [[1.0, 0.0], [0.0, 0.0]]])
    return triple(law.privacy_covariance(forms, np.array([0, place], dtype=np.intp)))


class _Pair(NamedTuple):
    """Two centered combinations of the encoded columns: ``rows`` (2, q) on ``places`` (q,)."""

    columns: tuple[int, int]
    places: Places
    rows: Array
    covariance: Array
    shapes: tuple[ColumnShape, ColumnShape]
    reach: tuple[float, float]
    rows_used: float = 1.0
    # Variances and covariances of a, c and b, relative to those in all rows, (3, 3).
    thinning: Array | None = None
    # Noise on c, relative to that of columns that are present by chance.
    rarity: float = 1.0


def correlation_lines(law: MomentLaw, places: Places, *, partial: bool = False) -> list[Interval]:
    """One line for every pair, in the order of the upper triangle."""
    if partial:
        law = law.of_pairs(places + 1)
        return [_correlation_line(law, pair) for pair in _partial_pairs(law, places)]
    law = law.restored
    return [_correlation_line(law, pair) for pair in _pairs(law, places)]


def _pairs(law: MomentLaw, places: Places) -> Iterator[_Pair]:
    chosen = [int(place) for place in places + 1]
    shapes, reaches = {i: law.shape(i) for i in chosen}, {i: law.reach(i) for i in chosen}
    for i, j in itertools.combinations(chosen, 2):
        rows = np.array([[-law.means[i], 1.0, 0.0], [-law.means[j], 0.0, 1.0]])
        covariance = law.covariance[np.ix_([i, j], [i, j])]
        both = (shapes[i], shapes[j]), (reaches[i], reaches[j])
        where = np.array([0, i, j], dtype=np.intp)
        if law.hardly_together(where[1:]):
            yield _Pair((i, j), where, rows, np.zeros((2, 2)), *both)
            continue
        thinning, rarity = _thinning(law.present(where[1:])), float(law.rarity(where[1:])[0, 1])
        yield _Pair((i, j), where, rows, covariance, *both, thinning=thinning, rarity=rarity)


def _thinning(shares: Array) -> Array:
    # A variance is over the rows of its own column, the covariance over those of both: sums over
    # rows covary as often as rows are in both.
    first, second = shares[0, 0], shares[1, 1]
    # Rows of both are rows of each, also where shares stand for what values are worth.
    both = min(shares[0, 1], first, second)
    return np.array(
        [
            [1 / first, 1 / first, both / (first * second)],
            [1 / first, 1 / both, 1 / second],
            [both / (first * second), 1 / second, 1 / second],
        ]
    )


def _partial_pairs(law: MomentLaw, places: Places) -> Iterator[_Pair]:
    # Residuals of two columns after regression on the others.
    chosen, q = [0, *map(int, places + 1)], len(places) + 1
    moment = law.moment[np.ix_(chosen, chosen)] / law.count
    used, hidden = 1 - (q - 2) * law.sampling_factor, law.hardly_together(places + 1)
    # Where all directions stand out, those of some columns do.
    clear = _stands_out(law, moment, chosen)
    for a, b in itertools.combinations(range(1, q), 2):
        others = [place for place in range(q) if place not in (a, b)]
        rows, covariance = np.zeros((2, q)), np.zeros((2, 2))
        rows[0, a] = rows[1, b] = 1.0
        inner = moment[np.ix_(others, others)]
        # A regression that drowned leaves no variance, so the interval is [-1, 1].
        stands_out = clear or _stands_out(law, inner, [chosen[i] for i in others])
        if not hidden and stands_out and used > 0.5:
            rows[:, others] = -np.linalg.solve(inner, moment[np.ix_(others, [a, b])]).T
            covariance = rows @ moment @ rows.T
        columns = chosen[a], chosen[b]
        # A residual has the kurtosis of its column, but no longer two values.
        first, second = (
            replace(law.shape(i), variance=max(0.0, float(v)), skew_slope=None)
            for i, v in zip(columns, np.diagonal(covariance), strict=True)
        )
        where, shapes = np.array(chosen, dtype=np.intp), (first, second)
        directions = np.zeros((2, len(law.columns)))
        directions[:, where] = rows
        reach = law.largest(directions[0]), law.largest(directions[1])
        rows_used = max(used, 0.5) / _thinned(law, where, rows, covariance)
        yield _Pair(columns, where, rows, covariance, shapes, reach, rows_used)


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
    thinned = float(law.thinned_forms(y[None])(x)[0, 0])
    return max(1.0, thinned / complete) if complete > 0 else 1.0


def _stands_out(law: MomentLaw, moment: Array, places: list[int]) -> bool:
    """Whether all directions have more variance than noise alone shows in any."""
    # In the noise's own coordinates, where it is the same in all directions.
    hidden = np.zeros_like(moment)
    for each in law.noises:
        edge = sqrt(each.off_diagonal) * (2 * sqrt(len(moment)) + sqrt(2) * law.reaches()[0])
        rows = each.back[places]
        hidden += max(edge, 1e-12) * (rows @ rows.T)
    return float(np.linalg.eigvalsh(moment - hidden)[0]) > 0


def _correlation_line(law: MomentLaw, pair: _Pair) -> Interval:
    name = pair_name(*(law.columns[column].name for column in pair.columns))
    a, b, c = pair.covariance[0, 0], pair.covariance[1, 1], pair.covariance[0, 1]
    if not (a > 0 and b > 0):
        return Interval(name, -1.0, 1.0)
    # At this k errors of the scales count in second order only.
    ratio = sqrt(a / b)
    slopes = np.array([[0.0, 1.0, 0.0], [0.5 / ratio, 0.0, 0.5 * ratio]])
    forms = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.5], [0.5, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])
    forms[1] *= pair.rarity
    point = float(c), float(slopes[1] @ [a, c, b])
    # Of two columns themselves it is known how much of their correlation scaling rows down takes.
    of_columns = len(pair.places) == 3
    noisy = (law.unbiased if of_columns else law).around_means
    noise = noisy.privacy_covariance(forms, pair.places, pair.rows)
    privacy = triple(slopes @ noise @ slopes.T / law.count**2)
    if of_columns:
        first_lost, second_lost = law.scaled.lost_parts[list(pair.columns)]
        both = law.n_rows * float(law.present(np.array(pair.columns))[0, 1])
        error = error_at(c / sqrt(a * b), first_lost, second_lost, both)
        taken = float(error) ** 2 * a * b
        privacy = privacy[0] + taken, *privacy[1:]
    used = law.sampling_factor / pair.rows_used
    scale = sqrt(pair.shapes[0].variance * pair.shapes[1].variance)
    if law.tails == "bounded" and any(shape.skew_slope is None for shape in pair.shapes):
        # T(r) varies by A² √(ab) (1 - r²) / 2 at most, A² the largest (u/√k + √k w)² / 2.
        largest = (pair.reach[0] / sqrt(ratio) + pair.reach[1] * sqrt(ratio)) ** 2 / 2
        used = used if pair.thinning is None else used * float(pair.thinning.max())
        sampling = largest * scale / 2 * used, 0.0, -largest * scale / 2 * used
    else:
        spread = pair_covariance(*pair.shapes, float(np.clip(c, -scale, scale)))
        spread = spread if pair.thinning is None else spread * pair.thinning
        sampling = triple(slopes @ spread @ slopes.T * used)
    return ratio_interval(name, point, sampling, privacy, law.reaches()).clipped(-1.0, 1.0)

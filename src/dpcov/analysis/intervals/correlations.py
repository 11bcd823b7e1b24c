"""Intervals for correlations and partial correlations.

Contract: a release alone; [-1, 1] where a variance may be nothing but noise.

Notes
-----
For a pair with variances a, b and covariance c the statistic is linear in the moments,

    T(r) = c - r (a / k + k b) / 2,   k = sqrt(a / b).

Since sqrt(ab) is the least value over k, T(r) is zero at the true correlation, and errors of k, like those of the means
or of the regressions on other columns that were taken out, enter only in second order.  A value r is in the interval
unless |T(r)| exceeds its own standard deviation, which is known for every r, too far.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np

from dpcov.analysis.features import Places
from dpcov.analysis.intervals.law import Array, MomentLaw, Tails
from dpcov.analysis.intervals.moments import Triple, reach_of, shape_of
from dpcov.analysis.intervals.table import Interval, ratio_interval
from dpcov.analysis.intervals.tails import ColumnShape, pair_covariance


@dataclass(frozen=True, kw_only=True, eq=False)
class _Pair:
    """Two centered combinations of the encoded columns.

    ``rows`` is (2, q): on ``places`` of the moment; ``covariance`` is (2, 2); ``reach`` bounds both.
    """

    name: str
    places: Places
    rows: Array
    covariance: Array
    shapes: tuple[ColumnShape, ColumnShape]
    reach: tuple[float, float]
    rows_used: float


def correlation_lines(law: MomentLaw, places: Places, level: float, tails: Tails) -> list[Interval]:
    """One line for every pair, in the order of the upper triangle."""
    return [_line(law, pair, level, tails) for pair in _pairs(law, places)]


def partial_correlation_lines(
    law: MomentLaw, places: Places, level: float, tails: Tails
) -> list[Interval]:
    """The same with all other chosen columns held fixed."""
    return [_line(law, pair, level, tails) for pair in _partial_pairs(law, places, level)]


def _pairs(law: MomentLaw, places: Places) -> Iterator[_Pair]:
    means, covariance = law.means, law.covariance
    shapes = {int(place): shape_of(law, place) for place in places + 1}
    reaches = {int(place): reach_of(law, place) for place in places + 1}
    for i, j in itertools.combinations(map(int, places + 1), 2):
        yield _Pair(
            name=_pair_name(law, i, j),
            places=np.array([0, i, j], dtype=np.intp),
            rows=np.array([[-means[i], 1.0, 0.0], [-means[j], 0.0, 1.0]]),
            covariance=covariance[np.ix_([i, j], [i, j])],
            shapes=(shapes[i], shapes[j]),
            reach=(reaches[i], reaches[j]),
            rows_used=1.0,
        )


def _partial_pairs(law: MomentLaw, places: Places, level: float) -> Iterator[_Pair]:
    """Residuals of two columns after regression on the others; no variance where that regression is drowned."""
    chosen, q = [0, *map(int, places + 1)], len(places) + 1
    moment = law.moment[np.ix_(chosen, chosen)] / law.count
    used = 1.0 - (q - 2) * law.sampling_factor
    for a, b in itertools.combinations(range(1, q), 2):
        others = [place for place in range(q) if place not in (a, b)]
        rows = np.zeros((2, q))
        rows[0, a] = rows[1, b] = 1.0
        known = _stands_out(law, moment[np.ix_(others, others)], level) and used > 0.5
        if known:
            rows[:, others] = -np.linalg.solve(
                moment[np.ix_(others, others)], moment[np.ix_(others, [a, b])]
            ).T
        covariance = rows @ moment @ rows.T if known else np.zeros((2, 2))
        i, j = chosen[a], chosen[b]
        yield _Pair(
            name=_pair_name(law, i, j),
            places=np.array(chosen, dtype=np.intp),
            rows=rows,
            covariance=covariance,
            shapes=(_residual(law, i, covariance[0, 0]), _residual(law, j, covariance[1, 1])),
            reach=(float(np.abs(rows[0]).sum()), float(np.abs(rows[1]).sum())),
            rows_used=max(used, 0.5),
        )


def _stands_out(law: MomentLaw, moment: Array, level: float) -> bool:
    """Whether all directions have more variance than noise alone shows in any, but for one chance in many."""
    noise = sqrt(law.off_diagonal)
    edge = noise * (2 * sqrt(len(moment)) + sqrt(2) * law.reaches(level)[0])
    return float(np.linalg.eigvalsh(moment)[0]) > max(edge, 1e-12)


def _residual(law: MomentLaw, place: int, variance: float) -> ColumnShape:
    return ColumnShape(
        variance=max(0.0, float(variance)), kurtosis=shape_of(law, place).kurtosis, skew_slope=None
    )


def _pair_name(law: MomentLaw, i: int, j: int) -> str:
    return f"{law.columns[i].name}, {law.columns[j].name}"


def _line(law: MomentLaw, pair: _Pair, level: float, tails: Tails) -> Interval:
    a, b, c = pair.covariance[0, 0], pair.covariance[1, 1], pair.covariance[0, 1]
    if not (a > 0 and b > 0):
        nan = float("nan")
        return Interval(
            name=pair.name, estimate=nan, lower=-1.0, upper=1.0, sampling_std=nan, privacy_std=nan
        )
    ratio = sqrt(a / b)
    slopes = np.array([[0.0, 1.0, 0.0], [0.5 / ratio, 0.0, 0.5 * ratio]])
    first, second = pair.rows
    cross = np.outer(first, second)
    forms = np.array([np.outer(first, first), (cross + cross.T) / 2, np.outer(second, second)])
    noise = law.privacy_covariance(forms, pair.places) / law.count**2
    line = ratio_interval(
        pair.name,
        (float(c), float(slopes[1] @ [a, c, b])),
        _sampling(law, pair, slopes, ratio, tails),
        _triple(slopes @ noise @ slopes.T),
        reach=law.reaches(level),
    )
    return line.clipped(-1.0, 1.0)


def _sampling(law: MomentLaw, pair: _Pair, slopes: Array, ratio: float, tails: Tails) -> Triple:
    """Variance of T(r) from sampling."""
    rows = law.sampling_factor / pair.rows_used
    first, second = pair.shapes
    scale = sqrt(first.variance * second.variance)
    two_valued = first.skew_slope is not None and second.skew_slope is not None
    if tails == "bounded" and not two_valued:
        largest = (pair.reach[0] / sqrt(ratio) + pair.reach[1] * sqrt(ratio)) ** 2 / 2
        return largest * scale / 2 * rows, 0.0, -largest * scale / 2 * rows
    covariance = float(np.clip(pair.covariance[0, 1], -scale, scale))
    return _triple(slopes @ pair_covariance(first, second, covariance) @ slopes.T * rows)


def _triple(matrix: Array) -> Triple:
    return float(matrix[0, 0]), float(matrix[0, 1]), float(matrix[1, 1])

"""A look at a column of numbers in pure epsilon, by draws of the exponential mechanism.

Guarantee, proof: survey.md.  Numerics: exact.
"""

from dataclasses import replace
from fractions import Fraction
from math import log, log2, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dpcov.data.histograms import Counts
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.cost import Cost, part_of
from dpcov.mechanisms.blocks.counts import CountNoise
from dpcov.mechanisms.survey_counts import Alone, Cells, Seen, Spread
from dpcov.noise.choice import exponential_choice
from dpcov.noise.entropy import Entropy
from dpcov.privacy.guarantee import PureDP
from dpcov.published.linalg.symmetric import Array

_AMPLE = 1 / 64
"""Rings say where a column's tail lies where so small a part of the rows can be looked for."""

_ALIKE, _UNLIKE, _MOST_UNLIKE = 3.0, 0.5, 3.0
"""Factors of two that a radius may be away from other columns' radii, what every further one counts
in logarithms of odds, and what all of them count at most."""

_RADII = log(33) + 3
"""Rows by which the right radius must be better than others, times the rate of the draw."""

_SMALLER = 0.3
"""Logarithm by which a radius is less likely than the next larger one where noise may mislead."""

_PARTS = 64
"""In pure epsilon the radius of all values but one of so many parts is drawn, or of fewer."""

_MOST_UNITS, _LEAST_UNITS, _MOST_COST = 10, 6, 31
"""Binary digits of a share, and of the largest costs of places that can be drawn."""

_PLACES = 2**10
"""Among so many neighborhoods of cells a middle is drawn, in pure epsilon."""

_NARROW, _FINER = 128, 2**12
"""Cells on either side of the middle of a narrow column, and the finer ones in their place."""


class _Parts(NamedTuple):
    """Of the cost of a look in pure epsilon: what for, and how far a middle may be away."""

    counting: Fraction
    middle: Fraction
    one_value: Fraction
    radius: Fraction
    most_off: float


# Added rows move a middle by half as much as replaced ones, and their number is private.
PARTS_OF = {
    "replace-one": _Parts(Fraction(1, 20), Fraction(9, 20), Fraction(1, 10), Fraction(2, 5), 0.45),
    "add-remove-one": _Parts(
        Fraction(3, 50), Fraction(6, 25), Fraction(3, 20), Fraction(11, 20), 0.3
    ),
}


def look_at_once(
    cells: Cells, cost: PureDP, problem: Problem, entropy: Entropy, typical: float | None = None
) -> Seen:
    """In pure epsilon draws of the exponential mechanism cost less than counts in shells.

    ``typical`` is the usual scale of other columns, as far as it is published.
    """
    middle, parts_of = _middle_at_once(cells, cost, problem, entropy), PARTS_OF[problem.neighbors]
    if middle is None:
        return Seen(None)
    center, radius, rows = middle
    at = center + cells.anchor
    far = 1.0 + abs(at)
    radii = radius * 2.0 ** np.arange(np.ceil(np.log2(far / radius)) + 1)
    inside = cells.below[cells.nearest(center + radii)] - cells.below[cells.nearest(center - radii)]
    # One value may hold most rows: the spread is then that of the others.
    count = CountNoise(part_of(cost, parts_of.one_value), problem)
    same = min(1.0, float(inside[0] + count.draw(1, entropy)[0]) / rows)
    same *= same * rows > 2 * count.std()
    # One person moves a cost by at most k, up or down.
    rate = cost.epsilon * parts_of.radius / (2 * problem.rows_per_person)
    needed, unsure = _RADII / float(rate) / rows, count.std() / rows * (same > 0)
    # So many rows beyond the right radius, and within it beside those that share a value.
    others = 1 - same
    beside = radius, rows, others * rows, count.std(), cells.around(center)
    parts = min(_PARTS, others / needed) if others >= 2 * (needed + unsure) else None
    digits = min(_MOST_UNITS, int(_MOST_COST - log2((len(radii) + _MOST_UNLIKE) / float(rate))))
    if digits < _LEAST_UNITS:
        return Seen(None)
    if parts is None:
        # Nothing but one value shows; or nothing at all.
        spread = Spread(at, far * sqrt(min(1.0, max(needed, unsure))))
        return Seen(spread, Alone(spread, *beside)) if same > 0.5 else Seen(None)
    # A value that the count missed may be shared by so many rows that many radii hold no others.
    missed = same == 0 and 2 * count.std() / rows + needed > 1 - others / parts
    share = round(2**digits * (1 - others / parts))
    unlikely = _unlikely(radii, typical, missed=missed) / float(rate)
    chosen = _radius(inside, int(cells.below[-1]), (share, digits), rate, unlikely, entropy)
    drawn = float(radii[chosen])
    # Normal values but for one of so many parts lie within so many deviations.
    deviations = NormalDist().inv_cdf(1 - 0.5 / parts)
    usual = drawn / deviations * sqrt(1 - same)
    # The radius is up to twice as far as the part needs.
    spread = Spread(at, min(1.0, usual), 0.5)
    if same > 0.5:
        return Seen(spread, Alone(spread, *beside))
    if drawn <= 4 * cells.width(center):
        # Others lie within the finer cells, or anywhere.
        spread = Spread(at, min(1.0, far * parts**-0.5))
        return Seen(spread, Alone(spread, drawn, rows, 0.0, rows / parts, cells.around(center)))
    near = _together(cells) * cells.width(center)
    if drawn <= 2 * near:
        # A middle is drawn among half as many cells: most rows may share a value beside it.
        anywhere = replace(spread, scale=min(1.0, far * parts**-0.5))
        # Or the cells are too wide to tell how narrow the column is.
        finer = cells.around(center, _NARROW, _FINER)
        return Seen(spread, Alone(anywhere, drawn, rows, 0.0, rows / parts, finer, finer=spread))
    if needed <= _AMPLE:
        # The radius leaves out a tail, and rings say where that lies.
        tail = Alone(spread, drawn, rows, rows / parts, 0.0, None, finer=spread, is_spread=True)
        return Seen(spread, tail)
    return Seen(spread)


def _unlikely(radii: Array, typical: float | None, *, missed: bool) -> Array:
    """By how much radii are less likely than others before any row is seen, in logarithms, (k,)."""
    unlikely = np.zeros(len(radii))
    if missed:
        unlikely += _SMALLER * np.arange(len(radii))[::-1]
    if typical is not None:
        octaves = np.abs(np.log2(radii / (2 * typical))) - _ALIKE
        unlikely += np.clip(_UNLIKE * octaves, 0.0, _MOST_UNLIKE)
    return unlikely


def _radius(
    inside: Counts,
    rows: int,
    share: tuple[int, int],
    rate: Fraction,
    unlikely: Array,
    entropy: Entropy,
) -> int:
    """Draw a radius that holds a share of the rows, by what each of them holds.

    The ``share`` is a numerator, and the power of two that is its denominator; ``unlikely``, (k,),
    are public costs of the radii, in rows.
    """
    numerator, digits = share
    before, target = np.concatenate([[0], inside[:-1]]), numerator * rows
    # Least where that part is passed, by as much as possible on either side.
    costs = np.maximum(2**digits * before - target, target - 2**digits * inside)
    costs = np.clip(costs, -(2 ** (_MOST_COST - 1)), 2 ** (_MOST_COST - 1))
    costs += np.rint(2**digits * unlikely).astype(np.int64)
    return exponential_choice(costs, rate / 2**digits, entropy)


def _middle_at_once(
    cells: Cells, cost: Cost, problem: Problem, entropy: Entropy
) -> tuple[float, float, float] | None:
    """A middle by one draw."""
    parts = PARTS_OF[problem.neighbors]
    choosing = part_of(cost, parts.middle)
    count = CountNoise(part_of(cost, parts.counting), problem)
    rows = float(cells.below[-1] + count.draw(1, entropy)[0])
    # Few columns miss much: the public number of rows is the better guess unless noise excludes it.
    if problem.n_rows is not None and rows + 2 * count.std() > problem.n_rows:
        rows = float(problem.n_rows)
    if rows_off(choosing, problem) > parts.most_off * rows:
        return None
    # Fewer places need less of the budget.
    ends = np.arange(cells.first, cells.last + 1, _together(cells))
    # What lies on the longer side of some cells; in the middle least.
    sides = np.maximum(cells.below[ends[:-1]], cells.below[-1] - cells.below[ends[1:]])
    rate = _middle_rate(choosing, problem)
    chosen = exponential_choice(sides, rate, entropy)
    # Many values may lie at the lower end of all, or at the upper one.
    place = ends[chosen] if chosen + 2 < len(ends) else ends[-1]
    center = float(cells.edges[place])
    return center, cells.width(center), rows


def rows_off(cost: Cost, problem: Problem) -> float:
    """Rows between the median and a middle drawn among all places, rarely more."""
    return log(_PLACES) / float(_middle_rate(cost, problem))


def _together(cells: Cells) -> int:
    """How many cells a neighborhood has: all have as many."""
    return (cells.last - cells.first) // _PLACES


def _middle_rate(cost: Cost, problem: Problem) -> Fraction:
    assert isinstance(cost, PureDP)
    # Removed rows raise no cost of a cell, so that add-remove-one needs half the noise.
    return cost.epsilon / problem.moved_rows

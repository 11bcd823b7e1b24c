"""A look at a column of numbers in pure epsilon, by draws of the exponential mechanism.

Guarantee, proof: survey.md.  Numerics: exact.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import log, log2, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dpcov.data.histograms import Counts
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.cost import Cost, part_of
from dpcov.mechanisms.blocks.counts import CountNoise
from dpcov.mechanisms.geometry.survey_counts import Alone, Cells, Seen, Spread
from dpcov.noise.choice import exponential_choice
from dpcov.noise.entropy import Entropy
from dpcov.privacy.guarantee import PureDP
from dpcov.published.linalg.symmetric import Array

_AMPLE = 1 / 64
"""Rings say where a column's tail lies where so small a part of the rows can be looked for: a
radius leaves out as much."""

_ALIKE, _UNLIKE, _MOST_UNLIKE = 3.0, 0.5, 3.0
"""Factors of two that a radius may be away from other columns' radii, what every further one counts
in logarithms of odds, and what all of them count at most.  People type bounds alike: where these
are a hundred times too wide, errors are 1 to 5 % smaller with it."""

_IN_OCTAVE = 2
"""Radii that are told apart within a factor of two.  With one, errors of 139 tables were 1.04 and
1.06 times as large (epsilon of 1 and 4).  With four, one narrow column in 20 was far too wide."""

_RADII = log(33 * _IN_OCTAVE) + 3
"""Rows by which the right radius must be better than others, times the rate of the draw."""

_SMALLER = 0.3
"""Logarithm by which a radius is less likely than one twice as large where noise may mislead: many
radii hold the same rows then.  Of 1,503 rows in 6 columns, of which 40 % share a value, one scale
in twenty was below 0.001 deviations without it."""

_PARTS = 64
"""In pure epsilon the radius of all values but one of so many parts is drawn, or of fewer."""

_MOST_UNITS, _LEAST_UNITS, _MOST_COST = 10, 6, 31
"""Binary digits of a share, and of the largest costs of places that can be drawn."""

_PLACES = 2**10
"""Among so many neighborhoods of cells a middle is drawn, in pure epsilon."""

_NARROW, _FINER = 128, 2**12
"""Cells on either side of the middle of a narrow column, and the finer ones in their place.

A middle is drawn among 64 cells, so that values may be twice as many away: with finer cells in
place of 64 the latitudes of one city had a scale 36 times too large."""


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


@dataclass(frozen=True, kw_only=True, repr=False)
class _Around:
    """A middle, the rows within radii around it, and what shares of them tell one from another.

    ``same`` is the share of the rows that share the middle's value, 0 where that does not show, and
    ``doubt`` the deviation of its noise in rows.  ``needed`` is the share of the rows by which the
    right radius is surely better than others.
    """

    cells: Cells
    center: float
    radius: float
    rows: float
    same: float
    doubt: float
    rate: Fraction
    needed: float

    @property
    def at(self) -> float:
        """The middle in the units of a spread."""
        return self.center + self.cells.anchor

    @property
    def far(self) -> float:
        """The largest distance of a value, at most."""
        return 1.0 + abs(self.at)

    @cached_property
    def radii(self) -> Array:
        """Distances that are told apart, (k,)."""
        octaves = np.ceil(np.log2(self.far / self.radius))
        return self.radius * 2.0 ** (np.arange(_IN_OCTAVE * octaves + 1) / _IN_OCTAVE)

    @cached_property
    def inside(self) -> Counts:
        """Exact **sensitive** numbers of rows within the radii, (k,)."""
        return _inside(self.cells, self.center, self.radii)

    @property
    def unsure(self) -> float:
        """Share of the rows that the count of one value may miss, where that shows."""
        return self.doubt / self.rows * (self.same > 0)

    @property
    def parts(self) -> float | None:
        """The drawn radius holds all others but one of so many; None where it cannot tell."""
        if 1 - self.same < 2 * (self.needed + self.unsure):
            return None
        return min(_PARTS, (1 - self.same) / self.needed)

    @property
    def digits(self) -> int:
        """Binary digits of the share that a radius is to hold."""
        largest = _MOST_COST - log2((len(self.radii) + _MOST_UNLIKE) / float(self.rate))
        return min(_MOST_UNITS, int(largest))

    def beside(self, spread: Spread) -> Alone:
        """One value, and the rows beside it."""
        others = (1 - self.same) * self.rows
        around = self.cells.around(self.center)
        return Alone(spread, self.radius, self.rows, others, self.doubt, around)


def look_at_once(
    cells: Cells, cost: PureDP, problem: Problem, entropy: Entropy, typical: float | None = None
) -> Seen:
    """In pure epsilon draws of the exponential mechanism cost less than counts in shells.

    ``typical`` is the usual scale of other columns, as far as it is published.
    """
    around = _around(cells, cost, problem, entropy)
    if around is None or around.digits < _LEAST_UNITS:
        return Seen(None)
    parts = around.parts
    if parts is None:
        # Nothing but one value shows; or nothing at all.
        hidden = min(1.0, max(around.needed, around.unsure))
        spread = Spread(around.at, around.far * sqrt(hidden))
        return Seen(spread, around.beside(spread)) if around.same > 0.5 else Seen(None)
    drawn = _drawn_radius(around, parts, typical, entropy)
    # Normal values but for one of so many parts lie within so many deviations.
    usual = min(drawn, around.far) / NormalDist().inv_cdf(1 - 0.5 / parts) * sqrt(1 - around.same)
    # The radius is up to the next one farther out than the part needs.
    spread = Spread(around.at, min(1.0, usual), 2 ** (-1 / _IN_OCTAVE))
    if around.same > 0.5:
        return Seen(spread, around.beside(spread))
    if usual >= 1:
        return Seen(spread.within_bounds)
    return _within(around, parts, drawn, spread)


def _around(cells: Cells, cost: PureDP, problem: Problem, entropy: Entropy) -> _Around | None:
    """A middle by one draw, and how many rows share its value; None where it would be far off."""
    middle, parts_of = _middle_at_once(cells, cost, problem, entropy), PARTS_OF[problem.neighbors]
    if middle is None:
        return None
    center, radius, rows = middle
    # One value may hold most rows: the spread is then that of the others.
    count = CountNoise(part_of(cost, parts_of.one_value), problem)
    within = _inside(cells, center, np.array([radius]))
    same = min(1.0, float(within[0] + count.draw(1, entropy)[0]) / rows)
    # One person moves a cost by at most k, up or down.
    rate = cost.epsilon * parts_of.radius / (2 * problem.rows_per_person)
    return _Around(
        cells=cells,
        center=center,
        radius=radius,
        rows=rows,
        same=same * (same * rows > 2 * count.std()),
        doubt=count.std(),
        rate=rate,
        needed=_RADII / float(rate) / rows,
    )


def _inside(cells: Cells, center: float, radii: Array) -> Counts:
    """Exact numbers of rows within these distances of a center."""
    outer, inner = cells.nearest(center + radii), cells.nearest(center - radii)
    return np.asarray(cells.below[outer] - cells.below[inner])


def _drawn_radius(around: _Around, parts: float, typical: float | None, entropy: Entropy) -> float:
    """Draw the radius that holds all rows but one of so many parts of the others."""
    share = 1 - (1 - around.same) / parts
    # A value that the count missed may be shared by so many rows that many radii hold no others.
    missed = around.same == 0 and 2 * around.doubt / around.rows + around.needed > share
    unlikely = _unlikely(around.radii, typical, missed=missed) / float(around.rate)
    numerator, rows = round(2**around.digits * share), int(around.cells.below[-1])
    held = numerator, around.digits
    return float(around.radii[_radius(around.inside, rows, held, around.rate, unlikely, entropy)])


def _within(around: _Around, parts: float, drawn: float, spread: Spread) -> Seen:
    """What is looked at once more of a column: where it is narrow, or where its tail lies."""
    cells, center, rows = around.cells, around.center, around.rows
    anywhere = replace(spread, scale=min(1.0, around.far * parts**-0.5))
    if drawn <= 4 * cells.width(center):
        # Others lie within the finer cells, or anywhere.
        spread = Spread(around.at, anywhere.scale)
        return Seen(spread, Alone(spread, drawn, rows, 0.0, rows / parts, cells.around(center)))
    if drawn <= 2 * _together(cells) * cells.width(center):
        # A middle is drawn among half as many cells: most rows may share a value beside it.
        # Or the cells are too wide to tell how narrow the column is.
        finer = cells.around(center, _NARROW, _FINER)
        return Seen(spread, Alone(anywhere, drawn, rows, 0.0, rows / parts, finer, finer=spread))
    if around.needed <= _AMPLE:
        # The radius leaves out a tail, and rings say where that lies.
        tail = Alone(spread, drawn, rows, rows / parts, 0.0, None, finer=spread, is_spread=True)
        return Seen(spread, tail)
    return Seen(spread)


def _unlikely(radii: Array, typical: float | None, *, missed: bool) -> Array:
    """By how much radii are less likely than others before any row is seen, in logarithms, (k,)."""
    unlikely = np.zeros(len(radii))
    if missed:
        unlikely += _SMALLER / _IN_OCTAVE * np.arange(len(radii))[::-1]
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

"""Find centers and scales of all columns privately, so that typed bounds may be far too wide.

Privacy
-------
Guarantee : rho-zCDP or epsilon-DP, as the cost says.  Neighbors : replace-one or
    add-remove-one.
Unit : the rows of one person.  Public inputs : cost, columns, relation, n under replace-one.
Private input : histograms of all columns.  Not protected : running time, memory.
Numerics : exact.  Proof : survey.md.

Sensitivity
-----------
Of k rows per person: a count of the values below an edge moves by at most k, a histogram of
disjoint cells by sqrt(2) k (replace-one) or k (add-remove-one) in the l2 norm, by 2 k or k in the
l1 norm.  Every column has its own part of the cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log, log2, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcov.data.histograms import (
    FINE_CELLS,
    MISSING,
    UNIT,
    Counts,
    FineWindow,
    HistogramQuestion,
    Rings,
    Shared,
    Window,
    fine_edges,
)
from dpcov.data.questions import Ask
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.finished import Cost, part_of, squared_noise_scale
from dpcov.noise.choice import exponential_choice
from dpcov.noise.entropy import Entropy
from dpcov.noise.lattice import discrete_laplace, rounded_gaussian
from dpcov.privacy.guarantee import ZCDP, PureDP

Floats = NDArray[np.float64]

LEVELS = FINE_CELLS.bit_length() - 1
"""Halvings of a fine window; ends of its cells are their ends."""

FALSE_SHELLS = 0.05
"""Chance that some column of the table is given a spread that is not there."""

FALSE_SCALES = 0.001
"""The same where nearly all rows share a value: so small a scale would spoil all other columns."""

ENOUGH = 0.3
"""A middle is found when its interval holds less than this part of the rows."""

_MOST_HIDDEN, _MOST_HIDDEN_PRIVATE = 1 / 9, 1 / 16
"""A column shows when the noise may hide at most this part of its rows in two shells; less where
the number of rows is private and noise on it alone makes columns show."""

_PAYS, _PAYS_WIDE, _WIDE = 1 / 14, 1 / 10, 10
"""The same of the public number of rows, with which a survey is made; and with more columns than
that, where shrinkage keeps the error of many small."""

_CLEAR = 1 / 24
"""And with which more of the budget would not show more."""

_PAYS_PURE, _CLEAR_PURE = 0.4, 1 / 9
"""In pure epsilon the same two for how many of the rows a middle is away."""

_ZOOM_CELLS = 16
"""Cells on either side of the middle that a second, finer window shows."""

_SQUARES, _AMPLE = Fraction(1, 5), 1 / 64
"""Part for a sum of squares, where so small a part of the rows can be looked for without it."""

_RADII = log(33) + 3
"""Rows by which the right radius must be better than others, times the rate of the draw."""

_SMALLER = 0.3
"""Logarithm by which a radius is less likely than the next larger one where noise may mislead."""

_ONE = 2**12
"""Of a sum of squares that are at most one, in integers."""

_PARTS = 64
"""In pure epsilon the radius of all values but one of so many parts is drawn, or of fewer."""

_MOST_UNITS, _LEAST_UNITS, _MOST_COST = 10, 6, 31
"""Binary digits of a share, and of the largest cost of a place that can be drawn."""

_TOGETHER = 2**6
"""Cells that are taken together in a search for the middle, in pure epsilon."""

_FINEST = 2.0**-24
"""Width of a cell, bounds being -1 and 1, in which nothing more is looked for."""

LIKELY = 0.5
"""Chance with which noise alone makes a guess where other values than one lie."""

LEAST_FALL, HIDDEN_SHELLS = 2.0, 2
"""Factor by which a tail falls from shell to shell at least, and how far it may go on unseen."""

LACKING = 3.0
"""Deviations of the noise from which values are missing in the shells that show."""

RUNS = 1, 2, 4
"""Neighboring shells of which the sums are tested."""

_FIRST, _SECOND = Fraction(4, 5), Fraction(1, 5)
"""Parts of the cost for a look at every column, and at those of which one value showed alone."""

_FINER = Fraction(1, 2)
"""Part of that for finer windows where one is needed; the rest is for the rings of all together."""


class _Parts(NamedTuple):
    """Of the cost of a look in pure epsilon: what for, and how far a middle may be away."""

    counting: Fraction
    middle: Fraction
    one_value: Fraction
    radius: Fraction
    most_off: float


# Added rows move a middle by half as much as replaced ones, and their number is private.
_PARTS_OF = {
    "replace-one": _Parts(Fraction(1, 20), Fraction(9, 20), Fraction(1, 10), Fraction(2, 5), 0.45),
    "add-remove-one": _Parts(
        Fraction(3, 50), Fraction(6, 25), Fraction(3, 20), Fraction(11, 20), 0.3
    ),
}


@dataclass(frozen=True)
class Spread:
    """Center and scale in units of a column's bounds, -1 and 1; a level's center is its share.

    ``energy`` is the mean square of values around the center over the squared scale: 1/2 where it
    was not measured, 0 where nothing but the bounds is known.
    """

    center: float
    scale: float
    energy: float = 0.0


@dataclass(frozen=True)
class SurveyColumn:
    """What the survey must know of a column.

    Parameters
    ----------
    name : str
    categories : int
        0 for a number.
    boolean : bool
    anchor : float
        Where values of a number may lie close together: zero, or the bound nearest to it.
    """

    name: str
    categories: int = 0
    boolean: bool = False
    anchor: float = 0.0


@dataclass(frozen=True)
class CountNoise:
    """Exact integer noise on counts that a part of the cost pays for; a row adds ``unit``."""

    cost: Cost
    problem: Problem
    unit: int = 1

    def _moved(self, disjoint: bool) -> int:
        # One of two cells loses k rows and the other gains them when rows are replaced.
        moved = 2 if disjoint and self.problem.neighbors == "replace-one" else 1
        return moved * self.problem.rows_per_person * self.unit

    def _squared_scale(self, disjoint: bool) -> Fraction:
        moved = self._moved(disjoint)
        return squared_noise_scale(
            self.cost, moved, moved * self.problem.rows_per_person * self.unit
        )

    def draw(self, size: int, entropy: Entropy, *, disjoint: bool = False) -> Counts:
        """Noise for ``size`` disjoint cells together, or for one count."""
        if isinstance(self.cost, ZCDP):
            return rounded_gaussian(self._squared_scale(disjoint), size, entropy)
        return discrete_laplace(self._moved(disjoint) / self.cost.epsilon, size, entropy)

    def std(self, *, disjoint: bool = False) -> float:
        """Standard deviation of one count's noise."""
        return sqrt(self._squared_scale(disjoint) * (1 if isinstance(self.cost, ZCDP) else 2))

    def evidence(self, std: float, chance: float) -> float:
        """A sum of noises of this standard deviation exceeds it with at most this chance."""
        log_inverse = log(1 / chance)
        # Sums of Laplace noises have lighter tails than one of them of the same variance.
        gaussian = isinstance(self.cost, ZCDP)
        return std * (sqrt(2 * log_inverse) if gaussian else log_inverse / sqrt(2))


def survey(
    ask: Ask, columns: Sequence[SurveyColumn], cost: Cost, problem: Problem, entropy: Entropy
) -> list[list[Spread]]:
    """Centers and scales; one for a number, one for each level of a column of categories.

    Parameters
    ----------
    ask : Ask
    columns : sequence of SurveyColumn
        In the order of the encoding's ``column_values``.
    cost : PureDP or ZCDP
        What the survey may cost, all of which is charged.
    problem : Problem
    entropy : Entropy
    """
    share, size = part_of(cost, Fraction(1, len(columns))), len(columns)
    wide = ask(question(columns))
    found: list[list[Spread]] = []
    alone: dict[int, _Alone] = {}
    for place, (column, counts) in enumerate(zip(columns, wide.counts, strict=True)):
        if column.categories or column.boolean:
            found.append(_levels(counts, CountNoise(share, problem), size, entropy))
            continue
        cells = _Cells.whole(counts, column.anchor)
        seen = _look(cells, part_of(share, _FIRST), problem, size, entropy)
        found.append([seen.spread or Spread(0.0, 1.0)])
        if seen.alone is not None:
            alone[place] = seen.alone
    if not alone:
        return found
    windows = {place: each.window for place, each in alone.items() if each.window is not None}
    rings = [(place, each.weight, each.rings) for place, each in alone.items()]
    again = ask(
        HistogramQuestion(
            windows=tuple(windows.get(place, Window(cells=1)) for place in range(size)),
            shared=Shared(tuple(rings), in_l2=isinstance(cost, ZCDP)),
            watched=True,
        )
    )
    numbers = sum(not (column.categories or column.boolean) for column in columns)
    second = part_of(share, _SECOND * numbers)
    finer = part_of(second, _FINER / max(1, len(windows)))
    for place, window in windows.items():
        cells = _Cells.zoomed(wide.counts[place], again.counts[place], window)
        seen = _look(cells, finer, problem, size, entropy)
        # The first look had more of the budget for what lies far away.
        if seen.spread is not None and seen.alone is None:
            found[place] = [seen.spread]
            alone[place] = replace(alone[place], finer=seen.spread)
    together = part_of(second, 1 - _FINER) if windows else second
    around = _look_around(
        list(alone.values()), again.counts[size:], together, problem, size, entropy
    )
    for place, spread in zip(alone, around, strict=True):
        found[place] = [spread]
    return found


def check_cost(cost: Cost, columns: Sequence[SurveyColumn], problem: Problem) -> None:
    """Refuse now a cost whose smallest part needs more noise than can be drawn."""
    second = part_of(cost, _SECOND / max(1, len(columns)))
    CountNoise(part_of(second, _FINER / 2 * min(_SHARES)), problem).std(disjoint=True)
    CountNoise(part_of(second, 1 - _FINER), problem, UNIT).std(disjoint=True)


def doubt(cost: Cost, columns: Sequence[SurveyColumn], problem: Problem) -> float:
    """Noise over that with which columns show clearly; 0 where the number of rows is private."""
    hidden, _, clear = _hidden(cost, columns, problem)
    return hidden / clear


def pays(cost: Cost, columns: Sequence[SurveyColumn], problem: Problem) -> bool:
    """Whether columns show, by the public number of rows, or that is private."""
    hidden, most, _ = _hidden(cost, columns, problem)
    return bool(columns) and hidden <= most


def _hidden(
    cost: Cost, columns: Sequence[SurveyColumn], problem: Problem
) -> tuple[float, float, float]:
    """Part of the rows that noise may hide; with which of it a survey pays, and shows clearly."""
    if problem.n_rows is None or not columns:
        return 0.0, _PAYS, _CLEAR
    look = part_of(cost, _FIRST / len(columns))
    if isinstance(look, PureDP):
        choosing = part_of(look, _PARTS_OF[problem.neighbors].middle)
        return _rows_off(choosing, problem) / problem.n_rows, _PAYS_PURE, _CLEAR_PURE
    shells = CountNoise(part_of(look, Fraction(1, 2)), problem)
    most = _PAYS_WIDE if len(columns) > _WIDE else _PAYS
    return sqrt(2) * shells.std(disjoint=True) / problem.n_rows, most, _CLEAR


def _rows_off(cost: Cost, problem: Problem) -> float:
    """Rows between the median and a middle drawn among all places, rarely more."""
    return log(FINE_CELLS / _TOGETHER) / float(_middle_rate(cost, problem))


def _middle_rate(cost: Cost, problem: Problem) -> Fraction:
    assert isinstance(cost, PureDP)
    # Removed rows raise no cost of a cell, so that add-remove-one needs half the noise.
    moved = problem.rows_per_person * (2 if problem.neighbors == "replace-one" else 1)
    return cost.epsilon / moved


def _radius_rate(cost: PureDP, problem: Problem) -> Fraction:
    # One person moves a cost by at most k, up or down.
    return cost.epsilon * _PARTS_OF[problem.neighbors].radius / (2 * problem.rows_per_person)


def question(columns: Sequence[SurveyColumn]) -> HistogramQuestion:
    """The first question of a survey."""
    return HistogramQuestion(windows=tuple(map(_window, columns)), watched=True)


def _window(column: SurveyColumn) -> Window | FineWindow:
    if column.boolean:
        # No is -1 and yes is 1.
        return Window(-2.0, 2.0, 2)
    if column.categories:
        return Window(-0.5, column.categories - 0.5, column.categories)
    return FineWindow(column.anchor)


# Parts of the cost of a search for its numbers: the first ones always count.
_WEIGHTS = [Fraction(1, place + 2) for place in range(LEVELS + 1)]
_SHARES = [each / sum(_WEIGHTS) for each in _WEIGHTS]

_EDGES = fine_edges()


@dataclass(frozen=True)
class _Cells:
    """Sensitive counts of values below edges, which are distances from an anchor."""

    edges: Floats
    below: Counts
    first: int
    last: int
    anchor: float

    @classmethod
    def whole(cls, counts: Counts, anchor: float) -> "_Cells":
        """All values: they are clipped to the bounds, so that none lies outside."""
        return cls._of(_EDGES, counts[MISSING + 1 :], 0, FINE_CELLS, anchor)

    @classmethod
    def zoomed(cls, wide: Counts, fine: Counts, window: Window) -> "_Cells":
        """The fine cells of a window, whose ends are edges, among the wide ones outside of it."""
        start, stop = np.searchsorted(_EDGES, [window.lower, window.upper])
        wide = wide[MISSING + 1 :]
        inside = np.linspace(window.lower, window.upper, window.cells + 1)
        edges = np.concatenate([_EDGES[:start], inside, _EDGES[stop + 1 :]])
        counts = np.concatenate([wide[:start], fine[MISSING + 1 :], wide[stop:]])
        return cls._of(edges, counts, int(start), int(start) + window.cells, window.anchor)

    @classmethod
    def _of(cls, edges: Floats, counts: Counts, first: int, last: int, anchor: float) -> "_Cells":
        return cls(edges, np.concatenate([[0], np.cumsum(counts)]), first, last, anchor)

    def width(self, center: float) -> float:
        """Of the wider one of the two cells at an edge."""
        place = int(np.searchsorted(self.edges, center))
        around = self.edges[max(0, place - 1) : place + 2]
        return float(np.diff(around).max())

    def nearest(self, ends: Floats) -> NDArray[np.intp]:
        """The first edges from there on; the last one beyond all."""
        return np.minimum(np.searchsorted(self.edges, ends), len(self.edges) - 1)

    def around(self, center: float) -> Window | None:
        """Cells on either side of an edge, for a finer look; None where they are fine enough."""
        # Near the anchor cells are as fine as numbers are.
        if self.width(center) <= _FINEST:
            return None
        place, last = int(np.searchsorted(self.edges, center)), len(self.edges) - 1
        lower = self.edges[max(0, place - _ZOOM_CELLS)]
        upper = self.edges[min(last, place + _ZOOM_CELLS)]
        # Its upper end is counted in the next of the wide cells.
        return Window(float(lower), float(upper), anchor=self.anchor, closed=False)


@dataclass(frozen=True)
class _Alone:
    """A value that showed alone: others are at least ``radius`` away, or within a finer window.

    Parameters
    ----------
    spread : Spread
        What is taken where a second look shows nothing.
    radius, rows : float
        Where other values begin, and the number of all.
    others, unsure : float
        How many are away, and the standard deviation of the noise on that; 0 if not known.
    window : Window, optional
        Finer cells around the value.
    finer : Spread, optional
        What they showed.
    """

    spread: Spread
    radius: float
    rows: float
    others: float
    unsure: float
    window: Window | None
    finer: Spread | None = None

    @property
    def weight(self) -> int:
        """Of a row's part in these rings: in proportion to how rare others are."""
        return max(1, round(UNIT / max(1.0, self.others, self.unsure)))

    @property
    def rings(self) -> Rings:
        """What lies how far away."""
        far = 1.0 + abs(self.spread.center)
        cells = max(1, int(np.ceil(np.log2(far / self.radius))))
        return Rings(self.spread.center, self.radius, cells)


@dataclass(frozen=True)
class _Seen:
    """What a look at a column found, if anything; the value if only one showed."""

    spread: Spread | None
    alone: _Alone | None = None


def _look(cells: _Cells, cost: Cost, problem: Problem, size: int, entropy: Entropy) -> _Seen:
    """Find the middle, then the spread around it."""
    if isinstance(cost, ZCDP):
        return _look_in_shells(cells, part_of(cost, Fraction(1, 2)), problem, size, entropy)
    return _look_at_once(cells, cost, problem, entropy)


def _look_in_shells(
    cells: _Cells, half: Cost, problem: Problem, size: int, entropy: Entropy
) -> _Seen:
    middle = _middle(cells, half, problem, entropy)
    noise = CountNoise(half, problem)
    std = noise.std(disjoint=True)
    most = _MOST_HIDDEN_PRIVATE if problem.n_rows is None else _MOST_HIDDEN
    if middle is None or sqrt(2) * std > most * middle[2]:
        return _Seen(None)
    center, radius, rows = middle
    at = center + cells.anchor
    far = 1.0 + abs(at)
    edges = np.concatenate([[0.0], radius * 2.0 ** np.arange(np.ceil(np.log2(far / radius)) + 1)])
    # Every end is the end of some cell, so that shells are disjoint.
    right, left = cells.nearest(center + edges), cells.nearest(center - edges)
    counts = np.stack([np.diff(cells.below[right]), -np.diff(cells.below[left])])
    inner, outer = edges[:-1], edges[1:]
    seen = counts + noise.draw(counts.size, entropy, disjoint=True).reshape(counts.shape)
    # Values spread evenly inside a shell have these mean distances and squared distances.
    mean, square = (inner + outer) / 2, (inner**2 + inner * outer + outer**2) / 3
    looks = 2 * counts.size * size
    last = _outermost(seen, std, noise.evidence(1.0, FALSE_SHELLS / looks))
    least = _least_radius(seen, outer, last, std, rows)
    hidden = sqrt(2) * std / rows
    offset = float((seen[0] - seen[1])[: last + 1] @ mean[: last + 1]) / rows
    squares = float(np.maximum(seen.sum(axis=0), 0)[: last + 1] @ square[: last + 1]) / rows
    if not least and (
        outer[last] <= 4 * cells.width(center)
        or _one_value(seen, noise.evidence(std, FALSE_SCALES / looks))
    ):
        # Nothing but one value shows: others lie where most seems to be, or anywhere.
        sides = np.concatenate([seen / std, seen.sum(axis=0, keepdims=True) / (sqrt(2) * std)])
        behind = int(np.argmax(seen.sum(axis=0))) + 1
        likely = sides.max(axis=0)[behind:] > noise.evidence(1.0, LIKELY / sides.size)
        farthest = outer[behind:][likely].max(initial=0.0) or far
        spread = Spread(at, min(1.0, sqrt(squares + hidden * farthest**2)))
        begins = max(last if outer[last] <= 4 * cells.width(center) else 0, behind - 1)
        within = float(seen[:, : begins + 1].sum())
        # The number of all values is about as noisy as that of a shell's side.
        unsure = std * sqrt(2 * begins + 3)
        away = rows - within, unsure
        alone = _Alone(spread, float(outer[begins]), rows, *away, cells.around(center))
        return _Seen(spread, alone)
    # No shell behind the next two shows: summing them all would sum noise.
    near = seen.sum(axis=0)[: last + 3]
    tail = np.maximum(np.cumsum(near[::-1])[::-1], 0) / rows
    shown, squares = squares, squares + _unseen(tail, square, last, hidden, rows)
    # Rows far out must not be longer than the other columns together make them.
    squares = max(squares, float(square[last]) / (size + 1), least**2)
    offset = float(np.clip(offset, -sqrt(squares), sqrt(squares)))
    scale = sqrt(max(squares - offset**2, squares / 4))
    return _Seen(Spread(at + offset, scale, max(0.0, shown - offset**2) / scale**2))


def _look_around(
    alone: Sequence[_Alone],
    counts: Sequence[Counts],
    cost: Cost,
    problem: Problem,
    size: int,
    entropy: Entropy,
) -> list[Spread]:
    """Spreads of columns in which one value showed alone, from the rings of all together."""
    noise, sums = CountNoise(cost, problem, UNIT), np.concatenate(counts)
    noisy = (sums + noise.draw(len(sums), entropy, disjoint=True)) / UNIT
    std = noise.std(disjoint=True) / UNIT
    chances = np.array([FALSE_SHELLS, FALSE_SCALES]) / (len(RUNS) * len(sums))
    shown, certain = (noise.evidence(std, chance) for chance in chances)
    ends = np.cumsum([len(each) for each in counts])[:-1]
    found = []
    for each, seen in zip(alone, np.split(noisy, ends), strict=True):
        last = last_ring(seen, std, shown)
        beside = None if last is None else _beside(each, seen, last, std, size)
        if beside is None or last_ring(seen, std, certain) is None:
            # Others lie where they seem to be, or anywhere.
            away = each.radius * 2.0 ** (len(seen) if last is None else last + 1)
            hidden = max(sqrt(2) * std, each.others - 2 * each.unsure)
            scale = max(sqrt(hidden / each.rows) * away, beside.scale if beside else 0.0)
            beside = each.finer or replace(each.spread, scale=min(each.spread.scale, scale))
        found.append(beside)
    return found


def _beside(alone: _Alone, seen: Floats, last: int, std: float, size: int) -> Spread:
    """Spread around a value beside which so many others lie in its rings, out to the last."""
    # As in shells, of twice the inner radius outside.
    square = np.asarray(7 / 3 * (alone.radius * 2.0 ** np.arange(len(seen))) ** 2, np.float64)
    # Rows in rings of several columns add less to each: what the first look proves is there.
    mass = max(1.0, float(np.maximum(seen, 0)[: last + 1].sum()))
    seen = seen * max(1.0, (alone.others - 2 * alone.unsure) / mass)
    tail = np.maximum(np.cumsum(seen[: last + 3][::-1])[::-1], 0) / alone.rows
    shown = float(np.maximum(seen, 0)[: last + 1] @ square[: last + 1]) / alone.rows
    squares = shown + _unseen(tail, square, last, sqrt(2) * std / alone.rows, alone.rows)
    # As in shells: rows far out must not be longer than the other columns together make them.
    squares = max(squares, float(square[last]) / (size + 1))
    center, own = alone.spread.center, 0.0
    if alone.finer is not None:
        center, own = alone.finer.center, alone.finer.scale**2
    scale = sqrt(squares + own)
    return Spread(center, min(1.0, scale), (shown + own) / scale**2)


def last_ring(seen: Floats, std: float, evidence: float) -> int | None:
    """The last ring that seems to hold something, of those which noise does not explain together.

    None if noise explains all.
    """
    for ring in reversed(range(len(seen))):
        for run in RUNS:
            together = seen[ring : ring + run]
            if together.sum() > evidence * sqrt(run):
                return ring + int(np.flatnonzero(together > std).max(initial=0))
    return None


def _middle(
    cells: _Cells, cost: Cost, problem: Problem, entropy: Entropy
) -> tuple[float, float, float] | None:
    """An edge near the median, half its interval and the number of values; None if none shows."""
    noises = [CountNoise(part_of(cost, each), problem) for each in _SHARES]
    rows = float(cells.below[-1] + noises[0].draw(1, entropy)[0])
    if noises[-1].std() > 0.5 * rows:
        return None
    lower, upper = cells.first, cells.last
    below = [0.0, rows]
    for noise in noises[1:]:
        middle = (lower + upper) // 2
        found = float(cells.below[middle] + noise.draw(1, entropy)[0])
        if found > rows / 2:
            upper, below[1] = middle, found
        else:
            lower, below[0] = middle, found
        if below[1] - below[0] < ENOUGH * rows or upper - lower == 1:
            break
    center = float(cells.edges[(lower + upper) // 2])
    nearer = min(cells.edges[upper] - center, center - cells.edges[lower])
    return center, max(float(nearer), cells.width(center)), rows


def _look_at_once(cells: _Cells, cost: PureDP, problem: Problem, entropy: Entropy) -> _Seen:
    """In pure epsilon draws of the exponential mechanism cost less than counts in shells."""
    squares = _SQUARES if _is_ample(cost, problem) else Fraction(0)
    rest = part_of(cost, 1 - squares)
    assert isinstance(rest, PureDP)
    middle, parts_of = _middle_at_once(cells, rest, problem, entropy), _PARTS_OF[problem.neighbors]
    if middle is None:
        return _Seen(None)
    center, radius, rows = middle
    at = center + cells.anchor
    far = 1.0 + abs(at)
    radii = radius * 2.0 ** np.arange(np.ceil(np.log2(far / radius)) + 1)
    inside = cells.below[cells.nearest(center + radii)] - cells.below[cells.nearest(center - radii)]
    # One value may hold most rows: the spread is then that of the others.
    count = CountNoise(part_of(rest, parts_of.one_value), problem)
    same = min(1.0, float(inside[0] + count.draw(1, entropy)[0]) / rows)
    same *= same * rows > 2 * count.std()
    rate = _radius_rate(rest, problem)
    needed, unsure = _RADII / float(rate) / rows, count.std() / rows * (same > 0)
    # So many rows beyond the right radius, and within it beside those that share a value.
    others = 1 - same
    parts = min(_PARTS, others / needed) if others >= 2 * needed + unsure else None
    digits = min(_MOST_UNITS, int(_MOST_COST - log2(max(1.0, rows))))
    if digits < _LEAST_UNITS:
        return _Seen(None)
    if parts is None:
        # Nothing but one value shows; or nothing at all.
        spread = Spread(at, far * sqrt(min(1.0, max(needed, unsure))))
        if same <= 0.5:
            return _Seen(None)
        away = others * rows, count.std()
        return _Seen(spread, _Alone(spread, radius, rows, *away, cells.around(center)))
    # A value that the count missed may be shared by so many rows that many radii hold no others.
    missed = same == 0 and 2 * count.std() / rows + needed > 1 - others / parts
    share, smaller = round(2**digits * (1 - others / parts)), _SMALLER * missed / float(rate)
    chosen = _radius(inside, int(cells.below[-1]), (share, digits), rate, smaller, entropy)
    drawn = float(radii[chosen])
    # Normal values but for one of so many parts lie within so many deviations.
    deviations = NormalDist().inv_cdf(1 - 0.5 / parts)
    usual = drawn / deviations * sqrt(1 - same)
    square = None
    if squares:
        own = part_of(cost, squares)
        square = _mean_square(cells, center, usual, rows, own, problem, entropy)
    # The radius is up to twice as far as the part needs.
    scale = usual if square is None else sqrt(max(square, usual**2 / 4))
    energy = 0.5 if square is None else max(0.0, square) / scale**2
    spread = Spread(at, min(1.0, scale), energy)
    if same > 0.5:
        away = others * rows, count.std()
        return _Seen(spread, _Alone(spread, radius, rows, *away, cells.around(center)))
    if drawn <= 4 * cells.width(center):
        # Others lie within the finer cells, or anywhere.
        spread = Spread(at, min(1.0, far * parts**-0.5))
        return _Seen(spread, _Alone(spread, drawn, rows, 0.0, rows / parts, cells.around(center)))
    return _Seen(spread)


def _radius(
    inside: Counts,
    rows: int,
    share: tuple[int, int],
    rate: Fraction,
    smaller: float,
    entropy: Entropy,
) -> int:
    """Draw a radius that holds a share of the rows, by what each of them holds.

    Parameters
    ----------
    share : tuple of (int, int)
        A numerator, and the power of two that is its denominator.
    smaller : float
        Public cost of a radius over that of the next larger one, in rows.
    """
    numerator, digits = share
    before, target = np.concatenate([[0], inside[:-1]]), numerator * rows
    # Least where that part is passed, by as much as possible on either side.
    costs = np.maximum(2**digits * before - target, target - 2**digits * inside)
    costs = costs - costs.min() + np.arange(len(inside))[::-1] * round(2**digits * smaller)
    return exponential_choice(costs, rate / 2**digits, entropy)


def _is_ample(cost: PureDP, problem: Problem) -> bool:
    """Whether the public number of rows, and so the budget for each, is large."""
    rate = _radius_rate(cost, problem)
    return problem.n_rows is not None and _RADII / float(rate) <= _AMPLE * problem.n_rows


def _mean_square(
    cells: _Cells,
    center: float,
    spread: float,
    rows: float,
    cost: Cost,
    problem: Problem,
    entropy: Entropy,
) -> float | None:
    """Of distances from the middle, cut where its noise is half a squared spread; None if near."""
    assert isinstance(cost, PureDP)
    # A value moves the sum of squares by as much as the largest is, one.
    scale = problem.rows_per_person / cost.epsilon
    longest = min(
        1.0 + abs(center + cells.anchor), spread * (rows / (2**1.5 * float(scale))) ** 0.5
    )
    if longest < 4 * spread:
        return None
    distances = np.maximum(np.abs(cells.edges[:-1] - center), np.abs(cells.edges[1:] - center))
    weights = np.floor(_ONE * np.minimum(1.0, distances / longest) ** 2).astype(np.int64)
    total = int(weights @ np.diff(cells.below)) + int(discrete_laplace(_ONE * scale, 1, entropy)[0])
    return float(total / _ONE / rows * longest**2)


def _middle_at_once(
    cells: _Cells, cost: Cost, problem: Problem, entropy: Entropy
) -> tuple[float, float, float] | None:
    """A middle by one draw."""
    parts = _PARTS_OF[problem.neighbors]
    choosing = part_of(cost, parts.middle)
    count = CountNoise(part_of(cost, parts.counting), problem)
    rows = float(cells.below[-1] + count.draw(1, entropy)[0])
    # Few columns miss much: the public number of rows is the better guess unless noise excludes it.
    if problem.n_rows is not None and rows + 2 * count.std() > problem.n_rows:
        rows = float(problem.n_rows)
    if _rows_off(choosing, problem) > parts.most_off * rows:
        return None
    # Fewer places need less of the budget; the last one ends where the cells do.
    ends = np.append(np.arange(cells.first, cells.last, _TOGETHER), cells.last)
    # What lies on the longer side of some cells; in the middle least.
    sides = np.maximum(cells.below[ends[:-1]], cells.below[-1] - cells.below[ends[1:]])
    rate = _middle_rate(choosing, problem)
    place = ends[exponential_choice(sides, rate, entropy)]
    center = float(cells.edges[place])
    return center, cells.width(center), rows


def _unseen(tail: Floats, square: Floats, last: int, hidden: float, rows: float) -> float:
    """Mean square of what the noise may hide beyond the last shell, where tails go on as they end.

    Parameters
    ----------
    tail : (t,) float64
        Noisy share of the values in a shell and outward, up to two shells beyond the last.
    square : (s,) float64
        Mean squared distance in a shell.
    last : int
        The last shell that shows.
    hidden : float
        Share that one standard deviation of the noise may hide.
    rows : float
    """
    if last + 1 == len(square):
        return 0.0
    share = max(tail[last], hidden)
    most = max(tail[last + 1], 0.0) + hidden
    # A tail falls by a power of the distance, as fast as before the last shell or right behind it.
    before = tail[last - 1] / share if last else 2.0
    fall = max(before, share / most, LEAST_FALL)
    total, share = 0.0, min(share / fall, most)
    for shell in range(last + 1, min(last + 1 + HIDDEN_SHELLS, len(square))):
        if share * rows < 1:
            break
        total += share * (1 - 1 / fall) * float(square[shell])
        share /= fall
    return total


def _outermost(seen: NDArray[np.int64], std: float, evidence: float) -> int:
    """The last shell with more rows from there outward than noise explains, on a side or both."""
    sides = [(seen[0], std), (seen[1], std), (seen.sum(axis=0), sqrt(2) * std)]
    for shell in reversed(range(seen.shape[1])):
        for side, one in sides:
            for run in RUNS:
                if side[shell : shell + run].sum() > evidence * one * sqrt(run):
                    return shell
    return 0


def _least_radius(
    seen: NDArray[np.int64], outer: Floats, last: int, std: float, rows: float
) -> float:
    """Half the radius within which most values seem to lie, if the shells that show lack them.

    Values that are spread over many shells show in none.  0 if the shells up to the last hold half.
    """
    beyond = rows - np.cumsum(seen.sum(axis=0))
    unsure = std * np.sqrt(2 * np.arange(1, len(outer) + 1) + 1)
    if beyond[last] <= max(rows / 2, LACKING * unsure[last]):
        return 0.0
    most = beyond + unsure
    enough = int(np.argmax(most <= max(rows / 4, float(most.min()))))
    return float(outer[enough]) / 2 if enough > last else 0.0


def _one_value(seen: NDArray[np.int64], evidence: float) -> bool:
    """Whether shells show one value alone, at the middle or, if that was missed, beside it."""
    most, elsewhere = int(np.argmax(seen.max(axis=0))), seen.copy()
    elsewhere[:, most] = 0
    return bool(2 * seen.max() > seen.sum() and elsewhere.max() <= evidence)


def _levels(counts: Counts, noise: CountNoise, size: int, entropy: Entropy) -> list[Spread]:
    """Share of every level; rare ones count for what noise may hide, or what rows can bear."""
    levels = counts[MISSING + 1 :]
    seen = levels + noise.draw(len(levels), entropy, disjoint=True)
    rows = max(1.0, float(seen.sum()))
    least = max(noise.std(disjoint=True) / rows, 1 / (size + 1))
    shares = np.clip(seen / rows, min(0.5, least), 0.5)
    plain = np.clip(seen / rows, 0.0, 1.0)
    return [
        Spread(float(one), sqrt(share * (1 - share)), float(one) / (share * (1 - share)))
        for one, share in zip(plain, shares, strict=True)
    ]

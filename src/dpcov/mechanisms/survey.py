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
from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from dpcov.data.histograms import MISSING, Counts, HistogramQuestion, Window
from dpcov.data.questions import Ask
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.finished import Cost, part_of, squared_noise_scale
from dpcov.noise.choice import exponential_choice
from dpcov.noise.entropy import Entropy
from dpcov.noise.lattice import discrete_laplace, rounded_gaussian
from dpcov.privacy.guarantee import ZCDP, PureDP

Floats = NDArray[np.float64]

LEVELS = 16
"""Halvings of a window; its cells are their ends."""

FALSE_SHELLS = 0.05
"""Chance that some column of the table is given a spread that is not there."""

ENOUGH = 0.3
"""A middle is found when its interval holds less than this part of the rows."""

MOST_HIDDEN = 1 / 16
"""A column shows when the noise may hide at most this part of its rows in two shells."""

_ZOOM_CELLS = 16

LIKELY = 2.0
"""Deviations of a shell's count from which other values than one are guessed to lie there."""
"""Cells on either side of the middle that a second, finer window shows."""

LEAST_FALL, HIDDEN_SHELLS = 2.0, 3
"""Factor by which a tail falls from shell to shell at least, and how far it may go on unseen."""

COUNTING = Fraction(1, 5)
"""Part of the cost of a middle for the number of values, in pure epsilon."""

_FIRST, _SECOND = Fraction(7, 10), Fraction(3, 10)
"""Parts of a column's cost for the whole range, and for the finer window where one is needed."""


@dataclass(frozen=True)
class Spread:
    """Center and scale in units of a column's bounds, -1 and 1; a level's center is its share."""

    center: float
    scale: float


@dataclass(frozen=True)
class SurveyColumn:
    """What the survey must know of a column: how many categories it has, 0 for a number."""

    name: str
    categories: int = 0
    boolean: bool = False


@dataclass(frozen=True)
class CountNoise:
    """Exact integer noise on counts that a part of the cost pays for."""

    cost: Cost
    problem: Problem

    def _moved(self, disjoint: bool) -> int:
        # One of two cells loses k rows and the other gains them when rows are replaced.
        moved = 2 if disjoint and self.problem.neighbors == "replace-one" else 1
        return moved * self.problem.rows_per_person

    def _squared_scale(self, disjoint: bool) -> Fraction:
        moved = self._moved(disjoint)
        return squared_noise_scale(self.cost, moved, moved * self.problem.rows_per_person)

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
    unseen: dict[int, Window] = {}
    for place, (column, counts) in enumerate(zip(columns, wide.counts, strict=True)):
        if column.categories or column.boolean:
            found.append(_levels(counts, CountNoise(share, problem), size, entropy))
            continue
        seen = _look(_Cells.whole(counts), part_of(share, _FIRST), problem, size, entropy)
        found.append([seen.spread])
        if seen.unresolved is not None:
            unseen[place] = seen.unresolved
    if unseen:
        windows = tuple(unseen.get(place, Window(cells=1)) for place in range(size))
        finer = ask(HistogramQuestion(windows=windows, watched=True))
        for place, window in unseen.items():
            cells = _Cells.zoomed(wide.counts[place], finer.counts[place], window)
            seen = _look(cells, part_of(share, _SECOND), problem, size, entropy)
            # The first look had more of the budget for what lies far away.
            found[place] = [seen.spread] if seen.unresolved is None else found[place]
    return found


def check_cost(cost: Cost, columns: Sequence[SurveyColumn], problem: Problem) -> None:
    """Refuse now a cost whose smallest part needs more noise than can be drawn."""
    smallest = _SECOND / 2 * min(_WEIGHTS) / sum(_WEIGHTS) / max(1, len(columns))
    CountNoise(part_of(cost, smallest), problem).std(disjoint=True)


def pays(cost: Cost, columns: Sequence[SurveyColumn], problem: Problem) -> bool:
    """Whether the public number of rows is large enough for columns to show, or is private."""
    if problem.n_rows is None or not columns:
        return bool(columns)
    shells = CountNoise(part_of(cost, _FIRST / 2 / len(columns)), problem)
    return sqrt(2) * shells.std(disjoint=True) <= MOST_HIDDEN * problem.n_rows


def question(columns: Sequence[SurveyColumn]) -> HistogramQuestion:
    """The first question of a survey."""
    return HistogramQuestion(windows=tuple(map(_window, columns)), watched=True)


def _window(column: SurveyColumn) -> Window:
    if column.boolean:
        # No is -1 and yes is 1.
        return Window(-2.0, 2.0, 2)
    if column.categories:
        return Window(-0.5, column.categories - 0.5, column.categories)
    return Window(cells=2**LEVELS)


# Parts of the cost of a search for its numbers: the first ones always count.
_WEIGHTS = [Fraction(1, place + 2) for place in range(LEVELS + 1)]

_EDGES = np.linspace(-1.0, 1.0, 2**LEVELS + 1)


@dataclass(frozen=True)
class _Cells:
    """Sensitive counts of values below edges; from the first to the last place cells are equal."""

    edges: Floats
    below: Counts
    first: int
    last: int

    @classmethod
    def whole(cls, counts: Counts) -> "_Cells":
        """All values: they are clipped to the bounds, so that none lies outside."""
        return cls._of(_EDGES, counts[MISSING + 1 :], 0, 2**LEVELS)

    @classmethod
    def zoomed(cls, wide: Counts, fine: Counts, window: Window) -> "_Cells":
        """The fine cells of a window, whose ends are edges, among the wide ones outside of it."""
        start, stop = np.searchsorted(_EDGES, [window.lower, window.upper])
        wide = wide[MISSING + 1 :]
        inside = np.linspace(window.lower, window.upper, window.cells + 1)
        edges = np.concatenate([_EDGES[:start], inside, _EDGES[stop + 1 :]])
        counts = np.concatenate([wide[:start], fine[MISSING + 1 :], wide[stop:]])
        return cls._of(edges, counts, int(start), int(start) + window.cells)

    @classmethod
    def _of(cls, edges: Floats, counts: Counts, first: int, last: int) -> "_Cells":
        return cls(edges, np.concatenate([[0], np.cumsum(counts)]), first, last)

    @property
    def width(self) -> float:
        """Of a cell."""
        return float(self.edges[self.first + 1] - self.edges[self.first])

    def between(self, lower: Floats, upper: Floats) -> Counts:
        """Exact counts in disjoint intervals whose ends are edges."""
        start, stop = (np.searchsorted(self.edges, each) for each in (lower, upper))
        last = len(self.edges) - 1
        return np.asarray(self.below[np.minimum(stop, last)] - self.below[np.minimum(start, last)])


@dataclass(frozen=True)
class _Seen:
    """What a look at a column found, and where to look again if only one value showed."""

    spread: Spread
    unresolved: Window | None = None


def _look(cells: _Cells, cost: Cost, problem: Problem, size: int, entropy: Entropy) -> _Seen:
    """Find the middle, then the spread in shells around it; half the cost for each."""
    find = _middle if isinstance(cost, ZCDP) else _middle_at_once
    middle = find(cells, part_of(cost, Fraction(1, 2)), problem, entropy)
    noise = CountNoise(part_of(cost, Fraction(1, 2)), problem)
    std = noise.std(disjoint=True)
    if middle is None or sqrt(2) * std > MOST_HIDDEN * middle[2]:
        return _Seen(Spread(0.0, 1.0))
    center, radius, rows = middle
    far = 1.0 + abs(center)
    edges = np.concatenate([[0.0], radius * 2.0 ** np.arange(np.ceil(np.log2(far / radius)) + 1)])
    inner, outer = edges[:-1], edges[1:]
    counts = np.stack(
        [
            cells.between(center + inner, center + outer),
            cells.between(center - outer, center - inner),
        ]
    )
    seen = counts + noise.draw(counts.size, entropy, disjoint=True).reshape(counts.shape)
    # Values spread evenly inside a shell have these mean distances and squared distances.
    mean, square = (inner + outer) / 2, (inner**2 + inner * outer + outer**2) / 3
    last = _outermost(seen, std, noise.evidence(1.0, FALSE_SHELLS / (2 * counts.size * size)))
    hidden = sqrt(2) * std / rows
    offset = float((seen[0] - seen[1])[: last + 1] @ mean[: last + 1]) / rows
    squares = float(np.maximum(seen.sum(axis=0), 0)[: last + 1] @ square[: last + 1]) / rows
    if outer[last] <= 4 * cells.width:
        # Nothing but one value shows: others lie where most seems to be, or anywhere.
        sides = np.concatenate([seen / std, seen.sum(axis=0, keepdims=True) / (sqrt(2) * std)])
        likely = sides.max(axis=0)[last + 1 :]
        is_likely = likely.max(initial=0.0) > LIKELY
        away = outer[last + 1 + int(np.argmax(likely))] if is_likely else far
        spread = Spread(center, min(1.0, sqrt(squares + hidden * away**2)))
        reach = _ZOOM_CELLS * cells.width
        return _Seen(spread, Window(max(-1.0, center - reach), min(1.0, center + reach)))
    # No shell behind the next two shows: summing them all would sum noise.
    near = seen.sum(axis=0)[: last + 3]
    tail = np.maximum(np.cumsum(near[::-1])[::-1], 0) / rows
    squares += _unseen(tail, square, last, hidden, rows)
    # Rows far out must not be longer than the other columns together make them.
    squares = max(squares, float(square[last]) / (size + 1))
    offset = float(np.clip(offset, -sqrt(squares), sqrt(squares)))
    return _Seen(Spread(center + offset, sqrt(max(squares - offset**2, squares / 4))))


def _middle(
    cells: _Cells, cost: Cost, problem: Problem, entropy: Entropy
) -> tuple[float, float, float] | None:
    """An edge near the median, half its interval and the number of values; None if none shows."""
    noises = [CountNoise(part_of(cost, each / sum(_WEIGHTS)), problem) for each in _WEIGHTS]
    rows = float(cells.below[-1] + noises[0].draw(1, entropy)[0])
    if noises[-1].std() > 0.25 * rows:
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
    center = cells.edges[(lower + upper) // 2]
    return float(center), max(1, (upper - lower) // 2) * cells.width, rows


def _middle_at_once(
    cells: _Cells, cost: Cost, problem: Problem, entropy: Entropy
) -> tuple[float, float, float] | None:
    """The same by one draw of the exponential mechanism: for pure epsilon, halvings cost more."""
    counting, choosing = part_of(cost, COUNTING), part_of(cost, 1 - COUNTING)
    assert isinstance(choosing, PureDP)
    count = CountNoise(counting, problem)
    rows = float(cells.below[-1] + count.draw(1, entropy)[0])
    # Few columns miss much: the public number of rows is the better guess unless noise excludes it.
    if problem.n_rows is not None and rows + 2 * count.std() > problem.n_rows:
        rows = float(problem.n_rows)
    # Removed rows raise no cost of a cell, so that add-remove-one needs half the noise.
    moved = problem.rows_per_person * (2 if problem.neighbors == "replace-one" else 1)
    rate = choosing.epsilon / moved
    if LEVELS * log(2) / float(rate) > 0.5 * rows:
        return None
    # What lies on the longer side of a cell; in the middle least.
    sides = np.maximum(cells.below[:-1], cells.below[-1] - cells.below[1:])
    place = cells.first + exponential_choice(sides[cells.first : cells.last], rate, entropy)
    return float(cells.edges[place]), cells.width, rows


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
            for run in (1, 2, 4):
                if side[shell : shell + run].sum() > evidence * one * sqrt(run):
                    return shell
    return 0


def _levels(counts: Counts, noise: CountNoise, size: int, entropy: Entropy) -> list[Spread]:
    """Share of every level; rare ones count for what noise may hide, or what rows can bear."""
    levels = counts[MISSING + 1 :]
    seen = levels + noise.draw(len(levels), entropy, disjoint=True)
    rows = max(1.0, float(seen.sum()))
    least = max(noise.std(disjoint=True) / rows, 1 / (size + 1))
    shares = np.clip(seen / rows, min(0.5, least), 0.5)
    plain = np.clip(seen / rows, 0.0, 1.0)
    return [
        Spread(float(one), sqrt(share * (1 - share)))
        for one, share in zip(plain, shares, strict=True)
    ]

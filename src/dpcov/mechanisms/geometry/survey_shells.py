"""A look at a column of numbers in zCDP: its middle, and how many values lie in shells around it.

Guarantee, proof: survey.md, Theorem 1.  Numerics: exact.
"""

from fractions import Fraction
from math import sqrt
from typing import NamedTuple

import numpy as np

from dpcov.data.histograms import FINE_CELLS, Counts, Window
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.cost import Cost, part_of
from dpcov.mechanisms.blocks.counts import CountNoise
from dpcov.mechanisms.geometry.survey_counts import (
    FALSE_SCALES,
    FALSE_SHELLS,
    LACKING,
    Alone,
    Cells,
    Seen,
    Spread,
    reached,
    strength,
    unseen,
)
from dpcov.noise.entropy import Entropy
from dpcov.published.linalg.symmetric import Array

LEVELS = FINE_CELLS.bit_length() - 1
"""Halvings of a fine window; ends of its cells are their ends."""

ENOUGH = 0.3
"""A middle is found when its interval holds less than this part of the rows."""

_MOST_HIDDEN, _MOST_HIDDEN_PRIVATE = 1 / 9, 1 / 16
"""A column shows when the noise may hide at most this part of its rows in two shells; less where
the number of rows is private and noise on it alone makes columns show."""

DOUBTFUL = 2.0
"""Deviations of the noise from which values may be missing in the shells that show.  Errors of 234
tables are 0.98 times as large with rings for them, and 0.99 times with 3 deviations."""

# Parts of the cost of a search for its numbers: the first ones always count.
_WEIGHTS = [Fraction(1, place + 2) for place in range(LEVELS + 1)]

SHARES = [each / sum(_WEIGHTS) for each in _WEIGHTS]


class _Middle(NamedTuple):
    """An edge near the median, half its interval, and the number of values."""

    center: float
    radius: float
    rows: float


class _Shells(NamedTuple):
    """What shells around a middle show, with noise; arrays have a number for every shell."""

    at: float
    rows: float
    outer: Array
    # Values spread evenly inside a shell, as far as the bounds, have these mean distances above and
    # below, (2, s), and this mean squared distance on the longer side.
    mean: Array
    square: Array
    # Values above the middle and below it, (2, s), and the deviation of noise on each number.
    seen: Counts
    std: float
    # Rows beyond each shell; their number is about as noisy as that of a shell's side.
    beyond: Array
    unsure: Array
    # The outermost one that shows, and the mean square of what shows up to there.
    last: int
    shown: float

    @property
    def hidden(self) -> float:
        """Share of the rows that one standard deviation of the noise may hide."""
        return sqrt(2) * self.std / self.rows

    def away(self, shell: int) -> tuple[float, float, float, float]:
        """A radius, the rows, those beyond, and the noise on these, as `Alone` has them."""
        beyond, unsure = float(self.beyond[shell]), float(self.unsure[shell])
        return float(self.outer[shell]), self.rows, beyond, unsure


def look_in_shells(cells: Cells, half: Cost, problem: Problem, size: int, entropy: Entropy) -> Seen:
    """Find the middle for ``half`` of the cost, and the spread around it for the other half."""
    middle, noise = _middle(cells, half, problem, entropy), CountNoise(half, problem)
    most = _MOST_HIDDEN_PRIVATE if problem.n_rows is None else _MOST_HIDDEN
    if middle is None or sqrt(2) * noise.std(disjoint=True) > most * middle.rows:
        return Seen(None)
    shells = _counted(cells, middle, noise, size, entropy)
    least = _least_radius(shells)
    is_narrow = bool(shells.outer[shells.last] <= 4 * cells.width(middle.center))
    if not least and (is_narrow or _is_one_value(shells, noise, size)):
        return _as_one_value(shells, is_narrow, cells.around(middle.center))
    return _as_spread(shells, size, least)


def _counted(
    cells: Cells, middle: _Middle, noise: CountNoise, size: int, entropy: Entropy
) -> _Shells:
    """Count the values in every shell, with noise, and find out which shells show."""
    center, radius, rows = middle
    far = 1.0 + abs(center + cells.anchor)
    edges = np.concatenate([[0.0], radius * 2.0 ** np.arange(np.ceil(np.log2(far / radius)) + 1)])
    # Every end is the end of some cell, so that shells are disjoint.
    right, left = cells.nearest(center + edges), cells.nearest(center - edges)
    counts = np.stack([np.diff(cells.below[right]), -np.diff(cells.below[left])])
    seen = counts + noise.draw(counts.size, entropy, disjoint=True).reshape(counts.shape)
    std, at = noise.std(disjoint=True), center + cells.anchor
    last = _outermost(_strongest(seen, std), noise, FALSE_SHELLS / (2 * seen.size * size))
    ends = np.minimum(edges, [[1.0 - at], [1.0 + at]])
    inner, outer = ends[:, :-1], ends[:, 1:]
    square = (inner**2 + inner * outer + outer**2) / 3
    return _Shells(
        at=at,
        rows=rows,
        outer=edges[1:],
        mean=(inner + outer) / 2,
        square=square.max(axis=0),
        seen=seen,
        std=std,
        beyond=rows - np.cumsum(seen.sum(axis=0)),
        unsure=std * np.sqrt(2 * np.arange(seen.shape[1]) + 3),
        last=last,
        shown=float(np.maximum((seen * square).sum(axis=0), 0)[: last + 1].sum()) / rows,
    )


def _as_one_value(shells: _Shells, is_narrow: bool, finer: Window | None) -> Seen:
    """Nothing but one value shows: others lie anywhere, and rings may say where."""
    far = 1.0 + abs(shells.at)
    spread = Spread(shells.at, min(1.0, sqrt(shells.shown + shells.hidden * far**2)))
    begins = max(shells.last if is_narrow else 0, int(np.argmax(shells.seen.sum(axis=0))))
    return Seen(spread, Alone(spread, *shells.away(begins), finer))


def _as_spread(shells: _Shells, size: int, least: float) -> Seen:
    """What shows, and what the noise may hide behind it."""
    last, until = shells.last, shells.last + 1
    # No shell behind the next two shows: summing them all would sum noise.
    near = shells.seen.sum(axis=0)[: last + 3]
    tail = np.maximum(np.cumsum(near[::-1])[::-1], 0) / shells.rows
    squares = shells.shown + unseen(tail, shells.square, last, shells.hidden)
    # Rows far out must not be longer than the other columns together make them.
    squares = max(squares, float(shells.square[last]) / (size + 1), least**2)
    above, below = shells.seen[:, :until]
    offset = float(above @ shells.mean[0, :until] - below @ shells.mean[1, :until]) / shells.rows
    offset = float(np.clip(offset, -sqrt(squares), sqrt(squares)))
    scale = sqrt(max(squares - offset**2, squares / 4))
    spread = Spread(shells.at + offset, scale, max(0.0, shells.shown - offset**2) / scale**2)
    if scale >= 1:
        return Seen(spread.within_bounds)
    if until == len(shells.outer) or shells.beyond[last] <= DOUBTFUL * shells.unsure[last]:
        return Seen(spread)
    # More lies farther out than shells there show: rings may say where.
    away = shells.away(last)
    return Seen(spread, Alone(spread, *away, None, finer=spread, is_spread=True))


def _middle(cells: Cells, cost: Cost, problem: Problem, entropy: Entropy) -> _Middle | None:
    """Halve the interval that holds the median, again and again; None if no middle shows."""
    noises = [CountNoise(part_of(cost, each), problem) for each in SHARES]
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
        if below[1] - below[0] < ENOUGH * rows:
            break
    # Many values may lie at the upper end of all: the last cell holds it.
    at_end = upper - lower == 1 and upper + 1 == len(cells.edges)
    center = float(cells.edges[upper if at_end else (lower + upper) // 2])
    nearer = min(cells.edges[upper] - center, center - cells.edges[lower])
    return _Middle(center, max(float(nearer), cells.width(center)), rows)


def _strongest(seen: Counts, std: float) -> Array:
    """What shells show on a side or both."""
    sides = [strength(side, std) for side in seen]
    return np.asarray(np.max([*sides, strength(seen.sum(axis=0), sqrt(2) * std)], axis=0))


def _outermost(strengths: Array, noise: CountNoise, chance: float) -> int:
    """The last shell that shows; none is the first."""
    most = int(np.argmax(strengths))
    if strengths[most] <= noise.evidence(1.0, chance):
        return 0
    return reached(most, strengths, noise, chance)


def _least_radius(shells: _Shells) -> float:
    """Half the radius within which most values seem to lie, if the shells that show lack them.

    Values that are spread over many shells show in none, where rows are few and columns many.  0 if
    the shells up to the last hold half.
    """
    beyond, unsure, rows, last = shells.beyond, shells.unsure, shells.rows, shells.last
    if beyond[last] <= max(rows / 2, LACKING * unsure[last]):
        return 0.0
    most = beyond + unsure
    enough = int(np.argmax(most <= max(rows / 4, float(most.min()))))
    return float(shells.outer[enough]) / 2 if enough > last else 0.0


def _is_one_value(shells: _Shells, noise: CountNoise, size: int) -> bool:
    """Whether shells show one value alone, at the middle or, if that was missed, beside it."""
    seen = shells.seen
    evidence = noise.evidence(shells.std, FALSE_SCALES / (2 * seen.size * size))
    elsewhere = seen.flatten()
    # Two values on either side of a middle that lies between them are in one shell.
    elsewhere[np.argmax(seen)] = 0
    # The sum of all shells would sum noise.
    return bool(2 * seen.max() > shells.rows and elsewhere.max() <= evidence)

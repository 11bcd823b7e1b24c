"""A look at a column of numbers in zCDP: its middle, and how many values lie in shells around it.

Guarantee, proof: survey.md, Theorem 1.  Numerics: exact.
"""

from fractions import Fraction
from math import sqrt

import numpy as np

from dpcov.data.histograms import FINE_CELLS, Counts
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.cost import Cost, part_of
from dpcov.mechanisms.blocks.counts import CountNoise
from dpcov.mechanisms.survey_counts import (
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
"""Deviations of the noise from which values may be missing in the shells that show."""

# Parts of the cost of a search for its numbers: the first ones always count.
_WEIGHTS = [Fraction(1, place + 2) for place in range(LEVELS + 1)]

SHARES = [each / sum(_WEIGHTS) for each in _WEIGHTS]


def look_in_shells(cells: Cells, half: Cost, problem: Problem, size: int, entropy: Entropy) -> Seen:
    """Find the middle for ``half`` of the cost, and the spread around it for the other half."""
    middle = _middle(cells, half, problem, entropy)
    noise = CountNoise(half, problem)
    std = noise.std(disjoint=True)
    most = _MOST_HIDDEN_PRIVATE if problem.n_rows is None else _MOST_HIDDEN
    if middle is None or sqrt(2) * std > most * middle[2]:
        return Seen(None)
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
    last = _outermost(_strongest(seen, std), noise, FALSE_SHELLS / looks)
    # Rows beyond each shell; their number is about as noisy as that of a shell's side.
    beyond = rows - np.cumsum(seen.sum(axis=0))
    unsure = std * np.sqrt(2 * np.arange(len(outer)) + 3)
    least = _least_radius(beyond, unsure, outer, last, rows)
    hidden = sqrt(2) * std / rows
    offset = float((seen[0] - seen[1])[: last + 1] @ mean[: last + 1]) / rows
    squares = float(np.maximum(seen.sum(axis=0), 0)[: last + 1] @ square[: last + 1]) / rows
    if not least and (
        outer[last] <= 4 * cells.width(center)
        or _one_value(seen, rows, noise.evidence(std, FALSE_SCALES / looks))
    ):
        # Nothing but one value shows: others lie anywhere, and rings may say where.
        spread = Spread(at, min(1.0, sqrt(squares + hidden * far**2)))
        behind = int(np.argmax(seen.sum(axis=0))) + 1
        begins = max(last if outer[last] <= 4 * cells.width(center) else 0, behind - 1)
        away = float(beyond[begins]), float(unsure[begins])
        alone = Alone(spread, float(outer[begins]), rows, *away, cells.around(center))
        return Seen(spread, alone)
    # No shell behind the next two shows: summing them all would sum noise.
    near = seen.sum(axis=0)[: last + 3]
    tail = np.maximum(np.cumsum(near[::-1])[::-1], 0) / rows
    shown, squares = squares, squares + unseen(tail, square, last, hidden, rows)
    # Rows far out must not be longer than the other columns together make them.
    squares = max(squares, float(square[last]) / (size + 1), least**2)
    offset = float(np.clip(offset, -sqrt(squares), sqrt(squares)))
    scale = sqrt(max(squares - offset**2, squares / 4))
    spread = Spread(at + offset, scale, max(0.0, shown - offset**2) / scale**2)
    away = float(beyond[last]), float(unsure[last])
    if last + 1 == len(outer) or away[0] <= DOUBTFUL * away[1]:
        return Seen(spread)
    # More lies farther out than shells there show: rings may say where.
    alone = Alone(spread, float(outer[last]), rows, *away, None, finer=spread, is_spread=True)
    return Seen(spread, alone)


def _middle(
    cells: Cells, cost: Cost, problem: Problem, entropy: Entropy
) -> tuple[float, float, float] | None:
    """An edge near the median, half its interval and the number of values; None if none shows."""
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
        if below[1] - below[0] < ENOUGH * rows or upper - lower == 1:
            break
    # Many values may lie at the upper end of all: the last cell holds it.
    at_end = upper - lower == 1 and upper + 1 == len(cells.edges)
    center = float(cells.edges[upper if at_end else (lower + upper) // 2])
    nearer = min(cells.edges[upper] - center, center - cells.edges[lower])
    return center, max(float(nearer), cells.width(center)), rows


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


def _least_radius(beyond: Array, unsure: Array, outer: Array, last: int, rows: float) -> float:
    """Half the radius within which most values seem to lie, if the shells that show lack them.

    Values that are spread over many shells show in none.  0 if the shells up to the last hold half.
    """
    if beyond[last] <= max(rows / 2, LACKING * unsure[last]):
        return 0.0
    most = beyond + unsure
    enough = int(np.argmax(most <= max(rows / 4, float(most.min()))))
    return float(outer[enough]) / 2 if enough > last else 0.0


def _one_value(seen: Counts, rows: float, evidence: float) -> bool:
    """Whether shells show one value alone, at the middle or, if that was missed, beside it."""
    elsewhere = seen.flatten()
    # Two values on either side of a middle that lies between them are in one shell.
    elsewhere[np.argmax(seen)] = 0
    # The sum of all shells would sum noise.
    return bool(2 * seen.max() > rows and elsewhere.max() <= evidence)

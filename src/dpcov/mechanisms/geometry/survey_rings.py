"""Look around values that hold nearly all of a column, at the rings of all such columns together.

Guarantee : rho-zCDP or epsilon-DP, as the cost says.  Numerics : exact.  Proof : survey.md.
    Private input : histograms of disjoint cells of the columns of which not all showed.
Sensitivity : As in the survey: a row is in so many units of all rings together, at most.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from dpcov.data.histograms import UNIT, Counts
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.cost import Cost
from dpcov.mechanisms.blocks.counts import CountNoise
from dpcov.mechanisms.geometry.survey_counts import (
    FALSE_SCALES,
    FALSE_SHELLS,
    RUNS,
    Alone,
    Spread,
    last_ring,
    reached,
    strength,
    unseen,
)
from dpcov.noise.entropy import Entropy
from dpcov.published.linalg.symmetric import Array


def look_around(
    alone: Sequence[Alone],
    counts: Sequence[Counts],
    cost: Cost,
    problem: Problem,
    size: int,
    entropy: Entropy,
    *,
    fits: bool,
) -> list[Spread]:
    """Spreads of columns of which not all showed, from the rings of all together.

    ``fits``: whether the bounds of most columns seem to be not far too wide.
    """
    noise, sums = CountNoise(cost, problem, UNIT), np.concatenate(counts)
    noisy = (sums + noise.draw(len(sums), entropy, disjoint=True)) / UNIT
    std = noise.std(disjoint=True) / UNIT
    # Tails that nobody counted are looked for apart: they do not make others show less.
    uncounted = np.repeat([each.is_uncounted for each in alone], [len(each) for each in counts])
    ends = np.cumsum([len(each) for each in counts])[:-1]
    found = []
    for each, seen in zip(alone, np.split(noisy, ends), strict=True):
        looks = len(RUNS) * int((uncounted == each.is_uncounted).sum())
        usual, certain = FALSE_SHELLS / looks, FALSE_SCALES / looks
        # Rows there are in the spread already, around a better center.
        inside = each.rings_inside
        each = replace(each, others=each.others - float(seen[:inside].sum()))
        seen[:inside] = 0.0
        sure = last_ring(seen, std, noise.evidence(std, certain))
        if sure is not None:
            last = reached(sure, strength(seen, std), noise, usual)
            found.append(_beside(each, seen, last, std, size))
        elif each.is_tail and each.finer is not None:
            found.append(each.finer)
        else:
            found.append(_perhaps(each, seen, noise, usual, size, fits=fits))
    return found


def _perhaps(
    alone: Alone, seen: Array, noise: CountNoise, usual: float, size: int, *, fits: bool
) -> Spread:
    """Spread where no ring surely shows: others lie where they seem to be, or anywhere."""
    std = noise.std(disjoint=True) / UNIT
    least, proven = sqrt(2) * std, alone.others - 2 * alone.unsure
    # As in shells: rows far out must not be longer than the other columns together make them.
    share = max(least, proven) / alone.rows
    part = sqrt(max(share, 1 / (size + 1)) if fits else share)
    ring = last_ring(seen, std, noise.evidence(std, usual)) if alone.finer is None else None
    if ring is None:
        hidden = max(1.0, alone.others, alone.unsure)
        # Others that were surely counted lie in some ring.
        odds = 0.0 if proven > least else 1.0 if fits else alone.rows / hidden
        of_rings = np.full(len(seen), odds)
        if alone.is_spread and alone.finer is not None:
            # A spread so many times as large is as much less likely.
            scales = part * alone.radius * 2.0 ** np.arange(1, len(seen) + 1)
            of_rings = np.maximum(of_rings, scales / alone.finer.scale)
        ring = _likely_ring(seen, noise, std, hidden, of_rings)
    # A radius that was drawn may be wrong.
    if ring is None and alone.finer is not None:
        return alone.finer
    # Where bounds fit, a ring that noise made must not make the scale small.
    end = None if fits and alone.finer is None else ring
    scale = part * alone.radius * 2.0 ** (len(seen) if end is None else end + 1)
    if ring is not None:
        scale = max(scale, _beside(alone, seen, ring, std, size).scale)
    return replace(alone.spread, scale=min(alone.spread.scale, scale))


def _likely_ring(
    seen: Array, noise: CountNoise, std: float, hidden: float, odds: Array
) -> int | None:
    """The ring that is likely to hold others; None if the odds for all are lower than ``odds``.

    Rows may be ``hidden`` or fewer: all of them, a half, a fourth or an eighth, in any ring.  All
    ``odds`` are zero where others are surely in some ring.
    """
    rows = np.asarray(hidden / 2.0 ** np.arange(4), np.float64)
    ratios = np.logaddexp.reduce(noise.log_ratio(seen[:, None], rows, std), axis=1)
    if odds.any():
        ratios -= np.log(odds * len(rows) * len(seen))
        if np.logaddexp.reduce(ratios) <= 0:
            return None
    return int(np.argmax(ratios))


def _beside(alone: Alone, seen: Array, last: int, std: float, size: int) -> Spread:
    """Spread around a value beside which so many others lie in its rings, out to the last."""
    # As in shells, of twice the inner radius outside.
    square = np.asarray(7 / 3 * (alone.radius * 2.0 ** np.arange(len(seen))) ** 2, np.float64)
    # Rows in rings of several columns add less to each: as many are there as the first look counts.
    mass = max(1.0, float(np.maximum(seen, 0)[: last + 1].sum()))
    seen = seen * max(1.0, alone.others / mass)
    tail = np.maximum(np.cumsum(seen[: last + 3][::-1])[::-1], 0) / alone.rows
    shown = float(np.maximum(seen, 0)[: last + 1] @ square[: last + 1]) / alone.rows
    squares = shown + unseen(tail, square, last, sqrt(2) * std / alone.rows)
    # As in shells: rows far out must not be longer than the other columns together make them.
    squares = max(squares, float(square[last]) / (size + 1))
    center, own = alone.spread.center, 0.0
    if alone.finer is not None:
        center, own = alone.finer.center, alone.finer.scale**2
    # Finer cells may have seen the same rows.
    scale = sqrt(max(squares, own))
    return Spread(center, scale, max(shown, own) / scale**2).within_bounds

"""From a mechanism to a lower bound: choose two tables, learn how to guess, count the guesses on fresh releases.

Contract: releases that choose a pair of tables or teach how to guess are never counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from scipy import stats

from dpcov.audit.lesson import Lesson, teach
from dpcov.audit.limits import ALPHA
from dpcov.audit.neighboring import Neighboring
from dpcov.audit.releases import Draw, Releases, by_coin, drawers
from dpcov.mechanisms.base import Mechanism
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import Promise

PILOT, SECOND_LOOK = 16, 4
"""A first and a second look at a pair of tables take the counted releases divided by these."""

FINALISTS = 3
"""Pairs that get a second look."""

FEWEST = 64
"""Releases from which something can be learned."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A lower bound, the score and the pair of tables that gave it, and all pairs that got a second look."""

    bound: float
    score: str
    pair: Neighboring
    finalists: tuple[Neighboring, ...]


def cost(pairs: int) -> float:
    """Releases that a bound takes for every one that is counted."""
    return 1.0 + pairs / PILOT + min(pairs, FINALISTS) / SECOND_LOOK


def gather(
    mechanism: Mechanism[Any],
    budget: Budget,
    promise: Promise,
    pairs: Sequence[Neighboring],
    draws: int,
    *,
    alpha: float = ALPHA,
    entropy: Entropy,
    coins: np.random.Generator,
) -> Evidence:
    """Lower confidence bound on a promise's number, from ``draws`` counted releases of the most telling pair."""
    candidates = [
        _Candidate(pair=pair, both=drawers(mechanism, budget, pair, entropy)) for pair in pairs
    ]
    for share, kept in ((PILOT, FINALISTS), (SECOND_LOOK, FINALISTS)):
        lessons = [
            each.look(max(draws // share, FEWEST), promise, draws, coins) for each in candidates
        ]
        order = sorted(range(len(lessons)), key=lambda each: -lessons[each].promising)[:kept]
        candidates, lessons = (
            [candidates[each] for each in order],
            [lessons[each] for each in order],
        )
    bound, score = lessons[0].count(*by_coin(candidates[0].both, draws, coins), promise, alpha)
    finalists = tuple(each.pair for each in candidates)
    return Evidence(bound=bound, score=score, pair=finalists[0], finalists=finalists)


@dataclass(kw_only=True)
class _Candidate:
    """A pair of tables and its releases so far."""

    pair: Neighboring
    both: tuple[Draw, Draw]
    known: tuple[Releases, Releases] = ([], [])

    def look(self, size: int, promise: Promise, draws: int, coins: np.random.Generator) -> Lesson:
        """Draw more releases, and learn from all of them as if they erred as little as what will be counted."""
        first, second = by_coin(self.both, size, coins)
        self.known = [*self.known[0], *first], [*self.known[1], *second]
        errors = stats.norm.isf(ALPHA) * sqrt(sum(map(len, self.known)) / draws)
        return teach(*self.known, promise, len(self.pair.first), float(stats.norm.sf(errors)))

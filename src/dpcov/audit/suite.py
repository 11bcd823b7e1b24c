"""The audit of mechanisms against their own claims: every promise, every relation.

Contract: of all claims that hold, one is refuted with probability ALPHA for every case.  Releases
that choose tables or teach how to guess are never counted.  Uses made-up tables only.
"""

import pkgutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import sqrt
from multiprocessing import get_context
from typing import Any, Literal

import numpy as np
from scipy import stats

from dpcov.audit.lesson import Lesson, teach
from dpcov.audit.limits import ALPHA, claimed
from dpcov.audit.neighboring import Neighboring, far_out, known_pairs, random_pair
from dpcov.audit.releases import (
    Draw,
    Releases,
    by_coin,
    drawers,
    half_noise,
    problem_of,
    seconds_per_release,
    surveyed,
)
from dpcov.errors import BudgetError, DpcovError, UsageError, place_of
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.geometry.surveyed import Surveyed
from dpcov.noise.entropy import BlockEntropy, Entropy, SeededEntropy, SystemEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Neighbors, Promise, PureDP, costs_nothing

Budgets = Mapping[type[Promise], Budget]
Verdict = Literal["ok", "no power", "refuted"]

# Claims unless others are asked for: so large that a few thousand releases say something.
BUDGETS: Budgets = {
    PureDP: Budget(epsilon=3),
    ZCDP: Budget(rho=1),
    ApproxDP: Budget(epsilon=4, delta="1e-3"),
}
# Half the noise is looked for with so many times fewer releases, in turn, until it is caught.
CONTROL_STEPS = (4, 1)
# Two looks at a pair of tables take the counted releases divided by these.
PILOT, SECOND_LOOK = 16, 4
# Pairs that get a second look.
FINALISTS = 3
# Releases from which something can be learned.
FEWEST = 64
# Seconds until somebody who watches is told again what other processes have done.
_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True, kw_only=True)
class Effort:
    """For one case: releases to count, pairs of tables to choose from, and a limit of their time.

    Learning from the releases comes on top.
    """

    draws: int
    candidates: int
    seconds: float


QUICK = Effort(draws=16_000, candidates=7, seconds=30.0)
DEEP = Effort(draws=128_000, candidates=16, seconds=600.0)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One claim to hold against the evidence of tables with so many columns, two at least."""

    mechanism: Mechanism[Any]
    neighbors: Neighbors
    budget: Budget
    n_features: int = 2


# A case, how much is done for it, and a seed of its own.
Job = tuple[Case, Effort, tuple[int, int] | None]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What an audit of a case found.

    ``bound`` is a lower bound on the promise's number, wrong with probability ``ALPHA`` at most,
    from so many ``draws``; ``score`` and ``pair`` of tables gave it.  ``control`` is the same with
    half the noise, None where there is none.
    """

    mechanism: str
    neighbors: Neighbors
    numerics: str
    promise: Promise
    bound: float
    control: float | None
    score: str
    pair: str
    draws: int
    seconds: float

    @property
    def claim(self) -> float:
        """The number that the promise states."""
        return float(claimed(self.promise))

    @property
    def verdict(self) -> Verdict:
        """Refuted: the bound exceeds the claim.  No power: it would not at half the noise."""
        if self.bound > self.claim:
            return "refuted"
        # A release that ignores the table has no noise to halve: any leak refutes it.
        if costs_nothing(self.promise):
            return "ok"
        return "no power" if self.control is None or self.control <= self.claim else "ok"


def load_mechanism(place: str) -> Mechanism[Any]:
    """Import ``package.module:Class`` and build it with its default options; runs its code."""
    try:
        found = pkgutil.resolve_name(place) if ":" in place else None
        if isinstance(found, type) and issubclass(found, Mechanism):
            made: Mechanism[Any] = found()
            return made
        reason = "it is another thing"
    except Exception as error:  # whatever its own code raises
        reason = f"{type(error).__name__}: {error}"
    raise UsageError(
        f"{place} is no mechanism ({reason}). Give an importable package.module:Class, a subclass "
        "of dpcov.mechanisms.base.Mechanism that needs no arguments; PYTHONPATH says where to look."
    )


def cases_of(
    mechanisms: Iterable[Mechanism[Any]],
    *,
    neighbors: Neighbors | None = None,
    budgets: Budgets = BUDGETS,
    n_features: int = 2,
    private_geometry: bool = False,
) -> list[Case]:
    """Every mechanism under every relation and promise that it knows, or those asked for."""
    made = [surveyed(each, n_features) if private_geometry else each for each in mechanisms]
    return [
        Case(mechanism=mechanism, neighbors=relation, budget=budgets[kind], n_features=n_features)
        for mechanism in made
        for relation in mechanism.relations
        if neighbors in (None, relation)
        for kind in mechanism.promises
        if kind in budgets
    ]


def audit(
    cases: Iterable[Case],
    effort: Effort = QUICK,
    *,
    seed: int | None = None,
    processes: int = 1,
    tell: Callable[[float], None] = lambda done: None,
) -> Iterator[Finding]:
    """Audit one case after another; ``seed`` repeats earlier draws, as far as time allowed.

    ``tell`` is told how many cases are done, with the parts of those that are under way.
    """
    # A seed belongs to a case, not to the process that happens to take it.
    seeds = (None if seed is None else (seed, number) for number in count())
    jobs = [(case, effort, one) for case, one in zip(cases, seeds, strict=False)]
    if processes == 1:
        for number, job in enumerate(jobs):
            yield _audited(job, partial(_tell_of, tell, number))
        return
    context = get_context("spawn")
    parts = context.RawArray("d", len(jobs))
    pool = ProcessPoolExecutor(processes, context, initializer=_share, initargs=(parts,))
    try:
        futures = [pool.submit(_audited_apart, *each) for each in enumerate(jobs)]
        for future in futures:
            while wait([future], timeout=_BETWEEN_LOOKS).not_done:
                tell(sum(parts))
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _tell_of(tell: Callable[[float], None], done: int, part: float) -> None:
    tell(done + part)


# Of another process: how much of every case is done.
_parts: Any = None


def _share(parts: Any) -> None:
    global _parts
    _parts = parts


def _audited_apart(number: int, job: Job) -> Finding:
    return _audited(job, lambda part: _parts.__setitem__(number, part))


def _audited(job: Job, tell: Callable[[float], None]) -> Finding:
    # What a mechanism says when it fails may be told: it saw made-up tables only.
    try:
        found = _audit_job(job, tell)
    except DpcovError:
        raise
    except Exception as error:
        told = f"{type(job[0].mechanism).__name__} failed ({place_of(error)}): {error}"
    else:
        tell(1.0)
        return found
    raise UsageError(told)


def _audit_job(job: Job, tell: Callable[[float], None]) -> Finding:
    # Bound the claim, then look for half the noise with as many releases.
    case, effort, seed = job
    source = SystemEntropy() if seed is None else SeededEntropy(sum(seed))
    entropy, coins = BlockEntropy(source), np.random.default_rng(seed)
    start, mechanism = time.perf_counter(), case.mechanism
    pairs = known_pairs(case.neighbors, case.n_features)
    if isinstance(mechanism, Surveyed):
        pairs = far_out(case.neighbors, case.n_features) + pairs
    pairs = pairs[: effort.candidates]
    while len(pairs) < effort.candidates:
        pairs.append(random_pair(case.neighbors, case.n_features, coins))
    promise = mechanism.calibrate(
        problem_of(mechanism, pairs[0], pairs[0].first), case.budget
    ).promise
    # A slow mechanism gets fewer releases, not more time.
    pace = seconds_per_release(drawers(mechanism, case.budget, pairs[0], entropy))
    releases = _cost(len(pairs)) + sum(_cost(FINALISTS) / step for step in CONTROL_STEPS)
    draws = min(effort.draws, max(FEWEST, int(effort.seconds / (pace * releases))))
    game = _Game(mechanism, case.budget, promise, entropy, coins, _counted(tell, draws * releases))
    bound, score, finalists = game.play(pairs, draws, ALPHA)
    control = None
    # A refuted claim needs no control: the audit had power.
    if bound <= claimed(promise) and not costs_nothing(promise):
        control = _half_noise_bound(game, finalists, draws)
    return Finding(
        mechanism=_title(mechanism),
        neighbors=case.neighbors,
        numerics=mechanism.numerics,
        promise=promise,
        bound=bound,
        control=control,
        score=score,
        pair=finalists[0].label,
        draws=draws,
        seconds=time.perf_counter() - start,
    )


def _counted(tell: Callable[[float], None], expected: float) -> Callable[[int], None]:
    """Tell what part of the expected releases was drawn."""
    done = 0

    def drawn(more: int) -> None:
        nonlocal done
        done += more
        tell(min(1.0, done / expected))

    return drawn


def _title(mechanism: Mechanism[Any]) -> str:
    name: str = mechanism.name
    return f"{name}, private geometry" if isinstance(mechanism, Surveyed) else name


def _cost(pairs: int) -> float:
    # Releases that a bound takes for every one that is counted.
    return 1.0 + pairs / PILOT + min(pairs, FINALISTS) / SECOND_LOOK


def _half_noise_bound(game: "_Game", pairs: Sequence[Neighboring], draws: int) -> float | None:
    # Largest bound for half the noise, None where the mechanism refuses the budget.
    bound, halved = 0.0, replace(game, budget=half_noise(game.budget))
    for step in CONTROL_STEPS:
        try:
            found, _, _ = halved.play(pairs, draws // step, ALPHA / len(CONTROL_STEPS))
        except BudgetError:
            return None
        bound = max(bound, found)
        if bound > claimed(game.promise):
            break
    return bound


@dataclass(frozen=True)
class _Game:
    """A mechanism that draws for a budget, held against a promise."""

    mechanism: Mechanism[Any]
    budget: Budget
    promise: Promise
    entropy: Entropy
    coins: np.random.Generator
    # Told of releases when they were drawn and learned from.
    drawn: Callable[[int], None]

    def play(
        self, pairs: Sequence[Neighboring], draws: int, alpha: float
    ) -> tuple[float, str, list[Neighboring]]:
        """Return a lower bound from fresh releases, its score, and the most telling pairs."""
        candidates = [
            _Candidate(pair, drawers(self.mechanism, self.budget, pair, self.entropy))
            for pair in pairs
        ]
        for share in (PILOT, SECOND_LOOK):
            size = max(draws // share, FEWEST)
            for each in candidates:
                each.look(size, self.promise, draws, self.coins)
                self.drawn(size)
            candidates = sorted(candidates, key=lambda each: -each.lesson.promising)[:FINALISTS]
        best = candidates[0]
        fresh = by_coin(best.both, draws, self.coins)
        bound, score = best.lesson.count(fresh, self.promise, alpha)
        self.drawn(draws)
        return bound, score, [each.pair for each in candidates]


class _Candidate:
    """A pair of tables, its releases so far, and what they taught."""

    lesson: Lesson

    def __init__(self, pair: Neighboring, both: tuple[Draw, Draw]) -> None:
        self.pair, self.both = pair, both
        self._known: tuple[Releases, Releases] = ([], [])

    def look(self, size: int, promise: Promise, draws: int, coins: np.random.Generator) -> None:
        """Draw more releases, and learn from all of them."""
        for known, more in zip(self._known, by_coin(self.both, size, coins), strict=True):
            known.extend(more)
        # As if they erred as little as what will be counted.
        errors = stats.norm.isf(ALPHA) * sqrt(sum(map(len, self._known)) / draws)
        n_rows, alpha = len(self.pair.first), float(stats.norm.sf(errors))
        self.lesson = teach(*self._known, promise, n_rows, alpha)

"""The audit of mechanisms against their own claims: every promise, every relation.

Contract: of all claims that hold, one is refuted with probability ALPHA for every case.  Uses made-up tables
only and spends no ledger.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Literal

import numpy as np

from dpcov.audit.evidence import FEWEST, FINALISTS, Evidence, cost, gather
from dpcov.audit.limits import ALPHA, claimed
from dpcov.audit.neighboring import known_pairs, random_pair
from dpcov.audit.releases import drawers, half_noise, problem_of, seconds_per_release
from dpcov.errors import BudgetError
from dpcov.mechanisms.base import Mechanism
from dpcov.noise.entropy import BlockEntropy, Entropy, SeededEntropy, SystemEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Neighbors, Promise, PureDP, costs_nothing

Budgets = Mapping[type[Promise], Budget]
Verdict = Literal["ok", "no power", "refuted"]

BUDGETS: Budgets = {
    PureDP: Budget(epsilon=3),
    ZCDP: Budget(rho=1),
    ApproxDP: Budget(epsilon=4, delta="1e-3"),
}
"""Claims to audit unless others are asked for: large enough that a few thousand releases say something."""

CONTROL_STEPS = (4, 1)
"""Half the noise is looked for with the counted releases divided by these, in turn, until it is caught."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much an audit may draw for one case.

    Parameters
    ----------
    draws : int
        Releases that are counted; the choice of tables and rules takes about as many.
    candidates : int
        Pairs of tables to choose from: known ones first, then random ones.
    seconds : float
        Allowance for one case; fewer releases are drawn if they would take longer.
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


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What an audit of a case found.

    Parameters
    ----------
    mechanism, neighbors, numerics : str
    promise : Promise
        The claim.
    bound : float
        Lower bound on the number that the promise states, wrong with probability ``ALPHA`` at most.
    control : float or None
        The same of the mechanism with half its noise, from as many releases at most; None where there is none.
    score, pair : str
        What gave the bound: the score, and the pair of tables.
    draws : int
        Releases that the bound counts.
    seconds : float
        Time that the case took.
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
        """Refuted: the evidence contradicts the claim.  No power: it would not have contradicted it at half the noise.

        A release that ignores the table has no noise to halve: any leak refutes it.
        """
        if self.bound > self.claim:
            return "refuted"
        caught = costs_nothing(self.promise) or (
            self.control is not None and self.control > self.claim
        )
        return "ok" if caught else "no power"


def cases_of(
    mechanisms: Iterable[Mechanism[Any]],
    *,
    neighbors: Neighbors | None = None,
    budgets: Budgets = BUDGETS,
    n_features: int = 2,
) -> list[Case]:
    """Every mechanism under every relation and promise that it knows, or those asked for."""
    return [
        Case(mechanism=mechanism, neighbors=relation, budget=budgets[kind], n_features=n_features)
        for mechanism in mechanisms
        for relation in mechanism.relations
        if neighbors in (None, relation)
        for kind in mechanism.promises
        if kind in budgets
    ]


def audit(
    cases: Iterable[Case], effort: Effort = QUICK, *, seed: int | None = None, processes: int = 1
) -> Iterator[Finding]:
    """Audit one case after another.

    Parameters
    ----------
    cases : iterable of Case
    effort : Effort
    seed : int or None
        Repeat the draws of an earlier audit, as far as its time allowed; None draws fresh ones.
    processes : int
        How many cases to audit at the same time.

    Examples
    --------
    >>> from dpcov.mechanisms.zero import Zero
    >>> effort = Effort(draws=40, candidates=1, seconds=1.0)
    >>> {finding.verdict for finding in audit(cases_of([Zero()]), effort, seed=1)}
    {'ok'}
    """
    jobs = [
        (case, effort, None if seed is None else (seed, number))
        for number, case in enumerate(cases)
    ]
    if processes == 1:
        yield from map(_audit_job, jobs)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_audit_job, jobs)


def _audit_job(job: tuple[Case, Effort, tuple[int, int] | None]) -> Finding:
    case, effort, seed = job
    source = SystemEntropy() if seed is None else SeededEntropy(sum(seed))
    return audit_case(case, effort, BlockEntropy(source), np.random.default_rng(seed))


def audit_case(case: Case, effort: Effort, entropy: Entropy, coins: np.random.Generator) -> Finding:
    """Bound the claim, then look for half the noise with as many releases."""
    start = time.perf_counter()
    pairs = known_pairs(case.neighbors, case.n_features)[: effort.candidates]
    pairs += [
        random_pair(case.neighbors, case.n_features, coins)
        for _ in range(effort.candidates - len(pairs))
    ]
    promise = case.mechanism.calibrate(problem_of(pairs[0], pairs[0].first), case.budget).promise
    pace = seconds_per_release(drawers(case.mechanism, case.budget, pairs[0], entropy))
    releases = cost(len(pairs)) + sum(cost(FINALISTS) / step for step in CONTROL_STEPS)
    draws = min(effort.draws, max(FEWEST, int(effort.seconds / (pace * releases))))
    found = gather(case.mechanism, case.budget, promise, pairs, draws, entropy=entropy, coins=coins)
    control = None
    if found.bound <= claimed(promise) and not costs_nothing(promise):
        control = _half_noise_bound(case, promise, found, draws, entropy, coins)
    return Finding(
        mechanism=case.mechanism.name,
        neighbors=case.neighbors,
        numerics=case.mechanism.numerics,
        promise=promise,
        bound=found.bound,
        control=control,
        score=found.score,
        pair=found.pair.label,
        draws=draws,
        seconds=time.perf_counter() - start,
    )


def _half_noise_bound(
    case: Case,
    promise: Promise,
    found: Evidence,
    draws: int,
    entropy: Entropy,
    coins: np.random.Generator,
) -> float | None:
    """Largest bound for half the noise, on the pairs that told most; None where the mechanism refuses the budget."""
    bound = 0.0
    for step in CONTROL_STEPS:
        try:
            evidence = gather(
                case.mechanism,
                half_noise(case.budget),
                promise,
                found.finalists,
                draws // step,
                alpha=ALPHA / len(CONTROL_STEPS),
                entropy=entropy,
                coins=coins,
            )
        except BudgetError:
            return None
        bound = max(bound, evidence.bound)
        if bound > claimed(promise):
            break
    return bound

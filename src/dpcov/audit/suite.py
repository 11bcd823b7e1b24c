"""The audit of mechanisms against their own claims: every promise, every relation.

Contract: of all claims that hold, one is refuted with probability ALPHA for every case.  Uses made-up tables
only and spends no ledger.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpcov.audit.evidence import Evidence, weigh
from dpcov.audit.limits import ALPHA, claimed
from dpcov.audit.neighboring import Neighboring, attaining
from dpcov.audit.releases import BufferedEntropy, drawers, problem_of, released_within
from dpcov.audit.search import search
from dpcov.mechanisms.base import Mechanism
from dpcov.noise.entropy import Entropy, SeededEntropy, SystemEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Neighbors, Promise, PureDP

Budgets = Mapping[type[Promise], Budget]

BUDGETS: Budgets = {
    PureDP: Budget(epsilon=1),
    ZCDP: Budget(rho=1),
    ApproxDP: Budget(epsilon=2, delta="1e-3"),
}
"""Claims to audit unless others are asked for: large enough that a few thousand releases say something."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much an audit may draw for one case.

    Parameters
    ----------
    draws : int
        Releases of either table for each of the two bounds.
    candidates, search_draws : int
        Pairs of tables that the search compares, and releases for each.
    seconds : float
        Allowance for one case, half of it for the search; fewer releases are drawn if they would take longer.
    """

    draws: int
    candidates: int
    search_draws: int
    seconds: float


QUICK = Effort(draws=2_000, candidates=8, search_draws=200, seconds=1.0)
DEEP = Effort(draws=40_000, candidates=60, search_draws=1_000, seconds=60.0)


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
    score, pair : str
        What gave the bound: the score, and the pair of tables.
    draws : int
        Releases that the bound is made of, of both tables; without the search.
    seconds : float
        Time that the case took.
    """

    mechanism: str
    neighbors: Neighbors
    numerics: str
    promise: Promise
    bound: float
    score: str
    pair: str
    draws: int
    seconds: float

    @property
    def claim(self) -> float:
        """The number that the promise states."""
        return float(claimed(self.promise))

    @property
    def refuted(self) -> bool:
        """Whether the evidence contradicts the claim."""
        return self.bound > self.claim


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
    cases: Iterable[Case],
    effort: Effort = QUICK,
    *,
    seed: int | None = None,
    watch: Callable[[Case], None] = lambda _: None,
) -> Iterator[Finding]:
    """Audit one case after another.

    Parameters
    ----------
    cases : iterable of Case
    effort : Effort
    seed : int or None
        Repeat the draws of an earlier audit, as far as its time allowed; None draws fresh ones.
    watch : callable
        Told every case before it starts.

    Examples
    --------
    >>> from dpcov.mechanisms.zero import Zero
    >>> effort = Effort(draws=40, candidates=1, search_draws=40, seconds=1.0)
    >>> {finding.refuted for finding in audit(cases_of([Zero()]), effort, seed=1)}
    {False}
    """
    for number, case in enumerate(cases):
        watch(case)
        source: Entropy = SystemEntropy() if seed is None else SeededEntropy(seed + number)
        random = np.random.default_rng(None if seed is None else [seed, number])
        yield audit_case(case, effort, BufferedEntropy(source), random)


def audit_case(case: Case, effort: Effort, entropy: Entropy, random: np.random.Generator) -> Finding:
    """Bound from the attaining pair and from the pair that a search found, each at half of ALPHA."""
    start, known = time.perf_counter(), attaining(case.neighbors, case.n_features)
    promise = case.mechanism.calibrate(problem_of(known, known.first), case.budget).promise
    found = search(
        case.mechanism,
        promise,
        case.budget,
        case.neighbors,
        n_features=case.n_features,
        candidates=effort.candidates,
        draws=effort.search_draws,
        seconds=effort.seconds / 2,
        random=random,
        entropy=entropy,
    )
    pairs = [known] if found.label == known.label else [known, found]
    best, best_pair, draws = Evidence(bound=-1.0, score=""), known, 0
    for pair in pairs:
        tables = released_within(
            drawers(case.mechanism, case.budget, pair, entropy),
            effort.draws * 2 // len(pairs),
            effort.seconds / 2 / len(pairs),
        )
        draws += sum(map(len, tables))
        evidence = weigh(promise, tables, len(pair.first), ALPHA / len(pairs))
        if evidence.bound > best.bound:
            best, best_pair = evidence, pair
    return _finding(case, promise, best, best_pair, draws, time.perf_counter() - start)


def _finding(
    case: Case, promise: Promise, evidence: Evidence, pair: Neighboring, draws: int, seconds: float
) -> Finding:
    return Finding(
        mechanism=case.mechanism.name,
        neighbors=case.neighbors,
        numerics=case.mechanism.numerics,
        promise=promise,
        bound=evidence.bound,
        score=evidence.score,
        pair=pair.label,
        draws=draws,
        seconds=seconds,
    )

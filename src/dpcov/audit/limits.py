"""From counts of an event under two laws to a lower confidence bound on epsilon or rho.

Contract: the event is chosen on one half of the draws and counted on the other, with Clopper-Pearson limits;
no law of the scores is assumed.  Knows nothing of mechanisms or tables.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise

Scores = NDArray[np.float64]
Bound = Callable[[Scores, Scores], Scores]
"""Lower bound on the loss from a lower limit of P(event) and an upper limit of Q(event), elementwise."""

ALPHA = 1e-9
CONFIDENCE = 1.0 - ALPHA
_CHOICES = 60

Kind = tuple[int, int]
KINDS: tuple[Kind, ...] = ((0, 0), (0, 1), (1, 0), (1, 1))
"""Upper tail (0) or lower (1); likelier under the first table (0) or the second (1)."""
_ORDERS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class Event:
    """That one of several scores is at least, or below, a threshold; likelier under one of the two tables."""

    score: int
    threshold: float
    above: bool
    likelier_under: int
    """0: the first table, 1: the second."""

    def count(self, scores: Scores) -> int:
        """How many rows of (draws, n_scores) scores are in the event."""
        found = int(np.count_nonzero(scores[:, self.score] >= self.threshold))
        return found if self.above else len(scores) - found


def clopper_pearson(count: int, size: int, alpha: float) -> tuple[float, float]:
    """One-sided lower and upper confidence limits of a probability, each wrong with probability ``alpha`` at most."""
    counts = np.array([count])
    return float(_lower_limits(counts, size, alpha)[0]), float(_upper_limits(counts, size, alpha)[0])


def _lower_limits(counts: NDArray[np.int64], size: int, alpha: float) -> Scores:
    limits = stats.beta.ppf(alpha, np.maximum(counts, 1), size - counts + 1)
    return np.where(counts > 0, limits, 0.0)


def _upper_limits(counts: NDArray[np.int64], size: int, alpha: float) -> Scores:
    limits = stats.beta.isf(alpha, counts + 1, np.maximum(size - counts, 1))
    return np.where(counts < size, limits, 1.0)


def bound_for(promise: Promise) -> Bound:
    """How an event bounds the number that a promise of this kind states."""
    if isinstance(promise, ZCDP):
        return rho_bound
    delta = float(promise.delta) if isinstance(promise, ApproxDP) else 0.0
    return lambda low, high: epsilon_bound(low, high, delta)


def claimed(promise: Promise) -> Fraction:
    """The number that a bound is held against: rho of a zCDP promise, else epsilon."""
    return promise.rho if isinstance(promise, ZCDP) else promise.epsilon


def epsilon_bound(low: Scores, high: Scores, delta: float = 0.0) -> Scores:
    """``log((P - delta) / Q)``, 0 where that says nothing."""
    gained = np.maximum(low - delta, 0.0)
    return np.where(gained > high, np.log(np.maximum(gained, 1e-300) / np.maximum(high, 1e-300)), 0.0)


def rho_bound(low: Scores, high: Scores) -> Scores:
    """Largest D_a(P || Q) / a of the event's indicator: zCDP bounds it by rho for every order a (Bun, Steinke 2016).

    At least as strong as any (epsilon, delta) statement that rho-zCDP implies about the event.
    """
    tellable = low > high
    p, q = np.where(tellable, low, 0.5), np.where(tellable, high, 0.5)
    best = np.max([_renyi(p, q, order) / order for order in _ORDERS], axis=0)
    return np.where(tellable, np.maximum(best, 0.0), 0.0)


def _renyi(p: Scores, q: Scores, order: float) -> Scores:
    """Renyi divergence of Bernoulli laws with 0 < q <= p <= 1."""
    # Where the event is certain under the first law, the other event adds nothing.
    r, s = np.maximum(1.0 - p, 1e-300), np.maximum(1.0 - q, 1e-300)
    if order == 1.0:
        return np.asarray(p * np.log(p / q) + r * np.log(r / s))
    yes = order * np.log(p) + (1.0 - order) * np.log(q)
    no = order * np.log(r) + (1.0 - order) * np.log(s)
    return np.asarray(np.logaddexp(yes, no) / (order - 1.0))


def choose_event(
    first: Scores, second: Scores, bound: Bound, alpha: float = ALPHA, kinds: Sequence[Kind] = KINDS
) -> tuple[Event, float]:
    """Choose the event with the largest bound among thresholds on several scores, both tails, both directions.

    Parameters
    ----------
    first, second : (draws, n_scores) float64
        Scores of releases of either table, to be used for nothing but this choice.
    bound : Bound
    alpha : float
    kinds : sequence of (tail, table)
        Tails and directions to choose from.

    Returns
    -------
    Event, float
        And its bound on these draws, too large for a bound because it was chosen.
    """
    thresholds = np.quantile(np.concatenate([first, second]), np.linspace(0.0, 1.0, _CHOICES), axis=0).T
    above = [_counts_above(scores, thresholds) for scores in (first, second)]
    sizes = (len(first), len(second))
    tails = [above, [size - counts for size, counts in zip(sizes, above, strict=True)]]
    values = np.array(
        [
            _bounds(
                tails[tail][likelier],
                sizes[likelier],
                tails[tail][1 - likelier],
                sizes[1 - likelier],
                bound,
                alpha,
            )
            for tail, likelier in kinds
        ]
    )
    which, score, place = np.unravel_index(int(np.argmax(values)), values.shape)
    event = Event(
        score=int(score),
        threshold=float(thresholds[score, place]),
        above=kinds[int(which)][0] == 0,
        likelier_under=kinds[int(which)][1],
    )
    return event, float(values[which, score, place])


def _counts_above(scores: Scores, thresholds: Scores) -> NDArray[np.int64]:
    """For every score and threshold, the draws at or above it."""
    ordered = np.sort(scores, axis=0).T
    below = [
        np.searchsorted(one, limits, side="left") for one, limits in zip(ordered, thresholds, strict=True)
    ]
    return len(scores) - np.array(below)


def _bounds(
    inside: NDArray[np.int64],
    size: int,
    other: NDArray[np.int64],
    other_size: int,
    bound: Bound,
    alpha: float,
) -> Scores:
    return bound(_lower_limits(inside, size, alpha / 2), _upper_limits(other, other_size, alpha / 2))


def bound_of_event(event: Event, first: Scores, second: Scores, bound: Bound, alpha: float = ALPHA) -> float:
    """Lower confidence bound from an event that was chosen without these scores."""
    tables = (first, second)
    likelier, other = tables[event.likelier_under], tables[1 - event.likelier_under]
    counts = np.array([event.count(likelier)]), np.array([event.count(other)])
    return float(_bounds(counts[0], len(likelier), counts[1], len(other), bound, alpha)[0])


def refutes(promise: Promise, first: Sequence[float] | Scores, second: Sequence[float] | Scores) -> bool:
    """Whether the scores of two neighboring tables contradict a promise."""
    return lower_bound(promise, first, second) > float(claimed(promise))


def lower_bound(
    promise: Promise,
    first: Sequence[float] | Scores,
    second: Sequence[float] | Scores,
    *,
    alpha: float = ALPHA,
) -> float:
    """Lower confidence bound on the epsilon, or the rho, of a promise's kind, from one score of every release.

    Parameters
    ----------
    promise : Promise
    first, second : (draws,) float64
        Scores of independent releases of two neighboring tables.
    alpha : float
        Probability that the bound is wrong, at most.
    """
    return _halved(first, second, bound_for(promise), alpha)


def lower_bound_epsilon(
    first: Sequence[float] | Scores,
    second: Sequence[float] | Scores,
    *,
    delta: Fraction | float = 0,
    alpha: float = ALPHA,
) -> float:
    """Lower confidence bound on epsilon from scores on two neighboring tables."""
    return _halved(first, second, lambda low, high: epsilon_bound(low, high, float(delta)), alpha)


def lower_bound_rho(
    first: Sequence[float] | Scores, second: Sequence[float] | Scores, *, alpha: float = ALPHA
) -> float:
    """Lower confidence bound on rho from scores on two neighboring tables."""
    return _halved(first, second, rho_bound, alpha)


def _halved(
    first: Sequence[float] | Scores, second: Sequence[float] | Scores, bound: Bound, alpha: float
) -> float:
    """Choose an event of every kind on every other score, count them on the rest."""
    p, q = (np.asarray(each, dtype=np.float64)[:, None] for each in (first, second))
    share, best = alpha / len(KINDS), 0.0
    for kind in KINDS:
        event, _ = choose_event(p[::2], q[::2], bound, share, [kind])
        best = max(best, bound_of_event(event, p[1::2], q[1::2], bound, share))
    return best


def lower_bound_of_event(
    first: Scores, second: Scores, event: Callable[[Scores], NDArray[np.bool_]], *, alpha: float = ALPHA
) -> float:
    """Lower confidence bound on log P(event) / Q(event), for an event that was chosen before the draws."""
    low = clopper_pearson(int(event(first).sum()), first.size, alpha / 2)[0]
    high = clopper_pearson(int(event(second).sum()), second.size, alpha / 2)[1]
    return float(np.log(low / high)) if low > 0 else -np.inf


def lower_bound_interval(
    first: Scores,
    second: Scores,
    event: Callable[[Scores], NDArray[np.bool_]],
    opposite: Callable[[Scores], NDArray[np.bool_]],
    *,
    alpha: float = ALPHA,
) -> float:
    """Lower confidence bound on the length of the interval that holds all log-likelihood ratios."""
    one = lower_bound_of_event(first, second, event, alpha=alpha / 2)
    return one + lower_bound_of_event(second, first, opposite, alpha=alpha / 2)

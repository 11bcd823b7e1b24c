"""From an attacker's guesses, or a normal law, to a lower confidence bound on epsilon or rho.

An attacker sees a release of one of two neighboring tables, chosen by a fair coin, and names the
table or says nothing.  Contract: a bound exceeds the truth with probability ``alpha`` at most if
the rules for guessing were fixed without the releases that are counted.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise, promise_of

Scores = NDArray[np.float64]
Tables = tuple[Scores, Scores]
"""Scores of the releases of the first table, and of the second."""

Counts = NDArray[np.int64]
Event = Callable[[Scores], NDArray[np.bool_]]
Bound = Callable[[Counts, Counts, int, float], Scores]
"""Lower bound from right guesses, wrong guesses, all releases and alpha."""

ALPHA = 1e-9
CONFIDENCE = 1.0 - ALPHA
# Parts of the releases that are guessed: few where epsilon is large, all where rho is bounded.
GUESSED = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
# Noise that varies less beside the difference is none.
LARGEST_SHIFT = 1e3

_THRESHOLDS = 60
_ORDERS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Name the first table from a score of ``high`` on, the second below ``low`` <= ``high``."""

    low: float
    high: float

    def bound(self, bound: Bound, tables: Tables, alpha: float) -> float:
        """Lower bound from scores of the releases of either table."""
        first, second = tables
        right = np.count_nonzero(first >= self.high) + np.count_nonzero(second < self.low)
        wrong = np.count_nonzero(second >= self.high) + np.count_nonzero(first < self.low)
        found = bound(np.array([right]), np.array([wrong]), len(first) + len(second), alpha)
        return float(found[0])


def both_tails(scores: Scores) -> list[Rule]:
    """Rules that guess where scores are extreme, for several parts of the releases."""
    ends = [np.quantile(scores, [part / 2, 1.0 - part / 2]) for part in GUESSED]
    return [Rule(low=float(low), high=float(high)) for low, high in ends]


def largest_bound(rules: Sequence[Rule], bound: Bound, tables: Tables, alpha: float) -> float:
    """Largest bound of several rules, which share ``alpha``."""
    return max(rule.bound(bound, tables, alpha / len(rules)) for rule in rules)


def clopper_pearson(count: int, size: int, alpha: float) -> tuple[float, float]:
    """Lower and upper confidence limits of a probability, each wrong with chance ``alpha``."""
    counts, alphas = np.array([count]), np.array([alpha])
    return float(_low(counts, size, alphas)[0]), float(1.0 - _low(size - counts, size, alphas)[0])


def _low(counts: Counts, sizes: Counts | int, alpha: Scores | float) -> Scores:
    limits = stats.beta.ppf(alpha, np.maximum(counts, 1), sizes - counts + 1)
    return np.where(counts > 0, limits, 0.0)


def bound_for(promise: Promise) -> Bound:
    """How guesses bound the number that a promise of this kind states."""
    if isinstance(promise, ZCDP):
        return rho_bound
    delta = float(promise.delta) if isinstance(promise, ApproxDP) else 0.0
    return lambda right, wrong, total, alpha: epsilon_bound(right, wrong, total, alpha, delta)


def claimed(promise: Promise) -> Fraction:
    """The number that a bound is held against: rho of a zCDP promise, else epsilon."""
    return promise.rho if isinstance(promise, ZCDP) else promise.epsilon


def epsilon_bound(
    right: Counts, wrong: Counts, total: int, alpha: float, delta: float = 0.0
) -> Scores:
    """Epsilon of the odds of a right guess."""
    # Under pure epsilon a guess is right with probability e^epsilon / (1 + e^epsilon) at most.
    # With delta, P(right) <= e^epsilon P(wrong) + delta: all but a share delta of the releases at
    # most obey that, and the rest may all be right guesses.
    granted = 0
    if delta > 0:
        alpha /= 2
        granted = int(stats.binom.isf(alpha, total, delta))
    obeying = np.maximum(right - granted, 0)
    chance = np.clip(_low(obeying, obeying + wrong, alpha), 0.5, 1.0 - 2.0**-53)
    return np.asarray(np.log(chance) - np.log1p(-chance))


def rho_bound(right: Counts, wrong: Counts, total: int, alpha: float) -> Scores:
    """Rho of the chances of a right and of a wrong guess."""
    # The largest D_a(P || Q) / a of Bernoulli laws, P that a guess is right and Q that it is wrong
    # (Bun & Steinke 2016).  Exchanging the tables turns right guesses into wrong ones.
    # Where the attacker always guesses, one limit says both.
    always = right + wrong == total
    alphas = np.where(always, alpha, alpha / 2)
    p = _low(right, total, alphas)
    q = np.where(always, 1.0 - p, 1.0 - _low(total - wrong, total, alphas))
    tellable = p > q
    p, q = np.where(tellable, p, 0.5), np.where(tellable, q, 0.5)
    best = np.max([_renyi(p, q, order) / order for order in _ORDERS], axis=0)
    return np.where(tellable, np.maximum(best, 0.0), 0.0)


def _renyi(p: Scores, q: Scores, order: float) -> Scores:
    # Renyi divergence of Bernoulli laws with 0 < q <= p <= 1.
    # Where the event is certain under the first law, the other event adds nothing.
    r, s = np.maximum(1.0 - p, 1e-300), np.maximum(1.0 - q, 1e-300)
    if order == 1.0:
        return np.asarray(p * np.log(p / q) + r * np.log(r / s))
    yes = order * np.log(p) + (1.0 - order) * np.log(q)
    no = order * np.log(r) + (1.0 - order) * np.log(s)
    return np.asarray(np.logaddexp(yes, no) / (order - 1.0))


def choose_rule(bound: Bound, tables: Tables, alpha: float = ALPHA) -> tuple[Rule, float]:
    """Choose thresholds from scores that are used for nothing else; their bound is too large."""
    grid = np.unique(np.quantile(np.concatenate(tables), np.linspace(0.0, 1.0, _THRESHOLDS)))
    lows, highs = np.append(-np.inf, grid), np.append(grid, np.inf)
    below = [np.searchsorted(np.sort(scores), lows) for scores in tables]
    above = [len(scores) - np.searchsorted(np.sort(scores), highs) for scores in tables]
    right, wrong = (above[table][:, None] + below[1 - table] for table in (0, 1))
    values = bound(right, wrong, sum(map(len, tables)), alpha)
    # Such a rule would name both tables at once.
    values[highs[:, None] < lows] = -1.0
    high, low = np.unravel_index(int(np.argmax(values)), values.shape)
    return Rule(low=float(lows[low]), high=float(highs[high])), float(values[high, low])


def refutes(
    promise: Promise, first: Sequence[float] | Scores, second: Sequence[float] | Scores
) -> bool:
    """Whether the scores of two neighboring tables contradict a promise."""
    return lower_bound(promise, first, second) > float(claimed(promise))


def lower_bound(
    promise: Promise,
    first: Sequence[float] | Scores,
    second: Sequence[float] | Scores,
    *,
    alpha: float = ALPHA,
) -> float:
    """Lower confidence bound on the epsilon, or the rho, of a promise's kind; its delta counts.

    ``first`` and ``second``, (draws,) float64, hold one score of every independent release of
    either table, each chosen by a fair coin; an equal number of both varies less than coins do.
    """
    bound, coins = bound_for(promise), np.random.default_rng(0)
    tables = [np.asarray(scores, dtype=np.float64) for scores in (first, second)]
    # Half of the scores choose a rule; only the others are counted.
    counted = [coins.random(len(scores)) < 0.5 for scores in tables]
    chosen = []
    for sign in (1.0, -1.0):
        one, other = ((sign * scores, here) for scores, here in zip(tables, counted, strict=True))
        rule, worth = choose_rule(bound, (one[0][~one[1]], other[0][~other[1]]), alpha)
        chosen.append((worth, rule, (one[0][one[1]], other[0][other[1]])))
    _, rule, counting = max(chosen, key=lambda each: each[0])
    return rule.bound(bound, counting, alpha)


def lower_bound_epsilon(
    first: Sequence[float] | Scores,
    second: Sequence[float] | Scores,
    *,
    delta: Fraction | float = 0,
    alpha: float = ALPHA,
) -> float:
    """:func:`lower_bound` on epsilon."""
    promise = promise_of(epsilon=Fraction(0), delta=Fraction(delta) if delta else None)
    return lower_bound(promise, first, second, alpha=alpha)


def lower_bound_rho(
    first: Sequence[float] | Scores, second: Sequence[float] | Scores, *, alpha: float = ALPHA
) -> float:
    """:func:`lower_bound` on rho."""
    return lower_bound(ZCDP(rho=Fraction(0)), first, second, alpha=alpha)


def lower_bound_of_event(
    first: Scores, second: Scores, event: Event, *, alpha: float = ALPHA
) -> float:
    """Lower confidence bound on log P(event) / Q(event), for an event chosen before the draws."""
    low = clopper_pearson(int(event(first).sum()), first.size, alpha / 2)[0]
    high = clopper_pearson(int(event(second).sum()), second.size, alpha / 2)[1]
    return float(np.log(low / high)) if low > 0 else -np.inf


def lower_bound_interval(
    first: Scores, second: Scores, event: Event, opposite: Event, *, alpha: float = ALPHA
) -> float:
    """Lower confidence bound on the length of the interval that holds all log-likelihood ratios."""
    one = lower_bound_of_event(first, second, event, alpha=alpha / 2)
    return one + lower_bound_of_event(second, first, opposite, alpha=alpha / 2)


def normal_bound(promise: Promise, tables: Tables, alpha: float) -> float:
    """Lower confidence bound on the number of a promise, from one normal number of every release.

    It needs far fewer draws than an event, and holds if the stated law of the noise does.
    """
    return from_shift(promise, shift_below(*tables, alpha))


def shift_below(first: Scores, second: Scores, alpha: float) -> float:
    """Lower limit of the distance of two means in standard deviations."""
    freedom = first.size + second.size - 2
    scatter = float(np.square(first - first.mean()).sum() + np.square(second - second.mean()).sum())
    # Without noise the two are told apart, or they are alike.
    if scatter == 0.0:
        return LARGEST_SHIFT if first[0] != second[0] else 0.0
    variance = scatter / freedom
    error = math.sqrt(variance * (1.0 / first.size + 1.0 / second.size))
    # Half of alpha for a smaller distance, half for a larger variance.
    distance = abs(float(first.mean() - second.mean())) - error * stats.t.isf(alpha / 4, freedom)
    largest_variance = scatter / float(stats.chi2.ppf(alpha / 2, freedom))
    return min(LARGEST_SHIFT, max(0.0, float(distance)) / math.sqrt(largest_variance))


def from_shift(promise: Promise, shift: float) -> float:
    """Rho, or the epsilon at the promise's delta, of normal laws so many deviations apart."""
    if isinstance(promise, ZCDP):
        return shift**2 / 2
    assert isinstance(promise, ApproxDP)
    return gaussian_epsilon(shift, float(promise.delta))


def gaussian_epsilon(shift: float, delta: float) -> float:
    """Smallest epsilon of Gaussian noise at delta (Balle & Wang 2018, theorem 8), by bisection."""

    def excess(epsilon: float) -> float:
        one = stats.norm.cdf(shift / 2 - epsilon / shift)
        other = math.exp(min(700.0, epsilon + stats.norm.logcdf(-shift / 2 - epsilon / shift)))
        return float(one - other) - delta

    if shift == 0.0 or excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, shift**2 / 2 + shift * math.sqrt(2.0 * math.log(1.0 / delta)) + 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return low

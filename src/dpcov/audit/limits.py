"""From an attacker's guesses, or a normal law, to a lower confidence bound on epsilon or rho.

An attacker sees a release of one of two neighboring tables, chosen by a fair coin, and names the
table or says nothing.  Contract: a bound exceeds the truth with probability ``alpha`` at most if
the rules for guessing were fixed without the releases that are counted.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise

Scores = NDArray[np.float64]
Counts = NDArray[np.int64]
# Scores of the releases of the first table, and of the second.
Tables = tuple[Scores, Scores]
# Lower bound from right guesses, wrong guesses, all releases and alpha.
Bound = Callable[[Counts, Counts, int, float], Scores]

ALPHA = 1e-9
# Parts of the releases that are guessed: few where epsilon is large, all where rho is bounded.
GUESSED = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
# Noise that varies less beside the difference is none.
LARGEST_SHIFT = 1e3

_THRESHOLDS = 60
_ORDERS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0)


class Rule(NamedTuple):
    """Name the first table from a score of ``high`` on, the second below ``low`` <= ``high``."""

    low: float
    high: float


def both_tails(scores: Scores) -> list[Rule]:
    """Rules that guess where scores are extreme, for several parts of the releases."""
    return [Rule(*np.quantile(scores, [part / 2, 1.0 - part / 2])) for part in GUESSED]


def largest_bound(rules: Sequence[Rule], bound: Bound, tables: Tables, alpha: float) -> float:
    """Largest bound of several rules, which share ``alpha``, from scores of either table."""

    def guesses(high: Scores, low: Scores) -> Counts:
        return np.array([np.sum(high >= rule.high) + np.sum(low < rule.low) for rule in rules])

    total = sum(map(len, tables))
    return float(bound(guesses(*tables), guesses(*tables[::-1]), total, alpha / len(rules)).max())


def binomial_low(counts: Counts, sizes: Counts | int, alpha: Scores | float) -> Scores:
    """Clopper-Pearson limits of probabilities: each is too large with chance ``alpha`` at most."""
    limits = stats.beta.ppf(alpha, np.maximum(counts, 1), sizes - counts + 1)
    return np.where(counts > 0, limits, 0.0)


def bound_for(promise: Promise) -> Bound:
    """How guesses bound the number that a promise of this kind states."""
    if isinstance(promise, ZCDP):
        return rho_bound
    delta = float(promise.delta) if isinstance(promise, ApproxDP) else 0.0
    return partial(epsilon_bound, delta=delta)


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
    chance = np.clip(binomial_low(obeying, obeying + wrong, alpha), 0.5, 1.0 - 2.0**-53)
    return np.asarray(np.log(chance) - np.log1p(-chance))


def rho_bound(right: Counts, wrong: Counts, total: int, alpha: float) -> Scores:
    """Rho of the chances of a right and of a wrong guess."""
    # The largest D_a(P || Q) / a of Bernoulli laws, P that a guess is right and Q that it is wrong
    # (Bun & Steinke 2016).  Exchanging the tables turns right guesses into wrong ones.
    # Where the attacker always guesses, one limit says both.
    always = right + wrong == total
    alphas = np.where(always, alpha, alpha / 2)
    p = binomial_low(right, total, alphas)
    q = np.where(always, 1.0 - p, 1.0 - binomial_low(total - wrong, total, alphas))
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


def choose_rule(bound: Bound, tables: Tables, alpha: float) -> tuple[Rule, float]:
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


def normal_bound(promise: Promise, tables: Tables, alpha: float) -> float:
    """Lower confidence bound on the number of a promise, from one normal number of every release.

    It needs far fewer draws than an event, and holds if the stated law of the noise does.
    """
    shift = shift_below(*tables, alpha)
    if isinstance(promise, ZCDP):
        return shift**2 / 2
    assert isinstance(promise, ApproxDP)
    return gaussian_epsilon(shift, float(promise.delta))


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


def gaussian_epsilon(shift: float, delta: float) -> float:
    """Smallest epsilon of Gaussian noise at delta (Balle & Wang 2018, theorem 8)."""

    def excess(epsilon: float) -> float:
        one = stats.norm.cdf(shift / 2 - epsilon / shift)
        other = math.exp(min(700.0, epsilon + stats.norm.logcdf(-shift / 2 - epsilon / shift)))
        return float(one - other) - delta

    if shift == 0.0 or excess(0.0) <= 0:
        return 0.0
    high = shift**2 / 2 + shift * math.sqrt(2.0 * math.log(1.0 / delta)) + 1.0
    return float(optimize.brentq(excess, 0.0, high))

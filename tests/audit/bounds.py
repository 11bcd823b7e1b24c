"""Bounds from one score of every release of two tables, for tests that know what to score."""

from fractions import Fraction

import numpy as np

from dpcov.audit.limits import ALPHA, binomial_low, bound_for, choose_rule, largest_bound
from dpcov.audit.releases import by_coin, drawers
from dpcov.noise.entropy import BlockEntropy, SeededEntropy
from dpcov.privacy.guarantee import ZCDP, promise_of


def released(mechanism, budget, pair, draws, *, seed=1):
    """About so many releases of either table; more budget than is claimed plants a mistake."""
    both = drawers(mechanism, budget, pair, BlockEntropy(SeededEntropy(seed)))
    return tuple(map(list, by_coin(both, 2 * draws, np.random.default_rng(seed))))


def lower_bound(promise, first, second, *, alpha=ALPHA):
    """Lower confidence bound on the number of a promise of this kind; its delta counts."""
    bound, coins = bound_for(promise), np.random.default_rng(0)
    tables = [np.asarray(scores, dtype=float) for scores in (first, second)]
    # Half of the scores choose a rule; only the others are counted.
    counted = [coins.random(len(scores)) < 0.5 for scores in tables]
    chosen = []
    for sign in (1.0, -1.0):
        learned, fresh = (
            [sign * scores[here == side] for scores, here in zip(tables, counted, strict=True)]
            for side in (False, True)
        )
        rule, worth = choose_rule(bound, learned, alpha)
        chosen.append((worth, rule, fresh))
    _, rule, fresh = max(chosen, key=lambda each: each[0])
    return largest_bound([rule], bound, fresh, alpha)


def lower_bound_epsilon(first, second, *, delta=0, alpha=ALPHA):
    promise = promise_of(epsilon=Fraction(0), delta=Fraction(delta) or None)
    return lower_bound(promise, first, second, alpha=alpha)


def lower_bound_rho(first, second):
    return lower_bound(ZCDP(rho=Fraction(0)), first, second)


def clopper_pearson(count, size, alpha):
    """Lower and upper confidence limits of a probability, each wrong with chance ``alpha``."""
    low, rest = binomial_low(np.array([count, size - count]), size, alpha)
    return low, 1.0 - rest


def lower_bound_of_event(first, second, event, *, alpha=ALPHA):
    """Lower confidence bound on log P(event) / Q(event), for an event chosen before the draws."""
    low = clopper_pearson(event(first).sum(), first.size, alpha / 2)[0]
    high = clopper_pearson(event(second).sum(), second.size, alpha / 2)[1]
    return np.log(low / high) if low > 0 else -np.inf

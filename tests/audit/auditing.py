"""Audits of a privacy guarantee: what an attacker learns from many releases of two neighboring tables.

Each ``lower_bound_*`` function returns a number that the true epsilon or rho exceeds with probability ``CONFIDENCE`` at
least, so that a claim below it is refuted.  Half of the scores choose the event, the other half counts it.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from scipy import stats

from dpcov.data.moments import Moments
from dpcov.data.rows import EncodedRows
from dpcov.estimate import unit_estimate
from dpcov.mechanisms.base import Problem, RowMechanism
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP

ALPHA = 1e-9
CONFIDENCE = 1.0 - ALPHA
_CHOICES = 40
_ORDERS = (1.0, 1.5, 2.0, 3.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class Neighboring:
    """Two tables that differ in the rows of one person, both (n, d) with rows in the unit ball."""

    relation: str
    first: np.ndarray
    second: np.ndarray

    @property
    def n_features(self):
        return self.first.shape[1]

    @property
    def difference(self):
        """Difference of the unnormalized second moments."""
        return self.first.T @ self.first - self.second.T @ self.second


def orthogonal_rows(n_features=2, n_rows=4):
    """One unit row against an orthogonal one, the others zero: attains the replace-one Frobenius sensitivity."""
    first, second = np.zeros((2, n_rows, n_features))
    first[0, 0] = second[0, 1] = 1.0
    return Neighboring(relation="replace-one", first=first, second=second)


def one_row_more(n_features=2, n_rows=4):
    """One unit row against none: attains the add-remove-one Frobenius sensitivity."""
    first = np.zeros((n_rows, n_features))
    first[0, 0] = 1.0
    return Neighboring(relation="add-remove-one", first=first, second=first[1:])


def attaining(relation, n_features=2):
    """The pair for a relation that most mechanisms protect least well."""
    return orthogonal_rows(n_features) if relation == "replace-one" else one_row_more(n_features)


def released(mechanism, budget, pair, draws, *, seed=1):
    """Statistics of ``draws`` releases of either table, calibrated for ``budget``: two lists.

    To plant a broken mechanism, calibrate for a larger budget (:func:`half_noise`) and audit the smaller claim.
    """
    entropy = SeededEntropy(seed)
    both = []
    for rows in (pair.first, pair.second):
        n_rows = len(rows) if pair.relation == "replace-one" else None
        problem = Problem(n_features=pair.n_features, neighbors=pair.relation, n_rows=n_rows)
        calibration = mechanism.calibrate(problem, budget)
        draw = _drawer(mechanism, rows, problem)
        both.append([draw(calibration, problem, entropy) for _ in range(draws)])
    return both


def _drawer(mechanism, rows, problem):
    """The mechanism's draw, with the table already gathered in the form that it wants."""
    if isinstance(mechanism, RowMechanism):
        gathered = EncodedRows(problem.n_features)
        gathered.add(rows)
        return partial(mechanism.draw_rows, gathered)
    moments = Moments(problem.n_features, mechanism.moments_spec(problem))
    moments.add(rows)
    return partial(mechanism.draw, moments)


def along_difference(statistics, pair):
    """Score for any mechanism: the released matrix along the difference of the two tables' moments."""
    direction = pair.difference
    return np.array([np.vdot(unit_estimate(each, len(pair.first)).matrix, direction) for each in statistics])


def half_noise(budget):
    """The budget for which a mechanism draws half the noise, in standard deviations."""
    if budget.rho is not None:
        return Budget(rho=4 * budget.rho)
    return Budget(epsilon=2 * budget.epsilon, delta=budget.delta)


def refutes(promise, first, second):
    """Whether the scores of two neighboring tables contradict a promise."""
    return lower_bound(promise, first, second) > float(_claimed(promise))


def lower_bound(promise, first, second):
    """Lower confidence bound on the epsilon, or the rho, of a promise's kind."""
    if isinstance(promise, ZCDP):
        return lower_bound_rho(first, second)
    delta = promise.delta if isinstance(promise, ApproxDP) else 0
    return lower_bound_epsilon(first, second, delta=delta)


def _claimed(promise) -> Fraction:
    return promise.rho if isinstance(promise, ZCDP) else promise.epsilon


def lower_bound_epsilon(first, second, *, delta=0, alpha=ALPHA):
    """Lower confidence bound on epsilon from scores on two neighboring tables."""

    def bound(p, q):
        gained = p - float(delta)
        return np.log(gained / q) if gained > 0 else 0.0

    return _best_bound(first, second, bound, alpha)


def lower_bound_rho(first, second, *, alpha=ALPHA):
    """Lower confidence bound on rho: zCDP bounds D_a(P || Q) / a of every event's indicator, for every order a."""

    def bound(p, q):
        return max(_renyi(p, q, order) / order for order in _ORDERS)

    return _best_bound(first, second, bound, alpha)


def _renyi(p, q, order):
    """Renyi divergence of Bernoulli laws; 0 where the first does not exceed the second."""
    if not q < p:
        return 0.0
    # Where the event is certain under the first law, the other event adds nothing.
    r, s = 1.0 - p, 1.0 - q
    if order == 1.0:
        return p * np.log(p / q) + (r * np.log(r / s) if r > 0 else 0.0)
    logs = [order * np.log(p) + (1 - order) * np.log(q)]
    if r > 0:
        logs.append(order * np.log(r) + (1 - order) * np.log(s))
    return np.logaddexp.reduce(logs) / (order - 1)


def _best_bound(first, second, bound, alpha):
    """Largest bound over the two directions and the two tails, each chosen on one half, tested on the other."""
    cases = [(p, q) for a, b in ((first, second), (second, first)) for p, q in ((a, b), (-a, -b))]
    best = 0.0
    for p, q in cases:
        threshold = _choose(p[::2], q[::2], bound, alpha / len(cases))
        best = max(best, _bound_at(p[1::2], q[1::2], threshold, bound, alpha / len(cases)))
    return best


def _choose(p, q, bound, alpha):
    candidates = np.unique(np.quantile(np.concatenate([p, q]), np.linspace(0.0, 1.0, _CHOICES)))
    values = [_bound_at(p, q, threshold, bound, alpha) for threshold in candidates]
    return candidates[int(np.argmax(values))]


def _bound_at(p, q, threshold, bound, alpha):
    """The bound for the event that a score is at least ``threshold``, from Clopper-Pearson limits."""
    low = clopper_pearson(int(np.sum(p >= threshold)), p.size, alpha / 2)[0]
    high = clopper_pearson(int(np.sum(q >= threshold)), q.size, alpha / 2)[1]
    return float(bound(low, high)) if low > 0 else 0.0


def lower_bound_of_event(first, second, event, *, alpha=ALPHA):
    """Lower confidence bound on log P(event) / Q(event), for an event that was chosen before the draws."""
    low = clopper_pearson(int(event(first).sum()), first.size, alpha / 2)[0]
    high = clopper_pearson(int(event(second).sum()), second.size, alpha / 2)[1]
    return float(np.log(low / high)) if low > 0 else -np.inf


def lower_bound_interval(first, second, event, opposite, *, alpha=ALPHA):
    """Lower confidence bound on the length of the interval that holds all log-likelihood ratios."""
    one = lower_bound_of_event(first, second, event, alpha=alpha / 2)
    return one + lower_bound_of_event(second, first, opposite, alpha=alpha / 2)


def clopper_pearson(count, size, alpha):
    """One-sided lower and upper confidence limits of a probability, each wrong with probability ``alpha`` at most."""
    low = stats.beta.ppf(alpha, count, size - count + 1) if count > 0 else 0.0
    high = stats.beta.isf(alpha, count + 1, size - count) if count < size else 1.0
    return float(low), float(high)

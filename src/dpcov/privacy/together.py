"""What several releases of one table promise together.

Contract: the promise holds for everything that was published, also where a later release was
chosen after looking at the earlier ones; it is rounded to the safe side.

Every rule is an adaptive composition, as in the ledger (docs/several.md):

pure ε          ε adds up.
ρ, perhaps ε    ρ adds up; pure ε counts as ε²/2.
(ε, δ), all by  1/multiplier² adds up: Gaussian noise of several releases loses no more than that
Gaussian noise  of one with the sum.  The largest δ is kept, and its ε follows.
other (ε, δ)    ε and δ add up.
"""

from collections.abc import Sequence
from fractions import Fraction

from dpcov.errors import UsageError
from dpcov.privacy.calibrate import gaussian_delta, gaussian_noise_multiplier
from dpcov.privacy.convert import sqrt_down, sqrt_up
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise, PureDP
from dpcov.privacy.ledger.spend import Spend

# What a calibration may have lost by rounding; and the precision of a joint epsilon.
_SLACK, _STEP = 1 - Fraction(1, 10**12), Fraction(1, 10**6)


def spend_of(promise: Promise, mechanism: str, *, is_gaussian: bool) -> Spend:
    """One release, from what its file says; ``is_gaussian``: all its noise is normal, rounded."""
    multiplier = None
    if is_gaussian and isinstance(promise, ApproxDP):
        multiplier = gaussian_noise_multiplier(promise.epsilon, promise.delta) * _SLACK
    return Spend(promise=promise, mechanism=mechanism, noise_multiplier=multiplier)


def together(spends: Sequence[Spend]) -> Promise:
    """What holds for all of them at once."""
    promises = [spend.promise for spend in spends]
    if all(isinstance(promise, PureDP) for promise in promises):
        return PureDP(epsilon=_sum(promises, "epsilon"))
    if not any(isinstance(promise, ApproxDP) for promise in promises):
        return ZCDP(rho=sum((spend.best_rho() or Fraction(0) for spend in spends), Fraction(0)))
    if all(spend.noise_multiplier for spend in spends):
        inverse = sum(1 / spend.noise_multiplier**2 for spend in spends if spend.noise_multiplier)
        delta = max(promise.delta for promise in promises if isinstance(promise, ApproxDP))
        return ApproxDP(epsilon=_epsilon(sqrt_down(1 / Fraction(inverse)), delta), delta=delta)
    _refuse_rho(promises)
    return ApproxDP(epsilon=_sum(promises, "epsilon"), delta=_sum(promises, "delta"))


def largest(spends: Sequence[Spend]) -> Promise:
    """What holds for everybody where nobody is in the tables of two releases."""
    promises = [spend.promise for spend in spends]
    if not any(isinstance(promise, ApproxDP) for promise in promises):
        if all(isinstance(promise, PureDP) for promise in promises):
            return PureDP(epsilon=_most(promises, "epsilon"))
        return ZCDP(rho=max(spend.best_rho() or Fraction(0) for spend in spends))
    _refuse_rho(promises)
    return ApproxDP(epsilon=_most(promises, "epsilon"), delta=_most(promises, "delta"))


def _most(promises: Sequence[Promise], name: str) -> Fraction:
    return max(getattr(promise, name, Fraction(0)) for promise in promises)


def _refuse_rho(promises: Sequence[Promise]) -> None:
    if any(isinstance(promise, ZCDP) for promise in promises):
        raise UsageError(
            "A rho and an (epsilon, delta) have no common sum. Combine releases whose budgets are "
            "of one kind."
        )


def divided(total: Promise, weights: Sequence[int]) -> list[Promise]:
    """Promises of releases that keep the total together, in proportion to these weights.

    What adds up is divided: epsilon, rho or, for Gaussian noise under a delta, 1/multiplier².
    """
    parts = [Fraction(weight, sum(weights)) for weight in weights]
    if isinstance(total, PureDP):
        return [PureDP(epsilon=total.epsilon * part) for part in parts]
    if isinstance(total, ZCDP):
        return [ZCDP(rho=total.rho * part) for part in parts]
    multiplier = gaussian_noise_multiplier(total.epsilon, total.delta) / _SLACK
    # Rounded down, and a step more, since the joint epsilon is rounded up.
    found = [
        _epsilon(sqrt_up(multiplier**2 / part), total.delta) - 2 * _STEP
        if part < 1
        else total.epsilon
        for part in parts
    ]
    if min(found) <= 0:
        raise UsageError("So many releases leave nothing to each. Plan fewer, or a larger total.")
    return [ApproxDP(epsilon=epsilon, delta=total.delta) for epsilon in found]


def _sum(promises: Sequence[Promise], name: str) -> Fraction:
    return sum((getattr(promise, name, Fraction(0)) for promise in promises), Fraction(0))


def _epsilon(multiplier: Fraction, delta: Fraction) -> Fraction:
    # The smallest multiple of a step, found from above, at which the delta is met.
    low, high = 0, 1
    while gaussian_delta(multiplier, high * _STEP) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        met = gaussian_delta(multiplier, middle * _STEP) <= delta
        low, high = (low, middle) if met else (middle, high)
    return high * _STEP

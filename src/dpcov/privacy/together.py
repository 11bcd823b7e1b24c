"""What several releases of one table promise together.

Contract: the promise holds for everything that was published, also where a later release, but not
its budget, was chosen after looking at the earlier ones; it is rounded to the safe side.

Every rule is an adaptive composition, as in the ledger (docs/several.md):

pure ε          ε adds up.
ρ, perhaps ε    ρ adds up; pure ε counts as ε²/2.
(ε, δ), all by  1/multiplier² adds up: Gaussian noise of several releases loses no more than that
Gaussian noise  of one with the sum.  The largest δ is kept, and its ε follows.
other (ε, δ)    ε and δ add up.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from dpcov.errors import UsageError
from dpcov.privacy.calibrate import gaussian_delta, gaussian_noise_multiplier
from dpcov.privacy.convert import shorten_down, sqrt_down, sqrt_up
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
    if len(spends) == 1:
        # Its own epsilon would be rounded up again.
        return spends[0].promise
    deltas = [spend.promise.delta for spend in spends if isinstance(spend.promise, ApproxDP)]
    multipliers = [spend.noise_multiplier for spend in spends if spend.noise_multiplier]
    if deltas and len(multipliers) == len(spends):
        inverse = sum(1 / multiplier**2 for multiplier in multipliers)
        delta = max(deltas)
        epsilon = gaussian_epsilon(sqrt_down(1 / Fraction(inverse)), delta)
        return ApproxDP(epsilon=epsilon, delta=delta)
    return _joint(spends, sum)


def largest(spends: Sequence[Spend]) -> Promise:
    """What holds for everybody where nobody is in the tables of two releases."""
    return _joint(spends, max)


def _joint(spends: Sequence[Spend], join: Callable[[Iterable[Fraction]], Any]) -> Promise:
    promises = [spend.promise for spend in spends]

    def joined(name: str) -> Fraction:
        return Fraction(join(getattr(promise, name, Fraction(0)) for promise in promises))

    if all(isinstance(promise, PureDP) for promise in promises):
        return PureDP(epsilon=joined("epsilon"))
    if not any(isinstance(promise, ApproxDP) for promise in promises):
        return ZCDP(rho=Fraction(join(spend.best_rho() or Fraction(0) for spend in spends)))
    if any(isinstance(promise, ZCDP) for promise in promises):
        raise UsageError(
            "A rho and an (epsilon, delta) make no joint promise. Combine releases whose budgets "
            "are of one kind."
        )
    return ApproxDP(epsilon=joined("epsilon"), delta=joined("delta"))


def divided(total: Promise, weights: Sequence[int]) -> list[Promise]:
    """Promises of releases that keep the total together, in proportion to these weights.

    What adds up is divided: epsilon, rho or, for Gaussian noise under a delta, 1/multiplier².
    """
    parts = [Fraction(weight, sum(weights)) for weight in weights]
    # To the digits that are printed: rounded up, the parts would exceed the total.
    if isinstance(total, PureDP):
        return [PureDP(epsilon=shorten_down(total.epsilon * part)) for part in parts]
    if isinstance(total, ZCDP):
        return [ZCDP(rho=shorten_down(total.rho * part)) for part in parts]
    multiplier = gaussian_noise_multiplier(total.epsilon, total.delta) / _SLACK
    # Rounded down, and a step more, since the joint epsilon is rounded up.
    found = [
        gaussian_epsilon(sqrt_up(multiplier**2 / part), total.delta) - 2 * _STEP
        if part < 1
        else total.epsilon
        for part in parts
    ]
    if min(found) <= 0:
        raise UsageError("So many releases leave nothing to each. Plan fewer, or a larger total.")
    return [ApproxDP(epsilon=epsilon, delta=total.delta) for epsilon in found]


def gaussian_epsilon(multiplier: Fraction, delta: Fraction) -> Fraction:
    """Return the epsilon of Gaussian noise at this delta, rounded up."""
    # The smallest multiple of a step at which the delta is met; no releases need 10^12 together.
    steps = range(1, 10**18)
    is_met = bisect_left(steps, True, key=lambda n: gaussian_delta(multiplier, n * _STEP) <= delta)
    return steps[is_met] * _STEP

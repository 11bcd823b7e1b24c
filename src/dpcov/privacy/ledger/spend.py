"""One release, as far as a ledger must know it.

Contract: every number here is a guarantee of the same release, exact and positive; whoever records
it vouches that all of them hold.
"""

from dataclasses import dataclass
from fractions import Fraction

from dpcov.errors import BudgetError
from dpcov.privacy.convert import pure_to_zcdp
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise, PureDP


@dataclass(frozen=True, kw_only=True)
class Spend:
    """What one release promises and costs.

    ``promise`` is what its file states, for a unit of ``rows_per_person`` rows.  ``rho`` is the
    zCDP guarantee that the same release also has, if any: an (epsilon, delta) promise that was met
    through zCDP is accounted for far better with it.  ``noise_multiplier`` is the standard
    deviation over the l2 sensitivity of real-valued Gaussian noise, also if rounded afterwards;
    discrete Gaussian noise states its ``rho`` instead.
    """

    promise: Promise
    mechanism: str
    rho: Fraction | None = None
    noise_multiplier: Fraction | None = None
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        own = self.rho, self.noise_multiplier, self.rows_per_person
        numbers = *vars(self.promise).values(), *own
        if any(number is not None and number <= 0 for number in numbers):
            raise BudgetError("Every number of a spend must be greater than zero.")
        if isinstance(self.promise, ApproxDP) and self.promise.delta >= 1:
            raise BudgetError("delta must be less than 1.")

    def best_rho(self) -> Fraction | None:
        """Return the smallest rho for which this release is known to be rho-zCDP."""
        known = [self.rho]
        if isinstance(self.promise, ZCDP):
            known.append(self.promise.rho)
        if isinstance(self.promise, PureDP):
            known.append(pure_to_zcdp(self.promise.epsilon))
        if self.noise_multiplier is not None:
            known.append(1 / (2 * self.noise_multiplier**2))
        return min((rho for rho in known if rho is not None), default=None)

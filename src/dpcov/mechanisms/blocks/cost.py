"""Split a promise exactly, and say how much noise a part of it needs.

Contract: the parts of a split promise compose to the whole in exact arithmetic; floats are rounded
outward.
"""

import math
from fractions import Fraction

from dpcov.errors import BudgetError
from dpcov.noise.lattice import LARGEST_STD
from dpcov.privacy.guarantee import ZCDP, Promise, PureDP

# A part of the budget; parts of one kind add up.
Cost = PureDP | ZCDP


def part_of(promise: Promise, share: Fraction) -> Cost:
    """Scale a promise; parts whose shares sum to one compose to the whole."""
    if isinstance(promise, PureDP):
        return PureDP(epsilon=promise.epsilon * share)
    assert isinstance(promise, ZCDP)
    return ZCDP(rho=promise.rho * share)


def squared_noise_scale(cost: Cost, absolute: int | Fraction, squared: int | Fraction) -> Fraction:
    """Square of the noise scale that a part of the budget needs, exactly.

    Pure: Laplace noise of scale absolute / epsilon, for the sensitivity ``absolute`` in l1.
    zCDP: Gaussian noise of variance squared / (2 rho), for the squared sensitivity in l2.
    """
    scale = (absolute / cost.epsilon) ** 2 if isinstance(cost, PureDP) else squared / (2 * cost.rho)
    if scale > LARGEST_STD**2:
        raise BudgetError("At this budget noise hides every table. Use a larger budget.")
    return scale


def root_up(value: Fraction) -> float:
    """A float that is not below the square root of a fraction."""
    # The conversion and the root round once each, so each is moved outward by one float.
    return math.nextafter(math.sqrt(math.nextafter(float(value), math.inf)), math.inf)


def root_down(value: Fraction) -> float:
    """A float that is not above the square root of a fraction."""
    return math.nextafter(math.sqrt(math.nextafter(float(value), 0.0)), 0.0)

"""A part of a budget, and the noise that it pays for.

Promise: parts of a share never add up to more than the share, and every noise scale is rounded up, so that a
mechanism that splits its budget here cannot overspend.  Knows nothing of rows or moments.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import BudgetError
from dpcov.mechanisms.blocks import tail_bounds
from dpcov.mechanisms.blocks.sensitivity import Sensitivity
from dpcov.noise.continuous import exponentials, normals
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.convert import sqrt_up, zcdp_pure_epsilon
from dpcov.privacy.guarantee import ZCDP, PureDP

Array = NDArray[np.float64]

LARGEST_SCALE = 2.0**56
"""Beyond this, noise says nothing about any table and private counts would not fit into 64 bits."""


@dataclass(frozen=True, kw_only=True)
class AdditiveNoise:
    """Independent noise on the entries of a vector (idealized numerics).

    Parameters
    ----------
    law : {"gaussian", "laplace"}
    scale : float
        Standard deviation of the Gaussian law, scale parameter of the Laplace law.
    """

    law: Literal["gaussian", "laplace"]
    scale: float

    def draw(self, size: int, entropy: Entropy) -> Array:
        """Draw a noise vector of ``size`` entries."""
        if self.law == "gaussian":
            return self.scale * normals(size, entropy)
        return self.scale * laplaces(size, entropy)

    def scaled(self, factor: float) -> "AdditiveNoise":
        """Return the noise for a statistic of ``factor`` times the sensitivity."""
        return AdditiveNoise(law=self.law, scale=self.scale * factor)

    def upper_bound(self, beta: float) -> float:
        """Exceeded by one entry with probability at most ``beta`` / 2."""
        if self.law == "gaussian":
            return self.scale * math.sqrt(2.0 * math.log(1.0 / beta))
        return self.scale * math.log(1.0 / beta)

    def norm_bound(self, size: int, beta: float) -> float:
        """Exceeded by the l2 norm of ``size`` entries with probability at most ``beta``."""
        bound = tail_bounds.eta if self.law == "gaussian" else tail_bounds.laplace_vector
        return self.scale * bound(size, beta)


@dataclass(frozen=True, kw_only=True)
class Share:
    """Part of a privacy budget.

    Parameters
    ----------
    promise : ZCDP or PureDP
        What this part may cost.

    Examples
    --------
    >>> half = Share(promise=ZCDP(rho=Fraction(1))).part(Fraction(1, 2))
    >>> half.promise.rho, half.epsilon
    (Fraction(1, 2), Fraction(1, 1))
    """

    promise: ZCDP | PureDP

    def part(self, fraction: Fraction) -> "Share":
        """Return this fraction of the share; costs of parts add up under both promises."""
        if not 0 < fraction <= 1:
            raise BudgetError("A part of a budget is more than nothing and at most all of it.")
        if isinstance(self.promise, ZCDP):
            return Share(promise=ZCDP(rho=self.promise.rho * fraction))
        return Share(promise=PureDP(epsilon=self.promise.epsilon * fraction))

    @property
    def epsilon(self) -> Fraction:
        """Largest epsilon of an epsilon-DP step that this share pays for: sqrt(2 rho) under zCDP."""
        if isinstance(self.promise, ZCDP):
            return zcdp_pure_epsilon(self.promise.rho)
        return self.promise.epsilon

    def gaussian_scale(self, l2_squared: Fraction) -> float:
        """Standard deviation that this zCDP share pays for: sqrt(l2**2 / (2 rho))."""
        assert isinstance(self.promise, ZCDP)
        return checked_scale(sqrt_up(l2_squared / (2 * self.promise.rho)))

    def additive_noise(self, sensitivity: Sensitivity) -> AdditiveNoise:
        """Gaussian noise under zCDP, Laplace noise under pure differential privacy."""
        if isinstance(self.promise, ZCDP):
            return AdditiveNoise(law="gaussian", scale=self.gaussian_scale(sensitivity.l2_squared))
        return AdditiveNoise(law="laplace", scale=checked_scale(sensitivity.l1 / self.promise.epsilon))


def whole_share(budget: Budget) -> Share:
    """All of a budget: pure if no delta was given, else the zCDP guarantee inside it."""
    promise = budget.promise
    return Share(promise=promise if isinstance(promise, PureDP) else ZCDP(rho=budget.zcdp_rho()))


def laplaces(size: int, entropy: Entropy) -> Array:
    """Draw from the Laplace law of scale one: the difference of two exponential numbers (idealized numerics)."""
    return exponentials(size, entropy) - exponentials(size, entropy)


def checked_scale(scale: Fraction) -> float:
    """Round a noise scale up to a float, or refuse it."""
    if scale > Fraction(LARGEST_SCALE):
        raise BudgetError("This budget needs more noise than any table can bear. Use a larger budget.")
    rounded = float(scale)
    return rounded if Fraction(rounded) >= scale else math.nextafter(rounded, math.inf)

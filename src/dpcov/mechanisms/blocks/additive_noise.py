"""Noise on a number or a vector that a part of a budget pays for, and how large it gets.

Contract: noise made for a part of the budget and a statistic's sensitivity costs exactly that part;
its scale is rounded up.  Idealized numerics.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dpcov.mechanisms.blocks import tail_bounds
from dpcov.mechanisms.blocks.finished import Cost, root_up, squared_noise_scale
from dpcov.mechanisms.blocks.sensitivity import Sensitivity
from dpcov.noise.continuous import exponentials, normals
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.convert import zcdp_pure_epsilon
from dpcov.privacy.guarantee import ZCDP, PureDP
from dpcov.published.linalg.symmetric import Array


@dataclass(frozen=True, kw_only=True)
class AdditiveNoise:
    """Independent entries: ``scale`` is a standard deviation (Gaussian) or Laplace's parameter."""

    law: Literal["gaussian", "laplace"]
    scale: float

    def draw(self, size: int, entropy: Entropy) -> Array:
        """Draw a noise vector of ``size`` entries."""
        draw = normals if self.law == "gaussian" else laplaces
        return self.scale * draw(size, entropy)

    def scaled(self, factor: float) -> "AdditiveNoise":
        """Return the noise for a statistic of ``factor`` times the sensitivity."""
        return AdditiveNoise(law=self.law, scale=self.scale * factor)

    def upper_bound(self, beta: float) -> float:
        """Exceeded by one entry with probability at most ``beta`` / 2."""
        log_inverse = math.log(1.0 / beta)
        bound = math.sqrt(2.0 * log_inverse) if self.law == "gaussian" else log_inverse
        return self.scale * bound

    def norm_bound(self, size: int, beta: float) -> float:
        """Exceeded by the l2 norm of ``size`` entries with probability at most ``beta``."""
        bound = tail_bounds.eta if self.law == "gaussian" else tail_bounds.laplace_vector
        return self.scale * bound(size, beta)


def additive_noise(cost: Cost, sensitivity: Sensitivity) -> AdditiveNoise:
    """Gaussian noise for a zCDP cost, Laplace noise for a pure one."""
    scale = root_up(squared_noise_scale(cost, sensitivity.l1, sensitivity.l2_squared))
    return AdditiveNoise(law="gaussian" if isinstance(cost, ZCDP) else "laplace", scale=scale)


def whole_cost(budget: Budget) -> Cost:
    """All of a budget: pure if it asks for that, else the zCDP guarantee inside it."""
    promise = budget.promise
    return promise if isinstance(promise, PureDP) else ZCDP(rho=budget.zcdp_rho())


def affordable_epsilon(cost: Cost) -> Fraction:
    """Largest epsilon of an epsilon-DP step that a cost pays for: sqrt(2 rho) under zCDP."""
    return zcdp_pure_epsilon(cost.rho) if isinstance(cost, ZCDP) else cost.epsilon


def laplaces(size: int, entropy: Entropy) -> Array:
    """Draw from the Laplace law of scale one: the difference of two exponential numbers."""
    return exponentials(size, entropy) - exponentials(size, entropy)

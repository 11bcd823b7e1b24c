"""How far one person can move a statistic, noise that a part of a budget pays for, and its size.

Contract: every sensitivity is an upper bound that ``blocks.md`` proves, rounded up.  Noise made for
a part of the budget and a sensitivity costs exactly that part; its scale is rounded up.  Idealized
numerics.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks import tail_bounds
from dpcov.mechanisms.blocks.cost import Cost, root_up, squared_noise_scale
from dpcov.noise.continuous import exponentials, normals
from dpcov.noise.entropy import Entropy
from dpcov.noise.nuclear import symmetric_nuclear_noise
from dpcov.privacy.convert import sqrt_up, zcdp_pure_epsilon
from dpcov.privacy.guarantee import ZCDP
from dpcov.published.linalg.symmetric import Array, mirror_upper


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """Bounds on the l1 norm and on the squared l2 norm of a change, for rows in the unit ball."""

    l1: Fraction
    l2_squared: Fraction


def scalar(problem: Problem) -> Sensitivity:
    """Of the trace, a count of rows, or any sum over rows of one number in [0, 1]."""
    k = Fraction(problem.rows_per_person)
    return Sensitivity(l1=k, l2_squared=k**2)


def eigenvalues(problem: Problem) -> Sensitivity:
    """Of the sorted eigenvalues of the sscp; also its nuclear (l1) and Frobenius (l2) norm."""
    moved = Fraction(problem.moved_rows)
    return Sensitivity(l1=moved, l2_squared=moved * problem.rows_per_person)


def upper_triangle(problem: Problem) -> Sensitivity:
    """Of the entries on and above the diagonal of the sscp."""
    k, d = Fraction(problem.rows_per_person), problem.n_features
    l1 = Fraction(d + 1, 2)
    if problem.neighbors == "replace-one":
        # laplace.md, Lemma 2: attained for d = 1 and every even d.
        l1 = Fraction(1) if d == 1 else sqrt_up(Fraction(d**2, 2) + d + 1)
    return Sensitivity(l1=k * l1, l2_squared=problem.moved_rows * k)


def affordable_epsilon(cost: Cost) -> Fraction:
    """Largest epsilon of an epsilon-DP step that a cost pays for: sqrt(2 rho) under zCDP."""
    return zcdp_pure_epsilon(cost.rho) if isinstance(cost, ZCDP) else cost.epsilon


def _scale(cost: Cost, sensitivity: Sensitivity) -> float:
    return root_up(squared_noise_scale(cost, sensitivity.l1, sensitivity.l2_squared))


def laplaces(size: int, entropy: Entropy) -> Array:
    """Draw from the Laplace law of scale one: the difference of two exponential numbers."""
    return exponentials(size, entropy) - exponentials(size, entropy)


@dataclass(frozen=True, kw_only=True)
class AdditiveNoise:
    """Independent entries: ``scale`` is a standard deviation (Gaussian) or Laplace's parameter."""

    law: Literal["gaussian", "laplace"]
    scale: float

    def draw(self, size: int, entropy: Entropy) -> Array:
        """Draw a noise vector of ``size`` entries."""
        draw = normals if self.law == "gaussian" else laplaces
        return self.scale * draw(size, entropy)

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
    law: Literal["gaussian", "laplace"] = "gaussian" if isinstance(cost, ZCDP) else "laplace"
    return AdditiveNoise(law=law, scale=_scale(cost, sensitivity))


# ``isotropic``: as the sensitivity is, invariant under rotations.  ``entrywise``: the papers', of
# one law on all entries on and above the diagonal; about sqrt(2) larger (Gaussian) or growing
# faster with d (Laplace).
Shape = Literal["isotropic", "entrywise"]

Law = Literal["gaussian-isotropic", "gaussian-entrywise", "wishart", "laplace-entrywise"]

# Bounds on the spectral and on the Frobenius norm at scale 1.
_BOUNDS: dict[Law, tuple[Callable[[int, float], float], Callable[[int, float], float]]] = {
    "gaussian-isotropic": (tail_bounds.isotropic_spectral, tail_bounds.isotropic_frobenius),
    "gaussian-entrywise": (tail_bounds.nu, tail_bounds.omega),
    "wishart": (tail_bounds.wishart_spectral, tail_bounds.wishart_frobenius),
    "laplace-entrywise": (tail_bounds.laplace_spectral, tail_bounds.laplace_frobenius),
}


@dataclass(frozen=True, kw_only=True)
class MatrixNoise:
    """Law of a symmetric noise matrix.

    ``scale`` is the standard deviation on the diagonal (Gaussian), the parameter of the entries
    (Laplace), or that of :func:`~dpcov.noise.nuclear.symmetric_nuclear_noise` (Wishart).
    """

    law: Law
    scale: float

    def draw(self, dimension: int, entropy: Entropy) -> Array:
        """Draw a symmetric (d, d) matrix."""
        if self.law == "wishart":
            return symmetric_nuclear_noise(dimension, self.scale, entropy, law="wishart")
        if self.law == "laplace-entrywise":
            entries = laplaces(dimension**2, entropy).reshape(dimension, dimension)
            return self.scale * mirror_upper(entries)
        entries = self.scale * normals((dimension, dimension), entropy)
        if self.law == "gaussian-entrywise":
            return mirror_upper(entries)
        # The symmetric part of a normal matrix: off-diagonal variance half of the diagonal one.
        return np.asarray(0.5 * (entries + entries.T))

    def spectral_bound(self, dimension: int, beta: float) -> float:
        """Exceeded by the spectral norm with probability at most ``beta``."""
        return self.scale * _BOUNDS[self.law][0](dimension, beta)

    def frobenius_bound(self, dimension: int, beta: float) -> float:
        """Exceeded by the Frobenius norm with probability at most ``beta``."""
        return self.scale * _BOUNDS[self.law][1](dimension, beta)


def matrix_noise(cost: Cost, problem: Problem, shape: Shape = "isotropic") -> MatrixNoise:
    """Return the noise of this shape that a cost pays for on the sscp of rows in the unit ball."""
    if isinstance(cost, ZCDP):
        law: Law = "gaussian-isotropic" if shape == "isotropic" else "gaussian-entrywise"
    else:
        law = "wishart" if shape == "isotropic" else "laplace-entrywise"
    # The upper triangle's l1 norm can move by more than the nuclear norm.
    bound = upper_triangle if law == "laplace-entrywise" else eigenvalues
    return MatrixNoise(law=law, scale=_scale(cost, bound(problem)))

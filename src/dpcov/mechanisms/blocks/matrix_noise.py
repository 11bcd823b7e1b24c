"""Noise for a whole second moment matrix, and how large it gets.

Contract: with a scale from :func:`matrix_noise`, adding one draw to the sscp of rows in the unit
ball costs exactly the part of the budget that it was made for.  Idealized numerics.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks import sensitivity, tail_bounds
from dpcov.mechanisms.blocks.additive_noise import laplaces
from dpcov.mechanisms.blocks.finished import Cost, root_up, squared_noise_scale
from dpcov.noise.continuous import normals
from dpcov.noise.entropy import Entropy
from dpcov.noise.nuclear import symmetric_nuclear_noise
from dpcov.privacy.guarantee import ZCDP
from dpcov.published.linalg.symmetric import Array, mirror_upper

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
    law: Law
    bound = sensitivity.eigenvalues(problem)
    if isinstance(cost, ZCDP):
        law = "gaussian-isotropic" if shape == "isotropic" else "gaussian-entrywise"
    elif shape == "isotropic":
        law = "wishart"
    else:
        # The upper triangle's l1 norm can move by more than the nuclear norm.
        law, bound = "laplace-entrywise", sensitivity.upper_triangle(problem)
    scale = root_up(squared_noise_scale(cost, bound.l1, bound.l2_squared))
    return MatrixNoise(law=law, scale=scale)

"""Smooth increasing curves: the family from which an eigenvalue shrinkage curve is chosen.

Contract: every basis curve is increasing, not negative and continuously differentiable, and its
knots depend on the noise level alone, never on single eigenvalues.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcov.published.linalg.symmetric import Array

# Ratio of neighboring knots beyond the noise bulk: few curves, yet any spectrum is covered.
OUTER_GROWTH = 2.0


@dataclass(frozen=True)
class CurveBasis:
    """Basis curves at k points, with two derivatives, each of shape (k, number of curves)."""

    heights: Array
    slopes: Array
    curvatures: Array

    def only(self, chosen: NDArray[np.bool_]) -> "CurveBasis":
        """The curves that are marked in ``chosen``, shape (number of curves,)."""
        return CurveBasis(
            self.heights[:, chosen], self.slopes[:, chosen], self.curvatures[:, chosen]
        )


def noise_knots(radius: float, largest: float, pieces: int) -> Array:
    """Return knots on [−radius, radius], ``pieces`` intervals on each side of 0, then geometric.

    With ``pieces = 0`` the noise bulk is a single interval.
    """
    knots = list(np.linspace(-radius, radius, 2 * pieces + 1 if pieces else 2))
    step = knots[1] - knots[0]
    # A curve spans three knots, so two of them must lie past the largest value.
    while len(knots) < 3 or knots[-3] < largest:
        step = max(step, (OUTER_GROWTH - 1.0) * knots[-1])
        knots.append(knots[-1] + step)
    return np.array(knots)


def increasing_basis(points: Array, knots: Array) -> CurveBasis:
    """Return the constant 1 and the integrals of the hat functions over three neighboring knots.

    Sums with nonnegative weights are the increasing, nonnegative quadratic splines (Ramsay's
    I-splines); the identity is among them up to a constant.
    """
    left, peak, right = knots[:-2], knots[1:-1], knots[2:]
    x = points[:, np.newaxis]
    risen = np.clip(x, left, peak) - left
    passed = np.clip(x, peak, right) - peak
    width = right - left
    # Products of nonnegative factors: rounding cannot turn a height negative.
    heights = risen**2 / (width * (peak - left)) + passed * (2.0 - passed / (right - peak)) / width
    slopes = 2.0 / width * np.where(x < peak, risen / (peak - left), 1.0 - passed / (right - peak))
    rising, falling = (left < x) & (x < peak), (peak <= x) & (x < right)
    curvatures = 2.0 / width * (rising / (peak - left) - falling / (right - peak))
    zero = np.zeros((points.size, 1))
    return CurveBasis(
        np.hstack([zero + 1.0, heights]), np.hstack([zero, slopes]), np.hstack([zero, curvatures])
    )

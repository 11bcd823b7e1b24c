"""Calibrate and draw isotropic Gaussian noise on a lattice.

Contract: variances are exact integers rounded up, never below what the promise needs for the stated
squared sensitivity.
"""

from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import BudgetError
from dpcov.noise.entropy import Entropy
from dpcov.noise.lattice import LARGEST_STD, rounded_gaussian
from dpcov.privacy.calibrate import gaussian_noise_multiplier
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise

# Precision of the row count relative to a matrix entry: 3 % more noise on the matrix.
ROW_COUNT_WEIGHT = Fraction(1, 16)


def even_variance(
    squared_sensitivity: Fraction, promise: Promise, *, smallest_weight: Fraction = Fraction(1)
) -> int:
    """Smallest even variance that keeps the promise, if draws of variance / weight can fit."""
    # (noise std / l2 sensitivity)**2 that the promise needs.
    if isinstance(promise, ZCDP):
        squared_multiplier = 1 / (2 * promise.rho)
    else:
        assert isinstance(promise, ApproxDP)
        squared_multiplier = gaussian_noise_multiplier(promise.epsilon, promise.delta) ** 2
    # Even, so that half of it is the exact variance of an off-diagonal entry.
    variance = 2 * ceil(squared_sensitivity * squared_multiplier / 2)
    if variance > LARGEST_STD**2 * smallest_weight:
        raise BudgetError(
            "This budget needs more noise than fits into 64-bit integers. "
            "Use a larger budget or fewer bits."
        )
    return variance


def symmetric_noise(
    dimension: int, diagonal_variance: int, entropy: Entropy, *, off_diagonal: int | None = None
) -> NDArray[np.int64]:
    """Symmetric (d, d) integer noise, isotropic unless an off-diagonal variance is given."""
    noise = np.zeros((dimension, dimension), dtype=np.int64)
    above = np.triu_indices(dimension, 1)
    noise[above] = rounded_gaussian(off_diagonal or diagonal_variance // 2, len(above[0]), entropy)
    noise += noise.T
    np.fill_diagonal(noise, rounded_gaussian(diagonal_variance, dimension, entropy))
    return noise

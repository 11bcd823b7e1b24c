"""Calibrate and draw isotropic Gaussian noise on a lattice.

Contract: variances are exact integers rounded up, never below what the promise needs for the stated
squared sensitivity.
"""

from fractions import Fraction
from math import ceil, isqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import BudgetError
from dpcov.noise.entropy import Entropy
from dpcov.noise.lattice import LARGEST_STD, rounded_gaussian
from dpcov.privacy.calibrate import classical_noise_multiplier, gaussian_noise_multiplier
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise

# Precision of the row count relative to a matrix entry: 3 % more noise on the matrix.
ROW_COUNT_WEIGHT = Fraction(1, 16)

Formula = Literal["analytic", "classical"]


def even_variance(
    squared_sensitivity: Fraction,
    promise: Promise,
    *,
    smallest_weight: Fraction = Fraction(1),
    formula: Formula = "analytic",
) -> int:
    """Smallest even variance that keeps the promise, if draws of variance / weight can fit."""
    # Even, so that half of it is the exact variance of an off-diagonal entry.
    variance = 2 * ceil(squared_sensitivity * _squared_multiplier(promise, formula) / 2)
    if variance > LARGEST_STD**2 * smallest_weight:
        raise BudgetError(
            "This budget needs more noise than fits into 64-bit integers. "
            "Use a larger budget or fewer bits."
        )
    return variance


def _squared_multiplier(promise: Promise, formula: Formula) -> Fraction:
    # (noise std / l2 sensitivity)**2 that the promise needs: 1 / (2 rho) under zCDP.
    if isinstance(promise, ZCDP):
        return 1 / (2 * promise.rho)
    assert isinstance(promise, ApproxDP)
    classical = formula == "classical"
    multiplier = classical_noise_multiplier if classical else gaussian_noise_multiplier
    return multiplier(promise.epsilon, promise.delta) ** 2


def sqrt_down(value: Fraction) -> Fraction:
    """A fraction just below the square root."""
    scale = 2**64
    return Fraction(isqrt(value.numerator * scale**2 // value.denominator), scale)


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

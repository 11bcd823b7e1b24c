"""Exact noise on the integers: rounded Gaussian, discrete Gaussian, discrete Laplace.

Contract: every law holds exactly, bit for bit, not up to rounding; ``docs/noise.md`` has the proof.  The
variance is public: a table is computed from it alone and cached.  Knows nothing of mechanisms, budgets or
rows.
"""

import math
from fractions import Fraction
from functools import lru_cache
from numbers import Rational

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import NumericError, UsageError
from dpcov.noise.entropy import Entropy
from dpcov.noise.staircase import Decay, build_staircase, draw

LARGEST_STD = 1 << 56
SMALLEST_STD = Fraction(1, 1 << 20)

# In units of 2**-rounding_bits a real law has std >= 2**7, so that its blocks are narrow beside it.
_REAL_STD_BITS = 7


def rounded_gaussian(variance: Fraction | int, size: int, entropy: Entropy) -> NDArray[np.int64]:
    """Draw real N(0, variance) numbers, rounded to the nearest integer.

    On an integer-valued statistic S this noise is a rounding of the continuous Gaussian mechanism's output,
    round(S + Z) = S + round(Z), and keeps every guarantee of it.

    Parameters
    ----------
    variance : Fraction or int
        Variance before rounding; its root lies in [2**-20, 2**56].
    size : int
        Number of draws.
    entropy : Entropy
        Source of the random bits.

    Returns
    -------
    ndarray of int64, shape (size,)

    Raises
    ------
    UsageError
        The variance is not a positive exact number, or too small.
    NumericError
        Draws might not fit into 64 bits.

    Examples
    --------
    >>> from dpcov.noise.entropy import SystemEntropy
    >>> rounded_gaussian(Fraction(9, 4), 5, SystemEntropy()).dtype
    dtype('int64')
    """
    return draw(build_staircase(_rounded_gaussian(variance)), size, entropy)


def discrete_gaussian(variance: Fraction | int, size: int, entropy: Entropy) -> NDArray[np.int64]:
    """Draw integers x with probability proportional to exp(-x**2 / (2 variance)).

    Parameters
    ----------
    variance : Fraction or int
        The parameter above; its root lies in [2**-20, 2**56].  The draws' own variance is slightly smaller.
    size : int
        Number of draws.
    entropy : Entropy
        Source of the random bits.

    Returns
    -------
    ndarray of int64, shape (size,)

    Raises
    ------
    UsageError
        The variance is not a positive exact number, or too small.
    NumericError
        Draws might not fit into 64 bits.

    References
    ----------
    Canonne, Kamath, Steinke (2020), The discrete Gaussian for differential privacy.

    Examples
    --------
    >>> from dpcov.noise.entropy import SystemEntropy
    >>> discrete_gaussian(4, 5, SystemEntropy()).shape
    (5,)
    """
    return draw(build_staircase(_discrete_gaussian(variance)), size, entropy)


def discrete_laplace(scale: Fraction | int, size: int, entropy: Entropy) -> NDArray[np.int64]:
    """Draw integers x with probability proportional to exp(-abs(x) / scale).

    Parameters
    ----------
    scale : Fraction or int
        The parameter above, in [2**-20, 2**56].
    size : int
        Number of draws.
    entropy : Entropy
        Source of the random bits.

    Returns
    -------
    ndarray of int64, shape (size,)

    Raises
    ------
    UsageError
        The scale is not a positive exact number, or too small.
    NumericError
        Draws might not fit into 64 bits.

    Examples
    --------
    >>> from dpcov.noise.entropy import SystemEntropy
    >>> discrete_laplace(Fraction(7, 2), 5, SystemEntropy()).shape
    (5,)
    """
    return draw(build_staircase(_discrete_laplace(scale)), size, entropy)


@lru_cache(maxsize=64, typed=True)
def _rounded_gaussian(variance: Fraction | int) -> Decay:
    variance = _check_range(variance, "variance", power=2)
    std_bits = math.floor(math.log2(variance) / 2)
    rounding_bits = max(1, _REAL_STD_BITS - std_bits)
    return Decay(rate=1 / (2 * variance * 4**rounding_bits), power=2, rounding_bits=rounding_bits)


@lru_cache(maxsize=64, typed=True)
def _discrete_gaussian(variance: Fraction | int) -> Decay:
    return Decay(rate=1 / (2 * _check_range(variance, "variance", power=2)), power=2)


@lru_cache(maxsize=64, typed=True)
def _discrete_laplace(scale: Fraction | int) -> Decay:
    return Decay(rate=1 / _check_range(scale, "scale", power=1), power=1)


def _check_range(value: Fraction | int, name: str, *, power: int) -> Fraction:
    """Return the parameter as a fraction of Python integers, or say which values can be used."""
    if not isinstance(value, Rational):
        raise UsageError(f"The {name} must be an exact number: give an int or a Fraction.")
    exact = Fraction(int(value.numerator), int(value.denominator))
    if exact < SMALLEST_STD**power:
        raise UsageError(f"The {name} must be positive, and at least 2**{-20 * power}.")
    if exact > LARGEST_STD**power:
        raise NumericError(
            f"The {name} is above 2**{56 * power}, so that draws might not fit into 64 bits. Use a coarser grid."
        )
    return exact

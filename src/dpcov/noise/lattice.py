"""Draw exact noise on the integers: rounded Gaussian and discrete Laplace.

Contract: every law holds exactly, bit for bit; ``docs/noise.md`` has the proof.  A parameter is
public: its table is computed once and cached.
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

    On an integer statistic S this is post-processing of the continuous Gaussian mechanism,
    round(S + Z) = S + round(Z), and keeps every guarantee of it.  The root of the variance before
    rounding lies in [2**-20, 2**56]; else a UsageError (too small, not exact) or a NumericError
    (draws might not fit into 64 bits) is raised.
    """
    return draw(build_staircase(_rounded_gaussian(variance)), size, entropy)


def discrete_laplace(scale: Fraction | int, size: int, entropy: Entropy) -> NDArray[np.int64]:
    """Draw integers x with probability proportional to exp(-abs(x) / scale), scale as a root."""
    return draw(build_staircase(_discrete_laplace(scale)), size, entropy)


@lru_cache(maxsize=64, typed=True)
def _rounded_gaussian(variance: Fraction | int) -> Decay:
    variance = _check_range(variance, "variance", power=2)
    std_bits = math.floor(math.log2(variance) / 2)
    rounding_bits = max(1, _REAL_STD_BITS - std_bits)
    return Decay(rate=1 / (2 * variance * 4**rounding_bits), power=2, rounding_bits=rounding_bits)


@lru_cache(maxsize=64, typed=True)
def _discrete_laplace(scale: Fraction | int) -> Decay:
    return Decay(rate=1 / _check_range(scale, "scale", power=1), power=1)


def _check_range(value: Fraction | int, name: str, *, power: int) -> Fraction:
    if not isinstance(value, Rational):
        raise UsageError(f"The {name} must be an exact number: give an int or a Fraction.")
    # numpy's integers are Rational too, but wrap around in what follows.
    exact = Fraction(int(value.numerator), int(value.denominator))
    if exact < SMALLEST_STD**power:
        raise UsageError(f"The {name} must be positive, and at least 2**{-20 * power}.")
    if exact > LARGEST_STD**power:
        limit = f"2**{56 * power}, so draws might not fit into 64 bits"
        raise NumericError(f"The {name} is above {limit}. Use a coarser grid.")
    return exact

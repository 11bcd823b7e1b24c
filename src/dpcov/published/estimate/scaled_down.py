"""What scaling long rows down to a bound does to what people read.

Errors are in standard deviations of columns, by the part of all squared lengths that was lost.
``benchmarks.analyst.scaled_down`` measures them on tables of all kinds (docs/geometry.md).
"""

from math import sqrt

import numpy as np

from dpcov.published.linalg.symmetric import Array

# A correlation's root mean square error where nearly all is lost: usual, and of one table in five.
USUAL, SAFE = 0.05, 0.08
# The same by what two columns lost, over the root of |r| (1 - |r|) + NEAR_ZERO.
SAFE_AT, NEAR_ZERO = 0.18, 0.04
# Of means where all columns are skewed alike, over the lost part: long rows are pulled to the
# center from one side.
PULLED = 0.2
# Beyond this lost part it is not told how much more is lost.
MOST_LOST = 0.9


def correlation_error(lost: float | Array, size: float = SAFE) -> Array:
    """Root mean square error of a correlation, of the shape of ``lost``."""
    return np.asarray(size * np.asarray(lost) ** 0.75)


def error_at(correlation: float, lost: tuple[float, float]) -> float:
    """Root mean square error of a correlation of this size, of one table in five.

    ``lost`` are the parts that its two columns lost of their variances.
    """
    size = min(1.0, abs(correlation))
    both = sqrt((lost[0] ** 2 + lost[1] ** 2) / 2)
    return float(SAFE_AT * sqrt(size * (1 - size) + NEAR_ZERO) * both**0.75)

"""What scaling long rows down to a bound does to what people read.

Errors are in standard deviations of columns, by the part of all squared lengths that was lost.
``benchmarks.analyst.scaled_down`` measures them on tables of all kinds
(docs/measured/scaled-down.md).
"""

import numpy as np

from dpcov.published.linalg.symmetric import Array

# A correlation's root mean square error where nearly all of many rows is lost: usual, and of one
# table in five.
USUAL, SAFE = 0.055, 0.07
# That of one table in ten by what two columns lost, l, over the root of
# |r| (1 - |r|) + NEAR_ZERO + ALL_LOST l^8: where hardly any of a column is left, correlations near
# zero err as others do.
SAFE_AT, NEAR_ZERO, ALL_LOST = 0.185, 0.04, 0.5
# How many rows have twice the square of these errors: few long rows point where they happen to.
FEW_ROWS = 1_600
# That of means, in deviations, of one table in five, over the root of the product of what a column
# and all together lost: long rows are pulled to the center from one side.
PULLED = 0.15
# Beyond this lost part it is not told how much more is lost.
MOST_LOST = 0.9


def correlation_error(lost: float | Array, n_rows: float | Array, size: float = SAFE) -> Array:
    """Root mean square error of a correlation, of the shape of ``lost``."""
    return np.asarray(size * of_few(n_rows) * np.asarray(lost) ** 0.75)


def error_at(
    correlation: float | Array, first: float | Array, second: float | Array, n_rows: float | Array
) -> Array:
    """Root mean square errors of correlations of these sizes, of one table in ten.

    ``first`` and ``second`` are the parts that their two columns lost of their variances.
    """
    size = np.minimum(1.0, np.abs(correlation))
    both = np.sqrt((first**2 + second**2) / 2)
    at_size = SAFE_AT * np.sqrt(size * (1 - size) + NEAR_ZERO + ALL_LOST * both**8)
    return np.asarray(at_size * of_few(n_rows) * both**0.75)


def mean_error(
    lost: float, parts: float | Array, whole: float | Array, n_rows: float | Array
) -> Array:
    """Root mean square errors of means, in deviations as they are read, of one table in five.

    ``parts`` are those that columns lost of their variances, ``lost`` is what all lost together,
    ``whole`` are variances before rows were scaled down, over those that are read.
    """
    return np.asarray(PULLED * of_few(n_rows) * np.sqrt(lost * np.asarray(parts) * whole))


def of_few(n_rows: float | Array) -> Array:
    """What few rows multiply errors by."""
    return np.asarray(np.sqrt(1 + FEW_ROWS / np.maximum(n_rows, 1.0)))

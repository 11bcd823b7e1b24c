"""A careless implementation of private second moments: the victim of the attacks beside it.

Textbook floating-point noise and sums, as in many scripts.  Nothing of the package is used here.
"""

import numpy as np

RESOLUTION = 2.0**-53


def laplace(scale, size, random):
    """Inverse cdf of a uniform double with 53 bits; the sign is drawn apart."""
    uniform = random.integers(1, 2**53, size=size) * RESOLUTION
    return np.where(random.random(size) < 0.5, 1.0, -1.0) * laplace_of(uniform, scale)


def laplace_of(uniform, scale):
    return -scale * np.log(uniform)


def polar_pairs(size, random):
    """Marsaglia's polar method: both normal numbers of every uniform point of the disk."""
    points = np.empty((0, 2))
    while len(points) < size:
        fresh = 2.0 * (random.integers(0, 2**53, size=(2 * size, 2)) * RESOLUTION) - 1.0
        square = np.square(fresh).sum(axis=1)
        points = np.concatenate([points, fresh[(square > 0) & (square < 1)]])
    return polar_of(points[:size])


def polar_of(points):
    square = points[:, 0] * points[:, 0] + points[:, 1] * points[:, 1]
    # The attack also tries the center, which the method rejects.
    with np.errstate(divide="ignore", invalid="ignore"):
        return points * np.sqrt(-2.0 * np.log(square) / square)[:, None]


def sum_of_squares(values):
    """One accumulator of the values' own precision, one value after another."""
    return np.add.accumulate(values * values)[-1]

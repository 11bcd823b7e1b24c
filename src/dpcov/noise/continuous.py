"""Continuous laws in floating point, for mechanisms whose numerics are "idealized".

Contract: each method would be exact in real arithmetic; the results are rounded to float64, so that a privacy
proof that uses them holds for real numbers only.  Noise that has to be exact comes from
:mod:`dpcov.noise.lattice`.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import UsageError
from dpcov.noise.entropy import Entropy, in_blocks

Floats = NDArray[np.float64]

_LARGEST_BELOW_ONE = 1.0 - 2.0**-53


@in_blocks
def uniforms(size: int, entropy: Entropy) -> Floats:
    """Draw uniform numbers in the open interval (0, 1), from 64 bits each (idealized numerics)."""
    middle_of_cell = (entropy.words(size).astype(np.float64) + 0.5) * 2.0**-64
    return np.minimum(middle_of_cell, _LARGEST_BELOW_ONE)


@in_blocks
def exponentials(size: int, entropy: Entropy) -> Floats:
    """Draw from the exponential law of mean one (idealized numerics)."""
    return -np.log(uniforms(size, entropy))


def normals(shape: int | tuple[int, ...], entropy: Entropy) -> Floats:
    """Draw standard normal numbers by the method of Box and Muller (idealized numerics)."""
    shape = (shape,) if isinstance(shape, int) else shape
    return _normals(math.prod(shape), entropy).reshape(shape)


@in_blocks
def _normals(size: int, entropy: Entropy) -> Floats:
    pairs = (size + 1) // 2
    radius = np.sqrt(2.0 * exponentials(pairs, entropy))
    angle = 2.0 * np.pi * uniforms(pairs, entropy)
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    return both[:size]


def gammas(shape_parameter: float, size: int, entropy: Entropy) -> Floats:
    """Draw from the gamma law of scale one by the rejection of Marsaglia and Tsang (idealized numerics).

    Parameters
    ----------
    shape_parameter : float
        Positive and finite; also the mean and the variance of the law.
    size : int
        Number of draws.
    entropy : Entropy
        Source of the random bits.

    Returns
    -------
    ndarray of float64, shape (size,)

    References
    ----------
    Marsaglia, Tsang (2000), A simple method for generating gamma variables.

    Examples
    --------
    >>> from dpcov.noise.entropy import SystemEntropy
    >>> gammas(2.5, 4, SystemEntropy()).shape
    (4,)
    """
    if not (shape_parameter > 0.0 and math.isfinite(shape_parameter)):
        raise UsageError("The shape parameter of a gamma law must be positive and finite.")
    if shape_parameter < 1.0:
        # Gamma(a) = Gamma(a + 1) * U**(1/a)
        shrink = uniforms(size, entropy) ** (1.0 / shape_parameter)
        return gammas(shape_parameter + 1.0, size, entropy) * shrink
    values = np.empty(size)
    lanes = np.arange(size)
    while lanes.size:
        values[lanes], accepted = _propose_gammas(shape_parameter, lanes.size, entropy)
        lanes = lanes[~accepted]
    return values


def _propose_gammas(
    shape_parameter: float, count: int, entropy: Entropy
) -> tuple[Floats, NDArray[np.bool_]]:
    """Propose d v with v = (1 + c x)**3; accept if log u < x**2/2 + d (1 - v + log v)."""
    d = shape_parameter - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    x = normals(count, entropy)
    root = 1.0 + c * x
    positive = root > 0.0
    # With y = c x: v - 1 = y (3 + 3y + y**2) loses no digits where d is large.
    y = c * x * positive
    excess = y * (3.0 + y * (3.0 + y))
    bound = 0.5 * x**2 + d * (3.0 * np.log1p(y) - excess)
    accepted = positive & (np.log(uniforms(count, entropy)) < bound)
    return d * root**3, accepted


def haar_orthogonal(dimension: int, entropy: Entropy) -> Floats:
    """Draw a uniformly distributed orthogonal matrix (idealized numerics).

    The orthogonal factor of a normal matrix is uniform once the triangular one has a positive diagonal
    (Mezzadri 2007).
    """
    if dimension < 1:
        raise UsageError("An orthogonal matrix needs a dimension of at least 1.")
    orthogonal, triangular = np.linalg.qr(normals((dimension, dimension), entropy))
    haar: Floats = orthogonal * np.copysign(1.0, np.diagonal(triangular))
    return haar

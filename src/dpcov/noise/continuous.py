"""Draw from continuous laws in floating point, for mechanisms whose numerics are "idealized".

Contract: each method is exact in real arithmetic and rounded to float64, so a privacy proof that
uses it holds for real numbers only.  Exact noise comes from :mod:`dpcov.noise.lattice`.
"""

import numpy as np
from numpy.typing import NDArray

from dpcov.noise.entropy import Entropy, in_blocks

Floats = NDArray[np.float64]


@in_blocks
def uniforms(size: int, entropy: Entropy) -> Floats:
    """Draw uniform numbers in the open interval (0, 1), from 64 bits each."""
    middle_of_cell = (entropy.words(size).astype(np.float64) + 0.5) * 2.0**-64
    # The highest cells round to 1, which the open interval leaves out.
    return np.minimum(middle_of_cell, 1.0 - 2.0**-53)


@in_blocks
def exponentials(size: int, entropy: Entropy) -> Floats:
    """Draw from the exponential law of mean one."""
    return -np.log(uniforms(size, entropy))


def normals(shape: int | tuple[int, ...], entropy: Entropy) -> Floats:
    """Draw standard normal numbers by the method of Box and Muller."""
    return _normals(int(np.prod(shape)), entropy).reshape(shape)


@in_blocks
def _normals(size: int, entropy: Entropy) -> Floats:
    pairs = (size + 1) // 2
    radius = np.sqrt(2.0 * exponentials(pairs, entropy))
    angle = 2.0 * np.pi * uniforms(pairs, entropy)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size]


def haar_orthogonal(dimension: int, entropy: Entropy) -> Floats:
    """Draw a uniformly distributed orthogonal (d, d) matrix (Mezzadri 2007)."""
    orthogonal, triangular = np.linalg.qr(normals((dimension, dimension), entropy))
    # The orthogonal factor is uniform once the triangular one has a positive diagonal.
    return np.asarray(orthogonal * np.copysign(1.0, np.diagonal(triangular)))

"""Whitening: inverse square roots, and errors relative to a covariance matrix.

Contract: refuses matrices that are not positive definite instead of dividing by rounding errors.  Knows
nothing of privacy, rows or noise.
"""

import numpy as np
from numpy.typing import ArrayLike

from dpcov.errors import NumericError
from dpcov.published.linalg.symmetric import Array, compose, eigh


def inverse_root(matrix: ArrayLike) -> Array:
    """Return the symmetric A**(-1/2) of a positive definite matrix.

    Examples
    --------
    >>> inverse_root([[4.0, 0.0], [0.0, 1.0]]).tolist()
    [[0.5, 0.0], [0.0, 1.0]]
    """
    values, vectors = eigh(matrix)
    if not values[0] > 0.0:
        raise NumericError("The matrix is not positive definite, so it has no inverse root.")
    return compose(values**-0.5, vectors)


def mahalanobis_error(estimate: ArrayLike, reference: ArrayLike) -> float:
    """Return ||B E B - I||_F with B the inverse root of the reference: an error in units of each direction's spread.

    Examples
    --------
    >>> round(mahalanobis_error([[2.0, 0.0], [0.0, 3.0]], [[1.0, 0.0], [0.0, 3.0]]), 6)
    1.0
    """
    root = inverse_root(reference)
    whitened = root @ np.asarray(estimate, dtype=np.float64) @ root
    return float(np.linalg.norm(whitened - np.eye(len(root))))

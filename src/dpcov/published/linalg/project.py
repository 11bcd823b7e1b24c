"""Exact Euclidean projections on the sets a covariance matrix must lie in.

Contract: each function returns the unique nearest point in its set (up to rounding), in one sort or
one eigendecomposition: to project on a unitarily invariant set is to project the eigenvalues.
"""

import numpy as np
from numpy.typing import ArrayLike

from dpcov.published.linalg.symmetric import Array, compose, eigh


def simplex_projection(values: ArrayLike, radius: float) -> Array:
    """Project values, (k,), on {x ≥ 0, Σx = radius}, a radius that is not negative."""
    # The KKT conditions give x = max(values − θ, 0).  With the values in descending order, θ is the
    # average excess of the longest prefix whose members all stay positive.
    checked = np.asarray(values, dtype=np.float64)
    # A common shift changes nothing; with the largest value at 0 fewer digits cancel.
    shifted = checked - checked.max()
    descending = np.sort(shifted)[::-1]
    excess = (np.cumsum(descending) - radius) / np.arange(1, checked.size + 1)
    # The first value always counts, also when rounding hides that it exceeds its own excess.
    last_positive = max(int(np.count_nonzero(descending > excess)) - 1, 0)
    return np.asarray(np.maximum(shifted - excess[last_positive], 0.0))


def capped_simplex_projection(values: ArrayLike, radius: float) -> Array:
    """Project on {x ≥ 0, Σx ≤ radius}."""
    positive = np.maximum(values, 0.0)
    return positive if positive.sum() <= radius else simplex_projection(values, radius)


def project_psd(matrix: ArrayLike) -> Array:
    """Project the symmetric part of ``matrix`` on the positive semidefinite matrices."""
    return clip_eigenvalues(matrix, lower=0.0)


def project_psd_trace(matrix: ArrayLike, trace_bound: float) -> Array:
    """Project the symmetric part of ``matrix`` on {A positive semidefinite, tr A ≤ trace_bound}."""
    values, vectors = eigh(matrix)
    return compose(capped_simplex_projection(values, trace_bound), vectors)


def project_nuclear_ball(matrix: ArrayLike, radius: float) -> Array:
    """Project the symmetric part of ``matrix`` on {A symmetric, ‖A‖_* ≤ radius}."""
    # Signs stay: the ball is invariant under them.
    values, vectors = eigh(matrix)
    magnitudes = capped_simplex_projection(np.abs(values), radius)
    return compose(np.copysign(magnitudes, values), vectors)


def clip_eigenvalues(matrix: ArrayLike, lower: float = -np.inf, upper: float = np.inf) -> Array:
    """Project the symmetric part of ``matrix`` on {A : lower ≤ every eigenvalue ≤ upper}."""
    values, vectors = eigh(matrix)
    return compose(np.clip(values, lower, upper), vectors)

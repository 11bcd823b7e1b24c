"""Where noise sits after a mean is subtracted that is itself noisy.

Promise: post-processing of noisy numbers, deterministic.  Knows nothing of rows or privacy.

Notes
-----
Let M = S + W be a noisy second moment with isotropic noise of off-diagonal variance v, whose first coordinate is an
intercept of known second moment a, and m̂ = M₀/a the noisy mean.  With e = m̂/‖m̂‖, the centered matrix
M₁₁ − a m̂m̂ᵀ has on the complement of e the noise of M alone: the mean has no part there, so nothing is subtracted.
Only the row and column along e carry the mean's noise as well, of variance v(1 + ‖m‖²), m in units of the
intercept.  So

* the block on the complement is a compression of M, with isotropic noise of one dimension less and a known trace, and
  is estimated like any other released matrix;
* the cross vector x is shrunk like a normal vector whose coordinates along the block's eigenvectors have prior
  variances proportional to the eigenvalues, the factor chosen by marginal likelihood: |x_k|² can be no larger than
  eigenvalue times variance along e, so small eigenvalues go with small coordinates;
* the variance along e is one number s with known noise variance u, shrunk by 1 − 4u/s²: to zero below two deviations.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpcov.linalg.project import project_psd
from dpcov.linalg.symmetric import eigh

Array = NDArray[np.float64]

_FACTORS = np.geomspace(1e-4, 1e4, 81)


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyMean:
    """A noisy mean and the split of space that it makes.

    Parameters
    ----------
    mean : (d,) float64
        Noisy mean, in units of the intercept.
    variance : float
        Noise variance of each of its coordinates.
    """

    mean: Array
    variance: float

    @cached_property
    def direction(self) -> Array:
        """Unit vector along the mean, shape (d,)."""
        length = float(np.linalg.norm(self.mean))
        return self.mean / length if length > 0 else np.eye(len(self.mean))[0]

    @cached_property
    def along(self) -> Array:
        """The direction as a vector of shape (d + 1,) beside the intercept."""
        return np.concatenate([[0.0], self.direction])

    @cached_property
    def complement(self) -> Array:
        """Orthonormal basis of what is orthogonal to intercept and mean, shape (d + 1, d - 1).

        Columns of the Householder reflection that maps the first coordinate to the direction.
        """
        direction = self.direction.copy()
        direction[0] += 1.0 if direction[0] >= 0 else -1.0
        reflection = np.eye(len(direction)) - 2.0 / (direction @ direction) * np.outer(direction, direction)
        return np.vstack([np.zeros(len(direction) - 1), reflection[:, 1:]])

    @property
    def squared_length(self) -> float:
        """Unbiased estimate of the true mean's squared length, not below zero."""
        return max(0.0, float(self.mean @ self.mean) - len(self.mean) * self.variance)

    def compress(self, matrix: Array) -> Array:
        """The matrix on the complement, shape (d - 1, d - 1)."""
        return np.asarray(self.complement.T @ matrix @ self.complement)

    def trace_outside(self, matrix: Array) -> float:
        """Trace that the intercept and the mean's direction have."""
        return float(matrix[0, 0] + self.along @ matrix @ self.along)


def assemble_covariance(noisy: Array, block: Array, mean: NoisyMean, variance: float, unit: float) -> Array:
    """Put a covariance together from its block on the complement of the mean and the noisy rest.

    Parameters
    ----------
    noisy : (d + 1, d + 1) float64
        Second moment with the intercept first.
    block : (d - 1, d - 1) float64
        Positive semidefinite estimate on the complement, in the same units.
    mean : NoisyMean
    variance : float
        Noise variance of an off-diagonal entry of ``noisy``.
    unit : float
        Second moment of the intercept.

    Returns
    -------
    (d, d) float64
        Positive semidefinite, in units of the intercept.
    """
    scaled, noise = noisy / unit, variance / unit**2
    cross_variance = noise * (1.0 + mean.squared_length) + mean.variance**2
    cross = _shrunk_cross(mean.complement.T @ scaled @ mean.along, block / unit, cross_variance)
    length = float(mean.along @ scaled @ mean.along - mean.mean @ mean.mean) + mean.variance
    own_variance = noise * (2.0 + 4.0 * mean.squared_length) + 2.0 * mean.variance**2
    own = max(0.0, length - 4.0 * own_variance / length) if length > 0.0 else 0.0
    basis, direction = mean.complement[1:], mean.direction
    mixed = np.outer(basis @ cross, direction)
    whole = basis @ (block / unit) @ basis.T + mixed + mixed.T + own * np.outer(direction, direction)
    return project_psd(whole)


def _shrunk_cross(cross: Array, block: Array, variance: float) -> Array:
    """Posterior mean of the cross vector under the prior of the module's notes."""
    if variance <= 0.0 or not len(cross):
        return cross
    values, vectors = eigh(block)
    values = np.maximum(values, 0.0)
    largest = float(values.max())
    if largest <= 0.0:
        return np.zeros_like(cross)
    seen = vectors.T @ cross
    spreads = np.concatenate([[0.0], _FACTORS])[:, None] * (variance / largest) * values + variance
    likelihood = -0.5 * np.sum(np.log(spreads) + seen**2 / spreads, axis=1)
    best = spreads[int(np.argmax(likelihood))]
    return np.asarray(vectors @ (seen * (1.0 - variance / best)))

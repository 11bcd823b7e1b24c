"""A covariance from a noisy second moment, where the mean that is subtracted is itself noisy.

Contract: deterministic post-processing of noisy numbers.

Notes
-----
Let N = M + W be a noisy second moment, M = (1, m)(1, m)ᵀ + (0 ⊕ C) in units of the intercept's
known second moment, W isotropic with off-diagonal variance v.  The noisy mean m̂ = N₀ has noise
variance v a coordinate; subtracting m̂m̂ᵀ adds noise of variance v‖m‖² in the row and column along
the mean, and none elsewhere.  So space is split by one direction e.

*Mean well known* (dv < 1): e = m̂/‖m̂‖.  With the empirical prior of James and Stein the mean is
N(κm̂, κvI) given m̂, κ = 1 − dv/‖m̂‖², so that κ²m̂m̂ᵀ + κvI is subtracted; on the complement of e
that is κvI.

*Mean drowned*: what the noise of m̂ leaves on the complement would be one direction of size dv,
above the noise's own edge 2√(dv): it would pass for signal.  The features' part of the top
eigenvector of N lies nearer to the mean, by the factor 1 + ‖m‖² in variance, if it stands out
itself.  Then e is that; what m̂ has on its complement is shrunk and subtracted.

* The block on the complement is a compression of N: isotropic noise of one dimension less, a known
  trace.  It is estimated like any released matrix.
* The cross vector is shrunk like a normal vector whose coordinates along the block's eigenvectors
  have prior variances proportional to the eigenvalues, the factor chosen by marginal likelihood:
  |x_k|² is at most eigenvalue times variance along e.
* The variance along e is one number s with known noise variance u, shrunk by 1 − 4u/s²: to zero
  below two deviations.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpcov.errors import NumericError
from dpcov.published.linalg.project import project_psd
from dpcov.published.linalg.symmetric import Array, eigh

# How many times the noise's edge the top eigenvalue must reach to tell the mean's direction.
CLEAR_OF_EDGE = 1.5

# Ratios of prior to noise variance that marginal likelihood chooses from.
_FACTORS = np.geomspace(1e-4, 1e4, 81)


@dataclass(frozen=True, kw_only=True, eq=False)
class Centering:
    """A noisy second moment with the intercept first, and the split of space that its mean makes.

    Parameters
    ----------
    noisy : (d + 1, d + 1) float64
        In any units.
    variance : float
        Noise variance of its off-diagonal entries.
    unit : float
        Second moment of the intercept, in the same units.
    """

    noisy: Array
    variance: float
    unit: float

    def __post_init__(self) -> None:
        with np.errstate(all="ignore"):
            entries = [*(self.noisy / np.float64(self.unit)).flat, self.mean_variance]
        if not (self.unit > 0 and np.isfinite(entries).all()):
            raise NumericError(
                "The intercept is too small beside the other entries to be divided by."
            )

    @cached_property
    def mean(self) -> Array:
        """Noisy mean in units of the intercept, shape (d,)."""
        return self.noisy[0, 1:] / self.unit

    @property
    def mean_variance(self) -> float:
        """Noise variance of each coordinate of the mean, in units of the intercept."""
        return float(np.float64(self.variance) / self.unit / self.unit)

    @cached_property
    def _top(self) -> Array | None:
        """The features' part of the top eigenvector, where only the mean is drowned."""
        noise = len(self.mean) * self.mean_variance
        if noise < 1.0:
            return None
        system = eigh(self.noisy / self.unit)
        top = system.vectors[1:, -1]
        stands_out = system.values[-1] > CLEAR_OF_EDGE * 2.0 * np.sqrt(noise)
        return top if stands_out and np.any(top) else None

    @cached_property
    def direction(self) -> Array:
        """Unit vector along which the mean lies nearly, shape (d,)."""
        chosen = self.mean if self._top is None else self._top
        length = float(np.linalg.norm(chosen))
        return chosen / length if length > 0 else np.eye(len(chosen))[0]

    @cached_property
    def _mean_share(self) -> float:
        return _james_stein(self.mean, len(self.mean) * self.mean_variance)

    @property
    def _level(self) -> float:
        """The mean's coordinate along the direction, as far as it is known."""
        return float(self.mean @ self.direction) * (self._mean_share if self._top is None else 1.0)

    @cached_property
    def along(self) -> Array:
        """The direction as a vector of shape (d + 1,), 0 at the intercept."""
        return np.concatenate([[0.0], self.direction])

    @cached_property
    def complement(self) -> Array:
        """Orthonormal basis of what is orthogonal to intercept and direction, (d + 1, d - 1)."""
        # Columns of the Householder reflection that maps the first coordinate to the direction.
        pivot = self.direction.copy()
        pivot[0] += 1.0 if pivot[0] >= 0 else -1.0
        reflection = np.eye(len(pivot)) - 2.0 / (pivot @ pivot) * np.outer(pivot, pivot)
        return np.vstack([np.zeros(len(pivot) - 1), reflection[:, 1:]])

    @cached_property
    def _left(self) -> Array:
        """What is left of the mean on the complement, shape (d - 1,)."""
        return np.asarray(self.complement[1:].T @ self.mean)

    @cached_property
    def _share_outside(self) -> float:
        return _james_stein(self._left, max(len(self._left) - 2, 0) * self.mean_variance)

    @property
    def mean_outside(self) -> Array:
        """The mean on the complement, shrunk; shape (d - 1,)."""
        return self._share_outside * self._left

    @property
    def leak(self) -> Array:
        """Second moment that the mean leaves on the complement, (d - 1, d - 1)."""
        if self._top is None:
            return self.unit * self._mean_share * self.mean_variance * np.eye(len(self.mean) - 1)
        return self.unit * np.outer(self.mean_outside, self.mean_outside)

    def compress(self, matrix: Array) -> Array:
        """The matrix on the complement, shape (d - 1, d - 1)."""
        return np.asarray(self.complement.T @ matrix @ self.complement)

    def trace_outside(self, matrix: Array) -> float:
        """Trace that the intercept and the direction have."""
        return float(matrix[0, 0] + self.along @ matrix @ self.along)

    def assemble(self, block: Array) -> Array:
        """Put the covariance, (d, d), together from its block on the complement, (d - 1, d - 1).

        The block is in the units of ``noisy``, the result in those of the intercept; both are
        positive semidefinite.
        """
        block, basis = block / self.unit, self.complement[1:]
        mixed = np.outer(basis @ self._cross(block), self.direction)
        own = self._own() * np.outer(self.direction, self.direction)
        return project_psd(basis @ block @ basis.T + mixed + mixed.T + own)

    def _cross(self, block: Array) -> Array:
        """Covariance between the complement and the direction, shape (d - 1,)."""
        level, share = self._level, 1.0 if self._top is None else self._share_outside
        cross = self.complement.T @ self.noisy @ self.along / self.unit - self.mean_outside * level
        variance = self.mean_variance * (1.0 + self.mean_variance + share * level**2)
        return _shrunk_cross(cross, block, variance)

    def _own(self) -> float:
        """Variance along the direction."""
        level, noise = self._level, self.mean_variance
        bias = -noise if self._top is not None else self._mean_share * noise
        own = float(self.along @ self.noisy @ self.along) / self.unit - level**2 - bias
        own_variance = noise * (2.0 + 4.0 * level**2) + 2.0 * noise**2
        return max(0.0, own - 4.0 * own_variance / own) if own > 0.0 else 0.0


def _james_stein(vector: Array, noise: float) -> float:
    """Positive-part factor for a vector whose noise has this mean squared length."""
    square = float(vector @ vector)
    return max(0.0, 1.0 - noise / square) if square > 0 else 0.0


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

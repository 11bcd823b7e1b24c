"""A covariance from a noisy second moment, where the mean that is subtracted is itself noisy.

Contract: deterministic post-processing.  Derived in docs/shrinkage.md: space is split by one
direction, along which the mean lies; the complement is estimated like any released matrix.
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
    """The split of space that the mean of a noisy second moment makes.

    ``noisy`` is (d + 1, d + 1), the intercept first, in any units; ``variance`` the noise variance
    of its off-diagonal entries; ``unit`` the second moment of the intercept in the same units.
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
        # What the noise of a drowned mean leaves on its complement would pass for signal.
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
        # The mean's coordinate along the direction, as far as it is known.
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
        # Shrunk by 1 − 4u/s²: to zero below two deviations.
        own_variance = noise * (2.0 + 4.0 * level**2) + 2.0 * noise**2
        return max(0.0, own - 4.0 * own_variance / own) if own > 0.0 else 0.0


def _james_stein(vector: Array, noise: float) -> float:
    """Positive-part factor for a vector whose noise has this mean squared length."""
    square = float(vector @ vector)
    return max(0.0, 1.0 - noise / square) if square > 0 else 0.0


def _shrunk_cross(cross: Array, block: Array, variance: float) -> Array:
    # Coordinates along the block's eigenvectors have prior variances proportional to its values, by
    # marginal likelihood: |x_k|² is at most eigenvalue times variance along the direction.
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

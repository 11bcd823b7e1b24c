"""A covariance from a noisy second moment, where the mean that is subtracted is itself noisy.

Contract: deterministic post-processing.  Derived in docs/shrinkage.md: space is split by one
direction, along which the mean lies; the complement is estimated like any released matrix.
"""

import numpy as np

from dpcov.errors import NumericError
from dpcov.published.linalg.project import project_psd
from dpcov.published.linalg.symmetric import Array, eigh

# How many times the noise's edge the top eigenvalue must reach to tell the mean's direction.
CLEAR_OF_EDGE = 1.5
# Ratios of prior to noise variance that marginal likelihood chooses from.
_FACTORS = np.geomspace(1e-4, 1e4, 81)


class Centering:
    """The split of space that the mean of a noisy second moment makes.

    ``noisy`` is (d + 1, d + 1), the intercept first; ``variance`` that of noise off its diagonal;
    ``unit`` the intercept's second moment.  ``direction``, (d,), is the unit vector along which the
    mean nearly lies, ``along`` the same with 0 at the intercept; ``complement``, (d + 1, d - 1), a
    basis of the rest; ``leak`` the second moment that the mean leaves there.  ``is_drowned``: the
    mean's direction alone can be told from the noise.
    """

    def __init__(self, *, noisy: Array, variance: float, unit: float) -> None:
        with np.errstate(all="ignore"):
            scaled, v = noisy / np.float64(unit), float(np.float64(variance) / unit / unit)
        if not (unit > 0 and np.isfinite([*scaled.flat, v]).all()):
            raise NumericError("The intercept is too small to divide the other entries by.")
        self.noisy, self.unit, self.mean, self.mean_variance = noisy, unit, scaled[0, 1:], v
        d = len(self.mean)
        top = _top_direction(scaled, d * v)
        self.is_drowned = top is not None
        chosen = self.mean if top is None else top
        length = float(np.linalg.norm(chosen))
        self.direction: Array = chosen / length if length > 0 else np.eye(d)[0]
        self.along: Array = np.concatenate([[0.0], self.direction])
        self.complement = _complement(self.direction)
        self._mean_share = _james_stein(self.mean, d * v)
        left = self.complement[1:].T @ self.mean
        self._share_outside = _james_stein(left, max(d - 3, 0) * v)
        self._outside: Array = self._share_outside * left
        # The mean's coordinate along the direction, as far as it is known.
        self._level = float(self.mean @ self.direction) * (self._mean_share if top is None else 1.0)
        own, outside = self._mean_share * v * np.eye(d - 1), np.outer(self._outside, self._outside)
        self.leak: Array = unit * (outside if self.is_drowned else own)

    @property
    def likely(self) -> Array:
        """A drowned mean, (d,), as far as it is known."""
        return np.asarray(self._level * self.direction + self.complement[1:] @ self._outside)

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
        # Covariance between the complement and the direction, shape (d - 1,).
        level, share = self._level, self._share_outside if self.is_drowned else 1.0
        cross = self.complement.T @ self.noisy @ self.along / self.unit - self._outside * level
        variance = self.mean_variance * (1.0 + self.mean_variance + share * level**2)
        mixed = np.outer(basis @ _shrunk_cross(cross, block, variance), self.direction)
        own = self._own() * np.outer(self.direction, self.direction)
        return project_psd(basis @ block @ basis.T + mixed + mixed.T + own)

    def _own(self) -> float:
        # Variance along the direction.
        level, noise = self._level, self.mean_variance
        bias = -noise if self.is_drowned else self._mean_share * noise
        own = float(self.along @ self.noisy @ self.along) / self.unit - level**2 - bias
        # Shrunk by 1 − 4u/s²: to zero below two deviations.
        own_variance = noise * (2.0 + 4.0 * level**2) + 2.0 * noise**2
        return max(0.0, own - 4.0 * own_variance / own) if own > 0.0 else 0.0


def _top_direction(scaled: Array, noise: float) -> Array | None:
    # The features' part of the top eigenvector, where only the mean is drowned.
    # What the noise of a drowned mean leaves on its complement would pass for signal.
    if noise < 1.0:
        return None
    values, vectors = eigh(scaled)
    stands_out = values[-1] > CLEAR_OF_EDGE * 2.0 * np.sqrt(noise)
    return vectors[1:, -1] if stands_out and np.any(vectors[1:, -1]) else None


def _complement(direction: Array) -> Array:
    # Columns of the Householder reflection that maps the nearest coordinate to the direction, which
    # no order of columns changes.
    nearest, pivot = int(np.argmax(np.abs(direction))), direction.copy()
    pivot[nearest] += 1.0 if pivot[nearest] >= 0 else -1.0
    reflection = np.eye(len(pivot)) - 2.0 / (pivot @ pivot) * np.outer(pivot, pivot)
    return np.vstack([np.zeros(len(pivot) - 1), np.delete(reflection, nearest, axis=1)])


def _james_stein(vector: Array, noise: float) -> float:
    # Positive-part factor; the noise has this mean squared length.
    square = float(vector @ vector)
    return max(0.0, 1.0 - noise / square) if square > 0 else 0.0


def _shrunk_cross(cross: Array, block: Array, variance: float) -> Array:
    # Coordinates along the block's eigenvectors have prior variances proportional to its values, by
    # marginal likelihood: |x_k|² is at most eigenvalue times variance along the direction.
    if variance <= 0.0 or not len(cross):
        return cross
    values, vectors = eigh(block)
    values, largest = np.maximum(values, 0.0), float(values.max())
    if largest <= 0.0:
        return np.zeros_like(cross)
    seen = vectors.T @ cross
    spreads = np.concatenate([[0.0], _FACTORS])[:, None] * (variance / largest) * values + variance
    likelihood = -0.5 * np.sum(np.log(spreads) + seen**2 / spreads, axis=1)
    best = spreads[int(np.argmax(likelihood))]
    return np.asarray(vectors @ (seen * (1.0 - variance / best)))

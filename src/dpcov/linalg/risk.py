"""Stein's unbiased risk estimate of a spectral estimator, from the noisy eigenvalues alone.

Promise: under S + W with W Gaussian, independent off-diagonal entries of variance v and diagonal entries of variance
2v, the mean of :func:`stein_risk` over W is the mean of ‖estimate − S‖²_F for every spectral estimator that is
continuous and piecewise smooth.  Knows nothing of the true spectrum, rows or privacy.

Notes
-----
In the coordinates of :func:`~dpcov.linalg.symmetric.svec` the noise is 2v·N(0, I), apart from the direction I/√d,
where a private trace may have lowered its variance to w.  With C that covariance, Stein's identity gives the risk

    ‖f − λ‖² − tr C + 2 tr(C·Df),        tr C = v d (d + 1) − (2v − w),

and for f acting on eigenvalues (Candès, Sing-Long, Trzasko 2013, here for symmetric matrices)

    div f = Σ_i ∂f_i/∂λ_i + Σ_{i<j} (f_i − f_j)/(λ_i − λ_j),

    Σ_{i<j} (f_i − f_j)/(λ_i − λ_j) = Σ_i f_i·m_i,   m_i = Σ_{j≠i} 1/(λ_i − λ_j).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dpcov.linalg.symmetric import Array

SpectralEstimator = Callable[[Array], Array]
"""Maps ascending noisy eigenvalues to estimated eigenvalues, each belonging to the same eigenvector."""

EXACT_TRACE_DIMENSION = 24
"""Up to here Σ_i ∂f_i/∂λ_i takes one probe per axis; beyond, its error is small against the d² pair terms."""

PROBES = 8

DIFFERENCE_STEP = 1e-5
"""Step of the central differences, in units of √v."""

SMALLEST_GAP = 1e-9
"""Distance kept between neighboring eigenvalues, in units of √v."""

BLOCK_ROWS = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisySpectrum:
    """Ascending eigenvalues of S + W, shape (d,), with the law of W.

    ``off_diagonal_variance`` is v (diagonal entries have 2v); ``mean_variance`` is w, the variance of W along I/√d:
    2v as drawn, less if a private trace was combined.  Where W is not Gaussian, ``excess`` is what the oracle takes off
    each eigenvalue beyond what it would for Gaussian noise, shape (d,).
    """

    values: Array
    off_diagonal_variance: float
    mean_variance: float
    excess: Array | None = None

    @property
    def dimension(self) -> int:
        """Number of eigenvalues d."""
        return int(self.values.size)

    @property
    def total_variance(self) -> float:
        """E‖W‖²_F, the risk of the noisy matrix itself."""
        v, d = self.off_diagonal_variance, self.dimension
        return v * d * (d + 1) - (2.0 * v - self.mean_variance)

    @property
    def largest_variance(self) -> float:
        """Variance of W along its noisiest unit direction: with d = 1 there is none but I/√d."""
        return self.mean_variance if self.dimension == 1 else 2.0 * self.off_diagonal_variance


def pair_sums(values: Array) -> Array:
    """Return m_i = Σ_{j≠i} 1/(λ_i − λ_j) over the values that differ from λ_i, in memory of order d."""
    sums = np.empty_like(values)
    for start in range(0, values.size, BLOCK_ROWS):
        block = values[start : start + BLOCK_ROWS]
        gaps = block[:, np.newaxis] - values
        gaps[gaps == 0.0] = np.inf
        sums[start : start + block.size] = (1.0 / gaps).sum(axis=1)
    return sums


def separate(values: Array, off_diagonal_variance: float) -> Array:
    """Return the ascending values moved apart by a gap far below the noise, so that no pair is tied."""
    resolution = 4.0 * np.finfo(np.float64).eps * float(np.abs(values).max())
    gap = max(SMALLEST_GAP * np.sqrt(off_diagonal_variance), resolution)
    ranks = np.arange(values.size) - (values.size - 1) / 2.0
    return np.asarray(values + gap * ranks)


def stein_risk(estimator: SpectralEstimator, spectrum: NoisySpectrum) -> float:
    """Estimate E‖estimate − S‖²_F without bias; single values can be negative when the true risk is small.

    Parameters
    ----------
    estimator : callable
        Spectral estimator f, evaluated at shifted copies of the eigenvalues to differentiate it.
    spectrum : NoisySpectrum
        What it is applied to.
    """
    v, w = spectrum.off_diagonal_variance, spectrum.mean_variance
    values = separate(spectrum.values, v)
    step = DIFFERENCE_STEP * math.sqrt(v)

    def slope(direction: Array) -> float:
        change = estimator(values + step * direction) - estimator(values - step * direction)
        return float(direction @ change) / (2.0 * step)

    estimate = estimator(values)
    divergence = _mean_slope(slope, values.size) + float(estimate @ pair_sums(values))
    along_identity = slope(np.ones(values.size)) / values.size
    residual = float(np.sum((estimate - values) ** 2))
    correction = 4.0 * v * divergence - 2.0 * (2.0 * v - w) * along_identity
    if spectrum.excess is not None:
        correction += 2.0 * float(estimate @ spectrum.excess)
    return float(residual - spectrum.total_variance + correction)


def _mean_slope(slope: Callable[[Array], float], dimension: int) -> float:
    """Return Σ_i ∂f_i/∂λ_i: exactly in small dimension, else by Hutchinson's estimate with fixed signs."""
    if dimension <= EXACT_TRACE_DIMENSION:
        return sum(slope(axis) for axis in np.eye(dimension))
    return sum(slope(signs) for signs in _sign_probes(dimension)) / PROBES


def _sign_probes(dimension: int) -> Iterator[Array]:
    # The constant seed is deliberate: the signs are public and results must repeat.
    generator = np.random.Generator(np.random.PCG64(0))
    for _ in range(PROBES):
        yield np.where(generator.integers(0, 2, size=dimension) == 0, -1.0, 1.0)

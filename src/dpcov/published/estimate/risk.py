"""Stein's unbiased risk estimate of a spectral estimator, from the noisy eigenvalues alone.

Contract: under S + W with W Gaussian, independent off-diagonal entries of variance v and diagonal
entries of variance 2v, the mean of :func:`stein_risk` over W is the mean of ‖estimate − S‖²_F for
every spectral estimator f that is continuous and piecewise smooth (docs/shrinkage.md):

    ‖f − λ‖² − tr C + 2 tr(C·Df),   tr C = v d (d + 1) − (2v − w),
    div f = Σ_i ∂f_i/∂λ_i + Σ_i f_i·m_i,   m_i = Σ_{j≠i} 1/(λ_i − λ_j),

C being the noise's covariance: a private trace may have lowered its variance along I/√d to w.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dpcov.published.linalg.symmetric import Array

# Distance kept between neighboring eigenvalues, in units of √v.
SMALLEST_GAP = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisySpectrum:
    """Ascending eigenvalues of S + W, shape (d,), with the law of W.

    ``off_diagonal_variance`` is v; ``mean_variance`` is w: 2v as drawn, less if a private trace was
    combined.  ``excess``, (d,), is what the oracle takes off beyond what it would if W is Gaussian.
    """

    values: Array
    off_diagonal_variance: float
    mean_variance: float
    excess: Array | None = None

    @property
    def dimension(self) -> int:
        """Number of eigenvalues d."""
        return int(self.values.size)

    @cached_property
    def separated(self) -> Array:
        """The eigenvalues λ that estimators are given, no two of them tied."""
        # Moved apart by a gap far below the noise.
        d, resolution = self.dimension, 4.0 * np.finfo(np.float64).eps
        resolution *= float(np.abs(self.values).max())
        gap = max(SMALLEST_GAP * np.sqrt(self.off_diagonal_variance), resolution)
        return np.asarray(self.values + gap * (np.arange(d) - (d - 1) / 2.0))

    @property
    def target(self) -> Array:
        """What estimates are near where nothing is shrunk, shape (d,)."""
        return self.separated if self.excess is None else self.separated - self.excess

    @cached_property
    def pair_sums(self) -> Array:
        """m_i of the separated eigenvalues, shape (d,)."""
        return pair_sums(self.separated)


class SpectralEstimate(NamedTuple):
    """Estimated eigenvalues f(λ), shape (d,), and how they move with λ.

    ``own_slopes`` is Σ_i ∂f_i/∂λ_i; ``shift_slope`` is (Σ_ij ∂f_i/∂λ_j)/d.
    """

    values: Array
    own_slopes: float
    shift_slope: float


def pair_sums(values: Array) -> Array:
    """m_i = Σ_{j≠i} 1/(λ_i − λ_j) over the values that differ from λ_i."""
    return np.asarray((1.0 / _gaps(values)).sum(axis=1))


def squared_chord_slopes(heights: Array, values: Array) -> float:
    """Σ_{i<j} Σ_k ((h_ik − h_jk)/(λ_i − λ_j))² for heights (d, k)."""
    gaps = _gaps(values)
    chords = ((column[:, np.newaxis] - column) / gaps for column in heights.T)
    # Every pair occurs twice.
    return sum(float(np.vdot(slopes, slopes)) for slopes in chords) / 2


def _gaps(values: Array) -> Array:
    # λ_i − λ_j, (d, d), infinite where the two are equal.
    gaps = values[:, np.newaxis] - values
    gaps[gaps == 0.0] = np.inf
    return gaps


def risk_weights(risks: Array, temperature: float) -> Array:
    """Shares of estimates in their average, (k,), by their risks: exp(−risk / temperature).

    At 4 times the noise's variance along a unit direction the averaged risk of linear projections
    is an unbiased estimate of the average's risk, and within that times log k of the best (Leung,
    Barron 2006).
    """
    odds = np.exp((risks.min() - risks) / temperature)
    return np.asarray(odds / odds.sum())


def stein_risk(estimate: SpectralEstimate, spectrum: NoisySpectrum) -> float:
    """Estimate E‖estimate − S‖²_F without bias; it can be negative when the true risk is small."""
    v, w, d = spectrum.off_diagonal_variance, spectrum.mean_variance, spectrum.dimension
    total_variance = v * d * (d + 1) - (2.0 * v - w)
    divergence = estimate.own_slopes + float(estimate.values @ spectrum.pair_sums)
    residual = float(np.sum((estimate.values - spectrum.separated) ** 2))
    correction = 4.0 * v * divergence - 2.0 * (2.0 * v - w) * estimate.shift_slope
    if spectrum.excess is not None:
        correction += 2.0 * float(estimate.values @ spectrum.excess)
    return float(residual - total_variance + correction)

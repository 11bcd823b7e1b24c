"""The noise on means, standard deviations, correlations and eigenvalues: its law and its size.

Contract: public numbers only, in closed form: first order in the noise, with the estimates in place
of the truth (derived in docs/report.md).  Everything is in encoded units, relative to an intercept
of 1, before post-processing.
"""

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from scipy.optimize import minimize_scalar

from dpcov.published.estimate.post import find_post
from dpcov.published.estimate.unit import Part, UnitEstimate
from dpcov.published.linalg.symmetric import Array
from dpcov.published.manifest import Manifest
from dpcov.published.statistics import Post

# Standard deviations of the noise from which a variance or an eigenvalue counts as signal.
DEVIATIONS = 2.0

# Standard deviations of its trace from which a stratum is taken to hold rows.
CLEAR_TRACE = 3.0

# Error of means and correlations, in deviations, for a lost part of all squared lengths: on tables
# of all kinds it was 0.05 to 0.2 (docs/geometry.md).
BIAS = 0.15

# Edge of nuclear-norm noise (Ullman's law), relative to Gaussian noise of the same variance.
NUCLEAR_EDGE = sqrt(1.5)


@dataclass(frozen=True, kw_only=True)
class MomentNoise:
    """Law of the noise on a second moment in encoded units, and the intercept's place in it."""

    # Variances of entries, and the covariance of any two diagonal ones; others are uncorrelated.
    diagonal: float
    off_diagonal: float
    between_diagonals: float = 0.0
    # What means and covariances are divided by: 1 where it is public or absent.
    intercept: float = 1.0
    intercept_is_noisy: bool = False
    # Of a noisy number of rows by which all entries were divided, relative to its square.
    count_variance: float = 0.0
    # Mean square of what scaling long rows down did to an entry, no noise: for means, correlations.
    bias: float = 0.0
    is_normal: bool = True
    # Edge of the eigenvalues relative to Gaussian noise of the same variance.
    edge_factor: float = 1.0

    def of_diagonals(self, *coefficients: Array) -> Array:
        """Variance of a sum of diagonal entries, each times its coefficient."""
        own, between = self.diagonal - self.between_diagonals, self.between_diagonals
        return np.asarray(own * sum(c**2 for c in coefficients) + between * sum(coefficients) ** 2)


def read_with(unit: UnitEstimate, post: Post) -> UnitEstimate:
    """The part of a second moment whose noise counts where it is read with ``post``."""
    return inhabited(unit) if find_post(post).drops_empty else unit


def moment_noise(unit: UnitEstimate, manifest: Manifest) -> MomentNoise | None:
    """Law of the noise on a second moment; None where the mechanism publishes none."""
    if unit.noise_variance is None or unit.off_diagonal_variance is None:
        return None
    scale = manifest.norm_bound**2
    is_noisy = manifest.columns[0].kind == "intercept" and not manifest.intercept_is_public
    return MomentNoise(
        diagonal=unit.noise_variance * scale**2,
        off_diagonal=unit.off_diagonal_variance * scale**2,
        between_diagonals=unit.diagonal_covariance * scale**2,
        intercept=float(unit.matrix[0, 0]) * scale if is_noisy else 1.0,
        intercept_is_noisy=is_noisy,
        count_variance=0.0 if is_noisy else unit.count_variance,
        bias=(BIAS * manifest.statistics.lost * _mean_square(unit, manifest)) ** 2,
        is_normal=unit.noise_is_normal,
        edge_factor=NUCLEAR_EDGE if unit.noise_is_nuclear else 1.0,
    )


def _mean_square(unit: UnitEstimate, manifest: Manifest) -> float:
    # Of an encoded feature, on average over all.
    features = np.diagonal(unit.matrix)[int(manifest.columns[0].kind == "intercept") :]
    return max(0.0, float(features.mean()) if len(features) else 0.0) * manifest.norm_bound**2


def seems_inhabited(part: Part) -> bool:
    """Whether a stratum's trace says that there are rows in it."""
    return part.trace is None or part.trace > CLEAR_TRACE * sqrt(part.trace_variance or 0.0)


def inhabited(unit: UnitEstimate) -> UnitEstimate:
    """The same without strata whose trace is noise, which shrinkage estimates as zero."""
    parts = tuple(filter(seems_inhabited, unit.parts))
    if not unit.parts_may_be_empty or not parts or not unit.noise_variance:
        return unit
    diagonal = sum(part.diagonal_variance for part in parts)
    share = diagonal / unit.noise_variance
    return replace(
        unit,
        parts=parts,
        matrix=np.sum([part.matrix for part in parts], axis=0),
        noise_variance=diagonal,
        off_diagonal_variance=(unit.off_diagonal_variance or 0.0) * share,
        diagonal_covariance=unit.diagonal_covariance * share,
    )


def hidden_variance(noise: MomentNoise | None) -> float:
    """The largest variance of an encoded column that the noise may hide; 0 where it is unknown."""
    return 0.0 if noise is None else DEVIATIONS * sqrt(noise.diagonal) / noise.intercept


def mean_noise(means: Array, noise: MomentNoise) -> Array:
    """Standard deviation of the noise on means, shape (d,)."""
    # A noisy intercept moves every mean in proportion to it.
    relative = noise.diagonal * noise.intercept_is_noisy + noise.count_variance
    variance = noise.off_diagonal + noise.bias + means**2 * relative
    return np.asarray(np.sqrt(variance) / noise.intercept)


def deviation_noise(means: Array, variances: Array, noise: MomentNoise) -> Array:
    """Standard deviation of the noise on standard deviations; NaN at no positive variance."""
    through_intercept = means**2 - variances
    through_diagonals = noise.of_diagonals(
        np.ones_like(means), through_intercept * noise.intercept_is_noisy
    )
    through_count = through_intercept**2 * noise.count_variance
    through_means = 4 * means**2 * (noise.off_diagonal + noise.bias)
    variance = through_means + through_diagonals + through_count
    usable = np.where(variances > 0, variances, np.nan)
    return np.asarray(np.sqrt(variance) / noise.intercept / (2 * np.sqrt(usable)))


def correlation_noise(means: Array, covariance: Array, noise: MomentNoise) -> Array:
    """Standard deviation of the noise on correlations, (d, d); 0 on the diagonal, NaN undefined."""
    # By entry: c dC_ij = dM_ij - m_j dM_0i - m_i dM_0j - (C_ij - m_i m_j) dc.
    variances = np.diagonal(covariance)
    precision = 1 / np.where(variances > 0, variances, np.nan)
    scale = np.sqrt(np.outer(precision, precision))
    r = covariance * scale
    through_mean = r * (means * precision)[:, None] - scale * means[None, :]
    squares = scale**2 + through_mean**2 + through_mean.T**2
    own, shares = -r / 2 * precision[:, None], means**2 * precision
    through_intercept = scale * np.outer(means, means) - r / 2 * (shares[:, None] + shares[None, :])
    through_diagonals = noise.of_diagonals(own, own.T, through_intercept * noise.intercept_is_noisy)
    through_count = through_intercept**2 * noise.count_variance
    variance = squares * (noise.off_diagonal + noise.bias) + through_diagonals + through_count
    deviation: Array = np.sqrt(variance) / noise.intercept
    np.fill_diagonal(deviation, np.where(variances > 0, 0.0, np.nan))
    return deviation


def bulk_edge(noise: MomentNoise, scales: Array) -> float:
    """Where eigenvalues of noise alone end, but for the one that a large mean adds.

    ``scales``, (p,), is what the encoded columns are multiplied by.
    """
    return largest_noise_eigenvalue(noise, scales, np.zeros(len(scales)))


def largest_noise_eigenvalue(noise: MomentNoise, scales: Array, shifts: Array) -> float:
    """Largest eigenvalue that noise alone would have; columns are shifted by ``shifts``, (p,)."""
    squares, largest = scales**2, float(np.max(scales**2, initial=0.0))
    if noise.off_diagonal == 0.0 or largest == 0.0:
        return 0.0

    # The least value over r > max s_j² of r √(v Σ s_j²/(r - s_j²)), or that at the means' own t.
    def ends_at(r: float) -> float:
        return float(r * np.sqrt(noise.off_diagonal * np.sum(squares / (r - squares))))

    gap = minimize_scalar(
        lambda log_gap: ends_at(largest * (1 + np.exp(log_gap))),
        bounds=(-12.0, np.log(len(squares)) + 3.0),
        method="bounded",
    ).x
    ends = ends_at(max(largest * (1 + np.exp(gap)), _largest_square(scales, shifts)))
    return noise.edge_factor / noise.intercept * ends


def clear_of_noise(noise: MomentNoise, scales: Array, shifts: Array) -> float:
    """Variance from which a component stands out: the largest eigenvalue and two deviations."""
    # Wide noise on the largest eigenvalue is rarer than a normal number's (isoperimetry).
    std = np.sqrt(noise.diagonal) * _largest_square(scales, shifts) / noise.intercept
    return largest_noise_eigenvalue(noise, scales, shifts) + DEVIATIONS * float(std)


def _largest_square(scales: Array, shifts: Array) -> float:
    # Largest eigenvalue of S (I + m m') S: the profile of noise after centering.
    squares, shifted = scales**2, scales * shifts
    if not shifted.any():
        return float(squares.max(initial=0.0))
    return float(np.linalg.eigvalsh(np.diag(squares) + np.outer(shifted, shifted))[-1])

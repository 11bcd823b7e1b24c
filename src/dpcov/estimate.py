"""From published statistics to a second moment or covariance estimate: deterministic, free, repeatable.

Promise: reads noisy numbers only, so every choice made here can be changed later at no privacy cost.
"""

from dataclasses import dataclass
from math import sqrt
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import ReleaseError, UsageError
from dpcov.linalg.project import clip_eigenvalues, project_psd, project_psd_trace
from dpcov.statistics import NoisyStatistics, Post

Array = NDArray[np.float64]

POSTS: tuple[Post, ...] = get_args(Post)


@dataclass(frozen=True, kw_only=True)
class UnitEstimate:
    """Second moment of rows in the unit ball, before post-processing.

    Parameters
    ----------
    matrix : (d, d) float64
        Unbiased estimate of E[z z'].
    n_rows : float
        Public or estimated number of rows by which the sum was divided.
    noise_variance : float or None
        Variance of the noise on a diagonal entry of ``matrix``; off-diagonal entries have half of it.
    """

    matrix: Array
    n_rows: float
    noise_variance: float | None


def unit_estimate(statistics: NoisyStatistics, n_rows: int | None) -> UnitEstimate:
    """Undo the lattice, merge the private trace and divide by the number of rows."""
    if statistics.layout == "estimate":
        return UnitEstimate(
            matrix=np.asarray(statistics.arrays["second_moment"], dtype=np.float64),
            n_rows=float(n_rows or np.nan),
            noise_variance=None,
        )
    assert statistics.noise is not None
    step = statistics.radius**2 / 4.0**statistics.lattice_bits
    unit = step * 2.0**statistics.dropped_bits
    rows = float(n_rows) if n_rows is not None else _noisy_count(statistics)
    matrix: Array = statistics.arrays["sscp"].astype(np.float64) * unit
    if "trace" in statistics.arrays:
        matrix = _merge_trace(matrix, float(statistics.arrays["trace"][0]) * unit)
    variance = float(int(statistics.noise.diagonal_variance)) * step**2
    return UnitEstimate(matrix=matrix / rows, n_rows=rows, noise_variance=variance / rows**2)


def _noisy_count(statistics: NoisyStatistics) -> float:
    """The private row count, at least one so that it can divide."""
    return float(max(1, int(statistics.arrays["row_count"][0])))


def _merge_trace(matrix: Array, trace: float) -> Array:
    """Combine the noisy diagonal with an independent noisy trace of the same variance (least squares).

    Minimizing ||A - Y||_F**2 + (tr A - t)**2 gives A = Y + (t - tr Y) / (d + 1) I.
    """
    merged: Array = matrix + np.eye(len(matrix)) * ((trace - np.trace(matrix)) / (len(matrix) + 1))
    return merged


def post_process(matrix: Array, post: Post, trace_bound: float) -> Array:
    """Apply one of :data:`POSTS`; ``trace_bound`` bounds trace and eigenvalues of the truth."""
    bound = max(0.0, trace_bound)
    if post == "none":
        return matrix
    if post == "psd":
        return project_psd(matrix)
    if post == "clip":
        return clip_eigenvalues(matrix, 0.0, bound)
    if post == "projection":
        return project_psd_trace(matrix, min(bound, max(0.0, float(np.trace(matrix)))))
    raise UsageError(f"Unknown post-processing. Use one of: {', '.join(POSTS)}.")


def centered(estimate: UnitEstimate, intercept_is_public: float | None) -> tuple[Array, Array]:
    """Mean and raw covariance of the features from a second moment whose first coordinate is the intercept.

    Parameters
    ----------
    estimate : UnitEstimate
    intercept_is_public : float or None
        Known second moment of the intercept coordinate, or None when only the noisy one is known.

    Returns
    -------
    mean : (d - 1,) float64
    covariance : (d - 1, d - 1) float64
        Both relative to an intercept of 1.

    Raises
    ------
    ReleaseError
        When the intercept's noisy moment is not clearly positive: there is no mean to subtract.
    """
    matrix = estimate.matrix
    intercept = float(matrix[0, 0]) if intercept_is_public is None else intercept_is_public
    noise_std = sqrt(estimate.noise_variance or 0.0)
    if not intercept > 4 * noise_std * (intercept_is_public is None):
        raise ReleaseError(
            "The noise is larger than the number of rows, so means cannot be separated from variances. "
            "Use second_moment(), more rows or a larger budget."
        )
    mean = matrix[0, 1:] / intercept
    return mean, matrix[1:, 1:] / intercept - np.outer(mean, mean)


def matrix_errors(estimate: Array, reference: Array) -> dict[str, float]:
    """Distance of an estimate from a reference matrix in the usual norms.

    Returns
    -------
    dict
        ``frobenius``, ``spectral``, ``nuclear``, ``max`` (largest entry) and ``relative_frobenius``.
    """
    difference = np.asarray(estimate, dtype=np.float64) - np.asarray(reference, dtype=np.float64)
    singular = np.linalg.svd(difference, compute_uv=False)
    frobenius = float(np.linalg.norm(difference))
    scale = float(np.linalg.norm(reference))
    return {
        "frobenius": frobenius,
        "spectral": float(singular.max()),
        "nuclear": float(singular.sum()),
        "max": float(np.abs(difference).max()),
        "relative_frobenius": frobenius / scale if scale > 0 else float("inf"),
    }

"""Where the eigenvalues of noise alone end, in coordinates of their own.

Contract: public numbers only, in closed form (docs/report.md).
"""

import numpy as np
from scipy.optimize import minimize_scalar

from dpcov.published.estimate.entry_noise import DEVIATIONS, MomentNoise, of_all
from dpcov.published.linalg.symmetric import Array


def bulk_edge(noise: MomentNoise, scales: Array) -> float:
    """Where eigenvalues of noise alone end, but for the one that a large mean adds.

    ``scales``, (p,), is what the encoded columns are multiplied by.
    """
    return largest_noise_eigenvalue(noise, scales, np.zeros(len(scales)))


def largest_noise_eigenvalue(noise: MomentNoise, scales: Array, shifts: Array) -> float:
    """Largest eigenvalue that noise alone would have; columns are shifted by ``shifts``, (p,)."""
    return float(_largest_eigenvalue(scales, shifts, noise))


@of_all
def _largest_eigenvalue(scales: Array, shifts: Array, noise: MomentNoise) -> Array:
    squares = _profile(noise, scales)
    largest = float(np.max(squares, initial=0.0))
    if noise.entries.off_diagonal == 0.0 or largest == 0.0:
        return np.zeros(())

    # The least value over r > max s_j² of r √(v Σ s_j²/(r - s_j²)), or that at the means' own t.
    def ends_at(r: float) -> float:
        return float(r * np.sqrt(noise.entries.off_diagonal * np.sum(squares / (r - squares))))

    gap = minimize_scalar(
        lambda log_gap: ends_at(largest * (1 + np.exp(log_gap))),
        bounds=(-12.0, np.log(len(squares)) + 3.0),
        method="bounded",
    ).x
    ends = ends_at(max(largest * (1 + np.exp(gap)), _largest_square(noise, scales, shifts)))
    return np.asarray(noise.edge_factor / noise.intercept * ends)


def noise_levels(noise: MomentNoise, scales: Array, shifts: Array) -> tuple[float, float]:
    """The same, and the variance from which a component stands out: two deviations more."""
    # Wide noise on the largest eigenvalue is rarer than a normal number's (isoperimetry).
    largest, std = (float(of(scales, shifts, noise)) for of in (_largest_eigenvalue, _largest_std))
    return largest, largest + DEVIATIONS * std


@of_all
def _largest_std(scales: Array, shifts: Array, noise: MomentNoise) -> Array:
    square = _largest_square(noise, scales, shifts)
    return np.asarray(np.sqrt(noise.entries.diagonal) * square / noise.intercept)


def _profile(noise: MomentNoise, scales: Array) -> Array:
    # Isotropic noise seen through a matrix has the eigenvalues of its singular values' profile.
    seen = noise.features[:, int(noise.has_intercept) :] * scales[:, None]
    if noise.shares is not None:
        seen = seen / np.diagonal(noise.shares)[:, None]
    return np.asarray(np.maximum(np.linalg.eigvalsh(seen @ seen.T), 0.0))


def _largest_square(noise: MomentNoise, scales: Array, shifts: Array) -> float:
    # Largest eigenvalue of the profile of noise after centering, S (I + m m') S without a map.
    scales = scales * noise.thinning[0]
    products = noise.metric(shifts) * np.outer(scales, scales)
    return float(np.linalg.eigvalsh(products)[-1])

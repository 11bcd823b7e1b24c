"""The noise on correlations: its size, with what scaling long rows down did to them.

Contract: as in :mod:`dpcov.published.estimate.entry_noise`, but for variances that noise nearly
hides, of which more than the first order counts.
"""

from dataclasses import replace

import numpy as np

from dpcov.published.estimate.entry_noise import MomentNoise, of_all, variance_noise
from dpcov.published.estimate.scaled_down import error_at
from dpcov.published.linalg.symmetric import Array, correlation_of

# Error of a correlation of which nothing is known: zero is within one of all.
UNKNOWN_CORRELATION = 1.0


def correlation_noise(means: Array, covariance: Array, noise: MomentNoise) -> Array:
    """Standard deviation of the noise on correlations, (d, d); 0 on the diagonal, NaN undefined.

    With what scaling long rows down did to them; at most that of which nothing is known, which is
    where the noise is as large as a variance.
    """
    if noise.lost is None:
        found = _with_small_variances(means, covariance, noise)
    else:
        alone = _with_small_variances(means, covariance, replace(noise, bias=0.0))
        first, second = np.ix_(noise.lost.parts, noise.lost.parts)
        present = 1.0 if noise.shares is None else noise.shares
        taken = error_at(correlation_of(covariance), first, second, noise.lost.n_rows * present)
        found = np.hypot(alone, taken * (1 - np.eye(len(alone))))
    return np.minimum(found, UNKNOWN_CORRELATION)


def _with_small_variances(means: Array, covariance: Array, noise: MomentNoise) -> Array:
    """That of the noise alone; variances count as if they were a deviation smaller."""
    variances = np.diagonal(covariance)
    doubt = variance_noise(means, variances, noise)
    # A variance v that is v (1 - e) makes correlations 1 / root = 1 / sqrt(1 - e) times as large;
    # to first order that would be 1 + e / 2.
    left = np.divide(variances - doubt, variances, out=np.ones_like(doubt), where=variances > 0)
    root = np.sqrt(np.maximum(left, 0.0))
    known = root > 0
    steeper = 2 / np.where(known, root + root**2, 2.0)
    found = np.asarray(_correlation_noise(means, covariance, steeper, noise))
    unknown = np.isfinite(found) & ~np.outer(known, known) & ~np.eye(len(root), dtype=bool)
    return np.where(unknown, UNKNOWN_CORRELATION, found)


def first_order(means: Array, covariance: Array, noise: MomentNoise) -> Array:
    """The same of the noise alone with variances taken as known, (d, d): of what a pair tells."""
    return np.asarray(_correlation_noise(means, covariance, np.ones(len(means)), noise))


@of_all
def _correlation_noise(
    means: Array, covariance: Array, steeper: Array, noise: MomentNoise
) -> Array:
    # By dr_ij = (a_i'W a_j - r_ij (t_i a_i'W a_i + t_j a_j'W a_j) / 2) / c, a_i = u_i / sigma_i,
    # and t for what variances count more than to first order.
    variances = np.diagonal(covariance)
    precision = 1 / np.where(variances > 0, variances, np.nan)
    scale = np.sqrt(np.outer(precision, precision))
    r = covariance * scale
    products, first = noise.along(means)
    products, first = products * scale, first * np.sqrt(precision)
    own, half = np.diagonal(products)[:, None], r / 2 * steeper[:, None]
    # Beside the intercept in its row, and in the other rows.
    beside = first / 2 - half * first[:, None]
    square = 2 * (beside**2 * own + beside * beside.T * products)
    square += own * own.T / 4 + products**2 / 4 + (half * own) ** 2
    square += half * half.T * products**2 - 2 * half * own * products
    trace, at_first = products / 2 - half * own, beside * first[:, None]
    # One half is that of row i, its mirror that of row j.
    variance = noise.of_form(*(each + each.T for each in (square, trace, at_first)))
    variance += noise.of_entries(np.sqrt(precision), half)
    deviation = noise.of_pairs(variance)
    np.fill_diagonal(deviation, np.where(variances > 0, 0.0, np.nan))
    return deviation

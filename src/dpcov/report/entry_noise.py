"""How large the noise is on single means, standard deviations and correlations.

Promise: public numbers only, closed form.  To first order in the noise (the delta method), before post-processing, with
the estimates in place of the truth; the correlation that a merged trace puts between diagonal entries is ignored.

Notes
-----
With c the intercept's moment, means m_i = M_0i/c and covariances C_ij = M_ij/c - m_i m_j,

    c dC_ij = dM_ij - m_j dM_0i - m_i dM_0j - (C_ij - m_i m_j) dc,

where dc = 0 if the intercept is public.  The entries of M have independent noise, so collecting the coefficient of each
one in dr_ij = dC_ij / s_i s_j - r_ij/2 (dC_ii / C_ii + dC_jj / C_jj) and adding squares gives the variances below.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class MomentNoise:
    """Variances of the noise on the second moment, and the intercept's place in it.

    ``diagonal`` and ``off_diagonal`` are in units of the squared moment; ``intercept`` is c.
    """

    diagonal: float
    off_diagonal: float
    intercept: float = 1.0
    intercept_is_noisy: bool = False


def mean_noise(means: Array, noise: MomentNoise) -> Array:
    """Standard deviation of the noise on means, shape (d,), relative to an intercept of 1."""
    variance = noise.off_diagonal + means**2 * noise.diagonal * noise.intercept_is_noisy
    return np.asarray(np.sqrt(variance) / noise.intercept)


def deviation_noise(means: Array, variances: Array, noise: MomentNoise) -> Array:
    """Standard deviation of the noise on standard deviations; NaN where a variance is not positive."""
    through_intercept = (variances - means**2) ** 2 * noise.diagonal * noise.intercept_is_noisy
    variance = noise.diagonal + 4 * means**2 * noise.off_diagonal + through_intercept
    usable = np.where(variances > 0, variances, np.nan)
    return np.asarray(np.sqrt(variance) / noise.intercept / (2 * np.sqrt(usable)))


def correlation_noise(means: Array, covariance: Array, noise: MomentNoise) -> Array:
    """Standard deviation of the noise on correlations, shape (d, d); 0 on the diagonal, NaN where undefined."""
    variances = np.diagonal(covariance)
    precision = 1 / np.where(variances > 0, variances, np.nan)
    scale = np.sqrt(np.outer(precision, precision))
    r = covariance * scale
    through_mean = r * (means * precision)[:, None] - scale * means[None, :]
    squares = scale**2 + through_mean**2 + through_mean.T**2
    own = precision**2
    variance = squares * noise.off_diagonal + (r**2 / 4) * (own[:, None] + own[None, :]) * noise.diagonal
    if noise.intercept_is_noisy:
        shares = means**2 * precision
        through_intercept = scale * np.outer(means, means) - r / 2 * (shares[:, None] + shares[None, :])
        variance += through_intercept**2 * noise.diagonal
    deviation: Array = np.sqrt(variance) / noise.intercept
    np.fill_diagonal(deviation, np.where(variances > 0, 0.0, np.nan))
    return deviation

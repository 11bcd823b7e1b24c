"""Methods of the papers that are not mechanisms of the library: kept here for comparison only.

Contract: each takes the data, a budget and a source of randomness, and returns a second moment or
regression weights. Nothing here is meant for release; the arithmetic is ordinary floating point.
"""

from collections.abc import Callable
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.published import published_adaptive
from benchmarks.papers.ridge import ridge_weights
from benchmarks.papers.tables import Data
from dpcov import Budget
from dpcov.noise.continuous import exponentials, normals
from dpcov.noise.entropy import Entropy
from dpcov.noise.nuclear import nuclear_noise
from dpcov.privacy.calibrate import gaussian_noise_multiplier
from dpcov.published.linalg.project import clip_eigenvalues, project_psd
from dpcov.published.linalg.symmetric import mirror_upper

Array = NDArray[np.float64]


def published_thresholding(data: Data, budget: Budget, entropy: Entropy, *, gamma: float) -> Array:
    """Algorithm 1 of Wang et al. with the noise they state, on rows that may be longer than 1.

    That noise is too small by sqrt(2) even for rows of norm 1, so what this returns has **no**
    privacy guarantee.
    """
    n, p = data.rows.shape
    noise_std = classical_multiplier(budget) / n
    noisy = data.second_moment + noise_std * mirror_upper(normals((p, p), entropy))
    threshold = gamma * sqrt(log(p) / n) + 4 * noise_std * sqrt(log(p))
    return project_psd(np.where(np.abs(noisy) > threshold, noisy, 0.0))


def classical_gaussian(data: Data, budget: Budget, entropy: Entropy) -> Array:
    """Gaussian noise by the classical formula at every epsilon, eigenvalues clipped; above epsilon
    = 1 not proven."""
    n, d = data.rows.shape
    noise_std = sqrt(2) * classical_multiplier(budget) / n
    return clip_eigenvalues(
        data.second_moment + noise_std * mirror_upper(normals((d, d), entropy)), 0.0, 1.0
    )


def classical_multiplier(budget: Budget) -> float:
    """Noise std over l2 sensitivity, sqrt(2 log(1.25 / delta)) / epsilon."""
    assert budget.epsilon is not None
    assert budget.delta is not None
    return sqrt(2 * log(1.25 / float(budget.delta))) / float(budget.epsilon)


def nonsymmetric_noise(data: Data, budget: Budget, entropy: Entropy) -> Array:
    """Algorithm 1 of d'Orsi and Novikov as it stands: Z of density exp(-epsilon n ||Z||_* / 2) is
    not symmetric."""
    n, d = data.rows.shape
    assert budget.epsilon is not None
    return data.second_moment + nuclear_noise(d, 2 / (float(budget.epsilon) * n), entropy)


def output_perturbation(data: Data, budget: Budget, entropy: Entropy, *, alpha: float) -> Array:
    """Ridge weights plus noise, after Chaudhuri, Monteleoni, Sarwate (2011), for a loss of
    unbounded slope.

    The objective is at most y**2 / 2 <= 1/2 at zero, so its minimizer has norm W <= 1 / sqrt(2
    alpha).  Where the row (a, y) is in the unit ball, the gradient (w'a - y) a of its loss has norm
    at most L = (W + sqrt(W**2 + 1)) / 2. The objective is 2 alpha strongly convex, so replacing a
    row moves the minimizer by at most 2 L / (2 alpha n). Without delta: density exp(-epsilon ||b||
    / sensitivity).  With delta: Gaussian noise.
    """
    weights = ridge_weights(data.second_moment, alpha)
    largest = 1 / sqrt(2 * alpha)
    sensitivity = (largest + sqrt(largest**2 + 1)) / 2 / (alpha * len(data.rows))
    assert budget.epsilon is not None
    direction = normals(len(weights), entropy)
    if budget.delta is None:
        radius = float(exponentials(len(weights), entropy).sum()) / float(budget.epsilon)
        return weights + direction * (sensitivity * radius / float(np.linalg.norm(direction)))
    multiplier = float(gaussian_noise_multiplier(budget.epsilon, budget.delta))
    return weights + direction * (sensitivity * multiplier)


BASELINES: dict[str, Callable[..., Array]] = {
    "published DP-Thresholding": published_thresholding,
    "published AdaptiveCov": published_adaptive,
    "classical Gaussian": classical_gaussian,
    "nonsymmetric nuclear": nonsymmetric_noise,
    "output perturbation": output_perturbation,
}
"""Called with (data, budget, entropy, **options)."""

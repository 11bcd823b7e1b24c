"""Methods of the papers that are not mechanisms of the library: kept here for comparison only.

Promise: each takes the data, a budget and a seed, and returns a second moment or regression weights.  Nothing here is
meant for release; the arithmetic is ordinary floating point.
"""

from collections.abc import Callable
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.tables import Data
from dpcov import Budget, SeededEntropy
from dpcov.errors import BudgetError
from dpcov.linalg.project import clip_eigenvalues, project_psd
from dpcov.noise.continuous import exponentials, normals
from dpcov.noise.entropy import Entropy
from dpcov.privacy.calibrate import gaussian_noise_multiplier

Array = NDArray[np.float64]


def published_gauss_cov(data: Data, budget: Budget, entropy: Entropy) -> Array:
    """GaussCov as Dong et al. state it: the same noise on and off the diagonal, no post-processing."""
    return data.second_moment + _upper_noise(data, sqrt(2) * _multiplier(budget), entropy)


def clipped_gauss_cov(data: Data, budget: Budget, entropy: Entropy) -> Array:
    """The same with eigenvalues clipped to [0, 1], as in Amin et al. and in the published code of Dong et al."""
    return clip_eigenvalues(published_gauss_cov(data, budget, entropy), 0.0, 1.0)


def published_lap_cov(
    data: Data, budget: Budget, entropy: Entropy, *, sensitivity: float, clip: bool = True
) -> Array:
    """Laplace noise of scale ``sensitivity`` d / epsilon on every entry of the sum.

    The factor is sqrt(2) in Dong et al. (Lemma 12, with sqrt(2) d for the misprinted sqrt(2 d)) and 2 in Amin et al.
    """
    n, d = data.rows.shape
    if budget.epsilon is None:
        raise BudgetError("The Laplace mechanism needs epsilon.")
    scale = sensitivity * d / (float(budget.epsilon) * n)
    size = d * (d + 1) // 2
    noisy = data.second_moment + _symmetric(exponentials(size, entropy) - exponentials(size, entropy), d) * scale
    return clip_eigenvalues(noisy, 0.0, 1.0) if clip else noisy


def published_thresholding(data: Data, budget: Budget, entropy: Entropy, *, gamma: float = 0.0) -> Array:
    """Algorithm 1 of Wang et al. with their noise, which is too small by sqrt(2) and for rows of norm up to 1.

    The rows of their experiment are longer than 1, so what this returns has **no** privacy guarantee.
    """
    n, p = data.rows.shape
    assert budget.epsilon is not None
    assert budget.delta is not None
    noise_std = sqrt(2 * log(1.25 / float(budget.delta))) / (n * float(budget.epsilon))
    noisy = data.second_moment + _symmetric(normals(p * (p + 1) // 2, entropy), p) * noise_std
    threshold = gamma * sqrt(log(p) / n) + 4 * noise_std * sqrt(log(p))
    return project_psd(np.where(np.abs(noisy) > threshold, noisy, 0.0))


def output_perturbation(data: Data, budget: Budget, entropy: Entropy, *, alpha: float) -> Array:
    """Ridge weights plus noise (Chaudhuri, Monteleoni, Sarwate 2011), for a loss of unbounded slope.

    The objective falls from y**2 / 2 <= 1/2 at zero, so the minimizer has norm W <= 1 / sqrt(2 alpha).  Where the row
    (a, y) is in the unit ball, the gradient (w'a - y) a of its loss has norm at most L = (W + sqrt(W**2 + 1)) / 2.
    The objective is 2 alpha strongly convex, so replacing a row moves the minimizer by at most 2 L / (2 alpha n).
    Without delta: density exp(-epsilon ||b|| / sensitivity).  With delta: Gaussian noise.
    """
    from benchmarks.papers.ridge import ridge_weights

    weights = ridge_weights(data.second_moment, alpha)
    largest = 1 / sqrt(2 * alpha)
    sensitivity = (largest + sqrt(largest**2 + 1)) / 2 / (alpha * len(data.rows))
    direction = normals(len(weights), entropy)
    if budget.epsilon is not None and budget.delta is None:
        radius = float(exponentials(len(weights), entropy).sum()) / float(budget.epsilon)
        return weights + direction * (sensitivity * radius / float(np.linalg.norm(direction)))
    return weights + direction * (sensitivity * _multiplier(budget))


def _multiplier(budget: Budget) -> float:
    """Noise standard deviation over l2 sensitivity."""
    if budget.rho is not None:
        return sqrt(1 / (2 * float(budget.rho)))
    if budget.delta is None:
        raise BudgetError("Gaussian noise needs rho, or epsilon with delta.")
    assert budget.epsilon is not None
    return float(gaussian_noise_multiplier(budget.epsilon, budget.delta))


def _upper_noise(data: Data, noise_std: float, entropy: Entropy) -> Array:
    """Symmetric noise with independent entries on and above the diagonal, for the sum, divided by n."""
    n, d = data.rows.shape
    return _symmetric(normals(d * (d + 1) // 2, entropy), d) * (noise_std / n)


def _symmetric(entries: Array, d: int) -> Array:
    matrix = np.zeros((d, d))
    matrix[np.triu_indices(d)] = entries
    return matrix + np.triu(matrix, 1).T


BASELINES: dict[str, Callable[..., Array]] = {
    "published GaussCov": published_gauss_cov,
    "published GaussCov, clipped": clipped_gauss_cov,
    "published LapCov": published_lap_cov,
    "published DP-Thresholding": published_thresholding,
    "output perturbation": output_perturbation,
}
"""Called with (data, budget, entropy, **options)."""


def run_baseline(name: str, data: Data, budget: Budget, seed: int, options: dict[str, float]) -> Array:
    return BASELINES[name](data, budget, SeededEntropy(seed), **options)

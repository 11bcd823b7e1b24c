"""What the authors' own code for Dong, Liang, Yi (2022) does: its errors, and its AdaptiveCov in
our terms.

The errors are means over 10 to 20 runs on synthetic rows of norm 1 at rho = 0.1, by n and d.
"""

from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.draws import draw
from benchmarks.papers.tables import Data
from dpcov import Budget
from dpcov.mechanisms.blocks.clip_search import clipping_bias, sparse_vector
from dpcov.mechanisms.blocks.tail_bounds import eta, omega
from dpcov.noise.continuous import normals
from dpcov.noise.entropy import Entropy

COLUMNS = (10, 20, 30, 50, 70, 100, 200, 400, 800)

SEPARATE_COV: dict[int, tuple[float, ...]] = {
    1000: (0.0443, 0.0802, 0.102, 0.117, 0.116, 0.115, 0.125, 0.154, 0.206),
    4000: (0.0107, 0.0227, 0.0323, 0.0494, 0.0601, 0.0672, 0.0657, 0.061, 0.0627),
    16000: (0.00266, 0.00548, 0.0082, 0.0137, 0.0191, 0.0258, 0.0392, 0.0413, 0.0351),
}
GAUSS_COV: dict[int, tuple[float, ...]] = {
    1000: (0.0302, 0.0567, 0.0807, 0.123, 0.165, 0.229, 0.45, 0.898, 1.79),
    4000: (0.00788, 0.0156, 0.0227, 0.0359, 0.0475, 0.0641, 0.116, 0.225, 0.448),
    16000: (0.00197, 0.00383, 0.00583, 0.00973, 0.0133, 0.0184, 0.033, 0.0592, 0.113),
}
ADAPTIVE_COV: dict[int, tuple[float, ...]] = {
    1000: (0.0342, 0.0653, 0.092, 0.139, 0.188, 0.264, 0.138, 0.175, 0.239),
    4000: (0.00897, 0.018, 0.0261, 0.0408, 0.0544, 0.0722, 0.133, 0.0637, 0.0695),
    16000: (0.00225, 0.00447, 0.0068, 0.0111, 0.0152, 0.021, 0.0375, 0.0674, 0.0362),
}
PUBLISHED = {
    "GaussCov, clipped": GAUSS_COV,
    "SeparateCov": SEPARATE_COV,
    "AdaptiveCov, published": ADAPTIVE_COV,
}
SHELLS = 80
SMALLEST_CLIP = 2.0**-50
"""Below it the code's answer is zero up to rounding: noise is in proportion to the clip squared."""
TOGETHER = ("gaussian", {"noise": "upper-triangle"})
SEPARATELY = ("separate", {"noise": "entrywise", "eigenvalues": "clip"})


def published_error(method: str, n: int, d: float) -> float:
    """Mean error of a method of the published code."""
    return PUBLISHED[method][n][COLUMNS.index(int(d))]


def published_adaptive(
    data: Data, budget: Budget, entropy: Entropy, *, beta: float = 0.1
) -> NDArray[np.float64]:
    """Clip and release as the published ``AdaptiveCov``: its constants, its split of rho, and its
    slips.

    The error of separate noise is divided by 6.  The search takes the error of matrix noise for
    proportional to the clip norm, not to its square, and the branch is chosen at half the clip norm
    that is used.
    """
    (n, d), rho = data.rows.shape, float(budget.rho or 0)
    part, beta_1 = 0.75 * rho, 0.75 * beta
    trace = float(np.trace(data.second_moment) + 2 / (sqrt(rho) * n) * normals(1, entropy)[0])
    trace = min(1.0, max(1e-16, trace + sqrt(8 / rho * log(8 / beta)) / n))
    turned = 2**1.25 * sqrt(trace * _nu(d, beta_1 / 2) / n) / part**0.25 / 6
    values, together = sqrt(2 / part) * eta(d, beta_1 / 2) / n, omega(d, beta_1) / sqrt(part) / n

    norms = 2.0 ** -np.arange(SHELLS)
    separately = norms * turned + norms**2 * values
    noise = n * np.minimum(norms * together, separately)
    counts = np.bincount(_shells(data), minlength=SHELLS)
    queries = (clipping_bias(counts, 0, shell) - noise[shell] for shell in range(SHELLS))
    stop = sparse_vector(queries, threshold=0.0, epsilon=sqrt(rho) / 2, entropy=entropy)
    found = SHELLS - 1 if stop is None else stop
    mechanism, options = (
        SEPARATELY if separately[found] < norms[found] ** 2 * together else TOGETHER
    )
    clip, cost = min(1.0, 2 * norms[found]), Budget(rho=part)
    if clip < SMALLEST_CLIP:
        return np.zeros((d, d))
    return draw(mechanism, options | {"clip": clip}, data, cost, entropy, post="clip")


def _shells(data: Data) -> NDArray[np.int64]:
    """Shell s of each row: its norm is in (2**-(s + 1), 2**-s]."""
    lengths = np.linalg.norm(data.rows, axis=1)
    with np.errstate(divide="ignore"):
        return np.clip(np.floor(-np.log2(lengths)), 0, SHELLS - 1).astype(np.int64)


def _nu(dimension: int, beta: float) -> float:
    """Spectral bound of the code, another one than the paper's."""
    excess = min((log(dimension) / dimension) ** 0.3, 0.5)
    edge = 2 * sqrt(dimension) + 6 * sqrt(log(dimension) / log(1 + excess))
    return (1 + excess) * edge + sqrt(2 * log(2 / beta))

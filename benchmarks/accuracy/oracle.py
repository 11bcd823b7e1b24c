"""The floor under every estimate that keeps released eigenvectors: an oracle that knows the truth
along them."""

import numpy as np

from dpcov.data.exact.moments import Moments
from dpcov.published.release import Release


def floors(release: Release, estimate: np.ndarray, moments: Moments) -> list[np.ndarray]:
    """Estimates that keep released eigenvectors and know the true eigenvalues along them; the best
    one is the floor.

    The eigenvectors of the estimate itself, and where strata were released, those of every group of
    shells that was drawn, dropped shells counting as zero.
    """
    own = _along(estimate, moments.second_moment())
    if release.statistics.layout != "strata":
        return [own]
    scale = 1.0 / (4.0**moments.spec.bits * moments.n_rows)
    shells = [
        stratum.sscp.to_float() * (scale * 4.0**-index)
        for index, stratum in enumerate(moments.strata)
    ]
    arrays = release.statistics.arrays
    groups = zip(arrays["sscp"], arrays["first_shell"], arrays["last_shell"], strict=True)
    parts = [
        _along(noisy, sum(shells[int(first) : int(last) + 1])) for noisy, first, last in groups
    ]
    return [own, np.sum(parts, axis=0)] if parts else [own]


def _along(noisy: np.ndarray, truth: np.ndarray) -> np.ndarray:
    vectors = np.linalg.eigh(noisy.astype(np.float64))[1]
    return (vectors * np.einsum("ij,ij->j", vectors, truth @ vectors)) @ vectors.T

"""Eigenvalues, and how large noise alone would make them.

Contract: public numbers only.  The edge is the largest eigenvalue that noise of the release's law reaches in
many dimensions; a component counts as signal where its estimate exceeds that by two further standard
deviations.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcov.published.estimate.entry_noise import (
    MomentNoise,
    clear_of_noise,
    largest_noise_eigenvalue,
)

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """Eigenvalues in decreasing order, before and after post-processing, and the edge of the noise.

    ``edge`` and ``level`` (the edge and two standard deviations) are None where the law of the noise is not known.
    """

    noisy: Array
    estimate: Array
    edge: float | None
    level: float | None

    @property
    def n_above(self) -> int | None:
        """How many components stand above the noise."""
        return None if self.level is None else int(np.sum(self.estimate > self.level))


def spectrum(noisy: Array, estimate: Array, *, noise: MomentNoise | None, means: Array) -> Spectrum:
    """Eigenvalues of a (d, d) matrix, with the edge of its noise.

    Parameters
    ----------
    noisy, estimate : (d, d) float64
        Before and after post-processing, in encoded units; centered if ``means`` are not zero.
    noise : MomentNoise or None
    means : (d,) float64
        What was subtracted, relative to an intercept of 1.
    """
    values: Array = np.linalg.eigvalsh(noisy)[::-1].astype(np.float64)
    after: Array = np.linalg.eigvalsh(estimate)[::-1].astype(np.float64)
    if noise is None:
        return Spectrum(noisy=values, estimate=after, edge=None, level=None)
    ones = np.ones(len(means))
    return Spectrum(
        noisy=values,
        estimate=after,
        edge=largest_noise_eigenvalue(noise, ones, means),
        level=clear_of_noise(noise, ones, means),
    )

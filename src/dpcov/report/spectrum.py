"""Eigenvalues, and how large noise alone would make them.

Promise: public numbers only.  The edge is the largest eigenvalue that noise of the release's law reaches in many
dimensions; what counts as signal exceeds it by two further standard deviations.

Notes
-----
Wide noise on the largest eigenvalue is rarer than a normal number's (Gaussian isoperimetry).
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from dpcov.entry_noise import MomentNoise, largest_noise_eigenvalue

Array = NDArray[np.float64]

DEVIATIONS = 2.0
"""Standard deviations beyond the edge from which an eigenvalue counts as signal."""


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
        return None if self.level is None else int(np.sum(self.noisy > self.level))


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
    edge = largest_noise_eigenvalue(noise, np.ones(len(means)), means)
    spread = sqrt(noise.diagonal) * (1 + float(means @ means)) / noise.intercept
    return Spectrum(noisy=values, estimate=after, edge=edge, level=edge + DEVIATIONS * spread)

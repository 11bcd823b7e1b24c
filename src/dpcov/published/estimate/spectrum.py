"""Eigenvalues, and how large noise alone would make them.

Contract: public numbers only.  The edge is the largest eigenvalue that noise of the release's law
reaches in many dimensions; signal exceeds it by two further standard deviations.
"""

from dataclasses import dataclass

import numpy as np

from dpcov.published.estimate.entry_noise import (
    MomentNoise,
    clear_of_noise,
    largest_noise_eigenvalue,
)
from dpcov.published.linalg.symmetric import Array, eigenvalues


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """Eigenvalues in decreasing order, before and after post-processing, and the noise's edge.

    ``edge`` and ``level`` (the edge and two deviations) are None where the noise is not known.
    """

    noisy: Array
    estimate: Array
    edge: float | None = None
    level: float | None = None

    @property
    def n_above(self) -> int | None:
        """How many components stand above the noise."""
        return None if self.level is None else int(np.sum(self.estimate > self.level))


def spectrum(noisy: Array, estimate: Array, *, noise: MomentNoise | None, means: Array) -> Spectrum:
    """Eigenvalues of a (d, d) matrix before and after post-processing, with the edge of its noise.

    Encoded units; ``means``, (d,), is what was subtracted, relative to an intercept of 1.
    """
    values, after = (eigenvalues(matrix)[::-1] for matrix in (noisy, estimate))
    if noise is None:
        return Spectrum(noisy=values, estimate=after)
    ones = np.ones(len(means))
    return Spectrum(
        noisy=values,
        estimate=after,
        edge=largest_noise_eigenvalue(noise, ones, means),
        level=clear_of_noise(noise, ones, means),
    )

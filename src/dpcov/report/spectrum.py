"""Eigenvalues, and how large noise alone would make them.

Promise: public numbers only.  The edge is the largest eigenvalue that noise of the release's law reaches in many
dimensions; what counts as signal exceeds it by two further standard deviations.

Notes
-----
Noise with off-diagonal variance v has its spectrum in [-2 sqrt(dv), 2 sqrt(dv)] (Wigner), nuclear-norm noise in the
interval of :func:`dpcov.linalg.ullman.edge`.  Centering turns the noise W of a second moment into A W A' / c with
A = [-m, I], which has the law of D G D, D = diag(sqrt(1 + |m|^2), 1, ..., 1): the same interval, plus one eigenvalue
outside of it if |m| > 1.  For that one, with s = sqrt(dv), lambda = (1 + |m|^2) s^2 g(lambda) and lambda = 1/g + s^2 g
give (1 + |m|^2) s / |m|.  Wide noise on the largest eigenvalue is rarer than a normal number's (Gaussian isoperimetry).
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from dpcov.estimate import UnitEstimate
from dpcov.linalg import ullman

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


def spectrum(
    noisy: Array, estimate: Array, *, unit: UnitEstimate, means: Array, intercept: float, scale: float = 1.0
) -> Spectrum:
    """Eigenvalues of a (d, d) matrix, with the edge of its noise.

    Parameters
    ----------
    noisy, estimate : (d, d) float64
        Before and after post-processing; centered if ``means`` are not zero.
    unit : UnitEstimate
        Where the noise comes from.
    means : (d,) float64
        What was subtracted, relative to an intercept of 1.
    intercept : float
        By what the moments were divided.
    scale : float
        Factor between the unit ball and the units of ``noisy``.
    """
    values: Array = np.linalg.eigvalsh(noisy)[::-1].astype(np.float64)
    after: Array = np.linalg.eigvalsh(estimate)[::-1].astype(np.float64)
    if unit.noise_variance is None or unit.off_diagonal_variance is None:
        return Spectrum(noisy=values, estimate=after, edge=None, level=None)
    mean_square = float(np.sum(means**2))
    edge = centered_edge(noise_edge(unit, len(noisy)), mean_square) * scale / intercept
    spread = sqrt(unit.noise_variance) * (1 + mean_square) * scale / intercept
    return Spectrum(noisy=values, estimate=after, edge=edge, level=edge + DEVIATIONS * spread)


def noise_edge(unit: UnitEstimate, dimension: int) -> float:
    """Largest eigenvalue of the noise on the second moment, for large dimensions."""
    scales = [part.nuclear_scale for part in unit.parts if part.nuclear_scale is not None]
    if scales:
        return ullman.edge(dimension) * sqrt(sum(scale**2 for scale in scales))
    return 2 * sqrt(dimension * (unit.off_diagonal_variance or 0.0))


def centered_edge(edge: float, mean_square: float) -> float:
    """Edge after centering, from the edge before and |m|^2."""
    return edge if mean_square <= 1 else edge / 2 * (1 + mean_square) / sqrt(mean_square)

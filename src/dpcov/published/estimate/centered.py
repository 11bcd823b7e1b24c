"""The shrunk covariance of a release: its second moment compressed beside the mean, estimated, put together again.

Contract: reads noisy numbers only (:mod:`dpcov.published.estimate.centering` has the derivation).
"""

from dataclasses import replace
from math import sqrt

import numpy as np

from dpcov.published.estimate.centering import Centering
from dpcov.published.estimate.nuclear_variances import entry_variances
from dpcov.published.estimate.post import Array, Part, UnitEstimate, centered, shrunk


def shrunk_covariance(estimate: UnitEstimate, intercept_is_public: float | None) -> Array:
    """Optimally shrunk covariance of the features, relative to an intercept of 1.

    Parameters
    ----------
    estimate : UnitEstimate
        With the intercept as the first coordinate.
    intercept_is_public : float or None
        As in :func:`centered`.

    Raises
    ------
    ReleaseError, UsageError
        As :func:`centered` and :func:`shrunk`.
    """
    centered(estimate, intercept_is_public)
    centering = Centering(
        noisy=estimate.matrix,
        variance=estimate.off_diagonal_variance or 0.0,
        unit=float(estimate.matrix[0, 0]) if intercept_is_public is None else intercept_is_public,
    )
    compressed = replace(
        estimate,
        matrix=centering.compress(estimate.matrix) - centering.leak,
        parts=_compressed_parts(estimate.parts, centering),
        joint_trace=None,
    )
    return centering.assemble(
        shrunk(compressed)[0] if len(compressed.matrix) else compressed.matrix
    )


def _compressed_parts(parts: tuple[Part, ...], centering: Centering) -> tuple[Part, ...]:
    """All parts on the complement; what the mean leaves there is taken from the part with the largest trace."""
    compressed = [_compressed(part, centering) for part in parts]
    if compressed:
        most = max(
            range(len(compressed)), key=lambda place: float(np.trace(compressed[place].matrix))
        )
        part, leak = compressed[most], centering.leak
        trace = None if part.trace is None else part.trace - float(np.trace(leak))
        compressed[most] = replace(part, matrix=part.matrix - leak, trace=trace)
    return tuple(compressed)


def _compressed(part: Part, centering: Centering) -> Part:
    """A part on the complement of intercept and mean; entries of its noise keep their variances."""
    d, scale = len(part.matrix), part.nuclear_scale
    if scale is not None and d > 2:
        scale *= sqrt(entry_variances("nuclear", d)[1] / entry_variances("nuclear", d - 2)[1])
    return replace(
        part,
        matrix=centering.compress(part.matrix),
        trace=None if part.trace is None else part.trace - centering.trace_outside(part.matrix),
        trace_variance=None
        if part.trace_variance is None
        else part.trace_variance + 2 * part.diagonal_variance,
        nuclear_scale=scale,
    )

"""Optimal shrinkage of all parts of a release together, and of its covariance.

Contract: post-processing of noisy numbers (derived in shrink.py, strata.py and centering.py).
"""

from dataclasses import replace
from math import sqrt

import numpy as np

from dpcov.errors import UsageError
from dpcov.published.estimate.centering import Centering
from dpcov.published.estimate.nuclear_law import entry_variances
from dpcov.published.estimate.nuclear_strata import shrink_nuclear_strata
from dpcov.published.estimate.strata import FEW_FEATURES, shrink_strata
from dpcov.published.estimate.stratum import Stratum
from dpcov.published.estimate.unit import Estimate, Part, UnitEstimate
from dpcov.published.linalg.project import project_psd, project_psd_trace
from dpcov.published.linalg.symmetric import Array


def shrunk(estimate: UnitEstimate) -> Estimate:
    """Shrink the second moment; a zero matrix comes with a bound on the truth's squared norm.

    UsageError where the noise is neither isotropic Gaussian nor released with its strata, so that
    the best shrinkage is not known.
    """
    if estimate.noise_variance is None or (not estimate.parts and np.any(estimate.matrix)):
        raise UsageError("Noise that is not isotropic cannot be shrunk. Use another post.")
    result = _shrunk_parts(estimate)
    return result if np.any(result.matrix) else Estimate(result.matrix, estimate.trace_bound**2)


def _shrunk_parts(estimate: UnitEstimate) -> Estimate:
    parts, few = estimate.parts, len(estimate.matrix) <= FEW_FEATURES
    if not parts:
        return Estimate(np.zeros_like(estimate.matrix), 0.0)
    if any(part.nuclear_scale is not None for part in parts):
        found = shrink_nuclear_strata(parts)
    elif estimate.parts_may_be_empty:
        found = shrink_strata(parts, joint_trace=estimate.joint_trace, clearest_is_inhabited=few)
    else:
        found = Stratum.of(parts[0]).shrunk
    # Rows no longer than the largest shell's radius have at most this trace: nearer to the truth.
    largest = max(part.largest_trace for part in parts)
    if np.trace(found.matrix) > largest:
        return Estimate(project_psd_trace(found.matrix, largest), found.risk)
    return found


def centered_covariance(estimate: UnitEstimate, intercept: float) -> Array:
    """Covariance, (d - 1, d - 1), of a shrunk second moment whose columns were centered before.

    ``intercept`` is the second moment of the first coordinate, which the result is relative to.
    """
    whole = shrunk(estimate).matrix / intercept
    return project_psd(whole[1:, 1:] - np.outer(whole[0, 1:], whole[0, 1:]))


def shrunk_covariance(estimate: UnitEstimate, intercept: float) -> Array:
    """Shrink the second moment beside the mean and put the covariance, (d - 1, d - 1), together.

    ``intercept`` is as in :func:`centered_covariance`.  A long mean would hide the spread in one
    large eigenvalue.
    """
    variance = estimate.off_diagonal_variance or 0.0
    centering = Centering(noisy=estimate.matrix, variance=variance, unit=intercept)
    matrix = centering.compress(estimate.matrix) - centering.leak
    if not len(matrix):
        return centering.assemble(matrix)
    parts = [_compressed(part, centering) for part in estimate.parts]
    if parts:
        # What the mean leaves on the complement comes out of the largest part, which has most.
        most = int(np.argmax([np.trace(part.matrix) for part in parts]))
        part, trace = parts[most], parts[most].trace
        less = None if trace is None else trace - float(np.trace(centering.leak))
        parts[most] = replace(part, matrix=part.matrix - centering.leak, trace=less)
    beside = replace(estimate, matrix=matrix, parts=tuple(parts), joint_trace=None)
    return centering.assemble(shrunk(beside).matrix)


def _compressed(part: Part, centering: Centering) -> Part:
    d, scale = len(part.matrix), part.nuclear_scale
    if scale is not None and d > 2:
        # Compressed noise keeps the variances of its entries, so its scale follows the dimension.
        scale *= sqrt(entry_variances("nuclear", d)[1] / entry_variances("nuclear", d - 2)[1])
    trace, trace_variance = part.trace, part.trace_variance
    if trace is not None and trace_variance is not None:
        trace -= centering.trace_outside(part.matrix)
        trace_variance += 2 * part.diagonal_variance
    part = replace(part, trace=trace, trace_variance=trace_variance, nuclear_scale=scale)
    return replace(part, matrix=centering.compress(part.matrix))

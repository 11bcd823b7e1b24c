"""Post-processings: what a release can be read as, at no privacy cost, one row of a table each.

Contract: reads noisy numbers only, so every choice made here can be changed later.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import log, sqrt

import numpy as np

from dpcov.errors import UsageError
from dpcov.privacy.options import plain
from dpcov.published.estimate.centering import Centering
from dpcov.published.estimate.nuclear_law import entry_variances
from dpcov.published.estimate.nuclear_strata import shrink_nuclear_strata
from dpcov.published.estimate.strata import Stratum, shrink_strata
from dpcov.published.estimate.threshold import RULES, choose_threshold, threshold_matrix
from dpcov.published.estimate.unit import Estimate, Part, UnitEstimate, by_precision
from dpcov.published.file.statistics import Post, PostOptions
from dpcov.published.linalg.project import clip_eigenvalues, project_psd, project_psd_trace
from dpcov.published.linalg.symmetric import Array, Places

_DEFAULT = PostOptions()
# Elsewhere, as in pandas, features would come first.
_FEATURES = (
    "post names one post-processing. Take features from what is returned: "
    "correlation().loc[names, names]."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Noisy:
    """A noisy second moment, or the covariance made of it, and what is needed to improve it.

    ``unit`` has the law of the noise; ``trace_bound`` bounds trace and eigenvalues of the truth;
    ``intercept`` is what second moments of a covariance were divided by; ``is_centered`` says that
    columns had centers of their own, so that means are short.
    """

    unit: UnitEstimate
    matrix: Array
    trace_bound: float = 1.0
    options: PostOptions = _DEFAULT
    intercept: float | None = None
    is_centered: bool = False

    @cached_property
    def shrunk(self) -> tuple[Array, float | None]:
        """Optimally shrunk matrix, and its expected squared error where that is known."""
        if self.intercept is None:
            return shrunk(self.unit)[:2]
        if not self.is_centered:
            return shrunk_covariance(self.unit, self.intercept), None
        whole = shrunk(self.unit).matrix / self.intercept
        return project_psd(whole[1:, 1:] - np.outer(whole[0, 1:], whole[0, 1:])), None


@dataclass(frozen=True, kw_only=True)
class PostProcessing:
    """One way to read a release: what it does, in words and to a matrix."""

    words: str
    apply: Callable[[Noisy], Array]
    # Expected squared Frobenius error caused by the noise, where that is known.
    squared_error: Callable[[Noisy], float | None] = lambda noisy: None
    may_be_indefinite: bool = False
    # Whether strata of noise alone are estimated as zero, so that their noise does not count.
    drops_empty: bool = False


def _noise(noisy: Noisy) -> float | None:
    d, law = len(noisy.matrix), noisy.unit.noise
    return None if law is None else law.diagonal * d + law.off_diagonal * d * (d - 1)


def _projected(noisy: Noisy) -> Array:
    bound = noisy.trace_bound
    if noisy.options.trace == "noisy":
        bound = min(bound, max(0.0, float(np.trace(noisy.matrix))))
    return project_psd_trace(noisy.matrix, bound)


def _thresholded(noisy: Noisy) -> Array:
    # Wang, Xu, Yang 2019, Algorithm 1: threshold, then set negative eigenvalues to zero.
    unit, options, scale = noisy.unit, noisy.options, 1 / (noisy.intercept or 1.0)
    if unit.laplace_part > 0 or not (unit.noise and unit.noise.off_diagonal):
        raise UsageError("Noise that is not Gaussian cannot be thresholded. Use another post.")
    rules = RULES if options.rule == "best" else (options.rule,)
    variance = unit.noise.off_diagonal * scale**2
    if options.gamma is None:
        chosen = choose_threshold(noisy.matrix, off_diagonal_variance=variance, rules=rules)
        return project_psd(chosen.matrix)
    # Equation (10), γ√(log p/n) + 4·noise_std·√(log p), with the noise that was really used.
    log_p = log(len(noisy.matrix))
    level = scale * options.gamma * sqrt(log_p / unit.n_rows) + 4 * sqrt(variance * log_p)
    return project_psd(threshold_matrix(noisy.matrix, level, rules[0]))


def shrunk(estimate: UnitEstimate) -> Estimate:
    """Shrink the second moment; a zero matrix comes with a bound on the truth's squared norm.

    UsageError where the noise is neither isotropic Gaussian nor released with its strata, so that
    the best shrinkage is not known.
    """
    if estimate.noise is None or (not estimate.parts and np.any(estimate.matrix)):
        raise UsageError(
            "How far to shrink this matrix is not known, since its noise is not isotropic or has "
            "no stated law, such as that of groups estimated together. Use post='psd' (--post psd)."
        )
    parts = estimate.parts
    zero = Estimate(np.zeros_like(estimate.matrix), estimate.trace_bound**2)
    if not parts:
        return zero
    if any(part.nuclear_scale is not None for part in parts):
        found = shrink_nuclear_strata(parts)
    elif estimate.parts_may_be_empty:
        found = shrink_strata(parts, estimate.joint_trace)
    else:
        found = Stratum.of(parts[0]).shrunk
    return found if np.any(found.matrix) else zero


def shrunk_covariance(estimate: UnitEstimate, intercept: float) -> Array:
    """Shrink the second moment beside the mean, which would hide the spread in one eigenvalue."""
    variance = estimate.noise.off_diagonal if estimate.noise else 0.0
    centering = Centering(noisy=estimate.matrix, variance=variance, unit=intercept)
    beside = _kept(
        replace(estimate, joint_trace=None),
        centering.compress,
        lambda back: centering.complement.T @ back,
        centering.trace_outside,
        2,
    )
    matrix, parts = beside.matrix - centering.leak, list(beside.parts)
    if not len(matrix):
        return centering.assemble(matrix)
    if parts:
        # What the mean leaves on the complement comes out of the largest part, which has most.
        most = int(np.argmax([np.trace(part.matrix) for part in parts]))
        part, trace = parts[most], parts[most].trace
        less = None if trace is None else trace - float(np.trace(centering.leak))
        parts[most] = replace(part, matrix=part.matrix - centering.leak, trace=less)
    return centering.assemble(shrunk(replace(beside, matrix=matrix, parts=tuple(parts))).matrix)


def restricted(unit: UnitEstimate, places: Places, others: Places) -> UnitEstimate:
    """The same for the columns at ``places`` alone; ``others`` are those left out that have rows.

    Traces lose what the others have.
    """
    block = np.ix_(places, places)
    return _kept(
        unit,
        lambda matrix: matrix[block],
        lambda back: back[places],
        lambda matrix: float(np.diagonal(matrix)[others].sum()),
        len(others),
    )


def along(unit: UnitEstimate, basis: Array) -> UnitEstimate:
    """The same for the directions of an orthonormal ``basis``, (d, q), of rows alone."""
    # Noise is alike in all directions, so it stays what it is.
    return _kept(
        unit,
        lambda matrix: basis.T @ matrix @ basis,
        lambda back: basis.T @ back,
        lambda matrix: float(np.trace(matrix) - np.sum(basis * (matrix @ basis))),
        len(basis) - basis.shape[1],
    )


def _kept(
    unit: UnitEstimate,
    compress: Callable[[Array], Array],
    rows: Callable[[Array], Array],
    outside: Callable[[Array], float],
    n_outside: int,
) -> UnitEstimate:
    # ``outside`` is the trace of a matrix in the other directions, ``n_outside``.
    parts, joint = [], unit.joint_trace
    for part in unit.parts:
        trace, variance, own = part.trace, part.trace_variance, part.diagonal_variance
        if trace is not None and variance and n_outside:
            if joint is not None and own and len(unit.parts) == 1:
                # Two noisy traces of one matrix.
                trace, variance = by_precision(trace, variance, joint * sqrt(own), own)
            trace -= outside(part.matrix)
            variance += n_outside * own
        kept = replace(part, matrix=compress(part.matrix), trace=trace, trace_variance=variance)
        parts.append(_rescaled(kept, len(part.matrix)))
    return replace(
        unit,
        matrix=compress(unit.matrix),
        parts=tuple(parts),
        joint_trace=None if n_outside else joint,
        sources=tuple(each._replace(back=rows(each.back)) for each in unit.sources),
    )


def _rescaled(part: Part, d: int) -> Part:
    """A part of a matrix that was (d, d), with a nuclear scale that gives entries their noise."""
    n, scale = len(part.matrix), part.nuclear_scale
    if scale is None or n == 0:
        return part
    ratio = entry_variances("nuclear", d)[1] / entry_variances("nuclear", n)[1]
    return replace(part, nuclear_scale=scale * sqrt(ratio))


POSTS: dict[Post, PostProcessing] = {
    "none": PostProcessing(
        words="none: the noisy matrix itself, unbiased, perhaps not positive semidefinite",
        apply=lambda noisy: noisy.matrix,
        squared_error=_noise,
        may_be_indefinite=True,
    ),
    "psd": PostProcessing(
        words="negative eigenvalues were set to zero", apply=lambda noisy: project_psd(noisy.matrix)
    ),
    "clip": PostProcessing(
        words="eigenvalues were clipped to what the public bounds allow",
        apply=lambda noisy: clip_eigenvalues(noisy.matrix, 0.0, noisy.trace_bound),
    ),
    "projection": PostProcessing(
        words="the nearest positive semidefinite matrix within the private trace was taken",
        apply=_projected,
    ),
    "shrink": PostProcessing(
        words="optimal shrinkage: directions that the noise dominates were pulled toward zero",
        apply=lambda noisy: noisy.shrunk[0],
        squared_error=lambda noisy: noisy.shrunk[1],
        drops_empty=True,
    ),
    "threshold": PostProcessing(
        words="small covariances were set to zero, then negative eigenvalues", apply=_thresholded
    ),
}


def find_post(name: Post) -> PostProcessing:
    """Look a post-processing up by name, or say which ones exist."""
    if isinstance(name, list | tuple):
        raise UsageError(_FEATURES)
    return POSTS[plain("post", name, Post)]

"""From published statistics to a second moment or covariance estimate: deterministic, free, repeatable.

Contract: reads noisy numbers only, so every choice made here can be changed later at no privacy cost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, sqrt
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import ReleaseError, UsageError
from dpcov.published.estimate.nuclear_strata import NuclearStratum, shrink_nuclear_strata
from dpcov.published.estimate.shrink import shrink
from dpcov.published.estimate.strata import FEW_FEATURES, shrink_strata
from dpcov.published.estimate.threshold import Rule, choose_threshold, threshold_matrix
from dpcov.published.linalg.project import clip_eigenvalues, project_psd, project_psd_trace
from dpcov.published.statistics import NoiseLaw, NoisyStatistics, Post, PostOptions, PublishedArray

Array = NDArray[np.float64]

POSTS: tuple[Post, ...] = get_args(Post)
DEFAULT_POST_OPTIONS = PostOptions()

ONE_IN_FORTY = log(20) / sqrt(2)
"""Standard deviations, 2.12, that Laplace noise exceeds upwards in one of 40 releases, and normal noise in fewer."""


@dataclass(frozen=True, kw_only=True)
class UnitEstimate:
    """Second moment of rows in the unit ball, before post-processing.

    Parameters
    ----------
    matrix : (d, d) float64
        Unbiased estimate of E[z z'].
    n_rows : float
        Public or estimated number of rows by which the sum was divided.
    noise_variance, off_diagonal_variance : float or None
        Variance of the noise on diagonal and off-diagonal entries of ``matrix``, where known.
    diagonal_covariance : float
        Covariance of the noise on any two diagonal entries.
    noise_is_normal, noise_is_nuclear : bool
        Whether that noise is Gaussian, or shaped like the nuclear norm.
    parts : tuple of Part
        What ``matrix`` is the sum of, where the noise of its parts is known.
    joint_trace : float or None
        Sum of the parts' traces, each in units of its own noise on a diagonal entry, with noise of variance one.
    parts_may_be_empty : bool
        Whether parts are strata, some of which may hold no row and should then be estimated as zero.
    trace_bound : float
        What the true trace exceeds in one of 40 releases at most: by noisy traces, and never above one.
    """

    matrix: Array
    n_rows: float
    noise_variance: float | None
    off_diagonal_variance: float | None = None
    diagonal_covariance: float = 0.0
    noise_is_normal: bool = False
    noise_is_nuclear: bool = False
    parts: tuple["Part", ...] = ()
    joint_trace: float | None = None
    parts_may_be_empty: bool = False
    trace_bound: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Part:
    """A stratum's share of the second moment, with Gaussian noise or noise shaped like the nuclear norm.

    Parameters
    ----------
    matrix : (d, d) float64
        Unbiased estimate of the part, already divided by the number of rows.
    diagonal_variance : float
        Noise variance of a diagonal entry; off-diagonal entries have half of it if the noise is Gaussian.
    trace, trace_variance : float or None
        Independent noisy trace of the part.
    nuclear_scale : float or None
        Scale s of noise W with density proportional to exp(-||W||_*/s); None if the noise is Gaussian.
    largest_trace : float
        Public bound on the trace of the part, were there no noise.
    """

    matrix: Array
    diagonal_variance: float
    trace: float | None
    trace_variance: float | None
    nuclear_scale: float | None = None
    largest_trace: float = float("inf")


def unit_estimate(statistics: NoisyStatistics, n_rows: int | None) -> UnitEstimate:
    """Undo the lattice, merge the private trace and divide by the number of rows."""
    if statistics.layout == "estimate":
        return _finished_estimate(statistics, n_rows)
    if statistics.layout == "strata":
        return _strata_estimate(statistics, n_rows)
    assert statistics.noise is not None
    step = statistics.radius**2 / 4.0**statistics.lattice_bits
    unit = step * 2.0**statistics.dropped_bits
    rows = float(n_rows) if n_rows is not None else _noisy_count(statistics)
    matrix: Array = statistics.arrays["sscp"].astype(np.float64) * unit
    law = _law(statistics.noise, step / rows)
    variance, merged = law["noise_variance"], "trace" in statistics.arrays
    if merged:
        matrix = _merge_trace(matrix, float(statistics.arrays["trace"][0]) * unit)
        # With a trace of the same variance the diagonal's covariance loses 11' / (d + 1) of its variance.
        law["diagonal_covariance"] = -variance / (len(matrix) + 1)
        law["noise_variance"] = variance + law["diagonal_covariance"]
    return UnitEstimate(
        matrix=matrix / rows,
        n_rows=rows,
        **law,
        parts=_single_part(statistics, unit / rows, variance),
        trace_bound=_trace_bound(
            float(np.trace(matrix)) / rows, len(matrix) * variance, statistics
        ),
    )


def _finished_estimate(statistics: NoisyStatistics, n_rows: int | None) -> UnitEstimate:
    """A finished matrix, with the variances of its noise where they are known."""
    known, law = n_rows is not None or "row_count" not in statistics.arrays, statistics.noise
    rows = float(n_rows or np.nan) if known else _noisy_count(statistics)
    matrix = np.asarray(statistics.arrays["second_moment"], dtype=np.float64)
    step = statistics.radius**2 / 4.0**statistics.lattice_bits / rows
    return UnitEstimate(
        matrix=matrix, n_rows=rows, **({"noise_variance": None} if law is None else _law(law, step))
    )


def _law(law: NoiseLaw, step: float) -> dict[str, Any]:
    """What is known of the noise on a matrix whose lattice has this step."""
    diagonal, off_diagonal = (
        float(law.diagonal_variance) * step**2,
        float(law.off_diagonal_variance) * step**2,
    )
    is_nuclear = "nuclear norm" in law.family
    return {
        "noise_variance": diagonal,
        "off_diagonal_variance": off_diagonal,
        # That of every law that no rotation changes.
        "diagonal_covariance": diagonal - 2 * off_diagonal if is_nuclear else 0.0,
        "noise_is_normal": "gaussian" in law.family,
        "noise_is_nuclear": is_nuclear,
    }


def _single_part(
    statistics: NoisyStatistics, unit: float, diagonal_variance: float
) -> tuple[Part, ...]:
    """The whole matrix as one part, if its noise is isotropic."""
    assert statistics.noise is not None
    diagonal, off = (
        int(statistics.noise.diagonal_variance),
        int(statistics.noise.off_diagonal_variance),
    )
    if diagonal != 2 * off or "gaussian" not in statistics.noise.family:
        return ()
    trace = statistics.noise.trace_variance
    part = Part(
        matrix=statistics.arrays["sscp"].astype(np.float64) * unit,
        diagonal_variance=diagonal_variance,
        trace=None if trace is None else float(statistics.arrays["trace"][0]) * unit,
        trace_variance=None if trace is None else diagonal_variance * (int(trace) / diagonal),
        largest_trace=statistics.radius**2,
    )
    return (part,)


def _strata_estimate(statistics: NoisyStatistics, n_rows: int | None) -> UnitEstimate:
    """Bring every group of shells to common units; what was dropped is estimated as zero."""
    assert statistics.noise is not None
    arrays, rows = (
        statistics.arrays,
        float(n_rows) if n_rows is not None else _noisy_count(statistics),
    )
    step = statistics.radius**2 / 4.0**statistics.lattice_bits / rows
    dropped = 2.0**statistics.dropped_bits
    law = statistics.noise
    diagonal, trace = (float(int(v or 0)) for v in (law.diagonal_variance, law.trace_variance))
    traces = arrays["trace"].astype(np.float64).reshape(statistics.n_groups, -1)
    groups = arrays.get("group", np.zeros(len(arrays["sscp"]), dtype=np.int64))
    parts = []
    firsts = arrays["first_shell"]
    outermosts = arrays.get("outermost_shell", firsts)
    for matrix, group, outermost, first, last in zip(
        arrays["sscp"], groups, outermosts, firsts, arrays["last_shell"], strict=True
    ):
        own, shells = step * 4.0 ** -float(first), np.arange(int(outermost), int(last) + 1)
        # Rows shortened to the first shell's radius have at least the trace that they have in their own shell's unit.
        steps = step * 4.0 ** -np.maximum(shells, first).astype(np.float64)
        parts.append(
            Part(
                matrix=matrix * (own * dropped),
                diagonal_variance=diagonal * own**2,
                trace=float(traces[int(group), shells] @ (steps * dropped)),
                trace_variance=trace * float(np.sum(steps**2)),
                nuclear_scale=None if law.scale is None else float(law.scale) * own,
                largest_trace=statistics.radius**2 * 4.0 ** -float(first),
            )
        )
    d, every = arrays["sscp"].shape[-1], step * 4.0 ** -np.arange(traces.shape[1], dtype=np.float64)
    return UnitEstimate(
        matrix=sum((part.matrix for part in parts), start=np.zeros((d, d))),
        n_rows=rows,
        **_law(law, step * sqrt(float(np.sum(16.0 ** -arrays["first_shell"])))),
        parts=tuple(parts),
        parts_may_be_empty=True,
        joint_trace=_joint_trace(arrays, dropped / sqrt(diagonal) if diagonal else 0.0),
        trace_bound=_trace_bound(
            float(np.sum(traces @ every)) * dropped,
            trace * statistics.n_groups * float(np.sum(every**2)),
            statistics,
        ),
    )


def _trace_bound(trace: float, variance: float, statistics: NoisyStatistics) -> float:
    """A noisy trace, and what its noise may have taken of it.

    Traces of rows that were shortened (a radius below 1) bound nothing but those.
    """
    return (
        min(1.0, max(0.0, trace) + ONE_IN_FORTY * sqrt(variance)) if statistics.radius == 1 else 1.0
    )


def _joint_trace(arrays: Mapping[str, PublishedArray], unit: float) -> float | None:
    """Sum of the parts' traces, each in units of its own noise, where it was released."""
    return float(arrays["joint_trace"][0]) * unit if "joint_trace" in arrays else None


def shrunk(estimate: UnitEstimate) -> tuple[Array, float]:
    """Optimal shrinkage of all parts together, and its expected squared Frobenius error.

    Where everything drowned in noise and the estimate is zero, that is an upper bound: the truth's norm is at most its
    trace, which rows in the unit ball keep at one.

    Raises
    ------
    UsageError
        When the release's noise is neither isotropic Gaussian nor released with its strata, so that its best
        shrinkage is not known.
    """
    if estimate.noise_variance is None or (not estimate.parts and np.any(estimate.matrix)):
        raise UsageError(
            "This release cannot be shrunk: its noise is not isotropic. Use another post-processing."
        )
    matrix, squared_error = _shrunk_parts(estimate)
    return (matrix, squared_error) if np.any(matrix) else (matrix, estimate.trace_bound**2)


def _shrunk_parts(estimate: UnitEstimate) -> tuple[Array, float]:
    if not estimate.parts:
        return np.zeros_like(estimate.matrix), 0.0
    if any(part.nuclear_scale is not None for part in estimate.parts):
        return _shrunk_nuclear(estimate.parts)
    if not estimate.parts_may_be_empty:
        return _shrunk_whole(estimate.parts[0])
    result = shrink_strata(
        [part.matrix for part in estimate.parts],
        off_diagonal_variances=[part.diagonal_variance / 2 for part in estimate.parts],
        **_traces(estimate.parts),
        joint_trace=estimate.joint_trace,
        clearest_is_inhabited=len(estimate.matrix) <= FEW_FEATURES,
    )
    return _within_ball(result.matrix, estimate.parts), result.expected_squared_error


def _shrunk_whole(part: Part) -> tuple[Array, float]:
    result = shrink(
        part.matrix,
        off_diagonal_variance=part.diagonal_variance / 2,
        trace=part.trace,
        trace_variance=part.trace_variance,
    )
    return _within_ball(result.matrix, (part,)), result.expected_squared_error


def _within_ball(matrix: Array, parts: tuple[Part, ...]) -> Array:
    """Project on the trace that rows no longer than the largest shell's radius can have; nearer to the truth."""
    largest = max(part.largest_trace for part in parts)
    return project_psd_trace(matrix, largest) if np.trace(matrix) > largest else matrix


def _shrunk_nuclear(parts: tuple[Part, ...]) -> tuple[Array, float]:
    result = shrink_nuclear_strata(
        NuclearStratum(
            noisy=part.matrix,
            scale=part.nuclear_scale,
            trace=part.trace,
            trace_variance=part.trace_variance,
            largest_trace=part.largest_trace,
        )
        for part in parts
        if part.nuclear_scale is not None
        and part.trace is not None
        and part.trace_variance is not None
    )
    return _within_ball(result.matrix, parts), result.expected_squared_error


def _traces(parts: tuple[Part, ...]) -> dict[str, list[float]]:
    """Noisy traces where every part has one."""
    traces = [part.trace for part in parts if part.trace is not None]
    variances = [part.trace_variance for part in parts if part.trace_variance is not None]
    return {"traces": traces, "trace_variances": variances} if len(traces) == len(parts) else {}


def _noisy_count(statistics: NoisyStatistics) -> float:
    """The private row count of all groups together, at least one so that it can divide."""
    return float(max(1, int(statistics.arrays["row_count"].sum())))


def _merge_trace(matrix: Array, trace: float) -> Array:
    """Combine the noisy diagonal with an independent noisy trace of the same variance (least squares).

    Minimizing ||A - Y||_F**2 + (tr A - t)**2 gives A = Y + (t - tr Y) / (d + 1) I.
    """
    merged: Array = matrix + np.eye(len(matrix)) * ((trace - np.trace(matrix)) / (len(matrix) + 1))
    return merged


def thresholded(
    estimate: UnitEstimate, matrix: Array, options: PostOptions, *, unit: float = 1.0
) -> Array:
    """Threshold off-diagonal entries, then set negative eigenvalues to zero (Wang, Xu, Yang 2019, Algorithm 1).

    Parameters
    ----------
    estimate : UnitEstimate
        Noise law and number of rows.
    matrix : (d, d) float64
        What to threshold: ``estimate.matrix``, or a covariance made of it.
    options : PostOptions
        Rule, and gamma or None.
    unit : float
        Factor by which ``matrix`` and its noise are larger than the estimate's.
    """
    variance = estimate.off_diagonal_variance
    if not estimate.noise_is_normal or not variance:
        raise UsageError(
            "This release cannot be thresholded: its noise is not Gaussian. Use another post."
        )
    rules: tuple[Rule, ...] = ("hard", "soft") if options.rule == "best" else (options.rule,)
    if options.gamma is None:
        return project_psd(
            choose_threshold(matrix, off_diagonal_variance=variance * unit**2, rules=rules).matrix
        )
    # gamma sqrt(log p / n) + 4 noise_std sqrt(log p), equation (10) with the noise std that was really used.
    log_p = log(len(matrix))
    level = options.gamma * sqrt(log_p / estimate.n_rows) + 4 * sqrt(variance * log_p)
    return project_psd(threshold_matrix(matrix, level * unit, rules[0]))


def post_process(
    matrix: Array, post: Post, trace_bound: float, options: PostOptions = DEFAULT_POST_OPTIONS
) -> Array:
    """Apply one of :data:`POSTS`; ``trace_bound`` bounds trace and eigenvalues of the truth."""
    bound = max(0.0, trace_bound)
    if post == "none":
        return matrix
    if post == "psd":
        return project_psd(matrix)
    if post == "clip":
        return clip_eigenvalues(matrix, 0.0, bound)
    if post == "projection" and options.trace == "public":
        return project_psd_trace(matrix, bound)
    if post == "projection":
        return project_psd_trace(matrix, min(bound, max(0.0, float(np.trace(matrix)))))
    raise UsageError(f"Unknown post-processing. Use one of: {', '.join(POSTS)}.")


def centered(estimate: UnitEstimate, intercept_is_public: float | None) -> tuple[Array, Array]:
    """Mean and raw covariance of the features from a second moment whose first coordinate is the intercept.

    Parameters
    ----------
    estimate : UnitEstimate
    intercept_is_public : float or None
        Known second moment of the intercept coordinate, or None when only the noisy one is known.

    Returns
    -------
    mean : (d - 1,) float64
    covariance : (d - 1, d - 1) float64
        Both relative to an intercept of 1.

    Raises
    ------
    ReleaseError
        When the intercept's noisy moment is not clearly positive: there is no mean to subtract.
    """
    matrix = estimate.matrix
    intercept = float(matrix[0, 0]) if intercept_is_public is None else intercept_is_public
    noise_std = sqrt(estimate.noise_variance or 0.0)
    if not intercept > 4 * noise_std * (intercept_is_public is None):
        raise ReleaseError(
            "The noise is larger than the number of rows, so means cannot be separated from variances. "
            "Use second_moment(), more rows or a larger budget."
        )
    mean = matrix[0, 1:] / intercept
    return mean, matrix[1:, 1:] / intercept - np.outer(mean, mean)

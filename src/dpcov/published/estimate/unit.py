"""From published statistics to an unbiased second moment of rows in the unit ball.

Contract: reads noisy numbers only, deterministically.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, log, sqrt
from typing import Any, NamedTuple, Self

import numpy as np

from dpcov.errors import ReleaseError
from dpcov.published.estimate.nuclear_law import laplace_part
from dpcov.published.file.statistics import NoiseLaw, NoisyStatistics
from dpcov.published.linalg.symmetric import Array

# In deviations, 2.12: Laplace noise exceeds it in one of 40 releases, normal noise less often.
ONE_IN_FORTY = log(20) / sqrt(2)

_PROBES, _PROBED_COLUMNS = 32, 4_000

STEP = 1e-3
"""Size of made-up noise, relative to that of the release."""


class Estimate(NamedTuple):
    """A symmetric estimate, (d, d), its estimated squared error, and its multiple of a guide."""

    matrix: Array
    risk: float
    guide_share: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """A stratum's share of the second moment: an unbiased estimate, (d, d), and its noise.

    ``diagonal_variance`` is that of a diagonal entry; Gaussian noise has half of it off the
    diagonal. ``trace`` is an independent noisy one.  ``nuclear_scale`` is the s of a density
    proportional to exp(-||W||_*/s), None if Gaussian.  ``largest_trace`` is a public bound.
    """

    matrix: Array
    diagonal_variance: float
    trace: float | None = None
    trace_variance: float | None = None
    nuclear_scale: float | None = None
    largest_trace: float = inf
    # Where a trace that is no longer known said that there are no rows, and half of what it may
    # be all the same; and what every source of the noise has of its variance.
    is_empty: bool = False
    reach: float = 0.0
    by_source: tuple[float, ...] = ()

    @classmethod
    def sum_of(cls, parts: Sequence["Part"]) -> Self:
        """Parts added up, without a nuclear scale: a sum is closer to a normal law than each."""
        return cls(
            matrix=np.sum([part.matrix for part in parts], axis=0),
            diagonal_variance=sum(part.diagonal_variance for part in parts),
            trace=_total([part.trace for part in parts]),
            trace_variance=_total([part.trace_variance for part in parts]),
            largest_trace=sum(part.largest_trace for part in parts),
            is_empty=all(part.is_empty for part in parts),
            reach=sum(part.reach for part in parts),
            by_source=tuple(map(sum, zip(*(part.by_source for part in parts), strict=True))),
        )


def _total(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def by_precision(one: float, variance: float, other: float, others: float) -> tuple[float, float]:
    """The average of two independent noisy numbers of these variances, and its own variance."""
    whole = variance + others
    return one + variance / whole * (other - one), variance * (others / whole)


class EntryNoise(NamedTuple):
    """Variances of diagonal and of other entries, and the covariance of any two diagonal ones."""

    diagonal: float
    off_diagonal: float
    between_diagonals: float = 0.0

    def times(self, factor: float) -> "EntryNoise":
        """That of noise times the root of a factor."""
        return EntryNoise(*(factor * each for each in self))

    @property
    def excess(self) -> float:
        """What a diagonal entry's variance has more than isotropic noise."""
        return self.diagonal - self.between_diagonals - 2 * self.off_diagonal


class Source(NamedTuple):
    """Noise N that was added in coordinates of its own: the second moment has back N back'.

    ``back``, (q, d), leads to encoded rows, or columns of them.
    """

    noise: EntryNoise
    back: Array


@dataclass(frozen=True, kw_only=True)
class UnitEstimate:
    """Second moment E[z z'] of rows in the unit ball, (d, d), unbiased, before post-processing.

    Its sum was divided by ``n_rows``, public or estimated with ``count_variance`` relative to its
    square.  ``parts`` is what it is the sum of, where their noise is known; as strata some may be
    estimated as zero.  ``joint_trace`` is the sum of the parts' traces, each in units of its own
    noise, with noise of variance one; ``trace_bound``, at most one, is what the true trace exceeds
    in one of 40 releases at most.  ``noise`` is None where it has no published law.  ``sources`` is
    what it is the sum of where coordinates differ; then the variances of parts and of the whole are
    averages.
    """

    matrix: Array
    n_rows: float
    noise: EntryNoise | None = None
    # Tails of the noise, from 0, those of a normal law, to 1, those of a Laplace law.
    laplace_part: float = 1.0
    noise_is_nuclear: bool = False
    parts: tuple[Part, ...] = ()
    joint_trace: float | None = None
    parts_may_be_empty: bool = False
    trace_bound: float = 1.0
    count_variance: float = 0.0
    sources: tuple[Source, ...] = ()


def unit_estimate(statistics: NoisyStatistics, n_rows: float | None) -> UnitEstimate:
    """Undo the lattice, merge the private trace and divide by the number of rows."""
    rows, count_variance, law = float(n_rows or np.nan), 0.0, statistics.noise
    if n_rows is None and "row_count" in statistics.arrays:
        # All groups together, at least one so that it can divide.
        rows = float(max(1, int(statistics.arrays["row_count"].sum())))
        if law is not None and law.row_count_variance is not None:
            count_variance = statistics.n_groups * float(law.row_count_variance) / rows**2
    step = statistics.radius**2 / 4.0**statistics.lattice_bits / rows
    readers = {"estimate": _finished, "sscp": _whole, "strata": _strata}
    made = readers[statistics.layout](statistics, rows, step)
    return replace(made, count_variance=count_variance)


def probes(unit: UnitEstimate) -> range:
    """Seeds of made-up noises that a derivative is averaged over; a large matrix needs fewer."""
    return range(int(np.clip(_PROBED_COLUMNS // len(unit.matrix), 2, _PROBES)))


def with_noise(unit: UnitEstimate, step: float, seed: int) -> UnitEstimate:
    """The same with made-up noise, ``step`` times as large as that of its own."""
    rng, parts = np.random.default_rng(seed), []
    for part in unit.parts:
        noise = _made_up(rng, len(part.matrix), part.diagonal_variance, part.diagonal_variance / 2)
        parts.append(replace(part, matrix=part.matrix + step * noise))
    if parts:
        matrix = np.sum([part.matrix for part in parts], axis=0)
        matrix += unit.matrix - np.sum([part.matrix for part in unit.parts], axis=0)
    else:
        law = unit.noise or EntryNoise(0.0, 0.0)
        matrix = unit.matrix + step * _made_up(rng, len(unit.matrix), *law[:2])
    return replace(unit, matrix=matrix, parts=tuple(parts))


def _made_up(
    rng: np.random.Generator, d: int, diagonal_variance: float, off_diagonal_variance: float
) -> Array:
    normal = np.triu(rng.standard_normal((d, d)))
    found = (normal + np.triu(normal, 1).T) * sqrt(off_diagonal_variance)
    np.fill_diagonal(found, np.diagonal(normal) * sqrt(diagonal_variance))
    return found


def _finished(statistics: NoisyStatistics, rows: float, step: float) -> UnitEstimate:
    matrix = np.asarray(statistics.arrays["second_moment"], dtype=np.float64)
    if statistics.noise is None:
        return UnitEstimate(matrix=matrix, n_rows=rows)
    law = _law(statistics.noise, step, len(matrix))
    variance = law["noise"].diagonal
    whole = Part(matrix=matrix, diagonal_variance=variance, largest_trace=statistics.radius**2)
    return UnitEstimate(
        matrix=matrix, n_rows=rows, **law, parts=(whole,) if law["laplace_part"] == 0 else ()
    )


def _whole(statistics: NoisyStatistics, rows: float, step: float) -> UnitEstimate:
    arrays, noise = statistics.arrays, statistics.noise
    assert noise is not None
    unit, d = step * 2.0**statistics.dropped_bits, arrays["sscp"].shape[-1]
    law = _law(noise, step, d)
    matrix: Array = arrays["sscp"].astype(np.float64) * unit
    variance = law["noise"].diagonal
    part = Part(matrix=matrix, diagonal_variance=variance, largest_trace=statistics.radius**2)
    if "trace" in arrays:
        trace = float(arrays["trace"][0]) * unit
        if noise.trace_variance is not None:
            trace_variance = float(noise.trace_variance) * step**2
            part = replace(part, trace=trace, trace_variance=trace_variance)
        # min ‖A − Y‖² + (tr A − t)² gives A = Y + (t − tr Y)/(d + 1)·I for a trace of the same
        # variance; the diagonal's covariance then loses 11'/(d + 1) of that variance.
        matrix = matrix + np.eye(d) * ((trace - np.trace(matrix)) / (d + 1))
        between = -variance / (d + 1)
        law["noise"] = EntryNoise(variance + between, law["noise"].off_diagonal, between)
    # Exact integers: only isotropic Gaussian noise has a known best shrinkage.
    is_isotropic = int(noise.diagonal_variance) == 2 * int(noise.off_diagonal_variance)
    return UnitEstimate(
        matrix=matrix,
        n_rows=rows,
        **law,
        parts=(part,) if is_isotropic and law["laplace_part"] == 0 else (),
        trace_bound=_trace_bound(float(np.trace(matrix)), d * variance, statistics),
    )


def _strata(statistics: NoisyStatistics, rows: float, step: float) -> UnitEstimate:
    # Every group of shells has its own lattice unit; what was dropped is estimated as zero.
    arrays, law = statistics.arrays, statistics.noise
    assert law is not None
    dropped = 2.0**statistics.dropped_bits
    diagonal, trace = (float(int(v or 0)) for v in (law.diagonal_variance, law.trace_variance))
    traces = arrays["trace"].astype(np.float64).reshape(statistics.n_groups, -1)
    firsts = arrays["first_shell"]
    groups = arrays.get("group", np.zeros(len(firsts), dtype=np.int64))
    outermosts = arrays.get("outermost_shell", firsts)
    lasts, parts = arrays["last_shell"], []
    places = zip(arrays["sscp"], groups, outermosts, firsts, lasts, strict=True)
    for matrix, group, outermost, first, last in places:
        shrinkage, shells = 4.0 ** -float(first), np.arange(int(outermost), int(last) + 1)
        own = step * shrinkage
        # Rows shortened to the first shell's radius keep at least the trace in their own unit.
        steps = step * 4.0 ** -np.maximum(shells, first).astype(np.float64)
        parts.append(
            Part(
                matrix=matrix * (own * dropped),
                diagonal_variance=diagonal * own**2,
                trace=float(traces[int(group), shells] @ (steps * dropped)),
                trace_variance=trace * float(np.sum(steps**2)),
                nuclear_scale=None if law.scale is None else float(law.scale) * own,
                largest_trace=min(1.0, statistics.radius**2 * shrinkage),
            )
        )
    d, every = arrays["sscp"].shape[-1], step * 4.0 ** -np.arange(traces.shape[1], dtype=np.float64)
    joint = [
        float(value) * dropped / sqrt(diagonal or inf) for value in arrays.get("joint_trace", ())
    ]
    whole, variance = float(np.sum(traces @ every)) * dropped, trace * statistics.n_groups
    return UnitEstimate(
        matrix=sum((part.matrix for part in parts), start=np.zeros((d, d))),
        n_rows=rows,
        **_law(law, step * sqrt(float(np.sum(16.0**-firsts))), d),
        parts=tuple(parts),
        parts_may_be_empty=True,
        joint_trace=joint[0] if joint else None,
        trace_bound=_trace_bound(whole, variance * float(np.sum(every**2)), statistics),
    )


def _law(law: NoiseLaw, step: float, dimension: int) -> dict[str, Any]:
    # What is known of the noise on a (d, d) matrix whose lattice has this step.
    diagonal = float(law.diagonal_variance) * step**2
    off_diagonal = float(law.off_diagonal_variance) * step**2
    is_nuclear, is_normal = "nuclear norm" in law.family, "gaussian" in law.family
    tails = laplace_part(dimension) if is_nuclear else float(not is_normal)
    # That of every law that no rotation changes.
    between = diagonal - 2 * off_diagonal if is_nuclear else 0.0
    return {
        "noise": EntryNoise(diagonal, off_diagonal, between),
        "laplace_part": tails,
        "noise_is_nuclear": is_nuclear,
    }


def _trace_bound(trace: float, variance: float, statistics: NoisyStatistics) -> float:
    # What the noise may have taken of the trace is given back.  Traces of rows that were shortened
    # (a radius below 1) bound nothing but those.
    bound = min(1.0, max(0.0, trace) + ONE_IN_FORTY * sqrt(variance))
    return bound if statistics.radius >= 1 else 1.0


# How to get what needs no means.
SECOND_MOMENT = "second_moment() (dpcov export --what second-moment)"


def centered(estimate: UnitEstimate, public_intercept: float | None) -> tuple[float, Array, Array]:
    """Intercept, mean (d - 1,) and raw covariance (d - 1, d - 1) of a second moment.

    The intercept is the first coordinate.  ReleaseError where the number of rows is not clearly
    positive: there is no mean to subtract.
    """
    matrix, variance = estimate.matrix, estimate.noise.diagonal if estimate.noise else 0.0
    if public_intercept is None:
        intercept = float(matrix[0, 0])
    else:
        intercept, variance = public_intercept, estimate.count_variance * public_intercept**2
    if not intercept > 4 * sqrt(variance):
        raise ReleaseError(
            "The noise exceeds the number of rows, or the sum of their weights, and hides the "
            f"means. Use {SECOND_MOMENT}, more rows or a larger budget; for a group also pooled."
        )
    mean = matrix[0, 1:] / intercept
    return intercept, mean, matrix[1:, 1:] / intercept - np.outer(mean, mean)

"""Estimate the sum of several positive semidefinite matrices, each observed with its own noise.

Promise: deterministic; decides by Stein's unbiased risk estimate of the whole sum which strata to shrink together and
reports that estimate.  Knows nothing of rows or privacy.

Notes
-----
Let f_g be the estimate of group g from its pooled observation Y_g and r_g its risk estimate.  The errors of different
groups are independent but biased in the same direction, so their cross terms count.  Since E(f_g − S_g) = E(f_g − Y_g),

    risk of the sum = Σ_g r_g + ‖Σ_g (f_g − Y_g)‖² − Σ_g ‖f_g − Y_g‖²

is unbiased again.  From the noisiest to the clearest, strata of comparable noise are either all pooled or each
shrunk alone, whichever has the lower estimated risk: pooling pays where each drowns in its noise and the sum does
not.
"""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpcov.errors import UsageError
from dpcov.linalg.shrink import ShrinkResult, shrink
from dpcov.linalg.symmetric import Array, symmetrize

COMPARABLE_NOISE = 8.0
"""Largest ratio of neighboring variances that may be pooled: a clear stratum has nothing to gain from a much noisier
one, and the estimated risk of their sum is too noisy to tell (norm shells a factor 2 apart differ by 16)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StratumGroup:
    """Strata that were added up before shrinking, and the estimate of their sum."""

    members: tuple[int, ...]
    result: ShrinkResult

    @property
    def action(self) -> str:
        """``"dropped"`` if estimated as zero, else ``"shrunk"`` alone or ``"pooled"`` with others."""
        if not np.any(self.result.eigenvalues):
            return "dropped"
        return "shrunk" if len(self.members) == 1 else "pooled"


@dataclass(frozen=True, kw_only=True, eq=False)
class StrataResult:
    """Estimate of the sum of all strata, shape (d, d), how it was made, and its expected squared error."""

    matrix: Array
    groups: tuple[StratumGroup, ...]
    expected_squared_error: float

    @property
    def actions(self) -> tuple[str, ...]:
        """What was done with each stratum, in the order they were given."""
        chosen = {member: group.action for group in self.groups for member in group.members}
        return tuple(chosen[index] for index in range(len(chosen)))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Observation:
    """The sum of some strata's noisy matrices, with its noise law."""

    members: tuple[int, ...]
    noisy: Array
    variance: float
    trace: float | None
    trace_variance: float | None

    def pooled_with(self, other: "_Observation") -> "_Observation":
        return _Observation(
            members=self.members + other.members,
            noisy=self.noisy + other.noisy,
            variance=self.variance + other.variance,
            trace=_sum(self.trace, other.trace),
            trace_variance=_sum(self.trace_variance, other.trace_variance),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """A shrunk observation; ``residual`` is its estimate minus its noisy matrix."""

    observation: _Observation
    result: ShrinkResult
    residual: Array

    @property
    def own_risk(self) -> float:
        return self.result.expected_squared_error - float(np.sum(self.residual**2))


def shrink_strata(
    noisy: Sequence[ArrayLike],
    *,
    off_diagonal_variances: ArrayLike,
    traces: ArrayLike | None = None,
    trace_variances: ArrayLike | None = None,
) -> StrataResult:
    """Estimate Σ_s S_s from noisy[s] = S_s + W_s, all in the same units.

    Parameters
    ----------
    noisy : sequence of array_like, each of shape (d, d)
    off_diagonal_variances : array_like of shape (number of strata,)
        Noise variance of the off-diagonal entries of each stratum; diagonal entries have twice that.
    traces, trace_variances : array_like of shape (number of strata,), optional
        Independent noisy traces and their variances.  Give both or neither.

    Returns
    -------
    StrataResult
    """
    runs = _comparable_runs(_observations(noisy, off_diagonal_variances, traces, trace_variances))
    parts: list[_Part] = []
    settled = np.zeros_like(runs[0][0].noisy)
    for run in runs:
        chosen = min(_alternatives(run), key=lambda alternative: _risk(alternative, settled))
        parts += chosen
        settled = _total_residual(chosen, settled)
    return StrataResult(
        matrix=sum((part.result.matrix for part in parts), start=np.zeros_like(settled)),
        groups=tuple(StratumGroup(members=part.observation.members, result=part.result) for part in parts),
        expected_squared_error=_risk(parts, np.zeros_like(settled)),
    )


def _comparable_runs(observations: list[_Observation]) -> list[list[_Observation]]:
    """Split observations ordered by variance wherever it falls by more than the comparable ratio."""
    runs = [observations[:1]]
    for previous, observation in itertools.pairwise(observations):
        if previous.variance > COMPARABLE_NOISE * observation.variance:
            runs.append([])
        runs[-1].append(observation)
    return runs


def _alternatives(run: list[_Observation]) -> list[list[_Part]]:
    separate = [_shrunk(observation) for observation in run]
    if len(run) == 1:
        return [separate]
    return [separate, [_shrunk(functools.reduce(_Observation.pooled_with, run))]]


def _risk(parts: list[_Part], settled: Array) -> float:
    """Risk of the sum of ``parts`` and of finished groups with residual ``settled``, up to the latter's own risk."""
    total = _total_residual(parts, settled)
    return sum(part.own_risk for part in parts) + float(np.sum(total**2))


def _total_residual(parts: list[_Part], settled: Array) -> Array:
    return sum((part.residual for part in parts), start=settled)


def _shrunk(observation: _Observation) -> _Part:
    result = shrink(
        observation.noisy,
        off_diagonal_variance=observation.variance,
        trace=observation.trace,
        trace_variance=observation.trace_variance,
    )
    return _Part(observation=observation, result=result, residual=result.matrix - observation.noisy)


def _observations(
    noisy: Sequence[ArrayLike],
    off_diagonal_variances: ArrayLike,
    traces: ArrayLike | None,
    trace_variances: ArrayLike | None,
) -> list[_Observation]:
    """Check the strata and return them from the noisiest to the clearest."""
    matrices = [symmetrize(matrix) for matrix in noisy]
    if not matrices or len({matrix.shape for matrix in matrices}) > 1:
        raise UsageError("Give at least one stratum, and matrices of one shape.")
    count = len(matrices)
    variances = _per_stratum(off_diagonal_variances, count)
    known_traces = [None] * count if traces is None else _per_stratum(traces, count)
    known_variances = [None] * count if trace_variances is None else _per_stratum(trace_variances, count)
    return [
        _Observation(
            members=(index,),
            noisy=matrices[index],
            variance=variances[index],
            trace=known_traces[index],
            trace_variance=known_variances[index],
        )
        for index in sorted(range(count), key=lambda index: -variances[index])
    ]


def _per_stratum(values: ArrayLike, count: int) -> list[float]:
    checked = np.asarray(values, dtype=np.float64)
    if checked.shape != (count,):
        raise UsageError(f"Expected one number per stratum, shape ({count},), got shape {checked.shape}.")
    return [float(value) for value in checked]


def _sum(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second

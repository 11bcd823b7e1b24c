"""Estimate the sum of several positive semidefinite matrices, each observed with its own noise.

Contract: deterministic; strata of noise alone are estimated as zero, strata of comparable noise are pooled or
not by Stein's unbiased risk estimate of the whole sum, and that estimate is reported.  Knows nothing of rows
or privacy.

Notes
-----
From the clearest to the noisiest, the sum of what is already estimated guides the next stratum: strata of one table
tend to share their directions, and the guide's noise is independent.  Three estimates of a stratum are averaged with
weights ∝ exp(−risk/8v): its own shrinkage, the multiple of the guide, and the guide's blocks (:mod:`structured`); where
nothing stands out it is zero.  Where there is no guide yet, shrinkage is blended with thresholding, which a sparse
matrix gains from.  docs/strata.md derives and measures the rules.

Let f_g be the estimate of group g from its pooled observation Y_g and r_g its risk estimate.  The errors of different
groups are independent but biased in the same direction, so their cross terms count.  Since E(f_g − S_g) = E(f_g − Y_g),

    risk of the sum = Σ_g r_g + ‖Σ_g (f_g − Y_g)‖² − Σ_g ‖f_g − Y_g‖²

is unbiased again for independent estimates.  A guided estimate f_g ≈ a·M + ... repeats the noise W of its guide
M = Σ f_t, which adds 2·E⟨W, f_g⟩ ≈ 2a·E⟨W, M⟩; that comes out of the risks themselves, since by Stein's identity
2·E⟨W_t, f_t⟩ = r_t − ‖f_t − Y_t‖² + v_t·d(d + 1) on average.  Strata without evidence are left out of the risk: their
noise would drown the number, and so would that of outer strata that are kept if it were not drawn toward what
shrinkage supposes.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt

import numpy as np
from numpy.typing import ArrayLike

from dpcov.errors import UsageError
from dpcov.published.estimate.stratum import NoisyMatrix, Stratum, pool, with_joint_trace
from dpcov.published.estimate.structured import (
    Candidate,
    blended,
    guided_candidates,
    sparse_candidate,
)
from dpcov.published.linalg.project import project_psd
from dpcov.published.linalg.symmetric import Array, is_positive_definite, symmetrize

COMPARABLE_NOISE = 8.0
"""Largest ratio of neighboring variances that may be pooled: a clear stratum has nothing to gain from a much noisier
one, and the estimated risk of their sum is too noisy to tell (norm shells a factor 2 apart differ by 16)."""

EVIDENCE_ALONE = 4.5
"""Standard deviations by which the clearest stratum that is kept must stand out: the alternative is the zero matrix."""

FEW_FEATURES = 10
"""Up to this dimension norm shells are released in one matrix, or in two, and the clearest is kept without evidence: a
wrong zero would cost more than its noise."""

EVIDENCE_NEARBY = 3.0
"""The same for a stratum as noisy as one that is kept; it grows with the ratio r of the noises to √(9 + 2 ln r), so
that the mean error of false alarms stays small beside the error of what is kept."""

NEGLIGIBLE_SHARE = 1e-12
"""A stratum's own shrinkage with a smaller share in the average is not made: its eigenvectors are most of the work."""

LEAST_ERROR = 0.25
"""Share of what shrinkage supposes below which no error is reported: an unbiased number of chance can be negative."""

SUPPOSED_ERROR = 1.0
"""By how much, relatively, the error that shrinkage of several strata supposes may be wrong (standard deviation)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StratumGroup:
    """Strata that were added up before shrinking, and the estimate of their sum."""

    members: tuple[int, ...]
    matrix: Array
    expected_squared_error: float

    @property
    def action(self) -> str:
        """``"dropped"`` if estimated as zero, else ``"shrunk"`` alone or ``"pooled"`` with others."""
        if not np.any(self.matrix):
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
class _Part:
    """An estimated stratum; ``residual`` is its estimate minus its noisy matrix."""

    stratum: Stratum
    estimate: Candidate

    @property
    def residual(self) -> Array:
        return self.estimate.matrix - self.stratum.noisy

    @property
    def own_risk(self) -> float:
        return self.estimate.risk - float(np.sum(self.residual**2))

    @property
    def own_noise(self) -> float:
        """Mean of ⟨noise, estimate⟩, by Stein's identity."""
        d = len(self.stratum.noisy)
        return (self.own_risk + self.stratum.variance * d * (d + 1)) / 2.0


def shrink_strata(
    noisy: Sequence[ArrayLike],
    *,
    off_diagonal_variances: ArrayLike,
    traces: ArrayLike | None = None,
    trace_variances: ArrayLike | None = None,
    joint_trace: float | None = None,
    clearest_is_inhabited: bool = False,
) -> StrataResult:
    """Estimate Σ_s S_s from noisy[s] = S_s + W_s, all in the same units.

    Parameters
    ----------
    noisy : sequence of array_like, each of shape (d, d)
    off_diagonal_variances : array_like of shape (number of strata,)
        Noise variance v of the off-diagonal entries of each stratum; diagonal entries have twice that.
    traces, trace_variances : array_like of shape (number of strata,), optional
        Independent noisy traces and their variances.  Give both or neither.
    joint_trace : float, optional
        A noisy value of Σ_s tr S_s / √(2v_s), with independent noise of variance 1; it helps where traces are given.
    clearest_is_inhabited : bool, default=False
        Whether the stratum of least noise is kept without evidence.

    Returns
    -------
    StrataResult
    """
    strata = _observations(noisy, off_diagonal_variances, traces, trace_variances)
    kept = _with_evidence(_comparable_runs(strata), clearest_is_inhabited)
    if joint_trace is not None:
        sharpened = iter(
            with_joint_trace([stratum for run in kept for stratum in run], joint_trace)
        )
        kept = [[next(sharpened) for _ in run] for run in kept]
    zero = np.zeros_like(strata[0].noisy)
    parts, total, residual = list[_Part](), zero, zero
    for run in kept:
        chosen = _estimate_run(run, total, residual)
        parts += chosen
        total = sum((part.estimate.matrix for part in chosen), start=total)
        residual = sum((part.residual for part in chosen), start=residual)
    dropped = set(range(len(strata))) - {
        member for part in parts for member in part.stratum.members
    }
    groups = [
        StratumGroup(
            members=part.stratum.members,
            matrix=part.estimate.matrix,
            expected_squared_error=part.estimate.risk,
        )
        for part in parts
    ]
    groups += [
        StratumGroup(members=(index,), matrix=zero, expected_squared_error=0.0) for index in dropped
    ]
    return StrataResult(
        matrix=total, groups=tuple(groups), expected_squared_error=_expected_squared_error(parts)
    )


def _comparable_runs(strata: list[Stratum]) -> list[list[Stratum]]:
    """Split strata, the clearest first, wherever the variance grows by more than the comparable ratio."""
    runs = [strata[:1]]
    for previous, stratum in itertools.pairwise(strata):
        if stratum.variance > COMPARABLE_NOISE * previous.variance:
            runs.append([])
        runs[-1].append(stratum)
    return runs


def _with_evidence(runs: list[list[Stratum]], clearest_is_inhabited: bool) -> list[list[Stratum]]:
    """Keep the runs in which, alone or together, something stands out from the noise."""
    kept, noise = list[list[Stratum]](), 0.0
    guide = _Guide(runs[0][0].noisy)
    for run in runs:
        together = run[0] if len(run) == 1 else pool(run)
        needed = _deviations(together.noise_std, noise if kept else None)
        if not kept and clearest_is_inhabited:
            needed = -inf
        tested = run if len(run) == 1 else [together, *run]
        if any(stratum.stands_out(needed, guide.matrix) for stratum in tested):
            kept.append(run)
            guide.waiting.append(together)
            noise = together.noise_std
    return kept


class _Guide:
    """The sum of shrunk strata; what was added since it was last asked for is shrunk when it is asked for again."""

    def __init__(self, like: Array) -> None:
        self.waiting: list[Stratum] = []
        self._sum = np.zeros_like(like)

    def matrix(self) -> Array:
        while self.waiting:
            self._sum = self._sum + self.waiting.pop(0).shrunk().matrix
        return self._sum


def _deviations(noise: float, noise_of_kept: float | None) -> float:
    if noise_of_kept is None:
        return EVIDENCE_ALONE
    if noise_of_kept == 0.0:
        return EVIDENCE_ALONE + EVIDENCE_NEARBY
    return sqrt(EVIDENCE_NEARBY**2 + 2.0 * max(0.0, log(noise / noise_of_kept)))


def _estimate_run(run: list[Stratum], guide: Array, residual: Array) -> list[_Part]:
    """Estimate comparable strata one by one or pooled, whichever has the lower risk together with the residual."""
    separate = [_estimated(stratum, guide) for stratum in run]
    if len(run) == 1:
        return separate
    alternatives = [separate, [_estimated(pool(run), guide)]]
    return min(alternatives, key=lambda parts: _risk(parts, residual))


def _risk(parts: list[_Part], residual: Array) -> float:
    """Risk of the sum of ``parts`` and of a finished sum with this residual, up to the latter's own risk."""
    total = sum((part.residual for part in parts), start=residual)
    return sum(part.own_risk for part in parts) + float(np.sum(total**2))


def _expected_squared_error(parts: list[_Part]) -> float:
    """The unbiased risk of the sum; of several strata drawn toward the noise in it by as much as the risk is noise.

    The variance of Stein's estimate is at most about that of ‖W‖², 4v²d(d + 1) for each stratum: noise of an outer one
    hides the error of all others.  The mean of ⟨noise, estimate⟩ has little variance and is the error of an estimate
    whose bias is as its shrinkage supposes (the posterior variance of a Bayes estimate, by Tweedie's formula).
    """
    if not parts:
        return 0.0
    supposed = variance = 0.0
    for part in parts:
        supposed = (1.0 + part.estimate.guide_share) ** 2 * supposed + max(0.0, part.own_noise)
        d = len(part.stratum.noisy)
        variance += 4.0 * part.stratum.variance**2 * d * (d + 1)
    unbiased = _risk(parts, np.zeros_like(parts[0].residual)) + _repeated_noise(parts)
    least = LEAST_ERROR * supposed
    if len(parts) == 1 or variance == 0.0:
        return max(unbiased, least)
    prior = (SUPPOSED_ERROR * supposed) ** 2
    return max(supposed + prior / (prior + variance) * (unbiased - supposed), least)


def _repeated_noise(parts: list[_Part]) -> float:
    """What the risk lacks because guided parts, in the order of estimation, repeat their guide's noise."""
    repeated = noise = 0.0
    for part in parts:
        repeated += 2.0 * part.estimate.guide_share * noise
        noise = (1.0 + part.estimate.guide_share) * noise + part.own_noise
    return repeated


def _estimated(stratum: Stratum, guide: Array) -> _Part:
    if stratum.variance == 0.0:
        return _Part(stratum=stratum, estimate=_own(stratum))
    if not np.any(guide):
        return _Part(stratum=stratum, estimate=_perhaps_sparse(_own(stratum), stratum))
    guided = guided_candidates(stratum.noisy, off_diagonal_variance=stratum.variance, guide=guide)
    others = list(guided.values())
    least = min(candidate.risk for candidate in others)
    counts = (
        exp(min(0.0, least - stratum.shrunk_risk()) / (8.0 * stratum.variance)) > NEGLIGIBLE_SHARE
    )
    found = [_own(stratum), *others] if counts else others
    return _Part(stratum=stratum, estimate=_averaged(found, stratum.variance))


def _own(stratum: Stratum) -> Candidate:
    alone = stratum.shrunk()
    return Candidate(matrix=alone.matrix, risk=alone.expected_squared_error)


def _perhaps_sparse(own: Candidate, stratum: Stratum) -> Candidate:
    """Blend shrinkage with thresholding, unless so few entries could not tell whether the matrix is sparse."""
    if len(own.matrix) <= FEW_FEATURES:
        return own
    trace, trace_std = stratum.best_trace()
    sparse = sparse_candidate(
        stratum.noisy,
        off_diagonal_variance=stratum.variance,
        trace=trace,
        trace_variance=trace_std**2,
    )
    found = blended(own, sparse, stratum.variance)
    return own if found is own else _positive(found)


def _averaged(candidates: list[Candidate], variance: float) -> Candidate:
    """Average with weights ∝ exp(−risk/8v), as in shrinkage, then make it positive semidefinite."""
    least = min(candidate.risk for candidate in candidates)
    shares = [exp((least - candidate.risk) / (8.0 * variance)) for candidate in candidates]
    weights = [share / sum(shares) for share in shares]
    mean = np.sum(
        [weight * candidate.matrix for weight, candidate in zip(weights, candidates, strict=True)],
        axis=0,
    )
    return _positive(
        Candidate(
            matrix=mean,
            risk=sum(
                weight * candidate.risk
                for weight, candidate in zip(weights, candidates, strict=True)
            ),
            guide_share=sum(
                weight * candidate.guide_share
                for weight, candidate in zip(weights, candidates, strict=True)
            ),
        )
    )


def _positive(candidate: Candidate) -> Candidate:
    """Project on the positive semidefinite matrices, a convex set that holds S: ‖Pf − S‖² ≤ ‖f − S‖² − ‖f − Pf‖²."""
    if is_positive_definite(candidate.matrix):
        return candidate
    projected = project_psd(candidate.matrix)
    gained = float(np.sum((candidate.matrix - projected) ** 2))
    return replace(candidate, matrix=projected, risk=candidate.risk - gained)


def _observations(
    noisy: Sequence[ArrayLike],
    off_diagonal_variances: ArrayLike,
    traces: ArrayLike | None,
    trace_variances: ArrayLike | None,
) -> list[Stratum]:
    """Check the strata and return them from the clearest to the noisiest."""
    matrices = [symmetrize(matrix) for matrix in noisy]
    if not matrices or len({matrix.shape for matrix in matrices}) > 1:
        raise UsageError("Give at least one stratum, and matrices of one shape.")
    count = len(matrices)
    variances = _per_stratum(off_diagonal_variances, count)
    if (traces is None) != (trace_variances is None):
        raise UsageError("Give both traces and trace_variances, or neither.")
    known_traces = [None] * count if traces is None else _per_stratum(traces, count)
    known_variances = (
        [None] * count if trace_variances is None else _per_stratum(trace_variances, count)
    )
    return [
        Stratum(
            members=(index,),
            observed=NoisyMatrix(entries=matrices[index]),
            variance=variances[index],
            trace=known_traces[index],
            trace_variance=known_variances[index],
        )
        for index in sorted(range(count), key=lambda index: variances[index])
    ]


def _per_stratum(values: ArrayLike, count: int) -> list[float]:
    checked = np.asarray(values, dtype=np.float64)
    if checked.shape != (count,):
        raise UsageError(
            f"Expected one number per stratum, shape ({count},), got shape {checked.shape}."
        )
    if not (np.isfinite(checked).all()):
        raise UsageError("Variances and traces of strata must be finite numbers.")
    return [float(value) for value in checked]

"""Estimate the sum of positive semidefinite matrices, each observed with its own Gaussian noise.

Contract: deterministic; strata of noise alone are estimated as zero, strata of comparable noise are
pooled or not by Stein's unbiased risk estimate of the whole sum, which is reported.

Notes
-----
From the clearest to the noisiest, the sum of what is already estimated guides the next stratum:
strata of one table tend to share their directions, and the guide's noise is independent.  Three
estimates of a stratum are averaged with weights ∝ exp(−risk/8v): its own shrinkage, the multiple of
the guide, and the guide's blocks (:mod:`structured`); where nothing stands out it is zero.  Where
there is no guide yet, shrinkage is blended with thresholding, which a sparse matrix gains from.
docs/strata.md derives and measures the rules.

Let f_g be the estimate of group g from its pooled observation Y_g, r_g its risk estimate.  Errors
of groups are independent but biased in the same direction, so their cross terms count.  Since
E(f_g − S_g) = E(f_g − Y_g),

    risk of the sum = Σ_g r_g + ‖Σ_g (f_g − Y_g)‖² − Σ_g ‖f_g − Y_g‖²

is unbiased again for independent estimates.  A guided estimate f_g ≈ a·M + ... repeats the noise W
of its guide M = Σ f_t, which adds 2·E⟨W, f_g⟩ ≈ 2a·E⟨W, M⟩; that comes out of the risks themselves:
by Stein's identity 2·E⟨W_t, f_t⟩ = r_t − ‖f_t − Y_t‖² + v_t·d(d + 1) on average.  Strata without
evidence are left out of the risk: their noise would drown the number, and so would that of kept
outer strata if it were not drawn toward what shrinkage supposes.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt

import numpy as np

from dpcov.published.estimate.stratum import Stratum, pool, with_joint_trace
from dpcov.published.estimate.structured import (
    Candidate,
    blended,
    guided_candidates,
    sparse_candidate,
)
from dpcov.published.estimate.unit import Part
from dpcov.published.linalg.project import project_psd
from dpcov.published.linalg.symmetric import Array, is_positive_definite

# Largest ratio of neighboring variances that may be pooled: a clear stratum gains nothing from a
# much noisier one, and the risk of their sum is too noisy to tell (norm shells differ by 16).
COMPARABLE_NOISE = 8.0

# Standard deviations by which the clearest kept stratum must stand out: else all is zero.
EVIDENCE_ALONE = 4.5

# The same for a stratum as noisy as one that is kept.  It grows with the ratio r of the noises to
# √(9 + 2 ln r), so that the mean error of false alarms stays small beside the error of the rest.
EVIDENCE_NEARBY = 3.0

# Up to this dimension shells are released in one or two matrices, and the clearest is kept without
# evidence: a wrong zero would cost more than its noise.
FEW_FEATURES = 10

# A stratum's own shrinkage with a smaller share is not made: eigenvectors are most of the work.
NEGLIGIBLE_SHARE = 1e-12

# Share of what shrinkage supposes below which no error is reported: chance can make it negative.
LEAST_ERROR = 0.25

# Relative standard deviation of the error that shrinkage of several strata supposes.
SUPPOSED_ERROR = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class StratumGroup:
    """Strata that were added up before shrinking, and the estimate of their sum."""

    members: tuple[int, ...]
    matrix: Array
    expected_squared_error: float

    @property
    def action(self) -> str:
        """``"dropped"`` if estimated as zero, else ``"shrunk"`` alone or ``"pooled"``."""
        if not np.any(self.matrix):
            return "dropped"
        return "shrunk" if len(self.members) == 1 else "pooled"


@dataclass(frozen=True, kw_only=True, eq=False)
class StrataResult:
    """Estimate of the sum of all strata, (d, d), and how it was made."""

    matrix: Array
    groups: tuple[StratumGroup, ...]
    expected_squared_error: float

    @property
    def actions(self) -> tuple[str, ...]:
        """What was done with each stratum, in the order they were given."""
        chosen = {member: group.action for group in self.groups for member in group.members}
        return tuple(chosen[index] for index in range(len(chosen)))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Estimated:
    """A stratum with its estimate; ``residual`` is the estimate minus the noisy matrix."""

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
    parts: Sequence[Part], *, joint_trace: float | None = None, clearest_is_inhabited: bool = False
) -> StrataResult:
    """Estimate Σ_s S_s from at least one noisy S_s + W_s, all in the same units.

    Parameters
    ----------
    parts : sequence of Part
        With Gaussian noise.
    joint_trace : float, optional
        A noisy value of Σ_s tr S_s / √(2v_s), with independent noise of variance 1, v_s being the
        noise variance off the diagonal; it helps where parts have traces.
    clearest_is_inhabited : bool, default=False
        Whether the stratum of least noise is kept without evidence.
    """
    strata = [Stratum.of(index, part) for index, part in enumerate(parts)]
    strata.sort(key=lambda stratum: stratum.variance)
    kept = _with_evidence(_comparable_runs(strata), clearest_is_inhabited)
    if joint_trace is not None:
        sharpened = iter(with_joint_trace(list(itertools.chain(*kept)), joint_trace))
        kept = [[next(sharpened) for _ in run] for run in kept]
    zero = np.zeros_like(strata[0].noisy)
    found, total, residual = list[_Estimated](), zero, zero
    for run in kept:
        chosen = _estimate_run(run, total, residual)
        found += chosen
        total = sum((each.estimate.matrix for each in chosen), start=total)
        residual = sum((each.residual for each in chosen), start=residual)
    groups = [
        StratumGroup(
            members=each.stratum.members,
            matrix=each.estimate.matrix,
            expected_squared_error=each.estimate.risk,
        )
        for each in found
    ]
    used = {member for group in groups for member in group.members}
    groups += [
        StratumGroup(members=(index,), matrix=zero, expected_squared_error=0.0)
        for index in set(range(len(strata))) - used
    ]
    return StrataResult(
        matrix=total, groups=tuple(groups), expected_squared_error=_expected_squared_error(found)
    )


def _comparable_runs(strata: list[Stratum]) -> list[list[Stratum]]:
    """Split strata, the clearest first, where the variance grows by more than the ratio."""
    runs = [strata[:1]]
    for previous, stratum in itertools.pairwise(strata):
        if stratum.variance > COMPARABLE_NOISE * previous.variance:
            runs.append([])
        runs[-1].append(stratum)
    return runs


def _with_evidence(runs: list[list[Stratum]], clearest_is_inhabited: bool) -> list[list[Stratum]]:
    """Keep the runs in which, alone or together, something stands out from the noise."""
    kept, guide = list[list[Stratum]](), _Guide(runs[0][0].noisy)
    needed, noise = -inf if clearest_is_inhabited else EVIDENCE_ALONE, 0.0
    for run in runs:
        together = run[0] if len(run) == 1 else pool(run)
        if kept:
            needed = _needed_beside(noise, together.noise_std)
        tested = run if len(run) == 1 else [together, *run]
        if any(stratum.stands_out(needed, guide.matrix) for stratum in tested):
            kept.append(run)
            guide.waiting.append(together)
            noise = together.noise_std
    return kept


def _needed_beside(kept_noise: float, noise: float) -> float:
    if kept_noise == 0.0:
        return EVIDENCE_ALONE + EVIDENCE_NEARBY
    return sqrt(EVIDENCE_NEARBY**2 + 2.0 * max(0.0, log(noise / kept_noise)))


class _Guide:
    """The sum of shrunk strata; those added since it was last asked for are shrunk when it is."""

    def __init__(self, like: Array) -> None:
        self.waiting: list[Stratum] = []
        self._sum = np.zeros_like(like)

    def matrix(self) -> Array:
        while self.waiting:
            self._sum = self._sum + self.waiting.pop(0).shrunk()[0]
        return self._sum


def _estimate_run(run: list[Stratum], guide: Array, residual: Array) -> list[_Estimated]:
    """Estimate comparable strata one by one or pooled, whichever has the lower total risk."""
    separate = [_estimated(stratum, guide) for stratum in run]
    if len(run) == 1:
        return separate
    alternatives = [separate, [_estimated(pool(run), guide)]]
    return min(alternatives, key=lambda found: _risk(found, residual))


def _risk(found: list[_Estimated], residual: Array) -> float:
    """Risk of the sum with a finished one of this residual, up to the latter's own risk."""
    total = sum((each.residual for each in found), start=residual)
    return sum(each.own_risk for each in found) + float(np.sum(total**2))


def _expected_squared_error(found: list[_Estimated]) -> float:
    """The unbiased risk of the sum, drawn toward what shrinkage supposes where it is noisy."""
    if not found:
        return 0.0
    supposed = variance = repeated = noise = 0.0
    for each in found:
        d, share = len(each.stratum.noisy), each.estimate.guide_share
        # The mean of ⟨noise, estimate⟩ has little variance, and is the error of an estimate whose
        # bias is as its shrinkage supposes (a Bayes estimate's posterior variance, by Tweedie).
        supposed = (1.0 + share) ** 2 * supposed + max(0.0, each.own_noise)
        # About the variance of ‖W‖²: noise of an outer stratum hides the error of all others.
        variance += 4.0 * each.stratum.variance**2 * d * (d + 1)
        # What the risk lacks because guided strata repeat the noise of their guide.
        repeated += 2.0 * share * noise
        noise = (1.0 + share) * noise + each.own_noise
    unbiased = _risk(found, np.zeros_like(found[0].residual)) + repeated
    least = LEAST_ERROR * supposed
    if len(found) == 1 or variance == 0.0:
        return max(unbiased, least)
    prior = (SUPPOSED_ERROR * supposed) ** 2
    return max(supposed + prior / (prior + variance) * (unbiased - supposed), least)


def _estimated(stratum: Stratum, guide: Array) -> _Estimated:
    return _Estimated(stratum=stratum, estimate=_estimate(stratum, guide))


def _estimate(stratum: Stratum, guide: Array) -> Candidate:
    v = stratum.variance
    if v == 0.0:
        return _own(stratum)
    if not np.any(guide):
        return _perhaps_sparse(_own(stratum), stratum)
    found = list(guided_candidates(stratum.noisy, off_diagonal_variance=v, guide=guide).values())
    least = min(candidate.risk for candidate in found)
    if exp(min(0.0, least - stratum.shrunk_risk()) / (8.0 * v)) > NEGLIGIBLE_SHARE:
        found = [_own(stratum), *found]
    return _averaged(found, v)


def _own(stratum: Stratum) -> Candidate:
    matrix, risk = stratum.shrunk()
    return Candidate(matrix=matrix, risk=risk)


def _perhaps_sparse(own: Candidate, stratum: Stratum) -> Candidate:
    """Blend shrinkage with thresholding, unless entries are too few to tell a sparse matrix."""
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
    risks = np.array([candidate.risk for candidate in candidates])
    shares = np.exp((risks.min() - risks) / (8.0 * variance))
    weights = shares / shares.sum()
    return _positive(
        Candidate(
            matrix=np.tensordot(weights, [candidate.matrix for candidate in candidates], axes=1),
            risk=float(weights @ risks),
            guide_share=float(weights @ [candidate.guide_share for candidate in candidates]),
        )
    )


def _positive(candidate: Candidate) -> Candidate:
    """Project on the positive semidefinite matrices: ‖Pf − S‖² ≤ ‖f − S‖² − ‖f − Pf‖²."""
    if is_positive_definite(candidate.matrix):
        return candidate
    projected = project_psd(candidate.matrix)
    gained = float(np.sum((candidate.matrix - projected) ** 2))
    return replace(candidate, matrix=projected, risk=candidate.risk - gained)

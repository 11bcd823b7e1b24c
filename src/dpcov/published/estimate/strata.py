"""Estimate the sum of positive semidefinite matrices, each observed with its own Gaussian noise.

Contract: deterministic; strata of noise alone are estimated as zero, strata of comparable noise are
pooled or not by Stein's unbiased risk estimate of the whole sum, which is reported.  From the
clearest to the noisiest, what is already estimated guides the next one (docs/strata.md).
"""

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from math import exp, inf, log, sqrt
from typing import NamedTuple

import numpy as np
import scipy.linalg

from dpcov.errors import UsageError
from dpcov.published.estimate.risk import risk_weights
from dpcov.published.estimate.shrink import shrink_values
from dpcov.published.estimate.structured import blended, guided_candidates, sparse_candidate
from dpcov.published.estimate.unit import Estimate, Part, by_precision
from dpcov.published.linalg import symmetric
from dpcov.published.linalg.project import project_psd
from dpcov.published.linalg.symmetric import Array, EigenSystem, compose, eigenvalues, eigh

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


class Stratum(Part):
    """The sum of some parts: a symmetric matrix with Gaussian noise and perhaps a noisy trace."""

    @classmethod
    def of(cls, part: Part) -> "Stratum":
        """One part as a stratum of its own."""
        known = [part.diagonal_variance, part.trace or 0.0, part.trace_variance or 0.0]
        if not np.isfinite(known).all():
            raise UsageError("Variances and traces of strata must be finite numbers.")
        return cls(**vars(part) | {"matrix": symmetric.symmetrize(part.matrix)})

    @cached_property
    def system(self) -> EigenSystem:
        """Eigenvalues and eigenvectors: computed once, and never for a stratum that is dropped."""
        return eigh(self.matrix)

    @property
    def variance(self) -> float:
        """That of an off-diagonal entry, v."""
        return self.diagonal_variance / 2

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise along a unit direction."""
        return sqrt(self.diagonal_variance)

    @cached_property
    def shrunk(self) -> Estimate:
        """The estimate that uses nothing but the stratum itself."""
        values, vectors = self.system
        shrunk, risk = shrink_values(values, self.variance, self.trace, self.trace_variance)
        return Estimate(compose(shrunk, vectors), risk)

    def shrunk_risk(self) -> float:
        """The risk of :meth:`shrunk`, without eigenvectors."""
        is_known = "system" in self.__dict__
        values = self.system.values if is_known else eigenvalues(self.matrix)
        return shrink_values(values, self.variance, self.trace, self.trace_variance)[1]

    def stands_out(self, deviations: float, guide: Callable[[], Array]) -> bool:
        """Whether trace, component along the guide (zero: no guide) or largest eigenvalue do.

        Noise alone does no more often than a normal number exceeds so many ``deviations``.
        """
        if self.variance == 0.0:
            return bool(np.any(self.matrix))
        # In the order of their cost; the guide is not made where the trace is enough.
        trace, trace_std = self.best_trace()
        if trace > deviations * trace_std:
            return True
        size = float(np.linalg.norm(known := guide()))
        if size > 0 and np.vdot(self.matrix, known) / size > deviations * self.noise_std:
            return True
        # A convex 1-Lipschitz function of the noise with mean at most 2√(dv) (Sudakov, Fernique),
        # so its median is not larger (Kwapień) and its tail normal (Gaussian isoperimetry).
        d = len(self.matrix)
        largest = scipy.linalg.eigvalsh(self.matrix, subset_by_index=[d - 1, d - 1])[0]
        return bool(largest > 2.0 * sqrt(d * self.variance) + deviations * self.noise_std)

    def best_trace(self) -> tuple[float, float]:
        """The two traces averaged by precision, and the standard deviation of that."""
        own, own_variance = float(np.trace(self.matrix)), self.noise_std**2 * len(self.matrix)
        if self.trace is None or self.trace_variance is None:
            return own, sqrt(own_variance)
        trace, variance = by_precision(own, own_variance, self.trace, self.trace_variance)
        return trace, sqrt(variance)


def with_joint_trace(strata: Sequence[Stratum], joint_trace: float) -> list[Stratum]:
    """Sharpen the traces of strata by ``joint_trace``, Σ tr S_s / noise_std_s + N(0, 1)."""
    known = [s.trace is not None and s.variance and s.trace_variance for s in strata]
    if not known or not all(known):
        return list(strata)
    stds = np.array([stratum.noise_std for stratum in strata])
    own = np.array([np.trace(stratum.matrix) for stratum in strata]) / stds
    given = np.array([stratum.trace for stratum in strata], dtype=float) / stds
    precision = stds**2 / np.array([stratum.trace_variance for stratum in strata], dtype=float)
    own_precision = 1.0 / len(strata[0].matrix)
    # The scaled traces have precision diag(p) + 11ᵀ, p counting both traces of a stratum.  What
    # the matrix itself knows is taken out of the marginals again, because shrinking puts it in.
    covariance = np.linalg.inv(np.diag(precision + own_precision) + 1.0)
    mean = covariance @ (own * own_precision + given * precision + joint_trace)
    marginal = 1.0 / np.diag(covariance)
    sharper = marginal - own_precision
    traces = (mean * marginal - own * own_precision) / sharper * stds
    found = zip(strata, traces.tolist(), (stds**2 / sharper).tolist(), strict=True)
    return [replace(stratum, trace=t, trace_variance=variance) for stratum, t, variance in found]


class EstimatedStratum(NamedTuple):
    """A stratum, perhaps pooled of several, with its estimate."""

    stratum: Stratum
    estimate: Estimate

    @property
    def residual(self) -> Array:
        """Estimate minus noisy matrix."""
        return self.estimate.matrix - self.stratum.matrix

    @property
    def own_risk(self) -> float:
        """Estimated risk without the squared residual."""
        return self.estimate.risk - float(np.sum(self.residual**2))


def shrink_strata(parts: Sequence[Part], joint_trace: float | None = None) -> Estimate:
    """Estimate Σ_s S_s from at least one S_s + W_s with Gaussian noise, all in the same units.

    ``joint_trace`` is Σ_s tr S_s / √(2v_s) with independent noise of variance 1, v_s being the
    variance off the diagonal.
    """
    found = estimated_strata(parts, joint_trace)
    total = sum((each.estimate.matrix for each in found), start=np.zeros_like(parts[0].matrix))
    return Estimate(total, _expected_squared_error(found))


def estimated_strata(
    parts: Sequence[Part], joint_trace: float | None = None
) -> list[EstimatedStratum]:
    """What :func:`shrink_strata` keeps, the clearest first."""
    strata = sorted(map(Stratum.of, parts), key=lambda stratum: stratum.variance)
    kept = _with_evidence(_comparable_runs(strata))
    if joint_trace is not None:
        sharpened = iter(with_joint_trace(list(itertools.chain(*kept)), joint_trace))
        kept = [[next(sharpened) for _ in run] for run in kept]
    found, total = list[EstimatedStratum](), np.zeros_like(strata[0].matrix)
    residual = total
    for run in kept:
        chosen = _estimate_run(run, total, residual)
        found += chosen
        total = sum((each.estimate.matrix for each in chosen), start=total)
        residual = sum((each.residual for each in chosen), start=residual)
    return found


def _comparable_runs(strata: list[Stratum]) -> list[list[Stratum]]:
    # From the clearest on: pooling with a much noisier stratum gains nothing.
    runs = [strata[:1]]
    for previous, stratum in itertools.pairwise(strata):
        if stratum.variance > COMPARABLE_NOISE * previous.variance:
            runs.append([])
        runs[-1].append(stratum)
    return runs


def _with_evidence(runs: list[list[Stratum]]) -> list[list[Stratum]]:
    # A run may stand out together although none of its strata does alone.
    kept, pooled = list[list[Stratum]](), list[Stratum]()
    zero = np.zeros_like(runs[0][0].matrix)
    needed = -inf if len(zero) <= FEW_FEATURES else EVIDENCE_ALONE

    def guide() -> Array:
        return sum((stratum.shrunk.matrix for stratum in pooled), start=zero)

    for run in runs:
        together = run[0] if len(run) == 1 else Stratum.sum_of(run)
        if pooled and pooled[-1].variance == 0.0:
            needed = EVIDENCE_ALONE + EVIDENCE_NEARBY
        elif pooled:
            ratio = together.noise_std / pooled[-1].noise_std
            needed = sqrt(EVIDENCE_NEARBY**2 + 2.0 * max(0.0, log(ratio)))
        if any(stratum.stands_out(needed, guide) for stratum in dict.fromkeys([together, *run])):
            kept.append(run)
            pooled.append(together)
    return kept


def _estimate_run(run: list[Stratum], guide: Array, residual: Array) -> list[EstimatedStratum]:
    # One by one or pooled, whichever has the lower risk together with what is finished.
    separate = [EstimatedStratum(each, _estimate(each, guide)) for each in run]
    if len(run) == 1:
        return separate
    together = Stratum.sum_of(run)
    pooled = [EstimatedStratum(together, _estimate(together, guide))]
    return min(separate, pooled, key=lambda found: _risk(found, residual))


def _risk(found: list[EstimatedStratum], residual: Array) -> float:
    # Of the sum with a finished one of this residual, up to the latter's own risk.
    # Errors of different groups are independent but biased alike, so their cross terms count.
    total = sum((each.residual for each in found), start=residual)
    return sum(each.own_risk for each in found) + float(np.sum(total**2))


def _expected_squared_error(found: list[EstimatedStratum]) -> float:
    """The unbiased risk of the sum, drawn toward what shrinkage supposes where it is noisy."""
    if not found:
        return 0.0
    supposed = variance = repeated = noise = 0.0
    for each in found:
        d, share, v = len(each.residual), each.estimate.guide_share, each.stratum.variance
        # The mean of ⟨noise, estimate⟩, by Stein's identity, has little variance, and is the error
        # of an estimate whose bias is as its shrinkage supposes (a Bayes estimate's posterior
        # variance, by Tweedie).
        own_noise = (each.own_risk + v * d * (d + 1)) / 2.0
        supposed = (1.0 + share) ** 2 * supposed + max(0.0, own_noise)
        # About the variance of ‖W‖²: noise of an outer stratum hides the error of all others.
        variance += 4.0 * v**2 * d * (d + 1)
        # What the risk lacks because guided strata repeat the noise of their guide.
        repeated += 2.0 * share * noise
        noise = (1.0 + share) * noise + own_noise
    unbiased = _risk(found, np.zeros_like(found[0].residual)) + repeated
    least = LEAST_ERROR * supposed
    # A single stratum hides the error of no other.
    if len(found) == 1 or variance == 0.0:
        return max(unbiased, least)
    prior = (SUPPOSED_ERROR * supposed) ** 2
    return max(supposed + prior / (prior + variance) * (unbiased - supposed), least)


def _estimate(stratum: Stratum, guide: Array) -> Estimate:
    v = stratum.variance
    if v == 0.0:
        return stratum.shrunk
    if not np.any(guide):
        return _perhaps_sparse(stratum)
    found = list(guided_candidates(stratum.matrix, off_diagonal_variance=v, guide=guide).values())
    least = min(candidate.risk for candidate in found)
    if exp(min(0.0, least - stratum.shrunk_risk()) / (8.0 * v)) > NEGLIGIBLE_SHARE:
        found = [stratum.shrunk, *found]
    return _averaged(found, v)


def _perhaps_sparse(stratum: Stratum) -> Estimate:
    own, v = stratum.shrunk, stratum.variance
    # Few entries could not tell whether the matrix is sparse.
    if len(own.matrix) <= FEW_FEATURES:
        return own
    trace, trace_std = stratum.best_trace()
    law = {"off_diagonal_variance": v, "trace": trace, "trace_variance": trace_std**2}
    found = blended(own, sparse_candidate(stratum.matrix, **law), v)
    return own if found is own else _positive(found)


def _averaged(candidates: list[Estimate], variance: float) -> Estimate:
    matrices, risks, guide_shares = zip(*candidates, strict=True)
    weights = risk_weights(np.array(risks), 8.0 * variance)
    matrix = np.tensordot(weights, matrices, axes=1)
    return _positive(Estimate(matrix, float(weights @ risks), float(weights @ guide_shares)))


def _positive(estimate: Estimate) -> Estimate:
    # The set is convex and holds S, so ‖Pf − S‖² ≤ ‖f − S‖² − ‖f − Pf‖².  A Cholesky factor takes
    # a tenth of the time of eigenvalues.
    with suppress(np.linalg.LinAlgError):
        np.linalg.cholesky(estimate.matrix)
        return estimate
    projected = project_psd(estimate.matrix)
    gained = float(np.sum((estimate.matrix - projected) ** 2))
    return Estimate(projected, estimate.risk - gained, estimate.guide_share)

"""Broken mechanisms that audits must catch, each with one mistake that somebody made or nearly made.

All follow the mechanism interface: ``dpcov audit --module tests.audit.zoo:HalvedNoise``.  Never release with them.
"""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from unittest import mock

import numpy as np

from dpcov.audit import Effort, half_noise
from dpcov.data.moments import MomentsSpec
from dpcov.mechanisms.adaptive import Adaptive
from dpcov.mechanisms.blocks.additive_noise import laplaces
from dpcov.mechanisms.eigenvectors import Eigenvectors
from dpcov.mechanisms.finished import sscp_of
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.laplace import Laplace
from dpcov.mechanisms.stratified import ROW_COUNT_WEIGHT, Stratified
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.lattice import rounded_gaussian
from dpcov.privacy.budget import Budget
from dpcov.statistics import NoisyStatistics


def scaled(calibration, factor):
    """The same calibration with all noise variances of the matrix and trace times a factor."""
    trace = calibration.trace_variance
    return replace(
        calibration,
        diagonal_variance=int(calibration.diagonal_variance * factor),
        off_diagonal_variance=int(calibration.off_diagonal_variance * factor),
        trace_variance=None if trace is None else int(trace * factor),
    )


@dataclass(frozen=True, kw_only=True)
class HalvedNoise(Laplace):
    """Half of the noise that the budget buys."""

    name = "planted-halved-noise"

    def calibrate(self, problem, budget):
        return replace(super().calibrate(problem, half_noise(budget)), promise=budget.promise)


@dataclass(frozen=True, kw_only=True)
class ForgottenRoot(Gaussian):
    """Sensitivity 1 instead of sqrt(2) under replace-one."""

    name = "planted-forgotten-root"

    def calibrate(self, problem, budget):
        return scaled(super().calibrate(problem, budget), Fraction(1, 2))


@dataclass(frozen=True, kw_only=True)
class OffDiagonalHalvedTwice(Gaussian):
    """A quarter of the diagonal's variance off the diagonal: halved once more when symmetrized."""

    name = "planted-off-diagonal"

    def calibrate(self, problem, budget):
        right = super().calibrate(problem, budget)
        return replace(right, off_diagonal_variance=right.off_diagonal_variance // 2)


@dataclass(frozen=True, kw_only=True)
class WrongRelation(Gaussian):
    """Noise for one row more or less, promised for one row replaced."""

    name = "planted-wrong-relation"

    def calibrate(self, problem, budget):
        return super().calibrate(replace(problem, neighbors="add-remove-one", n_rows=None), budget)


@dataclass(frozen=True, kw_only=True)
class ClipIgnored(Gaussian):
    """Noise for rows of half the norm, on rows that nobody clipped."""

    name = "planted-clip-ignored"
    clip: float = 0.5

    def moments_spec(self, problem):
        return MomentsSpec(bits=self.bits)

    def calibrate(self, problem, budget):
        return scaled(super().calibrate(problem, budget), Fraction(self.clip) ** 4)


def reusing_sparse_vector(queries, *, threshold, epsilon, sensitivity=1.0, monotone=False, entropy):
    """The sparse vector technique with one draw for all answers."""
    scale = 2.0 * sensitivity / float(epsilon)
    noisy_threshold = threshold + scale * float(laplaces(1, entropy)[0])
    noise = scale * float(laplaces(1, entropy)[0])
    return next((at for at, answer in enumerate(queries) if answer + noise >= noisy_threshold), None)


@dataclass(frozen=True, kw_only=True)
class ReusedSearchNoise(Adaptive):
    """The sparse vector technique reuses the noise of its first query."""

    name = "planted-reused-search-noise"

    def draw(self, moments, calibration, problem, entropy):
        with ExitStack() as patched:
            for place in ("private_radius", "clip_search"):
                name = f"dpcov.mechanisms.blocks.{place}.sparse_vector"
                patched.enter_context(mock.patch(name, reusing_sparse_vector))
            return super().draw(moments, calibration, problem, entropy)


def inverted_acceptance(ratio, dimension):
    """The envelope's density in the denominator once more instead of in the numerator."""
    return np.minimum(1.0, np.exp(0.5 * dimension * (1.0 - ratio - np.log(ratio))))


@dataclass(frozen=True, kw_only=True)
class InvertedAcceptance(Eigenvectors):
    """Directions from a Bingham sampler whose acceptance ratio divides by the envelope twice."""

    name = "planted-inverted-acceptance"
    rank: int | None = 1
    value_share: float = 0.01

    def draw(self, moments, calibration, problem, entropy):
        with mock.patch("dpcov.noise.eigenvectors.acceptance", inverted_acceptance):
            return super().draw(moments, calibration, problem, entropy)


@dataclass(frozen=True, kw_only=True)
class StratumTwice(Stratified):
    """Every stratum's matrix is drawn a second time at no charge."""

    name = "planted-stratum-twice"
    shells: int = 2

    def draw(self, moments, calibration, problem, entropy):
        one, other = (super(StratumTwice, self).draw(moments, calibration, problem, entropy) for _ in range(2))
        return replace(one, arrays={**one.arrays, "sscp_again": other.arrays["sscp"]})


@dataclass(frozen=True, kw_only=True)
class ReusedSeed(Gaussian):
    """A fixed seed for every release."""

    name = "planted-reused-seed"

    def draw(self, moments, calibration, problem, entropy):
        return super().draw(moments, calibration, problem, SeededEntropy(7))


@dataclass(frozen=True, kw_only=True)
class ReusedStream(Gaussian):
    """Matrix and trace with noise from one stream that was started twice."""

    name = "planted-reused-stream"

    def draw(self, moments, calibration, problem, entropy):
        noisy, seed = super().draw(moments, calibration, problem, entropy), int(entropy.words(1)[0])
        noises = [
            rounded_gaussian(calibration.diagonal_variance, size, SeededEntropy(seed)) for size in (2, 1)
        ]
        (stratum,) = moments.strata
        sscp = noisy.arrays["sscp"].copy()
        sscp[[0, 1], [0, 1]] = np.diag(stratum.sscp.to_float())[:2].astype(np.int64) + noises[0][0] * [1, 0]
        sscp[1, 1] += noises[0][1]
        trace = np.array([stratum.sscp.trace() + int(noises[1][0])])
        return replace(noisy, arrays={**noisy.arrays, "sscp": sscp, "trace": trace})


@dataclass(frozen=True, kw_only=True)
class UnchargedTrace(Gaussian):
    """Under add-remove-one a trace as precise as the matrix, at no charge."""

    name = "planted-uncharged-trace"
    relations = ("add-remove-one",)

    def draw(self, moments, calibration, problem, entropy):
        noisy = super().draw(moments, calibration, problem, entropy)
        noise = int(rounded_gaussian(calibration.diagonal_variance, 1, entropy)[0])
        trace = np.array([moments.strata[0].sscp.trace() + noise])
        return replace(noisy, arrays={**noisy.arrays, "trace": trace})


@dataclass(frozen=True, kw_only=True)
class UnchargedTraceWeight(Stratified):
    """The traces' weight of 1/32 is left out of the sensitivity: 3 % too much rho.  For deep audits."""

    name = "planted-uncharged-weight"
    shells: int = 2
    relations = ("add-remove-one",)

    def _squared_sensitivity(self, problem):
        return (1 + ROW_COUNT_WEIGHT) * Fraction(4**self.bits) ** 2


@dataclass(frozen=True, kw_only=True)
class RoundingLeak(Gaussian):
    """Noise rounded to a coarse grid and added to numbers that lie between its points."""

    name = "planted-rounding-leak"
    step: float = 2.0**-6

    def draw(self, moments, calibration, problem, entropy):
        noise = rounded_gaussian(calibration.diagonal_variance, 4, entropy).reshape(2, 2) / 4.0**self.bits
        steps = np.round((noise + noise.T) / self.step)
        matrix = sscp_of(moments) + self.step * steps
        return NoisyStatistics(layout="estimate", arrays={"second_moment": matrix})


@dataclass(frozen=True, kw_only=True)
class Plant:
    """How much it takes to catch one."""

    mechanism: type
    budget: Budget
    draws: int
    neighbors: str = "replace-one"
    candidates: int = 4
    search_draws: int = 100

    def __str__(self):
        return self.mechanism.name

    @property
    def effort(self):
        return Effort(
            draws=self.draws, candidates=self.candidates, search_draws=self.search_draws, seconds=600.0
        )


PLANTS = [
    Plant(mechanism=HalvedNoise, budget=Budget(epsilon=1), draws=2500, candidates=2),
    Plant(mechanism=ForgottenRoot, budget=Budget(rho=8), draws=700),
    Plant(mechanism=OffDiagonalHalvedTwice, budget=Budget(rho=8), draws=700),
    Plant(mechanism=WrongRelation, budget=Budget(rho=8), draws=700),
    Plant(mechanism=ClipIgnored, budget=Budget(epsilon=2, delta="1e-3"), draws=300),
    Plant(mechanism=ReusedSearchNoise, budget=Budget(epsilon=1), draws=500, neighbors="add-remove-one"),
    Plant(mechanism=InvertedAcceptance, budget=Budget(epsilon=2), draws=3000),
    Plant(mechanism=StratumTwice, budget=Budget(rho=8), draws=700),
    Plant(mechanism=ReusedSeed, budget=Budget(rho=1), draws=200),
    Plant(mechanism=ReusedStream, budget=Budget(rho=1), draws=200),
    Plant(mechanism=UnchargedTrace, budget=Budget(rho=8), draws=700, neighbors="add-remove-one"),
    Plant(mechanism=RoundingLeak, budget=Budget(rho=1), draws=200),
]
DEEP_PLANTS = [
    Plant(
        mechanism=UnchargedTraceWeight,
        budget=Budget(rho=20),
        draws=60_000,
        neighbors="add-remove-one",
        candidates=1,
    )
]

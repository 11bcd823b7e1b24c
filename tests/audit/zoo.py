"""Broken mechanisms that audits must catch, each with one mistake that somebody made or nearly made.

All follow the mechanism interface: ``dpcov audit --module tests.audit.zoo:HalvedNoise``.  Never release with them.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from unittest import mock

import numpy as np

from dpcov.audit import Effort, half_noise
from dpcov.data.moments import MomentsSpec
from dpcov.mechanisms.base import Calibration, Mechanism
from dpcov.mechanisms.blocks.additive_noise import laplaces
from dpcov.mechanisms.blocks.finished import sscp_of
from dpcov.mechanisms.blocks.shells import outlier_counts, shell_counts
from dpcov.mechanisms.blocks.sparse_vector import sparse_vector
from dpcov.mechanisms.eigenvectors import Eigenvectors
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.laplace import Laplace
from dpcov.mechanisms.stratified import Stratified
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.lattice import rounded_gaussian
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import PureDP
from dpcov.published.statistics import NoisyStatistics


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
class VarianceShared(Gaussian):
    """A variance that is right for two columns, shared among more: no table of two columns shows it."""

    name = "planted-variance-shared"

    def calibrate(self, problem, budget):
        return scaled(super().calibrate(problem, budget), Fraction(2, problem.n_features))


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


@dataclass(frozen=True, kw_only=True)
class Search(Mechanism):
    """Sound: a radius that holds all rows, from the sparse vector technique alone."""

    name = "search"
    summary = "a radius by the sparse vector technique"
    paper = "Dwork, Roth (2014), 3.6"
    numerics = "idealized"
    promises = (PureDP,)

    def moments_spec(self, problem):
        return MomentsSpec(shells=6)

    def calibrate(self, problem, budget):
        self.check(problem, budget)
        return Calibration(promise=budget.promise)

    def draw(self, ask, calibration, problem, entropy):
        longer = outlier_counts(shell_counts(ask(self.question(problem))))[::-1]
        found = self.find([-float(count) for count in longer], calibration.promise.epsilon, entropy)
        arrays = {"second_moment": np.zeros((2, 2))}
        return NoisyStatistics(layout="estimate", arrays=arrays, notes=(f"radius {found}",))

    def find(self, answers, epsilon, entropy):
        return sparse_vector(
            answers, threshold=0.0, epsilon=epsilon, monotone=True, entropy=entropy
        )


@dataclass(frozen=True, kw_only=True)
class ReusedSearchNoise(Search):
    """The sparse vector technique with one draw of noise for all answers."""

    name = "planted-reused-search-noise"

    def find(self, answers, epsilon, entropy):
        threshold, noise = 2.0 / float(epsilon) * laplaces(2, entropy)
        return next((at for at, answer in enumerate(answers) if answer + noise >= threshold), None)


def inverted_acceptance(ratio, dimension):
    """The envelope's density in the denominator once more instead of in the numerator."""
    return np.minimum(1.0, np.exp(0.5 * dimension * (1.0 - ratio - np.log(ratio))))


@dataclass(frozen=True, kw_only=True)
class InvertedAcceptance(Eigenvectors):
    """Directions from a Bingham sampler whose acceptance ratio divides by the envelope twice."""

    name = "planted-inverted-acceptance"
    rank: int | None = 1
    value_share: float = 0.01

    def draw(self, ask, calibration, problem, entropy):
        with mock.patch("dpcov.noise.eigenvectors.acceptance", inverted_acceptance):
            return super().draw(ask, calibration, problem, entropy)


@dataclass(frozen=True, kw_only=True)
class StratumTwice(Stratified):
    """Every stratum's matrix is drawn a second time at no charge."""

    name = "planted-stratum-twice"
    shells: int = 2

    def draw(self, ask, calibration, problem, entropy):
        one, other = (
            super(StratumTwice, self).draw(ask, calibration, problem, entropy) for _ in range(2)
        )
        return replace(one, arrays={**one.arrays, "sscp_again": other.arrays["sscp"]})


@dataclass(frozen=True, kw_only=True)
class ReusedSeed(Gaussian):
    """A fixed seed for every release."""

    name = "planted-reused-seed"

    def draw(self, ask, calibration, problem, entropy):
        return super().draw(ask, calibration, problem, SeededEntropy(7))


@dataclass(frozen=True, kw_only=True)
class ReusedStream(Gaussian):
    """Matrix and trace with noise from one stream that was started twice."""

    name = "planted-reused-stream"

    def draw(self, ask, calibration, problem, entropy):
        noisy, seed = super().draw(ask, calibration, problem, entropy), int(entropy.words(1)[0])
        (stratum,) = ask(self.question(problem)).strata
        exact, noisy_sscp = stratum.sscp.to_float().astype(np.int64), noisy.arrays["sscp"].copy()
        noise, again = (
            rounded_gaussian(calibration.diagonal_variance, 1, SeededEntropy(seed))[0]
            for _ in range(2)
        )
        noisy_sscp[0, 0] = exact[0, 0] + noise
        trace = np.array([stratum.sscp.trace() + int(again)])
        return replace(noisy, arrays={**noisy.arrays, "sscp": noisy_sscp, "trace": trace})


@dataclass(frozen=True, kw_only=True)
class UnchargedTrace(Gaussian):
    """Under add-remove-one a trace as precise as the matrix, at no charge."""

    name = "planted-uncharged-trace"
    relations = ("add-remove-one",)

    def draw(self, ask, calibration, problem, entropy):
        noisy = super().draw(ask, calibration, problem, entropy)
        noise = int(rounded_gaussian(calibration.diagonal_variance, 1, entropy)[0])
        trace = np.array([ask(self.question(problem)).strata[0].sscp.trace() + noise])
        return replace(noisy, arrays={**noisy.arrays, "trace": trace})


@dataclass(frozen=True, kw_only=True)
class UnchargedTraceWeight(Stratified):
    """The weight of traces, 1/32 of four columns, is left out of the sensitivity: rho is 3 % too much.  Deep audits."""

    name = "planted-uncharged-weight"
    shells: int = 2
    relations = ("add-remove-one",)

    def _squared_sensitivity(self, problem):
        return Fraction(4**self.bits) ** 2

    def draw(self, ask, calibration, problem, entropy):
        noisy = super().draw(ask, calibration, problem, entropy)
        # Of so little noise the rounded row count shows none; it is left out of sensitivity and release alike.
        return replace(
            noisy, arrays={name: each for name, each in noisy.arrays.items() if name != "row_count"}
        )


@dataclass(frozen=True, kw_only=True)
class RoundingLeak(Gaussian):
    """Noise rounded to a coarse grid and added to numbers that lie between its points."""

    name = "planted-rounding-leak"
    step: float = 2.0**-6

    def draw(self, ask, calibration, problem, entropy):
        noise = (
            rounded_gaussian(calibration.diagonal_variance, 4, entropy).reshape(2, 2)
            / 4.0**self.bits
        )
        steps = np.round((noise + noise.T) / self.step)
        matrix = sscp_of(ask(self.question(problem))) + self.step * steps
        return NoisyStatistics(layout="estimate", arrays={"second_moment": matrix})


NO_HURRY = 1e6
"""Seconds: so many that a machine that stalls while the first draws are timed takes no draw away."""


@dataclass(frozen=True, kw_only=True)
class Plant:
    """How much it takes to catch one."""

    mechanism: type
    budget: Budget
    draws: int
    neighbors: str = "replace-one"
    columns: int = 2
    candidates: int = 7
    needs: str = ""
    """Words that the label of the pair of tables must have."""

    def __str__(self):
        return self.mechanism.name

    @property
    def effort(self):
        return Effort(draws=self.draws, candidates=self.candidates, seconds=NO_HURRY)


PLANTS = [
    Plant(mechanism=HalvedNoise, budget=Budget(epsilon=3), draws=6000),
    Plant(mechanism=VarianceShared, budget=Budget(rho=8), draws=1500, columns=5),
    Plant(mechanism=ForgottenRoot, budget=Budget(rho=8), draws=1500),
    Plant(mechanism=OffDiagonalHalvedTwice, budget=Budget(rho=8), draws=3000, needs="turned"),
    Plant(mechanism=WrongRelation, budget=Budget(rho=8), draws=1500),
    Plant(mechanism=ClipIgnored, budget=Budget(epsilon=2, delta="1e-3"), draws=1000),
    Plant(mechanism=ReusedSearchNoise, budget=Budget(epsilon=1), draws=6000, needs="short"),
    Plant(mechanism=StratumTwice, budget=Budget(rho=8), draws=1500),
    Plant(mechanism=ReusedSeed, budget=Budget(rho=1), draws=1000),
    Plant(mechanism=ReusedStream, budget=Budget(rho=1), draws=500),
    Plant(mechanism=UnchargedTrace, budget=Budget(rho=8), draws=1500, neighbors="add-remove-one"),
    Plant(mechanism=RoundingLeak, budget=Budget(rho=1), draws=2000),
]
DEEP_PLANTS = [
    Plant(mechanism=InvertedAcceptance, budget=Budget(epsilon=2), draws=60_000, candidates=3),
    Plant(
        mechanism=UnchargedTraceWeight,
        budget=Budget(rho=500),
        draws=200_000,
        neighbors="add-remove-one",
        columns=4,
        candidates=1,
    ),
]

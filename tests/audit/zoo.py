"""Broken mechanisms that audits must catch, each with one mistake that somebody made.

``dpcov audit --module tests.audit.zoo:ForgottenRoot``.  Never release with them.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import msgspec
import numpy as np

from dpcov.audit.releases import surveyed
from dpcov.data.exact.moments import MomentsSpec
from dpcov.mechanisms.base import Calibration, Mechanism
from dpcov.mechanisms.blocks.additive_noise import laplaces
from dpcov.mechanisms.blocks.clip_search import outlier_counts, shell_counts, sparse_vector
from dpcov.mechanisms.blocks.cost import part_of
from dpcov.mechanisms.blocks.finished import sscp_of
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.geometry import search
from dpcov.mechanisms.geometry.surveyed import Surveyed
from dpcov.mechanisms.stratified import Stratified
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.lattice import rounded_gaussian
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, PureDP
from dpcov.published.file.statistics import NoisyStatistics

EXACT = 10**6
"""Times the budget, counts have no noise."""


def scaled(calibration, factor):
    """The same calibration with the noise variances of the matrix times a factor."""
    names = ("diagonal_variance", "off_diagonal_variance")
    return replace(
        calibration, **{name: int(getattr(calibration, name) * factor) for name in names}
    )


class ForgottenRoot(Gaussian):
    """Sensitivity 1 instead of sqrt(2) under replace-one."""

    name = "planted-forgotten-root"

    def calibrate(self, problem, budget):
        return scaled(super().calibrate(problem, budget), Fraction(1, 2))


class VarianceShared(Gaussian):
    """A variance that is right for two columns, shared among more: two columns do not show it."""

    name = "planted-variance-shared"

    def calibrate(self, problem, budget):
        return scaled(super().calibrate(problem, budget), Fraction(2, problem.n_features))


class OffDiagonalHalvedTwice(Gaussian):
    """A quarter of the diagonal's variance off the diagonal: halved once more when symmetrized."""

    name = "planted-off-diagonal"

    def calibrate(self, problem, budget):
        right = super().calibrate(problem, budget)
        return replace(right, off_diagonal_variance=right.off_diagonal_variance // 2)


@dataclass(frozen=True, kw_only=True)
class ClipIgnored(Gaussian):
    """Noise for rows of half the norm, on rows that nobody clipped."""

    name = "planted-clip-ignored"
    clip: float = 0.5

    def moments_spec(self, problem):
        return MomentsSpec(bits=self.bits)

    def calibrate(self, problem, budget):
        return scaled(super().calibrate(problem, budget), Fraction(self.clip) ** 4)


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
        return sparse_vector(answers, threshold=0.0, epsilon=epsilon, entropy=entropy)


class ReusedSearchNoise(Search):
    """The sparse vector technique with one draw of noise for all answers."""

    name = "planted-reused-search-noise"

    def find(self, answers, epsilon, entropy):
        threshold, noise = 2.0 / float(epsilon) * laplaces(2, entropy)
        return next((at for at, answer in enumerate(answers) if answer + noise >= threshold), None)


@dataclass(frozen=True, kw_only=True)
class StratumTwice(Stratified):
    """Every stratum's matrix is drawn a second time at no charge."""

    name = "planted-stratum-twice"
    shells: int = 2

    def draw(self, ask, calibration, problem, entropy):
        one = super().draw(ask, calibration, problem, entropy)
        other = super().draw(ask, calibration, problem, entropy)
        return msgspec.structs.replace(
            one, arrays={**one.arrays, "sscp_again": other.arrays["sscp"]}
        )


class UnscaledShells(Stratified):
    """Noise in units of an eighth of the squared radius that shells were fitted to."""

    name = "planted-unscaled-shells"

    def _fitted(self, *found):
        right = super()._fitted(*found)
        return replace(right, energy=right.energy / 8)


class ReusedSeed(Gaussian):
    """A fixed seed for every release."""

    name = "planted-reused-seed"

    def draw(self, ask, calibration, problem, entropy):
        return super().draw(ask, calibration, problem, SeededEntropy(7))


class ReusedStream(Gaussian):
    """Matrix and trace with noise from one stream that was started twice."""

    name = "planted-reused-stream"

    def draw(self, ask, calibration, problem, entropy):
        noisy, seed = super().draw(ask, calibration, problem, entropy), int(entropy.words(1)[0])
        (stratum,) = ask(self.question(problem)).strata
        noise = int(rounded_gaussian(calibration.diagonal_variance, 1, SeededEntropy(seed))[0])
        noisy_sscp, trace = noisy.arrays["sscp"].copy(), np.array([stratum.sscp.trace() + noise])
        noisy_sscp[0, 0] = int(stratum.sscp.to_float()[0, 0]) + noise
        return msgspec.structs.replace(
            noisy, arrays={**noisy.arrays, "sscp": noisy_sscp, "trace": trace}
        )


class UnchargedTrace(Gaussian):
    """Under add-remove-one a trace as precise as the matrix, at no charge."""

    name = "planted-uncharged-trace"
    relations = ("add-remove-one",)

    def draw(self, ask, calibration, problem, entropy):
        noisy = super().draw(ask, calibration, problem, entropy)
        noise = int(rounded_gaussian(calibration.diagonal_variance, 1, entropy)[0])
        trace = np.array([ask(self.question(problem)).strata[0].sscp.trace() + noise])
        return msgspec.structs.replace(noisy, arrays={**noisy.arrays, "trace": trace})


@dataclass(frozen=True, kw_only=True)
class RoundingLeak(Gaussian):
    """Noise rounded to a coarse grid and added to numbers that lie between its points."""

    name = "planted-rounding-leak"
    step: float = 2.0**-6

    def draw(self, ask, calibration, problem, entropy):
        noise = rounded_gaussian(calibration.diagonal_variance, 4, entropy).reshape(2, 2)
        steps = np.round((noise + noise.T) / 4.0**self.bits / self.step)
        matrix = sscp_of(ask(self.question(problem))) + self.step * steps
        return NoisyStatistics(layout="estimate", arrays={"second_moment": matrix})


class PrivateGeometry(Surveyed):
    """Sound: centers, scales, a linear map and lengths are found first, losses are asked."""

    name = "private-geometry"

    def __init__(self):
        sound = surveyed(Gaussian(), 2)
        super().__init__(sound.inner, sound.table)


class UnchargedSurvey(PrivateGeometry):
    """The matrix has the whole budget: a third too much, which is seen where it is spent."""

    name = "planted-uncharged-survey"

    def calibrate(self, problem, budget):
        right, whole = super().calibrate(problem, budget), self.inner.calibrate(problem, budget)
        return replace(right, inner=whole, rests=(whole, whole))


class ForgottenMatrix(PrivateGeometry):
    """The promise counts half of the survey: what was asked last and the matrix are forgotten."""

    name = "planted-forgotten-matrix"

    def calibrate(self, problem, budget):
        right = super().calibrate(problem, budget)
        return replace(right, promise=ZCDP(rho=right.survey.rho / 2))


class ExactMapSearch(search.Search):
    def whitened(self, calibration, *rest):
        exact = Gaussian().calibrate(self.problem, Budget(rho=1000))
        return super().whitened(exact, *rest)


class ExactMap(PrivateGeometry):
    """The linear map follows from the moments: the first matrix has next to no noise."""

    name = "planted-exact-map"

    search = ExactMapSearch


class ExactSecondSearch(search.Search):
    def whitened(self, *given):
        found = super().whitened(*given)
        return found and found._replace(goes_on=True)


class ExactSecond(PrivateGeometry):
    """The linear map goes on by the moments: later matrices have next to no noise."""

    name = "planted-exact-second"

    def calibrate(self, problem, budget):
        right = super().calibrate(problem, budget)
        return replace(right, again=self.inner.calibrate(problem, Budget(rho=1000)))

    search = ExactSecondSearch


class ExactScalesSearch(search.Search):
    def lengths(self, geometry, cost, *others, **more):
        return super().lengths(geometry, part_of(cost, Fraction(1, EXACT)), *others, **more)


class ExactScales(PrivateGeometry):
    """Centers and scales follow from the counts; only those of lengths have noise."""

    name = "planted-exact-scales"

    def draw(self, ask, calibration, problem, entropy):
        exact = replace(calibration, survey=ZCDP(rho=EXACT * calibration.survey.rho))
        return super().draw(ask, exact, problem, entropy)

    search = ExactScalesSearch


class ExactLengthsSearch(search.Search):
    def lengths(self, geometry, cost, *others, **more):
        return super().lengths(geometry, part_of(cost, Fraction(EXACT)), *others, **more)


class ExactLengths(PrivateGeometry):
    """The norm bound follows from the histogram of lengths."""

    name = "planted-exact-lengths"

    search = ExactLengthsSearch


class ExactLosses(PrivateGeometry):
    """What scaling rows down takes of columns is published with next to no noise."""

    name = "planted-exact-losses"

    def draw(self, ask, calibration, problem, entropy):
        exact = replace(calibration, losses=ZCDP(rho=EXACT * calibration.losses.rho))
        return super().draw(ask, exact, problem, entropy)


class Plant(NamedTuple):
    """How much it takes to catch one."""

    mechanism: type
    budget: Budget
    draws: int
    neighbors: str = "replace-one"
    columns: int = 2
    # Pairs of tables to choose from.
    candidates: int = 7
    # Words that the label of the pair of tables must have.
    needs: str = ""


PLANTS = [
    Plant(VarianceShared, Budget(rho=8), 1500, columns=5),
    Plant(ForgottenRoot, Budget(rho=8), 1500),
    Plant(OffDiagonalHalvedTwice, Budget(rho=8), 3000, needs="turned"),
    Plant(ClipIgnored, Budget(epsilon=2, delta="1e-3"), 1000),
    Plant(ReusedSearchNoise, Budget(epsilon=1), 6000, needs="short"),
    Plant(StratumTwice, Budget(rho=8), 1500),
    Plant(UnscaledShells, Budget(rho="0.5"), 600, candidates=8, needs="short rows"),
    Plant(ReusedSeed, Budget(rho=1), 1000),
    Plant(ReusedStream, Budget(rho=1), 500),
    Plant(UnchargedTrace, Budget(rho=8), 1500, neighbors="add-remove-one"),
    Plant(RoundingLeak, Budget(rho=1), 2000),
    Plant(ForgottenMatrix, Budget(rho=8), 400, neighbors="add-remove-one", candidates=1),
    Plant(ExactMap, Budget(rho="0.25"), 250, neighbors="add-remove-one", candidates=1),
    Plant(ExactSecond, Budget(rho="0.25"), 400, neighbors="add-remove-one", candidates=1),
    Plant(ExactScales, Budget(rho="0.25"), 100, neighbors="add-remove-one", candidates=1),
    Plant(ExactLengths, Budget(rho="0.25"), 100, neighbors="add-remove-one", candidates=1),
    Plant(ExactLosses, Budget(rho="0.25"), 500, neighbors="add-remove-one", candidates=2),
]

"""Release the second moments of all norm shells jointly, at the cost of one release.

Guarantee : rho-zCDP, or (epsilon, delta)-DP by the analytic Gaussian mechanism.  Numerics : exact.
    Proof : stratified.md.
Sensitivity : Each shell's sscp is divided by its own squared radius.  Joint Frobenius norm over all
    shells: sqrt(2) k (replace-one), k (add-remove-one) for k rows per person, as for a single one;
    every shell's trace at weight w raises the square by 1 + w; the sum of the drawn groups' traces
    is free under replace-one.
Utility : Noise on a shell of radius t has variance t**4 noise_variance: rows far below the norm
    bound are released with noise of their own scale.  Shells whose noisy trace is within its noise
    are dropped before their matrix is drawn, or join the next larger shell that is drawn, or have
    their rows shortened into the next smaller one, which costs nothing.
References : Dong, Liang, Yi (2022), sections 3.1 and 5, for noise and clipping that this replaces.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dpcov.data.exact import ExactSum
from dpcov.data.moments import DEFAULT_BITS, Bits, Moments, MomentsSpec
from dpcov.mechanisms.base import Ask, Calibration, Entropy, Mechanism, NoisyStatistics, Problem
from dpcov.mechanisms.blocks.clip_search import noisy_traces, shell_counts
from dpcov.mechanisms.blocks.finished import noise_law
from dpcov.mechanisms.gaussian import ROW_COUNT_WEIGHT, even_variance, symmetric_noise
from dpcov.mechanisms.stratified_rules import SMALL_DIMENSION, Run, choose_runs, trace_weight
from dpcov.noise.lattice import rounded_gaussian
from dpcov.privacy.budget import Budget
from dpcov.privacy.convert import sqrt_down
from dpcov.privacy.guarantee import ZCDP, ApproxDP
from dpcov.privacy.options import Between


@dataclass(frozen=True, kw_only=True)
class StratifiedCalibration(Calibration):
    """Noise variances in each shell's own lattice units; the joint trace has the diagonal's."""

    diagonal_variance: int
    trace_variance: int
    row_count_variance: Fraction | None = None


@dataclass(frozen=True, kw_only=True)
class Stratified(Mechanism[StratifiedCalibration]):
    """Isotropic Gaussian noise on every norm shell, matched to the shell's radius.

    Parameters
    ----------
    shells : int, default=32
        Number of shells; shell s holds rows with norm in (2**-(s+1), 2**-s] of the norm bound, the
        last one all smaller rows.  Empty shells cost nothing.
    bits : int, default=20
        Lattice resolution of an encoded row, relative to its shell.
    """

    name = "stratified"
    summary = "Gaussian noise per norm shell at the cost of one release, optimal shrinkage"
    paper = "this project (stratified.md)"
    numerics = "exact"
    promises = (ZCDP, ApproxDP)
    is_isotropic = True
    takes_groups = True

    shells: Annotated[int, Between(2, 60)] = 32
    bits: Bits = DEFAULT_BITS

    def moments_spec(self, problem: Problem) -> MomentsSpec:
        """All shells of all public groups; of few columns also rows at another shell's radius."""
        return MomentsSpec(
            bits=self.bits,
            shells=self.shells,
            groups=problem.n_groups,
            normalized=problem.n_features <= SMALL_DIMENSION,
        )

    def calibrate(self, problem: Problem, budget: Budget) -> StratifiedCalibration:
        """Smallest even variance that keeps the budget (stratified.md, Theorems 1 and 2)."""
        self.check(problem, budget)
        squared, weight = self._squared_sensitivity(problem), trace_weight(problem.n_features)
        variance = even_variance(squared, budget.promise, smallest_weight=weight)
        # In rows, while the variance is in squared lattice units.
        count = Fraction(variance, 16**self.bits) / ROW_COUNT_WEIGHT
        return StratifiedCalibration(
            promise=budget.promise,
            noise_multiplier=sqrt_down(Fraction(variance) / squared),
            diagonal_variance=variance,
            trace_variance=ceil(Fraction(variance) / weight),
            row_count_variance=count if _counts_rows(problem) else None,
        )

    def _squared_sensitivity(self, problem: Problem) -> Fraction:
        # Squared shift over all stages in lattice units (Lemmas 1 to 4).
        unit: int = 4**self.bits * problem.rows_per_person
        weight = trace_weight(problem.n_features)
        if problem.neighbors == "replace-one":
            shift = 2 * (1 + weight + _counts_rows(problem) * ROW_COUNT_WEIGHT) * unit**2
        else:
            shift = (1 + weight + ROW_COUNT_WEIGHT) * unit**2
        # Joined shells are rounded down to whole numbers, which may move every trace.
        rounding = self.shells * problem.n_groups * problem.n_features
        return Fraction(shift) + 4 * rounding * unit + 2 * rounding**2

    def draw(
        self, ask: Ask, calibration: StratifiedCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Draw the traces, decide from them alone, then draw the matrices that are worth it."""
        moments, d, shells = ask(self.question(problem)), problem.n_features, self.shells
        variance, trace_variance = calibration.diagonal_variance, calibration.trace_variance
        noise = rounded_gaussian(trace_variance, len(moments.strata), entropy)
        traces = noisy_traces(moments, noise)
        # Runs follow from noisy traces alone, so choosing them is free.
        runs = [
            Run(*(first + shell for shell in run))
            for first in range(0, len(traces), shells)
            for run in choose_runs(traces[first : first + shells], variance, trace_variance, d)
        ]
        # Drawn in any case: its absence would tell that no run was drawn.
        drawn, joint = [], int(rounded_gaussian(variance, 1, entropy)[0])
        for run in runs:
            total = _run_sum(moments, run)
            joint += total.trace()
            drawn.append(total.plus(symmetric_noise(d, variance, entropy)))
        numbers = {"trace": traces}
        if problem.neighbors == "replace-one":
            numbers["joint_trace"] = [joint]
        arrays, dropped = _aligned(drawn, numbers, d)
        shell_numbers = np.array(runs, dtype=np.int64).reshape(-1, len(Run._fields))
        for field, numbers_of_runs in zip(Run._fields, shell_numbers.T, strict=True):
            arrays[f"{field}_shell"] = numbers_of_runs % shells
        if problem.n_groups > 1:
            arrays["group"] = shell_numbers[:, 0] // shells
        count = calibration.row_count_variance
        if count is not None:
            counts = shell_counts(moments).reshape(-1, shells).sum(axis=1)
            arrays["row_count"] = counts + rounded_gaussian(count, len(counts), entropy)
        law = noise_law(
            "gaussian rounded to integers",
            diagonal_variance=variance,
            off_diagonal_variance=variance // 2,
            trace_variance=trace_variance,
            row_count=count,
        )
        return NoisyStatistics(
            layout="strata",
            arrays=arrays,
            lattice_bits=self.bits,
            dropped_bits=dropped,
            post="shrink",
            noise=law,
            n_groups=problem.n_groups,
        )


def _counts_rows(problem: Problem) -> bool:
    # Whether noisy row counts are released: the number is private, or that of every group is.
    return problem.neighbors == "add-remove-one" or problem.n_groups > 1


def _run_sum(moments: Moments, run: Run) -> ExactSum:
    # Sum a run of shells in units of its first one; smaller shells are rounded down.
    total = ExactSum(moments.n_features)
    # Rows of larger shells are shortened to the first one's radius or, where they were not gathered
    # so, by the ratio of their shell's radius to it.
    for stratum in moments.strata[run.outermost : run.first]:
        total.merge(stratum.sscp if stratum.normalized is None else stratum.normalized)
    for shell in range(run.first, run.last + 1):
        total.merge(moments.strata[shell].sscp.shifted_down(2 * (shell - run.first)))
    return total


def _aligned(
    drawn: Sequence[tuple[NDArray[np.int64], int]],
    numbers: Mapping[str, Sequence[int]],
    n_features: int,
) -> tuple[dict[str, NDArray[np.int64]], int]:
    # Drop as many low bits from all noisy numbers as the longest one needs.
    # Decided from noisy numbers only: an exact one would leak through the dropped bits.
    longest = max(abs(number) for several in numbers.values() for number in several).bit_length()
    dropped = max(0, longest - 62, *(bits for _, bits in drawn))
    matrices = [matrix >> (dropped - bits) for matrix, bits in drawn]
    arrays = {"sscp": np.array(matrices, dtype=np.int64).reshape(-1, n_features, n_features)}
    for name, several in numbers.items():
        arrays[name] = np.array([number >> dropped for number in several], dtype=np.int64)
    return arrays, dropped

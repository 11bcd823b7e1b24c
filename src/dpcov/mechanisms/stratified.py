"""Release the second moments of all norm shells jointly, at the cost of one release.

Privacy
-------
Guarantee : rho-zCDP, or (epsilon, delta)-DP by the analytic Gaussian mechanism.  Neighbors : replace-one (public n) or
    add-remove-one.
Unit : the rows of one person.  Public inputs : options, budget, number of columns, n under replace-one.
Private input : moments.  Not protected : running time, memory.
Numerics : exact.  Proof : stratified.md.

Sensitivity
-----------
Each shell's sscp is divided by its own squared radius.  Joint Frobenius norm over all shells: sqrt(2) k
(replace-one), k (add-remove-one), as for a single one; every shell's trace at weight w raises the square by 1 + w.

Utility
-------
Noise on a shell of radius t has variance t**4 noise_variance: rows far below the norm bound are released with noise
of their own scale.  Shells whose noisy trace is within its noise are dropped before their matrix is drawn, and shells
below a shell that is released with noise far below its signal join it.

References
----------
Dong, Liang, Yi (2022), sections 3.1 and 5, for the plain mechanism and the clipping that this replaces.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, sqrt
from typing import ClassVar

import numpy as np

from dpcov.data.exact import ExactSum
from dpcov.data.moments import DEFAULT_BITS, Moments, MomentsSpec
from dpcov.errors import UsageError
from dpcov.mechanisms.base import Calibration, Mechanism, Problem
from dpcov.mechanisms.gaussian import ROW_COUNT_WEIGHT, _sqrt_down, even_variance, symmetric_noise
from dpcov.noise.entropy import Entropy
from dpcov.noise.lattice import rounded_gaussian
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Numerics, Promise
from dpcov.statistics import NoiseLaw, NoisyStatistics

TRACE_WEIGHT = Fraction(1, 16)
"""Precision of a shell's trace relative to a matrix entry: 3 % more noise on the matrices buys every decision."""

DROP_BELOW = 3.0
"""A shell is dropped when its noisy trace is less than this many standard deviations of the trace's noise."""

JOIN_ABOVE = 4.0
"""Shells join the one above when its mean eigenvalue exceeds the edge of its noise spectrum by this factor."""


@dataclass(frozen=True, kw_only=True)
class StratifiedCalibration(Calibration):
    """Integer noise variances in each shell's own lattice units."""

    diagonal_variance: int
    trace_variance: int
    row_count_variance: Fraction | None = None


@dataclass(frozen=True, kw_only=True)
class Stratified(Mechanism[StratifiedCalibration]):
    """Isotropic Gaussian noise on every norm shell, matched to the shell's radius.

    Parameters
    ----------
    shells : int, default=32
        Number of shells; shell s holds rows with norm in (2**-(s+1), 2**-s] of the norm bound, the last one all
        smaller rows.  Empty shells cost nothing.
    bits : int, default=20
        Lattice resolution of an encoded row, relative to its shell.
    """

    name: ClassVar[str] = "stratified"
    summary: ClassVar[str] = "Gaussian noise per norm shell at the cost of one release, optimal shrinkage"
    paper: ClassVar[str] = "this project (stratified.md)"
    numerics: ClassVar[Numerics] = "exact"
    promises: ClassVar[tuple[type[Promise], ...]] = (ZCDP, ApproxDP)

    shells: int = 32
    bits: int = DEFAULT_BITS

    def __post_init__(self) -> None:
        MomentsSpec(bits=self.bits, shells=self.shells)
        if not 2 <= self.shells <= 60:
            raise UsageError("Use between 2 and 60 shells; one shell is the gaussian mechanism.")

    def moments_spec(self, problem: Problem) -> MomentsSpec:
        """All shells."""
        return MomentsSpec(bits=self.bits, shells=self.shells)

    def calibrate(self, problem: Problem, budget: Budget) -> StratifiedCalibration:
        """Smallest even integer variance that keeps the budget (stratified.md, Theorem 1)."""
        self.check(problem, budget)
        squared = self._squared_sensitivity(problem)
        variance = even_variance(squared, budget.promise, smallest_weight=TRACE_WEIGHT)
        count = None
        if problem.neighbors == "add-remove-one":
            count = Fraction(variance, 16**self.bits) / ROW_COUNT_WEIGHT
        return StratifiedCalibration(
            promise=budget.promise,
            noise_multiplier=_sqrt_down(Fraction(variance) / squared),
            diagonal_variance=variance,
            trace_variance=ceil(Fraction(variance) / TRACE_WEIGHT),
            row_count_variance=count,
        )

    def _squared_sensitivity(self, problem: Problem) -> Fraction:
        """Joint squared sensitivity in lattice units, the rounding of joined shells included (Lemmas 1-3)."""
        unit = 4**self.bits * problem.rows_per_person
        if problem.neighbors == "replace-one":
            joint = 2 * (1 + TRACE_WEIGHT) * unit**2
        else:
            joint = (1 + TRACE_WEIGHT + ROW_COUNT_WEIGHT) * unit**2
        rounding = 2 * self.shells * problem.n_features
        return Fraction(joint) + 4 * rounding * unit + rounding**2

    def draw(
        self, moments: Moments, calibration: StratifiedCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Draw the traces, decide from them alone, then draw the matrices that are worth it."""
        noise = rounded_gaussian(calibration.trace_variance, self.shells, entropy)
        traces = [stratum.sscp.trace() + int(z) for stratum, z in zip(moments.strata, noise, strict=True)]
        groups = choose_groups(
            traces, calibration.diagonal_variance, calibration.trace_variance, moments.n_features
        )
        drawn = [self._draw_group(moments, group, calibration, entropy) for group in groups]
        too_long = max(abs(trace) for trace in traces).bit_length() - 62
        dropped = max(0, too_long, *(bits for _, bits in drawn))
        d = moments.n_features
        arrays = {
            "sscp": np.array([matrix >> (dropped - bits) for matrix, bits in drawn], dtype=np.int64).reshape(
                -1, d, d
            ),
            "first_shell": np.array([group[0] for group in groups], dtype=np.int64),
            "last_shell": np.array([group[-1] for group in groups], dtype=np.int64),
            "trace": np.array([trace >> dropped for trace in traces], dtype=np.int64),
        }
        if calibration.row_count_variance is not None:
            count = moments.n_rows + int(rounded_gaussian(calibration.row_count_variance, 1, entropy)[0])
            arrays["row_count"] = np.array([count], dtype=np.int64)
        return NoisyStatistics(
            layout="strata",
            arrays=arrays,
            lattice_bits=self.bits,
            dropped_bits=dropped,
            post="shrink",
            noise=_law(calibration),
        )

    def _draw_group(
        self, moments: Moments, group: range, calibration: StratifiedCalibration, entropy: Entropy
    ) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int64]], int]:
        """Sum a group of shells in units of its first one, and add noise of that scale."""
        total = ExactSum(moments.n_features)
        for shell in group:
            total.merge(moments.strata[shell].sscp.shifted_down(2 * (shell - group[0])))
        noise = symmetric_noise(moments.n_features, calibration.diagonal_variance, entropy)
        return total.plus(noise)


def choose_groups(
    traces: list[int], diagonal_variance: int, trace_variance: int, n_features: int
) -> list[range]:
    """Which shells to draw, and which together; from noisy traces alone.

    Returns
    -------
    list of range
        Consecutive shells that are summed before noise is added, largest radius first.
    """
    smallest = DROP_BELOW * sqrt(trace_variance)
    kept = [shell for shell, trace in enumerate(traces) if trace > smallest]
    edge = sqrt(2.0 * n_features * diagonal_variance)
    groups: list[range] = []
    for shell in kept:
        if traces[shell] > JOIN_ABOVE * n_features * edge:
            return [*groups, range(shell, len(traces))]
        groups.append(range(shell, shell + 1))
    return groups


def _law(calibration: StratifiedCalibration) -> NoiseLaw:
    count = calibration.row_count_variance
    return NoiseLaw(
        family="gaussian rounded to integers",
        diagonal_variance=str(calibration.diagonal_variance),
        off_diagonal_variance=str(calibration.diagonal_variance // 2),
        trace_variance=str(calibration.trace_variance),
        row_count_variance=None if count is None else str(float(count)),
    )

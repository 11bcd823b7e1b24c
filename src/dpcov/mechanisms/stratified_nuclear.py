"""Release the second moments of all norm shells jointly, with noise shaped like the nuclear norm.

Privacy
-------
Guarantee : epsilon-DP.  Neighbors : replace-one (public n) or add-remove-one.
Unit : the rows of one person.  Public inputs : options, budget, number of columns, n under replace-one.
Private input : moments.  Not protected : running time, memory.
Numerics : idealized; traces and row count are exact.  The samplers are exact in real arithmetic, so no delta enters.
Proof : stratified_nuclear.md.

Sensitivity
-----------
Each shell's sscp is divided by its own squared radius.  Sum over all shells of nuclear norm + w |trace|: 2k (1 + w)
(replace-one), k (1 + w) (add-remove-one) for k rows per person; both attained.

Utility
-------
A shell of radius t carries noise of scale t**2 s, whose root mean square Frobenius norm is about
0.64 (d + 1) sqrt(d) t**2 s, before shrinkage (docs/pure.md).  Shells whose noisy trace is within the noise of one entry
are not drawn at all.

References
----------
Hardt, Talwar (2010); d'Orsi, Novikov (2025), Algorithm 1, for the plain mechanism.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcov.data.moments import DEFAULT_BITS, Moments, MomentsSpec
from dpcov.errors import BudgetError, UsageError
from dpcov.linalg import ullman
from dpcov.mechanisms.base import Calibration, Mechanism, Problem
from dpcov.noise.entropy import Entropy
from dpcov.noise.lattice import LARGEST_STD, discrete_laplace
from dpcov.noise.nuclear import symmetric_nuclear_noise
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import Numerics, Promise, PureDP
from dpcov.statistics import NoiseLaw, NoisyStatistics, PublishedArray

UNIT = 4**DEFAULT_BITS
"""Squared norm of a lattice row at its shell's radius."""

ROW_COUNT_WEIGHT = Fraction(1, 16)
"""Weight of the row count under add-remove-one: 6 % more noise on everything else."""

DRAW_ABOVE = 2.5
"""A shell is drawn when its noisy trace exceeds this many standard deviations of the noise along one direction."""

JOIN_ABOVE = 2.5
"""Shells join the one above when its mean eigenvalue exceeds the edge of its noise spectrum by this factor."""


@dataclass(frozen=True, kw_only=True)
class StratifiedNuclearCalibration(Calibration):
    """Noise scales in each shell's own lattice units, and of the row count in rows (add-remove-one)."""

    matrix_scale: Fraction
    trace_scale: Fraction
    row_count_scale: Fraction | None = None


@dataclass(frozen=True, kw_only=True)
class StratifiedNuclear(Mechanism[StratifiedNuclearCalibration]):
    """Symmetric nuclear-norm noise on every norm shell, matched to the shell's radius.

    Parameters
    ----------
    shells : int, default=32
        Number of shells; shell s holds rows with norm in (2**-(s+1), 2**-s] of the norm bound, the last one all
        smaller rows.  Empty shells cost nothing.
    """

    name: ClassVar[str] = "stratified-nuclear"
    summary: ClassVar[str] = "pure-DP nuclear-norm noise per norm shell, optimal shrinkage"
    paper: ClassVar[str] = "this project (stratified_nuclear.md)"
    numerics: ClassVar[Numerics] = "idealized"
    promises: ClassVar[tuple[type[Promise], ...]] = (PureDP,)

    shells: int = 32

    def __post_init__(self) -> None:
        if isinstance(self.shells, bool) or not isinstance(self.shells, int) or not 2 <= self.shells <= 60:
            raise UsageError("Use between 2 and 60 shells; one shell is the nuclear mechanism.")

    def moments_spec(self, problem: Problem) -> MomentsSpec:
        """One stratum per shell."""
        return MomentsSpec(shells=self.shells)

    def calibrate(self, problem: Problem, budget: Budget) -> StratifiedNuclearCalibration:
        """Smallest scales that keep the budget (stratified_nuclear.md, Theorem 1)."""
        self.check(problem, budget)
        weight, public_count = trace_weight(problem.n_features), problem.neighbors == "replace-one"
        sensitivity = 2 * (1 + weight) if public_count else 1 + weight + ROW_COUNT_WEIGHT
        scale = problem.rows_per_person * sensitivity / budget.pure_epsilon()
        if UNIT * scale / weight > LARGEST_STD:
            raise BudgetError("This budget drowns every table in noise. Use a larger budget.")
        return StratifiedNuclearCalibration(
            promise=budget.promise,
            matrix_scale=UNIT * scale,
            trace_scale=UNIT * scale / weight,
            row_count_scale=None if public_count else scale / ROW_COUNT_WEIGHT,
        )

    def draw(
        self,
        moments: Moments,
        calibration: StratifiedNuclearCalibration,
        problem: Problem,
        entropy: Entropy,
    ) -> NoisyStatistics:
        """Draw the traces, decide from them alone, then draw the matrices that are worth it."""
        noise = discrete_laplace(calibration.trace_scale, self.shells, entropy)
        traces = [stratum.sscp.trace() + int(z) for stratum, z in zip(moments.strata, noise, strict=True)]
        scale, d = _up(calibration.matrix_scale), moments.n_features
        groups = choose_runs(traces, scale, d)
        matrices = [
            _group_sscp(moments, group) + symmetric_nuclear_noise(d, scale, entropy) for group in groups
        ]
        dropped = max(0, max(map(abs, traces)).bit_length() - 62)
        arrays: dict[str, PublishedArray] = {
            "sscp": np.array(matrices, dtype=np.float64).reshape(-1, d, d) / 2**dropped,
            "first_shell": np.array([group[0] for group in groups], dtype=np.int64),
            "last_shell": np.array([group[-1] for group in groups], dtype=np.int64),
            "trace": np.array([trace >> dropped for trace in traces], dtype=np.int64),
        }
        if calibration.row_count_scale is not None:
            count = moments.n_rows + int(discrete_laplace(calibration.row_count_scale, 1, entropy)[0])
            arrays["row_count"] = np.array([count], dtype=np.int64)
        return NoisyStatistics(
            layout="strata",
            arrays=arrays,
            lattice_bits=DEFAULT_BITS,
            dropped_bits=dropped,
            post="shrink",
            noise=_law(calibration, d),
        )


def trace_weight(n_features: int) -> Fraction:
    """Weight of a shell's trace relative to its matrix: the larger the matrix, the less precise a trace it needs."""
    return Fraction(1, min(4 + math.isqrt(n_features), 16))


def choose_runs(traces: Sequence[int], scale: float, n_features: int) -> list[range]:
    """Which shells to draw, and which together; from noisy traces alone.

    Parameters
    ----------
    traces : sequence of int
        Noisy traces, each in its shell's units, largest radius first.
    scale : float
        Scale of the matrices' noise, in the same units.
    n_features : int

    Returns
    -------
    list of range
        Consecutive shells that are summed before noise is added, largest radius first.  The shell above a clear one is
        drawn in any case: where many rows end, some may lie just beyond.
    """
    smallest = DRAW_ABOVE * scale * math.sqrt(2.0 * ullman.off_diagonal_variance(n_features))
    clear = JOIN_ABOVE * scale * n_features * ullman.edge(n_features)
    groups: list[range] = []
    for shell, trace in enumerate(traces):
        if trace > clear:
            above = [range(shell - 1, shell)] if shell > 0 and traces[shell - 1] <= smallest else []
            return [*groups, *above, range(shell, len(traces))]
        if trace > smallest:
            groups.append(range(shell, shell + 1))
    return groups


def _group_sscp(moments: Moments, group: range) -> NDArray[np.float64]:
    """Sum a group of shells in units of its first one."""
    total = np.zeros((moments.n_features, moments.n_features))
    for shell in group:
        total += moments.strata[shell].sscp.to_float() * 4.0 ** (group[0] - shell)
    return total


def _law(calibration: StratifiedNuclearCalibration, n_features: int) -> NoiseLaw:
    """Variances of this rotation-invariant law follow from its mean square and the variance of its trace."""
    d, off_diagonal = n_features, ullman.off_diagonal_variance(n_features)
    diagonal = ullman.mean_square(d) / d - (d - 1) * off_diagonal
    squared = float(calibration.matrix_scale) ** 2
    count = calibration.row_count_scale
    return NoiseLaw(
        family="symmetric nuclear norm, traces discrete laplace",
        scale=str(_up(calibration.matrix_scale)),
        diagonal_variance=str(round(diagonal * squared)),
        off_diagonal_variance=str(round(off_diagonal * squared)),
        trace_variance=str(round(2 * calibration.trace_scale**2)),
        row_count_variance=None if count is None else str(float(2 * count**2)),
    )


def _up(value: Fraction) -> float:
    """A float that is not below the fraction."""
    return math.nextafter(float(value), math.inf)

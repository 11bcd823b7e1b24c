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
    their rows shortened into the next smaller one, which costs nothing.  Where a look at the rows'
    lengths pays, the shells' edges are moved to where the rows are.
References : Dong, Liang, Yi (2022), sections 3.1 and 5, for noise and clipping that this replaces.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, sqrt
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dpcov.data.exact.moments import (
    DEFAULT_BITS,
    Bits,
    Moments,
    MomentsSpec,
    StratumMoments,
    part_energies,
)
from dpcov.data.exact.sums import ExactSum
from dpcov.mechanisms.base import Ask, Calibration, Entropy, Mechanism, NoisyStatistics, Problem
from dpcov.mechanisms.blocks.clip_search import noisy_traces, shell_counts
from dpcov.mechanisms.blocks.finished import noise_law
from dpcov.mechanisms.gaussian import ROW_COUNT_WEIGHT, even_variance, symmetric_noise
from dpcov.mechanisms.stratified_fit import Cells, count_weight, fineness, shell_to_fit
from dpcov.mechanisms.stratified_rules import (
    SMALL_DIMENSION,
    Run,
    choose_runs,
    clear_shells,
    trace_weight,
)
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
class _Edges:
    """Where shells begin: in part ``place`` of whole shells, and in which one most rows do."""

    place: int = 0
    energy: Fraction = Fraction(1)
    shell: int | None = None


@dataclass(frozen=True)
class _Look:
    """**Sensitive** shells of all groups, their noisy traces, and the variances of the noise.

    ``variance`` is that on a matrix's diagonal, which is drawn next, in the shell's lattice units.
    """

    edges: _Edges
    variance: int
    trace_variance: int
    shells: Sequence[StratumMoments]
    traces: list[int]


def _look_at(
    moments: Moments, edges: _Edges, variance: int, trace_variance: int, entropy: Entropy
) -> _Look:
    shells = _shells(moments, edges)
    traces = noisy_traces(shells, rounded_gaussian(trace_variance, len(shells), entropy))
    return _Look(edges, variance, trace_variance, shells, traces)


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
    summary = "Gaussian noise by length of row at the cost of one release, optimal shrinkage"
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
            fineness=fineness(problem.n_features, problem.n_groups, self.shells),
            groups=problem.n_groups,
            normalized=problem.n_features <= SMALL_DIMENSION,
        )

    def calibrate(self, problem: Problem, budget: Budget) -> StratifiedCalibration:
        """Smallest even variance that keeps the budget (stratified.md, Theorems 1 and 2)."""
        self.check(problem, budget)
        squared, weight = self._squared_sensitivity(problem), trace_weight(problem.n_features)
        # Traces of fitted shells have the largest noise of all.
        smallest = weight / (_looked(problem) * (1 + weight))
        variance = even_variance(squared, budget.promise, smallest_weight=smallest)
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
        moved = 2 if problem.neighbors == "replace-one" else 1
        shift = moved * (1 + weight + _counts_rows(problem) * ROW_COUNT_WEIGHT) * unit**2
        # Joined and shortened shells are rounded down to whole numbers, which may move every trace,
        # in units of down to a quarter of a fitted shell's.
        rounding = 4 * (self.shells + 1) * problem.n_groups * problem.n_features
        return Fraction(shift) + 4 * rounding * unit + 2 * rounding**2

    def draw(
        self, ask: Ask, calibration: StratifiedCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Draw the traces, decide from them alone, then draw the matrices that are worth it."""
        moments = ask(self.question(problem))
        look = self._look(moments, calibration, problem, entropy)
        arrays, dropped = _draw_runs(look, _runs(look, problem), problem, entropy)
        count = calibration.row_count_variance
        if count is not None:
            counts = shell_counts(moments).reshape(problem.n_groups, -1).sum(axis=1)
            arrays["row_count"] = counts + rounded_gaussian(count, len(counts), entropy)
        law = noise_law(
            "gaussian rounded to integers",
            diagonal_variance=look.variance,
            off_diagonal_variance=look.variance // 2,
            trace_variance=look.trace_variance,
            row_count=count,
        )
        return NoisyStatistics(
            layout="strata",
            arrays=arrays,
            lattice_bits=self.bits,
            dropped_bits=dropped,
            # The outermost fitted shell reaches beyond the norm bound.
            radius=2.0 if look.edges.place else 1.0,
            post="shrink",
            noise=law,
            notes=_notes(look.edges),
            n_groups=problem.n_groups,
        )

    def _look(
        self,
        moments: Moments,
        calibrated: StratifiedCalibration,
        problem: Problem,
        entropy: Entropy,
    ) -> _Look:
        """Draw every shell's trace; where that pays, fit the shells' edges to the rows."""
        variances = calibrated.diagonal_variance, calibrated.trace_variance
        plain = _look_at(moments, _Edges(), *variances, entropy)
        # What follows from noisy traces may follow from anything public.
        sought, shell = problem.n_features - problem.n_indicators, None
        if moments.spec.parts > 1:
            shell = shell_to_fit(plain.traces, sqrt(plain.trace_variance), sought)
        if shell is None:
            return plain
        # What is left after the counts, and after new traces, in units of the new shells.
        left, weight = plain.variance * _looked(problem), trace_weight(problem.n_features)
        edges = self._fitted(moments, shell, left, entropy, sought)
        if not edges.place:
            return replace(plain, edges=edges, variance=2 * ceil(left / 2))
        left *= (1 + weight) * edges.energy**2
        return _look_at(moments, edges, 2 * ceil(left / 2), ceil(left / weight), entropy)

    def _fitted(
        self, moments: Moments, shell: int, matrix_variance: Fraction, entropy: Entropy, sought: int
    ) -> _Edges:
        """Look at the numbers of rows in parts of shells, and begin shells where most rows do."""
        # ``sought`` are the columns that accuracy is sought for.
        parts, in_rows = moments.spec.parts, matrix_variance / 16**self.bits
        variance = in_rows / count_weight(moments.n_features)
        cells = Cells(shell, self.shells, parts)
        exact = cells.count(shell_counts(moments))
        counts = (exact + rounded_gaussian(variance, len(exact), entropy)).astype(np.float64)
        edge = cells.edge(counts, sqrt(variance), sqrt(in_rows), sought)
        place = edge % parts
        energy = Fraction(float(part_energies(parts)[place]))
        return _Edges(place=place, energy=energy, shell=edge // parts + (place > 0))


def _runs(look: _Look, problem: Problem) -> list[Run]:
    """Runs of all groups, whose shells stand one behind the other.

    They follow from noisy traces alone, so choosing them is free.
    """
    step, fitted = len(look.traces) // problem.n_groups, look.edges.shell
    by_group = [look.traces[first : first + step] for first in range(0, len(look.traces), step)]
    clear = [clear_shells(traces, sqrt(look.trace_variance)) for traces in by_group]
    # Of a group that does not show, rows are taken to be no longer than those of the others.
    longest = min((shown[0] for shown in clear if shown), default=None)
    sought = problem.n_features - problem.n_indicators
    return [
        Run(*(place * step + shell for shell in run))
        for place, (traces, shown) in enumerate(zip(by_group, clear, strict=True))
        for run in choose_runs(
            *(traces, look.variance, look.trace_variance, sought),
            fitted=longest if fitted is None and not shown else fitted,
        )
    ]


def _draw_runs(
    look: _Look, runs: Sequence[Run], problem: Problem, entropy: Entropy
) -> tuple[dict[str, NDArray[np.int64]], int]:
    """A noisy matrix of every run, all traces, and the bits dropped from them."""
    d, step = problem.n_features, len(look.traces) // problem.n_groups
    # Drawn in any case: its absence would tell that no run was drawn.
    drawn, joint = [], int(rounded_gaussian(look.variance, 1, entropy)[0])
    for run in runs:
        total = _run_sum(look.shells, run)
        joint += total.trace()
        drawn.append(total.plus(symmetric_noise(d, look.variance, entropy)))
    numbers = {"trace": look.traces}
    if problem.neighbors == "replace-one":
        numbers["joint_trace"] = [joint]
    arrays, dropped = _aligned(drawn, numbers, d)
    shell_numbers = np.array(runs, dtype=np.int64).reshape(-1, len(Run._fields))
    for field, numbers_of_runs in zip(Run._fields, shell_numbers.T, strict=True):
        arrays[f"{field}_shell"] = numbers_of_runs % step
    if problem.n_groups > 1:
        arrays["group"] = shell_numbers[:, 0] // step
    return arrays, dropped


def _notes(edges: _Edges) -> tuple[str, ...]:
    if not edges.place:
        return ()
    radius = sqrt(edges.energy)
    note = "rows of similar length were taken together, with edges that noisy counts chose"
    return (f"{note}: {radius:.3f} of the norm bound and its halvings",)


def _looked(problem: Problem) -> Fraction:
    # By what the variance grows that is left after a look at the lengths of rows.
    return 1 + count_weight(problem.n_features)


def _counts_rows(problem: Problem) -> bool:
    # Whether noisy row counts are released: the number is private, or that of every group is.
    return problem.neighbors == "add-remove-one" or problem.n_groups > 1


def _shells(moments: Moments, edges: _Edges) -> list[StratumMoments]:
    """Sums over the shells of all groups, in units of twice the radius where they are fitted.

    Sums of smaller and of shortened rows are rounded down.
    """
    parts, place, strata = moments.spec.parts, edges.place, moments.strata
    if parts == 1:
        return strata
    shells = []
    for first in range(place - parts if place else 0, len(strata), parts):
        # Parts of one whole shell, and the first ones of the next.
        border = first - place + parts
        outer = _merged(moments, strata[max(0, first) : border])
        inner = _merged(moments, strata[border : border + place])
        outer.n_rows += inner.n_rows
        outer.sscp.merge(inner.sscp.shifted_down(2))
        if outer.normalized is not None and inner.normalized is not None:
            outer.normalized.merge(inner.normalized)
            scaled = outer.normalized.times(edges.energy.numerator)
            outer.normalized = scaled.shifted_down(edges.energy.denominator.bit_length() - 1)
        shells.append(outer)
    return shells


def _merged(moments: Moments, strata: Sequence[StratumMoments]) -> StratumMoments:
    merged = StratumMoments(moments.n_features, normalized=moments.spec.normalized)
    for stratum in strata:
        merged.merge(stratum)
    return merged


def _run_sum(shells: Sequence[StratumMoments], run: Run) -> ExactSum:
    # Sum a run of shells in units of its first one; smaller shells are rounded down.
    total = ExactSum(shells[run.first].sscp.dimension)
    # Rows of larger shells are shortened to the first one's radius or, where they were not gathered
    # so, by the ratio of their shell's radius to it.
    for shell in shells[run.outermost : run.first]:
        total.merge(shell.sscp if shell.normalized is None else shell.normalized)
    for number in range(run.first, run.last + 1):
        total.merge(shells[number].sscp.shifted_down(2 * (number - run.first)))
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

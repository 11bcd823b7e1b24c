"""Release the second moments of all norm shells jointly, with noise shaped like the nuclear norm.

Guarantee : epsilon-DP.  Proof : stratified_nuclear.md.  Numerics : idealized; traces and row count
    are exact.  The samplers are exact in real arithmetic, so no delta enters.
Sensitivity : Each shell's sscp is divided by its own squared radius.  Sum over all shells of
    nuclear norm + w |trace|: 2k (1 + w) (replace-one), k (1 + w) (add-remove-one) for k rows per
    person; both attained. Under replace-one one matrix costs nuclear norm + |trace| <= 2k: all
    shells are released as one if a first look at the outermost shell's trace, which costs k, finds
    most rows there, or, with larger rows shortened, if no shell stands out.
Utility : A shell of radius t carries noise of scale t**2 s, whose root mean square Frobenius norm
    is about 0.64 (d + 1) sqrt(d) t**2 s, before shrinkage (docs/pure.md).  Shells whose noisy trace
    is within the noise of one entry are not drawn at all.
References : Hardt, Talwar (2010); d'Orsi, Novikov (2025), Algorithm 1, for the plain mechanism.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpcov.data.exact.moments import DEFAULT_BITS, Moments, MomentsSpec
from dpcov.errors import BudgetError
from dpcov.mechanisms.base import Ask, Calibration, Entropy, Mechanism, Problem
from dpcov.mechanisms.blocks.clip_search import noisy_traces
from dpcov.mechanisms.blocks.finished import noise_law
from dpcov.noise.lattice import LARGEST_STD, discrete_laplace
from dpcov.noise.nuclear import symmetric_nuclear_noise
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import Promise, PureDP
from dpcov.privacy.options import Between
from dpcov.published.estimate import nuclear_law as ullman
from dpcov.published.file.statistics import NoiseLaw, NoisyStatistics, Post, PublishedArray

# Squared norm of a lattice row at its shell's radius.
UNIT = 4**DEFAULT_BITS

# Weight of the row count under add-remove-one: 6 % more noise on everything else.
ROW_COUNT_WEIGHT = Fraction(1, 16)

# A first look has noise of scale n / 14, unless the least share of the budget buys less.
LOOK_NOISE = 14
SMALLEST_LOOK = Fraction(1, 200)
# There is no look if it costs more than this part of what traces do, which is what it can save.
LARGEST_LOOK = Fraction(1, 2)
# All shells are one if the outermost trace per row exceeds this: at least 2/3 of the sum's.
MOST_ROWS = Fraction(1, 3)

# Shells are chosen from noisy traces and public numbers only, so every choice is post-processing.
# Traces are in units of their own shell; sizes are traces over the scale of the matrices' noise, so
# that all shells have the same noise.  With sizes x_s, folding all shells into shell f gives one
# matrix of size F = Σ x_s 4^(-max(s-f, 0)) and error V = sqrt(d) times the noise in one direction,
# as for an eigenvector; 4^-f (F - V) is what it explains of the second moment.

# A shell is drawn when its noisy trace exceeds so many standard deviations of the noise along one
# direction.
DRAW_ABOVE = 2.5

# Shells join the one above when its mean eigenvalue exceeds the edge of its noise by this factor.
JOIN_ABOVE = 2.5

# Traces have noise of scale 1 / weight; a shell stands out when its trace exceeds so many of them,
# and so many more for every factor e in its number: many shells are looked at.
STANDS_OUT = 4.5
STANDS_OUT_PER_SHELL = 1.5

# A fold must explain more than the noise on its size by so many standard deviations.
FOLD_DOUBT = 0.5

AS_ONE = "most rows are longer than half the norm bound, so rows of all lengths are in one matrix"
NONE_STANDS_OUT = "no short rows stood out, so rows of all lengths are in one matrix"
SHORTENED = ", rows longer than 2^-{} of the norm bound shortened to that"


@dataclass(frozen=True, kw_only=True)
class NuclearScales(Calibration):
    """Noise scales in each shell's own lattice units, and of the row count in rows.

    ``look_scale`` is that of a first look at the outermost shell, ``whole_scale`` that of a single
    matrix drawn after it; ``folded_scale`` that of one drawn after the traces (replace-one).
    """

    matrix_scale: Fraction
    trace_scale: Fraction
    row_count_scale: Fraction | None = None
    look_scale: Fraction | None = None
    whole_scale: Fraction | None = None
    folded_scale: Fraction | None = None


@dataclass(frozen=True, kw_only=True)
class StratifiedNuclear(Mechanism[NuclearScales]):
    """Symmetric nuclear-norm noise on every norm shell, matched to the shell's radius.

    Parameters
    ----------
    shells : int, default=32
        Number of shells, as in :class:`~dpcov.mechanisms.stratified.Stratified`.
    shorten : bool, default=False
        Whether larger rows may be shortened where no inner shell stands out and all are released as
        one matrix (replace-one).  Nothing that all rows have in common, such as an intercept, is
        known of shortened rows.
    """

    name = "stratified-nuclear"
    summary = "pure-DP nuclear-norm noise by length of row, optimal shrinkage"
    paper = "this project (stratified_nuclear.md)"
    promises = (PureDP,)
    is_isotropic = True

    shells: Annotated[int, Between(2, 60)] = 32
    shorten: bool = False

    def suits(self, post: Post, promise: Promise) -> bool:
        """All but thresholds: strata of this noise have a known best shrinkage."""
        return post != "threshold"

    def moments_spec(self, problem: Problem) -> MomentsSpec:
        """One stratum per shell."""
        return MomentsSpec(shells=self.shells)

    def calibrate(self, problem: Problem, budget: Budget) -> NuclearScales:
        """Smallest scales that keep the budget (stratified_nuclear.md, Theorem 1)."""
        self.check(problem, budget)
        weight, public_count = trace_weight(problem.n_features), problem.neighbors == "replace-one"
        k, whole = problem.rows_per_person, budget.pure_epsilon()
        sensitivity = 2 * (1 + weight) if public_count else 1 + weight + ROW_COUNT_WEIGHT
        share = _look_share(problem, whole, weight)
        epsilon = whole * (1 - share)
        scale = k * sensitivity / epsilon
        # Traces carry the largest noise of all.
        if UNIT * scale / weight > LARGEST_STD:
            raise BudgetError("At this budget noise hides every table. Use a larger budget.")
        # One lattice unit more: the joint trace is rounded.
        one_matrix = (2 * UNIT * k + 1) / epsilon
        return NuclearScales(
            promise=budget.promise,
            matrix_scale=UNIT * scale,
            trace_scale=UNIT * scale / weight,
            row_count_scale=None if public_count else scale / ROW_COUNT_WEIGHT,
            look_scale=UNIT * k / (whole * share) if share else None,
            whole_scale=one_matrix if share else None,
            folded_scale=one_matrix * (1 + weight) if public_count else None,
        )

    def draw(
        self, ask: Ask, calibration: NuclearScales, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Look whether one shell is enough; else draw traces, then matrices that are worth it."""
        moments, look, count = ask(self.question(problem)), calibration.look_scale, None
        if look is not None and _most_rows_are_long(moments, look, problem, entropy):
            assert calibration.whole_scale is not None
            return _draw_as_one(moments, 0, calibration.whole_scale, entropy, AS_ONE)
        noise = discrete_laplace(calibration.trace_scale, self.shells, entropy)
        traces, d = noisy_traces(moments.strata, noise), problem.n_features
        scale = _up(calibration.matrix_scale)
        # Folds and groups follow from noisy traces alone, so choosing them is free.
        if calibration.folded_scale is not None:
            fold = choose_fold(traces, scale, d, shorten=self.shorten)
            if fold is not None:
                note = NONE_STANDS_OUT + (SHORTENED.format(fold) if fold else "")
                return _draw_as_one(moments, fold, calibration.folded_scale, entropy, note)
        groups = choose_runs(traces, scale, d)
        matrices = [
            _sum_in_units_of(moments, group[0], group) + symmetric_nuclear_noise(d, scale, entropy)
            for group in groups
        ]
        count_scale = calibration.row_count_scale
        if count_scale is not None:
            count = moments.n_rows + discrete_laplace(count_scale, 1, entropy)
        law = _law(calibration.matrix_scale, calibration.trace_scale, count_scale, d)
        return _statistics(matrices, groups, traces, law, d, count)


def _look_share(problem: Problem, epsilon: Fraction, weight: Fraction) -> Fraction:
    # Part of the budget for a first look; none where it would not be worth it.
    if problem.neighbors != "replace-one" or problem.n_rows is None:
        return Fraction(0)
    k = problem.rows_per_person
    share = max(SMALLEST_LOOK, LOOK_NOISE * k / (problem.n_rows * epsilon))
    # Noise that cannot be drawn is refused now: so small a part of a small budget buys no look.
    can_be_drawn = UNIT * k / (epsilon * share) <= LARGEST_STD
    worth_it = share <= LARGEST_LOOK * weight / (1 + weight)
    return share if worth_it and can_be_drawn else Fraction(0)


def _most_rows_are_long(
    moments: Moments, scale: Fraction, problem: Problem, entropy: Entropy
) -> bool:
    # Whether the outermost shell's noisy trace is a good part of what the row number allows.
    assert problem.n_rows is not None
    seen = moments.strata[0].sscp.trace() + int(discrete_laplace(scale, 1, entropy)[0])
    return bool(seen > MOST_ROWS * UNIT * problem.n_rows)


def _draw_as_one(
    moments: Moments, fold: int, scale: Fraction, entropy: Entropy, note: str
) -> NoisyStatistics:
    # Release the sum of all shells, larger rows shortened into shell ``fold``, and its trace.
    # The trace is free then (stratified_nuclear.md).
    d, last = moments.n_features, len(moments.strata) - 1
    exact = sum(
        stratum.sscp.trace() * 4 ** (last - max(shell, fold))
        for shell, stratum in enumerate(moments.strata)
    )
    trace = (exact >> (2 * (last - fold))) + int(discrete_laplace(scale, 1, entropy)[0])
    matrix = _sum_in_units_of(moments, fold, range(last + 1))
    matrix += symmetric_nuclear_noise(d, _up(scale), entropy)
    made = _statistics([matrix], [range(1)], [trace], _law(scale, scale, None, d), d)
    return msgspec.structs.replace(made, radius=2.0**-fold, notes=(note,))


def _statistics(
    matrices: Sequence[NDArray[np.float64]],
    groups: Sequence[range],
    traces: Sequence[int],
    law: NoiseLaw,
    n_features: int,
    row_count: NDArray[np.int64] | None = None,
) -> NoisyStatistics:
    # Pack noisy matrices of groups of shells and noisy traces of all shells.
    dropped = max(0, max(map(abs, traces)).bit_length() - 62)
    sscp = np.array(matrices, dtype=np.float64).reshape(-1, n_features, n_features)
    arrays: dict[str, PublishedArray] = {
        "sscp": sscp / 2**dropped,
        "first_shell": np.array([group[0] for group in groups], dtype=np.int64),
        "last_shell": np.array([group[-1] for group in groups], dtype=np.int64),
        "trace": np.array([trace >> dropped for trace in traces], dtype=np.int64),
    }
    if row_count is not None:
        arrays["row_count"] = row_count
    return NoisyStatistics(
        layout="strata",
        arrays=arrays,
        lattice_bits=DEFAULT_BITS,
        dropped_bits=dropped,
        post="shrink",
        noise=law,
    )


def _sum_in_units_of(moments: Moments, unit: int, shells: range) -> NDArray[np.float64]:
    # Rows of shells larger than the unit's are shortened to its radius.
    total = np.zeros((moments.n_features, moments.n_features))
    for shell in shells:
        total += moments.strata[shell].sscp.to_float() * 4.0 ** -max(shell - unit, 0)
    return total


def _law(matrix: Fraction, trace: Fraction, row_count: Fraction | None, d: int) -> NoiseLaw:
    diagonal, off_diagonal = ullman.entry_variances("nuclear", d)
    squared = float(matrix) ** 2
    return noise_law(
        "symmetric nuclear norm, traces discrete laplace",
        scale=_up(matrix),
        diagonal_variance=round(diagonal * squared),
        off_diagonal_variance=round(off_diagonal * squared),
        trace_variance=round(2 * trace**2),
        row_count=row_count and 2 * row_count**2,
    )


def _up(value: Fraction) -> float:
    # A float that is not below the fraction.
    return math.nextafter(float(value), math.inf)


def trace_weight(n_features: int) -> Fraction:
    """Weight of a shell's trace relative to its matrix; a large one needs a less precise trace."""
    return Fraction(1, min(4 + math.isqrt(n_features), 16))


def choose_runs(traces: Sequence[int], scale: float, n_features: int) -> list[range]:
    """Which consecutive shells are summed before noise is added, largest radius first.

    Noisy traces and the scale of the matrices' noise are in each shell's units.  The shell above a
    clear one is drawn in any case: where many rows end, some may lie just beyond.
    """
    smallest = DRAW_ABOVE * scale * _direction_noise(n_features)
    clear = JOIN_ABOVE * scale * n_features * ullman.edge(n_features)
    groups: list[range] = []
    for shell, trace in enumerate(traces):
        if trace > clear:
            above = [range(shell - 1, shell)] if shell > 0 and traces[shell - 1] <= smallest else []
            return [*groups, *above, range(shell, len(traces))]
        if trace > smallest:
            groups.append(range(shell, shell + 1))
    return groups


def choose_fold(
    traces: Sequence[int], scale: float, n_features: int, *, shorten: bool = True
) -> int | None:
    """Return the shell to which all larger rows are shortened; None where shells are better.

    The fold is the one that explains most; 0, no shortening, where none explains anything or where
    shortening is not allowed.  A shell inside the outermost one that stands out by itself is seen
    more clearly in units of its own radius than in any fold.
    """
    weight = float(trace_weight(n_features))
    sizes = np.array([trace / scale for trace in traces])
    needed = STANDS_OUT + STANDS_OUT_PER_SHELL * np.log(np.arange(2.0, len(sizes) + 1.0))
    if np.any(weight * sizes[1:] > needed):
        return None
    return int(np.argmax(_explained(sizes, weight, n_features))) if shorten else 0


def _explained(sizes: NDArray[np.float64], weight: float, n_features: int) -> NDArray[np.float64]:
    # What one matrix explains for every fold, zero where it is in doubt.
    folds = np.arange(len(sizes))
    factors = 4.0 ** -np.maximum(folds - folds[:, np.newaxis], 0.0)
    doubt = FOLD_DOUBT * np.sqrt(2.0 * (factors**2).sum(axis=1)) / weight
    lost = math.sqrt(n_features) * _direction_noise(n_features) + doubt
    return np.asarray(np.maximum(4.0**-folds * (factors @ sizes - lost), 0.0))


def _direction_noise(n_features: int) -> float:
    # Standard deviation of the matrix noise along a unit direction, for scale 1.
    return math.sqrt(2.0 * ullman.off_diagonal_variance(n_features))

"""Find privately to which length rows of a geometry are scaled down, and what that takes away.

Guarantee : rho-zCDP or epsilon-DP, as the cost says.  Numerics : exact.
    Proof : lengths.md, Theorem 3.  Private input : one histogram of the lengths of encoded rows.
Sensitivity : That of a histogram of disjoint cells, as in the survey.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, inf, pi, sqrt

import numpy as np
from scipy.special import erfcx

from dpcov.data.geometry import Geometry, longest_row
from dpcov.data.histograms import MISSING, HistogramQuestion, Window
from dpcov.data.questions import Ask
from dpcov.mechanisms.base import Calibration, Problem
from dpcov.mechanisms.blocks.cost import Cost
from dpcov.mechanisms.blocks.counts import CountNoise
from dpcov.mechanisms.geometry.survey_counts import RUNS, last_ring
from dpcov.noise.entropy import Entropy
from dpcov.privacy.guarantee import ZCDP, PureDP
from dpcov.published.estimate.nuclear_law import off_diagonal_variance
from dpcov.published.estimate.scaled_down import USUAL as USUAL_ERROR
from dpcov.published.estimate.scaled_down import correlation_error
from dpcov.published.file.columns import EncodedColumn
from dpcov.published.linalg.symmetric import Array

CELLS = 2**12
"""Cells of the histogram, from which bins are joined."""

USUAL = 2.25
"""Squared length per column where no lengths show."""

# Chance that noise makes some bin show that holds nothing.
_FALSE_BINS = 0.002

# Squared lengths in a bin that does not show, relative to those in the one before it: the heaviest
# tails lose 0.4 of them in two bins.
_TAIL = sqrt(0.6)
# Chance that many rows share a length behind the last bin that shows, how many sizes of such a
# clump are told apart, and a logarithm of odds that is certain.
_CLUMP, _SIZES, _SURE = 0.1, 8, 100.0
# Deviation of what rounding does.
_ROUNDING = 12**-0.5
# A normal number that is positive although its mean is so many deviations below zero is small.
_FAR = -30.0
# What is lost is stated as a part below one.
_MOST_LOST = 0.95
# The norm of what a row loses in its columns, over what it loses of its squared length: 1 where it
# is long in one column alone.
_ALONG = 0.7
# Part of all losses from which nothing more is given back for those beyond the limit.
_LEAST_COUNTED = 0.3
# Squared lengths that are told apart, from far below one: scales that the survey does not see are
# far too wide.
_ENERGIES = 2.0 ** (np.arange(-15, 25) / 2)
# First cells of the bins; the first bin holds all that is shorter.
_STARTS = np.unique([0, *np.floor(_ENERGIES / (1 + _ENERGIES) * CELLS).astype(np.intp), CELLS])


@dataclass(frozen=True)
class Shortening:
    """Squared length per column to which rows are scaled down, and the part that is lost.

    ``limit`` is the largest loss of a row, in squared encoded units, that sums of losses count, and
    ``counted`` the part of all losses that they count for it.  ``error`` is what is expected of
    correlations of so many ``rows``, as a mean square; infinite where no lengths show.
    """

    energy: float
    lost: float
    limit: float = 1.0
    counted: float = 1.0
    error: float = inf
    rows: float = 0.0


def question(geometry: Geometry) -> HistogramQuestion:
    """How long rows are in a geometry without a norm bound."""
    return HistogramQuestion(windows=(Window(0.0, 1.0, CELLS),), geometry=geometry)


IN_BOUNDS = question(Geometry(columns={}))
"""It takes as much memory as in any geometry."""


@dataclass(frozen=True, kw_only=True)
class Stakes:
    """What lengths are chosen for: noise that grows with them, and the columns that it is in.

    ``entry_std`` is the deviation of the mechanism's noise on an entry of a sum of rows in the unit
    ball, ``loss_std`` that on sums of losses, in units of their limit.  ``n_values`` are the
    encoded columns but for the intercept and indicators of missing values, and ``variance`` is
    their mean one before a map took correlations out, where that is known.
    """

    entry_std: float
    n_values: int
    loss_std: float = 0.0
    variance: float = 0.0


def find_lengths(
    ask: Ask,
    geometry: Geometry,
    cost: Cost,
    problem: Problem,
    entropy: Entropy,
    stakes: Stakes,
    energy: float | None = None,
) -> Shortening:
    """Choose the length at which noise and what is lost cost least together.

    The ``geometry`` has no norm bound, and the histogram has this ``cost``.  ``energy`` is a
    squared length per column that is given: what it takes is all that is asked.
    """
    noise = CountNoise(cost, problem)
    counts, std, last = _counted(ask, geometry, noise, entropy)
    if last is None:
        return Shortening(energy or USUAL, geometry.lost, USUAL * stakes.n_values)
    with np.errstate(divide="ignore"):
        edges = _STARTS / CELLS / (1 - _STARTS / CELLS)
    # Bins are open above only where rows are as long as can be told.
    middle = (edges[:-1] + np.minimum(edges[1:], 2 * edges[-2])) / 2
    ends = edges[1:] if energy is None else np.array([energy])
    seen, variances = _expected(counts, std, last, middle)
    seen, variances = _with_clumps(seen, variances, counts, noise, last, middle)
    return _best(ends, middle, seen, variances, problem.n_rows, stakes)


def _counted(
    ask: Ask, geometry: Geometry, noise: CountNoise, entropy: Entropy
) -> tuple[Array, float, int | None]:
    """Noisy counts of rows by their lengths, the noise, and the last bin that shows, if any."""
    sums = np.add.reduceat(ask(question(geometry)).counts[0][MISSING + 1 :], _STARTS[:-1])
    counts = (sums + noise.draw(len(sums), entropy, disjoint=True)).astype(np.float64)
    std = noise.std(disjoint=True)
    evidence = noise.evidence(std, _FALSE_BINS / (len(RUNS) * len(counts)))
    return counts, std, last_ring(counts, std, evidence)


def _best(
    ends: Array, middle: Array, seen: Array, variances: Array, n_rows: int | None, stakes: Stakes
) -> Shortening:
    """The best of these squared lengths for rows that lie in the ``middle`` of bins."""
    n_values = stakes.n_values
    whole = max(float(middle @ seen), middle[0])
    beyond = np.maximum(middle - ends[:, None], 0.0)
    lost = beyond @ seen / whole
    kept = np.maximum(np.minimum(middle, ends[:, None]) @ seen, middle[0])
    # Rows of columns that go together are short under a map, and the columns keep their variances.
    kept = np.maximum(kept, stakes.variance * (1 - lost) * float(seen.sum()))
    # One column whose scale is far too small makes rows long, and no variance of others large.
    kept = np.minimum(kept, max(float(seen.sum()), 1.0))
    # A correlation's noise is that of an entry over two deviations; kept / rows is a variance.
    spread = stakes.entry_std * (ends * n_values + 1) / kept
    rows = n_rows or float(seen.sum())
    taken = correlation_error(lost, rows, USUAL_ERROR)
    best = int(np.argmin(spread**2 + taken**2))
    # It is rarely stated far too small: a standard deviation is added.
    doubt = sqrt(float(beyond[best] ** 2 @ variances)) / whole
    limits = _limit(_ALONG * n_values * beyond[best], seen, stakes.loss_std, n_values)
    stated = float(min(lost[best] + doubt, _MOST_LOST))
    error = float(spread[best] ** 2 + correlation_error(stated, rows, USUAL_ERROR) ** 2)
    return Shortening(float(ends[best]), stated, *limits, error=error, rows=rows)


def error_in_bounds(
    columns: Sequence[EncodedColumn], deviations: Array, rows: float, entry_std: float
) -> float:
    """Mean square error that is expected of correlations in the geometry of the bounds.

    ``columns`` are in that geometry, and ``deviations``, (v,), those of its values in their units.
    Pairs of one column of the table are left out.
    """
    values = [column for column in columns if column.kind not in ("intercept", "missing")]
    _, own = np.unique([column.source for column in values], return_inverse=True)
    sums, sizes = np.bincount(own, 1 / deviations**2), np.bincount(own)
    pairs = len(values) ** 2 - float(sizes @ sizes)
    noise = entry_std * longest_row(columns) ** 2 / rows
    return noise**2 * (float(sums.sum()) ** 2 - float(sums @ sums)) / max(1.0, pairs)


def _limit(losses: Array, rows: Array, std: float, n_columns: int) -> tuple[float, float]:
    """The limit at which noise, and what is beyond it, cost sums of losses least together.

    And the part of the losses that are counted with it.
    """
    # What is beyond is taken to be one column's, and the noise is in all of them.
    limits = losses[losses > 0]
    if not len(limits):
        return 1.0, 1.0
    beyond = np.maximum(losses - limits[:, None], 0.0) @ rows
    best = int(np.argmin(beyond**2 / n_columns + (std * limits) ** 2))
    whole = max(float(losses @ rows), float(limits[0]))
    return float(limits[best]), max(_LEAST_COUNTED, 1.0 - float(beyond[best]) / whole)


def _expected(counts: Array, std: float, last: int, squares: Array) -> tuple[Array, Array]:
    """Rows in every bin, and their variances, by noisy counts and what tails are like.

    Behind the last bin that shows, rows follow an exponential law before the count is seen. Its
    mean keeps the squared lengths falling by `_TAIL` from what the bin before is taken to hold.
    """
    # No bin holds less than no row: far ones would hide what is lost in others.
    rows, variances = np.maximum(counts, 0.0), np.full(len(counts), std**2)
    held = max(float((squares * rows)[max(0, last - 1) : last + 1].mean()), squares[last] * std)
    for i in range(last + 1, len(rows)):
        rows[i], variances[i] = _positive(counts[i], std, _TAIL * held / squares[i])
        held = squares[i] * rows[i]
    return rows, variances


def _with_clumps(
    rows: Array, variances: Array, counts: Array, noise: CountNoise, last: int, squares: Array
) -> tuple[Array, Array]:
    """Rows and variances where many rows share a length behind the last bin that shows.

    They are no tail, such as rows at a bound.  Their squared lengths may be all that shows, or a
    half, a fourth, ... of it.  A bin holds such a clump where that is likelier than not.
    """
    # Counts are whole numbers, and little noise is rounded to none or one.
    std, behind = hypot(noise.std(disjoint=True), _ROUNDING), slice(last + 1, None)
    whole = float((squares * rows)[: last + 1].sum())
    sizes = whole / squares[behind, None] * 0.5 ** np.arange(_SIZES)
    # Densities of what is seen, over that where a tail holds what it is taken to hold.
    ratios = noise.log_ratio(counts[behind, None], sizes, std)
    ratios -= noise.log_ratio(counts[behind, None], rows[behind, None], std)
    odds = np.exp(np.minimum(ratios, _SURE)) * _CLUMP / max(1, sizes.size)
    every = np.maximum(odds.sum(axis=1), np.finfo(float).tiny)
    sure = every > 1
    means = (odds * sizes).sum(axis=1) / every
    squared = (odds * sizes**2).sum(axis=1) / every
    rows, variances = rows.copy(), variances.copy()
    rows[behind][sure] = means[sure]
    variances[behind][sure] = (squared - means**2)[sure] + std**2
    return rows, variances


def _positive(count: float, std: float, mean: float) -> tuple[float, float]:
    """Mean and variance of an exponential variable of this mean, given it with normal noise."""
    # Given the count it is a normal one that is positive, by its mean in deviations.
    place = count / std - std / mean
    if place < _FAR:
        return std / -place, (std / place) ** 2
    hazard = sqrt(2 / pi) / float(erfcx(-place / sqrt(2)))
    return std * (place + hazard), std**2 * max(1 - hazard * (hazard + place), 0.0)


def entry_std(calibration: Calibration, problem: Problem) -> float:
    """Standard deviation of noise on an entry off the diagonal; near enough for other laws."""
    cost = calibration.promise
    moved = problem.rows_per_person * (1.0 if problem.neighbors == "replace-one" else sqrt(0.5))
    if calibration.noise_multiplier is not None:
        return moved * float(calibration.noise_multiplier)
    if isinstance(cost, ZCDP):
        return moved / sqrt(2 * cost.rho)
    # Nuclear-norm noise of this scale, and a tenth for traces.
    assert isinstance(cost, PureDP)
    std = sqrt(off_diagonal_variance(problem.n_features)) * problem.moved_rows
    return std / (0.9 * float(cost.epsilon))

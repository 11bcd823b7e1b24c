"""Choose a linear map from a first noisy matrix, so that noise meets no small variance.

Contract: deterministic post-processing of what a mechanism drew.  The map makes correlations small
and leaves every column its spread: rows stay about as long as they were (docs/geometry.md).
Proof: whitening.md, Theorem 4.
"""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import msgspec
import numpy as np

from dpcov.data.exact.linear import LinearMap
from dpcov.errors import ReleaseError
from dpcov.published.estimate.centering import Centering
from dpcov.published.estimate.entry_noise import NUCLEAR_EDGE, MomentNoise
from dpcov.published.estimate.inhabited import inhabited
from dpcov.published.estimate.noise_edge import largest_noise_eigenvalue
from dpcov.published.estimate.unit import UnitEstimate, centered, unit_estimate
from dpcov.published.file.columns import EncodedColumn, half_ranges_of
from dpcov.published.file.statistics import NoisyStatistics
from dpcov.published.linalg.symmetric import Array, Places, compose, eigh

# Variances and eigenvalues, relative to the largest, that are never stretched further.
_LEAST = 1e-6

# Largest eigenvalue of noise with which another matrix shows what this one hides: after the first,
# of which the others have twice the variance of noise, and after them.
_CLEAR, _CLEAR_LATER = 0.5, 0.7

# Deviations of noise that a mean is told from zero by.
_HIDDEN = 4.0


def with_map(statistics: NoisyStatistics, linear: LinearMap | None) -> NoisyStatistics:
    """The statistics with the map of their rows, if these were mapped."""
    if linear is None:
        return statistics
    numbers = np.array(linear.numbers, dtype=np.int64)
    arrays = {**statistics.arrays, "linear": numbers}
    return msgspec.structs.replace(statistics, arrays=arrays, linear_exponent=linear.exponent)


def whitening_map(
    first: NoisyStatistics,
    columns: Sequence[EncodedColumn],
    bound: float,
    n_rows: int | None,
    keeps_intercept: bool = False,
    mapped_by: LinearMap | None = None,
    spreads_before: Array | None = None,
) -> "Whitening | None":
    """With D the spreads and R the correlations, ``D ((R + edge I)/(1 + edge))^-1/2 D^-1 (x - m)``.

    The m are means, as far as the noise lets them be known.  Of rows that were mapped before, R is
    the covariance in units of the D of then, and the map goes on from theirs.

    ``first`` is of rows in the geometry of ``columns`` with this norm ``bound``, and its noise has
    a law; it has a noisy number of rows where no public one is given.  ``keeps_intercept``: every
    row carries its intercept whole, so that its moment is known.  ``mapped_by`` is the rows' own
    map, and levels stay around what it takes from them; ``spreads_before`` are those of the values
    in the map before, if it was one of this kind.  None where the noise hides the number of rows.
    """
    unit, start = inhabited(unit_estimate(first, n_rows)), int(columns[0].kind == "intercept")
    assert unit.noise is not None
    seen = _moments(unit, bound, keeps_intercept) if start else (None, unit.matrix * bound**2.0)
    if seen is None:
        return None
    mean, covariance = seen
    features = columns[start:]
    p = len(features)
    noise = MomentNoise(
        entries=unit.noise.times(bound**4.0),
        edge_factor=NUCLEAR_EDGE if unit.noise_is_nuclear else 1.0,
        features=np.eye(1 + p)[1:],
    )
    # Indicators of missing values stay as they are: noise on them matters little.
    values = np.array([i for i, c in enumerate(features) if c.kind != "missing"], dtype=np.intp)
    of_values = covariance[np.ix_(values, values)]
    mixing, spreads, hidden = _mixing(of_values, noise.on(values), spreads_before)
    own = np.eye(p)
    own[np.ix_(values, values)] = mixing
    # Levels of a column add up: no noise is left on their sum.
    sums = len({c.source for c in features if c.kind == "category"})
    before = np.eye(p, start + p, start) if mapped_by is None else mapped_by.matrix
    matrix = own @ before[:, start:]
    if mean is not None:
        # An indicator of which noise hides whether any value is missing keeps its zeros: rows get
        # no longer by it, and what is zero in all rows takes no time.
        kinds = np.array([feature.kind for feature in features])
        kept = (np.abs(mean) <= _HIDDEN * sqrt(noise.entries.off_diagonal)) & (kinds == "missing")
        if mapped_by is not None:
            kept |= kinds == "category"
        middles = np.where(kept, 0.0, mean)
        if spreads_before is None:
            marked = np.flatnonzero((kinds == "missing") & ~kept)
            middles[marked] /= _mark_factor(mean, covariance, noise, features, marked)
        matrix = np.column_stack([-own @ (middles - before[:, 0]), matrix])
    found = LinearMap.nearest(matrix)
    # Rounded, it must still be one that can be undone: the budget is charged by now.
    return Whitening(found, spreads, hidden > sums) if found.can_be_undone else None


def _mark_factor(
    mean: Array,
    covariance: Array,
    noise: MomentNoise,
    features: Sequence[EncodedColumn],
    marked: Places,
) -> float:
    """By how much rows with missing values were shorter: their indicators at ``marked`` tell.

    An indicator is its own square, so that their second moments over their means, in their units,
    are the mean factor, by which those means are too small.  No share of missing values is above 1.
    """
    if not len(marked):
        return 1.0
    units, means = half_ranges_of(features)[marked], mean[marked]
    squares = np.diagonal(covariance)[marked] + means**2
    # As large as noise may have made it small.
    std = float(np.linalg.norm(units**2)) * sqrt(noise.entries.diagonal)
    found = float(units**2 @ squares + std) / float(units @ means)
    return float(np.clip(found, np.abs(units * means).max(), 1.0))


def _moments(unit: UnitEstimate, bound: float, keeps_intercept: bool) -> tuple[Array, Array] | None:
    """Mean and covariance beside an intercept, as far as noise lets them be known.

    None where it hides the number of rows.
    """
    assert unit.noise is not None
    try:
        intercept, mean, covariance = centered(unit, bound**-2.0 if keeps_intercept else None)
    except ReleaseError:
        return None
    about = Centering(noisy=unit.matrix, variance=unit.noise.off_diagonal, unit=intercept)
    if not about.is_drowned:
        return mean, covariance
    # Rows far from their means are long, and noise grows with their length.
    return about.likely, covariance + np.outer(mean, mean) - np.outer(about.likely, about.likely)


def centering_map(middles: Array) -> LinearMap:
    """Features less what is public of their means, (p,): rows get shorter by it."""
    return LinearMap.nearest(np.column_stack([-middles, np.eye(len(middles))]))


class Whitening(NamedTuple):
    """A map with the spreads D of all values; ``goes_on``: another matrix shows more."""

    linear: LinearMap
    spreads: Array
    goes_on: bool


def _mixing(covariance: Array, noise: MomentNoise, given: Array | None) -> tuple[Array, Array, int]:
    """What takes correlations out, (v, v), the spreads, and how many directions the noise hides.

    Of these another matrix may show more.  ``given`` are the spreads of an earlier map.
    """
    # What the noise may hide counts as spread.
    variances = np.diagonal(covariance)
    least = max(sqrt(noise.entries.diagonal), _LEAST * float(variances.max()), np.finfo(float).tiny)
    spreads = np.sqrt(np.maximum(variances, least)) if given is None else given
    edge = largest_noise_eigenvalue(noise, 1 / spreads, np.zeros(len(spreads)))
    edge = max(edge, _LEAST)
    values, vectors = eigh(covariance / np.outer(spreads, spreads))
    # Columns that nothing relates keep their spreads, however much the noise hides.
    root = compose(((np.maximum(values, 0.0) + edge) / (1 + edge)) ** -0.5, vectors)
    # Those between half of the edge and the edge gain nothing by another matrix (whitening.md).
    clear = _CLEAR if given is None else _CLEAR_LATER
    hidden = int(np.count_nonzero(values < edge / 2)) if edge <= clear else 0
    return spreads[:, None] * root / spreads, spreads, hidden

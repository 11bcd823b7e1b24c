"""Choose a linear map from a first noisy matrix, so that noise meets no small variance.

Contract: deterministic post-processing of what a mechanism drew.  The map makes correlations small
and leaves every column its spread: rows stay about as long as they were (docs/geometry.md).
"""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import msgspec
import numpy as np

from dpcov.data.linear import LinearMap
from dpcov.errors import ReleaseError
from dpcov.published.columns import EncodedColumn
from dpcov.published.estimate.centering import Centering
from dpcov.published.estimate.entry_noise import NUCLEAR_EDGE, MomentNoise, inhabited
from dpcov.published.estimate.noise_edge import largest_noise_eigenvalue
from dpcov.published.estimate.unit import UnitEstimate, centered, unit_estimate
from dpcov.published.linalg.symmetric import Array, compose, eigh
from dpcov.published.statistics import NoisyStatistics

# Variances and eigenvalues, relative to the largest, that are never stretched further.
_LEAST = 1e-6

# Noise on levels is taken out better where no map has mixed it: a map of them must leave less than
# this part of the squared noise that one of the numbers alone does.
_BETTER = 0.95

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
    spreads: Array | None = None,
) -> "Whitening | None":
    """With D the spreads and R the correlations, ``D ((R + edge I)/(1 + edge))^-1/2 D^-1 (x - m)``.

    The m are means, as far as the noise lets them be known.  Of rows that were mapped before, R is
    the covariance in units of the D of then, and the map goes on from theirs.  Columns that were
    left as they are get their D now.

    ``first`` is of rows in the geometry of ``columns`` with this norm ``bound``, and its noise has
    a law; it has a noisy number of rows where no public one is given.  ``keeps_intercept``: every
    row carries its intercept whole, so that its moment is known.  ``mapped_by`` is the rows' own
    map, and levels stay around what it takes from them; ``spreads``, (p,), are those of the map
    before, if it was one of this kind.  None where the noise hides the number of rows.
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
    chosen, goes_on = _better(features, covariance, noise, spreads)
    before = np.eye(p, start + p, start) if mapped_by is None else mapped_by.matrix
    matrix = chosen.matrix @ before[:, start:]
    if mean is not None:
        # An indicator of which noise hides whether any value is missing keeps its zeros: rows get
        # no longer by it, and what is zero in all rows takes no time.
        kinds = np.array([feature.kind for feature in features])
        hidden = (np.abs(mean) <= _HIDDEN * sqrt(noise.entries.off_diagonal)) & (kinds == "missing")
        kept = hidden if mapped_by is None else hidden | (kinds == "category")
        middles = np.where(kept, 0.0, mean)
        matrix = np.column_stack([-chosen.matrix @ (middles - before[:, 0]), matrix])
    found = LinearMap.nearest(matrix)
    # Rounded, it must still be one that can be undone: the budget is charged by now.
    return Whitening(found, chosen.spreads, goes_on) if found.can_be_undone else None


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


def _better(
    features: Sequence[EncodedColumn], covariance: Array, noise: MomentNoise, given: Array | None
) -> "tuple[_Chosen, bool]":
    """The better map, of all values or of numbers alone, and whether another matrix shows more."""
    # Indicators of missing values stay as they are: noise on them matters little.
    values = [i for i, c in enumerate(features) if c.kind != "missing"]
    numbers = [i for i in values if features[i].kind != "category"]
    whole, plain = (_chosen(covariance, each, noise, given) for each in (values, numbers))
    # Levels of a column add up: no noise is left on their sum, be it mapped or not.
    sums = len({c.source for c in features if c.kind == "category"})
    levels_mapped = whole.length * (len(features) - sums * whole.edge)
    levels_kept = plain.length * (len(features) - sums)
    if levels_mapped < _BETTER * levels_kept:
        return whole, whole.hidden > sums
    return plain, plain.hidden > 0


def centering_map(middles: Array) -> LinearMap:
    """Features less what is public of their means, (p,): rows get shorter by it."""
    return LinearMap.nearest(np.column_stack([-middles, np.eye(len(middles))]))


class Whitening(NamedTuple):
    """A map with the spreads D, NaN of what it leaves; ``goes_on``: another matrix shows more."""

    linear: LinearMap
    spreads: Array
    goes_on: bool


class _Chosen(NamedTuple):
    """A map, (p, p), with its mean squared length of rows, which is p without a map.

    Noise on features sums to p, mapped or not; ``edge`` is that where the rows have no variance.
    ``hidden`` are the directions that the noise hides and another matrix may show.
    """

    matrix: Array
    spreads: Array
    length: float
    edge: float = 1.0
    hidden: int = 0


def _chosen(
    covariance: Array, chosen: Sequence[int], noise: MomentNoise, given: Array | None
) -> _Chosen:
    """Take correlations among the chosen features out; the others stay as they are."""
    matrix, places = np.eye(len(covariance)), np.array(chosen, dtype=np.intp)
    units = np.full(len(matrix), np.nan) if given is None else given.copy()
    if not len(places):
        return _Chosen(matrix, units, len(matrix))
    covariance = covariance[np.ix_(places, places)]
    # What the noise may hide counts as spread.
    variances = np.diagonal(covariance)
    least = max(sqrt(noise.entries.diagonal), _LEAST * float(variances.max()), np.finfo(float).tiny)
    # Those that no map has mixed yet have no unit.
    own = np.sqrt(np.maximum(variances, least))
    spreads = units[places] = np.where(np.isnan(units[places]), own, units[places])
    edge = largest_noise_eigenvalue(noise.on(places), 1 / spreads, np.zeros(len(spreads)))
    edge = max(edge, _LEAST)
    values, vectors = eigh(covariance / np.outer(spreads, spreads))
    kept = np.maximum(values, 0.0)
    # Columns that nothing relates keep their spreads, however much the noise hides.
    root = compose(((kept + edge) / (1 + edge)) ** -0.5, vectors)
    matrix[np.ix_(places, places)] = spreads[:, None] * root / spreads
    # Lengths of rows under the map.
    others = len(matrix) - len(places)
    length = others + (1 + edge) * float(np.sum(kept / (kept + edge)))
    # Those between half of the edge and the edge gain nothing by another matrix (survey.md).
    clear = _CLEAR if given is None else _CLEAR_LATER
    hidden = np.count_nonzero(values < edge / 2) if edge <= clear else 0
    return _Chosen(matrix, units, length, edge / (1 + edge), int(hidden))

"""What everybody knows of the levels of a column, and blocks of columns that show nothing.

Contract: public numbers only, deterministic.  Derived and measured in docs/shrinkage.md.
"""

from collections.abc import Callable, Sequence
from itertools import combinations, groupby

import numpy as np
from numpy.typing import NDArray

from dpcov.published.columns import EncodedColumn
from dpcov.published.estimate.unit import STEP, UnitEstimate, probes, with_noise
from dpcov.published.linalg.project import project_psd
from dpcov.published.linalg.symmetric import Array

Places = NDArray[np.intp]

# Fewer numbers than these cannot tell how much of them is noise.
_FEW = 3


def sources_of(columns: Sequence[EncodedColumn]) -> list[Places]:
    """Places of the encoded features of every column of the table, in order."""
    groups = groupby(range(len(columns)), key=lambda place: columns[place].source)
    return [np.array(list(places), dtype=np.intp) for _, places in groups]


def has_blocks(columns: Sequence[EncodedColumn]) -> bool:
    """Whether some column of the table has levels enough to tell its noise from."""
    return max(map(len, sources_of(columns))) >= _FEW


def with_known(covariance: Array, mean: Array, columns: Sequence[EncodedColumn]) -> Array:
    """Covariances within a column that follow from means, without noise of their own.

    A level or an indicator is 0 or one number, two levels never meet, and no value meets the
    indicator that it is missing.

    Parameters
    ----------
    covariance : (p, p) float64
        In encoded units.
    mean : (p,) float64
        Means of the encoded features.
    columns : sequence of EncodedColumn
        The features.
    """
    found = covariance.copy()
    is_level = np.array([column.kind in ("category", "missing") for column in columns])
    largest = np.array([column.largest for column in columns])
    kept = np.where(is_level, np.clip(mean, 0.0, largest), mean)
    for places in sources_of(columns):
        levels = is_level[places]
        known = levels[:, None] | levels
        block = np.diag(kept[places] * largest[places]) - np.outer(kept[places], kept[places])
        found[np.ix_(places, places)] = np.where(known, block, found[np.ix_(places, places)])
    for place, column in enumerate(columns):
        hidden = [i for i, other in enumerate(columns) if other.source in column.together]
        apart = [i for i in hidden if i != place]
        found[apart, place] = found[place, apart] = -kept[apart] * kept[place]
    return found


def divergence(
    estimate: Callable[[UnitEstimate], tuple[Array, Array]], unit: UnitEstimate
) -> Array:
    """Mean product of the noise on every entry and of what it does to an estimate, (p, p).

    By made-up noise (Ramani, Blu, Unser 2008): the estimate minus this is as far from the noisy
    matrix, on average, as from the truth (Stein).

    Parameters
    ----------
    estimate : callable
        From a unit estimate to its noisy matrix and the estimate made of it, (p, p) each.
    unit : UnitEstimate
    """
    noisy, found = estimate(unit)
    seeds, total = probes(unit), np.zeros_like(noisy)
    for seed in seeds:
        moved, after = estimate(with_noise(unit, STEP, seed))
        total += (moved - noisy) * (after - found)
    return total / (len(seeds) * STEP**2)


def quiet(
    noisy: Array, estimate: Array, shared: Array, spread: Array, columns: Sequence[EncodedColumn]
) -> Array:
    """Shrink the blocks of an estimate, pairs of columns of the table, as far as they are noise.

    Every block, and every level's part of one, is multiplied by the factor of least estimated
    risk (Stein): a block by the smaller of its own and of the root of those of its levels.

    Parameters
    ----------
    noisy, estimate : (p, p) float64
        A covariance with noise, and what was made of it.
    shared : (p, p) float64
        Their :func:`divergence`.
    spread : (p,) float64
        Of the noise on the entries: their variances are in proportion to its products.
    columns : sequence of EncodedColumn
    """
    found, weight = estimate.copy(), 1 / np.outer(spread, spread)
    fits, squares = weight * (estimate * noisy - shared), weight * estimate**2
    for first, second in combinations(sources_of(columns), 2):
        if max(len(first), len(second)) < _FEW:
            continue
        block = np.ix_(first, second)
        factor = _factors(fits[block], squares[block])
        found[block] *= factor
        found[np.ix_(second, first)] *= factor.T
    return found


def _factors(fits: Array, squares: Array) -> Array:
    whole = float(_best(fits.sum(), squares.sum()))
    sides = []
    for axis in (1, 0):
        is_wide = fits.shape[axis] >= _FEW
        own = _best(fits.sum(axis=axis), squares.sum(axis=axis))
        sides.append(own if is_wide else np.full(len(own), whole))
    return np.minimum(whole, np.sqrt(np.outer(*sides)))


def _best(fit: Array, square: Array) -> Array:
    # (g S - truth)^2 is least, on average, at g = <S, truth> / <S, S>.
    return np.clip(fit / np.maximum(square, np.finfo(np.float64).tiny), 0.0, 1.0)


def positive(covariance: Array) -> Array:
    """The nearest positive semidefinite correlations at the same variances."""
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    units = np.where(deviations > 0, deviations, 1.0)
    nearest = project_psd(covariance / np.outer(units, units))
    own = np.sqrt(np.diagonal(nearest))
    scale = deviations / np.where(own > 0, own, 1.0)
    return np.asarray(nearest * np.outer(scale, scale))

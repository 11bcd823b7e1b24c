"""What everybody knows of the levels of a column, and blocks of columns that show nothing.

Contract: public numbers only, deterministic.  Derived and measured in docs/shrinkage.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from dpcov.published.columns import EncodedColumn
from dpcov.published.estimate.entry_noise import (
    DEVIATIONS,
    MomentNoise,
    covariance_noise,
    mean_noise,
    total,
    variance_noise,
)
from dpcov.published.linalg.project import project_psd
from dpcov.published.linalg.symmetric import Array, Places

# Fewer numbers than these cannot tell how much of them is noise.
_FEW = 3

# Spreads that correlations in a block may have, from none to strong.
_SPREADS = np.append(1e-4, 0.005 * 2.0 ** np.arange(8))

# A smaller part is not believed to be left of rows that were scaled down.
_LEAST_LEFT = 0.1

# A mean factor is at least this part of its mean square over its mean.
_ALIKE = 0.9

# Variance of the factors of levels that noise is added to where levels are weighed by it.
_SURE = 0.05**2

# One less twice what a level is pulled to: with less of it its square hardly tells a factor.
_LEAST_SLOPE = 0.1

# What all blocks together weigh beside the numbers of one block, and passes to find the shares.
_DRAWN, _ROUNDS = 5.0, 30


def sources_of(columns: Sequence[EncodedColumn]) -> list[Places]:
    """Places of the encoded features of every column of the table, in order."""
    groups = groupby(range(len(columns)), key=lambda place: columns[place].source)
    return [np.array(list(places), dtype=np.intp) for _, places in groups]


def between(columns: Sequence[EncodedColumn]) -> NDArray[np.bool_]:
    """Pairs of features in blocks that have levels enough to tell their noise from, (p, p)."""
    sizes, owner = [], np.zeros(len(columns), dtype=np.intp)
    for place, places in enumerate(sources_of(columns)):
        owner[places] = place
        sizes.append(len(places))
    many = np.array(sizes)[owner] >= _FEW
    return np.asarray((owner[:, None] != owner) & (many[:, None] | many))


def has_blocks(columns: Sequence[EncodedColumn]) -> bool:
    """Whether some column of the table has levels enough to tell its noise from."""
    return bool(between(columns).any())


@dataclass(frozen=True, eq=False)
class RowFactors:
    """What scaling rows down did to encoded features, (p,).

    Less ``shift``, means of levels are smaller by ``of_means``; with ``moved``, (p, p), covariances
    are second moments that are smaller by products of ``of_rows``.  ``shares`` are what levels'
    means were.
    """

    of_means: Array
    of_rows: Array
    shift: Array
    moved: Array
    shares: Array

    def on(self, places: Places) -> "RowFactors":
        """That of the features at ``places`` alone."""
        vectors = (self.of_means, self.of_rows, self.shift, self.shares)
        of_means, of_rows, shift, shares = (each[places] for each in vectors)
        return RowFactors(of_means, of_rows, shift, self.moved[np.ix_(places, places)], shares)

    def means(self, mean: Array) -> Array:
        """The means, (p,), of rows as they were."""
        return np.asarray((mean - self.shift) / self.of_means)

    def restored(self, covariance: Array) -> Array:
        """The covariance of rows as they were."""
        moment = (covariance + self.moved) / np.outer(self.of_rows, self.of_rows)
        return np.asarray(moment - np.outer(self.shares, self.shares))


def row_factors(
    mean: Array,
    covariance: Array,
    law: MomentNoise,
    columns: Sequence[EncodedColumn],
    lost: float,
    around: Array,
) -> RowFactors | None:
    """What levels tell of how much shorter rows are.

    A level is its own square and levels of a column add up to one, so that second moments of levels
    and their means tell the factors of their rows.  None where no column has all its rows in
    levels.

    ``mean``, (p,), and ``covariance``, (p, p), with noise of this ``law``, are of the encoded
    features; ``lost`` is the part of all squared lengths that scaling rows down took, and
    ``around``, (p,), what levels were pulled to; numbers are taken to be near it.
    """
    groups = _exhaustive(columns)
    if not groups:
        return None
    least = sqrt(max(1.0 - 2 * lost, _LEAST_LEFT))
    places = np.concatenate(groups)
    scales = np.array([column.half_range for column in columns])[places]
    starts = np.cumsum([0, *(len(group) for group in groups[:-1])])
    # From here on in shares.
    middle, variances = around[places] * scales, np.diagonal(covariance)
    means = mean[places] * scales
    squares = variances[places] * scales**2 + means**2
    unsure = variance_noise(mean, variances, law)[places] * scales**2
    hidden = mean_noise(mean, law)[places] * scales
    if middle.any():
        # What levels add up to is one, however long rows are.
        square, doubt = _mean_square(squares, unsure, middle, starts, lost)
        usual = sqrt(min(1.0, max(square, least**2)))
    else:
        usual = _usual(means, squares, unsure, starts, least)
        square, doubt = float(np.median(np.add.reduceat(squares, starts))), 0.0
    # A factor's mean square is more than its mean's square.
    square = float(np.clip(square, usual**2, 1.0))
    pulled = 1 - 2 * usual + square
    # Less what they have of what they were pulled to, means are shares times factors, and squares
    # shares times squared factors.
    slope = 1 - 2 * middle
    means = np.maximum(means - middle * (1 - usual), np.finfo(np.float64).tiny)
    # Levels that the noise hides tell nothing of their rows, and those of half of them little.
    shows = (means > DEVIATIONS * hidden) & (np.abs(slope) > _LEAST_SLOPE)
    known, slope = np.where(shows, means, 1.0), np.where(shows, slope, 1.0)
    own = (squares - pulled * middle**2 - 2 * middle * means) / (slope * known)
    own = np.where(shows, own, usual)
    # Of a mean, of its square, and of the usual factor.
    gain = usual + np.abs(2 * middle / slope)
    common = (middle**2 / np.abs(slope) + middle / 2) * doubt
    noise = ((unsure / slope) ** 2 + (gain * hidden) ** 2 + common**2) * shows / known**2
    # Levels differ by so much beyond noise; each weighs by what noise leaves.
    weights = shows / (noise + _SURE)
    beyond = float(weights @ ((own - usual) ** 2 - noise))
    differ = max(0.0, beyond / max(float(weights.sum()), 1.0))
    spread = np.maximum(differ + noise, np.finfo(np.float64).tiny)
    moved = usual + differ / spread * (own - usual)
    of_means, of_rows = np.ones(len(mean)), np.full(len(mean), sqrt(square))
    of_means[places] = np.clip(moved, least, 1.0)
    # Rows that have two levels are as much shorter than usual as both say.
    of_rows[places] *= (of_means[places] / usual) ** 2
    levels, shift, shares, fewer = (np.zeros(len(mean)) for _ in range(4))
    levels[places], shift[places] = mean[places], around[places] * (1 - usual)
    # In encoded units again.
    shares[places] = means / scales / of_means[places]
    fewer[places] = means / scales * (1 - of_means[places])
    cross = np.outer(around, fewer)
    own_moment = np.outer(levels, levels) - pulled * np.outer(around, around) - cross - cross.T
    return RowFactors(of_means, of_rows, shift, own_moment, shares)


def _usual(means: Array, squares: Array, unsure: Array, starts: Places, least: float) -> float:
    """The mean factor of rows, by what levels' means add up to."""
    sums = np.add.reduceat(np.maximum(means, np.finfo(np.float64).tiny), starts)
    # Rows without a listed level make a sum smaller, but not this ratio, which is hardly larger
    # than the factors.
    ratio = (np.add.reduceat(squares, starts).sum() - 2 * np.linalg.norm(unsure)) / sums.sum()
    return float(np.clip(np.median(sums), max(least, min(1.0, _ALIKE * ratio)), 1.0))


def _mean_square(
    squares: Array, unsure: Array, middle: Array, starts: Places, lost: float
) -> tuple[float, float]:
    """The mean squared factor of rows, and its deviation, by what levels' squares add up to.

    They were pulled to ``middle``. Before they are seen, it is anything from what all rows together
    kept to one.
    """
    known = np.add.reduceat(middle**2, starts)
    tells = np.maximum(1 - known, _SURE**2)
    found = (np.add.reduceat(squares, starts) - known) / tells
    weights = tells**2 / np.maximum(np.add.reduceat(unsure**2, starts), _SURE**2)
    # The median by weight: in few columns have some rows no listed level.
    order = np.argsort(found)
    half = int(np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2))
    seen = float(found[order][min(half, len(found) - 1)])
    prior, whole = 12 / max(lost, _SURE) ** 2, float(weights.sum())
    mean = (prior * (1 - lost / 2) + whole * seen) / (prior + whole)
    return mean, 1 / sqrt(prior + whole)


def levels_of(columns: Sequence[EncodedColumn]) -> Places:
    """Places of the encoded features that are levels of categories."""
    return np.flatnonzero([column.kind == "category" for column in columns])


def with_known(covariance: Array, mean: Array, columns: Sequence[EncodedColumn]) -> Array:
    """Covariances within a column that follow from means, without noise of their own.

    A level or an indicator is 0 or one number, two levels never meet, and no value meets the
    indicator that it is missing.  ``covariance``, (p, p), and ``mean``, (p,), are of the encoded
    features.
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


def relations(
    noisy: Array,
    mean: Array,
    law: MomentNoise,
    columns: Sequence[EncodedColumn],
    estimate: Array,
    lost: float = 0.0,
) -> Array:
    """An estimate with every block that has levels as the noise lets see it.

    ``noisy``, (p, p), is the covariance of the encoded features with noise of this ``law``, and
    ``mean``, (p,), theirs; ``estimate``, (p, p), is what is known within columns, and of pairs of
    numbers; ``lost`` is the part of all squared lengths that scaling rows down took.
    """
    groups = [each for each in _exhaustive(columns) if _adds_up(each, mean, law, columns, lost)]
    scales = np.array([column.half_range for column in columns])
    # Least squares with the known noise.
    back = _adding_up(groups, scales, law.along(mean)[0])
    noisy = back @ noisy @ back.T
    noise = covariance_noise(back @ mean, noisy, law.mapped(back))
    deviations = np.sqrt(np.maximum(np.diagonal(estimate), 0.0))
    blocks = [
        (first, second)
        for first, second in combinations(sources_of(columns), 2)
        if max(len(first), len(second)) >= _FEW
    ]
    found = within_counts(_mixed(noisy, noise, deviations, blocks), mean, columns)
    # Noise is gone; what is left is in proportion to the spread.
    back = _adding_up(groups, scales, np.diag(deviations**2))
    return back @ found @ back.T


def _mixed(
    noisy: Array, noise: Array, deviations: Array, blocks: list[tuple[Places, Places]]
) -> Array:
    """Posterior means of the covariances in blocks, and zero elsewhere.

    A correlation is normal around zero with one of several spreads; every block has its own shares
    of them, drawn toward those of all blocks (empirical Bayes).
    """
    sizes = [len(first) * len(second) for first, second in blocks]
    starts = np.cumsum([0, *sizes[:-1]])
    rows = np.concatenate([np.repeat(first, len(second)) for first, second in blocks])
    places = np.concatenate([np.tile(second, len(first)) for first, second in blocks])
    units = (deviations[rows] * deviations[places])[:, None]
    variances = (_SPREADS * units) ** 2 + noise[rows, places][:, None] ** 2
    variances = np.maximum(variances, np.finfo(np.float64).tiny)
    logarithms = -0.5 * (noisy[rows, places][:, None] ** 2 / variances + np.log(variances))
    likely = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    shares = np.full((len(blocks), len(_SPREADS)), 1 / len(_SPREADS))
    for _ in range(_ROUNDS):
        parts = likely * np.repeat(shares, sizes, axis=0)
        parts /= parts.sum(axis=1, keepdims=True)
        counts = np.add.reduceat(parts, starts)
        whole = counts.sum(axis=0)
        counts += _DRAWN * whole / whole.sum()
        shares = counts / counts.sum(axis=1, keepdims=True)
    factors = np.sum(parts * (_SPREADS * units) ** 2 / variances, axis=1)
    found = np.zeros_like(noisy)
    found[rows, places] = found[places, rows] = factors * noisy[rows, places]
    return found


def within_counts(covariance: Array, mean: Array, columns: Sequence[EncodedColumn]) -> Array:
    """Covariances of levels for which some rows have both, and no more than have either one.

    ``covariance``, (p, p), and ``mean``, (p,), are of the encoded features.
    """
    levels = np.array([column.kind == "category" for column in columns])
    largest = np.array([column.largest for column in columns])
    mean = np.clip(mean, 0.0, largest)
    rest = largest - mean
    least = -np.minimum(np.outer(mean, mean), np.outer(rest, rest))
    most = np.minimum(np.outer(mean, rest), np.outer(rest, mean))
    both = np.outer(levels, levels)
    return np.where(both, np.clip(covariance, least, most), covariance)


def _exhaustive(columns: Sequence[EncodedColumn]) -> list[Places]:
    """Columns of the table all of whose features are levels."""
    return [
        places
        for places in sources_of(columns)
        if len(places) > 1 and all(columns[place].kind == "category" for place in places)
    ]


def _adds_up(
    places: Places, mean: Array, law: MomentNoise, columns: Sequence[EncodedColumn], lost: float
) -> bool:
    """Whether every row may have one of the levels, as far as noise lets see."""
    weights = np.zeros(len(mean))
    weights[places] = [columns[place].half_range for place in places]
    share = float(weights @ mean)
    std = float(mean_noise(np.array([share]), total(weights, law))[0])
    # Levels of rows that were scaled down are shorter, by the root of what that took.
    return abs(1.0 - share) <= DEVIATIONS * std + lost / 2


def _adding_up(groups: list[Places], scales: Array, metric: Array) -> Array:
    """The map, (p, p), after which levels of a column add up to a constant.

    Of all features that do, it finds the nearest for noise, or a prior, of this covariance.
    """
    found = np.eye(len(metric))
    for places in groups:
        own, moved = scales[places], metric[np.ix_(places, places)] @ scales[places]
        if own @ moved > 0:
            found[np.ix_(places, places)] -= np.outer(moved, own) / (own @ moved)
    return found


def positive(covariance: Array) -> Array:
    """The nearest positive semidefinite correlations at the same variances.

    None is beyond one: a share that noise makes zero has no covariance with anything.
    """
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    units = np.outer(deviations, deviations)
    found = np.divide(covariance, units, out=np.zeros_like(units), where=units > 0)
    nearest = project_psd(np.clip(found, -1.0, 1.0))
    own = np.sqrt(np.diagonal(nearest))
    scale = deviations / np.where(own > 0, own, 1.0)
    return np.asarray(nearest * np.outer(scale, scale))

"""What everybody knows of the levels of a column, and blocks of columns that show nothing.

Contract: public numbers only, deterministic.  Derived in docs/shrinkage.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from dpcov.published.estimate.correlation_noise import first_order
from dpcov.published.estimate.entry_noise import (
    DEVIATIONS,
    MomentNoise,
    covariance_noise,
    total_noise,
)
from dpcov.published.file.columns import EncodedColumn, half_ranges_of, of_kind
from dpcov.published.linalg.project import project_psd
from dpcov.published.linalg.symmetric import Array, Places

# Fewer numbers than these cannot tell how much of them is noise.
_FEW = 3

# Spreads that correlations in a block may have, from none to strong.
_SPREADS = np.append(1e-4, 0.005 * 2.0 ** np.arange(8))

# What all blocks together weigh beside the numbers of one block, and passes to find the shares.
_DRAWN, _ROUNDS = 5.0, 30


def sources_of(columns: Sequence[EncodedColumn]) -> list[Places]:
    """Places of the encoded features of every column of the table, in order."""
    groups = groupby(range(len(columns)), key=lambda place: columns[place].source)
    return [np.array(list(places), dtype=np.intp) for _, places in groups]


def few_leveled(columns: Sequence[EncodedColumn]) -> Places:
    """Places of the features of columns that have one or two: numbers, and yes-or-no columns."""
    few = (places for places in sources_of(columns) if len(places) < _FEW)
    return np.array([place for places in few for place in places], dtype=np.intp)


def between(columns: Sequence[EncodedColumn]) -> NDArray[np.bool_]:
    """Pairs of features in blocks that have levels enough to tell their noise from, (p, p)."""
    return _in_blocks(sources_of(columns))[0]


def _in_blocks(sources: Sequence[Places]) -> tuple[NDArray[np.bool_], Places]:
    # Such pairs, and which source a feature is of.
    sizes = np.array([len(places) for places in sources])
    owner = np.repeat(np.arange(len(sources)), sizes)
    many = sizes[owner] >= _FEW
    return (owner[:, None] != owner) & (many[:, None] | many), owner


def improved(
    estimate: Array,
    noisy: Array,
    mean: Array,
    law: MomentNoise | None,
    columns: Sequence[EncodedColumn],
    lost: float,
) -> Array:
    """A shrunk covariance, (p, p), with what everybody knows, block by block.

    ``noisy``, (p, p), is the covariance before it was shrunk; ``law`` is that of its noise, None
    where it is not published; the others are as in :func:`relations`.
    """
    found = with_known(estimate, mean, columns)
    if law is not None:
        rarely = {column.source for column in columns if column.kind == "missing"}
        found = without_hidden(
            found, mean, law, np.array([each.source in rarely for each in columns])
        )
        blocks = between(columns)
        if blocks.any():
            found = np.where(blocks, relations(noisy, mean, law, columns, found, lost), found)
    return with_psd_correlations(within_counts(found, mean, columns))


def with_known(covariance: Array, mean: Array, columns: Sequence[EncodedColumn]) -> Array:
    """Covariances within a column that follow from means, without noise of their own.

    A level or an indicator is 0 or one number, two levels never meet, and no value meets the
    indicator that it is missing.  ``covariance``, (p, p), and ``mean``, (p,), are of the encoded
    features.
    """
    found = covariance.copy()
    is_level = of_kind(columns, "category", "missing")
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
    groups = [each for each in exhaustive(columns) if _adds_up(each, mean, law, columns, lost)]
    scales = half_ranges_of(columns)
    # Every level by its own noise.
    own, first = law.squares(mean)
    back = _adding_up(groups, scales, own + first**2)
    noisy = back @ noisy @ back.T
    noise = covariance_noise(back @ mean, noisy, law.mapped(back))
    deviations = np.sqrt(np.maximum(np.diagonal(estimate), 0.0))
    found = within_counts(_mixed(noisy, noise, deviations, sources_of(columns)), mean, columns)
    # Noise is gone; what is left is in proportion to the spread.
    back = _adding_up(groups, scales, deviations**2)
    return back @ found @ back.T


def _mixed(noisy: Array, noise: Array, deviations: Array, sources: Sequence[Places]) -> Array:
    """Posterior means of the covariances in blocks of two sources, and zero elsewhere.

    A correlation is normal around zero with one of several spreads; every block has its own shares
    of them, drawn toward those of all blocks (empirical Bayes).
    """
    rows, places, starts = _by_block(sources)
    units = (_SPREADS[:, None] * (deviations[rows] * deviations[places])) ** 2
    variances = np.maximum(units + noise[rows, places] ** 2, np.finfo(np.float64).tiny)
    logarithms = -0.5 * (noisy[rows, places] ** 2 / variances + np.log(variances))
    likely = np.exp(logarithms - logarithms.max(axis=0))
    parts = likely * _shares(likely, starts)
    factors = np.sum(parts / parts.sum(axis=0) * units / variances, axis=0)
    found = np.zeros_like(noisy)
    found[rows, places] = found[places, rows] = factors * noisy[rows, places]
    return found


def _by_block(sources: Sequence[Places]) -> tuple[Places, Places, Places]:
    # Pairs of places in blocks, block after block, and where blocks start.
    pairs, owner = _in_blocks(sources)
    rows, places = np.nonzero(np.triu(pairs))
    block = owner[rows] * len(sources) + owner[places]
    order = np.argsort(block, kind="stable")
    return rows[order], places[order], np.flatnonzero(np.diff(block[order], prepend=-1))


def _shares(likely: Array, starts: Places) -> Array:
    """Shares of the spreads in the block of every pair, from their likelihoods, both (k, pairs)."""
    spreads, pairs = likely.shape
    sizes, shares = np.diff(starts, append=pairs), np.full((spreads, len(starts)), 1 / spreads)
    for _ in range(_ROUNDS - 1):
        parts = likely * np.repeat(shares, sizes, axis=1)
        parts /= parts.sum(axis=0)
        counts = np.add.reduceat(parts, starts, axis=1)
        whole = counts.sum(axis=1, keepdims=True)
        counts += _DRAWN * whole / whole.sum()
        shares = counts / counts.sum(axis=0)
    return np.repeat(shares, sizes, axis=1)


def within_counts(covariance: Array, mean: Array, columns: Sequence[EncodedColumn]) -> Array:
    """Covariances of levels for which some rows have both, and no more than have either one.

    ``covariance``, (p, p), and ``mean``, (p,), are of the encoded features.
    """
    levels = of_kind(columns, "category")
    largest = np.array([column.largest for column in columns])
    mean = np.clip(mean, 0.0, largest)
    rest = largest - mean
    least = -np.minimum(np.outer(mean, mean), np.outer(rest, rest))
    most = np.minimum(np.outer(mean, rest), np.outer(rest, mean))
    both = np.outer(levels, levels)
    return np.where(both, np.clip(covariance, least, most), covariance)


def exhaustive(columns: Sequence[EncodedColumn]) -> list[Places]:
    """Places of the features of every column of the table that has levels alone."""
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
    weights[places] = half_ranges_of(columns)[places]
    share = float(weights @ mean)
    # Levels of rows that were scaled down are shorter, by the root of what that took.
    return abs(1.0 - share) <= DEVIATIONS * total_noise(share, weights, law) + lost / 2


def _adding_up(groups: list[Places], scales: Array, variances: Array) -> Array:
    """The map, (p, p), after which levels of a column add up to a constant.

    Of all features that do, it finds the nearest, by these ``variances``, (p,).  Errors of levels
    that go along with each other would let it move levels by far more than their sum is off.
    """
    found = np.eye(len(variances))
    for places in groups:
        own, moved = scales[places], variances[places] * scales[places]
        if own @ moved > 0:
            found[np.ix_(places, places)] -= np.outer(moved, own) / (own @ moved)
    return found


def without_hidden(
    covariance: Array, mean: Array, law: MomentNoise, rarely: NDArray[np.bool_]
) -> Array:
    """Without covariances of features that may be ``rarely`` present, (p,), if noise hides them.

    In a positive semidefinite matrix they would move those of all other features.
    """
    # A covariance may be known well where a variance is not.
    noise = first_order(mean, covariance, replace(law, lost=None, bias=0.0))
    known = (noise <= 1 / DEVIATIONS) | ~(rarely[:, None] | rarely)
    return np.where(known | np.eye(len(known), dtype=bool), covariance, 0.0)


def with_psd_correlations(covariance: Array) -> Array:
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

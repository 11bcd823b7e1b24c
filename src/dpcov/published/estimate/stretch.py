"""Give columns back the spread that scaling long rows down took, from noisy sums of what it was.

Contract: reads noisy numbers only, deterministically.  Derived in docs/shrinkage.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammainc

from dpcov.published.file.columns import EncodedColumn, half_ranges_of, numbers
from dpcov.published.file.statistics import LossLaw
from dpcov.published.linalg.symmetric import Array, Places, compose, eigh

# Gamma laws that relative losses of columns may follow, by mean and shape; their likelihoods weigh.
# Of shape 0.05 one column loses nearly all that is lost; of shape 4 all columns lose about as much.
_MEANS = np.geomspace(2e-3, 20.0, 30)
_SHAPES = (0.05, 0.3, 1.0, 4.0)
# Part of what all rows lost together that columns lose on average, but for a factor of about e.
_OF_ALL = 0.5
# Relative losses that are told apart, and what half a step between them is of each.
_LOSSES = np.append(0.0, np.geomspace(1e-4, 1e4, 1000))
_HALF_STEP = 0.01
# Squares of what is known beyond need, relative to variances.
_NOTHING = 1e-12
# What is not known of a column's losses: few lost far more than is seen, hardly any far less. The
# outer quantiles of its logarithm are so many times those of a normal law, and the inner ones as
# much nearer (measured on generated tables).
SKEW = 1.5
# Deviation of what is not counted of a column's loss, over the average (measured).
_UNEVEN = 3.0
# What the mean of a column gets back, over the least that it lost if its far rows are on one side,
# the error of that (measured), and how far a column leans that may have them on both sides.
_OF_LEAST, _OF_LEAST_STD, _LEANS = 1.5, 3.0, 0.2


class Stretch(NamedTuple):
    """What deviations of the features are multiplied by, (p,), at least one.

    ``unsure`` are standard deviations of the squares of the factors, over those squares; ``lost``
    root mean squares of the parts that features lost of their variances, NaN where nothing tells.
    ``moved`` is what means get back, in units of the columns, and ``moved_stds`` its error, over
    deviations as they are read.
    """

    factors: Array
    unsure: Array
    lost: Array
    moved: Array
    moved_stds: Array


class Seen(NamedTuple):
    """What a release says of encoded features, (p,).

    ``hidden`` are variances that noise may make of nothing, ``mean_stds`` the noise on means, and
    ``reach`` is how far a row is that is long in one feature alone.
    """

    variances: Array
    hidden: Array
    means: Array
    mean_stds: Array
    reach: Array

    def on(self, places: Places) -> "Seen":
        """The same of the features at ``places``."""
        return Seen(*(each[places] for each in self))


def stretch(
    losses: Array,
    stds: Array,
    variances: Array,
    stiffness: Array,
    counted: float = 1.0,
    lost: float | None = None,
) -> Stretch:
    """Estimate factors from noisy losses.

    ``losses``, (p,), are what the mean squared deviation of columns lost, with noise of ``stds``;
    ``variances``, (p,), positive, are of the columns as rows were scaled down.  What columns
    determine together is lost alike, by their ``stiffness``, (p, p).  ``counted`` is the part of
    all losses that is in ``losses``: which columns the rest is in is not known.  ``lost`` is the
    part of all squared lengths that was lost, as their histogram says.
    """
    noise = np.clip((stds / variances) ** 2, _NOTHING, 1 / _NOTHING)
    # What is beyond all losses that are told apart counts as the largest, of hostile files, too.
    seen = np.clip(losses / variances, -_LOSSES[-1], _LOSSES[-1])
    means, left, spread = _posterior(seen, noise, _odds(lost))
    # What is left unknown of each column, but small directions do not let columns lose as unlikely.
    roots = np.sqrt(np.maximum(left, _NOTHING))
    pull = (stiffness - np.eye(len(means))) * np.outer(roots, roots) / spread
    inverse = np.linalg.inv(np.eye(len(means)) + pull)
    estimate = np.maximum(roots * (inverse @ (means / roots)), 0.0)
    doubt = left * np.diagonal(inverse)
    # Some columns lost none of what is not counted, others several times the average.
    uncounted = estimate * (1 / counted - 1)
    squares = 1.0 + estimate + uncounted / 2
    unsure = np.sqrt(doubt + (_UNEVEN * uncounted) ** 2) / squares
    lost_parts = np.hypot(1 - 1 / squares, unsure / squares)
    return Stretch(np.sqrt(squares), unsure, lost_parts, *np.zeros((2, len(squares))))


def of_means(relative: Array, most: float, seen: Seen) -> tuple[Array, Array]:
    """What means lost to one side, and the standard deviation of its error, in encoded units.

    ``relative`` are losses that sums count, over variances; a row adds ``most`` at most.
    """
    leans, noise = np.array([seen.means, seen.mean_stds]) * (
        seen.reach / (seen.variances + seen.means**2)
    )
    side = leans * np.abs(leans) / (leans**2 + (2 * noise) ** 2 + _LEANS**2)
    farthest = np.sqrt(seen.reach**2 + most)
    least = side * relative * seen.variances / (seen.reach + farthest)
    return _OF_LEAST * least, _OF_LEAST_STD * np.abs(least)


def _posterior(seen: Array, noise: Array, odds: Array) -> tuple[Array, Array, float]:
    """Means and variances of relative losses, (p,), and the variance that they have among columns.

    Given them with normal noise of variances ``noise``, (p,), and logarithms of the odds of laws.
    """
    masses, spreads = _laws()
    stds = np.sqrt(noise[:, None] + (_HALF_STEP * _LOSSES) ** 2)
    logs = -(((seen[:, None] - _LOSSES) / stds) ** 2) / 2 - np.log(stds)
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    evidence = np.maximum(likely @ masses.T, np.finfo(float).tiny)
    of_laws = np.log(evidence).sum(axis=0) + odds
    weights = np.exp(of_laws - of_laws.max())
    weights /= weights.sum()
    means = ((likely * _LOSSES) @ masses.T / evidence) @ weights
    squares = ((likely * _LOSSES**2) @ masses.T / evidence) @ weights
    # Steps are no noise.
    left = squares - (1 + _HALF_STEP**2) * means**2
    return means, np.maximum(left, 0.0), float(spreads @ weights)


def _odds(lost: float | None) -> Array:
    # Columns lose less, relative to variances, than rows of mapped features do of their lengths.
    means = np.tile(_MEANS, len(_SHAPES))
    if lost is None:
        return np.zeros_like(means)
    expected = _OF_ALL * lost / (1 - lost)
    return np.asarray(-(np.log(means / max(expected, _LOSSES[1])) ** 2) / 2)


@cache
def _laws() -> tuple[Array, Array]:
    """Masses of all laws at the losses that are told apart, (l, g), and their variances, (l,)."""
    means, shapes = (each.ravel() for each in np.meshgrid(_MEANS, _SHAPES))
    inner = np.append(_LOSSES[1] / 2, np.sqrt(_LOSSES[1:-1] * _LOSSES[2:]))
    below = gammainc(shapes[:, None], (shapes / means)[:, None] * inner)
    ends = np.zeros((len(means), 1)), np.ones((len(means), 1))
    masses = np.diff(np.hstack([ends[0], below, ends[1]]), axis=1)
    return masses, means**2 / shapes


def stiffness_of(correlation: Array, edge: float) -> Array:
    """Matrix H, (p, p), of what stretching columns by 1 + δ does to small directions: δ'Hδ.

    With R the correlations and D = diag(δ), ‖R^-½ D R^½‖² = δ'(R ∘ R⁻¹)δ.  It is 1 for columns that
    nothing relates, and for all columns alike; directions that noise of this ``edge`` hides are not
    known to be small.
    """
    # Of noise a matrix may be indefinite.
    values, vectors = eigh(correlation)
    regular = compose(np.maximum(values, 0.0) + edge, vectors)
    scale = np.sqrt(np.diagonal(regular))
    regular = regular / np.outer(scale, scale)
    return np.asarray(regular * np.linalg.inv(regular))


def stretch_of(
    columns: Sequence[EncodedColumn],
    losses: Array,
    std: float,
    law: LossLaw,
    lost: float,
    seen: Seen,
    correlation: Array,
    edge: float,
) -> Stretch:
    """That of all encoded features; ``losses`` are those of numbers, with noise of ``std``.

    A variance that noise may hide is nothing to compare with.  What is not stretched holds back the
    numbers that it determines, by ``correlation``, (p, p), as far as noise of this ``edge`` lets.
    """
    places = np.array(numbers(columns), dtype=np.intp)
    shows = (seen.variances > seen.hidden)[places]
    p, known = len(columns), places[shows]
    made = Stretch(np.ones(p), np.zeros(p), np.full(p, np.nan), np.zeros(p), np.zeros(p))
    if len(known):
        alike = stiffness_of(correlation, edge)[np.ix_(known, known)]
        stds, seen = np.full(len(known), std), seen.on(known)
        found = stretch(losses[shows], stds, seen.variances, alike, law.counted, lost)
        # Without half of what is not counted.
        relative = (found.factors**2 - 1) / (1 + (1 / law.counted - 1) / 2)
        moved, errors = of_means(relative, law.most, seen)
        found = found._replace(
            moved=moved * half_ranges_of(columns)[known],
            moved_stds=errors / (np.sqrt(seen.variances) * found.factors),
        )
        for all_features, of_known in zip(made, found, strict=True):
            all_features[known] = of_known
    return made


def average(stretches: Sequence[Stretch | None], shares: Sequence[float]) -> Stretch | None:
    """That of a sum of releases with these shares; those that tell nothing count as the others.

    Of a variance of one a release has 1 / f² left, and the sum Σ w / f².
    """
    told = [(each, w) for each, w in zip(stretches, shares, strict=True) if each is not None]
    if not told:
        return None
    w = np.array([[share] for _, share in told])
    factors, unsure, lost, *of_means = map(np.array, zip(*(e for e, _ in told), strict=True))
    w = w / w.sum()
    left = w / factors**2
    squares = 1 / left.sum(axis=0)
    doubts = squares * np.sqrt(np.sum((left * unsure) ** 2, axis=0))
    parts = np.sum(w * lost**2, axis=0)
    # All of them may err to the same side.
    moved, errors = (np.sum(w * each, axis=0) for each in of_means)
    return Stretch(np.sqrt(squares), doubts, np.sqrt(parts), moved, errors)


def restored(
    columns: Sequence[EncodedColumn], means: Array, stretched: Stretch
) -> tuple[EncodedColumn, ...]:
    """Encoded columns in larger units, about their encoded means, (p,), moved by what these get."""
    factors, moved = stretched.factors.tolist(), stretched.moved.tolist()
    each_of = zip(columns, means.tolist(), factors, moved, strict=True)
    return tuple(_restored(*each) for each in each_of)


def _restored(column: EncodedColumn, mean: float, factor: float, moved: float) -> EncodedColumn:
    if factor == 1.0:
        return column
    lower, upper = column.bounds
    center = column.center + column.half_range * mean * (1 - factor) + moved
    unit = column.half_range * factor
    return replace(column, center=center, half_range=unit, lower=lower, upper=upper)

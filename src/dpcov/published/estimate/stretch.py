"""Give columns back the spread that scaling long rows down took, from noisy sums of what it was.

Contract: reads noisy numbers only, deterministically.  Derived in docs/shrinkage.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dpcov.published.columns import EncodedColumn, numbers
from dpcov.published.linalg.symmetric import Array, compose, eigh

# Deviations that losses may have between columns, relative to variances; their likelihoods weigh.
_SPREADS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)


# Squares of what is known beyond need, relative to variances.
_NOTHING = 1e-12
# Deviation of what is not counted of a column's loss, over the average (measured).
_UNEVEN = 2.5


class Stretch(NamedTuple):
    """What deviations of the features are multiplied by, (p,), at least one.

    ``unsure`` are standard deviations of the squares of the factors, over those squares.
    """

    factors: Array
    unsure: Array


def stretch(
    losses: Array, stds: Array, variances: Array, stiffness: Array, counted: float = 1.0
) -> Stretch:
    """Estimate factors from noisy losses.

    Parameters
    ----------
    losses, stds : (p,)
        What the mean squared deviation of columns lost, and the deviation of its noise.
    variances : (p,)
        Positive, of the columns as rows were scaled down.
    stiffness : (p, p)
        Of :func:`stiffness_of`: what columns determine together is lost alike.
    counted : float
        Part of all losses that is in ``losses``; which columns the rest is in is not known.
    """
    seen = losses / variances
    noise = np.diag(np.clip((stds / variances) ** 2, _NOTHING, 1 / _NOTHING))
    # Before noise, losses relative to variances follow a normal law of one mean.
    alike = np.linalg.inv(stiffness)
    shape, found = alike.sum(axis=1), []
    for spread in _SPREADS:
        own = spread**2 * alike
        inverse = np.linalg.inv(own + noise)
        weight = float(shape @ inverse @ shape) + _NOTHING
        mean = max(0.0, float(shape @ inverse @ seen) / weight)
        rest = seen - mean * shape
        surprise = rest @ inverse @ rest - np.linalg.slogdet(inverse)[1] + np.log(weight)
        gain = own @ inverse
        # The mean has a variance of its own.
        left = np.diagonal(own - gain @ own) + (shape - gain @ shape) ** 2 / weight
        found.append((float(surprise), mean * shape + gain @ rest, left))
    surprises, means, variances_left = (np.array(each) for each in zip(*found, strict=True))
    likely = np.exp((surprises.min() - surprises) / 2)
    likely /= likely.sum()
    estimate = likely @ means
    left = likely @ (variances_left + (means - estimate) ** 2)
    estimate = np.maximum(estimate, 0.0)
    # Some columns lost none of what is not counted, others several times the average.
    uncounted = estimate * (1 / counted - 1)
    squares = 1.0 + estimate + uncounted / 2
    doubt = np.maximum(left, 0.0) + (_UNEVEN * uncounted) ** 2
    return Stretch(np.sqrt(squares), np.sqrt(doubt) / squares)


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
    counted: float,
    variances: Array,
    hidden: Array,
    stiffness: Array,
) -> Stretch:
    """That of all encoded features; ``losses`` are those of numbers, with noise of ``std``.

    A variance that noise may hide, below ``hidden``, (p,), is nothing to compare with.  What is not
    stretched holds back the numbers that it determines.
    """
    places = np.array(numbers(columns), dtype=np.intp)
    shows = variances[places] > hidden[places]
    factors, unsure, known = np.ones(len(columns)), np.zeros(len(columns)), places[shows]
    if len(known):
        alike, stds = stiffness[np.ix_(known, known)], np.full(len(known), std)
        found = stretch(losses[shows], stds, variances[known], alike, counted)
        factors[known], unsure[known] = found
    return Stretch(factors, unsure)


def average(stretches: Sequence[Stretch]) -> Stretch | None:
    """What several releases tell together; those that tell nothing have another's geometry."""
    if not stretches:
        return None
    squares = np.mean([each.factors**2 for each in stretches], axis=0)
    doubts = np.mean([each.unsure**2 for each in stretches], axis=0) / len(stretches)
    return Stretch(np.sqrt(squares), np.sqrt(doubts))


def restored(
    columns: Sequence[EncodedColumn], means: Array, stretched: Stretch
) -> tuple[EncodedColumn, ...]:
    """Encoded columns in larger units, about their encoded means, (p,), which do not change."""
    triples = zip(columns, means.tolist(), stretched.factors.tolist(), strict=True)
    return tuple(_restored(*each) for each in triples)


def _restored(column: EncodedColumn, mean: float, factor: float) -> EncodedColumn:
    if factor == 1.0:
        return column
    lower, upper = column.bounds
    center = column.center + column.half_range * mean * (1 - factor)
    unit = column.half_range * factor
    return replace(column, center=center, half_range=unit, lower=lower, upper=upper)

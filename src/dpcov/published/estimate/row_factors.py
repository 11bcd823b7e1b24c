"""What scaling rows down did to levels and indicators, told by their squares and sums.

Contract: public numbers only, deterministic.  Derived in docs/shrinkage.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from dpcov.published.estimate.entry_noise import DEVIATIONS, MomentNoise, mean_noise, variance_noise
from dpcov.published.estimate.levels import exhaustive
from dpcov.published.file.columns import EncodedColumn, half_ranges_of
from dpcov.published.linalg.symmetric import Array, Places

# A smaller part is not believed to be left of rows that were scaled down.
_LEAST_LEFT = 0.1

# A mean factor is at least this part of its mean square over its mean.
_ALIKE = 0.9

# Variance of the factors of levels that noise is added to where levels are weighed by it.
_SURE = 0.05**2

# The factor of fewer rows than this part of all makes no difference.
_LEAST_MISSING = 0.02

# One less twice what a level is pulled to: with less of it its square hardly tells a factor.
_LEAST_SLOPE = 0.1


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
    groups = exhaustive(columns)
    if not groups:
        return None
    places, units = np.concatenate(groups), half_ranges_of(columns)[np.concatenate(groups)]
    levels = _levels(groups, mean, np.diagonal(covariance), law, columns, lost, around)
    usual, square, doubt = levels.usual(lost)
    own_means = np.maximum(levels.means - levels.around * (1 - usual), np.finfo(float).tiny)
    factors = levels.factors(own_means, usual, square, doubt)
    of_means, of_rows = np.ones(len(mean)), np.full(len(mean), sqrt(square))
    of_means[places] = factors
    # Rows that have two levels are as much shorter than usual as both say.
    of_rows[places] *= (factors / usual) ** 2
    kept, shift, shares, fewer = (np.zeros(len(mean)) for _ in range(4))
    kept[places], shift[places] = mean[places], around[places] * (1 - usual)
    shares[places] = own_means / units / factors
    fewer[places] = own_means / units * (1 - factors)
    cross = np.outer(around, fewer)
    of_middles = (1 - 2 * usual + square) * np.outer(around, around) + cross + cross.T
    return RowFactors(of_means, of_rows, shift, np.outer(kept, kept) - of_middles, shares)


def indicator_factors(
    mean: Array,
    variances: Array,
    law: MomentNoise,
    columns: Sequence[EncodedColumn],
    lost: float,
    marks: Places,
) -> Array:
    """Mean factors, (m,), of the rows in which values are missing, by indicators at ``marks``.

    An indicator is its own square, so that its second moment over its mean tells the factor of its
    rows, where they were pulled to none.  Others are as in :func:`row_factors`.
    """
    alone = list(marks[:, None])
    levels = _levels(alone, mean, variances, law, columns, lost, np.zeros(len(mean)))
    means = np.maximum(levels.means, _LEAST_MISSING)
    return levels.factors(means, *levels.usual_alone(means, lost))


def _levels(
    groups: Sequence[Places],
    mean: Array,
    variances: Array,
    law: MomentNoise,
    columns: Sequence[EncodedColumn],
    lost: float,
    around: Array,
) -> "_Levels":
    places, sizes = np.concatenate(groups), [len(group) for group in groups]
    units = half_ranges_of(columns)[places]
    means = mean[places] * units
    return _Levels(
        starts=np.cumsum([0, *sizes[:-1]]),
        means=means,
        squares=variances[places] * units**2 + means**2,
        mean_stds=mean_noise(mean, law)[places] * units,
        square_stds=variance_noise(mean, variances, law)[places] * units**2,
        around=around[places] * units,
        least=sqrt(max(1.0 - 2 * lost, _LEAST_LEFT)),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Levels:
    """Means and second moments of levels, (l,), with their noise, in shares of the rows.

    Columns begin at ``starts``; levels were pulled to ``around``, zero without a center.
    """

    starts: Places
    means: Array
    squares: Array
    mean_stds: Array
    square_stds: Array
    around: Array
    least: float

    def sums(self, values: Array) -> Array:
        """By column."""
        return np.asarray(np.add.reduceat(values, self.starts))

    def usual(self, lost: float) -> tuple[float, float, float]:
        """The mean factor of rows, their mean squared factor, and a deviation of that."""
        if self.around.any():
            # What levels add up to is one, however long rows are.
            square, doubt = self._mean_square(lost)
            mean = sqrt(min(1.0, max(square, self.least**2)))
        else:
            square, doubt = float(np.median(self.sums(self.squares))), 0.0
            mean = self._mean_factor()
        # A factor's mean square is more than its mean's square.
        return mean, float(np.clip(square, mean**2, 1.0)), doubt

    def usual_alone(self, means: Array, lost: float) -> tuple[float, float, float]:
        """The same of levels that add up to nothing known."""
        shares = replace(self, squares=self.squares / means, square_stds=self.square_stds / means)
        found, doubt = shares._mean_square(lost)
        usual = float(np.clip(found, self.least, 1.0))
        return usual, usual**2, doubt

    def _mean_factor(self) -> float:
        """By what means add up to."""
        sums = self.sums(np.maximum(self.means, np.finfo(np.float64).tiny))
        # Rows without a listed level make a sum smaller, but not this ratio, which is hardly larger
        # than the factors.
        ratio = (self.squares.sum() - 2 * np.linalg.norm(self.square_stds)) / sums.sum()
        return float(np.clip(np.median(sums), max(self.least, min(1.0, _ALIKE * ratio)), 1.0))

    def _mean_square(self, lost: float) -> tuple[float, float]:
        """By what squares add up to, and its deviation.

        Before they are seen, it is anything from what all rows together kept to one.
        """
        known = self.sums(self.around**2)
        tells = np.maximum(1 - known, _SURE**2)
        found = (self.sums(self.squares) - known) / tells
        weights = tells**2 / np.maximum(self.sums(self.square_stds**2), _SURE**2)
        # The median by weight: in few columns have some rows no listed level.
        seen = float(np.quantile(found, 0.5, method="inverted_cdf", weights=weights))
        prior, whole = 12 / max(lost, _SURE) ** 2, float(weights.sum())
        mean = (prior * (1 - lost / 2) + whole * seen) / (prior + whole)
        return mean, 1 / sqrt(prior + whole)

    def factors(self, own_means: Array, usual: float, square: float, doubt: float) -> Array:
        """Those of every level's rows, drawn toward the usual one as far as noise explains them.

        ``own_means`` are shares times factors, and ``squares`` shares times squared factors, but
        for what they have of what they were pulled to.
        """
        slope = 1 - 2 * self.around
        # Levels that the noise hides tell nothing of their rows, and those of half of them little.
        shows = (own_means > DEVIATIONS * self.mean_stds) & (np.abs(slope) > _LEAST_SLOPE)
        known, slope = np.where(shows, own_means, 1.0), np.where(shows, slope, 1.0)
        pulled = (1 - 2 * usual + square) * self.around**2 + 2 * self.around * own_means
        own = np.where(shows, (self.squares - pulled) / (slope * known), usual)
        # Of a mean, of its square, and of the usual factor.
        of_means = (usual + np.abs(2 * self.around / slope)) * self.mean_stds
        of_usual = (self.around**2 / np.abs(slope) + self.around / 2) * doubt
        noise = ((self.square_stds / slope) ** 2 + of_means**2 + of_usual**2) * shows / known**2
        # Levels differ by so much beyond noise; each weighs by what noise leaves.
        weights = shows / (noise + _SURE)
        beyond = float(weights @ ((own - usual) ** 2 - noise))
        differ = max(0.0, beyond / max(float(weights.sum()), 1.0))
        spread = np.maximum(differ + noise, np.finfo(np.float64).tiny)
        return np.asarray(np.clip(usual + differ / spread * (own - usual), self.least, 1.0))

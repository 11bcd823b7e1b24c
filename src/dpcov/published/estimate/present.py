"""Moments over the values that are present, from a second moment with indicators of the missing.

Contract: public numbers only, deterministic.  A missing value is encoded as zero, and so is its
product with everything else.  Derived in docs/missing.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dpcov.published.file.columns import EncodedColumn, half_ranges_of
from dpcov.published.linalg.symmetric import Array, Places

LEAST_SHARE = 0.005
"""Part of the rows that is taken to be present at least: noise may hide that any is."""


NEARLY_ALL = 0.97
"""Features that so large a part of the rows has are taken as they are."""

OFTEN = 0.8
"""Features that so large a part of the rows has predict the missing values of others."""

UNPREDICTED = (
    f"No feature that {100 * OFTEN:g} % of the rows have tells what missing values are: "
    'missing="at-random" gives what "pairwise" gives.'
)

POOLED_MISSING = (
    "A group that is estimated together with others does not say which values are missing: "
    'missing="at-random" gives what "pairwise" gives. Use release.group(name) if any are.'
)

MissingAs = Literal["pairwise", "at-random"]
"""Over the values that are present, pair by pair; or what the rows would have with all values."""


def moment_of(mean: Array, covariance: Array) -> Array:
    """Second moment beside an intercept of one, (p + 1, p + 1)."""
    row = np.append(1.0, mean)
    found = np.outer(row, row)
    found[1:, 1:] += covariance
    return found


class PresentMoments(NamedTuple):
    """Of p features, pair by pair, in encoded units.

    ``shares`` (p, p) of rows in which both are present, 0 where too few are; ``means`` (p, p) of
    the feature of the row over those rows, over all its own ones on the diagonal; ``covariance``
    (p, p), 0 where too few rows have both.
    """

    shares: Array
    means: Array
    covariance: Array

    @property
    def mean(self) -> Array:
        """Of every feature over the rows in which it is present, (p,)."""
        return np.asarray(np.diagonal(self.means))

    def mixed(self, places: Places, n_rows: float) -> float:
        """Relative variance in a direction that pairs may make because they are of other rows."""
        shares = np.maximum(self.shares[np.ix_(places, places)], LEAST_SHARE)
        # The largest eigenvalue of independent entries that vary so (Wigner).
        return 2.0 * sqrt(float(np.sum(1.0 / shares - 1.0)) / (len(places) * n_rows))

    def moment(self) -> Array:
        """Second moment beside an intercept of one, with these means and covariances."""
        return moment_of(self.mean, self.covariance)


@dataclass(frozen=True, eq=False)
class Presence:
    """Which indicator says that a feature is missing: its place, (p,), -1 where none does.

    ``units`` (p,) is what an indicator is multiplied by to be one: its half range, and more where
    rows were scaled down; ``marks`` (m,) are the places of all indicators.  ``least`` (p, p) are
    the shares of the rows that must have both of two features for their covariance to be known.
    """

    indicators: Places
    units: Array
    marks: Places
    least: Array | float = LEAST_SHARE

    @classmethod
    def of(cls, columns: Sequence[EncodedColumn]) -> Self | None:
        """That of the features of a release; None where nothing is marked as missing."""
        speaks = {
            source: place
            for place, column in enumerate(columns)
            if column.kind == "missing"
            for source in column.missing_of
        }
        if not speaks:
            return None
        places = [-1 if c.kind == "missing" else speaks.get(c.source, -1) for c in columns]
        indicators = np.array(places, dtype=np.intp)
        marks = np.array(sorted(set(speaks.values())), dtype=np.intp)
        return cls(indicators, np.zeros(len(columns)), marks).in_units(half_ranges_of(columns))

    def in_units(self, units: Array) -> Self:
        """The same with other units, (p,), of indicators."""
        return replace(self, units=np.where(self.indicators >= 0, units[self.indicators], 0.0))

    def without(self, hidden: Places) -> Self:
        """The same where the indicators at these places are taken for zero."""
        kept = ~np.isin(self.indicators, hidden)
        units = np.where(kept, self.units, 0.0)
        return replace(self, indicators=np.where(kept, self.indicators, -1), units=units)

    @property
    def used(self) -> Places:
        """Places of the indicators that are not taken for zero."""
        return np.setdiff1d(self.indicators, [-1])

    @property
    def rows(self) -> Array:
        """One where a feature is present and zero elsewhere, of an encoded row: (p, p + 1)."""
        return self.of_rows(np.eye(1 + len(self.units)))

    def of_rows(self, matrix: Array) -> Array:
        """``rows @ matrix``, (p, q), without a product of matrices; ``matrix`` is (p + 1, q)."""
        return np.asarray(matrix[0] - self.units[:, None] * matrix[1 + self.indicators])

    def known(self, moment: Array) -> Array:
        """A second moment, (p + 1, p + 1), with what holds for indicators whatever the data."""
        found = moment.copy()
        marked = np.flatnonzero(self.indicators >= 0)
        own, units = 1 + self.indicators[marked], self.units[marked]
        # Its square is itself, in its unit; nothing is present where it is one.
        found[own, own] = found[0, own] / units
        found[1 + marked, own] = found[own, 1 + marked] = 0.0
        return found

    def moments(self, moment: Array) -> PresentMoments:
        """Pairwise moments from a second moment with an intercept of one, (p + 1, p + 1)."""
        moment = self.known(moment)
        shares = self.of_rows(self.of_rows(moment).T)
        own = np.clip(np.diagonal(shares), LEAST_SHARE, 1.0)
        # What two shares leave for both.
        shares = np.clip(shares, own[:, None] + own - 1.0, np.minimum(own[:, None], own))
        np.fill_diagonal(shares, own)
        known = (shares >= self.least) | np.eye(len(own), dtype=bool)
        over = np.where(known, shares, 1.0)
        means, covariance = self.of_rows(moment[:, 1:]).T / over, moment[1:, 1:] / over
        means = np.where(known, means, np.diagonal(means)[:, None])
        covariance = np.where(known, covariance - means * means.T, 0.0)
        return PresentMoments(np.where(known, shares, 0.0), means, covariance)

    def predicts(self, found: PresentMoments, hidden: Array | float = 0.0) -> NDArray[np.bool_]:
        """Which features, the rows, predict the missing values of which, (p, p).

        Features of more variance than is ``hidden`` that many rows have, and no indicators.
        """
        own = np.diagonal(found.shares)
        may = (own >= OFTEN) & (np.diagonal(found.covariance) > hidden)
        may[self.marks] = False
        # What is mostly missing in the same rows says nothing of those.
        apart = own[:, None] - found.shares - self.least >= np.outer(own, 1.0 - own) / 2
        apart |= (own[:, None] >= NEARLY_ALL) | (own < OFTEN)
        # Nor does what hardly any row has beside the other.
        apart &= found.shares > 0
        return np.asarray(may[:, None] & (own < NEARLY_ALL) & apart)

    def centered(self, found: PresentMoments, matrix: Array) -> Array:
        """Features minus their means where present, else zero, of rows that are ``matrix``.

        That is (p + 1, q): encoded rows as combinations of q others.
        """
        return np.asarray(matrix[1:] - found.mean[:, None] * self.of_rows(matrix))

    def stretched(self, found: PresentMoments) -> Array:
        """The map T, (p + 1, p + 1), with T M T' nearly the moment over what is present."""
        row = self.centered(found, np.eye(1 + len(self.units))) / np.diagonal(found.shares)[:, None]
        row[:, 0] += found.mean
        return np.vstack([np.eye(1, len(row) + 1), row])

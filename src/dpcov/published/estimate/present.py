"""Moments over the values that are present, from a second moment with indicators of the missing.

Contract: public numbers only, deterministic.  A missing value is encoded as zero, and so is its
product with everything else.  Derived in docs/missing.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dpcov.published.columns import EncodedColumn
from dpcov.published.linalg.symmetric import Array

Places = NDArray[np.intp]

LEAST_SHARE = 0.005
"""Part of the rows that is taken to be present at least: noise may hide that any is."""


class PresentMoments(NamedTuple):
    """Of p features, pair by pair, in encoded units.

    ``shares`` (p, p) of rows in which both are present; ``means`` (p, p) of the feature of the row
    over those rows, over all its own ones on the diagonal; ``covariance`` (p, p).
    """

    shares: Array
    means: Array
    covariance: Array

    @property
    def mean(self) -> Array:
        """Of every feature over the rows in which it is present, (p,)."""
        return np.asarray(np.diagonal(self.means))

    def moment(self) -> Array:
        """Second moment beside an intercept of one, with these means and covariances."""
        row = np.append(1.0, self.mean)
        found = np.outer(row, row)
        found[1:, 1:] += self.covariance
        return found


@dataclass(frozen=True, eq=False)
class Presence:
    """Which indicator says that a feature is missing: its place, (p,), -1 where none does.

    ``units`` (p,) is what an indicator is multiplied by to be one: its half range.
    """

    indicators: Places
    units: Array

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
        half_ranges = np.array([column.half_range for column in columns])
        return cls(indicators, np.where(indicators >= 0, half_ranges[indicators], 0.0))

    @property
    def rows(self) -> Array:
        """One where a feature is present and zero elsewhere, of an encoded row: (p, p + 1)."""
        found = np.eye(1, len(self.units) + 1) + np.zeros((len(self.units), 1))
        marked = np.flatnonzero(self.indicators >= 0)
        found[marked, 1 + self.indicators[marked]] -= self.units[marked]
        return found

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
        moment, rows = self.known(moment), self.rows
        shares = rows @ moment @ rows.T
        own = np.clip(np.diagonal(shares), LEAST_SHARE, 1.0)
        # What two shares leave for both.
        least = np.maximum(own[:, None] + own - 1.0, LEAST_SHARE)
        shares = np.clip(shares, least, np.minimum(own[:, None], own))
        np.fill_diagonal(shares, own)
        means = moment[1:] @ rows.T / shares
        return PresentMoments(shares, means, moment[1:, 1:] / shares - means * means.T)

    def centered(self, found: PresentMoments) -> Array:
        """Features minus their means where present, else zero, of an encoded row: (p, p + 1)."""
        return np.eye(len(self.units) + 1)[1:] - found.mean[:, None] * self.rows

    def stretched(self, found: PresentMoments) -> Array:
        """The map T, (p + 1, p + 1), with T M T' nearly the moment over what is present."""
        row = self.centered(found) / np.diagonal(found.shares)[:, None]
        row[:, 0] += found.mean
        return np.vstack([np.eye(1, len(row) + 1), row])

"""Moments over the values that are present, from a second moment with indicators of the missing.

Contract: public numbers only, deterministic.  A missing value is encoded as zero, and so is its
product with everything else.  Derived in docs/missing.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dpcov.published.columns import EncodedColumn, half_ranges_of
from dpcov.published.linalg.symmetric import Array, Places, eigh

LEAST_SHARE = 0.005
"""Part of the rows that is taken to be present at least: noise may hide that any is."""


NEARLY_ALL = 0.97
"""Features that so large a part of the rows has stand in for the missing values of others."""

_LEAST_VALUE, _MOST_TAKEN = 1e-3, 0.9


MissingAs = Literal["pairwise", "at-random"]
"""Over the values that are present, pair by pair; or what the rows would have with all values."""


def _lost(slopes: Array, taken: Array, same: NDArray[np.bool_]) -> Array:
    """What selection took of the covariances of q features, (q, q), through their slopes, (q, k).

    Rows with a value lack ``t t'`` of the components' covariance, for its t in ``taken``, (q, k).
    For the ``same`` indicator, (q, q), it is one selection; of two the precisions add up.
    """
    parts = np.sum(taken**2, axis=1)
    # The precision that a selection adds is g g', and of two I - (I + g g' + h h')^-1 is taken.
    added = taken / np.sqrt(1.0 - parts)[:, None]
    sizes, seen, both = parts / (1.0 - parts), slopes @ added.T, added @ added.T
    own, alone = np.diagonal(seen), np.sum(slopes * taken, axis=1)
    first = own[:, None] * seen.T * (1.0 + sizes)
    crossed = both * (np.outer(own, own) + seen * seen.T)
    two = (first + first.T - crossed) / (np.outer(1.0 + sizes, 1.0 + sizes) - both**2)
    return np.where(same, np.outer(alone, alone), two)


class _Line(NamedTuple):
    """How components predict a feature, (k,), and what is ``taken`` of theirs where it is present.

    With its ``mean`` over all rows, and by what its estimates need more rows than it is present in.
    """

    slope: Array
    taken: Array
    mean: float
    extra: float


def _principal_axes(covariance: Array, edge: float) -> Array:
    """Principal components of variance one, (k, q), but those of less variance than ``edge``."""
    spreads = np.sqrt(np.diagonal(covariance))
    values, vectors = eigh(covariance / np.outer(spreads, spreads))
    kept = values > max(edge, _LEAST_VALUE)
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T / spreads)


def _line(axes: Array, found: "PresentMoments", complete: Places, place: int) -> _Line:
    # The components' means and spread differ where the value is present.
    shift = axes @ (found.means[complete, place] - found.mean[complete])
    present = found.shares[place, place]
    missing = 1.0 - present
    part = min(float(shift @ shift) / missing * present, _MOST_TAKEN)
    unit = shift / max(float(np.linalg.norm(shift)), np.finfo(np.float64).tiny)
    along = axes @ found.covariance[complete, place]
    slope = along + unit * (unit @ along) * (part / (1.0 - part))
    # Farther from the mean of those present, a line is known less well.
    extra = 1.0 + part * missing / present / (1.0 - part)
    return _Line(slope, np.sqrt(part) * unit, found.mean[place] - slope @ shift, extra)


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

    def moment(self) -> Array:
        """Second moment beside an intercept of one, with these means and covariances."""
        return moment_of(self.mean, self.covariance)


@dataclass(frozen=True, eq=False)
class Presence:
    """Which indicator says that a feature is missing: its place, (p,), -1 where none does.

    ``units`` (p,) is what an indicator is multiplied by to be one: its half range; ``marks`` (m,)
    are the places of all indicators.  ``least`` (p, p) are the shares of the rows that must have
    both of two features for their covariance to be known.
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
        units = np.where(indicators >= 0, half_ranges_of(columns)[indicators], 0.0)
        return cls(indicators, units, np.array(sorted(set(speaks.values())), dtype=np.intp))

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
        shares = np.clip(shares, own[:, None] + own - 1.0, np.minimum(own[:, None], own))
        np.fill_diagonal(shares, own)
        known = (shares >= self.least) | np.eye(len(own), dtype=bool)
        over = np.where(known, shares, 1.0)
        means, covariance = moment[1:] @ rows.T / over, moment[1:, 1:] / over
        means = np.where(known, means, np.diagonal(means)[:, None])
        covariance = np.where(known, covariance - means * means.T, 0.0)
        return PresentMoments(np.where(known, shares, 0.0), means, covariance)

    def complete(self, found: PresentMoments, hidden: Array | float = 0.0) -> Places:
        """Features of more variance than is ``hidden`` that nearly all rows have; no indicators."""
        has = (np.diagonal(found.shares) >= NEARLY_ALL) & (np.diagonal(found.covariance) > hidden)
        return np.setdiff1d(np.flatnonzero(has), self.marks)

    def at_random(self, found: PresentMoments, complete: Places, edge: float) -> PresentMoments:
        """What the rows would have without missing values, if those are missing at random.

        The ``complete`` features predict the others linearly; whether a value is missing
        may depend on those, whose law is normal (docs/missing.md).  Directions of them with less
        variance than ``edge``, relative to their own variances, are left out.  ``shares`` become
        those of as many rows without missing values as estimates are worth.
        """
        present, whole = np.diagonal(found.shares), found.covariance
        rest = np.flatnonzero(present < NEARLY_ALL)
        if not len(complete) or not len(rest):
            return found
        axes = _principal_axes(whole[np.ix_(complete, complete)], edge)
        lines = [_line(axes, found, complete, int(place)) for place in rest]
        slopes, taken = (np.array(each) for each in list(zip(*lines, strict=True))[:2])
        means, extra, covariance = found.means.copy(), np.ones(len(whole)), whole.copy()
        means[rest, rest] = [line.mean for line in lines]
        extra[rest] = [line.extra for line in lines]
        same = self.indicators[rest][:, None] == self.indicators[rest]
        covariance[np.ix_(rest, rest)] += _lost(slopes, taken, same)
        crossed = (axes @ whole[:, complete].T)[:, complete]
        moved = (slopes - (axes @ whole[np.ix_(complete, rest)]).T) @ crossed
        covariance[np.ix_(rest, complete)] += moved
        covariance[np.ix_(complete, rest)] = covariance[np.ix_(rest, complete)].T
        shares = found.shares / np.sqrt(np.outer(extra, extra))
        return PresentMoments(shares, means, covariance)

    def centered(self, found: PresentMoments) -> Array:
        """Features minus their means where present, else zero, of an encoded row: (p, p + 1)."""
        return np.eye(len(self.units) + 1)[1:] - found.mean[:, None] * self.rows

    def stretched(self, found: PresentMoments) -> Array:
        """The map T, (p + 1, p + 1), with T M T' nearly the moment over what is present."""
        row = self.centered(found) / np.diagonal(found.shares)[:, None]
        row[:, 0] += found.mean
        return np.vstack([np.eye(1, len(row) + 1), row])

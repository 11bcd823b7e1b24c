"""What rows would have without missing values, if those are missing at random.

Features that nearly all rows have predict the others linearly.  What selection does to their means
is known.  To their covariance it does what it does to that of normal columns, but for levels and
truth values, whose means tell it exactly.  Contract: public numbers only.  Derived in
docs/missing.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dpcov.published.columns import EncodedColumn
from dpcov.published.estimate.present import NEARLY_ALL, PresentMoments
from dpcov.published.linalg.symmetric import Array, Places, eigh

# The least part of its variance that is divided by, and the most that selection takes of it.
_LEAST_VALUE, _MOST_TAKEN = 1e-3, 0.9


class TwoValued(NamedTuple):
    """The levels of a category, or one truth value: l features with two values each.

    No row has more than one of them at its largest value.  Everything is (l,).
    """

    places: Places
    lowest: Array
    largest: Array

    def among(self, places: Places) -> Self:
        """Those that are at these ascending places of the features, counted among them."""
        kept = np.isin(self.places, places)
        own = np.searchsorted(places, self.places[kept])
        return self._replace(places=own, lowest=self.lowest[kept], largest=self.largest[kept])

    def shares(self, mean: Array) -> Array:
        """How many rows have each one at its largest value, (..., l), if this is the mean."""
        wide = self.largest - self.lowest
        return np.asarray((np.clip(mean, self.lowest, self.largest) - self.lowest) / wide)

    def covariance(self, shares: Array) -> Array:
        """Of the features, (..., l, l), if so many rows have each one."""
        wide = self.largest - self.lowest
        crossed = shares[..., :, None] * shares[..., None, :]
        return np.asarray((shares[..., None] * np.eye(len(wide)) - crossed) * np.outer(wide, wide))


def levels_of(columns: Sequence[EncodedColumn], two: NDArray[np.bool_]) -> list[TwoValued]:
    """The levels of every category, and every truth value, of the ``two``-valued features, (p,)."""
    sources: dict[str, list[int]] = {}
    for place, column in enumerate(columns):
        if two[place] and column.kind != "missing":
            sources.setdefault(column.source, []).append(place)
    ends = np.array([(column.lowest, column.largest) for column in columns])
    return [TwoValued(np.array(own, dtype=np.intp), *ends[own].T) for own in sources.values()]


def _with_rest(shares: Array) -> Array:
    rest = np.maximum(1.0 - shares.sum(axis=-1, keepdims=True), 0.0)
    return np.append(shares, rest, axis=-1)


class _Levels(NamedTuple):
    """Two-valued features among k components.

    ``shares`` (l,) of all rows; they span the ``directions`` (k, r) of the components.
    ``whitened`` (r, l) takes them to variables whose covariance over all rows is one; of those,
    noise may make variances up to ``least``.
    """

    features: TwoValued
    shares: Array
    directions: Array
    whitened: Array
    least: float

    @property
    def size(self) -> int:
        """How many components the levels span, r."""
        return len(self.whitened)

    def selected_twice(self, one: Array, present: float, others: Array) -> Array:
        """Shares in rows that ``one`` selection, (l,), and each of ``others`` leave, (g, l).

        The one leaves the share ``present`` of all rows.
        """
        # Given the level, one selection does not depend on the other.
        found = [_with_rest(each) for each in (one, others, self.shares)]
        least = np.maximum(found[2], np.finfo(np.float64).tiny)
        both = found[1] * np.minimum(found[0] / least, 1.0 / present)
        whole = np.maximum(both.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return np.asarray((both / whole)[:, :-1])

    def covariance(self, shares: Array, present: Array) -> Array:
        """Of the whitened variables, (g, r, r), where each of g selections leaves ``present``."""
        found = self.whitened @ self.features.covariance(shares) @ self.whitened.T
        values, vectors = np.linalg.eigh(found)
        least = np.clip(self.least / present[:, None], _LEAST_VALUE, 1.0 - _MOST_TAKEN)
        # No part of the rows varies more than all rows do.
        values = np.clip(values, least, 1.0 / present[:, None])
        return np.asarray((vectors * values[:, None]) @ vectors.swapaxes(1, 2))


def _levels(
    features: TwoValued, mean: Array, covariance: Array, axes: Array, edge: float
) -> _Levels:
    spreads = np.sqrt(np.diagonal(covariance)[features.places])
    # Where the components lie, in units of the features' spreads.
    loads = (axes @ covariance[:, features.places] / spreads).T
    left, sizes, right = np.linalg.svd(loads, full_matrices=False)
    kept = sizes**2 > max(edge, _LEAST_VALUE)
    back = (left[:, kept] / sizes[kept]).T / spreads
    shares = features.shares(mean[features.places])
    values, vectors = np.linalg.eigh(back @ features.covariance(shares) @ back.T)
    root = (vectors / np.sqrt(np.maximum(values, _LEAST_VALUE))) @ vectors.T
    least = edge / sizes[kept].min(initial=1.0) ** 2
    return _Levels(features, shares, right[kept].T, root @ back, least)


@dataclass(frozen=True, eq=False)
class Selections:
    """Rows that have a value, for g indicators, and their k components of covariance one.

    In those rows the components have the ``shifts`` (g, k) as means, and normal ones the
    covariances I - t t' with t in ``taken``, (g, k).  ``present`` (g,) are the shares of all rows,
    ``means`` (g, q) those of the complete features there, among which are the ``levels``.
    """

    shifts: Array
    taken: Array
    present: Array
    means: Array
    levels: Sequence[_Levels] = ()

    @classmethod
    def of(
        cls, shifts: Array, present: Array, means: Array, levels: Sequence[_Levels] = ()
    ) -> Self:
        """The selections that have made these shifts."""
        lengths = np.linalg.norm(shifts, axis=1)
        parts = np.minimum(lengths**2 * present / (1.0 - present), _MOST_TAKEN)
        units = shifts / np.maximum(lengths, np.finfo(np.float64).tiny)[:, None]
        return cls(shifts, np.sqrt(parts)[:, None] * units, present, means, levels)

    def taken_of(self, one: int, others: Places) -> tuple[Array, Array]:
        """What the covariances lack, A' B A, in rows of one selection and of each of the others.

        A is (n, r, k), and B (n, r, r).
        """
        rows = self._taken_of_normal(one, others)
        directions = np.hstack([rows[0, :0].T, *(each.directions for each in self.levels)])
        reach = directions - rows.swapaxes(1, 2) @ (rows @ directions)
        normal, more = directions.T @ reach, np.zeros((len(rows), *[directions.shape[1]] * 2))
        alone, start = others == one, 0
        present = self.present[one] * np.where(alone, 1.0, self.present[others])
        # The rest keeps its regression on the levels: a step of iterative proportional fitting.
        for each in self.levels:
            own, size = each.features.shares(self.means[:, each.features.places]), each.size
            both = each.selected_twice(own[one], self.present[one], own[others])
            exact = each.covariance(np.where(alone[:, None], own[one], both), present)
            block = slice(start, start := start + size)
            seen = more @ normal[:, :, block]
            seen[:, block] += np.eye(size)
            inner = normal[:, block] @ seen
            gain = seen @ np.linalg.inv(inner)
            more += gain @ (exact - inner) @ gain.swapaxes(1, 2)
        weights = np.zeros((len(rows), *[2 + directions.shape[1]] * 2))
        weights[:, :2, :2], weights[:, 2:, 2:] = np.eye(2), -more
        return np.concatenate([rows, reach.swapaxes(1, 2)], axis=1), weights

    def _taken_of_normal(self, one: int, others: Places) -> Array:
        # The precision that a selection adds is g g', and those of two add up.
        added = self.taken / np.sqrt(1.0 - np.sum(self.taken**2, axis=1))[:, None]
        second = np.where((others == one)[:, None], 0.0, added[others])
        both = np.stack([np.broadcast_to(added[one], second.shape), second], axis=1)
        root = np.linalg.cholesky(np.eye(2) + both @ both.swapaxes(1, 2))
        return np.asarray(np.linalg.solve(root, both))


class _Lines(NamedTuple):
    """How k components predict q features: ``slopes`` (k, q), and what selection did to those.

    ``moved`` (q,) it has their means, ``lost`` (q, q) their covariances, and by ``extra`` (q,)
    their estimates need more rows.
    """

    slopes: Array
    moved: Array
    lost: Array
    extra: Array


def _lines(selections: Selections, along: Array, groups: Places) -> _Lines:
    # ``along`` (k, q) are covariances with the features where those are present.
    k, q = along.shape
    slopes, lost, moved, extra = np.empty((k, q)), np.empty((q, q)), np.empty(q), np.empty(q)
    members = [np.flatnonzero(groups == group) for group in range(len(selections.present))]
    for group, own in enumerate(members):
        shift = selections.shifts[group]
        rows, weights = selections.taken_of(group, np.arange(group + 1))
        inside = np.eye(k) - rows[group].T @ weights[group] @ rows[group]
        solved = np.linalg.solve(inside, np.column_stack([along[:, own], shift]))
        slopes[:, own], moved[own] = solved[:, :-1], shift @ solved[:, :-1]
        # Away from the mean of its rows a line is known less well.
        extra[own] = 1.0 + shift @ solved[:, -1]
        for other, row, weight in zip(members[: group + 1], rows, weights, strict=True):
            first, second = row @ slopes[:, own], row @ slopes[:, other]
            lost[np.ix_(own, other)] = first.T @ weight @ second
            lost[np.ix_(other, own)] = lost[np.ix_(own, other)].T
    return _Lines(slopes, moved, lost, extra)


def _principal_axes(covariance: Array, edge: float) -> Array:
    """Principal components of variance one, (k, q), but those of less variance than ``edge``."""
    spreads = np.sqrt(np.diagonal(covariance))
    values, vectors = eigh(covariance / np.outer(spreads, spreads))
    kept = values > max(edge, _LEAST_VALUE)
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T / spreads)


def at_random(
    found: PresentMoments,
    indicators: Places,
    complete: Places,
    edge: float,
    exact: Sequence[TwoValued] = (),
) -> PresentMoments:
    """What the rows would have without missing values, if those are missing at random.

    The ``complete`` features predict the others linearly; whether a value is missing may depend on
    those.  Their law is normal, but for the ``exact`` ones.  Directions of them with less variance
    than ``edge``, relative to their own variances, are left out.  ``indicators`` (p,) say which
    features are missing together.  ``shares`` become those of as many rows without missing values
    as estimates are worth.
    """
    present, whole = np.diagonal(found.shares), found.covariance
    rest = np.flatnonzero(present < NEARLY_ALL)
    if not len(complete) or not len(rest):
        return found
    inner, mean = whole[np.ix_(complete, complete)], found.mean[complete]
    axes = _principal_axes(inner, edge)
    levels = [_levels(each.among(complete), mean, inner, axes, edge) for each in exact]
    # Features that are missing together are selected together.
    _, first, groups = np.unique(indicators[rest], return_index=True, return_inverse=True)
    inside = found.means[np.ix_(complete, rest[first])].T
    selections = Selections.of((inside - mean) @ axes.T, present[rest[first]], inside, levels)
    along = axes @ whole[np.ix_(complete, rest)]
    lines = _lines(selections, along, groups)
    means, covariance, extra = found.means.copy(), whole.copy(), np.ones(len(whole))
    means[rest, rest] -= lines.moved
    extra[rest] = lines.extra
    covariance[np.ix_(rest, rest)] += lines.lost
    covariance[np.ix_(complete, rest)] += inner @ axes.T @ (lines.slopes - along)
    # Beside those, what is missing says nothing of a value.
    marks = np.setdiff1d(indicators, [-1])
    covariance[np.ix_(marks, rest)] = whole[np.ix_(marks, complete)] @ axes.T @ lines.slopes
    for others in (complete, marks):
        covariance[np.ix_(rest, others)] = covariance[np.ix_(others, rest)].T
    shares = found.shares / np.sqrt(np.outer(extra, extra))
    return PresentMoments(shares, means, covariance)

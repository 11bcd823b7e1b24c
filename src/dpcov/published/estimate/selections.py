"""Rows that selections by presence leave, and the law of what predicts the missing values there.

What a selection does to means is known.  To covariances it does what it does to those of normal
columns, but for levels and truth values, whose means tell it exactly.  Contract: public numbers
only.  Derived in docs/missing.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dpcov.published.file.columns import EncodedColumn
from dpcov.published.linalg.symmetric import Array, Places

LEAST_VALUE = 1e-3
"""The least part of its variance that is divided by."""

AT_ONCE = 300_000
"""Numbers in an array that is worked on at once."""

# The most of a variance that selection takes.
_MOST_TAKEN = 0.9


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


class Levels(NamedTuple):
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

    def selected_twice(self, one: Array, present: Array, other: Array) -> Array:
        """Shares in rows that two selections leave which leave the shares ``one`` and ``other``.

        (n, l) each, of n pairs; the first leaves the parts ``present`` (n,) of all rows.
        """
        # Given the level, one selection does not depend on the other.
        found = [_with_rest(each) for each in (one, other, self.shares)]
        least = np.maximum(found[2], np.finfo(np.float64).tiny)
        both = found[1] * np.minimum(found[0] / least, 1.0 / present[:, None])
        whole = np.maximum(both.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return np.asarray((both / whole)[:, :-1])

    def covariance(self, shares: Array, present: Array) -> Array:
        """Of the whitened variables, (g, r, r), where each of g selections leaves ``present``."""
        found = self.whitened @ self.features.covariance(shares) @ self.whitened.T
        values, vectors = np.linalg.eigh(found)
        least = np.clip(self.least / present[:, None], LEAST_VALUE, 1.0)
        # No part of the rows varies more than all rows do.
        values = np.clip(values, least, 1.0 / present[:, None])
        return np.asarray((vectors * values[:, None]) @ vectors.swapaxes(1, 2))


def levels_among(
    features: TwoValued, mean: Array, covariance: Array, axes: Array, edge: float
) -> Levels:
    """These features, of which the predictors with this law have components by these ``axes``."""
    spreads = np.sqrt(np.diagonal(covariance)[features.places])
    # Where the components lie, in units of the features' spreads.
    loads = (axes @ covariance[:, features.places] / spreads).T
    left, sizes, right = np.linalg.svd(loads, full_matrices=False)
    kept = sizes**2 > max(edge, LEAST_VALUE)
    back = (left[:, kept] / sizes[kept]).T / spreads
    shares = features.shares(mean[features.places])
    values, vectors = np.linalg.eigh(back @ features.covariance(shares) @ back.T)
    root = (vectors / np.sqrt(np.maximum(values, LEAST_VALUE))) @ vectors.T
    least = edge / sizes[kept].min(initial=1.0) ** 2
    return Levels(features, shares, right[kept].T, root @ back, least)


@dataclass(frozen=True, eq=False)
class Selections:
    """Rows that have a value, for g indicators, and their k components of covariance one.

    In those rows the components have the ``shifts`` (g, k) as means, and normal ones the
    covariances I - t t' with t in ``taken``, (g, k).  ``present`` (g,) are the shares of all rows,
    ``means`` (g, q) those of the predictors there, among which are the ``levels``.  ``told`` (g, q)
    are the predictors that tell something of what is missing.
    """

    shifts: Array
    taken: Array
    present: Array
    means: Array
    told: NDArray[np.bool_]
    levels: Sequence[Levels] = ()

    @classmethod
    def of(
        cls,
        shifts: Array,
        present: Array,
        means: Array,
        told: NDArray[np.bool_],
        levels: Sequence[Levels] = (),
        noise: Array | float = 0.0,
    ) -> Self:
        """The selections that have made these shifts, but for squared lengths of ``noise`` (g,)."""
        lengths = np.linalg.norm(shifts, axis=1)
        squares = np.maximum(lengths**2 - noise, 0.0)
        parts = np.minimum(squares * present / (1.0 - present), _MOST_TAKEN)
        units = shifts / np.maximum(lengths, np.finfo(np.float64).tiny)[:, None]
        return cls(shifts, np.sqrt(parts)[:, None] * units, present, means, told, levels)

    @cached_property
    def directions(self) -> Array:
        """What all levels span, (k, r)."""
        return np.hstack([self.taken[:0].T, *(each.directions for each in self.levels)])

    @cached_property
    def crossed(self) -> Array:
        """Products of the directions, (r, r)."""
        return self.directions.T @ self.directions

    @cached_property
    def alone(self) -> list["Within"]:
        """Rows that each of the selections leaves."""
        every = np.arange(len(self.present))
        parts = np.array_split(every, len(every) * self.crossed.size // AT_ONCE + 1)
        found = (self.within(part, part) for part in parts)
        return [each.only(place) for each in found for place in range(len(each.rows))]

    def within(self, first: Places, second: Places) -> "Within":
        """Rows that n pairs of these selections leave, (n,) each; a pair of one is that one."""
        rows = self._of_normal(first, second)
        along = rows @ self.directions
        normal = self.crossed - along.swapaxes(1, 2) @ along
        more, start, alone = np.zeros_like(normal), 0, first == second
        present = self.present[first] * np.where(alone, 1.0, self.present[second])
        # The rest keeps its regression on the levels: a step of iterative proportional fitting.
        for each in self.levels:
            places, size = each.features.places, each.size
            one, other = (
                each.features.shares(self.means[np.ix_(own, places)]) for own in (first, second)
            )
            both = each.selected_twice(one, self.present[first], other)
            exact = each.covariance(np.where(alone[:, None], one, both), present)
            # Levels that are to come have no part in it yet.
            stop = start + size
            seen = np.zeros((len(rows), stop, size))
            seen[:, :start] = more[:, :start, :start] @ normal[:, :start, start:stop]
            seen[:, start:] = np.eye(size)
            inner = normal[:, start:stop, :stop] @ seen
            gain = seen @ np.linalg.inv(inner)
            told = self.told[np.ix_(first, places)] & self.told[np.ix_(second, places)]
            known = np.asarray(told.all(axis=1))[:, None, None]
            off = np.where(known, exact - inner, 0.0)
            more[:, :stop, :stop] += gain @ off @ gain.swapaxes(1, 2)
            start = stop
        return Within(rows, self.directions, self.crossed, along, more)

    def _of_normal(self, first: Places, second: Places) -> Array:
        # The precision that a selection adds is g g', and those of two add up.
        both = np.stack([self.taken[first], self.taken[second]], axis=1)
        both /= np.sqrt(1.0 - np.sum(both**2, axis=2, keepdims=True))
        both[np.equal(first, second), 1] = 0.0
        root = np.linalg.cholesky(np.eye(2) + both @ both.swapaxes(1, 2))
        return np.asarray(np.linalg.solve(root, both))


class Within(NamedTuple):
    """What covariances of k components lack in n selections: R'R - P D M D' P with P = I - R'R.

    R are ``rows`` (n, 2, k), D ``directions`` (k, r), D'D is ``crossed`` (r, r), RD ``along``
    (n, 2, r), M ``more`` (n, r, r).
    """

    rows: Array
    directions: Array
    crossed: Array
    along: Array
    more: Array

    def only(self, place: int) -> Self:
        """One of the selections."""
        own = slice(place, place + 1)
        return self._replace(rows=self.rows[own], along=self.along[own], more=self.more[own])

    def _coordinates(self, vectors: Array) -> tuple[Array, Array]:
        """R times vectors (n, k, m), and D'P times them."""
        normal = self.rows @ vectors
        return normal, self.directions.T @ vectors - self.along.swapaxes(1, 2) @ normal

    def solved(self, sides: Array) -> Array:
        """X with W X = ``sides``, (n, k, m), for the covariances W of components, (n, k, k)."""
        size, turned = self.rows.shape[1], self.along.swapaxes(1, 2)
        # What they lack is A S A', A = (R', P D): W⁻¹ = I + A S (I - A'A S)⁻¹ A', of low rank.
        squares = self.rows @ self.rows.swapaxes(1, 2)
        mixed = self.along - squares @ self.along
        levels = self.crossed - turned @ (self.along + mixed)
        inner = np.eye(size + len(self.crossed)) - np.block(
            [[squares, -mixed @ self.more], [mixed.swapaxes(1, 2), -levels @ self.more]]
        )
        solved = np.linalg.solve(inner, np.concatenate(self._coordinates(sides), axis=1))
        moved = -self.more @ solved[:, size:]
        normal = self.rows.swapaxes(1, 2) @ (solved[:, :size] - self.along @ moved)
        return np.asarray(sides + normal + self.directions @ moved)

    def lost(self, first: Array, second: Array) -> Array:
        """What covariances of combinations lack, (n, m, m), for slopes (n, k, m) each."""
        (normal, levels), (others, beside) = map(self._coordinates, (first, second))
        return np.asarray(
            normal.swapaxes(1, 2) @ others - levels.swapaxes(1, 2) @ self.more @ beside
        )

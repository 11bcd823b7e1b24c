"""What rows would have without missing values, if those are missing at random.

Features that most rows have predict the others, and each other, linearly.  Contract: public numbers
only.  Derived in docs/missing.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dpcov.published.estimate.entry_noise import (
    DEVIATIONS,
    KNOWN_SHARE,
    MomentNoise,
    hidden_variance,
    mean_noise,
)
from dpcov.published.estimate.noise_edge import bulk_edge
from dpcov.published.estimate.present import Presence, PresentMoments
from dpcov.published.estimate.selections import (
    AT_ONCE,
    LEAST_VALUE,
    Levels,
    Selections,
    TwoValued,
    levels_among,
)
from dpcov.published.linalg.symmetric import Array, Places, eigh


@dataclass(frozen=True, eq=False)
class _Lines:
    """How k components of the predictors predict m features, of g indicators.

    ``slopes`` (k, m) of features of these ``groups`` (m,); where those are present their
    covariances are ``along`` (k, m).  By ``moved`` (m,) selection has moved the means of the
    features, and their estimates need ``extra`` (m,) times as many rows.
    """

    selections: Selections
    groups: Places
    along: Array
    slopes: Array
    moved: Array
    extra: Array

    @classmethod
    def of(cls, selections: Selections, along: Array, groups: Places) -> Self:
        """The lines of those that are present, which hold for all rows."""
        slopes, moved, extra = np.empty_like(along), *np.empty((2, along.shape[1]))
        for group, (shift, within) in enumerate(
            zip(selections.shifts, selections.alone, strict=True)
        ):
            own = groups == group
            solved = within.solved(np.column_stack([along[:, own], shift])[None])[0]
            slopes[:, own], moved[own] = solved[:, :-1], shift @ solved[:, :-1]
            # Away from the mean of its rows a line is known less well.
            extra[own] = 1.0 + shift @ solved[:, -1]
        return cls(selections, groups, along, slopes, moved, extra)

    def lost(self) -> Array:
        """What covariances lack in rows that have the feature of the row, (m, m)."""
        found = np.empty((len(self.groups),) * 2)
        for group, within in enumerate(self.selections.alone):
            own = self.groups == group
            found[own] = within.lost(self.slopes[None, :, own], self.slopes[None])[0]
        return found

    def lost_of_both(self) -> Array:
        """What covariances lack in rows that have both features, (m, m)."""
        count = len(self.selections.present)
        members = [np.flatnonzero(self.groups == group) for group in range(count)]
        m, most = len(self.groups), max(map(len, members))
        padded = np.array([[*own, *[m] * (most - len(own))] for own in members])
        slopes = np.pad(self.slopes, ((0, 0), (0, 1)))[:, padded].swapaxes(0, 1)
        first, second = np.tril_indices(len(members))
        found, size = np.empty((m + 1, m + 1)), slopes[0].size + self.selections.crossed.size
        parts = len(first) * size // AT_ONCE + 1
        for i, j in zip(*(np.array_split(each, parts) for each in (first, second)), strict=True):
            lost = self.selections.within(i, j).lost(slopes[i], slopes[j])
            found[padded[i][:, :, None], padded[j][:, None]] = lost
            found[padded[j][:, :, None], padded[i][:, None]] = lost.swapaxes(1, 2)
        return found[:m, :m]


def well_hidden(means: Array, law: MomentNoise | None) -> Array:
    """The largest variances of features, (p,), that are not known well enough to predict others.

    In units of spreads that are hardly known the noise would hide all other directions, too.
    """
    return hidden_variance(means, law) * (KNOWN_SHARE / DEVIATIONS)


class Doubt(NamedTuple):
    """What noise may make of nothing, and pairs by being over different rows.

    Of directions of the predictors a variance of ``edge``, relative to their own ones; of means
    deviations of ``means``, (p,).
    """

    edge: float = 0.0
    means: Array | float = 0.0

    @classmethod
    def of(
        cls,
        found: PresentMoments,
        predicts: NDArray[np.bool_],
        law: MomentNoise | None,
        n_rows: float,
    ) -> Self:
        """That of a release with so many rows; ``law`` is None where its noise has no known law."""
        places = np.flatnonzero(predicts.any(axis=1))
        mixed = found.mixed(places, n_rows)
        if law is None:
            return cls(mixed)
        noise = bulk_edge(law.on(places), np.diagonal(found.covariance)[places] ** -0.5)
        return cls(hypot(noise, mixed), mean_noise(found.mean, law))


def at_random(
    found: PresentMoments,
    presence: Presence,
    predicts: NDArray[np.bool_],
    doubt: Doubt,
    exact: Sequence[TwoValued] = (),
    *,
    wanted: Places | None = None,
    pairs: bool = True,
) -> PresentMoments:
    """What the rows would have without missing values, if those are missing at random.

    ``predicts`` (p, p) says which features, the rows, predict the missing values of which;
    whether a value is missing may depend on those.  Their law is normal, but for the ``exact``
    ones.  ``shares`` become those of as many rows without missing values as estimates are worth.
    Features that are not ``wanted`` may stay as they are; by default all are.  Without ``pairs``
    covariances between features that are missing in different rows are not to be
    used, which takes much less time.
    """
    predictors, lacking = (np.flatnonzero(predicts.any(axis=axis)) for axis in (1, 0))
    mutual, rest = np.intersect1d(lacking, predictors), np.setdiff1d(lacking, predictors)
    rest = rest if wanted is None else np.intersect1d(rest, wanted)
    filled = found
    if len(mutual):
        toward = _Predictors.of(found, found, predictors, doubt, exact, leaves_out=False)
        filled = _filled(found, found, presence, predicts, toward, mutual, between=False)
    if len(rest):
        toward = _Predictors.of(filled, found, predictors, doubt, exact, leaves_out=True)
        filled = _filled(filled, found, presence, predicts, toward, rest, between=pairs)
    return filled


class _Predictors(NamedTuple):
    """q features at ``places``, with these means.

    ``axes`` (k, q) make components of variance one of them; of their squared length noise on means
    makes ``noise``.
    """

    places: Places
    mean: Array
    axes: Array
    levels: Sequence[Levels]
    noise: float

    @classmethod
    def of(
        cls,
        filled: PresentMoments,
        found: PresentMoments,
        places: Places,
        doubt: Doubt,
        exact: Sequence[TwoValued],
        *,
        leaves_out: bool,
    ) -> Self:
        """Those directions of them that are in doubt count as the largest that may be nothing.

        Or ``leaves_out`` them: in what predicts a feature itself they tell it from its like.
        Shares of levels are those of the pairs that are ``found``.
        """
        mean, inner = filled.mean[places], filled.covariance[np.ix_(places, places)]
        spreads, least = np.sqrt(np.diagonal(inner)), max(doubt.edge, LEAST_VALUE)
        values, vectors = eigh(inner / np.outer(spreads, spreads))
        kept = values > (least if leaves_out else -np.inf)
        axes = (vectors[:, kept] / np.sqrt(np.maximum(values[kept], least))).T / spreads
        levels = [
            levels_among(each.among(places), found.mean[places], inner, axes, doubt.edge)
            for each in exact
        ]
        means = np.broadcast_to(doubt.means, found.mean.shape)[places]
        return cls(places, mean, axes, levels, float(np.sum((axes * means) ** 2)))


def _filled(
    filled: PresentMoments,
    found: PresentMoments,
    presence: Presence,
    predicts: NDArray[np.bool_],
    toward: _Predictors,
    rest: Places,
    *,
    between: bool,
) -> PresentMoments:
    """With what is missing of the features at the places ``rest``, as the predictors say.

    ``filled`` are the moments ``found`` of pairs, where predictors may have been filled before.
    """
    lines = _lines(filled, found, presence, predicts, toward, rest)
    change, both = np.zeros_like(filled.covariance), np.ix_(rest, rest)
    parts = _parts(found.shares, rest)
    # With what is yet to be filled, too, in the rows that have it.
    later = np.setdiff1d(np.flatnonzero(predicts.any(axis=0)), toward.places)
    for others, part in ((toward.places, 1.0), (later, parts[:, later].T)):
        along = toward.axes @ filled.covariance[np.ix_(toward.places, others)]
        change[np.ix_(others, rest)] = part * (along.T @ (lines.slopes - lines.along))
    lost = lines.lost_of_both() if between else lines.lost()
    change[both] = np.where(predicts[both], change[both], lost.T / 2)
    covariance = filled.covariance + change + change.T
    # Beside the predictors, what is missing says nothing of a value.
    marks = presence.used
    marked = filled.covariance[np.ix_(marks, toward.places)] @ toward.axes.T @ lines.slopes
    covariance[np.ix_(marks, rest)], covariance[np.ix_(rest, marks)] = marked, marked.T
    means, extra = filled.means.copy(), np.ones(len(change))
    means[rest] -= parts * lines.moved[:, None]
    extra[rest] = lines.extra
    return PresentMoments(filled.shares / np.sqrt(np.outer(extra, extra)), means, covariance)


def _lines(
    filled: PresentMoments,
    found: PresentMoments,
    presence: Presence,
    predicts: NDArray[np.bool_],
    toward: _Predictors,
    rest: Places,
) -> _Lines:
    # Features that are missing together are selected together.
    marks = presence.indicators[rest]
    _, first, groups = np.unique(marks, return_index=True, return_inverse=True)
    pairs = np.ix_(toward.places, rest[first])
    told, inside = predicts[pairs].T, found.means[pairs].T
    shifts = (filled.means[pairs].T - toward.mean) @ toward.axes.T
    along = toward.axes @ filled.covariance[np.ix_(toward.places, rest)]
    # What is left of the components without those that say nothing, mostly the same of all groups.
    alike, kinds = np.unique(told, axis=0, return_inverse=True)
    for kind in np.flatnonzero(~alike.all(axis=1)):
        hidden, like = np.linalg.qr(toward.axes[:, ~alike[kind]])[0], kinds.ravel() == kind
        shifts[like] -= shifts[like] @ hidden @ hidden.T
        own = like[groups]
        along[:, own] -= hidden @ (hidden.T @ along[:, own])
    present, units = np.diagonal(found.shares)[rest[first]], presence.units[rest[first]]
    # A shift is made of a mean and a product with the indicator, and both have noise.
    noise = toward.noise * ((1.0 - present) ** 2 + units**2) / present**2
    noise *= 1.0 + DEVIATIONS * sqrt(2.0 / max(len(toward.axes), 1))
    selections = Selections.of(shifts, present, inside, told, toward.levels, noise)
    return _Lines.of(selections, along, groups)


def _parts(shares: Array, rest: Places) -> Array:
    """How often features are missing where others are present, relative to all rows, (m, p)."""
    own = np.diagonal(shares)
    found = np.clip((1.0 - shares[rest] / own) / (1.0 - own[rest, None]), 0.0, 1.0)
    found[np.arange(len(rest)), rest] = 1.0
    return np.asarray(found)

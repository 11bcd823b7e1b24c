"""Synthetic rows that have a release's means and correlations, for software that wants rows.

Contract: reads a release only and costs no privacy; every value lies within its public bounds or
categories.  The rows describe nobody: beyond means, variances and correlations they are made up.
A Gaussian copula, adjusted until correlations are as wanted, gives numbers and booleans; a logit of
them and of earlier categories gives the level of each category (docs/synthetic.md).
"""

from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import optimize, special, stats

from dpcov.privacy.options import Count, Seed, plain
from dpcov.published.estimate.correlation_noise import correlation_noise
from dpcov.published.estimate.entry_noise import DEVIATIONS
from dpcov.published.file.columns import (
    EncodedColumn,
    centers_of,
    given_names,
    half_ranges_of,
    of_kind,
)
from dpcov.published.linalg.project import capped_simplex_projection, clip_eigenvalues
from dpcov.published.linalg.symmetric import Array, Places, compose, correlation_of, eigh
from dpcov.published.reading.base import BaseRelease
from dpcov.published.reading.encoded import noise_of
from dpcov.published.reading.rows import on_one_thread

# Latent numbers on which correlations are adjusted: as many rows as this makes, within limits.
_TRIAL_VALUES, _TRIAL_ROWS = 4_000_000, (2_000, 20_000)
_ROUNDS = 12
# Steps to fit a logit.  No slopes give some moments, and these must not take them to infinity; nor
# must levels rarer than the last, whose moments are mostly noise, lead the steps.
_LOGIT_STEPS, _RIDGE, _RARE = 100, 1e-2, 1e-3
# Normal numbers at whose probabilities quantiles are tabulated: bounds may be far away.
_GRID, _STEP = np.linspace(-8.0, 8.0, 2049, retstep=True)
# A parameter of a beta law from which it is a normal law, and one over the other from which it is a
# gamma law at one end.
_NORMAL, _GAMMA = 1e6, 1e7


@on_one_thread
def sample(release: BaseRelease, n_rows: int, *, seed: int | None = None) -> pa.Table:
    """Draw synthetic rows of a release with an intercept, so that means are known.

    One column for every column of the schema: numbers, booleans, or categories as text (null for
    none of the listed, and for missing values).  ``seed`` gives the same rows again.
    """
    random = np.random.default_rng(plain("seed", seed, Seed | None))
    encoded = Copula(release, random).draw(plain("n_rows", n_rows, Count))
    # Encoded columns of one column of the table stand together.
    pairs = list(zip(release.encoded_features, encoded.T, strict=True))
    hidden = {
        source: values > column.lowest
        for column, values in pairs
        if column.kind == "missing"
        for source in column.missing_of
    }
    values = (pair for pair in pairs if pair[0].kind != "missing")
    members = groupby(values, key=lambda pair: pair[0].source)
    names = given_names(release.features)
    return pa.table(
        {names[source]: _decoded(list(group), hidden.get(source)) for source, group in members}
    )


class Copula:
    """Latent correlations, marginal laws and logits that together give a release's moments."""

    def __init__(self, release: BaseRelease, rng: np.random.Generator) -> None:
        self.columns, self._rng = release.encoded_features, rng
        self.mean = release.mean_vector(indicators=True) * release.longer
        self.scales = half_ranges_of(self.columns)
        self.centers = centers_of(self.columns)
        self.wanted = _known_correlations(release)
        covariance = release.covariance_matrix(indicators=True) / np.outer(self.scales, self.scales)
        variances = np.maximum(np.diagonal(covariance), 0.0)
        # Pairs of no one column of the table, and of no constant.
        sources = np.array([column.source for column in self.columns])
        missing = of_kind(self.columns, "missing")
        self.is_free = (sources[:, None] != sources) | (missing[:, None] != missing)
        self.is_free &= np.outer(variances > 0, variances > 0)
        lowest, largest = self._bounds = np.array([(c.lowest, c.largest) for c in self.columns]).T
        mean = (self.mean - self.centers) / self.scales
        self._means, self._variances = np.clip(mean, lowest, largest), variances
        self._shares = np.clip(self._means * self.scales + self.centers, 0.0, 1.0)
        self._is_level = of_kind(self.columns, "category")
        numeric = (place for place, x in enumerate(self.columns) if x.kind == "numeric")
        self._quantiles = {place: self._beta_quantiles(place) for place in numeric}
        # Places of a category, those of columns before, and weights of its levels and of none.
        self._logits: list[tuple[list[int], Places, Array]] = []
        d = len(self.columns)
        self._trial = rng.standard_normal((int(np.clip(_TRIAL_VALUES // d, *_TRIAL_ROWS)), d))
        self._free = np.flatnonzero(~self._is_level)
        self._root = _root(self._adjusted()) if len(self._free) else np.eye(0)
        self._choose()

    def draw(self, n_rows: int) -> Array:
        """Encoded rows, (n, d), before scaling to units."""
        normal = self._rng.standard_normal((n_rows, len(self.columns)))
        latent = self._related(normal)
        seen = self._seen(latent, np.arange(len(self.columns)))
        for logit in self._logits:
            self._take(seen, latent, *logit)
        return seen

    def _related(self, normal: Array) -> Array:
        # Latent numbers of levels go along with nothing: a logit chooses levels.
        latent = normal.copy()
        latent[:, self._free] = normal[:, self._free] @ self._root
        return latent

    def _adjusted(self) -> Array:
        # The map from latent to seen values bends correlations; latent ones are adjusted.
        free = self._free
        is_free, wanted = self.is_free[np.ix_(free, free)], self.wanted[np.ix_(free, free)]
        latent = best = np.where(is_free, wanted, np.eye(len(free)))
        trial, smallest = self._trial[:, free], np.inf
        for _ in range(_ROUNDS):
            latent = correlation_of(clip_eigenvalues(latent, 1e-9), undefined=0.0)
            # Constants are correlated with nothing.
            spread = np.atleast_2d(np.cov(self._seen(trial @ _root(latent), free), rowvar=False))
            gap = np.where(is_free, wanted - correlation_of(spread, undefined=0.0), 0.0)
            if (size := float(np.linalg.norm(gap))) < smallest:
                best, smallest = latent, size
            latent = latent + gap
        return best

    def _choose(self) -> None:
        # Levels of every category in turn, given all columns that are none and those before.
        latent = self._related(self._trial)
        # The chance of a trial would move shares of levels that go with a number; ranks have none.
        ranks = np.argsort(np.argsort(latent, axis=0), axis=0)
        latent = special.ndtri((ranks + 0.5) / len(latent))
        seen = self._seen(latent, np.arange(len(self.columns)))
        members = groupby(np.flatnonzero(self._is_level), lambda x: self.columns[x].source)
        for places in ([int(place) for place in group] for _, group in members):
            listed = capped_simplex_projection(self._shares[places], 1.0)
            shares = np.append(listed, max(1 - listed.sum(), 0.0))
            deviations = np.sqrt(listed * (1 - listed))[:, None]
            # Constants, among them levels that are yet to come, have no weight.
            before = np.flatnonzero(np.ptp(seen, axis=0) > 0)
            covariances = self.wanted[places][:, before] * deviations
            self._logits.append((places, before, _logit(seen[:, before], shares, covariances)))
            self._take(seen, latent, *self._logits[-1])

    def _beta_quantiles(self, place: int) -> Array:
        # Of the beta law on the bounds with the wanted moments.
        lowest, largest = self._bounds[:, place]
        width = largest - lowest
        mean, variance = (self._means[place] - lowest) / width, self._variances[place] / width**2
        # No law on the bounds has a larger one; closer to an end none has this one.
        variance = min(variance, 0.25)
        mean = float(np.clip(mean, variance, 1 - variance))
        widest = mean * (1 - mean)
        if min(variance, widest) <= 0:
            return np.full_like(_GRID, lowest + width * mean)
        size = widest / min(variance, 0.98 * widest) - 1
        near = min(mean, 1 - mean)
        # From the end that is nearer, so that bounds which are far too wide cost no digits.
        found = _beta_quantiles(near * size, (1 - near) * size)
        return np.asarray(lowest + width * found if near == mean else largest - width * found[::-1])

    def _seen(self, latent: Array, places: Places) -> Array:
        # Latent normal numbers of columns at these places as encoded values, before levels are
        # chosen.
        seen = np.empty_like(latent)
        for normal, values, place in zip(latent.T, seen.T, places, strict=True):
            column = self.columns[place]
            if column.kind == "numeric":
                values[:] = _interpolated(normal, self._quantiles[place])
            elif column.kind == "category":
                values[:] = column.lowest
            else:
                taken = special.ndtr(normal) > 1 - self._shares[place]
                values[:] = np.where(taken, column.largest, column.lowest)
        return seen

    def _take(
        self, seen: Array, latent: Array, places: list[int], before: Places, weights: Array
    ) -> None:
        # Levels of one category; one of the latent numbers is enough for all.
        passed = np.cumsum(_odds(weights[:, 1:] @ seen[:, before].T + weights[:, :1])[0], axis=0)
        chosen = np.sum(passed[:-1] < special.ndtr(latent[:, places[0]]) * passed[-1], axis=0)
        for level, place in enumerate(places):
            seen[chosen == level, place] = self.columns[place].largest


def _known_correlations(release: BaseRelease) -> Array:
    """Correlations of all encoded features, (d, d); zero with indicators where noise may do that.

    Most columns lack next to nothing: what noise makes of their indicators would bend all others.
    """
    # Those of features whose variance noise may hide are zero.
    found = np.nan_to_num(release.correlation_matrix(indicators=True))
    np.fill_diagonal(found, 1.0)
    # Indicators are not shrunk.
    columns, noise = release.restored_features, noise_of(release, "none", indicators=True)
    missing = of_kind(columns, "missing")
    if noise is None or not missing.any():
        return found
    units = half_ranges_of(columns)
    means = (release.mean_vector(indicators=True) - centers_of(columns)) / units
    covariance = release.covariance_matrix(indicators=True) / np.outer(units, units)
    is_clear = np.abs(found) >= DEVIATIONS * correlation_noise(means, covariance, noise)
    return np.where(is_clear | ~(missing | missing[:, None]), found, np.eye(len(found)))


def _interpolated(normal: Array, table: Array) -> Array:
    # As np.interp does on the grid: its steps are equal, so nothing is searched.
    place = np.clip((normal - _GRID[0]) / _STEP, 0.0, len(_GRID) - 1.0)
    below = np.minimum(place.astype(np.intp), len(_GRID) - 2)
    return np.asarray(table[below] + (place - below) * np.diff(table)[below])


def _odds(logits: Array) -> tuple[Array, Array]:
    # With the largest logits, (n,), by which they are divided, so that none is infinite.
    top = logits.max(axis=0)
    return np.exp(logits - top), top


def _logit(seen: Array, shares: Array, covariances: Array) -> Array:
    """Weights of one and of columns, (m, 1 + q), that give m levels their shares and covariances.

    The columns ``seen``, (n, q), none of them constant, are standardized in ``covariances``, (m -
    1, q); the last level is none of the others.
    """
    center, deviations = seen.mean(axis=0), seen.std(axis=0)
    inputs = np.vstack([np.ones(len(seen)), ((seen - center) / deviations).T])
    wanted = np.column_stack([shares, np.vstack([covariances, -covariances.sum(axis=0)])])
    # In these units levels are about as steep.
    units = ((shares > 0) / np.sqrt(np.maximum(shares, _RARE)))[:, None]
    # Many weights would fit these few rows, and no others.
    ridge = np.array([0.0, *np.full(len(center), max(_RIDGE, len(center) / len(seen)))])
    with np.errstate(divide="ignore"):
        start = np.log(shares)[:, None]

    def loss(flat: Array) -> tuple[float, Array]:
        # Convex, and flat where moments are those that are wanted.
        steps = flat.reshape(wanted.shape)
        odds, top = _odds(start + (steps * units) @ inputs)
        total = odds.sum(axis=0)
        gap = (odds / total) @ inputs.T / len(seen) - wanted
        size = np.mean(np.log(total) + top) - np.sum((wanted * units - ridge / 2 * steps) * steps)
        return size, (gap * units + ridge * steps).ravel()

    options, zero = {"maxiter": _LOGIT_STEPS, "gtol": 1e-3}, np.zeros(wanted.size)
    found = optimize.minimize(loss, zero, jac=True, method="L-BFGS-B", options=options)
    weights = np.asarray(found.x.reshape(wanted.shape) * units)
    weights[:, 1:] /= deviations
    weights[:, 0] += start[:, 0] - weights[:, 1:] @ center
    return weights


def _beta_quantiles(a: float, b: float) -> Array:
    """Quantiles of a beta law, ``a`` below ``b``, at the normal numbers of the grid."""
    size = a + b
    if a > _NORMAL:
        normal = a / size + np.sqrt(a * b / size) / size * _GRID
        return np.asarray(np.clip(normal, 0.0, 1.0))
    is_gamma = b > _GAMMA * a and b > _GAMMA
    law = stats.gamma(a, scale=1 / size) if is_gamma else stats.beta(a, b)
    upper = _GRID > 0
    # Probabilities close to one have few digits.
    below, above = law.ppf(special.ndtr(_GRID[~upper])), law.isf(special.ndtr(-_GRID[upper]))
    found = np.nan_to_num(np.concatenate([below, above]), nan=0.0)
    return np.asarray(np.maximum.accumulate(np.clip(found, 0.0, 1.0)))


def _decoded(members: list[tuple[EncodedColumn, Array]], hidden: Any) -> pa.Array:
    # Values of one column of the table.
    columns, encoded = zip(*members, strict=True)
    first = columns[0]
    if first.kind == "category":
        labels = [column.level for column in columns]
        taken = [values > column.lowest for column, values in zip(columns, encoded, strict=True)]
        # Nothing for none of them.
        chosen = np.argmax([*taken, np.ones_like(taken[0])], axis=0)
        texts: Any = np.array([*labels, None], dtype=object)[chosen]
        return pa.array(texts, type=pa.string(), mask=hidden)
    values = first.center + first.half_range * encoded[0]
    if first.kind == "boolean":
        return pa.array(values > 0.5, mask=hidden)
    return pa.array(np.clip(values, *first.bounds), mask=hidden)


def _root(correlation: Array) -> Array:
    values, vectors = eigh(correlation)
    return compose(np.sqrt(np.maximum(values, 0.0)), vectors)

"""Synthetic rows that have a release's means and correlations, for software that wants rows.

Contract: reads a release only and costs no privacy; every value lies within its public bounds or
categories.  The rows describe nobody: beyond means, variances and correlations they are made up.
A Gaussian copula, adjusted until correlations are as wanted (docs/synthetic.md).
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import special, stats

from dpcov.privacy.options import Count, plain
from dpcov.published.base import BaseRelease, on_one_thread
from dpcov.published.columns import EncodedColumn
from dpcov.published.linalg.project import clip_eigenvalues
from dpcov.published.linalg.symmetric import Array, compose, correlation_of, eigh

# Latent numbers on which correlations are adjusted: as many rows as this makes, within limits.
_TRIAL_VALUES = 4_000_000
_TRIAL_ROWS = (2_000, 20_000)
_ROUNDS = 12
# Probabilities at which quantiles are tabulated.
_GRID = np.linspace(0.0, 1.0, 1025)
# Keeps means and shares off the ends, where a beta law has no variance.
_CLEAR_OF_ENDS = 1e-6


class Variable(NamedTuple):
    """A column of the table: the places of its encoded columns among the release's features."""

    name: str
    kind: str
    places: tuple[int, ...]
    missing: int | None


@on_one_thread
def sample(release: BaseRelease, n_rows: int, *, seed: int | None = None) -> pa.Table:
    """Draw synthetic rows of a release with an intercept, so that means are known.

    ``seed`` gives the same rows again; the release is public, so nothing depends on it.

    Returns
    -------
    pyarrow.Table
        One column for every column of the schema: numbers, booleans, or categories as text (null
        for none of the listed, and for missing values).
    """
    copula = Copula(release, np.random.default_rng(seed))
    encoded = copula.draw(plain("n_rows", n_rows, Count))
    return pa.table(
        {variable.name: _decode(variable, copula.columns, encoded) for variable in copula.variables}
    )


class Copula:
    """Latent correlations and marginal laws that together give a release's moments."""

    def __init__(self, release: BaseRelease, rng: np.random.Generator) -> None:
        self.columns, self.mean = release.features, release.mean()
        self.variables = tuple(_variables(self.columns))
        self.scales, self.centers = release.half_ranges, release.centers
        covariance = release.covariance() / np.outer(self.scales, self.scales)
        self._unit_mean = (self.mean - self.centers) / self.scales
        self._unit_variance = np.maximum(np.diagonal(covariance), 0.0)
        self._without_missing()
        self.wanted = correlation_of(covariance, undefined=0.0)
        # Pairs of no one column of the table, and of no constant.
        self.is_free = np.ones_like(self.wanted, dtype=bool)
        for variable in self.variables:
            self.is_free[np.ix_(variable.places, variable.places)] = False
        constant = self._unit_variance <= 0
        self.is_free[constant] = self.is_free[:, constant] = False
        self._rng = rng
        self._latent = self._adjusted()

    def _without_missing(self) -> None:
        # A missing value was encoded as 0, so moments of the present ones are larger.
        for variable in self.variables:
            if variable.missing is not None:
                places = np.array(variable.places)
                present = max(1.0 - float(self.mean[variable.missing]), _CLEAR_OF_ENDS)
                square = (self._unit_variance[places] + self._unit_mean[places] ** 2) / present
                self._unit_mean[places] = np.clip(
                    self._unit_mean[places] / present,
                    [self.columns[place].lowest for place in places],
                    [self.columns[place].largest for place in places],
                )
                self._unit_variance[places] = np.maximum(square - self._unit_mean[places] ** 2, 0.0)

    def draw(self, n_rows: int) -> Array:
        """Encoded rows, (n, d), before scaling to units."""
        normal = self._rng.standard_normal((n_rows, len(self.columns)))
        return self._seen(normal @ _root(self._latent))

    def _adjusted(self) -> Array:
        # The map from latent to seen values bends correlations; latent ones are adjusted.
        d = len(self.columns)
        trials = int(np.clip(_TRIAL_VALUES // d, *_TRIAL_ROWS))
        normal = self._rng.standard_normal((trials, d))
        latent = best = np.where(self.is_free, self.wanted, np.eye(d))
        smallest = np.inf
        for _ in range(_ROUNDS):
            latent = correlation_of(clip_eigenvalues(latent, 1e-9), undefined=0.0)
            seen = _sample_correlation(self._seen(normal @ _root(latent)))
            gap = np.where(self.is_free, self.wanted - seen, 0.0)
            if (size := float(np.linalg.norm(gap))) < smallest:
                best, smallest = latent, size
            latent = latent + gap
        return best

    def _seen(self, latent: Array) -> Array:
        """Map latent normal numbers to encoded values, one column of the table at a time."""
        seen = np.zeros_like(latent)
        for variable in self.variables:
            if variable.kind == "numeric":
                (place,) = variable.places
                seen[:, place] = self._numbers(place, latent[:, place])
            else:
                self._choices(variable.places, latent, seen)
            if variable.missing is not None:
                self._choices((variable.missing,), latent, seen)
                hidden = seen[:, variable.missing] > 0
                seen[np.ix_(hidden, np.array(variable.places))] = 0.0
        return seen

    def _numbers(self, place: int, latent: Array) -> Array:
        # Quantiles of the beta law on the bounds with the wanted moments.
        lowest, largest = self.columns[place].lowest, self.columns[place].largest
        width = largest - lowest
        mean, variance = (self._unit_mean[place] - lowest) / width, self._unit_variance[place]
        variance /= width**2
        mean = float(np.clip(mean, _CLEAR_OF_ENDS, 1 - _CLEAR_OF_ENDS))
        widest = mean * (1 - mean)
        if variance <= 1e-12:
            return np.full(len(latent), lowest + width * mean)
        size = widest / min(variance, 0.98 * widest) - 1
        table = stats.beta.ppf(_GRID, mean * size, (1 - mean) * size)
        quantiles = lowest + width * np.nan_to_num(table)
        return np.asarray(np.interp(special.ndtr(latent), _GRID, quantiles))

    def _choices(self, places: tuple[int, ...], latent: Array, seen: Array) -> None:
        # Each row gets the first category whose threshold it passes, some rows none.
        open_rows = np.arange(len(latent))
        left = 1.0
        for place in places:
            wanted = self._unit_mean[place] * self.scales[place] + self.centers[place]
            share = float(np.clip(wanted, 0.0, left))
            taken = round(len(open_rows) * share / left) if left > 0 else 0
            order = np.argsort(latent[open_rows, place])
            split = len(open_rows) - taken
            seen[open_rows[order[:split]], place] = self.columns[place].lowest
            seen[open_rows[order[split:]], place] = self.columns[place].largest
            open_rows, left = open_rows[order[:split]], left - share


def _variables(columns: tuple[EncodedColumn, ...]) -> Iterator[Variable]:
    """Group encoded columns by the column of the table that they come from."""
    for name, members in groupby(range(len(columns)), lambda place: columns[place].source):
        places = tuple(members)
        missing = next((place for place in places if columns[place].kind == "missing"), None)
        values = tuple(place for place in places if place != missing)
        yield Variable(name, columns[places[0]].kind, values, missing)


def _decode(variable: Variable, columns: tuple[EncodedColumn, ...], encoded: Array) -> pa.Array:
    first = columns[variable.places[0]]
    hidden = None if variable.missing is None else encoded[:, variable.missing] > 0
    if variable.kind == "category":
        labels = [columns[place].name.removeprefix(f"{first.source}=") for place in variable.places]
        block = encoded[:, variable.places]
        # The number of categories stands for none of them.
        chosen = np.where(block.any(axis=1), block.argmax(axis=1), block.shape[1])
        texts: Any = np.array([*labels, None], dtype=object)[chosen]
        return pa.array(texts, type=pa.string(), mask=hidden)
    values = first.center + first.half_range * encoded[:, variable.places[0]]
    if variable.kind == "boolean":
        return pa.array(values > 0.5, mask=hidden)
    return pa.array(np.clip(values, *first.bounds), mask=hidden)


def _sample_correlation(rows: Array) -> Array:
    # Constants are correlated with nothing.
    return correlation_of(np.atleast_2d(np.cov(rows, rowvar=False)), undefined=0.0)


def _root(correlation: Array) -> Array:
    values, vectors = eigh(correlation)
    return compose(np.sqrt(np.maximum(values, 0.0)), vectors)

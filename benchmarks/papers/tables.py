"""Data sets by name: rows in the unit ball, and what estimates are compared with.

Contract: a table and a seed give the same rows everywhere.  Knows nothing of mechanisms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import dpcov
from benchmarks import data
from benchmarks.papers.figure import Table
from benchmarks.papers.seeds import seed_of
from benchmarks.papers.synthetic import synthetic_rows
from dpcov.data.exact.moments import Moments, MomentsSpec

Rows = NDArray[np.float64]


@dataclass(kw_only=True)
class Data:
    """Rows with norms up to 1 and the matrix that is to be estimated (their second moment unless
    stated).

    Exact moments are gathered once for every way in which a mechanism wants them.
    """

    rows: Rows
    population: Rows | None = None

    def __post_init__(self) -> None:
        self._gathered: dict[MomentsSpec, Moments] = {}

    @cached_property
    def second_moment(self) -> Rows:
        product: Rows = self.rows.T @ self.rows
        return product / len(self.rows)

    @property
    def target(self) -> Rows:
        return self.second_moment if self.population is None else self.population

    def moments(self, spec: MomentsSpec) -> Moments:
        if spec not in self._gathered:
            wanted = {name: getattr(spec, name) for name in spec.__dataclass_fields__}
            self._gathered[spec] = dpcov.moments(self.rows, norm_bound=1.0, **wanted)
        return self._gathered[spec]


def load(table: Table, *, seed: int, directory: Path) -> Data:
    """Load or generate a table; raises :class:`benchmarks.data.MissingTable` where a file is not
    there."""
    generator = np.random.default_rng(seed_of(seed, table))
    loaded = LOADERS[table.kind](directory, generator, **dict(table.parameters))
    return loaded if isinstance(loaded, Data) else Data(rows=loaded)


def _zipf(directory: Path, generator: np.random.Generator, *, n: int, d: int, N: int) -> Rows:
    return synthetic_rows(n, d, N, generator)


def _sparse_gaussian(
    directory: Path,
    generator: np.random.Generator,
    *,
    n: int,
    p: int,
    sparsity: float,
    norm_bound: float,
) -> Data:
    """Normal rows whose covariance is sparse, divided by a public bound on their norm.

    U = (symmetric with a share ``sparsity`` of entries uniform on (0, 1) + 50 I) / 200, as Wang et
    al. draw it.
    """
    population = sparse_covariance(p, sparsity, generator)
    rows = generator.standard_normal((n, p)) @ np.linalg.cholesky(population).T
    return Data(rows=rows / norm_bound, population=population / norm_bound**2)


def sparse_covariance(p: int, sparsity: float, generator: np.random.Generator) -> Rows:
    upper = np.triu(generator.random((p, p)) * (generator.random((p, p)) < sparsity))
    return (upper + np.triu(upper, 1).T + 50 * np.eye(p)) / 200


def _mnist(
    directory: Path,
    generator: np.random.Generator,
    *,
    n: int | None = None,
    digit: int | None = None,
) -> Rows:
    return data.mnist(directory, rows=n, digit=digit)


def _news(
    directory: Path,
    generator: np.random.Generator,
    *,
    corpus: str,
    d: int,
    scaling: str,
    n: int | None = None,
) -> Rows:
    """Hashed word counts, each row divided by its own norm or all by the largest norm."""
    rows = data.news(directory, corpus, d=d, normalized=scaling == "own norm")
    if scaling == "largest norm":
        rows = _touching(rows)
    return rows if n is None else rows[generator.permutation(len(rows))[:n]]


def _scaled(rows: Callable[[Path], Rows]) -> Callable[[Path, np.random.Generator], Rows]:
    """Rows divided by the largest norm, as the experiments of the papers do with data treated as
    public."""
    return lambda directory, generator: _touching(rows(directory))


def _touching(rows: Rows) -> Rows:
    return rows / np.linalg.norm(rows, axis=1).max()


def _bounded(rows: Callable[[Path], Rows]) -> Callable[[Path, np.random.Generator], Rows]:
    """Rows as a custodian would scale them, by the public bounds of :mod:`benchmarks.data`."""
    return lambda directory, generator: rows(directory)


LOADERS: dict[str, Callable[..., Rows | Data]] = {
    "zipf": _zipf,
    "sparse gaussian": _sparse_gaussian,
    "mnist": _mnist,
    "news": _news,
    "wine": _scaled(lambda directory: data.wine()),
    "airfoil": _scaled(data.airfoil),
    "adult": _scaled(data.adult),
    "raw wine": _scaled(lambda directory: data.raw_wine()),
    "raw airfoil": _scaled(data.raw_airfoil),
    "raw adult": _scaled(data.raw_adult),
    "bounded wine": _bounded(lambda directory: data.wine()),
    "bounded digits": _bounded(lambda directory: data.digits()),
    "bounded breast cancer": _bounded(lambda directory: data.breast_cancer()),
    "bounded airfoil": _bounded(data.airfoil),
    "bounded adult": _bounded(data.adult),
    "bounded credit default": _bounded(data.credit_default),
    "bounded communities": _bounded(data.communities),
    "bounded nhanes": _bounded(data.nhanes),
}

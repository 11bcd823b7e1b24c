"""The tables on which everybody is compared, and what is asked of each method.

Every table exists twice: with columns between the public bounds ``lower`` and 1, and, divided by
sqrt(d), with rows in the unit ball.  So norm bounds and column bounds say the same.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.peers.catalog import DELTA, EPSILON, Kind, Method
from benchmarks.peers.exchange import Task

Array = NDArray[np.float64]

COMPONENTS = 5
SYNTHETIC_ROWS = 10_000
COLUMNS = (10, 30, 100)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A table with columns between public bounds.

    Parameters
    ----------
    name : str
    columns : (n_rows, n_features) float64
        Entries between ``lower`` and 1.
    lower : float
        0 or -1.
    """

    name: str
    columns: Array
    lower: float

    @property
    def unit_rows(self) -> Array:
        """The same rows in the unit ball."""
        return self.columns / sqrt(self.columns.shape[1])

    def target(self, kind: Kind) -> Array:
        """What is estimated: the covariance of the columns, or the second moment of the unit
        rows."""
        if kind == "covariance":
            return np.cov(self.columns, rowvar=False, ddof=0)
        return self.unit_rows.T @ self.unit_rows / len(self.columns)


def cases(seed: int) -> list[Case]:
    """Digits and breast cancer, with the bounds of :mod:`benchmarks.data`, and synthetic tables."""
    digits, breast_cancer = data.digits() * 8, data.breast_cancer() * sqrt(30)
    generator = np.random.default_rng(seed)
    return [
        Case(name="digits", columns=digits, lower=0.0),
        Case(name="breast cancer", columns=breast_cancer, lower=0.0),
        *(
            Case(name=f"synthetic d={d}", columns=_factors(d, generator), lower=-1.0)
            for d in COLUMNS
        ),
    ]


def _factors(d: int, generator: np.random.Generator) -> Array:
    """Rows with five common factors, cut off at the bounds -1 and 1."""
    loadings = generator.normal(size=(5, d)) * np.array([0.4, 0.3, 0.2, 0.1, 0.1])[:, None]
    rows = generator.normal(size=(SYNTHETIC_ROWS, 5)) @ loadings + 0.1 * generator.normal(
        size=(SYNTHETIC_ROWS, d)
    )
    return np.clip(rows, -1, 1)


def tables(made: list[Case]) -> dict[str, Array]:
    """Both forms of every table by the names that :func:`task_of` uses."""
    return {case.name: case.unit_rows for case in made} | {
        f"{case.name}, columns": case.columns for case in made
    }


def task_of(method: Method, case: Case, *, repetitions: int, limit_s: float) -> Task:
    """Ask a method about a table."""
    arguments = {"epsilon": EPSILON, **method.options}
    if method.delta:
        arguments["delta"] = DELTA
    if method.kind == "components":
        arguments["count"] = COMPONENTS
    if method.kind == "covariance":
        arguments |= {"lower": case.lower, "upper": 1.0}
    return Task(
        key=f"{method.label} {case.name}".replace(" ", "-").replace(",", "").replace("=", ""),
        method=method.call,
        table=f"{case.name}, columns" if method.kind == "covariance" else case.name,
        arguments=arguments,
        repetitions=repetitions,
        limit_s=limit_s,
    )


def score(kind: Kind, values: Array, target: Array) -> Array:
    """One number per repetition, 0 at best.

    Relative Frobenius error; for components the share of the variance that they miss of what as
    many could capture.
    """
    if kind != "components":
        return np.array([np.linalg.norm(value - target) for value in values]) / np.linalg.norm(
            target
        )
    best = np.linalg.eigvalsh(target)[::-1]
    missed = []
    for value in values:
        basis = np.linalg.qr(value.T)[0]
        missed.append(1 - np.trace(basis.T @ target @ basis) / best[: basis.shape[1]].sum())
    return np.maximum(missed, 0.0)

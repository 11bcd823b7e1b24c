"""Regressions that spend a whole budget on one target: AdaSSP, and noisy gradient descent.

Contract: rows come from public bounds alone, with an intercept and in the unit ball, targets in
[-1, 1]. Neighbors differ by one row more or less, and rho is zCDP. The arithmetic is ordinary
floating point, for comparison only.
"""

from dataclasses import dataclass
from itertools import product
from math import log, sqrt

import numpy as np
import pandas as pd

from benchmarks.analyst.tables import Table

Array = np.ndarray

FAILURE = 0.05
"""Probability with which AdaSSP's bounds on its own noise may fail (Wang's experiments)."""


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Settings of noisy gradient descent; rows' gradients longer than ``clip`` are shortened."""

    steps: int
    clip: float
    rate: float


UNTUNED = Descent(steps=100, clip=0.1, rate=1.0)
"""Rate 1 is the largest that is stable for every table of rows in the unit ball."""
GRID = tuple(
    Descent(steps=steps, clip=clip, rate=rate)
    for steps, clip, rate in product((10, 100), (0.01, 0.1, 1.0), (0.25, 1.0, 4.0, 16.0, 64.0))
)


def unit_rows(table: Table, frame: pd.DataFrame) -> tuple[Array, list[str]]:
    """Intercept and columns, numbers in [-1, 1] and levels as they are, over the largest norm."""
    columns = table.of(frame).encoded
    for name, (lower, upper) in table.bounds.items():
        columns[name] = (columns[name] - (lower + upper) / 2) / ((upper - lower) / 2)
    largest = sqrt(1 + len(table.bounds) + len(table.categories))
    return np.column_stack([np.ones(len(columns)), columns]) / largest, ["", *columns]


@dataclass(frozen=True, eq=False)
class Design:
    """Rows and target of one regression, and the rows on which it is judged."""

    x: Array
    y: Array
    test: Array
    scale: tuple[float, float]

    @classmethod
    def of(cls, table: Table, held_out: pd.DataFrame) -> "Design":
        """Everything but the target and what would give it away."""
        rows, names = unit_rows(table, table.frame)
        test, _ = unit_rows(table, held_out)
        away = (table.target, *table.left_out)
        kept = [place for place, name in enumerate(names) if name not in away]
        lower, upper = table.bounds[table.target]
        center, half = (lower + upper) / 2, (upper - lower) / 2
        y = (table.frame[table.target].to_numpy() - center) / half
        return cls(rows[:, kept], y, test[:, kept], (center, half))

    def predict(self, weights: Array) -> Array:
        """Targets of the rows on which it is judged."""
        center, half = self.scale
        return np.asarray(center + half * (self.test @ weights))


def noise_std(sensitivity: float, rho: float) -> float:
    """Of Gaussian noise that costs rho."""
    return sensitivity / sqrt(2 * rho)


def ada_ssp(x: Array, y: Array, rho: float, rng: np.random.Generator) -> Array:
    """Weights by Algorithm 2 of Wang (2018), each of its three queries at a third of rho.

    Without a row, x'x changes by 1 in Frobenius norm, its smallest eigenvalue by 1, x'y by 1.
    """
    d = x.shape[1]
    std = noise_std(1.0, rho / 3)
    smallest = np.linalg.eigvalsh(x.T @ x)[0] + rng.normal(scale=std)
    smallest = max(smallest - std * sqrt(2 * log(2 / FAILURE)), 0.0)
    noise = np.triu(rng.normal(scale=std, size=(d, d)))
    moment = x.T @ x + noise + np.triu(noise, 1).T
    ridge = max(0.0, std * sqrt(d * log(2 * d**2 / FAILURE)) - smallest)
    target = x.T @ y + rng.normal(scale=std, size=d)
    return np.asarray(np.linalg.solve(moment + ridge * np.eye(d), target))


def gradient_descent(
    x: Array, y: Array, rho: float, rng: np.random.Generator, chosen: Descent = UNTUNED
) -> Array:
    """Weights after steps along noisy sums of gradients, each at an equal share of rho.

    The number of rows, by which sums are divided, is taken as known.
    """
    n, d = x.shape
    std = noise_std(chosen.clip, rho / chosen.steps)
    lengths = np.linalg.norm(x, axis=1)
    weights = np.zeros(d)
    for _ in range(chosen.steps):
        residual = x @ weights - y
        shortened = residual / np.maximum(1.0, np.abs(residual) * lengths / chosen.clip)
        gradient = x.T @ shortened + rng.normal(scale=std, size=d)
        weights = weights - chosen.rate / n * gradient
    return weights

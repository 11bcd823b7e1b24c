"""Error of a released covariance in the truly whitened geometry, over that of noise alone there.

Run: python -m benchmarks.analyst.whitened [--repetitions N] [--epsilon E ...] [--only NAME ...]
     [--data DIR] | python -m benchmarks.measured --store whitened.csv
"""

import warnings
from pathlib import Path

import numpy as np

from benchmarks.analyst.__main__ import tables
from benchmarks.analyst.measure import Array, Truth
from benchmarks.analyst.tables import budget_of
from benchmarks.data import data_directory
from benchmarks.measured import heading, row
from benchmarks.options import asked
from dpcov.privacy.calibrate import gaussian_noise_multiplier

LENGTHS = np.array([0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0])
"""Parts of the rows that keep their length, of which the best is taken."""

HEAD = ("table", "epsilon", "private", "no row shortened", "ratio", "best length", "ratio")


def released(truth: Truth, epsilon: float, repetitions: int) -> float:
    """Mean error of a release, replace-one, over the root of the number of columns."""
    errors = []
    for seed in range(repetitions):
        release = truth.table.release(epsilon, seed)
        found = truth.whitening @ release.covariance_matrix() @ truth.whitening.T
        errors.append(np.linalg.norm(found - np.eye(len(found))) / np.sqrt(len(found)))
    return float(np.mean(errors))


def floors(truth: Truth, epsilon: float) -> tuple[float, float]:
    """What isotropic noise costs in the whitened geometry, the whole budget.

    Without shortening a row; and at the length where noise and what is lost are least together.
    """
    budget = budget_of(epsilon)
    multiplier = float(gaussian_noise_multiplier(budget.promise.epsilon, budget.promise.delta))
    encoded = truth.table.encoded.to_numpy()
    rows = (encoded - encoded.mean(axis=0)) @ truth.whitening.T
    squares, (n, d) = np.sum(rows**2, axis=1), rows.shape
    noises = multiplier * (1 + np.quantile(squares, LENGTHS)) / n * np.sqrt(d + 1)
    found = [
        np.hypot(noise, _bias(rows, squares, length))
        for noise, length in zip(noises, np.quantile(squares, LENGTHS), strict=True)
    ]
    return float(noises[-1]), float(min(found))


def _bias(rows: Array, squares: Array, length: float) -> float:
    shorter = rows * np.sqrt(np.minimum(1.0, length / squares))[:, None]
    lost = np.cov(shorter.T, ddof=0) - np.eye(rows.shape[1])
    return float(np.linalg.norm(lost) / np.sqrt(len(lost)))


def main() -> None:
    """Print a table."""
    options = asked(__doc__, data=Path, repetitions=5, epsilon=[1.0, 4.0], only=[str])
    warnings.simplefilter("ignore")
    print(heading(HEAD))
    for table in tables(data_directory(options.data), options.only):
        truth = Truth(table)
        for epsilon in options.epsilon:
            own, (plain, best) = (
                released(truth, epsilon, options.repetitions),
                floors(truth, epsilon),
            )
            cells = [f"{own:.2f}", f"{plain:.2f}", f"{own / plain:.2f}", f"{best:.2f}"]
            print(row((table.name, f"{epsilon:g}", *cells, f"{own / best:.2f}")), flush=True)


if __name__ == "__main__":
    main()

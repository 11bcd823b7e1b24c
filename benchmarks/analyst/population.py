"""How often intervals hold what rows were drawn from, however wide the bounds are.

Run: python -m benchmarks.analyst.population | python -m benchmarks.measured --store population.csv

A table is taken for a population.  Rows are drawn from it with replacement, 8,000 at most, and
released in a private geometry.  *Hold* is the part of the default 95 % intervals that hold the
whole table's value; *width* is the median of correlations' intervals, over the same seeds.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.analyst.__main__ import tables
from benchmarks.analyst.measure import Correlations, held
from benchmarks.analyst.tables import Table
from benchmarks.data import data_directory
from benchmarks.measured import heading, row
from benchmarks.options import asked
from dpcov import Release
from dpcov.analysis import (
    coefficient_intervals,
    correlation_intervals,
    mean_intervals,
    variance_intervals,
)

NAMES = ("nhanes", "credit", "adult", "airfoil", "made-1", "made-2", "made-3")
EPSILONS, WIDE, MOST_ROWS = (1.0, 4.0), (1.0, 100.0), 8_000


class Population:
    """Values of a whole table, against which intervals are held."""

    def __init__(self, table: Table) -> None:
        self.table, self.correlations = table, Correlations(table)
        encoded = table.encoded
        self._means, self._variances = encoded.mean().to_numpy(), encoded.var(ddof=0).to_numpy()
        features = encoded[table.features].to_numpy()
        design = np.column_stack([np.ones(len(features)), features])
        goal = encoded[table.target].to_numpy()
        self._coefficients = np.linalg.lstsq(design, goal, rcond=None)[0]

    def scores(self, release: Release) -> tuple[float, float, float, float, float]:
        """Median width of correlations' intervals, and the parts that hold, kind by kind."""
        found, truth = correlation_intervals(release), self.correlations
        width = float(np.median((found.upper - found.lower)[truth.apart]))
        goal, features = self.table.target, self.table.features
        return (
            width,
            held(found, truth.values[truth.pairs], truth.apart),
            held(mean_intervals(release), self._means),
            held(variance_intervals(release), self._variances),
            held(coefficient_intervals(release, goal, features), self._coefficients),
        )


def lines(directory: Path, repetitions: int) -> Iterator[str]:
    """A line of Markdown for every table, budget and width."""
    kinds = "correlations hold", "means", "variances", "coefficients"
    yield heading(("table", "epsilon", "bounds", "width", *kinds))
    for table in tables(directory, list(NAMES)):
        population, n_rows = Population(table), min(MOST_ROWS, len(table.frame))
        for epsilon in EPSILONS:
            for wide in WIDE:
                scores = []
                for seed in range(repetitions):
                    rows = table.frame.sample(n_rows, replace=True, random_state=seed)
                    drawn = table.of(rows.reset_index(drop=True))
                    scores.append(population.scores(drawn.release(epsilon, seed, wide)))
                width, *shares = np.mean(scores, axis=0)
                label = "as typed" if wide == 1 else f"×{wide:g}"
                parts = (f"{part:.1%}" for part in shares)
                yield row((table.name, f"{epsilon:g}", label, f"{width:.3f}", *parts))


def main() -> None:
    """Print the table."""
    options = asked(__doc__, data=Path, repetitions=12)
    warnings.simplefilter("ignore")
    for line in lines(data_directory(options.data), options.repetitions):
        print(line, flush=True)


if __name__ == "__main__":
    main()

"""How many errors of correlations lie within the ± that reports and verdicts state.

Run: python -m benchmarks.analyst.within [--data DIR] | python -m benchmarks.measured
     --store report-within.csv

Public tables and five generated ones, at epsilon 1 and 4 with delta, and pure epsilon 4.
"""

import warnings
from pathlib import Path

import numpy as np

from benchmarks.analyst.__main__ import tables
from benchmarks.analyst.measure import Correlations
from benchmarks.analyst.tables import Table, made
from benchmarks.data import data_directory
from benchmarks.measured import heading, row
from benchmarks.options import asked
from dpcov.published.words.numbers import group_numbers

GEOMETRIES = {"private": "found by the release", "schema": "that of the bounds"}
EPSILONS, REPETITIONS, MORE = (1.0, 4.0, -4.0), 2, (4, 5)


def held(table: Table, geometry: str) -> float:
    """Share of the correlations of different columns that lie within."""
    truth, inside = Correlations(table), list[float]()
    for epsilon in EPSILONS:
        for seed in range(REPETITIONS):
            release = table.release(epsilon, seed, geometry=geometry)
            found = group_numbers(release).estimates
            if found is None or found.within is None:
                continue
            errors = np.abs(found.correlation[truth.pairs] - truth.values[truth.pairs])
            within = found.within[truth.pairs]
            # Of columns that are lost in the noise no ± is stated.
            if (stated := np.isfinite(within)).any():
                inside.append(float(np.mean((errors <= within)[stated])))
    return float(np.mean(inside)) if inside else float("nan")


def main() -> None:
    """Print a table."""
    warnings.simplefilter("ignore")
    chosen = [*tables(data_directory(asked(__doc__, data=Path).data), None), *map(made, MORE)]
    print(heading(("geometry", "errors within ±, of 100", "by table, least", "by table, most")))
    for geometry, words in GEOMETRIES.items():
        shares = [100 * held(table, geometry) for table in chosen]
        sizes = (f"{size(shares):.0f}" for size in (np.nanmean, np.nanmin, np.nanmax))
        print(row((words, *sizes)))


if __name__ == "__main__":
    main()

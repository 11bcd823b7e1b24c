"""Error of correlations of levels, and what a second look at some blocks would give.

Run: python -m benchmarks.accuracy.levels [--repetitions N] [--seeds N] [--data DIR]
     | python -m benchmarks.measured --store shrinkage-levels.csv shrinkage-levels-left-out.csv

Root mean square errors, add-remove-one, delta = 1e-6.  Generated tables have 8 to 15 columns of 2
to 40 levels whose relations go through hidden classes, along a chain, or are sparse; nothing was
chosen by them but the kind of rule.  ``second look``: half of the budget for all blocks, half for
those in which something shows, on exact counts of levels alone and with noise of the same law.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import combinations
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
from scipy.stats import gmean

from benchmarks.analyst.measure import Array, Correlations
from benchmarks.analyst.tables import Table, adult_full, budget_of
from benchmarks.data import data_directory
from benchmarks.measured import table as markdown
from benchmarks.options import asked
from dpcov.privacy.calibrate import gaussian_noise_multiplier
from dpcov.published.estimate import levels

EPSILON = (0.5, 1.0, 4.0)
KINDS = ("classes", "chain", "sparse")


def made(kind: str, seed: int) -> Table:
    """A table of columns with levels, and a number that has nothing to do with them."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    n = int(rng.choice([8_000, 20_000, 50_000]))
    sizes = np.exp(rng.uniform(np.log(2), np.log(40), rng.integers(8, 16))).round().astype(int)
    shares = [rng.dirichlet(np.full(k, rng.choice([0.3, 1, 3]))) + 1e-4 for k in sizes]
    classes, columns = rng.integers(0, rng.integers(3, 9), n), []
    for place, share in enumerate(shares):
        before = {"classes": classes, "chain": columns[-1] if columns else classes}.get(kind)
        if before is None:
            before = columns[rng.integers(place)] if place and rng.random() < 0.5 else 0 * classes
        tilt = rng.normal(size=(before.max() + 1, len(share))) * rng.uniform(0.3, 1.5)
        if kind == "sparse":
            tilt = 3 * np.sign(tilt) * (rng.random(tilt.shape) < 0.15)
        chances = share * np.exp(tilt)
        ends = np.cumsum(chances / chances.sum(axis=1, keepdims=True), axis=1)[before]
        codes = (rng.random((n, 1)) > ends).sum(axis=1)
        columns.append(np.minimum(codes, len(share) - 1))
    labels = {f"c{i}": tuple(f"l{v}" for v in range(k)) for i, k in enumerate(sizes)}
    frame = pd.DataFrame(
        {name: np.array(labels[name])[column] for name, column in zip(labels, columns, strict=True)}
    )
    frame["x"] = rng.normal(50, 10, n)
    return Table(f"{kind}-{seed}", frame, {"x": (0.0, 200.0)}, "x", (), labels)


_replaced = mock.patch.object
WAYS: dict[str, AbstractContextManager[object]] = {
    "as released": nullcontext(),
    "blocks not shrunk": _replaced(levels, "relations", lambda *facts: facts[4]),
    "not added up": _replaced(levels, "_adds_up", lambda *facts: False),
    "no limits of counts": _replaced(levels, "within_counts", lambda found, *facts: found),
}


def errors(table: Table, epsilon: float, repetitions: int) -> dict[str, float]:
    """Mean error of a correlation in every way, and that of zeros."""
    truth = Correlations(table)
    found = {"nothing": truth.errors(np.eye(len(truth.values)))["rms"]}
    for name, way in WAYS.items():
        with way:
            each = []
            for seed in range(repetitions):
                release = table.release(epsilon, seed, neighbors="add-remove-one")
                each.append(truth.errors(release.correlation_matrix())["rms"])
            found[name] = float(np.mean(each))
    return found


class Counts:
    """Rows of levels in units of their deviations, and what noise of some size leaves of them."""

    def __init__(self, table: Table, epsilon: float, rng: np.random.Generator) -> None:
        counted = Table(table.name, table.frame, {}, "", (), table.categories)
        rows, self.rng = counted.encoded.to_numpy(), rng
        self.truth, share, m = Correlations(counted), rows.mean(axis=0), len(table.categories)
        kept = np.clip(share, 1 / (m + 1), 0.5)
        self.scales = np.sqrt(kept * (1 - kept))
        self.rows = (rows - share) / self.scales
        self.deviations = np.sqrt(share * (1 - share)) / self.scales
        sources = np.array(counted.sources)
        self.groups = [np.flatnonzero(sources == name) for name in dict.fromkeys(sources)]
        budget = budget_of(epsilon).promise
        # Four fifths of the budget: the rest is the survey's.
        self.multiplier = float(gaussian_noise_multiplier(budget.epsilon, budget.delta)) / np.sqrt(
            0.8
        )
        self.lengths = np.stack([np.sum(self.rows[:, g] ** 2, axis=1) for g in self.groups], axis=1)

    def look(self, blocks: Array, part: float) -> tuple[Array, Array]:
        """Covariances in these pairs of columns for a part of the budget, and their noise."""
        # One row moves the numbers asked for by this at most, once it is scaled down.
        moved = np.sqrt(np.einsum("ni,ij,nj->n", self.lengths, blocks, self.lengths) / 2)
        std, bound = np.inf, 0.0
        for each in np.quantile(moved, (0.85, 0.9, 0.94, 0.97, 0.985, 0.995, 1.0)):
            lost = 1 - np.minimum(moved, each).sum() / moved.sum()
            now = np.hypot(self.multiplier / np.sqrt(part) * each / len(self.rows), 0.07 * lost)
            if now < std:
                std, bound = now, each
        factors = np.minimum(1.0, bound / np.maximum(moved, 1e-12))
        exact = (self.rows * factors[:, None]).T @ self.rows / len(self.rows) / factors.mean()
        noise = np.triu(self.rng.normal(size=exact.shape), 1) * std
        return exact + noise + noise.T, np.full(exact.shape, std)

    def spread(self, blocks: Array) -> Array:
        """Of pairs of columns, that of their levels."""
        owner = np.concatenate([np.full(len(g), i) for i, g in enumerate(self.groups)])
        return np.asarray(blocks[np.ix_(owner, owner)])

    def estimate(self, noisy: Array, noise: Array) -> Array:
        """As of a release, in correlations."""
        back = levels._adding_up(self.groups, self.scales, np.eye(len(noisy)))
        left = np.sqrt(np.diagonal(back @ back.T))
        found = levels._mixed(
            back @ noisy @ back.T, noise * np.outer(left, left), self.deviations, self.groups
        )
        back = levels._adding_up(self.groups, self.scales, np.diag(self.deviations**2))
        return back @ found @ back.T / np.outer(self.deviations, self.deviations)

    def chosen(self, found: Array, noise: Array) -> Array:
        """Blocks for which half a budget promises the least error of all."""
        m, every = len(self.groups), 1 - np.eye(len(self.groups))
        squares = found**2 + 1e-9
        own = (noise / np.outer(self.deviations, self.deviations)) ** 2

        def risk(part: Array | float) -> Array:
            left = squares * own * part / (squares + own * part)
            return (
                np.array([[left[np.ix_(a, b)].sum() for b in self.groups] for a in self.groups])
                * every
            )

        before, mean = risk(1.0), self.lengths.mean(axis=0)
        gain = before - risk(0.2)
        order = sorted(combinations(range(m), 2), key=lambda pair: -gain[pair])
        best, kept, blocks = before.sum(), np.zeros((m, m)), np.zeros((m, m))
        whole = mean @ every @ mean
        for a, b in order:
            blocks[a, b] = blocks[b, a] = 1
            share = mean @ blocks @ mean / whole
            # Noise falls with what the blocks move, and both looks count.
            after = np.where(blocks > 0, risk(share / (1 + share)), before).sum()
            if after < best:
                best, kept = after, blocks.copy()
        return kept


def second_look(table: Table, epsilon: float, repetitions: int) -> dict[str, float]:
    """Errors of one look, and of two of which the second is at chosen blocks."""
    one, two = [], []
    for seed in range(repetitions):
        counts = Counts(table, epsilon, np.random.default_rng(seed))
        every = 1 - np.eye(len(counts.groups))
        one.append(counts.truth.errors(counts.estimate(*counts.look(every, 1.0)))["rms"])
        first, noise = counts.look(every, 0.5)
        blocks = counts.chosen(counts.estimate(first, noise), noise)
        if blocks.any():
            again, less = counts.look(blocks, 0.5)
            weight = counts.spread(blocks) * noise**2 / (noise**2 + less**2)
            first = (1 - weight) * first + weight * again
            noise = np.hypot((1 - weight) * noise, weight * less)
        two.append(counts.truth.errors(counts.estimate(first, noise))["rms"])
    return {"one look": float(np.mean(one)), "second look": float(np.mean(two))}


def _lines(
    tables: list[Table], measure: Callable[[Table, float], dict[str, float]]
) -> Iterator[list[str]]:
    for epsilon in EPSILON:
        found = pd.DataFrame([measure(table, epsilon) for table in tables])
        means = gmean(found)
        if epsilon == EPSILON[0]:
            yield ["tables", "ε", *found]
        name = tables[0].name.rsplit("-", 1)[0] if len(tables) > 1 else tables[0].name
        yield [name, f"{epsilon:g}", *(f"{value:.3g}" for value in means)]


def main() -> None:
    """Print two tables; several generated tables are one line, of geometric means."""
    options = asked(__doc__, data=Path, repetitions=3, seeds=4)
    warnings.simplefilter("ignore")
    families = [[made(kind, seed) for seed in range(options.seeds)] for kind in KINDS]
    families.insert(0, [adult_full(data_directory(options.data))])
    for measure in (errors, second_look):
        lines = [
            line
            for family in families
            for line in _lines(family, lambda t, e, m=measure: m(t, e, options.repetitions))
        ]
        head = lines[0]
        print(markdown([head, *(line for line in lines if line != head)]), end="\n\n", flush=True)


if __name__ == "__main__":
    main()

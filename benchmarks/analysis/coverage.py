"""How often 95 % intervals contain the truth, beside intervals that ignore the noise.

Run: python -m benchmarks.analysis.coverage [--quick] [--only NAME]
     [--data DIR] [--repetitions N] [--out FILE]
     python -m benchmarks.analysis.coverage --table FILE...

A population is a table (benchmarks/analysis/populations.py); a sample is drawn from it with
replacement and released; truth is what the population's exact moments give. Coverage is the share
over all quantities of one kind and all repetitions, ``least`` that of the quantity that is covered
least often, named beside it. Widths are medians relative to the width that the same method gives to
the exact moments of one sample: 1 is no price for privacy, inf an interval without limits.
``--quick`` is a short form (seconds); ``--table`` makes the tables of docs/measured/inference.md
from files written by ``--out``, so that populations can be measured one at a time.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dpcov
from benchmarks.analysis.populations import (
    Population,
    from_scikit_learn,
    gaussian,
    populations,
    skewed,
)
from benchmarks.data import MissingTable, data_directory
from benchmarks.measured import results, store, write_csv
from dpcov import Budget, SeededEntropy
from dpcov.analysis.features import coding_of, without_references
from dpcov.analysis.intervals.coefficients import coefficient_lines
from dpcov.analysis.intervals.eigenvalues import spectrum_of
from dpcov.analysis.intervals.law import MomentLaw, Tails
from dpcov.analysis.intervals.moments import correlation_lines, mean_lines, variance_lines
from dpcov.analysis.intervals.of_release import moment_law
from dpcov.analysis.intervals.table import Interval
from dpcov.analysis.reading import half_range_map
from dpcov.published.release import Release

Array = NDArray[np.float64]
Kinds = dict[str, list[Interval]]

LEVEL = 0.95
LITTLE, MUCH = Budget(rho="0.1"), Budget(rho=2)
SETTINGS = ((500, LITTLE), (5000, LITTLE), (5000, MUCH), (50_000, MUCH))
QUICK_SETTINGS = ((5000, LITTLE),)
VARIANTS = (
    ("stratified", "replace-one", LITTLE),
    ("gaussian", "add-remove-one", LITTLE),
    ("nuclear", "replace-one", Budget(epsilon=1)),
)
N_EIGENVALUES = 2
DRAWS = 200
NAIVE_DRAWS = 60


class Sampled:
    """What measuring needs of a population: the places of features, and the truth."""

    def __init__(self, population: Population) -> None:
        self.population = population
        made = release(population.frame, population.schema, Budget(rho=1), "gaussian", 0)
        self.maps = half_range_map(made, centered=True)
        self.places, _ = without_references(made, np.arange(len(made.feature_names)))
        names = [made.feature_names[place] for place in self.places]
        self.goal = int(self.places[names.index(population.target)])
        lines = self.lines(exact_law(made, population.frame))
        self.truth = {
            kind: np.array([line.estimate for line in each]) for kind, each in lines.items()
        }

    def lines(self, law: MomentLaw, tails: Tails = "moments", draws: int = DRAWS) -> Kinds:
        """Intervals of every kind."""
        places, law = self.places, replace(law, level=LEVEL, tails=tails)
        others = np.array([place for place in places if place != self.goal])

        def coefficients(alpha: float) -> list[Interval]:
            coding = coding_of(law.columns[1:], others, ())
            return coefficient_lines(law, self.maps, self.goal, others, coding, alpha, True)

        ones = np.ones(len(places))
        spectrum = spectrum_of(law, places, ones, normalized=False, draws=draws)
        return {
            "means": mean_lines(law, places),
            "variances": variance_lines(law, places),
            "correlations": correlation_lines(law, places[:8]),
            "partial corr.": correlation_lines(law, places[:5], partial=True),
            "coefficients": coefficients(0.0),
            "ridge": coefficients(0.01),
            "eigenvalues": [spectrum.line(k, law.reaches()[0]) for k in range(N_EIGENVALUES)],
        }


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kind in one setting."""

    population: str
    n: int
    budget: str
    mechanism: str
    kind: str
    tails: str
    repetitions: int
    coverage: float
    least: float
    naive: float
    width: float


def encoded(frame: pd.DataFrame, law: MomentLaw) -> Array:
    """Rows in encoded units, intercept first."""
    columns = [np.ones(len(frame))]
    for column in law.columns[1:]:
        if column.kind == "category":
            columns.append(
                (frame[column.source] == column.name.removeprefix(f"{column.source}=")).to_numpy(
                    float
                )
            )
        else:
            columns.append(
                (frame[column.source].to_numpy(float) - column.center) / column.half_range
            )
    return np.column_stack(columns)


def without_noise(law: MomentLaw) -> MomentLaw:
    """The same taken for exact moments of a sample, as a reader who ignores the noise would."""
    noises = (
        replace(each, off_diagonal=0.0, diagonal=np.zeros_like(each.diagonal), between=0.0)
        for each in law.noises
    )
    return replace(law, noises=tuple(noises))


def exact_law(made: Release, frame: pd.DataFrame) -> MomentLaw:
    """The law of a release with the exact moments of a table and nothing random."""
    law = moment_law(made)
    rows = encoded(frame, law)
    exact = replace(law, moment=rows.T @ rows / len(rows), n_rows=float(len(rows)), sampling=False)
    return without_noise(exact)


def measure(
    sampled: Sampled,
    n_rows: int,
    budget: Budget,
    *,
    mechanism: str = "gaussian",
    neighbors: str = "replace-one",
    tails: Tails = "moments",
    repetitions: int = 200,
    seed: int = 0,
) -> Iterator[Row]:
    """Coverage of every kind of interval in one setting."""
    population, truth = sampled.population, sampled.truth
    inside: dict[str, list[Array]] = {kind: [] for kind in truth}
    naive: dict[str, list[Array]] = {kind: [] for kind in truth}
    widths: dict[str, list[Array]] = {kind: [] for kind in truth}
    rng = np.random.default_rng(seed)
    for repetition in range(repetitions):
        frame = population.sample(n_rows, rng)
        made = release(frame, population.schema, budget, mechanism, repetition, neighbors)
        law = moment_law(made)
        if repetition == 0:
            ideal = sampled.lines(replace(exact_law(made, frame), sampling=True), tails)
        ignorant = sampled.lines(without_noise(law), tails, NAIVE_DRAWS)
        for kind, lines in sampled.lines(law, tails).items():
            inside[kind].append(_contains(lines, truth[kind]))
            naive[kind].append(_contains(ignorant[kind], truth[kind]))
            widths[kind].append(_relative(_widths(lines), _widths(ideal[kind])))
    for kind in truth:
        hits = np.mean(inside[kind], axis=0)
        yield Row(
            population=population.name,
            n=n_rows,
            budget=str(budget.promise),
            mechanism=mechanism if neighbors == "replace-one" else f"{mechanism}, {neighbors}",
            kind=kind,
            tails=tails,
            repetitions=repetitions,
            coverage=float(hits.mean()),
            least=float(hits.min()),
            naive=float(np.mean(naive[kind])),
            width=float(np.median(widths[kind])),
        )


def _contains(lines: list[Interval], truth: Array) -> Array:
    lower, upper = np.array([(line.lower, line.upper) for line in lines]).T
    slack = 1e-9 * np.maximum(1.0, np.abs(truth))
    return (lower - slack <= truth) & (truth <= upper + slack)


def _relative(widths: Array, ideal: Array) -> Array:
    """Infinite without limits, also where the sample itself gives none."""
    finite = np.isfinite(widths)
    return np.where(finite, np.where(finite, widths, 0.0) / np.maximum(ideal, 1e-300), np.inf)


def _widths(lines: list[Interval]) -> Array:
    return np.array([line.upper - line.lower for line in lines])


def release(
    frame: pd.DataFrame,
    schema: dpcov.Schema,
    budget: Budget,
    mechanism: str,
    seed: int,
    neighbors: str = "replace-one",
) -> Release:
    return dpcov.release(
        frame,
        schema=schema,
        budget=budget,
        mechanism=mechanism,
        neighbors=neighbors,
        geometry="schema",
        entropy=SeededEntropy(seed),
    )


def study(
    directory: Path, repetitions: int, *, quick: bool, only: Sequence[str] = ()
) -> Iterator[Row]:
    """The grid of the documentation, or a part of it."""
    for make in populations(directory):
        try:
            population = make()
        except MissingTable as missing:
            print(f"left out: {missing}", file=sys.stderr)
            continue
        if only and population.name not in only:
            continue
        sampled = Sampled(population)
        for n_rows, budget in QUICK_SETTINGS if quick else SETTINGS:
            yield from measure(sampled, n_rows, budget, repetitions=repetitions)
    if only and "variants" not in only:
        return
    sampled = Sampled(gaussian(5))
    for mechanism, neighbors, budget in VARIANTS:
        yield from measure(
            sampled, 5000, budget, mechanism=mechanism, neighbors=neighbors, repetitions=repetitions
        )
    for population in (skewed(), from_scikit_learn("breast_cancer", 10, 3)):
        yield from measure(
            Sampled(population), 50_000, MUCH, tails="bounded", repetitions=repetitions
        )


def tables(rows: Sequence[Row]) -> dict[str, list[list[str]]]:
    """Coverage (least of one quantity), that of naive intervals, and widths: a line a setting."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    settings: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        settings.setdefault((_name(row), f"{row.n:,}", _budget(row)), {})[row.kind] = row
    texts = {"coverage": _covered, "naive": lambda row: f"{100 * row.naive:.0f}", "width": _width}
    return {
        f"inference-{name}.csv": [
            ["population", "n", "budget", *kinds],
            *([*setting, *(text(by[kind]) for kind in kinds)] for setting, by in settings.items()),
        ]
        for name, text in texts.items()
    }


SUMMARY = "inference-by-setting.csv"
# What the summary tells of a file: which number of a cell, and how those of populations are joined.
TOLD = {
    "held": ("coverage", 0, "median"),
    "held, least of all": ("coverage", 1, "min"),
    "held, noise ignored": ("naive", 0, "median"),
    "width": ("width", 0, "median"),
}


def by_setting() -> list[list[str]]:
    """The populations that all settings have, from the files of :func:`tables`."""
    lines = []
    for told, (name, place, join) in TOLD.items():
        head, *cells = results(f"inference-{name}.csv")
        table = pd.DataFrame(cells, columns=head).set_index(head[:3])
        numbers = table.map(partial(_number, place))
        everywhere = numbers.groupby("population", sort=False).filter(
            lambda own: len(own) == len(SETTINGS)
        )
        joined = everywhere.groupby(["n", "budget"], sort=False).agg(join)
        for (n, budget), found in joined.iterrows():
            lines.append([n, budget, told, *map(_short, found)])
    return [[*head[1:3], "over nine populations", *head[3:]], *lines]


def _number(place: int, cell: str) -> float:
    return float(cell.replace("∞", "inf").split(" ")[place].strip("()"))


def _short(number: float) -> str:
    return f"{number:.2g}".replace("1e+02", "100").replace("inf", "∞")


def _name(row: Row) -> str:
    more = [
        row.mechanism.removeprefix("gaussian").removeprefix(", "),
        row.tails.removeprefix("moments"),
    ]
    return ", ".join([row.population, *filter(None, more)])


def _budget(row: Row) -> str:
    amount, kind = row.budget.removeprefix("(").split(")-")
    return f"{'ρ' if kind == 'zCDP' else 'ε'} = {amount}"


def _covered(row: Row) -> str:
    return f"{100 * row.coverage:.0f} ({100 * row.least:.0f})"


def _width(row: Row) -> str:
    return f"{row.width:.2g}" if row.width < 99 else f"{row.width:.0f}".replace("inf", "∞")


def _saved(path: Path) -> Iterator[Row]:
    return (Row(**line) for line in pd.read_csv(path).to_dict("records"))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.analysis.coverage", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--data", type=Path, help="directory of the public tables")
    parser.add_argument("--quick", action="store_true", help="5000 rows, one budget")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="a population, or: variants"
    )
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--out", type=Path, help="write the rows as CSV")
    parser.add_argument(
        "--table", type=Path, nargs="+", help="write the tables of the page from earlier runs"
    )
    arguments = parser.parse_args()
    if arguments.table:
        rows = [row for path in arguments.table for row in _saved(path)]
        for name, lines in tables(rows).items():
            store(name, lines)
        store(SUMMARY, by_setting())
        return
    rows = []
    for row in study(
        data_directory(arguments.data),
        arguments.repetitions,
        quick=arguments.quick,
        only=arguments.only,
    ):
        rows.append(row)
        print(
            " | ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in astuple(row)),
            flush=True,
        )
    if arguments.out is not None:
        write_csv(arguments.out, [vars(row) for row in rows])


if __name__ == "__main__":
    main()

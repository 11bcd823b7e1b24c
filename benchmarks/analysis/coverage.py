"""How often 95 % intervals contain the truth, beside intervals that ignore the noise.

Run: python -m benchmarks.analysis.coverage [--quick] [--data DIR] [--repetitions N] [--out FILE]

A population is a table; a sample is drawn from it with replacement and released; truth is what the population's exact
moments give.  Synthetic populations have 100,000 rows.  Coverage is the share over all quantities of one kind and all
repetitions, ``least`` that of the quantity that is covered least often.  Widths are medians relative to the width that
the same method gives to the exact moments of one sample: 1 is no price for privacy, inf an interval without limits.
"""

import argparse
import csv
import sys
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dpcov
from benchmarks.analysis.tasks import ADULT_BOUNDS
from benchmarks.data import MissingTable, data_directory, round_up
from dpcov import Budget, SeededEntropy
from dpcov.analysis.coefficient_lines import coefficient_lines, without_references
from dpcov.analysis.correlation_lines import correlation_lines, partial_correlation_lines
from dpcov.analysis.eigenvalue_lines import spectrum_of
from dpcov.analysis.intervals import Interval
from dpcov.analysis.moment_intervals import mean_lines, variance_lines
from dpcov.analysis.moment_law import MomentLaw, Tails, moment_law
from dpcov.analysis.reading import original_map
from dpcov.artifact import Release

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
DRAWS = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """A table with its public schema, and the column that the others predict."""

    name: str
    frame: pd.DataFrame
    schema: dpcov.Schema
    target: str

    def sample(self, n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
        return self.frame.iloc[rng.integers(len(self.frame), size=n_rows)].reset_index(drop=True)

    @cached_property
    def exact(self) -> Release:
        """A release of the whole population whose noise is replaced by none (`truth`)."""
        return _release(self.frame, self.schema, Budget(rho=1), "gaussian", 0)

    def truth(self) -> dict[str, Array]:
        """Quantities of the population from its exact moments."""
        law = exact_law(self.exact, self.frame)
        return {
            kind: np.array([line.estimate for line in lines]) for kind, lines in lines_of(self, law).items()
        }


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table."""

    population: str
    n: int
    budget: str
    mechanism: str
    kind: str
    tails: str
    coverage: float
    least: float
    naive: float
    width: float
    unbounded: float


def encoded(frame: pd.DataFrame, law: MomentLaw) -> Array:
    """Rows in encoded units, intercept first."""
    columns = [np.ones(len(frame))]
    for column in law.columns[1:]:
        if column.kind == "category":
            columns.append(
                (frame[column.source] == column.name.removeprefix(f"{column.source}=")).to_numpy(float)
            )
        else:
            columns.append((frame[column.source].to_numpy(float) - column.center) / column.half_range)
    return np.column_stack(columns)


def exact_law(made: Release, frame: pd.DataFrame) -> MomentLaw:
    """The law of a release with the exact moments of a table and nothing random."""
    law = moment_law(made)
    rows = encoded(frame, law)
    exact = replace(law, moment=rows.T @ rows / len(rows), n_rows=float(len(rows)), sampling=False)
    return exact.without_noise()


def lines_of(population: Population, law: MomentLaw, tails: Tails = "moments") -> Kinds:
    """Intervals of every kind."""
    made = population.exact
    places, _ = without_references(made, np.arange(len(made.feature_names)))
    names = [made.feature_names[place] for place in places]
    goal = int(places[names.index(population.target)])
    others = np.array([place for place in places if place != goal])
    eigenvalues = spectrum_of(
        law, places, np.ones(len(places)), normalized=False, tails=tails, draws=DRAWS, seed=0
    )
    return {
        "means": mean_lines(law, places, LEVEL),
        "variances": variance_lines(law, places, LEVEL, tails),
        "correlations": correlation_lines(law, places[:8], LEVEL, tails),
        "partial correlations": partial_correlation_lines(law, places[:5], LEVEL, tails),
        "coefficients": coefficient_lines(
            law, original_map(made), goal, others, alpha=0.0, fit_intercept=True, level=LEVEL, tails=tails
        ),
        "ridge coefficients": coefficient_lines(
            law, original_map(made), goal, others, alpha=0.01, fit_intercept=True, level=LEVEL, tails=tails
        ),
        "eigenvalues": [eigenvalues.line(k, law.reaches(LEVEL)[0]) for k in range(N_EIGENVALUES)],
    }


def measure(
    population: Population,
    n_rows: int,
    budget: Budget,
    *,
    mechanism: str = "gaussian",
    neighbors: str = "replace-one",
    tails: Tails = "moments",
    repetitions: int = 60,
    seed: int = 0,
) -> Iterator[Row]:
    """Coverage of every kind of interval in one setting."""
    truth = population.truth()
    inside: dict[str, list[Array]] = {kind: [] for kind in truth}
    naive: dict[str, list[Array]] = {kind: [] for kind in truth}
    widths: dict[str, list[Array]] = {kind: [] for kind in truth}
    rng = np.random.default_rng(seed)
    for repetition in range(repetitions):
        frame = population.sample(n_rows, rng)
        made = _release(frame, population.schema, budget, mechanism, repetition, neighbors)
        law = moment_law(made)
        if repetition == 0:
            ideal = lines_of(population, replace(exact_law(made, frame), sampling=True), tails)
        ignorant = lines_of(population, law.without_noise(), tails)
        for kind, lines in lines_of(population, law, tails).items():
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
            coverage=float(hits.mean()),
            least=float(hits.min()),
            naive=float(np.mean(naive[kind])),
            width=float(np.median(widths[kind])),
            unbounded=float(np.mean(np.isinf(widths[kind]))),
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


def _release(
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
        entropy=SeededEntropy(seed),
    )


def gaussian(d: int) -> Population:
    """Correlated normal columns within six standard deviations."""
    rng = np.random.default_rng(d)
    rows = rng.standard_normal((100_000, 2)) @ rng.standard_normal((2, d)) + rng.standard_normal((100_000, d))
    return _numeric(f"gaussian, d = {d}", rows / rows.std(axis=0), -6.0, 6.0)


def skewed(d: int = 6) -> Population:
    """Exponential and squared columns that start at their lower bound."""
    rng = np.random.default_rng(1)
    shared = rng.standard_exponential((100_000, 1))
    rows = np.minimum(0.7 * shared + rng.standard_exponential((100_000, d)), 12.0)
    return _numeric(f"skewed, d = {d}", rows, 0.0, 12.0)


def binary() -> Population:
    """Yes-or-no columns, rare and common, and one number."""
    rng = np.random.default_rng(2)
    health = rng.standard_normal(100_000)
    chances = {"common": 0.0, "less": -0.8, "rare": -1.7}
    frame = pd.DataFrame({k: health + rng.standard_normal(100_000) < 1.4 * z for k, z in chances.items()})
    frame["ward"] = np.where(rng.random(100_000) < 0.3, "north", "south")
    frame["stay"] = np.clip(10 - 2 * health + 3 * frame["rare"] + 2 * rng.standard_normal(100_000), 0, 30)
    columns = {name: dpcov.Boolean() for name in chances}
    schema = dpcov.Schema(
        columns={
            **columns,
            "ward": dpcov.Categorical(categories=("north", "south")),
            "stay": dpcov.Numeric(lower=0, upper=30),
        }
    )
    return Population(name="binary", frame=frame, schema=schema, target="stay")


def from_scikit_learn(loader: str, columns: int, target: int) -> Population:
    """The first columns of a table of measurements, bounded by their largest values, rounded up."""
    from sklearn import datasets

    rows = getattr(datasets, f"load_{loader}")().data[:, :columns]
    return _measurements(loader.replace("_", " "), pd.DataFrame(rows), target)


def nhanes(directory: Path) -> Population:
    """8593 complete examinations of NHANES I."""
    frame = _read(directory, "nhanes1.csv.gz").dropna().select_dtypes("number")
    return _measurements("NHANES I", frame.iloc[:, :10], 1)


def adult(directory: Path) -> Population:
    """48,842 people: four numbers, sex, income."""
    frame = _read(directory, "adult.csv.gz")
    names = ("age", "education-num", "hours-per-week", "capital-loss")
    columns = {
        name: dpcov.Numeric(lower=ADULT_BOUNDS[name][0], upper=ADULT_BOUNDS[name][1]) for name in names
    }
    kept = frame[[*names]].copy()
    kept["male"], kept["rich"] = frame["sex"] == "Male", frame["income"].str.contains(">50K")
    schema = dpcov.Schema(columns={**columns, "male": dpcov.Boolean(), "rich": dpcov.Boolean()})
    return Population(name="adult", frame=kept.reset_index(drop=True), schema=schema, target="hours-per-week")


def _numeric(name: str, rows: Array, lower: float, upper: float) -> Population:
    frame = pd.DataFrame(np.clip(rows, lower, upper), columns=[f"x{i}" for i in range(rows.shape[1])])
    schema = dpcov.Schema(columns={c: dpcov.Numeric(lower=lower, upper=upper) for c in frame.columns})
    return Population(name=name, frame=frame, schema=schema, target="x0")


def _measurements(name: str, frame: pd.DataFrame, target: int) -> Population:
    frame = frame.astype(float).reset_index(drop=True)
    frame.columns = [str(column) if isinstance(column, str) else f"x{column}" for column in frame.columns]
    columns = {}
    for column in frame.columns:
        largest = round_up(float(frame[column].abs().max()))
        columns[column] = dpcov.Numeric(lower=0 if frame[column].min() >= 0 else -largest, upper=largest)
    return Population(
        name=name, frame=frame, schema=dpcov.Schema(columns=columns), target=str(frame.columns[target])
    )


def _read(directory: Path, name: str) -> pd.DataFrame:
    if not (directory / name).is_file():
        raise MissingTable(f"{name} is not in {directory}; name its directory with --data or DPCOV_DATA")
    return pd.read_csv(directory / name)


def populations(directory: Path) -> Iterator[Callable[[], Population]]:
    """All of them; those from files raise MissingTable where the file is missing."""
    yield lambda: gaussian(5)
    yield lambda: gaussian(12)
    yield skewed
    yield binary
    yield lambda: from_scikit_learn("breast_cancer", 10, 3)
    yield lambda: from_scikit_learn("wine", 13, 0)
    yield lambda: nhanes(directory)
    yield lambda: adult(directory)


def study(directory: Path, repetitions: int, *, quick: bool) -> Iterator[Row]:
    """The grid of the documentation, or a part of it."""
    for make in populations(directory):
        try:
            population = make()
        except MissingTable as missing:
            print(f"left out: {missing}", file=sys.stderr)
            continue
        for n_rows, budget in QUICK_SETTINGS if quick else SETTINGS:
            yield from measure(population, n_rows, budget, repetitions=repetitions)
    for mechanism, neighbors, budget in VARIANTS:
        yield from measure(
            gaussian(5), 5000, budget, mechanism=mechanism, neighbors=neighbors, repetitions=repetitions
        )
    for population in (skewed(), from_scikit_learn("breast_cancer", 10, 3)):
        yield from measure(population, 50_000, MUCH, tails="bounded", repetitions=repetitions)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.analysis.coverage", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--data", type=Path, help="directory of the public tables")
    parser.add_argument("--quick", action="store_true", help="5000 rows, one budget")
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--out", type=Path, help="write the table as CSV")
    arguments = parser.parse_args()
    rows, names = [], [field.name for field in fields(Row)]
    print(" ".join(names))
    for row in study(data_directory(arguments.data), arguments.repetitions, quick=arguments.quick):
        rows.append(row)
        print(" | ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in astuple(row)), flush=True)
    if arguments.out is not None:
        with arguments.out.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerows([names, *map(astuple, rows)])


if __name__ == "__main__":
    main()

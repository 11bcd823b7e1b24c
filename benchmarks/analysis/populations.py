"""Tables that stand for populations: coverage is measured on samples from them.

Synthetic ones have 100,000 rows; real ones are public tables, whose bounds are their largest values
rounded up, which looks at data that are public anyway and which a custodian must never do.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dpcov
from benchmarks.analysis.tasks import ADULT_BOUNDS
from benchmarks.data import file_of, round_up

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """A table with its public schema, and the column that the others predict."""

    name: str
    frame: pd.DataFrame
    schema: dpcov.Schema
    target: str

    def sample(self, n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
        """Draw rows with replacement."""
        return self.frame.iloc[rng.integers(len(self.frame), size=n_rows)].reset_index(drop=True)


def gaussian(d: int) -> Population:
    """Correlated normal columns within six standard deviations."""
    rng = np.random.default_rng(d)
    rows = rng.standard_normal((100_000, 2)) @ rng.standard_normal((2, d)) + rng.standard_normal(
        (100_000, d)
    )
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
    frame = pd.DataFrame(
        {k: health + rng.standard_normal(100_000) < 1.4 * z for k, z in chances.items()}
    )
    frame["ward"] = np.where(rng.random(100_000) < 0.3, "north", "south")
    frame["stay"] = np.clip(
        10 - 2 * health + 3 * frame["rare"] + 2 * rng.standard_normal(100_000), 0, 30
    )
    columns = {name: dpcov.Boolean() for name in chances}
    schema = dpcov.Schema(
        missing="never",
        columns={
            **columns,
            "ward": dpcov.Categorical(categories=("north", "south")),
            "stay": dpcov.Numeric(lower=0, upper=30),
        },
    )
    return Population(name="binary", frame=frame, schema=schema, target="stay")


def from_scikit_learn(loader: str, columns: int, target: int) -> Population:
    """The first columns of a table of measurements, bounded by their largest values, rounded up."""
    from sklearn import datasets

    rows = getattr(datasets, f"load_{loader}")().data[:, :columns]
    return measurements(loader.replace("_", " "), pd.DataFrame(rows), target)


def nhanes(directory: Path) -> Population:
    """8593 complete examinations of NHANES I."""
    frame = pd.read_csv(file_of(directory, "nhanes1.csv.gz")).dropna().select_dtypes("number")
    return measurements("NHANES I", frame.iloc[:, :10], 1)


def credit(directory: Path) -> Population:
    """30,000 holders of credit cards: limit, age, bills and payments, most with very heavy
    tails."""
    columns = [
        "LIMIT_BAL",
        "AGE",
        "BILL_AMT1",
        "BILL_AMT3",
        "BILL_AMT6",
        "PAY_AMT1",
        "PAY_AMT2",
        "PAY_AMT4",
    ]
    frame = pd.read_csv(file_of(directory, "credit_default.csv.gz"))
    return measurements("credit", frame[columns], 0)


def adult(directory: Path) -> Population:
    """48,842 people: four numbers, sex, income."""
    frame = pd.read_csv(file_of(directory, "adult.csv.gz"))
    names = ("age", "education-num", "hours-per-week", "capital-loss")
    columns = {
        name: dpcov.Numeric(lower=ADULT_BOUNDS[name][0], upper=ADULT_BOUNDS[name][1])
        for name in names
    }
    kept = frame[[*names]].copy()
    kept["male"], kept["rich"] = frame["sex"] == "Male", frame["income"].str.contains(">50K")
    schema = dpcov.Schema(
        missing="never", columns={**columns, "male": dpcov.Boolean(), "rich": dpcov.Boolean()}
    )
    return Population(
        name="adult", frame=kept.reset_index(drop=True), schema=schema, target="hours-per-week"
    )


def _numeric(name: str, rows: Array, lower: float, upper: float) -> Population:
    frame = pd.DataFrame(
        np.clip(rows, lower, upper), columns=[f"x{i}" for i in range(rows.shape[1])]
    )
    schema = dpcov.Schema(
        missing="never", columns={c: dpcov.Numeric(lower=lower, upper=upper) for c in frame.columns}
    )
    return Population(name=name, frame=frame, schema=schema, target="x0")


def measurements(name: str, frame: pd.DataFrame, target: int) -> Population:
    """A table of numbers, bounded by their largest values, rounded up; ``target`` is the place of a
    column."""
    frame = frame.astype(float).reset_index(drop=True)
    frame.columns = [
        str(column) if isinstance(column, str) else f"x{column}" for column in frame.columns
    ]
    columns = {}
    for column in frame.columns:
        largest = round_up(float(frame[column].abs().max()))
        columns[column] = dpcov.Numeric(
            lower=0 if frame[column].min() >= 0 else -largest, upper=largest
        )
    return Population(
        name=name,
        frame=frame,
        schema=dpcov.Schema(missing="never", columns=columns),
        target=str(frame.columns[target]),
    )


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
    yield lambda: credit(directory)

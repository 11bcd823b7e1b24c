"""Tables with bounds as somebody types them: public ones, and a generated family."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpcov
from benchmarks.data import file_of
from dpcov import Budget, Categorical, Numeric, Schema, SeededEntropy
from dpcov.data.geometry import Geometry

NHANES = {
    "age": (0, 120),
    "diastolic_bp": (0, 250),
    "poverty_index": (0, 1000),
    "race": (1, 3),
    "red_blood_cells": (0, 100),
    "sedimentation_rate": (0, 200),
    "serum_albumin": (0, 10),
    "serum_cholesterol": (0, 1000),
    "serum_iron": (0, 500),
    "serum_magnesium": (0, 5),
    "serum_protein": (0, 20),
    "sex": (1, 2),
    "systolic_bp": (0, 400),
    "tibc": (0, 1000),
    "ts": (0, 100),
    "white_blood_cells": (0, 100),
    "bmi": (0, 100),
    "pulse_pressure": (0, 300),
}
ADULT = {
    "age": (0, 120),
    "fnlwgt": (0, 2_000_000),
    "education-num": (0, 20),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 10_000),
    "hours-per-week": (0, 168),
}
CREDIT = {
    "LIMIT_BAL": (0, 1_000_000),
    "SEX": (1, 2),
    "EDUCATION": (0, 6),
    "MARRIAGE": (0, 3),
    "AGE": (18, 100),
    "default_payment_next_month": (0, 1),
}
CREDIT_PREFIXES = {"PAY_AMT": (0, 2_000_000), "PAY_": (-2, 9), "BILL_AMT": (-1_000_000, 2_000_000)}
AIRFOIL = ((0, 20_000), (0, 45), (0, 1), (0, 100), (0, 0.1), (0, 200))
DELTA = "1e-6"


def budget_of(epsilon: float) -> Budget:
    """Pure where epsilon is negative, else with the usual delta."""
    if epsilon < 0:
        return Budget(epsilon=str(-epsilon))
    return Budget(epsilon=str(epsilon), delta=DELTA)


def in_words(epsilon: float) -> str:
    """What such a budget is called in a table."""
    return f"{abs(epsilon):g}" + (", pure" if epsilon < 0 else "")


@dataclass(frozen=True)
class Table:
    """Complete rows, bounds as typed, the column to predict, and what would give it away.

    ``categories`` are the levels of the other columns, which are encoded one by one.
    """

    name: str
    frame: pd.DataFrame
    bounds: dict[str, tuple[float, float]]
    target: str
    left_out: tuple[str, ...] = ()
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def encoded(self) -> pd.DataFrame:
        """The columns of a release."""
        columns = {name: self.frame[name] for name in self.bounds}
        for name, levels in self.categories.items():
            columns |= {f"{name}={level}": self.frame[name] == level for level in levels}
        return pd.DataFrame(columns).astype(float)

    def of(self, frame: pd.DataFrame) -> "Table":
        """The same columns of other rows."""
        return replace(self, frame=frame)

    @property
    def features(self) -> list[str]:
        """Columns that predict the target."""
        return [name for name in self.frame if name not in (self.target, *self.left_out)]

    @property
    def sources(self) -> list[str]:
        """The column of the table that each of them belongs to."""
        levels = [[name] * len(values) for name, values in self.categories.items()]
        return [*self.bounds, *itertools.chain(*levels)]

    def schema(self, wide: float = 1.0) -> Schema:
        """Bounds with half ranges ``wide`` times as large as typed."""
        columns = {}
        for name, (lower, upper) in self.bounds.items():
            center, half = (lower + upper) / 2, (upper - lower) / 2 * wide
            columns[name] = Numeric(lower=center - half, upper=center + half)
        columns |= {name: Categorical(categories=each) for name, each in self.categories.items()}
        return Schema(columns=columns, missing="never")

    def release(self, epsilon: float, seed: int, wide: float = 1.0, **more: Any) -> dpcov.Release:
        """A seeded release of the rows, in a private geometry unless ``more`` has another.

        In a `Geometry` all of the budget is the matrix's: nothing is asked about its rows.
        """
        terms = {"schema": self.schema(wide), "budget": budget_of(epsilon)} | more
        data = self.frame
        if isinstance(terms.get("geometry"), Geometry):
            data = dpcov.checkpoint(data, **terms)
            del terms["geometry"]
        return dpcov.release(data, entropy=SeededEntropy(seed), **terms)


def _read(directory: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(file_of(directory, name))


def _table(name: str, frame: pd.DataFrame, bounds: dict, target: str) -> Table:
    frame = frame[list(bounds)].dropna().astype(float)
    pairs = {key: tuple(map(float, pair)) for key, pair in bounds.items()}
    return Table(name, frame.reset_index(drop=True), pairs, target)


def nhanes(directory: Path) -> Table:
    """18 measurements of 8,593 people without missing values."""
    table = _table("nhanes", _read(directory, "nhanes1.csv.gz"), NHANES, "systolic_bp")
    return replace(table, left_out=("pulse_pressure",))


def adult(directory: Path) -> Table:
    """6 numbers of 48,842 people, two of them mostly zero."""
    return _table("adult", _read(directory, "adult.csv.gz"), ADULT, "hours-per-week")


def adult_full(directory: Path) -> Table:
    """All 14 attributes of the same people, 108 columns: most pairs of them hold nothing."""
    frame, numbers = _read(directory, "adult.csv.gz"), adult(directory)
    names = [name for name in frame if name not in (*ADULT, "income", "split")]
    levels = {name: tuple(sorted(frame[name].unique())) for name in names}
    rows = pd.concat([numbers.frame, frame[names]], axis=1)
    return replace(numbers, name="adult-full", frame=rows, categories=levels)


def communities(directory: Path) -> Table:
    """101 numbers of 2,215 communities: shares, and counts below the next power of ten."""
    frame = _read(directory, "communities_crime.csv.gz").iloc[:, 5:].select_dtypes("number")
    frame = frame.dropna(axis=1).loc[:, :"PctSameState85"]
    top = {name: 100.0 if "pct" in name.lower() else _power(frame[name].max()) for name in frame}
    return _table("communities", frame, {name: (0, top[name]) for name in frame}, "PctKids2Par")


def _power(largest: float) -> float:
    return 10.0 ** np.ceil(np.log10(max(1.0, largest)))


def credit(directory: Path) -> Table:
    """24 columns of 30,000 clients; payments have long tails."""
    frame = _read(directory, "credit_default.csv.gz").drop(columns="ID")
    bounds = {
        name: CREDIT.get(name)
        or next(pair for prefix, pair in CREDIT_PREFIXES.items() if name.startswith(prefix))
        for name in frame
    }
    return _table("credit", frame, bounds, "BILL_AMT1")


def airfoil(directory: Path) -> Table:
    """6 columns of 1,503 measurements: few rows."""
    frame = _read(directory, "airfoil.csv")
    return _table("airfoil", frame, dict(zip(frame, AIRFOIL, strict=True)), frame.columns[-1])


def made(seed: int, n_rows: int = 20_000, n_columns: int = 15) -> Table:
    """Columns of all kinds from three common factors, with bounds up to seven times too wide."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n_rows, 3)) @ rng.normal(size=(3, n_columns))
    normal = factors + rng.normal(size=(n_rows, n_columns))
    columns, bounds = {}, {}
    for place, raw in enumerate((normal / normal.std(axis=0)).T):
        column = _KINDS[rng.integers(len(_KINDS))](raw, rng)
        width = column.max() - column.min()
        columns[f"x{place}"] = column
        bounds[f"x{place}"] = (
            column.min() - width * rng.uniform(0, 3),
            column.max() + width * rng.uniform(0, 3),
        )
    return _table(f"made-{seed}", pd.DataFrame(columns), bounds, "x0")


_KINDS: tuple[Callable[[np.ndarray, np.random.Generator], np.ndarray], ...] = (
    lambda x, rng: x * rng.lognormal() * 10 + 50,
    lambda x, rng: np.exp(x) * 10.0 ** rng.integers(0, 4),
    lambda x, rng: np.where(x > rng.uniform(0.8, 1.6), np.exp(x) * 1000, 0.0),
    lambda x, rng: (x > rng.uniform(1, 2.2)).astype(float),
    lambda x, rng: np.round(np.clip(x * 1.2 + 3, 1, 5)),
    lambda x, rng: np.abs(x) ** 2.5 * 7,
)

PUBLIC = {
    "nhanes": nhanes,
    "credit": credit,
    "adult": adult,
    "adult-full": adult_full,
    "communities": communities,
    "airfoil": airfoil,
}

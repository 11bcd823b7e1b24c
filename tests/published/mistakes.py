"""Made-up tables of five kinds, and mistakes that their custodians may make."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import dpcov
from dpcov import Boolean, Categorical, Numeric

Columns = dict[str, Any]


def hospital(rng, n):
    height = rng.normal(172, 9, n)
    ward = rng.choice(["surgery", "medicine", "children", "eyes"], n, p=[0.3, 0.4, 0.18, 0.12])
    columns = {
        "age": rng.normal(55, 18, n).clip(0, 110),
        "height": height,
        "weight": rng.normal(75, 14, n) + 0.5 * (height - 172),
        "crp": np.exp(rng.normal(1.2, 1.0, n)),
        "temperature": rng.normal(37, 0.6, n),
        "sex": rng.choice(["M", "F"], n),
        "ward": ward,
        "smoker": rng.random(n) < 0.25,
    }
    kinds = {
        "age": Numeric(lower=0, upper=120),
        "height": Numeric(lower=50, upper=250),
        "weight": Numeric(lower=0, upper=300),
        "crp": Numeric(lower=0, upper=100),
        "temperature": Numeric(lower=30, upper=45),
        "sex": Categorical(categories=("M", "F")),
        "ward": Categorical(categories=("surgery", "medicine", "children", "eyes")),
        "smoker": Boolean(),
    }
    return columns, kinds


def census(rng, n):
    age = rng.integers(18, 91, n).astype(float)
    columns = {
        "age": age,
        "hours": rng.normal(40, 9, n).clip(1, 99),
        "income": np.exp(rng.normal(10.2, 0.6, n)) + 100 * age,
        "children": rng.poisson(1.4, n).astype(float),
        "region": rng.choice(["north", "south", "east", "west"], n),
        "status": rng.choice(["single", "married", "widowed"], n, p=[0.4, 0.5, 0.1]),
        "owner": rng.random(n) < 0.4,
    }
    kinds = {
        "age": Numeric(lower=0, upper=120),
        "hours": Numeric(lower=0, upper=168),
        "income": Numeric(lower=0, upper=500_000),
        "children": Numeric(lower=0, upper=20),
        "region": Categorical(categories=("north", "south", "east", "west")),
        "status": Categorical(categories=("single", "married", "widowed")),
        "owner": Boolean(),
    }
    return columns, kinds


def bank(rng, n):
    limit = np.exp(rng.normal(8.5, 0.8, n))
    columns = {
        "limit": limit,
        "balance": limit * rng.beta(2, 3, n),
        "rate": rng.normal(6, 1.5, n).clip(0.5, 15),
        "months": rng.integers(1, 121, n).astype(float),
        "grade": rng.choice(list("ABCDE"), n, p=[0.2, 0.3, 0.25, 0.15, 0.1]),
        "default": rng.random(n) < 0.12,
    }
    kinds = {
        "limit": Numeric(lower=0, upper=100_000),
        "balance": Numeric(lower=0, upper=100_000),
        "rate": Numeric(lower=0, upper=20),
        "months": Numeric(lower=0, upper=240),
        "grade": Categorical(categories=tuple("ABCDE")),
        "default": Boolean(),
    }
    return columns, kinds


def laboratory(rng, n):
    base = rng.normal(size=n)
    columns = {
        "glucose": 95 + 15 * base + rng.normal(0, 10, n),
        "sodium": rng.normal(140, 3, n),
        "potassium": rng.normal(4.2, 0.4, n),
        "creatinine": np.exp(rng.normal(4.4, 0.3, n)),
        "hemoglobin": 14 + 0.6 * base + rng.normal(0, 1.2, n),
        "site": rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]),
        "ferritin": np.where(rng.random(n) < 0.2, np.nan, np.exp(rng.normal(4, 0.8, n))),
    }
    kinds = {
        "glucose": Numeric(lower=0, upper=400),
        "sodium": Numeric(lower=100, upper=180),
        "potassium": Numeric(lower=0, upper=10),
        "creatinine": Numeric(lower=0, upper=1000),
        "hemoglobin": Numeric(lower=0, upper=25),
        "site": Categorical(categories=("a", "b", "c")),
        "ferritin": Numeric(lower=0, upper=1000, missing="indicator"),
    }
    return columns, kinds


def school(rng, n):
    skill = rng.normal(size=n)
    columns = {
        "mathematics": (60 + 12 * skill + rng.normal(0, 8, n)).clip(0, 100),
        "reading": (65 + 10 * skill + rng.normal(0, 9, n)).clip(0, 100),
        "absences": rng.poisson(6, n).astype(float),
        "distance": np.exp(rng.normal(1, 0.7, n)),
        "grade": rng.choice(["7", "8", "9", "10"], n),
        "language": np.where(rng.random(n) < 0.15, "", rng.choice(["de", "fr", "it"], n)),
        "lunch": rng.random(n) < 0.35,
    }
    kinds = {
        "mathematics": Numeric(lower=0, upper=100),
        "reading": Numeric(lower=0, upper=100),
        "absences": Numeric(lower=0, upper=100),
        "distance": Numeric(lower=0, upper=50),
        "grade": Categorical(categories=("7", "8", "9", "10")),
        "language": Categorical(categories=("de", "fr", "it"), missing="indicator"),
        "lunch": Boolean(),
    }
    return columns, kinds


TABLES = {each.__name__: each for each in (hospital, census, bank, laboratory, school)}


@dataclass(frozen=True)
class Mistake:
    """A column, what is done to its values or its declaration, and a word of the cause."""

    table: str
    column: str
    cause: str
    change: Any = None
    kind: Any = None
    in_bounds: str = "lower bound"


def relabeled(**names):
    """Labels spelled otherwise."""
    return lambda values, rng: np.array([names.get(value, value) for value in values])


def blank(share):
    """Values that are missing."""
    return lambda values, rng: np.where(rng.random(len(values)) < share, np.nan, values)


BOUND, LABELS, MISSING = "lower bound", "labels", "missing"
MISTAKES = (
    Mistake("hospital", "height", BOUND, lambda cm, rng: cm / 100),
    Mistake("hospital", "sex", LABELS, relabeled(M="male", F="female")),
    Mistake(
        "hospital",
        "ward",
        LABELS,
        None,
        Categorical(categories=("surgery", "medicine", "children")),
    ),
    Mistake("hospital", "crp", "fill less than", None, Numeric(lower=0, upper=1_000_000)),
    Mistake("hospital", "temperature", "upper bound", lambda c, rng: c * 9 / 5 + 32),
    Mistake("census", "income", "upper bound", lambda x, rng: 100 * x),
    Mistake("census", "hours", "upper bound", lambda hours, rng: 60 * hours),
    Mistake("census", "region", "west", relabeled(west="West ")),
    Mistake("census", "status", LABELS, relabeled(widowed="divorced")),
    Mistake("bank", "limit", "fill less than", lambda x, rng: x / 1000),
    Mistake("bank", "rate", "lower bound|fill less than", lambda percent, rng: percent / 1000),
    Mistake("bank", "grade", LABELS, relabeled(A="a", B="b", C="c", D="d", E="e")),
    Mistake(
        "bank", "default", "of rows have|Hardly any", lambda x, rng: rng.random(len(x)) < 0.0001
    ),
    Mistake("laboratory", "creatinine", "fill less than", lambda x, rng: x / 88.4 / 10),
    Mistake("laboratory", "sodium", BOUND, lambda x, rng: x / 23),
    Mistake("laboratory", "ferritin", MISSING, blank(0.9)),
    Mistake("laboratory", "potassium", MISSING, blank(1.0), in_bounds="bounds are too wide"),
    Mistake(
        "school", "language", MISSING, lambda x, rng: np.where(rng.random(len(x)) < 0.8, "", x)
    ),
    Mistake("school", "grade", LABELS, None, Categorical(categories=("7", "8", "9"))),
    Mistake("school", "distance", "upper bound", lambda km, rng: 1000 * km),
)


def released(name, seed, mistakes=(), n_rows=20_000, epsilon="1", **options):
    """A release of a table with mistakes."""
    rng = np.random.default_rng(seed)
    columns, kinds = TABLES[name](rng, n_rows)
    for mistake in mistakes:
        if mistake.change is not None:
            columns[mistake.column] = mistake.change(columns[mistake.column], rng)
        if mistake.kind is not None:
            kinds[mistake.column] = mistake.kind
    return dpcov.release(
        pa.table({key: pa.array(values, from_pandas=True) for key, values in columns.items()}),
        schema=dpcov.Schema(columns=kinds),
        budget=dpcov.Budget(epsilon=epsilon, delta="1e-6"),
        entropy=dpcov.SeededEntropy(seed),
        **options,
    )

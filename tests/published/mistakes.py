"""Made-up tables of five kinds, and mistakes that their custodians may make."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import dpcov
from dpcov import Boolean, Categorical, Numeric


def within(lower, upper, **how):
    return Numeric(lower=lower, upper=upper, **how)


def hospital(rng, n):
    height = rng.normal(172, 9, n)
    wards = ("surgery", "medicine", "children", "eyes")
    ward = rng.choice(wards, n, p=[0.3, 0.4, 0.18, 0.12])
    return {
        "age": (rng.normal(55, 18, n).clip(0, 110), within(0, 120)),
        "height": (height, within(50, 250)),
        "weight": (rng.normal(75, 14, n) + 0.5 * (height - 172), within(0, 300)),
        "crp": (np.exp(rng.normal(1.2, 1.0, n)), within(0, 100)),
        "temperature": (rng.normal(37, 0.6, n), within(30, 45)),
        "sex": (rng.choice(["M", "F"], n), Categorical(categories=("M", "F"))),
        "ward": (ward, Categorical(categories=wards)),
        "smoker": (rng.random(n) < 0.25, Boolean()),
    }


def census(rng, n):
    age = rng.integers(18, 91, n).astype(float)
    regions, states = ("north", "south", "east", "west"), ("single", "married", "widowed")
    return {
        "age": (age, within(0, 120)),
        "hours": (rng.normal(40, 9, n).clip(1, 99), within(0, 168)),
        "income": (np.exp(rng.normal(10.2, 0.6, n)) + 100 * age, within(0, 500_000)),
        "children": (rng.poisson(1.4, n).astype(float), within(0, 20)),
        "region": (rng.choice(regions, n), Categorical(categories=regions)),
        "status": (rng.choice(states, n, p=[0.4, 0.5, 0.1]), Categorical(categories=states)),
        "owner": (rng.random(n) < 0.4, Boolean()),
    }


def bank(rng, n):
    limit, grades = np.exp(rng.normal(8.5, 0.8, n)), tuple("ABCDE")
    shares = [0.2, 0.3, 0.25, 0.15, 0.1]
    return {
        "limit": (limit, within(0, 100_000)),
        "balance": (limit * rng.beta(2, 3, n), within(0, 100_000)),
        "rate": (rng.normal(6, 1.5, n).clip(0.5, 15), within(0, 20)),
        "months": (rng.integers(1, 121, n).astype(float), within(0, 240)),
        "grade": (rng.choice(grades, n, p=shares), Categorical(categories=grades)),
        "default": (rng.random(n) < 0.12, Boolean()),
    }


def laboratory(rng, n):
    base, sites = rng.normal(size=n), ("a", "b", "c")
    return {
        "glucose": (95 + 15 * base + rng.normal(0, 10, n), within(0, 400)),
        "sodium": (rng.normal(140, 3, n), within(100, 180)),
        "potassium": (rng.normal(4.2, 0.4, n), within(0, 10)),
        "creatinine": (np.exp(rng.normal(4.4, 0.3, n)), within(0, 1000)),
        "hemoglobin": (14 + 0.6 * base + rng.normal(0, 1.2, n), within(0, 25)),
        "site": (rng.choice(sites, n, p=[0.5, 0.3, 0.2]), Categorical(categories=sites)),
        "ferritin": (
            np.where(rng.random(n) < 0.2, np.nan, np.exp(rng.normal(4, 0.8, n))),
            within(0, 1000, missing="indicator"),
        ),
    }


def school(rng, n):
    skill, grades, spoken = rng.normal(size=n), ("7", "8", "9", "10"), ("de", "fr", "it")
    return {
        "mathematics": ((60 + 12 * skill + rng.normal(0, 8, n)).clip(0, 100), within(0, 100)),
        "reading": ((65 + 10 * skill + rng.normal(0, 9, n)).clip(0, 100), within(0, 100)),
        "absences": (rng.poisson(6, n).astype(float), within(0, 100)),
        "distance": (np.exp(rng.normal(1, 0.7, n)), within(0, 50)),
        "grade": (rng.choice(grades, n), Categorical(categories=grades)),
        "language": (
            np.where(rng.random(n) < 0.15, "", rng.choice(spoken, n)),
            Categorical(categories=spoken, missing="indicator"),
        ),
        "lunch": (rng.random(n) < 0.35, Boolean()),
    }


def apart(table, rng, n):
    """Values of a table, and what is declared of them."""
    columns = table(rng, n)
    values, kinds = ({name: pair[k] for name, pair in columns.items()} for k in (0, 1))
    return values, kinds


TABLES = {
    each.__name__: partial(apart, each) for each in (hospital, census, bank, laboratory, school)
}


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

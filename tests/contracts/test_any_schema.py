"""Noise hides a person, whatever a schema declares, rows hold and options say.

As in `test_replay`, for columns, weights, groups, maps and rows per person that chance puts
together: a person's rows are taken away or replaced by others, all of them as extreme as rows can
be, and the noisy numbers stay the same.
"""

import math
from datetime import date
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.data.exact.linear import LinearMap
from dpcov.data.geometry import Geometry, Scale
from dpcov.data.groups import split_schema
from dpcov.data.schema.declared import Weights
from dpcov.mechanisms.geometry.budget_split import one_gaussian
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.guarantee import NEIGHBORS, PureDP
from tests.contracts.replay import recorded

# At these budgets so few rows are surveyed, also where a person has several.
KINDS = {
    "rho": (dpcov.Budget(rho=300), ["auto", "gaussian", "stratified", "coinpress"]),
    "delta": (
        dpcov.Budget(epsilon=60, delta="1e-6"),
        ["auto", "gaussian", "separate", "projection"],
    ),
    "pure": (
        dpcov.Budget(epsilon=100),
        ["auto", "laplace", "nuclear", "separate", "nuclear-projection"],
    ),
}
N = 200
FAR = [math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 2.0**63, math.nan, None]
WEIGHTS = [4.0, 5.0, 0.0, -1.0, 1e-300, *FAR]


class Column(NamedTuple):
    """What is declared, what most rows hold, and what others may."""

    declared: Any
    usual: Any
    extreme: list[Any]
    kind: Any = pa.float64()


def number(lower, upper, usual, **more):
    inside = [np.nextafter(lower, upper), (lower + upper) / 2, np.nextafter(upper, lower)]
    extreme = [lower, *inside, upper, *FAR]
    return Column(dpcov.Numeric(lower=lower, upper=upper, **more), usual, extreme)


COLUMNS = {
    "wide": number(-100, 100, lambda rng, n: rng.standard_t(3, size=n), missing_codes=(99,)),
    "alike": number(-9, 9, lambda rng, n: np.sin(np.arange(n)) + rng.normal(size=n) / 50),
    "close": number(1e9, 1e9 + 1, lambda rng, n: 1e9 + rng.random(n), missing="never"),
    # Nearly all values are one that is no bound: a second look has finer cells.
    "same": number(-1, 99, lambda rng, n: np.where(rng.random(n) < 0.9, 37.5, 99 * rng.random(n))),
    "money": number(0, 1e6, lambda rng, n: rng.lognormal(3, 2, size=n), transform="log1p"),
    "root": number(0, 50, lambda rng, n: rng.poisson(2, size=n), transform="sqrt"),
    "born": Column(
        dpcov.Date(as_="year", lower=1950, upper=2020),
        lambda rng, n: [date(1950 + k, 6, 1) for k in rng.integers(0, 70, size=n).tolist()],
        [date(1, 1, 1), date(1950, 1, 1), date(9999, 12, 31), None],
        pa.date32(),
    ),
    "flag": Column(
        dpcov.Boolean(), lambda rng, n: rng.random(n) < 0.2, [True, False, None], pa.bool_()
    ),
    "level": Column(
        dpcov.Categorical(categories=("x", "y"), other="rest"),
        lambda rng, n: rng.choice(["x", "y", "z"], size=n),
        ["x", "y", "", "none of these", None],
        pa.string(),
    ),
}
GROUP = Column(
    dpcov.Categorical(categories=("g", "h")),
    lambda rng, n: rng.choice(["g", "h"], size=n),
    ["g", "h", "other", None],
    pa.string(),
)


class Case:
    """A table, its schema, and how it is released; from one number."""

    def __init__(self, seed):
        self.seed, self.rng = seed, np.random.default_rng(seed)
        self.door = ["release", "release", "release", "survey", "saved"][seed % 5]
        names = self.rng.choice(list(COLUMNS), size=int(self.rng.integers(2, 5)), replace=False)
        self.columns = {str(name): COLUMNS[name] for name in names}
        kind = self.chosen(list(KINDS))
        self.budget, mechanisms = KINDS[kind]
        self.neighbors, self.k = self.chosen(NEIGHBORS), self.chosen([1, 1, 2, 5])
        mechanism = self.chosen(mechanisms)
        facts: dict[str, Any] = {"intercept": bool(self.rng.random() < 0.8)}
        self.weighted = facts["intercept"] and bool(self.rng.random() < 0.3)
        if self.weighted:
            facts["weights"] = Weights(column="weight", upper=4.0)
        together = [name for name in self.columns if self.columns[name].declared.missing is None]
        if len(together) > 1 and self.rng.random() < 0.4:
            facts["missing_together"] = (tuple(together[:2]),)
        self.terms: dict[str, Any] = {"neighbors": self.neighbors, "budget": self.budget}
        declared = {name: each.declared for name, each in self.columns.items()}
        if mechanism == "auto" and kind != "pure" and self.rng.random() < 0.4:
            self.columns["group"], declared["group"] = GROUP, GROUP.declared
            self.terms["by"] = "group"
        if self.weighted:
            self.columns["weight"] = Column(None, lambda rng, n: 4 * rng.random(n), WEIGHTS)
            declared["weight"] = dpcov.Ignored()
        self.schema = dpcov.Schema(columns=declared, rows_per_person=self.k, **facts)
        # Saved moments answer one question.
        mechanism = "auto" if mechanism == "coinpress" and self.door == "saved" else mechanism
        if self.door != "survey":
            self.terms |= {"mechanism": mechanism, "geometry": self.geometry()}

    def chosen(self, options):
        return options[int(self.rng.integers(len(options)))]

    def geometry(self):
        if self.rng.random() < 0.6:
            return "schema" if self.door == "saved" else "private"
        by = self.terms.get("by")
        schema = self.schema if by is None else split_schema(self.schema, by)[0]
        encoded = [each for each in schema.encoded_columns if each.kind != "intercept"]
        sizes = 10.0 ** self.rng.uniform(-3, 1, size=len(encoded))
        scales = {
            each.name: Scale(center=each.center, scale=each.half_range * float(size))
            for each, size in zip(encoded, sizes, strict=True)
        }
        shape = len(encoded), len(encoded) + schema.intercept
        linear = LinearMap.nearest(self.rng.normal(size=shape)) if self.rng.random() < 0.6 else None
        return Geometry(columns=scales, linear=linear, norm_bound=1 + 4 * float(self.rng.random()))

    def table(self, persons):
        """The rows of others, with those of somebody behind them."""
        rng = np.random.default_rng(self.seed)
        columns = {}
        for name, column in self.columns.items():
            usual = pa.array(column.usual(rng, N), column.kind)
            more = pa.array([row[name] for row in persons], column.kind)
            columns[name] = pa.concat_arrays([usual, more])
        return pa.table(columns)

    def person(self):
        row = {name: self.chosen(column.extreme) for name, column in self.columns.items()}
        return [row] * self.k

    def made(self, table, earlier=None):
        """What is published, but for the second when, and the run."""
        more = {"schema": self.schema, "threads": 1, **self.terms}
        drawing = {"entropy": SeededEntropy(self.seed), "accept_large_delta": True}
        with recorded(earlier) as run:
            if self.door == "survey":
                return dpcov.survey(table, **more, **drawing), run
            if self.door == "saved":
                parts = [dpcov.checkpoint(part, **more) for part in (table[:9], table[9:])]
                table, more["threads"] = parts[0].merge(parts[1]), None
            made = dpcov.release(table, **more, **drawing)
        arrays = {name: array.tolist() for name, array in made.statistics.arrays.items()}
        return (arrays, msgspec.structs.replace(made.manifest, created="")), run


def loss_of(case):
    """The largest part of the budget that a person costs."""
    promise = case.budget.promise
    most = promise.epsilon if isinstance(promise, PureDP) else one_gaussian(promise).rho
    made, run = case.made(case.table(case.person()))
    found = []
    for _ in range(3):
        other = case.person() if case.neighbors == "replace-one" else []
        again, second = case.made(case.table(other), run)
        assert again == made and run.questions == second.questions
        losses = run.losses(second)
        assert all(loss <= law.paid * (1 + 1e-9) for law, loss in losses if law.paid is not None)
        found.append(sum(loss for _, loss in losses) / float(most))
    return max(found)


@pytest.mark.parametrize("seed", range(40))
def test_noise_hides_a_person_of_extreme_rows(seed):
    assert 0 < loss_of(Case(seed)) <= 1 + 1e-9


@pytest.mark.parametrize("door", ["release", "survey", "saved"])
def test_rows_that_a_person_may_not_have_are_noticed(door):
    case = next(case for case in map(Case, range(40)) if case.door == door)
    case.k *= 3
    with pytest.raises(AssertionError):
        assert loss_of(case) <= 1 + 1e-9

import itertools
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from benchmarks.analyst.tables import made
from dpcov import SeededEntropy
from dpcov.errors import SchemaError, UsageError
from dpcov.pipeline.plan.rehearsal import Rehearsal, needed_epsilon
from tests.published.mistakes import TABLES, released

BUDGET = dpcov.Budget(epsilon=1, delta="1e-6")
BUDGETS = {"approximate": BUDGET, "zcdp": dpcov.Budget(rho="0.05"), "pure": dpcov.Budget(epsilon=2)}


def schema_of(name):
    return dpcov.Schema(columns=TABLES[name](np.random.default_rng(0), 10)[1])


def rehearsal(name="hospital", n_rows=20_000, **changes):
    return Rehearsal(schema=schema_of(name), n_rows=n_rows, **changes)


@pytest.mark.parametrize("n_rows", [5_000, 40_000])
@pytest.mark.parametrize("name", TABLES)
def test_a_plan_is_what_a_release_then_says(name, n_rows):
    planned = rehearsal(name, n_rows).at(BUDGET).diagnosis
    # What maps and scaling rows down take differs from release to release.
    real = [released(name, seed, n_rows=n_rows).diagnose() for seed in (3, 4, 5, 6)]
    assert [each.name for each in planned.columns] == [each.name for each in real[0].columns]
    assert 1 / 3 < planned.typical / np.mean([each.typical for each in real]) < 3
    usable = [sum(column.usable for column in each.columns) for each in (planned, real[0])]
    assert abs(usable[0] - usable[1]) <= 1
    # The noise of means depends on the spread.
    ratios = [
        (a.mean_noise / a.spread) / (b.mean_noise / b.spread)
        for each in real
        for a, b in zip(planned.columns, each.columns, strict=True)
    ]
    assert 1 / 3 < np.median(ratios) < 3


def test_plans_of_skewed_tables_promise_about_what_releases_hold():
    """Rows of normal numbers alone would promise 0.4 of it: releases lose less of short tails."""
    ratios = []
    for seed in range(300, 304):
        table = made(seed, 8_000, 12)
        schema = table.schema(1.0)
        planned = Rehearsal(schema=schema, n_rows=8_000).at(BUDGET).diagnosis
        for noise in range(2):
            given = {"schema": schema, "budget": BUDGET, "entropy": SeededEntropy(noise)}
            ratios.append(planned.typical / dpcov.release(table.frame, **given).diagnose().typical)
    assert 0.6 < np.exp(np.mean(np.log(ratios))) < 1.6


def test_rehearsing_few_rows_with_less_noise_is_rehearsing_many(monkeypatch):
    whole = rehearsal("census", 8_000)
    few = whole.at(BUDGET).diagnosis
    monkeypatch.setattr("dpcov.pipeline.plan.rehearsal.MOST_ROWS", 2_000)
    scaled = whole.at(BUDGET).diagnosis
    assert scaled.typical == pytest.approx(few.typical, rel=0.5)
    # Of nobody's rows, so that no delta is too large.
    assert whole.at(dpcov.Budget(epsilon=1, delta="0.01")).diagnosis.typical < scaled.typical


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_what_is_needed_is_enough_and_not_far_too_much(budget):
    plan = rehearsal("bank", 5_000)
    factor = plan.needed(budget, 0.05)
    assert plan.at(budget, factor).diagnosis.typical <= 0.05 * 1.1
    assert plan.at(budget, factor / 3).diagnosis.typical > 0.05
    amount = needed_epsilon(budget, factor)
    name = "rho" if budget.rho else "epsilon"
    other = dpcov.Budget(**vars(budget) | {name: amount})
    assert plan.at(other).diagnosis.typical == pytest.approx(0.05, rel=0.3)


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_ten_times_as_many_rows_have_a_tenth_of_the_noise_however_many(budget):
    """Of 10,000 rows that stand for so many, no budget that anybody may have was enough."""
    plan = rehearsal(n_rows=10_000_000)
    many, more = (plan.at(budget, factor).diagnosis.columns[0].mean_noise for factor in (1, 10))
    assert many / more == pytest.approx(10, rel=0.5)


def test_what_is_known_of_a_budget_is_not_rehearsed_again(monkeypatch):
    plan, budgets = rehearsal("census", 200_000), []
    planned = plan.at(BUDGET)
    whole = Rehearsal.at
    monkeypatch.setattr(
        Rehearsal, "at", lambda self, *given: budgets.append(given) or whole(self, *given)
    )
    assert plan.needed(BUDGET, 0.05, planned) < 1
    assert (BUDGET, 1.0) not in budgets


def test_what_no_budget_gives_is_not_promised():
    assert needed_epsilon(BUDGET, 1e5) is None
    assert needed_epsilon(dpcov.Budget(epsilon=1), 101) is None
    assert needed_epsilon(dpcov.Budget(rho=1), 2) == Fraction(4)
    hopeless = rehearsal(n_rows=1, geometry="schema").needed(BUDGET, 1e-9)
    assert hopeless == np.inf


def test_less_is_cheaper():
    said = [what for what, _ in rehearsal("census", 6_000).cheaper()]
    assert {"without region", "without status"} <= set(said)
    long = dpcov.Schema(columns={"a": dpcov.Boolean(), "b": dpcov.Boolean(), **levels(12)})
    plan = Rehearsal(schema=long, n_rows=3_000)
    less = dict(plan.cheaper())["with 3 levels of ward instead of 12"]
    assert less.at(BUDGET).diagnosis.typical < 0.8 * plan.at(BUDGET).diagnosis.typical


@pytest.mark.parametrize(
    ("now", "then", "said"),
    [
        (0.3, 0.1, ["Without ward: ±0.10 instead of ±0.30."]),
        (float("nan"), 0.1, ["Without ward: ±0.10 where nothing shows now."]),
        (0.3, 0.3, []),
        (0.3, float("nan"), []),
    ],
)
def test_gains_are_said_beside_what_there_is_now(now, then, said):
    def rehearsed(typical):
        return SimpleNamespace(diagnosis=SimpleNamespace(typical=typical))

    less = SimpleNamespace(at=lambda budget: rehearsed(then))
    asked, steps = SimpleNamespace(cheaper=lambda lost: [("without ward", less)] * 2), []
    told = Rehearsal.gains(asked, dpcov.Budget(rho=1), rehearsed(now), lambda *at: steps.append(at))
    assert (told, steps) == (2 * said, [(1, 2), (2, 2)])


def test_leaving_out_a_column_of_many_is_not_rehearsed():
    wide = {f"x{place}": dpcov.Numeric(lower=0, upper=1) for place in range(40)}
    schema = dpcov.Schema(columns={**wide, **levels(20)}, missing="never")
    said = [what for what, _ in Rehearsal(schema=schema, n_rows=5_000).cheaper()]
    assert said == ["without ward", "with 3 levels of ward instead of 20"]


def levels(count):
    return {"ward": dpcov.Categorical(categories=tuple(f"w{place}" for place in range(count)))}


@pytest.mark.parametrize("geometry", ["private", "schema"])
def test_the_smallest_spread_that_shows_is_in_the_columns_unit(geometry):
    planned = rehearsal(geometry=geometry).at(BUDGET)
    found = dict(zip((c.name for c in planned.diagnosis.columns), planned.smallest, strict=True))
    assert planned.scales_are_found == (geometry == "private")
    assert found["sex=M"].endswith(" %")
    if geometry == "private":
        assert found["height"] == "any"
        return
    smallest = float(found["height"])
    # A column with half of that spread is lost, and one with twice of it is not.
    for factor, verdicts in ((0.5, {"lost"}), (2.0, {"good", "weak"})):
        spread = factor * smallest / 200
        again = rehearsal(geometry=geometry, spread=spread).at(BUDGET).diagnosis.columns
        assert next(c.verdict for c in again if c.name == "height") in verdicts


def test_a_column_that_the_noise_hides_shows_not_any_spread():
    planned = rehearsal("census", 500).at(BUDGET)
    told = dict(zip(planned.diagnosis.columns, planned.smallest, strict=True))
    hidden = [each for each in told if each.hidden and each.name == each.source]
    assert planned.scales_are_found and hidden
    for column in hidden:
        assert float(told[column]) == pytest.approx(column.smallest, rel=0.05)


def test_made_up_rows_are_as_assumed():
    schema = dpcov.Schema(
        columns={
            "x": dpcov.Numeric(lower=-10, upper=30),
            "y": dpcov.Boolean(missing="indicator"),
            "weight": dpcov.Ignored(),
            **levels(4),
        },
        missing="never",
        weights=dpcov.Weights(column="weight", upper=3.0),
    )
    rehearsal = Rehearsal(schema=schema, n_rows=5_000, spread=0.2)
    rows = rehearsal.made_up(20_000).to_pydict()
    assert np.mean(rows["x"]) == pytest.approx(10, abs=0.3)
    assert np.std(rows["x"]) == pytest.approx(8, rel=0.05)
    assert rows["y"].count(None) == pytest.approx(400, rel=0.2)
    assert set(rows["ward"]) == {f"w{place}" for place in range(4)}
    assert rehearsal.at(BUDGET).diagnosis.headline


def test_plans_of_weighted_tables_promise_about_what_releases_hold():
    """Weights of half their upper would promise a third of it: few weights are that large."""
    rng, n_rows = np.random.default_rng(0), 12_000
    people = {"age": rng.normal(50, 12, n_rows), "hours": rng.normal(38, 9, n_rows)}
    people["weight"] = np.minimum(rng.lognormal(-0.18, 0.6, n_rows), 8)
    columns = {name: dpcov.Numeric(lower=0, upper=100) for name in ("age", "hours")}
    columns["weight"] = dpcov.Numeric(lower=0, upper=8)
    weights = dpcov.Weights(column="weight", upper=8)
    schema = dpcov.Schema(columns=columns, weights=weights, missing="never")
    planned = Rehearsal(schema=schema, n_rows=n_rows).at(BUDGET).diagnosis
    given = {"schema": schema, "budget": BUDGET, "entropy": SeededEntropy(0)}
    real = dpcov.release(pa.table(people), **given).diagnose()
    assert 0.7 < planned.typical / real.typical < 2.5
    pairs = zip(planned.columns, real.columns, strict=True)
    ratios = [(a.mean_noise / a.spread) / (b.mean_noise / b.spread) for a, b in pairs]
    assert 0.7 < np.median(ratios) < 2.5


@pytest.mark.parametrize("share", [1 / 8, 1 / 2])
def test_plans_of_weighted_groups_promise_what_releases_of_such_rows_hold(share):
    """Of 50,000 rows in five groups, a fifth of which are rehearsed."""
    columns = {f"x{place}": dpcov.Numeric(lower=0, upper=100) for place in range(4)}
    columns |= {"weight": dpcov.Numeric(lower=0, upper=8), **levels(5)}
    weights = dpcov.Weights(column="weight", upper=8)
    schema = dpcov.Schema(columns=columns, weights=weights, missing="never")
    plan = Rehearsal(schema=schema, n_rows=50_000, weight_share=share, options={"by": "ward"})
    rows = plan.made_up(50_000)
    given = {"schema": schema, "budget": BUDGET, "by": "ward", "geometry": "private"}
    real = dpcov.release(rows, **given, entropy=SeededEntropy(3))
    held = np.median([real.group(name).diagnose().typical for name in real.group_names[:-1]])
    assert 0.6 < plan.at(BUDGET).diagnosis.typical / held < 1.7


def test_the_column_of_the_weights_is_never_left_out():
    numbers = {name: dpcov.Numeric(lower=0, upper=3) for name in ("w", "x", "y", "z")}
    schema = dpcov.Schema(columns=numbers, weights=dpcov.Weights(column="w", upper=3))
    plan = Rehearsal(schema=schema, n_rows=5_000)
    assert np.std(plan.made_up(1000)["w"].to_numpy()) > 0
    said = [what for what, _ in plan.cheaper()]
    assert said == ["without the weights", "without x", "without y", "without z"]


@pytest.mark.parametrize("share", [1 / 50, 1 / 8, 1 / 4, 1 / 2, 1.0])
def test_made_up_weights_have_the_mean_that_is_said(share):
    weight = dpcov.Numeric(lower=0, upper=3)
    columns = {"w": weight, "x": weight}
    schema = dpcov.Schema(columns=columns, weights=dpcov.Weights(column="w", upper=3))
    plan = Rehearsal(schema=schema, n_rows=50_000, weight_share=share)
    made = plan.made_up(50_000)["w"].to_numpy()
    assert np.mean(made) == pytest.approx(3 * share, rel=0.03) and made.max() <= 3


def test_without_weights_their_column_goes_too():
    numbers = {name: dpcov.Numeric(lower=0, upper=3) for name in ("w", "x", "y")}
    schema = dpcov.Schema(columns=numbers, weights=dpcov.Weights(column="w", upper=3))
    plan = Rehearsal(schema=schema, n_rows=10_000)
    less = dict(plan.cheaper())["without the weights"]
    assert less.schema == dpcov.Schema(columns={name: numbers[name] for name in ("x", "y")})
    assert less.at(BUDGET).diagnosis.typical < 0.5 * plan.at(BUDGET).diagnosis.typical


def test_where_all_is_lost_half_of_the_columns_are_rehearsed_and_the_groups_stay():
    numbers = {f"x{place}": dpcov.Numeric(lower=0, upper=1) for place in range(8)}
    schema = dpcov.Schema(columns={**numbers, **levels(3)}, missing="never")
    plan = Rehearsal(schema=schema, n_rows=400, options={"by": "ward"})
    kept = [set(less.schema.columns) for what, less in plan.cheaper(lost=True) if "with " in what]
    assert kept == [{"x0", "x2", "x4", "x6", "ward"}, {"x0", "x4", "ward"}]
    assert not [what for what, _ in plan.cheaper() if "with " in what]


def test_public_rows_are_rehearsed_instead():
    columns, kinds = TABLES["school"](np.random.default_rng(5), 6_000)
    table = pa.table(columns)
    plan = Rehearsal(
        schema=dpcov.Schema(columns=kinds), n_rows=12_000, public=table, n_public=len(table)
    )
    planned, real = plan.at(BUDGET).diagnosis, released("school", 1, n_rows=12_000).diagnose()
    assert planned.typical == pytest.approx(real.typical, rel=0.5)
    assert "public rows" in " ".join(plan.assumptions(plan.at(BUDGET)))


@pytest.mark.filterwarnings("error::dpcov.errors.ReleaseWarning")
@pytest.mark.parametrize(
    ("kind", "facts", "terms", "why"),
    [
        (dpcov.Numeric(lower=0, upper=1), {"norm_bound": 1.5}, {}, "the schema has a norm_bound"),
        (dpcov.Numeric(lower=0, upper=1), {}, {"geometry": "schema"}, "you said so"),
        (dpcov.Numeric(lower=0, upper=1), {}, {"n_rows": 50}, "rows are too few for this budget"),
        (dpcov.Boolean(), {}, {"n_rows": 50}, "all columns have levels"),
    ],
)
def test_a_plan_says_why_scales_are_those_of_the_bounds(kind, facts, terms, why):
    """It listed all reasons that there can be."""
    schema = dpcov.Schema(columns={"x": kind, "y": kind}, **facts)
    plan = Rehearsal(schema=schema, **{"n_rows": 20_000} | terms)
    told = next(each for each in plan.assumptions(plan.at(BUDGET)) if each.startswith("Scales"))
    assert told.endswith(f"{why}.") or f"{why} to find others" in told
    assert told.count(",") <= 1


def test_plans_are_reproducible_and_more_rows_are_better():
    counts = (5_000, 20_000, 10**6, 10**6)
    found = [rehearsal(n_rows=n).at(BUDGET).diagnosis.typical for n in counts]
    assert found[2] == found[3]
    assert all(a > b for a, b in itertools.pairwise(found[:3]))


def test_a_plan_of_zeros_and_ones_says_that_their_bounds_fit():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5_000, 1)) + rng.normal(size=(5_000, 6)) > 0
    table = pa.table({f"x{place}": column * 1.0 for place, column in enumerate(rows.T)})
    kinds = {name: dpcov.Numeric(lower=0, upper=1) for name in table.column_names}
    schema = dpcov.Schema(columns=kinds, missing="never")
    plan = Rehearsal(schema=schema, n_rows=5_000, public=table, n_public=5_000)
    planned = plan.at(dpcov.Budget(epsilon=4, delta="1e-6"))
    assert not planned.scales_are_found
    assert "those of the bounds: they fit as well, or rows are too few" in " ".join(
        plan.assumptions(planned)
    )


@pytest.mark.parametrize("wrong", [{"n_rows": 0}, {"spread": 0.0}, {"spread": 2.0}])
def test_impossible_assumptions_are_refused(wrong):
    with pytest.raises(UsageError):
        rehearsal(**wrong)


def test_a_draft_is_refused():
    with pytest.raises(SchemaError):
        Rehearsal(schema=dpcov.Schema(columns={"x": dpcov.Numeric()}), n_rows=100)

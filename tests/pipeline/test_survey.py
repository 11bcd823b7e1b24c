"""A survey alone: one charge, a geometry that costs nothing afterwards, and what is refused."""

import warnings
from fractions import Fraction

import msgspec
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

import dpcov
from dpcov.analysis import mean_intervals
from dpcov.data.encode import Encoder
from dpcov.data.engines.base import MomentsTask, working_bytes
from dpcov.data.geometry import Geometry, Scale
from dpcov.data.questions import MomentsQuestion
from dpcov.errors import (
    BudgetError,
    DataError,
    LedgerError,
    ReleaseWarning,
    SchemaError,
    UsageError,
)
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.counts import CountNoise
from dpcov.mechanisms.geometry.budget_split import LENGTHS
from dpcov.mechanisms.geometry.survey import SurveyColumn
from dpcov.mechanisms.geometry.survey_alone import SurveyAlone
from dpcov.mechanisms.geometry.surveyed import Surveyed
from dpcov.mechanisms.geometry.table_facts import TableFacts
from dpcov.mechanisms.stratified import Stratified
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.calibrate import gaussian_delta

RNG = np.random.default_rng(3)
N = 20_000
BUDGET, COMING = Budget(epsilon="0.5", delta="1e-7"), Budget(epsilon=1, delta="1e-6")
BUDGETS = [BUDGET, Budget(rho="0.02"), Budget(epsilon=1)]


def table(n=N):
    factor = RNG.normal(size=n)
    columns = {
        "height": 170 + 9 * (0.8 * factor + 0.6 * RNG.normal(size=n)),
        "weight": 70 + 12 * (0.8 * factor + 0.6 * RNG.normal(size=n)),
        "region": np.array(["n", "s", "e"])[RNG.integers(0, 3, n)],
    }
    return pd.DataFrame(columns)


TABLE = table()
WIDE = dpcov.Numeric(lower=-50_000, upper=50_000)
REGION = dpcov.Categorical(categories=("n", "s", "e"))
SCHEMA = dpcov.Schema(columns={"height": WIDE, "weight": WIDE, "region": REGION})
LEVELS_ALONE = dpcov.Schema(columns={"region": REGION})


def survey(data=TABLE, seed=1, **more):
    given = {"schema": SCHEMA, "budget": BUDGET, "coming": COMING} | more
    return dpcov.survey(data, entropy=SeededEntropy(seed), **given)


def release(geometry, data=TABLE, **more):
    given = {"schema": SCHEMA, "budget": COMING, "entropy": SeededEntropy(2)} | more
    return dpcov.release(data, geometry=geometry, **given)


def test_a_release_says_that_a_norm_bound_keeps_the_bounds():
    bounded = dpcov.Schema(columns=SCHEMA.columns, norm_bound=1.5)
    with pytest.warns(ReleaseWarning, match="Leave norm_bound out"):
        release("private", schema=bounded)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release("schema", schema=bounded)
        with pytest.raises(UsageError, match="Leave norm_bound out"):
            survey(schema=bounded)


@pytest.fixture
def ledger(tmp_path):
    book = dpcov.Ledger(tmp_path / "ledger.sqlite")
    book.create("people", Budget(epsilon=2, delta="1e-5"), "replace-one")
    return book


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_a_geometry_is_found_and_serves_releases(budget, neighbors):
    found = survey(budget=budget, neighbors=neighbors)
    assert found.columns["height"].center == pytest.approx(170, abs=9)
    assert 4.5 < found.columns["height"].scale < 25
    assert 1 < found.norm_bound < 10
    made = release(found, neighbors=neighbors)
    assert made.manifest.norm_bound == found.norm_bound
    truth = TABLE[["height", "weight"]].corr().iloc[0, 1]
    assert made.correlation_matrix()[0, 1] == pytest.approx(truth, abs=0.1)


def test_the_release_that_follows_states_and_counts_what_scaling_down_takes(tmp_path):
    found = survey(seed=2, coming=Budget(rho="0.001"))
    assert found.lost > 0
    # It is measured with noise of its own; of saved moments no length can be asked.
    made = release(found)
    assert made.statistics.lost == pytest.approx(found.lost, rel=0.5)
    # Few rows that hold much may not show: what was known before is the least.
    assert release(msgspec.structs.replace(found, lost=0.5)).statistics.lost == 0.5
    saved = dpcov.checkpoint(TABLE, schema=SCHEMA, budget=COMING, geometry=found)
    whole = dpcov.release(saved, schema=SCHEMA, budget=COMING, entropy=SeededEntropy(2))
    assert whole.statistics.lost == found.lost
    made.save(tmp_path / "r.dpcov")
    assert release(tmp_path / "r.dpcov").manifest.norm_bound == found.norm_bound


def test_a_release_says_that_its_guarantee_leaves_out_what_a_given_geometry_cost():
    """Its centers and scales are those of a survey, which its guarantee does not count."""
    found, (whole, plain) = survey(), map(release, ("private", "schema"))
    saved = dpcov.checkpoint(TABLE, schema=SCHEMA, budget=COMING, geometry=found)
    first, second = release(found), dpcov.release(saved, schema=SCHEMA, budget=COMING)
    for made in (first, second, first.combine(second), first.combine(plain)):
        assert made.manifest.geometry_was_given and "Left out" in made.summary()
    # What the first of two found, both of them together pay for.
    for made in (whole, plain, whole.combine(release(whole))):
        assert not made.manifest.geometry_was_given and "Left out" not in made.summary()


@pytest.mark.parametrize("has_map", [False, True])
def test_a_table_that_a_geometry_does_not_fit_has_intervals_that_hold(has_map, tmp_path):
    """Next year's table, or another site: what the old geometry takes of its rows is measured.

    They hold as long as less than a fourth of the squared lengths is lost.
    """
    moved = TABLE.assign(height=TABLE["height"] + 20, weight=TABLE["weight"] + 20)
    release("private", output=tmp_path / "first.dpcov")
    found = tmp_path / "first.dpcov" if has_map else survey()
    held, plain = [], []
    for seed in range(8):
        made = dpcov.release(
            moved, schema=SCHEMA, budget=COMING, geometry=found, entropy=SeededEntropy(seed)
        )
        assert made.statistics.lost > 0.05
        saved = dpcov.checkpoint(moved, schema=SCHEMA, budget=COMING, geometry=found)
        blind = dpcov.release(saved, schema=SCHEMA, budget=COMING, entropy=SeededEntropy(seed))
        for each, kept in ((made, held), (blind, plain)):
            told = mean_intervals(each, ["height", "weight"], sampling=False)
            true = moved[["height", "weight"]].mean()
            kept += list((told.lower <= true) & (true <= told.upper))
    assert np.mean(held) > 0.9 > np.mean(plain)


def test_one_charge_and_none_for_what_follows(tmp_path, ledger):
    path = tmp_path / "geometry.toml"
    found = survey(ledger=ledger, dataset="people", output=path)
    (entry,) = ledger.entries("people")
    assert (entry.spend.mechanism, entry.state) == ("survey", "committed")
    assert entry.spend.promise == BUDGET.promise
    assert gaussian_delta(entry.spend.noise_multiplier, BUDGET.epsilon) <= BUDGET.delta
    assert Geometry.from_toml(path) == found
    made = release(path, ledger=ledger, dataset="people")
    assert [str(each.spend.promise) for each in ledger.entries("people")[1:]] == ["(1, 1e-6)-DP"]
    parts = [
        dpcov.checkpoint(rows, schema=SCHEMA, budget=COMING, geometry=path)
        for rows in (TABLE[:9_000], TABLE[9_000:])
    ]
    merged = parts[0].merge(parts[1])
    again = dpcov.release(merged, schema=SCHEMA, budget=COMING, entropy=SeededEntropy(2))
    assert again.manifest.columns == made.manifest.columns
    assert again.covariance_matrix()[0, 0] == pytest.approx(made.covariance_matrix()[0, 0], rel=0.2)
    assert len(ledger.entries("people")) == 2


def test_the_file_says_how_it_was_found(tmp_path, ledger):
    path = tmp_path / "geometry.toml"
    survey(ledger=ledger, dataset="people", output=path)
    text = path.read_text()
    assert text.startswith("# NOT PRIVATE")
    assert "# found with (0.5, 1e-7)-DP, replace-one neighbors, unit: one row" in text
    assert "# the norm bound was chosen for releases with (1, 1e-6)-DP" in text
    assert "# charged: entry 1 of dataset people" in text
    how = {"schema": SCHEMA, "budget": BUDGET, "output": path}
    dpcov.survey(TABLE, **how, overwrite=True)
    assert "PRIVATE" not in path.read_text()
    assert "charged" not in path.read_text()


def test_a_geometry_names_units_and_fits_no_others(tmp_path):
    def of(unit):
        columns = {"height": WIDE, "weight": dpcov.Numeric(lower=0, upper=50_000, unit=unit)}
        return dpcov.Schema(columns={**columns, "region": REGION})

    found, path = survey(schema=of("kg")), tmp_path / "geometry.toml"
    found.save(path)
    assert Geometry.from_toml(path) == found and 'unit = "kg"' in path.read_text()
    made = release(path, schema=of("kg"))
    assert release(found, schema=of("")).manifest.norm_bound == made.manifest.norm_bound
    for known in (found, path, made):
        with pytest.raises(SchemaError, match="'weight' is in kg, and the schema has g"):
            release(known, schema=of("g"))


@pytest.mark.parametrize("text", ["größe", "\U00020bb7", "\U0001f600", 'a"\\', "a\x7f"])
def test_a_geometry_may_hold_any_text(text, tmp_path):
    """Characters beyond the basic plane were written as JSON has them, and TOML does not."""
    made = Geometry(columns={text: Scale(0.0, 1.0, text)})
    made.save(tmp_path / "geometry.toml")
    assert Geometry.from_toml(tmp_path / "geometry.toml") == made


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_the_whole_budget_is_the_surveys(budget):
    mechanism = SurveyAlone(Surveyed(Stratified(), TableFacts((SurveyColumn("x"),), ())), COMING)
    asked = Problem(n_features=2, neighbors="replace-one", n_rows=N)
    made = mechanism.calibrate(asked, budget)
    assert made.promise == budget.promise
    assert made.inner.noise_multiplier == Stratified().calibrate(asked, COMING).noise_multiplier
    if budget.rho is not None or budget.delta is None:
        assert made.survey == budget.promise
    if made.noise_multiplier is not None:
        assert 1 / (2 * made.noise_multiplier**2) >= made.survey.rho
        assert float(made.survey.rho * 2 * made.noise_multiplier**2) == pytest.approx(1, rel=1e-9)


def test_a_survey_alone_asks_for_no_moments():
    surveyed = Surveyed(Stratified(), TableFacts((SurveyColumn("x"),), ()))
    asked = Problem(n_features=2, neighbors="replace-one", n_rows=N)
    moments, lengths = surveyed.largest_questions(asked)
    assert isinstance(moments, MomentsQuestion)
    assert SurveyAlone(surveyed, COMING).largest_questions(asked) == (lengths,)


def test_columns_and_lengths_together_cost_the_budget(counts_drawn):
    """Seen at the noise itself."""
    survey(budget=Budget(rho="0.5"))
    drawn = [cost.rho for cost, *_ in counts_drawn]
    assert Fraction(1, 4) < sum(drawn) <= Fraction(1, 2)
    assert LENGTHS / 2 in drawn


def test_releases_with_less_noise_scale_fewer_rows_down():
    bounds = [survey(coming=Budget(rho=rho)).norm_bound for rho in ("0.0005", "5")]
    assert bounds[0] < bounds[1]
    assert survey(coming=None) == survey(coming=BUDGET)


def test_groups_share_a_geometry():
    made = release(survey(by="region"), by="region")
    assert made.group("n").mean_vector()[0] == pytest.approx(170, abs=3)


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"data": table(50)}, BudgetError, "so few rows"),
        ({"n_rows": 50, "data": "absent.csv"}, BudgetError, "so few rows"),
        ({"schema": LEVELS_ALONE}, BudgetError, "All columns have levels"),
        ({"n_rows": N + 1}, DataError, "number of rows that was stated"),
        ({"budget": Budget(epsilon=1, delta="0.001")}, BudgetError, "delta"),
        ({"budget": Budget(rho="1e-40")}, BudgetError, "noise hides"),
        ({"budget": 1}, BudgetError, "Give the budget"),
        ({"coming": 1}, BudgetError, "Give the budget"),
        ({"budget": Budget(epsilon=2, delta="1e-4")}, LedgerError, "overspend"),
        ({"schema": dpcov.Schema(columns=SCHEMA.columns, norm_bound=2)}, UsageError, "norm_bound"),
        ({"data": dpcov.checkpoint(TABLE, schema=SCHEMA, budget=COMING)}, UsageError, "survey"),
        ({"output": "no/such/folder.toml"}, dpcov.DpcovError, "does not exist"),
        ({"entropy": 3}, UsageError, "entropy"),
        # Enough for histograms of columns, and too little for lengths of rows.
        ({"memory_limit": 0.02, "threads": 1}, UsageError, "Gathering needs"),
    ],
)
def test_what_cannot_be_surveyed_is_refused_unpaid_and_undrawn(
    more, error, words, ledger, monkeypatch
):
    monkeypatch.setattr(CountNoise, "draw", None)
    given = {"data": TABLE, "schema": SCHEMA, "budget": BUDGET, "coming": COMING} | more
    with pytest.raises(error, match=words):
        dpcov.survey(given.pop("data"), **given, ledger=ledger, dataset="people")
    assert ledger.entries("people") == ()


def test_memory_for_the_matrix_alone_is_refused_unpaid(ledger, monkeypatch):
    """Lengths of rows take more, where columns are few."""
    monkeypatch.setattr(CountNoise, "draw", None)
    task = MomentsTask(encoding=Encoder(SCHEMA))
    limit = (task.answer_bytes + working_bytes(task, threads=1)) / 2**30
    terms = {"schema": SCHEMA, "budget": COMING, "mechanism": "gaussian", "threads": 1}
    paid = {"ledger": ledger, "dataset": "people"}
    with pytest.raises(UsageError, match="Gathering needs"):
        dpcov.release(TABLE, **terms, **paid, memory_limit=limit * (1 + 1e-6))
    assert ledger.entries("people") == ()


def test_a_failure_after_the_charge_says_so_and_leaves_no_file(tmp_path, ledger, monkeypatch):
    monkeypatch.setattr(CountNoise, "draw", None)
    with pytest.raises(TypeError) as caught:
        survey(ledger=ledger, dataset="people", output=tmp_path / "g.toml")
    assert "The budget IS spent" in caught.value.__notes__[-1]
    assert [entry.state for entry in ledger.entries("people")] == ["drawn"]
    assert not (tmp_path / "g.toml").exists()


@pytest.mark.parametrize("lost", [-0.1, 1.1, float("nan")])
def test_what_is_lost_is_a_part(lost):
    with pytest.raises(SchemaError, match="bound took"):
        Geometry(columns={}, lost=lost)


def test_a_scale_far_too_small_for_the_bounds_is_refused(ledger, monkeypatch):
    """Squares of such rows would be infinite, and only some rows are so long."""
    monkeypatch.setattr(CountNoise, "draw", None)
    geometry = Geometry(columns={"height": Scale(center=170.0, scale=1e-100)})
    terms = {"schema": SCHEMA, "budget": COMING, "geometry": geometry}
    with pytest.raises(SchemaError, match="too small for"):
        dpcov.release(TABLE, **terms, ledger=ledger, dataset="people")
    assert ledger.entries("people") == ()


@pytest.mark.parametrize("door", ["object", "file"])
def test_a_release_in_a_geometry_that_was_seeded_says_that_it_is_not_private(tmp_path, door):
    path = tmp_path / "geometry.toml"
    found = dpcov.survey(
        TABLE, schema=SCHEMA, budget=BUDGET, coming=COMING, entropy=SeededEntropy(1), output=path
    )
    geometry = found if door == "object" else path
    assert found.seeded
    assert Geometry.from_toml(path) == found
    assert not dpcov.release(TABLE, schema=SCHEMA, budget=COMING, geometry=geometry).is_private
    private = dpcov.survey(TABLE, schema=SCHEMA, budget=BUDGET, coming=COMING)
    assert not private.seeded
    assert dpcov.release(TABLE, schema=SCHEMA, budget=COMING, geometry=private).is_private


@pytest.mark.parametrize("changed", ["region", "share", "height"])
def test_a_table_that_changes_between_questions_ends_the_release(changed):
    """Its groups and weights too, which are part of a row."""
    data, seen = TABLE.assign(share=1.0), []

    def change(rows):
        if not seen:
            data[changed] = "s" if changed == "region" else 0.5
        seen.append(rows)

    columns = {**SCHEMA.columns, "share": dpcov.Ignored(note="a weight, or nothing")}
    weights = dpcov.Weights(column="share", upper=1.0) if changed == "share" else None
    with pytest.raises(DataError, match="changed while"):
        dpcov.release(
            data,
            schema=dpcov.Schema(columns=columns, weights=weights),
            by="region" if changed == "region" else None,
            budget=Budget(rho=1),
            neighbors="add-remove-one",
            entropy=SeededEntropy(0),
            progress=change,
            threads=1,
        )


def test_a_value_that_half_of_the_rows_share_is_no_spread():
    """Dots of 1,797 written digits, of which a column has 1 to 100 % zeros.

    With rings that held the value itself, and spreads that missed half of the rows, 2 of these 8
    releases had a column with a scale of a billionth.
    """
    rows = load_digits(as_frame=True).data.sample(1_437, random_state=0)
    schema = dpcov.Schema(
        columns=dict.fromkeys(rows, dpcov.Numeric(lower=0, upper=16)), missing="never"
    )
    spreads = dict(rows.std())
    budget = Budget(epsilon=2, delta="1e-6")
    for seed in range(8):
        made = dpcov.release(rows, schema=schema, budget=budget, entropy=SeededEntropy(seed))
        for column in made.encoded_features:
            assert column.half_range > spreads[column.name] / 50

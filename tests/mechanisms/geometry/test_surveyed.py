"""A mechanism in a geometry found privately: the split of the budget, and what is released."""

import itertools
import re
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import gmean

import dpcov
from dpcov.analysis import mean_intervals
from dpcov.data.checkpoint import Checkpoint
from dpcov.data.encode import Encoder
from dpcov.data.exact.linear import ROW_BITS, LinearMap
from dpcov.data.geometry import Geometry, Scale, longest_row
from dpcov.data.vault import Key
from dpcov.errors import BudgetError, DataError, SchemaError, UsageError
from dpcov.mechanisms.adaptive import Adaptive
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.geometry import budget_split, search, surveyed
from dpcov.mechanisms.geometry.budget_split import (
    FIRST,
    LENGTHS,
    LOSSES,
    SHARE,
    SHARE_PURE,
    BudgetSplit,
    SurveyedCalibration,
    one_gaussian,
)
from dpcov.mechanisms.geometry.in_geometry import InGeometry
from dpcov.mechanisms.geometry.lengths import USUAL, error_in_bounds
from dpcov.mechanisms.geometry.losses import loss_question
from dpcov.mechanisms.geometry.survey import SurveyColumn
from dpcov.mechanisms.geometry.surveyed import Surveyed
from dpcov.mechanisms.geometry.table_facts import TableFacts
from dpcov.mechanisms.separate import Separate
from dpcov.mechanisms.stratified import Stratified
from dpcov.mechanisms.stratified_nuclear import StratifiedNuclear
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.calibrate import gaussian_delta, gaussian_noise_multiplier
from dpcov.privacy.guarantee import NEIGHBORS, ZCDP, PureDP
from dpcov.published.file.statistics import LOSS_UNITS
from tests.releases import released as released_within

RNG = np.random.default_rng(7)
N = 20_000
BUDGET = Budget(epsilon=1, delta="1e-6")


def table(n=N):
    factor = RNG.normal(size=n)
    return pd.DataFrame(
        {
            "height": 170 + 9 * (0.8 * factor + 0.6 * RNG.normal(size=n)),
            "income": np.exp(10 + 0.5 * factor + 0.5 * RNG.normal(size=n)),
            "age": np.round(40 + 12 * RNG.normal(size=n)),
            "ill": factor + RNG.normal(size=n) > 1.5,
            "region": np.array(["n", "s", "e", "w"])[RNG.integers(0, 4, n)],
        }
    )


TABLE = table()


def schema(wide=1.0, **more):
    columns = {
        "height": dpcov.Numeric(lower=175 - 75 * wide, upper=175 + 75 * wide),
        "income": dpcov.Numeric(lower=0, upper=500_000 * wide),
        "age": dpcov.Numeric(lower=50 - 70 * wide, upper=50 + 70 * wide),
        "ill": dpcov.Boolean(),
        "region": dpcov.Categorical(categories=("n", "s", "e", "w")),
    }
    return dpcov.Schema(columns=columns, **({"missing": "never"} | more))


def release(data=TABLE, wide=1.0, seed=1, **more):
    given = {"schema": schema(wide), "budget": BUDGET} | more
    return dpcov.release(data, entropy=SeededEntropy(seed), **given)


def calibrated(mechanism, budget):
    asked = Problem(n_features=9, neighbors="replace-one", n_rows=N)
    return Surveyed(mechanism, TableFacts((SurveyColumn("x"),), ())).calibrate(asked, budget)


def test_the_parts_of_a_budget_make_the_whole():
    made = calibrated(Stratified(), Budget(rho="0.5"))
    assert made.survey.rho + made.inner.promise.rho == Fraction(1, 2)
    assert made.survey.rho == SHARE / 2
    assert made.promise == Budget(rho="0.5").promise
    made = calibrated(StratifiedNuclear(), Budget(epsilon=2))
    assert made.survey.epsilon + made.inner.promise.epsilon == 2
    assert made.survey.epsilon == 2 * SHARE_PURE
    assert (made.noise_multiplier, made.inner.noise_multiplier) == (None, None)


def test_gaussian_parts_compose_to_one_gaussian_mechanism():
    made = calibrated(Stratified(), BUDGET)
    whole = gaussian_noise_multiplier(BUDGET.epsilon, BUDGET.delta)
    assert gaussian_delta(made.noise_multiplier, BUDGET.epsilon) <= BUDGET.delta
    assert float(made.noise_multiplier / whole) == pytest.approx(1, rel=1e-9)
    together = 2 * made.survey.rho + 1 / made.inner.noise_multiplier**2
    assert 1 / made.noise_multiplier**2 >= together


def test_other_mechanisms_are_split_in_zcdp():
    made = calibrated(Adaptive(), BUDGET)
    assert made.survey.rho + made.inner.promise.rho == BUDGET.zcdp_rho()
    assert made.noise_multiplier is None


@pytest.mark.parametrize(
    ("neighbors", "budget"),
    [
        ("replace-one", BUDGET),
        ("add-remove-one", BUDGET),
        ("replace-one", Budget(rho="0.03")),
        ("replace-one", Budget(epsilon=2)),
    ],
)
def test_bounds_a_thousand_times_too_wide_cost_little(neighbors, budget):
    truth = TABLE[["height", "income", "age"]].corr().to_numpy()
    errors = {
        wide: np.mean(
            [
                np.abs(made.correlation_matrix()[:3, :3] - truth).max()
                for seed in range(3)
                for made in [release(wide=wide, seed=seed, neighbors=neighbors, budget=budget)]
            ]
        )
        for wide in (1.0, 1000.0)
    }
    assert errors[1.0] < 0.2
    assert errors[1000.0] < 0.3


def test_the_release_states_its_geometry(tmp_path):
    made = release()
    columns = {column.name: column for column in made.manifest.columns}
    assert columns["height"].center == pytest.approx(170, abs=5)
    assert columns["height"].half_range == pytest.approx(9, rel=0.6)
    assert columns["height"].bounds == (100, 250)
    assert columns["region=n"].half_range == pytest.approx(0.43, rel=0.2)
    assert columns["ill"].center == pytest.approx(TABLE["ill"].mean(), abs=0.05)
    notes = made.manifest.statistics.notes
    assert "found with" in notes[-2] and "columns lost was found with" in notes[-1]
    # What a part cost is not on top of the guarantee.
    told = [note for note in notes if "found with" in note]
    assert all(note.endswith(" % of the budget") for note in told)
    # A part says how much it is of the whole, which is of another kind.
    parts = [float(part) for note in told for part in re.findall(r"([\d.]+) % of the budget", note)]
    costs = [float(rho) for note in told for rho in re.findall(r"\(([\d.e-]+)\)-zCDP", note)]
    assert len(parts) == len(costs) and 5 < sum(parts) < 50
    whole = one_gaussian(made.guarantee.promise).rho
    assert [100 * cost / float(whole) for cost in costs] == pytest.approx(parts, rel=0.06)
    assert made.manifest.mechanism.name == "stratified"
    assert str(made.guarantee.promise) == "(1, 1e-6)-DP"
    assert made.mean_vector()[0] == pytest.approx(TABLE["height"].mean(), abs=2)
    made.save(tmp_path / "r.dpcov")
    assert dpcov.Release.load(tmp_path / "r.dpcov").manifest.columns == made.manifest.columns


def lengths_of(made):
    """Squared lengths of the mapped rows, without the intercept, before they are scaled down."""
    columns = {column.name: column for column in made.manifest.columns}
    numbers = {name: TABLE[name] for name in ("height", "income", "age", "ill")}
    levels = {f"region={level}": TABLE["region"] == level for level in "nsew"}
    scaled = [
        (values - columns[name].center) / columns[name].half_range
        for name, values in {**numbers, **levels}.items()
    ]
    linear = made.statistics.arrays["linear"] * 2.0**made.statistics.linear_exponent
    return np.sum((np.column_stack([np.ones(N), *scaled]) @ linear.T) ** 2, axis=1)


@pytest.mark.parametrize("epsilon", [1, 4])
def test_what_scaling_down_takes_is_stated(epsilon):
    made = release(budget=Budget(epsilon=epsilon, delta="1e-6"))
    squares, bound = lengths_of(made), made.manifest.norm_bound**2 - 1
    lost = np.maximum(squares - bound, 0).sum() / squares.sum()
    assert 0 < np.mean(squares > bound) < 0.5
    assert lost / 2 < made.statistics.lost < 2 * lost + 0.1


def test_with_a_large_budget_nothing_is_lost():
    made = release(budget=Budget(rho=1000))
    assert made.statistics.lost < 5e-3
    np.testing.assert_allclose(
        made.covariance_matrix()[:4, :4],
        TABLE[["height", "income", "age", "ill"]].cov(ddof=0),
        rtol=0.02,
        atol=200,
    )


def test_rows_too_few_for_a_survey_keep_the_bounds():
    small, how = table(300), {"budget": Budget(epsilon=1, delta="1e-6")}
    made, plain = release(small, **how), release(small, geometry="schema", **how)
    assert made.manifest.columns == plain.manifest.columns
    assert made.covariance_matrix().tolist() == plain.covariance_matrix().tolist()
    assert made.guarantee == plain.guarantee


@pytest.mark.parametrize("budget", [BUDGET, Budget(epsilon=4)])
@pytest.mark.parametrize("factor", [1, 50])
def test_bounds_stay_where_correlations_err_far_less_in_them(budget, factor):
    """Rows of zeros and ones are all as long in their bounds, and none loses anything."""
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(5_000, 2)) @ rng.normal(size=(2, 8)) + rng.normal(size=(5_000, 8))
    rows, truth = (normal > 0) * 1.0, np.corrcoef(normal.T > 0)
    lower, upper = (1 - factor) / 2, (1 + factor) / 2
    options, fit = {"budget": budget, "geometry": "private"}, factor == 1
    made = released_within(rows, lower, upper, 1, **options)
    assert fit == (made.manifest.norm_bound == pytest.approx(3.0) and made.statistics.lost == 0)
    assert fit == any("bounds fit better" in note for note in made.statistics.notes)
    # Nothing was asked of what rows lose.
    assert fit == (made.statistics.losses is None)

    def error(geometry):
        made = [released_within(rows, lower, upper, k, **options | geometry) for k in range(4)]
        return np.linalg.norm([each.correlation_matrix() - truth for each in made])

    # A third of the budget found that out: of pure epsilon it takes two thirds more, ± 0.3.
    assert error({}) < (3 if fit else 1) * error({"geometry": "schema"})


def test_a_release_that_keeps_its_bounds_has_the_geometry_of_the_schema():
    rows = RNG.normal(size=(5_000, 1)) + RNG.normal(size=(5_000, 6)) > 0
    frame = pd.DataFrame(rows * 1.0).add_prefix("x")
    kinds = {name: dpcov.Numeric(lower=0, upper=1) for name in frame}
    kinds["region"] = dpcov.Categorical(categories=("n", "s"))
    declared = dpcov.Schema(columns=kinds, missing="never")
    frame["region"] = np.where(RNG.random(5_000) < 0.5, "n", "s")

    def made(**more):
        entropy, budget = SeededEntropy(1), Budget(epsilon=2, delta="1e-6")
        given = {"schema": declared, "budget": budget, "entropy": entropy, "by": "region"}
        return dpcov.release(frame, **given, **more)

    kept, plain = made(), made(geometry="schema")
    assert any("bounds fit better" in note for note in kept.statistics.notes)
    assert kept.manifest.norm_bound == plain.manifest.norm_bound
    # They can be nested, as --geometry FIRST is refused with the advice to say schema.
    assert kept.nest(plain, {})[0].keys() == set(kept.group_names)


@pytest.mark.parametrize("budget", [BUDGET, Budget(epsilon=4)])
def test_bounds_are_not_kept_where_no_lengths_show(budget, monkeypatch):
    """How many rows there are is not known then, so that errors cannot be compared."""
    monkeypatch.setattr("dpcov.mechanisms.geometry.lengths.last_ring", lambda *given: None)
    made = release(budget=budget, neighbors="add-remove-one")
    *_, mapped, losses = made.statistics.notes
    assert "takes correlations out was found" in mapped and "columns lost" in losses
    # Of eight features, four of them levels, beside an intercept of one.
    assert made.manifest.norm_bound**2 == pytest.approx(1 + USUAL * 8 / (1 + 4 / 16))


def test_the_error_in_bounds_is_that_of_noise_over_two_deviations():
    columns = schema().encoded_columns
    values = [column for column in columns if column.kind != "intercept"]
    deviations = np.linspace(0.1, 0.5, len(values))
    ratios = [
        3.0 * longest_row(columns) ** 2 / 1_000 / (deviations[i] * deviations[j])
        for i, j in itertools.combinations(range(len(values)), 2)
        if values[i].source != values[j].source
    ]
    found = error_in_bounds(columns, deviations, 1_000, 3.0)
    assert found == pytest.approx(np.mean(np.square(ratios)))


def test_what_costs_nothing_is_not_surveyed():
    assert release(mechanism="zero").guarantee.promise == PureDP(epsilon=Fraction(0))


def test_all_engines_find_the_same_geometry(tmp_path):
    small = table(2_000)
    made = release(small)
    arrow = pa.Table.from_pandas(small, preserve_index=False)
    pq.write_table(arrow, tmp_path / "t.parquet", row_group_size=500)
    others = {"local": tmp_path / "t.parquet", "dask": str(tmp_path / "t.parquet")}
    assert release(arrow.to_reader()).second_moment().tolist() == made.second_moment().tolist()
    for engine, data in others.items():
        other = release(data, engine=engine)
        assert other.manifest.columns == made.manifest.columns
        assert other.second_moment().tolist() == made.second_moment().tolist()


def test_a_known_geometry_costs_nothing(tmp_path):
    known = Geometry(columns={"height": Scale(center=170, scale=9)})
    known.save(tmp_path / "geometry.toml")
    # As some editors save it.
    marked = b"\xef\xbb\xbf" + (tmp_path / "geometry.toml").read_bytes()
    (tmp_path / "marked.toml").write_bytes(marked)
    for geometry in (known, tmp_path / "geometry.toml", tmp_path / "marked.toml"):
        made = release(geometry=geometry)
        assert made.manifest.columns[1].half_range == 9
        assert made.manifest.columns[2].half_range == 250_000


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"geometry": Geometry(columns={"x": Scale(center=0, scale=1)})}, "schema lacks"),
        (
            {"geometry": Geometry(columns={"height": Scale(center=999, scale=9)})},
            "its center, 999.*ignore",
        ),
        ({"geometry": "absent.toml"}, "absent.toml' cannot be read: no such file or directory"),
        ({"geometry": "."}, "cannot be read"),
        ({"geometry": 3}, "geometry must be"),
        ({"geometry": Geometry(columns={}), "schema": schema(norm_bound=1.2)}, "norm bound"),
    ],
)
def test_what_does_not_fit_is_refused(more, words):
    with pytest.raises((UsageError, SchemaError), match=words):
        release(**more)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"norm_bound = {'9' * 5000}", r"geometry\.toml.*nested too deeply"),
        (f"norm_bound = {'[' * 5000}", r"geometry\.toml.*nested too deeply"),
        ("[columns.x]\ncenter = 0\nscale = '9'\n", r"Expected `float`, got `str` - at `\$.col"),
        # Tables in the place of a geometry, of which no word is told.
        *(
            (text, "not TOML")
            for text in ("\N{BELL},5\n", "name,sick\nlee,1\n", "lee = 1\nlee = 2\n")
        ),
    ],
    ids=["long", "deep", "text", "bell", "rows", "twice"],
)
def test_a_file_that_holds_no_geometry_is_refused(text, words, tmp_path):
    (tmp_path / "geometry.toml").write_text(text)
    with pytest.raises(SchemaError, match=words) as refused:
        Geometry.from_toml(tmp_path / "geometry.toml")
    assert not any(word in str(refused.value) for word in ("lee", "BELL", "x07", "sick"))


UNIT = {"x": Scale(center=0, scale=1)}
NO_NUMBER = (float("nan"), float("inf"), float("-inf"), "0")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        *(({"columns": {"x": Scale(0, scale)}}, "scale") for scale in (0.0, -1.0, *NO_NUMBER)),
        *(
            ({"columns": {"x": Scale(center, 1)}}, "center of 'x' must be a")
            for center in NO_NUMBER
        ),
        *(({"norm_bound": bound}, "larger than its intercept") for bound in (0.5, 1.0, 1e151)),
        ({"norm_bound": float("inf")}, "must be a number"),
        # Such a release was refused after the charge.
        *(({"lost": lost}, "less than 1|must be a") for lost in (-0.1, 1.0, float("nan"))),
    ],
)
def test_a_geometry_that_no_release_can_have_is_refused(wrong, words):
    with pytest.raises(SchemaError, match=words):
        Geometry(**{"columns": UNIT, "norm_bound": 2.0} | wrong)


def test_a_map_of_another_shape_is_refused():
    """Of four features beside an intercept."""
    known = Geometry(columns={}, linear=LinearMap.nearest(np.eye(4)), norm_bound=2.0)
    with pytest.raises(SchemaError, match="is 4 by 5 numbers"):
        released_within(RNG.normal(size=(9, 4)), -1, 1, geometry=known)


def test_without_an_intercept_a_geometry_keeps_the_middles_of_the_bounds():
    schema = dpcov.Schema(columns={"a": dpcov.Numeric(lower=-9, upper=9)}, intercept=False)
    other = Geometry(columns={"a": Scale(center=1, scale=2)})
    with pytest.raises(SchemaError, match="must be the middle of the bounds, 0"):
        dpcov.release(pd.DataFrame({"a": [1.0]}), schema=schema, budget=BUDGET, geometry=other)


def test_without_an_intercept_a_survey_keeps_the_middles_of_the_bounds():
    """Its scales are the spreads around them: half of the bounds for yes or no."""
    made = release(schema=schema(intercept=False), budget=Budget(rho=5))
    height, _, _, ill, *levels = made.manifest.columns
    assert (height.center, ill.center, ill.half_range) == (175, 0.5, 0.5)
    assert height.half_range == pytest.approx(np.sqrt(9**2 + 5**2), rel=0.3)
    assert [level.half_range for level in levels] == pytest.approx([0.43] * 4, rel=0.1)
    away = {"height": (TABLE["height"] - 175) / height.half_range, "ill": TABLE["ill"] * 2.0 - 1}
    found = made.second_moment()
    assert found[0, 0] == pytest.approx(np.mean(away["height"] ** 2), rel=0.05)
    assert found[0, 3] == pytest.approx(np.mean(away["height"] * away["ill"]), abs=0.05)


def test_a_geometry_takes_numbers_of_numpy():
    known = Scale(center=np.float32(170), scale=np.int64(9))
    made = release(geometry=Geometry(columns={"height": known}, norm_bound=np.float64(3)))
    assert made.manifest.columns[1].half_range == 9


def test_what_has_its_own_geometry_keeps_it():
    saved = dpcov.checkpoint(TABLE, schema=schema(), budget=BUDGET)
    bounded = schema(norm_bound=1.2)
    for made in (release(saved), release(schema=bounded)):
        assert made.manifest.columns[1].half_range == 75


@pytest.mark.parametrize("changed", ["age", "weight", "group"])
def test_a_table_that_changes_after_the_survey_ends_the_release(changed, monkeypatch):
    changing = table(2_000).assign(weight=0.5, group=True)
    declared = schema(weights=dpcov.Weights(column="weight", upper=1))
    columns = declared.columns | {"weight": dpcov.Ignored(), "group": dpcov.Boolean()}
    declared = msgspec.structs.replace(declared, columns=columns)
    apply, rows = Geometry.apply, itertools.count()

    def changes(self, columns):
        changing.loc[next(rows), changed] = {"age": 0, "weight": 0.25, "group": False}[changed]
        return apply(self, columns)

    monkeypatch.setattr(Geometry, "apply", changes)
    with pytest.raises(DataError, match="changed"):
        release(changing, schema=declared, by="group")


def test_rows_that_are_scaled_down_keep_their_intercept():
    short = Geometry(columns={"height": Scale(center=150, scale=9)}, norm_bound=2.0)
    for more in ({}, {"geometry": short}, {"neighbors": "add-remove-one"}):
        made = release(budget=Budget(rho=10), **more)
        assert made.manifest.intercept_is_public
        rows = made.second_moment("none")[0, 0] * made.n_rows
        assert rows == pytest.approx(N, rel=0.01)


def test_a_group_has_the_number_of_its_rows_for_an_intercept():
    made = release(by="region", budget=BUDGET)
    for name in "nsew":
        part = made.group(name)
        truth = TABLE[TABLE["region"] == name]
        assert part.n_rows == pytest.approx(len(truth), abs=300)
        assert part.mean_vector()[0] == pytest.approx(truth["height"].mean(), abs=3)
        table = mean_intervals(part, ["height"], sampling=False, level=0.999)
        assert table.lower[0] < truth["height"].mean() < table.upper[0]


def test_a_cost_that_cannot_be_drawn_is_refused_before_the_charge():
    with pytest.raises(BudgetError, match="noise hides every table"):
        calibrated(Separate(), Budget(rho="1e-32"))


@pytest.mark.parametrize(
    ("intercept", "rho", "refused"),
    [
        (True, "1e-20", False),
        (True, "1e-21", True),
        (False, "1e-24", False),
        (False, "1e-25", True),
    ],
)
def test_noise_that_cannot_be_drawn_is_refused_before_the_charge(intercept, rho, refused):
    """Of losses, which need most, or of rings where an intercept is missing, and so are losses."""
    declared = schema(intercept=intercept)
    mechanism = Surveyed.of(Separate(), declared, Encoder(declared))
    asked = Problem(n_features=9, neighbors="add-remove-one")
    with pytest.raises(BudgetError, match="noise hides every table") if refused else nullcontext():
        mechanism.calibrate(asked, Budget(rho=rho))


@pytest.mark.parametrize(("rho", "drawn"), [("3e-10", False), ("2e-9", False), ("1e-8", True)])
def test_a_first_matrix_is_left_out_where_its_noise_cannot_be_drawn(rho, drawn):
    """The rest of the budget may be drawn all the same."""
    declared = schema()
    asked = Problem(n_features=9, neighbors="add-remove-one")
    budget = Budget(rho=rho)
    made = Surveyed.of(Gaussian(), declared, Encoder(declared)).calibrate(asked, budget)
    assert (made.first is not None) == drawn
    costs = [made.survey.rho, made.losses.rho, made.inner.promise.rho]
    assert sum(costs) + (made.first.promise.rho if drawn else 0) == budget.rho


@pytest.mark.parametrize(
    ("inner", "budget", "n_groups"),
    [
        (Stratified(), Budget(rho=1), 2),
        (Stratified(), Budget(epsilon=2, delta="1e-6"), 2),
        (StratifiedNuclear(), Budget(epsilon=2), 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_matrices_for_a_map_have_noise_for_all_rows_of_a_person(neighbors, inner, budget, n_groups):
    facts = TableFacts((SurveyColumn("x"), SurveyColumn("y")), ())
    stds = []
    for k in (1, 3):
        asked = Problem(n_features=3, neighbors=neighbors, rows_per_person=k, n_groups=n_groups)
        made = BudgetSplit(inner=inner, table=facts).split(asked, budget, SHARE, FIRST)
        found = [made.first] if made.again is None else [made.first, made.again]
        stds.append([getattr(each, "scale", 0) or each.diagonal_variance**0.5 for each in found])
    assert stds[1] == pytest.approx([3 * std for std in stds[0]])


@pytest.mark.parametrize(("n", "drawn"), [(700, False), (2_000, True)])
def test_a_first_matrix_is_drawn_where_it_shows_something(n, drawn):
    """Of sixty columns its noise has eigenvalues above theirs where rows are few."""
    column = dpcov.Numeric(lower=-1, upper=1)
    declared = dpcov.Schema(columns={f"x{i}": column for i in range(60)}, missing="never")
    asked = Problem(n_features=61, neighbors="replace-one", n_rows=n)
    inside = Surveyed.of(Gaussian(), declared, Encoder(declared))
    made = inside.calibrate(asked, Budget(rho="0.5"))
    assert (made.first is not None) == drawn


@pytest.mark.parametrize(("rho", "drawn"), [("1e-21", False), ("1e-20", True)])
def test_lengths_and_losses_are_not_asked_where_their_noise_cannot_be_drawn(rho, drawn):
    declared = schema()
    inside = Surveyed.of(Separate(), declared, Encoder(declared))
    known = Geometry(columns={"height": Scale(center=170, scale=9)})
    asked = Problem(n_features=9, neighbors="add-remove-one")
    made = InGeometry(inside, known).calibrate(asked, Budget(rho=rho))
    assert isinstance(made, SurveyedCalibration) == drawn
    assert not drawn or (made.losses is not None and made.inner.promise != made.promise)
    # Nor where no row is scaled down.
    wide = msgspec.structs.replace(known, norm_bound=100.0)
    whole = InGeometry(inside, wide).calibrate(asked, Budget(rho=rho))
    assert not isinstance(whole, SurveyedCalibration)


def test_a_split_that_would_spend_more_than_delta_is_refused_before_the_charge(monkeypatch):
    """As if the multiplier of the whole had been rounded down."""
    assert isinstance(calibrated(Gaussian(), BUDGET), SurveyedCalibration)
    less = gaussian_noise_multiplier(BUDGET.epsilon, BUDGET.delta) * (1 - Fraction(1, 10**9))
    monkeypatch.setattr(budget_split, "gaussian_noise_multiplier", lambda *_: less)
    with pytest.raises(BudgetError, match="cannot be split"):
        calibrated(Gaussian(), BUDGET)


def test_a_bound_beyond_all_lengths_that_are_told_apart_is_kept():
    """Nothing of the losses was expected, which must not fail: the budget is charged by then."""
    units = {f"x{place}": Scale(center=0.0, scale=1e-4) for place in range(2)}
    known = Geometry(columns=units, norm_bound=1000.0)
    made = released_within(RNG.normal(size=(2_000, 2)) * 1e-4, -1, 1, geometry=known)
    assert (made.manifest.norm_bound, made.statistics.lost) == (1000, 0)
    assert made.statistics.losses.counted == 1


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("budget", [Budget(rho="0.5"), BUDGET], ids=str)
@pytest.mark.parametrize("mechanism", [Gaussian(), Stratified()], ids=lambda each: each.name)
def test_the_stated_multiplier_counts_whatever_is_drawn(mechanism, budget, width):
    """Exactly: a ledger adds up what it says.  One column has no first matrix, but losses."""
    column = dpcov.Numeric(lower=-1, upper=1)
    declared = dpcov.Schema(columns={f"x{i}": column for i in range(width)}, missing="never")
    asked = Problem(n_features=1 + width, neighbors="replace-one", n_rows=N)
    inside = Surveyed.of(mechanism, declared, Encoder(declared))
    made = inside.calibrate(asked, budget)
    first = 0 if width == 1 else made.first.promise.rho
    assert (made.first is None) == (width == 1)
    for number, inner in enumerate((made.inner, *made.rests)):
        again = number * made.again.promise.rho if number else 0
        beside = made.survey.rho + made.losses.rho + first + again
        whole = 1 / inner.noise_multiplier**2 + 2 * beside
        assert 1 / made.noise_multiplier**2 >= whole
        assert 1 / made.noise_multiplier**2 < whole * (1 + Fraction(1, 10**6))


@pytest.fixture
def asked_of(monkeypatch):
    """What was given to functions of a survey by name, and what they returned."""
    asked = {}

    def recorded(module, name):
        plain = getattr(module, name)

        def called(*given, **named):
            made = plain(*given, **named)
            asked.setdefault(name, []).append((given, made))
            return made

        monkeypatch.setattr(module, name, called)

    recorded(search, "find_lengths")
    recorded(search, "spread_out")
    recorded(surveyed, "loss_question")
    return asked


@pytest.mark.parametrize("mapped", [True, False])
def test_the_limit_of_losses_is_in_encoded_units(asked_of, mapped):
    """Lengths are those of features before these are mapped, or divided by the unit."""
    rows = pd.DataFrame({"x": RNG.exponential(size=N)})
    rows["y"] = rows["x"] + 0.2 * RNG.normal(size=N)
    columns = {name: dpcov.Numeric(lower=-50, upper=50) for name in rows}
    rows["w"] = RNG.uniform(size=N)
    if not mapped:
        del columns["y"]
    columns["w"] = dpcov.Ignored()
    weights = dpcov.Weights(column="w", upper=1)
    declared = dpcov.Schema(columns=columns, weights=weights, missing="never")
    made = release(rows[[*columns]], schema=declared)
    # Those of an earlier map may be asked, too.
    limits = np.array([lengths.limit for _, lengths in asked_of["find_lengths"]])
    ((_, question),) = asked_of["loss_question"]
    assert ("linear" in made.statistics.arrays) == mapped
    factor = asked_of["spread_out"][0][1] if mapped else 1 / (1 + 1 / 8)
    assert np.isclose(question.limit, limits * factor, rtol=1e-12).any()
    assert question.limit not in limits
    assert made.statistics.losses.unit == question.limit / LOSS_UNITS


def test_rows_lose_around_what_the_map_takes_to_zero():
    mixed, middles = np.array([[2.0, 0.5], [-0.25, 1.0]]), np.array([0.375, -0.5])
    numbers = np.column_stack([-mixed @ middles, mixed])
    geometry = Geometry(columns={}, linear=LinearMap.nearest(numbers), norm_bound=2.0)
    columns = Encoder(schema(missing="never")).columns[:3]
    for limit, kept in ((0.0, 1e-100), (3.0, 3.0), (float("inf"), 1e100)):
        asked = loss_question(geometry, columns, ZCDP(rho=Fraction(1)), limit)
        assert asked.middles == pytest.approx(tuple(middles), abs=1e-6)
        assert asked.limit == kept


def test_mapped_rows_are_no_longer_than_products_are_exact_for(monkeypatch):
    """With their intercept, whatever their cells hold."""
    mapped, found = LinearMap.apply_scaled, []

    def recorded(self, rows, places, factor, out):
        found.append((np.trunc(rows) ** 2).sum(axis=1).max())
        return mapped(self, rows, places, factor, out)

    monkeypatch.setattr(LinearMap, "apply_scaled", recorded)
    tiny = {f"x{place}": Scale(center=0.0, scale=1e-6) for place in range(4)}
    known = Geometry(columns=tiny, linear=LinearMap.nearest(np.eye(4, 5, 1)), norm_bound=3.0)
    released_within(RNG.uniform(-1, 1, size=(500, 4)), -1, 1, geometry=known)
    assert 0.99 * 4**ROW_BITS < max(found) <= 4**ROW_BITS


def test_losses_of_every_group_have_all_of_the_noise(asked_of):
    """Where each has a part of the rows: lengths are chosen for that."""
    stds = []
    for more in ({}, {"by": "region"}):
        release(**more)
        given, _ = asked_of["find_lengths"][-1]
        stds.append(given[5].loss_std)
    plain, grouped = stds
    assert grouped > 4 * plain


def test_a_center_beyond_the_bounds_is_moved_to_them(monkeypatch):
    """A geometry with such a one would be refused, and the budget is charged by then."""
    survey = search.survey

    def far(*given):
        height, *others = survey(*given)
        return [[replace(height[0], center=1.5)], *others]

    monkeypatch.setattr(search, "survey", far)
    assert release().manifest.columns[1].center == 250


def test_the_geometry_of_an_earlier_release_serves_elsewhere(tmp_path):
    """Next year's table, or moments of several sites, in the same geometry."""
    first, other = release(), table()
    first.save(tmp_path / "first.dpcov")
    again = release(other, seed=2, geometry=tmp_path / "first.dpcov")
    assert again.manifest.columns == first.manifest.columns
    assert again.manifest.norm_bound == first.manifest.norm_bound
    of_itself = release(other, seed=2, geometry=first)
    assert np.array_equal(of_itself.covariance_matrix(), again.covariance_matrix())
    assert not any("centers" in note for note in again.statistics.notes)
    terms = {"schema": schema(), "budget": BUDGET, "geometry": tmp_path / "first.dpcov"}
    sites = [dpcov.checkpoint(rows, **terms) for rows in (TABLE[:9_000], TABLE[9_000:])]
    key = Key(bytes(32))
    sites[0].save(tmp_path / "site", key)
    merged = Checkpoint.load(tmp_path / "site", key).merge(sites[1])
    whole = release(dpcov.checkpoint(TABLE, **terms))
    assert release(merged).covariance_matrix().tolist() == whole.covariance_matrix().tolist()
    with pytest.raises(UsageError, match="geometry"):
        release(merged, geometry="schema")
    with pytest.raises(DataError, match="geometries"):
        merged.merge(dpcov.checkpoint(TABLE, schema=schema(), budget=BUDGET))
    release(geometry="schema").save(tmp_path / "plain.dpcov")
    with pytest.raises(SchemaError, match="of its bounds"):
        release(geometry=tmp_path / "plain.dpcov")


def test_a_map_that_makes_few_rows_far_too_long_is_not_kept(monkeypatch):
    """A sum asks for further matrices, which stretch what a few rows alone have."""
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, 200_000))
    few = 4 * (rng.random(200_000) < 0.0005)
    rows = np.column_stack([a, b, a + b, c, c + 0.003 * rng.normal(size=200_000) - few])

    def made():
        budget = Budget(epsilon=4, delta="1e-6")
        return [released_within(rows, -20, 20, seed, budget=budget) for seed in range(4)]

    def errors(releases):
        truth = np.corrcoef(rows.T)
        return [np.sqrt(np.mean((x.correlation_matrix() - truth) ** 2)) for x in releases]

    def kept(release):
        return "the first of these maps, which is kept" in release.statistics.notes[-2]

    found = made()
    monkeypatch.setattr(search, "_FAR_BETTER", 0.0)
    before = made()
    assert sum(map(kept, found)) >= 2
    assert not any(map(kept, before))
    assert gmean(errors(found)) < 0.7 * gmean(errors(before))
    assert all(x.statistics.lost < 0.1 for x in found if kept(x))


def test_columns_and_lengths_together_cost_what_the_survey_may(counts_drawn):
    """Seen at the noise itself: what a release draws for its counts adds up to a tenth at most."""
    release(budget=Budget(rho="0.5"), wide=1000.0)
    drawn = [cost.rho for cost, *_ in counts_drawn]
    assert drawn.pop() == LOSSES / 2
    assert SHARE / 4 < sum(drawn) <= SHARE / 2
    # The survey saw the columns, so that no look at lengths comes before the first matrix.
    assert LENGTHS * SHARE / 2 in drawn


@pytest.mark.parametrize(
    "budget", [Budget(epsilon=1), Budget(rho="0.5"), Budget(epsilon=1, delta="1e-6")], ids=str
)
def test_lengths_in_a_public_geometry_and_losses_are_paid(budget, counts_drawn, monkeypatch):
    """Seen at the noise itself: all that is drawn for counts is taken off what the matrix costs."""
    calibrate, made = InGeometry.calibrate, []

    def calibrated_once(self, problem, budget):
        made.append(calibrate(self, problem, budget))
        return made[-1]

    monkeypatch.setattr(InGeometry, "calibrate", calibrated_once)
    release(geometry=Geometry(columns={"height": Scale(center=170, scale=9)}), budget=budget)
    parts = made[-1]
    assert [cost for cost, *_ in counts_drawn] == [parts.survey, parts.losses]
    amount = (lambda cost: cost.epsilon) if budget.delta is None and budget.epsilon else None
    amount = amount or (lambda cost: cost.rho)
    whole = amount(one_gaussian(budget.promise))
    inner = parts.inner.promise
    assert amount(parts.survey) + amount(parts.losses) + amount(inner) == whole
    if budget.delta is not None:
        assert gaussian_delta(parts.noise_multiplier, budget.epsilon) <= budget.delta
        assert parts.noise_multiplier < parts.inner.noise_multiplier


@pytest.mark.parametrize("bound", [None, np.sqrt(2.0), 9.0])
def test_where_no_row_can_be_long_nothing_is_lost(bound):
    """Public, by the bounds: noise on losses that are zero would be given back."""
    rows = RNG.uniform(size=(N, 1))
    made = released_within(rows, 0, 1, 1, geometry=Geometry(columns={}, norm_bound=bound))
    assert made.statistics.losses is None and made.statistics.lost == 0


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("budget", [BUDGET, Budget(epsilon=4)])
def test_where_a_survey_leaves_no_row_too_long_nothing_is_lost(budget, intercept):
    """No matter how much of the lengths noise hides: the bounds say that no row is so long."""
    rows, declared = pd.DataFrame({"x": np.arange(300) % 2.0}), dpcov.Numeric(lower=0, upper=1)
    options = {
        "schema": dpcov.Schema(columns={"x": declared}, missing="never", intercept=intercept),
        "neighbors": "add-remove-one",
        "entropy": SeededEntropy(1),
    }
    made = dpcov.release(rows, budget=budget, **options)
    assert made.manifest.norm_bound >= longest_row(made.manifest.columns) * (1 - 1e-9)
    assert any("were found" in note for note in made.statistics.notes)
    assert made.statistics.losses is None and made.statistics.lost == 0
    found = dpcov.survey(rows, budget=budget, coming=budget, **options)
    assert found.norm_bound and found.lost == 0
    # Nor where an earlier file says so.
    earlier = msgspec.structs.replace(found, lost=0.1)
    again = dpcov.release(rows, budget=budget, geometry=earlier, **options)
    assert again.statistics.lost == 0


def test_few_rows_of_many_columns_show_how_they_go_together():
    """No column shows by itself; zeros for all correlations have an error of one by definition."""
    rng, count = np.random.default_rng(3), 60
    rows = rng.normal(size=(2_000, 3)) @ rng.normal(size=(3, count))
    rows += 0.7 * rng.normal(size=rows.shape) + rng.normal(scale=5, size=count)
    made = released_within(rows, -20, 20, 4, neighbors="add-remove-one")
    truth, pairs = np.corrcoef(rows.T), np.triu_indices(count, 1)
    error = (made.correlation_matrix() - truth)[pairs]
    assert np.linalg.norm(error) < 0.7 * np.linalg.norm(truth[pairs])


def test_long_rows_of_two_factors_are_not_scaled_down_for_noise_that_is_not_there():
    """One row of ten is far out where two factors differ: scaled down, these seem to be one."""
    errors = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        factors = rng.normal(size=(6_000, 2))
        factors[:600] = [4, -4] + 0.5 * factors[:600]
        rows = factors.repeat(6, axis=1) + 0.4 * rng.normal(size=(6_000, 12))
        made = released_within(rows, -20, 20, seed)
        errors.append(made.correlation_matrix() - np.corrcoef(rows.T))
    assert np.sqrt(np.mean(np.square(errors))) < 0.08


@pytest.mark.parametrize(
    "budget", [Budget(epsilon=1), Budget(epsilon="0.5", delta="1e-6")], ids=["pure", "approximate"]
)
def test_a_survey_pays_for_few_rows(budget):
    rng, count = np.random.default_rng(4), 6
    errors = {"private": [], "schema": []}
    for seed in range(8):
        rows = rng.normal(size=(1_600, 2)) @ rng.normal(size=(2, count))
        rows += rng.normal(size=rows.shape) + rng.normal(size=count)
        for geometry, found in errors.items():
            made = released_within(rows, -30, 30, seed, budget=budget, geometry=geometry)
            found.append(np.linalg.norm(made.correlation_matrix() - np.corrcoef(rows.T)))
    assert np.mean(errors["private"]) < 0.7 * np.mean(errors["schema"])


def alike(seed=5, by=0.03):
    """Two of four columns nearly agree: their difference has a spread of ``by``."""
    rows = np.random.default_rng(seed).normal(size=(N, 4))
    rows[:, 1] = rows[:, 0] + by * rows[:, 1]
    return rows


@pytest.mark.parametrize("budget", [Budget(rho="0.5"), Budget(epsilon=4, delta="1e-6")], ids=str)
def test_more_matrices_are_taken_off_what_the_last_one_costs(budget, monkeypatch):
    drawn, parts = [], []
    calibrate = Surveyed.calibrate

    def calibrated(self, problem, budget):
        parts.append(calibrate(self, problem, budget))
        return parts[-1]

    monkeypatch.setattr(Surveyed, "calibrate", calibrated)
    for mechanism in (Gaussian, Stratified):

        def draw(self, ask, calibration, problem, entropy, plain=mechanism.draw):
            drawn.append(calibration.promise)
            return plain(self, ask, calibration, problem, entropy)

        monkeypatch.setattr(mechanism, "draw", draw)
    # Noise decides whether a first matrix hides a direction: nine times in ten here.
    for seed in range(4):
        drawn.clear()
        made = released_within(alike(by=0.003), -30, 30, seed, budget=budget)
        if any(", then (" in note for note in made.statistics.notes):
            break
    part, more = parts[-1], len(drawn) - 2
    assert more > 0
    assert drawn == [part.first.promise, *more * [part.again.promise], part.rests[more - 1].promise]
    paid = [*drawn, part.survey, part.losses, one_gaussian(budget.promise)]
    *costs, whole = [each.rho for each in paid]
    assert sum(costs) == whole
    assert len({rest.promise for rest in [part.inner, *part.rests]}) == 1 + len(part.rests)
    if budget.delta is not None:
        assert gaussian_delta(part.noise_multiplier, budget.epsilon) <= budget.delta


def test_a_matrix_that_hides_the_number_of_rows_is_the_last(monkeypatch):
    plain, asked = search.whitening_map, []

    def shows_once(*given):
        asked.append(given)
        return plain(*given)._replace(goes_on=True) if len(asked) == 1 else None

    monkeypatch.setattr(search, "whitening_map", shows_once)
    made = released_within(alike(), -30, 30, 1, rho="0.5")
    assert len(asked) == 2
    assert sum(note.count(", then (") for note in made.statistics.notes) == 1


def test_more_matrices_show_smaller_differences(monkeypatch):
    """Of columns that nearly agree: coefficients follow from their difference."""
    rows = alike(by=0.003)
    difference = np.array([1, -1, 0, 0])
    errors = {0: [], 1: [], 3: []}
    for seed in range(8):
        for more, found in errors.items():
            monkeypatch.setattr(budget_split, "MOST_AGAIN", more)
            made = released_within(rows, -30, 30, seed).covariance_matrix()
            found.append(abs(difference @ made @ difference / (rows @ difference).var() - 1))
    # Errors of single releases are a hundredfold apart.
    none, one, three = (np.exp(np.mean(np.log(each))) for each in errors.values())
    assert three < one and three < 0.3 * none


@pytest.mark.parametrize(
    ("intercept", "numbers", "exponent"),
    [(False, ((2,),), -1), (True, ((0, 1, 0), (0, 0, 2**20)), -200)],
    ids=["one column without an intercept", "far from usual units"],
)
def test_any_map_of_a_known_geometry_is_released_in(intercept, numbers, exponent):
    """What follows from a map must not fail, since the budget is charged by then."""
    names = "ab"[: len(numbers)]
    units = {name: Scale(center=0.0, scale=1.0) for name in names}
    known = Geometry(columns=units, linear=LinearMap(numbers, exponent), norm_bound=1.5)
    rows = pd.DataFrame({name: RNG.normal(size=1000) for name in names})
    made = released_within(rows, -5, 5, budget=BUDGET, intercept=intercept, geometry=known)
    assert made.manifest.norm_bound == 1.5


@pytest.mark.parametrize("budget", [Budget(rho=1), Budget(epsilon=1)], ids=str)
def test_rows_that_no_bound_shortens_are_in_the_units_that_are_stated(budget):
    """The longest row of this column is shorter than the bound that its lengths give."""
    rows = np.where(RNG.random((N, 1)) < 0.5, -1.0, 1.0)
    for seed in range(3):
        made = released_within(rows, -1, 1, seed, budget=budget)
        longest = longest_row(made.manifest.columns)
        assert made.manifest.norm_bound == longest
        assert made.covariance_matrix() == pytest.approx(rows.var(), rel=0.02)


def test_the_widest_bounds_are_surveyed():
    """A scale beyond the largest that a geometry may have was found after the charge."""
    rows = pd.DataFrame({"a": np.where(np.arange(2000) % 5, 1e150, -1e150)})
    made = released_within(rows, -1e150, 1e150, rho=1)
    assert made.manifest.columns[1].half_range == 1e150


def test_no_scale_is_far_too_small_where_columns_are_many_and_rows_few():
    """Values that are spread over many shells may show in none; scales were 0.001 deviations."""
    names = [f"x{place}" for place in range(80)]
    schema = dpcov.Schema(
        columns={name: dpcov.Numeric(lower=-50, upper=50) for name in names}, missing="never"
    )
    for seed in range(2):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(2000, 80)) + 0.7 * rng.normal(size=(2000, 1))
        budget, entropy = dpcov.Budget(epsilon=1, delta="1e-6"), dpcov.SeededEntropy(seed)
        table = pa.table(dict(zip(names, rows.T, strict=True)))
        made = dpcov.release(table, schema=schema, budget=budget, entropy=entropy)
        scales = np.array([column.half_range for column in made.manifest.columns[1:]])
        assert np.all(scales > 0.05 * rows.std(axis=0))

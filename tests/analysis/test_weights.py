"""Weighted estimates are those of the weighted table, and intervals count weights and persons."""

import re
from functools import partial

import msgspec
import numpy as np
import pandas as pd
import pytest
from statsmodels.api import WLS, add_constant

import dpcov
from benchmarks.analysis.weights import (
    BOUNDS,
    TRUTH,
    UPPER,
    apart,
    covered,
    intervals,
    lognormal,
    released,
    rows,
    schema,
    weighted,
)
from benchmarks.data import data_directory
from dpcov.analysis import (
    PrivateCovariance,
    PrivateFactorAnalysis,
    PrivatePCA,
    PrivateRidge,
    coefficient_intervals,
    correlation_intervals,
    eigenvalue_intervals,
    mean_intervals,
    variance_intervals,
)
from dpcov.analysis.problems import InputError
from dpcov.errors import ReleaseError
from dpcov.published.words.design import design_of, weighting_of
from dpcov.published.words.summary import told_by_doctor
from dpcov.report import render_release
from tests.releases import released_of

pytestmark = pytest.mark.filterwarnings("ignore::dpcov.errors.PrivacyWarning")
SETTINGS = {
    "gaussian": {},
    "shells": {"mechanism": "stratified"},
    "private geometry": {"mechanism": "stratified", "geometry": "private"},
    "n private": {"geometry": "private", "neighbors": "add-remove-one"},
    "pure": {"mechanism": "nuclear", "geometry": "private", "budget": dpcov.Budget(epsilon=30)},
    "pure, n private": {
        "mechanism": "laplace",
        "neighbors": "add-remove-one",
        "budget": dpcov.Budget(epsilon=30),
    },
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kish", [True, False])
def test_estimates_are_those_of_the_weighted_table(setting, kish):
    rng = np.random.default_rng(3)
    table = rows(rng, 20_000, lognormal)
    # Weights that are related to the values, so that an unweighted estimate is far off.
    table["w"] = np.minimum(table["w"] * np.exp(table["a"] + 0.5 * table["b"]), UPPER)
    made = released(table, schema(kish), rho=50, **SETTINGS[setting])
    means, covariance = weighted(table)
    spreads = np.sqrt(np.diagonal(covariance))
    slopes = np.linalg.solve(covariance[:2, :2], covariance[:2, 2])
    pairs = [
        (mean_intervals(made, list("abc")).rows, means),
        (variance_intervals(made, list("abc")).rows, spreads**2),
        (
            correlation_intervals(made, ["a", "b"]).rows,
            [covariance[0, 1] / spreads[0] / spreads[1]],
        ),
        (coefficient_intervals(made, "c", ["a", "b"]).rows[1:], slopes),
    ]
    lost = made.manifest.statistics.lost
    for lines, truth in pairs:
        for line, true in zip(lines, truth, strict=True):
            assert abs(line.estimate - true) < 6 * line.privacy_std + lost
            assert line.privacy_std < 0.08
    assert (means[:2] > 0.35).all()
    design = design_of(made)
    w = table["w"].to_numpy()
    assert design.sum_of_weights == pytest.approx(w.sum(), rel=0.05)
    kish_effect = len(w) * (w @ w) / w.sum() ** 2
    assert design.effect == pytest.approx(
        kish_effect if kish else len(w) * UPPER / w.sum(), rel=0.1
    )
    assert design.largest_effect >= design.effect


def test_every_group_is_weighted():
    rng = np.random.default_rng(4)
    table = rows(rng, 20_000, lognormal).assign(g=rng.choice(["u", "v"], 20_000))
    table.loc[table["g"] == "u", "w"] /= 4
    declared = schema(g=dpcov.Categorical(categories=("u", "v")))
    made = released(table, declared, rho=100, mechanism="stratified", geometry="private", by="g")
    for name in ("u", "v"):
        part, own = made.group(name), table[table["g"] == name]
        lines, design = mean_intervals(part, list("abc")), design_of(part)
        assert np.abs(lines.estimate - weighted(own)[0]).max() < 6 * lines.privacy_std.max()
        assert design.sum_of_weights == pytest.approx(own["w"].sum(), rel=0.1)
        assert design.effect == pytest.approx(1.9, abs=0.3)


@pytest.mark.parametrize("seed", [25, 27, 28])
def test_a_release_is_shown_where_noise_hides_the_weights_of_its_inhabited_strata(seed):
    rng, n = np.random.default_rng(seed), 2000
    table = {
        "w": np.minimum(rng.lognormal(-1, 1.2, n), UPPER),
        "x": rng.normal(50, 10, n),
        "y": rng.choice(["u", "v"], n),
        "g": rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1]),
    }
    columns = {
        "g": dpcov.Categorical(categories=("a", "b", "c")),
        "w": dpcov.Ignored(),
        "x": dpcov.Numeric(lower=0, upper=100),
        "y": dpcov.Categorical(categories=("u", "v")),
    }
    terms = {"weights": dpcov.Weights(column="w", upper=UPPER), "missing": "never", "by": "g"}
    made = released_of(columns, pd.DataFrame(table), seed, **terms)
    # All strata together still show it.
    assert made.unit.matrix[0, 0] > 4 * np.sqrt(made.unit.noise.diagonal)
    assert "lost in the noise" in made.summary()
    with pytest.raises(ReleaseError, match="hides the means"):
        made.covariance()


@pytest.mark.parametrize(
    "estimator",
    [PrivateFactorAnalysis(), PrivatePCA(n_components=3), PrivateRidge(target=["a", "b"])],
)
def test_features_are_counted_without_the_weights_before_anything_is_spent(estimator, tmp_path):
    columns = {name: dpcov.Numeric(lower=0, upper=1) for name in ("a", "b", "w")}
    weights = dpcov.Weights(column="w", upper=1)
    ledger = dpcov.Ledger(tmp_path / "ledger.sqlite")
    ledger.create("d", dpcov.Budget(rho=1), "replace-one")
    terms = {"budget": dpcov.Budget(rho="0.5"), "ledger": ledger, "dataset": "d"}
    estimator.set_params(schema=dpcov.Schema(columns=columns, weights=weights), **terms)
    rows = pd.DataFrame(np.random.default_rng(0).uniform(size=(500, 3)), columns=list(columns))
    with pytest.raises(InputError, match=r"2 features|1 to 2|No feature is left"):
        estimator.fit(rows)
    assert ledger.entries("d") == ()


COVERED = {
    "equal weights": (None, 1.0, 1),
    "lognormal weights": (lognormal, UPPER, 1),
    "three rows a person": (None, 1.0, 3),
}


@pytest.mark.parametrize("case", COVERED)
def test_intervals_hold_and_would_not_without_the_design_effect(case):
    weights, upper, persons = COVERED[case]
    counted, ignored, known = [], [], []
    for seed in range(170):
        table = rows(np.random.default_rng(seed), 1500, weights, persons)
        # So little noise that sampling is what the intervals are made of.
        made = released(table, schema(True, upper, persons), seed, rho=1000)
        counted.append(intervals(made))
        ignored.append(intervals(made, design_effect=1))
        if persons > 1:
            known.append({"mean": mean_intervals(made, list("abc"), design_effect=2).rows})
    assert all(covered(counted, kind) >= 0.93 for kind in TRUTH)
    assert covered(counted, "correlation") <= 0.99 or persons > 1
    # What counts rows alone is caught, where there is something to count.
    assert (covered(ignored, "mean") < 0.9) == (case != "equal weights")
    assert (covered(ignored, "coefficient") < 0.93) == (case != "equal weights")
    if persons == 1:
        assert covered(counted, "mean") <= 0.97
    else:
        # The design effect of a mean is 1 + 2 * 0.5, and taken for 3: 98.4 % are expected.
        assert 0.93 <= covered(known, "mean") <= 0.97 < covered(counted, "mean") <= 0.995


def test_noise_rarely_makes_the_design_effect_too_small():
    table = rows(np.random.default_rng(0), 5000, lognormal)
    truth = len(table) * (table["w"] ** 2).sum() / table["w"].sum() ** 2
    terms = {"schema": schema(), "budget": dpcov.Budget(epsilon=2, delta="1e-6")}
    made = [dpcov.release(table, entropy=dpcov.SeededEntropy(s), **terms) for s in range(24)]
    effects = np.array([design_of(each).effect for each in made])
    # It is nearly one in two where the noise of the sum of weights is not counted.
    assert (effects < truth).mean() <= 0.2
    assert np.median(effects) < 1.15 * truth


def test_bounded_weights_hold_whatever_they_are_related_to():
    population = rows(np.random.default_rng(0), 400_000, apart)
    truth = weighted(population)[0][:1]
    found = {"kish": [], "bounded": []}
    for seed in range(120):
        table = rows(np.random.default_rng(seed), 1500, apart)
        for name, kish in (("kish", True), ("bounded", False)):
            made = released(table, schema(kish), seed, rho=200)
            found[name].append({"mean": mean_intervals(made, ["a"]).rows})
    # Values far out have large weights: Kish's is too small for them, the bound is not.
    held = {name: covered(made, "mean", truth) for name, made in found.items()}
    assert held["kish"] < 0.93 <= held["bounded"]


def test_the_design_effect_is_in_every_kind_of_interval():
    made = released(rows(np.random.default_rng(1), 3000, lognormal), schema(), rho=1000)
    for function, more in (
        (mean_intervals, ()),
        (variance_intervals, ()),
        (correlation_intervals, ()),
        # Standard deviations of fewer draws may be a tenth off.
        (partial(eigenvalue_intervals, draws=2000), ()),
        (coefficient_intervals, ("a",)),
    ):
        narrow, wide = (function(made, *more, design_effect=x) for x in (1, 4))
        assert np.allclose(wide.sampling_std, 2 * narrow.sampling_std, rtol=0.1), function
        assert not any("design effect" in note for note in wide.notes)
        own = function(made, *more)
        assert any("design effect is 1.9" in x or "design effect is 2" in x for x in own.notes)
        alone = function(made, *more, sampling=False).notes
        assert not any("design effect" in x for x in alone)
        # The table itself did not say so.
        assert any("about the rows of the table" in x for x in alone)
    ridge = PrivateRidge.from_release(made, target="c")
    assert ridge.conf_int(design_effect=1.7).names[1:] == ("a", "b")
    for wrong in (0, -1.0, float("inf")):
        with pytest.raises(InputError, match="design_effect must be"):
            mean_intervals(made, design_effect=wrong)


def test_weights_are_a_feature_only_where_they_are_named():
    made = released(rows(np.random.default_rng(1), 3000, lognormal), schema())
    assert made.feature_names == ("a", "b", "c", "w")
    assert mean_intervals(made).names == ("a", "b", "c")
    assert mean_intervals(made, ["w"])["w"].estimate == pytest.approx(1.9, abs=0.3)
    assert coefficient_intervals(made, "c").names == ("(intercept)", "a", "b")
    assert list(PrivateCovariance.from_release(made).get_encoded_names()) == ["a", "b", "c"]
    assert list(PrivateRidge.from_release(made, target="c").get_encoded_names()) == ["a", "b"]


def test_the_noise_makes_no_design_effect_too_small():
    table = rows(np.random.default_rng(1), 3000, lognormal)
    w = table["w"].to_numpy()
    truth = len(w) * (w @ w) / w.sum() ** 2
    small = [design_of(released(table, schema(), seed, rho="0.3")).effect for seed in range(60)]
    assert np.mean(np.array(small) < truth) < 0.2
    assert np.median(small) > truth


def test_the_weighted_count_is_told_with_its_noise():
    table = rows(np.random.default_rng(1), 3000, lognormal)
    true, held = table["w"].to_numpy().sum(), 0
    for seed in range(20):
        said = " ".join(released(table, schema(), seed, rho="0.3").summary().split())
        told = re.search(r"rows sum to about ([\d,]+) ± ([\d,]+)\.", said)
        middle, half = (float(part.replace(",", "")) for part in told.groups())
        held += abs(middle - true) <= half
    assert held >= 16 and half < 0.5 * true


def test_what_readers_see():
    made = released(rows(np.random.default_rng(1), 6000, lognormal), schema(persons=3), rho=200)
    said = " ".join(made.summary().split())
    assert "Rows are weighted by w, 0 to 8; the weights of 6,000 rows sum to about 6,0" in said
    assert "the design effect is 5." in said
    assert "takes a person's rows for alike, up to 3" in said
    assert b"Rows are weighted by w" in render_release(made)
    told = " ".join(
        released(rows(np.random.default_rng(1), 6000), schema(False, 2.0)).summary().split()
    )
    assert "design effect is 2" in told
    assert "list their column as numeric, from 0 to 2" in told
    plain = dpcov.Schema(columns={"a": BOUNDS})
    assert "design effect" not in released(rows(np.random.default_rng(1), 600), plain).summary()


def test_a_group_that_is_estimated_together_says_nothing_of_the_sum_of_its_weights():
    """Weights seemed to be at their upper, and a column that is listed was to be listed."""
    table = rows(np.random.default_rng(1), 6000, lognormal).assign(g=["u", "v"] * 3000)
    declared = schema(g=dpcov.Categorical(categories=("u", "v")))
    made = released(table, declared, rho=2, mechanism="stratified", by="g").group("u", pooled=True)
    said = " ".join(made.summary().split())
    assert "Rows are weighted by w, 0 to 8. Norm bound" in said
    assert made.diagnose().remarks == ()


def test_without_a_law_of_the_noise_a_listed_column_is_not_to_be_listed():
    """The sum was said without a word of its noise, too."""
    table = rows(np.random.default_rng(1), 3000, lognormal)
    said = " ".join(released(table, schema(), mechanism="separate").summary().split())
    assert "allow: how large the noise is, is not known." in said
    assert "rows sum to about" in said and "list their column" not in said


@pytest.mark.parametrize(
    "text",
    [
        None,
        "weights = 3",
        "[weights",
        "[weights]\ncolumn = 'w'",
        "[weights]\ncolumn = 1\nupper = 2",
        "weights = {column = 'w', upper = -1}",
        "weights = " + "[" * 10_000,
    ],
)
def test_a_file_of_somebody_may_state_any_schema(text):
    made = released(rows(np.random.default_rng(1), 600), schema(False, 1.0))
    manifest = msgspec.structs.replace(made.manifest, schema_toml=text)
    strange = dpcov.Release(manifest, made.statistics.arrays)
    assert weighting_of(strange) is None
    assert strange.diagnose().remarks == ()
    assert mean_intervals(strange, ["a"])["a"].estimate == mean_intervals(made, ["a"])["a"].estimate


@pytest.mark.parametrize(
    ("weight", "kish", "expected"),
    [
        (UPPER, False, "at their upper, 8"),
        (UPPER, True, "at their upper, 8"),
        (3.0, True, "hardly differ"),
        (0.2, False, "0.025 of their upper"),
        (0.0, True, "sum to nothing that shows: rows are too few"),
        (-1.0, False, "sum to nothing"),
        (None, True, None),
    ],
)
def test_the_doctor_knows_weights(weight, kish, expected):
    rng = np.random.default_rng(2)
    table = rows(rng, 4000, lognormal)
    if weight is not None:
        table["w"] = weight
    found = released(table, schema(kish), rho=200).diagnose()
    if expected is None:
        assert found.remarks == ()
    else:
        assert expected in " ".join(found.remarks)
        assert expected in " ".join(told_by_doctor(found).split())


def test_shortened_rows_count_less():
    table = rows(np.random.default_rng(1), 3000)[list("abc")] * 2
    columns = dict.fromkeys(table, BOUNDS)
    declared = dpcov.Schema(columns=columns, norm_bound=1.05)
    design = design_of(released(table, declared, rho=200))
    assert 1.005 < design.effect < 1.5
    assert design.weighting is None


def table_of(name):
    path = data_directory() / name
    if not path.exists():
        pytest.skip(f"{name} is not here; name its directory with DPCOV_DATA")
    return pd.read_csv(path)


def assert_like_weighted_least_squares(table, columns, target, upper):
    names = list(columns)
    declared = dpcov.Schema(
        columns={**columns, "w": dpcov.Numeric(lower=0, upper=upper)},
        weights=dpcov.Weights(column="w", upper=upper),
    )
    budget = dpcov.Budget(epsilon=2, delta="1e-6")
    made = released(table, declared, geometry="private", mechanism="auto", budget=budget)
    # What a statistician would compute: trimmed weights, missing values at the column's center.
    centers = dict(zip(made.feature_names, made.centers, strict=True))
    table = table.fillna(centers).assign(w=table["w"].clip(upper=upper))
    means, features = weighted(table, names)[0], add_constant(table[names[:-1]])
    slopes = WLS(table[target], features, weights=table["w"]).fit().params.iloc[1:]
    lines = mean_intervals(made, names, sampling=False)
    fitted = coefficient_intervals(made, target, names[:-1], sampling=False)
    for found, truth in ((lines.rows, means), (fitted.rows[1:], slopes)):
        for line, true in zip(found, truth, strict=True):
            slack = 0.5 * (line.upper - line.lower)
            assert line.lower - slack <= true <= line.upper + slack
            assert line.upper - line.lower < 0.45 * abs(true)
    w = table["w"].to_numpy(float)
    assert design_of(made).effect == pytest.approx(len(w) * (w @ w) / w.sum() ** 2, rel=0.1)


@pytest.mark.shared_data
def test_adult_by_its_own_weights():
    table = table_of("adult.csv.gz").rename(columns={"fnlwgt": "w", "hours-per-week": "hours"})
    columns = {
        "age": dpcov.Numeric(lower=17, upper=100),
        "education-num": dpcov.Numeric(lower=1, upper=16),
        "hours": dpcov.Numeric(lower=0, upper=100),
    }
    assert_like_weighted_least_squares(table[[*columns, "w"]], columns, "hours", 600_000)


@pytest.mark.shared_data
def test_a_health_survey_that_asked_old_people_more_often():
    table = table_of("nhanes1.csv.gz")
    rng = np.random.default_rng(0)
    share = np.where(table["age"] > 55, 0.6, 0.2)
    table["w"] = 5000 * rng.lognormal(0, 0.4, len(table)) / share
    columns = {
        "age": dpcov.Numeric(lower=0, upper=110),
        "bmi": dpcov.Numeric(lower=10, upper=80),
        "systolic_bp": dpcov.Numeric(lower=60, upper=280),
    }
    assert_like_weighted_least_squares(table[[*columns, "w"]], columns, "systolic_bp", 80_000)

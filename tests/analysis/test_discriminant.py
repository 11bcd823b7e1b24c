"""Discriminant analysis from group strata against that of the rows."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

import dpcov
from dpcov.analysis import NoiseWarning, PrivateLDA, PrivateQDA, PrivateRidge
from dpcov.errors import DpcovError
from tests.analysis.conftest import released as made_release
from tests.releases import released_of


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(8)
    y = rng.choice(3, p=[0.5, 0.3, 0.2], size=9000)
    spread = np.array([0.12, 0.2, 0.1])[y][:, None]
    noise = rng.normal(size=(9000, 2)) * spread * [1, 2]
    return np.clip(np.array([[0, 0], [0.4, 0.2], [-0.3, 0.5]])[y] + noise, -1, 1), y


@pytest.fixture(scope="module")
def released(blobs):
    X, y = blobs
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": y.astype(str)})
    columns = {name: dpcov.Numeric(lower=-1, upper=1) for name in ("a", "b")}
    columns["kind"] = dpcov.Categorical(categories=("0", "1", "2"))
    return made_release(table, 10, 2, schema=dpcov.Schema(columns=columns), by="kind")


@pytest.mark.parametrize(
    ("ours", "exact", "largest"),
    [
        (PrivateLDA, LinearDiscriminantAnalysis(), 0.06),
        (PrivateQDA, QuadraticDiscriminantAnalysis(), 0.2),
    ],
)
def test_classes_are_told_apart_as_on_the_rows(released, blobs, ours, exact, largest):
    # Of 60 seeds the largest difference is 0.03 and 0.13, the mean 0.003, the agreement 0.996.
    X, y = blobs
    frame = pd.DataFrame(X, columns=["a", "b"])
    model, reference = ours.from_release(released), exact.fit(X, y)
    assert list(model.classes_) == ["0", "1", "2"]
    np.testing.assert_allclose(model.priors_, reference.priors_, atol=0.002)
    np.testing.assert_allclose(model.means_, reference.means_, atol=0.005)
    differences = np.abs(model.predict_proba(frame) - reference.predict_proba(X))
    assert differences.max() < largest
    assert differences.mean() < 0.006
    assert np.mean(model.predict(frame).astype(int) == reference.predict(X)) > 0.99


SPELLED = {
    "codes": (dpcov.Categorical(categories=("0", "1")), ["0", "1"]),
    "named codes": (
        dpcov.Categorical(categories=("0", "1"), labels={"0": "no", "1": "yes"}),
        ["no", "yes"],
    ),
    "groups": (dpcov.Categorical(categories=("0",), groups={"more": ("1", "2")}), ["0", "more"]),
    "truth values": (dpcov.Boolean(), ["false", "true"]),
}


@pytest.mark.parametrize(("declared", "names"), SPELLED.values(), ids=SPELLED)
@pytest.mark.parametrize("ours", [PrivateLDA, PrivateQDA])
def test_score_reads_labels_as_the_release_read_them(blobs, declared, names, ours):
    X, y = blobs[0][blobs[1] < 2], blobs[1][blobs[1] < 2]
    columns = {name: dpcov.Numeric(lower=-1, upper=1) for name in ("a", "b")} | {"kind": declared}
    frame = pd.DataFrame(X, columns=["a", "b"])
    schema = dpcov.Schema(columns=columns)
    model = ours.from_release(made_release(frame.assign(kind=y), 10, 2, schema=schema, by="kind"))
    predicted = model.predict(frame)
    right = np.mean(predicted == np.array(names)[y])
    assert right > 0.8
    for labels in (y, y.astype(float), y.astype(str), pd.Series(y), y == 1, np.array(names)[y]):
        assert model.score(frame, labels) == pytest.approx(right)
    assert model.score(frame, predicted) == 1.0
    weights = (y == 0).astype(float)
    assert model.score(frame, y, weights) == pytest.approx(model.score(frame[y == 0], y[y == 0]))


def test_score_counts_labels_that_the_release_does_not_list_as_wrong(released, blobs):
    X, y = blobs
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = PrivateLDA.from_release(released)
    assert model.score(frame, np.full(len(y), "elsewhere")) == 0.0
    with pytest.raises(DpcovError, match="1d array"):
        model.score(frame, np.column_stack([y, y]))


def test_rows_of_unlisted_classes_are_left_aside(blobs):
    X, y = blobs
    terms = {"bounds": (-1, 1), "budget": dpcov.Budget(rho=10), "seed": 4}
    model = PrivateLDA(classes=[0, 1], **terms).fit(X, y)
    assert list(model.classes_) == [0, 1]
    within = sum(np.cov(X[y == k].T) * np.mean(y[y < 2] == k) for k in range(2))
    np.testing.assert_allclose(model.covariance_, within, atol=0.003)
    assert model.score(X[y < 2], y[y < 2]) > 0.85


@pytest.mark.parametrize("missing", ["never", "indicator"])
def test_rows_without_a_label_do_not_spread_the_classes(missing):
    """They are of all classes, so that the distance of these was counted as spread within them."""
    rng = np.random.default_rng(0)
    second = rng.uniform(size=20_000) < 0.5
    table = pd.DataFrame({"x": rng.normal(size=len(second)) + 4 * second})
    table["z"], table["c"] = rng.normal(size=len(second)), np.where(second, "b", "a")
    table.loc[rng.uniform(size=len(second)) < 0.4, "c"] = None
    columns = {name: dpcov.Numeric(lower=-6, upper=10) for name in ("x", "z")}
    columns["c"] = dpcov.Categorical(categories=("a", "b"))
    schema = dpcov.Schema(columns=columns, missing=missing)
    model = PrivateLDA.from_release(made_release(table, 100, 1, schema=schema, by="c"))
    np.testing.assert_allclose(model.covariance_, np.eye(2), atol=0.05)


@pytest.mark.parametrize("missing", ["never", "indicator"])
def test_classes_that_lost_more_have_units_of_their_own(missing):
    """Units of all rows made other covariances of those of the classes."""
    rng = np.random.default_rng(0)
    few = rng.uniform(size=20_000) < 0.15
    long = np.exp(1.6 * rng.normal(size=len(few)))
    table = pd.DataFrame({"x": np.where(few, long, rng.normal(size=len(few)))})
    table["z"], table["c"] = rng.normal(size=len(few)), np.where(few, "b", "a")
    columns = {name: dpcov.Numeric(lower=-10, upper=400) for name in ("x", "z")}
    columns["c"] = dpcov.Categorical(categories=("a", "b"))
    terms = {"budget": dpcov.Budget(epsilon=8, delta="1e-6"), "missing": missing}
    release = released_of(columns, table, by="c", **terms)
    model = PrivateQDA.from_release(release)
    for name, found in zip(model.classes_, model.covariance_, strict=True):
        np.testing.assert_allclose(found, release.group(name).covariance(), rtol=1e-6)
    center = pd.DataFrame([model.means_[1]], columns=["x", "z"])
    joint = model.predict_log_proba(center)[0]
    apart = center.to_numpy()[0] - model.means_[0]
    first = np.linalg.slogdet(model.covariance_[0])[1] + apart @ np.linalg.solve(
        model.covariance_[0], apart
    )
    wanted = (first - np.linalg.slogdet(model.covariance_[1])[1]) / 2
    wanted += np.log(model.priors_[1] / model.priors_[0])
    assert joint[1] - joint[0] == pytest.approx(wanted)


@pytest.mark.parametrize("case", ["weighted", "half missing", "mostly missing"])
def test_shares_and_spread_within_classes_are_those_of_the_rows_that_count(case):
    """Rows of one class weigh a tenth, or lack a value: no class is like the others."""
    rng = np.random.default_rng(1)
    second = rng.uniform(size=20_000) < 0.5
    table = pd.DataFrame({"x": rng.normal(size=len(second)) + 2 * second})
    table["z"] = 0.5 * table["x"] + rng.normal(size=len(second))
    table["c"], table["w"] = np.where(second, "b", "a"), np.where(second, 0.1, 1.0)
    columns = {"x": dpcov.Numeric(lower=-5, upper=7), "z": dpcov.Numeric(lower=-6, upper=8)}
    columns["c"], weights = dpcov.Categorical(categories=("a", "b")), None
    if case == "weighted":
        columns["w"], weights = dpcov.Ignored(), dpcov.Weights(column="w", upper=1)
    else:
        hidden = rng.uniform(size=len(second)) < (0.5 if case == "half missing" else 0.8)
        table.loc[second & hidden, "x"] = np.nan
    schema = dpcov.Schema(columns=columns, weights=weights)
    model = PrivateLDA.from_release(
        made_release(table[list(columns)], 1000, 1, schema=schema, by="c"), features=["x", "z"]
    )
    mean = 0.1 / 1.1 if case == "weighted" else 0.5
    np.testing.assert_allclose(model.priors_, [1 - mean, mean], atol=0.01)
    np.testing.assert_allclose(model.covariance_, [[1, 0.5], [0.5, 1.25]], atol=0.05)
    np.testing.assert_allclose(model.coef_[1] - model.coef_[0], [2, 0], atol=0.1)


def test_labels_are_stripped_as_a_schema_strips_them(blobs):
    X, y = blobs
    model = PrivateLDA(classes=[" u", "v"], bounds=(-1, 1), budget=dpcov.Budget(rho=10), seed=1)
    model.fit(X[y < 2], np.array([" u", "v"])[y[y < 2]])
    assert model.score(X[y < 2], np.array([" u", "v"])[y[y < 2]]) > 0.8


def test_classes_must_be_public(blobs, made):
    with pytest.raises(DpcovError, match="by=COLUMN"):
        PrivateLDA.from_release(made)
    X, y = blobs
    terms = {"bounds": (-1, 1), "budget": dpcov.Budget(rho=10)}
    with pytest.raises(DpcovError, match="classes"):
        PrivateLDA(**terms).fit(X, y)
    model = PrivateLDA(classes=[0, 1, 2, 3], seed=5, **terms)
    with pytest.warns(NoiseWarning, match="1 of 4 classes"):
        model.fit(X, y)
    assert list(model.classes_) == [0, 1, 2, 3]
    assert model.priors_[3] < 0.01
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("estimator", [PrivateLDA, PrivateQDA])
def test_noise_alone_still_gives_probabilities(released, blobs, estimator):
    X, y = blobs
    model = estimator(bounds=(-1, 1), classes=[0, 1, 2], budget=dpcov.Budget(rho="0.02"), seed=3)
    with pytest.warns(NoiseWarning):
        model.fit(X[:300], y[:300])
    probabilities = model.predict_proba(X[:20])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    if estimator is PrivateLDA:
        # Half the edge, the standard deviation of the noise's eigenvalues, is the floor.
        smallest = np.linalg.eigvalsh(model.covariance_)[0]
        assert smallest == pytest.approx(model.noise_edge_ / 2)


def test_one_label_never_changes_how_others_are_read(blobs):
    """numpy makes numbers of truth values where a list holds one, and none is listed then."""
    X, y = blobs
    labels = (y > 0).tolist()
    counts = []
    for last in (labels[-1], 7, "7", 0.5, None):
        model = PrivateLDA(
            budget=dpcov.Budget(rho=100), bounds=(-1, 1), classes=["False", "True"], seed=1
        )
        made = model.fit(X, [*labels[:-1], last]).release_
        counts.append([made.group(name).n_rows for name in ("False", "True")])
    assert np.ptp(counts, axis=0).max() <= 3


def test_a_label_that_is_no_number_is_refused_where_numbers_are_listed(blobs):
    X, y = blobs
    for last in ("north", 10**30, float("inf")):
        model = PrivateLDA(budget=dpcov.Budget(rho=1), bounds=(-1, 1), classes=[0, 1, 2], seed=1)
        with pytest.raises(DpcovError, match="not of the type of the listed classes"):
            model.fit(X, [*y[:-1].tolist(), last])


BIG = [10**16, 2 * 10**16 + 2]
TYPED = {
    "polars": lambda cells: pl.Series(cells, dtype=pl.Int64),
    "arrow": lambda cells: pa.chunked_array([pa.array(cells, pa.int64())]),
    "pandas": lambda cells: pd.Series(cells, dtype="Int64"),
    "pandas frame": lambda cells: pd.DataFrame({"y": pd.Series(cells, dtype="Int64")}),
    "list": list,
}


def rows_by_class(y, classes):
    """Rows of every class."""
    terms = {"budget": dpcov.Budget(rho=1000), "bounds": (-1, 1), "seed": 1}
    made = PrivateLDA(classes=classes, **terms).fit(np.zeros((len(y), 1)), y).release_
    return [round(made.group(str(label)).n_rows) for label in np.unique(classes)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("classes", [BIG, [str(label) for label in BIG]])
@pytest.mark.parametrize("typed", TYPED)
def test_a_missing_label_does_not_change_how_others_are_read(typed, classes):
    # Libraries turn all whole numbers into floats where one is missing.
    y = [BIG[0]] * 40 + [BIG[1]] * 60
    assert rows_by_class(TYPED[typed](y), classes) == [40, 60]
    assert rows_by_class(TYPED[typed]([*y[:-1], None]), classes) == [40, 59]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("y", "classes", "right"),
    [
        (np.ma.array([0, 1] * 50, mask=[0, 0, 0, 1] * 25), [0, 1], [50, 25]),
        (np.ma.array(["a", "b"] * 50, mask=[0, 0, 0, 1] * 25), ["a", "b"], [50, 25]),
        (pl.Series([True, False, None, True] * 25), [True, False], [25, 50]),
        (["True", "False", "False", "False"] * 25, [True, False], [75, 25]),
        (np.array([0.0, 1.0, 1.7, np.nan] * 25), [0, 1], [25, 25]),
    ],
)
def test_what_is_no_listed_label_counts_as_none(y, classes, right):
    assert rows_by_class(y, classes) == right


SECRET = "7 secret"
BAD = {
    "labels": lambda: rows_by_class([SECRET, 0, 1], [0, 1]),
    "fractions": lambda: rows_by_class(np.array([SECRET, "0", "1"]), [0.5, 1.5]),
    "truth values": lambda: rows_by_class([SECRET, 0, 1], [True, False]),
    "ragged labels": lambda: rows_by_class([[SECRET], [1, 2], 0], [0, 1]),
    "targets": lambda: PrivateRidge(**RIDGE).fit(np.zeros((2, 1)), [SECRET, 1]),
    "ragged targets": lambda: PrivateRidge(**RIDGE).fit(np.zeros((2, 1)), [[SECRET], [1, 2]]),
    "features": lambda: PrivateRidge(**RIDGE).fit([[SECRET], [1]], [0, 1]),
}
RIDGE = {"budget": dpcov.Budget(rho=1), "bounds": (0, 1), "target_bounds": (0, 1)}


@pytest.mark.parametrize("fit", BAD)
def test_no_error_holds_a_cell_in_its_context(fit):
    with pytest.raises(DpcovError) as caught:
        BAD[fit]()
    error = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__ or error.__context__


@pytest.fixture(scope="module")
def levels():
    """Rows of three classes, and some of none of them, with a yes or no beside them."""
    rng = np.random.default_rng(9)
    y = rng.choice(4, p=[0.3, 0.3, 0.2, 0.2], size=9000)
    X = np.array([[0, 0], [0.4, 0.2], [-0.3, 0.5], [0.2, -0.4]])[y] + rng.normal(
        scale=[0.12, 0.2], size=(9000, 2)
    )
    names = np.array(["c", "a", "b", "elsewhere"])
    frame = pd.DataFrame(np.clip(X, -1, 1), columns=["x", "y"])
    return frame.assign(kind=names[y], high=X[:, 0] + rng.normal(scale=0.2, size=9000) > 0)


def level_schema(**changed):
    columns = {name: dpcov.Numeric(lower=-1, upper=1) for name in ("x", "y")}
    columns |= {"kind": dpcov.Categorical(categories=("a", "b", "c")), "high": dpcov.Boolean()}
    return dpcov.Schema(columns=columns | changed)


@pytest.fixture(scope="module")
def of_levels(levels):
    return made_release(levels, 10, 2, schema=level_schema())


def test_levels_of_a_column_are_classes_of_any_release(levels, of_levels):
    features = ["x", "y"]
    model = PrivateLDA.from_release(of_levels, target="kind", features=features)
    listed = levels[levels.kind != "elsewhere"]
    exact = LinearDiscriminantAnalysis(store_covariance=True).fit(listed[features], listed.kind)
    assert list(model.classes_) == list(exact.classes_) == ["a", "b", "c"]
    np.testing.assert_allclose(model.priors_, exact.priors_, atol=0.003)
    np.testing.assert_allclose(model.means_, exact.means_, atol=0.01)
    # Rows of no listed class vary as the others do.
    np.testing.assert_allclose(model.covariance_, exact.covariance_, atol=0.002)
    assert np.mean(model.predict(listed) == exact.predict(listed[features])) > 0.99
    assert model.score(listed, listed.kind) == pytest.approx(
        exact.score(listed[features], listed.kind), abs=0.005
    )
    # What is not listed is no class.
    assert model.score(levels, levels.kind) < 0.95 * model.score(listed, listed.kind)


@pytest.mark.parametrize("other", ["none", "(other)"])
def test_a_level_may_be_called_as_the_group_of_unlisted_rows_is(levels, other):
    """Its score was refused: "Groups need a list of distinct categories"."""
    rows = levels.replace({"kind": {"c": "(other)"}})
    listed = ("a", "b") if other == "(other)" else ("a", "b", "(other)")
    kind = dpcov.Categorical(categories=listed, other=other)
    made = made_release(rows, 10, 2, schema=level_schema(kind=kind))
    model = PrivateLDA.from_release(made, target="kind", features=["x", "y"])
    assert list(model.classes_) == ["(other)", "a", "b"]
    # All other values are of that level, or of none.
    known = rows.kind.where(rows.kind != "elsewhere", "(other)" if other == "(other)" else None)
    right = np.mean(model.predict(rows) == known)
    assert model.score(rows, rows.kind) == pytest.approx(right)


def test_yes_and_no_are_classes_and_other_levels_are_features(levels, of_levels):
    model = PrivateLDA.from_release(of_levels, target="high")
    assert list(model.get_encoded_names()) == ["x", "y", "kind=a", "kind=b", "kind=c"]
    rows = pd.get_dummies(levels[["x", "y", "kind"]]).drop(columns="kind_elsewhere").astype(float)
    exact = LinearDiscriminantAnalysis().fit(rows, levels.high)
    assert list(model.classes_) == ["false", "true"]
    predicted = model.predict(levels) == "true"
    assert np.mean(predicted == exact.predict(rows)) > 0.98
    right = np.mean(predicted == levels.high)
    for labels in (levels.high, levels.high.astype(int), levels.high.astype(str)):
        assert model.score(levels, labels) == pytest.approx(right)


def test_classes_of_levels_where_values_and_levels_are_missing(levels):
    rng = np.random.default_rng(10)
    frame = levels.assign(
        x=levels.x.mask(rng.random(9000) < 0.4), kind=levels.kind.mask(rng.random(9000) < 0.2)
    )
    made = made_release(frame, 100, 2, schema=level_schema())
    model = PrivateLDA.from_release(made, target="kind", features=["x", "y"])
    means = levels.groupby("kind")[["x", "y"]].mean().drop("elsewhere")
    np.testing.assert_allclose(model.means_, means, atol=0.02)
    assert np.mean(model.predict(levels) == levels.kind) > 0.7


def test_a_level_that_the_noise_hides_has_the_mean_of_all(levels):
    frame = levels.assign(kind=np.where(np.arange(9000) < 3, "b", "a"))
    made = made_release(frame, "0.01", 2, schema=level_schema())
    mean = made.mean_vector()[:2]
    for post in (None, "none"):
        terms = {"target": "kind", "features": ["x", "y"], "post": post}
        with pytest.warns(NoiseWarning, match="hides the spread"):
            model = PrivateLDA.from_release(made, **terms)
        everywhere = dict(zip(model.classes_, model.means_, strict=True))
        np.testing.assert_allclose(everywhere["b"], mean)
        np.testing.assert_allclose(everywhere["c"], mean)
        assert np.all(np.isfinite(model.coef_)) and np.all(model.priors_ > 0)
    # Noise is all that is known of them together.
    names = [column.name for column in made.features]
    hidden = made.covariance_matrix(post="none")[names.index("kind=b"), :2]
    assert np.abs(hidden).min() > 0


@pytest.mark.parametrize("post", ["none", "psd"])
@pytest.mark.parametrize("missing", ["pairwise", "at-random"])
def test_means_of_levels_are_those_of_the_matrix_read_in_the_same_way(levels, post, missing):
    frame = levels.assign(x=levels.x.mask(levels.y > 0.1))
    made = made_release(frame, 10, 2, schema=level_schema())
    terms = {"target": "high", "features": ["x", "y"], "post": post, "missing": missing}
    model = PrivateLDA.from_release(made, **terms)
    names = [column.name for column in made.restored_features]
    used = np.array([names.index(name) for name in ("x", "y", "high")])
    means = made.read_mean(missing)[used]
    along = made.read_covariance(post, missing, used)[used[2]][used[:2]]
    apart = np.array([-along / (1 - means[2]), along / means[2]])
    np.testing.assert_allclose(model.means_, means[:2] + apart)


def test_rows_with_a_column_of_classes_are_released_once(levels):
    budget = dpcov.Budget(rho=10)
    model = PrivateLDA(target="kind", schema=level_schema(), budget=budget, seed=3).fit(levels)
    assert not model.release_.group_names
    listed = levels[levels.kind != "elsewhere"]
    assert model.score(listed, listed.kind) > 0.8


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"target": "x"}, "no column of categories.*has: kind, high"),
        ({"target": "kind=a"}, "no column of categories"),
        ({"target": "kind", "features": ["x", "kind=a"]}, "cannot be among its own features"),
        ({"target": "kind", "classes": ["a", "b"]}, "Give target, or classes"),
        ({}, "target=COLUMN"),
    ],
)
def test_classes_that_are_none_are_refused(of_levels, parameters, words):
    with pytest.raises(DpcovError, match=words):
        PrivateLDA.from_release(of_levels, **parameters)


@pytest.mark.parametrize(
    ("columns", "words"), [(["kind"], "No feature is left"), (["one", "x"], "one level alone")]
)
def test_a_target_has_two_levels_and_features_beside_it(levels, columns, words):
    declared = level_schema(one=dpcov.Categorical(categories=("a",))).columns
    schema = dpcov.Schema(columns={name: declared[name] for name in columns})
    made = made_release(levels.assign(one="a"), 1, 2, schema=schema)
    with pytest.raises(DpcovError, match=words):
        PrivateLDA.from_release(made, target=columns[0])


def test_labels_beside_a_column_of_classes_are_refused(levels):
    model = PrivateLDA(target="kind", schema=level_schema(), budget=dpcov.Budget(rho=1), seed=3)
    with pytest.raises(DpcovError, match="give no y"):
        model.fit(levels, levels.kind)

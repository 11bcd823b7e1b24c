"""New rows are read as the release read its table, whatever types their cells have."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest
from msgspec.structs import replace
from sklearn.metrics import r2_score

import dpcov
from dpcov.analysis import PrivateCovariance, PrivateLinearRegression, PrivatePCA, PrivateRidge
from dpcov.analysis.problems import InputError
from tests.analysis.conftest import released
from tests.releases import released as released_within

N_ROWS = 3000
RNG = np.random.default_rng(5)
PLACE, X = RNG.integers(0, 3, N_ROWS), RNG.normal(size=N_ROWS)
ILL = X + RNG.normal(size=N_ROWS) > 0
Y = 2 * X + np.array([0.0, 5.0, -5.0])[PLACE] + RNG.normal(size=N_ROWS) / 10
DIGITS, COUNTRIES = np.array(["1", "2", "3"]), np.array(["ES", "IT", "FR"])
NUMBERS = dpcov.Categorical(categories=tuple(DIGITS))
NAMED = dpcov.Categorical(categories=tuple(DIGITS), labels={"1": "one", "2": "two", "3": "unknown"})
ONE_CASE = dpcov.Categorical(categories=("es", "it", "fr"), ignore_case=True)
GROUPED = dpcov.Categorical(categories=("FR",), groups={"south": ("ES", "IT")})
OTHER = dpcov.Categorical(categories=("ES", "IT"), other="else")


def model_of(declared, cells, **options):
    schema = dpcov.Schema(
        columns={
            "x": dpcov.Numeric(lower=-5, upper=5),
            "g": declared,
            "y": dpcov.Numeric(lower=-25, upper=25),
        },
        **options,
    )
    table = pd.DataFrame({"x": X, "g": cells, "y": Y})
    return table, PrivateLinearRegression.from_release(
        released(table, 1000, 1, schema=schema), target="y"
    )


LEVELS = {
    "floats": (NUMBERS, DIGITS.astype(int), [1.0, 2.0, 3.0]),
    "objects": (NUMBERS, DIGITS.astype(int), np.array([1, 2, 3], dtype=object)),
    "objects of floats": (NUMBERS, DIGITS, np.array([1.0, 2.0, 3.0], dtype=object)),
    "floats as text": (NUMBERS, DIGITS, ["1.0", "2.0", "3.0"]),
    "labels": (NAMED, DIGITS.astype(int), [1, 2, 3]),
    "names": (NAMED, DIGITS.astype(int), ["one", "two", "unknown"]),
    "any case": (ONE_CASE, COUNTRIES, COUNTRIES),
    "groups": (GROUPED, COUNTRIES, COUNTRIES),
    "names of groups": (GROUPED, COUNTRIES, ["south", "south", "FR"]),
    "others": (OTHER, COUNTRIES, ["ES", "IT", "GR"]),
    "the name of others": (OTHER, COUNTRIES, ["ES", "IT", "else"]),
}


@pytest.mark.parametrize("case", LEVELS)
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_levels_are_found_however_they_are_written(case, frame):
    declared, released_as, written = LEVELS[case]
    _, model = model_of(declared, released_as[PLACE], missing="never")
    # The release's own words are its levels' names.
    names = [name.removeprefix("g=") for name in model.release_.feature_names if "=" in name]
    places = {"groups": [1, 1, 0], "names of groups": [1, 1, 0]}.get(case, [0, 1, 2])
    called = pd.DataFrame({"x": X, "g": np.array(names, dtype=object)[places][PLACE]})
    cells = np.asarray(written)[PLACE]
    if frame is pl.DataFrame:
        cells = cells.tolist()
    found = model.predict(frame({"x": X, "g": cells}))
    np.testing.assert_array_equal(found, model.predict(called))
    if "groups" not in case:
        np.testing.assert_allclose(found, Y, atol=0.6)


def test_one_missing_value_makes_no_other_a_different_level():
    table, model = model_of(NUMBERS, PLACE + 1)
    holes = table[["x", "g"]].astype({"g": float})
    holes.loc[0, "g"] = np.nan
    np.testing.assert_array_equal(model.predict(holes)[1:], model.predict(table)[1:])


TRUTH = {
    "text": ILL.astype(str),
    "words": np.where(ILL, " Yes", "no"),
    "letters": np.where(ILL, "T", "f"),
}


def of_the_ill(**options):
    """A table with truth values, and its release."""
    columns = {
        "x": dpcov.Numeric(lower=-5, upper=5),
        "g": NUMBERS,
        "ill": dpcov.Boolean(),
        "y": dpcov.Numeric(lower=-25, upper=25),
    }
    table = pd.DataFrame({"x": X, "g": DIGITS[PLACE], "ill": ILL, "y": Y + 3 * ILL})
    return table, released(table, 1000, 1, schema=dpcov.Schema(columns=columns, **options))


@pytest.mark.parametrize("cells", TRUTH.values(), ids=TRUTH)
@pytest.mark.parametrize("others", [["x"], ["x", "g"]], ids=["numbers", "mixed"])
def test_truth_values_are_read_in_words(cells, others):
    table, release = of_the_ill()
    model = PrivateLinearRegression.from_release(release, target="y", features=[*others, "ill"])
    new = table.assign(ill=cells)
    np.testing.assert_array_equal(model.predict(new), model.predict(table))
    assert model.predict(table.assign(ill=~ILL))[0] != model.predict(table)[0]
    with pytest.raises(InputError, match="'ill' holds something") as raised:
        model.predict(table.assign(ill="perhaps"))
    assert "perhaps" not in str(raised.value)


@pytest.mark.parametrize("levels", [[], ["g"]], ids=["numbers", "mixed"])
@pytest.mark.parametrize("make", [PrivatePCA, PrivateCovariance])
def test_values_beyond_public_bounds_count_as_the_bounds(make, levels):
    _, model = model_of(NUMBERS, DIGITS[PLACE], missing="never")
    estimator = make.from_release(model.release_, features=["x", *levels])
    use = estimator.mahalanobis if make is PrivateCovariance else estimator.transform
    new = pd.DataFrame({"x": [-5.0, -999.0, -np.inf, 5.0, 999.0, np.inf], "g": "1"})
    found = use(new[["x", *levels]])
    for beyond, bound in ((1, 0), (2, 0), (4, 3), (5, 3)):
        np.testing.assert_array_equal(found[beyond], found[bound])
    assert not np.array_equal(found[0], found[3])


@pytest.mark.parametrize("levels", [[], ["g"]], ids=["numbers", "mixed"])
def test_truth_values_lie_between_zero_and_one_and_a_regression_reads_infinity(levels):
    _, release = of_the_ill(missing="never")
    model = PrivateLinearRegression.from_release(
        release, target="y", features=["x", *levels, "ill"]
    )
    cells = [0.0, -1.0, -np.inf, 1.0, 2.0, 9.0, np.inf, 0.5]
    new = pd.DataFrame({"x": 1.0, "g": "1", "ill": cells})[["x", *levels, "ill"]]
    found = model.predict(new)
    assert found[0] == found[1] == found[2] < found[7] < found[3] == found[4] == found[5]
    assert found[6] == found[3]
    arrays = np.array([[1.0, *([0.0, 0.0] if levels else []), cell] for cell in cells])
    np.testing.assert_array_equal(model.predict(arrays), found)
    farthest = model.predict(new[:2].assign(x=[1e9, np.inf]))
    assert farthest[0] == farthest[1]


@pytest.mark.parametrize("features", [["x"], ["x", "g"], ["x", "x (missing)"]], ids="-".join)
@pytest.mark.parametrize("code", [-9, "-9.0", "unknown", "NA"])
def test_codes_of_missing_values_are_no_numbers(features, code):
    declared = dpcov.Numeric(lower=-10, upper=5, missing_codes=(-9, "unknown"))
    schema = dpcov.Schema(
        columns={"x": declared, "g": NUMBERS, "y": dpcov.Numeric(lower=-25, upper=25)}
    )
    table = pd.DataFrame({"x": np.where(PLACE == 0, -9, X), "g": DIGITS[PLACE], "y": Y})
    release = released(table, 1000, 1, schema=schema)
    model = PrivateLinearRegression.from_release(release, target="y", features=features)
    new = pd.DataFrame({"x": [code, 1.0], "g": ["1", "2"]})
    holes = new.assign(x=[np.nan, 1.0])
    np.testing.assert_array_equal(model.predict(new), model.predict(holes))


def test_codes_of_missing_values_are_no_numbers_in_arrays():
    schema = dpcov.Schema(
        columns={name: dpcov.Numeric(lower=-25, upper=25) for name in ("x0", "x1")},
        missing_codes=(-9,),
    )
    release = released(pd.DataFrame({"x0": X, "x1": Y}), 1000, 1, schema=schema)
    model = PrivateLinearRegression.from_release(release, target="x1", features=["x0"])
    found = model.predict(np.array([[-9.0], [np.nan], [1.0]]))
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_nullable_types_are_read_as_others(backend):
    cells = pd.Series(DIGITS[PLACE]).astype(object).where(RNG.random(N_ROWS) > 0.1, None)
    table, model = model_of(NUMBERS, cells)
    nullable = table.convert_dtypes(dtype_backend=backend)
    np.testing.assert_allclose(model.predict(nullable), model.predict(table), rtol=1e-12)


@pytest.mark.parametrize("missing", ["indicator", "never"])
def test_a_missing_level_is_the_mean_of_the_levels_whatever_the_reference_is(missing):
    nothing, found = [None, np.nan, pd.NA, "NA", " "], []
    for categories in (("1", "2", "3"), ("3", "2", "1")):
        declared = dpcov.Categorical(categories=categories)
        _, model = model_of(declared, DIGITS[PLACE], missing=missing)
        assert model.reference_levels_ == (f"g={categories[0]}",)
        new = pd.DataFrame({"x": X.mean(), "g": pd.Series(nothing, dtype=object)})
        found.append(model.predict(new))
    np.testing.assert_allclose(found, Y.mean(), atol=0.05)
    np.testing.assert_allclose(*found, atol=0.01)


def test_a_row_without_any_value_is_the_center_of_components():
    _, model = model_of(NUMBERS, DIGITS[PLACE])
    pca = PrivatePCA.from_release(model.release_, features=["x", "g"])
    scores = pca.transform(pd.DataFrame({"x": [np.nan], "g": [None]}))
    np.testing.assert_allclose(scores, 0, atol=1e-9)


@pytest.mark.parametrize("estimator", [PrivateRidge, PrivatePCA])
def test_a_level_that_the_release_does_not_know_is_refused(estimator):
    table, model = model_of(NUMBERS, DIGITS[PLACE])
    if estimator is PrivatePCA:
        model = PrivatePCA.from_release(model.release_)
    use = model.transform if estimator is PrivatePCA else model.predict
    with pytest.raises(InputError, match="'g' holds a category") as raised:
        use(table.assign(g="elsewhere"))
    assert "elsewhere" not in str(raised.value)


def test_where_many_rows_have_no_listed_level_others_have_none_either():
    _, model = model_of(dpcov.Categorical(categories=("1", "2")), DIGITS[PLACE])
    assert model.reference_levels_ == ()
    new = pd.DataFrame({"x": [0.0, 0.0], "g": ["3", "elsewhere"]})
    assert len(set(model.predict(new))) == 1
    np.testing.assert_allclose(model.predict(new), Y[PLACE == 2].mean(), atol=0.5)


def test_a_schema_that_does_not_fit_its_release_is_not_read_by():
    """Anybody may have written the file."""
    table, model = model_of(NUMBERS, DIGITS[PLACE])
    release = model.release_
    for text in (None, "no schema", '[columns.z]\ntype = "boolean"\n'):
        manifest = replace(release.manifest, schema_toml=text)
        other = type(release)(manifest, dict(release.statistics.arrays))
        again = PrivateLinearRegression.from_release(other, target="y")
        whole = table.assign(g=PLACE + 1.0)
        np.testing.assert_array_equal(again.predict(whole), model.predict(table))


@pytest.mark.parametrize("other", ["never", "indicator"])
def test_a_missing_value_that_counted_as_the_center_does_so_whatever_other_columns_mark(other):
    rng = np.random.default_rng(0)
    x, z = rng.uniform(60, 100, 2_000), rng.uniform(0, 100, 2_000)
    table = pd.DataFrame({"x": np.where(rng.random(2_000) < 0.5, np.nan, x), "z": z, "y": x})
    policies = {"x": "center", "z": other, "y": "never"}
    columns = {c: dpcov.Numeric(lower=0, upper=100, missing=own) for c, own in policies.items()}
    terms = {"budget": dpcov.Budget(rho=100), "geometry": "schema"}
    model = PrivateLinearRegression.from_release(
        dpcov.release(table, schema=dpcov.Schema(columns=columns), **terms),
        target="y",
        features=["x"],
    )
    known, missing = model.predict(pd.DataFrame({"x": [50.0, np.nan]}))
    assert missing == pytest.approx(known)


@pytest.mark.parametrize("features", [["x", "z", "g"], ["x", "z"], ["x, z, g (missing)", "x"]])
def test_values_that_are_missing_together_are_so_in_new_rows(features):
    columns = {
        **{name: dpcov.Numeric(lower=-25, upper=25) for name in "xzy"},
        "g": dpcov.Categorical(categories=("1", "2")),
    }
    schema = dpcov.Schema(columns=columns, missing_together=[["x", "z", "g"]])
    hidden = RNG.random(N_ROWS) < 0.2
    table = pd.DataFrame({"x": np.where(hidden, np.nan, X), "z": Y + X, "y": Y, "g": DIGITS[PLACE]})
    release = released(table, 1000, 1, schema=schema)
    pca = PrivatePCA.from_release(release, features=features)
    new = pd.DataFrame({"x": [1.0, 1.0, np.nan], "z": [2.0, np.nan, 2.0], "g": ["1", "2", "1"]})
    scores = pca.transform(new)
    np.testing.assert_array_equal(scores[1], scores[2])
    assert not np.array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(pca.transform(new.assign(x=np.nan))[0], scores[1])
    one = new.assign(g=["1", None, None], z=2.0, x=1.0)
    if "z" not in features or "g" in features:
        np.testing.assert_array_equal(pca.transform(one)[1:], scores[1:])
    if "g" in features:
        arrays = np.array([[1.0, 2.0, 1, 0], [1.0, np.nan, 0, 1], [1.0, 2.0, np.nan, np.nan]])
        np.testing.assert_array_equal(pca.transform(arrays), scores)


def test_where_one_of_several_values_is_missing_their_mark_is_set():
    schema = dpcov.Schema(
        columns={name: dpcov.Numeric(lower=-25, upper=25) for name in "xzy"},
        missing_together=[["x", "z"]],
    )
    hidden = RNG.random(N_ROWS) < 0.2
    table = pd.DataFrame({"x": np.where(hidden, np.nan, X), "z": Y, "y": Y + 9 * hidden})
    release = released(table, 1000, 1, schema=schema)
    model = PrivateLinearRegression.from_release(release, target="y", features=["x, z (missing)"])
    found = model.predict(pd.DataFrame({"x": [1.0, np.nan, 1.0], "z": [1.0, 1.0, np.nan]}))
    assert found[0] + 5 < found[1] == found[2]
    with pytest.raises(InputError, match="no column 'z'"):
        model.predict(pd.DataFrame({"x": [1.0]}))


SECRET = "sentinel-7391"
UNREADABLE = {
    "lazy": (lambda new: pl.from_pandas(new).lazy(), "Lazy frames"),
    "objects": (lambda new: new.to_numpy(dtype=object), "no number"),
    "texts": (lambda new: new.to_numpy(dtype=str), "no number"),
    "dicts": (lambda new: new.to_dict("records"), "no number"),
    "a row": (lambda new: new.iloc[0], "no number"),
    "numbers of a row": (lambda _: pd.Series([7391.5]), "Expected 2D array"),
    "ragged": (lambda _: [[7391.5, 1.0], [7391.5]], "ragged"),
    "complex": (lambda _: np.array([[7391.5j, 1.0]]), "Complex data"),
    "a name twice": (lambda new: pd.concat([new, new], axis=1), "have one name"),
    "nothing": (lambda _: None, "Expected 2D array"),
}


@pytest.mark.parametrize(("make", "said"), UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("levels", [[], ["g"]], ids=["numbers", "mixed"])
def test_rows_that_cannot_be_read_are_refused_without_their_values(make, said, levels):
    _, model = model_of(NUMBERS, DIGITS[PLACE], missing="never")
    pca = PrivatePCA.from_release(model.release_, features=["x", *levels])
    new = pd.DataFrame({"x": [SECRET, "1"], "g": "1"})[["x", *levels]]
    with pytest.raises(InputError, match=said) as raised:
        pca.transform(make(new))
    assert "7391" not in str(raised.value)


@pytest.mark.parametrize("count", [1, 9])
def test_an_array_with_levels_has_a_column_for_every_feature(count):
    _, model = model_of(NUMBERS, DIGITS[PLACE], missing="never")
    pca = PrivatePCA.from_release(model.release_, features=["x", "g"])
    with pytest.raises(InputError, match=r"Give a data frame .* get_encoded_names"):
        pca.transform(np.ones((2, count)))


def test_what_is_said_of_rows_names_few_of_many_features():
    rows = np.random.default_rng(0).normal(size=(50, 300))
    pca = PrivatePCA.from_release(released_within(rows, -9, 9, rho=10), n_components=1)
    with pytest.raises(InputError, match=r"x0, x1, .* and 29\d more") as raised:
        pca.transform(rows[0])
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
@pytest.mark.parametrize("levels", [[], ["g"]], ids=["numbers", "mixed"])
def test_a_column_stands_for_the_values_of_its_public_function(make, levels):
    schema = dpcov.Schema(
        columns={
            "x": dpcov.Numeric(lower=0, upper=5, transform="log1p"),
            "day": dpcov.Date(lower=0, upper=25, as_="days", reference=date(2020, 1, 21)),
            "g": NUMBERS,
            "y": dpcov.Numeric(lower=-25, upper=25),
        }
    )
    days = [date(2020, 1, 1 + place % 20) for place in range(N_ROWS)]
    table = pd.DataFrame({"x": np.abs(X), "day": days, "g": DIGITS[PLACE], "y": Y})
    table["y"] += [day.day / 9 for day in days]
    release = released(table, 1000, 1, schema=schema)
    names = ["x", "day", *levels]
    model = PrivateLinearRegression.from_release(release, target="y", features=names)
    functions = [name for name in model.feature_names_in_ if name.endswith(("(x)", "(day)"))]
    values = {functions[0]: np.log1p(table["x"]), functions[1]: [21.0 - day.day for day in days]}
    assert np.all(np.abs(model.coef_) > 1e-5)
    expected = model.predict(make(pd.DataFrame(values | {name: table[name] for name in levels})))
    for rows in (table, table.drop(columns="y").iloc[::-1]):
        found = model.predict(make(rows))
        np.testing.assert_allclose(found, expected[rows.index])
    # As text, and missing.
    rows = table.assign(x=[None, *map(str, table["x"][1:])])
    np.testing.assert_allclose(model.predict(make(rows))[1:], expected[1:])
    with pytest.raises(InputError, match="'x' holds something") as raised:
        model.predict(make(table.assign(x=SECRET)))
    assert "7391" not in str(raised.value)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
def test_a_score_takes_no_column_for_the_values_of_its_public_function(make, recwarn):
    columns = {"a": dpcov.Numeric(lower=0, upper=3)}
    columns["cost"] = dpcov.Numeric(lower=0, upper=50, transform="log1p")
    a = np.abs(X).clip(0, 3)
    rows, cost = pd.DataFrame({"a": a}), np.expm1(a + 0.1 * np.abs(Y).clip(0, 5))
    release = released(rows.assign(cost=cost), 1000, 1, schema=dpcov.Schema(columns=columns))
    model = PrivateLinearRegression.from_release(release, target="cost")
    values = np.log1p(cost)
    right = r2_score(values, model.predict(rows))
    recwarn.clear()
    labelled = make(pd.DataFrame({"cost": cost, "log1p(cost)": values}))
    for given in (values, [*values], labelled["log1p(cost)"]):
        assert model.score(rows, given) == pytest.approx(right)
    assert not recwarn.list
    # The name alone does not tell which of the two they hold.
    for named in (labelled["cost"], labelled[["cost"]]):
        with pytest.raises(InputError, match=r"'log1p\(cost\)': give its values under that name"):
            model.score(rows, named)
    with pytest.warns(UserWarning, match=r"beyond the bounds of log1p\(cost\)") as raised:
        assert model.score(rows, cost) < right - 0.5
    assert raised[0].filename == __file__


def test_a_release_without_a_schema_asks_for_the_values_of_a_public_function():
    columns = {"x": dpcov.Numeric(lower=0, upper=5, transform="log1p"), "y": dpcov.Boolean()}
    table = pd.DataFrame({"x": np.abs(X), "y": Y > 0})
    made = released(table, 1000, 1, schema=dpcov.Schema(columns=columns))
    made.manifest = replace(made.manifest, schema_toml=None)
    model = PrivateLinearRegression.from_release(made, target="y")
    with pytest.raises(InputError, match=r"'log1p\(x\)'. Give log1p of 'x' there"):
        model.predict(table)


def test_columns_that_pandas_numbers_are_found_by_their_numbers(recwarn):
    table = pd.DataFrame({0: X, 1: X + RNG.normal(size=N_ROWS), 2: PLACE + 1})
    numeric = dpcov.Numeric(lower=-5, upper=5)
    schema = dpcov.Schema(columns={"0": numeric, "1": numeric, "2": NUMBERS})
    made = released(table, 1000, 1, schema=schema)
    recwarn.clear()
    for features in (["0"], None):
        model = PrivateLinearRegression.from_release(made, target="1", features=features)
        named = model.predict(table.rename(columns=str))
        np.testing.assert_array_equal(model.predict(table[[2, 1, 0]]), named)
    assert not recwarn
    with pytest.raises(InputError, match="one name"):
        model.predict(table.assign(**{"0": X}))

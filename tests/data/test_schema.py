import math
from datetime import date

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcov.data.schema.declared import Boolean, Categorical, Date, Ignored, Numeric, Weights
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import open_source
from dpcov.errors import SchemaError
from tests.data.reading import read_encoded

AGE = Numeric(lower=17, upper=90)
SEX = Categorical(categories=("Male", "Female"))


def complete(**changes):
    return Schema(
        **{"columns": {"age": AGE, "sex": SEX, "ok": Boolean(), "id": Ignored()}, **changes}
    )


def test_encoded_columns_follow_the_declared_order():
    columns = complete(missing="indicator").encoded_columns
    assert [(c.name, c.source, c.kind) for c in columns] == [
        ("(intercept)", "", "intercept"),
        ("age", "age", "numeric"),
        ("age (missing)", "age", "missing"),
        ("sex=Male", "sex", "category"),
        ("sex=Female", "sex", "category"),
        ("sex (missing)", "sex", "missing"),
        ("ok", "ok", "boolean"),
        ("ok (missing)", "ok", "missing"),
    ]
    assert (columns[1].center, columns[1].half_range) == (53.5, 36.5)
    assert (columns[6].center, columns[6].half_range) == (0.5, 0.5)
    others = [c for c in columns if c.kind not in ("numeric", "boolean")]
    assert {(c.center, c.half_range) for c in others} == {(0.0, 1.0)}
    centered = Numeric(lower=0, upper=1, missing="center")
    assert len(Schema(columns={"a": centered}, missing="indicator").encoded_columns) == 2


def test_worst_case_norm_counts_blocks_not_columns():
    assert complete().worst_case_norm == 2.0
    assert complete(intercept=False).worst_case_norm == math.sqrt(3)
    assert complete(missing="indicator").worst_case_norm == 2.0
    assert complete(norm_bound=1.5).norm_bound_or_worst_case == 1.5
    assert complete().norm_bound_or_worst_case == 2.0


def weighted(upper, **more):
    weights = Weights(column="w", upper=upper)
    return {"columns": {"a": AGE, "w": Ignored()}, "weights": weights} | more


COLUMNS = [
    (Numeric(), "fill in lower and upper from"),
    (Numeric(lower=1), "fill in upper from"),
    (Numeric(lower=math.nan, upper=1), "fill in lower from"),
    (Numeric(lower=2, upper=1), "exchange"),
    (Numeric(lower=1, upper=1), "equal"),
    (Numeric(lower=0, upper=5e-324), "too close"),
    (Numeric(lower=3e-150, upper=4.9e-150), "too close"),
    (Numeric(lower=0, upper=1e160), "far apart"),
    (Numeric(lower=-1e150, upper=1.1e150), "far apart"),
    (Numeric(lower=1e155, upper=1.0000001e155), "far out"),
    (Numeric(lower=-math.inf, upper=1), "finite"),
    (Numeric(lower=1, upper=math.inf), "finite"),
    (Numeric(lower=0, upper=10**400), "finite"),
    (Categorical(), "list its categories"),
    (Categorical(categories=("x", "y", "x", "z", " y")), "ignored): x, y."),
    (Categorical(categories=("x", " ")), "empty text"),
    ("numeric", "must be Numeric"),
    (Numeric(lower=-1, upper=9, transform="log1p"), "log1p needs a lower bound above -1"),
    (Numeric(lower=-0.5, upper=9, transform="sqrt"), "sqrt needs a lower bound of 0"),
    (Numeric(lower=0, upper=5e-324, transform="log1p"), "too close"),
    (Numeric(lower=0, upper=9, transform="exp"), "at `transform`"),
    (Numeric(lower=0, upper=9, unit=3), "at `unit`"),
    (Numeric(lower=0, upper=9, decimal=",", thousands=","), "same mark"),
    (Numeric(lower=0, upper=9, thousands="."), "same mark"),
    (Date(as_="year"), "fill in lower and upper"),
    (Date(as_="age", lower=0, upper=9), "needs a reference"),
    (Date(lower=0, upper=9, format="%d.%m.%y"), "format of dates"),
    (Date(as_="month", lower=0, upper=9), "at `as`"),
    *(
        (Boolean(missing_codes=(code,)), "means true or false")
        for code in (1.0, "0", "True", "true", " YES ", "f", "no")
    ),
    (Categorical(categories=("a",), groups={"b": ()}), "without a spelling: b"),
    (Categorical(categories=("a",), groups={"b": ("a",)}), "more than once"),
    (Categorical(categories=("a", "A"), ignore_case=True), "more than once"),
    (Categorical(categories=("a",), labels={"b": "c"}), "labels of what is no category: b"),
    (Categorical(categories=("a",), labels={"a": " "}), "empty text"),
    (Categorical(categories=("a", "9"), missing_codes=(9,)), "code of missing values: 9"),
    (Categorical(categories=("a", "9.0"), missing_codes=(9,)), "code of missing values: 9"),
    (Categorical(categories=("a", "9"), missing_codes=("9.0",)), "code of missing values: 9.0"),
    (
        Categorical(categories=("a",), ignore_case=True, missing_codes=("A",)),
        "code of missing values: A",
    ),
    (Categorical(categories=("a",), groups={"b": ("7.0",)}, missing_codes=(7,)), "values: 7"),
    (Categorical(categories=("a", "b"), labels={"a": "x", "b": "x"}), "encoded as 'a=x'"),
    (Boolean(missing="drop"), "missing is"),
    (Ignored(), "nothing to release"),
]
TABLES = [
    ({"columns": {}}, "nothing to release"),
    ({"columns": {" ": Boolean()}}, "without a name"),
    ({"columns": {None: Boolean()}}, "without a name"),
    ({"columns": {True: Boolean()}}, "without a name"),
    (
        {"columns": {"a": Categorical(categories=("b",)), "a=b": Boolean()}},
        "encoded as 'a=b'; rename",
    ),
    *(({"rows_per_person": wrong}, "rows_per_person") for wrong in (0, 1.5, True)),
    ({"rows_per_person": 2**53 + 1}, "too large: it must be at most 9007199254740992"),
    *(({"norm_bound": wrong}, "positive") for wrong in (0, math.inf, 9e-151, -1.0)),
    ({"norm_bound": 1.5}, "only add noise"),
    *(({"missing": wrong}, "missing is") for wrong in ("drop", 3)),
    ({"intercept": "yes"}, "intercept is true or false"),
    ({"wildcards": 1}, "wildcards is true or false"),
    ({"title": 3}, "title is a text"),
    *(({"decimal": wrong}, 'decimal is "." or ","') for wrong in ("x", "", None)),
    *(({"thousands": wrong}, "thousands is empty") for wrong in (";", 3)),
    ({"weights": Weights(column="w", upper=1)}, "not listed"),
    ({"weights": Weights(column="a", upper=1)}, "its bounds are 0 and the upper"),
    ({"columns": {"a": Boolean()}, "weights": Weights(column="a", upper=1)}, "make it numeric"),
    *((weighted(wrong), "largest weight") for wrong in (None, 0, -1)),
    (
        {
            "columns": {"a": Numeric(lower=0, upper=1, transform="sqrt")},
            "weights": Weights(column="a", upper=1),
        },
        "take no transform",
    ),
    ({"missing_together": [["a", "b"]]}, "'b', which is no column that is encoded"),
    ({"missing_together": [["a", "a"]]}, "'a' twice"),
    (
        {
            "columns": {"a": Numeric(lower=0, upper=1, missing="center")},
            "missing_together": [["a"]],
        },
        "whose own `missing` says otherwise",
    ),
    (weighted(1, intercept=False), "intercept"),
]


@pytest.mark.parametrize(
    ("changes", "expected"), [*(({"columns": {"a": a}}, words) for a, words in COLUMNS), *TABLES]
)
def test_each_problem_is_found_and_refused(changes, expected):
    schema = Schema(**({"columns": {"a": AGE}} | changes))
    assert any(expected in problem for problem in schema.problems())
    with pytest.raises(SchemaError, match="cannot be used yet"):
        schema.require_complete()
    with pytest.raises(SchemaError):
        _ = schema.encoded_columns


@pytest.mark.parametrize("wrong", [["ab"], [3]])
def test_columns_that_miss_together_are_lists_of_lists(wrong):
    with pytest.raises(SchemaError, match="is a list of lists"):
        complete(missing_together=wrong)


def test_bounds_are_numbers_and_categories_texts():
    for bound in ("3", True, [1], 1j):
        with pytest.raises(SchemaError, match="number"):
            Numeric(lower=bound, upper=9)
    assert Numeric(lower=np.int64(1), upper=np.float32(2)) == Numeric(lower=1.0, upper=2.0)
    for categories in ("abc", 3, [1, 2]):
        with pytest.raises(SchemaError, match="texts"):
            Categorical(categories=categories)
    with pytest.raises(SchemaError, match="mapping"):
        Schema(columns=[Numeric(lower=0, upper=1)])


def test_codes_dates_and_labels_are_made_plain_or_refused():
    assert Numeric(missing_codes=[np.int8(-9), " unknown ", -9, 1.5]).missing_codes == (
        *(-9, "unknown", 1.5),
    )
    assert Date(reference="2020-02-29") == Date(reference=date(2020, 2, 29))
    for wrong in ("999", 3, [True], [None], [[1]], [math.nan]):
        with pytest.raises(SchemaError, match="Missing codes are a list"):
            Boolean(missing_codes=wrong)
    with pytest.raises(SchemaError, match="written as 2020-12-31"):
        Date(reference="1.1.2020")
    for wrong in ({"labels": ["a"]}, {"labels": {1: "a"}}, {"groups": {"a": "bc"}}, {"groups": 3}):
        with pytest.raises(SchemaError, match=r"texts|tables"):
            Categorical(categories=("a",), **wrong)


def test_what_the_table_says_holds_where_a_column_is_silent():
    columns = {"a": Numeric(), "b": Numeric(missing_codes=(), decimal=".", thousands="'")}
    schema = Schema(columns=columns, missing_codes=(9,), decimal=",", thousands=".")
    assert (schema.codes_of("a"), schema.marks_of("a")) == ((9,), (",", "."))
    assert (schema.codes_of("b"), schema.marks_of("b")) == ((), (".", "'"))


def test_levels_are_categories_groups_and_all_others():
    kind = Categorical(
        categories=("b", " a "), groups={"g": ("x", "y"), "a": ("z",)}, other="b", labels={"g": "G"}
    )
    assert (kind.levels, kind.names) == (("b", "a", "g"), ("b", "a", "G"))
    assert [kind.spelling_of(level) for level in kind.levels] == ["b", "a", "x"]
    assert Categorical(groups={"g": ("x",)}, other="rest").levels == ("g", "rest")
    only_groups = Schema(columns={"a": Categorical(groups={"g": ("x",)})})
    assert only_groups.problems() == []
    assert not only_groups.dumps().startswith("#")


def test_encoded_columns_are_called_after_their_functions_and_carry_units():
    money = Numeric(lower=0, upper=99, unit="EUR", transform="sqrt", description="Income")
    born = Date(as_="days", reference="2020-01-01", lower=0, upper=10)
    columns = Schema(columns={"m": money, "d": born}, missing="indicator").encoded_columns
    assert [(c.name, c.unit, c.description) for c in columns[1:]] == [
        *(("sqrt(m)", "sqrt(EUR)", "Income"), ("m (missing)", "", "Income")),
        *(("days(d)", "days", ""), ("d (missing)", "", "")),
    ]
    assert columns[1].center == pytest.approx(math.sqrt(99) / 2)


def test_a_schema_cannot_be_changed():
    columns = {"age": AGE}
    schema = Schema(columns=columns)
    columns["b"] = Boolean()
    assert list(schema.columns) == ["age"]
    with pytest.raises(AttributeError):
        schema.intercept = False


missing = st.sampled_from((None, "center", "indicator"))
bounds = st.one_of(st.none(), st.floats(allow_nan=False))
texts = st.text(max_size=9)
code = st.one_of(texts, st.integers(-(10**9), 10**9), st.floats(allow_nan=False))
of_all = {
    "missing": missing,
    "missing_codes": st.one_of(st.none(), st.lists(code, max_size=4)),
    "description": texts,
}
numeric = {"lower": bounds, "upper": bounds, **of_all}
declared = st.one_of(
    st.builds(
        Numeric,
        unit=texts,
        transform=st.sampled_from((None, "log1p", "sqrt")),
        decimal=st.sampled_from((None, ".", ",")),
        thousands=st.sampled_from((None, "", ".", ",", " ", "'")),
        **numeric,
    ),
    st.builds(
        Date,
        as_=st.sampled_from(("year", "days", "age")),
        reference=st.one_of(st.none(), st.dates()),
        format=texts,
        **numeric,
    ),
    st.builds(Boolean, **of_all),
    st.builds(
        Categorical,
        categories=st.lists(st.text(max_size=30), max_size=12),
        labels=st.dictionaries(texts.map(str.strip), texts, max_size=3),
        groups=st.dictionaries(texts.map(str.strip), st.lists(texts, max_size=3), max_size=3),
        other=st.one_of(st.just("none"), texts),
        ignore_case=st.booleans(),
        **of_all,
    ),
    st.builds(Ignored, note=st.text(max_size=5), description=texts),
)
any_schema = st.builds(
    Schema,
    columns=st.dictionaries(st.text(), declared, max_size=5),
    title=st.text(),
    intercept=st.booleans(),
    missing=st.sampled_from(("center", "indicator")),
    missing_codes=st.lists(code, max_size=3),
    missing_together=st.lists(st.lists(st.text(max_size=30), max_size=4), max_size=4),
    decimal=st.sampled_from((".", ",")),
    thousands=st.sampled_from(("", "'", " ")),
    weights=st.one_of(st.none(), st.builds(Weights, column=st.text(), upper=bounds)),
    rows_per_person=st.integers(1, 10**12),
    norm_bound=bounds,
)


@example(Schema(columns={}, missing_together=(("blood pressure", "heart rate " * 9),)))
@given(any_schema)
def test_toml_round_trip(schema):
    again = Schema.loads(schema.dumps())
    assert again == schema
    assert list(again.columns) == list(schema.columns)


def test_a_file_is_replaced_as_a_whole(tmp_path):
    schema = complete(title='A "table"\n', norm_bound=1.5, weights=Weights(column="id", upper=2.5))
    path = tmp_path / "schema.toml"
    path.write_text("old")
    schema.save(path)
    assert Schema.from_toml(str(path)) == schema
    assert [entry.name for entry in tmp_path.iterdir()] == ["schema.toml"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("title = 'x'", r"no \[columns"),
        ("columns = 3", r"no \[columns"),
        ("[columns.age]\ntype = 'numeric'\nlower = true", "'age'.*`lower`"),
        ("[columns.age]\ntype = 'integer'", "'age'.*\"numeric\""),
        ("[columns.age]\nlower = 3", "'age'.*\"numeric\""),
        ("[columns.sex]\ntype = 'categorical'\ncategories = [1]", "'sex'.*categories"),
        ("columns.a = 3", "'a'"),
        ("missing = 'drop'\n[columns.ok]\ntype = 'boolean'", "missing"),
    ],
)
def test_mistakes_in_a_file_are_named(text, expected):
    with pytest.raises(SchemaError, match=expected):
        Schema.loads(text)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_files_that_cannot_be_read(tmp_path, content):
    path = tmp_path / "schema.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SchemaError, match="schema file"):
        Schema.from_toml(path)
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.from_toml(tmp_path)


WIDTHS = (
    *((-1e150, 1e150), (-1.6e150, 1e149), (-1e149, 1.6e150), (0, 1), (-1, 0)),
    *((-1e-150, 1e-150), (3e-150, 6e-150), (-6e-150, -3e-150)),
)
RIGHT = [
    *({"columns": {"a": Numeric(lower=lower, upper=upper)}} for lower, upper in WIDTHS),
    {"columns": {"": Ignored(), " ": Ignored(), "a": AGE}},
    {"norm_bound": math.sqrt(2)},
    {"norm_bound": 1e-70},
    {"intercept": False},
    weighted(0.5),
    {"columns": {"a": Boolean(missing="indicator"), "b": Boolean(missing="center")}},
]


@pytest.mark.parametrize("changes", RIGHT)
def test_what_is_just_right_has_no_problem(changes):
    assert Schema(**({"columns": {"a": AGE}} | changes)).problems() == []


FILLED = """\
title = "Größe\\u007f"
intercept = false
missing = "indicator"
rows_per_person = 3
norm_bound = 1.5

[weights]
column = "w"
upper = 2

[columns."a b"]
type = "numeric"
lower = -1
upper = 1e+300
missing = "center"

[columns.b]
type = "categorical"
categories = ["x", "\\"y\\""]

[columns.c-D_9]
type = "boolean"
missing = "indicator"

[columns.w]
type = "ignored"
note = "weight"
"""


def test_schemas_are_written_as_ever():
    columns = {
        "a b": Numeric(lower=-1, upper=1e300, missing="center"),
        "b": Categorical(categories=("x", '"y"')),
        "c-D_9": Boolean(missing="indicator"),
        "w": Ignored(note="weight"),
    }
    facts = {"title": "Größe\x7f", "intercept": False, "missing": "indicator", "rows_per_person": 3}
    filled = Schema(columns=columns, norm_bound=1.5, weights=Weights(column="w", upper=2), **facts)
    assert filled.dumps() == FILLED
    assert Schema.loads(FILLED) == filled
    assert Schema(columns={}).dumps().endswith("rows_per_person = 1\n\n[columns]\n")


@pytest.mark.parametrize("year", [2019, np.int64(2019)], ids=["int", "numpy"])
def test_whole_numbers_can_name_columns_as_in_a_data_frame(year):
    frame = pd.DataFrame({year: [0.5, 1.0]})
    schema = Schema(columns={name: Numeric(lower=0, upper=1) for name in frame}, missing="never")
    assert schema == Schema(columns={"2019": Numeric(lower=0, upper=1)}, missing="never")
    (encoded,) = read_encoded(open_source(frame), schema, 9)
    assert encoded.shape == (2, 2)


def test_numbers_name_columns_wherever_a_schema_names_them():
    columns = {2019: AGE, 2020: AGE, 2021: Numeric(lower=0, upper=4)}
    schema = Schema(
        columns=columns, weights=Weights(column=2021, upper=4), missing_together=[[2019, 2020]]
    )
    schema.require_complete()
    assert schema == Schema.loads(schema.dumps())


def test_a_number_and_its_text_are_one_column():
    with pytest.raises(SchemaError, match="listed twice"):
        Schema(columns={2019: AGE, "2019": SEX})

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.data.schema.declared import Boolean, Categorical, Ignored, Numeric, Weights
from dpcov.data.schema.schema import Schema
from dpcov.errors import SchemaError

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
    assert {
        (c.center, c.half_range) for c in columns if c.kind in ("category", "missing", "intercept")
    } == {(0.0, 1.0)}


def test_features_and_the_weight_are_the_columns_that_are_read():
    columns = {"a": AGE, "w": Ignored(), "b": Boolean()}
    assert Schema(columns=columns).needed_columns == ("a", "b")
    assert Schema(columns=columns, weights=Weights(column="w", upper=1)).needed_columns == (
        "a",
        "b",
        "w",
    )


def test_missing_can_be_set_for_one_column():
    schema = Schema(columns={"a": Numeric(lower=0, upper=1, missing="indicator"), "b": Boolean()})
    assert [c.name for c in schema.encoded_columns] == ["(intercept)", "a", "a (missing)", "b"]
    schema = Schema(columns={"a": Numeric(lower=0, upper=1, missing="center")}, missing="indicator")
    assert [c.name for c in schema.encoded_columns] == ["(intercept)", "a"]


def test_worst_case_norm_counts_blocks_not_columns():
    assert complete().worst_case_norm == 2.0
    assert complete(intercept=False).worst_case_norm == math.sqrt(3)
    assert complete(missing="indicator").worst_case_norm == 2.0
    assert complete(norm_bound=1.5).norm_bound_or_worst_case == 1.5
    assert complete().norm_bound_or_worst_case == 2.0


@pytest.mark.parametrize(
    ("columns", "changes", "expected"),
    [
        ({"a": Numeric()}, {}, "fill in lower and upper"),
        ({"a": Numeric(lower=1)}, {}, "fill in upper"),
        ({"a": Numeric(lower=math.nan, upper=1)}, {}, "fill in lower"),
        ({"a": Numeric(lower=2, upper=1)}, {}, "exchange"),
        ({"a": Numeric(lower=1, upper=1)}, {}, "equal"),
        ({"a": Numeric(lower=0, upper=5e-324)}, {}, "too close"),
        ({"a": Numeric(lower=0, upper=1e-160)}, {}, "too close"),
        ({"a": Numeric(lower=0, upper=1e160)}, {}, "far apart"),
        ({"a": Numeric(lower=-math.inf, upper=1)}, {}, "finite"),
        ({"a": Numeric(lower=0, upper=10**400)}, {}, "finite"),
        ({"a": Categorical()}, {}, "list its categories"),
        ({"a": Categorical(categories=("x", " x "))}, {}, "more than once"),
        ({"a": Categorical(categories=("x", " "))}, {}, "empty text"),
        ({" ": Boolean()}, {}, "without a name"),
        ({"a": "numeric"}, {}, "must be Numeric"),
        ({"a": Boolean(missing="drop")}, {}, "missing is"),
        ({"a": Ignored()}, {}, "nothing to release"),
        ({}, {}, "nothing to release"),
        ({"a": AGE}, {"rows_per_person": 0}, "rows_per_person"),
        ({"a": AGE}, {"rows_per_person": 1.5}, "rows_per_person"),
        ({"a": AGE}, {"rows_per_person": True}, "rows_per_person"),
        ({"a": AGE}, {"missing": "drop"}, "missing is"),
        ({"a": AGE}, {"norm_bound": 0}, "positive"),
        ({"a": AGE}, {"norm_bound": math.inf}, "positive"),
        ({"a": AGE}, {"norm_bound": 1.5}, "only add noise"),
        ({"a": AGE}, {"weights": Weights(column="w", upper=1)}, "not listed"),
        ({"a": AGE}, {"weights": Weights(column="a", upper=1)}, "both the weights and a feature"),
        ({"a": AGE, "w": Ignored()}, {"weights": Weights(column="w")}, "largest weight"),
        ({"a": AGE, "w": Ignored()}, {"weights": Weights(column="w", upper=0)}, "largest weight"),
        (
            {"a": AGE, "w": Ignored()},
            {"weights": Weights(column="w", upper=1), "intercept": False},
            "intercept",
        ),
        ({"a": Categorical(categories=("b",)), "a=b": Boolean()}, {}, "called 'a=b'; rename"),
        ({3: Boolean()}, {}, "without a name"),
        ({"a": AGE}, {"norm_bound": 9e-151}, "positive"),
        ({"a": AGE}, {"norm_bound": -1.0}, "positive"),
        ({"a": AGE}, {"intercept": "yes"}, "intercept is true or false"),
        ({"a": AGE}, {"missing": 3}, "missing is"),
        ({"a": AGE}, {"title": 3}, "title is a text"),
        ({"a": Numeric(lower=1, upper=math.inf)}, {}, "finite"),
        ({"a": Numeric(lower=1)}, {}, "fill in upper from"),
        ({"a": Numeric()}, {}, "fill in lower and upper from"),
        ({"a": Categorical(categories=("x", "y", "x", "z", " y"))}, {}, "ignored): x, y."),
        ({"a": AGE, "w": Ignored()}, {"weights": Weights(column="w", upper=-1)}, "largest weight"),
    ],
)
def test_each_problem_is_found_and_refused(columns, changes, expected):
    schema = Schema(columns=columns, **changes)
    assert any(expected in problem for problem in schema.problems())
    with pytest.raises(SchemaError, match="cannot be used yet"):
        schema.require_complete()
    with pytest.raises(SchemaError):
        _ = schema.encoded_columns


@pytest.mark.parametrize("bound", ["3", True, [1], 1j])
def test_bounds_are_numbers_only(bound):
    with pytest.raises(SchemaError, match="number"):
        Numeric(lower=bound, upper=9)


def test_numpy_numbers_are_bounds():
    assert Numeric(lower=np.int64(1), upper=np.float32(2)) == Numeric(lower=1.0, upper=2.0)


@pytest.mark.parametrize("categories", ["abc", 3, [1, 2]])
def test_categories_are_a_list_of_texts(categories):
    with pytest.raises(SchemaError, match="texts"):
        Categorical(categories=categories)


def test_a_schema_cannot_be_changed():
    columns = {"age": AGE}
    schema = Schema(columns=columns)
    columns["b"] = Boolean()
    assert list(schema.columns) == ["age"]
    with pytest.raises(AttributeError):
        schema.intercept = False


missing = st.sampled_from((None, "center", "indicator"))
bounds = st.one_of(st.none(), st.floats(allow_nan=False))
declared = st.one_of(
    st.builds(Numeric, lower=bounds, upper=bounds, missing=missing),
    st.builds(Boolean, missing=missing),
    st.builds(Categorical, categories=st.lists(st.text(max_size=30), max_size=12), missing=missing),
    st.builds(Ignored, note=st.text(max_size=5)),
)
any_schema = st.builds(
    Schema,
    columns=st.dictionaries(st.text(), declared, max_size=5),
    title=st.text(),
    intercept=st.booleans(),
    missing=st.sampled_from(("center", "indicator")),
    weights=st.one_of(st.none(), st.builds(Weights, column=st.text(), upper=bounds)),
    rows_per_person=st.integers(1, 10**12),
    norm_bound=bounds,
)


@given(any_schema)
def test_toml_round_trip(schema):
    again = Schema.loads(schema.dumps())
    assert again == schema
    assert list(again.columns) == list(schema.columns)


def test_the_example_in_a_file_round_trips(tmp_path):
    schema = complete(title='A "table"\n', norm_bound=1.5, weights=Weights(column="id", upper=2.5))
    path = tmp_path / "schema.toml"
    path.write_text("old")
    schema.save(path)
    assert Schema.from_toml(str(path)) == schema
    assert [entry.name for entry in tmp_path.iterdir()] == ["schema.toml"]


def test_a_failed_save_leaves_nothing_behind(tmp_path):
    (tmp_path / "schema.toml").mkdir()
    with pytest.raises(SchemaError, match="cannot be written"):
        complete().save(tmp_path / "schema.toml")
    assert [entry.name for entry in tmp_path.iterdir()] == ["schema.toml"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("title = ", "valid TOML"),
        ("a = 1\nb = = 2", "line 2"),
        ("title = 'x'", r"no \[columns"),
        ("columns = 3", r"no \[columns"),
        ("[columns.age]\ntype = 'numeric'\nlower = '17'", "'age'.*`lower`"),
        ("[columns.age]\ntype = 'numeric'\nlower = true", "'age'.*`lower`"),
        ("[columns.age]\ntype = 'numeric'\nlow = 17", "'age'.*unknown field `low`"),
        ("[columns.age]\ntype = 'integer'", "'age'.*\"numeric\""),
        ("[columns.age]\nlower = 3", "'age'.*\"numeric\""),
        ("[columns.sex]\ntype = 'categorical'\ncategories = [1]", "'sex'.*categories"),
        ("columns.a = 3", "'a'"),
        ("bound = 1\n[columns.ok]\ntype = 'boolean'", "unknown field `bound`"),
        ("missing = 'drop'\n[columns.ok]\ntype = 'boolean'", "missing"),
        ("[columns.ok]\ntype = 'boolean'\n[weights]\nupper = 1", "column"),
    ],
)
def test_mistakes_in_a_file_are_named(text, expected):
    with pytest.raises(SchemaError, match=expected):
        Schema.loads(text)


def test_every_mistaken_column_is_listed():
    with pytest.raises(SchemaError) as caught:
        Schema.loads("[columns.a]\ntype = 'numeric'\nlower = ''\n[columns.b]\ntype = 'x'")
    assert "'a'" in str(caught.value)
    assert "'b'" in str(caught.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_files_that_cannot_be_read(tmp_path, content):
    path = tmp_path / "schema.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SchemaError, match="schema file"):
        Schema.from_toml(path)
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.from_toml(tmp_path)


@pytest.mark.parametrize(
    ("columns", "changes"),
    [
        ({"": Ignored(), " ": Ignored(), "a": AGE}, {}),
        ({"a": AGE}, {"norm_bound": math.sqrt(2)}),
        ({"a": AGE}, {"norm_bound": 1e-150}),
        ({"a": AGE}, {"intercept": False}),
        ({"a": AGE}, {"rows_per_person": 1}),
        ({"a": AGE, "w": Ignored()}, {"weights": Weights(column="w", upper=0.5)}),
        ({"a": AGE, "w": Ignored()}, {"weights": Weights(column="w", upper=1)}),
        ({"a": Numeric(lower=0, upper=1)}, {}),
        ({"a": Numeric(lower=-1, upper=0)}, {}),
        ({"a": Boolean(missing="indicator"), "b": Boolean(missing="center")}, {}),
    ],
)
def test_what_is_just_right_has_no_problem(columns, changes):
    assert Schema(columns=columns, **changes).problems() == []


def test_half_ranges_and_centers_are_halves():
    for lower, upper in ((0, 1), (-3, 0), (2, 8), (-1e150, 1e150)):
        _, column = Schema(columns={"a": Numeric(lower=lower, upper=upper)}).encoded_columns
        assert (column.center, column.half_range) == ((lower + upper) / 2, (upper - lower) / 2)
        assert (column.name, column.source, column.kind) == ("a", "a", "numeric")


DRAFTED = """\
# A draft.  Fill in every nan and every empty list, then use it.
# Bounds and categories must come from public knowledge (questionnaires, code books, common sense),
# and NEVER from the data: no minimum, no maximum, no list of the values that occur.
# Give identifiers, free text and everything that is not needed the type "ignored".
# A number that stands for a category gets the type "categorical" with texts: ["1", "2"].

intercept = true
missing = "center"
rows_per_person = 1

[weights]
column = "w"
upper = nan  # the largest weight a row could have, by public knowledge

[columns.a]
type = "numeric"
lower = nan  # the smallest value anybody could have, by public knowledge
upper = nan  # the largest value anybody could have, by public knowledge

[columns.b]
type = "categorical"
categories = []  # every public category, such as ["yes", "no"]; any other value counts as none

[columns.w]
type = "ignored"
"""

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
    columns = {"a": Numeric(), "b": Categorical(), "w": Ignored()}
    assert Schema(columns=columns, weights=Weights(column="w")).dumps() == DRAFTED
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


@pytest.mark.parametrize(
    ("declared", "is_draft"),
    [
        (Numeric(lower=1), True),
        (Numeric(upper=1), True),
        (Numeric(lower=0, upper=1), False),
        (Categorical(), True),
        (Categorical(categories=("a",)), False),
        (Boolean(), False),
        (Ignored(), False),
    ],
)
def test_a_draft_says_that_it_is_one(declared, is_draft):
    text = Schema(columns={"a": declared, "b": Boolean()}).dumps()
    assert text.startswith("# A draft.") == is_draft
    assert ("  # " in text) == is_draft


def test_a_schema_is_not_written_where_there_is_no_folder(tmp_path):
    with pytest.raises(SchemaError, match="cannot be written: No such file"):
        complete().save(tmp_path / "absent" / "schema.toml")

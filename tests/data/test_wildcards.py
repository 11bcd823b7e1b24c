"""Patterns and defaults: which columns they stand for, and that nothing else sees them."""

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpcov
from benchmarks.data import data_directory
from dpcov import Budget, Categorical, Ignored, Numeric, Schema
from dpcov.data.sources import delimited
from dpcov.errors import SchemaError

ONE, TWO, THREE = (Numeric(lower=0, upper=upper) for upper in (1, 2, 3))
BUDGET = Budget(rho=1)


def resolved(columns, names, **more):
    return Schema(columns=columns, **more).resolve(names).columns


def test_a_name_comes_first_then_the_pattern_with_most_characters():
    columns = {"*": ONE, "PAY_*": TWO, "PAY_AMT*": THREE, "PAY_2": Ignored(), "id": Ignored()}
    found = resolved(columns, ["AGE", "PAY_AMT1", "PAY_2", "PAY_1", "id"])
    assert found == {
        **{"AGE": ONE, "PAY_AMT1": THREE, "PAY_2": Ignored(), "PAY_1": TWO, "id": Ignored()}
    }
    assert list(found) == ["AGE", "PAY_AMT1", "PAY_2", "PAY_1", "id"]  # the table's order
    # The order of the file decides nothing.
    assert resolved(dict(reversed(columns.items())), [*found]) == found


def test_wildcards_are_those_of_a_shell():
    names = ["Q1", "Q2", "Q10", "q1", "Qx"]
    found = resolved({"Q[0-9]": ONE, "Q??": TWO, "[!Q]1": THREE, "Qx": Ignored()}, names)
    assert found == {"Q1": ONE, "Q2": ONE, "Q10": TWO, "q1": THREE, "Qx": Ignored()}


def test_columns_that_nothing_fits_are_not_read_and_absent_names_are_kept_for_the_reader():
    found = resolved({"absent": ONE, "a*": TWO}, ["b", "a1", "", " "])
    assert found == {"a1": TWO, "absent": ONE}
    assert " " not in resolved({"a": ONE, "*": TWO}, ["a", "b", " "])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a1": ONE, "z*": TWO}, r"'z\*': no column of the table"),
        ({"a*": ONE, "*1": TWO}, r"'a\*', '\*1' fit column 2 of the table equally well"),
        ({"a?": ONE, "a*": TWO}, "equally well"),
        ({"*": ONE}, "would publish a row"),
        ({"?*": ONE, "zz": TWO}, "would publish a row"),
    ],
)
def test_what_does_not_fit_is_refused_without_telling_names_of_the_table(columns, words):
    with pytest.raises(SchemaError, match=words) as caught:
        Schema(columns=columns).resolve(["b", "a1", "SENTINEL"])
    assert "SENTINEL" not in str(caught.value) and "a1" not in str(caught.value)


def test_a_file_without_its_line_of_names_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("zebra,SENTINEL\nlion,SENTINEL\n")
    for columns in ({"*": Categorical(categories=("x",))}, {"id*": ONE, "*": Ignored()}):
        with pytest.raises(SchemaError) as caught:
            dpcov.release(tmp_path / "t.csv", schema=Schema(columns=columns), budget=BUDGET)
        assert "SENTINEL" not in str(caught.value) and "zebra" not in str(caught.value)


def test_names_that_hold_such_signs_are_names():
    odd = {"weight [kg]": ONE, "ok?": TWO}
    schema = Schema(columns=odd, missing="never")
    found = schema.resolve(["ok?", "weight [kg]", "okay"])
    assert found.columns == odd and list(found.columns) == list(odd) and not found.wildcards
    assert "wildcards = false" in found.dumps() and Schema.loads(found.dumps()) == found
    assert found.resolve(["anything"]) is found
    assert len(found.encoded_columns) == 3
    with pytest.raises(SchemaError, match="wildcards = false"):
        _ = schema.encoded_columns
    both = Schema(columns={"a[b]": ONE, "a*": TWO}).resolve(["a[b]", "ac"])
    assert both.columns == {"a[b]": ONE, "ac": TWO} and not both.wildcards


def test_a_schema_without_patterns_stays_as_it_is():
    schema = Schema(columns={"b": ONE, "a": TWO})
    assert schema.resolve(["a", "b", "c"]) is schema
    assert "wildcards" not in schema.dumps()


names = st.lists(st.text("ab1_", min_size=1, max_size=4), unique=True, min_size=1, max_size=8)


@given(names, st.randoms())
def test_what_a_column_gets_follows_from_its_name_alone(names, random):
    columns = {"a*": ONE, "*1": TWO, "b_*": THREE, "aa*": Ignored(), "_": ONE}
    schema = Schema(columns=columns)

    def of(table):
        try:
            return schema.resolve([*table, "a_", "b1", "b_", "aa", "_"]).columns
        except SchemaError as error:
            assert "equally well" in str(error)

    alone = {name: of([name]) for name in dict.fromkeys(names)}
    together = of(names)
    if any(found is None for found in alone.values()):
        assert together is None
    else:
        merged = {name: found[name] for name, found in alone.items() if name in found}
        assert {n: together[n] for n in merged} == merged
        assert all(n in merged for n in names if n in together)


def test_problems_are_told_of_patterns_too():
    schema = Schema(columns={"a*": Numeric(lower=2, upper=1), "b": ONE})
    assert schema.problems() == ["Column 'a*': lower is above upper; exchange them."]
    with pytest.raises(SchemaError, match="dpcov schema resolve"):
        Schema(columns={"a*": ONE}).require_complete()


# Defaults.

WITH_DEFAULTS = """
[defaults]
type = "numeric"
lower = 0
upper = 100
missing = "indicator"

[columns.a]
[columns.b]
upper = 5
[columns.c]
type = "numeric"
missing = "center"
[columns.d]
type = "boolean"
[columns."e*"]
type = "date"
lower = 1900
upper = 2000
"""


def test_defaults_are_for_columns_of_their_type_or_of_none():
    schema = Schema.loads(WITH_DEFAULTS)
    marked = {"lower": 0, "missing": "indicator"}
    assert schema.columns == {
        "a": Numeric(upper=100, **marked),
        "b": Numeric(upper=5, **marked),
        "c": Numeric(lower=0, upper=100, missing="center"),
        "d": dpcov.Boolean(),
        "e*": dpcov.Date(lower=1900, upper=2000),
    }
    assert Schema.loads(schema.dumps()) == schema


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[defaults]\nlower = 0\n[columns.a]\ntype = 'boolean'", "line 1, .*the defaults.*`type`"),
        ("[defaults]\ntype = 'numeric'\nlow = 0\n[columns.a]", "line 3, .*mean `lower`"),
        ("defaults = 3\n[columns.a]", "line 1, .*the defaults"),
        ("[defaults]\ntype = 'numeric'\n[columns]\na = 3", "line 4, .*'a'"),
    ],
)
def test_mistakes_in_defaults_are_told(text, words):
    with pytest.raises(SchemaError, match=words):
        Schema.loads(text)


# Every way in: the same release as with the columns written out.

PATTERNS = Schema(columns={"x[01]": ONE, "x*": TWO, "id": Ignored()})
LITERAL = Schema(columns={"x0": ONE, "x1": ONE, "x2": TWO, "id": Ignored()})
ROWS = np.random.default_rng(0).uniform(size=(50, 3))
TABLE = pa.table({f"x{place}": column for place, column in enumerate(ROWS.T)})


def as_csv(folder):
    pa.csv.write_csv(TABLE, folder / "t.csv")
    return folder / "t.csv"


def as_dask(folder):
    frames = pytest.importorskip("dask.dataframe")
    return frames.from_pandas(TABLE.to_pandas(), npartitions=2)


WAYS = {
    "csv": as_csv,
    "dask": as_dask,
    "array": lambda _: ROWS,
    "arrow stream": lambda _: TABLE.to_reader(),
    "standard input": lambda folder: delimited.from_stream(
        io.BytesIO(as_csv(folder).read_bytes()), "standard input"
    ),
}


def made(data, schema, **more):
    entropy = dpcov.SeededEntropy(1)
    return dpcov.release(
        data, schema=schema, budget=BUDGET, entropy=entropy, geometry="schema", **more
    )


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_release_with_patterns_is_the_one_with_columns_written_out(way, tmp_path):
    one, other = made(way(tmp_path), PATTERNS), made(way(tmp_path), LITERAL)
    assert one.feature_names == other.feature_names == ("x0", "x1", "x2")
    assert np.array_equal(one.second_moment(), other.second_moment())
    assert one.manifest.schema_toml == LITERAL.dumps()


def test_saved_moments_hold_the_schema_written_out_and_take_patterns(tmp_path):
    terms = {"schema": PATTERNS, "budget": BUDGET}
    saved = dpcov.checkpoint(TABLE, **terms)
    assert Schema.loads(saved.schema_toml) == LITERAL
    one, other = made(saved, PATTERNS), made(TABLE, LITERAL)
    assert np.array_equal(one.second_moment(), other.second_moment())


def test_surveys_and_groups_take_patterns():
    rows = np.random.default_rng(0).normal(50, 10, size=(5000, 2))
    frame = pd.DataFrame({"v1": rows[:, 0], "v2": rows[:, 1], "g": ["a", "b"] * 2500})
    wide = Numeric(lower=0, upper=10_000)
    schema = Schema(columns={"v*": wide, "g": Categorical(categories=("a", "b"))})
    found = dpcov.survey(frame, schema=schema, budget=Budget(rho="0.05"), coming=BUDGET)
    assert set(found.columns) >= {"v1", "v2"}
    grouped = made(frame, schema, by="g")
    assert grouped.feature_names == ("v1", "v2")


COMMUNITIES = data_directory() / "communities_crime.csv.gz"


@pytest.mark.shared_data
@pytest.mark.skipif(not COMMUNITIES.is_file(), reason="needs the communities table")
def test_a_table_of_147_columns_is_described_in_fifteen_lines():
    from dpcov.data.sources import open_source
    from tests.docs.test_schema_page import PAGE, blocks

    (text,) = [code for _, code in blocks(PAGE) if "Communities and crime" in code]
    assert len(text.splitlines()) <= 15
    schema, source = Schema.loads(text), open_source(COMMUNITIES)
    found = schema.resolve(source.columns)
    assert len(source.columns) == len(found.columns) == 147 and len(found.features) == 142
    assert found.columns["pctUrban"].upper == 100 and found.columns["medIncome"].upper == 1e7
    assert found.columns["LemasSwFTPerPop"].upper == 1e6
    assert found.columns["MedYrHousBuilt"].lower == 1900
    release = made(source, schema)
    assert len(release.feature_names) == 142
    assert Schema.loads(release.manifest.schema_toml) == found

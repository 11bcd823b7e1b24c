"""``dpcov schema``: patterns written out, the table's fit told, the JSON Schema printed."""

import json
import sqlite3

import pytest

import dpcov
from dpcov import Schema
from dpcov.data.fit import NOT_PRIVATE

WIDE = """
title = "patients"
[columns."a*"]
type = "numeric"
lower = 0
upper = 40_000
[columns."[!n]*x"]
type = "categorical"
categories = ["F", "M"]
[columns.ill]
type = "boolean"
"""


@pytest.fixture
def wide(desk):
    desk.schema.write_text(WIDE)
    return desk


def test_patterns_are_written_out(wide):
    resolved = wide.folder / "resolved.toml"
    told = wide.done("schema resolve", wide.schema, "--data", wide.data, "-o", resolved)
    assert "3 columns" in told
    assert list(Schema.from_toml(resolved).columns) == ["age", "sex", "ill"]
    assert wide.done("schema resolve", wide.schema, "--data", wide.data) == resolved.read_text()
    again = ("schema resolve", wide.schema, "--data", wide.data, "-o")
    assert wide.run(*again, resolved).exit_code == 7
    assert wide.run(*again, wide.schema, "--overwrite").exit_code == 2
    assert wide.schema.read_text() == WIDE


def test_names_are_read_and_no_row(wide):
    wide.data.write_text("name,age,sex,ill\nzebra4711\n")
    assert "[columns.age]" in wide.done("schema resolve", wide.schema, "--data", wide.data)


def test_a_release_takes_patterns_and_states_the_columns(wide):
    assert wide.release("--geometry", "schema").exit_code == 0
    manifest = dpcov.load(wide.output).manifest
    assert list(Schema.loads(manifest.schema_toml).columns) == ["age", "sex", "ill"]


@pytest.mark.parametrize(
    ("kind", "told"), [('"ignored"', True), ('"numeric"\nlower = 0\nupper = 6', False)]
)
def test_what_ignored_weights_cost_is_told_before_a_release(desk, kind, told):
    columns = f'[columns.w]\ntype = {kind}\n[columns.ill]\ntype = "boolean"\n'
    desk.schema.write_text(f'[weights]\ncolumn = "w"\nupper = 6\n{columns}')
    assert ("from 0 to 6" in desk.done("schema check", desk.schema)) == told


def test_plans_without_a_table_say_what_to_do(wide):
    budget = ("--rows", 300, "--rho", "0.5")
    for refused in (
        wide.run("plan --schema", wide.schema, *budget),
        wide.run("release --dry-run --schema", wide.schema, *budget),
    ):
        wide.assert_refused(refused, 3, "dpcov schema resolve")
    told = wide.done("plan --schema", wide.schema, "--table", wide.data, *budget)
    assert "sex=F" in told


def test_a_pattern_that_fits_nothing_spends_nothing(wide):
    wide.schema.write_text(WIDE.replace('"a*"', '"z*"'))
    refused = wide.release()
    wide.assert_refused(refused, 3, "no column of the table")


def test_a_schema_is_checked_without_a_table(wide):
    told = wide.done("schema check", wide.schema)
    assert "Its patterns stand for several columns" in told and "dpcov schema resolve" in told
    wide.schema.write_text(WIDE.replace("upper = 40_000", "upper = -1"))
    refused = wide.run("schema check", wide.schema)
    wide.assert_refused(refused, 3, "line 5, `lower = 0`: Column 'a*': lower is above upper")
    assert wide.run("schema check --json", wide.schema).exit_code == 3


def spoil(desk):
    lines = desk.data.read_text().splitlines()
    desk.data.write_text("\n".join([*lines, "x,zebra4711,Z4711,true", "x,31,,zebra4711", ""]))


def test_a_table_that_fits_is_told_to_the_custodian_alone(wide):
    told = wide.done("schema check", wide.schema, "--data", wide.data)
    assert "3 columns, encoded as 8, norm bound 2" in told
    assert "Columns that fit: 3 of 3" in told and " ".join(told.split()).count(NOT_PRIVATE) == 1


def test_a_table_that_does_not_fit_ends_with_one_and_shows_no_cell(wide):
    spoil(wide)
    refused = wide.run("schema check", wide.schema, "--data", wide.data)
    assert refused.exit_code == 1
    assert "NO    age: in 1 of 303 rows the cell is not a number" in refused.output
    assert "NO    ill: in 1 of 303 rows the cell is not true or false" in refused.output
    assert "Columns that fit: 1 of 3." in refused.output and "FOR THE CUSTODIAN" in refused.output
    assert "4711" not in refused.output and "31337" not in refused.output
    assert wide.untouched()


def test_the_same_as_json(wide):
    spoil(wide)
    told = wide.run("schema check --json", wide.schema, "--data", wide.data)
    assert told.exit_code == 1 and "4711" not in told.output
    found = json.loads(told.output)
    assert found["note"] == NOT_PRIVATE and found["n_rows"] == 303
    columns = {column["name"]: column for column in found["columns"]}
    assert [columns[name]["usable"] for name in ("age", "sex", "ill")] == [False, True, False]
    assert columns["age"]["findings"][0]["rows"] == 1
    assert columns["sex"]["missing"] == 1


def test_a_table_may_come_from_standard_input_or_a_database(wide):
    text = wide.data.read_text()
    assert "Columns that fit: 3 of 3" in wide.done(
        "schema check", wide.schema, "--data", "-", input=text
    )
    with sqlite3.connect(wide.folder / "t.db") as connection:
        connection.execute("CREATE TABLE t (age, sex, ill)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(3, "F", 1), ("zebra", "M", 0)])
    query = ("--sql", "SELECT * FROM t", "--db", f"sqlite:///{wide.folder}/t.db")
    told = wide.run("schema check", wide.schema, *query)
    assert told.exit_code == 1 and "NO    age: in 1 of 2 rows" in told.output
    assert "[columns.sex]" in wide.done("schema resolve", wide.schema, *query)


def test_what_a_table_lacks_is_told(desk):
    desk.data.write_text("age,sex\n3,F\n")
    desk.assert_refused(desk.run("schema check", desk.schema, "--data", desk.data), 4, "'ill'")


def test_the_json_schema_is_printed_for_editors(desk):
    printed = json.loads(desk.done("schema --json-schema"))
    assert {"columns", "defaults", "weights"} <= set(printed["properties"])


def test_a_draft_of_cells_without_quotation_marks_says_so(desk):
    desk.data.write_text('pipe,size\n5" of copper,3\n"short,4\n')
    refused = desk.run("schema draft", desk.data)
    desk.assert_refused(refused, 4, "--quote ''")
    drafted = Schema.loads(desk.done("schema draft", desk.data, "--quote", ""))
    assert drafted.file is not None and drafted.file.quote == ""
    assert list(drafted.columns) == ["pipe", "size"]

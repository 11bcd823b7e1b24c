"""What the custodian is told about a table that does not fit, without any cell."""

import io
import json
import math
import sqlite3
from datetime import date, datetime, time
from decimal import Decimal

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from dpcov import Boolean, Categorical, Date, Ignored, Numeric, Query, Schema, Weights
from dpcov.data import fit as fit_module
from dpcov.data.fit import NOT_PRIVATE, fit
from dpcov.data.readers import reader_of
from dpcov.data.sources import delimited, open_source
from dpcov.errors import DataError, SchemaError

N = 100
UNIT = Numeric(lower=0, upper=10)
SEX = Categorical(categories=("F", "M"))
REST, DATE = Categorical(categories=("x",), other="rest"), Date(lower=2000, upper=2030)
CODED = Numeric(lower=0, upper=10, missing_codes=(999,))
ROOT = Numeric(lower=0, upper=10, transform="sqrt")
# Cells (repeated), how they are declared, what is found (in how many of 100 rows) and the verdict.
CASES = {
    "fine": (["1", "2.5", "", "7"], UNIT, {}, True),
    "text among numbers": (["1", "2", "zebra", "lion"], UNIT, {"unreadable": 50}, False),
    "all missing": (["", "NA"], UNIT, {"missing": 100}, False),
    "nothing within": (["11", "-3"], UNIT, {"outside": 100}, False),
    "another coding": (["1", "2"], SEX, {"outside": 100}, False),
    "some labels": (["F", "M", "male", ""], SEX, {"outside": 25}, True),
    "labels": (["F", "M", ""], SEX, {}, True),
    "a code": (["1", "2", "3", "999"], UNIT, {"code": 25}, True),
    "a declared code": (["1", "2", "3", "999"], CODED, {}, True),
    "outside, but no code": ([str(n) for n in range(N)], UNIT, {"outside": 89}, True),
    "yes and no": (["0", "1", "0"], Numeric(lower=0, upper=1), {"two values": 100}, True),
    "zeros": (["0", "0", "0", "5"], UNIT, {"at lower": 75}, True),
    "another unit": (["0.55", "0.6", "1"], Numeric(lower=0, upper=100), {"narrow": 100}, True),
    "constant": (["5"], UNIT, {"constant": 100}, True),
    "marks": (["x", "", "x"], Categorical(categories=("x",)), {"constant": 67}, True),
    "mostly missing": (["1", "2", "", "", ""], UNIT, {"missing": 60}, True),
    "no truth": (["yes", "no", "maybe", ""], Boolean(), {"unreadable": 25}, False),
    "neither 0 nor 1": (["0", "1", "2", "3"], Boolean(), {"outside": 50}, True),
    "codes for yes and no": (["1", "2"], Boolean(), {"outside": 50}, True),
    "truth": (["yes", "0", ""], Boolean(), {}, True),
    "decimal comma": (["1,5", "2,5"], Numeric(lower=0, upper=10, decimal=","), {}, True),
    "transform": (["1", "9", "3", "4"], Numeric(lower=0, upper=10, transform="log1p"), {}, True),
    "transform far": (["1", "99"], ROOT, {"code": 50}, True),
    "dates": (["2020-01-02", "2021-05-01"], DATE, {}, True),
    "no dates": (["2020-01-02", "someday"], DATE, {"unreadable": 50}, False),
    "others count": (["a", "b"], REST, {"constant": 100}, True),
}


def fitted(data, **columns):
    """How a table fits these declarations."""
    return fit(open_source(data), Schema(columns=columns))


def cells_of(case):
    return (case[0] * N)[:N]


def as_csv(cells, folder):
    path = folder / "t.csv"
    path.write_text("\n".join(["a,b", *(f'"{cell}",1' for cell in cells), ""]))
    return path


def as_parquet(cells, folder):
    pa.parquet.write_table(pa.table({"a": cells}), folder / "t.parquet")
    return folder / "t.parquet"


def as_sqlite(cells, folder):
    with sqlite3.connect(folder / "t.db") as connection:
        connection.executescript("DROP TABLE IF EXISTS t; CREATE TABLE t (a)")
        connection.executemany("INSERT INTO t VALUES (?)", [(cell,) for cell in cells])
    return Query("SELECT a FROM t", db=f"sqlite:///{folder}/t.db")


WAYS = {
    "csv": as_csv,
    "parquet": as_parquet,
    "sqlite": as_sqlite,
    "pandas": lambda cells, _: pd.DataFrame({"a": pd.Series(cells, dtype=object)}),
    "standard input": lambda cells, folder: delimited.from_stream(
        io.BytesIO(as_csv(cells, folder).read_bytes()), "standard input"
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_does_not_fit_is_counted(case, way, tmp_path):
    cells, (_, declared, expected, usable) = cells_of(case), case
    found = fitted(way(cells, tmp_path), a=declared)
    (column,) = found.columns
    assert (found.n_rows, found.usable, column.usable) == (N, usable, usable)
    assert {finding.what: finding.rows for finding in column.findings} == expected


def test_rows_without_any_value_are_counted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,a,b\n1,1,F\n2,,M\n3,5,\n,,\nMean,,\n")
    columns = {"id": Ignored(), "a": UNIT, "b": SEX}
    found = fitted(path, **columns)
    assert found.empty == 2
    assert "look  rows without a value in any column: 2 of 5." in found.summary()
    # Of one column the missing values are told.
    assert fitted(path, **columns | {"b": Ignored()}).empty == 0
    path.write_text("id,a,b\n1,1,F\n,,\n2,x,M\n")
    assert fitted(path, **columns).empty == 0


def test_an_empty_cell_beside_a_mark_may_mean_no(tmp_path):
    path = as_csv(["x", "", "x"], tmp_path)
    for declared, asked in ((Categorical(categories=("x",)), True), (SEX, False)):
        (column,) = fitted(path, a=declared).columns
        assert ("Does an empty cell mean no?" in column.findings[0].words) == asked


@pytest.mark.parametrize(
    ("declared", "way"),
    [
        (UNIT, "(decimal, thousands), or correct"),
        (Date(lower=1900, upper=2030), '. Say how it is written, such as format = "%d.%m.%Y", add'),
        (Boolean(), "add missing_codes, or correct"),
    ],
)
def test_what_cannot_be_read_is_told_by_which_field_it_could(declared, way, tmp_path):
    found = fitted(as_csv(["31.1.2020", "x"], tmp_path), a=declared)
    assert way in found.columns[0].findings[0].words


@pytest.mark.parametrize("code", ["9999-12-31", "00.00.0000"])
def test_what_is_said_of_a_code_among_dates_helps(code, tmp_path):
    path = as_csv(["2020-01-02", "2021-05-01", code, code], tmp_path)
    told = fitted(path, a=Date(lower=2000, upper=2030))
    (said,) = (finding.words for finding in told.columns[0].findings)
    assert code in said and "number" not in said and "categorical" not in said
    declared = Date(lower=2000, upper=2030, missing_codes=(code,))
    (column,) = fitted(path, a=declared).columns
    assert not column.findings and column.missing == 2


def test_columns_of_a_database_that_are_no_numbers_are_told_one_by_one(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        cells = "DATE '2020-01-31' AS day, TIME '05:00' AS hour, [1] AS list, 0.5 AS x"
        connection.execute(f"CREATE TABLE t AS SELECT {cells} FROM range(3)")
    source = open_source(Query("SELECT * FROM t", db=f"duckdb:///{path}"))
    schema = Schema(columns=dict.fromkeys(("day", "hour", "list", "x"), Numeric(lower=0, upper=1)))
    found = fit(source, schema)
    assert [column.usable for column in found.columns] == [False, False, False, True]
    assert not found.usable
    assert [column.findings[0].rows for column in found.columns] == [3, 3, 3, 3]
    # A release refuses them before a row is read.
    with pytest.raises(DataError, match="Column 'day' is a date"):
        next(source.blocks(9, wanted={"day": "number"}))


@pytest.mark.parametrize("size", [1, 7, 40, 1000])
def test_blocks_change_nothing(size, tmp_path, monkeypatch):
    columns = {f"c{place}": cells_of(case) for place, case in enumerate(CASES.values())}
    schema = Schema(columns={f"c{p}": case[1] for p, case in enumerate(CASES.values())})
    whole = fit(open_source(pa.table(columns)), schema)
    monkeypatch.setattr(fit_module, "_BLOCK_ROWS", size)
    rows = []
    assert fit(open_source(pa.table(columns)), schema, rows.append) == whole
    assert sum(rows) == N and max(rows) <= size


def test_numbers_of_their_own_types_and_weights():
    table = pa.table(
        {
            "a": np.linspace(0, 9, N),
            "b": pa.array([True, False] * 50),
            "w": np.arange(N) - 10.0,
            "t": ["text"] * N,
        }
    )
    schema = Schema(
        columns={"a": UNIT, "b": Boolean(), "w": Ignored(), "t": Ignored()},
        weights=Weights(column="w", upper=50),
    )
    found = {column.name: column for column in fit(open_source(table), schema).columns}
    assert set(found) == {"a", "b", "w"}
    assert not found["a"].findings and not found["b"].findings
    assert found["w"].usable
    matrix = fitted(np.full((9, 2), 3.0), x0=UNIT, x1=UNIT)
    assert [c.findings[0].what for c in matrix.columns] == ["constant", "constant"]


def test_a_column_without_numbers_or_texts_cannot_be_used():
    table = pa.table({"a": [[1], [2, 3]], "b": pa.array([1, 2], pa.date32())})
    found = fitted(table, a=UNIT, b=UNIT)
    assert [(c.usable, c.findings[0].rows) for c in found.columns] == [(False, 2), (False, 2)]


@pytest.mark.parametrize("size", [100, 5000])
def test_a_column_of_many_texts_is_given_up_soon(size, monkeypatch):
    monkeypatch.setattr(fit_module, "_ENOUGH", 20)
    monkeypatch.setattr(fit_module, "_BLOCK_ROWS", size)
    table = pa.table({"a": [f"zebra{n}" for n in range(5000)], "b": ["1", "2"] * 2500})
    found = fitted(table, a=UNIT, b=UNIT)
    assert found.columns[0].findings[0].rows == 20
    assert "in at least 20 of 5,000 rows" in found.summary() and found.columns[1].usable


def as_json_lines(cells, folder):
    (folder / "t.jsonl").write_text("".join(json.dumps({"a": cell}) + "\n" for cell in cells))
    return folder / "t.jsonl"


MARKED = Numeric(lower=0, upper=2000, decimal=",", thousands=".", missing_codes=(7.5, "x"))
DAYS = Date(lower=1900, upper=2100, format="%d.%m.%Y", missing_codes=(9999,))
TYPED_CELLS = [
    *(1.5, 1.234, True, False, 3, 7.5, None, 1e-300, 1e300, math.inf, 10**400, 9999, 20200131),
    *("1,5", "1.234", "1.5", "x", "", "zebra", "True", "31.12.1999", "2020-01-31", "12022020"),
]
OBJECTS = [
    *(date(2020, 1, 31), datetime(2020, 1, 31, 23), Decimal("1.50"), b"1", [1], np.float32(0.1)),
    *(np.datetime64("2020-01-31"), pd.NaT, pd.NA, time(1)),
]


def as_folded_views(cells, folder):
    """As Polars writes categories."""
    folded = pa.array(cells, pa.string()).dictionary_encode()
    views = folded.dictionary.cast(pa.string_view())
    return pa.table({"a": pa.DictionaryArray.from_arrays(folded.indices, views)})


@pytest.mark.parametrize("declared", [UNIT, MARKED, DAYS, Date(lower=0, upper=9, format="%Y%m%d")])
@pytest.mark.parametrize(
    ("way", "cells"),
    [
        (as_json_lines, [cell for cell in TYPED_CELLS if cell not in (math.inf, 10**400)]),
        (as_sqlite, [cell for cell in TYPED_CELLS if cell != 10**400]),
        (WAYS["pandas"], TYPED_CELLS + OBJECTS),
        (lambda c, _: pd.DataFrame({"a": c}).astype("category"), TYPED_CELLS),
        (as_folded_views, ["1", "zebra", None, "2020-01-31", "20200131", "31.01.2020", "zebra"]),
    ],
)
def test_cells_with_types_of_their_own_are_read_as_in_a_release(declared, way, cells, tmp_path):
    """Every cell by itself, and all of them in one column."""
    schema = Schema(columns={"a": declared})
    reader, refused, missing = reader_of(schema, "a"), 0, 0
    for cell in cells:
        source = open_source(way([cell], tmp_path))
        try:
            (block,) = source.blocks(9, wanted={"a": reader.wanted})
            missing += int(np.isnan(reader.of(block)).sum())
        except DataError:
            refused += 1
    (found,) = fit(open_source(way(cells, tmp_path)), schema).columns
    assert 0 < refused < len(cells) - missing
    unreadable = {finding.what: finding.rows for finding in found.findings}
    assert (unreadable, found.missing) == ({"unreadable": refused}, missing)


def test_numbers_and_dates_of_their_own_types_fit_columns_of_marked_texts(tmp_path):
    for way in (as_json_lines, as_sqlite, WAYS["pandas"]):
        (found,) = fitted(way([1.5, 1234.5, True, 0] * 25, tmp_path), a=MARKED).columns
        assert not found.findings
    dates = WAYS["pandas"]([date(2020, 1, 31), datetime(1999, 1, 1, 5)], tmp_path)
    assert not fitted(dates, a=DAYS).columns[0].findings


def test_a_matrix_holds_no_dates():
    matrix = np.array([[3.0, 3.0], [4.0, 4.0]])
    found = fitted(matrix, x0=Date(lower=0, upper=9), x1=UNIT).columns
    assert [column.usable for column in found] == [False, True]
    assert found[0].findings[0].rows == 2


def test_stray_numbers_are_told_apart_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(fit_module, "_TOLD_APART", 50)
    monkeypatch.setattr(fit_module, "_BLOCK_ROWS", 100)
    strays = np.where(np.arange(3000) % 10 == 0, 999.5, 20.0 + np.arange(3000))
    found = fitted(pa.table({"a": np.r_[strays, np.linspace(0, 9, 3000)]}), a=UNIT)
    assert {f.what: f.rows for f in found.columns[0].findings}["code"] == 300


@pytest.mark.parametrize(("strays", "told"), [(1, False), (3, True)])
def test_a_rare_category_that_is_spelled_differently_is_named(strays, told):
    cells = ["F", "M"] * 50 + ["x"] * strays
    found = fitted(pa.table({"a": cells}), a=SEX).columns[0]
    assert [finding.what for finding in found.findings] == ["outside"] * told


def test_no_cell_is_told_and_the_note_is_there():
    schema = Schema(columns={f"c{p}": case[1] for p, case in enumerate(CASES.values())})
    table = pa.table({f"c{p}": cells_of(case) for p, case in enumerate(CASES.values())})
    found = fit(open_source(table), schema)
    told = found.summary() + msgspec.json.encode(found).decode()
    for cell in ("zebra", "lion", "999", "maybe", "someday", "male", "2020"):
        assert cell not in told.replace(NOT_PRIVATE, "")
    assert msgspec.json.decode(msgspec.json.encode(found))["note"] == NOT_PRIVATE
    assert "NOT" not in found.summary() and "not private" in NOT_PRIVATE


def test_only_a_complete_schema_without_patterns_is_compared():
    for columns in ({"a": Numeric()}, {"a*": UNIT}):
        with pytest.raises(SchemaError, match="cannot be used yet"):
            fitted(pa.table({"a": [1.0]}), **columns)


def test_columns_that_the_schema_forgot_are_told():
    frame = pd.DataFrame({"x": [1.0, 2.0], "smoker": ["yes", "no"], "note": ["a", "b"]})
    found = fitted(frame, x=UNIT, note=Ignored(note="free text"))
    assert found.undeclared == ("smoker",)
    assert "look  smoker: in the table, but not in the schema" in found.summary()
    assert found.usable

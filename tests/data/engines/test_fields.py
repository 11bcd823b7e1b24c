"""Codes, marks, dates, functions and levels: equal integers from every store and engine."""

import sqlite3
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpcov
from dpcov.data.encode import Encoder
from dpcov.data.exact.moments import MomentsSpec
from dpcov.data.gather import Gathering
from dpcov.data.groups import split_schema
from dpcov.data.questions import MomentsQuestion
from dpcov.errors import DataError
from dpcov.pipeline.plan.rehearsal import Rehearsal

SCHEMA = dpcov.Schema.loads("""
missing = "indicator"
missing_codes = [-9, 999, "unknown"]
decimal = ","
thousands = "."

[columns.sex]
type = "categorical"
categories = ["1", "2"]
labels = {"1" = "male", "2" = "female"}

[columns.job]
type = "categorical"
categories = ["nurse"]
groups.office = ["clerk", "boss"]
other = "else"
ignore_case = true

[columns.born]
type = "date"
as = "age"
reference = 2020-01-01
format = "%d.%m.%Y"
lower = 0
upper = 120
missing_codes = ["31.12.9999", "unknown"]

[columns.seen]
type = "date"
as = "year"
lower = 1990
upper = 2030

[columns.income]
type = "numeric"
transform = "log1p"
lower = 0
upper = 1000000
unit = "EUR"

[columns.area]
type = "numeric"
transform = "sqrt"
lower = 0
upper = 4000

[columns.ok]
type = "boolean"

[columns.w]
type = "ignored"

[weights]
column = "w"
upper = 2
""")
NAMES = tuple(SCHEMA.columns)
# As a European file writes them, and what a program with types has in their place.
TEXTS = [
    *(("1", "NURSE", "03.02.1980", "2019-05-06", "1.234,5", "12,25", "yes", "0,5"),),
    *(("2.0", " clerk ", "1.1.2000", "2001-12-31T23:30:00-05:00", "999", "2.000", "no", "1"),),
    *(("-9", "zebra", "unknown", "unknown", "-9,0", "unknown", "unknown", "2"),),
    *((" -9.0 ", "Boss", "31.12.9999", "NA", "-5", "-9", "999", "-9"),),
    *(("3", "999", "29.02.2000", "2000-02-29 00:00", "12.345.678,9", "0", "1", "1,5"),),
    *(("", "unknown", "31.12.1899", "1970-01-01", "0,1", "", "0.0", "unknown"),),
]
FAR = date(9999, 12, 31)
CELLS = [
    (1, "nurse", date(1980, 2, 3), datetime(2019, 5, 6), 1234.5, 12.25, 1, 0.5),
    (2, "clerk", date(2000, 1, 1), datetime(2001, 12, 31, 23, 30), 999.0, 2000.0, 0, 1.0),
    (-9, "zebra", None, None, -9.0, -9.0, -9, 2.0),
    (-9, "boss", FAR, None, -5.0, -9.0, 999, -9.0),
    (3, "unknown", date(2000, 2, 29), datetime(2000, 2, 29), 12345678.9, 0.0, 1, 1.5),
    (None, "unknown", date(1899, 12, 31), datetime(1970, 1, 1), 0.1, None, 0, 999.0),
]
NUMBERS = dict.fromkeys(("income", "area"), pa.float64())
TYPES = {
    **{"sex": pa.int64(), "job": pa.string(), "born": pa.date32(), "seen": pa.timestamp("us")},
    **{**NUMBERS, "ok": pa.int16(), "w": pa.float32()},
}
ENCODING = Encoder(SCHEMA)
SPEC = MomentsSpec(shells=3, normalized=True)


def typed():
    columns = zip(zip(*CELLS, strict=True), TYPES.items(), strict=True)
    return pa.table({name: pa.array(cells, kind) for cells, (name, kind) in columns})


def texts():
    return pa.table(dict(zip(NAMES, zip(*TEXTS, strict=True), strict=True)))


def objects():
    """Cells of any type side by side: both tables' rows alternate."""
    rows = [CELLS[i] if i % 2 else TEXTS[i] for i in range(len(TEXTS))]
    columns = zip(NAMES, zip(*rows, strict=True), strict=True)
    return pd.DataFrame({name: pd.Series(list(cells), dtype=object) for name, cells in columns})


def saved_csv(folder):
    lines = [";".join(row).replace(";", "\t") for row in (NAMES, *TEXTS)]
    (folder / "t.tsv").write_text("\n".join([*lines, ""]))
    return folder / "t.tsv"


def saved_parquet(folder, table, name="t.parquet"):
    pa.parquet.write_table(table, folder / name, row_group_size=2)
    return folder / name


def in_sqlite(folder):
    with closing(sqlite3.connect(folder / "t.sqlite")) as connection, connection:
        connection.execute(f"CREATE TABLE t ({', '.join(NAMES)})")
        # SQLite has no dates: their column holds text as the schema says it is written.
        rows = [
            row if i % 2 else (*cells[:2], row[2], row[3], *cells[4:])
            for i, (row, cells) in enumerate(zip(TEXTS, CELLS, strict=True))
        ]
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(NAMES))})", rows)
    return dpcov.Query("SELECT * FROM t", db=f"sqlite:///{folder / 't.sqlite'}")


def in_duckdb(folder):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.register("given", typed())
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
    return dpcov.Query("SELECT * FROM t", db=f"duckdb:///{folder / 't.duckdb'}")


def decimals():
    """Numbers as databases keep them exactly."""
    table = typed()
    for name in ("income", "area"):
        cells = [None if x is None else Decimal(repr(x)) for x in table[name].to_pylist()]
        place = table.schema.names.index(name)
        table = table.set_column(place, name, pa.array(cells, pa.decimal128(18, 4)))
    return table


def dask_frame(frame):
    dask = pytest.importorskip("dask")
    from dask.dataframe import from_pandas

    with dask.config.set({"dataframe.convert-string": False}):
        return from_pandas(frame, npartitions=3)


STORES = {
    "tab separated text": saved_csv,
    "arrow, typed": lambda folder: typed(),
    "arrow, texts": lambda folder: texts(),
    "arrow, decimals": lambda folder: decimals(),
    "parquet, typed": lambda folder: saved_parquet(folder, typed()),
    "parquet, texts": lambda folder: saved_parquet(folder, texts()),
    "pandas, objects": lambda folder: objects(),
    "pandas, typed": lambda folder: typed().to_pandas(),
    "pandas, texts": lambda folder: texts().to_pandas(),
    "pandas, categories": lambda folder: texts().to_pandas().astype("category"),
    "polars, typed": lambda folder: pl.from_arrow(typed()),
    "polars, texts": lambda folder: pl.from_arrow(texts()),
    "sqlite": in_sqlite,
    "duckdb": in_duckdb,
    "dask, objects": lambda folder: dask_frame(objects()),
    "dask, typed": lambda folder: dask_frame(typed().to_pandas()),
}


def gathered(data, encoding=ENCODING, spec=SPEC, engine=None):
    return Gathering(engine=engine, threads=1).answer(data, encoding, MomentsQuestion(spec=spec))


@pytest.fixture(scope="module")
def expected():
    return gathered(texts())


@pytest.mark.parametrize("store", STORES)
def test_all_fields_at_once_give_the_same_integers_everywhere(store, tmp_path, expected):
    assert gathered(STORES[store](tmp_path)) == expected


@pytest.mark.parametrize("texts_", [True, False])
def test_dask_reads_a_folder_of_parquet_the_same(texts_, tmp_path, expected):
    table = texts() if texts_ else typed()
    for start in range(0, len(table), 2):
        saved_parquet(tmp_path, table.slice(start, 2), f"{start}.parquet")
    assert gathered(tmp_path, engine="dask") == expected


@pytest.mark.parametrize("form", ["texts", "typed", "files"])
def test_spark_reads_the_same(form, session, tmp_path, expected):
    if form == "files":
        frame = str(saved_parquet(tmp_path, typed()))
    else:
        rows, kinds = (TEXTS, ["string"] * len(NAMES)) if form == "texts" else (CELLS, SPARK_KINDS)
        layout = ", ".join(f"{name} {kind}" for name, kind in zip(NAMES, kinds, strict=True))
        frame = session.createDataFrame(rows, layout)
    assert gathered(frame, engine="spark") == expected


SPARK_KINDS = ("int", "string", "date", "timestamp", "double", "double", "int", "float")


def test_cells_are_read_as_the_schema_says():
    block = texts().to_batches()[0]
    cells = ENCODING.read(block).columns
    found = dict(zip(ENCODING.value_columns, map(list, cells), strict=True))
    nan = None
    plain = {
        name: [None if x != x else round(float(x), 3) for x in xs] for name, xs in found.items()
    }
    assert plain["sex"] == [0, 1, -2, -2, -1, -2]
    assert plain["job"] == [0, 1, 2, 1, -2, -2]
    assert plain["born"] == [39.910, 20.0, nan, nan, 19.839, 120.002]
    assert plain["seen"] == [2019.342, 2001.997, nan, nan, 2000.161, 1970.0]
    assert plain["income"] == [7.119, nan, nan, 0.0, 13.816, 0.095]
    assert plain["area"] == [3.5, 44.721, nan, nan, 0.0, nan]
    assert plain["ok"] == [1, 0, nan, nan, 1, 0]


def test_groups_are_the_levels_of_a_column(tmp_path):
    rest, grouping = split_schema(SCHEMA, "job")
    assert grouping.names == ("nurse", "office", "else", "(other)")
    codes = grouping.codes(texts().to_batches()[0])
    assert codes.tolist() == [0, 1, 2, 1, 3, 3]
    encoding, spec = Encoder(rest, grouping=grouping), MomentsSpec(groups=4)
    wanted = gathered(texts(), encoding, spec)
    for store in ("tab separated text", "arrow, typed", "sqlite", "pandas, objects"):
        assert gathered(STORES[store](tmp_path), encoding, spec) == wanted


@pytest.mark.parametrize(
    ("column", "cell"),
    [("born", "1980-02-03"), ("income", "1.23,4"), ("income", "zebra"), ("seen", "3.2.1980")],
)
@pytest.mark.parametrize("store", ["csv", "arrow", "objects", "sqlite"])
def test_a_misfit_is_refused_without_its_text(column, cell, store, tmp_path):
    place = NAMES.index(column)
    row = (*TEXTS[0][:place], cell, *TEXTS[0][place + 1 :])
    table = pa.table(dict(zip(NAMES, zip(*TEXTS, row, strict=True), strict=True)))
    if store == "csv":
        lines = ["\t".join(each) for each in (NAMES, *TEXTS, row)]
        (tmp_path / "t.tsv").write_text("\n".join(lines))
        data = tmp_path / "t.tsv"
    elif store == "sqlite":
        with closing(sqlite3.connect(tmp_path / "t.sqlite")) as connection, connection:
            table.to_pandas().to_sql("t", connection)
        data = dpcov.Query("SELECT * FROM t", db=f"sqlite:///{tmp_path / 't.sqlite'}")
    else:
        data = table if store == "arrow" else table.to_pandas().astype(object)
    with pytest.raises(DataError) as error:
        gathered(data)
    assert cell not in str(error.value)
    assert error.value.__cause__ is error.value.__context__ is None


def test_a_release_is_named_by_its_functions_labels_and_units():
    rng, n = np.random.default_rng(0), 4000
    table = texts().take(rng.integers(len(TEXTS), size=n))
    schema = dpcov.Schema(
        columns={
            name: kind for name, kind in SCHEMA.columns.items() if name in ("sex", "born", "income")
        },
        missing_codes=SCHEMA.missing_codes,
        decimal=",",
        thousands=".",
    )
    made = dpcov.release(table, schema=schema, budget=dpcov.Budget(rho=1))
    assert made.feature_names == ("sex=male", "sex=female", "age(born)", "log1p(income)")
    assert [column.unit for column in made.features] == ["", "", "years", "log1p(EUR)"]
    assert "age(born) [years]" in made.summary()
    assert "log1p(income): estimates are of the function's value" in made.summary()
    pytest.importorskip("sklearn", reason="needs dpcov[analysis]")
    from dpcov.analysis import coefficient_intervals

    told = str(coefficient_intervals(made, "income", ["born"]))
    assert "coefficients for log1p(income)" in told
    assert told.endswith("Units: age(born) in years; log1p(income) in log1p(EUR).")
    drawn = made.sample(20, seed=0)
    assert drawn.column_names == ["sex", "age(born)", "log1p(income)"]
    assert set(drawn["sex"].to_pylist()) <= {"male", "female", None}


def test_a_plan_rehearses_rows_that_fit_the_schema():
    block = Rehearsal(schema=SCHEMA, n_rows=4000).made_up(4000).to_batches()[0]
    found = dict(zip(ENCODING.value_columns, ENCODING.read(block).columns, strict=True))
    # Dates spread over their bounds, and every level is met.
    assert abs(np.nanmean(found["born"]) - 60) < 2
    assert abs(np.nanmean(found["seen"]) - 2010) < 1
    assert abs(np.nanstd(found["born"]) - 15) < 1
    assert {*found["job"]} == {-2, 0, 1, 2}

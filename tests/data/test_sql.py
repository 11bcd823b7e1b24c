"""Tables that a database computes: the same integers as from a file, read-only and sealed."""

import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from unittest import mock
from urllib.parse import urlsplit, urlunsplit

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from dpcov.data.exact.moments import MomentsSpec
from dpcov.data.notation import Notation
from dpcov.data.schema.declared import Boolean, Categorical, Date, Numeric
from dpcov.data.schema.draft import describe
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import Query, open_source
from dpcov.data.sources.databases import DuckDb, explain_database_error
from dpcov.data.sources.guesses import refuse_guesses
from dpcov.errors import DataError, DpcovError, UsageError
from tests.data.reading import read_column, table_moments

N_ROWS = 3000
SENTINEL = "zebra4711"
SCHEMA = Schema(
    columns={
        "age": Numeric(lower=0, upper=100, missing="indicator"),
        "weight": Numeric(lower=0, upper=200, missing="indicator"),
        "dose": Numeric(lower=0, upper=1000, missing="indicator"),
        "sex": Categorical(categories=("F", "M")),
        "ill": Boolean(missing="indicator"),
    }
)
AGE = Schema(columns={"age": SCHEMA.columns["age"]})
SPEC = MomentsSpec(shells=4)


def table():
    random = np.random.default_rng(11)
    gaps = random.random(N_ROWS) < 0.1
    doses = [
        Decimal(int(value)).scaleb(-2) if n % 9 else None
        for n, value in enumerate(random.integers(0, 10**5, N_ROWS))
    ]
    return pa.table(
        {
            "age": pa.array(random.integers(0, 99, N_ROWS), mask=gaps),
            "weight": pa.array(random.normal(70, 15, N_ROWS), mask=gaps[::-1]),
            "dose": pa.array(doses, pa.decimal128(9, 2)),
            "sex": pa.array(random.choice(["F", "M", "X"], N_ROWS)),
            "ill": pa.array(random.random(N_ROWS) < 0.5, mask=gaps),
            "born": pa.array(np.datetime64("1980-01-01") + random.integers(0, 9000, N_ROWS)),
            "name": pa.array([SENTINEL] * N_ROWS),
        }
    )


TABLE = table()
EXPECTED = table_moments(TABLE, SCHEMA, SPEC)


def in_parquet(folder, request):
    pa.parquet.write_table(TABLE, folder / "people.parquet")
    return "duckdb://", f"'{folder / 'people.parquet'}'"


def in_duckdb(folder, request):
    people = TABLE  # noqa: F841  DuckDB finds it by its name
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT * FROM people")
    return f"duckdb:///{folder / 'people.duckdb'}", "people"


def in_sqlite(folder, request):
    """The rows as a database without decimals, truth values and dates holds them."""
    plain = TABLE.drop_columns("born").to_pandas().astype({"dose": float, "ill": object})
    plain = plain.astype(object).where(plain.notna(), None)
    with sqlite3.connect(folder / "people.db") as connection:
        connection.execute(
            "CREATE TABLE people"
            " (age INTEGER, weight REAL, dose NUMERIC, sex TEXT, ill INT, name TEXT)"
        )
        connection.executemany(
            "INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", plain.values.tolist()
        )
    connection.close()
    return f"sqlite:///{folder / 'people.db'}", "people"


def in_postgres(folder, request):
    psycopg = pytest.importorskip("psycopg")
    pytest.importorskip("adbc_driver_postgresql")
    url = request.getfixturevalue("module_database")
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS people"
            " (age smallint, weight float8, dose numeric, sex char(3), ill bool, born date,"
            " name text)"
        )
        cursor.execute("TRUNCATE people")
        with cursor.copy("COPY people FROM STDIN") as copy:
            for row in zip(*(column.to_pylist() for column in TABLE.columns), strict=True):
                copy.write_row(row)
    return url, "people"


HOMES = (in_parquet, in_duckdb, in_sqlite, in_postgres)


@pytest.fixture(scope="module", params=HOMES, ids=lambda home: home.__name__[3:])
def home(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("home"), request)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory, request):
    return in_postgres(tmp_path_factory.mktemp("home"), request)


def test_every_database_gives_the_integers_of_the_table_in_any_order(home):
    url, name = home
    for order in ("", " ORDER BY age DESC, weight"):
        query = Query(f"SELECT * FROM {name}{order} ;\n", db=url)
        assert table_moments(query, SCHEMA, SPEC) == EXPECTED
    fewer = Schema(columns={name: SCHEMA.columns[name] for name in ("sex", "age")})
    query = Query(f"SELECT ill, sex, age FROM {name} WHERE age > 30", db=url)
    chosen = TABLE.filter(pa.compute.field("age") > 30)
    assert table_moments(query, fewer, SPEC) == table_moments(chosen, fewer, SPEC)
    blocks = list(open_source(query).blocks(500, wanted={"age": "number"}))
    assert sum(map(len, blocks)) == len(chosen)
    assert max(map(len, blocks)) <= 500


CHANGES = [
    "DELETE FROM {name}",
    "DROP TABLE {name}",
    "UPDATE {name} SET age = 1",
    "CREATE TABLE other (a int)",
    "SELECT age FROM {name}; DELETE FROM {name}",
    "SELECT age FROM {name}) TO STDOUT; DROP TABLE {name}; --",
    "WITH gone AS (DELETE FROM {name} RETURNING age) SELECT age FROM gone",
    "INSERT INTO {name} (age) VALUES (1) RETURNING age",
    "ATTACH 'other.db' AS other",
    "COPY (SELECT 1) TO 'other.csv'",
]


@pytest.mark.parametrize("sql", CHANGES)
@pytest.mark.parametrize("home", [in_duckdb, in_sqlite, in_postgres], indirect=True)
def test_nothing_but_one_reading_statement_runs(home, sql, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    url, name = home
    with pytest.raises(DpcovError, match=r"cannot be read|no columns") as refused:
        table_moments(Query(sql.format(name=name), db=url), AGE, SPEC)
    assert "DELETE" not in str(refused.value)
    assert sorted(tmp_path.iterdir()) == before
    assert table_moments(Query(f"SELECT * FROM {name}", db=url), SCHEMA, SPEC) == EXPECTED


def test_a_function_cannot_make_postgres_writable(postgres):
    url, name = postgres
    query = Query(
        "WITH w AS (SELECT set_config('transaction_read_only', 'off', false)) "
        f"SELECT age FROM {name}, w",
        db=url,
    )
    with pytest.raises(DataError, match="cannot be read"):
        list(open_source(query).blocks(100))


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT nothing FROM {name}", "no such table or column"),
        ("SELECT age FROM nowhere", "no such table or column|cannot be opened"),
        ("SELEKT age", "understand|single SELECT"),
        ("SELECT CAST(name AS int) AS age FROM {name}", "CAST"),
        ("SELECT age, sex, age FROM {name}", "columns of the same name"),
        ("SELECT a.age, b.age FROM {name} a, {name} b", "columns of the same name"),
        ("SELECT age FROM {name} WHERE age > 1000", "no rows"),
    ],
)
def test_errors_say_what_to_do_and_repeat_nothing(home, sql, words):
    url, name = home
    if words == "CAST" and "sqlite" in url:
        return  # never fails to cast
    with pytest.raises(DataError, match=words) as refused:
        list(open_source(Query(sql.format(name=name), db=url)).blocks(100))
    assert_silent(refused.value, url)
    assert "nowhere" not in str(refused.value)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT 1 / (age - age) AS x FROM {name}", "cannot be computed"),
        ("SELECT CAST(name AS int) AS x FROM {name}", "cannot be computed"),
        ("SELECT age AS x, pg_sleep(3)::text AS y FROM {name}", "ended the query"),
    ],
)
def test_errors_of_postgres_beside_rows_say_their_kind(postgres, sql, words):
    url, name = postgres
    url += "?options=-c%20statement_timeout%3D500ms"
    with pytest.raises(DataError, match=words) as refused:
        list(open_source(Query(sql.format(name=name), db=url)).blocks(100))
    assert_silent(refused.value, url)


def assert_silent(error, url=""):
    text = "".join((str(error), repr(error), *getattr(error, "__notes__", ())))
    assert SENTINEL not in text
    assert error.__context__ is None
    assert error.__cause__ is None
    password = url.partition("://")[2].partition("@")[0].partition(":")[2]
    assert not password or password not in text


def test_dates_are_refused_before_a_row_is_read(postgres, tmp_path, request):
    schema = Schema(columns={"born": Numeric(lower=0, upper=1)})
    for url, name in (postgres, in_duckdb(tmp_path, request)):
        source = open_source(Query(f"SELECT born, age FROM {name}", db=url))
        with pytest.raises(DataError, match=r"'born' is a date or a time\. Declare a date"):
            list(source.blocks(100, wanted={"born": "number"}))
        days = Query(f"SELECT born - DATE '1970-01-01' AS born FROM {name}", db=url)
        assert table_moments(days, schema, SPEC).n_rows == N_ROWS
        assert describe(source).schema.columns["born"] == Date()


_DAYS = """
import sys
import dpcov
from dpcov.data.encode import Encoder
from dpcov.data.readers import reader_of
from dpcov.data.sources import open_source

schema = dpcov.Schema(
    columns={"seen": dpcov.Date(as_="days", reference="2020-01-01", lower=-9, upper=9)}
)
query = dpcov.Query("SELECT TIMESTAMPTZ '2020-01-01 03:00:00+00' AS seen", db=sys.argv[1])
(block,) = open_source(query).blocks(9, wanted=Encoder(schema).wanted)
print(reader_of(schema, "seen").of(block).tolist())
"""


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo"])
def test_a_day_of_a_database_does_not_depend_on_where_the_machine_stands(zone):
    environment = {**os.environ, "TZ": zone}
    told = subprocess.check_output(
        [sys.executable, "-c", _DAYS, "duckdb://"], env=environment, text=True
    )
    assert told == "[0.0]\n"


def test_dates_are_categories_and_other_types_nothing(postgres):
    url, _ = postgres
    days = Schema(columns={"day": Categorical(categories=("2020-01-01", "2020-01-02"))})
    query = Query("SELECT DATE '2020-01-02' AS day FROM generate_series(1, 3)", db=url)
    expected = table_moments(pa.table({"day": ["2020-01-02"] * 3}), days, SPEC)
    assert table_moments(query, days, SPEC) == expected
    bytes_and_more = ("1::money", "'\\x00'::bytea", "1::int::text::xml")
    for cell in ("'{1,2}'::int[]", "'{}'::jsonb", "gen_random_uuid()", *bytes_and_more):
        source = open_source(Query(f"SELECT {cell} AS cell", db=url))
        for reading in ("number", "text"):
            with pytest.raises(DataError, match="'cell' is neither"):
                list(source.blocks(10, wanted={"cell": reading}))


def test_numeric_of_any_precision_is_rounded_once(postgres):
    url, name = postgres
    with pytest.raises(DataError, match="has a name"):
        open_source(Query(f"SELECT age + 1 FROM {name}", db=url))
    large = "123456789012345678901234567890.5"
    literals = ("0.1", "0.07", large, "1e-40", "'NaN'", "'Infinity'", "NULL")
    values = ", ".join(f"({text}::numeric)" for text in literals)
    (block,) = open_source(Query(f"SELECT x FROM (VALUES {values}) AS v(x)", db=url)).blocks(100)
    read = block.column(0).to_pylist()
    assert read[:4] == [float(text) for text in literals[:4]]
    assert np.isnan(read[4])
    assert read[5:] == [np.inf, None]


def sqlite_cells(tmp_path, cells):
    with sqlite3.connect(tmp_path / "cells.db") as connection:
        connection.execute("CREATE TABLE cells (x)")
        connection.executemany("INSERT INTO cells VALUES (?)", [(cell,) for cell in cells])
    connection.close()
    return Query("SELECT x FROM cells", db=f"sqlite:///{tmp_path / 'cells.db'}")


GUESSING = (
    "'{}/x.csv'",
    "read_csv('{}/x.csv', all_varchar=true)",
    "read_json('{}/x.json')",
    # Readers of newer versions, and what hides another reader.
    "read_single_csv_file('{}/x.csv')",
    "json_execute_serialized_sql(json_serialize_sql('SELECT a FROM read_csv(''{}/x.csv'')'))",
    "read_text('{}/x.csv')",
)


@pytest.mark.parametrize("reads", GUESSING)
def test_types_that_duckdb_guesses_from_rows_are_refused(tmp_path, reads):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    (tmp_path / "x.json").write_text('{"a": 1}')
    asked = reads.format(tmp_path)
    if "single" in reads and tuple(map(int, duckdb.__version__.split(".")[:2])) < (2, 0):
        pytest.skip("this version of DuckDB has no such function")
    with pytest.raises(DataError, match="DuckDB guesses types"):
        open_source(Query(f"SELECT * FROM {asked}", db="duckdb://"))
    # No row comes from it, but the type of the others does.
    nothing = f"SELECT 1 AS a UNION ALL SELECT 1 FROM {asked} WHERE false"
    with pytest.raises(DataError, match="DuckDB guesses types"):
        open_source(Query(nothing, db="duckdb://"))


def test_frames_that_duckdb_would_look_into_are_refused():
    frame = pd.DataFrame({"a": pd.Series([1], dtype=object)})
    with duckdb.connect() as connection:
        connection.register("frame", frame)
        with pytest.raises(DataError, match="PANDAS_SCAN"):
            refuse_guesses(connection, "SELECT a FROM frame")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT a, b FROM t",
        "SELECT a FROM (SELECT a FROM v WHERE a IN (SELECT k FROM u WHERE k = 2))",
        "WITH n AS MATERIALIZED (SELECT a FROM t) SELECT x.a FROM n x JOIN n y USING (a)",
        "WITH RECURSIVE n AS (SELECT 1 a UNION ALL SELECT a + 1 FROM n WHERE a < 4) FROM n",
        "SELECT a, z FROM t, unnest([a, 2]) s(z)",
        "SELECT a FROM range(3) s(a) UNION ALL VALUES (1), (2)",
        "SELECT (SELECT max(k) FROM u WHERE k <= t.a) AS a FROM t ORDER BY b LIMIT 3",
        "SELECT a FROM t JOIN read_parquet('{}/x.parquet') USING (a)",
    ],
)
def test_queries_whose_types_are_declared_are_read(tmp_path, statement):
    pa.parquet.write_table(pa.table({"a": [1, 2]}), tmp_path / "x.parquet")
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT range a, 'x' b FROM range(5)")
        connection.execute("CREATE TABLE u(k INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO u VALUES (2)")
        connection.execute("CREATE VIEW v AS SELECT a FROM t")
    asked = Query(statement.format(tmp_path), db=f"duckdb:///{tmp_path / 'd.duckdb'}")
    source = open_source(asked)
    assert "a" in source.columns
    assert sum(len(block) for block in source.blocks(10)) > 0


def folders_of_regions(home):
    for region in ("01", "x"):
        (home / f"region={region}").mkdir()
        pa.parquet.write_table(pa.table({"a": [1]}), home / f"region={region}" / "x.parquet")
    return f"'{home}/*/*.parquet'"


def test_folders_that_duckdb_would_type_together_are_refused(tmp_path):
    files = folders_of_regions(tmp_path)
    typed = "hive_types_autocast=false"
    guessing = [
        f"SELECT * FROM {files}",
        f"SELECT * FROM read_parquet({files})",
        f"SELECT * FROM read_parquet({files}, hive_types_autocast=true)",
        f"SELECT * FROM read_parquet({files}, hive_partitioning=true)",
        # Where the option is not that of the reader.
        f"SELECT * FROM read_parquet({files}) -- read_parquet('x', {typed})",
        f"SELECT * FROM read_parquet({files}) /* read_parquet('x', {typed}) */",
        f"SELECT *, 'read_parquet(x, {typed})' AS b FROM read_parquet({files})",
        f"SELECT a FROM read_parquet({files}, {typed}) UNION ALL SELECT a FROM {files}",
    ]
    for statement in guessing:
        with pytest.raises(DataError, match=r"values in folder names.*hive_types_autocast=false"):
            open_source(Query(statement, db="duckdb://"))
    with duckdb.connect(str(tmp_path / "v.duckdb")) as connection:
        connection.execute(f"CREATE VIEW v AS SELECT * FROM read_parquet({files})")
    with pytest.raises(DataError, match="a view or a macro names"):
        open_source(Query("SELECT * FROM v", db=f"duckdb:///{tmp_path / 'v.duckdb'}"))


def test_folders_whose_names_a_query_takes_as_texts_are_read(tmp_path):
    """All ways to read a table that is partitioned by month were refused."""
    files = folders_of_regions(tmp_path)
    texts = Query(f"FROM READ_PARQUET({files}, HIVE_TYPES_AUTOCAST => false)", db="duckdb://")
    # A folder that is no number changes how no other is read.
    for held in (["01", "x"], ["01"]):
        blocks = open_source(texts).blocks(10, wanted={"region": "text", "a": "number"})
        assert sorted(pa.Table.from_batches(blocks).column("region").to_pylist()) == held
        shutil.rmtree(tmp_path / "region=x", ignore_errors=True)
    unread = f"SELECT * FROM read_parquet({files}, hive_partitioning = false)"
    assert open_source(Query(unread, db="duckdb://")).columns == ("a",)


def test_a_file_of_duckdb_that_another_program_writes_is_refused_with_that_cause(tmp_path):
    path = tmp_path / "busy.duckdb"
    holds = f"import duckdb; c = duckdb.connect({str(path)!r}); print(1, flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", holds], **pipes) as other:
        assert other.stdout.readline() == b"1\n"
        with pytest.raises(DataError, match="no other program has a DuckDB file open"):
            open_source(Query("SELECT 1 AS a", db=f"duckdb:///{path}"))
        other.communicate(b"\n")


def test_parquet_files_that_duckdb_would_read_as_the_first_of_them_are_refused(tmp_path):
    # Writers of frames give whole numbers another type as soon as one is missing.
    later = pa.table({"crp": [1.7, 0.4]})
    pa.parquet.write_table(later, tmp_path / "2.parquet")
    first, second = (tmp_path / f"{month}.parquet" for month in "12")
    together = [
        f"'{tmp_path}/*.parquet'",
        f"read_parquet(['{first}', '{second}'])",
        f"read_parquet('{tmp_path}/*.parquet', union_by_name=true)",
    ]
    for cells, alike in (([3, 4], False), ([3.0, None], True)):
        pa.parquet.write_table(pa.table({"crp": cells}), first)
        for files in together:
            asked = Query(f"SELECT crp FROM {files}", db="duckdb://")
            if alike:
                blocks = open_source(asked).blocks(10, wanted={"crp": "number"})
                cells = pa.Table.from_batches(blocks).column("crp").drop_null()
                assert sorted(cells.to_pylist()) == [0.4, 1.7, 3.0]
            else:
                with pytest.raises(DataError, match="'crp' does not have the same type"):
                    open_source(asked)
    pa.parquet.write_table(pa.table({"crp": [3, 4]}), first)
    # A text that is compared with may be the name of another file.
    (tmp_path / "notes.txt").write_text("no table")
    asked = f"SELECT crp FROM '{first}' WHERE '{tmp_path / 'notes.txt'}' <> ''"
    assert open_source(Query(asked, db="duckdb://")).columns == ("crp",)
    # Two tables of a query have types of their own.
    joined = f"SELECT x.crp FROM '{first}' x JOIN '{second}' y ON x.crp > y.crp"
    assert open_source(Query(joined, db="duckdb://")).columns == ("crp",)


def test_parquet_files_of_another_machine_are_not_read_together():
    # DuckDB plans nothing of files that it cannot open.
    connection = mock.Mock()
    connection.execute.return_value.fetchall.return_value = [(None, '[{"name": "READ_PARQUET"}]')]
    for files in ("['s3://x/1', 's3://x/2']", "'s3://x/*/*.parquet', hive_types_autocast=false"):
        with pytest.raises(DataError, match="cannot be compared"):
            refuse_guesses(connection, f"SELECT a FROM read_parquet({files})")
    with pytest.raises(DataError, match="folder names"):
        refuse_guesses(connection, "SELECT a FROM read_parquet('s3://x/month=1/y.parquet')")


def test_sqlite_cells_of_mixed_types_mean_what_they_mean_in_csv(tmp_path):
    cells = [1, 2.5, "3", " 4 ", None, "NA", 2**62, 1e300, ""]
    (tmp_path / "cells.csv").write_text(
        "x,y\n1,\n2.5,\n3,\n 4 ,\n,\nNA,\n4611686018427387904,\n1e300,\n,\n"
    )
    query = sqlite_cells(tmp_path, cells)
    for declared in (
        Numeric(lower=0, upper=10, missing="indicator"),
        Categorical(categories=("1", "2.5", "3", "4"), missing="indicator"),
    ):
        schema = Schema(columns={"x": declared})
        assert table_moments(query, schema, SPEC) == table_moments(
            tmp_path / "cells.csv", schema, SPEC
        )


BROKEN_TEXT = f"CAST(x'ff{SENTINEL.encode().hex()}' AS TEXT)"


@pytest.mark.parametrize("kind", ["fts5(age)", "rtree(age, low, high)"])
def test_a_virtual_table_of_sqlite_is_refused_by_its_name(tmp_path, kind):
    """It was told to be a statement that the database does not understand."""
    connection = sqlite3.connect(tmp_path / "people.db")
    connection.execute(f"CREATE VIRTUAL TABLE people USING {kind}")
    connection.close()
    url = f"sqlite:///{tmp_path}/people.db"
    with pytest.raises(DataError, match="copy its rows to a table"):
        list(open_source(Query("SELECT age FROM people", db=url)).blocks(100))


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (f"'{SENTINEL}'", "Column 'x'"),
        ("x'7a65627261'", "Column 'x'"),
        ("'1_000'", "Column 'x'"),
        (BROKEN_TEXT, "UTF-8"),
    ],
)
def test_sqlite_cells_that_are_no_numbers_are_refused_silently(tmp_path, cell, words):
    url = sqlite_cells(tmp_path, [1, 2.5]).db
    query = Query(f"SELECT x FROM cells UNION ALL SELECT {cell}", db=url)
    with pytest.raises(DataError, match=words) as refused:
        table_moments(query, Schema(columns={"x": Numeric(lower=0, upper=10)}), SPEC)
    assert_silent(refused.value)


def test_a_column_of_nothing_but_null_is_missing(home):
    url, name = home
    schema = Schema(columns={"x": Numeric(lower=0, upper=1, missing="indicator")})
    query = Query(f"SELECT NULL AS x FROM {name}", db=url)
    expected = table_moments(pa.table({"x": pa.nulls(N_ROWS, pa.float64())}), schema, SPEC)
    assert table_moments(query, schema, SPEC) == expected


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://custodian:secretpw@127.0.0.1:1/patients",
        "duckdb:///nowhere/secretpw.duckdb",
        "sqlite:////nowhere/secretpw.db",
    ],
)
def test_a_database_that_cannot_be_opened_is_explained_without_its_url(url):
    with pytest.raises(DpcovError, match=r"check|cannot be opened|driver") as refused:
        open_source(Query("SELECT 1 AS a", db=url))
    assert_silent(refused.value)


def test_a_wrong_password_is_explained_without_it(postgres_database):
    wrong = postgres_database.replace(postgres_database.split(":")[2].split("@")[0], "wrongpw")
    with pytest.raises(DataError, match="password") as refused:
        open_source(Query("SELECT 1 AS a", db=wrong))
    assert "wrongpw" not in str(refused.value)


@pytest.mark.parametrize("url", ["", "secretpw", "sqlite:///:memory:", "mysql://a:secretpw@b"])
def test_what_names_no_database_is_refused(url):
    with pytest.raises(UsageError, match="named by a URL") as refused:
        open_source(Query("SELECT 1 AS a", db=url))
    assert "secretpw" not in str(refused.value)


@pytest.mark.parametrize("sql", ["", "  ;; ", "SELECT \x00"])
def test_what_is_no_statement_is_refused(sql):
    with pytest.raises(UsageError, match="SQL statement"):
        open_source(Query(sql, db="duckdb://"))


def test_a_query_shows_nothing_of_itself():
    assert repr(Query(SENTINEL, db="b")) == "Query(<statement and database hidden>)"


def test_a_lost_connection_is_explained(postgres):
    psycopg = pytest.importorskip("psycopg")
    url, name = postgres
    wide = f"SELECT a.* FROM {name} a, generate_series(1, 5000)"
    blocks = open_source(Query(wide, db=url)).blocks(100, wanted={"age": "number"})
    next(blocks)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    with pytest.raises(DataError, match="cannot be read") as refused:
        list(blocks)
    assert_silent(refused.value, url)


def test_an_in_memory_query_leaves_no_files_and_shows_no_progress(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    query = Query("SELECT range % 100 AS age FROM range(50000) ORDER BY random()", db="duckdb://")
    with DuckDb(":memory:", "SELECT current_setting('enable_progress_bar') AS a")._relation() as it:
        assert it.fetchall() == [(False,)]
    assert table_moments(query, AGE, SPEC).n_rows == 50_000
    assert list(tmp_path.iterdir()) == []


def failure(name="Odd", **attributes):
    """An error of some driver."""
    return type(name, (Exception,), attributes)(SENTINEL)


SQLSTATES = "42601 42P01 42703 25006 0A000 08006 28P01 3D000 42501 40001 55P03 57014"
SQLSTATES += " 57P01 22P02 53200 99999"
SQLITES = "ERROR AUTH READONLY_DBMOVED CANTOPEN BUSY_SNAPSHOT CORRUPT NOTADB"
CLASSES = (
    "ParserException CatalogException BinderException SyntaxException ConversionException"
    " OutOfRangeException InvalidInputException TypeMismatchException PermissionException"
    " ConnectionException OperationalError OutOfMemoryException IOException Odd"
)
ERRORS = [
    *(failure(sqlstate=state) for state in [*SQLSTATES.split(), None]),
    *(failure(sqlite_errorname=f"SQLITE_{name}") for name in SQLITES.split()),
    *(failure(name) for name in CLASSES.split()),
    *(sqlite3.Warning(SENTINEL), sqlite3.ProgrammingError(SENTINEL), ValueError(SENTINEL)),
    sqlite3.OperationalError(f"Could not decode to UTF-8 '{SENTINEL}'"),
    *(MemoryError(SENTINEL), PermissionError(13, SENTINEL, SENTINEL)),
    UnicodeDecodeError("utf-8", SENTINEL.encode(), 0, 1, SENTINEL),
]


def test_no_kind_of_error_is_told_with_its_text():
    explained = [explain_database_error(error) for error in ERRORS]
    assert SENTINEL not in "".join(explained)
    assert len(set(explained)) > 8


def test_types_are_asked_for_without_running_the_statement():
    sql = "SELECT error('boom') AS x, range AS y FROM range(3)"
    assert open_source(Query(sql, db="duckdb://")).kinds()["y"] == "number"


def test_a_file_can_be_read_on_and_closed_by_another_thread(tmp_path):
    blocks = open_source(sqlite_cells(tmp_path, range(100))).blocks(10)
    read = [next(blocks).column(0).to_pylist()]
    with ThreadPoolExecutor(1) as pool:
        read += pool.submit(lambda: [block.column(0).to_pylist() for block in blocks]).result()
    assert [cell for part in read for cell in part] == list(range(100))


def test_a_draft_of_sqlite_has_the_types_that_tables_declare(tmp_path):
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("CREATE TABLE t (a INTEGER, b TEXT, c VARCHAR(9), d REAL, e, f TEXT)")
        connection.execute("CREATE TABLE u (f INTEGER, h DATETIME, i bool)")
        connection.execute("INSERT INTO t VALUES (1, 'x', 'y', 2.5, 3, 'z')")
        # A view of a table that is gone does not matter.
        connection.execute("CREATE TABLE v (a TEXT)")
        connection.execute("CREATE VIEW w AS SELECT a FROM v")
        connection.execute("DROP TABLE v")
    asked = "SELECT t.*, upper(b) AS g, h, i FROM t LEFT JOIN u"
    kinds = open_source(Query(asked, db=f"sqlite:///{tmp_path / 't.db'}")).kinds()
    others = {"b": "text", "c": "text", "h": "date", "i": "boolean"}
    assert kinds == dict.fromkeys("abcdefghi", "number") | others


def test_a_copy_of_a_query_holds_the_columns_that_are_wanted_alone(home):
    url, name = home
    query = Query(f"SELECT * FROM {name}", db=url)
    (block, *_) = open_source(query).blocks(500, wanted={"age": "number"})
    assert block.schema.names == ["age"]
    # All that the block keeps alive, not only what its columns count.
    total = sum(each.size for each in block.column("age").buffers() if each is not None)
    assert total <= 64 * 500


def test_decimals_of_postgres_keep_their_places_as_categories(postgres):
    url, _ = postgres
    big = "9007199254740993"
    labels = ("1.50", "1.5", big, "9007199254740992")
    schema = Schema(columns={"c": Categorical(categories=labels)})
    for text, code in (("1.50", 0), ("1.5", 1), (big, 2)):
        places = len(text.partition(".")[2])
        query = Query(f"SELECT {text}::numeric(30,{places}) AS c", db=url)
        assert read_column(query, schema, "c").tolist() == [code]


def test_single_precision_of_databases_is_a_category_as_it_is_written(postgres):
    schema = Schema(columns={"c": Categorical(categories=("0.1",))})
    for url in (postgres[0], "duckdb://"):
        query = Query("SELECT CAST(0.1 AS real) AS c", db=url)
        assert read_column(query, schema, "c").tolist() == [0]


@pytest.fixture
def latin(postgres_url):
    """URL of a database whose server encodes text as LATIN1."""
    psycopg = pytest.importorskip("psycopg")
    pytest.importorskip("adbc_driver_postgresql")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE dpcov_latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
            " TEMPLATE template0"
        )
    yield urlunsplit(urlsplit(postgres_url)._replace(path="/dpcov_latin"))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP DATABASE dpcov_latin WITH (FORCE)")


@pytest.mark.parametrize("asked", ["", "?client_encoding=LATIN1"])
def test_text_of_postgres_is_asked_for_in_utf8(latin, asked, monkeypatch):
    """The two letters Ã¤ of LATIN1 are the bytes of ä in UTF-8."""
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    schema = Schema(columns={"ä": Categorical(categories=("ä", "Ã¤"))})
    query = Query(
        "SELECT c AS \"ä\" FROM (VALUES (U&'\\00E4'), (U&'\\00C3\\00A4')) AS t (c)",
        db=latin + asked,
    )
    assert read_column(query, schema, "ä").tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["TIME '01:02'", "INTERVAL '3 days'"])
def test_a_time_declared_a_date_is_refused_before_a_row_is_read(postgres, kind):
    for url in (postgres[0], "duckdb://"):
        source = open_source(Query(f"SELECT {kind} AS d", db=url))
        with pytest.raises(DataError, match="a time or a span, which has no day"):
            next(source.blocks(9, wanted={"d": Notation(dates="")}))


@pytest.mark.parametrize("kind", ["date", "timestamp"])
@pytest.mark.parametrize("sign", ["", "-"])
def test_infinite_dates_of_postgres_are_refused(postgres, kind, sign):
    url, _ = postgres
    schema = Schema(columns={"d": Date(as_="year", lower=1900, upper=2100)})
    query = Query(f"SELECT '{sign}infinity'::{kind} AS d", db=url)
    with pytest.raises(DataError, match="infinite date"):
        read_column(query, schema, "d")
    early = Query(f"SELECT '0001-01-01'::{kind} AS d", db=url)
    assert len(read_column(early, schema, "d")) == 1


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_s", "timestamptz"])
@pytest.mark.parametrize("sign", ["", "-"])
def test_infinite_dates_of_duckdb_are_refused(kind, sign):
    schema = Schema(columns={"d": Date(as_="year", lower=1900, upper=2100)})
    query = Query(f"SELECT '{sign}infinity'::{kind} AS d", db="duckdb://")
    with pytest.raises(DataError, match="infinite date"):
        read_column(query, schema, "d")


def test_names_of_duckdb_that_differ_in_capitals_are_two_columns():
    query = Query('SELECT 1 AS a, 2 AS "A"', db="duckdb://")
    (block,) = open_source(query).blocks(9, wanted={"A": "number"})
    assert block.schema.names == ["A"]

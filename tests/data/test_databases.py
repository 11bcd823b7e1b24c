"""What databases are asked and told, without a server, and public words for every error."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pyarrow as pa
import pytest

from dpcov.data.sources import Query, open_source
from dpcov.data.sources import databases as databases_module
from dpcov.data.sources.databases import (
    AnyDatabase,
    Database,
    DuckDb,
    Postgres,
    Sqlite,
    explain_database_error,
    open_database,
)
from dpcov.data.sources.sql import _check_type
from dpcov.errors import DataError, UsageError

SENTINEL = "zebra4711"


def failure(name="Odd", base=Exception, **attributes):
    """An error of some driver."""
    error = type(name, (base,), {})(SENTINEL)
    for attribute, value in attributes.items():
        setattr(error, attribute, value)
    return error


def named(name):
    """An error known by its SQLSTATE, by SQLite's name for it, or by its class."""
    if name[0].isdigit():
        return failure(sqlstate=name)
    return failure(sqlite_errorname=name) if name.startswith("SQLITE") else failure(name)


BINDING = "ParserException CatalogException BinderException SyntaxException SQLITE_ERROR"
CASTING = "ConversionException OutOfRangeException InvalidInputException TypeMismatchException"
WORDS = {
    "understand the statement": f"42601 42P01 42703 {BINDING}",
    "would change something": "25006 0A000 SQLITE_AUTH SQLITE_READONLY_DBMOVED PermissionException",
    "does not answer": "08006 28P01 3D000 ConnectionException OperationalError SQLITE_CANTOPEN",
    "no right to read": "42501",
    "ended the query": "40001 55P03 57014 57P01 SQLITE_BUSY_SNAPSHOT",
    "cannot be computed": f"22P02 {CASTING}",
    "ran out of memory or disk": "53200 OutOfMemoryException",
    "a file that the statement": "IOException",
    "file is damaged": "SQLITE_CORRUPT",
    "not a database of this kind": "SQLITE_NOTADB",
    "no driver for such a URL": "NoSuchModuleError",
    "text is withheld": "99999 Odd",
}
WORDS = {words: [named(name) for name in names.split()] for words, names in WORDS.items()}
WORDS["would change something"] += [
    failure("Odd", sqlite3.Warning),
    failure("Odd", sqlite3.ProgrammingError),
]
WORDS["text is withheld"] += [failure(sqlstate=None), ValueError(SENTINEL)]
WORDS |= {
    "not UTF-8; convert it": [failure("Odd", sqlite3.DatabaseError)],
    "not enough memory": [MemoryError()],
    "no permission": [PermissionError(13, SENTINEL)],
    "not UTF-8 text": [UnicodeDecodeError("utf-8", SENTINEL.encode(), 0, 1, SENTINEL)],
}
WORDS["not UTF-8; convert it"][0].args = (
    f"Could not decode to UTF-8 column 'x' with text '{SENTINEL}'",
)


@pytest.mark.parametrize("words", WORDS)
def test_every_kind_of_error_has_words_of_its_own(words):
    for error in WORDS[words]:
        for told in (explain_database_error(error), explain_database_error(failure(orig=error))):
            assert words in told
            assert SENTINEL not in told


@pytest.mark.parametrize(
    ("url", "kind", "where"),
    [
        ("duckdb://", DuckDb, ("_path", "")),
        ("duckdb:///a/b.duckdb", DuckDb, ("_path", "a/b.duckdb")),
        ("duckdb:////a.duckdb", DuckDb, ("_path", "/a.duckdb")),
        ("sqlite:////a.db", Sqlite, ("_path", databases_module.Path("/a.db"))),
        ("postgresql://a@b/c", Postgres, ("_url", "postgresql://a@b/c")),
        ("postgres://a@b/c", Postgres, ("_url", "postgres://a@b/c")),
        ("postgresql+psycopg://a@b/c", AnyDatabase, ("_url", "postgresql+psycopg://a@b/c")),
        ("mysql://a@b/c", AnyDatabase, ("_url", "mysql://a@b/c")),
    ],
)
def test_a_url_names_the_database_that_reads_it(url, kind, where):
    database = open_database(url)
    assert type(database) is kind
    assert getattr(database, where[0]) == where[1]


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_sqlite_in_memory_is_refused_and_duckdb_is_read(path):
    with pytest.raises(UsageError, match="in memory is empty"):
        Sqlite(path)
    (batch,) = DuckDb(path).batches("SELECT 7 AS x", 10, {"x": "number"})
    assert batch.to_pylist() == [{"x": 7}]
    assert DuckDb(path).kinds("SELECT 7 AS x") == {"x": "number"}


def test_types_are_asked_for_without_running_the_statement():
    sql = "SELECT error('boom') AS x, range AS y FROM range(3)"
    found = DuckDb("").schema(sql)
    assert found.names == ["x", "y"]
    assert found.field("y").type == pa.int64()


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE x AS SELECT 1 AS a",
        "SELECT 1 AS x; SELECT 2 AS x",
        "SELECT 1 AS x; DROP TABLE y",
        "CHECKPOINT",
    ],
)
def test_duckdb_in_memory_runs_one_select_and_nothing_else(sql):
    for ask in (lambda: DuckDb("").schema(sql), lambda: list(DuckDb("").batches(sql, 10, {}))):
        with pytest.raises(DataError, match="not a single SELECT"):
            ask()


def cells_file(tmp_path, cells):
    with sqlite3.connect(tmp_path / "cells.db") as connection:
        connection.execute("CREATE TABLE cells (x, y)")
        connection.executemany("INSERT INTO cells VALUES (?, 1)", [(cell,) for cell in cells])
    connection.close()
    return f"sqlite:///{tmp_path / 'cells.db'}"


@pytest.mark.parametrize(("first", "kind"), [(999, "text"), (1000, "number")])
def test_kinds_are_those_of_the_first_thousand_rows(tmp_path, first, kind):
    pytest.importorskip("sqlalchemy")
    cells = [1] * 1001
    cells[first] = "a"
    url = cells_file(tmp_path, cells)
    for spelled in (url, url.replace("sqlite:", "sqlite+pysqlite:")):
        assert open_source(Query("SELECT x, y FROM cells", db=spelled)).kinds() == {
            "x": kind,
            "y": "number",
        }


def test_a_file_can_be_read_on_and_closed_by_another_thread(tmp_path):
    blocks = open_source(Query("SELECT x FROM cells", db=cells_file(tmp_path, range(100)))).blocks(
        10
    )
    read = [next(blocks).column(0).to_pylist()]
    with ThreadPoolExecutor(1) as pool:
        read += pool.submit(lambda: [block.column(0).to_pylist() for block in blocks]).result()
    assert [cell for part in read for cell in part] == list(range(100))


class Recorder:
    """A driver that only remembers what it was asked."""

    def __init__(self, dialect, names=("x", "y")):
        self.asked, self.names = {}, names
        self.pool = SimpleNamespace(NullPool="no pool")
        self.dialect = SimpleNamespace(name=dialect)

    def create_engine(self, url, **options):
        self.asked["engine"] = (url, options)
        return self

    def connect(self, *arguments, **options):
        self.asked["connection"] = (arguments, options)
        return self

    def execution_options(self, **options):
        self.asked["options"] = options
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def exec_driver_sql(self, sql):
        self.asked["sql"] = sql
        rows = iter([[(1, "a")], []])
        return SimpleNamespace(keys=lambda: list(self.names), fetchmany=lambda count: next(rows))

    def cursor(self):
        return self

    def execute(self, sql):
        self.asked.setdefault("statements", []).append(sql)

    @property
    def adbc_statement(self):
        return SimpleNamespace(set_options=lambda **options: self.asked.update(options))

    def adbc_execute_schema(self, sql):
        self.asked["described"] = sql
        return TYPES

    def fetch_record_batch(self):
        return [
            pa.record_batch(
                [["0.1", "1e-40"], [1, 2]], schema=pa.schema([TYPES.field("n"), TYPES.field("i")])
            )
        ]


class Tagged(pa.ExtensionType):
    """A type that no schema can declare, stored as text."""

    def __init__(self):
        super().__init__(pa.string(), "tests.tagged")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


def tagged(kind):
    return {b"POSTGRESQL:type": kind}


TYPES = pa.schema(
    [
        pa.field("n", pa.string(), metadata=tagged(b"numeric")),
        pa.field("i", pa.int32()),
        pa.field("m", pa.int64(), metadata=tagged(b"money")),
        pa.field("t", pa.string(), metadata=tagged(b"text")),
        pa.field("j", Tagged()),
    ]
)


@pytest.mark.parametrize("dialect", ["postgresql", "mysql"])
def test_a_server_is_asked_for_a_stream_that_nothing_can_change(dialect, monkeypatch):
    driver = Recorder(dialect)
    monkeypatch.setattr(Database, "_driver", lambda self, module: driver)
    database, only = (
        AnyDatabase("some://url"),
        {"postgresql_readonly": True} if dialect == "postgresql" else {},
    )
    steps = (
        (1, lambda: database.schema("SELECT 1")),
        (1000, lambda: database.kinds("SELECT 1")),
        (70, lambda: list(database.batches("SELECT 1", 70, {"x": "number", "y": "text"}))),
    )
    answers = []
    for rows, step in steps:
        answers.append(step())
        wanted = {"stream_results": True, "max_row_buffer": rows, "no_parameters": True}
        assert driver.asked["options"] == wanted | only
        assert driver.asked["engine"] == (
            "some://url",
            {"poolclass": "no pool", "hide_parameters": True},
        )
        assert driver.asked["sql"] == "SELECT 1"
    assert answers[0] == pa.schema([("x", pa.null()), ("y", pa.null())])
    assert answers[1] == {"x": "number", "y": "text"}
    assert [batch.to_pylist() for batch in answers[2]] == [[{"x": 1, "y": "a"}]]


@pytest.mark.parametrize(
    "sql", ["SELECT 1", "(SELECT 1)", "with a AS (SELECT 1) SELECT 1", "VALUES (1)", "Table x"]
)
def test_a_server_is_sent_what_reads(sql, monkeypatch):
    monkeypatch.setattr(Database, "_driver", lambda self, module: Recorder("mysql"))
    assert AnyDatabase("some://url").schema(sql).names == ["x", "y"]
    with pytest.raises(DataError, match="not a single SELECT"):
        AnyDatabase("some://url").schema(f"EXPLAIN {sql}")


@pytest.mark.parametrize("names", [("?column?", "y"), ("x", "")])
def test_columns_without_a_name_are_refused(names, monkeypatch):
    monkeypatch.setattr(Database, "_driver", lambda self, module: Recorder("mysql", names))
    with pytest.raises(DataError, match="Not every column of the query has a name"):
        open_source(Query("SELECT 1", db="some://url"))


def test_postgres_is_made_read_only_and_answers_in_batches_of_four_mebibytes(monkeypatch):
    driver = Recorder("postgresql")
    monkeypatch.setattr(Database, "_driver", lambda self, module: driver)
    described = Postgres("some://url").schema("SELECT 1")
    assert [(field.name, field.type) for field in described] == [
        ("n", pa.float64()),
        ("i", pa.int32()),
        ("m", pa.binary()),
        ("t", pa.string()),
        ("j", pa.binary()),
    ]
    assert driver.asked["described"] == "SELECT 1"
    assert driver.asked["connection"] == (("some://url",), {"autocommit": True})
    assert driver.asked["adbc.postgresql.batch_size_hint_bytes"] == "4194304"
    (batch,) = Postgres("some://url").batches("SELECT 2", 10, {})
    assert batch.to_pydict() == {"n": [0.1, 1e-40], "i": [1, 2]}
    assert driver.asked["statements"][-2:] == [
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SELECT 2",
    ]


@pytest.mark.parametrize(
    ("data_type", "number", "text"),
    [
        (pa.int8(), None, None),
        (pa.string(), None, None),
        (pa.null(), None, None),
        (pa.bool_(), None, None),
        (pa.date32(), "is a date or a time", None),
        (pa.timestamp("us"), "is a date or a time", None),
        (pa.binary(), "is neither a number", "is neither a number"),
        (pa.list_(pa.int8()), "is neither a number", "is neither a number"),
    ],
)
def test_types_are_refused_by_what_they_are_wanted_for(data_type, number, text):
    for reading, words in (("number", number), ("text", text)):
        if words is None:
            _check_type(pa.field("x", data_type), reading)
            continue
        with pytest.raises(DataError, match=f"Column 'x' {words}"):
            _check_type(pa.field("x", data_type), reading)

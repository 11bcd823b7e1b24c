"""Find the driver that opens a database URL, and keep each from writing.

Contract: every connection is read-only as far as its database allows, a statement is run alone,
results arrive in batches of bounded size, and an error is told by its class only: databases quote
rows, statements and URLs.
"""

import contextlib
import importlib
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from dpcov.data.cells import number_column, text_column
from dpcov.data.seal import explain
from dpcov.data.sources.base import Kind, ReadAs, kinds_of
from dpcov.data.sources.guesses import refuse_duckdb_guesses
from dpcov.errors import DataError, UsageError

_BATCH_BYTES = 4 << 20
_SAMPLE_ROWS = 1000

_NO_SUCH = (
    "the database does not understand the statement, or has no such table or column; "
    "try it in the database's own client."
)
_NO_CHANGES = (
    "the statement would change something, or is not a single SELECT; only reading is allowed."
)
_NO_ANSWER = (
    "the database cannot be opened, does not answer, or refuses; "
    "check URL, path, user and password."
)
_NO_RIGHT = "the database user has no right to read this."
_ENDED = "the database ended the query (time limit, lock, shutdown or lost connection); try again."
_BAD_CELL = (
    "a cell cannot be computed or converted as the statement asks; correct its CASTs and divisions."
)
_NO_MEMORY = "the database ran out of memory or disk; select fewer columns or sort nothing."
_NO_FILE = (
    "a file that the statement or the URL names cannot be opened; check paths and permissions."
)
_WITHHELD = (
    "the database reported an error, whose text is withheld because it may quote rows. Check the "
    "statement's CASTs and divisions, and that the database is up."
)

# What SQLSTATEs, and names of errors, begin with; the first that fits is told.
_SQLSTATES = {
    **dict.fromkeys(("08", "28", "3D"), _NO_ANSWER),
    **dict.fromkeys(("0A", "25"), _NO_CHANGES),
    **dict.fromkeys(("40", "55", "57"), _ENDED),
    **{"22": _BAD_CELL, "42501": _NO_RIGHT, "42": _NO_SUCH, "53": _NO_MEMORY},
}
_NAMES = {
    **dict.fromkeys(
        ("ParserException", "CatalogException", "BinderException", "SyntaxException"), _NO_SUCH
    ),
    **dict.fromkeys(("ConversionException", "OutOfRangeException"), _BAD_CELL),
    **dict.fromkeys(("InvalidInputException", "TypeMismatchException"), _BAD_CELL),
    "OutOfMemoryException": _NO_MEMORY,
    "ConnectionException": _NO_ANSWER,
    "IOException": _NO_FILE,
    **dict.fromkeys(("PermissionException", "SQLITE_AUTH", "SQLITE_READONLY"), _NO_CHANGES),
    "SQLITE_BUSY": _ENDED,
    "SQLITE_CANTOPEN": _NO_ANSWER,
    "SQLITE_CORRUPT": "the database file is damaged; restore it from a backup.",
    "SQLITE_ERROR": _NO_SUCH,
    "SQLITE_NOTADB": "the file is not a database of this kind.",
    "NoSuchModuleError": "no driver for such a URL is installed; see SQLAlchemy's dialects.",
}


def explain_database_error(error: Exception) -> str:
    """Say in public words what kind of error this was, repeating no part of it."""
    inner = getattr(error, "orig", None) or error
    state = getattr(inner, "sqlstate", None) or ""
    name = getattr(inner, "sqlite_errorname", type(inner).__name__)
    for table, key in ((_SQLSTATES, state), (_NAMES, name)):
        for known, told in table.items():
            if key.startswith(known):
                return told
    if "Could not decode to UTF-8" in str(inner):
        return "it holds text that is not UTF-8; convert it."
    if isinstance(inner, sqlite3.ProgrammingError | sqlite3.Warning):
        return _NO_CHANGES
    if isinstance(inner, MemoryError | UnicodeDecodeError | PermissionError):
        return explain(inner)
    return _NO_ANSWER if type(inner).__name__ == "OperationalError" else _WITHHELD


class Database(ABC):
    """Something that answers one SELECT at a time; ``extra`` is what installs its driver."""

    extra: ClassVar[str] = "sql"

    @abstractmethod
    def schema(self, sql: str) -> pa.Schema:
        """Names and types of the columns, null where the database types cells and not columns."""

    def kinds(self, sql: str) -> dict[str, Kind]:
        """What the columns hold, for a draft."""
        return kinds_of(self.schema(sql))

    @abstractmethod
    def batches(
        self, sql: str, block_rows: int, wanted: Mapping[str, ReadAs]
    ) -> Iterator[pa.RecordBatch]:
        """All rows, a bounded number at a time, with at least the wanted columns."""

    def _driver(self, module: str) -> Any:
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError:
            raise UsageError(
                "ReadAs from this database needs a driver. Install it with: "
                f"pip install 'dpcov[{self.extra}]'."
            ) from None


class DuckDb(Database):
    """An embedded analytical database: a file, or memory over Parquet files."""

    def __init__(self, path: str) -> None:
        self._path = path

    @contextlib.contextmanager
    def _relation(self, sql: str) -> Iterator[Any]:
        duckdb = self._driver("duckdb")
        in_memory = self._path in ("", ":memory:")
        target = ":memory:" if in_memory else self._path
        settings = {"autoinstall_known_extensions": "false", "preserve_insertion_order": "false"}
        with tempfile.TemporaryDirectory(prefix="dpcov-") as spill:
            opened = duckdb.connect(
                target, read_only=not in_memory, config={**settings, "temp_directory": spill}
            )
            with contextlib.closing(opened) as connection:
                # It would be drawn on standard output, from the number of rows.
                connection.execute("SET enable_progress_bar = false")
                statements = connection.extract_statements(sql)
                if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                    raise DataError(f"'the query' cannot be read: {_NO_CHANGES}")
                relation = connection.sql(sql)
                refuse_duckdb_guesses(relation, stated=sql)
                yield relation

    def schema(self, sql: str) -> pa.Schema:
        """Ask for the types without running the statement."""
        with self._relation(sql) as relation:
            types = relation.limit(0).to_arrow_table().schema.types
            # A nested relation renames columns of the same name; the relation itself does not.
            return pa.schema(list(zip(relation.columns, types, strict=True)))

    def batches(
        self, sql: str, block_rows: int, wanted: Mapping[str, ReadAs]
    ) -> Iterator[pa.RecordBatch]:
        """Stream record batches."""
        with self._relation(sql) as relation:
            yield from duckdb_reader(relation, block_rows)


def duckdb_reader(relation: Any, block_rows: int) -> Any:
    """Stream a relation as record batches."""
    # The older name is deprecated, the newer one absent from older versions.
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return read(block_rows)


class Postgres(Database):
    """PostgreSQL through ADBC: binary COPY, decoded into record batches as it arrives."""

    def __init__(self, url: str) -> None:
        self._url = url

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[Any]:
        dbapi = self._driver("adbc_driver_postgresql.dbapi")
        with dbapi.connect(self._url, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
            # A prepared statement, which this makes of it, is always a single one.
            options = {"adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES)}
            cursor.adbc_statement.set_options(**options)
            yield cursor

    def schema(self, sql: str) -> pa.Schema:
        """Ask for the types without running the statement."""
        with self._cursor() as cursor:
            found = cursor.adbc_execute_schema(sql)
        return pa.schema([_plain_field(column) for column in found])

    def batches(
        self, sql: str, block_rows: int, wanted: Mapping[str, ReadAs]
    ) -> Iterator[pa.RecordBatch]:
        """Stream record batches."""
        with self._cursor() as cursor:
            cursor.execute(sql)
            for batch in cursor.fetch_record_batch():
                yield _plain_batch(batch)


def _postgres_type(column: pa.Field) -> bytes:
    return bytes((column.metadata or {}).get(b"POSTGRESQL:type", b""))


def _plain_field(column: pa.Field) -> pa.Field:
    # Give NUMERIC the type of numbers, and types that no schema can declare one that says so.
    kind = _postgres_type(column)
    if kind == b"numeric":
        return pa.field(column.name, pa.float64())
    if kind == b"money" or isinstance(column.type, pa.BaseExtensionType):
        return pa.field(column.name, pa.binary())
    return pa.field(column.name, column.type)


def _plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = []
    for column, cells in zip(batch.schema, batch.columns, strict=True):
        plain = cells.storage if isinstance(cells, pa.ExtensionArray) else cells
        # NUMERIC arrives as text, since its precision has no limit; it is rounded once.
        numeric = _postgres_type(column) == b"numeric"
        columns.append(plain.cast(pa.float64()) if numeric else plain)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


class _CellDatabase(Database):
    """A database whose cells are Python objects with types of their own."""

    @abstractmethod
    def _rows(
        self, sql: str, block_rows: int
    ) -> AbstractContextManager[tuple[list[str], Callable[[int], Sequence[Sequence[Any]]]]]:
        """Run a statement: names of the columns, and what fetches so many more rows."""

    def schema(self, sql: str) -> pa.Schema:
        """Start the statement and read the names."""
        with self._rows(sql, 1) as (names, _):
            return pa.schema([(name, pa.null()) for name in names])

    def kinds(self, sql: str) -> dict[str, Kind]:
        """Guess from the first rows what a draft should propose."""
        with self._rows(sql, _SAMPLE_ROWS) as (names, fetch):
            rows = fetch(_SAMPLE_ROWS)
        cells = zip(*rows, strict=True) if rows else [()] * len(names)
        return {name: _kind_of_cells(column) for name, column in zip(names, cells, strict=True)}

    def batches(
        self, sql: str, block_rows: int, wanted: Mapping[str, ReadAs]
    ) -> Iterator[pa.RecordBatch]:
        """Stream rows; every cell is read by itself, as the schema wants its column."""
        with self._rows(sql, block_rows) as (names, fetch):
            while rows := fetch(block_rows):
                yield _batch_of_rows(names, rows, wanted)


def _batch_of_rows(
    names: Sequence[str], rows: Sequence[Sequence[Any]], wanted: Mapping[str, ReadAs]
) -> pa.RecordBatch:
    cells = dict(zip(names, zip(*rows, strict=True), strict=True))
    columns = {
        name: (number_column if reading == "number" else text_column)(cells[name], name)
        for name, reading in wanted.items()
    }
    return pa.RecordBatch.from_pydict(columns)


def _kind_of_cells(cells: Sequence[Any]) -> Kind:
    types = {type(cell) for cell in cells} - {type(None)}
    if not types or not types <= {bool, int, float, Decimal, str}:
        return "other"
    # Cells of several types are compared as texts.
    if str in types:
        return "text"
    return "boolean" if types == {bool} else "number"


class Sqlite(_CellDatabase):
    """An SQLite file; its cells have types of their own, whatever the column declares."""

    def __init__(self, path: str) -> None:
        if path in ("", ":memory:"):
            raise UsageError(
                "An SQLite database in memory is empty. Name a file: sqlite:///file.db."
            )
        self._path = Path(path)

    @contextlib.contextmanager
    def _rows(self, sql: str, block_rows: int) -> Iterator[Any]:
        where = f"{self._path.absolute().as_uri()}?mode=ro"
        # The reader may be closed from another thread than the one that read.
        opened = sqlite3.connect(where, uri=True, check_same_thread=False)
        with contextlib.closing(opened) as connection:
            connection.execute("PRAGMA query_only = ON")
            connection.set_authorizer(_only_reading)
            cursor = connection.execute(sql)
            yield [column[0] for column in cursor.description or ()], cursor.fetchmany


_READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}


def _only_reading(action: int, first: str | None, second: str | None, *where: object) -> int:
    allowed = action in _READING and second != "load_extension"
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


class AnyDatabase(_CellDatabase):
    """Whatever SQLAlchemy knows, with a cursor on the server where the driver has one."""

    extra = "postgres"

    def __init__(self, url: str) -> None:
        self._url = url

    @contextlib.contextmanager
    def _rows(self, sql: str, block_rows: int) -> Iterator[Any]:
        # Not every driver has a read-only mode, so only statements that read are sent.
        if sql.split()[0].lstrip("(").upper() not in ("SELECT", "WITH", "VALUES", "TABLE"):
            raise DataError(f"'the query' cannot be read: {_NO_CHANGES}")
        sqlalchemy = self._driver("sqlalchemy")
        pool = sqlalchemy.pool.NullPool
        engine = sqlalchemy.create_engine(self._url, poolclass=pool, hide_parameters=True)
        options = {"stream_results": True, "max_row_buffer": block_rows, "no_parameters": True}
        if engine.dialect.name == "postgresql":
            options["postgresql_readonly"] = True
        # Nothing is ever committed: the transaction ends with the connection, by a rollback.
        with engine.connect().execution_options(**options) as connection:
            result = connection.exec_driver_sql(sql)
            yield list(result.keys()), result.fetchmany


def open_database(url: str) -> Database:
    """Find what reads this URL; nothing is opened yet."""
    scheme, separator, rest = url.partition("://")
    if not separator or not scheme:
        raise UsageError(
            "A database is named by a URL: duckdb:///FILE, duckdb:// (over files), "
            "postgresql://USER@HOST/NAME, sqlite:///FILE, or another that SQLAlchemy knows."
        )
    if scheme == "duckdb":
        return DuckDb(rest.removeprefix("/"))
    if scheme == "sqlite":
        return Sqlite(rest.removeprefix("/"))
    return Postgres(url) if scheme in ("postgresql", "postgres") else AnyDatabase(url)

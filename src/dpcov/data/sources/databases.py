"""Databases that can be read: which driver opens which URL, and how each is kept from writing.

Contract: every connection is read-only as far as its database allows, a statement is run alone, results
arrive in batches of bounded size, and an error is told by its class only: databases quote rows, statements
and URLs.
"""

import contextlib
import importlib
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from dpcov.data.cells import number_column, text_column
from dpcov.data.seal import explain
from dpcov.data.sources.base import Kind, ReadAs, kind_of_arrow_type
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
_NO_ANSWER = "the database cannot be opened, does not answer, or refuses; check URL, path, user and password."
_NO_RIGHT = "the database user has no right to read this."
_ENDED = "the database ended the query (time limit, lock, shutdown or lost connection); try again."
_BAD_CELL = (
    "a cell cannot be computed or converted as the statement asks; correct its CASTs and divisions."
)
_NO_MEMORY = "the database ran out of memory or disk; select fewer columns or sort nothing."
_WITHHELD = (
    "the database reported an error, whose text is withheld because it may quote rows. Check the statement's CASTs "
    "and divisions, and that the database is up."
)

_SQLSTATES = {
    "08": _NO_ANSWER,
    "0A": _NO_CHANGES,
    "22": _BAD_CELL,
    "25": _NO_CHANGES,
    "28": _NO_ANSWER,
    "3D": _NO_ANSWER,
    "40": _ENDED,
    "42501": _NO_RIGHT,
    "42": _NO_SUCH,
    "53": _NO_MEMORY,
    "55": _ENDED,
    "57": _ENDED,
}
_NAMES = {
    "ParserException": _NO_SUCH,
    "CatalogException": _NO_SUCH,
    "BinderException": _NO_SUCH,
    "SyntaxException": _NO_SUCH,
    "ConversionException": _BAD_CELL,
    "OutOfRangeException": _BAD_CELL,
    "InvalidInputException": _BAD_CELL,
    "TypeMismatchException": _BAD_CELL,
    "OutOfMemoryException": _NO_MEMORY,
    "ConnectionException": _NO_ANSWER,
    "IOException": "a file that the statement or the URL names cannot be opened; check paths and permissions.",
    "PermissionException": _NO_CHANGES,
    "SQLITE_AUTH": _NO_CHANGES,
    "SQLITE_BUSY": _ENDED,
    "SQLITE_CANTOPEN": _NO_ANSWER,
    "SQLITE_CORRUPT": "the database file is damaged; restore it from a backup.",
    "SQLITE_ERROR": _NO_SUCH,
    "SQLITE_NOTADB": "the file is not a database of this kind.",
    "SQLITE_READONLY": _NO_CHANGES,
    "NoSuchModuleError": "no driver for such a URL is installed; see the SQLAlchemy list of dialects.",
}


def explain_database_error(error: Exception) -> str:
    """Say in public words what kind of error this was, repeating no part of it."""
    inner = getattr(error, "orig", None) or error
    state = getattr(inner, "sqlstate", None) or ""
    by_state = next((text for prefix, text in _SQLSTATES.items() if state.startswith(prefix)), None)
    if by_state is not None:
        return by_state
    name = getattr(inner, "sqlite_errorname", type(inner).__name__)
    by_name = next((text for known, text in _NAMES.items() if name.startswith(known)), None)
    if by_name is not None:
        return by_name
    if "Could not decode to UTF-8" in str(inner):
        return "it holds text that is not UTF-8; convert it."
    if isinstance(inner, sqlite3.ProgrammingError | sqlite3.Warning):
        return _NO_CHANGES
    if isinstance(inner, MemoryError | UnicodeDecodeError | PermissionError):
        return explain(inner)
    return _NO_ANSWER if type(inner).__name__ == "OperationalError" else _WITHHELD


class Database(ABC):
    """Something that answers one SELECT at a time.

    Attributes
    ----------
    extra : str
        What to install where the driver is missing.
    """

    extra: ClassVar[str] = "sql"

    @abstractmethod
    def schema(self, sql: str) -> pa.Schema:
        """Names and types of the columns, null where the database types cells and not columns."""

    def kinds(self, sql: str) -> dict[str, Kind]:
        """What the columns hold, for a draft."""
        return {column.name: kind_of_arrow_type(column.type) for column in self.schema(sql)}

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
                f"Reading from this database needs a driver. Install it with: pip install 'dpcov[{self.extra}]'."
            ) from None


class DuckDb(Database):
    """An embedded analytical database: a file, or memory over Parquet and CSV files."""

    def __init__(self, path: str) -> None:
        self._path = path

    @contextlib.contextmanager
    def _relation(self, sql: str) -> Iterator[Any]:
        duckdb = self._driver("duckdb")
        in_memory = self._path in ("", ":memory:")
        with tempfile.TemporaryDirectory(prefix="dpcov-") as spill:
            settings = {
                "autoinstall_known_extensions": "false",
                "preserve_insertion_order": "false",
                "temp_directory": spill,
            }
            target = ":memory:" if in_memory else self._path
            with contextlib.closing(
                duckdb.connect(target, read_only=not in_memory, config=settings)
            ) as connection:
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
            # The older name is deprecated, the newer one absent from older versions.
            read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            yield from read(block_rows)


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
            cursor.adbc_statement.set_options(
                **{"adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES)}
            )
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


def _plain_field(column: pa.Field) -> pa.Field:
    """Give NUMERIC the type of numbers, and types that no schema can declare one that says so."""
    kind = (column.metadata or {}).get(b"POSTGRESQL:type", b"")
    if kind == b"numeric":
        return pa.field(column.name, pa.float64())
    if kind == b"money" or isinstance(column.type, pa.BaseExtensionType):
        return pa.field(column.name, pa.binary())
    return pa.field(column.name, column.type)


def _plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """NUMERIC arrives as text, since its precision has no limit; it is rounded once, to the nearest float."""
    columns = []
    for column, cells in zip(batch.schema, batch.columns, strict=True):
        numeric = (column.metadata or {}).get(b"POSTGRESQL:type", b"") == b"numeric"
        plain = cells.storage if isinstance(cells, pa.ExtensionArray) else cells
        columns.append(plain.cast(pa.float64()) if numeric else plain)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


class Sqlite(Database):
    """An SQLite file; its cells have types of their own, whatever the column declares."""

    def __init__(self, path: str) -> None:
        if path in ("", ":memory:"):
            raise UsageError(
                "An SQLite database in memory is empty. Name its file: sqlite:///file.db."
            )
        self._path = Path(path)

    @contextlib.contextmanager
    def _cursor(self, sql: str) -> Iterator[sqlite3.Cursor]:
        where = f"{self._path.absolute().as_uri()}?mode=ro"
        # The reader may be closed from another thread than the one that read.
        with contextlib.closing(
            sqlite3.connect(where, uri=True, check_same_thread=False)
        ) as connection:
            connection.execute("PRAGMA query_only = ON")
            connection.set_authorizer(_only_reading)
            yield connection.execute(sql)

    def schema(self, sql: str) -> pa.Schema:
        """Ask for the names; the first row is computed on the way."""
        with self._cursor(sql) as cursor:
            return pa.schema([(column[0], pa.null()) for column in cursor.description or ()])

    def kinds(self, sql: str) -> dict[str, Kind]:
        """Look at the first rows."""
        with self._cursor(sql) as cursor:
            names = [column[0] for column in cursor.description or ()]
            return _kinds_of_rows(names, cursor.fetchmany(_SAMPLE_ROWS))

    def batches(
        self, sql: str, block_rows: int, wanted: Mapping[str, ReadAs]
    ) -> Iterator[pa.RecordBatch]:
        """Stream rows; every cell is read by itself, as the schema wants its column."""
        with self._cursor(sql) as cursor:
            names = [column[0] for column in cursor.description or ()]
            while rows := cursor.fetchmany(block_rows):
                yield _batch_of_rows(names, rows, wanted)


_READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}


def _only_reading(action: int, first: str | None, second: str | None, *where: object) -> int:
    allowed = action in _READING and second != "load_extension"
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


class AnyDatabase(Database):
    """Whatever SQLAlchemy knows, with a cursor on the server where the driver has one."""

    extra = "postgres"

    def __init__(self, url: str) -> None:
        self._url = url

    @contextlib.contextmanager
    def _result(self, sql: str, block_rows: int) -> Iterator[Any]:
        if sql.split()[0].lstrip("(").upper() not in ("SELECT", "WITH", "VALUES", "TABLE"):
            raise DataError(f"'the query' cannot be read: {_NO_CHANGES}")
        sqlalchemy = self._driver("sqlalchemy")
        engine = sqlalchemy.create_engine(
            self._url, poolclass=sqlalchemy.pool.NullPool, hide_parameters=True
        )
        options: dict[str, Any] = {
            "stream_results": True,
            "max_row_buffer": block_rows,
            "no_parameters": True,
        }
        if engine.dialect.name == "postgresql":
            options["postgresql_readonly"] = True
        # Nothing is ever committed: the transaction ends with the connection, by a rollback.
        with engine.connect().execution_options(**options) as connection:
            yield connection.exec_driver_sql(sql)

    def schema(self, sql: str) -> pa.Schema:
        """Start the statement and read the names."""
        with self._result(sql, 1) as result:
            return pa.schema([(name, pa.null()) for name in list(result.keys())])

    def kinds(self, sql: str) -> dict[str, Kind]:
        """Look at the first rows."""
        with self._result(sql, _SAMPLE_ROWS) as result:
            return _kinds_of_rows(list(result.keys()), result.fetchmany(_SAMPLE_ROWS))

    def batches(
        self, sql: str, block_rows: int, wanted: Mapping[str, ReadAs]
    ) -> Iterator[pa.RecordBatch]:
        """Stream rows; every cell is read by itself, as the schema wants its column."""
        with self._result(sql, block_rows) as result:
            names = list(result.keys())
            while rows := result.fetchmany(block_rows):
                yield _batch_of_rows(names, rows, wanted)


def _batch_of_rows(
    names: Sequence[str], rows: Sequence[Sequence[Any]], wanted: Mapping[str, ReadAs]
) -> pa.RecordBatch:
    """Return the wanted columns of rows whose cells have types of their own."""
    cells = dict(zip(names, zip(*rows, strict=True), strict=True))
    columns = {
        name: (number_column if reading == "number" else text_column)(cells[name], name)
        for name, reading in wanted.items()
    }
    return pa.RecordBatch.from_pydict(columns)


def _kinds_of_rows(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Kind]:
    """Guess from some rows what a draft should propose."""
    cells = zip(*rows, strict=True) if rows else [()] * len(names)
    return {name: _kind_of_cells(column) for name, column in zip(names, cells, strict=True)}


def _kind_of_cells(cells: Sequence[Any]) -> Kind:
    types = {type(cell) for cell in cells} - {type(None)}
    if not types or not types <= {bool, int, float, Decimal, str}:
        return "other"
    if str in types:
        return "text"
    return "boolean" if types == {bool} else "number"


def open_database(url: str) -> Database:
    """Find what reads this URL; nothing is opened yet."""
    scheme, separator, rest = url.partition("://")
    if not separator or not scheme:
        raise UsageError(
            "A database is named by a URL: duckdb:///FILE, duckdb:// (over files), postgresql://USER@HOST/NAME, "
            "sqlite:///FILE, or another that SQLAlchemy knows."
        )
    if scheme == "duckdb":
        return DuckDb(rest.removeprefix("/"))
    if scheme == "sqlite":
        return Sqlite(rest.removeprefix("/"))
    if scheme in ("postgresql", "postgres"):
        return Postgres(url)
    return AnyDatabase(url)

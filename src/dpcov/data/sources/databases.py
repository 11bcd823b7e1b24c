"""Read the result of one SELECT from DuckDB, PostgreSQL or SQLite, streamed.

Contract: every connection is read-only, a statement is run alone, results arrive in batches of
bounded size, and an error is told by its class only: databases quote rows, statements and URLs.
The order in which a database returns rows does not matter: moments are sums of integers.
"""

import contextlib
import sqlite3
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcov.data.notation import Notation
from dpcov.data.seal import explain
from dpcov.data.sources.base import (
    Block,
    Kind,
    ReadAs,
    TypedSource,
    Wanted,
    batch_of_cells,
    kind_of_arrow_type,
)
from dpcov.data.sources.guesses import refuse_guesses
from dpcov.errors import DataError, UsageError
from dpcov.extras import load_extra
from dpcov.files import folder_for_rows

_BATCH_BYTES = 4 << 20
# January 1 of 4713 BC, the first day of PostgreSQL, from 1970.
_FIRST_DAY = -2_440_588

_NO_CHANGES = (
    "the statement would change something, or is not a single SELECT; only reading is allowed."
)
# What SQLSTATEs, and names of errors, begin with; the first that fits is told.
_TOLD = {
    "the database user has no right to read this.": ("42501",),
    "the database does not understand the statement, or has no such table or column; try it in the "
    "database's own client.": ("42", "Parser", "Catalog", "Binder", "Syntax", "SQLITE_ERROR"),
    "the database does not answer or refuses; check URL, path, user and password.": (
        *("08", "28", "3D", "ConnectionException", "SQLITE_CANTOPEN", "OperationalError"),
    ),
    _NO_CHANGES: (
        *("0A", "25", "PermissionException", "SQLITE_AUTH", "SQLITE_READONLY"),
        *("ProgrammingError", "Warning"),
    ),
    "the database ended the query (time limit, lock, shutdown, lost connection); try again.": (
        *("40", "55", "57", "SQLITE_BUSY"),
    ),
    "a cell cannot be computed or converted as the statement asks; correct its CASTs.": (
        *("22", "Conversion", "OutOfRange", "InvalidInput", "TypeMismatch"),
    ),
    "the database ran out of memory or disk; select fewer columns or sort nothing.": (
        *("53", "OutOfMemory"),
    ),
    "a file that is named cannot be opened; check paths and permissions, and that no other program "
    "has a DuckDB file open for writing.": ("IOException",),
    "the database file is damaged, or not of this kind; restore it from a backup.": (
        *("SQLITE_CORRUPT", "SQLITE_NOTADB"),
    ),
}


def explain_database_error(error: Exception) -> str:
    """Say in public words what kind of error this was, repeating no part of it."""
    if isinstance(error, MemoryError | UnicodeDecodeError | PermissionError):
        return explain(error)
    said, name = str(error), getattr(error, "sqlite_errorname", type(error).__name__)
    if "Could not decode to UTF-8" in said:
        return "it holds text that is not UTF-8; convert it."
    if (said + name).startswith(("vtable constructor failed", "not authorizedSQLITE_ERROR")):
        return "it is a virtual table of SQLite, as of full-text search; copy its rows to a table."
    keys = getattr(error, "sqlstate", None) or "", name
    fits = (told for key in keys for told, known in _TOLD.items() if key.startswith(known))
    withheld = (
        "the database reported an error, whose text is withheld because it may quote rows. Check "
        "the statement's CASTs and divisions, and that the database is up."
    )
    return next(fits, withheld)


@dataclass(frozen=True, repr=False)
class Query:
    """The rows that one SQL statement returns, as data for :func:`dpcov.release`.

    Parameters
    ----------
    sql : str
        One statement that only reads (SELECT, WITH, VALUES).  It does not enter the release.
    db : str
        The database: ``duckdb:///file.duckdb``, ``duckdb://`` (in memory; reads Parquet files named
        in the statement), ``postgresql://user@host/name`` or ``sqlite:///file.db``.  Three slashes
        precede a relative path, four an absolute one.  Leave passwords to ``PGPASSWORD`` or
        ``.pgpass`` where possible.
    """

    sql: str
    db: str = field(kw_only=True)

    def __repr__(self) -> str:
        return "Query(<statement and database hidden>)"


class DatabaseSource(TypedSource):
    """The result of one statement; every reading runs it again."""

    def __init__(self, place: str, sql: str) -> None:
        self._place, self._sql = place, sql
        super().__init__("the query", self._named_types)

    @abstractmethod
    def _types(self) -> pa.Schema:
        """Names and types of the columns, null where the database types cells and not columns."""

    @abstractmethod
    def _batches(self, block_rows: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """All rows, a bounded number at a time, with at least the wanted columns."""

    def _named_types(self) -> pa.Schema:
        schema = self._types()
        if any(label in ("", "?column?") for label in schema.names):
            raise DataError("Not every column of the query has a name. Write SELECT ... AS name.")
        return schema

    def _read(self, block_rows: int, wanted: Wanted) -> Iterator[Block]:
        for column, reading in wanted.items():
            _check_type(self._schema.field(column), reading)
        for batch in self._batches(block_rows, wanted):
            yield batch.select(list(wanted))

    def _explain(self, error: Exception, schema_names: Sequence[str]) -> str:
        return explain_database_error(error)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def _check_type(column: pa.Field, reading: ReadAs) -> None:
    # Refuse, before a row is read, what can become neither a number nor a category.
    if pa.types.is_null(column.type) or kind_of_arrow_type(column.type) not in ("date", "other"):
        return
    temporal = pa.types.is_temporal(column.type)
    wants_dates = isinstance(reading, Notation) and reading.dates is not None
    if isinstance(reading, Notation) and reading.takes_any_type:
        return
    has_day = kind_of_arrow_type(column.type) == "date"
    if (temporal and reading == "text") or (has_day and wants_dates):
        return
    what = "neither a number, nor a truth value, nor a text"
    if temporal:
        what = "a date or a time" if has_day else "a time or a span, which has no day"
    raise DataError(
        f"Column '{column.name}' is {what}. Declare a date as one (type = \"date\"), or turn it "
        "into a number or a text in the query, for example CAST(... AS double precision)."
    )


class DuckDb(DatabaseSource):
    """An embedded analytical database: a file, or memory over Parquet files."""

    @contextlib.contextmanager
    def _relation(self) -> Iterator[Any]:
        duckdb = load_extra("duckdb", "Reading from DuckDB", "sql")
        in_memory = self._place == ":memory:"
        settings = {"autoinstall_known_extensions": "false", "preserve_insertion_order": "false"}
        with folder_for_rows() as spill:
            opened = duckdb.connect(
                self._place, read_only=not in_memory, config={**settings, "temp_directory": spill}
            )
            with contextlib.closing(opened) as connection:
                # It would be drawn on standard output, from the number of rows.
                connection.execute("SET enable_progress_bar = false")
                # No day may depend on where the machine stands.
                connection.execute("SET TimeZone = 'UTC'")
                statements = connection.extract_statements(self._sql)
                if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                    raise DataError(f"'the query' cannot be read: {_NO_CHANGES}")
                refuse_guesses(connection, self._sql)
                yield connection.sql(self._sql)

    def _types(self) -> pa.Schema:
        with self._relation() as relation:
            types = relation.limit(0).to_arrow_table().schema.types
            # A nested relation renames columns of the same name; the relation itself does not.
            return pa.schema(list(zip(relation.columns, types, strict=True)))

    def _batches(self, block_rows: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        with self._relation() as relation:
            # Batches of columns that are not wanted would stay in memory beside the others.
            # It takes names that differ in capitals only for one.
            if len({name.lower() for name in relation.columns}) == len(relation.columns):
                relation = relation.project(_quoted(wanted))
            # The older name is deprecated, the newer one absent from older versions.
            read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            for batch in read(block_rows):
                for name, cells in zip(batch.schema.names, batch.columns, strict=True):
                    _refuse_infinite(cells, name)
                yield batch


class Postgres(DatabaseSource):
    """PostgreSQL through ADBC: binary COPY, decoded into record batches as it arrives."""

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[Any]:
        driver = load_extra("adbc_driver_postgresql.dbapi", "Reading from PostgreSQL", "sql")
        opened = driver.connect(self._place, autocommit=True)
        with opened as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
            cursor.execute("SET TIME ZONE 'UTC'")
            # ADBC takes all text for UTF-8, in whatever encoding the server sends it.
            cursor.execute("SET client_encoding TO 'UTF8'")
            # A prepared statement, which this makes of it, is always a single one.
            options = {"adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES)}
            cursor.adbc_statement.set_options(**options)
            yield cursor

    def _types(self) -> pa.Schema:
        with self._cursor() as cursor:
            asked = f"SELECT * FROM ({self._sql}\n) AS asked"  # noqa: S608
            return pa.schema([_plain_field(each) for each in cursor.adbc_execute_schema(asked)])

    def _batches(self, block_rows: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        names = _quoted(wanted)
        with self._cursor() as cursor:
            # Batches of columns that are not wanted would stay in memory beside the others.
            cursor.execute(f"SELECT {names} FROM ({self._sql}\n) AS asked")  # noqa: S608
            # Where ADBC has a reader of its own, its errors have the SQLSTATE; Arrow's have none.
            results = getattr(cursor, "_results", None)
            for batch in getattr(results, "reader", None) or cursor.fetch_record_batch():
                yield _plain_batch(batch, wanted)


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


def _plain_batch(batch: pa.RecordBatch, wanted: Wanted) -> pa.RecordBatch:
    columns = []
    for column, cells in zip(batch.schema, batch.columns, strict=True):
        plain = cells.storage if isinstance(cells, pa.ExtensionArray) else cells
        # NUMERIC arrives as text, since its precision has no limit; as a number it is rounded once,
        # and as a category it keeps its places.
        numeric = _postgres_type(column) == b"numeric" and wanted[column.name] != "text"
        _refuse_infinite(plain, column.name)
        columns.append(plain.cast(pa.float64()) if numeric else plain)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _refuse_infinite(cells: pa.Array, name: str) -> None:
    # Infinite days and moments are the largest numbers, or overflow to the far past.
    if not (pa.types.is_date32(cells.type) or pa.types.is_timestamp(cells.type)):
        return
    numbers = cells.cast(pa.int32() if pa.types.is_date32(cells.type) else pa.int64())
    units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    day = 1 if pa.types.is_date32(cells.type) else 86_400 * units[cells.type.unit]
    earliest, latest = pc.min_max(numbers).as_py().values()
    largest = np.iinfo(numbers.type.to_pandas_dtype()).max
    if earliest is not None and (earliest // day < _FIRST_DAY or latest == largest):
        raise DataError(
            f"Column '{name}' holds an infinite date. Say in the query what it means: "
            "NULLIF(column, 'infinity'), or LEAST(column, a date)."
        )


class Sqlite(DatabaseSource):
    """An SQLite file; its cells have types of their own, whatever the column declares."""

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        where = f"{Path(self._place).absolute().as_uri()}?mode=ro"
        # The reader may be closed from another thread than the one that read.
        opened = sqlite3.connect(where, uri=True, check_same_thread=False)
        with contextlib.closing(opened) as connection:
            connection.execute("PRAGMA query_only = ON")
            yield connection

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[tuple[list[str], sqlite3.Cursor]]:
        with self._connection() as connection:
            connection.set_authorizer(_only_reading)
            cursor = connection.execute(self._sql)
            yield [column[0] for column in cursor.description or ()], cursor

    def _types(self) -> pa.Schema:
        with self._cursor() as (names, _):
            return pa.schema([(name, pa.null()) for name in names])

    def kinds(self, decimal: str = ".") -> dict[str, Kind]:
        """What tables declare of columns of these names: cells have types, no row is looked at."""

        def ask() -> list[tuple[str, str]]:
            with self._connection() as connection:
                found = list[tuple[str, str]]()
                for (table,) in connection.execute(_TABLES).fetchall():
                    # A view of what is gone has no columns.
                    with contextlib.suppress(sqlite3.Error):
                        found += connection.execute(_DECLARED, (table,)).fetchall()
                return found

        found: dict[str, set[Kind]] = {}
        for name, declared in self._sealed(ask):
            named = (kind for word, kind in _KINDS.items() if word in declared.upper())
            found.setdefault(name, set()).add(next(named, "number"))
        # Tables may declare columns of one name differently.
        alike = {name: kinds.pop() for name, kinds in found.items() if len(kinds) == 1}
        return {name: alike.get(name, "number") for name in self.columns}

    def _batches(self, block_rows: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        with self._cursor() as (names, cursor):
            while rows := cursor.fetchmany(block_rows):
                cells = dict(zip(names, zip(*rows, strict=True), strict=True))
                yield batch_of_cells(cells, wanted)


_TABLES = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
_DECLARED = "SELECT name, type FROM pragma_table_info(?)"
# What SQLite takes for the type of texts, and what programs call dates and truth values there.
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("CHAR", "CLOB", "TEXT"), "text"),
    **dict.fromkeys(("DATE", "TIMESTAMP"), "date"),
    "BOOL": "boolean",
}
_READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}


def _only_reading(action: int, first: str | None, second: str | None, *where: object) -> int:
    allowed = action in _READING and second != "load_extension"
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def file_of(data: Any) -> Any:
    """The file of a query's database, None of a server or of memory; other data as they are."""
    if not isinstance(data, Query):
        return data
    scheme, place = _parts(data.db)
    is_file = scheme in ("duckdb", "sqlite") and place not in ("", ":memory:")
    return Path(place) if is_file else None


def _parts(url: str) -> tuple[str, str]:
    """The scheme of a URL, empty if it has none, and the place."""
    scheme, separator, rest = url.partition("://")
    return scheme if separator else "", rest.removeprefix("/")


def open_query(query: Query) -> DatabaseSource:
    """Ask the database that the URL names for the columns; no row is read yet."""
    # Without its last semicolon: databases themselves refuse a second statement.
    sql = query.sql.strip().rstrip(";").rstrip()
    if not sql or "\x00" in sql:
        raise UsageError("The SQL statement is empty or holds a zero character. Write one SELECT.")
    known, place = _parts(query.db)
    if known == "duckdb":
        return DuckDb(place or ":memory:", sql)
    if known == "sqlite" and place not in ("", ":memory:"):
        return Sqlite(place, sql)
    if known in ("postgresql", "postgres"):
        return Postgres(query.db, sql)
    raise UsageError(
        "A database is named by a URL: duckdb:///FILE, duckdb:// (over Parquet files), "
        "postgresql://USER@HOST/NAME or sqlite:///FILE."
    )

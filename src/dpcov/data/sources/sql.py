"""Read the result of one SELECT, streamed from a database.

Contract: the database is only read, and only by one statement; whatever fails, no message holds a
password, a word of the statement, or a value of a row.  The order in which a database returns rows
does not matter: moments are sums of integers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from dpcov.data.seal import sealed
from dpcov.data.sources.base import Kind, Pieces, ReadAs, TypedSource, kind_of_arrow_type
from dpcov.data.sources.databases import Database, explain_database_error, open_database
from dpcov.errors import DataError, UsageError


@dataclass(frozen=True, repr=False)
class Query:
    """The rows that one SQL statement returns, as data for :func:`dpcov.release`.

    Parameters
    ----------
    sql : str
        One statement that only reads (SELECT, WITH, VALUES).  It does not enter the release.
    db : str
        The database: ``duckdb:///file.duckdb``, ``duckdb://`` (in memory; reads Parquet files named
        in the statement), ``postgresql://user@host/name``, ``sqlite:///file.db``, or any other URL
        that SQLAlchemy knows.  Three slashes precede a relative path, four an absolute one.  Leave
        passwords to ``PGPASSWORD`` or ``.pgpass`` where possible.

    Examples
    --------
    >>> import dpcov
    >>> rows = dpcov.Query("SELECT range AS x, range % 7 AS y FROM range(1000)", db="duckdb://")
    >>> bounds = {"x": dpcov.Numeric(lower=0, upper=1000), "y": dpcov.Numeric(lower=0, upper=6)}
    >>> made = dpcov.release(rows, schema=dpcov.Schema(columns=bounds), budget=dpcov.Budget(rho=1))
    >>> made.covariance().shape
    (2, 2)
    """

    sql: str
    db: str = field(kw_only=True)

    def __repr__(self) -> str:
        return "Query(<statement and database hidden>)"


class SqlSource(TypedSource):
    """The result of one statement; every reading runs it again."""

    def __init__(self, query: Query) -> None:
        self._sql = _one_statement(query.sql)
        self._database: Database = open_database(query.db)
        super().__init__("the query", self._named_schema, explain_database_error)

    def _named_schema(self) -> pa.Schema:
        schema = self._database.schema(self._sql)
        if any(label in ("", "?column?") for label in schema.names):
            raise DataError("Not every column of the query has a name. Write SELECT ... AS name.")
        return schema

    def kinds(self) -> dict[str, Kind]:
        """Read from the database's types; from the first rows where it has none (SQLite)."""
        return sealed(lambda: self._database.kinds(self._sql), self.name, explain_database_error)

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Pieces:
        for column, reading in wanted.items():
            _check_type(self._schema.field(column), reading)
        rows = done = 0
        for batch in self._database.batches(self._sql, block_rows, wanted):
            rows += len(batch)
            done += batch.nbytes
            yield batch.select(list(wanted)), done
        # Said here: a query has no line of column names.
        if not rows:
            raise DataError("The query returned no rows. Check its conditions.")

    def _explain(self, error: Exception, schema_names: Sequence[str]) -> str:
        return explain_database_error(error)


def _one_statement(sql: str) -> str:
    # Without its last semicolon: databases themselves refuse a second statement.
    statement = sql.strip().rstrip(";").rstrip()
    if not statement:
        raise UsageError("The SQL statement is empty. Write one SELECT.")
    if "\x00" in statement:
        raise UsageError("The SQL statement holds a zero character. Remove it.")
    return statement


def _check_type(column: pa.Field, reading: ReadAs) -> None:
    # Refuse, before a row is read, what can become neither a number nor a category.
    if pa.types.is_null(column.type) or kind_of_arrow_type(column.type) != "other":
        return
    temporal = pa.types.is_temporal(column.type)
    if temporal and reading == "text":
        return
    what = "a date or a time" if temporal else "neither a number, nor a truth value, nor a text"
    raise DataError(
        f"Column '{column.name}' is {what}. Turn it into a number or a text in the query, "
        "for example CAST(... AS double precision), or the days since a fixed date."
    )

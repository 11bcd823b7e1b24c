"""The rows that one SQL statement returns, as data."""

from dataclasses import dataclass, field

from dpcov.data.sources.databases import DatabaseSource, DuckDb, Postgres, Sqlite
from dpcov.errors import UsageError


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


def open_query(query: Query) -> DatabaseSource:
    """Ask the database that the URL names for the columns; no row is read yet."""
    # Without its last semicolon: databases themselves refuse a second statement.
    sql = query.sql.strip().rstrip(";").rstrip()
    if not sql or "\x00" in sql:
        raise UsageError("The SQL statement is empty or holds a zero character. Write one SELECT.")
    scheme, separator, rest = query.db.partition("://")
    place = rest.removeprefix("/")
    known = scheme if separator else ""
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

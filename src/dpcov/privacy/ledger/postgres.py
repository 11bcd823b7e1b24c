"""A ledger on a PostgreSQL server, for custodians on several machines.

Contract: writers wait for each other at one row, so that racing releases cannot overspend; a step that was
reported as done is on the server's disk; whatever happens to the connection, nothing that was reserved is
forgotten.  Passwords appear in no message.  Needs SQLAlchemy and psycopg (extra ``postgres``).

The tables live in a schema of their own, ``dpcov_ledger``, of the database that the URL names.
"""

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from dpcov.errors import LedgerError, UsageError
from dpcov.privacy.ledger import store as ledger_store
from dpcov.privacy.ledger.store import LedgerStore, LedgerTransaction, Statements

SCHEMES = ("postgresql://", "postgres://", "postgresql+psycopg://")
_SCHEMA = "dpcov_ledger"
_CREATION_LOCK = 0x6470636F76
_CONNECT_SECONDS = 10

_TRIGGER = (
    """CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'the trail is append-only'; END $$""",
    """CREATE TRIGGER event_is_final BEFORE UPDATE OR DELETE OR TRUNCATE ON event
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()""",
)

_LOST = (
    "The ledger's server does not answer, refuses, or ended the connection. Check the URL, the user and the password. "
    "If this happened in mid-work, look at `show`: whatever is listed there counts as spent."
)
_READ_ONLY = "The ledger cannot be written, so nothing may be spent. Ask for the right to write to its tables."
_SERVER_HINTS = {
    "53100": "The disk of the ledger's server is full; nothing was spent. Free some space and try again.",
    "55P03": "Another process holds the ledger for too long; nothing was spent. Try again.",
    "25006": _READ_ONLY,
    "42501": _READ_ONLY,
    "42": "The ledger's tables are not as dpcov made them. Restore them from a backup; spend nothing until then.",
    "XX": "The ledger's server reports damaged data. Restore it from a backup; spend nothing until then.",
}
_NO_LEDGER = "There is no ledger in this database. Create one with `dpcov ledger create`."


class LedgerServer(LedgerStore):
    """A PostgreSQL database, connected to anew for every transaction."""

    def __init__(self, url: str) -> None:
        self._sqlalchemy: Any = _import("sqlalchemy")
        _import("psycopg")
        with self._explained():
            parsed = self._sqlalchemy.engine.make_url(
                url.replace("postgres://", "postgresql://", 1)
            )
            self._engine = self._sqlalchemy.create_engine(
                parsed.set(drivername="postgresql+psycopg"),
                poolclass=self._sqlalchemy.pool.NullPool,
                hide_parameters=True,
                connect_args={
                    "connect_timeout": _CONNECT_SECONDS,
                    "application_name": "dpcov-ledger",
                },
            )

    def create(self) -> None:
        """Make the tables in one transaction, unless they exist."""
        with self._transaction() as run:
            # Two creators may race before there is a row to wait at.
            run.rows("SELECT pg_advisory_xact_lock(:key)", key=_CREATION_LOCK)
            if _exists(run):
                return
            run.change(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}")
            ledger_store.make_tables(run, _TRIGGER)

    @contextlib.contextmanager
    def reading(self) -> Iterator[LedgerTransaction]:
        """Open a consistent view."""
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with self._transaction(**options) as run:
            _require(run)
            yield LedgerTransaction(run)

    @contextlib.contextmanager
    def writing(self) -> Iterator[LedgerTransaction]:
        """Open a transaction that nobody else can write beside; it commits at the end unless something is raised."""
        with self._transaction(isolation_level="READ COMMITTED") as run:
            _require(run)
            # The only row of the head is the gate: the next writer reads it when this one has committed.
            transaction = LedgerTransaction(run, lock="FOR UPDATE")
            transaction.check_end()
            yield transaction

    @contextlib.contextmanager
    def _transaction(self, **options: Any) -> Iterator["_ServerStatements"]:
        connect = self._engine.execution_options(**options).begin
        with self._explained(), connect() as connection:
            run = _ServerStatements(connection, self._sqlalchemy.text)
            run.change(f"SET LOCAL search_path TO {_SCHEMA}")
            run.change(f"SET LOCAL lock_timeout TO {int(ledger_store.LOCK_WAIT_SECONDS * 1000)}")
            run.change("SET LOCAL synchronous_commit TO on")
            yield run

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the server's errors into advice; their own text may hold the URL."""
        try:
            yield
        except self._sqlalchemy.exc.SQLAlchemyError as error:
            state = getattr(getattr(error, "orig", None), "sqlstate", None) or ""
            hint = next(
                (hint for prefix, hint in _SERVER_HINTS.items() if state.startswith(prefix)), _LOST
            )
            raise LedgerError(f"{hint} ({state or type(error).__name__})") from None


class _ServerStatements(Statements):
    def __init__(self, connection: Any, text: Any) -> None:
        self._connection = connection
        self._text = text

    def rows(self, statement: str, /, **values: Any) -> list[tuple[Any, ...]]:
        """Run a query."""
        return [tuple(row) for row in self._connection.execute(self._text(statement), values)]

    def change(self, statement: str, /, **values: Any) -> int:
        """Run a change and return the number of rows it touched."""
        return int(self._connection.execute(self._text(statement), values).rowcount)


def _exists(run: Statements) -> bool:
    return run.rows("SELECT to_regclass(:name)", name=f"{_SCHEMA}.ledger_format")[0][0] is not None


def _require(run: Statements) -> None:
    """Refuse a database without a ledger, and a newer or foreign one."""
    if not _exists(run):
        raise LedgerError(_NO_LEDGER)
    rows = run.rows("SELECT name, version FROM ledger_format")
    ledger_store.check_version(rows[0] if rows else None)


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise UsageError(
            "A ledger on PostgreSQL needs a driver. Install it with: pip install 'dpcov[postgres]'."
        ) from None

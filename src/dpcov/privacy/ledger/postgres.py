"""A ledger on a PostgreSQL server, for custodians on several machines.

Contract: writers wait for each other at one row, so that racing releases cannot overspend; a step
that was reported as done is on the server's disk; whatever happens to the connection, nothing that
was reserved is forgotten.  Passwords appear in no message.  Needs SQLAlchemy and psycopg (extra
``postgres``).  The tables live in a schema of their own, ``dpcov_ledger``.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from dpcov.errors import LedgerError, NoLedgerError
from dpcov.extras import load_extra
from dpcov.privacy.ledger import store as ledger_store
from dpcov.privacy.ledger.store import CREATE, LedgerStore, Run

SCHEME = "postgresql://"
_SCHEMA = "dpcov_ledger"
_WHAT = "A ledger on PostgreSQL"
_CREATION_LOCK = 0x6470636F76
# A network that is lost in mid-step ends the step after 30 seconds; systems wait for hours.
_CONNECTING = {
    **{"connect_timeout": 10, "application_name": "dpcov-ledger"},
    **{"keepalives_idle": 30, "tcp_user_timeout": 30_000},
}

_TRIGGERS = (
    """CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'the trail is append-only'; END $$""",
    """CREATE TRIGGER event_is_final BEFORE UPDATE OR DELETE OR TRUNCATE ON event
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()""",
)

_LOST = (
    "The ledger's server does not answer, refuses, or ended the connection. Check the URL, the "
    "user and the password. If this happened in mid-work, look at what the account lists (`dpcov "
    "ledger show`): that counts as spent."
)
_RESTORE = "Restore them from a backup; spend nothing until then."
_HINTS = {
    "53100": "The disk of the ledger's server is full; the ledger stays as it was. "
    "Free some space.",
    "55P03": "Another process holds the ledger for too long; the ledger stays as it was. "
    "Wait until that process ends.",
    "25006": "The ledger's server only reads, so nothing may be spent. Use the one that writes.",
    "42501": "The database user may not do this, so nothing may be spent. Ask for the right to use "
    f"the schema {_SCHEMA} and its tables; a new ledger takes the right to create a schema.",
    "42": f"The ledger's tables are not as dpcov made them. {_RESTORE}",
    "XX": f"The ledger's server reports damaged tables. {_RESTORE}",
}


class LedgerServer(LedgerStore):
    """A PostgreSQL database."""

    # The only row of the head is the gate: the next writer reads it when this one has committed.
    _lock = "FOR UPDATE"

    def __init__(self, url: str) -> None:
        needed = "sqlalchemy", "psycopg"
        self._sqlalchemy, _ = (load_extra(name, _WHAT, "postgres") for name in needed)
        with self._explained():
            parsed = self._sqlalchemy.engine.make_url(url).set(drivername="postgresql+psycopg")
            self._engine = self._sqlalchemy.create_engine(
                parsed,
                poolclass=self._sqlalchemy.pool.NullPool,
                hide_parameters=True,
                connect_args=_CONNECTING,
            )

    def create(self) -> None:
        """Make the tables in one transaction, unless they exist."""
        with self._transaction() as run:
            # Two creators may race before there is a row to wait at.
            run("SELECT pg_advisory_xact_lock(:key)", {"key": _CREATION_LOCK})
            if not _exists(run):
                run(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}", {})
                ledger_store.make_tables(run, _TRIGGERS)

    @contextlib.contextmanager
    def _opened(self, *, writes: bool) -> Iterator[Run]:
        # A reader sees no half of another's step, and cannot write by mistake.
        view = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with self._transaction(**{"isolation_level": "READ COMMITTED"} if writes else view) as run:
            if not _exists(run):
                raise NoLedgerError(f"There is no ledger in this database. {CREATE}")
            ledger_store.check_version(run)
            yield run

    @contextlib.contextmanager
    def _transaction(self, **options: Any) -> Iterator[Run]:
        connect, text = self._engine.execution_options(**options).begin, self._sqlalchemy.text
        with self._explained(), connect() as connection:

            def run(statement: str, values: Any) -> Any:
                return connection.execute(text(statement), values)

            run(f"SET LOCAL search_path TO {_SCHEMA}", {})
            wait = int(ledger_store.LOCK_WAIT_SECONDS * 1000)
            run(f"SET LOCAL lock_timeout TO {wait}", {})
            # A client that is stopped or gone in mid-step does not hold the others up for hours.
            run(f"SET LOCAL idle_in_transaction_session_timeout TO {wait}", {})
            # A commit that was reported is on the disk, whatever the server's default.
            run("SET LOCAL synchronous_commit TO on", {})
            yield run

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        # The server's own words may hold the URL.
        try:
            yield
        except self._sqlalchemy.exc.SQLAlchemyError as error:
            state = getattr(getattr(error, "orig", None), "sqlstate", None) or ""
            hints = (hint for prefix, hint in _HINTS.items() if state.startswith(prefix))
            raise LedgerError(f"{next(hints, _LOST)} ({state or type(error).__name__})") from None


def _exists(run: Run) -> bool:
    query = "SELECT to_regclass(:name)"
    return run(query, {"name": f"{_SCHEMA}.ledger_format"}).fetchone()[0] is not None

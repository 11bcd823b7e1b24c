"""A ledger in an SQLite file on a local disk.

Contract: what :meth:`LedgerFile.writing` committed survives a killed process and a power cut; what it did not
commit leaves no trace; a file that is damaged, foreign, newer or not writable raises a LedgerError that says
what to do.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpcov.errors import LedgerError
from dpcov.privacy.ledger import store as ledger_store
from dpcov.privacy.ledger.store import LedgerStore, LedgerTransaction, Statements

_TRIGGERS = tuple(
    f"CREATE TRIGGER event_{change.lower()} BEFORE {change} ON event "
    "BEGIN SELECT RAISE(ABORT, 'the trail is append-only'); END"
    for change in ("UPDATE", "DELETE")
)

_BROKEN = "The ledger file is damaged or is not a dpcov ledger. Restore it from a backup; spend nothing until then."
_HINTS = {
    "SQLITE_NOTADB": _BROKEN,
    "SQLITE_CORRUPT": _BROKEN,
    "SQLITE_READONLY": "The ledger cannot be written, so nothing may be spent. Make its file and folder writable.",
    "SQLITE_FULL": "The disk of the ledger is full; nothing was spent. Free some space and try again.",
    "SQLITE_BUSY": "Another process holds the ledger for too long; nothing was spent. Try again.",
    "SQLITE_CANTOPEN": "The ledger file cannot be opened. Check its path and permissions.",
    "SQLITE_IOERR": "Reading or writing the ledger failed. Check its disk; look at `show` before trying again.",
}


class LedgerFile(LedgerStore):
    """An SQLite file, opened anew for every transaction so that nothing stays locked or half written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self) -> None:
        """Create the file for its owner alone, or finish a creation that was interrupted."""
        # What is there already is opened below; what cannot be created cannot be opened, which is explained there.
        with contextlib.suppress(OSError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        # Whether a file has tables is known only after SQLite has undone what an interrupted creation left.
        with self._transaction("IMMEDIATE") as connection:
            if not _has_tables(connection):
                ledger_store.make_tables(_FileStatements(connection), _TRIGGERS)

    @contextlib.contextmanager
    def reading(self) -> Iterator[LedgerTransaction]:
        """Open a consistent view."""
        with self._opened("DEFERRED") as connection:
            yield LedgerTransaction(_FileStatements(connection))

    @contextlib.contextmanager
    def writing(self) -> Iterator[LedgerTransaction]:
        """Open a transaction that nobody else can write beside; it commits at the end unless something is raised."""
        with self._opened("IMMEDIATE") as connection:
            transaction = LedgerTransaction(_FileStatements(connection))
            transaction.check_end()
            yield transaction

    @contextlib.contextmanager
    def _opened(self, mode: str) -> Iterator[sqlite3.Connection]:
        if not _is_file(self._path):
            raise LedgerError(
                "There is no ledger at this path. Create one with `dpcov ledger create`."
            )
        with self._transaction(mode) as connection:
            _check_format(connection)
            yield connection

    @contextlib.contextmanager
    def _transaction(self, mode: str) -> Iterator[sqlite3.Connection]:
        with _explained(), contextlib.closing(self._connect()) as connection:
            connection.execute(f"BEGIN {mode}")
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=ledger_store.LOCK_WAIT_SECONDS,
            isolation_level=None,
        )
        # A rollback journal with EXTRA also syncs the folder, so that a finished commit survives a power cut.
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection


class _FileStatements(Statements):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, /, **values: Any) -> list[tuple[Any, ...]]:
        """Run a query."""
        return self._connection.execute(statement, values).fetchall()

    def change(self, statement: str, /, **values: Any) -> int:
        """Run a change and return the number of rows it touched."""
        return self._connection.execute(statement, values).rowcount


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn the database's errors into advice."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        hint = next((hint for prefix, hint in _HINTS.items() if name.startswith(prefix)), _BROKEN)
        raise LedgerError(f"{hint} ({name or 'sqlite error'})") from None
    except UnicodeDecodeError:  # names of tables or columns that are no text any more
        raise LedgerError(_BROKEN) from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file system takes
        return False


def _has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None


def _check_format(connection: sqlite3.Connection) -> None:
    """Refuse a damaged, foreign or newer file."""
    if connection.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
        raise LedgerError(_BROKEN)
    if not _has_tables(connection):
        raise LedgerError(
            "This file is empty and not a ledger. Create one with `dpcov ledger create`."
        )
    ledger_store.check_version(
        connection.execute("SELECT name, version FROM ledger_format").fetchone()
    )

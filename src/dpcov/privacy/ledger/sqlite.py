"""A ledger in an SQLite file on a local disk.

Contract: what :meth:`LedgerFile.writing` committed survives a killed process and a power cut; what
it did not commit leaves no trace; a file that is damaged, foreign, newer or not writable raises a
LedgerError that says what to do.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from dpcov.errors import LedgerError, NoLedgerError
from dpcov.files import is_of_database
from dpcov.privacy.ledger import store as ledger_store
from dpcov.privacy.ledger.store import CREATE, LedgerStore, Run

_TRIGGERS = tuple(
    f"CREATE TRIGGER event_{change.lower()} BEFORE {change} ON event "
    "BEGIN SELECT RAISE(ABORT, 'the trail is append-only'); END"
    for change in ("UPDATE", "DELETE")
)

_BROKEN = (
    "The ledger file is damaged or is not a dpcov ledger. Check its name. If that is right, "
    "restore it from a backup; spend nothing until then."
)
_HINTS = {
    "SQLITE_READONLY": "The ledger cannot be written, so nothing may be spent. "
    "Make its file and folder writable.",
    "SQLITE_FULL": "The disk of the ledger is full; the ledger stays as it was. Free some space.",
    "SQLITE_BUSY": "Another process holds the ledger for too long; the ledger stays as it was. "
    "Wait until that process ends.",
    "SQLITE_CANTOPEN": "The ledger file cannot be opened. Check its path and permissions.",
    "SQLITE_IOERR": "Reading or writing the ledger failed. Check its disk. Before you try again, "
    "look at what the account lists (`dpcov ledger show`): that counts as spent.",
}


class LedgerFile(LedgerStore):
    """An SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def is_file(self, path: Path) -> bool:
        """Whether the accounts are in this file, or SQLite keeps it beside them."""
        return is_of_database(path, self._path)

    def create(self) -> None:
        """Create the file for its owner alone, or finish a creation that was interrupted."""
        # What is there is opened below; what cannot be created cannot be opened, and says why.
        with contextlib.suppress(OSError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        # Beginning undoes what an interrupted creation left; only then are tables looked for.
        with self._transaction("IMMEDIATE") as run:
            if not _has_tables(run):
                ledger_store.make_tables(run, _TRIGGERS)

    @contextlib.contextmanager
    def _opened(self, *, writes: bool) -> Iterator[Run]:
        # Unlike Path.is_file this takes names that no file system does.
        if not os.path.isfile(self._path):  # noqa: PTH113
            raise NoLedgerError(f"There is no ledger at this path. {CREATE}")
        with self._transaction("IMMEDIATE" if writes else "DEFERRED") as run:
            # Damage within a page may give wrong answers instead of errors.
            if run("PRAGMA quick_check", {}).fetchall() != [("ok",)]:
                raise LedgerError(_BROKEN)
            if not _has_tables(run):
                raise NoLedgerError(f"This file is empty and not a ledger. {CREATE}")
            ledger_store.check_version(run)
            yield run

    @contextlib.contextmanager
    def _transaction(self, mode: str) -> Iterator[Run]:
        with _explained(), contextlib.closing(self._connect()) as connection:
            connection.execute(f"BEGIN {mode}")
            try:
                yield connection.execute
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    def _connect(self) -> sqlite3.Connection:
        place, wait = f"{self._path.absolute().as_uri()}?mode=rw", ledger_store.LOCK_WAIT_SECONDS
        connection = sqlite3.connect(place, uri=True, timeout=wait, isolation_level=None)
        # A rollback journal with EXTRA also syncs the folder: commits survive a power cut.
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        hints = (hint for prefix, hint in _HINTS.items() if name.startswith(prefix))
        raise LedgerError(f"{next(hints, _BROKEN)} ({name or 'sqlite error'})") from None
    # Names of tables or columns that are no text any more.
    except UnicodeDecodeError:
        raise LedgerError(_BROKEN) from None


def _has_tables(run: Run) -> bool:
    return run("SELECT 1 FROM sqlite_master", {}).fetchone() is not None

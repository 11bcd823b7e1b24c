"""The ledger's file: all SQL, and nothing but SQL.

Promise: what :meth:`LedgerStore.writing` committed survives a killed process and a power cut; what it did not commit
leaves no trace; a file that is damaged, foreign, newer or not writable raises a LedgerError that says what to do.
Knows nothing of composition: whether a release may be recorded is decided by its caller, inside the transaction.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal, get_args

from dpcov.errors import BudgetError, LedgerError
from dpcov.privacy.composition import Composition, check_composition
from dpcov.privacy.guarantee import Neighbors, Promise, check_neighbors
from dpcov.privacy.spend import Spend, promise_from_numbers, promise_numbers

FORMAT_NAME = "dpcov-ledger"
FORMAT_VERSION = 1
LOCK_WAIT_SECONDS = 30.0

State = Literal["reserved", "drawn", "committed"]
"""``reserved``: counted as spent.  ``drawn``: its noise may exist.  ``committed``: its release has a fingerprint."""

_SCHEMA = (
    "CREATE TABLE ledger_format (name TEXT NOT NULL, version INTEGER NOT NULL)",
    """CREATE TABLE dataset (
        name TEXT PRIMARY KEY, created_at TEXT NOT NULL, neighbors TEXT NOT NULL,
        total_epsilon TEXT, total_delta TEXT, total_rho TEXT, composition TEXT)""",
    """CREATE TABLE entry (
        id INTEGER PRIMARY KEY, dataset TEXT NOT NULL REFERENCES dataset (name), reserved_at TEXT NOT NULL,
        mechanism TEXT NOT NULL, promise_epsilon TEXT, promise_delta TEXT, promise_rho TEXT,
        rho TEXT, noise_multiplier TEXT, note TEXT NOT NULL, state TEXT NOT NULL,
        drawn_at TEXT, committed_at TEXT, fingerprint TEXT)""",
)

_SELECT_DATASET = """SELECT name, created_at, neighbors, total_epsilon, total_delta, total_rho, composition
    FROM dataset"""

_DAMAGED = (
    "The ledger file is damaged or is not a dpcov ledger. Restore it from a backup; spend nothing until then."
)
_SQLITE_HINTS = {
    "SQLITE_NOTADB": _DAMAGED,
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_READONLY": "The ledger cannot be written, so nothing may be spent. Make its file and folder writable.",
    "SQLITE_FULL": "The disk of the ledger is full; nothing was spent. Free some space and try again.",
    "SQLITE_BUSY": "Another process holds the ledger for too long; nothing was spent. Try again.",
    "SQLITE_CANTOPEN": "The ledger file cannot be opened. Check its path and permissions.",
    "SQLITE_IOERR": "Reading or writing the ledger failed. Check its disk; look at `show` before trying again.",
}


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A dataset as recorded; ``composition`` is None until its first release fixes it."""

    name: str
    created_at: str
    neighbors: Neighbors
    total: Promise
    composition: Composition | None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One recorded release; times are UTC in ISO 8601."""

    id: int
    dataset: str
    reserved_at: str
    spend: Spend
    note: str
    state: State
    drawn_at: str | None
    committed_at: str | None
    fingerprint: str | None


class LedgerStore:
    """An SQLite file, opened anew for every transaction so that nothing stays locked or half written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create_file(self) -> None:
        """Create the file for its owner alone, or finish a creation that was interrupted."""
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            if self._path.stat().st_size > 0:
                return
        except OSError:
            raise LedgerError(_SQLITE_HINTS["SQLITE_CANTOPEN"]) from None
        with self._transaction("IMMEDIATE") as connection:
            if not _has_tables(connection):
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute("INSERT INTO ledger_format VALUES (?, ?)", (FORMAT_NAME, FORMAT_VERSION))

    @contextlib.contextmanager
    def reading(self) -> Iterator["LedgerTransaction"]:
        """Open a consistent view."""
        with self._opened("DEFERRED") as transaction:
            yield transaction

    @contextlib.contextmanager
    def writing(self) -> Iterator["LedgerTransaction"]:
        """Open a transaction that nobody else can write beside; it commits at the end unless something is raised."""
        with self._opened("IMMEDIATE") as transaction:
            yield transaction

    @contextlib.contextmanager
    def _opened(self, mode: str) -> Iterator["LedgerTransaction"]:
        if not self._path.is_file():
            raise LedgerError("There is no ledger at this path. Create one with `dpcov ledger create`.")
        with self._transaction(mode) as connection:
            _check_format(connection)
            yield LedgerTransaction(connection)

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
            timeout=LOCK_WAIT_SECONDS,
            isolation_level=None,
        )
        # A rollback journal with EXTRA also syncs the folder, so that a finished commit survives a power cut.
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection


class LedgerTransaction:
    """The statements a ledger needs, inside one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def datasets(self) -> tuple[Dataset, ...]:
        """Return all datasets by name."""
        rows = self._connection.execute(f"{_SELECT_DATASET} ORDER BY name").fetchall()
        return tuple(_dataset(row) for row in rows)

    def dataset(self, name: str) -> Dataset | None:
        """Return one dataset, None if it is unknown."""
        row = self._connection.execute(f"{_SELECT_DATASET} WHERE name = ?", (name,)).fetchone()
        return None if row is None else _dataset(row)

    def add_dataset(self, dataset: Dataset) -> None:
        """Record a new dataset."""
        numbers = _texts(dataset.total)
        values = (dataset.name, dataset.created_at, dataset.neighbors, *numbers, dataset.composition)
        self._connection.execute("INSERT INTO dataset VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def fix_composition(self, name: str, composition: Composition) -> None:
        """Record the rule that the first release chose."""
        statement = "UPDATE dataset SET composition = ? WHERE name = ? AND composition IS NULL"
        _require_one(self._connection.execute(statement, (composition, name)))

    def entries(self, dataset: str) -> tuple[Entry, ...]:
        """Return the dataset's releases, oldest first."""
        statement = """SELECT id, dataset, reserved_at, mechanism, promise_epsilon, promise_delta, promise_rho, rho,
            noise_multiplier, note, state, drawn_at, committed_at, fingerprint
            FROM entry WHERE dataset = ? ORDER BY id"""
        return tuple(_entry(row) for row in self._connection.execute(statement, (dataset,)).fetchall())

    def add_entry(self, dataset: str, spend: Spend, note: str, reserved_at: str) -> int:
        """Record a release as reserved and return its number."""
        numbers = (*_texts(spend.promise), _text(spend.rho), _text(spend.noise_multiplier))
        statement = """INSERT INTO entry (dataset, reserved_at, mechanism, promise_epsilon, promise_delta,
            promise_rho, rho, noise_multiplier, note, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'reserved')
            RETURNING id"""
        values = (dataset, reserved_at, spend.mechanism, *numbers, note)
        return int(self._connection.execute(statement, values).fetchone()[0])

    def mark_drawn(self, entry: int, drawn_at: str) -> None:
        """Move a release from reserved to drawn."""
        statement = "UPDATE entry SET state = 'drawn', drawn_at = ? WHERE id = ? AND state = 'reserved'"
        _require_one(self._connection.execute(statement, (drawn_at, entry)))

    def mark_committed(self, entry: int, fingerprint: str, committed_at: str) -> None:
        """Move a release from drawn to committed."""
        statement = """UPDATE entry SET state = 'committed', fingerprint = ?, committed_at = ?
            WHERE id = ? AND state = 'drawn'"""
        _require_one(self._connection.execute(statement, (fingerprint, committed_at, entry)))


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn the database's errors into advice."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        hint = next((hint for prefix, hint in _SQLITE_HINTS.items() if name.startswith(prefix)), _DAMAGED)
        raise LedgerError(f"{hint} ({name or 'sqlite error'})") from None


def _has_tables(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def _check_format(connection: sqlite3.Connection) -> None:
    """Refuse a damaged, foreign or newer file."""
    if connection.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
        raise LedgerError(_DAMAGED)
    if not _has_tables(connection):
        raise LedgerError("This file is empty and not a ledger. Create one with `dpcov ledger create`.")
    row = connection.execute("SELECT name, version FROM ledger_format").fetchone()
    if row is None or row[0] != FORMAT_NAME:
        raise LedgerError(_DAMAGED)
    if row[1] != FORMAT_VERSION:
        raise LedgerError("The ledger was written by another version of dpcov. Upgrade dpcov and try again.")


def _require_one(cursor: sqlite3.Cursor) -> None:
    if cursor.rowcount != 1:
        raise LedgerError("This ledger entry has already moved on. Reserve a new one for a new release.")


def _text(number: Fraction | None) -> str | None:
    return None if number is None else str(number)


def _texts(promise: Promise) -> tuple[str | None, str | None, str | None]:
    numbers = promise_numbers(promise)
    return _text(numbers.get("epsilon")), _text(numbers.get("delta")), _text(numbers.get("rho"))


def _number(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)


def _promise(epsilon: str | None, delta: str | None, rho: str | None) -> Promise:
    return promise_from_numbers(epsilon=_number(epsilon), delta=_number(delta), rho=_number(rho))


@contextlib.contextmanager
def _rows_make_sense() -> Iterator[None]:
    """Refuse numbers or words that this module cannot have written."""
    try:
        yield
    except (ValueError, TypeError, ZeroDivisionError, BudgetError):
        raise LedgerError(_DAMAGED) from None


def _dataset(row: tuple[str, ...]) -> Dataset:
    with _rows_make_sense():
        total = Spend(promise=_promise(row[3], row[4], row[5]), mechanism="total").promise
        return Dataset(
            name=row[0],
            created_at=row[1],
            neighbors=check_neighbors(row[2]),
            total=total,
            composition=None if row[6] is None else check_composition(row[6], total),
        )


def _entry(row: tuple[str, ...]) -> Entry:
    with _rows_make_sense():
        spend = Spend(
            promise=_promise(row[4], row[5], row[6]),
            mechanism=row[3],
            rho=_number(row[7]),
            noise_multiplier=_number(row[8]),
        )
        state = next((known for known in get_args(State) if row[10] == known), None)
        if state is None:
            raise ValueError
        return Entry(
            id=int(row[0]),
            dataset=row[1],
            reserved_at=row[2],
            spend=spend,
            note=row[9],
            state=state,
            drawn_at=row[11],
            committed_at=row[12],
            fingerprint=row[13],
        )

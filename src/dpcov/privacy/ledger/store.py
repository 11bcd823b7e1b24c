"""The ledger's tables: every statement, the same for an SQLite file and a PostgreSQL server.

Contract: each change of a record appends its event to the trail in the same transaction; whoever reads or
writes can first make sure that the end of the trail is as it was left.  Knows nothing of composition: whether
a release may be recorded is decided by its caller, inside the transaction.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from dpcov.errors import LedgerError
from dpcov.privacy.ledger.composition import Composition
from dpcov.privacy.ledger.records import (
    DAMAGED,
    DATASET_FIELDS,
    ENTRY_FIELDS,
    SPEND_FIELDS,
    Dataset,
    Entry,
    Row,
    dataset_row,
    now,
    read_dataset,
    read_entry,
    read_spend,
    read_state,
    spend_row,
)
from dpcov.privacy.ledger.spend import Spend
from dpcov.privacy.ledger.trail import (
    EVENT_FIELDS,
    GENESIS,
    Audit,
    Event,
    Head,
    audit,
    canonical,
    created_details,
    reserved_details,
)

_FORMAT_NAME = "dpcov-ledger"
FORMAT_VERSION = 3
LOCK_WAIT_SECONDS = 30.0
_FETCH_ROWS = 10_000

_TABLES = (
    "CREATE TABLE ledger_format (name TEXT NOT NULL, version INTEGER NOT NULL)",
    """CREATE TABLE dataset (
        name TEXT PRIMARY KEY, created_at TEXT NOT NULL, neighbors TEXT NOT NULL, rows_per_person BIGINT,
        total_epsilon TEXT, total_delta TEXT, total_rho TEXT, composition TEXT)""",
    """CREATE TABLE entry (
        id INTEGER PRIMARY KEY, dataset TEXT NOT NULL REFERENCES dataset (name), reserved_at TEXT NOT NULL,
        mechanism TEXT NOT NULL, promise_epsilon TEXT, promise_delta TEXT, promise_rho TEXT,
        rho TEXT, noise_multiplier TEXT, rows_per_person BIGINT NOT NULL, note TEXT NOT NULL, state TEXT NOT NULL,
        drawn_at TEXT, committed_at TEXT, fingerprint TEXT)""",
    """CREATE TABLE event (
        number INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, dataset TEXT NOT NULL, entry INTEGER,
        details TEXT NOT NULL, digest TEXT NOT NULL)""",
    "CREATE TABLE trail_head (events INTEGER NOT NULL, entries INTEGER NOT NULL, digest TEXT NOT NULL)",
    "CREATE INDEX entry_of_dataset ON entry (dataset, id)",
)


class Statements(ABC):
    """A transaction of some database; values are named ``:name`` in a statement."""

    @abstractmethod
    def rows(self, statement: str, /, **values: Any) -> list[tuple[Any, ...]]:
        """Run a query."""

    @abstractmethod
    def change(self, statement: str, /, **values: Any) -> int:
        """Run a change and return the number of rows it touched."""


class LedgerStore(ABC):
    """Where a ledger is kept."""

    @abstractmethod
    def create(self) -> None:
        """Make the tables unless they exist."""

    @abstractmethod
    def reading(self) -> AbstractContextManager["LedgerTransaction"]:
        """Open a consistent view."""

    @abstractmethod
    def writing(self) -> AbstractContextManager["LedgerTransaction"]:
        """Open a transaction that nobody else can write beside; it commits at the end unless something is raised."""


def make_tables(run: Statements, triggers: Iterable[str]) -> None:
    """Make an empty ledger; the triggers forbid changes of the trail in the database's own language."""
    for statement in (*_TABLES, *triggers):
        run.change(statement)
    run.change(
        "INSERT INTO ledger_format VALUES (:name, :version)",
        name=_FORMAT_NAME,
        version=FORMAT_VERSION,
    )
    run.change("INSERT INTO trail_head VALUES (0, 0, :digest)", digest=GENESIS)


def check_version(row: tuple[Any, ...] | None) -> None:
    """Refuse foreign tables, and those of another version."""
    if row is None or row[0] != _FORMAT_NAME:
        raise LedgerError(DAMAGED)
    if row[1] != FORMAT_VERSION:
        raise LedgerError(
            "The ledger was written by another version of dpcov. Upgrade dpcov and try again."
        )


class LedgerTransaction:
    """What a ledger does with its tables, inside one transaction.

    Parameters
    ----------
    statements
        The transaction.
    lock
        What a writer appends to its first query so that others wait, where beginning alone does not.
    """

    def __init__(self, statements: Statements, *, lock: str = "") -> None:
        self._run = statements
        self._head = self._read_head(lock)

    def datasets(self) -> tuple[Dataset, ...]:
        """Return all datasets by name."""
        rows = self._run.rows(_select(DATASET_FIELDS, "dataset", "ORDER BY name"))
        return tuple(read_dataset(row) for row in rows)

    def dataset(self, name: str) -> Dataset | None:
        """Return one dataset, None if it is unknown."""
        rows = self._run.rows(_select(DATASET_FIELDS, "dataset", "WHERE name = :name"), name=name)
        return next(map(read_dataset, rows), None)

    def entries(self, dataset: str) -> tuple[Entry, ...]:
        """Return the dataset's releases, oldest first."""
        query = _select(ENTRY_FIELDS, "entry", "WHERE dataset = :dataset ORDER BY id")
        return tuple(read_entry(row) for row in self._run.rows(query, dataset=dataset))

    def spends(self, dataset: str) -> Counter[Spend]:
        """Return what the dataset's releases cost, equal ones counted together."""
        kinds = (*SPEND_FIELDS, "state")
        query = _select(
            (*kinds, "count(*)"), "entry", f"WHERE dataset = :dataset GROUP BY {_names(kinds)}"
        )
        counted: Counter[Spend] = Counter()
        for *values, state, count in self._run.rows(query, dataset=dataset):
            read_state(state)
            counted[read_spend(values)] += int(count)
        return counted

    def add_dataset(self, dataset: Dataset) -> None:
        """Record a new dataset."""
        row = dataset_row(dataset)
        self._insert("dataset", row)
        self._append("created", dataset.name, None, dataset.created_at, created_details(row))

    def fix_composition(self, name: str, composition: Composition) -> None:
        """Record the rule that the first release chose."""
        change = "UPDATE dataset SET composition = :rule WHERE name = :name AND composition IS NULL"
        _require_one(self._run.change(change, rule=composition, name=name))
        self._append("ruled", name, None, now(), canonical({"composition": composition}))

    def add_entry(self, dataset: str, spend: Spend, note: str, reserved_at: str) -> int:
        """Record a release as reserved and return its number."""
        number = self._head.entries + 1
        fixed = {"id": number, "dataset": dataset, "reserved_at": reserved_at, "state": "reserved"}
        row = {**fixed, **spend_row(spend), "note": note}
        self._insert("entry", row)
        self._append("reserved", dataset, number, reserved_at, reserved_details(row))
        return number

    def mark_drawn(self, entry: int, drawn_at: str) -> None:
        """Move a release from reserved to drawn."""
        change = (
            "UPDATE entry SET state = 'drawn', drawn_at = :at WHERE id = :id AND state = 'reserved'"
        )
        _require_one(self._run.change(change, at=drawn_at, id=entry))
        self._append("drawn", self._dataset_of(entry), entry, drawn_at, canonical({}))

    def mark_committed(self, entry: int, fingerprint: str, committed_at: str) -> None:
        """Move a release from drawn to committed."""
        change = """UPDATE entry SET state = 'committed', fingerprint = :fingerprint, committed_at = :at
            WHERE id = :id AND state = 'drawn'"""
        _require_one(self._run.change(change, fingerprint=fingerprint, at=committed_at, id=entry))
        details = canonical({"fingerprint": fingerprint})
        self._append("committed", self._dataset_of(entry), entry, committed_at, details)

    def audit(self, receipt: str | None) -> Audit:
        """Compare the trail with the records."""
        datasets = self._run.rows(_select(DATASET_FIELDS, "dataset"))
        accounts = [dict(zip(DATASET_FIELDS, row, strict=True)) for row in datasets]
        entries = (
            dict(zip(ENTRY_FIELDS, row, strict=True))
            for row in self._pages("entry", "id", ENTRY_FIELDS)
        )
        return audit(self._events(), self._head, accounts, entries, receipt)

    def check_end(self) -> None:
        """Make sure that the last event is whole and no release has disappeared."""
        head = self._head
        rows = self._run.rows(_select(EVENT_FIELDS, "event", "ORDER BY number DESC LIMIT 2"))
        previous = rows[1][-1] if len(rows) > 1 else GENESIS
        whole = head.events == 0 and not rows
        if rows:
            last = _event(rows[0])
            whole = (last.number, last.digest) == (head.events, head.digest)
            whole = whole and last.digest == last.expected_digest(previous)
        ((entries,),) = self._run.rows("SELECT count(*) FROM entry")
        if not whole or entries != head.entries:
            raise LedgerError(DAMAGED)

    def _dataset_of(self, entry: int) -> str:
        ((name,),) = self._run.rows("SELECT dataset FROM entry WHERE id = :id", id=entry)
        return str(name)

    def _append(self, kind: str, dataset: str, entry: int | None, at: str, details: str) -> None:
        """Chain one event to the trail and move its head."""
        head = self._head
        fields = {"at": at, "kind": kind, "dataset": dataset, "entry": entry, "details": details}
        event = Event(number=head.events + 1, digest="", **fields)  # type: ignore[arg-type]
        digest = event.expected_digest(head.digest)
        self._insert("event", {"number": event.number, **fields, "digest": digest})
        entries = max(head.entries, entry or head.entries)
        change = """UPDATE trail_head SET events = :events, entries = :entries, digest = :digest
            WHERE events = :before"""
        touched = self._run.change(
            change, events=event.number, entries=entries, digest=digest, before=head.events
        )
        if touched != 1:
            raise LedgerError(DAMAGED)
        self._head = Head(events=event.number, entries=entries, digest=digest)

    def _insert(self, table: str, row: Row) -> None:
        places = _names(tuple(f":{name}" for name in row))
        self._run.change(
            " ".join(("INSERT INTO", table, f"({_names(tuple(row))}) VALUES ({places})")), **row
        )

    def _read_head(self, lock: str) -> Head:
        rows = self._run.rows(_select(("events", "entries", "digest"), "trail_head", lock))
        if len(rows) != 1:
            raise LedgerError(DAMAGED)
        ((events, entries, digest),) = rows
        return Head(events=events, entries=entries, digest=digest)

    def _events(self) -> Iterator[Event]:
        return (_event(row) for row in self._pages("event", "number", EVENT_FIELDS))

    def _pages(self, table: str, key: str, fields: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table by their key without holding them all."""
        after = -(2**31)
        query = _select(fields, table, f"WHERE {key} > :after ORDER BY {key} LIMIT {_FETCH_ROWS}")
        while rows := self._run.rows(query, after=after):
            yield from rows
            after = rows[-1][0]


def _names(fields: tuple[str, ...]) -> str:
    return ", ".join(fields)


def _select(fields: tuple[str, ...], table: str, rest: str = "") -> str:
    return " ".join(("SELECT", _names(fields), "FROM", table, rest))


def _event(row: tuple[Any, ...]) -> Event:
    return Event(**dict(zip(EVENT_FIELDS, row, strict=True)))


def _require_one(touched: int) -> None:
    if touched != 1:
        raise LedgerError(
            "This ledger entry has already moved on. Reserve a new one for a new release."
        )

"""The ledger's tables: every statement, the same for an SQLite file and a PostgreSQL server.

Contract: each change of a record appends its event to the trail in the same transaction, and a
writer first makes sure that the end of the trail is as it was left.
"""

import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from dpcov.errors import LedgerError
from dpcov.privacy.ledger import records, trail
from dpcov.privacy.ledger.composition import Composition
from dpcov.privacy.ledger.records import DAMAGED, Row, State
from dpcov.privacy.ledger.spend import Spend
from dpcov.privacy.ledger.trail import Event, Head

_FORMAT_NAME = "dpcov-ledger"
FORMAT_VERSION = 3
LOCK_WAIT_SECONDS = 30.0
_FETCH_ROWS = 10_000
CREATE = "Create one with `dpcov ledger create`, or Ledger.create in Python."
_MOVED_ON = "This ledger entry has already moved on. Reserve a new one for a new release."

_TABLES = (
    "CREATE TABLE ledger_format (name TEXT NOT NULL, version INTEGER NOT NULL)",
    """CREATE TABLE dataset (
        name TEXT PRIMARY KEY, created_at TEXT NOT NULL, neighbors TEXT NOT NULL,
        rows_per_person BIGINT, total_epsilon TEXT, total_delta TEXT, total_rho TEXT,
        composition TEXT)""",
    """CREATE TABLE entry (
        id INTEGER PRIMARY KEY, dataset TEXT NOT NULL REFERENCES dataset (name),
        reserved_at TEXT NOT NULL, mechanism TEXT NOT NULL,
        promise_epsilon TEXT, promise_delta TEXT, promise_rho TEXT,
        rho TEXT, noise_multiplier TEXT, rows_per_person BIGINT NOT NULL, note TEXT NOT NULL,
        state TEXT NOT NULL, drawn_at TEXT, committed_at TEXT, fingerprint TEXT)""",
    """CREATE TABLE event (
        number INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, dataset TEXT NOT NULL,
        entry INTEGER, details TEXT NOT NULL, digest TEXT NOT NULL)""",
    """CREATE TABLE trail_head (
        events INTEGER NOT NULL, entries INTEGER NOT NULL, digest TEXT NOT NULL)""",
    "CREATE INDEX entry_of_dataset ON entry (dataset, id)",
)

# Runs a statement, whose values are named ``:name``, and returns a cursor of the database.
Run = Callable[[str, Row], Any]


class LedgerStore(ABC):
    """Where a ledger is kept; opened anew for every transaction."""

    # What a writer appends to its first query if beginning alone does not make others wait.
    _lock = ""

    @abstractmethod
    def create(self) -> None:
        """Make the tables unless they exist."""

    def is_file(self, path: Path) -> bool:
        """Whether this file belongs to the accounts."""
        return False

    @abstractmethod
    def _opened(self, *, writes: bool) -> AbstractContextManager[Run]:
        """Begin a transaction on an existing ledger; commit it unless something is raised."""

    @contextlib.contextmanager
    def reading(self, *, end: bool = True) -> Iterator["LedgerTransaction"]:
        """Open a consistent view, of a ledger whose ``end`` is as it was left."""
        with self._opened(writes=False) as run:
            yield LedgerTransaction(run, end=end)

    @contextlib.contextmanager
    def writing(self) -> Iterator["LedgerTransaction"]:
        """Open a transaction that nobody else can write beside."""
        with self._opened(writes=True) as run:
            yield LedgerTransaction(run, lock=self._lock)


def make_tables(run: Run, triggers: Iterable[str]) -> None:
    """Make an empty ledger; the triggers forbid changes of the trail, in the database's words."""
    for statement in (*_TABLES, *triggers):
        run(statement, {})
    made = {"name": _FORMAT_NAME, "version": FORMAT_VERSION, "digest": trail.GENESIS}
    run("INSERT INTO ledger_format VALUES (:name, :version)", made)
    run("INSERT INTO trail_head VALUES (0, 0, :digest)", made)


def check_version(run: Run) -> None:
    """Refuse foreign tables, and those of another version."""
    row = run("SELECT name, version FROM ledger_format", {}).fetchone()
    if row is None or row[0] != _FORMAT_NAME:
        raise LedgerError(DAMAGED)
    if row[1] != FORMAT_VERSION:
        raise LedgerError("Another version of dpcov wrote this ledger. Upgrade dpcov; try again.")


class LedgerTransaction:
    """What a ledger does with its tables, inside one transaction; ``lock`` ends its first query."""

    def __init__(self, run: Run, *, lock: str = "", end: bool = True) -> None:
        self._run = run
        heads = self._rows(Head._fields, "trail_head", lock)
        if len(heads) != 1:
            raise LedgerError(DAMAGED)
        self._head = Head(**heads[0])
        if end:
            self._check_end()

    def datasets(self) -> tuple[records.Dataset, ...]:
        """Return all datasets by name."""
        rows = self._rows(records.DATASET_FIELDS, "dataset", "ORDER BY name")
        return tuple(map(records.read_dataset, rows))

    def dataset(self, name: str) -> records.Dataset | None:
        """Return one dataset, None if it is unknown."""
        rows = self._rows(records.DATASET_FIELDS, "dataset", "WHERE name = :name", name=name)
        return next(map(records.read_dataset, rows), None)

    def entries(self, dataset: str) -> tuple[records.Entry, ...]:
        """Return the dataset's releases, oldest first."""
        where = "WHERE dataset = :dataset ORDER BY id"
        rows = self._rows(records.ENTRY_FIELDS, "entry", where, dataset=dataset)
        return tuple(map(records.read_entry, rows))

    def spends(self, dataset: str) -> Counter[Spend]:
        """Return what the dataset's releases cost, equal ones counted together."""
        kinds = (*records.SPEND_FIELDS, "state")
        chosen = f"WHERE dataset = :dataset GROUP BY {', '.join(kinds)}"
        counted: Counter[Spend] = Counter()
        for row in self._rows((*kinds, "count(*)"), "entry", chosen, dataset=dataset):
            counted[records.read_spend(row)] += int(row["count(*)"])
        return counted

    def add_dataset(self, dataset: records.Dataset) -> None:
        """Record a new dataset."""
        row = records.row_of(dataset)
        self._insert("dataset", row)
        told = {name: row[name] for name in records.DATASET_FIELDS[2:]}
        self._append("created", dataset.name, None, dataset.created_at, told)

    def fix_composition(self, name: str, rule: Composition) -> None:
        """Record the rule that the first release chose."""
        told = {"composition": rule}
        self._update("dataset", told, "name = :key AND composition IS NULL", name)
        self._append("ruled", name, None, records.now(), told)

    def add_entry(self, dataset: str, spend: Spend, note: str) -> int:
        """Record a release as reserved and return its number."""
        number, at = self._head.entries + 1, records.now()
        fixed = {"id": number, "dataset": dataset, "reserved_at": at, "state": "reserved"}
        told = {**records.row_of(spend), "note": note}
        self._insert("entry", {**fixed, **told})
        self._append("reserved", dataset, number, at, told)
        return number

    def move(self, entry: int, before: State, after: State, **details: str) -> None:
        """Move a release from one state to the next."""
        at = records.now()
        cells = {"state": after, f"{after}_at": at, **details}
        self._update("entry", cells, f"id = :key AND state = '{before}'", entry)
        (row,) = self._rows(("dataset",), "entry", "WHERE id = :id", id=entry)
        self._append(after, row["dataset"], entry, at, details)

    def verify(self, receipt: str | None) -> trail.Verification:
        """Compare the trail with the records."""
        events = (Event(**row) for row in self._pages(Event._fields, "event", "number"))
        datasets = self._rows(records.DATASET_FIELDS, "dataset")
        entries = self._pages(records.ENTRY_FIELDS, "entry", "id")
        return trail.verify(events, self._head, datasets, entries, receipt)

    def _check_end(self) -> None:
        # The last event is whole and no release has disappeared; to verify all takes seconds.
        rows = self._rows(Event._fields, "event", "ORDER BY number DESC LIMIT 2")
        last, before, *_ = [*(Event(**row) for row in rows), *[trail.BEFORE_ALL] * 2]
        ((entries,),) = self._run("SELECT count(*) FROM entry", {}).fetchall()
        whole = not rows or last.digest == last.expected_digest(before.digest)
        if not whole or Head(last.number, entries, last.digest) != self._head:
            raise LedgerError(DAMAGED)

    def _append(self, kind: str, dataset: str, entry: int | None, at: str, told: Row) -> None:
        # Chain one event to the trail and move its head.
        before = self._head
        event = Event(before.events + 1, at, kind, dataset, entry, trail.canonical(told))
        event = event._replace(digest=event.expected_digest(before.digest))
        self._insert("event", event._asdict())
        entries = max(before.entries, entry or before.entries)
        after = Head(events=event.number, entries=entries, digest=event.digest)
        # Another writer beside this one would have moved the head.
        self._update("trail_head", after._asdict(), "events = :key", before.events, DAMAGED)
        self._head = after

    def _rows(self, fields: Sequence[str], table: str, rest: str = "", **values: Any) -> list[Row]:
        query = " ".join(("SELECT", ", ".join(fields), "FROM", table, rest))
        return [dict(zip(fields, row, strict=True)) for row in self._run(query, values).fetchall()]

    def _pages(self, fields: tuple[str, ...], table: str, key: str) -> Iterator[Row]:
        # Yield the rows of a table by their key without holding them all.
        after = -(2**31)
        rest = f"WHERE {key} > :after ORDER BY {key} LIMIT {_FETCH_ROWS}"
        while rows := self._rows(fields, table, rest, after=after):
            yield from rows
            after = rows[-1][key]

    def _insert(self, table: str, row: Row) -> None:
        places = ", ".join(f":{name}" for name in row)
        names = ", ".join(row)
        self._run(" ".join(("INSERT INTO", table, f"({names}) VALUES ({places})")), row)

    def _update(
        self, table: str, cells: Row, where: str, key: object, refusal: str = _MOVED_ON
    ) -> None:
        # Change the one row for which this holds of a key.
        changes = ", ".join(f"{name} = :{name}" for name in cells)
        change = " ".join(("UPDATE", table, "SET", changes, "WHERE", where))
        if self._run(change, {**cells, "key": key}).rowcount != 1:
            raise LedgerError(refusal)

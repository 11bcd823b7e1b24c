"""The audit trail: every step of every release, each entry sealed by a hash over itself and all before it.

Contract: :func:`audit` finds events and records that were edited, removed, moved, or cut off at the end, and
says what remains trustworthy.  The hash has no key: somebody who may write the ledger and recomputes the
whole chain is found out only by a receipt that was kept elsewhere.  Knows nothing of budgets or databases.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpcov.errors import UsageError
from dpcov.privacy.ledger.records import DATASET_FIELDS, ENTRY_FIELDS, SPEND_FIELDS, Row

GENESIS = "0" * 64
"""What the first event is chained to."""

EVENT_FIELDS = ("number", "at", "kind", "dataset", "entry", "details", "digest")
_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class Event:
    """One step: ``created``, ``ruled``, ``reserved``, ``drawn`` or ``committed``."""

    number: int
    at: str
    kind: str
    dataset: str
    entry: int | None
    details: str
    digest: str

    def expected_digest(self, previous: str) -> str:
        """Return the digest that this event must have behind an event of digest ``previous``."""
        parts = [self.number, self.at, self.kind, self.dataset, self.entry, self.details, previous]
        try:
            text = canonical(parts)
        except (TypeError, ValueError):  # a cell of a kind that nobody here writes: bytes, infinity
            text = repr(parts)
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Head:
    """How long the trail is, how many releases it knows, and the digest of its last event."""

    events: int
    entries: int
    digest: str

    @property
    def receipt(self) -> str:
        """Text to keep elsewhere; a later audit can prove that the trail still begins as it did now."""
        return f"{self.events}:{self.digest}"


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What an audit found.

    Attributes
    ----------
    head
        The end of the trail as recorded; its ``receipt`` is worth keeping if there are no problems.
    problems
        Findings for people to read, the gravest first; empty if the ledger is as it was written.
    trusted_events
        Events 1 to this number form an unbroken chain.
    trusted_entries
        Numbers of the releases that this part of the trail confirms as the ledger shows them.
    """

    head: Head
    problems: tuple[str, ...]
    trusted_events: int
    trusted_entries: tuple[int, ...]


@dataclass(kw_only=True)
class _Replay:
    """The records as the events alone describe them."""

    datasets: dict[str, Row] = field(default_factory=dict)
    entries: dict[int, Row] = field(default_factory=dict)

    def apply(self, event: Event) -> bool:
        """Take one event in; False if it cannot follow those before it."""
        details = json.loads(event.details)
        match event.kind:
            case "created" if event.dataset not in self.datasets:
                self.datasets[event.dataset] = {
                    "name": event.dataset,
                    "created_at": event.at,
                    **details,
                }
            case "ruled" if event.dataset in self.datasets:
                self.datasets[event.dataset] |= details
            case "reserved" if event.entry is not None and event.dataset in self.datasets:
                blank = dict.fromkeys(ENTRY_FIELDS)
                known = {
                    "id": event.entry,
                    "dataset": event.dataset,
                    "reserved_at": event.at,
                    "state": "reserved",
                }
                self.entries[event.entry] = {**blank, **known, **details}
            case "drawn" | "committed" if event.entry in self.entries:
                step = {"state": event.kind, f"{event.kind}_at": event.at, **details}
                self.entries[event.entry] |= step
            case _:
                return False
        return True


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no blanks, ASCII only."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def created_details(row: Mapping[str, Any]) -> str:
    """Return what the event of a new dataset holds beside its name and time."""
    return canonical(
        {name: row[name] for name in DATASET_FIELDS if name not in ("name", "created_at")}
    )


def reserved_details(row: Mapping[str, Any]) -> str:
    """Return what the event of a reservation holds beside its dataset, number and time."""
    return canonical({name: row[name] for name in (*SPEND_FIELDS, "note")})


def audit(
    events: Iterable[Event],
    head: Head,
    datasets: Iterable[Mapping[str, Any]],
    entries: Iterable[Mapping[str, Any]],
    receipt: str | None = None,
) -> Audit:
    """Compare trail, head and records.

    Parameters
    ----------
    events
        The trail in the order of its numbers.
    head
        The end of the trail as recorded.
    datasets, entries
        The records as rows.
    receipt
        What an earlier audit gave to be kept.
    """
    noted = None if receipt is None else _read_receipt(receipt)
    replay, trusted, last = _Replay(), 0, Event(**_BEFORE_ALL)
    breaks: list[str] = []
    for event in events:
        fault = _fault(event, last)
        if noted is not None and noted[0] == event.number and noted[1] != event.digest:
            fault = f"event {event.number} is not the one of the receipt: history up to it was rewritten"
        if fault is None and not breaks and not _applies(replay, event):
            fault = f"event {event.number} cannot follow the events before it"
        if fault is not None:
            breaks.append(fault)
        elif not breaks:
            trusted += 1
        last = event
    if (last.number, last.digest) != (head.events, head.digest):
        breaks.append(
            f"the trail ends at event {last.number} but {head.events} were written: its end is missing or changed"
        )
    if noted is not None and noted[0] > last.number:
        breaks.append(
            f"the receipt is of event {noted[0]}, the trail ends at {last.number}: its end was cut off"
        )
    faults, confirmed = _compare(replay, datasets, entries, intact=not breaks)
    return Audit(
        head=head,
        problems=(*breaks, *faults),
        trusted_events=trusted,
        trusted_entries=tuple(sorted(confirmed)),
    )


_BEFORE_ALL: dict[str, Any] = {
    **{"number": 0, "at": "", "kind": "", "dataset": ""},
    **{"entry": None, "details": "", "digest": GENESIS},
}


def _applies(replay: _Replay, event: Event) -> bool:
    try:
        return replay.apply(event)
    except (ValueError, TypeError, KeyError):
        return False


def _fault(event: Event, last: Event) -> str | None:
    """Say what is wrong between two neighbors of the trail."""
    if event.number != last.number + 1:
        missing = (
            f"{last.number + 1} to {event.number - 1}"
            if event.number > last.number + 2
            else f"{last.number + 1}"
        )
        return f"event {missing} is missing before event {event.number}"
    if event.digest != event.expected_digest(last.digest):
        return f"event {event.number} was changed, or does not belong behind event {last.number}"
    return None


def _compare(
    replay: _Replay,
    datasets: Iterable[Mapping[str, Any]],
    entries: Iterable[Mapping[str, Any]],
    *,
    intact: bool,
) -> tuple[list[str], set[int]]:
    """Return how the records differ from the trail, and which releases it confirms."""
    faults: list[str] = []
    accounts, found = {row["name"]: row for row in datasets}, set[int]()
    confirmed = set[int]()
    for row in entries:
        told = replay.entries.get(row["id"])
        found.add(row["id"])
        if told is not None and dict(row) == told:
            confirmed.add(row["id"])
        elif told is not None or intact:
            faults.append(_difference(f"entry {row['id']}", told, row))
    absent = sorted(set(replay.entries) - found)
    faults += [f"entry {number} was removed; the trail has it" for number in absent]
    for name, told in replay.datasets.items():
        if name not in accounts:
            faults.append("an account was removed; the trail has it")
        elif dict(accounts[name]) != told:
            faults.append(_difference("an account", told, accounts[name]))
    if intact:
        faults += [
            "an account is unknown to the trail" for name in accounts if name not in replay.datasets
        ]
    if len(faults) > _SHOWN:
        faults = [*faults[:_SHOWN], f"and {len(faults) - _SHOWN} more differences"]
    return faults, confirmed


def _difference(what: str, told: Mapping[str, Any] | None, row: Mapping[str, Any]) -> str:
    if told is None:
        return f"{what} is unknown to the trail"
    fields = ", ".join(name for name in row if row[name] != told.get(name))
    return f"{what} was changed: {fields} differ from the trail"


def _read_receipt(receipt: str) -> tuple[int, str]:
    number, _, digest = receipt.strip().partition(":")
    if not number.isascii() or not number.isdigit() or len(digest) != len(GENESIS):
        raise UsageError(
            "A receipt reads NUMBER:DIGEST, as `dpcov ledger verify` printed it. Copy it whole."
        )
    return int(number), digest

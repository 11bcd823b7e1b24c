"""The audit trail: every step of every release, sealed by a hash over itself and all before it.

Contract: :func:`verify` finds events and records that were edited, removed, moved, or cut off at
the end, and says what remains trustworthy.  The hash has no key: only a receipt that was kept
elsewhere finds out somebody who may write the ledger and recomputes the whole chain.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dpcov.errors import UsageError
from dpcov.privacy.ledger.records import ENTRY_FIELDS, Row
from dpcov.privacy.options import plain

# What the first event is chained to.
GENESIS = "0" * 64
_RECEIPT = re.compile(r"([0-9]{1,18}):(.{64})")
# Differences that are told one by one.
_SHOWN = 20


class Event(NamedTuple):
    """One step: ``created``, ``ruled``, ``reserved``, ``drawn`` or ``committed``."""

    number: int
    at: str
    kind: str
    dataset: str
    entry: int | None
    details: str
    digest: str = ""

    def expected_digest(self, previous: str) -> str:
        """Return the digest that this event must have behind an event of digest ``previous``."""
        parts = [*self[:-1], previous]
        # A cell of a kind that nobody here writes, such as bytes or infinity, has no JSON.
        try:
            text = canonical(parts)
        except (TypeError, ValueError):
            text = repr(parts)
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


BEFORE_ALL = Event(0, "", "", "", None, "", GENESIS)


class Head(NamedTuple):
    """How long the trail is, how many releases it knows, and the digest of its last event."""

    events: int
    entries: int
    digest: str

    @property
    def receipt(self) -> str:
        """Text to keep elsewhere: it proves later that history up to here is still the same."""
        return f"{self.events}:{self.digest}"


@dataclass(frozen=True)
class Verification:
    """What a verification found, the gravest of its ``problems`` first.

    Keep the ``receipt`` of ``head``, the recorded end, if there are none.  Events 1 to
    ``trusted_events`` are an unbroken chain that confirms the releases ``trusted_entries``.
    """

    head: Head
    problems: tuple[str, ...]
    trusted_events: int
    trusted_entries: tuple[int, ...]


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no blanks, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def verify(
    events: Iterable[Event],
    head: Head,
    datasets: Iterable[Row],
    entries: Iterable[Row],
    receipt: str | None = None,
) -> Verification:
    """Compare the trail in its order, its recorded head, the records, and an earlier receipt."""
    noted, noted_digest = (0, "") if receipt is None else _read_receipt(receipt)
    trusted, last, accounts, releases = 0, BEFORE_ALL, dict[str, Row](), dict[int, Row]()
    breaks: list[str] = []
    for event in events:
        fault = _fault(event, last)
        if receipt is not None and noted == event.number and noted_digest != event.digest:
            fault = f"event {noted} is not the one of the receipt: history up to it was rewritten"
        # Behind a break, events say nothing that could be trusted.
        if fault is None and not breaks and not _applies(event, accounts, releases):
            fault = f"event {event.number} cannot follow the events before it"
        if fault is not None:
            breaks.append(fault)
        trusted += not breaks
        last = event
    if (last.number, last.digest) != (head.events, head.digest):
        written = f"the trail ends at event {last.number} but {head.events} were written"
        breaks.append(f"{written}: its end is missing or changed")
    if receipt is not None and noted > last.number:
        seen = f"the receipt is of event {noted}, the trail ends at {last.number}"
        breaks.append(f"{seen}: its end was cut off")
    faults, confirmed = _compare("entry {}", "id", releases, entries, intact=not breaks)
    faults += _compare("an account", "name", accounts, datasets, intact=not breaks)[0]
    if len(faults) > _SHOWN:
        faults = [*faults[:_SHOWN], f"and {len(faults) - _SHOWN} more differences"]
    return Verification(head, (*breaks, *faults), trusted, tuple(sorted(confirmed)))


def _applies(event: Event, accounts: dict[str, Row], releases: dict[int, Row]) -> bool:
    # Take one event into the records as the trail tells them; False if it cannot follow.
    _, at, kind, name, entry, details, _ = event
    try:
        told = json.loads(details)
        if (name in accounts) == (kind == "created"):
            return False
        if kind == "created":
            accounts[name] = {"name": name, "created_at": at, **told}
        elif kind == "ruled":
            accounts[name] = {**accounts[name], **told}
        elif kind == "reserved" and entry is not None:
            born = {"id": entry, "dataset": name, "reserved_at": at, "state": kind}
            releases[entry] = {**dict.fromkeys(ENTRY_FIELDS), **born, **told}
        elif kind in ("drawn", "committed") and entry is not None:
            releases[entry] = {**releases[entry], "state": kind, f"{kind}_at": at, **told}
        else:
            return False
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
    return True


def _fault(event: Event, last: Event) -> str | None:
    # What is wrong between two neighbors of the trail.
    first, end = last.number + 1, event.number - 1
    if event.number != first:
        missing = f"{first} to {end}" if end > first else str(first)
        return f"event {missing} is missing before event {event.number}"
    if event.digest != event.expected_digest(last.digest):
        return f"event {event.number} was changed, or does not belong behind event {last.number}"
    return None


def _compare(
    what: str, column: str, told: Mapping[Any, Row], rows: Iterable[Row], *, intact: bool
) -> tuple[list[str], set[Any]]:
    # How records differ from what the trail told, and which of them it confirms.
    faults, seen, confirmed = list[str](), set(), set()
    for row in rows:
        key, known = row[column], told.get(row[column])
        seen.add(key)
        if row == known:
            confirmed.add(key)
        elif known is not None:
            fields = ", ".join(name for name in row if row[name] != known.get(name))
            faults.append(f"{what.format(key)} was changed: {fields} differ from the trail")
        # A trail with a break may have lost the event of a record that it does not know.
        elif intact:
            faults.append(f"{what.format(key)} is unknown to the trail")
    absent = [key for key in told if key not in seen]
    faults += [f"{what.format(key)} was removed; the trail has it" for key in absent]
    return faults, confirmed


def _read_receipt(receipt: str) -> tuple[int, str]:
    found = _RECEIPT.fullmatch(plain("receipt", receipt, str).strip())
    if found is None:
        printed = "as `dpcov ledger verify` printed it"
        raise UsageError(f"A receipt reads NUMBER:DIGEST, {printed}. Copy it whole.")
    return int(found[1]), found[2]

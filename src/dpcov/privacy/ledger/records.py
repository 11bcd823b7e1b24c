"""What a ledger records, and how a record becomes a row of its tables and back.

Contract: a row that this package cannot have written raises a LedgerError.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Literal, get_args

from dpcov.errors import BudgetError, LedgerError
from dpcov.privacy.guarantee import Neighbors, Promise, check_neighbors, promise_numbers, promise_of
from dpcov.privacy.ledger.composition import Composition, check_composition
from dpcov.privacy.ledger.spend import Spend

DAMAGED = (
    "The ledger's records are damaged. Restore the ledger from a backup; spend nothing until then. "
    "`dpcov ledger verify` says what can still be trusted."
)

# As `str` writes fractions.  1e999999999 as a fraction would fill the memory.
_EXACT_NUMBER = re.compile(r"[0-9]{1,4000}(/[0-9]{1,4000})?")

State = Literal["reserved", "drawn", "committed"]
"""Counted as spent; its noise may exist; its release has a fingerprint."""

_NUMBERS = ("epsilon", "delta", "rho")
DATASET_FIELDS = (
    *("name", "created_at", "neighbors", "rows_per_person"),
    *("total_epsilon", "total_delta", "total_rho", "composition"),
)
SPEND_FIELDS = (
    *("mechanism", "promise_epsilon", "promise_delta", "promise_rho"),
    *("rho", "noise_multiplier", "rows_per_person"),
)
ENTRY_FIELDS = (
    *("id", "dataset", "reserved_at", *SPEND_FIELDS, "note"),
    *("state", "drawn_at", "committed_at", "fingerprint"),
)

Row = Mapping[str, Any]
"""Cells of a table by column."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A dataset as recorded; its first release fixes ``composition`` and the unit if None."""

    name: str
    created_at: str
    neighbors: Neighbors
    rows_per_person: int | None
    total: Promise
    composition: Composition | None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One recorded release; its times, UTC in ISO 8601, are for people: nothing depends on them."""

    id: int
    dataset: str
    reserved_at: str
    spend: Spend
    note: str
    state: State
    drawn_at: str | None
    committed_at: str | None
    fingerprint: str | None


def now() -> str:
    """Return the time as a record holds it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def dataset_row(dataset: Dataset) -> Row:
    """Return what the table of datasets holds."""
    row = {**vars(dataset), **_promise_cells("total", dataset.total)}
    return {name: row[name] for name in DATASET_FIELDS}


def spend_row(spend: Spend) -> Row:
    """Return the part of an entry's row that says what it costs."""
    row = {**vars(spend), **_promise_cells("promise", spend.promise)}
    row |= {name: _text(row[name]) for name in ("rho", "noise_multiplier")}
    return {name: row[name] for name in SPEND_FIELDS}


def read_dataset(row: Row) -> Dataset:
    """Return the dataset that a row of `DATASET_FIELDS` describes."""
    with _rows_make_sense():
        unit, rule = row["rows_per_person"], row["composition"]
        # A total keeps to what a release may promise, and so does its unit.
        checked = 1 if unit is None else _count(unit)
        promise = _promise("total", row)
        total = Spend(promise=promise, mechanism="", rows_per_person=checked).promise
        neighbors = check_neighbors(row["neighbors"])
        composition = None if rule is None else check_composition(rule, total)
        kept = {name: row[name] for name in ("name", "created_at", "rows_per_person")}
        return Dataset(**kept, neighbors=neighbors, total=total, composition=composition)


def read_spend(row: Row) -> Spend:
    """Return the spend that the `SPEND_FIELDS` of a row describe."""
    with _rows_make_sense():
        return Spend(
            promise=_promise("promise", row),
            mechanism=row["mechanism"],
            rho=_number(row["rho"]),
            noise_multiplier=_number(row["noise_multiplier"]),
            rows_per_person=_count(row["rows_per_person"]),
        )


def read_entry(row: Row) -> Entry:
    """Return the entry that a row of `ENTRY_FIELDS` describes."""
    if not isinstance(row["id"], int) or not isinstance(row["reserved_at"], str):
        raise LedgerError(DAMAGED)
    check_state(row["state"])
    spend = read_spend(row)
    kept = {name: cell for name, cell in row.items() if name not in SPEND_FIELDS}
    return Entry(spend=spend, **kept)


def check_state(state: object) -> None:
    """Refuse a word that is no state."""
    if state not in get_args(State):
        raise LedgerError(DAMAGED)


def _text(number: Fraction | None) -> str | None:
    return None if number is None else str(number)


def _promise_cells(prefix: str, promise: Promise) -> dict[str, str | None]:
    numbers = promise_numbers(promise)
    return {f"{prefix}_{name}": _text(numbers.get(name)) for name in _NUMBERS}


def _promise(prefix: str, row: Row) -> Promise:
    return promise_of(**{name: _number(row[f"{prefix}_{name}"]) for name in _NUMBERS})


def _number(text: str | None) -> Fraction | None:
    if text is None:
        return None
    if not _EXACT_NUMBER.fullmatch(text):
        raise ValueError
    return Fraction(text)


def _count(number: object) -> int:
    if not isinstance(number, int):
        raise ValueError
    return number


@contextlib.contextmanager
def _rows_make_sense() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, ZeroDivisionError, BudgetError):
        raise LedgerError(DAMAGED) from None

"""What a ledger records, and how a record becomes a row of its tables and back.

Contract: a row that this package cannot have written raises a LedgerError.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Literal, get_args

from dpcov.errors import BudgetError, LedgerError
from dpcov.privacy.guarantee import Neighbors, Promise, check_neighbors, exact_number, promise_of
from dpcov.privacy.ledger.composition import Composition, check_composition
from dpcov.privacy.ledger.spend import Spend

DAMAGED = (
    "The ledger's records are damaged. Restore the ledger from a backup; spend nothing until then. "
    "`dpcov ledger verify` says what can still be trusted."
)

# Counted as spent; its noise may exist; its release has a fingerprint.
State = Literal["reserved", "drawn", "committed"]

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
# Cells of a table by column.
Row = Mapping[str, Any]


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


def row_of(record: Dataset | Spend) -> Row:
    """Return the row of a dataset, or the part of an entry's row that says what it costs."""
    told = ("total", DATASET_FIELDS) if isinstance(record, Dataset) else ("promise", SPEND_FIELDS)
    promise, fields = told
    numbers = vars(getattr(record, promise))
    row = {**vars(record), **{f"{promise}_{name}": numbers.get(name) for name in _NUMBERS}}
    cells = {name: row[name] for name in fields}
    return {name: str(cell) if isinstance(cell, Fraction) else cell for name, cell in cells.items()}


@contextlib.contextmanager
def _rows_make_sense() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, ZeroDivisionError, BudgetError):
        raise LedgerError(DAMAGED) from None


@_rows_make_sense()
def read_dataset(row: Row) -> Dataset:
    """Return the dataset that a row of `DATASET_FIELDS` describes."""
    unit, rule, promise = row["rows_per_person"], row["composition"], _promise("total", row)
    # A total keeps to what a release may promise, and so does its unit.
    checked = 1 if unit is None else _require(unit, int)
    total = Spend(promise=promise, mechanism="", rows_per_person=checked).promise
    return Dataset(
        name=row["name"],
        created_at=row["created_at"],
        neighbors=check_neighbors(row["neighbors"]),
        rows_per_person=unit,
        total=total,
        composition=None if rule is None else check_composition(rule, total),
    )


@_rows_make_sense()
def read_spend(row: Row) -> Spend:
    """Return the spend that the `SPEND_FIELDS` of a row describe, and check its state."""
    if row["state"] not in get_args(State):
        raise ValueError
    return Spend(
        promise=_promise("promise", row),
        mechanism=row["mechanism"],
        rho=_number(row["rho"]),
        noise_multiplier=_number(row["noise_multiplier"]),
        rows_per_person=_require(row["rows_per_person"], int),
    )


@_rows_make_sense()
def read_entry(row: Row) -> Entry:
    """Return the entry that a row of `ENTRY_FIELDS` describes."""
    _require(row["id"], int)
    _require(row["reserved_at"], str)
    kept = {name: cell for name, cell in row.items() if name not in SPEND_FIELDS}
    return Entry(spend=read_spend(row), **kept)


def _promise(prefix: str, row: Row) -> Promise:
    return promise_of(**{name: _number(row[f"{prefix}_{name}"]) for name in _NUMBERS})


def _number(text: str | None) -> Fraction | None:
    return None if text is None else exact_number(text)


def _require(cell: Any, kind: type) -> Any:
    if not isinstance(cell, kind):
        raise TypeError
    return cell

"""What a ledger records, and how a record becomes a row of its tables and back.

Contract: a row that this package cannot have written raises a LedgerError.  Knows nothing of databases.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Literal, get_args

from dpcov.errors import BudgetError, LedgerError
from dpcov.privacy.guarantee import Neighbors, Promise, check_neighbors
from dpcov.privacy.ledger.composition import Composition, check_composition
from dpcov.privacy.ledger.spend import Spend, promise_from_numbers, promise_numbers

DAMAGED = (
    "The ledger's records are damaged. Restore the ledger from a backup; spend nothing until then. "
    "`dpcov ledger verify` says what can still be trusted."
)

_EXACT_NUMBER = re.compile(r"[0-9]{1,4000}(/[0-9]{1,4000})?")
"""As `str` writes fractions; 1e999999999 as a fraction would fill the memory."""

State = Literal["reserved", "drawn", "committed"]
"""``reserved``: counted as spent.  ``drawn``: its noise may exist.  ``committed``: its release has a fingerprint."""

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

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A dataset as recorded; its first release fixes ``composition`` and the unit where they are None."""

    name: str
    created_at: str
    neighbors: Neighbors
    rows_per_person: int | None
    total: Promise
    composition: Composition | None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One recorded release; times are UTC in ISO 8601, for people to read: nothing depends on them."""

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
    values = (
        dataset.name,
        dataset.created_at,
        dataset.neighbors,
        dataset.rows_per_person,
        *_texts(dataset.total),
        dataset.composition,
    )
    return dict(zip(DATASET_FIELDS, values, strict=True))


def spend_row(spend: Spend) -> Row:
    """Return the part of an entry's row that says what it costs."""
    costs = (*_texts(spend.promise), _text(spend.rho), _text(spend.noise_multiplier))
    return dict(zip(SPEND_FIELDS, (spend.mechanism, *costs, spend.rows_per_person), strict=True))


def read_dataset(values: Sequence[Any]) -> Dataset:
    """Return the dataset that these values of `DATASET_FIELDS` describe."""
    row = dict(zip(DATASET_FIELDS, values, strict=True))
    with _rows_make_sense():
        promise = _promise(row["total_epsilon"], row["total_delta"], row["total_rho"])
        unit = row["rows_per_person"]
        total = Spend(
            promise=promise, mechanism="total", rows_per_person=1 if unit is None else _count(unit)
        ).promise
        rule = row["composition"]
        return Dataset(
            name=row["name"],
            created_at=row["created_at"],
            neighbors=check_neighbors(row["neighbors"]),
            rows_per_person=unit,
            total=total,
            composition=None if rule is None else check_composition(rule, total),
        )


def read_spend(values: Sequence[Any]) -> Spend:
    """Return the spend that these values of `SPEND_FIELDS` describe."""
    mechanism, epsilon, delta, promise_rho, rho, multiplier, unit = values
    with _rows_make_sense():
        return Spend(
            promise=_promise(epsilon, delta, promise_rho),
            mechanism=mechanism,
            rho=_number(rho),
            noise_multiplier=_number(multiplier),
            rows_per_person=_count(unit),
        )


def read_entry(values: Sequence[Any]) -> Entry:
    """Return the entry that these values of `ENTRY_FIELDS` describe."""
    row = dict(zip(ENTRY_FIELDS, values, strict=True))
    if not isinstance(row["id"], int) or not isinstance(row["reserved_at"], str):
        raise LedgerError(DAMAGED)
    return Entry(
        id=row["id"],
        dataset=row["dataset"],
        reserved_at=row["reserved_at"],
        spend=read_spend([row[name] for name in SPEND_FIELDS]),
        note=row["note"],
        state=read_state(row["state"]),
        drawn_at=row["drawn_at"],
        committed_at=row["committed_at"],
        fingerprint=row["fingerprint"],
    )


def read_state(text: object) -> State:
    """Return a state, or refuse a word that is none."""
    for known in get_args(State):
        if text == known:
            state: State = known
            return state
    raise LedgerError(DAMAGED)


def _text(number: Fraction | None) -> str | None:
    return None if number is None else str(number)


def _texts(promise: Promise) -> tuple[str | None, str | None, str | None]:
    numbers = promise_numbers(promise)
    return _text(numbers.get("epsilon")), _text(numbers.get("delta")), _text(numbers.get("rho"))


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


def _promise(epsilon: str | None, delta: str | None, rho: str | None) -> Promise:
    return promise_from_numbers(epsilon=_number(epsilon), delta=_number(delta), rho=_number(rho))


@contextlib.contextmanager
def _rows_make_sense() -> Iterator[None]:
    """Refuse numbers or words that this module cannot have written."""
    try:
        yield
    except (ValueError, TypeError, ZeroDivisionError, BudgetError):
        raise LedgerError(DAMAGED) from None

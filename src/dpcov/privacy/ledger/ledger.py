"""The book of what has been released about each dataset, and what may still be.

Contract: as long as every release of a dataset is reserved here first, all of them together keep
the dataset's total promise, also when processes race, are killed, or the next release is chosen
after looking at the earlier ones.  A release counts as spent from the moment it is reserved,
whatever happens afterwards.  An entry holds public numbers and the custodian's note.
"""

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from dpcov.errors import LedgerError, UsageError, as_seen, few_of
from dpcov.files import as_path
from dpcov.privacy.budget import Budget, check_budget
from dpcov.privacy.convert import shorten_down
from dpcov.privacy.guarantee import Neighbors, check_neighbors, format_number
from dpcov.privacy.ledger import composition as rules
from dpcov.privacy.ledger.composition import Amounts, Composition
from dpcov.privacy.ledger.records import Dataset, Entry, now
from dpcov.privacy.ledger.spend import Spend
from dpcov.privacy.ledger.sqlite import LedgerFile
from dpcov.privacy.ledger.store import LedgerStore, LedgerTransaction
from dpcov.privacy.ledger.trail import Verification
from dpcov.privacy.options import Count, plain

LONGEST_TEXT = 1000
_PLACE = "A ledger is a file, or a database: postgresql://USER@HOST/NAME."
# A schema that says too few rows would break the promise.
_MORE_ROWS = (
    "If one person can have {rows} rows, open another account, with {rows} rows per person. Its "
    "total has to be smaller by what the releases of this one cost such a person, which is more "
    "than they state. If not, correct rows_per_person."
)
# Accounts that a message lists.
_NAMED = 10
# Arguments of a command may hold bytes that are no text: they arrive as surrogates.
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Balance:
    """What a dataset may spend, has spent and has left, in the units of its composition rule.

    Before the first release rule and unit may be None, the amounts those of the total itself.
    ``so_far`` says what all releases keep together, ``in_words`` how large another may be.
    """

    composition: Composition | None
    rows_per_person: int | None
    total: Amounts
    spent: Amounts
    remaining: Amounts
    so_far: str = ""
    in_words: str = ""

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """Unit, total, spent and left, as people read them."""
        found = []
        for unit, total in self.total.items():
            left = self.remaining[unit]
            # Rounded down: never more is shown than is left.
            rest = format_number(shorten_down(left)) if left > total / 10**12 else "0"
            numbers = format_number(total), format_number(self.spent[unit]), rest
            found.append((rules.unit_words(unit), *numbers))
        return found


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """The right to draw one release, already paid for."""

    id: int
    dataset: str
    opened: str = field(repr=False)
    _store: LedgerStore = field(repr=False)

    def mark_drawn(self) -> None:
        """Record, before noise is drawn, that it may exist from now on."""
        with self._store.writing() as transaction:
            transaction.move(self.id, "reserved", "drawn")

    def commit(self, release_fingerprint: str) -> None:
        """Record which file the release became."""
        _check_text("release fingerprint", release_fingerprint)
        with self._store.writing() as transaction:
            transaction.move(self.id, "drawn", "committed", fingerprint=release_fingerprint)


class Ledger:
    """A ledger: the accounts of datasets and their releases.

    ``path`` is an SQLite file on a local disk (network file systems do not lock reliably), made by
    :meth:`create` for its owner alone; or ``postgresql://user@host/name``, with the password in
    ``PGPASSWORD`` or ``.pgpass``.  Every method raises LedgerError if the ledger is missing,
    damaged, foreign, locked or cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self._store: LedgerStore
        if not isinstance(path, str | Path):
            raise UsageError(_PLACE)
        if not (isinstance(path, str) and "://" in path):
            self._store = LedgerFile(Path(path))
            return
        from dpcov.privacy.ledger.postgres import SCHEME, LedgerServer

        if not path.startswith(SCHEME):
            raise UsageError(_PLACE)
        self._store = LedgerServer(path)

    def create(
        self,
        dataset: str,
        total: Budget,
        neighbors: Neighbors,
        *,
        composition: Composition | None = None,
        rows_per_person: int | None = None,
    ) -> None:
        """Open an account for a dataset, the people in the data, who must never have two.

        ``total`` is what all releases together may cost.  ``composition``, the rule that adds them
        up, and ``rows_per_person``, the unit that each must protect, are those of the first release
        unless they are given; it chooses its cheapest rule.
        """
        _check_text("dataset name", dataset)
        check_budget(total)
        known = rules.compositions_for(total.promise)
        if composition is not None or len(known) == 1:
            composition = rules.check_composition(composition or known[0], total.promise)
        record = Dataset(
            name=dataset,
            created_at=now(),
            neighbors=check_neighbors(neighbors),
            rows_per_person=plain("rows_per_person", rows_per_person, Count | None),
            total=total.promise,
            composition=composition,
        )
        self._store.create()
        with self._store.writing() as transaction:
            if _find_dataset(transaction, dataset) is not None:
                raise LedgerError(
                    "This dataset already has an account, whose total is fixed. Charge releases to "
                    "it."
                )
            transaction.add_dataset(record)

    def is_file(self, path: str | Path) -> bool:
        """Whether this is a file of the ledger, by whatever name."""
        return self._store.is_file(as_path(path))

    def has(self, dataset: str) -> bool:
        """Whether a dataset has an account; LedgerError if a name that looks the same has one."""
        with self._store.reading() as transaction:
            return _find_dataset(transaction, dataset) is not None

    def datasets(self) -> tuple[Dataset, ...]:
        """Return all accounts, sorted by name."""
        with self._store.reading() as transaction:
            return transaction.datasets()

    def entries(self, dataset: str) -> tuple[Entry, ...]:
        """Return the releases of a dataset, oldest first."""
        with self._store.reading() as transaction:
            _require_dataset(transaction, dataset)
            return transaction.entries(dataset)

    def remaining(self, dataset: str) -> Balance:
        """Return what a dataset may spend, has spent and has left."""
        with self._store.reading() as transaction:
            account, spends = _require_dataset(transaction, dataset), transaction.spends(dataset)
        shown_as: Composition = account.composition or "basic"
        total = rules.limit(shown_as, account.total)
        used = rules.spent(shown_as, account.total, spends)
        return Balance(
            composition=account.composition,
            rows_per_person=_unit(account, spends),
            total=total,
            spent=used,
            remaining={unit: max(Fraction(0), total[unit] - used[unit]) for unit in total},
            so_far=rules.spent_in_words(shown_as, account.total, spends) if spends else "",
            in_words=rules.room_in_words(account.composition, account.total, spends),
        )

    def check(self, dataset: str, spend: Spend, neighbors: Neighbors) -> None:
        """Raise LedgerError if this release would not be allowed now; write nothing."""
        with self._store.reading() as transaction:
            _allowed_composition(transaction, dataset, spend, neighbors)

    def verify(self, receipt: str | None = None) -> Verification:
        """Compare the audit trail with the records, and both with the budgets.

        ``receipt`` is ``head.receipt`` of an earlier call, kept elsewhere: with it the trail must
        still begin as it did then.  Without ``problems`` the ledger is as it was written.
        """
        with self._store.reading(end=False) as transaction:
            found, overspent = transaction.verify(receipt), list[str]()
            for one in () if found.problems else transaction.datasets():
                spends = transaction.spends(one.name)
                if not rules.is_within(one.composition or "basic", one.total, spends):
                    overspent.append(f"the releases of {one.name} exceed its total")
        return replace(found, problems=(*found.problems, *overspent))

    def reserve(
        self, dataset: str, spend: Spend, neighbors: Neighbors, *, note: str = ""
    ) -> Reservation:
        """Pay for one release, or raise LedgerError; there is no refund.

        The ``note`` is the custodian's own and must not contain anything from the data.
        """
        if len(note) > LONGEST_TEXT or _NO_TEXT.search(note):
            raise LedgerError(f"The note must be text of at most {LONGEST_TEXT} characters.")
        # One transaction: nobody can reserve between the check and the entry.
        with self._store.writing() as transaction:
            composition = _allowed_composition(transaction, dataset, spend, neighbors)
            account = _require_dataset(transaction, dataset)
            if account.composition is None:
                transaction.fix_composition(dataset, composition)
            entry = transaction.add_entry(dataset, spend, note)
        return Reservation(id=entry, dataset=dataset, opened=account.created_at, _store=self._store)


def _allowed_composition(
    transaction: LedgerTransaction, dataset: str, spend: Spend, neighbors: Neighbors
) -> Composition:
    # The rule under which this release is allowed.
    account, earlier = _require_dataset(transaction, dataset), transaction.spends(dataset)
    unit, rows = _unit(account, earlier), spend.rows_per_person
    more = _MORE_ROWS.format(rows=rows) if rows > (unit or rows) else ""
    for fixed, asked, advice in (
        (f"{account.neighbors} neighbors", f"{check_neighbors(neighbors)} neighbors", ""),
        (_rows_in_words(unit or rows), _rows_in_words(rows), more),
    ):
        if asked != fixed:
            raise LedgerError(
                f"This dataset is protected with {fixed}. A release with {asked} cannot be added "
                f"to it, because the two promises differ. {advice or f'Release with {fixed}.'}"
            )
    composition = account.composition or rules.choose_composition(account.total, spend)
    rules.check_room(composition, account.total, earlier, spend, account.composition)
    return composition


def _rows_in_words(rows: int) -> str:
    return f"{rows} row{'s' * (rows != 1)} per person"


def _unit(account: Dataset, earlier: Counter[Spend]) -> int | None:
    # Rows per person of all releases; None before the first where none were stated.
    return account.rows_per_person or next((spend.rows_per_person for spend in earlier), None)


def _require_dataset(transaction: LedgerTransaction, name: str) -> Dataset:
    account = _find_dataset(transaction, name)
    if account is None:
        names = few_of([each.name for each in transaction.datasets()], _NAMED)
        raise LedgerError(
            f"The ledger has no account of this name. Its accounts: {names or 'none'}. Name one of "
            "them, or open one."
        )
    return account


def _find_dataset(transaction: LedgerTransaction, name: str) -> Dataset | None:
    # Other names cannot be created.
    name = plain("dataset", name, str)
    account = transaction.dataset(name) if name.isprintable() else None
    if account is not None:
        return account
    for other in transaction.datasets():
        if as_seen(other.name) == as_seen(name):
            raise LedgerError(
                f"The ledger has an account '{other.name}', whose name looks the same but for "
                "capitals, blanks or the form of letters. Use it, or a name that differs in more."
            )
    return None


def _check_text(what: str, text: str) -> None:
    text = plain(what, text, str)
    if not text.strip() or len(text) > LONGEST_TEXT or not text.isprintable():
        raise LedgerError(f"The {what} must be printable text of 1 to {LONGEST_TEXT} characters.")

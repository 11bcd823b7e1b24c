"""The public record inside a release file: what was released, about whom, under what guarantee.

Contract: a strict, versioned schema; unknown or missing fields and wrong types are refused on load.
"""

from dataclasses import fields
from fractions import Fraction
from typing import Annotated, Any, Final, Literal

import msgspec

from dpcov.errors import ReleaseError
from dpcov.privacy.guarantee import (
    ZCDP,
    ApproxDP,
    Guarantee,
    Neighbors,
    Numerics,
    Promise,
    PureDP,
    exact_number,
)
from dpcov.published.file.columns import EncodedColumn, NormBound
from dpcov.published.file.statistics import NoiseLaw, StatisticsRecord

FORMAT_NAME: Final = "dpcov-release"
FORMAT_VERSION: Final = 1

Count = Annotated[int, msgspec.Meta(gt=0, le=2**63 - 1)]

# Far more than any promise.
_MOST = 10**9

POOLED = "estimated together with the other groups of release"
"""How the note of such a group begins."""

GEOMETRY_WAS_GIVEN = (
    "the geometry was given: if it was found in these rows, the guarantee leaves out what that cost"
)
"""The note of such a release: whoever has the file alone cannot know what was paid before."""


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Fields that nobody knows are refused: they could change what the others mean."""


class PromiseRecord(_Record, frozen=True, kw_only=True):
    """A promise with its numbers as exact decimal or fraction strings."""

    kind: Literal["pure", "zcdp", "approximate"]
    epsilon: str | None = None
    delta: str | None = None
    rho: str | None = None


class GuaranteeRecord(_Record, frozen=True, kw_only=True):
    """The guarantee of the release."""

    promise: PromiseRecord
    neighbors: Neighbors
    rows_per_person: Count
    numerics: Numerics


class MechanismRecord(_Record, frozen=True, kw_only=True):
    """Which mechanism ran, with which public options, and who chose it."""

    name: str
    options: dict[str, str | int | float | bool | None]
    chosen_by: Literal["custodian", "auto"] = "custodian"


class MemberRecord(_Record, frozen=True, kw_only=True):
    """One array file inside the release."""

    sha256: str
    dtype: Literal["<i8", "<f8"]
    shape: tuple[int, ...]


class SpentRecord(_Record, frozen=True, kw_only=True):
    """Where the budget was charged; accounts of one name were ``opened`` at different times."""

    dataset: str
    entry: int
    opened: str | None = None


class Manifest(_Record, frozen=True, kw_only=True):
    """Everything public about a release except the arrays themselves."""

    format: Literal["dpcov-release"] = FORMAT_NAME
    version: Literal[1] = FORMAT_VERSION
    created: str
    software: dict[str, str]
    title: str
    mechanism: MechanismRecord
    guarantee: GuaranteeRecord
    n_rows: Count | None
    groups: tuple[str, ...] = ()
    norm_bound: NormBound
    intercept_is_public: bool
    columns: Annotated[tuple[EncodedColumn, ...], msgspec.Meta(min_length=1)]
    schema_toml: str | None
    statistics: StatisticsRecord
    members: dict[str, MemberRecord]
    spent: SpentRecord | None
    warnings: tuple[str, ...] = ()
    # Of several releases of one table: their own records, oldest first, as in their files.
    combined: tuple["Manifest", ...] = ()
    # Whether those are of different people, whose tables were put together.
    disjoint: bool = False
    # Whether it is a group that was estimated together with the others.
    pooled: bool = False
    # Of estimates from several releases: where the others were charged.
    also_spent: tuple[SpentRecord, ...] = ()

    @property
    def has_intercept(self) -> bool:
        """Whether the first encoded column is a one."""
        return self.columns[0].kind == "intercept"

    @property
    def is_pooled(self) -> bool:
        """Whether it is a group that was estimated together with others."""
        # Files from before say it in a note alone.
        return self.pooled or any(note.startswith(POOLED) for note in self.statistics.notes)

    @property
    def geometry_was_given(self) -> bool:
        """Whether no release in it paid for centers and scales of columns that one of them has."""
        given, paid = list[Any](), list[Any]()
        for record in self.combined or (self,):
            was_given = GEOMETRY_WAS_GIVEN in record.statistics.notes
            (given if was_given else paid).append(record.columns)
        return any(columns not in paid for columns in given)

    @property
    def mechanisms(self) -> str:
        """The mechanism's name, or those of all releases that were combined."""
        records = self.combined or (self,)
        return ", ".join(sorted({record.mechanism.name for record in records}))

    @property
    def charges(self) -> tuple[SpentRecord, ...]:
        """Entries of the ledger that paid, of every release that was combined."""
        if self.combined:
            return tuple(paid for record in self.combined for paid in record.charges)
        return (*(() if self.spent is None else (self.spent,)), *self.also_spent)

    @property
    def is_charged(self) -> bool:
        """Whether a ledger paid for all of it."""
        return all(record.charges for record in self.combined or (self,))

    @property
    def laws(self) -> tuple[NoiseLaw, ...]:
        """Laws of the noise, of every release that was combined."""
        records = self.combined or (self,)
        return tuple(each.statistics.noise for each in records if each.statistics.noise is not None)

    def paid(self) -> str:
        """The entries in words."""
        entries = (f"entry {each.entry} of dataset {each.dataset}" for each in self.charges)
        return ", ".join(entries)


_PROMISES: dict[str, type[Promise]] = {"pure": PureDP, "zcdp": ZCDP, "approximate": ApproxDP}


def read_promise(record: PromiseRecord) -> Promise:
    """Read a promise back; refuse numbers that are missing, malformed or promise nothing."""
    promise_type = _PROMISES[record.kind]
    # Only a release that ignores the table has epsilon zero, and it says so as pure.
    if record.kind == "pure" and record.epsilon == "0":
        return PureDP(epsilon=Fraction(0))
    names = [field.name for field in fields(promise_type)]
    try:
        return promise_type(**{name: _exact(getattr(record, name), name) for name in names})
    except (ValueError, ZeroDivisionError):
        raise ReleaseError("The file states no readable guarantee; do not use it.") from None


def _exact(text: str | None, name: str) -> Fraction:
    # A positive number, a delta below one.
    number = exact_number(text or "")
    if not 0 < number < (1 if name == "delta" else _MOST):
        raise ValueError
    return number


def guarantee_record(guarantee: Guarantee) -> GuaranteeRecord:
    """Write a guarantee down exactly."""
    promise = guarantee.promise
    kind: Any = next(kind for kind, known in _PROMISES.items() if isinstance(promise, known))
    numbers = {name: str(value) for name, value in vars(promise).items()}
    written = PromiseRecord(kind=kind, **numbers)
    return GuaranteeRecord(**vars(guarantee) | {"promise": written})


def read_guarantee(record: GuaranteeRecord) -> Guarantee:
    """Read a guarantee back."""
    return Guarantee(**msgspec.structs.asdict(record) | {"promise": read_promise(record.promise)})


# msgspec learns a type at its first use, and crashes where two threads use it first: learned here.
msgspec.json.Decoder(Manifest)

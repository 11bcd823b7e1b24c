"""The public record inside a release file: what was released, about whom, under what guarantee.

Contract: a strict, versioned schema; unknown or missing fields and wrong types are refused on load.
"""

import re
from fractions import Fraction
from math import inf
from typing import Final, Literal

import msgspec

from dpcov.errors import ReleaseError
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Guarantee, Neighbors, Numerics, Promise, PureDP
from dpcov.published.columns import EncodedColumn
from dpcov.published.statistics import Layout, NoiseLaw, Post, PostOptions

FORMAT_NAME: Final = "dpcov-release"
FORMAT_VERSION: Final = 1

# No exponents: 1e999999999 as a fraction would fill the memory.
_EXACT_NUMBER = re.compile(r"[0-9]{1,4000}(/[0-9]{1,4000})?")


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of every part of the manifest."""


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
    rows_per_person: int
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
    """Where the budget was charged."""

    dataset: str
    entry: int


class StatisticsRecord(_Record, frozen=True, kw_only=True):
    """How to read the arrays."""

    layout: Layout
    lattice_bits: int
    dropped_bits: int
    radius: float
    post: Post
    noise: NoiseLaw | None
    notes: tuple[str, ...] = ()
    post_options: PostOptions = PostOptions()


class Manifest(_Record, frozen=True, kw_only=True):
    """Everything public about a release except the arrays themselves."""

    format: Literal["dpcov-release"] = FORMAT_NAME
    version: Literal[1] = FORMAT_VERSION
    created: str
    software: dict[str, str]
    title: str
    mechanism: MechanismRecord
    guarantee: GuaranteeRecord
    n_rows: int | None
    groups: tuple[str, ...] = ()
    norm_bound: float
    intercept_is_public: bool
    columns: tuple[EncodedColumn, ...]
    schema_toml: str | None
    statistics: StatisticsRecord
    members: dict[str, MemberRecord]
    spent: SpentRecord | None
    warnings: tuple[str, ...] = ()


def promise_record(promise: Promise) -> PromiseRecord:
    """Write a promise down exactly."""
    if isinstance(promise, PureDP):
        return PromiseRecord(kind="pure", epsilon=str(promise.epsilon))
    if isinstance(promise, ZCDP):
        return PromiseRecord(kind="zcdp", rho=str(promise.rho))
    return PromiseRecord(kind="approximate", epsilon=str(promise.epsilon), delta=str(promise.delta))


def read_promise(record: PromiseRecord) -> Promise:
    """Read a promise back; refuse numbers that are missing, malformed or promise nothing."""
    try:
        if record.kind == "pure":
            return PureDP(epsilon=Fraction(0) if record.epsilon == "0" else _exact(record.epsilon))
        if record.kind == "zcdp":
            return ZCDP(rho=_exact(record.rho))
        return ApproxDP(epsilon=_exact(record.epsilon), delta=_exact(record.delta, below=1))
    except (ValueError, ZeroDivisionError):
        problem = "The release file states no readable privacy guarantee; do not use it."
        raise ReleaseError(problem) from None


def _exact(text: str | None, below: float = inf) -> Fraction:
    """Read a positive number."""
    is_exact = text is not None and _EXACT_NUMBER.fullmatch(text)
    number = Fraction(text or 0) if is_exact else Fraction(0)
    if not 0 < number < below:
        raise ValueError
    return number


def guarantee_record(guarantee: Guarantee) -> GuaranteeRecord:
    """Write a guarantee down exactly."""
    return GuaranteeRecord(
        promise=promise_record(guarantee.promise),
        neighbors=guarantee.neighbors,
        rows_per_person=guarantee.rows_per_person,
        numerics=guarantee.numerics,
    )


def read_guarantee(record: GuaranteeRecord) -> Guarantee:
    """Read a guarantee back."""
    return Guarantee(
        promise=read_promise(record.promise),
        neighbors=record.neighbors,
        rows_per_person=record.rows_per_person,
        numerics=record.numerics,
    )


def json_schema() -> bytes:
    """JSON schema of the manifest, as kept in docs/release-manifest.schema.json."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(Manifest)), indent=2)

"""What the schema in a release says, as far as what reads releases must know it."""

import tomllib
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from dpcov.errors import few_of

Said = TypeVar("Said")


def learned(kind: type[Said]) -> type[Said]:
    """Let msgspec learn a type now: it crashes where two threads use one first."""
    msgspec.json.Decoder(kind)
    return kind


@lru_cache(maxsize=32)
def stated(schema: str, wanted: type[Said]) -> Said:
    """What the text of a schema says, as far as a record ``wanted`` has it; its defaults if bad."""
    try:
        return msgspec.convert(tomllib.loads(schema), wanted)
    # Anybody may have written the file.
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return wanted()


def schemas_differ(one: str | None, other: str | None) -> str:
    """Say in which columns, or fields of the table, two schemas are not the same."""
    columns, tables = zip(*(_told(schema or "") for schema in (one, other)), strict=True)
    names = [
        name
        for own, theirs in (columns, tables)
        for name in sorted(own.keys() | theirs.keys())
        if own.get(name) != theirs.get(name)
    ]
    where = f" in {few_of([repr(name) for name in names], 5)}" if names else ""
    return f"Their schemas differ{where}"


def _told(schema: str) -> tuple[dict[str, Any], dict[str, Any]]:
    # Columns, and fields of the table.
    told = dict(stated(schema, dict))
    columns = told.pop("columns", {})
    return columns if isinstance(columns, dict) else {}, told


class _Policy(msgspec.Struct, frozen=True):
    missing: str = ""


@learned
class _Policies(msgspec.Struct, frozen=True):
    missing: str = ""
    columns: dict[str, _Policy] = {}


def said_to_be_complete(schema: str) -> frozenset[str]:
    """Columns of the table that have no missing values, as the text of a schema says."""
    said = stated(schema, _Policies)
    policies = {name: own.missing or said.missing for name, own in said.columns.items()}
    return frozenset(name for name, policy in policies.items() if policy == "never")

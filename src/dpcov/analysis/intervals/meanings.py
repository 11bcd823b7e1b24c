"""Tell what features of one name mean in several releases, by what their schemas declare.

It reads public metadata alone.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from itertools import chain
from typing import Any

import msgspec

from dpcov.analysis.problems import InputError
from dpcov.published.columns import EncodedColumn
from dpcov.published.design import stated
from dpcov.published.release import Release

# Names that a note gives.
_SHOWN = 8


class _Declared(msgspec.Struct, frozen=True):
    type: str = ""
    as_: str = msgspec.field(default="", name="as")
    reference: date | None = None
    transform: str = ""
    categories: tuple[str, ...] = ()
    groups: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    other: str = ""


class _Stated(msgspec.Struct, frozen=True):
    columns: dict[str, _Declared] = msgspec.field(default_factory=dict)


def require_one_unit(releases: Sequence[Release], names: Iterable[str]) -> None:
    """Refuse features whose numbers are in different units, where both are known."""
    for name in names:
        units = sorted({column.unit for column in _columns(name, releases) if column.unit})
        if len(units) > 1:
            raise InputError(
                f"{name!r} is in {units[0]} in one release and in {units[1]} in another. Leave it "
                "out of features, or release the tables again in one unit."
            )


def meaning_notes(releases: Sequence[Release], names: Sequence[str]) -> list[str]:
    """Say which features are declared differently, by unit, function, date or grouping."""
    schemas = [stated(release.manifest.schema_toml or "", _Stated) for release in releases]
    differ = [name for name in names if _differ(name, releases, schemas)]
    if not differ:
        return []
    verb = "is" if len(differ) == 1 else "are"
    return [f"{_listed(differ)} {verb} declared differently in these releases."]


def left_out_notes(names: Sequence[str]) -> list[str]:
    """Say which features are left out."""
    return [f"Left out, since only some of the releases have it: {_listed(names)}."] * bool(names)


def _listed(names: Sequence[str]) -> str:
    return ", ".join([repr(name) for name in names[:_SHOWN]] + ["..."] * (len(names) > _SHOWN))


def _columns(name: str, releases: Sequence[Release]) -> list[EncodedColumn]:
    columns = [release.restored_features for release in releases]
    return [next(each for each in own if each.name == name) for own in columns]


def _differ(name: str, releases: Sequence[Release], schemas: Sequence[_Stated]) -> bool:
    columns = _columns(name, releases)
    units = {column.unit for column in columns if column.unit}
    # A release of arrays says nothing.
    said = [
        _meaning(column, schema.columns[column.source])
        for column, schema in zip(columns, schemas, strict=True)
        if column.source in schema.columns
    ]
    return len(units) > 1 or len(set(said)) > 1


def _meaning(column: EncodedColumn, declared: _Declared) -> tuple[Any, ...]:
    """What a number is, or which cells a level counts; neither bounds nor how cells are written."""
    if column.kind != "category":
        return declared.type, declared.as_, declared.reference, declared.transform
    listed = {*declared.categories, *chain(*declared.groups.values())}
    called = (*declared.categories, *declared.groups, declared.other)
    own = [each for each in called if declared.labels.get(each, each) == column.level]
    counted = {each for each in own if each in declared.categories}
    counted |= {cell for each in own for cell in declared.groups.get(each, ())}
    # All that is not listed is one level.
    others = frozenset(listed) if declared.other in own else None
    return declared.type, frozenset(counted), others

"""Read and write schemas as TOML.

Contract: `parse_schema` and `format_schema` are inverse to each other.  An unfilled bound is
written as ``nan``, so that a draft is valid TOML.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dpcov.data.layout import PLAIN
from dpcov.data.schema.declared import NO_OTHER, Declarations, Declared
from dpcov.data.schema.problems import listed
from dpcov.errors import SchemaError
from dpcov.files import reason_of

SchemaT = TypeVar("SchemaT", bound=Declarations)

_MAX_BYTES = 16 * 2**20
_TYPES = '"numeric", "date", "boolean", "categorical" or "ignored"'
_DRAFT = """\
# A draft.  Fill in every nan and every empty list, then use it.
# Bounds and categories must come from public knowledge (questionnaires, code books, common sense),
# and NEVER from the data: no minimum, no maximum, no list of the values that occur.
# Give identifiers, free text and everything that is not needed the type "ignored".
# A number that stands for a category gets the type "categorical" with texts: ["1", "2"].
"""
# What is not written.
_TABLE_DEFAULTS = {"title": "", "missing_codes": (), "decimal": ".", "thousands": ""}
_LAYOUT = msgspec.structs.asdict(PLAIN)
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("description", "unit", "format", "note"), ""),
    **{"labels": {}, "groups": {}, "other": NO_OTHER, "ignore_case": False},
}
_HINTS = {
    "lower": "the smallest value anybody could have, by public knowledge",
    "upper": "the largest value anybody could have, by public knowledge",
    "categories": 'every public category, such as ["yes", "no"]; any other value counts as none',
}


def read_text(path: Path) -> str:
    """Read a schema file, or say why that is not possible."""
    what = f"The schema file '{path.name}'"
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise SchemaError(f"{what} is larger than {_MAX_BYTES >> 20} MiB; it is no schema.")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SchemaError(f"{what} is not UTF-8 text; save it as UTF-8.") from None
    except OSError as error:
        raise SchemaError(f"{what} cannot be read: {reason_of(error)}.") from None


def parse_schema(text: str, kind: type[SchemaT]) -> SchemaT:
    """Read a schema of this class from TOML text; every misfit is listed with its column."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SchemaError(f"The schema is not valid TOML: {error}. Correct that line.") from None
    except (ValueError, RecursionError):
        raise SchemaError(
            "The schema has a number of thousands of digits, or brackets nested too deeply."
        ) from None
    columns = table.pop("columns", None)
    if not isinstance(columns, dict):
        raise SchemaError("The schema has no [columns.<name>] tables; write one for every column.")
    problems: list[str] = []
    declared = {
        name: _convert(f"column '{name}'", entry, Declared, problems)
        for name, entry in columns.items()
    }
    schema = _convert("the table", {**table, "columns": {}}, kind, problems)
    if schema is None or problems:
        raise SchemaError(listed("The schema has mistakes:", problems))
    return kind(**{**msgspec.structs.asdict(schema), "columns": declared})


def _convert(what: str, entry: Any, kind: Any, problems: list[str]) -> Any:
    try:
        return msgspec.convert(entry, kind, strict=True)
    except msgspec.ValidationError as error:
        place = str(error).replace(" - at `$.", " at `").replace(" - at `$`", "")
        hint = f"; type is {_TYPES}" if "`type`" in place else ""
        problems.append(f"{what}: {place}{hint}.")
    return None


def format_schema(schema: Declarations) -> str:
    """Write a schema as TOML text; what is not filled in carries a comment."""
    return "\n".join(_lines(msgspec.to_builtins(schema))) + "\n"


def _lines(table: dict[str, Any]) -> Iterator[str]:
    columns, sections = table.pop("columns"), {key: table.pop(key) for key in ("file", "weights")}
    if any(entry.get(name, 0) in (None, ()) for entry in columns.values() for name in _HINTS):
        yield _DRAFT
    yield from _entries({name: x for name, x in table.items() if x != _TABLE_DEFAULTS.get(name)})
    for heading, section in sections.items():
        if section is not None:
            yield f"\n[{heading}]"
            yield from _entries({key: x for key, x in section.items() if x != _LAYOUT.get(key)})
    if not columns:
        yield "\n[columns]"
    for name, entry in columns.items():
        yield f"\n[columns.{_key(name)}]"
        said = {key: x for key, x in entry.items() if x != _DEFAULTS.get(key)}
        missing = {key: said.pop(key) for key in ("missing", "missing_codes") if key in said}
        yield from _entries(said | missing)


def _entries(table: dict[str, Any]) -> Iterator[str]:
    for name, value in table.items():
        if name in _HINTS and value in (None, ()):
            # Levels may be groups alone.
            if not (name == "categories" and table.get("groups")):
                yield f"{name} = {'nan' if value is None else '[]'}  # {_HINTS[name]}"
        elif isinstance(value, dict):
            for key, entry in value.items():
                yield f"{name}.{_key(key)} = {_value(entry)}"
        elif value is not None:
            yield f"{name} = {_value(value)}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, str | bool):
        # JSON is TOML here, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float):
        return str(int(value)) if abs(value) < 1e15 and value == int(value) else repr(value)
    if isinstance(value, int):
        return str(value)
    labels = [_value(label) for label in value]
    if len(row := ", ".join(labels)) <= 90:
        return f"[{row}]"
    return "[\n" + "".join(f"  {label},\n" for label in labels) + "]"

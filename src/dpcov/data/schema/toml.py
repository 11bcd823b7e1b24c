"""Read and write schemas as TOML.

Contract: `parse_schema` and `format_schema` are inverse to each other.  An unfilled bound is
written as ``nan``, so that a draft is valid TOML.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeVar

import msgspec

from dpcov.data.layout import PLAIN
from dpcov.data.schema.declared import NO_OTHER, Declarations, Declared
from dpcov.data.schema.mistakes import Mistakes, load_toml
from dpcov.data.schema.problems import problems_of
from dpcov.errors import SchemaError
from dpcov.files import reason_of

SchemaT = TypeVar("SchemaT", bound=Declarations)

_MAX_BYTES = 16 * 2**20
_DRAFT = """\
# A draft.  Fill in every nan and every empty list, then use it.
# Bounds and categories must come from public knowledge (questionnaires, codebooks, common sense),
# and NEVER from the data: no minimum, no maximum, no list of the values that occur.
# Give identifiers, free text and everything that is not needed the type "ignored".
# A number that stands for a category gets the type "categorical" with texts: ["1", "2"].
# One that is 0 or 1 alone gets the type "boolean": its correlations mostly err less then.
# Numbers with marks between thousands, or with codes for what is missing, are drafted as texts:
# give them the type "numeric", and thousands = "," or missing_codes = ["..", "na"].
# Where one person can have several rows, such as visits or years, rows_per_person is the largest
# number of them.  No draft finds it in the rows, and the guarantee rests on it.
# Releases and reports call the table by its title: title = "Patients 2024".
# Help in editors: dpcov schema --json-schema > dpcov.schema.json
#:schema ./dpcov.schema.json
"""
# What is not written.
_TABLE_DEFAULTS: dict[str, Any] = {
    **{"title": "", "wildcards": True, "missing_codes": (), "decimal": ".", "thousands": ""},
    "missing_together": (),
}
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


def read_text(path: Path, kind: str = "schema") -> str:
    """Read a file that describes a table, or say why that is not possible."""
    what = f"The {kind} file '{path.name}'"
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise SchemaError(f"{what} is larger than {_MAX_BYTES >> 20} MiB; it is no {kind}.")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SchemaError(f"{what} is not UTF-8 text; save it as UTF-8.") from None
    except OSError as error:
        raise SchemaError(f"{what} cannot be read: {reason_of(error)}. Check the path.") from None


def parse_schema(
    text: str, kind: type[SchemaT], *, name: str = "The schema", complete: bool = False
) -> SchemaT:
    """Read a schema of this class from TOML text; every misfit is listed with its line.

    A complete one has no problems, either.
    """
    table, mistakes = load_toml(text, name), Mistakes(text)
    columns = table.pop("columns", None)
    if not isinstance(columns, dict):
        raise SchemaError(f"{name} has no [columns.<name>] tables; write one for every column.")
    if "defaults" in table:
        defaults = table.pop("defaults")
        mistakes.convert(("defaults",), "the defaults", defaults, Declared)
        mistakes.refuse(f"{name} has mistakes:")
        columns = {column: _with_defaults(entry, defaults) for column, entry in columns.items()}
    declared = {
        column: mistakes.convert(("columns", column), f"column '{column}'", entry, Declared)
        for column, entry in columns.items()
    }
    schema = mistakes.convert((), "the table", {**table, "columns": {}}, kind)
    mistakes.refuse(f"{name} has mistakes:")
    made = kind(**{**msgspec.structs.asdict(schema), "columns": declared})
    if complete:
        mistakes.add_problems(problems_of(made))
        mistakes.refuse(f"{name} cannot be used yet:")
    return made


def _with_defaults(entry: Any, defaults: dict[str, Any]) -> Any:
    # Fields mean different things for different types: only those of the same type are taken.
    same = isinstance(entry, dict) and entry.get("type", defaults["type"]) == defaults["type"]
    return {**defaults, **entry} if same else entry


def format_schema(schema: Declarations, comments: Mapping[str, str] | None = None) -> str:
    """Write a schema as TOML text; what is not filled in carries a comment, as columns may."""
    return "\n".join(_lines(msgspec.to_builtins(schema), comments or {})) + "\n"


def _lines(table: dict[str, Any], comments: Mapping[str, str]) -> Iterator[str]:
    columns, sections = table.pop("columns"), {key: table.pop(key) for key in ("file", "weights")}
    if any(_is_open(entry, name) for entry in columns.values() for name in _HINTS):
        yield _DRAFT
    yield from _entries({name: x for name, x in table.items() if x != _TABLE_DEFAULTS.get(name)})
    for heading, section in sections.items():
        if section is not None:
            yield f"\n[{heading}]"
            yield from _entries({key: x for key, x in section.items() if x != _LAYOUT.get(key)})
    if not columns:
        yield "\n[columns]"
    for name, entry in columns.items():
        yield "\n".join(("", *(f"# {line}" for line in wrap(comments.get(name, ""), 96))))
        yield f"[columns.{_key(name)}]"
        said = {key: x for key, x in entry.items() if key not in _DEFAULTS or x != _DEFAULTS[key]}
        missing = {key: said.pop(key) for key in ("missing", "missing_codes") if key in said}
        yield from _entries(said | missing)


def _entries(table: dict[str, Any]) -> Iterator[str]:
    for name, value in table.items():
        if _is_open(table, name):
            yield f"{name} = {'nan' if value is None else '[]'}  # {_HINTS[name]}"
        elif isinstance(value, dict):
            for key, entry in value.items():
                yield f"{name}.{_key(key)} = {toml_value(entry)}"
        elif value is not None:
            yield f"{name} = {toml_value(value)}"


def _is_open(entry: dict[str, Any], name: str) -> bool:
    # Levels may be groups alone.
    if name == "categories" and entry.get("groups"):
        return False
    return name in _HINTS and entry.get(name, 0) in (None, ())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: Any) -> str:
    """Write a text, number, truth value or list of them as TOML."""
    if isinstance(value, str | bool):
        # JSON is TOML here, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float):
        return str(int(value)) if abs(value) < 1e15 and value == int(value) else repr(value)
    if isinstance(value, int):
        return str(value)
    labels = [toml_value(label) for label in value]
    if len(row := ", ".join(labels)) <= 90:
        return f"[{row}]"
    if all(isinstance(each, int | float) for each in value):
        # The codes of a range would fill a page.
        labels = [line.rstrip(",") for line in wrap(row, 90, break_on_hyphens=False)]
    return "[\n" + "".join(f"  {label},\n" for label in labels) + "]"

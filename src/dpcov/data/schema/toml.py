"""Read and write schemas as TOML.

Contract: `parse_schema` and `format_schema` are inverse to each other.  An unfilled bound is
written as ``nan``, so that a draft is valid TOML.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dpcov.data.schema.declared import Categorical, Declared, Ignored, Numeric
from dpcov.data.schema.problems import listed
from dpcov.errors import SchemaError
from dpcov.files import reason_of

if TYPE_CHECKING:
    from dpcov.data.schema.schema import Schema

_MAX_BYTES = 16 * 2**20
_TYPES = '"numeric", "boolean", "categorical" or "ignored"'
_DRAFT = """\
# A draft.  Fill in every nan and every empty list, then use it.
# Bounds and categories must come from public knowledge (questionnaires, code books, common sense),
# and NEVER from the data: no minimum, no maximum, no list of the values that occur.
# Give identifiers, free text and everything that is not needed the type "ignored".
# A number that stands for a category gets the type "categorical" with texts: ["1", "2"].
"""
_HINTS = {
    "lower": "  # the smallest value anybody could have, by public knowledge",
    "upper": "  # the largest value anybody could have, by public knowledge",
    "weight": "  # the largest weight a row could have, by public knowledge",
    "categories": (
        '  # every public category, such as ["yes", "no"]; any other value counts as none'
    ),
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
    except FileNotFoundError:
        raise SchemaError(f"There is no schema file '{path.name}'; draft one first.") from None
    except UnicodeDecodeError:
        raise SchemaError(f"{what} is not UTF-8 text; save it as UTF-8.") from None
    except OSError as error:
        raise SchemaError(f"{what} cannot be read: {reason_of(error)}.") from None


def parse_schema(text: str, kind: "type[Schema]") -> "Schema":
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


def format_schema(schema: "Schema") -> str:
    """Write a schema as TOML text; what is not filled in carries a comment."""
    return "\n".join(_lines(schema)) + "\n"


def _lines(schema: "Schema") -> Iterator[str]:
    if any(_is_unfilled(declared) for declared in schema.columns.values()):
        yield _DRAFT
    if schema.title:
        yield f"title = {_text(schema.title)}"
    yield f"intercept = {str(schema.intercept).lower()}"
    yield f"missing = {_text(schema.missing)}"
    yield f"rows_per_person = {schema.rows_per_person}"
    if schema.norm_bound is not None:
        yield f"norm_bound = {_number(schema.norm_bound)}"
    if schema.weights is not None:
        yield f"\n[weights]\ncolumn = {_text(schema.weights.column)}"
        yield f"upper = {_bound(schema.weights.upper, 'weight')}"
    if not schema.columns:
        yield "\n[columns]"
    for name, declared in schema.columns.items():
        plain = re.fullmatch(r"[A-Za-z0-9_-]+", name)
        yield f"\n[columns.{name if plain else _text(name)}]"
        yield from _column_lines(declared)


def _column_lines(declared: Declared) -> Iterator[str]:
    yield f'type = "{declared.__struct_config__.tag}"'
    if isinstance(declared, Numeric):
        yield f"lower = {_bound(declared.lower, 'lower')}"
        yield f"upper = {_bound(declared.upper, 'upper')}"
    if isinstance(declared, Categorical):
        hint = "" if declared.categories else _HINTS["categories"]
        yield f"categories = {_list(declared.categories)}{hint}"
    if isinstance(declared, Ignored):
        if declared.note:
            yield f"note = {_text(declared.note)}"
    elif declared.missing is not None:
        yield f"missing = {_text(declared.missing)}"


def _is_unfilled(declared: Declared) -> bool:
    if isinstance(declared, Numeric):
        return declared.lower is None or declared.upper is None
    return isinstance(declared, Categorical) and not declared.categories


def _text(value: str) -> str:
    # A JSON text is a TOML basic string, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _bound(value: float | None, hint: str) -> str:
    return f"nan{_HINTS[hint]}" if value is None else _number(value)


def _number(value: float) -> str:
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else repr(float(value))


def _list(labels: tuple[str, ...]) -> str:
    row = ", ".join(map(_text, labels))
    if len(row) <= 90:
        return f"[{row}]"
    return "[\n" + "".join(f"  {_text(label)},\n" for label in labels) + "]"

"""What is typed of columns at the desk, and how the page writes what is declared of them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from dpcov.data.cells import text_of
from dpcov.data.schema.codebooks.fields import code_of
from dpcov.data.schema.declared import Categorical, Date, Numeric
from dpcov.data.schema.mistakes import STRUCTS
from dpcov.errors import SchemaError, UsageError
from dpcov.markup import lines_visible

# Between a category and what it is called; two columns of a spreadsheet, pasted, have a tab there.
_IS = " = "
_LABELED = re.compile(f"{_IS}|\t")


def declared(now: Any, fields: Mapping[str, str]) -> Any:
    """A column as typed; what the page does not ask for stays as it was."""
    kind = STRUCTS.get(fields.get("type", str(now.__struct_config__.tag)))
    if kind is None:
        raise SchemaError(f"The types of columns are {', '.join(STRUCTS)}.")
    asked = {name: fields[name] for name in kind.__struct_fields__ if name in fields}
    given = {name: _as_it_was(text, shown(now, name)) for name, text in asked.items()}
    # What was not touched stays as it was, also where its words could be read otherwise.
    typed = {name: text for name, text in given.items() if text != shown(now, name).strip()}
    codes = {written(code): code for code in getattr(now, "missing_codes", None) or ()}
    labels, listed = dict[str, str](), "categories" in typed
    if listed and _may_have_labels(now):
        lines = [_LABELED.split(line, maxsplit=1) for line in _parts(typed["categories"])]
        labels = {line[0].strip(): line[1].strip() for line in lines if len(line) > 1}
        typed["categories"] = "\n".join(line[0] for line in lines)
    was = msgspec.structs.asdict(now)
    kept = {name: was[name] for name in kind.__struct_fields__ if name in was}
    made = kind(**kept | dict(_values(typed, codes)))
    return _relabeled(made, now, labels) if isinstance(made, Categorical) and listed else made


def _relabeled(made: Categorical, now: Any, labels: dict[str, str]) -> Categorical:
    # Labels of what is no category any more go with it.
    shows = made.categories if _may_have_labels(now) else ()
    kept = [name for name in made.levels if name in made.labels and name not in shows]
    return msgspec.structs.replace(made, labels={name: made.labels[name] for name in kept} | labels)


def shown(column: Any, name: str) -> str:
    """A field of a column as the page shows it; categories with their labels, ``1 = male``."""
    value = getattr(column, name, None)
    if name == "categories" and value and _may_have_labels(column):
        labels = {level: _IS + label for level, label in column.labels.items()}
        value = tuple(level + labels.get(level, "") for level in value)
    return written(value)


def written(value: object) -> str:
    """A value as the page shows it; several are one a line."""
    if isinstance(value, tuple):
        return "\n".join(map(written, value))
    return "" if value is None else str(text_of(value, ""))


def _may_have_labels(column: Any) -> bool:
    # Categories that hold the sign themselves are read as they are.
    return not any(_LABELED.search(level) for level in getattr(column, "categories", ()))


def _as_it_was(text: str, own: str) -> str:
    # A page shows other signs for control codes.
    lines = {lines_visible(line).strip(): line for line in own.split("\n")}
    return "\n".join(lines.get(line.strip(), line) for line in text.split("\n")).strip()


def _values(
    typed: Mapping[str, str], codes: Mapping[str, str | float]
) -> Iterator[tuple[str, Any]]:
    for name, text in typed.items():
        if name in ("lower", "upper"):
            yield name, _number(text) if text else None
        elif name == "categories":
            yield name, tuple(_one_a_line(_parts(text)))
        elif name == "missing_codes":
            parts = _one_a_line(_parts(text), codes=True)
            yield name, tuple(codes.get(part, code_of(part)) for part in parts) or None
        else:
            yield name, text


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.splitlines() if part.strip()]


def _one_a_line(parts: list[str], *, codes: bool = False) -> list[str]:
    # Several on one line would be one that no row has.  Codes in words may hold commas.
    within = re.split(r"[,;]\s+|;" if codes else "[,;]", parts[0]) if len(parts) == 1 else []
    if len(within) > 1 and not (codes and any(isinstance(code_of(x), str) for x in within)):
        raise UsageError(
            "write one a line, without commas or semicolons between them. A single one that holds "
            "such a sign goes into the schema as text, below."
        )
    return parts


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            "a bound is a number, such as 90 or, with a point, 0.5; that of a date is a year, "
            "such as 1990."
        ) from None


def is_unfilled(column: Any) -> bool:
    """Whether bounds or categories are still to be filled in."""
    if isinstance(column, Numeric | Date):
        return column.lower is None or column.upper is None
    return isinstance(column, Categorical) and not column.levels

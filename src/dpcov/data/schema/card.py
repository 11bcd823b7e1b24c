"""What a schema looks like in a notebook.

Contract: shows what was written in it, and what is missing; text of a file stays text.
"""

from typing import Any

from msgspec.structs import fields

from dpcov.data.schema.declared import Declarations, Declared
from dpcov.data.schema.problems import problems_of
from dpcov.markup import CELL, Child, card, el, facts, listing, name_of

_PROBLEMS = 8


def schema_card(schema: Declarations) -> str:
    """One line for every column, and what is still to be filled in."""
    rows = [
        (name_of(name, CELL), type(kind).__name__.lower(), _said(kind))
        for name, kind in schema.columns.items()
    ]
    count = len(rows)
    caption = f"{count} column{'s' * (count != 1)}: what anybody may know"
    said = [
        (name.replace("_", " "), value) for name, value in _differing(schema, "columns", "title")
    ]
    return card(
        "Schema",
        schema.title or "untitled table",
        listing(("Column", "Type", "Declared"), rows, caption, numeric=False),
        facts(said) if said else None,
        _missing(problems_of(schema)),
    )


def _said(kind: Declared) -> str:
    return " · ".join(f"{name} {value}" for name, value in _differing(kind))


def _differing(told: Any, *known: str) -> list[tuple[str, str]]:
    # Of a declaration's fields those that somebody has filled in.
    values = ((field, getattr(told, field.name)) for field in fields(told))
    return [
        (field.name, _written(value))
        for field, value in values
        if field.name not in known and value != field.default and value not in ((), {})
    ]


def _written(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple | list):
        shown = ", ".join(map(str, value[:8]))
        return f"{shown}, … ({len(value)})" if len(value) > 8 else shown
    if isinstance(value, dict):
        return _written([f"{key} = {_written(each)}" for key, each in value.items()])
    if hasattr(value, "__struct_fields__"):
        return ", ".join(f"{name} {each}" for name, each in _differing(value))
    return str(value)


def _missing(problems: list[str]) -> Child:
    if not problems:
        return None
    more = [f"… and {len(problems) - _PROBLEMS} more"] if len(problems) > _PROBLEMS else []
    lines = [el("li", line) for line in [*problems[:_PROBLEMS], *more]]
    return [el("p", el("strong", "To be corrected before it can be used:")), el("ul", lines)]

"""Read a Frictionless Data Package, Data Resource or Table Schema (versions 1 and 2).

Contract: reads a description only; a file that it names is not opened.
"""

from typing import Any

from dpcov.data.layout import FileLayout
from dpcov.data.schema.codebooks.fields import (
    Field,
    Holds,
    codes_of,
    first_of,
    only,
    sentence,
    texts_of,
    words_of,
)
from dpcov.data.schema.schema import Schema
from dpcov.errors import SchemaError

_HOLDS: dict[str, Holds] = {
    **dict.fromkeys(("integer", "number", "year"), "number"),
    **dict.fromkeys(("date", "datetime"), "date"),
    "boolean": "boolean",
}
_OTHERS = ("object", "array", "list", "geopoint", "geojson", "duration", "time", "yearmonth")


def schema_of(table: dict[str, Any], part: str = "") -> Schema:
    """Make a draft of the package's only table, or of the one of this name."""
    is_package = "resources" in table
    resource = only(table["resources"], "name", "schema", part) if is_package else table
    described = resource.get("schema", resource)
    if not isinstance(described, dict) or not isinstance(described.get("fields"), list):
        raise SchemaError("The codebook describes no fields. Give a package with a table schema.")
    # The standard's own default is an empty cell.
    missing = codes_of(texts_of(_value(code) for code in described.get("missingValues", ())))
    title = words_of(resource.get("title")) or words_of(table.get("title"))
    columns = {str(each["name"]): _field(each).declared() for each in described["fields"]}
    return Schema(columns=columns, title=title, missing_codes=missing, file=_layout(resource))


def _field(given: dict[str, Any]) -> Field:
    rules, kind = given.get("constraints") or {}, given.get("type", "string")
    values = given.get("categories") or rules.get("enum") or ()
    levels = {
        text: words_of(each.get("label")) if isinstance(each, dict) else text
        for each in values
        for text in texts_of([_value(each)])
    }
    if kind == "boolean":
        # Without words for true a release takes the usual ones, and refuses others.
        truths = texts_of([*given.get("trueValues", ()), *given.get("falseValues", ())])
        levels = dict(zip(truths, truths, strict=True)) if "trueValues" in given else {}
    written, missing = given.get("format", "default"), given.get("missingValues")
    marks = {"decimal": given.get("decimalChar"), "thousands": given.get("groupChar")}
    return Field(
        holds=_HOLDS.get(kind, "text"),
        description=sentence(words_of(given.get("title")), words_of(given.get("description"))),
        unit=words_of(given.get("unit")),
        lower=first_of(rules, "minimum", "exclusiveMinimum"),
        upper=first_of(rules, "maximum", "exclusiveMaximum"),
        levels=levels,
        is_ordered=given.get("categoriesOrdered") is True,
        missing_codes=None if missing is None else texts_of(map(_value, missing)),
        date_format="" if written in ("default", "any") else str(written),
        marks={name: mark for name, mark in marks.items() if mark is not None},
        note=f"of type {kind}, by the codebook" if kind in _OTHERS else "",
    )


def _value(given: Any) -> Any:
    return given.get("value") if isinstance(given, dict) else given


def _layout(resource: dict[str, Any]) -> FileLayout | None:
    dialect = resource.get("dialect") or {}
    if not isinstance(dialect, dict):
        return None
    return FileLayout.of(
        delimiter=dialect.get("delimiter"),
        quote=dialect.get("quoteChar"),
        encoding=resource.get("encoding"),
        header=(dialect.get("headerRows") or [1])[-1],
        part=dialect.get("sheetName"),
    )

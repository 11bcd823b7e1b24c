"""Read CSV on the Web metadata, also with the terms that CSVW-EO (CSVW-SAFE) adds.

CSVW-EO describes tables for differential privacy: public keys and partitions of a column, which
column identifies a person, and how many rows one may have.

Contract: reads a description only; a file that it names is not opened.

References
----------
https://www.w3.org/TR/tabular-metadata/ ; https://w3id.org/csvw-eo
"""

import re
from typing import Any

from dpcov.data.layout import FileLayout
from dpcov.data.schema.codebooks.fields import (
    Field,
    Holds,
    first_of,
    only,
    sentence,
    texts_of,
    words_of,
)
from dpcov.data.schema.schema import Schema

_NUMBERS = (
    *("number", "decimal", "integer", "long", "int", "short", "byte", "nonNegativeInteger"),
    *("positiveInteger", "nonPositiveInteger", "negativeInteger", "unsignedLong", "unsignedInt"),
    *("unsignedShort", "unsignedByte", "double", "float", "gYear"),
)
_HOLDS: dict[str, Holds] = {
    **dict.fromkeys(_NUMBERS, "number"),
    **dict.fromkeys(("date", "dateTime", "datetime", "dateTimeStamp"), "date"),
    "boolean": "boolean",
}
_PREFIXES = ("csvw:", "csvw-eo:", "csvw-safe:", "xsd:")
# Unicode's letters of dates, and those of `strptime`.
_LETTERS = {"yyyy": "%Y", "MM": "%m", "M": "%m", "dd": "%d", "d": "%d"}


def is_csvw(table: dict[str, Any]) -> bool:
    """Whether this is CSVW and not Frictionless."""
    return any(key in _plain(table) for key in ("tableSchema", "tables"))


def schema_of(document: dict[str, Any], part: str = "") -> Schema:
    """Make a draft of the only table, or of the one whose ``url`` this is."""
    group = _plain(document)
    is_table = "tableSchema" in group
    table = group if is_table else only(group["tables"], "url", "tableSchema", part)
    inherited = {**_inherited(group), **_inherited(table), **_inherited(table["tableSchema"])}
    columns = {}
    for each in table["tableSchema"]["columns"]:
        if not each.get("virtual"):
            name = words_of(each.get("titles")) or words_of(each.get("title")) or each["name"]
            columns[name] = _field(inherited | each).declared()
    return Schema(
        columns=columns,
        title=_said(table, "title") or _said(group, "title"),
        # What is no whole number raises: fewer rows than a person has would protect less.
        rows_per_person=int(str(table.get("maxContributions", 1))),
        file=_layout(table.get("dialect") or group.get("dialect") or {}),
    )


def _plain(given: Any) -> Any:
    # Terms without the prefixes of the vocabularies.
    if isinstance(given, dict):
        return {_unprefixed(key): _plain(value) for key, value in given.items()}
    return [_plain(each) for each in given] if isinstance(given, list) else given


def _unprefixed(term: str) -> str:
    return next((term.removeprefix(p) for p in _PREFIXES if term.startswith(p)), term)


def _inherited(given: dict[str, Any]) -> dict[str, Any]:
    return {key: given[key] for key in ("datatype", "null") if key in given}


def _field(column: dict[str, Any]) -> Field:
    datatype = column.get("datatype", "string")
    datatype = datatype if isinstance(datatype, dict) else {"base": datatype}
    base = _unprefixed(str(datatype.get("base", "string")))
    null, written = column.get("null", ()), datatype.get("format")
    holds = _HOLDS.get(base, "text")
    levels = texts_of(_keys(column))
    # In CSVW-EO the bounds stand beside the datatype.
    limits = {**column, **datatype}
    marks = written if holds == "number" and isinstance(written, dict) else {}
    if holds == "boolean" and isinstance(written, str) and "|" in written:
        levels = texts_of(written.split("|"))
    elif holds == "boolean":
        levels = ()
    return Field(
        holds=holds,
        description=sentence(_said(column, "description"), _said(column, "title")),
        lower=first_of(limits, "minimum", "minInclusive", "minExclusive"),
        upper=first_of(limits, "maximum", "maxInclusive", "maxExclusive"),
        levels=dict(zip(levels, levels, strict=True)),
        missing_codes=texts_of([null] if isinstance(null, str) else null) or None,
        date_format=_strptime(written) if holds == "date" and isinstance(written, str) else "",
        marks={
            name: marks[key]
            for name, key in (("decimal", "decimalChar"), ("thousands", "groupChar"))
            if key in marks
        },
        note="identifies a person, by the codebook" if column.get("privacyId") is True else "",
    )


def _keys(column: dict[str, Any]) -> list[Any]:
    # Public values of a column, in the order of preference.
    for key in ("keyValues", "keys", "publicKeys"):
        if isinstance(column.get(key), list):
            return [each for each in column[key] if not isinstance(each, dict)]
    predicates = [each.get("predicate", {}) for each in column.get("partitions") or ()]
    return [each["partitionValue"] for each in predicates if "partitionValue" in each]


def _said(given: dict[str, Any], what: str) -> str:
    return next(
        (words_of(given[f"{p}:{what}"]) for p in ("dc", "rdfs") if f"{p}:{what}" in given), ""
    )


def _strptime(written: str) -> str:
    # ISO needs no format; what follows the day is a time.
    day = written.split("T")[0].split(" ")[0]
    day = re.sub("yyyy|MM?|dd?", lambda found: _LETTERS[found[0]], day)
    return "" if day == "%Y-%m-%d" else day


def _layout(dialect: dict[str, Any]) -> FileLayout | None:
    return FileLayout.of(
        delimiter=dialect.get("delimiter"),
        # Null says that there is none; a file without a line of names is told when it is read.
        quote=dialect.get("quoteChar", '"') or "",
        encoding=dialect.get("encoding"),
        header=int(dialect.get("skipRows", 0)) + (int(dialect.get("headerRowCount", 1)) or 1),
    )

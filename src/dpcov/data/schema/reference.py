"""Describe the schema file itself: its fields in words, and as a JSON Schema for editors.

Contract: which fields there are follows from the structs; `fields.toml` says what they mean.
"""

import json
import tomllib
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from dpcov.data.layout import FileLayout
from dpcov.data.schema.declared import Declarations, Weights
from dpcov.data.schema.mistakes import STRUCTS

# Meaning and example.
Said: TypeAlias = tuple[str, str]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TITLE = "Schema of a table, for dpcov"
_PATTERNS = (
    "The name of a column, or a pattern such as BILL_AMT*: the name comes first, then the pattern "
    "with most characters outside of *, ? and [...]."
)


def sections() -> dict[str, dict[str, Said]]:
    """Every field of every part of a schema file, in the order of the structs."""
    text = Path(__file__).with_name("fields.toml").read_text(encoding="utf-8")
    told: dict[str, dict[str, Said]] = tomllib.loads(text)
    parts: dict[str, type[msgspec.Struct]] = {"table": Declarations, **STRUCTS, "weights": Weights}
    parts["file"] = FileLayout
    found: dict[str, dict[str, Said]] = {}
    for part, struct in parts.items():
        common = told["column"] if part in STRUCTS else {}
        known = common | told.get(part, {})
        known["type"] = (told["column"]["type"][0], f'type = "{part}"')
        fields = ("type",) * (part in STRUCTS) + struct.__struct_encode_fields__
        fields += ("defaults",) * (part == "table")
        found[part] = {name: known[name] for name in fields}
    return found


def json_schema() -> str:
    """JSON Schema of the file, which editors read."""
    parts = {"Declarations": "table", "Weights": "weights", "FileLayout": "file"}
    parts |= {struct.__name__: tag for tag, struct in STRUCTS.items()}
    told = sections()
    _, defs = msgspec.json.schema_components([Declarations], ref_template="#/$defs/{name}")
    for name, part in parts.items():
        defs[name] = _described(defs[name], told[part])
    column: dict[str, Any] = {
        "anyOf": [{"$ref": f"#/$defs/{s.__name__}"} for s in STRUCTS.values()]
    }
    fields: dict[str, Any] = {}
    for struct in STRUCTS.values():
        fields = {**defs[struct.__name__]["properties"], **fields}
    fields.pop("type")
    untyped = {"type": "object", "properties": fields, "additionalProperties": False}
    table = defs.pop("Declarations")
    columns = {"type": "object", "description": _PATTERNS}
    table["properties"] |= {"columns": columns, "defaults": {"$ref": "#/$defs/Column"}}
    return json.dumps(
        {
            "$schema": _DIALECT,
            **table,
            "title": _TITLE,
            "description": _PATTERNS,
            "if": {"required": ["defaults"]},
            "then": _columns_are({"anyOf": [{"$ref": "#/$defs/Column"}, untyped]}),
            "else": _columns_are({"$ref": "#/$defs/Column"}),
            "$defs": {"Column": column, **defs},
        },
        indent=2,
    )


def _columns_are(what: dict[str, Any]) -> dict[str, Any]:
    return {"properties": {"columns": {"additionalProperties": what}}}


def _described(struct: dict[str, Any], told: dict[str, Said]) -> dict[str, Any]:
    # TOML has no null, and the first line of a docstring is enough.
    properties = {
        name: {**_without_null(kind), "description": told[name][0]}
        for name, kind in struct["properties"].items()
    }
    words = struct.get("description", "").partition("\n")[0]
    return {**struct, "description": words, "properties": properties}


def _without_null(kind: dict[str, Any]) -> dict[str, Any]:
    others = [each for each in kind.get("anyOf", ()) if each != {"type": "null"}]
    plain = {name: value for name, value in kind.items() if name not in ("anyOf", "default")}
    if len(others) == 1:
        return {**plain, **others[0]}
    return {**plain, **({"anyOf": others} if others else {})}

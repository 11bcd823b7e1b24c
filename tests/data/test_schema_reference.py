"""The JSON Schema of schema files says what the reader takes, and explains every field."""

import json
import tomllib

import pytest

from dpcov import Schema
from dpcov.data.schema.draft import describe
from dpcov.data.schema.mistakes import STRUCTS
from dpcov.data.schema.reference import json_schema, sections
from dpcov.data.sources import open_source
from dpcov.errors import SchemaError

WHOLE = json.loads(json_schema())
KINDS = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}
KNOWN = {
    *("$ref", "$defs", "$schema", "title", "description", "type", "properties", "required"),
    *("additionalProperties", "items", "enum", "anyOf", "if", "then", "else", "format", "default"),
    *("discriminator", "minimum", "minLength", "maxLength"),
}


def fits(value, schema):
    """A small validator, of the keywords that occur."""
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        if not fits(value, WHOLE["$defs"][name]):
            return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "anyOf" in schema and not any(fits(value, each) for each in schema["anyOf"]):
        return False
    kind = schema.get("type")
    if kind is not None:
        is_date = schema.get("format") == "date" and hasattr(value, "isoformat")
        right = isinstance(value, KINDS[kind]) and (kind == "boolean") == isinstance(value, bool)
        if not right and not is_date:
            return False
    if isinstance(value, int) and value < schema.get("minimum", value):
        return False
    if isinstance(value, str):
        return schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
    if isinstance(value, list) and "items" in schema:
        return all(fits(each, schema["items"]) for each in value)
    if isinstance(value, dict):
        return fits_object(value, schema)
    return True


def fits_object(value, schema):
    if not set(schema.get("required", ())) <= set(value):
        return False
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, inner in value.items():
        expected = properties.get(name, others)
        if expected is False or (isinstance(expected, dict) and not fits(inner, expected)):
            return False
    if "if" in schema:
        branch = "then" if fits(value, schema["if"]) else "else"
        return fits(value, schema[branch])
    return True


def is_read(text):
    try:
        Schema.loads(text)
    except SchemaError:
        return False
    return True


COLUMN = '[columns.a]\ntype = "numeric"\n'
TEXTS = {
    **dict.fromkeys(
        (
            COLUMN,
            "[columns]",
            "columns.a.type = 'categorical'\ncolumns.a.labels = {x = 'y'}",
            "[columns.a]\ntype = 'categorical'\ngroups = {x = ['y', 'z']}\nother = 'q'",
            "[columns.a]\ntype = 'date'\nas = 'age'\nreference = 2020-01-01",
            "defaults = {type = 'numeric', lower = 0}\n[columns]\na = {}\nb.type = 'boolean'",
            "defaults = {type = 'boolean'}\n[columns]\na = {missing = 'center'}",
            "weights = {column = 'w', upper = 3}\n[columns.w]\ntype = 'ignored'",
            f"title = 'x'\nmissing_codes = [-9, 'x', 1.5]\n{COLUMN}missing_codes = []",
        ),
        True,
    ),
    **dict.fromkeys(
        (
            "title = 'x'",
            "columns = 3",
            "[columns.a]",
            "[columns.a]\nlower = 0",
            "[columns.a]\ntype = 'number'",
            f"{COLUMN}lower = '0'",
            f"{COLUMN}lowr = 0",
            f"{COLUMN}categories = ['x']",
            f"{COLUMN}transform = 'exp'",
            f"rows_per_person = '1'\n{COLUMN}",
            f"intercept = 1\n{COLUMN}",
            f"bounds = 1\n{COLUMN}",
            "defaults = {lower = 0}\n[columns.a]",
            "defaults = {type = 'numeric'}\n[columns.a]\nlowr = 1",
            "[columns.a]\ntype = 'categorical'\ncategories = [1]",
            "weights = {upper = 3}\n[columns.w]\ntype = 'ignored'",
            f"{COLUMN}[file]\nheader = 0",
            f"{COLUMN}[file]\ndelimiter = ''",
            f"{COLUMN}[file]\ndelimiter = ';;'",
            f"{COLUMN}[file]\nquote = '<<'",
        ),
        False,
    ),
}


@pytest.mark.parametrize(("text", "right"), TEXTS.items())
def test_editors_and_the_reader_agree(text, right):
    assert is_read(text) is right
    assert fits(tomllib.loads(text), WHOLE) is right


def test_every_field_is_explained():
    for part, fields in sections().items():
        struct = next((s for tag, s in STRUCTS.items() if tag == part), None)
        others = {"table": None, "weights": "Weights", "file": "FileLayout"}
        name = others.get(part, struct and struct.__name__)
        properties = (WHOLE if name is None else WHOLE["$defs"][name])["properties"]
        assert set(fields) == set(properties)
        for field, (meaning, _) in fields.items():
            # A reference explains itself in its target.
            assert properties[field].get("description") or "$ref" in properties[field], field
            assert meaning.endswith(".")
    assert WHOLE["$schema"].endswith("2020-12/schema")
    assert "null" not in json_schema()


EXAMPLES = [
    (part, field, example)
    for part, fields in sections().items()
    for field, (_, example) in fields.items()
    if (part, field) != ("table", "columns")
]


@pytest.mark.parametrize(("part", "field", "example"), EXAMPLES)
def test_every_example_is_right(part, field, example):
    if part == "table":
        text = f"{example}\n{COLUMN}"
    elif part == "file":
        text = f"{COLUMN}[file]\n{example}"
    elif part == "weights":
        text = f"{COLUMN}[weights]\n" + ("" if field == "column" else "column = 'w'\n") + example
    else:
        text = "[columns.a]\n" + ("" if field == "type" else f'type = "{part}"\n') + example
    assert is_read(text) and fits(tomllib.loads(text), WHOLE)
    assert field in example


def test_a_draft_fits_and_names_the_file(tmp_path):
    (tmp_path / "t.csv").write_text("id,sex,Q1,Q2,Q3,dob,is_ill\n1,F,1,2,3,2020-01-01,true\n")
    text = describe(open_source(tmp_path / "t.csv")).dumps()
    assert fits(tomllib.loads(text), WHOLE)
    assert "\n#:schema ./dpcov.schema.json\n" in text

"""The page on schema files has every field of every struct, as the code has it."""

import tomllib
from pathlib import Path

import pytest

from benchmarks.measured import table
from dpcov import Schema
from dpcov.data.schema.mistakes import STRUCTS
from dpcov.data.schema.reference import sections
from tests.docs.test_blocks import blocks

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/schema.md"
HEADINGS = {
    "table": "The table: at the top of the file",
    "boolean": "Columns of every type",
    **{tag: f"Columns of type `{tag}`" for tag in STRUCTS if tag != "boolean"},
    "weights": "Weights: `[weights]`",
    "file": "Files: `[file]`",
}
# A boolean has the fields of every column, and no others.
COMMON = sections()["boolean"]


def table_of(part):
    """A part of the page as the code has it: paste it where it is missing."""
    own = {
        name: said
        for name, said in sections()[part].items()
        if name not in COMMON or part not in STRUCTS or part == "boolean"
    }
    rows = [(f"`{name}`", meaning, f"`{example}`") for name, (meaning, example) in own.items()]
    return f"### {HEADINGS[part]}\n\n{table([('field', 'meaning', 'example'), *rows])}\n"


@pytest.mark.parametrize("part", HEADINGS)
def test_the_page_has_every_field(part):
    assert table_of(part) in PAGE.read_text(encoding="utf-8")


def test_fields_that_are_said_once_are_those_of_every_column_that_is_not_ignored():
    of_types = [sections()[tag] for tag in STRUCTS if tag != "ignored"]
    assert len(of_types) == 4 and all(list(each)[:4] == list(COMMON) for each in of_types)
    assert set(sections()["ignored"]) & set(COMMON) == {"type", "description"}


def test_every_part_of_a_schema_has_a_heading():
    assert set(HEADINGS) == set(sections())


def test_the_examples_of_the_page_are_schemas():
    found = [code for language, code in blocks(PAGE) if language == "toml"]
    assert len(found) == 2
    for code in found:
        assert Schema.loads(code, complete=True).patterns
        assert tomllib.loads(code)

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
    **{tag: f"Columns of type `{tag}`" for tag in STRUCTS},
    "weights": "Weights: `[weights]`",
    "file": "Files: `[file]`",
}


def table_of(part):
    """A part of the page as the code has it: paste it where it is missing."""
    rows = [
        (f"`{name}`", meaning, f"`{example}`")
        for name, (meaning, example) in sections()[part].items()
    ]
    return f"### {HEADINGS[part]}\n\n{table([('field', 'meaning', 'example'), *rows])}\n"


@pytest.mark.parametrize("part", HEADINGS)
def test_the_page_has_every_field(part):
    assert table_of(part) in PAGE.read_text(encoding="utf-8")


def test_every_part_of_a_schema_has_a_heading():
    assert set(HEADINGS) == set(sections())


def test_the_examples_of_the_page_are_schemas():
    found = [code for language, code in blocks(PAGE) if language == "toml"]
    assert len(found) == 2
    for code in found:
        assert Schema.loads(code, complete=True).patterns
        assert tomllib.loads(code)

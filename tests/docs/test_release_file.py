"""The page on release files describes every field of a manifest."""

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
STRUCTS = json.loads((DOCS / "release-manifest.schema.json").read_text(encoding="utf-8"))["$defs"]
# Those whose fields have lines of their own; the others stand in the line that holds them.
TABLES = {
    "Manifest": "field",
    "EncodedColumn": "field of a column",
    "StatisticsRecord": "field of `statistics`",
}


def tables():
    """The lines of every table under the page's heading, by its first head."""
    page = (DOCS / "release-file.md").read_text(encoding="utf-8")
    section = page.split("## The manifest\n", 1)[1].split("\n## ", 1)[0]
    parts = (part.splitlines() for part in re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE))
    return {part[0].split("|")[1].strip(): part[2:] for part in parts}


def names(text):
    return set(re.findall(r"`([a-z0-9_]+)`", text))


@pytest.mark.parametrize("struct", STRUCTS)
def test_every_field_is_described(struct):
    found = tables()
    fields = set(STRUCTS[struct]["properties"])
    if struct in TABLES:
        first = (line.split("|")[1] for line in found[TABLES[struct]])
        assert fields == {name for cell in first for name in names(cell)}
    else:
        assert fields <= names("\n".join(line for part in found.values() for line in part))

"""The page on release files describes every field of a manifest, and reads one by hand."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import dpcov
from dpcov import Budget, Numeric, Schema, Weights
from dpcov.data.geometry import Geometry, Scale
from tests.docs.test_blocks import blocks

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "release-file.md"
STRUCTS = json.loads((DOCS / "release-manifest.schema.json").read_text(encoding="utf-8"))["$defs"]
# Those whose fields have lines of their own; the others stand in the line that holds them.
TABLES = {
    "Manifest": "field",
    "EncodedColumn": "field of a column",
    "StatisticsRecord": "field of `statistics`",
}


def tables():
    """The lines of every table under the page's heading, by its first head."""
    page = PAGE.read_text(encoding="utf-8")
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


PYTHON = [code for language, code in blocks(PAGE) if language == "python"]
UNIT = Numeric(lower=0, upper=1)
TERMS = {
    "strata in a geometry of its own": {},
    "one matrix": {"geometry": "schema"},
    "several rows a person": {"rows_per_person": 3},
    "weights": {"weights": Weights(column="x2", upper=1)},
    "a known geometry": {"geometry": Geometry(columns={"x0": Scale(center=0.5, scale=0.2)})},
}


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
def test_reading_by_hand_gives_what_a_release_says(terms, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    terms = dict(terms)
    columns = dict.fromkeys(("x0", "x1", "x2"), UNIT)
    facts = {name: terms.pop(name) for name in ("weights", "rows_per_person") if name in terms}
    schema = Schema(columns=columns, **facts)
    rows = np.random.default_rng(0).uniform(size=(4000, 3))
    budget = Budget(epsilon=1, delta="1e-6")
    dpcov.release(rows, schema=schema, budget=budget, output="demo.dpcov", **terms)
    names = {}
    by_hand, comparison, guarantee = PYTHON
    exec(by_hand + comparison, names)
    exec(guarantee, names)
    assert 1e-7 < names["delta"] < 1.00001e-6
    # Half the noise would be found.
    exec(guarantee.replace("Fraction(record", "Fraction(1, 4) * Fraction(record"), names)
    assert names["delta"] > 1e-5

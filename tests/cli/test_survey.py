"""``dpcov survey``: a geometry alone, used at no cost by releases and saved moments."""

import numpy as np
import pytest

import dpcov
from dpcov.data.geometry import Geometry

SCHEMA = """
[columns.x]
type = "numeric"
lower = -10000
upper = 10000
[columns.y]
type = "numeric"
lower = -10000
upper = 10000
"""


@pytest.fixture
def wide(desk):
    """The desk with a table of a few thousand rows and bounds that are far too wide."""
    rng = np.random.default_rng(0)
    rows = rng.normal(50, 10, size=(4000, 1)) + rng.normal(0, 5, size=(4000, 2))
    np.savetxt(desk.data, rows, delimiter=",", header="x,y", comments="")
    desk.schema.write_text(SCHEMA)
    desk.geometry = desk.folder / "geometry.toml"
    desk.terms = ("--schema", desk.schema, "-o", desk.geometry)
    return desk


def test_one_survey_serves_releases_and_moments(wide):
    budget = "survey --rho 0.1 --for-rho 0.4"
    told = wide.done(budget, wide.data, *wide.terms, *wide.paid)
    assert "costs nothing to use" in told
    assert "# found with (0.1)-zCDP" in wide.geometry.read_text()
    assert "chosen for releases with (0.4)-zCDP" in wide.geometry.read_text()
    found = Geometry.from_toml(wide.geometry)
    assert found.columns["x"].center == pytest.approx(50, abs=12)
    assert wide.release("--geometry", wide.geometry, rho="0.4").exit_code == 0
    made = dpcov.load(wide.output)
    assert made.manifest.norm_bound == found.norm_bound
    key, saved = wide.folder / "k", wide.folder / "all.moments"
    wide.done("moments key", key)
    same = ("--schema", wide.schema, "--key", key, "-o", saved)
    told = wide.done("moments checkpoint --rho 0.4", wide.data, *same)
    assert "geometry of the bounds" in told
    known = ("--geometry", wide.geometry, "--overwrite")
    told = wide.done("moments checkpoint --rho 0.4", wide.data, *same, *known)
    assert "geometry of the bounds" not in told
    assert wide.states() == ["committed", "committed"]
    more = wide.release("--overwrite", "--key", key, data=saved, rho="0.4")
    assert more.exit_code == 0, more.output
    assert dpcov.load(wide.output).manifest.columns == made.manifest.columns


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("--rho 0.00002 --no-ledger", 5, "so few rows"),
        ("--rho 0.00002 --no-ledger --rows 4000", 5, "so few rows"),
        ("--rho 0.1", 2, "--no-ledger"),
        ("--no-ledger", 2, "State the budget"),
        ("--rho 0.1 --no-ledger --for-delta 1e-6", 5, "No promise"),
        ("--rho 0.1 --no-ledger --seed 7", 2, "--not-private"),
        ("--epsilon 1 --delta 0.01 --no-ledger", 5, "--accept-large-delta"),
    ],
)
def test_what_cannot_be_is_refused(wide, arguments, code, words):
    refused = wide.run(f"survey {arguments}", wide.data, *wide.terms)
    wide.assert_refused(refused, code, words)


def test_a_seeded_survey_says_that_it_protects_nobody(wide):
    told = wide.done("survey --rho 0.1 --no-ledger --seed 7 --not-private", wide.data, *wide.terms)
    assert "WARNING: not private" in told
    assert wide.geometry.read_text().startswith("# NOT PRIVATE")
    given = ("release --rho 0.1 --no-ledger --geometry", wide.geometry, wide.data)
    assert "WARNING: not private" in wide.done(*given, "--schema", wide.schema, "-o", wide.output)

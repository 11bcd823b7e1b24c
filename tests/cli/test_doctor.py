"""``dpcov doctor``."""

import json

import numpy as np
import pyarrow as pa

import dpcov
from tests.published.mistakes import MISTAKES, released


def test_doctor_prints_verdicts_causes_and_advice(desk):
    made = released("hospital", 7, [MISTAKES[0], MISTAKES[2]])
    made.save(desk.folder / "ill.dpcov")
    told = desk.done("doctor", desk.folder / "ill.dpcov")
    assert told.startswith(made.diagnose().headline)
    # Those that are not among the columns that can be used were taken for lost in the noise.
    wrong = sum(column.verdict == "suspicious" for column in made.diagnose().columns)
    assert wrong > 1 and f"can be used ({wrong} look like a mistake); their" in told
    assert "▲ height: Its mean lies at the lower bound" in told
    assert "▲ ward: Its labels hold" in told
    assert "● " in told


def test_doctor_tells_programs_the_same(desk):
    made = released("hospital", 7, [MISTAKES[0], MISTAKES[2]])
    made.save(desk.folder / "ill.dpcov")
    told = json.loads(desk.done("doctor --json", desk.folder / "ill.dpcov"))
    found = made.diagnose()
    assert told["headline"] == found.headline and told["typical"] == found.typical
    for column, own in zip(found.columns, told["columns"], strict=True):
        # What is not known is null.
        known = {name: None if x != x else x for name, x in vars(column).items()}
        assert own == known


def test_doctor_says_that_numbers_are_of_all_groups_together(desk):
    columns = {
        "x": dpcov.Numeric(lower=-1, upper=1),
        "g": dpcov.Categorical(categories=["a", "b, c"]),
    }
    table = pa.table({"x": np.linspace(-1, 1, 400), "g": ["a", "b, c"] * 200})
    schema, budget = dpcov.Schema(columns=columns), dpcov.Budget(rho=1)
    dpcov.release(table, schema=schema, budget=budget, by="g").save(desk.folder / "g.dpcov")
    # As a shell takes them.
    said = "all groups together. One alone: --group a, 'b, c', '(other)'."
    assert desk.done("doctor", desk.folder / "g.dpcov").strip().endswith(said)
    assert "together" not in desk.done("doctor", desk.folder / "g.dpcov", "--group", "a")

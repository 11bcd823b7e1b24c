import json
import re
from fractions import Fraction

import pytest

import dpcov
from dpcov.errors import BudgetError, ReleaseError
from dpcov.pipeline.plan import page as plan_page
from dpcov.pipeline.plan.page import render_plan, sweep
from dpcov.pipeline.plan.rehearsal import Rehearsal

BUDGET = dpcov.Budget(epsilon="1", delta="1e-6")
WARDS = dpcov.Categorical(categories=("north", "<i>south</i>"))
AGE = dpcov.Numeric(lower=0, upper=120, unit="years")
SCHEMA = dpcov.Schema(columns={"age": AGE, "ward": WARDS})


@pytest.fixture(scope="module")
def plan():
    return Rehearsal(schema=SCHEMA, n_rows=3000)


@pytest.fixture(scope="module")
def swept(plan):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_page, "FACTORS", tuple(map(Fraction, ("0.1", "0.5", "1", "10"))))
        return sweep(plan, BUDGET)


@pytest.mark.parametrize(("place", "amount"), [(0, "0.1"), (2, "1"), (3, "10")])
def test_every_number_is_rehearsed_at_that_budget(plan, swept, place, amount):
    stop, budget = swept[place], dpcov.Budget(epsilon=amount, delta="1e-6")
    assert stop.budget == budget
    assert stop.words["text"] == amount
    assert stop.words["headline"] == plan.at(budget).diagnosis.headline


def test_the_page_holds_the_numbers_of_every_stop(plan, swept):
    page = render_plan(plan, BUDGET, swept).decode()
    stops = json.loads(re.search(r'id="plan-data">(.*?)</script>', page)[1])["stops"]
    for shown, stop in zip(stops, swept, strict=True):
        assert shown["cells"] == stop.planned.cells
        assert len(shown["cells"]) == 3
    assert [stop["x"] for stop in stops] == sorted(stop["x"] for stop in stops)
    assert "&lt;i&gt;south&lt;/i&gt;" in page
    assert "made-up rows" in page and "age [years]" in page
    assert "Frobenius" not in page


def test_one_column_has_no_correlations():
    one = Rehearsal(schema=dpcov.Schema(columns={"age": SCHEMA.columns["age"]}), n_rows=3000)
    page = render_plan(one, BUDGET, [plan_page.Stop(BUDGET, one.at(BUDGET), ())]).decode()
    assert "There is one column" in page and "two columns can be used" not in page


@pytest.mark.parametrize(
    ("budget", "unit", "largest"),
    [
        (dpcov.Budget(rho="0.5"), "rho", 5),
        (dpcov.Budget(epsilon=50, delta="1e-6"), "epsilon", 100),
        (dpcov.Budget(epsilon="1"), "epsilon", 10),
    ],
)
def test_the_grid_follows_the_kind_of_budget_and_stays_meaningful(plan, budget, unit, largest):
    told = []
    made = sweep(plan, budget, lambda *steps: told.append(steps))
    assert told == [(done, len(made)) for done in range(1, len(made) + 1)]
    assert budget in [stop.budget for stop in made]
    assert len(made) >= 7
    assert made[-1].amount == largest
    assert f"Width ± of correlations against {unit}" in render_plan(plan, budget, made).decode()


def test_budgets_too_small_to_draw_their_noise_are_left_out(monkeypatch):
    """A page of a small budget that can be released ended in an error."""
    monkeypatch.setattr(plan_page, "FACTORS", (Fraction(1, 10), Fraction(1), Fraction(2)))
    few, small = Rehearsal(schema=SCHEMA, n_rows=60), dpcov.Budget(rho="1e-7")
    told = []
    stops = sweep(few, small, lambda *steps: told.append(steps))
    assert [stop.amount for stop in stops] == [1e-7, 2e-7] and told[-1] == (3, 3)
    assert b"None of 3 columns" in render_plan(few, small, stops)
    with pytest.raises(BudgetError, match="too much noise"):
        sweep(few, dpcov.Budget(rho="1e-9"))


def test_the_page_says_what_would_help_at_the_budget_that_was_asked_for(monkeypatch):
    monkeypatch.setattr(plan_page, "FACTORS", (Fraction(1, 2), Fraction(1)))
    columns = {f"x{place}": dpcov.Numeric(lower=0, upper=1) for place in range(20)}
    plan = Rehearsal(schema=dpcov.Schema(columns=columns, missing="never"), n_rows=500)
    told = []
    stops = sweep(plan, BUDGET, lambda *steps: told.append(steps))
    others = [what for what, _ in plan.cheaper(lost=True)]
    assert len(others) > 1
    # Every rehearsal is a step; those of what would help are known when it is their turn.
    steps = range(3, len(others) + 3)
    assert told == [(1, 2), (2, 2), *((done, 2 + len(others)) for done in steps)]
    helps = "What would help at (1, 1e-6)-DP. With a quarter of the columns: ±0."
    assert [stop.remarks[0].startswith(helps) for stop in stops] == [False, True]
    assert helps in render_plan(plan, BUDGET, stops).decode()


def test_the_only_budget_at_which_something_can_be_read_shows_on_the_chart(monkeypatch):
    monkeypatch.setattr(plan_page, "FACTORS", (Fraction(1, 10), Fraction(1, 2), Fraction(1)))
    plan = Rehearsal(schema=SCHEMA, n_rows=400)
    stops = sweep(plan, BUDGET)
    known = [stop for stop in stops if stop.planned.diagnosis.typical > 0]
    page = render_plan(plan, BUDGET, stops).decode()
    assert len(known) == 1 and page.count("<circle") == 2


def test_where_nothing_can_be_read_the_page_says_so():
    plan = Rehearsal(schema=SCHEMA, n_rows=3)
    stops = sweep(plan, BUDGET)[:1]
    page = render_plan(plan, stops[0].budget, stops).decode()
    assert "With none of these budgets two columns can be used." in page
    assert "None of 3 columns can be used" in page


def test_the_command_writes_the_page_and_refuses_early_to_overwrite(desk, monkeypatch):
    monkeypatch.setattr(plan_page, "FACTORS", (Fraction(1, 2), Fraction(1)))
    page, schema = desk.folder / "plan.html", desk.folder / "ward.toml"
    SCHEMA.save(schema)
    command = f"plan --rows 5000 --schema {schema} --rho 1 --html {page}"
    desk.done(command)
    assert b"plan-data" in page.read_bytes()
    result = desk.run(command)
    assert result.exit_code == ReleaseError.exit_code
    assert "can be used" not in result.output
    desk.done(command, "--overwrite")

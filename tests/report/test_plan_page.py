import json
import re
from fractions import Fraction

import pytest

import dpcov
from dpcov.errors import ReleaseError
from dpcov.mechanisms.auto import choose
from dpcov.pipeline.plan import page as plan_page
from dpcov.pipeline.plan.page import render_plan, sweep
from dpcov.pipeline.plan.predict import Assumption, predict
from dpcov.report.charts import number

BUDGET = dpcov.Budget(epsilon="1", delta="1e-6")
FEW = ("auto", "zero", "gaussian")


def assumed(trace, budget=BUDGET):
    return Assumption(n_rows=5000, n_features=150, budget=budget, trace=trace)


TRACES = [assumed(1.0), assumed(0.1)]


@pytest.fixture(scope="module", autouse=True)
def few_mechanisms():
    """Predict the quick mechanisms only, the same way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_page, "predict", lambda assumed: predict(assumed, FEW))
        yield


@pytest.fixture(scope="module")
def swept(few_mechanisms):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_page, "FACTORS", tuple(map(Fraction, ("0.1", "0.5", "1", "10"))))
        return sweep(TRACES)


@pytest.mark.parametrize(("place", "amount"), [(0, "0.1"), (2, "1"), (3, "10")])
def test_every_number_is_a_prediction_at_that_budget(swept, place, amount):
    stop, budget = swept[place], dpcov.Budget(epsilon=amount, delta="1e-6")
    assert stop.budget == budget
    assert stop.words["text"] == amount
    assert stop.choice == choose(assumed(0.1).problem, budget)
    assert list(stop.found[1].values()) == list(predict(assumed(0.1, budget), FEW))


def test_the_page_holds_the_numbers_of_every_stop(swept):
    page = render_plan(TRACES, swept).decode()
    stops = json.loads(re.search(r'id="plan-data">(.*?)</script>', page)[1])["stops"]
    for shown, stop in zip(stops, swept, strict=True):
        assert shown["cells"][0][FEW.index("auto")] == number(stop.found[0]["auto"].relative_error)
    assert [stop["x"] for stop in stops] == sorted(stop["x"] for stop in stops)


@pytest.mark.parametrize(
    ("budget", "unit", "largest"),
    [
        (dpcov.Budget(rho="0.5"), "rho", 5),
        (dpcov.Budget(epsilon=50, delta="1e-6"), "epsilon", 100),
        (dpcov.Budget(epsilon="1"), "epsilon", 10),
    ],
)
def test_the_grid_follows_the_kind_of_budget_and_stays_meaningful(budget, unit, largest):
    told = []
    wide = Assumption(n_rows=100, n_features=100, budget=budget)
    made = sweep([wide], lambda *steps: told.append(steps))
    assert told == [(done, len(made)) for done in range(1, len(made) + 1)]
    assert budget in [stop.budget for stop in made]
    assert len(made) >= 7
    assert made[-1].amount == largest
    assert f"Expected relative error against {unit}".encode() in render_plan([wide], made)


def test_the_command_writes_the_page_and_refuses_early_to_overwrite(desk):
    page = desk.folder / "plan.html"
    command = f"plan --rows 5000 --features 300 --rho 1 --geometry schema --trace 0.1 --html {page}"
    desk.done(command)
    assert b"plan-data" in page.read_bytes()
    result = desk.run(command)
    assert result.exit_code == ReleaseError.exit_code
    assert "relative error" not in result.output
    desk.done(command, "--overwrite")

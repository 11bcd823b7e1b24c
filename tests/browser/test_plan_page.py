import pytest

import dpcov
from dpcov.mechanisms.auto import Choice
from dpcov.pipeline.plan.page import Stop, render_plan
from dpcov.pipeline.plan.predict import Assumption, Prediction

SLIDE = """
const slider = document.getElementById("budget");
slider.value = arguments[0];
slider.dispatchEvent(new Event("input"));
"""


BUDGETS = [dpcov.Budget(epsilon=epsilon, delta="1e-6") for epsilon in ("0.1", "0.3", 1, "1.5", 10)]


def made(mechanism, error, kind="simulated"):
    return Prediction(mechanism=mechanism, error=error, relative_error=error, kind=kind)


def stop(budget):
    """Made-up errors that fall with the budget; one cannot be predicted at the last trace."""
    epsilon, found = float(budget.epsilon), []
    for factor in (1, 2, 3):
        auto, bound = 0.1 * factor / epsilon, 0.3 * factor / epsilon
        row = [made("auto", auto), made("gaussian", bound, "bound"), made("zero", 1.0)]
        found.append({each.mechanism: each for each in row})
    del found[2]["gaussian"]
    name = "gaussian" if epsilon > 1 else "stratified"
    return Stop(budget, Choice(mechanism=name, reason="of the test"), found)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan.html"
    assumptions = [
        Assumption(n_rows=5000, n_features=40, budget=BUDGETS[2], trace=trace)
        for trace in (1.0, 0.3, 0.1)
    ]
    path.write_bytes(render_plan(assumptions, list(map(stop, BUDGETS))))
    return path


NUMBERS = "return [...document.querySelectorAll('[data-cell]')].map((cell) => cell.textContent)"
PLACE = "return Number(document.querySelector('.now').getAttribute('x1'))"


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (360, True)])
def test_the_page_is_drawn_without_complaint_at_any_width(browser, page, width, dark):
    browser.open(page, width, dark=dark)
    browser.screenshot(f"plan-{width}")
    assert browser.complaints() == []
    assert not browser.scrolls_sideways()
    assert "auto chooses stratified" in browser.text("#auto")


def test_the_slider_changes_budget_numbers_choice_and_marker(browser, page):
    browser.open(page)
    assert browser.text("#amount") == "1"
    before, place = browser.run(NUMBERS), browser.run(PLACE)
    browser.run(SLIDE, 0)
    assert browser.text("#amount") == "0.1"
    assert "(0.1, 1e-6)-DP" in browser.text("#auto")
    assert browser.run(NUMBERS) != before
    assert browser.run(PLACE) < place
    cells = [browser.text(f"[data-cell='{cell}']") for cell in ("0,0", "0,1", "2,0", "2,1")]
    assert cells == ["1", "<3", "3", "–"]
    browser.run(SLIDE, 4)
    assert "auto chooses gaussian" in browser.text("#auto")


def test_the_slider_works_from_the_keyboard(browser, page):
    browser.open(page)
    browser.keys("#budget", "\ue014")  # right
    assert browser.text("#amount") == "1.5"
    assert browser.find("#budget").get_attribute("aria-valuetext") == "1.5"


def test_the_chart_of_the_assumed_trace_is_shown(browser, page):
    figures = "[...document.querySelectorAll('[data-trace]')].filter((f) => !f.hidden)"
    shown = f"return {figures}.map((f) => f.dataset.trace)"
    browser.open(page)
    assert browser.run(shown) == ["1"]
    browser.choose("trace", 2)
    assert browser.run(shown) == ["2"]

import pytest

import dpcov
from dpcov import plan_sweep
from dpcov.plan import Assumption, predict
from dpcov.report.plan_page import render_plan

SLIDE = """
const slider = document.getElementById("budget");
slider.value = arguments[0];
slider.dispatchEvent(new Event("input"));
"""


@pytest.fixture(scope="module")
def swept():
    few = ("auto", "zero", "gaussian", "stratified")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_sweep, "predict", lambda assumed: predict(assumed, few))
        budget = dpcov.Budget(epsilon="1", delta="1e-6")
        return plan_sweep.sweep(
            [Assumption(n_rows=5000, n_features=40, budget=budget, trace=trace) for trace in (1.0, 0.3, 0.1)]
        )


@pytest.fixture(scope="module")
def page(swept, tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan.html"
    path.write_bytes(render_plan(swept))
    return path


def numbers(browser):
    return browser.run("return [...document.querySelectorAll('[data-cell]')].map((cell) => cell.textContent)")


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (360, True)])
def test_the_page_is_drawn_without_complaint_at_any_width(browser, page, width, dark):
    browser.open(page, width, dark=dark)
    browser.screenshot(f"plan-{width}")
    assert browser.complaints() == []
    assert not browser.scrolls_sideways()
    assert "auto chooses stratified" in browser.text("#auto")


def test_the_slider_changes_budget_numbers_choice_and_marker(browser, page, swept):
    browser.open(page)
    assert browser.text("#amount") == "1"
    before, place = numbers(browser), browser.run("return document.querySelector('.now').getAttribute('x1')")
    browser.run(SLIDE, 0)
    assert browser.text("#amount") == "0.1"
    assert "(0.1, 1e-6)-DP" in browser.text("#auto")
    assert numbers(browser) != before
    assert float(browser.run("return document.querySelector('.now').getAttribute('x1')")) < float(place)
    auto, gaussian = (swept.mechanisms.index(name) for name in ("auto", "gaussian"))
    shown = {place: browser.text(f"[data-cell='2,{place}']") for place in (auto, gaussian)}
    for place, text in shown.items():
        assert float(text) == pytest.approx(swept.stops[0].errors[2][place], rel=6e-3)


def test_the_slider_works_from_the_keyboard(browser, page):
    browser.open(page)
    browser.keys("#budget", "\ue014")  # right
    assert browser.text("#amount") == "1.5"
    assert browser.find("#budget").get_attribute("aria-valuetext") == "1.5"


def test_the_chart_of_the_assumed_trace_is_shown(browser, page):
    shown = "return [...document.querySelectorAll('[data-trace]')].filter((f) => !f.hidden).map((f) => f.dataset.trace)"
    browser.open(page)
    assert browser.run(shown) == ["1"]
    browser.run(
        "const t = document.getElementById('trace'); t.value = '2'; t.dispatchEvent(new Event('change'))"
    )
    assert browser.run(shown) == ["2"]

import numpy as np
import pytest

import dpcov
from dpcov.pipeline.plan.page import render_plan, sweep
from dpcov.pipeline.plan.rehearsal import Rehearsal
from tests.published.mistakes import TABLES

SLIDE = """
const slider = document.getElementById("budget");
slider.value = arguments[0];
slider.dispatchEvent(new Event("input"));
"""
BUDGET = dpcov.Budget(epsilon=1, delta="1e-6")


KINDS = TABLES["hospital"](np.random.default_rng(0), 9)[1]
REHEARSAL = Rehearsal(schema=dpcov.Schema(columns=KINDS), n_rows=5000)


@pytest.fixture(scope="module")
def stops():
    return sweep(REHEARSAL, BUDGET)


@pytest.fixture(scope="module")
def page(tmp_path_factory, stops):
    path = tmp_path_factory.mktemp("plan") / "plan.html"
    path.write_bytes(render_plan(REHEARSAL, BUDGET, stops))
    return path


NUMBERS = "return [...document.querySelectorAll('[data-cell]')].map((cell) => cell.textContent)"
PLACE = "return Number(document.querySelector('.now').getAttribute('x1'))"


# Colors do not move anything, and widths color nothing.
@pytest.mark.parametrize(("width", "dark"), [(1400, False), (800, True), (380, False)])
def test_the_page_is_drawn_without_complaint_at_any_width(browser, page, width, dark):
    browser.open(page, width, dark=dark)
    browser.screenshot(f"plan-{width}-{'dark' if dark else 'light'}")
    assert browser.complaints() == []
    assert not browser.scrolls_sideways()
    assert browser.clipped() == []


def test_the_slider_changes_budget_numbers_headline_and_marker(browser, page, stops):
    browser.open(page)
    assert browser.text("#amount") == "1"
    before, place = browser.run(NUMBERS), browser.run(PLACE)
    assert before == [cell for row in stops[5].planned.cells for cell in row]
    browser.run(SLIDE, 0)
    assert browser.text("#amount") == "0.1"
    assert "(0.1, 1e-6)-DP" in browser.text("#told")
    assert stops[0].words["headline"] in browser.text("#told")
    assert "52.5" in browser.text("#certainty")
    assert browser.run(NUMBERS) == [cell for row in stops[0].planned.cells for cell in row]
    assert browser.run(PLACE) < place


def test_the_slider_works_from_the_keyboard(browser, page):
    browser.open(page)
    browser.keys("#budget", "\ue014")  # right
    assert browser.text("#amount") == "1.5"
    assert browser.find("#budget").get_attribute("aria-valuetext") == "1.5"

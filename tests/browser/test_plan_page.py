import pytest

from dpcov.pipeline.plan.page import PlanStop, PlanSweep, render_plan

SLIDE = """
const slider = document.getElementById("budget");
slider.value = arguments[0];
slider.dispatchEvent(new Event("input"));
"""


def stop(epsilon):
    """Made-up errors that fall with the budget; one cannot be predicted at the last trace."""
    rows = [(0.1 * factor / epsilon, 0.3 * factor / epsilon, 1.0) for factor in (1, 2, 3)]
    rows[2] = (rows[2][0], None, 1.0)
    return PlanStop(
        amount=epsilon,
        text=f"{epsilon:g}",
        promise=f"({epsilon:g}, 1e-6)-DP",
        choice="gaussian" if epsilon > 1 else "stratified",
        reason="of the test",
        errors=tuple(rows),
        bounds=((False, True, False),) * 3,
    )


@pytest.fixture(scope="module")
def swept():
    return PlanSweep(
        n_rows=5000,
        n_features=40,
        neighbors="replace-one",
        spectrum="power",
        unit="epsilon",
        fixed=", delta 1e-6",
        traces=(1.0, 0.3, 0.1),
        mechanisms=("auto", "gaussian", "zero"),
        stops=tuple(stop(epsilon) for epsilon in (0.1, 0.3, 1.0, 1.5, 10.0)),
        start=2,
    )


@pytest.fixture(scope="module")
def page(swept, tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan.html"
    path.write_bytes(render_plan(swept))
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


def test_the_slider_changes_budget_numbers_choice_and_marker(browser, page, swept):
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

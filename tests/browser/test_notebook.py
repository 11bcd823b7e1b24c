"""Objects of a notebook in a real browser: hostile names run nothing, and text stays readable."""

import pytest

pytest.importorskip("sklearn")
from tests.test_markup import KINDS, objects

DARK = "html { color-scheme: dark } body { background: #111; color: #ddd }"


@pytest.mark.parametrize("style", ["", DARK], ids=["light", "dark"])
def test_objects_run_nothing_and_take_the_colors_of_the_page(browser, tmp_path, style):
    shown = "<hr>".join(objects()[kind]._repr_html_() for kind in KINDS)
    page = tmp_path / "objects.html"
    page.write_text(
        f"<!doctype html><meta charset=utf-8><title>objects</title><style>{style}</style>{shown}",
        encoding="utf-8",
    )
    browser.open(page, width=900, dark=bool(style))
    assert browser.run("return window.hacked === undefined && !document.scripts.length")
    assert not browser.complaints()
    assert not browser.scrolls_sideways()
    # No text has a color or a ground of its own.
    looks = browser.run(
        """const base = getComputedStyle(document.body).color;
        return [...document.querySelectorAll("body *:not(hr)")].filter((each) => {
          const style = getComputedStyle(each);
          return style.color !== base || style.backgroundColor !== "rgba(0, 0, 0, 0)";
        }).length"""
    )
    assert looks == 0
    browser.screenshot(f"notebook-{'dark' if style else 'light'}")

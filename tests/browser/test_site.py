"""Pages of the documentation fit a window of 1,000 pixels, and their links can be read."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Boxes of tables, in which a table that is too wide would scroll.
WIDE = """return [...document.querySelectorAll("article table")]
  .filter((table) => table.scrollWidth > table.closest("article").clientWidth + 1
    || table.parentElement.scrollWidth > table.parentElement.clientWidth + 1)
  .map((table) => table.innerText.slice(0, 80))"""

# How much links, and the words on top, stand out from what is behind them (WCAG 2).
CONTRAST = """const parts = (color) => color.match(/[0-9.]+/g).slice(0, 3).map(Number);
const light = (color) => parts(color).map((v) => v / 255)
  .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
const style = (found) => getComputedStyle(document.querySelector(found));
return [
  ["article a:has(code) code", "article a:has(code) code"],
  ["article p a:not(:has(code))", "body"],
  [".md-header__title", ".md-header"],
].map(([words, behind]) => {
  const both = [light(style(words).color), light(style(behind).backgroundColor)];
  return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
});"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="needs the extra docs")
def test_every_table_fits_a_window_of_1000_pixels(browser, tmp_path):
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=280)
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        browser.open(page, width=1000)
        assert not browser.run(WIDE), page.relative_to(site)
        assert not browser.scrolls_sideways(), page.relative_to(site)
    # From the disk, where it would find nothing.
    browser.open(site / "paths" / "analyst.html")
    field = "return document.querySelector('.md-search__input')"
    assert browser.run(f"{field}.disabled") and "mkdocs serve" in browser.run(
        f"{field}.placeholder"
    )
    for dark in (False, True):
        browser.open(site / "faq.html", dark=dark)
        browser.run("localStorage.clear()")
        browser.open(site / "faq.html", dark=dark)
        assert min(browser.run(CONTRAST)) >= 4.5, dark
    # The check sees a table that does not fit.
    browser.run(
        "document.querySelector('article').innerHTML = arguments[0]", f"<table><td>{'x' * 999}"
    )
    assert browser.run(WIDE)

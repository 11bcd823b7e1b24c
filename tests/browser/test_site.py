"""No page of the documentation has to be scrolled sideways in a window of 1,000 pixels."""

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
    # The check sees a table that does not fit.
    browser.run(
        "document.querySelector('article').innerHTML = arguments[0]", f"<table><td>{'x' * 999}"
    )
    assert browser.run(WIDE)

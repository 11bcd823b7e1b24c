"""The documentation site builds strictly and offline, and no page loads from elsewhere."""

import importlib.util
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
ELSEWHERE = re.compile(r"^\s*(?:[a-z]+:)?//", re.IGNORECASE)
URL = r"((?:https?:)?//[^'\")]+)"
TABLE = re.compile(r"\|.*\|\n\|[ :|-]+\|\n\|")
STYLE_LOADS = re.compile(rf"url\(\s*['\"]?{URL}|@import\s+['\"]{URL}")
LOADING_LINKS = "stylesheet preload prefetch preconnect dns-prefetch icon modulepreload manifest"


class Loads(HTMLParser):
    """What a browser fetches for a page without being asked to by its reader."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "link" and not set(LOADING_LINKS.split()) & set((given.get("rel") or "").split()):
            return
        names = () if tag == "a" else ("src", "srcset", "poster", "data")
        names += ("href",) if tag in ("link", "use", "image") else ()
        fetched = (given.get(name) or "" for name in names)
        self.found += filter(ELSEWHERE.match, fetched)


def foreign_loads(folder):
    found = set()
    for page in folder.rglob("*.html"):
        parser = Loads()
        parser.feed(page.read_text(encoding="utf-8"))
        found |= {(page.name, address) for address in parser.found}
    for sheet in [*folder.rglob("*.css"), *folder.rglob("*.svg")]:
        for match in STYLE_LOADS.finditer(sheet.read_text(encoding="utf-8")):
            found.add((sheet.name, match[1] or match[2]))
    return found


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="needs the extra docs")
def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path):
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-4000:]
    assert not foreign_loads(site)
    assert not [*site.rglob("*.py"), *site.rglob("*.pyc")]
    assert not re.findall(r"contains a link .*", done.stderr)
    reference = (site / "reference" / "releasing.html").read_text(encoding="utf-8")
    assert "Budget" in reference and not re.search(r":(class|func|meth):|replace - one", reference)


def test_loads_from_elsewhere_are_seen(tmp_path):
    (tmp_path / "a.html").write_text(
        '<link rel="canonical" href="https://here.example/"><a href="https://read.example/">more</a>'
        '<link rel="stylesheet" href="https://one.example/x.css">'
        '<script src="//two.example/x.js"></script>'
    )
    style = "@import 'https://three.example/x.css'; a {background: url(//four.example/x)}"
    (tmp_path / "a.css").write_text(style)
    found = {re.search(r"(\w+)\.example", address)[1] for _, address in foreign_loads(tmp_path)}
    assert found == {"one", "two", "three", "four"}


def broken_tables(text):
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [part for part in text.split("\n\n") if part.startswith("| ") and not TABLE.match(part)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_are_whole(page):
    assert not broken_tables(page.read_text(encoding="utf-8"))


def test_a_blank_line_within_a_table_is_seen():
    head = "| what | how |\n| --- | --- |\n"
    assert not broken_tables(f"{head}| a | b |\n| c | d |\n")
    assert broken_tables(f"{head}\n| a | b |\n")
    assert broken_tables(f"{head}| a | b |\n\n| c | d |\n")

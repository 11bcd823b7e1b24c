"""Measured numbers stand in committed files; pages show them, and do not become notebooks."""

import io
import re

import pytest

from benchmarks import measured

DOCS = measured.DOCS
BENCHMARKS = DOCS.parent / "benchmarks"
PAGES = sorted(DOCS.rglob("*.md"))
HOW_IT_WORKS = ("strata", "shrinkage", "pure", "noise", "nuclear-noise", "bingham")
HOW_IT_WORKS += ("inference", "audit", "engines", "report", "limitations", "threat-model")
NUMBERS, MEASUREMENTS = 40, 12
NUMBER = re.compile(r"(?<![\w.^_])\d+(?:[.,]\d+)*")
MEASUREMENT = re.compile(r"(?<![\w.^_])(?:\d+(?:,\d+)*\.\d+|\d+ %)")


def sentences(text):
    """A page without tables, code, formulas on lines of their own, and targets of links."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith(("|", "    "))]
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", "\n".join(lines))


def too_many(text):
    """Numbers before the derivation, and measured ones in it, beyond what a reader can take."""
    page, _, derivation = sentences(text).partition("## Derivation")
    numbers, measurements = NUMBER.findall(page), MEASUREMENT.findall(derivation)
    return len(numbers) > NUMBERS or len(measurements) > MEASUREMENTS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_says_what_the_files_say(page):
    text = page.read_text(encoding="utf-8")
    assert measured.written(text) == text, "python -m benchmarks.measured"


def test_every_file_is_shown_once_or_linked_or_read_by_a_benchmark():
    sources = [path.read_text(encoding="utf-8") for path in BENCHMARKS.rglob("*.py")]
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    shown = [name for text in texts for name in measured.shown(text)]
    for path in measured.RESULTS.glob("*.csv"):
        read = any(f'"{path.name}"' in source for source in sources)
        linked = any(f"{path.name})" in text for text in texts)
        assert shown.count(path.name) == 1 or (linked and path.name not in shown) or read, path.name


@pytest.mark.parametrize("name", HOW_IT_WORKS)
def test_a_page_on_how_it_works_is_no_notebook(name):
    assert not too_many((DOCS / f"{name}.md").read_text(encoding="utf-8"))


def test_a_notebook_and_an_edited_table_are_seen():
    assert too_many("The error is 0.123. " * 41)
    assert too_many("# Page\n## Derivation\n" + "It is 4 % larger. " * 13)
    assert not too_many("| 1 |\n" * 50 + "`1`, [one](1.md)\n" * 50 + "    1\n" * 50)
    name = "noise-speed.csv"
    text = measured.written(f"<!-- {name} -->\n<!-- end -->")
    assert measured.written(text.replace("42", "43")) == text != text.replace("42", "43")
    with pytest.raises(SystemExit, match="one block"):
        measured.written(f"<!-- {name} -->\n")


def test_what_a_benchmark_prints_becomes_the_files_in_order(tmp_path, monkeypatch):
    names = ["engines-engines.csv", "audit-ours.csv", "pure-dong7.csv"]
    lines = {name: measured.results(name) for name in names}
    printed = "\n\nnext:\n\n".join(measured.table(each) for each in lines.values())
    monkeypatch.setattr(measured, "RESULTS", tmp_path)
    monkeypatch.setattr(measured, "DOCS", tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"before\n\n{printed}\n\nafter\n"))
    monkeypatch.setattr("sys.argv", ["measured", "--store", *names])
    measured.main()
    assert {name: measured.results(name) for name in names} == lines


@pytest.mark.parametrize("page", ["README.md", "docs/measured/accuracy.md", "docs/index.md"])
def test_the_first_pages_say_half_the_error(page):
    head, *lines = measured.results("accuracy-zcdp.csv")
    mean = lines[-1][head.index("mean r")]
    assert lines[-1][0] == "all" and lines[-1][head.index("points")] == "128"
    assert 0.45 < float(mean) < 0.55
    assert re.search(r"\bhalf\b", (DOCS.parent / page).read_text(encoding="utf-8"), re.IGNORECASE)

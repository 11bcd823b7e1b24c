"""What the pages point to exists: files, and tests by name."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "src").rglob("*.md"),
        *(ROOT / "benchmarks").rglob("*.md"),
    ]
)


def outside_code(text):
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page):
    targets = re.findall(
        r"\]\(([^)#\s]+)(?:#[^)]*)?\)", outside_code(page.read_text(encoding="utf-8"))
    )
    missing = [
        target
        for target in targets
        if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists()
    ]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_tests_exist(page):
    named = re.findall(r"`(tests/[\w/.]+?)(?:::(\w+))?`", page.read_text(encoding="utf-8"))
    for path, function in named:
        target = ROOT / path
        assert target.exists(), path
        if function:
            assert f"def {function}(" in target.read_text(encoding="utf-8"), f"{path}::{function}"


def test_the_check_sees_a_broken_link(tmp_path):
    (tmp_path / "page.md").write_text("[gone](absent.md) and `tests/absent.py::test_nothing`")
    with pytest.raises(AssertionError):
        test_relative_links_lead_somewhere(tmp_path / "page.md")
    with pytest.raises(AssertionError):
        test_named_tests_exist(tmp_path / "page.md")

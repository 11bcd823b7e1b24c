"""What the pages point to exists: files, and tests by name."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSIDE = [
    page for part in ("docs", "src", "benchmarks", "tests") for page in (ROOT / part).rglob("*.md")
]
PAGES = sorted([*ROOT.glob("*.md"), *INSIDE])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    inside = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert not [target for target in inside if not (page.parent / target).exists()]


def anchors(page):
    """What a link may point to within a page: its headings, as mkdocs and code hosts write them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading.lower()).strip() for heading in headings]
    return {re.sub(r"\s", "-", heading) for heading in plain} | {
        re.sub(r"[-\s]+", "-", heading) for heading in plain
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_headings_that_exist(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, heading in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", text):
        other = (page.parent / target) if target else page
        # mkdocs drops other letters, so that such a link leads to the top of the page.
        assert heading.isascii(), f"{target}#{heading}"
        assert other.suffix != ".md" or heading in anchors(other), f"{target}#{heading}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_tests_exist(page):
    named = re.findall(r"`(tests/[\w/.]+?)(?:::(\w+))?`", page.read_text(encoding="utf-8"))
    for path, function in named:
        target = ROOT / path
        assert target.exists(), path
        if function:
            assert f"def {function}(" in target.read_text(encoding="utf-8"), f"{path}::{function}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tests_that_a_command_names_exist(page):
    blocks = re.findall(r"```.*?```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for word in re.findall(r"(?<=\s)tests/[^\s>:]+", "\n".join(blocks)):
        start, _, rest = word.partition("{")
        among, _, end = rest.partition("}")
        for choice in among.split(","):
            assert list(ROOT.glob(start + choice + end)), word


def test_the_check_sees_a_broken_link(tmp_path):
    broken = "[gone](absent.md), [no heading](#absent) and `tests/absent.py::test_nothing`"
    broken += "\n```sh\npython -m pytest tests/absent.py\n```"
    (tmp_path / "page.md").write_text(broken)
    with pytest.raises(AssertionError):
        test_relative_links_lead_somewhere(tmp_path / "page.md")
    with pytest.raises(AssertionError):
        test_links_lead_to_headings_that_exist(tmp_path / "page.md")
    with pytest.raises(AssertionError):
        test_named_tests_exist(tmp_path / "page.md")
    with pytest.raises(AssertionError):
        test_tests_that_a_command_names_exist(tmp_path / "page.md")


def test_the_cases_of_other_libraries_are_where_the_page_says():
    page = (ROOT / "tests/peers/README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?<!::)`?\b(test_\w+)`", page))
    cases = (ROOT / "tests/peers/test_cases.py").read_text(encoding="utf-8")
    elsewhere = set(re.findall(r"`tests/[\w/.]+?::(\w+)`", page))
    here = {name for name in named - elsewhere if name != "test_cases"}
    written = set(re.findall(r"^def (test_\w+)", cases, flags=re.MULTILINE))
    assert here <= written and written <= here


TUTORIALS = ("adult", "breast-cancer", "digits")
FOR_PEOPLE = ("README.md", "docs/index.md", "docs/faq.md", "docs/desk.md", "docs/which-epsilon.md")
FOR_PEOPLE += ("docs/report.md", "docs/limitations.md", "docs/paths/custodian.md")
FOR_PEOPLE += ("docs/paths/analyst.md", *(f"docs/tutorials/{name}.md" for name in TUTORIALS))


@pytest.mark.parametrize("page", FOR_PEOPLE)
def test_words_of_the_workshop_are_not_on_pages_for_people(page):
    words = r"Frobenius|stratum|norm shell|encoded unit|drown"
    assert not re.findall(words, (ROOT / page).read_text(encoding="utf-8"), re.IGNORECASE)


def test_the_index_leads_to_every_page_but_those_of_measurements():
    pages = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    linked = re.findall(r"\]\(([\w/-]+\.md)", (ROOT / "docs/index.md").read_text(encoding="utf-8"))
    assert len(pages) > 50
    assert {page for page in pages if not page.startswith("measured/")} <= {*linked, "index.md"}

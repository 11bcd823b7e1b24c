import pytest

import dpcov
from dpcov.errors import LedgerError, ReleaseError, UsageError
from tests.report.examples import demo, grouped


@pytest.fixture
def released(desk):
    assert desk.release(rho="0.5").exit_code == 0
    return desk


def test_a_page_is_written_once_and_overwritten_only_on_demand(released, tmp_path):
    page = tmp_path / "page.html"
    arguments = ("report", released.output, "-o", page)
    assert released.run(*arguments).exit_code == 0
    first = page.read_bytes()
    assert first.startswith(b"<!doctype html>")
    page.write_bytes(b"mine")
    assert released.run(*arguments).exit_code == ReleaseError.exit_code
    assert page.read_bytes() == b"mine"
    assert released.run(*arguments, "--overwrite").exit_code == 0
    assert page.read_bytes() == first


def test_a_failure_leaves_no_file(released, tmp_path):
    broken = tmp_path / "broken.dpcov"
    broken.write_bytes(b"not a release")
    before = sorted(tmp_path.iterdir())
    result = released.run("report", broken, "-o", tmp_path / "page.html")
    assert result.exit_code == ReleaseError.exit_code
    assert sorted(tmp_path.iterdir()) == before


def test_the_ledger_says_what_is_left(released, tmp_path):
    page = tmp_path / "page.html"
    result = released.run("report", released.output, "-o", page, "--ledger", released.ledger)
    assert result.exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "Spent by all releases" in text
    # 2 in all, 0.5 of it spent
    assert '<td class="number">2</td><td class="number">0.5</td><td class="number">1.5</td>' in text


def test_a_release_without_a_ledger_cannot_show_one(released, tmp_path):
    file = tmp_path / "free.dpcov"
    demo().save(file)
    result = released.run("report", file, "-o", tmp_path / "page.html", "--ledger", released.ledger)
    assert result.exit_code == UsageError.exit_code
    other = tmp_path / "other.sqlite"
    dpcov.Ledger(other).create("strangers", dpcov.Budget(rho=1), "replace-one")
    result = released.run(
        "report", released.output, "-o", tmp_path / "page.html", "--ledger", other
    )
    assert result.exit_code == LedgerError.exit_code
    assert not (tmp_path / "page.html").exists()


def test_examples_on_the_page_use_the_files_name_safely(released, tmp_path):
    file = tmp_path / "it's $(mine).dpcov"
    grouped().save(file)
    assert released.run("report", file, "-o", tmp_path / "page.html").exit_code == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "dpcov export &#x27;it&#x27;&quot;&#x27;&quot;&#x27;s $(mine).dpcov&#x27;" in text


def test_a_ledger_on_a_server_is_asked_by_its_whole_url(released, tmp_path, monkeypatch):
    asked = []

    def ledger(place):
        asked.append(place)
        raise LedgerError("The server does not answer.")

    monkeypatch.setattr("dpcov.privacy.ledger.ledger.Ledger", ledger)
    url = "postgresql://custodian@host/books"
    released.run("report", released.output, "-o", tmp_path / "page.html", "--ledger", url)
    assert asked == [url]

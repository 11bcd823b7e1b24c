import re
from html import unescape

import pytest

import dpcov
from dpcov.errors import LedgerError, ReleaseError, UsageError
from tests.report.examples import demo, grouped


@pytest.fixture
def reported(desk):
    """Report a release, the desk's own by default."""
    desk.release(rho="0.5")
    desk.page = desk.folder / "page.html"

    def report(*arguments, release=desk.output):
        return desk.run("report", release, "-o", desk.page, *arguments)

    return report


def test_a_page_is_written_once_and_overwritten_only_on_demand(desk, reported):
    assert reported().exit_code == 0
    first = desk.page.read_bytes()
    assert first.startswith(b"<!doctype html>")
    desk.page.write_bytes(b"mine")
    assert reported().exit_code == ReleaseError.exit_code
    assert desk.page.read_bytes() == b"mine"
    assert reported("--overwrite").exit_code == 0
    assert desk.page.read_bytes() == first
    # A failure leaves no file.
    broken, before = desk.folder / "broken.dpcov", desk.names()
    assert reported("--overwrite", release=broken).exit_code == ReleaseError.exit_code
    assert desk.names() == before


def test_the_ledger_says_what_is_left(desk, reported):
    assert reported("--ledger", desk.ledger).exit_code == 0
    text = desk.page.read_text(encoding="utf-8")
    assert "Spent by all releases" in text
    spending = text.partition("Spent by all releases")[2]
    total, spent, left = re.search(r'<td class="number">([\d.]+)</td>' * 3, spending).groups()
    assert (float(total), float(spent)) == (2, 0.5)
    assert float(left) == pytest.approx(1.5, rel=1e-4)


def test_a_release_without_a_ledger_cannot_show_one(desk, reported):
    file = desk.folder / "free.dpcov"
    demo().save(file)
    assert reported("--ledger", desk.ledger, release=file).exit_code == UsageError.exit_code
    other = desk.folder / "other.sqlite"
    dpcov.Ledger(other).create("strangers", dpcov.Budget(rho=1), "replace-one")
    assert reported("--ledger", other).exit_code == LedgerError.exit_code
    assert not desk.page.exists()


def test_a_ledger_that_does_not_know_the_release_cannot_say_what_is_left(desk, reported):
    """An old copy said that more is left than is."""
    other = desk.folder / "other.sqlite"
    dpcov.Ledger(other).create("patients", dpcov.Budget(rho=1), "replace-one")
    result = reported("--ledger", other)
    assert result.exit_code == UsageError.exit_code and "no entry 1" in result.output
    assert not desk.page.exists()


def test_a_union_of_several_accounts_has_no_single_rest(desk, reported):
    north = dpcov.load(desk.output)
    ledger = dpcov.Ledger(desk.ledger)
    ledger.create("southern", dpcov.Budget(rho=1), "replace-one")
    terms = {"schema": desk.schema, "budget": dpcov.Budget(rho="0.5"), "ledger": ledger}
    south = dpcov.release(desk.data, dataset="southern", **terms)
    north.unite(south).save(desk.folder / "both.dpcov")
    result = reported("--ledger", desk.ledger, release=desk.folder / "both.dpcov")
    assert result.exit_code == UsageError.exit_code and "accounts, patients, southern," in " ".join(
        result.output.split()
    )
    assert reported(release=desk.folder / "both.dpcov").exit_code == 0
    page = desk.page.read_text(encoding="utf-8")
    for entry, name in enumerate(("patients", "southern"), start=1):
        assert f"entry {entry} of dataset <bdi>{name}</bdi>" in page


def test_examples_on_the_page_use_the_files_name_safely(desk, reported):
    file = desk.folder / "it's $(mine).dpcov"
    grouped().save(file)
    assert reported(release=file).exit_code == 0
    text = desk.page.read_text(encoding="utf-8")
    assert "dpcov export 'it'\"'\"'s $(mine).dpcov'" in unescape(text)


def test_a_ledger_on_a_server_is_asked_by_its_whole_url(reported, monkeypatch):
    asked = []
    monkeypatch.setattr("dpcov.cli.options.Ledger", asked.append)
    url = "postgresql://custodian@host/books"
    reported("--ledger", url)
    assert asked == [url]

"""The desk opens accounts, charges them, and says what they do not allow before a release."""

import html

import pytest

import dpcov
from dpcov import Ledger, Numeric, Schema
from dpcov.errors import DpcovError
from tests.desk.conftest import OPENED, ledger_of, released, send, until_done, version_of

Work = pytest.importorskip("dpcov.desk.work").Work


@pytest.mark.parametrize(("epsilon", "fits"), [("0.999", False), ("1", True)])
def test_what_an_account_does_not_allow_is_said_before_the_release(desk, ready, epsilon, fits):
    ledger_of(desk).create("people", dpcov.Budget(epsilon=epsilon, delta="1e-6"), "replace-one")
    for step in ("budget", "account", "release"):
        page = desk.ask(f"{ready}/{step}")[2]
        assert ("The account people does not allow this." in page) != fits
        assert ("overspend" in page) != fits
    assert ("It was not released" in released(desk, ready)) != fits
    assert (desk.folder / "patients.dpcov").exists() == fits


def test_the_accounts_that_a_ledger_has_are_named_before_another_is_opened(desk, ready):
    """Next year's file of the same people got an account of its own, by its name."""
    assert "Accounts there" not in desk.ask(f"{ready}/account")[2]
    book = Ledger(str(desk.folder / "ledger.sqlite"))
    book.create("people of 2023", dpcov.Budget(epsilon=1, delta="1e-6"), "replace-one")
    said = "Accounts there: people of 2023. If the table is of the same people"
    assert said in desk.ask(f"{ready}/account")[2]
    account = {"ledger": "ledger.sqlite", "dataset": "people of 2023"}
    assert send(desk, ready, "account", **account)[0] == 303
    assert "Accounts there" not in desk.ask(f"{ready}/account")[2]


@pytest.mark.parametrize("rule", ["gaussian", "zcdp", "basic"])
def test_a_second_release_that_an_account_allows_is_not_called_refused(desk, ready, rule):
    total = dpcov.Budget(epsilon="4", delta="1e-5")
    book = ledger_of(desk)
    book.create("people", total, "replace-one", composition=rule)
    released(desk, ready)
    assert send(desk, ready, "budget", chosen="1.5", delta="1e-6")[0] == 303
    assert "does not allow this" not in desk.ask(f"{ready}/release")[2]
    assert send(desk, ready, "begin", "release", overwrite="yes")[0] == 303
    until_done(desk, ready)
    assert len(book.entries("people")) == 2
    # It was there before, and is not new.
    assert send(desk, ready, "budget", chosen="0.1", delta="")[0] == 303
    assert "A new account" not in desk.ask(f"{ready}/release")[2]


def test_the_page_of_a_release_says_what_its_account_has_left(desk, ready):
    page = released(desk, ready)
    left = ledger_of(desk).remaining("people").in_words
    assert f"Account people: {left}" in html.unescape(page)
    (desk.folder / "ledger.sqlite").unlink()
    assert "Account people" not in desk.ask(f"{ready}/release")[2]


def test_an_account_that_was_lost_since_is_not_opened_anew_unasked(desk, ready):
    assert "Released" in released(desk, ready)
    (desk.folder / "ledger.sqlite").rename(desk.folder / "away.sqlite")
    assert send(desk, ready, "budget", chosen="0.5", delta="1e-6")[0] == 303
    status, _, page = desk.post(
        f"{ready}/begin", overwrite="yes", version=version_of(desk, f"{ready}/budget")
    )
    assert status == 422 and "Say what all releases about these people together may cost" in page
    assert not (desk.folder / "ledger.sqlite").exists()


def test_an_account_of_another_promise_is_said_before_the_release(desk, ready):
    ledger_of(desk).create("people", dpcov.Budget(epsilon="4", delta="1e-5"), "add-remove-one")
    assert "protected with add-remove-one neighbors. A" in desk.ask(f"{ready}/release")[2]


def test_an_account_in_other_capitals_is_said_before_the_release(desk, ready):
    released(desk, ready)
    status, _, page = send(desk, ready, "account", **OPENED | {"dataset": "People"})
    assert status == 422
    assert "an account &#39;people&#39;, whose name looks the same" in page


def test_an_account_that_the_release_does_not_fit_into_is_not_opened(desk, ready):
    account = {"ledger": "small.sqlite", "dataset": "people"}
    for epsilon, delta in (("0.5", "1e-6"), ("1", "1e-8"), ("0.5", "")):
        total = {"total_epsilon": epsilon, "total_delta": delta}
        status, _, page = send(desk, ready, "account", **total, **account)
        assert status == 422
        assert "does not fit into a total" in page
        assert ("Give the total a δ." in page) != bool(delta)
    assert not (desk.folder / "small.sqlite").exists()
    assert send(desk, ready, "account", total_epsilon="1", total_delta="1e-6", **account)[0] == 303


def test_what_an_attempt_said_is_gone_with_another_account(desk, ready):
    total = dpcov.Budget(epsilon="0.5", delta="1e-7")
    Ledger(desk.folder / "spent.sqlite").create("people", total, "replace-one")
    spent = {"ledger": "spent.sqlite", "dataset": "people"}
    # The total of an account that exists is fixed.
    assert send(desk, ready, "account", total_epsilon="9", total_delta="", **spent)[0] == 303
    assert "ledger create" not in desk.ask(f"{ready}/account")[2]
    assert "It was not released" in released(desk, ready)
    assert send(desk, ready, "account", **OPENED | {"ledger": "other.sqlite"})[0] == 303
    assert "It was not released" not in desk.ask(f"{ready}/release")[2]


def test_what_is_no_ledger_is_refused_and_the_page_stays(desk, ready):
    (desk.folder / "notes.txt").write_text("no ledger")
    for ledger in ("notes.txt", "postgresql://nobody@127.0.0.1:1/none"):
        assert send(desk, ready, "account", **OPENED | {"ledger": ledger})[0] == 422
        assert desk.ask(f"{ready}/account")[0] == 200


def test_a_ledger_that_the_release_would_replace_or_cannot_write_is_refused(desk, ready):
    for ledger in ("patients.toml", "./patients.html", "none/ledger.sqlite", "/proc/l.sqlite"):
        assert send(desk, ready, "account", **OPENED | {"ledger": ledger})[0] == 422
    assert sorted(path.name for path in desk.folder.iterdir()) == ["patients.csv"]


def test_a_ledger_of_the_name_of_an_output_is_not_opened(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    schema = Schema(columns={"a": Numeric(lower=0, upper=9)})
    work = Work(data="t.csv", folder=tmp_path, schema=schema, ledger="t.toml")
    work.total_epsilon, work.total_delta = "4", "1e-5"
    with pytest.raises(DpcovError, match="Name the ledger anew"):
        work.begin()
    assert not (tmp_path / "t.toml").exists()


def test_an_account_is_not_opened_for_a_budget_that_was_raised_since(desk, ready):
    account = {"ledger": "small.sqlite", "dataset": "people"}
    assert send(desk, ready, "account", total_epsilon="1", total_delta="1e-6", **account)[0] == 303
    assert send(desk, ready, "budget", chosen="2", delta="1e-6")[0] == 303
    status, _, page = send(desk, ready, "begin", "release")
    assert status == 422
    assert "does not fit into a total" in page
    assert not (desk.folder / "small.sqlite").exists()


def test_an_account_takes_whatever_its_rules_take(desk, ready):
    """Of Gaussian noise a larger delta costs less epsilon."""
    account = {"ledger": "other.sqlite", "dataset": "people"}
    assert send(desk, ready, "account", total_epsilon="3", total_delta="1e-7", **account)[0] == 303


def test_an_empty_file_is_no_ledger_yet(desk, ready):
    (desk.folder / "new.sqlite").touch()
    account = {"ledger": "new.sqlite", "dataset": "people"}
    status, _, page = send(desk, ready, "account", total_epsilon=" ", total_delta=" ", **account)
    assert status == 422 and "This account does not exist yet. Say what all releases" in page
    assert send(desk, ready, "account", total_epsilon="1", total_delta="1e-6", **account)[0] == 303
    assert "Releasing opens it." in desk.ask(f"{ready}/account")[2]
    assert "Released" in released(desk, ready)
    assert len(Ledger(desk.folder / "new.sqlite").entries("people")) == 1


def test_a_database_without_a_ledger_gets_one(desk, ready, postgres_database):
    account = {"ledger": postgres_database, "dataset": "people"}
    assert send(desk, ready, "account", total_epsilon="1", total_delta="1e-6", **account)[0] == 303
    assert "Released" in released(desk, ready)
    assert len(Ledger(postgres_database).entries("people")) == 1


def test_a_server_that_does_not_answer_is_asked_once_a_page_which_says_so(desk, ready, monkeypatch):
    postgres = pytest.importorskip("dpcov.privacy.ledger.postgres")
    (work,) = desk.app.works.values()
    work.ledger, asked = "postgresql://nobody@127.0.0.1:1/none", []
    connect = postgres.LedgerServer._transaction

    def counted(self, **options):
        asked.append(options)
        return connect(self, **options)

    monkeypatch.setattr(postgres.LedgerServer, "_transaction", counted)
    for step in ("budget", "account", "release"):
        asked.clear()
        page = desk.ask(f"{ready}/{step}")[2]
        assert page.count("server does not answer") == 1
        assert len(asked) == 1

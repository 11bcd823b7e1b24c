"""Pages show what is decided now, and a release what was decided when it began."""

import re
import threading
import warnings
from html import unescape

import pytest

import dpcov
from dpcov.desk.job import Job, hear_warnings
from dpcov.errors import DataError, LedgerError, ReleaseError
from dpcov.pipeline import publish
from dpcov.privacy.ledger.ledger import Reservation
from tests.desk.conftest import (
    OPENED,
    TYPED,
    WHO,
    ledger_of,
    opened,
    released,
    send,
    slow_release,
    until_done,
    version_of,
)

module = pytest.importorskip("dpcov.desk.work")
REHEARSED = {"expected_rows": "50", "chosen": "1", "delta": "1e-6", "public": ""}
READABLE, FITTED = "What could be read", "FOR THE CUSTODIAN"


def held(monkeypatch, name):
    """A function of the library that waits until it may end."""
    real, gate = getattr(module, name), threading.Event()

    def wait(*arguments, **terms):
        assert gate.wait(20)
        return real(*arguments, **terms)

    monkeypatch.setattr(module, name, wait)
    return gate


@pytest.mark.parametrize("deed", ["keep", "check", "rehearse", "begin"])
def test_nothing_takes_the_place_of_a_release_that_runs_and_stopping_it_spends_nothing(
    desk, ready, monkeypatch, deed
):
    monkeypatch.setattr(module, "release", slow_release)
    assert send(desk, ready, "begin", "release")[0] == 303
    status, _, text = send(desk, ready, deed, "columns", **REHEARSED, overwrite="yes")
    assert status == 422 and "It is being released" in text
    page = desk.ask(f"{ready}/release")[2]
    assert "<progress" in page and "You may close this page" in page
    assert desk.post(f"{ready}/stop")[0] == 303
    page = desk.ask(f"{ready}/release")[2]
    assert "Stopped." in page and "It was not released" in page
    assert not (desk.folder / "patients.dpcov").exists()
    assert list(ledger_of(desk).entries("people")) == []


def test_a_rehearsal_goes_with_what_it_depends_on(desk, ready):
    changes = [
        ("columns", TYPED | {"0.upper": "200"}),
        ("people", WHO | {"neighbors": "add-remove-one"}),
        ("people", WHO | {"rows_per_person": "2"}),
        ("budget", {"chosen": "1", "delta": ""}),
        ("budget", {"chosen": "1", "delta": "1e-6", "expected_rows": "5000"}),
        ("budget", {"chosen": "1", "delta": "1e-6", "public": "patients.csv"}),
    ]
    for step, change in changes:
        assert send(desk, ready, "rehearse", "budget", **REHEARSED)[0] == 303
        until_done(desk, ready)
        assert send(desk, ready, "budget", chosen="2", delta="1e-6")[0] == 303
        page = desk.ask(f"{ready}/budget")[2]
        assert READABLE in page and "Assumed: independent columns" in page
        assert send(desk, ready, step, **change)[0] == 303
        assert READABLE not in desk.ask(f"{ready}/budget")[2]


@pytest.mark.parametrize(
    ("name", "deed", "page", "shown"),
    [("fit", "check", "columns", FITTED), ("sweep", "rehearse", "budget", READABLE)],
)
def test_what_ends_after_a_change_is_not_shown(desk, ready, monkeypatch, name, deed, page, shown):
    gate = held(monkeypatch, name)
    assert send(desk, ready, deed, page, **REHEARSED)[0] == 303
    assert "<progress" in desk.ask(f"{ready}/{page}")[2]
    job = desk.app.works[ready.strip("/")].jobs[page]
    assert send(desk, ready, "columns", **TYPED | {"0.upper": "200"})[0] == 303
    gate.set()
    job.wait()
    text = desk.ask(f"{ready}/{page}")[2]
    assert shown not in text and "<progress" not in text


def test_columns_that_were_found_not_to_fit_stop_the_way(desk, ready):
    wrong = TYPED | {"0.lower": "1000", "0.upper": "2000"}
    # Before the rows are read nobody knows.
    assert send(desk, ready, "columns", **wrong)[0] == 303
    assert send(desk, ready, "check", "columns", **wrong)[0] == 303
    until_done(desk, ready)
    status, _, text = send(desk, ready, "columns", **wrong)
    assert status == 422
    assert "Column &#39;age&#39;: no value is within the bounds." in text
    # The rows may be read again, and what was changed has not been read yet.
    assert send(desk, ready, "check", "columns", **wrong)[0] == 303
    until_done(desk, ready)
    assert send(desk, ready, "columns", **wrong | {"0.type": "ignored"})[0] == 303


def test_a_release_stays_what_was_decided_when_it_began(desk, ready, monkeypatch):
    gate = held(monkeypatch, "render_release")
    assert send(desk, ready, "begin", "release")[0] == 303
    assert send(desk, ready, "budget", chosen="2", delta="1e-6")[0] == 303
    assert "--epsilon 1 " in desk.ask(f"{ready}/release")[2]
    assert "--epsilon 2 " in desk.ask(f"{ready}/budget")[2]
    gate.set()
    until_done(desk, ready)
    for path in ("release", "files/script"):
        assert "--epsilon 1 " in desk.ask(f"{ready}/{path}")[2]
    made = dpcov.Release.load(desk.folder / "patients.dpcov")
    assert str(made.guarantee.promise) == "(1, 1e-6)-DP"
    # Something else is decided, so it may be released again; until then it may not.
    assert ">Release</button>" in desk.ask(f"{ready}/release")[2]
    assert send(desk, ready, "budget", chosen="1", delta="1e-6")[0] == 303
    assert ">Release</button>" not in desk.ask(f"{ready}/release")[2]


def test_a_refused_page_about_people_keeps_all_that_was_typed(desk, ready):
    typed = WHO | {"neighbors": "add-remove-one", "rows_per_person": "x", "by": "ward"}
    status, _, text = send(desk, ready, "people", **typed)
    assert status == 422 and 'value="add-remove-one" checked' in text
    assert '"ward" selected' in text


def test_a_ledger_that_cannot_be_read_is_said_on_its_page(desk):
    (desk.folder / "ledger.sqlite").write_text("no ledger")
    work = opened(desk)
    status, _, text = desk.ask(f"{work}/account")
    assert status == 200 and 'role="alert"' in text and 'name="ledger"' in text


def test_what_the_library_refuses_while_a_page_is_made_is_said(desk, ready, monkeypatch):
    def fail(work):
        raise DataError("This is refused.")

    monkeypatch.setattr(module.Work, "missing", fail)
    status, _, text = desk.ask(f"{ready}/people")
    assert status == 422 and "This is refused." in text


@pytest.mark.parametrize("typed", [{"0.upper": "x"}, {"0.upper": "", "1.upper": "9"}])
def test_a_refused_page_may_be_sent_again(desk, ready, typed):
    old, mine = (version_of(desk, f"{ready}/columns") for _ in range(2))
    for _ in range(2):
        assert desk.post(f"{ready}/columns", version=mine, **typed)[0] == 422
    # Another tab stays refused.
    status, _, text = desk.post(f"{ready}/columns", version=old, **TYPED)
    assert status == 409 and "in another tab or on a later page" in text
    assert desk.post(f"{ready}/columns", version=mine, **TYPED)[0] == 303
    assert desk.post(f"{ready}/columns", version=mine, **TYPED)[0] == 409


def test_reading_and_rehearsing_take_what_is_typed(desk, ready):
    assert send(desk, ready, "check", "columns", **{"0.upper": "123"})[0] == 303
    assert 'value="123"' in desk.ask(f"{ready}/columns")[2]
    typed = REHEARSED | {"chosen": "3", "delta": "1e-9"}
    assert send(desk, ready, "rehearse", "budget", **typed)[0] == 303
    text = desk.ask(f"{ready}/budget")[2]
    assert 'value="3"' in text and 'value="1e-9"' in text
    # Saving takes all that the form has, too.
    assert send(desk, ready, "budget", **typed | {"public": "old.csv"})[0] == 303
    assert 'value="old.csv"' in desk.ask(f"{ready}/budget")[2]
    for page, deed in (("columns", "check"), ("budget", "rehearse")):
        assert f'formaction="{desk.base}{ready}/{deed}"' in desk.ask(f"{ready}/{page}")[2]


@pytest.mark.parametrize(
    ("rows", "budget", "said"),
    [
        ("3000000", {"chosen": "1", "delta": "1e-6"}, "A release will refuse this. delta = 1e-6"),
        (
            "2000",
            {"chosen": "5", "delta": "1e-6"},
            "epsilon = 5 is large and protects hardly anybody. Choose a smaller one",
        ),
        ("2000", {"chosen": "1", "delta": ""}, "A new account adds up ε and δ from now on"),
    ],
)
def test_what_a_release_would_refuse_or_warn_of_is_on_the_page(desk, ready, rows, budget, said):
    assert send(desk, ready, "people", **WHO | {"rows": rows})[0] == 303
    assert send(desk, ready, "budget", **budget)[0] == 303
    assert all(said in desk.ask(f"{ready}/{page}")[2] for page in ("budget", "release"))


def test_what_is_refused_names_no_option_of_the_command(desk, ready):
    total = dpcov.Budget(epsilon=4, delta="1e-5")
    ledger_of(desk).create("people", total, "add-remove-one")
    assert send(desk, ready, "people", **WHO | {"rows": "3000000"})[0] == 303
    page = desk.ask(f"{ready}/release")[2].split("<main")[1].split("<section")[0]
    assert "Use a delta such as 1e-8." in page and "with add-remove-one neighbors" in page
    assert re.search("--[a-z]|=True|neighbors =", page) is None
    lacking = "[columns.nowhere]\ntype = 'boolean'\n"
    page = unescape(send(desk, ready, "text", "columns", toml=lacking)[2])
    assert "but not these columns, which the schema names: 'nowhere'. Correct the schema" in page


def test_a_norm_bound_is_said_to_keep_the_bounds_before_the_release(desk, ready):
    text = unescape(desk.ask(f"{ready}/columns")[2]).split("spellcheck")[1].split(">", 1)[1]
    bounded = "norm_bound = 1.5\n" + text.split("</textarea>")[0]
    assert send(desk, ready, "text", "columns", toml=bounded)[0] == 303
    assert "Leave norm_bound out of the schema" in desk.ask(f"{ready}/release")[2]


def test_groups_of_a_column_that_is_ignored_since_are_to_be_chosen_again(desk, ready):
    assert send(desk, ready, "people", **WHO | {"by": "ward"})[0] == 303
    assert send(desk, ready, "columns", **TYPED | {"5.type": "ignored"})[0] == 303
    status, _, text = send(desk, ready, "begin", "columns")
    assert status == 422 and "Column 'ward' has no groups any more" in unescape(text)
    assert send(desk, ready, "people", **WHO)[0] == 303
    assert ">Release</button>" in desk.ask(f"{ready}/release")[2]


def test_how_many_rows_is_not_asked_where_it_is_stated(desk, ready):
    assert send(desk, ready, "people", **WHO | {"rows": "2000"})[0] == 303
    assert "expected_rows" not in desk.ask(f"{ready}/budget")[2]
    assert send(desk, ready, "rehearse", "budget", chosen="1", delta="1e-6")[0] == 303


def test_an_earlier_failure_is_not_told_beside_a_refusal(desk, ready):
    assert send(desk, ready, "people", **WHO | {"rows": "7"})[0] == 303
    assert "It was not released" in released(desk, ready)
    (desk.folder / "patients.html").write_text("mine")
    status, _, text = send(desk, ready, "begin", "release")
    assert status == 422 and "It was not released" not in text
    # What the attempt said is gone with what it was about.
    assert send(desk, ready, "people", **WHO)[0] == 303
    assert "It was not released" not in desk.ask(f"{ready}/release")[2]


def test_a_report_that_was_moved_away_says_so(desk, ready):
    released(desk, ready)
    (desk.folder / "patients.html").unlink()
    status, _, text = desk.ask(f"{ready}/files/report")
    assert status == 404 and "patients.html is not in its folder" in text


def test_the_script_is_said_to_cost_privacy_again(desk, ready):
    assert "Whoever runs it releases again, which costs privacy again." in released(desk, ready)


def test_what_a_release_will_refuse_opens_no_account(desk, ready):
    assert send(desk, ready, "people", **WHO | {"by": "ward"})[0] == 303
    assert send(desk, ready, "budget", chosen="1", delta="")[0] == 303
    for step in ("budget", "account", "release"):
        assert "A release will refuse this. Groups need a delta." in desk.ask(f"{ready}/{step}")[2]
    status, _, page = send(desk, ready, "begin", "release")
    assert status == 422 and "Groups need a delta." in page
    assert sorted(path.name for path in desk.folder.iterdir()) == ["patients.csv"]


@pytest.mark.parametrize("kind", [RuntimeError, MemoryError])
def test_an_unforeseen_error_after_the_charge_says_that_the_budget_is_spent(
    desk, ready, monkeypatch, kind
):
    def fail(*given):
        raise kind("zebra4711")

    monkeypatch.setattr(publish.ReleaseMaker, "make", fail)
    page = released(desk, ready)
    assert "The budget IS spent: entry 1 of dataset people" in page
    assert "zebra4711" not in page
    assert ("Not enough memory" in page) == (kind is MemoryError)


@pytest.mark.parametrize("error", [ReleaseError("The disk is full."), RuntimeError("zebra4711")])
def test_a_release_whose_report_fails_is_shown_as_released(desk, ready, monkeypatch, error):
    def fail(*given, **more):
        raise error

    monkeypatch.setattr("dpcov.desk.work.render_release", fail)
    page = released(desk, ready)
    assert "It was not released" not in page and "zebra4711" not in page
    assert "The report was not written." in page and "do not release again" in page
    assert dpcov.Release.load(desk.folder / "patients.dpcov").fingerprint in page
    assert "files/release" in page and "files/report" not in page


@pytest.mark.filterwarnings("ignore:zebra4711")
def test_what_a_release_warns_of_is_shown_with_it(desk, ready, monkeypatch):
    def fail(*given):
        raise LedgerError("The disk of the ledger is full.")

    monkeypatch.setattr(Reservation, "commit", fail)
    hear_warnings()
    page = released(desk, ready)
    assert "The disk of the ledger is full. What was made here is whole" in page
    assert "Entry 1 of dataset people counts" in page and "It was not released" not in page
    # What others warn of may quote a row: no page shows it.
    other = Job("other", lambda tell: warnings.warn("zebra4711", stacklevel=1)).start()
    other.wait()
    assert other.warned == []


@pytest.mark.parametrize("deed", ["text", "check", "rehearse", "begin", "stop"])
def test_the_address_of_a_form_leads_to_its_page(desk, ready, deed):
    status, _, text = desk.ask(f"{ready}/{deed}")
    assert status == 200 and "on the command line" in text


def test_a_schema_that_was_refused_as_text_is_in_sight(desk, ready):
    assert "<details open>" in send(desk, ready, "text", "columns", toml="x = [")[2]


def test_one_thing_is_not_called_things(desk):
    work = opened(desk)
    status, _, text = send(desk, work, "columns", **TYPED | {"5.categories": ""})
    assert status == 422 and "1 thing still to be filled in." in text


def test_the_budget_says_what_a_rehearsal_is_worth(desk, ready):
    assert send(desk, ready, "rehearse", "budget", **REHEARSED)[0] == 303
    until_done(desk, ready)
    text = desk.ask(f"{ready}/budget")[2]
    assert "The numbers come from rehearsed releases." in text and "<strong>weak</strong>" in text


def test_a_release_that_a_rehearsal_found_useless_says_so_beside_its_button(desk, ready):
    page = desk.ask(f"{ready}/release")[2]
    assert "nobody knows yet" in page and f'href="{desk.base}{ready}/budget"' in page
    assert send(desk, ready, "rehearse", "budget", **REHEARSED)[0] == 303
    until_done(desk, ready)
    page = desk.ask(f"{ready}/release")[2]
    assert re.search(
        r"None of \d columns can be used: the noise hides them. Rehearsed with \(1, 1e-6\)", page
    )
    # The next page says what was rehearsed closest to another budget.
    assert send(desk, ready, "budget", **REHEARSED | {"chosen": "9"})[0] == 303
    assert "Rehearsed with (10, 1e-6)-DP" in desk.ask(f"{ready}/release")[2]


def test_the_first_page_says_what_is_read_of_the_rows(desk):
    assert "types of text files from their first rows" in desk.ask("/")[2]


def test_an_account_without_a_total_is_still_to_be_filled_in(desk):
    work = opened(desk)
    assert send(desk, work, "columns", **TYPED)[0] == 303
    page = desk.ask(f"{work}/release")[2]
    assert "Account (1 to do)" in page and ">Release</button>" not in page
    status, _, text = send(desk, work, "begin", "account")
    assert status == 422 and "Say what all releases about these people" in text
    assert send(desk, work, "account", **OPENED)[0] == 303
    page = desk.ask(f"{work}/release")[2]
    assert "to do)" not in page and ">Release</button>" in page


def test_what_a_system_leaves_in_the_folder_is_not_offered(desk):
    for name in ("~$patients.xlsx", "._patients.csv", "visits.2024.zip"):
        (desk.folder / name).write_bytes(b"?")
    assert "Tables there: patients.csv, visits.2024.zip." in desk.ask("/")[2]
    for path in desk.folder.iterdir():
        path.unlink()
    assert "No table is in this folder." in desk.ask("/")[2]

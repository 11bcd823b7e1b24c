import sqlite3
import stat
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import partial
from unicodedata import normalize

import numpy as np
import pytest

from dpcov.errors import LedgerError, UsageError
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP
from dpcov.privacy.ledger import records
from dpcov.privacy.ledger import store as ledger_store
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.privacy.ledger.postgres import LedgerServer
from tests.privacy.spends import MILLIONTH, ONE, RELATION, THIRD, pure, with_pragma, zcdp

LONGEST_TEXT = 1000
SMALL = {"spend": zcdp("0.01"), "neighbors": RELATION}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "privacy.ledger"


@pytest.fixture
def ledger(path):
    ledger = Ledger(path)
    ledger.create("patients", Budget(rho=1), RELATION)
    return ledger


def test_people_read_what_is_left_and_nothing_of_a_rest_that_rounding_leaves(ledger):
    ledger.reserve("patients", zcdp("0.25"), RELATION)
    assert ledger.remaining("patients").rows == [("rho", "1", "0.25", "0.75")]
    ledger.reserve("patients", zcdp(Fraction(3, 4) - Fraction(1, 10**13)), RELATION)
    assert ledger.remaining("patients").rows[0][-1] == "0"


def refuses(match, *calls):
    for call in calls:
        with pytest.raises(LedgerError, match=match):
            call()


def test_accounts_are_recorded_exactly_separately_and_once(path, ledger):
    total = Budget(epsilon=THIRD, delta="1e-9")
    ledger.create("staff", total, "add-remove-one", composition="zcdp")
    refuses("already has an account", lambda: ledger.create("patients", Budget(rho=100), RELATION))
    patients, staff = Ledger(path).datasets()
    assert (patients.name, patients.neighbors) == ("patients", RELATION)
    assert (staff.name, staff.neighbors) == ("staff", "add-remove-one")
    assert patients.total == ZCDP(rho=ONE)
    assert staff.total == ApproxDP(epsilon=THIRD, delta=Fraction(1, 10**9))
    assert (patients.composition, staff.composition) == ("zcdp", "zcdp")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    ledger.reserve("patients", zcdp(1), RELATION)
    assert (len(ledger.entries("patients")), ledger.entries("staff")) == (1, ())


def test_a_release_goes_from_reserved_to_drawn_to_committed_and_no_other_way(path, ledger):
    spend = pure(THIRD, rho=Fraction(1, 18), noise_multiplier=Fraction(7, 3))
    reservation = ledger.reserve("patients", spend, RELATION, note="first look")
    refuses("moved on", lambda: reservation.commit("sha256:abc"))
    (entry,) = Ledger(path).entries("patients")
    assert (entry.id, entry.spend, entry.note) == (reservation.id, spend, "first look")
    assert entry.state == "reserved"
    assert (entry.drawn_at, entry.committed_at, entry.fingerprint) == (None, None, None)
    reservation.mark_drawn()
    refuses("moved on", reservation.mark_drawn)
    assert ledger.entries("patients")[0].state == "drawn"
    reservation.commit("sha256:abc")
    refuses("moved on", lambda: reservation.commit("sha256:def"), reservation.mark_drawn)
    (entry,) = ledger.entries("patients")
    assert (entry.state, entry.fingerprint) == ("committed", "sha256:abc")
    steps = (entry.reserved_at, entry.drawn_at, entry.committed_at)
    times = [datetime.fromisoformat(at) for at in steps]
    assert times == sorted(times)
    assert all(time.utcoffset() == timedelta(0) for time in times)


def test_thirds_fill_a_budget_exactly_and_nothing_more_fits(path, ledger):
    for _ in range(3):
        before = path.read_bytes()
        ledger.check("patients", zcdp(THIRD), RELATION)
        assert path.read_bytes() == before
        reservation = ledger.reserve("patients", zcdp(THIRD), RELATION)
    assert repr(reservation) == "Reservation(id=3, dataset='patients')"
    balance = ledger.remaining("patients")
    assert (balance.total, balance.spent, balance.remaining) == ({"rho": 1}, {"rho": 1}, {"rho": 0})
    for refuse in (ledger.check, ledger.reserve):
        refuses("overspend", partial(refuse, "patients", zcdp("1e-300"), RELATION))
    assert len(ledger.entries("patients")) == 3
    assert ledger.verify().problems == ()
    with ledger._store.writing() as transaction:
        transaction.add_entry("patients", zcdp(THIRD), "")
    balance = ledger.remaining("patients")
    assert (balance.spent, balance.remaining) == ({"rho": Fraction(4, 3)}, {"rho": 0})
    assert ledger.verify().problems == ("the releases of patients exceed its total",)


def test_another_relation_is_refused_with_an_explanation(ledger):
    for refuse in (ledger.check, ledger.reserve):
        with pytest.raises(LedgerError, match="with add-remove-one neighbors cannot be"):
            refuse("patients", zcdp(THIRD), "add-remove-one")
    assert ledger.entries("patients") == ()


@pytest.mark.parametrize("stated", [True, False])
def test_an_account_has_one_unit_fixed_when_opened_or_by_its_first_release(ledger, stated):
    ledger.create("wards", Budget(rho=1), RELATION, rows_per_person=np.int64(3) if stated else None)
    three = zcdp(THIRD, rows_per_person=3)
    if not stated:
        ledger.check("wards", zcdp(THIRD), RELATION)
        ledger.reserve("wards", three, RELATION)
    for refuse in (ledger.check, ledger.reserve):
        for other in (1, 4):
            with pytest.raises(LedgerError, match=f"with 3 rows .* with {other} row") as refused:
                refuse("wards", replace(three, rows_per_person=other), RELATION)
            # Who has more rows is not asked to claim fewer, which would break the promise.
            # The new account does not count what was spent here.
            more = f"with {other} rows per person. Its total has to be smaller"
            assert ("Release with 3 rows" if other < 3 else more) in str(refused.value)
    ledger.reserve("wards", three, RELATION)
    assert ledger.remaining("wards").rows_per_person == 3
    assert {entry.spend.rows_per_person for entry in ledger.entries("wards")} == {3}
    assert ledger.verify().problems == ()


def test_the_first_release_fixes_the_rule(ledger):
    ledger.create("mixed", Budget(epsilon=1, delta="1e-6"), RELATION)
    # A refused first release fixes nothing.
    refuses("overspend", lambda: ledger.reserve("mixed", zcdp(1), RELATION))
    assert ledger.remaining("mixed").composition is None
    assert ledger.remaining("mixed").remaining == {"epsilon": 1, "delta": MILLIONTH}
    ledger.reserve("mixed", pure("0.5"), RELATION)
    assert ledger.remaining("mixed").composition == "basic"
    assert ledger.remaining("mixed").remaining["epsilon"] == Fraction(1, 2)
    refuses("cannot count", lambda: ledger.reserve("mixed", zcdp("0.0001"), RELATION))


@pytest.mark.parametrize(
    "alike", [normalize("NFD", "café guests"), "café  guests ", "Café Guests", "ca\ufb01"]
)
def test_names_that_look_the_same_are_one_account(ledger, alike):
    for name in ("café guests", "cafi"):
        ledger.create(name, Budget(rho=1), RELATION)
    meant = "account 'caf(é guests|i)', whose name looks the same"
    refuses(meant, lambda: ledger.create(alike, Budget(rho=1), RELATION))
    refuses(meant, lambda: ledger.reserve(alike, zcdp(THIRD), RELATION))
    ledger.create("cafe guests", Budget(rho=1), RELATION)


def test_texts_have_a_thousand_characters_at_most(ledger):
    longest, longer = "x" * LONGEST_TEXT, "x" * (LONGEST_TEXT + 1)
    for name in ("", "  ", "two\nlines", longer):
        refuses("dataset name", partial(ledger.create, name, Budget(rho=1), RELATION))
    ledger.create(longest, Budget(rho=1), RELATION)
    refuses("note", lambda: ledger.reserve(longest, zcdp(THIRD), RELATION, note=longer))
    reservation = ledger.reserve(longest, zcdp(THIRD), RELATION, note=longest)
    reservation.mark_drawn()
    refuses("1 to 1000", lambda: reservation.commit(longer))
    reservation.commit(longest)
    (entry,) = ledger.entries(longest)
    assert (entry.note, entry.fingerprint) == (longest, longest)


@pytest.mark.parametrize("text", ["a\x00b", "a\udcffb"])
def test_what_is_no_text_is_refused(ledger, text):
    refuses("must be text", lambda: ledger.reserve("patients", zcdp(THIRD), RELATION, note=text))
    refuses("printable", lambda: ledger.create(text, Budget(rho=1), RELATION))
    for name in (text, "nobody"):
        for use in (ledger.remaining, ledger.entries, partial(ledger.reserve, **SMALL)):
            refuses("no account of this name", partial(use, name))


def test_a_missing_file_is_never_replaced_by_an_empty_one(path, tmp_path):
    reserve = partial(Ledger(path).reserve, "patients", **SMALL)
    refuses("no ledger at this path", Ledger(path).datasets, reserve)
    assert not path.exists()
    # Names that no file system takes, and folders that are not there.
    long = tmp_path / ("x" * 5000)
    refuses("no ledger at this path", Ledger(long).datasets)
    for place in (long, tmp_path / "nowhere" / "privacy.ledger"):
        refuses("cannot be opened", partial(Ledger(place).create, "d", Budget(rho=1), RELATION))


def test_an_interrupted_creation_can_be_finished(path):
    path.touch()
    refuses("empty", Ledger(path).datasets)
    Ledger(path).create("patients", Budget(rho=1), RELATION)
    assert len(Ledger(path).datasets()) == 1


DAMAGED, UPGRADE = r"damaged.*backup", "Upgrade dpcov"
DAMAGES = [
    (lambda content: b"patients,age\n1,2\n" * 1000, DAMAGED),
    (lambda content: content[: 4096 * 2] + b"\xff" * 4096 + content[4096 * 3 :], DAMAGED),
    (lambda content: content.replace(b"TABLE ledger_format", b"TABLE ledger_forma\xff"), DAMAGED),
    ("DROP TABLE ledger_format", DAMAGED),
    ("DELETE FROM ledger_format", DAMAGED),
    ("UPDATE ledger_format SET name = 'other'", DAMAGED),
    *((f"UPDATE ledger_format SET version = {version}", UPGRADE) for version in (2, 4)),
    ("UPDATE dataset SET composition = 'planned'", "Use one of"),
    ("UPDATE dataset SET total_rho = '1/0'", DAMAGED),
    ("UPDATE dataset SET total_epsilon = '1'", DAMAGED),
    ("UPDATE dataset SET neighbors = 'anybody'", DAMAGED),
    ("UPDATE dataset SET rows_per_person = 0", DAMAGED),
    ("UPDATE entry SET rows_per_person = 'all'", DAMAGED),
    ("UPDATE entry SET promise_rho = '-1/3'", DAMAGED),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGES)
def test_a_file_that_cannot_be_trusted_is_refused(path, ledger, damage, words):
    ledger.reserve("patients", zcdp(THIRD), RELATION)
    if callable(damage):
        before = path.read_bytes()
        path.write_bytes(damage(before))
        assert path.read_bytes() != before
    else:
        with sqlite3.connect(path) as connection:
            connection.execute(damage)
        connection.close()
    for use in (ledger.remaining, partial(ledger.check, **SMALL), partial(ledger.reserve, **SMALL)):
        refuses(words, partial(use, "patients"))


WRONG = [{"id": "1"}, {"id": None}, {"reserved_at": None}, {"reserved_at": 3}, {"state": "paid"}]
NO_NUMBERS = [
    *("0.5", "1e999999999", " 1", "1/2/3", "1/0", "+1", "\u0661", "1" * 4001, 1, -1.5, b"\xff")
]
WRONG += [{"promise_rho": number} for number in NO_NUMBERS]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("wrong", [*WRONG, {"rho": "0.5"}, {"noise_multiplier": "0.5"}])
def test_a_cell_that_is_not_written_as_here_is_damage(wrong):
    cells = {"id": 1, "dataset": "d", "reserved_at": "now", "note": "", "state": "reserved"}
    good = dict.fromkeys(records.ENTRY_FIELDS) | records.row_of(zcdp(1)) | cells
    assert records.read_entry(good).spend == records.read_spend(good) == zcdp(1)
    refuses("damaged", lambda: records.read_entry(good | wrong))


PRAGMAS = {"query_only = ON": "Make its file and folder writable", "max_page_count = 1": "full"}


@pytest.mark.parametrize(("pragma", "message"), PRAGMAS.items())
def test_a_file_that_cannot_grow_or_change_spends_nothing(ledger, monkeypatch, pragma, message):
    with_pragma(monkeypatch, pragma)
    with pytest.raises(LedgerError, match=message):
        for _ in range(100):
            ledger.reserve("patients", zcdp("1e-9"), RELATION, note="x" * LONGEST_TEXT)
    monkeypatch.undo()
    billionths = len(ledger.entries("patients")) * Fraction(1, 10**9)
    assert ledger.remaining("patients").spent["rho"] == billionths


def test_a_ledger_is_named_by_a_path_or_by_the_address_of_a_database(path, ledger):
    assert [account.name for account in Ledger(str(path)).datasets()] == ["patients"]
    for needed in ("sqlalchemy", "psycopg"):
        pytest.importorskip(needed)
    assert type(Ledger("postgresql://somebody@nowhere.invalid/ledger")._store) is LedgerServer
    for other in ("mysql://a:secretpw@b/c", "http://x", 3, None):
        with pytest.raises(UsageError, match="postgresql://") as refused:
            Ledger(other)
        assert "secretpw" not in str(refused.value)


def test_a_held_lock_is_explained(path, ledger, monkeypatch):
    monkeypatch.setattr(ledger_store, "LOCK_WAIT_SECONDS", 0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    refuses("Another process", lambda: ledger.reserve("patients", zcdp(THIRD), RELATION))
    assert ledger.entries("patients") == ()
    holder.close()
    ledger.reserve("patients", zcdp(THIRD), RELATION)


def test_a_file_whose_pages_do_not_fit_together_is_refused_though_it_answers(path, ledger):
    # A table whose index has lost its rows: every query answers, the records do not agree.
    connection = sqlite3.connect(path)
    query = "SELECT rootpage FROM sqlite_master WHERE name LIKE 'sqlite_autoindex%'"
    (root,) = connection.execute(query).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    # The number of rows in the page of the index.
    rows = slice((root - 1) * size + 3, (root - 1) * size + 5)
    assert content[rows] == b"\x00\x01"
    content[rows] = b"\x00\x00"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match="is not a dpcov ledger"):
        ledger.datasets()


def test_a_name_of_a_table_that_is_no_text_any_more_is_told_as_damage(path, ledger):
    ledger.datasets()
    content = path.read_bytes()
    # As the list of tables has it.
    assert content.count(b"tabletrail_head") == 1
    path.write_bytes(content.replace(b"tabletrail_head", b"tabletrail_\xffead"))
    with pytest.raises(LedgerError, match="damaged or is not a dpcov ledger"):
        ledger.datasets()

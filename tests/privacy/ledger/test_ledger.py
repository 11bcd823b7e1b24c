import sqlite3
import stat
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest

from dpcov.errors import LedgerError, UsageError
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.privacy.ledger import records as ledger_records
from dpcov.privacy.ledger import sqlite as ledger_file
from dpcov.privacy.ledger import store as ledger_store
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.privacy.ledger.postgres import LedgerServer
from dpcov.privacy.ledger.spend import Spend

LONGEST_TEXT = 1000
THIRD = Fraction(1, 3)
RELATION = "replace-one"


def zcdp(rho):
    return Spend(promise=ZCDP(rho=Fraction(rho)), mechanism="gaussian")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "privacy.ledger"


@pytest.fixture
def ledger(path):
    ledger = Ledger(path)
    ledger.create("patients", Budget(rho=1), RELATION)
    return ledger


def test_an_account_is_recorded_exactly(path, ledger):
    ledger.create(
        "staff", Budget(epsilon=THIRD, delta="1e-9"), "add-remove-one", composition="zcdp"
    )
    patients, staff = Ledger(path).datasets()
    assert (patients.name, patients.total, patients.neighbors) == (
        "patients",
        ZCDP(rho=Fraction(1)),
        RELATION,
    )
    assert staff.total == ApproxDP(epsilon=THIRD, delta=Fraction(1, 10**9))
    assert (patients.composition, staff.composition) == ("zcdp", "zcdp")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_release_goes_from_reserved_to_drawn_to_committed(path, ledger):
    spend = Spend(
        promise=PureDP(epsilon=THIRD),
        mechanism="nuclear",
        rho=Fraction(1, 18),
        noise_multiplier=Fraction(7, 3),
    )
    reservation = ledger.reserve("patients", spend, RELATION, note="first look")
    (entry,) = Ledger(path).entries("patients")
    assert (entry.id, entry.spend, entry.note, entry.state) == (
        reservation.id,
        spend,
        "first look",
        "reserved",
    )
    assert (entry.drawn_at, entry.committed_at, entry.fingerprint) == (None, None, None)
    reservation.mark_drawn()
    assert ledger.entries("patients")[0].state == "drawn"
    reservation.commit("sha256:abc")
    (entry,) = ledger.entries("patients")
    assert (entry.state, entry.fingerprint) == ("committed", "sha256:abc")
    times = [
        datetime.fromisoformat(text)
        for text in (entry.reserved_at, entry.drawn_at, entry.committed_at)
    ]
    assert times == sorted(times)
    assert all(time.utcoffset() == timedelta(0) for time in times)


def test_steps_cannot_be_skipped_or_repeated(ledger):
    reservation = ledger.reserve("patients", zcdp(THIRD), RELATION)
    with pytest.raises(LedgerError, match="moved on"):
        reservation.commit("sha256:abc")
    reservation.mark_drawn()
    with pytest.raises(LedgerError, match="moved on"):
        reservation.mark_drawn()
    reservation.commit("sha256:abc")
    with pytest.raises(LedgerError, match="moved on"):
        reservation.commit("sha256:def")


def test_thirds_fill_a_budget_exactly_and_nothing_more_fits(ledger):
    for _ in range(3):
        ledger.check("patients", zcdp(THIRD), RELATION)
        ledger.reserve("patients", zcdp(THIRD), RELATION)
    balance = ledger.remaining("patients")
    assert (balance.total, balance.spent, balance.remaining) == ({"rho": 1}, {"rho": 1}, {"rho": 0})
    for refuse in (ledger.check, ledger.reserve):
        with pytest.raises(LedgerError, match="overspend"):
            refuse("patients", zcdp("1e-300"), RELATION)
    assert len(ledger.entries("patients")) == 3


def test_a_check_writes_nothing(path, ledger):
    before = path.read_bytes()
    ledger.check("patients", zcdp(THIRD), RELATION)
    assert path.read_bytes() == before


def test_accounts_are_separate(ledger):
    ledger.create("staff", Budget(rho=1), RELATION)
    ledger.reserve("patients", zcdp(1), RELATION)
    ledger.reserve("staff", zcdp(1), RELATION)
    assert [len(ledger.entries(name)) for name in ("patients", "staff")] == [1, 1]


def test_another_relation_is_refused_with_an_explanation(ledger):
    for refuse in (ledger.check, ledger.reserve):
        with pytest.raises(
            LedgerError, match="replace-one neighbors; a release under add-remove-one"
        ):
            refuse("patients", zcdp(THIRD), "add-remove-one")
    assert ledger.entries("patients") == ()


@pytest.mark.parametrize("stated", [True, False])
def test_an_account_has_one_unit_fixed_when_it_is_opened_or_by_its_first_release(ledger, stated):
    ledger.create("wards", Budget(rho=1), RELATION, rows_per_person=np.int64(3) if stated else None)
    three = replace(zcdp(THIRD), rows_per_person=3)
    if not stated:
        ledger.check("wards", zcdp(THIRD), RELATION)
        ledger.reserve("wards", three, RELATION)
    for refuse in (ledger.check, ledger.reserve):
        for other in (1, 4):
            with pytest.raises(
                LedgerError, match=f"rows_per_person = 3; a release with {other} cannot"
            ):
                refuse("wards", replace(three, rows_per_person=other), RELATION)
    ledger.reserve("wards", three, RELATION)
    assert ledger.remaining("wards").rows_per_person == 3
    assert {entry.spend.rows_per_person for entry in ledger.entries("wards")} == {3}
    assert ledger.verify().problems == ()


@pytest.mark.parametrize("unit", [0, -1, 1.5, True, "2"])
def test_a_unit_that_is_no_number_of_rows_is_refused(path, unit):
    with pytest.raises(UsageError, match="rows_per_person"):
        Ledger(path).create("wards", Budget(rho=1), RELATION, rows_per_person=unit)
    assert not path.exists()


def test_the_first_release_fixes_the_rule(ledger):
    ledger.create("mixed", Budget(epsilon=1, delta="1e-6"), RELATION)
    assert ledger.remaining("mixed").composition is None
    assert ledger.remaining("mixed").remaining == {"epsilon": 1, "delta": Fraction(1, 10**6)}
    ledger.reserve(
        "mixed", Spend(promise=PureDP(epsilon=Fraction(1, 2)), mechanism="nuclear"), RELATION
    )
    assert ledger.remaining("mixed").composition == "basic"
    assert ledger.remaining("mixed").remaining["epsilon"] == Fraction(1, 2)
    with pytest.raises(LedgerError, match="cannot count"):
        ledger.reserve("mixed", zcdp("0.0001"), RELATION)


def test_a_refused_first_release_fixes_nothing(ledger):
    ledger.create("mixed", Budget(epsilon=1, delta="1e-6"), RELATION)
    with pytest.raises(LedgerError, match="overspend"):
        ledger.reserve("mixed", zcdp(1), RELATION)
    assert ledger.remaining("mixed").composition is None


def test_planned_releases_are_asked_for_by_name(ledger):
    ledger.create("planned", Budget(epsilon="0.7", delta="0.01"), RELATION, composition="planned")
    for _ in range(8):
        ledger.reserve(
            "planned", Spend(promise=PureDP(epsilon=Fraction(1, 10)), mechanism="nuclear"), RELATION
        )
    assert 0 < ledger.remaining("planned").remaining["delta"] < Fraction(1, 100)


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "x" * (LONGEST_TEXT + 1)])
def test_unusable_names_are_refused(ledger, name):
    with pytest.raises(LedgerError, match="dataset name"):
        ledger.create(name, Budget(rho=1), RELATION)


def test_an_account_cannot_be_opened_twice(ledger):
    with pytest.raises(LedgerError, match="already has an account"):
        ledger.create("patients", Budget(rho=100), RELATION)
    assert ledger.datasets()[0].total == ZCDP(rho=Fraction(1))


def test_an_unknown_account_is_refused(ledger):
    for call in (ledger.entries, ledger.remaining):
        with pytest.raises(LedgerError, match="no account"):
            call("nobody")
    with pytest.raises(LedgerError, match="no account"):
        ledger.reserve("nobody", zcdp(1), RELATION)


def test_a_long_note_is_refused(ledger):
    with pytest.raises(LedgerError, match="note"):
        ledger.reserve("patients", zcdp(THIRD), RELATION, note="x" * (LONGEST_TEXT + 1))


def test_a_missing_file_is_never_replaced_by_an_empty_one(path):
    for call in (
        Ledger(path).datasets,
        lambda: Ledger(path).reserve("patients", zcdp(1), RELATION),
    ):
        with pytest.raises(LedgerError, match="no ledger at this path"):
            call()
    assert not path.exists()


def test_a_missing_folder_is_explained(tmp_path):
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger(tmp_path / "nowhere" / "privacy.ledger").create("patients", Budget(rho=1), RELATION)


def test_an_interrupted_creation_can_be_finished(path):
    path.touch()
    with pytest.raises(LedgerError, match="empty"):
        Ledger(path).datasets()
    Ledger(path).create("patients", Budget(rho=1), RELATION)
    assert len(Ledger(path).datasets()) == 1


def damage_header(path):
    path.write_bytes(b"patients,age\n1,2\n" * 1000)


def damage_page(path):
    content = bytearray(path.read_bytes())
    content[4096 * 2 : 4096 * 3] = b"\xff" * 4096
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:6000])


def sql(statement):
    def edit(path):
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.commit()
        connection.close()

    return edit


@pytest.mark.parametrize(
    "damage",
    [
        damage_header,
        damage_page,
        truncate,
        sql("DROP TABLE ledger_format"),
        sql("DELETE FROM ledger_format"),
        sql("UPDATE ledger_format SET name = 'other'"),
        sql("UPDATE dataset SET total_rho = '-1'"),
        sql("UPDATE dataset SET total_rho = '1/0'"),
        sql("UPDATE dataset SET total_epsilon = '1'"),
        sql("UPDATE dataset SET neighbors = 'anybody'"),
        sql("UPDATE dataset SET rows_per_person = 0"),
        sql("UPDATE dataset SET rows_per_person = 'all'"),
        sql("UPDATE entry SET rows_per_person = 'all'"),
        sql("UPDATE entry SET promise_rho = '-1/3'"),
        sql("UPDATE entry SET promise_rho = 'nan'"),
        sql("UPDATE entry SET state = 'refunded'"),
        sql("UPDATE entry SET promise_rho = x'ff'"),
    ],
)
def test_a_file_that_cannot_be_trusted_is_refused(path, ledger, damage):
    ledger.reserve("patients", zcdp(THIRD), RELATION)
    damage(path)
    for call in (
        lambda: ledger.remaining("patients"),
        lambda: ledger.check("patients", zcdp("0.01"), RELATION),
        lambda: ledger.reserve("patients", zcdp("0.01"), RELATION),
    ):
        with pytest.raises(LedgerError, match=r"damaged.*backup"):
            call()


def test_a_rule_that_does_not_suit_the_total_is_refused(path, ledger):
    sql("UPDATE dataset SET composition = 'planned'")(path)
    with pytest.raises(LedgerError, match="Use one of"):
        ledger.reserve("patients", zcdp(THIRD), RELATION)


def test_a_path_that_no_file_system_takes_is_no_ledger(tmp_path):
    with pytest.raises(LedgerError, match="no ledger at this path"):
        Ledger(tmp_path / ("x" * 5000)).datasets()
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger(tmp_path / ("x" * 5000)).create("patients", Budget(rho=1), RELATION)


def test_names_of_tables_that_are_no_text_are_damage(path, ledger):
    content = path.read_bytes()
    assert b"CREATE TABLE ledger_format" in content
    path.write_bytes(
        content.replace(b"CREATE TABLE ledger_format", b"CREATE TABLE ledger_forma\xff")
    )
    with pytest.raises(LedgerError, match="damaged"):
        ledger.datasets()


def test_an_answer_that_is_no_text_is_damage(ledger, monkeypatch):
    def garbled(connection):
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    monkeypatch.setattr(ledger_file, "_has_tables", garbled)
    with pytest.raises(LedgerError, match="damaged"):
        ledger.datasets()


def test_an_entry_whose_number_is_none_is_damage():
    cells = {"id": 1, "dataset": "d", "reserved_at": "now", "note": "", "state": "reserved"}
    good = dict.fromkeys(ledger_records.ENTRY_FIELDS) | ledger_records.spend_row(zcdp(1)) | cells
    assert ledger_records.read_entry(good).spend == ledger_records.read_spend(good) == zcdp(1)
    for wrong in (
        {"id": "1"},
        {"id": None},
        {"reserved_at": None},
        {"reserved_at": 3},
        {"state": "paid"},
    ):
        with pytest.raises(LedgerError, match="damaged"):
            ledger_records.read_entry(good | wrong)


@pytest.mark.parametrize("number", ["0.5", "1e3", " 1", "1/2/3", "+1", "\u0661", "1" * 4001, 1])
def test_a_number_that_is_not_written_as_here_is_damage(number):
    for name in ("promise_rho", "rho", "noise_multiplier"):
        row = ledger_records.spend_row(zcdp(1)) | {name: number}
        with pytest.raises(LedgerError, match="damaged"):
            ledger_records.read_spend(row)


def test_texts_of_a_thousand_characters_are_kept(ledger):
    ledger.create("x" * LONGEST_TEXT, Budget(rho=1), RELATION)
    reservation = ledger.reserve("x" * LONGEST_TEXT, zcdp(THIRD), RELATION, note="y" * LONGEST_TEXT)
    reservation.mark_drawn()
    with pytest.raises(LedgerError, match="1 to 1000"):
        reservation.commit("z" * (LONGEST_TEXT + 1))
    reservation.commit("z" * LONGEST_TEXT)
    (entry,) = ledger.entries("x" * LONGEST_TEXT)
    assert (entry.note, entry.fingerprint) == ("y" * LONGEST_TEXT, "z" * LONGEST_TEXT)


@pytest.mark.parametrize("text", ["a\x00b", "a\udcffb"])
def test_what_is_no_text_is_refused(ledger, text):
    with pytest.raises(LedgerError, match="not text"):
        ledger.reserve("patients", zcdp(THIRD), RELATION, note=text)
    with pytest.raises(LedgerError, match="no account of this name"):
        ledger.remaining(text)
    with pytest.raises(LedgerError, match="printable"):
        ledger.create(text, Budget(rho=1), RELATION)


def test_a_newer_file_is_refused(path, ledger):
    sql("UPDATE ledger_format SET version = 4")(path)
    with pytest.raises(LedgerError, match="Upgrade dpcov"):
        ledger.datasets()


@pytest.mark.parametrize(
    ("pragma", "message"),
    [
        ("PRAGMA query_only = ON", "Make its file and folder writable"),
        ("PRAGMA max_page_count = 1", "disk .* full"),
    ],
)
def test_a_file_that_cannot_grow_or_change_spends_nothing(ledger, monkeypatch, pragma, message):
    connect = ledger_file.LedgerFile._connect

    def limited(store):
        connection = connect(store)
        connection.execute(pragma)
        return connection

    monkeypatch.setattr(ledger_file.LedgerFile, "_connect", limited)
    with pytest.raises(LedgerError, match=message):
        for _ in range(100):
            ledger.reserve("patients", zcdp("1e-9"), RELATION, note="x" * LONGEST_TEXT)
    monkeypatch.undo()
    balance = ledger.remaining("patients")
    assert balance.spent["rho"] == len(ledger.entries("patients")) * Fraction(1, 10**9)


def test_a_full_account_is_whole_and_one_beyond_its_total_has_nothing_left(ledger):
    for _ in range(3):
        reservation = ledger.reserve("patients", zcdp(THIRD), RELATION)
    assert repr(reservation) == "Reservation(id=3, dataset='patients')"
    assert ledger.verify().problems == ()
    with ledger._store.writing() as transaction:
        transaction.add_entry("patients", zcdp(THIRD), "", "2020")
    balance = ledger.remaining("patients")
    assert (balance.spent, balance.remaining) == ({"rho": Fraction(4, 3)}, {"rho": 0})
    assert ledger.verify().problems == ("the releases of patients exceed its total",)


def test_a_ledger_is_named_by_a_path_or_by_the_address_of_a_database(path, ledger):
    assert [account.name for account in Ledger(str(path)).datasets()] == ["patients"]
    for needed in ("sqlalchemy", "psycopg"):
        pytest.importorskip(needed)
    assert type(Ledger("postgresql://somebody@nowhere.invalid/ledger")._store) is LedgerServer
    with pytest.raises(UsageError, match="postgresql"):
        Ledger("mysql://somebody@nowhere.invalid/ledger")


def test_a_held_lock_is_explained(path, ledger, monkeypatch):
    monkeypatch.setattr(ledger_store, "LOCK_WAIT_SECONDS", 0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="Another process"):
        ledger.reserve("patients", zcdp(THIRD), RELATION)
    holder.rollback()
    holder.close()
    ledger.reserve("patients", zcdp(THIRD), RELATION)

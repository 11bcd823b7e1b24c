"""The audit trail: whatever is edited, deleted, moved or cut off is found, and what remains trustworthy is named."""

import hashlib
import sqlite3
from fractions import Fraction

import pytest

from dpcov.errors import LedgerError, UsageError
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, PureDP
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.privacy.ledger.records import DATASET_FIELDS, ENTRY_FIELDS
from dpcov.privacy.ledger.spend import Spend
from dpcov.privacy.ledger.trail import (
    GENESIS,
    Event,
    Head,
    audit,
    canonical,
    created_details,
    reserved_details,
)

TENTH = Fraction(1, 10)
SPEND = Spend(promise=ZCDP(rho=TENTH), mechanism="gaussian")
RELATION = "replace-one"


@pytest.fixture
def path(tmp_path):
    """Two accounts; releases 1 to 4 in every state; 13 events."""
    path = tmp_path / "privacy.ledger"
    book = Ledger(path)
    book.create("patients", Budget(rho=1), RELATION)
    book.create("staff", Budget(epsilon=1, delta="1e-6"), RELATION)
    for number in range(2):
        reservation = book.reserve("patients", SPEND, RELATION, note=f"note {number}")
        reservation.mark_drawn()
        reservation.commit(f"sha256:{number}")
    pure = Spend(promise=PureDP(epsilon=TENTH), mechanism="laplace")
    book.reserve("staff", pure, RELATION).mark_drawn()
    book.reserve("patients", SPEND, RELATION)
    return path


def edit(path, *statements):
    """Change tables as somebody with write access can, who first removes what forbids it."""
    with sqlite3.connect(path, isolation_level=None) as connection:
        for statement in (
            "DROP TRIGGER IF EXISTS event_update",
            "DROP TRIGGER IF EXISTS event_delete",
            *statements,
        ):
            connection.execute(statement)
    connection.close()


def events_of(path):
    with sqlite3.connect(path) as connection:
        rows = connection.execute(
            f"SELECT {', '.join(Event._fields)} FROM event ORDER BY number"
        ).fetchall()
    connection.close()
    return [Event(**dict(zip(Event._fields, row, strict=True))) for row in rows]


def test_a_ledger_that_nobody_touched_is_whole(path):
    found = Ledger(path).verify()
    assert found.problems == ()
    assert (found.trusted_events, found.trusted_entries) == (12, (1, 2, 3, 4))
    assert found.head.events == 12
    assert found.head.entries == 4
    steps = [(event.kind, event.entry) for event in events_of(path)]
    assert steps == [
        *[("created", None), ("created", None)],
        *[(kind, number) for number in (1, 2) for kind in ("reserved", "drawn", "committed")],
        *[("ruled", None), ("reserved", 3), ("drawn", 3), ("reserved", 4)],
    ]


def test_the_trail_cannot_be_changed_by_accident(path):
    for statement in ("UPDATE event SET at = 'x'", "DELETE FROM event WHERE number = 12"):
        with (
            sqlite3.connect(path) as connection,
            pytest.raises(sqlite3.IntegrityError, match="append-only"),
        ):
            connection.execute(statement)
        connection.close()


TAMPERED = [
    (
        "UPDATE event SET details = replace(details, '1/10', '1/99') WHERE number = 6",
        "event 6 was changed",
        5,
    ),
    ("DELETE FROM event WHERE number = 4", "event 4 is missing", 3),
    ("DELETE FROM event WHERE number IN (4, 5)", "event 4 to 5 is missing", 3),
    ("DELETE FROM event WHERE number > 9", "its end is missing", 9),
    ("DELETE FROM event", "its end is missing", 0),
    ("UPDATE trail_head SET digest = 'f'", "its end is missing or changed", 12),
    ("UPDATE trail_head SET events = 20", "its end is missing", 12),
]


@pytest.mark.parametrize(("statement", "words", "trusted"), TAMPERED)
def test_a_tampered_trail_is_found_and_its_good_part_named(path, statement, words, trusted):
    edit(path, statement)
    found = Ledger(path).verify()
    assert words in found.problems[0]
    assert found.trusted_events == trusted
    assert set(found.trusted_entries) <= {1, 2, 3, 4}


def test_what_is_confirmed_before_a_break_stays_trusted(path):
    edit(path, "UPDATE event SET at = '2000' WHERE number = 7")
    found = Ledger(path).verify()
    assert found.trusted_events == 6
    # Release 1 is complete before the break, release 2 is not.
    assert found.trusted_entries == (1,)


def test_swapped_events_are_found(path):
    edit(
        path,
        "UPDATE event SET number = -1 WHERE number = 3",
        "UPDATE event SET number = 3 WHERE number = 6",
        "UPDATE event SET number = 6 WHERE number = -1",
    )
    assert "event 3 was changed, or does not belong" in Ledger(path).verify().problems[0]


RECORDS = [
    ("UPDATE entry SET promise_rho = '1/1000' WHERE id = 1", "entry 1 was changed: promise_rho"),
    ("UPDATE entry SET state = 'reserved' WHERE id = 2", "entry 2 was changed: state"),
    ("DELETE FROM entry WHERE id = 2", "entry 2 was removed"),
    ("INSERT INTO entry SELECT 9, dataset, reserved_at, mechanism, promise_epsilon, promise_delta, promise_rho, rho,"
     " noise_multiplier, rows_per_person, note, state, drawn_at, committed_at, fingerprint FROM entry WHERE id = 1",
     "entry 9 is unknown"),
    ("UPDATE dataset SET total_rho = '100' WHERE name = 'patients'", "an account was changed: total_rho"),
    ("UPDATE dataset SET rows_per_person = 9 WHERE name = 'staff'", "an account was changed: rows_per_person"),
    ("UPDATE entry SET rows_per_person = 9 WHERE id = 1", "entry 1 was changed: rows_per_person"),
    ("INSERT INTO dataset SELECT 'again', created_at, neighbors, rows_per_person, total_epsilon, total_delta,"
     " total_rho, composition FROM dataset WHERE name = 'patients'", "an account is unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "words"), RECORDS)
def test_records_that_differ_from_the_trail_are_found(path, statement, words):
    edit(path, statement)
    found = Ledger(path).verify()
    assert words in " ".join(found.problems)
    assert found.trusted_events == 12
    assert len(found.trusted_entries) >= 3


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_every_edit_of_any_cell_is_found(path, stride):
    with sqlite3.connect(path) as connection:
        cells = [
            (table, row[0], column[1])
            for table in ("event", "entry", "dataset", "trail_head")
            for row in connection.execute(f"SELECT rowid FROM {table}").fetchall()
            for column in connection.execute(f"PRAGMA table_info({table})").fetchall()
        ]
    connection.close()
    whole = path.read_bytes()
    assert len(cells) > 100
    for table, row, column in cells[::stride]:
        path.write_bytes(whole)
        edit(
            path,
            "PRAGMA foreign_keys = OFF",
            f"UPDATE {table} SET {column} = CASE typeof({column}) WHEN 'integer' THEN {column} + 100"
            f" WHEN 'null' THEN '1' ELSE {column} || '0' END WHERE rowid = {row}",
        )
        if (table, column) == ("trail_head", "entries"):
            with pytest.raises(LedgerError, match="damaged"):
                Ledger(path).remaining("patients")
        else:
            assert Ledger(path).verify().problems != (), (table, row, column)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entry WHERE id = 4",
        "DELETE FROM event WHERE number = 12",
        "DELETE FROM event",
        "UPDATE trail_head SET digest = 'f'",
        "UPDATE trail_head SET events = 13",
        "UPDATE trail_head SET events = 0",
        "UPDATE trail_head SET entries = 5",
        "UPDATE event SET details = '{}' WHERE number = 12",
        "DELETE FROM trail_head",
    ],
)
def test_daily_work_stops_when_the_end_of_the_trail_is_wrong(path, statement):
    edit(path, statement)
    for call in (
        lambda: Ledger(path).remaining("patients"),
        lambda: Ledger(path).check("patients", SPEND, RELATION),
        lambda: Ledger(path).reserve("patients", SPEND, RELATION),
    ):
        with pytest.raises(LedgerError, match=r"damaged.*backup"):
            call()


def rewrite(path, keep):
    """Cut the history off after some events and forge a chain that fits; what an intruder without a slip does."""
    statements, previous = [], GENESIS
    for event in events_of(path)[:keep]:
        details = event.details.replace('"1/10"', '"1/1000"')
        forged = event._replace(details=details)
        previous = forged.expected_digest(previous)
        text = details.replace("'", "''")
        statements.append(
            f"UPDATE event SET details = '{text}', digest = '{previous}' WHERE number = {event.number}"
        )
    left = max((event.entry or 0 for event in events_of(path)[:keep]), default=0)
    edit(
        path,
        f"DELETE FROM event WHERE number > {keep}",
        f"DELETE FROM entry WHERE id > {left}",
        "UPDATE entry SET promise_rho = '1/1000' WHERE promise_rho = '1/10'",
        "UPDATE dataset SET composition = NULL WHERE name = 'staff'",
        f"UPDATE trail_head SET events = {keep}, entries = {left}, digest = '{previous}'",
        *statements,
    )


def test_a_forged_history_is_found_by_a_receipt_kept_elsewhere(path):
    receipt = Ledger(path).verify().head.receipt
    Ledger(path).reserve("patients", SPEND, RELATION)
    assert Ledger(path).verify(receipt).problems == ()
    rewrite(path, keep=8)
    # Nothing inside the ledger tells: this is what the receipt is for.
    assert Ledger(path).verify().problems == ()
    assert "its end was cut off" in " ".join(Ledger(path).verify(receipt).problems)


def test_a_rewritten_beginning_is_found_by_a_receipt(path):
    receipt = f"8:{events_of(path)[7].digest}"
    assert Ledger(path).verify(receipt).problems == ()
    rewrite(path, keep=8)
    assert "is not the one of the receipt" in " ".join(Ledger(path).verify(receipt).problems)


@pytest.mark.parametrize("receipt", ["", "12", "x:y", "12:abc", "-1:" + "0" * 64])
def test_what_is_no_receipt_is_refused(path, receipt):
    with pytest.raises(UsageError, match="receipt"):
        Ledger(path).verify(receipt)


def test_an_overspent_account_is_found(path):
    with Ledger(path)._store.writing() as transaction:
        transaction.add_entry(
            "patients", Spend(promise=ZCDP(rho=Fraction(2)), mechanism="x"), "", "2020"
        )
    assert Ledger(path).verify().problems == ("the releases of patients exceed its total",)


def chain(*steps):
    """A trail whose digests are right, whatever its events say."""
    events, previous = [], GENESIS
    for number, (kind, entry, details) in enumerate(steps, 1):
        event = Event(
            number=number,
            at="t",
            kind=kind,
            dataset="patients",
            entry=entry,
            details=details,
            digest="",
        )
        previous = event.expected_digest(previous)
        events.append(event._replace(digest=previous))
    return events, Head(events=len(events), entries=0, digest=previous)


@pytest.mark.parametrize(
    "step",
    [
        ("drawn", 1, "{}"),
        ("committed", None, "{}"),
        ("reserved", None, "{}"),
        ("ruled", None, "{}"),
        ("refunded", 1, "{}"),
        ("created", None, "not JSON"),
        ("created", None, "[1]"),
    ],
)
def test_events_that_make_no_sense_are_found_however_well_chained(step):
    events, head = chain(step)
    found = audit(events, head, [], [])
    assert found.problems == ("event 1 cannot follow the events before it",)
    assert found.trusted_events == 0


@pytest.mark.parametrize("cell", [b"note", float("inf"), float("nan")])
def test_a_cell_of_a_kind_that_nobody_writes_has_a_digest_too(cell):
    event = Event(number=1, at="now", kind="reserve", dataset="d", entry=1, details=cell, digest="")
    other = Event._replace(event, details=repr(cell))
    assert (
        event.expected_digest(GENESIS)
        == event.expected_digest(GENESIS)
        != other.expected_digest(GENESIS)
    )


def test_many_differences_are_told_in_few_lines():
    events, head = chain()
    entries = [{"id": number} for number in range(1, 100)]
    found = audit(events, head, [], entries)
    assert len(found.problems) == 21
    assert found.problems[-1] == "and 79 more differences"


def test_a_head_that_moves_under_a_writer_stops_it(path):
    with pytest.raises(LedgerError, match="damaged"), Ledger(path)._store.writing() as transaction:
        transaction._run("UPDATE trail_head SET events = 99", {})
        transaction.add_entry("patients", SPEND, "", "2020")
    assert Ledger(path).verify().problems == ()


ACCOUNT = dict.fromkeys(DATASET_FIELDS) | {
    "name": "patients",
    "created_at": "t",
    "neighbors": RELATION,
    "total_rho": "1",
    "composition": "zcdp",
}
ENTRY = dict.fromkeys(ENTRY_FIELDS) | {
    "id": 1,
    "dataset": "patients",
    "reserved_at": "t",
    "mechanism": "gaussian",
    "promise_rho": "1/10",
    "rows_per_person": 2,
    "note": "\u00e4",
    "state": "reserved",
}
DRAWN = ENTRY | {"state": "drawn", "drawn_at": "t"}
CREATED = ("created", None, created_details(ACCOUNT))
RESERVED = ("reserved", 1, reserved_details(ENTRY))


def test_what_is_hashed_is_written_in_one_way_only():
    assert canonical({"b": [1, "\u00e4", None], "a": "x y"}) == '{"a":"x y","b":[1,"\\u00e4",null]}'
    with pytest.raises(ValueError, match="JSON"):
        canonical(float("inf"))
    assert created_details(ACCOUNT) == (
        '{"composition":"zcdp","neighbors":"replace-one","rows_per_person":null,'
        '"total_delta":null,"total_epsilon":null,"total_rho":"1"}'
    )
    assert reserved_details(ENTRY) == (
        '{"mechanism":"gaussian","noise_multiplier":null,"note":"\\u00e4","promise_delta":null,'
        '"promise_epsilon":null,"promise_rho":"1/10","rho":null,"rows_per_person":2}'
    )
    event = Event(number=7, at="t", kind="drawn", dataset="d", entry=3, details="{}", digest="")
    text = '[7,"t","drawn","d",3,"{}","' + "0" * 64 + '"]'
    assert event.expected_digest(GENESIS) == hashlib.sha256(text.encode()).hexdigest()
    assert Head(events=7, entries=3, digest="abc").receipt == "7:abc"


@pytest.mark.parametrize(
    ("steps", "accounts", "entries", "problems", "confirmed"),
    [
        ([], [], [], (), ()),
        ([CREATED], [ACCOUNT], [], (), ()),
        ([CREATED, RESERVED], [ACCOUNT], [ENTRY], (), (1,)),
        ([CREATED, RESERVED, ("drawn", 1, "{}")], [ACCOUNT], [DRAWN], (), (1,)),
        ([CREATED, RESERVED, ("drawn", 1, "{}")], [ACCOUNT], [ENTRY],
         ("entry 1 was changed: state, drawn_at differ from the trail",), ()),
        ([CREATED, RESERVED], [ACCOUNT], [], ("entry 1 was removed; the trail has it",), ()),
        ([CREATED], [ACCOUNT], [ENTRY], ("entry 1 is unknown to the trail",), ()),
        ([CREATED], [], [], ("an account was removed; the trail has it",), ()),
        ([], [ACCOUNT], [], ("an account is unknown to the trail",), ()),
        ([CREATED], [ACCOUNT | {"total_rho": "2"}], [],
         ("an account was changed: total_rho differ from the trail",), ()),
        ([CREATED, ("ruled", None, '{"composition":"basic"}')], [ACCOUNT | {"composition": "basic"}], [], (), ()),
        ([CREATED, CREATED], [ACCOUNT], [], ("event 2 cannot follow the events before it",), ()),
        ([RESERVED], [], [], ("event 1 cannot follow the events before it",), ()),
        ([CREATED, ("reserved", None, "{}")], [ACCOUNT], [],
         ("event 2 cannot follow the events before it",), ()),
        # Behind a break the trail is silent about records that it does not know.
        ([CREATED, RESERVED, ("drawn", 9, "{}"), ("drawn", 1, "{}")], [ACCOUNT, ACCOUNT | {"name": "new"}],
         [ENTRY, ENTRY | {"id": 2}], ("event 3 cannot follow the events before it",), (1,)),
    ],
)  # fmt: skip
def test_trail_and_records_are_compared_one_by_one(steps, accounts, entries, problems, confirmed):
    events, head = chain(*steps)
    found = audit(events, head, accounts, entries)
    broken = [problem for problem in problems if problem.startswith("event")]
    trusted = int(broken[0].split()[1]) - 1 if broken else len(steps)
    assert (found.problems, found.trusted_entries) == (problems, confirmed)
    assert (found.head, found.trusted_events) == (head, trusted)


@pytest.mark.parametrize(
    ("kept", "missing"),
    [([1, 3], "2"), ([1, 4], "2 to 3"), ([1, 5], "2 to 4"), ([2], "1"), ([3], "1 to 2")],
)
def test_missing_events_are_named(kept, missing):
    events, head = chain(CREATED, RESERVED, *[("drawn", 1, "{}")] * 3)
    found = audit([events[number - 1] for number in kept], head, [], [])
    assert found.problems[0] == f"event {missing} is missing before event {kept[-1]}"
    assert found.trusted_events == len(kept) - 1


def test_a_receipt_is_compared_with_its_own_event_only():
    events, head = chain(CREATED, RESERVED, ("drawn", 1, "{}"))
    for event in events:
        assert (
            audit(events, head, [ACCOUNT], [DRAWN], f" {event.number}:{event.digest}\n").problems
            == ()
        )
    assert audit(events, head, [ACCOUNT], [DRAWN], "2:" + "f" * 64).problems == (
        "event 2 is not the one of the receipt: history up to it was rewritten",
    )
    assert audit(events, head, [ACCOUNT], [DRAWN], "4:" + "f" * 64).problems == (
        "the receipt is of event 4, the trail ends at 3: its end was cut off",
    )


@pytest.mark.parametrize(
    "receipt", ["\u0661:" + "0" * 64, "1:" + "0" * 65, "1:" + "0" * 63, "1" + "0" * 64]
)
def test_a_receipt_has_a_plain_number_and_a_whole_digest(receipt):
    with pytest.raises(UsageError, match="Copy it whole"):
        audit(*chain(), [], [], receipt)


@pytest.mark.parametrize(("differences", "told"), [(19, 19), (20, 20), (21, 21), (22, 21)])
def test_twenty_differences_are_told_and_the_others_counted(differences, told):
    problems = audit(*chain(), [], [{"id": number} for number in range(differences)]).problems
    assert len(problems) == told
    assert problems[19:20] == (("entry 19 is unknown to the trail",) if told > 19 else ())
    assert problems[20:] == ((f"and {differences - 20} more differences",) if told > 20 else ())


def test_steps_of_earlier_releases_leave_their_count_as_it_is(path):
    book = Ledger(path)
    book.reserve("patients", SPEND, RELATION).mark_drawn()
    with book._store.writing() as transaction:
        transaction.mark_drawn(4, "2020")
        assert transaction._head.entries == 5
    assert book.verify().head.entries == 5
    assert book.reserve("patients", SPEND, RELATION).id == 6

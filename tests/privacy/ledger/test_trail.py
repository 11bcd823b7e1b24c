"""The audit trail: whatever is edited, deleted, moved or cut off is found, the rest is named."""

import hashlib
import sqlite3

import pytest

from dpcov.errors import LedgerError, UsageError
from dpcov.privacy.budget import Budget
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.privacy.ledger.records import ENTRY_FIELDS
from dpcov.privacy.ledger.trail import GENESIS, Event, Head, canonical, verify
from tests.privacy.spends import RELATION, SPEND, TENTH, pure


@pytest.fixture
def path(tmp_path):
    """Two accounts; releases 1 to 4 in every state; 12 events."""
    path = tmp_path / "privacy.ledger"
    book = Ledger(path)
    book.create("patients", Budget(rho=1), RELATION)
    book.create("staff", Budget(epsilon=1, delta="1e-6"), RELATION)
    for number in range(2):
        reservation = book.reserve("patients", SPEND, RELATION, note=f"note {number}")
        reservation.mark_drawn()
        reservation.commit(f"sha256:{number}")
    book.reserve("staff", pure(TENTH), RELATION).mark_drawn()
    book.reserve("patients", SPEND, RELATION)
    return path


def edit(path, *statements):
    """Change tables as somebody with write access can, who first removes what forbids it."""
    free = [f"DROP TRIGGER IF EXISTS event_{change}" for change in ("update", "delete")]
    with sqlite3.connect(path, isolation_level=None) as connection:
        for statement in (*free, *statements):
            connection.execute(statement)
    connection.close()


def events_of(path):
    with sqlite3.connect(path) as connection:
        query = f"SELECT {', '.join(Event._fields)} FROM event ORDER BY number"
        rows = connection.execute(query).fetchall()
    connection.close()
    return [Event(*row) for row in rows]


def test_a_ledger_that_nobody_touched_is_whole(path):
    found = Ledger(path).verify()
    assert found.problems == ()
    assert (found.trusted_events, found.trusted_entries) == (12, (1, 2, 3, 4))
    assert (found.head.events, found.head.entries) == (12, 4)
    steps = [(event.kind, event.entry) for event in events_of(path)]
    assert steps == [
        *[("created", None), ("created", None)],
        *[(kind, number) for number in (1, 2) for kind in ("reserved", "drawn", "committed")],
        *[("ruled", None), ("reserved", 3), ("drawn", 3), ("reserved", 4)],
    ]
    # The very bytes that were hashed by the first version of this format.
    assert [events_of(path)[number].details for number in (0, 2, 3, 4)] == [
        '{"composition":"zcdp","neighbors":"replace-one","rows_per_person":null,'
        '"total_delta":null,"total_epsilon":null,"total_rho":"1"}',
        '{"mechanism":"zcdp","noise_multiplier":null,"note":"note 0","promise_delta":null,'
        '"promise_epsilon":null,"promise_rho":"1/10","rho":null,"rows_per_person":1}',
        "{}",
        '{"fingerprint":"sha256:0"}',
    ]


def test_the_trail_cannot_be_changed_by_accident(path):
    connection = sqlite3.connect(path)
    for statement in ("UPDATE event SET at = 'x'", "DELETE FROM event WHERE number = 12"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()


SWAP = [
    f"UPDATE event SET number = {to} WHERE number = {at}" for at, to in ((3, -1), (6, 3), (-1, 6))
]
ALL, NEVER = {1, 2, 3, 4}, set()
TAMPERED = [
    ("UPDATE event SET details = '{}' WHERE number = 6", "event 6 was changed", 5, {1}),
    ("DELETE FROM event WHERE number = 4", "event 4 is missing", 3, NEVER),
    ("DELETE FROM event WHERE number > 9", "its end is missing", 9, {1, 2}),
    ("DELETE FROM event", "its end is missing", 0, NEVER),
    ("UPDATE trail_head SET digest = 'f'", "its end is missing or changed", 12, ALL),
    ("UPDATE trail_head SET events = 20", "its end is missing", 12, ALL),
    (SWAP, "event 3 was changed, or does not belong", 2, NEVER),
    *(
        (f"UPDATE event SET {column} = {cell} WHERE number = 1", "event 1 was changed", 0, NEVER)
        for column in ("at", "details", "kind", "dataset")
        for cell in ("x'ff'", "9e999", "7")
    ),
    ("DELETE FROM entry WHERE id = 2", "entry 2 was removed; the trail has it", 12, ALL - {2}),
    ("UPDATE entry SET id = 9 WHERE id = 1", "entry 9 is unknown to the trail", 12, ALL - {1}),
    ("UPDATE entry SET state = 'drawn' WHERE id = 4", "entry 4 was changed: state", 12, ALL - {4}),
    ("DELETE FROM dataset WHERE name = 'staff'", "an account was removed", 12, ALL),
    ("UPDATE dataset SET name = 'x' WHERE name = 'staff'", "an account is unknown", 12, ALL),
    ("UPDATE dataset SET total_rho = '2'", "an account was changed: total_rho", 12, ALL),
]


@pytest.mark.parametrize(("statements", "words", "events", "entries"), TAMPERED)
def test_a_tampered_trail_is_found_and_its_good_part_named(
    path, statements, words, events, entries
):
    edit(path, *([statements] if isinstance(statements, str) else statements))
    found = Ledger(path).verify()
    assert words in found.problems[0]
    assert (found.trusted_events, set(found.trusted_entries)) == (events, entries)


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
        other = f"WHEN 'integer' THEN {column} + 100 WHEN 'null' THEN '1' ELSE {column} || '0'"
        change = f"UPDATE {table} SET {column} = CASE typeof({column}) {other} END"
        edit(path, "PRAGMA foreign_keys = OFF", f"{change} WHERE rowid = {row}")
        if (table, column) == ("trail_head", "entries"):
            with pytest.raises(LedgerError, match="damaged"):
                Ledger(path).remaining("patients")
        else:
            assert Ledger(path).verify().problems != (), (table, row, column)


WRONG_ENDS = [
    *("DELETE FROM entry WHERE id = 4", "DELETE FROM event WHERE number = 12", "DELETE FROM event"),
    *(f"UPDATE trail_head SET {cell}" for cell in ("digest = 'f'", "events = 13", "entries = 5")),
    *("UPDATE event SET details = '{}' WHERE number = 12", "DELETE FROM trail_head"),
    "INSERT INTO trail_head SELECT * FROM trail_head",
]


@pytest.mark.parametrize("statement", WRONG_ENDS)
def test_daily_work_stops_when_the_end_of_the_trail_is_wrong(path, statement):
    edit(path, statement)
    book = Ledger(path)
    for call in (
        lambda: book.remaining("patients"),
        lambda: book.check("patients", SPEND, RELATION),
        lambda: book.reserve("patients", SPEND, RELATION),
    ):
        with pytest.raises(LedgerError, match=r"damaged.*backup"):
            call()


def rewrite(path, keep):
    """Cut history off and forge a chain that fits; what an intruder without a slip does."""
    statements, previous = [], GENESIS
    kept = events_of(path)[:keep]
    for event in kept:
        details = event.details.replace('"1/10"', '"1/1000"')
        previous = event._replace(details=details).expected_digest(previous)
        text = details.replace("'", "''")
        change = f"UPDATE event SET details = '{text}', digest = '{previous}'"
        statements.append(f"{change} WHERE number = {event.number}")
    left = max(event.entry or 0 for event in kept)
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
    book = Ledger(path)
    receipts = [book.verify().head.receipt, f"8:{events_of(path)[7].digest}"]
    book.reserve("patients", SPEND, RELATION)
    assert [book.verify(receipt).problems for receipt in receipts] == [(), ()]
    rewrite(path, keep=8)
    # Nothing inside the ledger tells: this is what the receipt is for.
    assert book.verify().problems == ()
    told = [" ".join(book.verify(receipt).problems) for receipt in receipts]
    assert "its end was cut off" in told[0]
    assert "is not the one of the receipt" in told[1]


def chain(*steps):
    """A trail whose digests are right, whatever its events say."""
    events, previous = [], GENESIS
    for number, (kind, entry, details) in enumerate(steps, 1):
        event = Event(number, "t", kind, "patients", entry, details)
        previous = event.expected_digest(previous)
        events.append(event._replace(digest=previous))
    return events, Head(events=len(events), entries=0, digest=previous)


@pytest.mark.parametrize("number", [-7, 0, 99])
def test_a_record_that_nobody_wrote_is_found_whatever_its_number(path, number):
    columns = ", ".join(ENTRY_FIELDS[1:])
    rows = f"SELECT {number}, {columns} FROM entry LIMIT 1"
    edit(path, f"INSERT INTO entry (id, {columns}) {rows}")
    assert f"entry {number} is unknown to the trail" in Ledger(path).verify().problems


def test_of_many_differences_twenty_are_told_and_the_others_counted():
    found = verify(*chain(), [], [{"id": number} for number in range(25)]).problems
    assert len(found) == 21 and found[19] == "entry 19 is unknown to the trail"
    assert found[20] == "and 5 more differences"


def test_what_is_hashed_is_written_in_one_way_only():
    assert canonical({"b": [1, "\u00e4", None], "a": "x y"}) == '{"a":"x y","b":[1,"\\u00e4",null]}'
    text = '[7,"t","drawn","d",3,"{}","' + "0" * 64 + '"]'
    event = Event(7, "t", "drawn", "d", 3, "{}")
    assert event.expected_digest(GENESIS) == hashlib.sha256(text.encode()).hexdigest()


CREATED = ("created", None, '{"neighbors":"replace-one"}')
STRAY = [
    *[("reserved", 1, "{}"), ("drawn", 1, "{}"), ("committed", None, "{}")],
    *[("reserved", None, "{}"), ("ruled", None, "{}"), ("refunded", 1, "{}")],
    *[("created", None, "no JSON"), ("created", None, "[1]"), ("created", None, "[" * 5000)],
]
LOST = [*([step] for step in STRAY), [CREATED, CREATED], [CREATED, ("reserved", None, "{}")]]


@pytest.mark.parametrize("steps", LOST)
def test_a_forged_event_that_cannot_follow_is_found(steps):
    found = verify(*chain(*steps), [], [])
    assert f"event {len(steps)} cannot follow the events before it" in found.problems
    assert (found.trusted_events, found.trusted_entries) == (len(steps) - 1, ())


ZEROS = "0" * 64


NO_RECEIPTS = ["", "12", "x:y", "-1:" + ZEROS, "\u0661:" + ZEROS, "1:0" + ZEROS, "1" + ZEROS]


@pytest.mark.parametrize("receipt", NO_RECEIPTS)
def test_a_receipt_has_a_plain_number_and_a_whole_digest(receipt):
    with pytest.raises(UsageError, match=r"A receipt reads .* Copy it whole"):
        verify(*chain(), [], [], receipt)


def test_a_head_that_moves_under_a_writer_stops_it(path):
    with pytest.raises(LedgerError, match="damaged"), Ledger(path)._store.writing() as transaction:
        transaction._run("UPDATE trail_head SET events = 99", {})
        transaction.add_entry("patients", SPEND, "")
    assert Ledger(path).verify().problems == ()

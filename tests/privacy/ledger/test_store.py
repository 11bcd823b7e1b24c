"""Statements without a database: what is asked for, and what an answer that cannot be right leads to."""

import sqlite3
from fractions import Fraction
from types import SimpleNamespace

import pytest

from dpcov.errors import LedgerError
from dpcov.privacy.budget import Budget
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.privacy.ledger.sqlite import LedgerFile
from dpcov.privacy.ledger.store import LedgerTransaction, check_version
from dpcov.privacy.ledger.trail import GENESIS, Head

HEAD = (0, 0, GENESIS)


class Answers:
    """Gives prepared answers, rows or a count of rows, and notes the questions."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def __call__(self, statement, values):
        self.asked.append((statement, values))
        answer = self.answers.pop(0)
        return SimpleNamespace(
            rowcount=answer, fetchall=lambda: answer, fetchone=lambda: next(iter(answer), None)
        )


def test_tables_of_this_version_are_read():
    check_version(Answers([("dpcov-ledger", 3)]))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (None, "damaged"),
        (("other", 3), "damaged"),
        (("other", 7), "damaged"),
        (("dpcov-ledger", 2), "Upgrade"),
        (("dpcov-ledger", 4), "Upgrade"),
    ],
)
def test_foreign_and_newer_tables_are_refused(row, words):
    with pytest.raises(LedgerError, match=words):
        check_version(Answers([row] if row else []))


def test_the_head_is_read_from_its_only_row_and_locked_on_demand():
    run = Answers([(7, 3, "abc")])
    assert LedgerTransaction(run, lock="FOR UPDATE")._head == Head(
        events=7, entries=3, digest="abc"
    )
    assert run.asked == [("SELECT events, entries, digest FROM trail_head FOR UPDATE", {})]


@pytest.mark.parametrize("rows", [[], [HEAD, HEAD]])
def test_a_trail_has_one_head(rows):
    with pytest.raises(LedgerError, match="damaged"):
        LedgerTransaction(Answers(rows))


def test_long_tables_are_read_by_pages_of_ten_thousand_rows_from_the_smallest_key():
    pages = [[(key, "x") for key in keys] for keys in ((-5, 2), (3,), ())]
    run = Answers([HEAD], *pages)
    assert list(LedgerTransaction(run)._pages(("number", "at"), "event", "number")) == [
        {"number": key, "at": "x"} for key in (-5, 2, 3)
    ]
    statement = "SELECT number, at FROM event WHERE number > :after ORDER BY number LIMIT 10000"
    assert run.asked[1:] == [(statement, {"after": after}) for after in (-(2**31), 2, 3)]


@pytest.mark.parametrize("touched", [0, 2])
def test_a_step_that_does_not_touch_exactly_one_row_is_refused(touched):
    with pytest.raises(LedgerError, match="moved on"):
        LedgerTransaction(Answers([HEAD], touched)).mark_drawn(1, "now")
    with pytest.raises(LedgerError, match="moved on"):
        LedgerTransaction(Answers([HEAD], touched)).fix_composition("patients", "zcdp")
    with pytest.raises(LedgerError, match="damaged"):
        LedgerTransaction(Answers([HEAD], 1, touched))._append(
            "created", "patients", None, "now", "{}"
        )


def test_the_head_moves_with_every_event_and_keeps_the_largest_number():
    transaction = LedgerTransaction(Answers([(4, 2, "abc")], 1, 1, 1, 1, 1, 1))
    for entry, entries in ((None, 2), (3, 3), (1, 3)):
        before = transaction._head
        transaction._append("drawn", "patients", entry, "now", "{}")
        assert (transaction._head.events, transaction._head.entries) == (before.events + 1, entries)
        assert len(transaction._head.digest) == 64


def test_a_connection_waits_half_a_minute_and_creates_no_file(tmp_path, monkeypatch):
    path, connect, options = tmp_path / "privacy.ledger", sqlite3.connect, []
    Ledger(path).create("patients", Budget(rho=Fraction(1)), "replace-one")
    monkeypatch.setattr(
        sqlite3,
        "connect",
        lambda *place, **given: options.append(given) or connect(*place, **given),
    )
    connection = LedgerFile(path)._connect()
    assert options == [{"uri": True, "timeout": 30.0, "isolation_level": None}]
    assert connection.execute("PRAGMA busy_timeout").fetchone() == (30_000,)
    assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert connection.execute("PRAGMA synchronous").fetchone() == (3,)
    connection.close()


def test_a_file_whose_pages_do_not_fit_together_is_refused_though_it_answers(tmp_path):
    # A table whose index has lost its rows: every query answers, the records no longer agree with each other.
    path = tmp_path / "privacy.ledger"
    Ledger(path).create("patients", Budget(rho=Fraction(1)), "replace-one")
    with sqlite3.connect(path) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name LIKE 'sqlite_autoindex%'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    start = (root - 1) * size
    assert (
        content[start + 3 : start + 5] == b"\x00\x01"
    )  # the number of rows in the page of the index
    content[start + 3 : start + 5] = b"\x00\x00"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match="is not a dpcov ledger"):
        Ledger(path).datasets()

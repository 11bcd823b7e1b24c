"""Statements without a database: what is asked, and what wrong answers lead to."""

import sqlite3
from types import SimpleNamespace

import pytest

from dpcov.errors import LedgerError
from dpcov.privacy.budget import Budget
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.privacy.ledger.sqlite import LedgerFile
from dpcov.privacy.ledger.store import LedgerTransaction
from dpcov.privacy.ledger.trail import GENESIS, Head
from tests.privacy.spends import RELATION

HEAD = (0, 0, GENESIS)


class Answers:
    """Gives prepared answers, rows or a count of rows, and notes the questions."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def __call__(self, statement, values):
        self.asked.append((statement, values))
        answer = self.answers.pop(0)
        return SimpleNamespace(rowcount=answer, fetchall=lambda: answer)


def test_the_head_is_read_from_its_only_row_and_locked_on_demand():
    run = Answers([(7, 3, "abc")])
    assert LedgerTransaction(run, lock="FOR UPDATE")._head == Head(7, 3, "abc")
    assert run.asked == [("SELECT events, entries, digest FROM trail_head FOR UPDATE", {})]
    for heads in ([], [HEAD, HEAD]):
        with pytest.raises(LedgerError, match="damaged"):
            LedgerTransaction(Answers(heads))


def test_long_tables_are_read_by_pages_of_ten_thousand_rows_from_the_smallest_key():
    pages = [[(key, "x") for key in keys] for keys in ((-5, 2), (3,), ())]
    run = Answers([HEAD], *pages)
    found = LedgerTransaction(run)._pages(("number", "at"), "event", "number")
    assert list(found) == [{"number": key, "at": "x"} for key in (-5, 2, 3)]
    statement = "SELECT number, at FROM event WHERE number > :after ORDER BY number LIMIT 10000"
    assert run.asked[1:] == [(statement, {"after": after}) for after in (-(2**31), 2, 3)]


@pytest.mark.parametrize("touched", [0, 2])
def test_a_step_that_does_not_touch_exactly_one_row_is_refused(touched):
    with pytest.raises(LedgerError, match="moved on"):
        LedgerTransaction(Answers([HEAD], touched)).move(1, "reserved", "drawn")
    with pytest.raises(LedgerError, match="moved on"):
        LedgerTransaction(Answers([HEAD], touched)).fix_composition("patients", "zcdp")
    # A head that moved under a writer.
    with pytest.raises(LedgerError, match="damaged"):
        LedgerTransaction(Answers([HEAD], 1, touched))._append("created", "d", None, "now", {})


def test_the_head_moves_with_every_event_and_keeps_the_largest_number():
    transaction = LedgerTransaction(Answers([(4, 2, "abc")], 1, 1, 1, 1, 1, 1))
    for events, (entry, entries) in enumerate(((None, 2), (3, 3), (1, 3)), 5):
        transaction._append("drawn", "patients", entry, "now", {})
        assert transaction._head[:2] == (events, entries)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "privacy.ledger"
    Ledger(path).create("patients", Budget(rho=1), RELATION)
    return path


def test_a_connection_waits_half_a_minute_and_syncs_the_folder(path):
    connection = LedgerFile(path)._connect()
    for pragma, value in (("busy_timeout", 30_000), ("foreign_keys", 1), ("synchronous", 3)):
        assert connection.execute(f"PRAGMA {pragma}").fetchone() == (value,)
    connection.close()


def test_a_file_whose_pages_do_not_fit_together_is_refused_though_it_answers(path):
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
        Ledger(path).datasets()

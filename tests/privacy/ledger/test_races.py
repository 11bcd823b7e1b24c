"""Thirty-two spenders at once, in a file and on a server: the total is used in full, no more."""

import multiprocessing
import sys
import time
from fractions import Fraction

import pytest

from dpcov.errors import LedgerError
from dpcov.privacy.budget import Budget
from dpcov.privacy.ledger import store as ledger_store
from dpcov.privacy.ledger.ledger import Ledger
from tests.privacy.spends import RELATION, SPEND, zcdp

N_SPENDERS = 32

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs processes that fork quickly")


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Nobody's turn is fair, and a disk may be slow."""
    monkeypatch.setattr(ledger_store, "LOCK_WAIT_SECONDS", 250.0)


@pytest.fixture(params=["file", "server"])
def place(request, tmp_path):
    if request.param == "file":
        return tmp_path / "privacy.ledger"
    pytest.importorskip("sqlalchemy")
    return request.getfixturevalue("postgres_database")


def at_once(work, *arguments):
    """Run work in all processes, started together; return what each reported."""
    context = multiprocessing.get_context("fork")
    barrier, reports = context.Barrier(N_SPENDERS), context.SimpleQueue()

    def run():
        barrier.wait()
        reports.put(work(*arguments))

    processes = [context.Process(target=run) for _ in range(N_SPENDERS)]
    for process in processes:
        process.start()
    found = [reports.get() for _ in processes]
    for process in processes:
        process.join()
    return found


def spend_until_refused(place):
    count = 0
    try:
        while True:
            reservation = Ledger(place).reserve("patients", SPEND, RELATION)
            count += 1
            if count % 2:
                reservation.mark_drawn()
                reservation.commit(f"sha256:{count}")
    except LedgerError as error:
        return count, str(error)


def test_racing_spenders_never_overspend(place):
    Ledger(place).create("patients", Budget(rho=4), RELATION)
    outcomes = at_once(spend_until_refused, place)
    assert sum(count for count, _ in outcomes) == 40
    assert all("overspend" in message for _, message in outcomes)
    book = Ledger(place)
    assert book.remaining("patients").remaining == {"rho": 0}
    assert sorted(entry.id for entry in book.entries("patients")) == list(range(1, 41))
    assert book.verify().problems == ()


def open_account(place):
    try:
        Ledger(place).create("patients", Budget(rho=1), RELATION)
    except LedgerError as error:
        return str(error)
    return "created"


def test_racing_creators_open_one_account(place):
    outcomes = at_once(open_account, place)
    assert outcomes.count("created") == 1
    assert all(outcome == "created" or "already has an account" in outcome for outcome in outcomes)
    assert Ledger(place).verify().problems == ()


def seconds(work):
    """Processor time of this process, the best of three: the machine may be busy with others."""
    found = []
    for _ in range(3):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def add_committed(book, numbers, distinct):
    """Entries in one transaction, which is how a test gets a long history quickly."""
    with book._store.writing() as transaction:
        for number in numbers:
            spend = zcdp(Fraction(1, 1000 + number % distinct * 7919))
            entry = transaction.add_entry("patients", spend, "")
            transaction.move(entry, "reserved", "drawn")
            transaction.move(entry, "drawn", "committed", fingerprint="sha256:" + "a" * 64)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("n_entries", "distinct"),
    [
        (4_000, 50),
        pytest.param(100_000, 1, marks=pytest.mark.slow),
        pytest.param(100_000, 100_000, marks=pytest.mark.slow),
    ],
)
def test_thousands_of_entries_stay_fast(tmp_path, n_entries, distinct):
    book = Ledger(tmp_path / "privacy.ledger")
    book.create("patients", Budget(rho=500), RELATION)
    questions = {
        "reserve": lambda: book.reserve("patients", SPEND, RELATION),
        "entries": lambda: book.entries("patients"),
        "remaining": lambda: book.remaining("patients"),
        "verify": book.verify,
    }
    few = n_entries // 10
    add_committed(book, range(few), distinct)
    before = {name: seconds(question) for name, question in questions.items()}
    add_committed(book, range(few, n_entries), distinct)
    after = {name: seconds(question) for name, question in questions.items()}
    # Ten times the entries take ten times as long; a loop within a loop would take a hundred.
    assert all(after[name] < 25 * before[name] for name in questions), (before, after)
    assert len(book.entries("patients")) == n_entries + 6

"""The ledger file when a disk or a process fails: nothing acknowledged is ever forgotten."""

import itertools
import pickle
import shutil
import signal
from functools import partial

import pytest

from dpcov.errors import LedgerError
from dpcov.privacy.budget import Budget
from dpcov.privacy.ledger import records
from dpcov.privacy.ledger.ledger import Ledger
from tests.privacy.ledger import faulty_disk
from tests.privacy.ledger.faulty_disk import Operation, die, in_child, install, power_cuts
from tests.privacy.spends import RELATION, SPEND, TENTH, with_pragma

STEPS = ["reserved", "drawn", "committed"]


STRIDES = pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
"""Some requests in the quick run, every one in the deep run."""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "privacy.ledger"
    Ledger(path).create("patients", Budget(rho=1), RELATION)
    Ledger(path).reserve("patients", SPEND, RELATION)
    return path


def release(path, tell):
    """Do what a release does, and tell each step as soon as it is reported as done."""
    reservation = Ledger(path).reserve("patients", SPEND, RELATION)
    tell(b"reserved ")
    reservation.mark_drawn()
    tell(b"drawn ")
    reservation.commit("sha256:abc")
    tell(b"committed ")


def assert_remembered(path, told):
    """What was told is recorded, at most the step under way beside it, and the ledger goes on."""
    book = Ledger(path)
    later = book.entries("patients")[1:]
    assert book.verify().problems == ()
    assert len(later) <= 1
    known = STEPS.index(later[0].state) + 1 if later else 0
    assert len(told) <= known <= len(told) + 1
    assert book.remaining("patients").spent == {"rho": TENTH * (1 + len(later))}


def assert_goes_on(path):
    before = Ledger(path).remaining("patients").spent["rho"]
    Ledger(path).reserve("patients", SPEND, RELATION)
    assert Ledger(path).remaining("patients").spent["rho"] == before + TENTH
    assert Ledger(path).verify().problems == ()


def operations_of(path, work):
    """Record what a run asks of the disk, with the steps it reports; leave the file as it was."""
    content, log = path.read_bytes(), path.with_name("operations")

    def record(tell):
        operations = []
        install(lambda operation: operations.append(operation) or 0)
        work(path, lambda text: operations.append(Operation("told", text.decode().strip())))
        log.write_bytes(pickle.dumps(operations))

    status, _ = in_child(record)
    assert status == 0
    path.write_bytes(content)
    return pickle.loads(log.read_bytes())


def on_copies(path, tmp_path, numbers):
    """Yield a fresh copy of a ledger with each number."""
    for number in numbers:
        copy = tmp_path / f"copy{number}" / path.name
        copy.parent.mkdir()
        shutil.copy(path, copy)
        yield number, copy
        shutil.rmtree(copy.parent)


def failing_at(number, act):
    """A hook that acts at the operation of this number."""
    seen = itertools.count()
    return lambda operation: act() if next(seen) == number else 0


def killed_at(number, work, copy):
    """Run work in a child that dies before a request to the disk; return what it told."""

    def run(tell):
        install(failing_at(number, die))
        work(copy, tell)

    status, told = in_child(run)
    assert status == signal.SIGKILL
    return told.split()


@STRIDES
def test_killed_before_any_request_to_the_disk(path, tmp_path, stride):
    kinds = [operation.kind for operation in operations_of(path, release)]
    assert kinds.count("told") == 3
    assert {"create", "write", "sync", "delete"} <= set(kinds)
    assert len(kinds) > 40
    for number, copy in on_copies(path, tmp_path, range(0, len(kinds) - 3, stride)):
        assert_remembered(copy, killed_at(number, release, copy))
        if number % 10 == 0:
            assert_goes_on(copy)


@STRIDES
def test_killed_while_a_ledger_is_made(path, tmp_path, stride):
    def make(target, tell):
        target.unlink(missing_ok=True)
        Ledger(target).create("patients", Budget(rho=1), RELATION)
        Ledger(target).reserve("patients", SPEND, RELATION)
        tell(b"reserved")

    count = sum(operation.kind != "told" for operation in operations_of(path, make))
    for number, copy in on_copies(path, tmp_path, range(0, count, stride)):
        assert killed_at(number, make, copy) == []
        try:
            Ledger(copy).create("patients", Budget(rho=1), RELATION)
        except LedgerError as error:
            assert "already has an account" in str(error)
        assert_goes_on(copy)


@pytest.mark.parametrize("spill", [False, True])
def test_a_process_killed_inside_a_large_transaction_leaves_no_trace(path, spill):
    size = path.stat().st_size

    def work(tell):
        with Ledger(path)._store.writing() as transaction:
            # A tiny page cache forces uncommitted pages into the file: a reader must roll back.
            transaction._run(f"PRAGMA cache_size = {1 if spill else 1000}", {})
            for _ in range(200):
                transaction.add_entry("patients", SPEND, "x" * 900)
            die()

    assert in_child(work)[0] == signal.SIGKILL
    assert (path.stat().st_size > size) == spill
    assert_remembered(path, [])


FAILURES = {
    "disk full": ("write", faulty_disk.FULL, "full"),
    "write error": ("write", faulty_disk.WRITE_ERROR, "failed"),
    "sync error": ("sync", faulty_disk.SYNC_ERROR, "failed"),
}


@STRIDES
@pytest.mark.parametrize("failure", FAILURES)
def test_a_disk_that_fails_once_at_any_request(path, tmp_path, failure, stride):
    kind, code, words = FAILURES[failure]
    asked = [operation for operation in operations_of(path, release) if operation.kind != "told"]
    failing = [number for number, operation in enumerate(asked) if operation.kind == kind]
    for number, copy in on_copies(path, tmp_path, failing[::stride]):

        def work(tell, number=number, copy=copy):
            install(failing_at(number, lambda: code))
            try:
                release(copy, tell)
            except LedgerError as error:
                tell(f"| {error}".encode())

        status, told = in_child(work)
        assert status == 0
        steps, _, message = told.decode().partition("|")
        assert words in message
        assert_remembered(copy, steps.split())


def replay_power_cuts(path, tmp_path, seeds):
    """Visit the states that a power cut may leave; count them, and those that forgot something."""
    start = {str(path): path.read_bytes()}
    operations = operations_of(path, release)
    found = tmp_path / "found"
    visited, forgotten = set(), 0
    for files, told in power_cuts(start, operations, seeds):
        state = (tuple(sorted(files.items())), len(told))
        if state in visited:
            continue
        visited.add(state)
        found.mkdir()
        for name, content in files.items():
            (found / name.rpartition("/")[2]).write_bytes(content)
        try:
            assert_remembered(found / path.name, told)
        except (AssertionError, LedgerError):
            forgotten += 1
        shutil.rmtree(found)
    return len(visited), forgotten


@pytest.mark.parametrize(
    ("seeds", "states"), [(2, 50), pytest.param(40, 1000, marks=pytest.mark.slow)]
)
def test_a_power_cut_at_any_moment_forgets_nothing(path, tmp_path, seeds, states):
    visited, forgotten = replay_power_cuts(path, tmp_path, range(seeds))
    assert visited > states
    assert forgotten == 0


def test_the_power_cuts_would_find_a_ledger_that_does_not_sync(path, tmp_path, monkeypatch):
    with_pragma(monkeypatch, "synchronous = OFF")
    _, forgotten = replay_power_cuts(path, tmp_path, range(1))
    assert forgotten > 0


@pytest.mark.parametrize("kept", [0, 1, 511, 512, 1000])
def test_a_journal_cut_short_beside_a_whole_file_is_harmless(path, kept):
    journal = path.with_name(path.name + "-journal")

    def work(tell):
        ends = ("delete", str(journal))
        install(lambda operation: die() if (operation.kind, operation.path) == ends else 0)
        release(path, tell)

    in_child(work)
    journal.write_bytes(journal.read_bytes()[:kept])
    # The cut journal no longer undoes the file, whose new pages are all there.
    assert len(Ledger(path).entries("patients")) in (1, 2)
    assert_goes_on(path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_refused_and_says_how_to_recover(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    book = Ledger(path)
    reserve = partial(book.reserve, "patients", SPEND, RELATION)
    for call in (partial(book.remaining, "patients"), reserve, book.verify):
        with pytest.raises(LedgerError, match=r"backup|empty"):
            call()


def test_clocks_that_jump_change_nothing(path, monkeypatch):
    years = (2031, 1970, 2500, 1999, 2031, 2031)
    times = iter(f"{year}-01-01T00:00:00.000000+00:00" for year in years)
    monkeypatch.setattr(records, "now", lambda: next(times))
    for _ in range(2):
        reservation = Ledger(path).reserve("patients", SPEND, RELATION)
        reservation.mark_drawn()
        reservation.commit("sha256:abc")
    book = Ledger(path)
    assert [entry.id for entry in book.entries("patients")] == [1, 2, 3]
    assert [entry.reserved_at[:4] for entry in book.entries("patients")][1:] == ["2031", "1999"]
    assert book.remaining("patients").spent == {"rho": 3 * TENTH}
    assert book.verify().problems == ()

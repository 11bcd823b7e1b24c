"""Runs that end in the middle: what is spent stays spent, what was not drawn was not spent."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from dpcov import Release, files
from dpcov.noise.entropy import SystemEntropy
from dpcov.privacy.ledger import store
from dpcov.privacy.ledger.ledger import Ledger, Reservation

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="signals of other systems work differently"
)


def begin(desk, *table, **more):
    """Start a release in a process of its own."""
    # A test runner in the background may have made its processes deaf to signals.
    hear = "import signal as s; s.signal(s.SIGINT, s.default_int_handler); "
    hear += "s.signal(s.SIGHUP, s.SIG_DFL); "
    command = [sys.executable, "-c", hear + "from dpcov.cli.main import run; run()"]
    command += ["release", *table, "--rho", "1", *map(str, (*desk.fixed, *desk.paid))]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, **pipes, **more)


@pytest.mark.parametrize(
    ("sent", "megabytes"), [(signal.SIGINT, 0), (signal.SIGTERM, 4), (signal.SIGHUP, 0)]
)
def test_an_interrupt_while_rows_are_read_spends_nothing(desk, sent, megabytes):
    with begin(desk, "-") as process:
        process.stdin.write(b"name,age,sex,ill\n")
        # More than all buffers hold: writing returns only once the rows are being gathered.
        process.stdin.write(b"zebra4711,31337.25,F,true\n" * (megabytes * 40_000))
        process.stdin.flush()
        wait_until(lambda: any(map(is_part, desk.names())))
        process.send_signal(sent)
        # The pipe stays open: a reader that waits for more must not keep the process alive.
        process.wait(100)
        told = process.stdout.read() + process.stderr.read()
    assert process.returncode == 130
    assert b"Interrupted" in told
    assert b"No budget was spent" in told
    assert b"4711" not in told
    assert desk.untouched()


def test_an_interrupt_leaves_no_folder_in_which_a_database_keeps_rows(desk, tmp_path_factory):
    pytest.importorskip("duckdb", reason="needs dpcov[sql]")
    spills = tmp_path_factory.mktemp("spills")
    # A sum that outlives the test.
    query = "SELECT 'x' AS name, sum(hash(range) % 7) AS age, 'F' AS sex, true AS ill "
    query += "FROM range(1000000000000)"
    table = ("--sql", query, "--db", "duckdb://", "--geometry", "schema")
    with begin(desk, *table, env={**os.environ, "TMPDIR": str(spills)}) as process:
        wait_until(lambda: any(spills.iterdir()) and any(map(is_part, desk.names())))
        # By now it is summing up.
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        process.wait(100)
    assert process.returncode == 130
    assert not list(spills.iterdir())
    assert desk.untouched()


def wait_until(started):
    """Until a run has come so far."""
    end = time.monotonic() + 100
    while not started():
        assert time.monotonic() < end, "the run never started"
        time.sleep(0.02)


def is_part(name):
    """Whether a name is that of a file that is not finished."""
    return name.endswith(".part")


def test_an_error_ends_the_run_while_more_input_is_awaited(desk):
    command = [sys.executable, "-m", "dpcov", "schema", "check", str(desk.schema), "--data", "-"]
    pipes = dict.fromkeys(("stdin", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, bufsize=0, **pipes) as process:
        rows = b"zebra,31,F,true\n" * 150_000
        with suppress(BrokenPipeError):
            process.stdin.write(b"name,age,sex,ill\nzebra,31,\xff,true\n" + rows)
        process.wait(100)
        assert process.returncode == 4, process.stderr.read()


def interrupt_at(monkeypatch, place, *, after=False):
    """Let the next call there be interrupted."""
    owner, name = place
    real = getattr(owner, name)

    def interrupted(*arguments):
        if after:
            real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupted)


SPENT = "The budget IS spent: entry 1 of dataset patients"


@pytest.mark.parametrize(
    ("place", "after", "state", "said"),
    [
        ((Ledger, "reserve"), True, "reserved", "budget may have been charged just now"),
        ((SystemEntropy, "words"), False, "drawn", SPENT),
        ((os, "fsync"), False, "drawn", SPENT),
        ((os, "link"), False, "drawn", SPENT),
    ],
    ids=["charge", "draw", "sync", "link"],
)
def test_an_interrupt_before_the_name_says_what_is_spent_and_calls_nothing_whole(
    desk, monkeypatch, place, after, state, said
):
    interrupt_at(monkeypatch, place, after=after)
    result = desk.release()
    assert result.exit_code == 130
    assert said in result.output and "whole" not in result.output
    assert desk.states() == [state]
    assert desk.names() == desk.before


@pytest.mark.parametrize(
    ("place", "after", "flags"),
    [
        ((Reservation, "commit"), False, ()),
        ((os, "link"), True, ()),
        ((files, "_sync_folder"), False, ()),
        ((Path, "replace"), True, ("--overwrite",)),
    ],
    ids=["commit", "link", "sync", "replace"],
)
def test_an_interrupt_behind_the_name_says_that_the_release_is_whole(
    desk, monkeypatch, place, after, flags
):
    interrupt_at(monkeypatch, place, after=after)
    result = desk.release(*flags)
    assert result.exit_code == 130
    assert f"whole, in {desk.output}: nothing has to be made again" in result.output
    assert "The budget IS spent: entry 1" in result.output
    assert Release.load(desk.output).manifest.spent.entry == 1
    assert not any(map(is_part, desk.names()))


def test_a_release_whose_name_another_program_took_meanwhile_is_kept(desk, monkeypatch):
    words = SystemEntropy.words

    def meanwhile(self, count):
        desk.output.write_bytes(b"theirs")
        return words(self, count)

    monkeypatch.setattr(SystemEntropy, "words", meanwhile)
    result = desk.release()
    beside = desk.output.with_stem(f"{desk.output.stem}-2")
    assert result.exit_code == 7
    assert f"whole, in {beside}: nothing has to be made again" in result.output
    assert desk.output.read_bytes() == b"theirs"
    assert Release.load(beside).manifest.spent.entry == 1
    assert desk.states() == ["committed"]


@pytest.mark.parametrize(("step", "state"), [("mark_drawn", "reserved"), ("commit", "drawn")])
def test_a_ledger_that_is_held_after_the_charge_says_what_is_spent_and_kept(
    desk, monkeypatch, step, state
):
    holder = sqlite3.connect(desk.ledger, isolation_level=None)
    take = getattr(Reservation, step)

    def held(self, *arguments):
        holder.execute("BEGIN EXCLUSIVE")
        take(self, *arguments)

    monkeypatch.setattr(store, "LOCK_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(Reservation, step, held)
    result = desk.release()
    holder.close()
    assert "Another process holds the ledger" in result.output
    assert "nothing was spent" not in result.output
    assert desk.states() == [state]
    if step == "mark_drawn":
        assert result.exit_code == 6
        assert "The budget IS spent: entry 1 of dataset patients" in result.output
        assert desk.names() == desk.before
    else:
        assert result.exit_code == 0
        assert "nothing has to be made again. Entry 1 of dataset patients counts" in result.output
        assert Release.load(desk.output).manifest.spent.entry == 1


_KILLED = """
import os, signal, sys
import dpcov
from dpcov.noise.entropy import SystemEntropy

class Killed(SystemEntropy):
    def words(self, count):
        os.kill(os.getpid(), signal.SIGKILL)

data, schema, output, ledger = sys.argv[1:]
dpcov.release(
    data, schema=schema, output=output, budget=dpcov.Budget(rho=1), ledger=ledger,
    dataset="patients", entropy=Killed(),
)
"""


def test_a_run_that_is_killed_between_reservation_and_file_stays_spent(desk):
    arguments = map(str, (desk.data, desk.schema, desk.output, desk.ledger))
    run = subprocess.run([sys.executable, "-c", _KILLED, *arguments], capture_output=True)
    assert run.returncode == -signal.SIGKILL
    assert desk.states() == ["drawn"]
    assert not desk.output.exists()
    assert desk.release(rho="1").exit_code == 0
    refused = desk.release("--overwrite", rho="1")
    assert refused.exit_code == 6
    assert "would overspend" in refused.output and "No budget was spent" in refused.output


@pytest.mark.parametrize("flags", [(), ("--overwrite",)])
def test_a_release_whose_folder_is_gone_meanwhile_is_written_elsewhere(
    desk, monkeypatch, tmp_path, flags
):
    """Whoever was told to try again paid twice."""
    gone, temporary = tmp_path / "gone", tmp_path / "temporary"
    for folder in (gone, temporary):
        folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    words = SystemEntropy.words

    def meanwhile(self, count):
        shutil.rmtree(gone, ignore_errors=True)
        return words(self, count)

    monkeypatch.setattr(SystemEntropy, "words", meanwhile)
    result = desk.release(*flags, "-o", gone / "o.dpcov")
    (elsewhere,) = temporary.iterdir()
    said = f"o.dpcov could not be written any more. What was made here is whole, in {elsewhere}"
    assert result.exit_code == 7
    assert said in " ".join(result.output.split()) and "try again" not in result.output
    made = Release.load(elsewhere)
    assert Ledger(desk.ledger).entries("patients")[0].fingerprint == made.fingerprint

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from fractions import Fraction

import pytest

from dpcov.errors import LedgerError
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.privacy.ledger.spend import Spend

TENTH = Fraction(1, 10)
SPEND = Spend(promise=ZCDP(rho=TENTH), mechanism="gaussian")
RELATION = "replace-one"
N_SPENDERS = 8

PROLOGUE = """
import os, signal, sys
from fractions import Fraction
from dpcov.privacy.guarantee import ZCDP
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.privacy.ledger.spend import Spend

def die():
    os.kill(os.getpid(), signal.SIGKILL)

spend = Spend(promise=ZCDP(rho=Fraction(1, 10)), mechanism="gaussian")
ledger = Ledger(sys.argv[1])
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "privacy.ledger"
    Ledger(path).create("patients", Budget(rho=1), RELATION)
    return path


def spend_until_refused(path, barrier, successes):
    barrier.wait()
    count = 0
    try:
        while True:
            Ledger(path).reserve("patients", SPEND, RELATION)
            count += 1
    except LedgerError as error:
        successes.put((count, "overspend" in str(error)))


def test_racing_processes_cannot_overspend(path):
    context = multiprocessing.get_context("spawn")
    barrier, successes = context.Barrier(N_SPENDERS), context.Queue()
    spenders = [
        context.Process(target=spend_until_refused, args=(path, barrier, successes))
        for _ in range(N_SPENDERS)
    ]
    for spender in spenders:
        spender.start()
    outcomes = [successes.get(timeout=240) for _ in spenders]
    for spender in spenders:
        spender.join()
    assert sum(count for count, _ in outcomes) == 10
    assert all(refused_as_overspend for _, refused_as_overspend in outcomes)
    assert Ledger(path).remaining("patients").remaining == {"rho": 0}


def open_account(path, barrier, outcomes):
    barrier.wait()
    try:
        Ledger(path).create("patients", Budget(rho=1), RELATION)
        outcomes.put("created")
    except LedgerError as error:
        outcomes.put("exists" if "already" in str(error) else str(error))


def test_racing_processes_create_one_account(tmp_path):
    context = multiprocessing.get_context("spawn")
    barrier, outcomes = context.Barrier(4), context.Queue()
    creators = [
        context.Process(target=open_account, args=(tmp_path / "new.ledger", barrier, outcomes))
        for _ in range(4)
    ]
    for creator in creators:
        creator.start()
    assert sorted(outcomes.get(timeout=240) for _ in creators) == [
        "created",
        "exists",
        "exists",
        "exists",
    ]
    for creator in creators:
        creator.join()


@pytest.mark.parametrize(
    ("body", "states"),
    [
        ("ledger.check('patients', spend, 'replace-one'); die()", []),
        ("ledger.reserve('patients', spend, 'replace-one'); die()", ["reserved"]),
        ("ledger.reserve('patients', spend, 'replace-one').mark_drawn(); die()", ["drawn"]),
        (
            "r = ledger.reserve('patients', spend, 'replace-one'); r.mark_drawn(); r.commit('sha256:a'); die()",
            ["committed"],
        ),
    ],
)
def test_a_killed_process_leaves_spent_budget_spent(path, body, states):
    assert run(path, body) == -signal.SIGKILL
    assert [entry.state for entry in Ledger(path).entries("patients")] == states
    assert Ledger(path).remaining("patients").spent == {"rho": TENTH * len(states)}
    Ledger(path).reserve("patients", SPEND, RELATION)


@pytest.mark.parametrize("spill", [False, True])
def test_a_process_killed_inside_a_transaction_leaves_no_trace(path, spill):
    # A tiny page cache forces uncommitted pages into the file, so that the next reader must roll a hot journal back.
    body = f"""
with ledger._store.writing() as transaction:
    transaction._run("PRAGMA cache_size = {1 if spill else 1000}", {{}})
    for _ in range(200):
        transaction.add_entry("patients", spend, "x" * 900, "2000-01-01T00:00:00+00:00")
    die()
"""
    Ledger(path).reserve("patients", SPEND, RELATION)
    size = path.stat().st_size
    assert run(path, body) == -signal.SIGKILL
    assert (path.stat().st_size > size) == spill
    assert len(Ledger(path).entries("patients")) == 1
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def run(path, body):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", PROLOGUE + body, str(path)], env=environment, check=False
    ).returncode

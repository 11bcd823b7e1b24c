"""Processes that die in mid-work: what was reserved counts, what was not committed is gone."""

import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from dpcov.privacy.budget import Budget
from dpcov.privacy.ledger.ledger import Ledger
from tests.privacy.spends import RELATION, SPEND, TENTH

PROLOGUE = """
import os, signal, sys
from dpcov.privacy.ledger.ledger import Ledger
from tests.privacy.spends import SPEND

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def reserve():
    return ledger.reserve('patients', SPEND, 'replace-one')

ledger = Ledger(sys.argv[1])
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "privacy.ledger"
    Ledger(path).create("patients", Budget(rho=1), RELATION)
    return path


def run(path, body):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROLOGUE + body, str(path)]
    return subprocess.run(command, env=environment, check=False).returncode


@pytest.mark.parametrize(
    ("body", "states"),
    [
        ("ledger.check('patients', SPEND, 'replace-one'); die()", []),
        ("reserve(); die()", ["reserved"]),
        ("reserve().mark_drawn(); die()", ["drawn"]),
        ("r = reserve(); r.mark_drawn(); r.commit('sha256:a'); die()", ["committed"]),
    ],
)
def test_a_killed_process_leaves_spent_budget_spent(path, body, states):
    assert run(path, body) == -signal.SIGKILL
    assert [entry.state for entry in Ledger(path).entries("patients")] == states
    assert Ledger(path).remaining("patients").spent == {"rho": TENTH * len(states)}
    Ledger(path).reserve("patients", SPEND, RELATION)


@pytest.mark.parametrize("spill", [False, True])
def test_a_process_killed_inside_a_transaction_leaves_no_trace(path, spill):
    # A tiny page cache forces uncommitted pages into the file: the next reader must roll back.
    body = f"""
with ledger._store.writing() as transaction:
    transaction._run("PRAGMA cache_size = {1 if spill else 1000}", {{}})
    for _ in range(200):
        transaction.add_entry("patients", SPEND, "x" * 900, "2000-01-01T00:00:00+00:00")
    die()
"""
    Ledger(path).reserve("patients", SPEND, RELATION)
    size = path.stat().st_size
    assert run(path, body) == -signal.SIGKILL
    assert (path.stat().st_size > size) == spill
    assert len(Ledger(path).entries("patients")) == 1
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)

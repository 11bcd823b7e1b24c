import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import exchange
from benchmarks.peers.catalog import PEERS
from benchmarks.peers.exchange import Task, ask

SERVE = next(peer.script for peer in PEERS).parent
ROWS = np.arange(6.0).reshape(3, 2)
WORKER = """
import os, sys, time
sys.path.insert(0, {serve!r})
from serve import serve

def double(rows, *, by=2):
    return rows * by, "doubled"

def threads(rows):
    return [float(os.environ["OMP_NUM_THREADS"])]

def refuse(rows):
    raise ValueError("cannot do that")

def slow(rows):
    time.sleep(0.05)
    return [1.0]

def die(rows):
    sys.stderr.write("first\\nlast words\\n")
    sys.stderr.flush()
    os._exit(3)

def hang(rows):
    time.sleep(60)

calls = []

def once(rows):
    calls.append(None)
    if len(calls) > 1:
        time.sleep(60)
    return [1.0]

serve("1.2.3", dict(once=once, double=double, threads=threads, refuse=refuse, slow=slow, die=die, hang=hang))
"""


@pytest.fixture
def worker(tmp_path):
    path = tmp_path / "worker.py"
    path.write_text(WORKER.format(serve=str(SERVE)))
    return path


def answered(worker, *tasks, limit_s=30.0):
    return ask(
        Path(sys.executable), worker, tasks, {"t": ROWS}, worker.parent / "folder", limit_s=limit_s
    )


def task(method, *, key=None, **more):
    return Task(key=key or method, method=method, table="t", **more)


def test_values_times_and_notes_come_back(worker):
    found = answered(worker, task("double", arguments={"by": 3}, repetitions=2), task("threads"))
    assert found.version == "1.2.3"
    answer = found.answers["double"]
    assert np.array_equal(answer.values, [3 * ROWS, 3 * ROWS])
    assert len(answer.seconds) == 2
    assert answer.note == "doubled"
    assert found.answers["threads"].values[0] == 1


def test_a_refused_task_does_not_end_the_others(worker):
    found = answered(worker, task("refuse"), task("unknown"), task("double"))
    assert found.answers["refuse"].refused == "ValueError: cannot do that"
    assert "unknown" in found.answers["unknown"].refused
    assert found.answers["double"].refused is None


def test_repetitions_end_with_the_time_of_the_task(worker):
    found = answered(worker, task("slow", repetitions=1000, limit_s=1.0))
    assert 1 <= len(found.answers["slow"].seconds) < 30


def test_a_call_without_end_is_given_up_and_the_next_task_answered(worker):
    found = answered(worker, task("hang", limit_s=0.2), task("double"))
    assert found.answers["hang"].refused == "no result within 0.6 s"
    assert found.answers["double"].refused is None


def test_a_worker_that_dies_loses_only_the_task_in_which_it_died(worker):
    found = answered(worker, task("double"), task("die"), task("slow"))
    assert found.answers["die"].refused == "last words"
    assert found.answers["double"].refused is found.answers["slow"].refused is None


def test_values_before_a_call_without_end_are_kept(worker):
    found = answered(worker, task("once", repetitions=5, limit_s=0.5))
    assert len(found.answers["once"].values) == 1


def test_a_worker_that_hangs_is_ended(worker):
    for limit_s in (2.0, 8.0, 32.0):  # a busy machine takes longer to start a worker
        found = answered(worker, task("double"), task("hang", limit_s=50.0), limit_s=limit_s)
        if found.answers["double"].refused is None:
            break
    assert found.answers["double"].refused is None
    assert found.answers["hang"].refused == "no time was left"


def test_old_answers_are_not_mistaken_for_new_ones(worker):
    answered(worker, task("double"))
    assert answered(worker, task("die", key="double")).answers["double"].refused == "last words"


def test_a_missing_library_is_the_workers_last_word(tmp_path):
    path = tmp_path / "worker.py"
    path.write_text("import no_such_library_anywhere")
    found = exchange.ask(
        Path(sys.executable), path, [task("double")], {}, tmp_path / "folder", limit_s=30.0
    )
    assert found.version == ""
    assert "no_such_library_anywhere" in found.answers["double"].refused

"""Workers of other libraries answer, refuse, hang or die, and only their own task is lost."""

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers.catalog import PEERS
from benchmarks.peers.exchange import Task, ask

SERVE = PEERS[0].script.parent
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

calls = []

def once(rows):
    calls.append(None)
    if len(calls) > 1:
        time.sleep(60)
    return [1.0]

def hang(rows):
    time.sleep(60)

made = dict(once=once, double=double, threads=threads, refuse=refuse, slow=slow, die=die, hang=hang)
serve("1.2.3", made)
"""


@pytest.fixture
def answered(tmp_path):
    """Answers of the worker, or of another program, to tasks."""
    path = tmp_path / "worker.py"

    def answers(*tasks, limit_s=30.0, program=WORKER):
        path.write_text(program.replace("{serve!r}", repr(str(SERVE))))
        folder = tmp_path / "folder"
        return ask(Path(sys.executable), path, tasks, {"t": ROWS}, folder, limit_s=limit_s)

    return answers


def task(method, *, key=None, **more):
    return Task(key=key or method, method=method, table="t", **more)


def test_values_times_and_notes_come_back(answered):
    found = answered(task("double", arguments={"by": 3}, repetitions=2), task("threads"))
    assert found.version == "1.2.3"
    answer = found.answers["double"]
    assert np.array_equal(answer.values, [3 * ROWS, 3 * ROWS])
    assert len(answer.seconds) == 2
    assert answer.note == "doubled"
    assert found.answers["threads"].values[0] == 1


@pytest.mark.parametrize(
    ("method", "limit_s", "said"),
    [
        ("refuse", 10.0, "ValueError: cannot do that"),
        ("unknown", 10.0, "unknown"),
        ("die", 10.0, "last words"),
        ("hang", 0.2, "no result within 0.6 s"),
    ],
)
def test_a_task_without_an_answer_does_not_end_the_others(answered, method, limit_s, said):
    found = answered(task("double"), task(method, limit_s=limit_s), task("slow")).answers
    assert said in found[method].refused
    assert found["double"].refused is found["slow"].refused is None


def test_repetitions_end_with_the_time_of_the_task(answered):
    found = answered(task("slow", repetitions=1000, limit_s=1.0))
    assert 1 <= len(found.answers["slow"].seconds) < 30


def test_values_before_a_call_without_end_are_kept(answered):
    found = answered(task("once", repetitions=5, limit_s=0.5))
    assert len(found.answers["once"].values) == 1


def test_a_worker_that_hangs_is_ended(answered):
    for limit_s in (2.0, 8.0, 32.0):  # a busy machine takes longer to start a worker
        found = answered(task("double"), task("hang", limit_s=50.0), limit_s=limit_s).answers
        if found["double"].refused is None:
            break
    assert found["double"].refused is None
    assert found["hang"].refused == "no time was left"


def test_old_answers_are_not_mistaken_for_new_ones(answered):
    answered(task("double"))
    assert answered(task("die", key="double")).answers["double"].refused == "last words"


def test_a_missing_library_is_the_workers_last_word(answered):
    found = answered(task("double"), program="import no_such_library_anywhere")
    assert found.version == ""
    assert "no_such_library_anywhere" in found.answers["double"].refused

"""A seeded short form of the fuzzer, and proof that it sees what it is there to see."""

import os
import pickle
import time

import pytest

from dpcov.errors import DataError, DpcovError
from tests.fuzz import engine
from tests.fuzz.catalog import TARGETS
from tests.fuzz.engine import Detonator, Tally, Target, fuzz, one_case, scratch

CASES = {
    **{
        "schema": 600,
        "release-bytes": 500,
        "release-forged": 250,
        "csv": 300,
        "parquet": 250,
        "arrow": 250,
    },
    **{
        "npy": 400,
        "npz": 250,
        "sql-duckdb": 12,
        "sql-sqlite": 80,
        "moments": 150,
        "ledger": 120,
        "commands": 30,
    },
}


@pytest.mark.parametrize("name", TARGETS)
def test_every_case_succeeds_or_is_refused_in_clean_words(name):
    total = Tally()
    for _, tally in fuzz(TARGETS[name], seed=0, indices=range(CASES[name])):
        total.add(tally)
    assert total.findings == []
    assert total.cases == CASES[name]
    # Inputs that are all refused at the door would test nothing behind it.
    assert total.outcomes["success"] > 0


def planted(run, **options):
    with scratch() as (root, folder):
        target = Target(name="planted", run=run, **options)
        return [finding.what for finding in one_case(target, 0, 0, root, folder).findings]


def test_a_clean_refusal_is_no_finding():
    def run(random, folder):
        raise DataError("This cannot be read. Write it again.")

    assert planted(run) == []


@pytest.mark.parametrize(
    "error", [ValueError("x"), RecursionError(), MemoryError(), AssertionError(), SystemExit(1)]
)
def test_a_foreign_error_is_found(error):
    def run(random, folder):
        raise error

    assert type(error).__name__ in planted(run)[0]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("zebra4711", "sentinel"),
        ("", "empty"),
        ("a\n" * 99, "25 lines"),
        ("a" * 99_999, "10,000"),
        ("Traceback", "trace"),
    ],
)
def test_a_message_that_is_not_clean_is_found(text, what):
    def run(random, folder):
        raise DpcovError(text)

    assert what in planted(run)[0]


def test_a_file_left_behind_is_found():
    def run(random, folder):
        (folder / "half.part").write_text("x")
        (folder / "in.csv").write_text("x")

    assert planted(run) == ["left work/half.part"]
    assert planted(run, writes=True) == []


def test_a_file_outside_is_found_even_where_files_may_be_written():
    def run(random, folder):
        (folder / ".." / "escaped").write_text("x")

    assert planted(run, writes=True) == ["left escaped"]


def test_a_hanging_case_is_found(monkeypatch):
    monkeypatch.setattr(engine, "CASE_SECONDS", 0.1)

    def run(random, folder):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            pass

    assert planted(run) == ["took too long"]


def test_much_memory_is_found(monkeypatch):
    monkeypatch.setattr(engine, "CASE_BYTES", 2**24)

    def run(random, folder):
        # Beyond the peak of everything before in this process.
        os.urandom(2**20) * ((engine._peak() >> 20) + 64)

    assert "MiB" in planted(run)[0]


def test_an_execution_is_found():
    def run(random, folder):
        pickle.loads(pickle.dumps(Detonator()))

    assert planted(run) == ["executed what it read"]


def test_a_case_is_a_function_of_its_three_words():
    first, second = (engine.case_random("csv", 3, 8).random() for _ in range(2))
    assert first == second
    assert first != engine.case_random("csv", 3, 9).random()

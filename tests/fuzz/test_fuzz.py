"""Hostile input is refused in clean words; and the contract sees what it should.

``FUZZ_DEPTH=1000 python -m pytest tests/fuzz`` tries a thousand times as many cases.
"""

import os
import pickle
import time
from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from dpcov.errors import DataError, DpcovError
from tests.fuzz import commands, contract, queries, releases, saved_files, schemas, tables
from tests.fuzz.contract import one_case, scratch
from tests.fuzz.mutate import Detonator

DEPTH = int(os.environ.get("FUZZ_DEPTH", "1"))
TARGETS = {
    "schema": (schemas.run, 600),
    "release-bytes": (releases.run_bytes, 500),
    "release-forged": (releases.run_forged, 250),
    "csv": (tables.run_csv, 300),
    "json-lines": (tables.run_json_lines, 200),
    "parquet": (tables.run_parquet, 250),
    "npy": (tables.run_npy, 400),
    "sql-duckdb": (queries.run_duckdb, 16),
    "sql-sqlite": (queries.run_sqlite, 80),
    "moments": (saved_files.run_moments, 150),
    "ledger": (saved_files.run_ledger, 120),
    "commands": (commands.run, 30),
}


@pytest.mark.timeout(300 * DEPTH)
@pytest.mark.parametrize("name", TARGETS)
def test_every_case_succeeds_or_is_refused_in_clean_words(name):
    run, cases = TARGETS[name]
    outcomes = Counter()

    @settings(
        max_examples=cases * DEPTH,
        phases=(Phase.generate,),  # a seed does not shrink
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(st.randoms(use_true_random=True))
    def obeys(random):
        outcome, wrong = one_case(run, random, folder, writes=name == "commands")
        outcomes[outcome] += 1
        assert wrong == []

    with scratch() as folder:
        obeys()
    # Inputs that are all refused at the door would test nothing behind it.
    assert outcomes["success"] > 0


def planted(run, **options):
    with scratch() as folder:
        return one_case(lambda random, folder: run(folder), None, folder, **options)[1]


def raising(error):
    def run(folder):
        raise error

    return planted(run)


def test_foreign_errors_and_unclean_messages_are_found_and_a_clean_refusal_is_not():
    assert raising(DataError("This cannot be read. Write it again.")) == []
    for error in (ValueError("x"), RecursionError(), AssertionError(), SystemExit(1)):
        assert type(error).__name__ in raising(error)[0]
    for text, what in (("zebra4711", "sentinel"), ("", "empty"), ("Traceback", "trace")):
        assert what in raising(DpcovError(text))[0]


def test_a_file_left_behind_is_found():
    def run(folder):
        (folder / "half.part").write_text("x")
        (folder / "in.csv").write_text("x")

    assert planted(run) == ["left work/half.part"]
    assert planted(run, writes=True) == []
    outside = planted(lambda folder: (folder / ".." / "escaped").write_text("x"), writes=True)
    assert outside == ["left escaped"]


def test_a_hanging_case_is_found(monkeypatch):
    monkeypatch.setattr(contract, "CASE_SECONDS", 0.1)

    def run(folder):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            pass

    assert planted(run) == ["took too long"]


def test_much_memory_and_an_execution_are_found(monkeypatch):
    monkeypatch.setattr(contract, "CASE_BYTES", 2**24)
    # Beyond the peak of everything before in this process.
    size = (contract.peak_bytes() >> 20) + 64
    assert "MiB" in planted(lambda folder: os.urandom(2**20) * size)[0]
    executed = planted(lambda folder: pickle.loads(pickle.dumps(Detonator())))
    assert executed == ["executed what it read"]

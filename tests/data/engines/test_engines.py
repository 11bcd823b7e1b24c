"""What all engines share: how one is found, what it does with a block, how parts are merged.

What gathering takes is counted by hand.
"""

import math
import os
import pickle
import subprocess
import sys
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.data import memory
from dpcov.data.encode import Encoder
from dpcov.data.engines import load_engine, local, name_engine
from dpcov.data.engines.base import (
    BallEncoding,
    Failure,
    MomentsTask,
    attempt,
    merge_or_raise,
    merge_parts,
    require_columns,
    require_memory,
    working_bytes,
)
from dpcov.data.exact.moments import Moments, MomentsSpec
from dpcov.data.gather import Gathering
from dpcov.data.groups import split_schema
from dpcov.data.memory import machine_memory
from dpcov.data.questions import MomentsQuestion
from dpcov.errors import DataError, UsageError

SCHEMA = dpcov.Schema(
    columns={
        "size": dpcov.Numeric(lower=0, upper=10),
        "kind": dpcov.Categorical(categories=("a", "b")),
    }
)
TABLE = pa.table({"size": np.linspace(-1, 11, 500), "kind": ["a", "b", "c", "a", None] * 100})
REST, GROUPING = split_schema(SCHEMA, "kind")
GROUPED = Encoder(REST, grouping=GROUPING)
PLAIN = MomentsTask(encoding=Encoder(SCHEMA), spec=MomentsSpec())
BALL = BallEncoding(n_features=5, norm_bound=2.0)
TASK = MomentsTask(encoding=BALL, spec=MomentsSpec(shells=4))
TASKS = {
    "table": (PLAIN, TABLE),
    "groups": (
        MomentsTask(encoding=GROUPED, spec=MomentsSpec(shells=3, groups=3, normalized=True)),
        TABLE,
    ),
    "array": (TASK, np.random.default_rng(0).normal(size=(700, 5))),
}


@pytest.mark.parametrize(
    ("module", "engine"),
    [
        ("dask.array.core", "dask"),
        ("dask.dataframe.dask_expr._collection", "dask"),
        ("pyspark.sql.dataframe", "spark"),
        ("torch", "device"),
        ("pandas.core.frame", "local"),
        ("daskling", "local"),
    ],
)
def test_the_type_of_the_data_names_the_engine_unless_one_is_named(module, engine):
    data = type("Data", (), {"__module__": module})()
    assert name_engine(data) == engine
    assert name_engine(data, "local") == "local"
    with pytest.raises(UsageError, match="local, dask, spark, device"):
        name_engine(data, "abacus")


@pytest.mark.parametrize(("engine", "package"), [("spark", "pyspark"), ("dask", "distributed")])
def test_a_missing_extra_says_what_to_install(engine, package, monkeypatch):
    for needed in ("dask", package):
        monkeypatch.setitem(sys.modules, needed, ModuleType(needed))
    monkeypatch.setitem(sys.modules, package, None)
    words = rf"The {engine} engine needs {package}: pip install 'dpcov\[{engine}\]'"
    with pytest.raises(UsageError, match=words) as refusal:
        load_engine(engine)
    assert refusal.value.__context__ is None


def test_importing_dpcov_imports_no_engine():
    found = "[n for n in ('dask', 'pyspark', 'torch') if n in sys.modules]"
    code = f"import sys, dpcov.pipeline.table; print({found})"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "[]"


def test_groups_beside_the_rows_are_not_taken_by_other_engines():
    grouped = local.GroupedRows(rows=TASKS["array"][1], groups=np.zeros(700, dtype=np.intp))
    question = MomentsQuestion(spec=MomentsSpec(groups=2))
    with pytest.raises(UsageError, match="Put them into a column"):
        Gathering(engine="dask").answer(grouped, BALL, question)


@pytest.mark.parametrize("name", TASKS)
def test_parts_gathered_from_a_pickled_task_and_merged_equal_the_local_engine(name):
    task, data = TASKS[name]
    copy = pickle.loads(pickle.dumps(task))
    cuts = ((0, 200), (200, 201), (201, 201), (201, len(data)))
    parts = [pickle.loads(pickle.dumps(copy.gather(data[a:b]))) for a, b in cuts]
    before = [pickle.dumps(part) for part in parts]
    merged = merge_parts(task, parts)
    assert merged.n_rows == len(data)
    assert merged == merge_or_raise(task, iter(parts)) == local.moments(data, task)
    assert [pickle.dumps(part) for part in parts] == before
    assert parts[2] == merge_parts(task, []) == task.empty()


def test_rows_of_a_table_have_the_groups_of_one_more_column():
    block, plain = TABLE.to_batches()[0][:3], Encoder(REST)
    assert (list(plain.wanted), list(GROUPED.wanted)) == (["size"], ["size", "kind"])
    assert GROUPED.read(block).groups.tolist() == [0, 1, 2]
    assert plain.read(block).groups is None
    one, other = (each.encode(each.read(block))[0] for each in (plain, GROUPED))
    assert np.array_equal(one, other)


def test_groups_given_beside_a_block_count_unless_the_encoding_tells_them():
    spec, beside = MomentsSpec(groups=3), np.array([2, 2, 1])
    task = MomentsTask(encoding=BallEncoding(n_features=3, norm_bound=1.0), spec=spec)
    gathered, expected = task.empty(), Moments(3, spec)
    task.add(gathered, np.eye(3), beside)
    expected.add(np.eye(3), beside)
    assert gathered == expected
    table = MomentsTask(encoding=GROUPED, spec=spec)
    gathered = table.empty()
    table.add(gathered, TABLE.to_batches()[0][:3], beside)
    assert [stratum.n_rows for stratum in gathered.strata] == [1, 1, 1]


def test_a_part_that_cannot_be_encoded_is_a_failure_without_its_numbers():
    bad = TASKS["array"][1].copy()
    bad[7, 1], bad[8, 1] = np.nan, 12345.678
    failure = attempt(lambda: TASK.gather(bad))
    assert isinstance(failure, Failure)
    assert isinstance(failure.error, DataError)
    assert "NaN" in str(failure.error)
    assert "12345" not in str(failure.error)
    assert failure.error.__context__ is None
    assert failure.error.__traceback__ is None


@pytest.mark.parametrize("error", [UsageError("said"), DataError("said"), ValueError("12345.678")])
def test_only_an_error_of_ours_keeps_its_kind_and_words(error):
    def gather():
        raise error

    failure = attempt(gather)
    ours = not isinstance(error, ValueError)
    assert type(failure.error) is (type(error) if ours else DataError)
    assert ("said" in str(failure.error)) == ours
    assert "12345" not in str(failure.error)
    assert failure.error is not error


def test_the_first_failure_stands_for_all_parts():
    first, second = Failure(DataError("first")), Failure(UsageError("second"))
    parts = [TASK.empty(), first, second]
    assert merge_parts(TASK, parts) is first
    with pytest.raises(DataError, match="first"):
        merge_or_raise(TASK, parts)


@pytest.mark.parametrize("names", [[], ["a", "a"], ["size", "kind", "size"]])
def test_a_table_needs_columns_of_different_names(names):
    with pytest.raises(DataError, match=r"same name|no columns"):
        require_columns(names, PLAIN)


def test_a_table_without_a_wanted_column_is_refused_before_it_is_read():
    assert require_columns(iter(["other", "kind", "size"]), PLAIN) == ["size", "kind"]
    assert require_columns(["b", "a"], TASK) == ["b", "a"]
    with pytest.raises(DataError, match="size"):
        require_columns(["other", "kind"], PLAIN)


def sized(n_features, memory_limit=None, **spec):
    """A task of so many columns."""
    encoding = BallEncoding(n_features=n_features, norm_bound=1.0)
    return MomentsTask(encoding=encoding, spec=MomentsSpec(**spec), memory_limit=memory_limit)


@pytest.mark.parametrize(("threads", "copies"), [(1, 1), (3, 1), (1, 4)])
def test_what_fits_to_the_byte_is_taken_and_one_byte_more_is_refused(threads, copies):
    # Two words of eight bytes for every entry.
    assert sized(300).answer_bytes == 300**2 * 16
    assert sized(300, shells=3, normalized=True).answer_bytes == 6 * 300**2 * 16
    needed = copies * sized(300).answer_bytes + working_bytes(sized(300), threads)
    options = {"threads": threads, "copies": copies}
    require_memory(sized(300, needed / 2**30), **options)
    with pytest.raises(UsageError, match=r"Gathering needs up to .* GiB .* blocks in \d threads"):
        require_memory(sized(300, (needed - 1) / 2**30), **options)


def test_a_container_may_take_less_than_its_machine(tmp_path, monkeypatch):
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__, raising=False)
    found_now = machine_memory.__wrapped__
    files = [tmp_path / name for name in ("first", "second")]
    monkeypatch.setattr(memory, "_CGROUP_LIMITS", [str(file) for file in files])
    for limit, found in (("max", 4_096_000), ("5000000", 4_096_000), ("3000000", 3_000_000)):
        files[1].write_text(limit)
        assert found_now() == found
    monkeypatch.delattr(os, "sysconf")
    assert found_now() == 3_000_000
    files[1].unlink()
    assert found_now() == math.inf

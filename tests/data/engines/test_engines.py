"""The seam: an engine is found by name or by the data's type."""

import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.data.engines import (
    BallEncoding,
    MomentsTask,
    TableEncoding,
    load_engine,
    local,
    name_engine,
)
from dpcov.data.gather import Gathering
from dpcov.data.groups import split_schema
from dpcov.data.moments import MomentsSpec
from dpcov.data.questions import MomentsQuestion
from dpcov.errors import UsageError

SCHEMA = dpcov.Schema(
    columns={
        "size": dpcov.Numeric(lower=0, upper=10),
        "kind": dpcov.Categorical(categories=("a", "b")),
    }
)
TABLE = pa.table({"size": np.linspace(-1, 11, 500), "kind": ["a", "b", "c", "a", None] * 100})
X = np.random.default_rng(0).normal(size=(700, 5))


def stand_in(module):
    """An object of a package that need not be installed."""
    return type("Data", (), {"__module__": module})()


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
def test_the_type_of_the_data_names_the_engine(module, engine):
    assert name_engine(stand_in(module)) == engine


def test_a_named_engine_wins_over_the_type():
    assert name_engine(stand_in("dask.array.core"), "local") == "local"


def test_an_unknown_engine_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="local, dask, spark, device"):
        dpcov.moments(X, norm_bound=1.0, engine="abacus")


def lacking(package):
    """An import that stumbles over a package that is not installed."""

    def import_module(name):
        raise ModuleNotFoundError(name=package)

    return import_module


@pytest.mark.parametrize(
    ("engine", "package"),
    [
        ("dask", "dask"),
        ("dask", "distributed.client"),
        ("spark", "pyspark.sql"),
        ("device", "torch"),
    ],
)
def test_a_missing_extra_says_what_to_install(engine, package, monkeypatch):
    monkeypatch.setattr("dpcov.data.engines.import_module", lacking(package))
    words = rf"needs {package.partition('.')[0]}: pip install 'dpcov\[{engine}\]'"
    with pytest.raises(UsageError, match=words) as refusal:
        load_engine(engine)
    assert refusal.value.__context__ is None


def test_a_fault_inside_an_engine_is_not_called_a_missing_extra(monkeypatch):
    monkeypatch.setattr("dpcov.data.engines.import_module", lacking("json.nope"))
    with pytest.raises(ModuleNotFoundError):
        load_engine("dask")


def test_importing_dpcov_imports_no_engine():
    found = "[n for n in ('dask', 'pyspark', 'torch') if n in sys.modules]"
    code = f"import sys, dpcov.pipeline.table; print({found})"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "[]"


def test_groups_beside_the_rows_are_not_taken_by_other_engines():
    grouped = local.GroupedRows(rows=X, groups=np.zeros(len(X), dtype=np.intp))
    with pytest.raises(UsageError, match="Put them into a column"):
        Gathering(engine="dask").moments(
            grouped,
            BallEncoding(n_features=5, norm_bound=1.0),
            MomentsQuestion(spec=MomentsSpec(groups=2)),
        )


def tasks():
    rest, grouping = split_schema(SCHEMA, "kind")
    ball = BallEncoding(n_features=5, norm_bound=2.0)
    grouped = TableEncoding(schema=rest, grouping=grouping)
    groups = MomentsSpec(shells=3, groups=3, normalized=True)
    return {
        "table": (MomentsTask(encoding=TableEncoding(schema=SCHEMA), spec=MomentsSpec()), TABLE),
        "groups": (MomentsTask(encoding=grouped, spec=groups), TABLE),
        "array": (MomentsTask(encoding=ball, spec=MomentsSpec(shells=4)), X),
    }


@pytest.mark.parametrize("name", ["table", "groups", "array"])
def test_parts_gathered_from_a_pickled_task_and_merged_equal_the_local_engine(name):
    task, data = tasks()[name]
    copy = pickle.loads(pickle.dumps(task))
    assert (copy.spec, copy.encoding.wanted) == (task.spec, task.encoding.wanted)
    merged = task.empty()
    for start, stop in ((0, 200), (200, 201), (201, 201), (201, len(data))):
        merged.merge(pickle.loads(pickle.dumps(copy.gather(data[start:stop]))))
    assert merged.n_rows == len(data)
    assert merged == local.moments(data, task)


def test_a_pickled_task_carries_no_encoder():
    task = MomentsTask(encoding=TableEncoding(schema=SCHEMA), spec=MomentsSpec())
    before = len(pickle.dumps(task))
    assert task.encoding.n_features == 4
    assert len(pickle.dumps(task)) == before

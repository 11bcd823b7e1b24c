"""Moments of Spark data frames and tables: Arrow batches in, one value per partition out, merged in a tree.

Promise: no accumulator and nothing else that a task writes to is shared, so that a task which Spark runs again counts
once.  Rows never leave the executors.  Moments travel as pickles between the Python processes of one application,
which send each other pickled functions anyway: no bytes from outside it are ever loaded.
"""

import math
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dpcov.data.engines.base import MomentsTask, Progress, require_rows
from dpcov.data.engines.memory import require_memory, sums_bytes
from dpcov.data.engines.parts import (
    FAN_IN,
    TABLE,
    Gathered,
    attempt,
    merge_or_raise,
    merge_parts,
    require_columns,
)
from dpcov.data.moments import Moments
from dpcov.data.seal import sealed
from dpcov.errors import DataError, UsageError

_LARGEST_VALUE = 2**31 - 2**20
"""Bytes of one value that Spark can move."""


def columns(data: Any) -> tuple[str, ...]:
    """Names of the columns."""
    return tuple(sealed(lambda: _frame(data).columns, TABLE, _describe))


def moments(data: Any, task: MomentsTask, progress: Progress | None = None) -> Moments:
    """Moments of every partition, merged on the executors; the driver merges the last few."""
    require_memory(task, copies=FAN_IN + 1)
    if sums_bytes(task) > _LARGEST_VALUE:
        raise UsageError(
            "Spark cannot move these moments as one value of 2 GiB. Use fewer columns, groups or shells."
        )
    frame = sealed(lambda: _frame(data), TABLE, _describe)
    require_columns(frame.columns, task)
    total = sealed(lambda: _compute(frame, task), TABLE, _describe)
    gathered = require_rows(merge_or_raise(task, [] if total is None else [total]))
    if progress is not None:
        progress(gathered.n_rows)
    return gathered


def _frame(data: Any) -> DataFrame:
    if type(data).__module__.startswith("pyspark.sql.connect"):
        raise UsageError(
            "The spark engine needs a session of its own driver, not Spark Connect. Run it where the driver runs."
        )
    if isinstance(data, DataFrame):
        return data
    if hasattr(data, "to_spark"):
        return _frame(data.to_spark())
    if isinstance(data, Path) or (isinstance(data, str) and ("/" in data or data.endswith(".parquet"))):
        return _session().read.parquet(str(data))
    if isinstance(data, str):
        return _session().table(data)
    raise DataError(
        "The spark engine takes a Spark data frame, the name of a table, or the path of a Parquet file."
    )


def _session() -> SparkSession:
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _compute(frame: DataFrame, task: MomentsTask) -> Gathered | None:
    wanted = task.encoding.wanted
    names = frame.columns if wanted is None else list(wanted)
    # By position: Spark takes names that differ in capitals only for one, and a dot for a path.
    places = [f"c{frame.columns.index(name)}" for name in names]
    selected = frame.toDF(*(f"c{index}" for index in range(len(frame.columns)))).select(*places)
    values = selected.mapInArrow(_GatherBatches(task, tuple(names)), "moments binary").rdd.map(_opened)
    depth = max(1, math.ceil(math.log(max(1, values.getNumPartitions()), FAN_IN)))
    merge = partial(_merge, task)
    total: Gathered | None = values.treeAggregate(None, merge, merge, depth)
    return total


@dataclass(frozen=True)
class _GatherBatches:
    """The function that an executor runs on the batches of a partition."""

    task: MomentsTask
    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        value = pickle.dumps(attempt(lambda: self._gather(batches)), protocol=5)
        yield pa.RecordBatch.from_pydict({"moments": pa.array([value], type=pa.binary())})

    def _gather(self, batches: Iterable[pa.RecordBatch]) -> Moments:
        gathered = self.task.empty()
        for batch in batches:
            named = pa.RecordBatch.from_arrays(batch.columns, names=list(self.names))
            for start in range(0, len(named), self.task.block_rows):
                self.task.add(gathered, named.slice(start, self.task.block_rows))
        return gathered


def _opened(row: Any) -> Gathered:
    value: Gathered = pickle.loads(row.moments)  # noqa: S301 - made by _GatherBatches in this application
    return value


def _merge(task: MomentsTask, one: Gathered | None, other: Gathered | None) -> Gathered:
    return merge_parts(task, [part for part in (one, other) if part is not None])


def _describe(error: Exception) -> str:
    """Say the class only: Spark repeats the workers' messages, which may quote a row."""
    return (
        f"Spark gave up ({type(error).__name__}). Try the query that leads to the table alone; "
        "the driver's log says more."
    )

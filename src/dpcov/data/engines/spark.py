"""Gather moments of Spark data frames and tables: one value per partition, merged in a tree.

Contract: a task writes to nothing that is shared, so that one which Spark runs again counts once.
Rows never leave the executors.  Moments travel as pickles between the Python processes of one
application, which send each other pickled functions anyway: no bytes from outside are ever loaded.
"""

import math
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dpcov.data.engines.base import (
    FAN_IN,
    TABLE,
    Gathered,
    Task,
    TellRows,
    attempt,
    merge_or_raise,
    merge_parts,
    require_columns,
    require_rows,
)
from dpcov.data.engines.memory import require_memory, sums_bytes
from dpcov.data.engines.parquet import columns_of, gather_piece, open_files, pieces
from dpcov.data.engines.spark_scan import python_reads, refuse_guessed_types, scanned_files
from dpcov.data.seal import sealed
from dpcov.errors import DataError, UsageError

# Bytes of one value that Spark can move.
_LARGEST_VALUE = 2**31 - 2**20
# Rows below which a batch costs more than its rows.
_ENOUGH = 4096
_TAKES = "The spark engine takes a Spark data frame, the name of a table, or a Parquet file's path."


def columns(data: Any) -> tuple[str, ...]:
    """Names of the columns."""
    if _names_files(data):
        return tuple(open_files(data, _TAKES).schema.names)
    return tuple(sealed(lambda: _frame(data).columns, TABLE, _describe))


def moments(data: Any, task: Task, progress: TellRows | None = None) -> Any:
    """Moments of every partition, merged on the executors; the driver merges the last few."""
    require_memory(task, copies=FAN_IN + 1)
    if sums_bytes(task) > _LARGEST_VALUE:
        raise UsageError(
            "Spark cannot move these moments as one value of 2 GiB. "
            "Use fewer columns, groups or shells."
        )
    values = sealed(lambda: _values(data, task), TABLE, _describe)
    total = sealed(lambda: _merged(values, task), TABLE, _describe)
    gathered = require_rows(merge_or_raise(task, [] if total is None else [total]))
    if progress is not None:
        progress(gathered.n_rows)
    return gathered


def _frame(data: Any) -> DataFrame:
    if type(data).__module__.startswith("pyspark.sql.connect"):
        raise UsageError(
            "The spark engine needs a session of its own driver, not Spark Connect. "
            "Run it where the driver runs."
        )
    if isinstance(data, DataFrame):
        return data
    if hasattr(data, "to_spark"):
        return _frame(data.to_spark())
    if _is_path(data):
        return _session().read.parquet(str(data))
    if isinstance(data, str):
        return _session().table(data)
    raise DataError(_TAKES)


def _session() -> SparkSession:
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _is_path(data: Any) -> bool:
    names = isinstance(data, str) and ("/" in data or data.endswith(".parquet"))
    return names or isinstance(data, Path)


def _names_files(data: Any) -> bool:
    # Files that every machine sees are read by Python, which takes no value through the JVM.
    return _is_path(data) and sealed(lambda: python_reads(_session(), str(data)), TABLE, _describe)


def _values(data: Any, task: Task) -> Any:
    if _names_files(data):
        dataset = open_files(data, _TAKES)
        return _of_files(_session(), dataset, columns_of(dataset, task), task)
    frame = _frame(data)
    refuse_guessed_types(frame)
    require_columns(frame.columns, task)
    wanted = task.encoding.wanted
    names = frame.columns if wanted is None else list(wanted)
    files = scanned_files(frame, names)
    if files is None:
        return _of_batches(frame, names, task)
    return _of_files(frame.sparkSession, files, names, task)


def _of_files(session: SparkSession, dataset: Any, names: Sequence[str], task: Task) -> Any:
    shared = pieces(dataset, names)
    parts = session.sparkContext.parallelize(shared, max(1, len(shared)))
    return parts.map(partial(gather_piece, names, task))


def _of_batches(frame: DataFrame, names: Sequence[str], task: Task) -> Any:
    # By position: Spark takes names that differ in capitals only for one, and a dot for a path.
    places = [f"c{frame.columns.index(name)}" for name in names]
    renamed = frame.toDF(*(f"c{index}" for index in range(len(frame.columns)))).select(*places)
    gathered = renamed.mapInArrow(_GatherBatches(task, tuple(names)), "moments binary")
    # Made by _GatherBatches in this application.
    return gathered.rdd.map(lambda row: pickle.loads(row.moments))  # noqa: S301


def _merged(values: Any, task: Task) -> Gathered | None:
    depth = max(1, math.ceil(math.log(max(1, values.getNumPartitions()), FAN_IN)))

    def merge(one: Gathered | None, other: Gathered | None) -> Gathered:
        return merge_parts(task, [part for part in (one, other) if part is not None])

    total: Gathered | None = values.treeAggregate(None, merge, merge, depth)
    return total


@dataclass(frozen=True)
class _GatherBatches:
    """The function that an executor runs on the batches of a partition."""

    task: Task
    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # A value, also where a row is wrong: Spark would log an error and try again.
        value = pickle.dumps(attempt(lambda: self._gather(batches)), protocol=5)
        yield pa.RecordBatch.from_pydict({"moments": pa.array([value], type=pa.binary())})

    def _gather(self, batches: Iterable[pa.RecordBatch]) -> Any:
        gathered = self.task.empty()
        for batch in _enough(batches, min(_ENOUGH, self.task.block_rows)):
            named = pa.RecordBatch.from_arrays(batch.columns, names=list(self.names))
            for start in range(0, len(named), self.task.block_rows):
                self.task.add(gathered, named.slice(start, self.task.block_rows))
        return gathered


def _enough(batches: Iterable[pa.RecordBatch], least: int) -> Iterator[pa.RecordBatch]:
    # Join batches to at least so many rows; the last one may have fewer.
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= least:
            yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            waiting = []
    if waiting:
        yield pa.concat_batches(waiting)


def _describe(error: Exception) -> str:
    # The class only: Spark repeats the workers' messages, which may quote a row.
    return (
        f"Spark gave up ({type(error).__name__}). Try the query that leads to the table alone; "
        "the driver's log says more."
    )

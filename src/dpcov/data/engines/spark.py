"""Gather moments of Spark data frames and tables: one value per partition, merged in a tree.

Contract: a task writes to nothing that is shared, so that one which Spark runs again counts once.
Rows never leave the executors.  Moments travel as pickles between the Python processes of one
application, which send each other pickled functions anyway: no bytes from outside are ever loaded.
Files are read past Spark only if that gives exactly the rows and columns of the data frame; what is
not known for certain, extensions and versioned tables above all, is left to Spark.
"""

import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession

from dpcov.data.engines import base
from dpcov.data.engines.parquet import gather_piece, open_files, pieces
from dpcov.data.engines.spark_guesses import class_of, is_set, refuse_guessed_types
from dpcov.data.seal import sealed
from dpcov.errors import DataError, UsageError

# Bytes of one value that Spark can move.
_LARGEST_VALUE = 2**31 - 2**20
_TAKES = (
    "The spark engine takes a data frame of a session of its own driver (not Spark Connect), "
    "the name of a table, or a Parquet file's path."
)

_PACKAGE = "org.apache.spark.sql.execution.datasources."
# Exactly these classes: a filter, a projection, a cache and a versioned table have others.
_SCAN = {
    "plan": f"{_PACKAGE}LogicalRelation",
    "relation": f"{_PACKAGE}HadoopFsRelation",
    "format": f"{_PACKAGE}parquet.ParquetFileFormat",
    "files": f"{_PACKAGE}InMemoryFileIndex",
}

# Types that Spark and Arrow read alike.
_ARROW = {
    **{"double": pa.float64(), "float": pa.float32(), "boolean": pa.bool_(), "string": pa.string()},
    **{"bigint": pa.int64(), "int": pa.int32(), "smallint": pa.int16(), "tinyint": pa.int8()},
}

_CHANGES_WHAT_IS_READ = (
    "spark.sql.extensions",
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
)


def columns(data: Any) -> tuple[str, ...]:
    """Names of the columns."""
    if _names_files(data):
        return tuple(open_files(data, _TAKES).schema.names)
    return tuple(_sealed(lambda: _frame(data).columns))


def check(data: Any, task: base.Task) -> None:
    """Refuse what cannot be gathered; no row is read."""
    base.require_memory(task, copies=base.FAN_IN + 1)
    if task.answer_bytes > _LARGEST_VALUE:
        raise UsageError("Spark moves no value of 2 GiB. Use fewer columns, groups or shells.")


def moments(data: Any, task: base.Task, progress: base.TellRows | None = None) -> Any:
    """Moments of every partition, merged on the executors; the driver merges the last few."""
    check(data, task)
    values = _sealed(lambda: _values(data, task))
    total = _sealed(lambda: _merged(values, task))
    return base.require_rows(base.merge_or_raise(task, [] if total is None else [total]), progress)


def _frame(data: Any) -> DataFrame:
    if isinstance(data, str | Path):
        read = _session().read.parquet if _is_path(data) else _session().table
        return read(str(data))
    # In newer versions a frame of Spark Connect is a DataFrame, too.
    if isinstance(data, DataFrame) and "connect" not in type(data).__module__:
        return data
    raise DataError(_TAKES)


def _session() -> SparkSession:
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _is_path(data: Any) -> bool:
    names = isinstance(data, str) and ("/" in data or data.endswith(".parquet"))
    return names or isinstance(data, Path)


def _names_files(data: Any) -> bool:
    # Files that every machine sees are read by Python, which takes no value through the JVM.
    return _is_path(data) and bool(_sealed(lambda: python_reads(_session(), str(data))))


def _values(data: Any, task: base.Task) -> Any:
    if _names_files(data):
        dataset = open_files(data, _TAKES)
        names = base.require_columns(dataset.schema.names, task)
        return _of_files(_session(), dataset, names, task)
    frame = _frame(data)
    refuse_guessed_types(frame)
    names = base.require_columns(frame.columns, task)
    if (files := scanned_files(frame, names)) is None:
        return _of_batches(frame, names, task)
    return _of_files(frame.sparkSession, files, names, task)


def _of_files(session: SparkSession, dataset: Any, names: Sequence[str], task: base.Task) -> Any:
    shared = pieces(dataset, names)
    parts = session.sparkContext.parallelize(shared, max(1, len(shared)))
    return parts.map(partial(gather_piece, names, task))


def _of_batches(frame: DataFrame, names: Sequence[str], task: base.Task) -> Any:
    # By position: Spark takes names that differ in capitals only for one, and a dot for a path.
    places = [f"c{frame.columns.index(name)}" for name in names]
    renamed = frame.toDF(*(f"c{index}" for index in range(len(frame.columns)))).select(*places)
    gathered = renamed.mapInArrow(partial(_gather_batches, task, names), "moments binary")
    # Made by _gather_batches in this application.
    return gathered.rdd.map(lambda row: pickle.loads(row.moments))  # noqa: S301


def _merged(values: Any, task: base.Task) -> base.Gathered | None:
    depth = max(1, math.ceil(math.log(max(1, values.getNumPartitions()), base.FAN_IN)))

    def merge(one: base.Gathered | None, other: base.Gathered | None) -> base.Gathered:
        return base.merge_parts(task, [part for part in (one, other) if part is not None])

    total: base.Gathered | None = values.treeAggregate(None, merge, merge, depth)
    return total


def _gather_batches(
    task: base.Task, names: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    # What an executor runs on the batches of a partition.
    def blocks() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [_in_utc(column) for column in batch.columns]
            named = pa.RecordBatch.from_arrays(columns, names=list(names))
            for start in range(0, len(named), task.block_rows):
                yield named.slice(start, task.block_rows)

    # A value, also where a row is wrong: Spark would log an error and try again.
    value = pickle.dumps(base.attempt(lambda: task.total(blocks())), protocol=5)
    yield pa.RecordBatch.from_pydict({"moments": pa.array([value], type=pa.binary())})


def _in_utc(column: pa.Array) -> pa.Array:
    # Spark hands instants out in the session's zone, which is the machine's by default.
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        return column.cast(pa.timestamp(column.type.unit, "UTC"))
    return column


def _sealed(action: Callable[[], Any]) -> Any:
    return sealed(action, base.TABLE, _describe)


def _describe(error: Exception) -> str:
    # The class only: Spark repeats the workers' messages, which may quote a row.
    return (
        f"Spark gave up ({type(error).__name__}). Try the query that leads to the table alone; "
        "the driver's log says more."
    )


def python_reads(session: SparkSession, path: str) -> bool:
    """Whether Spark takes this path for one of the file system that Python sees."""
    # Spark's settings of Hadoop are not shown by its Python face.
    hadoop: Any = session.sparkContext._jsc.hadoopConfiguration()
    home = str(hadoop.get("fs.defaultFS"))
    return (
        ":" not in path
        and home.startswith("file:")
        and hadoop.get("parquet.crypto.factory.class") is None
    )


def scanned_files(frame: DataFrame, names: Iterable[str]) -> Any | None:
    """Return the files whose columns will be read as a dataset, or None if it may be another."""
    session = frame.sparkSession
    changed = any(is_set(session, name) for name in _CHANGES_WHAT_IS_READ)
    files = None if changed or not python_reads(session, "") else _whole_files(frame)
    if files is None:
        return None
    kinds = dict(frame.dtypes)
    expected = {name: _ARROW.get(kinds[name]) for name in names}
    try:
        alike = all(_holds(pa.parquet.read_schema(file), expected) for file in files)
    except (OSError, pa.ArrowException):
        return None
    return pa.dataset.dataset([str(file) for file in files], format="parquet") if alike else None


def _whole_files(frame: DataFrame) -> list[Path] | None:
    # Files of a data frame that is the scan of them all, each once.
    plan: Any = frame._jdf.queryExecution().optimizedPlan()
    if class_of(plan) != _SCAN["plan"] or plan.isStreaming():
        return None
    relation = plan.relation()
    if class_of(relation) != _SCAN["relation"] or relation.partitionSchema().size():
        return None
    found = (class_of(relation.fileFormat()), class_of(relation.location()))
    if found != (_SCAN["format"], _SCAN["files"]):
        return None
    if list(relation.dataSchema().fieldNames()) != frame.columns:
        return None
    places = [urlparse(str(place)) for place in relation.location().inputFiles()]
    files = [Path(unquote(place.path)) for place in places]
    whole = all(place.scheme == "file" and not place.netloc for place in places)
    return files if files and whole and len(set(files)) == len(files) else None


def _holds(schema: pa.Schema, expected: dict[str, pa.DataType | None]) -> bool:
    # Whether a file has the columns, each once and with the type that Spark has for it.
    for name, data_type in expected.items():
        found = [schema.field(place).type for place in schema.get_all_field_indices(name)]
        if [pa.string() if pa.types.is_large_string(each) else each for each in found] != [
            data_type
        ]:
            return False
    return True

"""Find Spark data frames that are nothing but whole Parquet files, which Python can read itself.

Contract: files are told only if reading them gives exactly the rows and columns of the data frame;
whatever is not known for certain, extensions and versioned tables above all, is left to Spark.
Reads plans and footers, never rows.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession

from dpcov.errors import DataError

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
    "double": (pa.float64(),),
    "float": (pa.float32(),),
    "bigint": (pa.int64(),),
    "int": (pa.int32(),),
    "smallint": (pa.int16(),),
    "tinyint": (pa.int8(),),
    "boolean": (pa.bool_(),),
    "string": (pa.string(), pa.large_string()),
}

_CHANGES_WHAT_IS_READ = (
    "spark.sql.extensions",
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
)
_GUESSES_FOLDERS = "spark.sql.sources.partitionColumnTypeInference.enabled"


def refuse_guessed_types(frame: DataFrame) -> None:
    """Refuse types inferred from rows or folders: one row would decide how others are read."""
    leaves: Any = frame._jdf.queryExecution().analyzed().collectLeaves()
    for leaf in map(leaves.apply, range(leaves.size())):
        if _class(leaf) == _SCAN["plan"] and _class(leaf.relation()) == _SCAN["relation"]:
            _refuse_guesses(leaf.relation(), frame.sparkSession)


def _refuse_guesses(relation: Any, session: SparkSession) -> None:
    options = {str(key).lower(): str(value).lower() for key, value in _pairs(relation.options())}
    is_json = "json" in _class(relation.fileFormat()).lower()
    if is_json or options.get("inferschema") == "true":
        raise DataError(
            "Spark has guessed types from the rows of these files. Read them with "
            "spark.read.schema(...), and save them as Parquet."
        )
    folders = [field.dataType().typeName() for field in relation.partitionSchema().fields()]
    if set(folders) - {"string"} and _is_set(session, _GUESSES_FOLDERS, "true"):
        raise DataError(
            "Spark has guessed types from the names of folders (key=value). Set "
            f"{_GUESSES_FOLDERS} to false before the table is read."
        )


def _pairs(options: Any) -> Iterator[tuple[Any, Any]]:
    found = options.iterator()
    while found.hasNext():
        pair = found.next()
        yield pair._1(), pair._2()


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
    """Return the files behind a data frame as a dataset, or None if it may be anything else.

    ``names`` are the columns that will be read.
    """
    session = frame.sparkSession
    changed = any(_is_set(session, name) for name in _CHANGES_WHAT_IS_READ)
    files = None if changed or not python_reads(session, "") else _whole_files(frame)
    if files is None:
        return None
    kinds = dict(frame.dtypes)
    expected = {name: _ARROW.get(kinds[name], ()) for name in names}
    try:
        alike = all(_holds(file, expected) for file in files)
    except (OSError, pa.ArrowException):
        return None
    return pa.dataset.dataset([str(file) for file in files], format="parquet") if alike else None


def _is_set(session: SparkSession, name: str, default: str = "false") -> bool:
    return str(session.conf.get(name, default)).strip().lower() not in ("", "false")


def _whole_files(frame: DataFrame) -> list[Path] | None:
    # Files of a data frame that is the scan of them all, each once.
    plan: Any = frame._jdf.queryExecution().optimizedPlan()
    if _class(plan) != _SCAN["plan"] or plan.isStreaming():
        return None
    relation = plan.relation()
    if _class(relation) != _SCAN["relation"] or relation.partitionSchema().size():
        return None
    found = (_class(relation.fileFormat()), _class(relation.location()))
    if found != (_SCAN["format"], _SCAN["files"]):
        return None
    if list(relation.dataSchema().fieldNames()) != frame.columns:
        return None
    places = [urlparse(str(place)) for place in relation.location().inputFiles()]
    files = [Path(unquote(place.path)) for place in places]
    whole = all(place.scheme == "file" and not place.netloc for place in places)
    return files if files and whole and len(set(files)) == len(files) else None


def _class(value: Any) -> str:
    return str(value.getClass().getName())


def _holds(file: Path, expected: dict[str, tuple[pa.DataType, ...]]) -> bool:
    # Whether the file has the columns, each once and with the type that Spark has for it.
    schema = pa.parquet.read_schema(file)
    places = {name: schema.get_all_field_indices(name) for name in expected}
    return all(
        len(places[name]) == 1 and schema.field(places[name][0]).type in alike
        for name, alike in expected.items()
    )

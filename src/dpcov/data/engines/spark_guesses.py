"""Refuse Spark's data frames whose types were guessed from rows.

Contract: a frame passes only if the plan that made it begins with sources that are known to take
their types from a catalog, a file's own schema or the user.  Rows that somebody handed to Spark
(`createDataFrame`, RDDs) are taken with the types that they have: their origin cannot be seen.
"""

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dpcov.errors import DataError

_GUESSES_FOLDERS = "spark.sql.sources.partitionColumnTypeInference.enabled"
# Leaves of plans that read no files, or those of a catalog.
_TYPED_LEAVES = {
    *("LogicalRDD", "ExternalRDD", "LocalRelation", "Range", "OneRowRelation"),
    *("HiveTableRelation", "CTERelationRef", "UnionLoopRef"),
}
# Formats of files, and tables of databases, in both of Spark's interfaces.
_TYPED_SOURCES = re.compile(
    r"(Parquet|Orc|Avro|CSV|Text)(FileFormat|Table)|JDBC(Relation|Table)|iceberg\..*SparkTable"
)

_GUESSED = (
    "Spark has guessed types from the rows of these files, or may have ({source}). Read them with "
    "spark.read.schema(...), and save them as Parquet."
)
_FOLDERS = (
    "Spark has guessed types from the names of folders (key=value). Set "
    f"{_GUESSES_FOLDERS} to false before the table is read."
)


def refuse_guessed_types(frame: DataFrame) -> None:
    """Refuse types inferred from rows or folders: one row would decide how others are read."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    for part in (plan, *_each(plan.subqueriesAll())):
        for leaf in _each(part.collectLeaves()):
            if _name(leaf) not in _TYPED_LEAVES:
                _refuse_guessing(leaf, frame.sparkSession)


def _refuse_guessing(leaf: Any, session: SparkSession) -> None:
    # An older relation or a table of the newer interface; what else there is, is not known.
    source, guesses, folders = leaf, False, None
    if _name(leaf) == "LogicalRelation":
        source = leaf.relation()
        if _name(source) == "HadoopFsRelation":
            folders = source.partitionSchema()
            guesses = "inferschema -> true" in str(source.options()).lower()
            source = source.fileFormat()
    elif _name(leaf) == "DataSourceV2Relation":
        source, guesses = leaf.table(), leaf.options().getBoolean("inferSchema", False)
        if str(source.getClass().getSuperclass().getSimpleName()) == "FileTable":
            folders = source.fileIndex().partitionSchema()
    if guesses or not _TYPED_SOURCES.search(class_of(source)):
        raise DataError(_GUESSED.format(source=_name(source)))
    types = set() if folders is None else {each.dataType().typeName() for each in folders.fields()}
    if types - {"string"} and is_set(session, _GUESSES_FOLDERS, "true"):
        raise DataError(_FOLDERS)


def is_set(session: SparkSession, name: str, default: str = "false") -> bool:
    """Whether a setting of a session is on."""
    return str(session.conf.get(name, default)).strip().lower() not in ("", "false")


def class_of(value: Any) -> str:
    """Name of the class of a Java object, with its packages."""
    return str(value.getClass().getName())


def _name(value: Any) -> str:
    return re.split(r"[.$]", class_of(value).rstrip("$"))[-1]


def _each(found: Any) -> Iterator[Any]:
    # A sequence of Scala.
    return map(found.apply, range(found.size()))

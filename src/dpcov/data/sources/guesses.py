"""Refuse DuckDB queries that guess types from rows.

Contract: a query passes only if every type comes from a catalog, a Parquet footer or the statement
itself.  Readers of CSV and JSON guess types and delimiters from rows and drop blank lines whatever
they are told, scans of pandas frames look at objects, folders of Parquet type ``key=value`` by
all names, and several Parquet files have the types of the first, which many writers take from its
rows: one row would change others.  Readers that are not known are refused.
"""

import json
import re
from collections.abc import Iterator
from glob import glob
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from dpcov.errors import DataError

_PARQUET = {"READ_PARQUET", "PARQUET_SCAN"}
# What a plan may begin with: tables, Parquet files, lists of the statement, and its own parts.
_TYPED = _PARQUET | {
    *("SEQ_SCAN", "INDEX_SCAN"),
    *("RANGE", "GENERATE_SERIES", "REPEAT", "UNNEST"),
    *("DUMMY_SCAN", "COLUMN_DATA_SCAN", "EXPRESSION_SCAN", "EMPTY_RESULT"),
    *("CTE_SCAN", "REC_CTE_SCAN", "RECURSIVE_CTE_SCAN", "DELIM_SCAN"),
}
_TEXTS = re.compile(r"'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"")
_TEXTS_AND_COMMENTS = re.compile(rf"{_TEXTS.pattern}|--[^\n]*|/\*.*?\*/", re.DOTALL)
_CALLS = re.compile(r"\b(?:read_parquet|parquet_scan)\s*\(([^()]*)\)", re.IGNORECASE)
# The values in names of folders become texts, or none is read.
_AS_TEXTS = re.compile(
    r"\b(?:hive_types_autocast|hive_partitioning)\s*(?::=|=>?)\s*false\b", re.IGNORECASE
)
_FOLDER = re.compile(r"(?:^|[/\\])[^/\\=]+=[^/\\]*[/\\]")

_GUESSED = (
    "The query reads with {readers}. DuckDB guesses types from the rows of CSV and JSON files and "
    "of pandas frames, so that one row could change how all others are read; other readers may do "
    "so. Give dpcov the file or the frame itself, or make a table with declared types of it first."
)
_IN_FOLDERS = (
    "DuckDB would guess the type of the values in folder names (key=value) from all folders. "
    "Read all Parquet files of the query by read_parquet(..., hive_types_autocast=false), which "
    "takes them as texts, or by read_parquet(..., hive_partitioning=false), which leaves them out."
)
_DIFFERING = (
    "Column '{column}' does not have the same type in all Parquet files of the query, and DuckDB "
    "would read all as the first. Write the files with one schema."
)
_UNSEEN_FILES = (
    "The query reads several Parquet files of another machine, whose types cannot be compared. "
    "Make a table with declared types of them first."
)
_HIDDEN_FILES = (
    "The query reads Parquet files that a view or a macro names. "
    "Name them in the query itself, with read_parquet(...)."
)


def refuse_guesses(connection: Any, statement: str) -> None:
    """Raise a `DataError` if types would follow from rows; the plan is read, nothing is run."""
    # The optimizer takes readers away that decided types before.
    connection.execute("PRAGMA disable_optimizer")
    ((_, plan),) = connection.execute(f"EXPLAIN (FORMAT JSON) {statement}").fetchall()
    connection.execute("PRAGMA enable_optimizer")
    readers = [name for root in json.loads(plan) for name in _readers(root)]
    if unknown := set(readers) - _TYPED:
        raise DataError(_GUESSED.format(readers=", ".join(sorted(unknown))))
    of_parquet = [name for name in readers if name in _PARQUET]
    if not of_parquet:
        return
    texts = [one or other for one, other in _TEXTS.findall(statement)]
    named = [(text, found) for text in texts if (found := _files(text))]
    if not named:
        raise DataError(_HIDDEN_FILES)
    if any(_is_distant(text) and set("*?[") & set(text) for text in texts):
        raise DataError(_UNSEEN_FILES)
    if any(_in_folders(*each) for each in named) and not _as_texts(statement, len(of_parquet)):
        raise DataError(_IN_FOLDERS)
    together = [found for _, found in named]
    # A list of names is read at once, as the files of one pattern are.
    for files in together if len(named) == len(of_parquet) else [[*chain(*together)]]:
        _refuse_differing(files)


def _readers(node: dict[str, Any]) -> Iterator[str]:
    # Where rows begin: operators that read nothing from others.
    if not (parts := node.get("children")):
        yield node["name"].strip()
    for part in parts or ():
        yield from _readers(part)


def _refuse_differing(files: list[str]) -> None:
    # Raise a `DataError` if files that are read together give a column different types.
    types: dict[str, tuple[str, str]] = {}
    for path in dict.fromkeys(files) if len(files) > 1 else ():
        if _is_distant(path):
            raise DataError(_UNSEEN_FILES)
        try:
            columns = pa.parquet.read_metadata(path).schema
        except (pa.ArrowException, OSError):
            # A text that names something else, which no reader of Parquet opens.
            continue
        for column in map(columns.column, range(len(columns))):
            own = column.physical_type, str(column.logical_type)
            if types.setdefault(column.path, own) != own:
                raise DataError(_DIFFERING.format(column=column.path))


def _in_folders(text: str, files: list[str]) -> bool:
    # Whether a text names files in ``key=value`` folders.
    return any(_FOLDER.search(path) for path in (text, *files))


def _as_texts(statement: str, n_readers: int) -> bool:
    # Whether every reader of Parquet is told to guess nothing from the names of folders.
    calls = _CALLS.findall(_TEXTS_AND_COMMENTS.sub("", statement))
    return len(calls) == n_readers and all(map(_AS_TEXTS.search, calls))


def _is_distant(text: str) -> bool:
    return "://" in text


def _files(text: str) -> list[str]:
    # What a text names: on another machine itself alone.  DuckDB's patterns are those of the
    # module; Path.glob takes no absolute ones.
    if _is_distant(text):
        return [text]
    return [path for path in glob(text, recursive=True) if Path(path).is_file()]  # noqa: PTH207

"""Refuse DuckDB queries that guess types from rows.

Contract: a query passes only if every type comes from a catalog, a Parquet footer or the statement
itself.  Readers of CSV and JSON guess types and delimiters from rows and drop blank lines whatever
they are told, scans of pandas frames look at objects, and folders of Parquet type ``key=value`` by
all names: one row would change others.  Readers that are not known are refused.
"""

import json
import re
from collections.abc import Iterator
from glob import glob
from typing import Any

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
_FOLDER = re.compile(r"(?:^|[/\\])[^/\\=]+=[^/\\]*[/\\]")

_GUESSED = (
    "The query reads with {readers}. DuckDB guesses types from the rows of CSV and JSON files and "
    "of pandas frames, so that one row could change how all others are read; other readers may do "
    "so. Give dpcov the file or the frame itself, or make a table with declared types of it first."
)
_IN_FOLDERS = (
    "DuckDB would guess the type of the values in folder names (key=value) from all folders. "
    "Make a table with declared types of these files first."
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
    readers = {name for root in json.loads(plan) for name in _readers(root)}
    if unknown := readers - _TYPED:
        raise DataError(_GUESSED.format(readers=", ".join(sorted(unknown))))
    if not readers & _PARQUET:
        return
    texts = [one or other for one, other in _TEXTS.findall(statement)]
    if not any(_files(text) or "://" in text for text in texts):
        raise DataError(_HIDDEN_FILES)
    if any(map(_in_folders, texts)):
        raise DataError(_IN_FOLDERS)


def _readers(node: dict[str, Any]) -> Iterator[str]:
    # Where rows begin: operators that read nothing from others.
    if not (parts := node.get("children")):
        yield node["name"].strip()
    for part in parts or ():
        yield from _readers(part)


def _in_folders(text: str) -> bool:
    # Whether a text names files in ``key=value`` folders, or may do so on another machine.
    found = [text, *_files(text)]
    unseen = "://" in text and any(sign in text for sign in "*?[=")
    return unseen or (len(found) > 1 and any(_FOLDER.search(path) for path in found))


def _files(text: str) -> list[str]:
    # DuckDB's patterns are those of the module; Path.glob takes no absolute ones.
    return glob(text, recursive=True)  # noqa: PTH207

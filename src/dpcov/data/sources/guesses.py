"""Refuse DuckDB queries that guess types from rows.

Contract: a query passes only if every type comes from a catalog, a Parquet footer, an Arrow table
or the statement itself.  Readers of CSV and JSON guess types and delimiters from rows and drop
blank lines whatever they are told, scans of pandas frames look at objects, and folders of Parquet
type ``key=value`` by all names: one row would change others.
"""

import re
from glob import glob
from typing import Any

from dpcov.errors import DataError

_GUESSES = re.compile(
    r"\b(READ_CSV\w*|SNIFF_CSV|READ_(?:ND)?JSON\w*|READ_XLSX|PANDAS_SCAN|SQLITE_SCAN)\b"
)
_PARQUET = re.compile(r"\b(?:READ_PARQUET|PARQUET_SCAN)\b")
_TEXTS = re.compile(r"'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"")
_FOLDER = re.compile(r"(?:^|[/\\])[^/\\=]+=[^/\\]*[/\\]")

_GUESSED = (
    "DuckDB guesses types from the rows of CSV and JSON files and of pandas frames, so that one "
    "row could change how all others are read. Give dpcov the file or the frame itself, or make a "
    "table with declared types of it first."
)
_IN_FOLDERS = (
    "DuckDB would guess the type of the values in folder names (key=value) from all folders. "
    "Make a table with declared types of these files first."
)
_HIDDEN_FILES = (
    "The query reads Parquet files that a view or a macro names. "
    "Name them in the query itself, with read_parquet(...)."
)


def refuse_guesses(relation: Any, statement: str) -> None:
    """Raise a `DataError` if types would follow from rows; the plan is read, nothing is run."""
    plan = relation.explain()
    if _GUESSES.search(plan):
        raise DataError(_GUESSED)
    if not _PARQUET.search(plan):
        return
    texts = [one or other for one, other in _TEXTS.findall(statement)]
    if not any(_files(text) or "://" in text for text in texts):
        raise DataError(_HIDDEN_FILES)
    if any(map(_in_folders, texts)):
        raise DataError(_IN_FOLDERS)


def _in_folders(text: str) -> bool:
    # Whether a text names files in ``key=value`` folders, or may do so on another machine.
    found = [text, *_files(text)]
    unseen = "://" in text and any(sign in text for sign in "*?[=")
    return unseen or (len(found) > 1 and any(_FOLDER.search(path) for path in found))


def _files(text: str) -> list[str]:
    # DuckDB's patterns are those of the module; Path.glob takes no absolute ones.
    return glob(text, recursive=True)  # noqa: PTH207

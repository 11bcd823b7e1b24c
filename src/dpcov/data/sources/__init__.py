"""Open rows wherever they come from: files, standard input, databases, tables, matrices.

Contract: `open_source` finds the right reader, or says which ones there are; no reader loads
pickled objects.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse

from dpcov.data.layout import PLAIN, FileLayout
from dpcov.data.sources import delimited, frames, jsonlines, matrices, sheets, statistical
from dpcov.data.sources.base import Block, Kind, ReadAs, Source
from dpcov.data.sources.databases import Query, file_of, open_query
from dpcov.data.sources.streams import COMPRESSED, awaited, open_bytes
from dpcov.errors import DataError
from dpcov.files import reason_of

__all__ = ["Block", "Kind", "Query", "ReadAs", "Source", "file_of", "open_source"]

# Text, which may be compressed; None where the delimiter has to be declared.
_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}
_JSON_LINES = (".jsonl", ".ndjson")
# Databases hold several tables: they are asked.
_DATABASES = {".db": "sqlite", ".sqlite": "sqlite", ".sqlite3": "sqlite", ".duckdb": "duckdb"}
_FORMATS: dict[str, Callable[[Path, FileLayout], Source]] = {
    ".parquet": lambda path, _: frames.ParquetSource(path),
    ".npy": lambda path, _: matrices.open_npy(path),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), lambda path, _: frames.ArrowFileSource(path)),
    **dict.fromkeys(statistical.ENDINGS, statistical.StatisticalSource),
}


def open_source(
    data: object, layout: FileLayout | None = None, memory_limit: float | None = None
) -> Source:
    """Open rows for reading in blocks; a `DataError` says what to do and holds no value of a row.

    ``data`` is a path whose ending names the format, ``"-"`` for CSV on standard input, a data
    frame (pandas, Polars, PyArrow and whatever else narwhals knows), a `Query`, a 2-D
    array, a list of equally long lists of numbers, or a SciPy sparse matrix.  ``layout`` is what a
    schema declares of files; ``memory_limit`` is in GiB, what the machine has by default.
    """
    layout = layout or PLAIN
    if isinstance(data, str) and data == "-":
        # A service may start a program without one.
        if sys.stdin is None:
            raise DataError("Standard input is closed. Give a file, or rows on standard input.")
        return delimited.from_stream(awaited(sys.stdin.buffer), "standard input", layout)
    if isinstance(data, str | Path):
        return _open_file(Path(data), layout, memory_limit)
    if isinstance(data, Source):
        return data
    if isinstance(data, Query):
        return open_query(data)
    if isinstance(data, np.ndarray):
        return matrices.MatrixSource(data, "the array")
    if scipy.sparse.issparse(data):
        return matrices.MatrixSource(data, "the sparse matrix")
    if isinstance(data, list | tuple):
        return matrices.open_list(data)
    return frames.open_frame(data, "the table")


def _open_file(path: Path, layout: FileLayout, memory_limit: float | None) -> Source:
    _check_file(path)
    ending = path.suffix.lower()
    if ending in sheets.ENDINGS:
        return sheets.SheetSource(path, layout, memory_limit)
    if opener := _FORMATS.get(ending):
        return opener(path, layout)
    opened, inner = open_bytes(path, layout)
    ending = Path(inner).suffix.lower()
    if ending in _JSON_LINES:
        return jsonlines.JsonLinesSource(opened, path.name)
    if kind := _DATABASES.get(ending):
        raise DataError(
            f"'{path.name}' is called as a database is. Say what to read of it: a statement, and "
            f"{kind}:///{path.name} as the database (--sql, --db; in Python, dpcov.Query)."
        )
    if inner != path.name and ending in {*_FORMATS, *sheets.ENDINGS}:
        raise DataError(
            f"'{path.name}' holds a file that can only be read unpacked ({ending}). Unpack it."
        )
    if ending not in _DELIMITERS:
        texts = [*_DELIMITERS, *_JSON_LINES]
        raise DataError(
            f"The format of '{path.name}' is not known by its ending. Use one of: "
            f"{', '.join([*texts, *_FORMATS, *sheets.ENDINGS])} ({', '.join(texts)} also with "
            f"{', '.join(COMPRESSED)}). If it is text, rename it so that it ends with .txt."
        )
    delimiter = layout.delimiter or _DELIMITERS[ending]
    if delimiter is None:
        raise DataError(
            f"'{path.name}' does not say what separates its columns. Declare delimiter in the "
            "schema's [file] (schema draft: --delimiter)."
        )
    return delimited.DelimitedSource(opened, name=path.name, delimiter=delimiter, layout=layout)


def is_table(path: Path) -> bool:
    """Whether the ending of a file names a format that can be read."""
    endings = [ending.lower() for ending in path.suffixes]
    # What is in a zip archive need not show in its name.
    if endings[-1:] == [".zip"]:
        return True
    if endings and endings[-1] in COMPRESSED:
        endings.pop()
    return bool(endings) and endings[-1] in {*_FORMATS, *sheets.ENDINGS, *_DELIMITERS, *_JSON_LINES}


_ONE_FILE = (
    "Give one file. Parquet files in a folder are read together by a query of DuckDB, --db "
    "duckdb:// --sql \"SELECT * FROM 'FOLDER/*.parquet'\", or in a release by --engine dask."
)


def _check_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise DataError(f"'{path.name or path}' is a directory. {_ONE_FILE}")
        # Opening a pipe waits for its writer, and files are opened more than once.
        if path.exists() and not path.is_file():
            raise DataError(
                f"'{path.name}' is not an ordinary file. Give one, or - for CSV on stdin."
            )
        with path.open("rb") as file:
            if not file.read(1):
                raise DataError(f"'{path.name}' is empty. Give a file that holds the table.")
    except FileNotFoundError:
        advice = _ONE_FILE if "*" in path.name else "Check the path."
        raise DataError(f"There is no file '{path.name}'. {advice}") from None
    except OSError as error:
        raise DataError(
            f"'{path.name}' cannot be opened: {reason_of(error)}. Check the path and its rights."
        ) from None

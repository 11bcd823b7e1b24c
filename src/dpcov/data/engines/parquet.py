"""Read Parquet files in every worker, a few row groups at a time.

Contract: only footers are read where the work is shared out; what a worker is sent names rows, and
holds none; every row group is in exactly one piece.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset

from dpcov.data.engines.base import TABLE, Gathered, Task, attempt
from dpcov.data.seal import sealed
from dpcov.data.sources.frames import OLD_TIMES, parquet_blocks
from dpcov.errors import DataError

# Values of a piece, 128 MiB: far more work than starting a task is, and small enough to spread.
_PIECE_VALUES = 2**24
# A folder of a partitioned table.
_FOLDER = re.compile(r"/[^/=]+=[^/]*/")
# What lies in the folder of a table whose files are not all valid at a time.
_VERSIONED = ("_delta_log", ".hoodie")
_NO_PARQUET = "it is no whole Parquet file. Write it again, or move it out of the folder."

# A `pyarrow.dataset.ParquetFileFragment` of some row groups.
Piece = Any


def open_files(path: str | Path, otherwise: str) -> Any:
    """Open a Parquet file or a folder of them; ``otherwise`` is said of a file of another kind."""
    place = Path(path)
    if not place.exists():
        advice = "Give their folder." if "*" in place.name else "Check the path."
        raise DataError(f"There is no file '{place.name}'. Every worker must see it. {advice}")
    if place.is_file() and place.suffix.lower() != ".parquet":
        raise DataError(otherwise)
    if any((place / name).exists() for name in _VERSIONED):
        raise DataError(
            f"'{place.name}' is a table with versions, of which its files hold several at a time. "
            "Open it with the library it was written with, and pass the data frame."
        )
    kind = pa.dataset.ParquetFileFormat(coerce_int96_timestamp_unit=OLD_TIMES)
    dataset = sealed(lambda: pa.dataset.dataset(str(place), format=kind), TABLE)
    if any(_FOLDER.search(file.removeprefix(str(place))) for file in dataset.files):
        raise DataError(
            "Folders key=value hold a column. Read them by a query of DuckDB, with "
            "read_parquet(..., hive_types_autocast=false), or open them and pass the data frame."
        )
    return dataset


def pieces(dataset: Any, names: Sequence[str]) -> list[Piece]:
    """Share the row groups of all files out, by the columns that will be read; can be pickled."""
    files = list(dataset.get_fragments())
    for name in names:
        # A cell would mean what its file says.
        if len({_type_in(file, name) for file in files} - {pa.null()}) > 1:
            raise DataError(
                f"Column '{name}' does not have the same type in all files. "
                "Write them with one schema."
            )
    return [piece for whole in files for piece in _pieces(whole, len(names))]


def _type_in(file: Piece, name: str) -> pa.DataType | None:
    # The type of a column, as written; None where the file lacks it.
    schema = sealed(lambda: file.physical_schema, Path(file.path).name, lambda _: _NO_PARQUET)
    if name not in schema.names:
        return None
    found = schema.field(name).type
    return found.value_type if pa.types.is_dictionary(found) else found


def _pieces(whole: Any, width: int) -> Iterator[Piece]:
    chosen: list[int] = []
    values = 0
    for group in whole.row_groups:
        chosen.append(group.id)
        values += group.num_rows * width
        if values >= _PIECE_VALUES:
            yield whole.subset(row_group_ids=chosen)
            chosen, values = [], 0
    if chosen:
        yield whole.subset(row_group_ids=chosen)


def gather_piece(names: Sequence[str], task: Task, piece: Piece) -> Gathered:
    """Moments of a piece, read block by block."""

    def gather() -> Any:
        wanted = task.encoding.wanted or dict.fromkeys(names, "number")
        groups = [group.id for group in piece.row_groups]
        schema = piece.physical_schema
        # `pyarrow.dataset` would unfold whole row groups.
        return task.total(parquet_blocks(piece.path, schema, wanted, task.block_rows, groups))

    return attempt(gather)

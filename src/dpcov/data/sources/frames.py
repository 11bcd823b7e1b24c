"""Read Parquet files, data frames that narwhals knows, and Arrow streams.

Contract: memory does not depend on the number of rows of a file; a frame is turned into Arrow one
block at a time.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet

from dpcov.data.seal import sealed
from dpcov.data.sources.base import (
    FIRST_ROWS,
    Block,
    Kind,
    ReadAs,
    Source,
    TypedSource,
    Wanted,
    check_names,
    column_of_cells,
    kind_of_arrow_type,
)
from dpcov.errors import DataError

_NO_TABLE = "it is no data frame whose columns all have names of their own; make it one."
_NO_LAZY = (
    "What a lazy frame holds may follow from its rows. Compute it first, save it as Parquet, or "
    "give DuckDB's statement as a Query."
)
OLD_TIMES = "us"
"""Unit of Parquet's older moments (INT96), as databases read them: nanoseconds end in 2262."""
_NO_OLD_TIMES = (
    "older moments of Parquet (INT96), which readers write with a time zone or without. Declare "
    "them a date, or write the file with timestamps."
)
_DIFFERENCES = {"DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"}
_END = b"\xff\xff\xff\xff\0\0\0\0"
_ENCRYPTED = "it is encrypted; write it again without."
# Bytes of each column chunk that are held at a time, however large its row group is.
_READ_BUFFER = 1 << 16
# Bytes of a block of long texts, and of a dictionary of texts that are long: a dictionary holds all
# different ones of a row group.  Texts are long by their mean, which the footer states.
_BLOCK_BYTES, _DICTIONARY_BYTES, _LONG_TEXT = 1 << 23, 1 << 26, 1 << 6
# Files that are read whole: a buffered reader takes whatever size a page states.
_SMALL_FILE = 1 << 20


class FrameSource(Source):
    """A data frame in memory (pandas, Polars, PyArrow, Modin, cuDF)."""

    def __init__(self, frame: nw.DataFrame[Any], name: str) -> None:
        self.name = name
        self.n_rows = len(frame)
        self._frame = _bare(frame)
        self.columns = check_names([str(label) for label in frame.columns], name)

    def kinds(self, decimal: str = ".") -> dict[str, Kind]:
        """Read from the Arrow types of the first rows; pandas' own do not tell texts from dates."""
        first = self._frame[:FIRST_ROWS]
        return {name: _kind_of_cells(first[:, at]) for at, name in enumerate(self.columns)}

    def _read(self, block_rows: int, wanted: Wanted) -> Iterator[Block]:
        frame = self._frame.select(nw.nth([self.columns.index(column) for column in wanted]))
        pandas_like = frame.implementation.is_pandas_like()
        for start in range(0, len(frame), block_rows):
            block = frame[start : start + block_rows]
            if not pandas_like:
                # Polars gives the addresses of Python's objects in their place.
                for name, kind in zip(wanted, frame.schema.values(), strict=True):
                    if kind == nw.Object:
                        raise _UnreadableError(name)
                yield from block.to_arrow().to_batches()
                continue
            # Arrow would give a column of objects one type, which the other rows decide.
            cells: Any = block.to_native()
            named = enumerate(wanted.items())
            columns = [_pandas_column(cells.iloc[:, at], *each) for at, each in named]
            yield from pa.table(columns, names=list(wanted)).to_batches()

    def _explain(self, error: Exception, schema_names: Sequence[str]) -> str:
        if not isinstance(error, _UnreadableError):
            return "it has a type of cells that Arrow does not know; convert or drop such columns."
        # Where the line of names was forgotten, a name is a value.
        (name,) = error.args
        told = f"'{name}'" if schema_names else f"number {self.columns.index(name) + 1}"
        return (
            f"column {told} holds cells that are neither numbers nor texts, or texts where numbers "
            "are wanted; convert or drop it."
        )


class _UnreadableError(Exception):
    """Its argument is the column."""


class ParquetSource(TypedSource):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.name, lambda: _parquet_schema(path))
        self._path = path

    def _read(self, block_rows: int, wanted: Wanted) -> Iterator[Block]:
        return parquet_blocks(self._path, self._schema, wanted, block_rows)

    def _explain(self, error: Exception, schema_names: Sequence[str]) -> str:
        # Arrow says "encrypted metadata", and "Cannot decrypt".
        return _ENCRYPTED if "crypt" in str(error) else super()._explain(error, schema_names)


def _parquet_schema(path: Path) -> pa.Schema:
    with pa.parquet.ParquetFile(path, coerce_int96_timestamp_unit=OLD_TIMES) as file:
        return file.schema_arrow


def parquet_blocks(
    path: str | Path,
    schema: pa.Schema,
    wanted: Wanted,
    block_rows: int,
    row_groups: list[int] | None = None,
) -> Iterator[Block]:
    """Columns of a Parquet file of that schema, a block at a time; of some row groups, or all."""
    columns, metadata = list(wanted), pa.parquet.read_metadata(path)
    texts = [name for name in columns if kind_of_arrow_type(schema.field(name).type) == "text"]
    buffer = 0 if Path(path).stat().st_size <= _SMALL_FILE else _READ_BUFFER
    folded = _foldable(metadata, texts)
    block_rows = _rows_of_texts(metadata, set(texts) - set(folded), block_rows)
    # Buffering ahead would keep every row group that was read in memory.
    options = {"read_dictionary": folded, "metadata": metadata}
    options |= {"pre_buffer": False, "buffer_size": buffer}
    options |= {"coerce_int96_timestamp_unit": OLD_TIMES, "page_checksum_verification": True}
    with pa.parquet.ParquetFile(path, **options) as file:
        for column in map(file.schema.column, range(len(file.schema))):
            if column.physical_type == "INT96" and wanted.get(column.path) == "text":
                raise DataError(f"Column '{column.path}' holds {_NO_OLD_TIMES}")
        for batch in file.iter_batches(block_rows, row_groups, columns):
            # The places in a dictionary may point out of it.
            batch.validate(full=True)
            yield batch.select(columns)


def _foldable(metadata: Any, names: list[str]) -> list[str]:
    # The columns that Arrow can read as dictionaries, and that have room as such: texts as
    # differences are not among them.
    def is_foldable(chunk: Any) -> bool:
        most = max(_DICTIONARY_BYTES, _LONG_TEXT * chunk.num_values)
        return chunk.total_uncompressed_size <= most and _DIFFERENCES.isdisjoint(chunk.encodings)

    chunks = _chunks(metadata, names)
    return [name for name in names if all(is_foldable(group[name]) for group in chunks)]


def _rows_of_texts(metadata: Any, names: Iterable[str], block_rows: int) -> int:
    # Rows of which these texts have room in a block.
    sizes = (
        sum(chunk.total_uncompressed_size for chunk in group.values())
        / max(chunk.num_values for chunk in group.values())
        for group in _chunks(metadata, names)
        if any(chunk.num_values for chunk in group.values())
    )
    return max(1, int(min(block_rows, _BLOCK_BYTES / max([1.0, *sizes]))))


def _chunks(metadata: Any, names: Iterable[str]) -> list[dict[str, Any]]:
    # What the footer says of these columns in every row group.
    place = {metadata.schema.column(at).path: at for at in range(len(metadata.schema))}
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    return [{name: group.column(place[name]) for name in names} for group in groups]


class ArrowFileSource(TypedSource):
    """An Arrow IPC file or stream; Feather files of version 2 are Arrow IPC files."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.name, lambda: _open_arrow(_file(path)).schema)
        self._path = path

    def _read(self, block_rows: int, wanted: Wanted) -> Iterator[Block]:
        file = _file(self._path)
        reader = _open_arrow(file)
        count = getattr(reader, "num_record_batches", None)
        for batch in reader if count is None else map(reader.get_batch, range(count)):
            chosen = batch.select(list(wanted))
            # The offsets and indices in a file may point anywhere, also out of it.
            for cells in chosen.columns:
                _timeless(cells).validate(full=True)
            yield chosen
        # A stream says where it ends, but its reader takes any end for that one.
        if count is None and not _has_end(file):
            raise DataError(f"'{self.name}' is cut short, or holds several tables. Write it again.")


def _timeless(cells: pa.Array) -> pa.Array:
    # Dates of 64 bits may have a time of day, which counts for nothing: as whole numbers.
    if pa.types.is_dictionary(cells.type):
        held = _timeless(cells.dictionary)
        return pa.DictionaryArray.from_arrays(cells.indices, held, safe=False)
    return cells.view(pa.int64()) if pa.types.is_date64(cells.type) else cells


def _file(path: Path) -> pa.OSFile:
    # Mapped pages would count as memory, and stay.
    return pa.OSFile(str(path))


def _has_end(file: pa.OSFile) -> bool:
    # Whether a stream was read to its end, of 8 bytes, or of 4 before version 0.15 of Arrow.
    place = file.tell()
    file.seek(place - 8)
    return bool(file.size() == place and (place % 8 == 4 or file.read(8) == _END))


def _open_arrow(file: pa.OSFile) -> pa.RecordBatchStreamReader | pa.RecordBatchFileReader:
    return pa.ipc.open_file(file) if _is_file(file) else pa.ipc.open_stream(file)


def _is_file(file: pa.OSFile) -> bool:
    begin = file.read(6)
    file.seek(0)
    return bool(begin == b"ARROW1")


class ReaderSource(TypedSource):
    """An Arrow stream, which can be read only once."""

    once = True

    def __init__(self, reader: pa.RecordBatchReader, name: str) -> None:
        super().__init__(name, lambda: reader.schema)
        self._reader: pa.RecordBatchReader | None = reader

    def _read(self, block_rows: int, wanted: Wanted) -> Iterator[Block]:
        if self._reader is None:
            raise DataError(f"'{self.name}' can be read only once. Make it again.")
        reader, self._reader = self._reader, None
        for batch in reader:
            yield batch.select(list(wanted))


def open_frame(data: object, name: str) -> Source:
    """Find the source for an object in memory that is not a matrix."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    frame: Any = sealed(lambda: nw.from_native(data, pass_through=True), name, lambda _: _NO_TABLE)
    if isinstance(frame, nw.DataFrame):
        return sealed(lambda: FrameSource(frame, name), name, lambda _: _NO_TABLE)
    if isinstance(frame, nw.LazyFrame):
        raise DataError(_NO_LAZY)
    if hasattr(data, "__arrow_c_stream__"):
        stream = sealed(lambda: pa.RecordBatchReader.from_stream(data), name, lambda _: _NO_TABLE)
        return ReaderSource(stream, name)
    kind = type(data).__name__
    raise DataError(
        f"Data of type {kind} are not known. Give a path, a data frame, or an array. Batches are "
        "read one by one, by `moments` of an array or `checkpoint` of a table, and merged."
    )


def _bare(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    # pandas compares the attrs of what it puts together, and an array in them has no truth value.
    if not getattr(frame.to_native(), "attrs", None):
        return frame
    native = frame.to_native().copy(deep=False)
    native.attrs = {}
    return nw.from_native(native, eager_only=True)


def _pandas_column(cells: Any, name: str, reading: ReadAs) -> pa.Array | pa.ChunkedArray:
    try:
        return _by_type(cells, name, reading)
    except Exception:  # pandas and Arrow have errors of their own, which may quote a cell
        failure = _UnreadableError(name)
    raise failure


def _by_type(cells: Any, name: str, reading: ReadAs) -> Any:
    if cells.dtype == object:
        return column_of_cells(cells.tolist(), name, reading)
    if cells.dtype.name == "category":
        # What a category says that no row has is no matter.
        cells = cells.cat.remove_unused_categories()
        held = cells.cat.categories
        # Single precision stays: missing codes are compared as such a column holds them.
        is_float = held.dtype.kind == "f"
        labels = held if is_float else column_of_cells(held.astype(object), name, reading)
        codes = cells.cat.codes.to_numpy().astype("int64")
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(labels))
    return pa.array(cells, from_pandas=True)


def _kind_of_cells(column: nw.Series[Any]) -> Kind:
    try:
        return kind_of_arrow_type(column.to_frame().to_arrow().schema.types[0])
    except Exception:  # every library has its own errors for what Arrow cannot hold
        return "other"

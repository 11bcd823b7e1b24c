"""Parquet, Arrow and Feather files, one record batch after the other.

Contract: only the wanted columns are decoded, and memory does not depend on the number of rows.
"""

import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from dpcov.data.sources.base import Block, ReadAs, TypedSource, kind_of_arrow_type

# Bytes of each column chunk that are held at a time, however large its row group is.
_READ_BUFFER = 1 << 20


class ParquetSource(TypedSource):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.name, lambda: pa.parquet.read_schema(path))
        self._path = path

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[Block]:
        types = {column: self._schema.field(column).type for column in wanted}
        texts = [column for column in wanted if kind_of_arrow_type(types[column]) == "text"]
        # A buffered reader takes whatever size a page states, so small files have no buffer.
        buffer = 0 if self._path.stat().st_size <= _READ_BUFFER else _READ_BUFFER
        # Buffering ahead would keep every row group that was read in memory.
        options = {"read_dictionary": texts, "pre_buffer": False, "buffer_size": buffer}
        with pa.parquet.ParquetFile(self._path, **options) as file:
            for batch in file.iter_batches(block_rows, columns=list(wanted)):
                # The places in a dictionary may point out of it.
                batch.validate(full=True)
                yield batch


class ArrowFileSource(TypedSource):
    """An Arrow IPC file or stream; Feather files of version 2 are Arrow IPC files."""

    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(path.name, lambda: _open(map_file(path)).schema)

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[Block]:
        mapping = map_file(self._path)
        reader = _open(mapping)
        count = getattr(reader, "num_record_batches", None)
        for batch in reader if count is None else map(reader.get_batch, range(count)):
            chosen = batch.select(list(wanted))
            # The offsets and indices in a file may point anywhere, also out of it.
            chosen.validate(full=True)
            for start in range(0, len(chosen), block_rows):
                yield chosen[start : start + block_rows]
                let_go(mapping)


def _open(mapping: mmap.mmap) -> pa.RecordBatchStreamReader | pa.RecordBatchFileReader:
    file = pa.BufferReader(pa.py_buffer(mapping))
    return pa.ipc.open_file(file) if mapping[:6] == b"ARROW1" else pa.ipc.open_stream(file)


def map_file(path: Path) -> mmap.mmap:
    """Map a whole file to memory for reading."""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def let_go(mapping: mmap.mmap | None) -> None:
    """Drop the pages that were read, so that a file takes no more memory than the part at hand."""
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)

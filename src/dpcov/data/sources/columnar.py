"""Parquet, Arrow and Feather files, one record batch after the other.

Contract: only the wanted columns are decoded, and memory does not depend on the number of rows.  Knows
nothing of schemas.
"""

import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from dpcov.data.seal import sealed
from dpcov.data.sources.base import Block, Kind, ReadAs, Source, check_names, kind_of_arrow_type
from dpcov.data.sources.mapped import let_go, map_file
from dpcov.errors import DataError

_READ_BUFFER = 1 << 20
"""Bytes of each column chunk that are held at a time, however large its row group is."""


class ParquetSource(Source):
    """A Parquet file."""

    progress_total: int

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.progress_total = path.stat().st_size
        self._path = path
        self._schema: pa.Schema = sealed(lambda: pa.parquet.read_schema(path), self.name)
        self.columns = sealed(lambda: check_names(self._schema.names, self.name), self.name)

    def kinds(self) -> dict[str, Kind]:
        """Read from the file's own types."""
        return {field.name: kind_of_arrow_type(field.type) for field in self._schema}

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[tuple[Block, int]]:
        texts = [
            column
            for column in wanted
            if kind_of_arrow_type(self._schema.field(column).type) == "text"
        ]
        # Buffering ahead would keep every row group that was read in memory.
        # A buffered reader takes whatever size a page states, so small files, which need no buffer, have none.
        small = self.progress_total <= _READ_BUFFER
        buffering = {"pre_buffer": False, "buffer_size": 0 if small else _READ_BUFFER}
        with pa.parquet.ParquetFile(self._path, read_dictionary=texts, **buffering) as file:
            rows_in_all, rows_read = file.metadata.num_rows, 0
            for batch in file.iter_batches(block_rows, columns=list(wanted)):
                # The places in a dictionary may point out of it.
                batch.validate(full=True)
                rows_read += len(batch)
                yield batch, self.progress_total * rows_read // rows_in_all


class ArrowFileSource(Source):
    """An Arrow IPC file or stream; Feather files of version 2 are Arrow IPC files."""

    progress_total: int

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.progress_total = path.stat().st_size
        self._path = path
        magic = path.open("rb").read(6)
        if magic.startswith(b"FEA1"):
            raise DataError(
                f"'{self.name}' is a Feather file of version 1. Write it again as version 2."
            )
        self._is_stream = magic != b"ARROW1"
        self._schema: pa.Schema = sealed(lambda: self._open(map_file(path)).schema, self.name)
        self.columns = sealed(lambda: check_names(self._schema.names, self.name), self.name)

    def kinds(self) -> dict[str, Kind]:
        """Read from the file's own types."""
        return {field.name: kind_of_arrow_type(field.type) for field in self._schema}

    def _open(self, mapping: mmap.mmap) -> pa.RecordBatchStreamReader | pa.RecordBatchFileReader:
        file = pa.BufferReader(pa.py_buffer(mapping))
        return pa.ipc.open_stream(file) if self._is_stream else pa.ipc.open_file(file)

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[tuple[Block, int]]:
        mapping = map_file(self._path)
        bytes_read = 0
        for batch in self._batches(mapping):
            bytes_read += batch.get_total_buffer_size()
            chosen = batch.select(list(wanted))
            # The offsets and indices in a file may point anywhere, also out of it.
            chosen.validate(full=True)
            for start in range(0, len(chosen), block_rows):
                yield chosen[start : start + block_rows], min(bytes_read, self.progress_total)
                let_go(mapping)

    def _batches(self, mapping: mmap.mmap) -> Iterator[pa.RecordBatch]:
        reader = self._open(mapping)
        if self._is_stream:
            yield from reader
        else:
            yield from (reader.get_batch(index) for index in range(reader.num_record_batches))

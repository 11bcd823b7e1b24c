"""Tables in memory: every data frame that narwhals knows, and Arrow streams.

Promise: a table is turned into Arrow one block at a time; lazy tables (DuckDB, Polars) are never held as a whole
where their library can hand out batches.  Knows nothing of schemas.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import narwhals as nw
import pyarrow as pa

from dpcov.data.seal import sealed
from dpcov.data.sources.base import Block, Kind, Reading, Source, check_names, kind_of_arrow_type
from dpcov.errors import DataError

_FIRST_ROWS = 1000
_NO_TABLE = "it is no data frame whose columns all have names of their own; make it one."


class FrameSource(Source):
    """A data frame in memory (pandas, Polars, PyArrow, Modin, cuDF)."""

    def __init__(self, frame: nw.DataFrame[Any], name: str) -> None:
        self.name = name
        self._frame = frame
        self.columns = check_names([str(label) for label in frame.columns], name)

    def kinds(self) -> dict[str, Kind]:
        """Read from the Arrow types of the first rows; pandas' own types do not tell texts from dates."""
        first = self._frame[:_FIRST_ROWS]
        fields = sealed(
            lambda: _arrow(first, self.columns).schema, self.name, lambda error: self._explain(error, ())
        )
        return {field.name: kind_of_arrow_type(field.type) for field in fields}

    def _read(self, block_rows: int, wanted: Mapping[str, Reading]) -> Iterator[tuple[Block, int]]:
        frame = self._frame.select(nw.nth([self.columns.index(column) for column in wanted]))
        done = 0
        for start in range(0, len(frame), block_rows):
            for batch in _arrow(frame[start : start + block_rows], wanted).to_batches():
                done += batch.nbytes
                yield batch, done

    def _explain(self, error: Exception, schema_names: Sequence[str]) -> str:
        """Name the first column that Arrow cannot hold, if that is what went wrong."""
        for place, column in enumerate(self.columns):
            if (column in schema_names or not schema_names) and not _converts(self._frame, place):
                # Where the line of names was forgotten, a name is a value.
                told = f"'{column}'" if schema_names else f"number {place + 1}"
                return f"column {told} mixes types, or has one without numbers and texts; convert or drop it."
        return super()._explain(error, schema_names)


class LazySource(Source):
    """A query that is not yet computed (Polars LazyFrame, DuckDB relation, and others through narwhals)."""

    def __init__(self, frame: nw.LazyFrame[Any], name: str) -> None:
        self.name = name
        self._frame = frame
        self._schema = frame.collect_schema()
        self.columns = check_names(self._schema.names(), name)

    def kinds(self) -> dict[str, Kind]:
        """Read from the query's own types."""
        return {column: _kind(data_type) for column, data_type in self._schema.items()}

    def _read(self, block_rows: int, wanted: Mapping[str, Reading]) -> Iterator[tuple[Block, int]]:
        done = 0
        for table in _lazy_tables(self._frame.select(list(wanted)), block_rows):
            for batch in table.to_batches():
                done += batch.nbytes
                yield batch, done


class ReaderSource(Source):
    """An Arrow stream, which can be read only once."""

    def __init__(self, reader: pa.RecordBatchReader, name: str) -> None:
        self.name = name
        self._reader: pa.RecordBatchReader | None = reader
        self._schema = reader.schema
        self.columns = check_names(self._schema.names, name)

    def kinds(self) -> dict[str, Kind]:
        """Read from the stream's own types."""
        return {field.name: kind_of_arrow_type(field.type) for field in self._schema}

    def _read(self, block_rows: int, wanted: Mapping[str, Reading]) -> Iterator[tuple[Block, int]]:
        if self._reader is None:
            raise DataError(f"'{self.name}' can be read only once. Make it again.")
        reader, self._reader = self._reader, None
        done = 0
        for batch in reader:
            done += batch.nbytes
            yield batch.select(list(wanted)), done


def open_frame(data: object, name: str) -> Source:
    """Find the source for an object in memory that is not a matrix."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return ReaderSource(data, name)
    frame: Any = sealed(lambda: nw.from_native(data, pass_through=True), name, lambda _: _NO_TABLE)
    if isinstance(frame, nw.DataFrame):
        return sealed(lambda: FrameSource(frame, name), name, lambda _: _NO_TABLE)
    if isinstance(frame, nw.LazyFrame):
        return sealed(lambda: LazySource(frame, name), name)
    if hasattr(data, "__arrow_c_stream__"):
        stream = sealed(lambda: pa.RecordBatchReader.from_stream(data), name, lambda _: _NO_TABLE)
        return ReaderSource(stream, name)
    raise DataError(
        f"Data of the type {type(data).__name__} is not known. Give a path, a data frame, or a 2-D array."
    )


def _lazy_tables(frame: nw.LazyFrame[Any], block_rows: int) -> Iterable[pa.Table]:
    native: Any = frame.to_native()
    if frame.implementation.is_duckdb():
        # The older name is deprecated, the newer one absent from older versions.
        read = getattr(native, "to_arrow_reader", None) or native.fetch_arrow_reader
        return (pa.Table.from_batches([batch]) for batch in read(block_rows))
    if frame.implementation.is_polars() and hasattr(native, "collect_batches"):
        return (batch.to_arrow() for batch in native.collect_batches(chunk_size=block_rows))
    return iter([frame.collect("pyarrow").to_native()])


def _arrow(frame: nw.DataFrame[Any], names: Iterable[str]) -> pa.Table:
    """Turn rows into Arrow; the index that pandas adds is left out."""
    table = frame.to_arrow()
    return pa.table({name: table[name] for name in names})


def _converts(frame: nw.DataFrame[Any], place: int) -> bool:
    """Whether Arrow can hold a column."""
    try:
        frame.select(nw.nth(place)).to_arrow()
    except Exception:  # every library has its own errors
        return False
    return True


def _kind(data_type: Any) -> Kind:
    if data_type == nw.Boolean:
        return "boolean"
    if data_type.is_numeric():
        return "number"
    return "text" if data_type in (nw.String, nw.Categorical, nw.Enum) else "other"

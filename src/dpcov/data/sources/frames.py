"""Read tables in memory: every data frame that narwhals knows, and Arrow streams.

Contract: a table is turned into Arrow one block at a time; lazy tables (DuckDB, Polars) are never
held as a whole where their library can hand out batches.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import narwhals as nw
import pyarrow as pa

from dpcov.data.cells import number_column, text_column
from dpcov.data.seal import sealed
from dpcov.data.sources.base import (
    Block,
    Kind,
    ReadAs,
    Source,
    TypedSource,
    check_names,
    kind_of_arrow_type,
)
from dpcov.data.sources.databases import duckdb_reader
from dpcov.data.sources.guesses import refuse_duckdb_guesses, refuse_polars_guesses
from dpcov.errors import DataError

# A draft looks at so many rows.
_FIRST_ROWS = 1000
_NO_TABLE = "it is no data frame whose columns all have names of their own; make it one."
_NO_LAZY = (
    "Of lazy frames dpcov knows those of Polars and DuckDB, and can see where their types come "
    "from. Compute this one first, or save it as Parquet."
)


class FrameSource(Source):
    """A data frame in memory (pandas, Polars, PyArrow, Modin, cuDF)."""

    def __init__(self, frame: nw.DataFrame[Any], name: str) -> None:
        self.name = name
        self.n_rows = len(frame)
        self._frame = frame
        self.columns = check_names([str(label) for label in frame.columns], name)

    def kinds(self) -> dict[str, Kind]:
        """Read from the Arrow types of the first rows; pandas' own do not tell texts from dates."""
        first = self._frame[:_FIRST_ROWS]
        return {name: _kind_of_cells(first[:, at]) for at, name in enumerate(self.columns)}

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[Block]:
        frame = self._frame.select(nw.nth([self.columns.index(column) for column in wanted]))
        pandas_like = frame.implementation.is_pandas_like()
        for start in range(0, len(frame), block_rows):
            block = frame[start : start + block_rows]
            if not pandas_like:
                yield from block.to_arrow().to_batches()
                continue
            # Arrow would give a column of objects one type, which the other rows decide.
            cells: Any = block.to_native()
            named = enumerate(wanted.items())
            columns = [_pandas_column(cells.iloc[:, at], *each) for at, each in named]
            yield from pa.table(columns, names=list(wanted)).to_batches()

    def _explain(self, error: Exception, schema_names: Sequence[str]) -> str:
        if not isinstance(error, _UnreadableError):
            return super()._explain(error, schema_names)
        # Where the line of names was forgotten, a name is a value.
        number = f"number {self.columns.index(error.column) + 1}"
        told = f"'{error.column}'" if schema_names else number
        return (
            f"column {told} holds cells that are neither numbers nor texts, or texts where numbers "
            "are wanted; convert or drop it."
        )


class _UnreadableError(Exception):
    """Says which column it is."""

    def __init__(self, column: str) -> None:
        super().__init__()
        self.column = column


class LazySource(Source):
    """A query that is not yet computed: a Polars LazyFrame or a DuckDB relation."""

    def __init__(self, frame: nw.LazyFrame[Any], name: str) -> None:
        self.name = name
        if frame.implementation.is_duckdb():
            refuse_duckdb_guesses(frame.to_native())
        elif frame.implementation.is_polars():
            refuse_polars_guesses(frame.to_native())
        else:
            raise DataError(_NO_LAZY)
        self._frame = frame
        self._schema = frame.collect_schema()
        self.columns = check_names(self._schema.names(), name)

    def kinds(self) -> dict[str, Kind]:
        """Read from the query's own types."""
        return {column: _kind(data_type) for column, data_type in self._schema.items()}

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[Block]:
        frame = self._frame.select(list(wanted))
        native: Any = frame.to_native()
        if frame.implementation.is_duckdb():
            yield from duckdb_reader(native, block_rows)
        elif hasattr(native, "collect_batches"):
            for batch in native.collect_batches(chunk_size=block_rows):
                yield from batch.to_arrow().to_batches()
        else:
            yield from frame.collect("pyarrow").to_native().to_batches()


class ReaderSource(TypedSource):
    """An Arrow stream, which can be read only once."""

    once = True

    def __init__(self, reader: pa.RecordBatchReader, name: str) -> None:
        super().__init__(name, lambda: reader.schema)
        self._reader: pa.RecordBatchReader | None = reader

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[Block]:
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
        return sealed(lambda: LazySource(frame, name), name)
    if hasattr(data, "__arrow_c_stream__"):
        stream = sealed(lambda: pa.RecordBatchReader.from_stream(data), name, lambda _: _NO_TABLE)
        return ReaderSource(stream, name)
    kind = type(data).__name__
    raise DataError(f"Data of type {kind} are not known. Give a path, a data frame, or an array.")


def _pandas_column(cells: Any, name: str, reading: ReadAs) -> pa.Array | pa.ChunkedArray:
    try:
        return _by_type(cells, name, number_column if reading == "number" else text_column)
    except Exception:  # pandas and Arrow have errors of their own, which may quote a cell
        failure = _UnreadableError(name)
    raise failure


def _by_type(cells: Any, name: str, by_itself: Callable[[list[object], str], pa.Array]) -> Any:
    if cells.dtype == object:
        return by_itself(cells.tolist(), name)
    if cells.dtype.name == "category":
        labels = by_itself(cells.cat.categories.astype(object).tolist(), name)
        codes = cells.cat.codes.to_numpy().astype("int64")
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), labels)
    return pa.array(cells, from_pandas=True)


def _kind_of_cells(column: nw.Series[Any]) -> Kind:
    try:
        return kind_of_arrow_type(column.to_frame().to_arrow().schema.types[0])
    except Exception:  # every library has its own errors for what Arrow cannot hold
        return "other"


def _kind(data_type: Any) -> Kind:
    if data_type == nw.Boolean:
        return "boolean"
    if data_type.is_numeric():
        return "number"
    return "text" if data_type in (nw.String, nw.Categorical, nw.Enum) else "other"

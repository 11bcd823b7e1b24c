"""Read JSON lines: an object a line, whose keys are the columns.

Contract: a line is a row, read by itself; every row has every wanted key, and a cell has the type
that its line writes.  Other keys are not read.
"""

from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import astuple

from dpcov.data.sources.base import (
    Block,
    Kind,
    ReadAs,
    Source,
    check_names,
    column_of_cells,
    kind_of_cells,
)
from dpcov.data.sources.streams import Opener
from dpcov.errors import DataError

_BLOCK_BYTES = 1 << 20
_FIRST_ROWS = 1000
_FEW = 256
_NUMBER: Any = float | str | bool | None
_ANY: Any = int | _NUMBER
_ROW = msgspec.json.Decoder(dict[str, Any])


class JsonLinesSource(Source):
    """A file of JSON lines, also called NDJSON."""

    names_columns = False

    def __init__(self, opener: Opener, name: str) -> None:
        self.name, self._opener = name, opener
        self.columns = check_names(tuple(self._first(1)[0]), name)

    def kinds(self) -> dict[str, Kind]:
        """Look at the types of the first cells."""
        rows = self._first(_FIRST_ROWS)
        return {name: kind_of_cells(row.get(name) for row in rows) for name in self.columns}

    def blocks(
        self, block_rows: int, *, wanted: Mapping[str, ReadAs] | None = None
    ) -> Iterator[Block]:
        """Yield blocks of so many rows at most; a schema says which columns are wanted."""
        if wanted is None:
            # The keys of one row are no names of columns for all.
            raise DataError(f"'{self.name}' has no line of column names. Use it with a schema.")
        yield from super().blocks(block_rows, wanted=wanted)

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[Block]:
        # Nearly all numbers are written as such; what is not is looked at cell by cell.
        usual, other = (_decoder(wanted, number) for number in (float | None, _NUMBER))

        def columns(lines: Sequence[bytes]) -> list[Any]:
            try:
                cells = zip(*[usual(line) for line in lines], strict=True)
                return [_column(of, *each) for of, each in zip(cells, wanted.items(), strict=True)]
            except msgspec.ValidationError:
                cells = zip(*[other(line) for line in lines], strict=True)
            named = zip(cells, wanted.items(), strict=True)
            return [column_of_cells(of, name, reading) for of, (name, reading) in named]

        lines = self._lines()
        while True:
            block, pieces = islice(lines, block_rows), []
            # So few that the objects made of them stay in the processor's cache.
            while few := list(islice(block, _FEW)):
                pieces.append(columns(few))
            if not pieces:
                return
            arrays = [_joined(column) for column in zip(*pieces, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(wanted))

    def _first(self, count: int) -> list[dict[str, Any]]:
        read = self._sealed(lambda: list(map(_ROW.decode, islice(self._lines(), count))))
        if not read:
            raise DataError(f"'{self.name}' has no rows. Give it at least one.")
        return read

    def _lines(self) -> Iterator[bytes]:
        # Bytes between line breaks, which JSON writes as \\n inside of texts.
        stream, rest, begins = self._opener(), b"", True
        while data := bytes(stream.read(_BLOCK_BYTES)):
            rest = (rest + data).removeprefix(BOM_UTF8) if begins else rest + data
            *lines, rest = rest.split(b"\n")
            begins = False
            yield from map(self._checked, lines)
            self._require_short(rest)
        if rest:
            yield self._checked(rest)

    def _require_short(self, line: bytes) -> None:
        if len(line) > _BLOCK_BYTES:
            raise DataError(
                f"'{self.name}' has a line longer than 1 MiB. Shorten it, or write Parquet."
            )

    def _checked(self, line: bytes) -> bytes:
        self._require_short(line)
        if not line.strip():
            raise DataError(f"'{self.name}' has a blank line. Remove it.")
        return line

    def _explain(self, error: Exception, schema_names: Sequence[str]) -> str:
        message = str(error)
        lacking = next((name for name in schema_names if f"required field `{name}`" in message), "")
        if lacking:
            return f"not every line has the key '{lacking}'; write null where a value is missing."
        wrong = next((name for name in schema_names if message.endswith(f"at `$.{name}`")), "")
        if wrong:
            told = f"column '{wrong}' holds objects or lists, or a number beyond all floats"
            return f"{told}; correct it, or declare it ignored."
        if isinstance(error, msgspec.MsgspecError):
            return "not every line is one JSON object of its own; write it as JSON lines."
        return super()._explain(error, schema_names)


def _decoder(wanted: Mapping[str, ReadAs], number: Any) -> Callable[[bytes], tuple[Any, ...]]:
    if any(not {'"', "\\"}.isdisjoint(name) or min(name, default=" ") < " " for name in wanted):
        # The library takes no such names for its fields.
        return partial(_by_key, tuple(wanted), number is _NUMBER)
    # Names of columns need not be names of Python.
    names = {f"c{place}": name for place, name in enumerate(wanted)}
    fields = [
        (field, number if wanted[name] == "number" else _ANY) for field, name in names.items()
    ]
    row = msgspec.defstruct("Row", fields, rename=names, gc=False)
    decode = msgspec.json.Decoder(row).decode
    return lambda line: astuple(decode(line))


def _by_key(names: Sequence[str], of_any_type: bool, line: bytes) -> tuple[Any, ...]:
    if not of_any_type:
        raise msgspec.ValidationError
    row = _ROW.decode(line)
    if lacking := [name for name in names if name not in row]:
        raise msgspec.ValidationError(f"required field `{lacking[0]}`")
    return tuple(row[name] for name in names)


def _column(cells: Sequence[Any], name: str, reading: ReadAs) -> Any:
    if reading == "number":
        return np.array(cells, dtype=np.float64)
    return column_of_cells(cells, name, reading)


def _joined(pieces: Sequence[Any]) -> pa.Array:
    # Numbers become Arrow's once, since each time takes as long as a few hundred of them.
    if all(isinstance(piece, np.ndarray) for piece in pieces):
        return pa.array(np.concatenate(pieces), from_pandas=True)
    return pa.concat_arrays([pa.array(piece, from_pandas=True) for piece in pieces])

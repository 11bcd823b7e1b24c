"""Read JSON lines: an object a line, whose keys are the columns.

Contract: a line is a row, read by itself; every row has every wanted key, and a cell has the type
that its line writes.  Other keys are not read.
"""

from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypedDict

import msgspec

from dpcov.data.sources.base import (
    FEW_ROWS,
    FIRST_ROWS,
    Block,
    Kind,
    Source,
    Wanted,
    batch_of_cells,
    check_names,
    kind_of_cells,
)
from dpcov.data.sources.streams import Opener
from dpcov.errors import DataError

_BLOCK_BYTES = 1 << 20
_NUMBER: Any = float | str | bool | None
_ANY: Any = int | _NUMBER
_ROW = msgspec.json.Decoder(dict[str, Any])
# What stands under keys that are not wanted is not read, in the first row either.
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class JsonLinesSource(Source):
    """A file of JSON lines, also called NDJSON."""

    names_columns = False

    def __init__(self, opener: Opener, name: str) -> None:
        self.name, self._opener = name, opener
        self.columns = check_names(tuple(self._first(1, _KEYS)[0]), name)

    def kinds(self, decimal: str = ".") -> dict[str, Kind]:
        """Look at the types of the first cells."""
        rows = self._first(FIRST_ROWS, _ROW)
        return {name: kind_of_cells(row.get(name) for row in rows) for name in self.columns}

    def blocks(self, block_rows: int, *, wanted: Wanted | None = None) -> Iterator[Block]:
        """Yield blocks of so many rows at most; a schema says which columns are wanted."""
        if wanted is None:
            # The keys of one row are no names of columns for all.
            raise DataError(f"'{self.name}' has no line of column names. Use it with a schema.")
        yield from super().blocks(block_rows, wanted=wanted)

    def _read(self, block_rows: int, wanted: Wanted) -> Iterator[Block]:
        make: Any = TypedDict
        kinds = {name: _NUMBER if way == "number" else _ANY for name, way in wanted.items()}
        decode, lines = msgspec.json.Decoder(make("Row", kinds)).decode, self._lines()
        while rows := [decode(line) for line in islice(lines, min(block_rows, FEW_ROWS))]:
            yield batch_of_cells({name: [row[name] for row in rows] for name in wanted}, wanted)

    def _first(self, count: int, rows: Any) -> list[dict[str, Any]]:
        read = self._sealed(lambda: list(map(rows.decode, islice(self._lines(), count))))
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
        # Also where nothing is wanted, as keys are in the first row.
        line.decode()
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

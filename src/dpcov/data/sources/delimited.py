"""Read delimited text, from a file (also compressed) or standard input, in a stream.

Contract: memory does not depend on the number of rows, and no text of a row reaches a message.
"""

import atexit
import csv
import io
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from dpcov.data.cells import MISSING_WORDS, NO_NUMBER
from dpcov.data.layout import NAMES_BELOW, PLAIN, FileLayout
from dpcov.data.sources.base import Block, Kind, Source, Wanted, check_header, kinds_of
from dpcov.data.sources.lines import BLOCK_BYTES, CheckedLines
from dpcov.data.sources.streams import Opener, Replayed, head_of, open_text
from dpcov.errors import DataError
from dpcov.published.digits import plural

# How files of gzip, Zstandard, xz and zip begin, of which workbooks are made; no text does.
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"PK\x03\x04")
_OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
# Arrow compares whole cells, blanks included: those of columns of a few places are told.
_BLANKS = [" " * count for count in range(9)]
_NAN = ["".join(parts) for parts in product(("", "+", "-"), "nN", "aA", "nN")]
_MISSING = [*MISSING_WORDS, *_NAN]
_PADDED_MISSING = ["".join(parts) for parts in product(_BLANKS, _MISSING, _BLANKS)]
# In which the type of a column is looked for whose first cells are empty.
_LONG_BLOCK = 32 * BLOCK_BYTES
# A thread of Arrow that frees bytes of Python once the interpreter ends aborts the process.
atexit.register(time.sleep, 0.05)


class DelimitedSource(Source):
    """Text with one line of column names and one row a line."""

    def __init__(
        self, opener: Opener, *, name: str, delimiter: str, layout: FileLayout, once: bool = False
    ) -> None:
        self.name, self.once = name, once
        self._opener, self._delimiter, self._layout = opener, delimiter, layout
        # The text of a stream, of which only the head was read.
        self._begun: Any = None
        self.columns = check_header(self._sealed(self._read_header), name, layout.header)

    def kinds(self, decimal: str = ".") -> dict[str, Kind]:
        """Guess from the first block of text, and from more where a column has no value in it."""
        if self.once:
            return self._guessed(self.columns, decimal, _PADDED_MISSING)
        found = self._looked_at(self.columns, decimal)
        if empty := [column for column, kind in found.items() if kind == "other"]:
            found |= self._looked_at(empty, decimal, _LONG_BLOCK)
        return found

    def _looked_at(
        self, columns: Sequence[str], decimal: str, block_bytes: int = BLOCK_BYTES
    ) -> dict[str, Kind]:
        # Blanks around words are looked for where that can change a guess: it takes long.
        found = self._guessed(columns, decimal, _MISSING, block_bytes)
        if texts := [column for column, kind in found.items() if kind == "text"]:
            found |= self._guessed(texts, decimal, _PADDED_MISSING, block_bytes)
        return found

    def _guessed(
        self,
        columns: Sequence[str],
        decimal: str,
        missing: Sequence[str],
        block_bytes: int = BLOCK_BYTES,
    ) -> dict[str, Kind]:
        layout: dict[str, Any] = {"decimal": decimal, "columns": columns, "missing": missing}
        guessed = self._sealed(lambda: self._parse({}, **layout, block_bytes=block_bytes))
        return kinds_of(guessed.schema)

    def _read(self, block_rows: int, wanted: Wanted) -> Iterator[Block]:
        types = {
            column: pa.float64() if reading == "number" else pa.string()
            for column, reading in wanted.items()
        }
        for batch in self._parse(types):
            for column, cells in zip(wanted, batch.columns, strict=True):
                # Such as nan(1), which no other reader takes for a number.
                if pa.types.is_floating(cells.type) and pc.any(pc.is_nan(cells)).as_py():
                    raise pa.ArrowInvalid(f"In CSV column #{self.columns.index(column)}")
            yield batch

    def _parse(
        self,
        types: Mapping[str, pa.DataType],
        *,
        decimal: str = ".",
        columns: Sequence[str] = (),
        missing: Sequence[str] = _PADDED_MISSING,
        block_bytes: int = BLOCK_BYTES,
    ) -> Any:
        quote = self._layout.quote
        signs = {"delimiter": self._delimiter, "quote": quote}
        checked = CheckedLines(self._text(), columns=len(self.columns), name=self.name, **signs)
        parse = pa.csv.ParseOptions(
            delimiter=self._delimiter,
            quote_char=quote or False,
            newlines_in_values=bool(quote),
            ignore_empty_lines=False,
        )
        convert = pa.csv.ConvertOptions(
            column_types=dict(types),
            include_columns=list(columns or types),
            decimal_point=decimal,
            null_values=list(missing),
            strings_can_be_null=not types,
        )
        # The line of names was read.
        read = pa.csv.ReadOptions(
            block_size=block_bytes, column_names=self.columns, skip_rows_after_names=1
        )
        return pa.csv.open_csv(pa.PythonFile(checked, mode="r"), read, parse, convert)

    def _text(self) -> Any:
        # From the line of names on.
        if not self.once:
            return open_text(self._opener, self._layout, self.name)
        if self._begun is None:
            raise DataError(f"{self.name} can be read only once. Save it to a file first.")
        text, self._begun = self._begun, None
        return text

    def _read_header(self) -> list[str]:
        text = open_text(self._opener, self._layout, self.name)
        head = head_of(text)
        self._begun = Replayed(head, text) if self.once else None
        if not head.strip():
            raise DataError(f"'{self.name}' is empty. Its first line must hold the column names.")
        if head.startswith(_PACKED):
            raise DataError(
                f"'{self.name}' is packed, or a workbook, and no text. Unpack it; or give a file "
                "whose ending says what it is, such as .csv.gz and .xlsx."
            )
        # The head may end inside a character of a row; the line of names must be clean.
        lines = io.StringIO(head.decode("utf-8-sig", errors="replace"), newline="")
        signs: dict[str, Any] = {"delimiter": self._delimiter, "quoting": csv.QUOTE_NONE}
        if self._layout.quote:
            signs |= {"quotechar": self._layout.quote, "quoting": csv.QUOTE_MINIMAL}
        header = next(row for row in csv.reader(lines, **signs) if row)
        if any("\ufffd" in label for label in header):
            raise DataError(
                f"The column names of '{self.name}' are not UTF-8 text; declare the encoding in "
                "the schema's [file] (schema draft: --encoding), or convert it."
            )
        if any("\0" in label for label in header):
            raise DataError(
                f"The column names of '{self.name}' hold zero characters, as text in UTF-16 does "
                'without a mark of it. Declare encoding = "utf-16-le" (or "utf-16-be") in the '
                "schema's [file] (schema draft: --encoding), or convert it."
            )
        for sign, words in _OTHER_DELIMITERS.items():
            if len(header) == 1 and sign in header[0]:
                # Programs that write semicolons write commas in numbers, as a rule.
                marks = ', and decimal = "," for decimal commas (--decimal)' if sign == ";" else ""
                raise DataError(
                    f"The first line of '{self.name}' is a single name that holds {words}. Declare "
                    f"delimiter = {json.dumps(sign)} in the schema's [file] (schema draft: "
                    f"--delimiter){marks}, or save it with commas between columns."
                )
        return header

    def _explain(self, error: Exception, schema_names: Sequence[str]) -> str:
        message = str(error)
        if "invalid UTF8" in message or isinstance(error, UnicodeError):
            encoding = (self._layout.encoding or "utf-8").upper()
            return (
                f"it is not text in {encoding}; declare its encoding in the schema's [file] "
                "(schema draft: --encoding), or convert it."
            )
        if place := re.match(r"In CSV column #(\d+)", message):
            index = int(place.group(1))
            name = self.columns[index]
            # Where the line of names was forgotten, a name is a value.
            column = f"'{name}'" if name in schema_names else f"number {index + 1}"
            return f"column {column} holds text {NO_NUMBER}."
        if re.match(r"CSV parse error: (Row #\d+: )?Expected \d+ columns", message):
            fields = plural(len(self.columns), "field")
            told = f"not every row has the {fields} that the line of names has"
            return (
                f"{told}; correct those that have fewer or more. If all rows begin with a row "
                "number, as R writes it, give that a name. If the line of names ends with a "
                f"delimiter, remove it. {NAMES_BELOW}"
            )
        return super()._explain(error, schema_names)


def from_stream(stream: BinaryIO, name: str, layout: FileLayout = PLAIN) -> DelimitedSource:
    """Read CSV text from a stream that can be read only once."""
    sign = layout.delimiter or ","
    return DelimitedSource(lambda: stream, name=name, delimiter=sign, layout=layout, once=True)

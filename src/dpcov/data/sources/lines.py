"""Read delimited text in which no row can change where another one begins.

Contract: text passes unchanged, but that its last line ends, or is refused.  A quotation mark may
only open a cell, close it, or stand doubled inside (RFC 4180), and every one is closed; a table of
several columns has no blank line.  A lenient reader joins rows at a stray quotation mark and leaves
blank lines out: one row would then decide how many rows there are.  No row is longer than a block:
whether one can be read would depend on where it begins.
"""

from codecs import BOM_UTF8
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcov.data.layout import NAMES_BELOW
from dpcov.data.sources.streams import Borrowed, head_of
from dpcov.errors import DataError

# Of a block, in which parts text is to be read.
BLOCK_BYTES = 1 << 20
_BLANK = (b"\n\n", b"\n\r", b"\r\r")
_ADVICE = (
    "Write a cell that holds a quotation mark, a delimiter or a line break in quotation marks, "
    "and double the marks inside, as programs that write CSV do. Where cells stand in no quotation "
    "marks, declare quote = \"\" in the schema's [file] (schema draft: --quote '')."
)


# Why this is enough: among rows that are written so, a row with an odd number of quotation marks
# leaves the last mark of the text open, and one with an even number ends outside of a cell or has
# a mark that is out of place.
class CheckedLines(Borrowed):
    """Bytes of a text; in one of a single column a blank line is a row whose cell is missing."""

    def __init__(
        self, stream: Any, *, delimiter: str, columns: int, name: str, quote: str = '"'
    ) -> None:
        self._stream, self._name = stream, name
        self._quote = quote.encode()
        self._outside = np.zeros(256, dtype=bool)
        self._outside[list(f"{delimiter}\n\r{quote}".encode())] = True
        self._blank = _BLANK if columns > 1 else ()
        self._begins, self._quotes, self._row = True, 0, 0
        # The byte before the undecided one, and that one: both neighbors judge a mark.
        self._carry = b"\n"

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer only at the end: a row may not lie in three blocks."""
        data = head_of(self._stream, size)
        if 0 < len(data) < size and data[-1:] not in (b"\n", b"\r"):
            data += b"\n"
        text = data.removeprefix(BOM_UTF8) if self._begins else data
        if self._begins and text[:1] in (b"\n", b"\r"):
            raise DataError(f"'{self._name}' begins with a blank line. Remove it.")
        self._begins = self._begins and not text
        self._look(self._carry + (text if data else b"\n"), blank=self._blank if data else ())
        if not data and self._quotes % 2:
            raise DataError(f"A quotation mark in '{self._name}' is never closed. {_ADVICE}")
        return data

    def _look(self, window: bytes, blank: tuple[bytes, ...]) -> None:
        places = np.zeros(0, dtype=np.intp)
        if self._quote and self._quote in window:
            places = self._marks(np.frombuffer(window, dtype=np.uint8))
        if any(pair in window for pair in blank):
            self._refuse_blank_line(window, places)
        self._refuse_long_row(window, places)
        self._quotes += len(places)
        self._carry = window[-2:]

    def _refuse_long_row(self, window: bytes, marks: NDArray[np.intp]) -> None:
        # Raise if a row is longer than any that can be read wherever it begins.
        if len(marks):
            text = np.frombuffer(window, dtype=np.uint8)[1:-1]
            breaks = np.flatnonzero((text == ord("\n")) | (text == ord("\r"))) + 1
            breaks = breaks[(self._quotes + np.searchsorted(marks, breaks)) % 2 == 0]
            first, last = (breaks[0], breaks[-1]) if len(breaks) else (-1, -1)
        elif self._quotes % 2:
            first, last = -1, -1
        else:
            found = [window.find(end, 1, -1) for end in (b"\n", b"\r")]
            first = min((place for place in found if place > 0), default=-1)
            last = max(window.rfind(end, 1, -1) for end in (b"\n", b"\r"))
        longest = self._row + (len(window) - 2 if first < 0 else first)
        if longest > BLOCK_BYTES:
            raise DataError(
                f"'{self._name}' has a row longer than 1 MiB, or a quotation mark is never closed. "
                "Shorten the row, or close the mark."
            )
        self._row = longest if first < 0 else len(window) - 2 - last

    def _marks(self, window: NDArray[np.uint8]) -> NDArray[np.intp]:
        # Return the places of quotation marks that have both neighbors, if none is out of place.
        places = np.flatnonzero(window[1:-1] == ord(self._quote)) + 1
        opens = (self._quotes + np.arange(len(places))) % 2 == 0
        beside = window[np.where(opens, places - 1, places + 1)]
        if not self._outside[beside].all():
            raise DataError(
                f"A quotation mark in '{self._name}' stands inside a cell. {_ADVICE} {NAMES_BELOW}"
            )
        return places

    def _refuse_blank_line(self, window: bytes, marks: NDArray[np.intp]) -> None:
        # Raise if a blank line stands outside of quotation marks.
        text = np.frombuffer(window, dtype=np.uint8)
        ends = (text == ord("\n")) | (text == ord("\r"))
        pairs = ends[:-1] & ends[1:] & ~((text[:-1] == ord("\r")) & (text[1:] == ord("\n")))
        before = self._quotes + np.searchsorted(marks, np.flatnonzero(pairs))
        if (before % 2 == 0).any():
            raise DataError(
                f"'{self._name}' has a blank line. Remove it, or write an empty row's delimiters."
            )

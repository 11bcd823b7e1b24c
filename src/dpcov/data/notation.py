"""How a column writes numbers and dates, and which of its cells mean "missing".

Contract: public, follows from the schema alone, and can be pickled.  A cell's number follows from
that cell and its column's notation.  No cell appears in a message.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, time, timedelta
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcov.data.cells import MISSING_WORDS, number_of, plain_cell, text_of, truth_value_of
from dpcov.data.dates import day_of, day_of_date, pattern_of
from dpcov.errors import DataError

_NO_DATE = (
    "that is no date as the schema says it is written; correct its format or the cell, or add it "
    "to missing_codes"
)
# Such as times, and numbers whose format in a file shows weeks, months or quarters.
_NO_DAY = "whose type or format in the data holds no day; convert it to a date there"
_NO_DIGITS = f"{_NO_DAY}, or declare a format that begins with %Y if its digits are a date"
_NOT_SO_WRITTEN = "that is no number with the schema's decimal and thousands marks; correct it"
# Marks and the other characters that programs write for them.
_ALIKE = {" ": " \u00a0\u202f", "'": "'\u2019"}


@dataclass(frozen=True, kw_only=True)
class Notation:
    """How the cells of a column are read as numbers.

    Texts have these marks; ``dates`` is the format of dates, None for numbers.  A cell is missing
    if its text is a code, or its number the number of one.
    """

    codes: tuple[str | float, ...] = ()
    decimal: str = "."
    thousands: str = ""
    dates: str | None = None
    # Whether a source hands out columns of types that cannot be read, too.
    takes_any_type: ClassVar[bool] = False

    @property
    def is_plain(self) -> bool:
        """Whether any reader of numbers reads these, too."""
        return not (self.has_marks or self.words or self.dates is not None)

    @property
    def has_marks(self) -> bool:
        """Whether numbers are written otherwise than in most programs."""
        return (self.decimal, self.thousands) != (".", "")

    @cached_property
    def words(self) -> frozenset[str]:
        """Codes that are no numbers."""
        words = (code for code in self.codes if self._value_of_code(code) is None)
        return frozenset(str(text_of(word, "")) for word in words)

    @cached_property
    def values(self) -> tuple[float, ...]:
        """Codes that are numbers, or days."""
        found = (self._value_of_code(code) for code in self.codes)
        return tuple(number for number in found if number is not None)

    def values_in(self, dtype: np.dtype[Any]) -> tuple[float, ...]:
        """The same as a column of this type holds them: one of fewer bits, the nearest numbers."""
        if dtype.kind != "f" or dtype.itemsize >= np.dtype(np.float64).itemsize:
            return self.values
        with np.errstate(over="ignore"):
            held = np.array(self.values, dtype).astype(np.float64)
        # A code that is too large for them is none of their infinities.
        held = np.where(np.isinf(held), self.values, held)
        return tuple(dict.fromkeys([*self.values, *held.tolist()]))

    @cached_property
    def pattern(self) -> str:
        """What a number looks like, in the syntax that `re` and RE2 have in common."""
        point = re.escape(self.decimal)
        grouped = f"[0-9]{{1,3}}(?:{self._mark}[0-9]{{3}})+|" if self.thousands else ""
        digits = f"(?:{grouped}[0-9]+)(?:{point}[0-9]*)?|{point}[0-9]+"
        return f"[+-]?(?:{digits})(?:[eE][+-]?[0-9]+)?"

    @property
    def date_pattern(self) -> re.Pattern[str]:
        """What a date looks like."""
        return pattern_of(self.dates or "")

    def unmarked(self, texts: pa.Array) -> pa.Array:
        """Return texts of the `pattern` with the marks that every program reads."""
        for mark in _ALIKE.get(self.thousands, self.thousands):
            texts = pc.replace_substring(texts, mark, "")
        return texts if self.decimal == "." else pc.replace_substring(texts, self.decimal, ".")

    def value_of(self, cell: object, name: str) -> float:
        """Return a cell's number, or its day; NaN if it is missing; others raise a `DataError`."""
        value = self._read(cell, name, self.words)
        return math.nan if value in self.values else value

    def truth_of(self, cell: object, name: str) -> float:
        """Return 1 for true, 0 for false, also in words; otherwise what `value_of` does."""
        cell = text_of(cell, name) if isinstance(cell, bytes) else cell
        if isinstance(cell, str) and cell.strip() in self.words:
            return math.nan
        value = truth_value_of(cell, name)
        return math.nan if value in self.values else value

    def column(self, cells: Iterable[object], name: str) -> pa.Array:
        """Return cells of any types as a column of float64, or of dates; missing ones are null."""
        values = np.array([self.value_of(cell, name) for cell in cells], dtype=np.float64)
        if self.dates is None:
            return pa.array(values, from_pandas=True)
        missing = np.isnan(values)
        return pa.array(np.where(missing, 0, values).astype("datetime64[D]"), mask=missing)

    @property
    def _mark(self) -> str:
        return f"[{_ALIKE.get(self.thousands, self.thousands)}]"

    def _read(self, cell: object, name: str, words: frozenset[str]) -> float:
        # What a cell is as a number or a day; NaN if it is missing, or one of these words.
        cell = plain_cell(cell)
        if self.dates is not None and isinstance(cell, int | float):
            cell = self._digits_of(cell, name, words)
        if isinstance(cell, str):
            cell = cell.strip(" " if self.dates is None else None)
            if cell in words or cell in MISSING_WORDS:
                return math.nan
        return self._number_of(cell, name) if self.dates is None else self._day_of(cell, name)

    def _number_of(self, cell: object, name: str) -> float:
        if self.has_marks and isinstance(cell, str):
            cell = cell.strip("\t ")
            if not re.fullmatch(self.pattern, cell):
                raise DataError(f"Column '{name}' holds text {_NOT_SO_WRITTEN}.")
            cell = re.sub(self._mark, "", cell) if self.thousands else cell
            cell = cell.replace(self.decimal, ".")
        return number_of(cell, name)

    def _digits_of(self, cell: float, name: str, words: frozenset[str]) -> str:
        # A format that begins with the year reads numbers, too: no zero of theirs is left out.
        text = str(text_of(cell, name))
        if text not in words and not str(self.dates).startswith("%Y"):
            raise DataError(f"Column '{name}' holds a number {_NO_DIGITS}.")
        return text

    def _day_of(self, cell: object, name: str) -> float:
        day = None
        if cell is None:
            day = math.nan
        elif isinstance(cell, np.datetime64):
            # Beyond Python's years, which a column of moments may hold, too.
            day = float(cell.astype("datetime64[D]").astype(int))
        elif isinstance(cell, date):
            day = day_of_date(cell)
        elif isinstance(cell, str):
            day = day_of(cell, self.date_pattern)
        if day is None:
            why = _NO_DAY if isinstance(cell, time | timedelta) else _NO_DATE
            raise DataError(f"Column '{name}' holds something {why}.")
        return day

    def _value_of_code(self, code: str | float) -> float | None:
        # What a code is as a number or a day, None if it is only a text.  Words and values must not
        # ask for each other: Python 3.11 locks either for all notations, and threads would wait
        # for each other forever.
        try:
            return self._read(code, "", frozenset())
        except DataError:
            return None


# Numbers as most programs write them.
PLAIN = Notation()

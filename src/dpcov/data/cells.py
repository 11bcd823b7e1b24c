"""Say what one cell means: a number, a text, or nothing.

Contract: the only place where cells are given a meaning, one at a time.  A cell's number and text
follow from that cell alone, never from its neighbors, the block or the file, because the proof of
every mechanism lets one row change the encoding of one row only.  No cell appears in a message.
"""

import math
import re
from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcov.errors import DataError

# Texts that mean a missing value, unless the schema lists them as a category.
MISSING_WORDS = (
    *("", "?", ".", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "-NaN"),
    *("null", "Null", "NULL", "None", "none", "NaT"),
)

# What every reader takes for a number: no other digits, blanks and words.
_NUMBER = re.compile(
    r"[ \t]*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)[ \t]*",
    re.ASCII | re.IGNORECASE,
)
# Whole numbers with a fraction of zeros.
_WHOLE = re.compile(r"(-?\d+)\.0+")
_TRUTH = {
    **dict.fromkeys(("true", "t", "yes", "y"), 1.0),
    **dict.fromkeys(("false", "f", "no", "n"), 0.0),
}
_DIGIT_OF_TRUTH = {"true": "1", "false": "0"}
# Digits up to which a decimal is written out.
_LONGEST_DECIMAL = 1000
NO_NUMBER = (
    "that is not a number; correct it, add it to missing_codes, say how its numbers are written "
    "(decimal, thousands), or declare it a date or categorical"
)
_NO_TRUTH_VALUE = "that is neither true nor false; declare it categorical, or correct it"


def is_missing(cell: object) -> bool:
    """Whether a cell holds nothing, or a text that means so."""
    return cell is None or (isinstance(cell, str) and cell.strip(" ") in MISSING_WORDS)


def is_number_as_text(cell: object, decimal: str = ".") -> bool:
    """Whether a text is read as a number where numbers of this mark are wanted."""
    if not isinstance(cell, str) or (decimal != "." and "." in cell):
        return False
    return _NUMBER.fullmatch(cell.replace(decimal, ".")) is not None


def number_of(cell: object, name: str, otherwise: str = NO_NUMBER) -> float:
    """Return the nearest float64; NaN for a missing value; other cells raise a `DataError`."""
    cell = plain_cell(cell)
    if is_missing(cell):
        return math.nan
    if not isinstance(cell, str | int | float | Decimal):
        raise DataError(f"Column '{name}' holds something {otherwise}.")
    # Python also reads 1_000 and digits of other scripts, readers of CSV do not.
    if isinstance(cell, str) and not is_number_as_text(cell):
        raise DataError(f"Column '{name}' holds text {otherwise}.")
    try:
        return float(cell)
    except OverflowError:
        # Beyond all floats: infinity, which bounds then clip.
        return math.inf if cell > 0 else -math.inf  # type: ignore[operator]


def truth_value_of(cell: object, name: str) -> float:
    """Return 1 for true and 0 for false, also in words; otherwise what `number_of` does."""
    word = cell.strip().lower() if isinstance(cell, str) else None
    return _TRUTH[word] if word in _TRUTH else number_of(cell, name, _NO_TRUTH_VALUE)


def text_of(cell: object, name: str) -> str | None:
    """Return the text by which a category is compared; None for a missing value.

    A whole number is written without a fraction, another one of any precision with the fewest
    digits that give it, and a decimal with the places it has itself.
    """
    given, cell = cell, plain_cell(cell)
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, bool | int | date | datetime | time):
        return str(cell)
    if isinstance(cell, float):
        # NumPy writes a number of fewer bits with its own digits: 0.1, not 0.10000000149011612.
        return str(int(cell)) if cell.is_integer() else str(float(str(given)))
    if isinstance(cell, Decimal):
        written_out = cell.is_finite() and abs(cell.adjusted()) < _LONGEST_DECIMAL
        return format(cell, "f") if written_out else str(cell)
    if isinstance(cell, bytes):
        return cell.decode("utf-8", errors="replace")
    what = "something that is neither a number nor a text"
    raise DataError(f"Column '{name}' holds {what}; declare it ignored.")


def spellings(cell: object, name: str) -> tuple[str, ...]:
    """Return the ways in which a schema may write this cell's category, the likeliest first.

    A truth value and its text, such as ``True``, are one: not every source can tell them apart.
    """
    text = text_of(cell, name)
    if text is None:
        return ("",)
    text = text.strip()
    if (lower := text.lower()) in _DIGIT_OF_TRUTH:
        digit = _DIGIT_OF_TRUTH[lower]
        return tuple(dict.fromkeys((text, lower.capitalize(), lower, lower.upper(), digit)))
    return (text, *whole(text))


def whole(text: str) -> tuple[str, ...]:
    """Return ``1`` for ``1.0``: the shorter spelling of a whole number, if there is one."""
    match = _WHOLE.fullmatch(text)
    return (match.group(1),) if match else ()


def number_column(cells: Iterable[object], name: str) -> pa.Array:
    """Return cells of any types as a column of float64; missing values are null."""
    # Most cells are floats already, and a call for each would take most of the time.
    values = [cell if type(cell) is float else number_of(cell, name) for cell in cells]
    return pa.array(np.array(values, dtype=np.float64), from_pandas=True)


def text_column(cells: Iterable[object], name: str) -> pa.Array:
    """Return cells of any types as a column of texts; missing values are null."""
    texts = [cell if type(cell) is str else text_of(cell, name) for cell in cells]
    return pa.array(texts, pa.string())


def transformed(numbers: NDArray[np.float64], function: str | None) -> NDArray[np.float64]:
    """Return a schema's function of every number, wherever it stands; without one, the numbers."""
    if function == "sqrt":
        # Rounded to the nearest float everywhere, by IEEE 754.
        return np.sqrt(numbers)
    if function == "log1p":
        # NumPy may take other instructions at the end of an array than before.
        return np.array([math.log1p(number) for number in numbers.tolist()], dtype=np.float64)
    return numbers


def cells_of(column: Any) -> Iterable[Any]:
    """Return the cells of a column of any library; what lists none is returned as it is."""
    names = (name for name in ("to_list", "to_pylist", "tolist") if hasattr(column, name))
    name = next(names, None)
    found: Iterable[Any] = column if name is None else getattr(column, name)()
    return found


def plain_cell(cell: Any) -> Any:
    """Return a cell as an object of Python's own types, None if it is missing."""
    if type(cell) is int or type(cell) is str:
        return cell
    if isinstance(cell, np.datetime64):
        # Python counts no parts of microseconds, and no years beyond 9999.
        is_finer = np.datetime_data(cell.dtype)[0] in ("ns", "ps", "fs", "as")
        own = (cell.astype("datetime64[us]") if is_finer else cell).item()
        cell = cell if isinstance(own, int) else own
    elif isinstance(cell, np.generic) and not isinstance(cell, np.timedelta64):
        # A number of fewer bits is exactly a float64, too.
        cell = float(cell) if isinstance(cell, np.floating) else cell.item()
    if cell is None or isinstance(cell, str | bool | int):
        return cell
    if isinstance(cell, Decimal):
        return None if cell.is_nan() else cell
    # The missing markers of data frames (NaN, NaT) do not equal themselves, and NA equals nothing.
    if type(cell).__name__ == "NAType" or (isinstance(cell, float | date) and cell != cell):
        return None
    return cell

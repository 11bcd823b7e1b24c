"""What the cells of a column mean: numbers, truth values, categories, missing values.

Promise: the same cell means the same in every format (``1``, ``1.0`` and `` "1 " `` are one category), and no cell
appears in a message.  Knows nothing of bounds, files or norms.

A column is an Arrow array, or a vector of floats from a matrix.
"""

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcov.data.seal import sealed
from dpcov.errors import DataError

Column: TypeAlias = pa.Array | NDArray[np.float64]

MISSING_WORDS = (
    *("", "?", ".", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "-NaN"),
    *("null", "Null", "NULL", "None", "none", "NaT"),
)
"""Texts that mean a missing value, unless the schema lists them as a category."""

UNKNOWN, MISSING = -1, -2
"""Codes beside those of the declared categories."""

_WHOLE = re.compile(r"(-?\d+)\.0+")

_TRUTH = {
    **dict.fromkeys(("true", "t", "yes", "y"), 1.0),
    **dict.fromkeys(("false", "f", "no", "n"), 0.0),
}


def numbers(column: Column, name: str) -> NDArray[Any]:
    """Return a column as numbers of any type; missing values are NaN."""
    if isinstance(column, np.ndarray):
        return column
    data_type = column.type
    if pa.types.is_null(data_type):
        return np.full(len(column), np.nan)
    if pa.types.is_integer(data_type) or pa.types.is_floating(data_type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if pa.types.is_decimal(data_type):
        # Arrow's own cast from decimal is off by one in the last place; text is rounded as everywhere else.
        column = pc.cast(column, pa.string())
        return np.asarray(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False))
    if pa.types.is_boolean(data_type):
        return np.asarray(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False))
    values, codes = _distinct(column, name)
    return _take(np.array([_number_of(value, name) for value in values], dtype=np.float64), codes, np.nan)


def truth_values(column: Column, name: str) -> NDArray[Any]:
    """Return a column as 0 and 1 (numbers stay as they are); missing values are NaN."""
    if isinstance(column, np.ndarray) or not _is_text(column.type):
        return numbers(column, name)
    values, codes = _distinct(column, name)
    return _take(np.array([_truth_of(value, name) for value in values], dtype=np.float64), codes, np.nan)


def category_codes(column: Column, name: str, code_of: Mapping[str, int]) -> NDArray[np.int64]:
    """Return the code of each value's category, or `UNKNOWN` or `MISSING`."""
    cells = pa.array(column) if isinstance(column, np.ndarray) else column
    values, codes = _distinct(cells, name)
    return _take(np.array([_code_of(value, code_of) for value in values], dtype=np.int64), codes, MISSING)


def _distinct(column: pa.Array, name: str) -> tuple[list[object], NDArray[np.int64]]:
    """Return the distinct values and each row's index among them, -1 for null."""
    reason = "its type has no single numbers or texts; declare it ignored."
    return sealed(lambda: _dictionary(column), f"column {name}", lambda _: reason)


def _dictionary(column: pa.Array) -> tuple[list[object], NDArray[np.int64]]:
    if not pa.types.is_dictionary(column.type):
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        column = column.dictionary_encode()
    indices = column.indices.cast(pa.int64()).fill_null(-1)
    return column.dictionary.to_pylist(), indices.to_numpy()


def _take(per_value: NDArray[Any], codes: NDArray[np.int64], if_null: float) -> NDArray[Any]:
    # The index -1 of a null picks the entry appended at the end.
    return np.append(per_value, np.asarray(if_null, dtype=per_value.dtype))[codes]


def _is_text(data_type: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(data_type):
        data_type = data_type.value_type
    return bool(
        types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type)
    )


def _number_of(value: object, name: str) -> float:
    """Read one distinct value as a number."""
    return _parsed(value, name, "that is not a number; declare it categorical, or correct it")


def _truth_of(value: object, name: str) -> float:
    """Read one distinct text as true or false."""
    word = str(value).strip().lower()
    if word in _TRUTH:
        return _TRUTH[word]
    return _parsed(value, name, "that is neither true nor false; declare it categorical, or correct it")


def _parsed(value: object, name: str, otherwise: str) -> float:
    if value is None or (isinstance(value, str) and value.strip() in MISSING_WORDS):
        return math.nan
    if not isinstance(value, str | int | float | Decimal):
        raise DataError(f"Column '{name}' holds something {otherwise}.")
    try:
        # Python reads 1_000 as a number, readers of CSV do not.
        return float(value.replace("_", "x") if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        pass
    # Raised outside the handler: the first error quotes the value.
    raise DataError(f"Column '{name}' holds text {otherwise}.")


def _code_of(value: object, code_of: Mapping[str, int]) -> int:
    """Find the category of one distinct value."""
    spellings = _spellings(value)
    for spelling in spellings:
        if spelling in code_of:
            return code_of[spelling]
    return MISSING if not set(spellings).isdisjoint(MISSING_WORDS) else UNKNOWN


def _spellings(value: object) -> tuple[str, ...]:
    """Return the ways in which a category may write this value, the likeliest first."""
    if value is None:
        return ("",)
    if isinstance(value, bool):
        return (str(value), str(value).lower(), str(value).upper(), str(int(value)))
    if isinstance(value, bytes):
        return (value.decode("utf-8", errors="replace").strip(),)
    text = str(value).strip()
    whole = _WHOLE.fullmatch(text)
    return (text, whole.group(1)) if whole else (text,)

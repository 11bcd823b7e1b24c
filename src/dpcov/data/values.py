"""Turn the cells of a column into numbers, truth values and categories.

Contract: every cell is read as `cells` says.  What takes a slow call for one cell is asked once for
each distinct value.  A column is an Arrow array, or a vector of floats from a matrix.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcov.data.cells import MISSING_WORDS, spellings, whole
from dpcov.data.dates import Floats, days_of_texts
from dpcov.data.notation import PLAIN, Notation
from dpcov.data.seal import sealed
from dpcov.data.sources.base import Block, kind_of_arrow_type

Column: TypeAlias = pa.Array | Floats

# Codes beside those of the declared categories.
UNKNOWN, MISSING = -1, -2
_DAY = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Seconds from 1970 to the years -6746 and 10686, to December 31, 2036, and to December 30, 9999.
_LAST, _TABLES_END, _LAST_DAY = 2**38, 2_114_294_400, 253_402_128_000


def column_of(block: Block, name: str) -> Column:
    """Return a column of a block by name; those of a matrix are called ``x0``, ``x1``, ..."""
    return block[:, int(name[1:])] if isinstance(block, np.ndarray) else block.column(name)


def as_arrow(column: Column) -> pa.Array:
    """Return a column as an array of a type whose distinct values Arrow finds."""
    cells = pa.array(column) if isinstance(column, np.ndarray) else column
    if pa.types.is_dictionary(cells.type):
        return pa.DictionaryArray.from_arrays(cells.indices, as_arrow(cells.dictionary))
    if pa.types.is_string_view(cells.type):
        return cells.cast(pa.string())
    if pa.types.is_binary_view(cells.type):
        return cells.cast(pa.binary())
    if pa.types.is_decimal(cells.type) and cells.type.bit_width < 128:
        return cells.cast(pa.decimal128(cells.type.precision, cells.type.scale))
    return cells


def codes_of_spellings(
    code_of: Mapping[str, int], missing: Iterable[str] = (), *, ignore_case: bool = False
) -> dict[str, int]:
    """Add what means missing, unless it is listed, and the whole numbers: ``1.0`` is also ``1``."""
    every = _spelled(dict.fromkeys(missing, MISSING)) | _spelled(code_of)
    return {text.casefold(): code for text, code in every.items()} if ignore_case else every


def _spelled(code_of: Mapping[str, int]) -> dict[str, int]:
    shorter = {short: code for text, code in code_of.items() for short in whole(text)}
    return shorter | dict(code_of)


def numbers(column: Column, name: str, notation: Notation = PLAIN) -> NDArray[Any]:
    """Return a column as numbers of any type; missing values are NaN."""
    return _without(notation, _numbers(column, name, notation))


def truth_values(column: Column, name: str, notation: Notation = PLAIN) -> NDArray[Any]:
    """Return a column as 0 and 1 (numbers stay as they are); missing values are NaN."""
    if isinstance(column, np.ndarray) or kind_of_arrow_type(column.type) not in ("text", "other"):
        return numbers(column, name, notation)
    return _per_value(column, name, lambda value: notation.truth_of(value, name), np.nan)


def days(column: Column, name: str, notation: Notation) -> Floats:
    """Return a column of dates as days, (n,) float64; missing values are NaN."""
    cells = as_arrow(column)
    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if kind_of_arrow_type(cells.type) == "text":
        texts = cells.cast(pa.string())
        found = _with_rest(days_of_texts(texts, notation.date_pattern), texts, name, notation)
        return np.asarray(_without(notation, found), dtype=np.float64)
    if not (pa.types.is_date(cells.type) or pa.types.is_timestamp(cells.type)):
        return _per_value(cells, name, lambda value: notation.value_of(value, name), np.nan)
    moments = cells.to_numpy(zero_copy_only=False)
    # NumPy's own cast to days overflows next to the earliest moment, such as infinity's.
    a_day = np.datetime64("1970-01-02").astype(moments.dtype).astype(np.int64)
    found = moments.view(np.int64) // a_day
    if pa.types.is_timestamp(cells.type) and cells.type.tz is not None:
        seconds = moments.view(np.int64) // (a_day // _DAY)
        found += (seconds % _DAY + _offsets(seconds, cells.type.tz, name)) // _DAY
    found = np.where(np.isnat(moments), np.nan, found)
    return np.asarray(_without(notation, found), dtype=np.float64)


def _offsets(seconds: NDArray[np.int64], zone: str, name: str) -> NDArray[np.int64]:
    # Seconds by which a zone is ahead of UTC at these moments.  Arrow's local time wraps around at
    # its ends: moments beyond all calendars have the offset of the last in them.
    near = np.clip(seconds, -_LAST, _LAST)
    reason = "its time zone is not known here; convert it to UTC."
    moments = pa.array(near, pa.timestamp("s", zone))
    local = sealed(lambda: pc.local_timestamp(moments), f"column {name}", lambda _: reason)
    offsets = np.array(local.cast(pa.int64())) - near
    # Nor has it summer time after 2037.  Zones that are offsets have none, and no name.
    late = near > _TABLES_END
    if late.any():
        with suppress(ZoneInfoNotFoundError, ValueError):
            found, places = np.unique(near[late], return_inverse=True)
            offsets[late] = _offsets_by_rules(found, ZoneInfo(zone))[places]
    return offsets


def _offsets_by_rules(seconds: NDArray[np.int64], zone: ZoneInfo) -> NDArray[np.int64]:
    spans = (timedelta(seconds=each) for each in np.minimum(seconds, _LAST_DAY).tolist())
    ahead = ((_EPOCH + span).astimezone(zone).utcoffset() or timedelta() for span in spans)
    return np.array([offset // timedelta(seconds=1) for offset in ahead], dtype=np.int64)


def category_codes(
    column: Column,
    name: str,
    code_of: Mapping[str, int],
    otherwise: int = UNKNOWN,
    *,
    ignore_case: bool = False,
) -> NDArray[np.int64]:
    """Return the code of each value's category, or `MISSING`, or the one for all others."""

    def read(value: object) -> int:
        written = spellings(value, name)
        for spelling in written:
            code = code_of.get(spelling.casefold() if ignore_case else spelling)
            if code is not None:
                return code
        return MISSING if not set(written).isdisjoint(MISSING_WORDS) else otherwise

    return _per_value(column, name, read, MISSING)


def _numbers(column: Column, name: str, notation: Notation) -> NDArray[Any]:
    if isinstance(column, np.ndarray):
        return column
    types, data_type = pa.types, column.type
    if types.is_null(data_type):
        return np.full(len(column), np.nan)
    if types.is_decimal(data_type):
        # Arrow's own cast from decimal is off by one in the last place; text is rounded right.
        column = pc.cast(column, pa.string())
    if types.is_boolean(data_type) or types.is_decimal(data_type):
        column = pc.cast(column, pa.float64())
    if types.is_integer(column.type) or types.is_floating(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if types.is_dictionary(data_type):
        # The place -1 of a null picks the entry at the end.
        entries, places = distinct(column)
        found = numbers(entries, name, notation)
        return np.asarray(np.append(found, np.nan)[places])
    if kind_of_arrow_type(data_type) == "text":
        return _numbers_of_texts(column, name, notation)
    return _per_value(column, name, lambda value: notation.value_of(value, name), np.nan)


def _numbers_of_texts(column: pa.Array, name: str, notation: Notation) -> Floats:
    # Nearly all texts have a form of which Arrow and Python are known to read the same number.
    texts = column.cast(pa.string())
    usual = pc.match_substring_regex(texts, f"^ *(?:{notation.pattern}) *$")
    numbers = pc.if_else(usual, texts, None)
    found = np.full(len(texts), np.nan)
    # A version of Arrow that refuses one, which its error would quote, leaves all to Python.
    with suppress(pa.ArrowInvalid):
        plain = notation.unmarked(pc.utf8_trim(numbers, " ")).cast(pa.float64())
        found = plain.to_numpy(zero_copy_only=False)
    return _with_rest(found, texts, name, notation)


def _with_rest(found: Floats, texts: pa.Array, name: str, notation: Notation) -> Floats:
    # Read what was not found one by one.
    rest = np.flatnonzero(np.isnan(found))
    if len(rest):
        found = found.copy()
        left = texts.take(pa.array(rest))
        found[rest] = _per_value(left, name, lambda cell: notation.value_of(cell, name), np.nan)
    return found


def _without(notation: Notation, found: NDArray[Any]) -> NDArray[Any]:
    codes = notation.values_in(found.dtype)
    # A copy where a number is a code: what was read may be the source's own.
    floats = found.astype(np.float64, copy=False) if codes else found
    for code in codes:
        floats = np.where(floats == code, np.nan, floats)
    return floats


def _per_value(
    column: Column, name: str, read: Callable[[object], float], if_null: float
) -> NDArray[Any]:
    # Read every distinct value once, and return what each row's value was read as.
    reason = "its type has no single numbers or texts; declare it ignored."
    found, places = sealed(lambda: _distinct(column), f"column {name}", lambda _: reason)
    # The place -1 of a null picks the entry at the end.
    return np.array([*map(read, found), if_null])[places]


def _distinct(column: Column) -> tuple[list[object], NDArray[np.int64]]:
    entries, places = distinct(column)
    if pa.types.is_floating(entries.type):
        # Python's own numbers would forget a single precision.
        return list(entries.to_numpy(zero_copy_only=False)), places
    return entries.to_pylist(), places


def distinct(column: Column) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the distinct values and each row's place among them, -1 for null."""
    cells = as_arrow(column)
    return _used(cells if pa.types.is_dictionary(cells.type) else cells.dictionary_encode())


def _used(column: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    # The entries of a dictionary that a row has, and each row's place among them, -1 for null: what
    # an entry says that no row has is no matter.
    places = column.indices.cast(pa.int64()).fill_null(-1).to_numpy()
    kept = np.unique(places[places >= 0])
    if len(kept) == len(column.dictionary):
        return column.dictionary, places
    moved = np.full(len(column.dictionary) + 1, -1)
    moved[kept] = np.arange(len(kept))
    return column.dictionary.take(pa.array(kept)), moved[places]

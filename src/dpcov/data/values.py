"""Turn the cells of a column into numbers, truth values and categories.

Contract: every cell is read as `cells` says.  What takes a slow call for one cell is asked once for
each distinct value.  A column is an Arrow array, or a vector of floats from a matrix.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcov.data.cells import MISSING_WORDS, number_of, spellings, truth_value_of, whole
from dpcov.data.seal import sealed
from dpcov.data.sources.base import Block, kind_of_arrow_type

Column: TypeAlias = pa.Array | NDArray[np.float64]

# Codes beside those of the declared categories.
UNKNOWN, MISSING = -1, -2


def column_of(block: Block, name: str) -> Column:
    """Return a column of a block by name; those of a matrix are called ``x0``, ``x1``, ..."""
    return block[:, int(name[1:])] if isinstance(block, np.ndarray) else block.column(name)


def codes_of_labels(labels: Iterable[str]) -> dict[str, int]:
    """Number the categories of a schema; ``1.0`` is found as ``1``, unless that is a category."""
    code_of = {label: code for code, label in enumerate(labels)}
    shorter = {short: code for label, code in code_of.items() for short in whole(label)}
    return shorter | code_of


def numbers(column: Column, name: str) -> NDArray[Any]:
    """Return a column as numbers of any type; missing values are NaN."""
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
    return _per_value(column, name, lambda value: number_of(value, name), np.nan)


def truth_values(column: Column, name: str) -> NDArray[Any]:
    """Return a column as 0 and 1 (numbers stay as they are); missing values are NaN."""
    if isinstance(column, np.ndarray) or kind_of_arrow_type(column.type) != "text":
        return numbers(column, name)
    return _per_value(column, name, lambda value: truth_value_of(value, name), np.nan)


def category_codes(column: Column, name: str, code_of: Mapping[str, int]) -> NDArray[np.int64]:
    """Return the code of each value's category, or `UNKNOWN` or `MISSING`."""
    cells = pa.array(column) if isinstance(column, np.ndarray) else column
    return _per_value(cells, name, lambda value: _code_of(value, name, code_of), MISSING)


def _per_value(
    column: pa.Array, name: str, read: Callable[[object], float], if_null: float
) -> NDArray[Any]:
    # Read every distinct value once, and return what each row's value was read as.
    reason = "its type has no single numbers or texts; declare it ignored."
    found, places = sealed(lambda: _distinct(column), f"column {name}", lambda _: reason)
    # The place -1 of a null picks the entry at the end.
    return np.array([*map(read, found), if_null])[places]


def _distinct(column: pa.Array) -> tuple[list[object], NDArray[np.int64]]:
    # Return the distinct values and each row's place among them, -1 for null.
    if not pa.types.is_dictionary(column.type):
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        column = column.dictionary_encode()
    places = column.indices.cast(pa.int64()).fill_null(-1)
    return column.dictionary.to_pylist(), places.to_numpy()


def _code_of(value: object, name: str, code_of: Mapping[str, int]) -> int:
    # Find the category of one distinct value.
    written = spellings(value, name)
    for spelling in written:
        if spelling in code_of:
            return code_of[spelling]
    return MISSING if not set(written).isdisjoint(MISSING_WORDS) else UNKNOWN

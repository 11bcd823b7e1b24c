"""What the cells of a column mean: numbers, truth values, categories, missing values.

Contract: the same cell means the same in every format (``1``, ``1.0`` and `` "1 " `` are one category), and
no cell appears in a message.  Knows nothing of bounds, files or norms.

A column is an Arrow array, or a vector of floats from a matrix.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcov.data.cells import MISSING_WORDS, number_of, spellings, truth_value_of, whole
from dpcov.data.seal import sealed

Column: TypeAlias = pa.Array | NDArray[np.float64]

UNKNOWN, MISSING = -1, -2
"""Codes beside those of the declared categories."""


def codes_of_labels(labels: Iterable[str]) -> dict[str, int]:
    """Number the categories of a schema; ``1.0`` is found as ``1``, too, where that is no category of its own."""
    code_of = {label: code for code, label in enumerate(labels)}
    shorter = {short: code for label, code in code_of.items() for short in whole(label)}
    return shorter | code_of


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
    return _take(
        np.array([number_of(value, name) for value in values], dtype=np.float64), codes, np.nan
    )


def truth_values(column: Column, name: str) -> NDArray[Any]:
    """Return a column as 0 and 1 (numbers stay as they are); missing values are NaN."""
    if isinstance(column, np.ndarray) or not _is_text(column.type):
        return numbers(column, name)
    values, codes = _distinct(column, name)
    return _take(
        np.array([truth_value_of(value, name) for value in values], dtype=np.float64), codes, np.nan
    )


def category_codes(column: Column, name: str, code_of: Mapping[str, int]) -> NDArray[np.int64]:
    """Return the code of each value's category, or `UNKNOWN` or `MISSING`."""
    cells = pa.array(column) if isinstance(column, np.ndarray) else column
    values, codes = _distinct(cells, name)
    return _take(
        np.array([_code_of(value, name, code_of) for value in values], dtype=np.int64),
        codes,
        MISSING,
    )


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
        types.is_string(data_type)
        or types.is_large_string(data_type)
        or types.is_string_view(data_type)
    )


def _code_of(value: object, name: str, code_of: Mapping[str, int]) -> int:
    """Find the category of one distinct value."""
    written = spellings(value, name)
    for spelling in written:
        if spelling in code_of:
            return code_of[spelling]
    return MISSING if not set(written).isdisjoint(MISSING_WORDS) else UNKNOWN

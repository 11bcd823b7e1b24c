"""Rows of Python objects, as database drivers return them, as Arrow record batches.

Promise: cells of one column may differ in type; what can be meant as a number or a category is kept exactly, the rest
is refused, and no cell appears in a message.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dpcov.errors import DataError

_NUMBERS = {int, float, bool, Decimal}


def batches_of_rows(
    names: Sequence[str], fetch: Callable[[int], Sequence[Sequence[Any]]], block_rows: int
) -> Iterator[pa.RecordBatch]:
    """Turn fetched rows into batches, each with types of its own; one without rows if there are none."""
    rows = fetch(block_rows)
    if not rows:
        yield pa.RecordBatch.from_arrays([pa.nulls(0) for _ in names], names=list(names))
    while rows:
        columns = [
            column_of_cells(cells, names[place]) for place, cells in enumerate(zip(*rows, strict=True))
        ]
        yield pa.RecordBatch.from_arrays(columns, names=list(names))
        rows = fetch(block_rows)


def column_of_cells(cells: Sequence[Any], name: str) -> pa.Array:
    """Return one column with the narrowest type that holds all its cells.

    Numbers of several types become floats; numbers among texts become texts, which are read as numbers or categories
    later, as the schema says.
    """
    types = {type(cell) for cell in cells} - {type(None)}
    if not types:
        return pa.nulls(len(cells))
    if types == {bool}:
        return pa.array(cells, pa.bool_())
    if types == {int} and all(cell is None or -(2**63) <= cell < 2**63 for cell in cells):
        return pa.array(cells, pa.int64())
    if types <= _NUMBERS:
        return pa.array([None if cell is None else _float(cell) for cell in cells], pa.float64())
    if types <= _NUMBERS | {str}:
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
    if types in ({date}, {datetime}, {time}, {bytes}):
        return pa.array(cells)
    raise DataError(
        f"Column '{name}' mixes types, or has one, that mean neither a number nor a category. "
        "Convert it in the query with CAST."
    )


def _float(cell: float | Decimal) -> float:
    """Round to the nearest float; beyond all floats, to infinity, which bounds then clip."""
    try:
        return float(cell)
    except OverflowError:
        return float("inf") if cell > 0 else float("-inf")

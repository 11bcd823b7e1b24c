"""Rows of Python objects as Arrow: one column may hold cells of several types."""

from datetime import date, datetime, time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from dpcov.data.sources.cells import batches_of_rows, column_of_cells
from dpcov.data.values import numbers
from dpcov.errors import DataError


@pytest.mark.parametrize(
    ("cells", "data_type", "values"),
    [
        ([None, None], pa.null(), [None, None]),
        ([True, None, False], pa.bool_(), [True, None, False]),
        ([1, None, -(2**63)], pa.int64(), [1, None, -(2**63)]),
        ([1, 2**63], pa.float64(), [1.0, 2.0**63]),
        ([2**63 - 1, None], pa.int64(), [2**63 - 1, None]),
        ([-(2**63) - 1], pa.float64(), [-(2.0**63)]),
        ([1, 2.5, True, Decimal("0.5"), "a"], pa.string(), ["1", "2.5", "True", "0.5", "a"]),
        ([1.5, None], pa.float64(), [1.5, None]),
        ([time(1, 2), None], pa.time64("us"), [time(1, 2), None]),
        ([10**400, -(10**400), 1.5], pa.float64(), [np.inf, -np.inf, 1.5]),
        ([1, 2.5, True, Decimal("0.07")], pa.float64(), [1.0, 2.5, 1.0, 0.07]),
        ([Decimal("0.1"), None], pa.float64(), [0.1, None]),
        (["a", None], pa.string(), ["a", None]),
        (["a", 1, 2.5], pa.string(), ["a", "1", "2.5"]),
        ([b"a"], pa.binary(), [b"a"]),
        ([date(2020, 1, 1)], pa.date32(), [date(2020, 1, 1)]),
        ([datetime(2020, 1, 1), None], pa.timestamp("us"), [datetime(2020, 1, 1), None]),
    ],
)
def test_a_column_gets_the_narrowest_type_that_holds_its_cells(cells, data_type, values):
    column = column_of_cells(cells, "x")
    assert column.type == data_type
    assert column.to_pylist() == values


@pytest.mark.parametrize(
    "cells", [[b"zebra4711", 1], [date(2020, 1, 1), "zebra4711"], [{}], [[1]], [1, object()]]
)
def test_what_means_neither_number_nor_category_is_refused_without_a_cell(cells):
    with pytest.raises(DataError, match="'x' mixes types") as refused:
        column_of_cells(cells, "x")
    assert "4711" not in str(refused.value)


def test_no_rows_are_one_batch_without_rows():
    (batch,) = batches_of_rows(["a", "b"], lambda count: [], 10)
    assert (batch.num_rows, batch.schema.names) == (0, ["a", "b"])


def test_each_batch_has_types_of_its_own():
    pieces = iter([[(1,), (2,)], [("three",)], []])
    first, second = batches_of_rows(["a"], lambda count: next(pieces), 2)
    assert (first.schema.field("a").type, second.schema.field("a").type) == (pa.int64(), pa.string())


@pytest.mark.parametrize("text", ["0.07", "0.57", "0.58", "1234567.89", "-0.29", "1E+3"])
def test_decimals_are_rounded_like_the_same_text(text):
    column = pa.array([Decimal(text)], pa.decimal128(12, 2))
    assert numbers(column, "x").tolist() == [float(text)]

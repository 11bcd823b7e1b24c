"""What one cell means, whatever its type."""

from datetime import date, time
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpcov.data.cells import number_column, number_of, text_column, text_of
from dpcov.errors import DataError


@pytest.mark.parametrize(
    ("cell", "number", "text"),
    [
        (1, 1.0, "1"),
        (1.0, 1.0, "1"),
        (1.5, 1.5, "1.5"),
        (True, 1.0, "True"),
        (1e16, 1e16, "10000000000000000"),
        (2**53 + 1, 2.0**53, "9007199254740993"),
        (10**400, np.inf, "1" + "0" * 400),
        (-(10**400), -np.inf, "-1" + "0" * 400),
        (np.float32(0.1), float(np.float32(0.1)), "0.10000000149011612"),
        (np.int8(-3), -3.0, "-3"),
        (np.bool_(False), 0.0, "False"),
        (Decimal("0.07"), 0.07, "0.07"),
        (Decimal("1.50"), 1.5, "1.50"),
        (Decimal("1E+3"), 1000.0, "1000"),
        (Decimal("1E+9999"), np.inf, "1E+9999"),
        ("2.50", 2.5, "2.50"),
        (None, np.nan, None),
        (float("nan"), np.nan, None),
        (Decimal("NaN"), np.nan, None),
        (pd.NA, np.nan, None),
        (pd.NaT, np.nan, None),
        ("NA", np.nan, "NA"),
        (date(2020, 1, 1), None, "2020-01-01"),
        (pd.Timestamp("2020-01-01", tz="UTC"), None, "2020-01-01 00:00:00+00:00"),
        (time(1, 2), None, "01:02:00"),
        (b"a", None, "a"),
        ("zebra4711", None, "zebra4711"),
        ("1_000", None, "1_000"),
        ({}, None, None),
        ([1], None, None),
        (1j, None, None),
    ],
)
def test_a_cell_means_a_number_a_text_or_nothing(cell, number, text):
    if number is None:
        with pytest.raises(DataError, match="'x' holds") as refused:
            number_of(cell, "x")
        assert "4711" not in str(refused.value)
    else:
        np.testing.assert_equal(number_of(cell, "x"), number)
    if text is None and number is None:
        with pytest.raises(DataError, match="neither a number nor a text"):
            text_of(cell, "x")
    else:
        assert text_of(cell, "x") == text


def test_columns_of_cells_have_the_type_that_is_wanted():
    assert number_column([1, None, "2.5"], "x").equals(pa.array([1.0, None, 2.5]))
    assert text_column([1, None, 2.5, "a"], "x").equals(pa.array(["1", None, "2.5", "a"]))
    assert text_column([], "x").type == pa.string()

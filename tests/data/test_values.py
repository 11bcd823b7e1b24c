"""What a cell means, cell by cell."""

import math
from datetime import date, time
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpcov.data.cells import number_column, number_of, text_column, text_of
from dpcov.data.schema.declared import Boolean
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import open_source
from dpcov.data.values import (
    MISSING,
    MISSING_WORDS,
    UNKNOWN,
    category_codes,
    codes_of_spellings,
    numbers,
    truth_values,
)
from dpcov.errors import DataError
from tests.data.reading import read_column

# Arrow's own cast from decimal rounds some of these otherwise.
DECIMALS = ("0.57", "0.58", "1234567.89", "-0.29", "1E+3")
CODE_OF = {"a": 0, "1": 1, "TRUE": 2, "b c": 3}


def plain(array):
    return [
        None if isinstance(cell, float) and math.isnan(cell) else cell for cell in array.tolist()
    ]


@pytest.mark.parametrize(
    ("cells", "codes"),
    [
        (
            pa.array(["a", " b c ", "A", None, "1", "1.00", "1.5", "?", " NaN "]),
            [0, 3, -1, -2, 1, 1, -1, -2, -2],
        ),
        (pa.array([True, False, None]), [2, -1, -2]),
        (pa.array([b"a", b" 1 ", b"\xff", None]), [0, 1, -1, -2]),
        (pa.array([1, 2, None]), [1, -1, -2]),
        (np.array([1.0, 1.5, np.nan]), [1, -1, -2]),
        (pa.array(["a", "a", None]).dictionary_encode(), [0, 0, -2]),
        (pa.array(["z", "a", None, "a"]).slice(1), [0, -2, 0]),
        (pa.array(["a", None], pa.string_view()), [0, -2]),
        (pa.nulls(2), [-2, -2]),
        (pa.array([1.0, 2.5, None]), [1, -1, -2]),
        (pa.array([Decimal("1.00"), Decimal("2.00"), None]), [1, -1, -2]),
        (pa.array([1, 2, None]).dictionary_encode(), [1, -1, -2]),
        (pa.DictionaryArray.from_arrays([0, 1], pa.array(["1", None])), [1, -2]),
    ],
    ids=str,
)
def test_categories_have_codes_and_the_others_two_of_their_own(cells, codes):
    assert (UNKNOWN, MISSING) == (-1, -2)
    found = category_codes(cells, "x", CODE_OF)
    assert found.dtype == np.int64
    assert found.tolist() == codes


@pytest.mark.parametrize(
    "categories", [("true", "false"), ("True", "False"), ("TRUE", "FALSE"), ("1", "0")]
)
def test_a_truth_value_and_its_text_are_one_category(categories):
    """A column of both, or with a missing value, is one of texts in many sources."""
    code_of = {text: code for code, text in enumerate(categories)}
    texts = text_column([True, False, None, "x"], "x").to_pylist()
    for cells in ([True, False, None], texts, ["true", "FALSE", None], [" True", "false ", ""]):
        found = category_codes(pa.array(cells), "x", code_of).tolist()
        assert found[:3] == [0, 1, MISSING]
    assert (
        category_codes(pa.array([True, False]), "x", {"yes": 0, "no": 1}).tolist() == [UNKNOWN] * 2
    )
    # What the schema lists as it is written is that.
    both = {"true": 0, "True": 1}
    assert category_codes(pa.array(["true", "True", "TRUE"]), "x", both).tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("label", "cell", "found"),
    [("1.0", "1", True), ("1.0", "1.00", True), ("1", "1", True), ("01", "1", False)],
)
def test_a_whole_number_is_one_category_however_it_is_written(label, cell, found):
    codes = category_codes(pa.array([cell]), "x", codes_of_spellings({label: 0}))
    assert (codes.tolist() == [0]) == found


@pytest.mark.parametrize("width", [32, 64, 128, 256])
def test_decimals_of_every_width_have_categories(width):
    # Older versions of Arrow have no narrow ones.
    kind = getattr(pa, f"decimal{width}", pa.decimal128)
    cells = pa.array([Decimal("1.50"), None, Decimal("2.00")], kind(5, 2))
    assert category_codes(cells, "x", {"1.50": 0, "2": 1}).tolist() == [0, MISSING, 1]


@pytest.mark.parametrize("word", MISSING_WORDS)
def test_every_word_for_missing_is_missing_everywhere(word):
    cells = pa.array(["1", f" {word} "])
    assert plain(numbers(cells, "x")) == plain(truth_values(cells, "x")) == [1.0, None]
    assert category_codes(cells, "x", CODE_OF).tolist() == [1, MISSING]
    assert category_codes(cells, "x", {word: 5}).tolist() == [UNKNOWN, 5]


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (pa.array([1, None, 3], pa.int8()), [1, None, 3]),
        (pa.array([1, 3], pa.uint64()), [1, 3]),
        (pa.array([0.5, None]), [0.5, None]),
        (pa.array([Decimal("0.07"), None, Decimal("-3.00")]), [0.07, None, -3.0]),
        (pa.array([Decimal(text) for text in DECIMALS]), [float(text) for text in DECIMALS]),
        (pa.array([True, False]), [1, 0]),
        (pa.array([True, None]), [1, None]),
        (pa.array([" 0.5", "1e3", None, "-inf"]), [0.5, 1000, None, -math.inf]),
        (pa.array([7, None, 7]).dictionary_encode(), [7, None, 7]),
        (pa.array([Decimal("0.5"), None]).dictionary_encode(), [0.5, None]),
        (pa.nulls(2), [None, None]),
        (np.array([1.0, np.nan]), [1, None]),
    ],
    ids=str,
)
def test_numbers_are_read_from_every_type(cells, found):
    assert plain(numbers(cells, "x")) == found


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["true", "T", " Yes ", "y"], [1, 1, 1, 1]),
        (["FALSE", "f", "No", "n"], [0, 0, 0, 0]),
        (["1", "0.0", "7", None, "?"], [1, 0, 7, None, None]),
    ],
)
def test_truth_is_read_from_words_and_numbers(cells, found):
    for column in (pa.array(cells, pa.string_view()), pa.array(cells).dictionary_encode()):
        assert plain(truth_values(column, "x")) == found


def test_numbers_stay_as_they_are_where_truth_is_wanted():
    for cells in (pa.array([2, 0]), np.array([2.0, 0.0]), pa.array([2, 0]).dictionary_encode()):
        assert truth_values(cells, "x").tolist() == [2, 0]
    assert plain(truth_values(pa.nulls(2), "x")) == [None, None]


@pytest.mark.parametrize("read", [numbers, truth_values])
@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (pa.array(["1_0"]), "holds text that is (neither true nor false|not a number)"),
        (pa.array(["zebra"]), "holds text"),
        (pa.array([b"\xff"]), "holds (something that is not a number|text that is neither)"),
        (pa.array([0], pa.date32()), "holds something that is not a number"),
    ],
    ids=str,
)
def test_what_is_no_number_is_refused_by_its_kind(read, cells, words):
    with pytest.raises(DataError, match=f"Column 'x' {words}") as refused:
        read(cells, "x")
    assert "zebra" not in str(refused.value)


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
        (np.float32(0.1), float(np.float32(0.1)), "0.1"),
        (np.float32(1e-5), float(np.float32(1e-5)), "1e-05"),
        (np.float32(1e20), float(np.float32(1e20)), "100000002004087734272"),
        (np.float16(0.1), float(np.float16(0.1)), "0.1"),
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
        (np.datetime64("2020-01-02"), None, "2020-01-02"),
        (np.datetime64("2020-01-02T03:04:05", "ns"), None, "2020-01-02 03:04:05"),
        (np.datetime64("10000-01-01"), None, None),
        (np.datetime64(2**62, "s"), None, None),
        (np.datetime64("NaT", "ns"), np.nan, None),
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


BYTES = [b"yes", None, b"0", b" NA ", b"unknown"]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"x": pd.Series(BYTES, dtype=object)}),
        pa.table({"x": pa.array(BYTES, pa.binary())}),
        pa.table({"x": pa.array(BYTES, pa.large_binary()).dictionary_encode()}),
    ],
    ids=["objects", "binary", "dictionary"],
)
def test_bytes_are_the_truth_value_of_their_text_in_every_source(frame):
    schema = Schema(columns={"x": Boolean(missing_codes=("unknown",))})
    assert plain(read_column(frame, schema, "x")) == [1, None, 0, None, None]


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()], ids=str)
def test_a_dictionary_of_views_is_read_whichever_entries_the_rows_have(kind):
    """Polars writes categories as dictionaries of views."""
    texts = pa.array(["1", None, "0", "1"])
    entries = pa.array(["1", "0", "2"]).cast(kind)
    cells = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0]), entries)
    for rows in (slice(0, 4), slice(0, 2), slice(2, 3)):
        part, expected = cells[rows], texts[rows]
        assert category_codes(part, "x", CODE_OF).tolist() == (
            category_codes(expected, "x", CODE_OF).tolist()
        )
        assert plain(truth_values(part, "x")) == plain(truth_values(expected, "x"))
        if kind != pa.binary_view():
            assert plain(numbers(part, "x")) == plain(numbers(expected, "x"))


@pytest.mark.parametrize("read", [numbers, truth_values])
def test_what_an_entry_says_that_no_row_has_is_no_matter(read):
    cells = pa.array(["1", "0", "broken", None, "1"]).dictionary_encode()
    rows = cells.filter(pa.array([True, True, False, True, True]))
    assert "broken" in rows.dictionary.to_pylist()
    assert plain(read(rows, "x")) == [1.0, 0.0, None, 1.0]
    frame = pd.DataFrame({"x": pd.Series(["1", "broken", "0"], dtype="category")})
    (block,) = open_source(frame[frame.x != "broken"]).blocks(9, wanted={"x": "number"})
    assert plain(read(block.column("x"), "x")) == [1.0, 0.0]
    with pytest.raises(DataError):
        read(cells, "x")

"""Numbers and dates as a column writes them, and the codes that mean "missing"."""

import math
import pickle
import re
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from threading import Event, Thread

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcov.data.cells import transformed
from dpcov.data.dates import (
    DAYS_OF_A_YEAR,
    day_of,
    days_of_numbers,
    days_of_texts,
    numbers_of_days,
    pattern_of,
)
from dpcov.data.notation import PLAIN, Notation
from dpcov.data.values import days, numbers, truth_values
from dpcov.errors import DataError, SchemaError

EUROPEAN = Notation(decimal=",", thousands=".")
MARKS = [(d, t) for d in ".," for t in ("", ",", ".", " ", "'") if d != t]
marks = st.sampled_from(MARKS)


def plain(array):
    return [None if math.isnan(cell) else cell for cell in np.asarray(array, float).tolist()]


def read(texts, notation):
    """What a column of texts gives, cell by cell; both paths must agree."""
    column = numbers(pa.array(texts, pa.string()), "x", notation)
    single = [notation.value_of(text, "x") for text in texts]
    coded = numbers(pa.array(texts, pa.string()).dictionary_encode(), "x", notation)
    assert plain(column) == plain(single) == plain(coded)
    return plain(column)


def refused(texts, notation, read=numbers):
    """The text of the error, which must name the column and no cell."""
    column = pa.array(texts)
    with pytest.raises(DataError, match="Column 'x' holds") as error:
        read(column, "x", notation)
    assert not any(str(text) in str(error.value) for text in texts if len(str(text)) > 1)
    return str(error.value)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4), marks)
@example(Decimal("1234567.5"), (",", "."))
@example(Decimal("-0.5"), (",", " "))
def test_a_number_is_read_back_however_it_is_grouped(number, marks):
    decimal, thousands = marks
    notation = Notation(decimal=decimal, thousands=thousands)
    exact = float(number)
    text = f"{number:,f}" if thousands else f"{number:f}"
    table = str.maketrans({",": thousands, ".": decimal})
    written = text.translate(table)
    assert read([written, f"  {written} "], notation) == [exact, exact]
    # Without groups, and with a sign: still that number.
    assert read([written.replace(thousands, "") if thousands else written], notation) == [exact]


@given(st.text(alphabet="0123456789.,' -+eE", max_size=12), marks)
@example("1.234,5", (",", "."))
@example("1.23,4", (",", "."))
@example("1.234.5", (",", "."))
@example("1,5", (".", ","))
def test_what_is_not_strictly_so_written_is_refused(text, marks):
    decimal, thousands = marks
    notation = Notation(decimal=decimal, thousands=thousands)
    # By hand: sign, groups of three after one to three digits, or no groups, then the decimals.
    body = re.fullmatch(r"([+-]?)([^eE]*)([eE][+-]?\d+)?", text.strip())
    whole, point, part = ("", "", "x") if body is None else body.group(2).partition(decimal)
    groups = whole.split(thousands) if thousands else [whole]
    grouped = len(groups) == 1 or (
        1 <= len(groups[0]) <= 3 and all(len(each) == 3 for each in groups[1:])
    )
    digits = all(each.isdigit() for each in groups) or (groups == [""] and part.isdigit())
    fits = body is not None and grouped and digits and (part.isdigit() or not part)
    if text.strip() in ("", "."):
        assert read([text], notation) == [None]
    elif fits:
        exponent = body.group(3) or ""
        told = f"{body.group(1)}{''.join(groups)}.{part}{exponent}" if point else None
        number = float(told or f"{body.group(1)}{''.join(groups)}{exponent}")
        assert read([text], notation) == [number]
    else:
        with pytest.raises(DataError):
            numbers(pa.array([text]), "x", notation)
        with pytest.raises(DataError):
            notation.value_of(text, "x")


@given(st.text(alphabet="0123456789.eE+- \u0660\xa0_infa", max_size=30))
@example("1e999")
@example("1e-999")
@example("4.9e-324")
@example("+.5e3")
@example("infinity")
def test_arrow_and_python_read_the_same_number(text):
    try:
        single = PLAIN.value_of(text, "x")
    except DataError:
        with pytest.raises(DataError):
            numbers(pa.array([text]), "x")
        return
    assert plain(numbers(pa.array([text]), "x")) == plain([single])


def test_cells_that_hold_numbers_have_no_marks():
    for cells in ([1.125, 2.0], [Decimal("1.125"), Decimal("2.000")]):
        assert numbers(pa.array(cells), "x", EUROPEAN).tolist() == [1.125, 2.0]
    assert EUROPEAN.column([1.125, "1.125", "1,125", None, True], "x").to_pylist() == [
        *(1.125, 1125.0, 1.125, None, 1.0)
    ]
    assert (
        read(["1\u202f234,5", "1\xa0234,5", "1 234,5"], Notation(decimal=",", thousands=" "))
        == [1234.5] * 3
    )
    assert read(["1\u2019234.5", "1'234.5"], Notation(thousands="'")) == [1234.5] * 2
    assert "marks" in refused(["12.34,5"], EUROPEAN)
    assert "marks" in refused(["inf"], EUROPEAN)


CODES = Notation(codes=(-9, 99.9, "unknown", "7.0"))


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([-9, 1, None]),
        pa.array([-9.0, 1.0, None]),
        pa.array([Decimal("-9.00"), Decimal("1.00"), None]),
        pa.array(["-9", "1", None]),
        pa.array(["-9.0", "1.0", "NA"]),
        pa.array([" -9 ", " 1", "unknown"]),
        pa.array(["unknown", "1e0", " unknown "]).dictionary_encode(),
        pa.array([7, 1, -9]).dictionary_encode(),
        pa.array([99.9, 1, 7], pa.float32()),
        np.array([-9.0, 1.0, np.nan]),
    ],
    ids=str,
)
def test_codes_are_missing_however_they_are_stored(cells):
    before = cells.copy() if isinstance(cells, np.ndarray) else cells
    assert plain(numbers(cells, "x", CODES)) == [None, 1.0, None]
    assert plain(truth_values(cells, "x", CODES)) == [None, 1.0, None]
    # What the source holds is left alone.
    assert not isinstance(cells, np.ndarray) or np.array_equal(cells, before, equal_nan=True)
    if not isinstance(cells, np.ndarray) and pa.types.is_float32(cells.type):
        return
    listed = cells.tolist() if isinstance(cells, np.ndarray) else cells.to_pylist()
    assert CODES.column(listed, "x").to_pylist() == [None, 1.0, None]


def test_a_number_beside_a_code_is_missing_in_single_precision_alone():
    """Of eight digits and more, single precision holds only some: 99,999,999 is 100,000,000."""
    codes = Notation(codes=(99_999_999, 1e99))
    for cells in (
        pa.array([100_000_000, 7]),
        pa.array([1e8, 7.0]),
        pa.array(["100000000", "7"]),
        pa.array([100_000_000, 7]).dictionary_encode(),
    ):
        assert plain(numbers(cells, "x", codes)) == [1e8, 7.0]
    single = pa.array([1e8, 7.0, np.inf, None], pa.float32())
    for cells in (single, single.dictionary_encode()):
        assert plain(numbers(cells, "x", codes)) == [None, 7.0, np.inf, None]
    assert plain(numbers(np.array([1e8, 7.0], np.float32), "x", codes)) == [None, 7.0]


def test_codes_of_truth_and_of_marked_texts():
    notation = Notation(codes=(9, "no answer"))
    cells = pa.array(["yes", "no", "9", "9.0", "no answer", "N", None])
    assert plain(truth_values(cells, "x", notation)) == [1, 0, None, None, None, 0, None]
    marked = Notation(codes=(-9.5, "1.000", "99,5"), decimal=",", thousands=".")
    assert read(["-9,5", "1.000", "1000", "99,50", "1,0"], marked) == [None] * 4 + [1.0]
    assert plain(numbers(pa.array([99.5, 1000.0, 1.0]), "x", marked)) == [None, None, 1.0]
    assert not CODES.is_plain
    assert Notation(codes=(999, "-9")).is_plain


dates_ = st.dates(min_value=date(1, 1, 1), max_value=date(9999, 12, 31))


@given(
    dates_,
    st.sampled_from(["", "%d.%m.%Y", "%Y%m%d", "%m/%d/%Y", "%d %b %Y", "%B %d, %Y", "%Y-%j"]),
)
@example(date(2000, 2, 29), "")
@example(date(9999, 12, 31), "%Y%m%d")
def test_a_date_is_the_same_however_it_is_stored(day, written):
    notation = Notation(dates=written)
    months = "January February March April May June July August September October November December"
    name = months.split()[day.month - 1]
    text = written or "%Y-%m-%d"
    for sign, part in {
        "%Y": f"{day.year:04}",
        "%m": f"{day.month:02}",
        "%d": f"{day.day:02}",
        "%b": name[:3].upper(),
        "%B": name,
        "%j": f"{day.timetuple().tm_yday:03}",
    }.items():
        text = text.replace(sign, part)
    wanted = float((day - date(1970, 1, 1)).days)
    stored = [
        pa.array([text, None]),
        pa.array([f" {text} ", "NA"]),
        pa.array([day, None]),
        pa.array([day, None], pa.date64()),
        pa.array([day, None]).dictionary_encode(),
        pa.array([datetime(day.year, day.month, day.day, 23, 59), None], pa.timestamp("us")),
    ]
    for cells in stored:
        assert plain(days(cells, "x", notation)) == [wanted, None]
        again = notation.column(cells.to_pylist(), "x")
        assert plain(days(again, "x", notation)) == [wanted, None]


@given(
    st.datetimes(min_value=datetime(1700, 1, 1), max_value=datetime(2200, 1, 1)),
    st.integers(-12, 14),
)
@example(datetime(1969, 12, 31, 23), -5)
def test_the_written_date_counts_in_every_time_zone(moment, hours):
    zone = timezone(timedelta(hours=hours))
    here = moment.replace(tzinfo=zone)
    wanted = float((moment.date() - date(1970, 1, 1)).days)
    notation = Notation(dates="")
    sign = f"{'-' if hours < 0 else '+'}{abs(hours):02}:00"
    for cells in (
        pa.array([here.isoformat()]),
        pa.array([here], pa.timestamp("us", tz=sign)),
        pa.array(pd.Series([moment]).astype("datetime64[ns]"), pa.timestamp("ns")),
    ):
        assert days(cells, "x", notation).tolist() == [wanted]
    for cell in (here, pd.Timestamp(here), np.datetime64(moment)):
        assert notation.value_of(cell, "x") == wanted


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_next_to_the_earliest_are_not_the_latest(unit):
    """The least of all is no time for NumPy; DuckDB means -infinity by the next one."""
    a_day = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit] * 86_400
    ends = [1 - 2**63, 2**63 - 1, -(2**63) + a_day, -1, 0, a_day - 1, a_day, None]
    cells = pa.array(ends, pa.int64()).cast(pa.timestamp(unit))
    wanted = [None if end is None else float(end // a_day) for end in ends]
    assert plain(days(cells, "x", Notation(dates=""))) == wanted


@pytest.mark.parametrize("moment", ["10000-01-01", "0000-02-28", "-0001-12-31", "NaT"])
@pytest.mark.parametrize("unit", ["D", "s", "ms", "us"])
def test_a_moment_beyond_all_calendars_is_alone_what_it_is_in_a_column(moment, unit):
    cell, notation = np.datetime64(moment, unit), Notation(dates="")
    kind = "s" if unit == "D" else unit
    (wanted,) = days(np.array([cell], f"datetime64[{kind}]"), "x", notation)
    np.testing.assert_equal(notation.value_of(cell, "x"), wanted)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(("zone", "hours"), [("+05:30", 5.5), ("-11:00", -11), ("Asia/Tokyo", 9)])
def test_moments_at_the_ends_have_the_date_of_their_zone(unit, zone, hours):
    """Arrow's own local time wraps around there, from 2262 to 1677 in nanoseconds."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    a_day, shift = per_second * 86_400, int(hours * 3600) * per_second
    # Tokyo had a local mean time before 1887.
    ends = [2**63 - 1, 2**63 - 1 - a_day, 0, -1, -shift, -shift - 1, None]
    ends += [1 - 2**63, a_day - 2**63] if zone[0] in "+-" else []
    cells = pa.array(ends, pa.int64()).cast(pa.timestamp(unit, zone))
    wanted = [None if end is None else float((end + shift) // a_day) for end in ends]
    assert plain(days(cells, "x", Notation(dates=""))) == wanted


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Australia/Sydney", "+05:30"]
)
def test_summer_time_goes_on_after_2037(zone):
    """Arrow's own local time has none then, so that midnight in summer is another day."""
    begins = [
        datetime(year, month, 1) for year in (2007, 2037, 2038, 2040, 9998) for month in (1, 7)
    ]
    cells = pa.array([*begins, None], pa.timestamp("us"))
    stored = pd.Series(begins).dt.as_unit("us").dt.tz_localize(zone)
    wanted = [float((each.date() - date(1970, 1, 1)).days) for each in begins]
    for unit in ("s", "us"):
        moments = pa.array(stored).cast(pa.timestamp(unit, zone))
        assert days(moments, "x", Notation(dates="")).tolist() == wanted
        local = pc.assume_timezone(cells.cast(pa.timestamp(unit)), "UTC")
        assert plain(days(local, "x", Notation(dates=""))) == [*wanted, None]
    # The year after the last of all calendars.
    beyond = pa.array([253402300800 + 86_400 * 366 * 9], pa.int64()).cast(pa.timestamp("s", zone))
    assert days(beyond, "x", Notation(dates=""))[0] > 2932896


def test_a_zone_that_is_not_known_is_told_without_it():
    cells = pa.array([0], pa.timestamp("us", tz="Nowhere/Land"))
    for column in (cells, cells.dictionary_encode()):
        with pytest.raises(DataError, match="'column x' cannot be read: its time zone") as error:
            days(column, "x", Notation(dates=""))
        assert "Nowhere" not in str(error.value) and error.value.__context__ is None


@pytest.mark.parametrize(
    ("written", "texts"),
    [
        ("", ["2020-02-30", "2021-02-29", "2020-13-01", "0000-01-01", "2020-1-1", "20200101"]),
        ("", ["1.2.2020", "2020-01-01T25", "2020-01-01 1", "２０２０-01-01", "x2020-01-01"]),
        ("%d.%m.%Y", ["2020-01-01", "32.01.2020", "1.1.20", "01.01.2020 ."]),
        ("%Y%m%d", ["2020011", "2020-01-01", "20201301"]),
        ("%Y-%j", ["2019-000", "2019-0", "2019-366", "2020-367", "2019-999", "9999-366"]),
    ],
)
def test_what_is_no_date_of_the_format_is_refused(written, texts):
    for text in texts:
        assert "no date" in refused([text], Notation(dates=written), days)


def test_numbers_are_dates_only_where_the_year_comes_first():
    ints = pa.array([20200131, None, 99999999])
    notation = Notation(dates="%Y%m%d", codes=(99999999,))
    assert plain(days(ints, "x", notation)) == plain(days(ints.cast(pa.float64()), "x", notation))
    assert plain(days(ints, "x", notation)) == [18292.0, None, None]
    assert plain(days(np.array([2020.0]), "x", Notation(dates="%Y"))) == [18262.0]
    assert "holds no day; convert" in refused([1022020], Notation(dates="%d%m%Y"), days)
    assert "no date" in refused([True], Notation(dates="%Y"), days)
    for wrong in (pa.array([0], pa.time32("s")), pa.array([0], pa.duration("s"))):
        with pytest.raises(DataError, match="type or format in the data holds no day"):
            days(wrong, "x", Notation(dates=""))


def test_codes_of_dates():
    notation = Notation(dates="%d.%m.%Y", codes=("31.12.9999", "unknown", "9999"))
    cells = ["31.12.9999", "unknown", "1.1.1970", "9999", "?"]
    assert plain(days(pa.array(cells), "x", notation)) == [None, None, 0.0, None, None]
    typed = pa.array([date(9999, 12, 31), date(1970, 1, 1)])
    assert plain(days(typed, "x", notation)) == [None, 0.0]
    assert notation.column([date(9999, 12, 31), date(1970, 1, 1), None], "x").to_pylist() == [
        *(None, date(1970, 1, 1), None)
    ]


@pytest.mark.parametrize(
    "written",
    [
        *("%d.%m.%y", "%m-%d", "%Y-%Y", "%c", "%Y %A", "%Y-%", "plain", "%Y %Q"),
        *("%Y-%m-%j", "%Y %j %d", "%j %b %Y", "%B %j %Y"),
    ],
)
def test_formats_that_leave_a_date_open_are_refused(written):
    with pytest.raises(SchemaError, match="format of dates"):
        pattern_of(written)


@pytest.mark.parametrize(
    ("written", "text", "day"),
    [
        ("%Y", "1971", 365),
        ("%Y-%m", "1970-02", 31),
        ("%d%%%m%%%Y", "1%1%1970", 0),
        ("%H:%M:%S %p %d/%m/%Y", "1:02:03 am 2/1/1970", 1),
        ("%Y-%m-%dT%H:%M:%S.%f%z", "1970-01-02T00:00:00.5+05:00", 1),
        ("(%Y)", "(1970)", 0),
        ("%Y-%j", "1972-366", 3 * 365),
    ],
)
def test_formats(written, text, day):
    assert day_of(text, pattern_of(written)) == day


@given(
    st.lists(
        st.one_of(
            st.sampled_from(["%Y", "%m", "%d", "%H", "%M", "%S", "%f", "%p", "%z", "%%", " "]),
            st.text(st.characters(exclude_characters="%", exclude_categories=["Cs"]), max_size=3),
        ),
        min_size=1,
        max_size=6,
    ),
    dates_,
    st.text(max_size=3),
)
@example([" ", "%Y", "\t"], date(2000, 2, 29), "")
@example(["%d", "(.*)[", "%m", "\\ |^$", "%Y", "\u00c4?{2}"], date(2000, 2, 29), "")
def test_many_texts_are_read_as_one_is(pieces, day, odd):
    try:
        pattern = pattern_of("".join(pieces))
    except SchemaError:
        return
    for width in (1, 2):
        parts = {
            **{"%Y": f"{day.year:04}", "%m": f"{day.month:0{width}}", "%d": f"{day.day:0{width}}"},
            **dict.fromkeys(("%H", "%M", "%S"), "23"),
            **{"%f": "000000", "%p": "PM", "%z": "Z", "%%": "%"},
        }
        text = "".join(parts.get(piece, piece) for piece in pieces)
        texts = [text, text + odd, odd + text, odd, f" {text} ", text.swapcase()]
        several = days_of_texts(pa.array(texts), pattern)
        for each, found in zip(texts, several.tolist(), strict=True):
            one = day_of(each.strip(), pattern)
            # What is left out here is read one by one.
            assert found == one or math.isnan(found)
            if each == text == text.strip() and one is not None:
                assert found == one


def test_numbers_of_days():
    written = ("2020-01-01", "2020-07-02", "2019-12-31", "0001-01-01", "9999-12-31")
    known = [date.fromisoformat(each) for each in written]
    found = np.array([(each - date(1970, 1, 1)).days for each in known] + [np.nan], dtype=float)
    assert plain(numbers_of_days(found, "year", None)) == [
        *(2020.0, 2020.5, 2019 + 364 / 365, 1.0, 9999 + 364 / 365, None)
    ]
    reference = date(2020, 1, 1)
    assert plain(numbers_of_days(found, "days", reference))[:3] == [0.0, -183.0, 1.0]
    ages = numbers_of_days(found, "age", reference)
    assert ages[3] == (reference - date(1, 1, 1)).days / DAYS_OF_A_YEAR
    for unit in ("year", "days", "age"):
        numbers_ = numbers_of_days(found, unit, reference)
        again = numbers_of_days(
            np.round(days_of_numbers(numbers_, unit, reference)), unit, reference
        )
        assert np.nanmax(np.abs(again - numbers_)) < 0.01


@given(st.lists(st.floats(0, 1e300), max_size=40), st.integers(0, 39))
def test_a_function_does_not_depend_on_the_place_in_an_array(cells, place):
    for function, exact in {"log1p": math.log1p, "sqrt": math.sqrt}.items():
        every = transformed(np.array(cells), function)
        assert every.tolist() == [exact(cell) for cell in cells]
        assert transformed(np.array(cells[place:]), function).tolist() == every[place:].tolist()


def test_a_notation_travels_to_workers():
    notation = Notation(codes=(1, "x"), decimal=",", dates="%Y")
    assert notation.values is not None
    assert notation.words
    assert pickle.loads(pickle.dumps(notation)) == notation


def test_threads_never_wait_for_each_other_to_read_codes(monkeypatch):
    """One finds which codes are words, one which are numbers; Python 3.11 locks for all objects."""
    begun, ended = Event(), Event()
    read = Notation._number_of

    def slow(notation, cell, name):
        # Inside `words`, until the other thread has found its numbers.
        if cell == "pause":
            begun.set()
            ended.wait(10)
        return read(notation, cell, name)

    monkeypatch.setattr(Notation, "_number_of", slow)
    words = Thread(target=lambda: Notation(codes=("pause",)).words, daemon=True)
    words.start()
    assert begun.wait(10)
    numbers = Thread(target=lambda: (Notation(codes=("7",)).values, ended.set()), daemon=True)
    numbers.start()
    assert ended.wait(5)
    words.join()
    numbers.join()

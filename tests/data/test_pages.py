"""Parquet pages that unfold to more than memory should hold are refused by their headers; usual files are not."""

import resource
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcov.data.encode import read_encoded
from dpcov.data.schema import Categorical, Numeric, Schema
from dpcov.data.sources import open_source, pages
from dpcov.data.sources.pages import LARGEST_PAGE, check_pages
from dpcov.errors import DataError

NUMBER, TEXT = Numeric(lower=0, upper=1), Categorical(categories=("a",))


def write(path, columns, **options):
    pq.write_table(pa.table(columns), path, **{"compression": "zstd", **options})
    return path


def read(path, column, declared):
    return sum(
        len(block) for block in read_encoded(open_source(path), Schema(columns={column: declared}), 100)
    )


def varint(number):
    head, rest = number & 127, number >> 7
    return bytes([head]) if not rest else bytes([head | 128]) + varint(rest)


def numeral(number):
    return varint(number << 1 if number >= 0 else -number * 2 - 1)


def structure(*fields):
    """Fields as (number, type, bytes), each number written in full."""
    return b"".join(bytes([kind]) + numeral(number) + value for number, kind, value in fields) + b"\x00"


def listed(kind, *elements):
    return bytes([0xF0 | kind]) + varint(len(elements)) + b"".join(elements)


def header(unfolded, folded, values=3, more=b"", before=b"", kind=0):
    """A page header of a data page: type, sizes, and the number of values in a header of its own."""
    sizes = b"\x15" + numeral(unfolded) + b"\x15" + numeral(folded)
    inside = {0: b"\x2c", 3: b"\x5c"}.get(kind)
    counted = inside + b"\x15" + numeral(values) + b"\x00" if inside else b""
    return b"\x15" + numeral(kind) + before + sizes + counted + more + b"\x00"


def footer(start, size, values=3, dictionary=None, **odd):
    """What says where a column chunk stands: one row group of one column, at place 0."""
    numbers = [(5, 6, numeral(values)), (7, 6, numeral(size)), (9, 6, numeral(start))]
    if dictionary is not None:
        numbers.append((11, 6, numeral(dictionary)))
    path = (3, 9, listed(8, b"\x01x"))
    chunk = structure((2, 6, numeral(0)), (3, 12, structure(path, *numbers, *odd.get("in_chunk", ()))))
    group = structure((1, 9, listed(12, chunk)), (2, 6, numeral(size)))
    names = listed(12, structure((4, 8, b"\x06schema")), structure((1, 5, numeral(5)), (4, 8, b"\x01x")))
    return structure((1, 5, numeral(2)), (2, 9, names), (4, 9, listed(12, group)), *odd.get("behind", ()))


def check(tmp_path, content, end=None, **chunk):
    """Check a file of these pages behind its magic bytes."""
    path = tmp_path / "x.parquet"
    end = footer(**{"start": 4, "size": len(content), **chunk}) if end is None else end
    path.write_bytes(b"PAR1" + content + end + len(end).to_bytes(4, "little") + b"PAR1")
    check_pages(path, {0})


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_usual_files_of_any_writer_are_read(tmp_path, version, dictionary):
    columns = {"x.y": np.linspace(0, 1, 5000), "text": ["a" * 3000, "b"] * 2500, "l": [[1.0]] * 5000}
    options = {"data_page_version": version, "use_dictionary": dictionary, "data_page_size": 4096}
    path = write(tmp_path / "x.parquet", columns, row_group_size=1700, write_page_checksum=True, **options)
    assert read(path, "x.y", NUMBER) == read(path, "text", TEXT) == 5000
    polars = pytest.importorskip("polars")
    polars.DataFrame({"x.y": columns["x.y"]}).write_parquet(tmp_path / "p.parquet")
    assert read(tmp_path / "p.parquet", "x.y", NUMBER) == 5000
    duckdb = pytest.importorskip("duckdb")
    duckdb.sql(f"COPY (SELECT 1.0::DOUBLE AS x FROM range(5000)) TO '{tmp_path / 'd.parquet'}'")
    assert read(tmp_path / "d.parquet", "x", NUMBER) == 5000


@pytest.mark.parametrize("name", ["x", "x.y"])
def test_a_page_of_one_long_cell_is_refused_where_it_is_wanted(tmp_path, name, monkeypatch):
    monkeypatch.setattr(pages, "LARGEST_PAGE", 2**20)
    path = write(tmp_path / "x.parquet", {name: ["0" * 2**20], "y": [0.5]}, use_dictionary=False)
    assert path.stat().st_size < 5_000
    with pytest.raises(DataError, match="unfolds to more than 1 MiB"):
        read(path, name, TEXT)
    assert read(path, "y", NUMBER) == 1


@pytest.mark.slow
def test_memory_stays_flat_where_a_page_would_unfold(tmp_path):
    path = write(tmp_path / "x.parquet", {"x": ["0" * (LARGEST_PAGE + 1)]}, use_dictionary=False)
    code = (
        "import resource, sys; from tests.data.test_pages import *; before = peak()\n"
        "with pytest.raises(DataError): read(sys.argv[1], 'x', TEXT)\n"
        "assert peak() - before < 32 << 10, peak() - before"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_pages_are_passed_until_they_hold_all_values(tmp_path):
    good = header(40, 4, values=2) + bytes(4) + header(40, 0, values=1)
    check(tmp_path, good)
    check(tmp_path, good + header(2**30, 0))  # behind the last value, where no reader looks
    with pytest.raises(DataError, match="unfolds"):
        check(tmp_path, good + header(2**30, 0), values=4)


@pytest.mark.parametrize(
    "sizes", [(LARGEST_PAGE + 1, 0), (0, LARGEST_PAGE + 1), (2**31 - 1, 2**31 - 1), (2**40, 1)]
)
def test_large_sizes_are_refused(tmp_path, sizes):
    with pytest.raises(DataError, match="unfolds"):
        check(tmp_path, header(*sizes))


def test_the_largest_page_is_read(tmp_path):
    check(tmp_path, header(LARGEST_PAGE, 0))


def test_pages_before_the_data_are_checked(tmp_path):
    """A dictionary stands before the data or nowhere."""
    first = header(2**30, 0, kind=2)
    good = header(1, 0)
    with pytest.raises(DataError, match="unfolds"):
        check(tmp_path, first + good, start=4 + len(first), dictionary=4)
    check(tmp_path, first + good, start=4 + len(first))
    for nowhere in (0, -1, 4 + len(first), 2**40):
        check(tmp_path, first + good, start=4 + len(first), dictionary=nowhere)


def test_values_are_counted_by_the_kind_of_page(tmp_path):
    bad = header(2**30, 0)
    for first in (header(1, 0, values=1, more=b"\x3c\x15" + numeral(10**6) + b"\x00"), header(1, 0, kind=2)):
        with pytest.raises(DataError, match="unfolds"):
            check(tmp_path, first + bad)
    check(tmp_path, header(1, 0, values=3, kind=3) + bad)
    with pytest.raises(DataError, match="unfolds"):
        check(tmp_path, header(1, 0, values=2, kind=3) + bad)


@pytest.mark.parametrize("padding", [0, 100])
def test_chunks_may_be_a_little_longer_than_they_say(tmp_path, padding):
    bad = header(2**30, 0)
    with pytest.raises(DataError, match="unfolds"):
        check(
            tmp_path,
            header(1, padding, values=1) + bytes(padding) + bad,
            size=len(header(1, padding, values=1)) + 1,
        )


def test_nothing_is_read_of_columns_that_nobody_wants(tmp_path):
    path = tmp_path / "x.parquet"
    with pytest.raises(DataError, match="unfolds"):
        check(tmp_path, header(2**30, 0))
    check_pages(path, set())
    check_pages(path, {1})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        header(-1, 0),
        header(0, -1),
        header(1, 0)[:-1],
        header(1, 0, more=b"\x15\x02\x05\x04\x02"),  # a field twice
        header(
            1, 0, before=b"\x05" + numeral(2 + 2**16) + b"\x02"
        ),  # a field whose number is taken modulo 2**16
        b"\x15\x00\x16\x02\x16\x00\x00",  # sizes of another type, which a reader passes over
        b"\x25\x02\x15\x00\x00",  # no type of page
        b"\x15\x00\x25\x02\x2c\x15\x06\x00\x00",  # no size unfolded
        b"\x15\x00\x15\x02\x3c\x15\x06\x00\x00",  # no size folded
        header(1, 0, more=b"\x1d"),  # a type that there is not
        header(1, 0, more=b"\x19\xf5" + varint(2**40)),  # a list longer than the file
        header(1, 0, more=b"\x1c" * 30),  # structures in structures
        b"\x15" + b"\xff" * 30,
    ],
    ids=lambda content: content[:12].hex(),
)
def test_headers_that_readers_could_take_otherwise_are_refused(tmp_path, content):
    with pytest.raises(DataError, match="headers are not as they should be"):
        check(tmp_path, content, end=None, size=1)


CHUNK = {"start": 4, "size": 10}


@pytest.mark.parametrize(
    "end",
    [
        b"",
        footer(**CHUNK)[:-1],
        footer(**CHUNK)[:-20],
        footer(**CHUNK, in_chunk=[(9, 6, numeral(0))]),
        footer(**CHUNK, in_chunk=[(11, 5, numeral(0))]),
        footer(**CHUNK, behind=[(4, 9, listed(12))]),
        structure((4, 9, listed(8, b"\x01x"))),
        structure((4, 12, b"\x00")),
        footer(start=-7, size=100),
    ],
    ids=lambda end: end[-12:].hex(),
)
def test_ends_that_readers_could_take_otherwise_are_refused(tmp_path, end):
    with pytest.raises(DataError, match="headers are not as they should be"):
        check(tmp_path, header(1, 0), end=end)


def test_a_file_of_a_few_bytes_is_no_file(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="headers are not"):
        check_pages(tmp_path / "x.parquet", {0})


def test_fields_that_are_no_sizes_are_passed_over(tmp_path):
    more = b"\x12\x13\x07\x14\x02\x16\x02\x17" + bytes(8) + b"\x18\x05hello\x11"
    more += b"\x19" + listed(1, b"\x01", b"\x02") + b"\x1a" + listed(7, bytes(8)) + b"\x1b\x00"
    more += b"\x1b\x02\x58" + b"\x02\x01a" + b"\x04\x01b" + b"\x1c" + structure((9, 4, b"\x02"))
    check(tmp_path, header(1, 0, more=more))
    with pytest.raises(DataError, match="unfolds"):
        check(tmp_path, header(1, 0, values=0, more=more) + header(2**30, 0))


def test_structures_are_passed_over_to_a_depth_of_sixteen(tmp_path):
    check(tmp_path, header(1, 0, more=b"\x1c" * 17 + bytes(17)))
    with pytest.raises(DataError, match="headers are not"):
        check(tmp_path, header(1, 0, more=b"\x1c" * 18 + bytes(18)))


def test_a_long_header_is_read_on(tmp_path):
    long = header(1, 0, values=1, more=b"\x18" + varint(5000) + bytes(5000))
    with pytest.raises(DataError, match="unfolds"):
        check(tmp_path, long + header(2**30, 0))


def test_a_header_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "_LONGEST_HEADER", 4096)
    with pytest.raises(DataError, match="headers are not"):
        check(tmp_path, header(1, 0, more=b"\x18" + varint(50_000) + bytes(50_000)))


def test_chunks_end_100_bytes_behind_what_they_say(tmp_path):
    first = header(1, 99, values=1) + bytes(99)
    for missing, refused in ((0, True), (1, False)):
        size = len(first) - 100 + 1 - missing
        if not refused:
            check(tmp_path, first + header(2**30, 0), size=size)
            continue
        with pytest.raises(DataError, match="unfolds"):
            check(tmp_path, first + header(2**30, 0), size=size)


def test_a_header_is_read_on_until_a_look_is_longer_than_any(tmp_path, monkeypatch):
    long = header(1, 0, values=1, more=b"\x18" + varint(5000) + bytes(5000))
    monkeypatch.setattr(pages, "_LONGEST_HEADER", 2048)
    with pytest.raises(DataError, match="unfolds"):
        check(tmp_path, long + header(2**30, 0))
    monkeypatch.setattr(pages, "_LONGEST_HEADER", 2047)
    with pytest.raises(DataError, match="headers are not"):
        check(tmp_path, long + header(2**30, 0))


def test_a_header_ends_where_the_first_look_ends(tmp_path):
    long = header(1, 0, values=1, more=b"\x18" + varint(5000) + bytes(5000))
    path, end = tmp_path / "x.parquet", footer(start=0, size=9000, values=1)
    path.write_bytes(long + end + len(end).to_bytes(4, "little") + b"PAR1")
    check_pages(path, {0})


def chunk_end(*numbers):
    """A footer of one chunk that states these numbers alone."""
    chunk = structure((3, 12, structure(*((field, 6, numeral(number)) for field, number in numbers))))
    return structure((4, 9, listed(12, structure((1, 9, listed(12, chunk))))))


def placed(tmp_path, content, *numbers):
    """Check a file that begins with its first page."""
    path, end = tmp_path / "x.parquet", chunk_end(*numbers)
    path.write_bytes(content + end + len(end).to_bytes(4, "little") + b"PAR1")
    check_pages(path, {0})


def test_what_a_chunk_does_not_state(tmp_path):
    bad = header(2**30, 0)
    placed(tmp_path, bad, (7, 9), (9, 0))  # no values: no page is read
    for before in (b"", b"x"):
        with pytest.raises(DataError, match="headers are not"):  # no place: none is guessed
            placed(tmp_path, before + header(1, 0), (5, 3), (7, 9))
    with pytest.raises(DataError, match="unfolds"):
        placed(tmp_path, bad, (5, 3), (7, 9), (9, 0))
    with pytest.raises(DataError, match="unfolds"):
        placed(tmp_path, b"x" + bad + header(1, 0), (5, 3), (7, 9), (9, 1 + len(bad)), (11, 1))
    for length, refused in ((99, True), (100, False)):  # no size: what old writers left out, and no more
        first = header(1, length - len(header(1, 99, values=1)), values=1)
        first += bytes(length - len(first))
        if refused:
            with pytest.raises(DataError, match="unfolds"):
                placed(tmp_path, first + bad, (5, 3), (9, 0))
        else:
            placed(tmp_path, first + bad, (5, 3), (9, 0))

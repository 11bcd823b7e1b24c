import gzip
import io
import json
import math
import os
import select
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from datetime import date
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from dpcov.data.engines.parquet import open_files
from dpcov.data.exact.moments import MomentsSpec
from dpcov.data.layout import FileLayout
from dpcov.data.notation import Notation
from dpcov.data.readers import reader_of
from dpcov.data.schema.declared import Boolean, Categorical, Date, Ignored, Numeric, Weights
from dpcov.data.schema.draft import describe
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import delimited, open_source
from dpcov.data.sources.base import kind_of_cells
from dpcov.data.sources.databases import Query
from dpcov.data.sources.lines import CheckedLines
from dpcov.data.sources.streams import Awaited, awaited
from dpcov.data.values import MISSING, UNKNOWN, category_codes, days
from dpcov.errors import DataError
from tests.data.reading import read_column, read_encoded, table_moments

N_ROWS = 250
_random = np.random.default_rng(7)
_with_gaps = _random.random(N_ROWS) < 0.1
TABLE = pa.table(
    {
        "age": pa.array(_random.integers(0, 99, N_ROWS), mask=_with_gaps),
        "income": pa.array(_random.normal(2e4, 1e4, N_ROWS), mask=_with_gaps[::-1]),
        "place": pa.array(
            _random.choice(["north", 'the "south"', "east,\nwest", "Ünknown"], N_ROWS)
        ),
        "code": pa.array(_random.integers(1, 4, N_ROWS)),
        "member": pa.array(_random.random(N_ROWS) < 0.5, mask=_with_gaps),
        "day": pa.array(np.datetime64("2020-01-01") + _random.integers(0, 99, N_ROWS)),
        "w": pa.array(_random.random(N_ROWS)),
    }
)
SCHEMA = Schema(
    columns={
        "income": Numeric(lower=0, upper=50000.5),
        "age": Numeric(lower=18, upper=90, missing="indicator"),
        "place": Categorical(categories=("north", 'the "south"', "east,\nwest")),
        "code": Categorical(categories=("1", "2")),
        "member": Boolean(missing="indicator"),
        "w": Ignored(),
    },
    weights=Weights(column="w", upper=1),
    norm_bound=1.8,
)


def encoded(data, schema=SCHEMA, block_rows=64):
    return np.vstack(list(read_encoded(open_source(data), schema, block_rows)))


EXPECTED = encoded(TABLE, block_rows=N_ROWS)


def csv_bytes():
    sink = io.BytesIO()
    pa.csv.write_csv(TABLE, sink)
    return sink.getvalue()


FILES = {
    "t.csv": lambda path: path.write_bytes(csv_bytes()),
    "t.csv.gz": lambda path: path.write_bytes(gzip.compress(csv_bytes())),
    "T.CSV.ZST": lambda path: path.write_bytes(
        pa.Codec("zstd").compress(csv_bytes(), asbytes=True)
    ),
    "t.tsv": lambda path: pa.csv.write_csv(TABLE, path, pa.csv.WriteOptions(delimiter="\t")),
    "t.parquet": lambda path: pa.parquet.write_table(TABLE, path, row_group_size=90),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("block_rows", [1, 64, 10_000])
def test_every_file_format_gives_the_same_rows(tmp_path, name, block_rows):
    FILES[name](tmp_path / name)
    assert (encoded(tmp_path / name, block_rows=block_rows) == EXPECTED).all()


@pytest.mark.parametrize("name", FILES)
def test_files_can_be_read_again_in_part(tmp_path, name):
    FILES[name](tmp_path / name)
    source = open_source(str(tmp_path / name))
    assert (source.name, source.columns) == (name, tuple(TABLE.column_names))
    for _ in range(2):
        blocks = list(source.blocks(64, wanted={"age": "number"}))
        assert sum(map(len, blocks)) == N_ROWS
        assert max(map(len, blocks)) <= 64
        assert {block.num_columns for block in blocks} == {1}


PANDAS, POLARS = TABLE.to_pandas(), pl.from_arrow(TABLE)
PLACES = pl.Enum(["north", 'the "south"', "east,\nwest", "Ünknown"])
# pandas compares attrs, and arrays in them have no truth value.
WITH_ATTRS = PANDAS.copy()
WITH_ATTRS.attrs = {"units": np.arange(3)}
FRAMES = {
    "pandas": lambda: PANDAS,
    "pandas attrs": lambda: WITH_ATTRS,
    "pandas index": lambda: PANDAS.set_index(np.arange(N_ROWS) * 3),
    "pandas nullable": lambda: PANDAS.convert_dtypes(),
    "pandas arrow": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas categories": lambda: PANDAS.astype({"place": "category", "code": "category"}),
    "pandas objects": lambda: PANDAS.astype(object).where(PANDAS.notna(), None),
    "polars": lambda: POLARS,
    "polars categories": lambda: POLARS.with_columns(pl.col("place").cast(pl.Categorical)),
    "polars enum": lambda: POLARS.with_columns(pl.col("place").cast(PLACES)),
    "polars decimals": lambda: POLARS.with_columns(pl.col("age").cast(pl.Decimal(10, 2))),
    "pyarrow": lambda: TABLE,
    "record batch": lambda: TABLE.combine_chunks().to_batches()[0],
    "reader": lambda: TABLE.to_reader(50),
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("block_rows", [64, 10_000])
def test_every_table_in_memory_gives_the_same_rows(name, block_rows):
    assert (encoded(FRAMES[name](), block_rows=block_rows) == EXPECTED).all()


def test_standard_input_is_csv(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(csv_bytes())))
    source = open_source("-")
    assert (np.vstack(list(read_encoded(source, SCHEMA, 64))) == EXPECTED).all()
    with pytest.raises(DataError, match="only once"):
        list(source.blocks(64))


def test_a_standard_input_that_is_closed_is_refused(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(DataError, match="Standard input is closed"):
        open_source("-")


@pytest.mark.skipif(os.name != "posix", reason="other systems wait for sockets alone")
def test_standard_input_is_read_once_there_is_something():
    """A signal just before a read that has to wait would be heard only after it."""

    class Watched:
        """Pipe of which no byte is asked for before it is there."""

        def __init__(self, file):
            self.fileno, self.waits = file.fileno, False
            self.read1 = lambda size: file.read1(size) if self.ready() else pytest.fail("waits")

        def ready(self):
            return not self.waits or select.select([self], [], [], 0)[0]

    source, sink = os.pipe()
    with os.fdopen(source, "rb") as file, os.fdopen(sink, "wb", buffering=0) as pipe:
        pipe.write(b"abcdef")
        # The others are held by the file, and the pipe is empty.
        assert file.read(2) == b"ab" and isinstance(awaited(file), Awaited)
        watched = Watched(file)
        stream = Awaited(watched)
        assert [stream.read(3), stream.read(9)] == [b"cde", b"f"]
        watched.waits = True
        later = threading.Timer(0.7, pipe.write, [b"gh"])
        later.start()
        assert stream.read(2) == b"gh"
        later.join()
        pipe.close()
        assert stream.read(9) == b""


@pytest.mark.parametrize("header", [1, 3])
@pytest.mark.parametrize("name", ["a", "ab", "abc", "abcd"])
@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252", "koi8-r"],
)
def test_standard_input_is_read_in_every_encoding(monkeypatch, encoding, name, header):
    """Also where the head that is looked at ends within a character."""
    cell = {"k": "ж", "u": "😀"}.get(encoding[0], "é")
    n_rows = 150_000
    text = "title\n" * (header - 1) + f"{name},b\n" + f"12,{cell}\n" * n_rows
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode(encoding))))
    source = open_source("-", FileLayout(encoding=encoding, header=header))
    blocks = list(source.blocks(n_rows, wanted={name: "number", "b": "text"}))
    assert sum(block.column(0).to_numpy().sum() for block in blocks) == 12 * n_rows
    assert {text for block in blocks for text in block.column(1).unique().to_pylist()} == {cell}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_above_the_names_end_as_rows_do(tmp_path, end):
    path = tmp_path / "t.csv"
    path.write_bytes(end.join(["A title", "", "a,b", "1,x", "2,y", ""]).encode())
    (block,) = open_source(path, FileLayout(header=3)).blocks(9, wanted={"a": "number"})
    assert block.column("a").to_pylist() == [1.0, 2.0]


MATRIX = np.random.default_rng(0).gamma(2.0, 50.0, size=(60, 13)).round(2)
MATRIX[MATRIX < 2] = 0
WINE = Schema(columns={f"x{i}": Numeric(lower=0, upper=150 + i) for i in (5, 0, 7, 12)})


BY_COLUMNS = np.asfortranarray(MATRIX)
MATRICES = {
    "m.npy": lambda path: np.save(path, MATRIX),
    "by_columns.npy": lambda path: np.save(path, BY_COLUMNS),
}


@pytest.mark.parametrize("name", MATRICES)
def test_files_of_matrices(tmp_path, name):
    MATRICES[name](tmp_path / name)
    assert (encoded(tmp_path / name, WINE, 7) == encoded(MATRIX, WINE)).all()
    source = open_source(tmp_path / name)
    for _ in range(2):
        blocks = list(source.blocks(7))
        assert (np.vstack(blocks) == MATRIX).all()
        assert {block.dtype for block in blocks} == {np.dtype(np.float64)}


def test_pandas_columns_that_are_numbers_and_integers_of_all_widths():
    schema = Schema(columns={"0": Boolean(), "1": Boolean()}, missing="never")
    assert encoded(pd.DataFrame([[1, 0], [0, 1]]), schema).shape == (2, 3)
    for dtype in (np.uint8, np.int64, np.float32, bool):
        (block,) = open_source(np.eye(3, dtype=dtype)).blocks(9)
        assert block.dtype == (np.float32 if dtype is np.float32 else np.float64)
        assert (block == np.eye(3)).all()


def test_a_stream_can_be_read_only_once():
    source = open_source(TABLE.to_reader())
    list(source.blocks(9))
    with pytest.raises(DataError, match="only once"):
        list(source.blocks(9))


@pytest.mark.parametrize("name", ["t.csv.gz", "T.CSV.ZST", "t.parquet", "m.npy"])
@pytest.mark.parametrize("keep", [0.1, 0.6, 0.98])
def test_files_cut_short(tmp_path, name, keep):
    path = tmp_path / name
    {**FILES, **MATRICES}[name](path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(DataError, match="cannot be read"):
        list(open_source(path).blocks(64))


def test_a_draft_has_the_names_and_types(tmp_path):
    expected = dict.fromkeys(("age", "income", "w"), Numeric())
    expected |= {"code": Categorical(), "place": Categorical(), "member": Boolean()}
    for name, write in FILES.items():
        write(tmp_path / name)
    lazy = [make() for name, make in FRAMES.items() if name != "pandas categories"]
    for data in [*(tmp_path / name for name in FILES), *lazy]:
        columns = dict(describe(open_source(data)).schema.columns)
        assert columns.pop("day") == Date()
        assert columns == expected


def test_what_a_mask_hides_is_missing():
    hidden = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    (block,) = open_source(hidden).blocks(10)
    np.testing.assert_array_equal(block, [[1, np.nan], [3, 4]])


def test_lists_hold_numbers_and_nothing_that_a_schema_would_have_to_read():
    hidden = np.ma.array([-999.0, 2.0], mask=[True, False])
    cells = [[1, Decimal("0.5")], [True, None], [np.float32(0.5), float("nan")], hidden]
    (block,) = open_source(cells).blocks(9)
    expected = [[1, 0.5], [1, np.nan], [0.5, np.nan], [np.nan, 2.0]]
    np.testing.assert_array_equal(block, expected)
    (huge,) = open_source([[10**400, -(10**400)]]).blocks(9)
    assert huge.tolist() == [[np.inf, -np.inf]]
    for cell in ("1.234", "1_000", b"12", 1 + 2j, np.datetime64("2020-01-01"), [1], "zebra"):
        with pytest.raises(DataError, match="give a data frame") as caught:
            open_source([[cell, 1], [2, 3]])
        assert caught.value.__context__ is None
        assert "zebra" not in str(caught.value)


def test_matrices_of_single_precision_stay_so_for_their_missing_codes():
    schema = Schema(
        columns={"x0": Numeric(lower=0, upper=100, missing="indicator")}, missing_codes=(99.9,)
    )
    for dtype, missing in ((np.float32, 1), (np.float64, 0)):
        matrix = np.array([[np.float32(99.9)], [7]], dtype)
        (encoded,) = read_encoded(open_source(matrix), schema, 9)
        assert np.count_nonzero(encoded[:, 2]) == missing


def test_arrays_of_the_second_header_version_are_read(tmp_path):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([[1.0, 2.0]]), version=(2, 0))
    (tmp_path / "x.npy").write_bytes(buffer.getvalue())
    (block,) = open_source(tmp_path / "x.npy").blocks(9)
    assert block.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(("first", "kind"), [(999, "text"), (1000, "other")])
def test_kinds_of_a_table_are_those_of_its_first_thousand_rows(first, kind):
    cells = [None] * 1500
    cells[first] = "a"
    assert open_source(pd.DataFrame({"x": pd.Series(cells, dtype=object)})).kinds() == {"x": kind}


def text_file(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def test_missing_words_can_be_categories_in_text_files(tmp_path):
    path = text_file(tmp_path / "x.csv", "a,b,c", "NA,1,", "?,NA,", "x, ?,")
    schema = Schema(
        columns={
            "a": Categorical(categories=("NA", "x"), missing="indicator"),
            "b": Numeric(lower=-1, upper=1, missing="indicator"),
            "c": Categorical(categories=("x",), missing="indicator"),
        },
        intercept=False,
    )
    (encoded,) = read_encoded(open_source(path), schema, 9)
    assert (encoded != 0).astype(int).tolist() == [
        [1, 0, 0, 1, 0, 0, 1],
        [0, 0, 1, 0, 1, 0, 1],
        [0, 1, 0, 0, 1, 0, 1],
    ]
    assert open_source(path).kinds() == {"a": "text", "b": "number", "c": "other"}


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([1.5, "n/a", "2", " 3.5 ", None], "number"),
        ([1, "12 kg"], "text"),
        (["1", "2"], "text"),
        ([True, "NA"], "boolean"),
        ([date(2020, 1, 31), "?"], "date"),
        (["n/a", ""], "other"),
        ([date(2020, 1, 31), 5], "other"),
    ],
)
def test_kinds_of_cells_follow_from_those_that_are_not_missing(cells, kind):
    assert kind_of_cells(cells) == kind


def test_numbers_as_texts_have_the_decimal_mark_of_the_table():
    cells = [1.5, "2,5", "n/a"]
    assert (kind_of_cells(cells), kind_of_cells(cells, ",")) == ("text", "number")
    assert kind_of_cells([1.5, "2.5"], ",") == "text"


def test_kinds_of_many_columns_of_numbers_are_guessed_quickly(tmp_path):
    def seconds(cell):
        (tmp_path / "wide.csv").write_text(
            ",".join(f"c{place}" for place in range(100)) + "\n" + ",".join([cell] * 100) + "\n"
        )
        source, start = open_source(tmp_path / "wide.csv"), time.process_time()
        assert len(source.kinds()) == 100
        return time.process_time() - start

    # Texts are searched for missing words with blanks around them, which takes long.
    assert seconds("0.5") < 0.5 * seconds("text")


def test_missing_words_between_blanks_change_no_guess(tmp_path):
    (tmp_path / "rows.csv").write_text("n,b,t\n1,true,x\n  NA  ,  NA,NA \n")
    kinds = {"n": "number", "b": "boolean", "t": "text"}
    assert open_source(tmp_path / "rows.csv").kinds() == kinds


@pytest.mark.parametrize(("width", "taken"), [(75, True), (190, False)])
def test_rows_of_text_have_up_to_a_megabyte(tmp_path, width, taken):
    names = [f"c{place}" for place in range(width)]
    path = text_file(tmp_path / "x.csv", ",".join(names), *[",".join(["a" * 8000] * width)] * 3)
    wanted = dict.fromkeys(names, "text")
    if taken:
        assert sum(map(len, open_source(path).blocks(9, wanted=wanted))) == 3
        return
    with pytest.raises(DataError, match="longer than 1 MiB"):
        list(open_source(path).blocks(9, wanted=wanted))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("cell", ["a{}", '"a{}"', '"a\n{}"'])
@pytest.mark.parametrize("longer", [-2, 0, 400_000])
def test_a_long_row_is_read_or_refused_wherever_it_begins(tmp_path, end, cell, longer):
    length = 2**20 + longer
    row = f"1,{cell}".format("a" * (length - len(cell)))
    answers = set()
    for before in (0, 100_000, 700_000, 2_000_000):
        lead = ("0,x" + end) * (before // 4)
        (tmp_path / "x.csv").write_text(f"a,b{end}{lead}{row}{end}0,x{end}", newline="")
        try:
            source = open_source(tmp_path / "x.csv")
            answers.add(sum(map(len, source.blocks(10**6, wanted={"b": "text"}))) > 0)
        except DataError as error:
            assert "a row longer than 1 MiB" in str(error)
            answers.add(False)
    assert answers == {longer < 0}


def test_a_long_line_of_json_is_read_or_refused_wherever_it_begins(tmp_path):
    for longer, taken in ((0, True), (1, False), (400_000, False)):
        line = json.dumps({"a": 1, "b": ""})
        line = line[:-2] + "b" * (2**20 + longer - len(line)) + line[-2:]
        for before in (0, 900_000):
            lead = '{"a": 1}\n' * (before // 9)
            path = text_file(tmp_path / "x.jsonl", lead + line)
            try:
                blocks = open_source(path).blocks(10**6, wanted={"a": "number"})
                assert sum(map(len, blocks)) > 0
                assert taken
            except DataError as error:
                assert "longer than 1 MiB" in str(error)
                assert not taken


def test_the_last_ending_names_the_format(tmp_path):
    for name in ("x.y.csv", "X.CSV", "x.csv.gz.csv", ".a.csv", "x.tsv.csv"):
        assert open_source(text_file(tmp_path / name, "a,b", "1,2")).columns == ("a", "b")
    for name in ("x", "x.gz", "x.csv.lz4", "csv", ".gz", "x.csv.old", "x.zst"):
        with pytest.raises(DataError, match=r"format of '.*' is not known by its ending"):
            open_source(text_file(tmp_path / name, "a,b", "1,2"))


def test_tables_tell_the_kinds_of_their_columns():
    frame = pl.DataFrame({"n": [1], "b": [True], "t": ["a"], "d": [None]}).with_columns(
        f=0.5, c=pl.col("t").cast(pl.Categorical), e=pl.col("t").cast(pl.Enum(["a"]))
    )
    kinds = {"n": "number", "b": "boolean", "t": "text", "d": "other"}
    kinds |= {"f": "number", "c": "text", "e": "text"}
    assert open_source(frame).kinds() == kinds
    assert open_source(frame.to_arrow().to_reader()).kinds() == kinds
    assert list(describe(open_source(frame)).schema.columns) == list(kinds)


@pytest.mark.parametrize(
    ("name", "sign", "words"), [("x.csv", ";", "semicolons"), ("x.tsv", ",", "commas")]
)
def test_text_that_is_separated_otherwise_is_refused(tmp_path, name, sign, words):
    with pytest.raises(DataError, match=f"a single name that holds {words}"):
        open_source(text_file(tmp_path / name, f"a{sign}b", f"1{sign}2"))
    other = "," if name == "x.csv" else "\t"
    assert open_source(text_file(tmp_path / name, f"a{sign}b{other}c", f"1{other}2")).columns == (
        f"a{sign}b",
        "c",
    )
    assert open_source(text_file(tmp_path / name, "ab", "1")).columns == ("ab",)


def test_pipes_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "x.csv")
    with pytest.raises(DataError, match=r"'x\.csv' is not an ordinary file"):
        open_source(tmp_path / "x.csv")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_of_one_column_is_a_row(tmp_path, end):
    (tmp_path / "x.csv").write_bytes(end.join(["x", "1", "", "3", "", ""]).encode())
    (block,) = open_source(tmp_path / "x.csv").blocks(9)
    assert block.column(0).to_pylist() == [1.0, None, 3.0, None]


def test_lines_are_judged_alike_however_they_are_cut():
    good = b'\xef\xbb\xbf"x",y\n1,"a ""b"""\r\n"2","c\n\nd"\n3,""\n'
    wrong = {
        b'x,y\n1,a"b\n': "stands inside a cell",
        b'x,y\n1,"a"b\n': "stands inside a cell",
        b'x,y\n1,"a\n': "is never closed",
        b"\nx,y\n1,2\n": "begins with a blank line",
        b"x,y\n\n1,2\n": "has a blank line",
        b"x,y\r\n1,2\r\n\r\n3,4": "has a blank line",
    }
    for text in (good, *wrong):
        for size in range(3, len(text) + 2):
            lines = CheckedLines(io.BytesIO(text), delimiter=",", columns=2, name="x")
            if text is good:
                assert b"".join(iter(partial(lines.read, size), b"")) == good
            else:
                with pytest.raises(DataError, match=wrong[text]):
                    list(iter(partial(lines.read, size), b""))


def test_a_stream_that_gives_few_bytes_at_a_time_is_read_as_a_file_is(tmp_path):
    """A row of many lines then lay in more blocks than two, which no reader puts together."""

    class Terminal(io.BytesIO):
        def read(self, size=-1):
            return self.readline(size)

    # What is looked at for the line of names comes at once.
    names = b"n,c\n" + (b"0,a" + b" " * 1020 + b"\n") * 2**10
    text = names + b'1,"' + b"line\n" * 9 + b'"\n2,b\n'
    (tmp_path / "t.csv").write_bytes(text)
    wanted = {"n": "number", "c": "text"}
    for source in (delimited.from_stream(Terminal(text), "s"), open_source(tmp_path / "t.csv")):
        *_, last = source.blocks(2**16, wanted=wanted)
        assert last.to_pylist()[-2:] == [{"n": 1, "c": "line\n" * 9}, {"n": 2, "c": "b"}]


def test_a_break_inside_quotation_marks_ends_no_row():
    text = b'x,y\n1,"' + b"a\n" * 2**19 + b'"\n'
    for size in (2**16, 2**20, 2**21):
        lines = CheckedLines(io.BytesIO(text), delimiter=",", columns=2, name="x")
        with pytest.raises(DataError, match="a row longer than 1 MiB"):
            list(iter(partial(lines.read, size), b""))


@pytest.mark.parametrize("folded", [False, True])
def test_a_date_with_a_time_of_day_is_that_date_in_memory_and_in_a_file(tmp_path, folded):
    """Arrow wants whole days of `date64`; Java's programs write what its dates hold."""
    moments = np.array([3 * 86_400_000 + 5, -1, 0], dtype=np.int64)
    cells = pa.Array.from_buffers(pa.date64(), 3, [None, pa.py_buffer(moments)])
    table = pa.table({"x": cells.dictionary_encode() if folded else cells})
    with pa.ipc.new_file(tmp_path / "x.arrow", table.schema) as file:
        file.write_table(table)
    for reading in (Notation(dates=""), "text"):
        for data in (table, tmp_path / "x.arrow"):
            (block,) = open_source(data).blocks(9, wanted={"x": reading})
            assert days(block.column(0), "x", Notation(dates="")).tolist() == [3, -1, 0]
            codes = category_codes(block.column(0), "x", {"1969-12-31": 7})
            assert codes.tolist() == [UNKNOWN, 7, UNKNOWN]


@pytest.mark.parametrize("ending", [".arrow", ".feather", ".ipc"])
def test_arrow_files_and_streams_are_read_and_broken_ones_refused(tmp_path, ending):
    table, path = pa.table({"x": [0.5, None, 0.25], "y": ["a", "b", "a"]}), tmp_path / f"t{ending}"
    for writer in (pa.ipc.new_file, pa.ipc.new_stream):
        with pa.OSFile(str(path), "wb") as file, writer(file, table.schema) as to:
            to.write_table(table, max_chunksize=2)
        blocks = open_source(path).blocks(1, wanted={"y": "text"})
        assert [block["y"].to_pylist() for block in blocks] == [["a"], ["b"], ["a"]]
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError):
        list(open_source(path).blocks(1, wanted={"y": "text"}))


def test_keys_of_json_may_hold_quotation_marks(tmp_path):
    name = "height 5'11\" \\ x"
    rows = [{name: 1.5, "b": "x"}, {name: "2", "b": None}, {name: None, "b": 3}]
    path = text_file(tmp_path / "x.jsonl", *map(json.dumps, rows))
    (block,) = open_source(path).blocks(9, wanted={name: "number", "b": "text"})
    assert block.column(name).to_pylist() == [1.5, 2.0, None]
    assert block.column("b").to_pylist() == ["x", None, "3"]


def test_missing_words_of_padded_columns_are_missing(tmp_path):
    path = text_file(tmp_path / "x.csv", "a,b", "   NA,1", "2,NA  ", "      .     ,?", "null,  ")
    (block,) = open_source(path).blocks(9, wanted={"a": "number", "b": "number"})
    assert block.to_pydict() == {"a": [None, 2.0, None, None], "b": [1.0, None, None, None]}


# Texts of numbers, and what all sources of texts read them as; None where all refuse them.
NUMBER_TEXTS = {
    **{"nan(1)": None, "-nan(ind)": None, "1_000": None, "0x1p3": None, "1f": None, "": math.nan},
    **{"\u0661\u0662": None, "1\u0662": None, "\uff11": None, "\u00a01": None, "1\x1c": None},
    **{"\v1": None, "1\n": None, "\u00a0NA": None, "NA\t": None, "\u2003": None, "\t": None},
    **{" NA ": math.nan, "       NaN": math.nan, "-nAn ": math.nan, "+nan": math.nan},
    **{
        "\t1 ": 1.0,
        "1.": 1.0,
        " .5e1": 5.0,
        "1E400": math.inf,
        " -Infinity": -math.inf,
        "+007": 7.0,
    },
}


@pytest.mark.parametrize("codes", [(), ("unknown",)])
@pytest.mark.parametrize("text", NUMBER_TEXTS)
def test_every_source_reads_the_text_of_a_number_alike(tmp_path, text, codes):
    csv_file, sqlite_file = tmp_path / "t.csv", tmp_path / "t.sqlite"
    csv_file.write_text(f'n\n"{text}"\n', encoding="utf-8", newline="")
    with closing(sqlite3.connect(sqlite_file)) as connection, connection:
        connection.execute("CREATE TABLE t (n TEXT)")
        connection.execute("INSERT INTO t VALUES (?)", (text,))
    sources = (
        *(csv_file, text_file(tmp_path / "t.jsonl", json.dumps({"n": text}))),
        *(Query("SELECT n FROM t", db=f"sqlite:///{sqlite_file}"), pa.table({"n": [text]})),
        pd.DataFrame({"n": pd.Series([text], dtype=object)}),
        pd.DataFrame({"n": pd.Categorical([text])}),
    )
    reader = reader_of(Schema(columns={"n": Numeric(missing_codes=codes)}), "n")
    for data in sources:
        blocks = open_source(data).blocks(9, wanted={"n": reader.wanted})
        if NUMBER_TEXTS[text] is not None:
            assert np.array_equal(reader.of(next(blocks)), [NUMBER_TEXTS[text]], equal_nan=True)
            continue
        with pytest.raises(DataError, match=r"[Cc]olumn 'n' holds (text|cells) that") as error:
            reader.of(next(blocks))
        assert text.strip() not in str(error.value) or not text.strip()


@pytest.mark.parametrize("dtype", ["float32", "Float32", "float32[pyarrow]", "float64"])
def test_categories_of_single_precision_have_the_codes_of_such_a_column(dtype):
    cells = pd.Series([99.9, 0.1, None], dtype=dtype)
    schema = Schema(columns={"n": Numeric(missing_codes=(99.9,))})
    for column in (cells, cells.astype("category")):
        read = read_column(column.to_frame("n"), schema, "n")
        assert np.isnan(read).tolist() == [True, False, True]


SINGLE = np.array([0.1, 1 / 3, 16777216, np.nan], np.float32)
AS_WRITTEN = Schema(columns={"c": Categorical(categories=("0.1", "0.33333334", "16777216"))})


@pytest.mark.parametrize(
    "cells",
    [
        *(pd.Series(SINGLE, dtype=kind) for kind in ("float32", "Float32", "float32[pyarrow]")),
        *(pd.Series(SINGLE).astype("category"), pd.Series(list(SINGLE), dtype=object)),
        *(pl.Series(SINGLE), pa.array(SINGLE), pa.array(SINGLE).dictionary_encode()),
    ],
    ids=lambda cells: str(getattr(cells, "dtype", "Arrow")),
)
def test_categories_of_single_precision_are_as_they_are_written(cells):
    """The shortest decimal that is rounded to such a number: 0.1, and not 0.10000000149011612."""
    is_arrow = isinstance(cells, pa.Array)
    frame = pa.table({"c": cells}) if is_arrow else cells.rename("c").to_frame()
    assert read_column(frame, AS_WRITTEN, "c").tolist() == [0, 1, 2, MISSING]


def test_categories_of_statas_single_precision_are_as_they_are_written(tmp_path):
    pd.DataFrame({"c": SINGLE}).to_stata(tmp_path / "c.dta", write_index=False, version=118)
    assert read_column(tmp_path / "c.dta", AS_WRITTEN, "c").tolist() == [0, 1, 2, MISSING]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("names", ["a,b", '"a","b"'])
def test_a_line_of_names_alone_may_lack_its_end(tmp_path, names, end):
    (tmp_path / "x.csv").write_text(names + end, newline="")
    source = open_source(tmp_path / "x.csv")
    assert source.kinds() == {"a": "other", "b": "other"}
    with pytest.raises(DataError, match="has no rows"):
        list(source.blocks(9))


def test_words_that_python_takes_for_numbers_are_names_of_columns(tmp_path):
    names = ("inf", "nan", "Infinity", "-inf")
    source = open_source(text_file(tmp_path / "x.csv", ",".join(names), "1,2,3,4"))
    assert source.columns == names
    numbers = ("1", "-2.5", "1e5", " 7 ", "1_0", "1 234", "50 %", '"1,5"')
    dates = (" 1980-01-31", "1980-01-31T12:30Z", "31.01.1980", "1/31/80")
    for value in numbers + dates:
        with pytest.raises(DataError, match="holds numbers or dates where column names") as caught:
            open_source(text_file(tmp_path / "y.csv", f"a,{value}", "1,2"))
        assert "80" not in str(caught.value)
    assert open_source(text_file(tmp_path / "x.csv", "d2020-01-31,b", "1,2")).columns[1] == "b"


def test_memory_that_a_caller_has_mapped_is_read_and_left_as_it_is(tmp_path):
    """Changes of a private map are in no file: without its pages they would be lost."""
    np.save(tmp_path / "c.npy", np.full((20_000, 2), 9.0))
    mapped = np.load(tmp_path / "c.npy", mmap_mode="c")
    mapped[:] = 1.0
    blocks = open_source(mapped).blocks(5_000)
    assert all(np.all(np.asarray(block) == 1.0) for block in blocks)
    assert np.all(mapped == 1.0)


def test_objects_of_polars_are_refused():
    frame = pl.DataFrame({"x": pl.Series(["a", "b"], dtype=pl.Object)})
    with pytest.raises(DataError, match="'x' holds cells that are neither"):
        list(open_source(frame).blocks(9, wanted={"x": "text"}))


def test_older_moments_of_parquet_do_not_end_in_2262(tmp_path):
    path, moments = tmp_path / "old.parquet", ["9999-12-31", "1500-01-01"]
    table = pa.table({"x": pa.array(np.array(moments, dtype="datetime64[us]"))})
    pa.parquet.write_table(table, path, use_deprecated_int96_timestamps=True)
    schema = Schema(columns={"x": Date(as_="year", lower=1, upper=9999)}, missing="never")
    np.testing.assert_array_equal(encoded(path, schema), encoded(table, schema))
    pieces = open_files(path, "").to_table().to_batches()
    np.testing.assert_array_equal(pieces[0].column(0), table.column(0).chunk(0))


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_older_moments_of_parquet_are_no_categories(tmp_path, engine):
    """Spark reads them with a time zone, others without."""
    path = tmp_path / "old.parquet"
    table = pa.table({"x": pa.array(np.array(["2020-02-01", None], dtype="datetime64[us]"))})
    as_category = Schema(columns={"x": Categorical(categories=("2020-02-01 00:00:00",))})
    as_date = Schema(columns={"x": Date(as_="year", lower=1999, upper=2021)})

    def moments(schema):
        data = str(path) if engine == "dask" else path
        return table_moments(data, schema, MomentsSpec(shells=2), engine=engine, threads=1)

    pa.parquet.write_table(table, path)
    assert moments(as_category) == table_moments(table, as_category, MomentsSpec(shells=2))
    pa.parquet.write_table(table, path, use_deprecated_int96_timestamps=True)
    assert moments(as_date) == table_moments(table, as_date, MomentsSpec(shells=2))
    with pytest.raises(DataError, match=r"'x' holds older moments of Parquet \(INT96\)"):
        moments(as_category)


@pytest.mark.parametrize("encoding", ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_texts_of_parquet_that_are_written_as_differences(tmp_path, encoding):
    """As Spark and DuckDB write them in the second version of the format."""
    path, texts = tmp_path / "t.parquet", ["abc", None, "abz", "x"] * 9
    table = pa.table({"x": texts, "y": texts, "z": pa.array(texts, pa.large_string())})
    written = {"use_dictionary": ["y"], "column_encoding": {"x": encoding, "z": encoding}}
    pa.parquet.write_table(table, path, row_group_size=20, **written)
    wanted = dict.fromkeys("xyz", "text")
    blocks = list(open_source(path).blocks(7, wanted=wanted))
    for name in wanted:
        assert [cell for block in blocks for cell in block.column(name).to_pylist()] == texts


def test_an_encrypted_parquet_file_is_told_as_such(tmp_path):
    path = tmp_path / "e.parquet"
    pa.parquet.write_table(pa.table({"x": [1.0]}), path)
    # As a file begins and ends whose footer is encrypted, too.
    path.write_bytes(path.read_bytes().replace(b"PAR1", b"PARE"))
    with pytest.raises(DataError, match="it is encrypted; write it again without"):
        open_source(path)


def test_a_page_of_parquet_that_does_not_fit_its_checksum_is_refused(tmp_path):
    path, numbers = tmp_path / "n.parquet", np.arange(100.0)
    options = {"use_dictionary": False, "compression": "none", "write_page_checksum": True}
    pa.parquet.write_table(pa.table({"x": numbers}), path, **options)
    whole = path.read_bytes()
    assert sum(block.num_rows for block in open_source(path).blocks(30)) == 100
    path.write_bytes(whole.replace(np.float64(7).tobytes(), np.float64(8).tobytes(), 1))
    with pytest.raises(DataError, match="damaged"):
        list(open_source(path).blocks(30))


@pytest.mark.parametrize("older", [False, True])
def test_a_stream_that_ends_too_early_or_begins_again_is_refused(tmp_path, older):
    """Arrow takes the end of a file for the end of its table, as when a program died writing it."""
    path, batch = tmp_path / "s.arrow", pa.record_batch({"x": [1.0, 2.0, 3.0]})
    options = pa.ipc.IpcWriteOptions(use_legacy_format=older)
    with pa.ipc.new_stream(path, batch.schema, options=options) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch)
    whole = path.read_bytes()
    assert sum(block.num_rows for block in open_source(path).blocks(9)) == 6
    end = 4 if older else 8
    for content in (whole[:-end], whole * 2, whole + bytes(8)):
        path.write_bytes(content)
        with pytest.raises(DataError, match="is cut short, or holds several tables"):
            list(open_source(path).blocks(9))


@pytest.mark.parametrize("kind", ["<f4", ">f4", "f2"])
def test_short_numbers_stay_short_in_whatever_order_their_bytes_are(kind):
    """Missing codes are compared as such a column holds them."""
    (block,) = open_source(np.array([[99.9, 7.0]], dtype=kind)).blocks(9)
    assert block.dtype == np.dtype(kind).newbyteorder("=")


_MANY_ENDS = """
import os, sys
import pyarrow.csv
from dpcov.data.sources import open_source
for _ in range(100):
    if (child := os.fork()) == 0:
        break
    if os.waitpid(child, 0)[1]:
        os._exit(1)
else:
    os._exit(0)
try:
    open_source(sys.argv[1]).kinds()
except Exception:
    pass
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="other systems start anew")
def test_a_program_ends_while_threads_still_let_go_of_text(tmp_path):
    path = text_file(tmp_path / "x.csv", "a,b", *["1,2"] * 50, '"1,2')
    run = subprocess.run([sys.executable, "-c", _MANY_ENDS, path], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr

"""Readers one by one: types they tell, bytes they count, pieces they cut, what they refuse."""

import io
import os
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from dpcov.data.schema.declared import Categorical, Numeric
from dpcov.data.schema.draft import draft
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import open_source
from dpcov.data.sources.base import check_names, kind_of_arrow_type, number_names
from dpcov.data.sources.lines import CheckedLines
from dpcov.errors import DataError
from tests.data.reading import read_encoded
from tests.fuzz.mutate import zipped

KINDS = {
    "number": [pa.int8(), pa.uint64(), pa.float16(), pa.decimal128(5, 2), pa.decimal256(40, 2)],
    "boolean": [pa.bool_()],
    "text": [pa.string(), pa.large_string(), pa.string_view()],
    "other": [pa.null(), pa.date32(), pa.timestamp("s"), pa.binary(), pa.struct({})],
}


@pytest.mark.parametrize("kind", KINDS)
def test_arrow_types_are_told_by_what_they_hold(kind):
    for data_type in KINDS[kind]:
        assert kind_of_arrow_type(data_type) == kind
        if kind != "boolean":
            assert kind_of_arrow_type(pa.dictionary(pa.int8(), data_type)) == kind


def test_names_are_checked_and_made():
    assert check_names(["a", "b", ""], "t") == ("a", "b", "")
    assert number_names(3) == ("x0", "x1", "x2")
    with pytest.raises(DataError, match="'t' has no columns"):
        check_names([], "t")
    with pytest.raises(DataError, match=r"positions 2, 3, 5, 6\. Rename"):
        check_names(["a", "b", "c", "d", "b", "c"], "t")


def test_blocks_are_cut_where_a_batch_is_longer(tmp_path):
    table = pa.table({"x": np.arange(25.0)})
    for new in (pa.ipc.new_file, pa.ipc.new_stream):
        with new(str(tmp_path / "x.arrow"), table.schema) as writer:
            writer.write_table(table, max_chunksize=25)
        blocks = [
            block.column(0).to_pylist() for block in open_source(tmp_path / "x.arrow").blocks(10)
        ]
        assert blocks == [[*range(10)], [*range(10, 20)], [*range(20, 25)]]


def sparse_parts(path, **changes):
    parts = {
        "format": "csr",
        "shape": [2, 2],
        "data": [1.0],
        "indices": [0],
        "indptr": [0, 1, 1],
    } | changes
    np.savez(path, **{name: part for name, part in parts.items() if part is not None})
    return path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"indptr": None, "indices": None}, "cannot be read"),
        ({"shape": [2] * 8}, "8 dimensions"),
        ({"shape": [2] * 9}, "not a sparse matrix"),
        ({"format": ["csr"] * 9}, "not a sparse matrix"),
        ({"format": np.array("csr", dtype=object)}, "cannot be read"),
        ({"format": "csc", "indices": [7]}, "cannot be read"),
        ({"format": "csc", "data": [], "indices": [], "indptr": [0, 3, 0]}, "cannot be read"),
        ({"format": "nosuch"}, "cannot be read"),
    ],
    ids=str,
)
def test_sparse_files_that_are_not_as_scipy_saves_them(tmp_path, changes, words):
    assert sum(map(len, open_source(sparse_parts(tmp_path / "good.npz")).blocks(9))) == 2
    with pytest.raises(DataError, match=words):
        list(open_source(sparse_parts(tmp_path / "x.npz", **changes)).blocks(9))


def test_arrays_of_the_second_header_version_are_read(tmp_path):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([[1.0, 2.0]]), version=(2, 0))
    content = buffer.getvalue()
    (tmp_path / "x.npz").write_bytes(zipped([("X.npy", content)]))
    (tmp_path / "x.npy").write_bytes(content)
    for name in ("x.npz", "x.npy"):
        assert np.vstack(list(open_source(tmp_path / name).blocks(9))).tolist() == [[1.0, 2.0]]


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


def test_the_last_ending_names_the_format(tmp_path):
    for name in ("x.y.csv", "X.CSV", "x.csv.gz.csv", ".a.csv", "x.tsv.csv"):
        assert open_source(text_file(tmp_path / name, "a,b", "1,2")).columns == ("a", "b")
    for name in ("x", "x.gz", "x.csv.bz2", "csv", ".gz", "x.csv.old", "x.zst"):
        with pytest.raises(DataError, match=r"format of '.*' is not known by its ending"):
            open_source(text_file(tmp_path / name, "a,b", "1,2"))


def test_lazy_and_plain_tables_tell_the_kinds_of_their_columns():
    frame = pl.DataFrame({"n": [1], "b": [True], "t": ["a"], "d": [None]}).with_columns(
        f=0.5, c=pl.col("t").cast(pl.Categorical), e=pl.col("t").cast(pl.Enum(["a"]))
    )
    kinds = {"n": "number", "b": "boolean", "t": "text", "d": "other"}
    kinds |= {"f": "number", "c": "text", "e": "text"}
    assert open_source(frame.lazy()).kinds() == open_source(frame).kinds() == kinds
    assert open_source(frame.to_arrow().to_reader()).kinds() == kinds
    assert list(draft(open_source(frame)).columns) == list(kinds)


def test_places_outside_a_dictionary_are_refused(tmp_path):
    cells = pa.DictionaryArray.from_arrays(pa.array([0, 7]), pa.array(["a"]), safe=False)
    batch = pa.record_batch([cells], names=["x"])
    for new in (pa.ipc.new_file, pa.ipc.new_stream):
        with new(str(tmp_path / "x.arrow"), batch.schema) as writer:
            writer.write_batch(batch)
        with pytest.raises(DataError, match=r"'x\.arrow' cannot be read"):
            list(open_source(tmp_path / "x.arrow").blocks(9, wanted={"x": "text"}))


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


def test_the_column_that_cannot_be_read_is_named_if_the_schema_names_it():
    mixed = pd.Series([1, "a"], dtype=object)
    source = open_source(pd.DataFrame({"good": [1, 2], "bad": mixed, "worse": mixed}))
    for wanted, told in ((None, "number 2"), (["bad", "good"], "'bad'"), (["worse"], "'worse'")):
        wanted = None if wanted is None else dict.fromkeys(wanted, "number")
        with pytest.raises(DataError, match=f"column {told} holds cells"):
            list(source.blocks(9, wanted=wanted))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_of_one_column_is_a_row(tmp_path, end):
    (tmp_path / "x.csv").write_bytes(end.join(["x", "1", "", "3", "", ""]).encode())
    (block,) = open_source(tmp_path / "x.csv").blocks(9)
    assert block.column(0).to_pylist() == [1.0, None, 3.0, None]


def test_lines_are_judged_alike_however_they_are_cut():
    good = b'\xef\xbb\xbf"x",y\n1,"a ""b"""\r\n"2","c\n\nd"\n3,""\n'
    wrong = [
        b'x,y\n1,a"b\n',
        b'x,y\n1,"a"b\n',
        b'x,y\n1,"a\n',
        b"x,y\n\n1,2\n",
        b"x,y\r\n1,2\r\n\r\n3,4",
    ]
    for text in (good, *wrong):
        for size in range(3, len(text) + 2):
            lines = CheckedLines(io.BytesIO(text), delimiter=",", columns=2, name="x")
            if text is good:
                assert b"".join(iter(partial(lines.read, size), b"")) == good
            else:
                with pytest.raises(DataError):
                    list(iter(partial(lines.read, size), b""))


def test_types_that_polars_guesses_from_rows_or_folders_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    (tmp_path / "x.ndjson").write_text('{"a": 1}\n')
    csv = pl.scan_csv(tmp_path / "x.csv").filter(pl.col("a") > 0)
    for frame in (csv, pl.scan_ndjson(tmp_path / "x.ndjson")):
        with pytest.raises(DataError, match="Polars guesses types"):
            open_source(frame)
    (tmp_path / "region=01").mkdir()
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "region=01" / "x.parquet")
    with pytest.raises(DataError, match="values in folder names"):
        open_source(pl.scan_parquet(tmp_path / "*" / "*.parquet", hive_partitioning=True))
    texts = {"hive_partitioning": True, "hive_schema": {"region": pl.String}}
    source = open_source(pl.scan_parquet(tmp_path / "*" / "*.parquet", **texts))
    (block,) = source.blocks(9, wanted={"region": "text", "a": "number"})
    assert block.to_pylist() == [{"region": "01", "a": 1}]

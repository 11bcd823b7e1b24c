import gzip
import lzma
import zipfile
from codecs import BOM_UTF8

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from dpcov.data.sources import open_source
from dpcov.errors import DataError


def refusal(data, wanted=None):
    with pytest.raises(DataError) as caught:
        list(open_source(data).blocks(64, wanted=wanted))
    return str(caught.value)


def test_paths_that_cannot_be_read(tmp_path):
    assert "no file 'a.csv'" in refusal(tmp_path / "a.csv")
    told = refusal(tmp_path)
    statement = "--db duckdb:// --sql \"SELECT * FROM 'FOLDER/*.parquet'\""
    assert "is a directory" in told and "--engine dask" in told and statement in told
    told = refusal(tmp_path / "part-*.parquet")
    assert "Give one file" in told and "--engine dask" in told and statement in told
    assert "one by one" in refusal(iter([np.zeros((2, 2))]))
    for name, db in {"a.db": "sqlite:///a.db", "b.duckdb": "duckdb:///b.duckdb"}.items():
        (tmp_path / name).write_bytes(b"1")
        assert f"a statement, and {db} as the database" in refusal(tmp_path / name)
    assert "cannot be opened" in refusal(tmp_path / ("x" * 5000))
    (tmp_path / "u.data").write_bytes(b"1\t2")
    assert "rename it so that it ends with .txt" in refusal(tmp_path / "u.data")
    for name in ("a.mat", "a.npz", "a.orc"):
        (tmp_path / name).write_bytes(b"1")
        assert ".parquet" in refusal(tmp_path / name)
    (tmp_path / "b.jsonl").write_bytes(BOM_UTF8)
    assert refusal(tmp_path / "b.jsonl") == "'b.jsonl' has no rows. Give it at least one."
    np.save(tmp_path / "b.npy", np.zeros((3, 2), "V0"))
    assert "'b.npy' cannot be read: it is damaged" in refusal(tmp_path / "b.npy")
    for name in ("a.csv", "a.parquet", "a.npy"):
        (tmp_path / name).write_bytes(b"")
        assert refusal(tmp_path / name) == f"'{name}' is empty. Give a file that holds the table."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n\n", "empty"),
        ("a,b\n1,2\n\n3,4\n", "has a blank line"),
        ("a,b\r\n1,2\r\n\r\n", "has a blank line"),
        ("\na\n1\n", "begins with a blank line"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n3\n", "2 fields"),
        ("a,b\n1,2\n3,4,5\n", "2 fields"),
        ("Report\na,b\n1,2\n", "1 field that the line of names has; correct those"),
        ("a,b\n1,2,3\n", "begin with a row number, as R writes it, give that a name"),
        ("a,b\n1,2,3\n", "If the line of names ends with a delimiter, remove it"),
        ("a,b\n1,x\n", "number 2 holds text"),
        ("a,b\n1,2020-01-31\n", "or declare it a date or categorical"),
        ("a,b,a\n1,2,3\n", "positions 1, 3"),
        (",".join("ab" * 40) + "\n", "9, 10 and 70 more. Rename them."),
        ("Attendance in 2018,,\nname,days,rate\n", "without a name, at the positions 2, 3. Name"),
        ("Attendance in 2018,,\nname,days,rate\n", "stand below a title, declare header"),
        ("39,b\n1,2\n", "line of column names"),
        ('a,b\n1,"2\n3,4\n', "is never closed"),
        ('a,b\n1,x"y\n3,4"\n', "stands inside a cell"),
        ('# see "sources"\na,b\n1,2\n', "stand below a title, declare header"),
        ('a,b\n1,5" pipe\n', "Where cells stand in no quotation marks, declare quote"),
        ("a,b\n1,..\n", "add it to missing_codes"),
    ],
)
def test_text_that_cannot_be_read(tmp_path, text, expected):
    (tmp_path / "a.csv").write_text(text)
    assert expected in refusal(tmp_path / "a.csv")


def test_text_must_be_utf8(tmp_path):
    (tmp_path / "a.csv").write_bytes("a,b\n1,Zürich\n".encode("latin-1"))
    assert "UTF-8" in refusal(tmp_path / "a.csv", {"b": "text"})
    (tmp_path / "a.csv").write_bytes("größe,b\n1,2\n".encode("latin-1"))
    assert "UTF-8" in refusal(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_bytes("\ufeffgröße ,b\r\n1,2\r\n".encode())
    assert open_source(tmp_path / "a.csv").columns == ("größe", "b")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_text_that_is_called_text_is_told(tmp_path, pack):
    (tmp_path / "a.csv").write_bytes(pack(b"a,b\n1,2\n"))
    assert "is packed, or a workbook" in refusal(tmp_path / "a.csv")


@pytest.mark.parametrize("n_rows", [6_000, 1_000_000])
def test_an_unclosed_quotation_mark_does_not_swallow_rows(tmp_path, n_rows):
    (tmp_path / "a.csv").write_text('a,b\n1,"' + "2\n" * n_rows)
    assert "quotation mark" in refusal(tmp_path / "a.csv", {"b": "text"})


def test_missing_columns_are_named_but_those_found_are_not(tmp_path):
    (tmp_path / "a.csv").write_text("Age,secret\n1,2\n")
    message = refusal(tmp_path / "a.csv", {"age": "number", "sex": "text"})
    assert "'age', 'sex'" in message
    assert "secret" not in message
    assert "capitals" in refusal(tmp_path / "a.csv", {"age": "number"})
    (tmp_path / "a.csv").write_text("gro\u0308ße  in m,b\n1,2\n", encoding="utf-8")
    assert "accents, which can be" in refusal(tmp_path / "a.csv", {"größe in m": "number"})
    assert "accents" not in refusal(tmp_path / "a.csv", {"Alter": "number"})
    assert "'x7'" in refusal(np.eye(3), {"x7": "number"})
    for count, end in ((10, "'y9'."), (11, "'y9' and 1 more."), (30, "'y9' and 20 more.")):
        told = refusal(np.eye(3), {f"y{i}": "number" for i in range(count)})
        assert told.endswith(f"{end} The columns of an array are called x0 to x2.")
    # How many fields the first of some rows has is not told.
    (tmp_path / "a.jsonl").write_text('{"x0": 1, "x1": 2}\n{"x0": 3}\n')
    assert refusal(tmp_path / "a.jsonl", {"age": "number"}).endswith(
        "lacks these columns, which the schema names: 'age'. "
        "Correct the schema, or take them out of it."
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (np.arange(3.0), r"(-1, 1)"),
        (np.zeros((2, 2, 2)), "3 dimensions"),
        (np.zeros((0, 2)), "no rows"),
        (np.zeros((2, 0)), "no columns"),
        (np.broadcast_to(0.0, (2, 10**6)), "too many for a covariance matrix"),
        (np.array([["a"]]), "real numbers"),
        (np.array([[object()]]), "real numbers"),
        (np.eye(2) * 1j, "real numbers"),
        ([1.0, 2.0], "(-1, 1)"),
        ([[1.0], [1.0, 2.0]], "equally long"),
        (3, "type int"),
        (None, "type NoneType"),
        ({"a": [1]}, "type dict"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "whose columns all have names of their own"),
        (pd.Series([1, 2]), "no data frame"),
        (pa.table([[1], [2]], names=["a", "a"]), "cannot be read"),
        (pa.table({}), "no columns"),
        (pl.DataFrame({"a": []}), "no rows"),
        (pl.DataFrame({"a": [2**70]}, {"a": pl.Int128}), "that Arrow does not know; convert"),
        (pl.LazyFrame({"a": [1]}), "Compute it first"),
        (duckdb.sql("SELECT 1 AS a"), "as a Query"),
        (pa.table({"a": [1]}).slice(1), "no rows"),
    ],
)
def test_objects_that_cannot_be_read(data, expected):
    assert expected in refusal(data)


def test_an_encrypted_archive_is_told_as_such(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.csv", "x\n1\n")
    content = bytearray((tmp_path / "a.zip").read_bytes())
    # The flag of its entry in the list of all files.
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "a.zip").write_bytes(content)
    assert refusal(tmp_path / "a.zip") == "'a.zip' is encrypted. Unpack it first."


def test_pickled_objects_are_never_loaded(tmp_path):
    objects = np.array([[{"a": 1}]], dtype=object)
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    assert "does not hold real numbers" in refusal(tmp_path / "a.npy")


UNHEARD_OF = {
    "mixed types": pd.DataFrame({"n": [1.0, 2.0], "a": pd.Series([1, "zebra4711"], dtype=object)}),
    "complex": pd.DataFrame({"n": [1.0, 2.0], "a": [1j, 2j]}),
    "sparse": pd.DataFrame({"n": [1.0, 2.0], "a": pd.arrays.SparseArray([0.0, 1.0])}),
}


@pytest.mark.parametrize("frame", UNHEARD_OF.values(), ids=UNHEARD_OF.keys())
def test_a_column_that_cannot_be_read_is_named(frame):
    with pytest.raises(DataError, match=r"column 'a' holds cells.*convert or drop it"):
        list(open_source(frame).blocks(10, wanted={"n": "number", "a": "number"}))
    with pytest.raises(DataError, match="column number 2"):
        list(open_source(frame).blocks(10))
    assert len(next(open_source(frame).blocks(10, wanted={"n": "number"}))) == 2


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_file_that_vanishes_is_said_to_be_gone(tmp_path, name):
    table = pa.table({"a": [1.0, 2.0]})
    writers = {".csv": pa.csv.write_csv, ".parquet": pa.parquet.write_table}
    path = tmp_path / name
    writers[path.suffix](table, path)
    source = open_source(path)
    path.unlink()
    with pytest.raises(DataError, match="not there any more"):
        list(source.blocks(64))

import gzip
import io
import os
import sys

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse
from sklearn.datasets import load_wine

from dpcov.data.draft import draft
from dpcov.data.encode import read_encoded
from dpcov.data.schema import Boolean, Categorical, Ignored, Numeric, Schema, Weights
from dpcov.data.sources import open_source
from dpcov.errors import DataError

N_ROWS = 250
_random = np.random.default_rng(7)
_with_gaps = _random.random(N_ROWS) < 0.1
TABLE = pa.table(
    {
        "age": pa.array(_random.integers(0, 99, N_ROWS), mask=_with_gaps),
        "income": pa.array(_random.normal(2e4, 1e4, N_ROWS), mask=_with_gaps[::-1]),
        "place": pa.array(_random.choice(["north", 'the "south"', "east,\nwest", "Ünknown"], N_ROWS)),
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


def write_csv(path):
    path.write_bytes(csv_bytes())


def write_gzip(path):
    path.write_bytes(gzip.compress(csv_bytes()))


def write_zstd(path):
    path.write_bytes(pa.Codec("zstd").compress(csv_bytes(), asbytes=True))


def write_tsv(path):
    pa.csv.write_csv(TABLE, path, pa.csv.WriteOptions(delimiter="\t"))


def write_parquet(path):
    pa.parquet.write_table(TABLE, path, row_group_size=90)


def write_arrow_file(path):
    with pa.ipc.new_file(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=70)


def write_arrow_stream(path):
    with pa.ipc.new_stream(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=70)


def write_feather(path):
    pa.feather.write_feather(TABLE, str(path), compression="zstd")


FILES = {
    "t.csv": write_csv,
    "t.csv.gz": write_gzip,
    "T.CSV.ZST": write_zstd,
    "t.tsv": write_tsv,
    "t.parquet": write_parquet,
    "t.arrow": write_arrow_file,
    "t.ipc": write_arrow_stream,
    "t.feather": write_feather,
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("block_rows", [1, 64, 10_000])
def test_every_file_format_gives_the_same_rows(tmp_path, name, block_rows):
    FILES[name](tmp_path / name)
    assert (encoded(tmp_path / name, block_rows=block_rows) == EXPECTED).all()


@pytest.mark.parametrize("name", FILES)
def test_files_report_progress_and_can_be_read_again(tmp_path, name):
    FILES[name](tmp_path / name)
    source = open_source(str(tmp_path / name))
    assert source.name == name
    assert source.columns == tuple(TABLE.column_names)
    assert source.progress_total == (tmp_path / name).stat().st_size
    for _ in range(2):
        done = []
        blocks = list(source.blocks(64, wanted={"age": "number"}, progress=done.append))
        assert sum(map(len, blocks)) == N_ROWS
        assert max(map(len, blocks)) <= 64
        assert {block.num_columns for block in blocks} == {1}
        assert done == sorted(done)
        assert 0 < done[-1] <= source.progress_total


def pandas_objects():
    frame = TABLE.to_pandas()
    return frame.astype(object).where(frame.notna(), None)


FRAMES = {
    "pandas": lambda: TABLE.to_pandas(),
    "pandas index": lambda: TABLE.to_pandas().set_index(np.arange(N_ROWS) * 3),
    "pandas nullable": lambda: TABLE.to_pandas().convert_dtypes(),
    "pandas arrow": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas categories": lambda: TABLE.to_pandas().astype({"place": "category", "code": "category"}),
    "pandas objects": pandas_objects,
    "polars": lambda: pl.from_arrow(TABLE),
    "polars lazy": lambda: pl.from_arrow(TABLE).lazy(),
    "polars categories": lambda: pl.from_arrow(TABLE).with_columns(pl.col("place").cast(pl.Categorical)),
    "polars enum": lambda: pl.from_arrow(TABLE).with_columns(
        pl.col("place").cast(pl.Enum(["north", 'the "south"', "east,\nwest", "Ünknown"]))
    ),
    "polars decimals": lambda: pl.from_arrow(TABLE).with_columns(pl.col("age").cast(pl.Decimal(10, 2))),
    "pyarrow": lambda: TABLE,
    "record batch": lambda: TABLE.combine_chunks().to_batches()[0],
    "reader": lambda: TABLE.to_reader(50),
    "duckdb": lambda: duckdb.from_arrow(TABLE),
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("block_rows", [64, 10_000])
def test_every_table_in_memory_gives_the_same_rows(name, block_rows):
    assert (encoded(FRAMES[name](), block_rows=block_rows) == EXPECTED).all()


def test_standard_input_is_csv(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(csv_bytes())))
    source = open_source("-")
    assert source.progress_total is None
    assert (np.vstack(list(read_encoded(source, SCHEMA, 64))) == EXPECTED).all()
    with pytest.raises(DataError, match="only once"):
        list(source.blocks(64))


def test_standard_input_longer_than_its_head(monkeypatch):
    n_rows = 400_000
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n" + b"12,3\n" * n_rows)))
    assert sum(block.column(0).to_numpy().sum() for block in open_source("-").blocks(9999)) == 12 * n_rows


MATRIX = np.array(load_wine().data[:60])
MATRIX[MATRIX < 2] = 0
WINE = Schema(columns={f"x{i}": Numeric(lower=0, upper=150 + i) for i in (5, 0, 7, 12)})


def write_npy(path):
    np.save(path, MATRIX)


def write_npy_by_columns(path):
    np.save(path, np.asfortranarray(MATRIX))


def write_npz(path):
    np.savez_compressed(path, X=MATRIX, other=np.eye(3), y=np.arange(3))


def write_npz_by_columns(path):
    np.savez(path, matrix=np.asfortranarray(MATRIX))


def write_csr(path):
    scipy.sparse.save_npz(path, scipy.sparse.csr_array(MATRIX))


def write_csc(path):
    scipy.sparse.save_npz(path, scipy.sparse.csc_matrix(MATRIX))


@pytest.mark.parametrize("write", [write_npy, write_npy_by_columns])
def test_npy_files(tmp_path, write):
    write(tmp_path / "m.npy")
    assert (encoded(tmp_path / "m.npy", WINE, 7) == encoded(MATRIX, WINE)).all()


@pytest.mark.parametrize("write", [write_npz, write_npz_by_columns, write_csr, write_csc])
def test_npz_files(tmp_path, write):
    write(tmp_path / "m.npz")
    source = open_source(tmp_path / "m.npz")
    for _ in range(2):
        done = []
        blocks = list(source.blocks(7, progress=done.append))
        assert (np.vstack(blocks) == MATRIX).all()
        assert {block.dtype for block in blocks} == {np.dtype(np.float64)}
        assert done[-1] == source.progress_total


@pytest.mark.parametrize(
    "data",
    [
        MATRIX.tolist(),
        scipy.sparse.csr_matrix(MATRIX),
        scipy.sparse.coo_array(MATRIX),
        pa.table({f"x{i}": MATRIX[:, i] for i in range(13)}),
        pd.DataFrame(MATRIX, columns=[f"x{i}" for i in range(13)]),
    ],
    ids=["lists", "csr", "coo", "table", "pandas"],
)
def test_matrices_in_memory(data):
    assert (encoded(data, WINE, 7) == encoded(MATRIX, WINE)).all()


def test_pandas_columns_that_are_numbers():
    schema = Schema(columns={"0": Boolean(), "1": Boolean()})
    assert encoded(pd.DataFrame([[1, 0], [0, 1]]), schema).shape == (2, 3)


def test_integers_of_all_widths_in_matrices():
    for dtype in (np.uint8, np.int64, np.float32, bool):
        (block,) = open_source(np.eye(3, dtype=dtype)).blocks(9)
        assert block.dtype == np.float64
        assert (block == np.eye(3)).all()


def refusal(data, wanted=None):
    with pytest.raises(DataError) as caught:
        list(open_source(data).blocks(64, wanted=wanted))
    return str(caught.value)


def test_paths_that_cannot_be_read(tmp_path, monkeypatch):
    assert "no file 'a.csv'" in refusal(tmp_path / "a.csv")
    assert "directory" in refusal(tmp_path)
    (tmp_path / "a.xlsx").write_bytes(b"1")
    assert ".parquet" in refusal(tmp_path / "a.xlsx")
    (tmp_path / "noending").write_bytes(b"1")
    assert ".parquet" in refusal(str(tmp_path / "noending"))
    for name in ("a.csv", "a.parquet", "a.arrow", "a.npy", "a.npz"):
        (tmp_path / name).write_bytes(b"")
        assert "empty" in refusal(tmp_path / name)
    if os.geteuid() == 0:
        pytest.skip("the superuser may read every file")
    (tmp_path / "a.csv").chmod(0)
    assert "permission" in refusal(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n\n", "empty"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n3\n", "2 fields"),
        ("a,b\n1,2\n3,4,5\n", "2 fields"),
        ("a,b\n1,x\n", "number 2 holds text"),
        ("a,b,a\n1,2,3\n", "positions 1, 3"),
        ("39,b\n1,2\n", "line of column names"),
        ('a,b\n1,"2\n3,4\n', "number 2 holds text"),
    ],
)
def test_text_that_cannot_be_read(tmp_path, text, expected):
    (tmp_path / "a.csv").write_text(text)
    assert expected in refusal(tmp_path / "a.csv")


def test_a_column_of_the_schema_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,x\n")
    assert "column 'b' holds text" in refusal(tmp_path / "a.csv", {"b": "number"})


def test_text_must_be_utf8(tmp_path):
    (tmp_path / "a.csv").write_bytes("a,b\n1,Zürich\n".encode("latin-1"))
    assert "UTF-8" in refusal(tmp_path / "a.csv", {"b": "text"})
    (tmp_path / "a.csv").write_bytes("größe,b\n1,2\n".encode("latin-1"))
    assert "UTF-8" in refusal(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_bytes("\ufeffgröße ,b\r\n1,2\r\n".encode())
    assert open_source(tmp_path / "a.csv").columns == ("größe", "b")


@pytest.mark.parametrize("n_rows", [6_000, 6_000_000])
def test_an_unclosed_quotation_mark_does_not_swallow_rows(tmp_path, n_rows):
    (tmp_path / "a.csv").write_text('a,b\n1,"' + "2\n" * n_rows)
    assert "quotation mark" in refusal(tmp_path / "a.csv", {"b": "text"})


def test_missing_columns_are_named_but_those_found_are_not(tmp_path):
    (tmp_path / "a.csv").write_text("Age,secret\n1,2\n")
    message = refusal(tmp_path / "a.csv", {"age": "number", "sex": "text"})
    assert "'age', 'sex'" in message
    assert "secret" not in message
    assert "capitals" in refusal(tmp_path / "a.csv", {"age": "number"})
    assert "'x7'" in refusal(np.eye(3), {"x7": "number"})
    assert "and 5 more" in refusal(np.eye(3), {f"y{i}": "number" for i in range(15)})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (np.arange(3.0), r"(-1, 1)"),
        (np.zeros((2, 2, 2)), "3 dimensions"),
        (np.zeros((0, 2)), "no rows"),
        (np.zeros((2, 0)), "no columns"),
        (np.array([["a"]]), "real numbers"),
        (np.array([[object()]]), "real numbers"),
        (np.eye(2) * 1j, "real numbers"),
        ([1.0, 2.0], "(-1, 1)"),
        ([[1.0], [1.0, 2.0]], "equally long"),
        (3, "type int"),
        (None, "type NoneType"),
        ({"a": [1]}, "type dict"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "cannot be read"),
        (pa.table([[1], [2]], names=["a", "a"]), "cannot be read"),
        (pa.table({}), "no columns"),
        (pl.DataFrame({"a": []}), "no rows"),
        (pa.table({"a": [1]}).slice(1), "no rows"),
    ],
)
def test_objects_that_cannot_be_read(data, expected):
    assert expected in refusal(data)


def test_a_stream_can_be_read_only_once():
    source = open_source(TABLE.to_reader())
    list(source.blocks(9))
    with pytest.raises(DataError, match="only once"):
        list(source.blocks(9))


@pytest.mark.parametrize(
    "name", ["t.csv.gz", "T.CSV.ZST", "t.parquet", "t.arrow", "t.feather", "m.npz", "m.npy"]
)
@pytest.mark.parametrize("keep", [0.1, 0.6, 0.98])
def test_files_cut_short(tmp_path, name, keep):
    path = tmp_path / name
    {**FILES, "m.npz": write_npz, "m.npy": write_npy}[name](path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    assert "cannot be read" in refusal(path)


def test_pickled_objects_are_never_loaded(tmp_path):
    objects = np.array([[{"a": 1}]], dtype=object)
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    assert "cannot be read" in refusal(tmp_path / "a.npy")
    np.savez(tmp_path / "a.npz", X=objects)
    assert "real numbers" in refusal(tmp_path / "a.npz")
    np.savez(tmp_path / "s.npz", format="csr", shape=[1, 1], data=objects[0], indices=[0], indptr=[0, 1])
    assert "real numbers" in refusal(tmp_path / "s.npz")


def test_archives_without_a_single_matrix(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.eye(2), b=np.eye(2))
    assert "Call the one" in refusal(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", a=np.arange(3))
    assert "0 two-dimensional" in refusal(tmp_path / "b.npz")


def test_sparse_archives_with_wrong_places(tmp_path):
    for indices, indptr in (([7], [0, 1]), ([0], [0, 2]), ([0], [1, 0])):
        np.savez(tmp_path / "s.npz", format="csr", shape=[1, 2], data=[1.0], indices=indices, indptr=indptr)
        assert "cannot be read" in refusal(tmp_path / "s.npz")


def test_a_draft_has_the_names_and_types(tmp_path):
    expected = {
        "age": Numeric(),
        "income": Numeric(),
        "place": Categorical(),
        "code": Numeric(),
        "member": Boolean(),
        "w": Numeric(),
    }
    for name, write in FILES.items():
        write(tmp_path / name)
    lazy = [make() for name, make in FRAMES.items() if name != "pandas categories"]
    for data in [*(tmp_path / name for name in FILES), *lazy]:
        columns = dict(draft(open_source(data)).columns)
        assert isinstance(columns.pop("day"), Ignored)
        assert columns == expected


def test_a_draft_is_valid_toml_without_any_value(tmp_path):
    (tmp_path / "a.csv").write_text(",a,b,c,d\n1,SENTINEL_7391,73911937.25,2020-07-31,\n")
    schema = draft(open_source(tmp_path / "a.csv"))
    text = schema.dumps()
    assert Schema.loads(text) == schema
    assert schema.columns["a"] == Categorical()
    assert schema.columns["b"] == Numeric()
    assert {name for name, c in schema.columns.items() if isinstance(c, Ignored)} == {"", "c", "d"}
    assert not any(value in text for value in ("SENTINEL", "7391", "2020-07", "nan,"))
    assert len(schema.problems()) == 2

import gzip
import io
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

from dpcov.data.schema.declared import Boolean, Categorical, Ignored, Numeric, Weights
from dpcov.data.schema.draft import draft
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import open_source
from dpcov.errors import DataError
from tests.data.reading import read_encoded

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


def write_arrow(path, new):
    with new(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=70)


FILES = {
    "t.csv": lambda path: path.write_bytes(csv_bytes()),
    "t.csv.gz": lambda path: path.write_bytes(gzip.compress(csv_bytes())),
    "T.CSV.ZST": lambda path: path.write_bytes(
        pa.Codec("zstd").compress(csv_bytes(), asbytes=True)
    ),
    "t.tsv": lambda path: pa.csv.write_csv(TABLE, path, pa.csv.WriteOptions(delimiter="\t")),
    "t.parquet": lambda path: pa.parquet.write_table(TABLE, path, row_group_size=90),
    "t.arrow": lambda path: write_arrow(path, pa.ipc.new_file),
    "t.ipc": lambda path: write_arrow(path, pa.ipc.new_stream),
    "t.feather": lambda path: pa.feather.write_feather(TABLE, str(path), compression="zstd"),
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


def pandas_objects():
    frame = TABLE.to_pandas()
    return frame.astype(object).where(frame.notna(), None)


FRAMES = {
    "pandas": lambda: TABLE.to_pandas(),
    "pandas index": lambda: TABLE.to_pandas().set_index(np.arange(N_ROWS) * 3),
    "pandas nullable": lambda: TABLE.to_pandas().convert_dtypes(),
    "pandas arrow": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas categories": lambda: TABLE.to_pandas().astype(
        {"place": "category", "code": "category"}
    ),
    "pandas objects": pandas_objects,
    "polars": lambda: pl.from_arrow(TABLE),
    "polars lazy": lambda: pl.from_arrow(TABLE).lazy(),
    "polars categories": lambda: pl.from_arrow(TABLE).with_columns(
        pl.col("place").cast(pl.Categorical)
    ),
    "polars enum": lambda: pl.from_arrow(TABLE).with_columns(
        pl.col("place").cast(pl.Enum(["north", 'the "south"', "east,\nwest", "Ünknown"]))
    ),
    "polars decimals": lambda: pl.from_arrow(TABLE).with_columns(
        pl.col("age").cast(pl.Decimal(10, 2))
    ),
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
    assert (np.vstack(list(read_encoded(source, SCHEMA, 64))) == EXPECTED).all()
    with pytest.raises(DataError, match="only once"):
        list(source.blocks(64))


def test_standard_input_longer_than_its_head(monkeypatch):
    n_rows = 400_000
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n" + b"12,3\n" * n_rows)))
    assert (
        sum(block.column(0).to_numpy().sum() for block in open_source("-").blocks(9999))
        == 12 * n_rows
    )


MATRIX = np.random.default_rng(0).gamma(2.0, 50.0, size=(60, 13)).round(2)
MATRIX[MATRIX < 2] = 0
WINE = Schema(columns={f"x{i}": Numeric(lower=0, upper=150 + i) for i in (5, 0, 7, 12)})


BY_COLUMNS = np.asfortranarray(MATRIX)
MATRICES = {
    "m.npy": lambda path: np.save(path, MATRIX),
    "by_columns.npy": lambda path: np.save(path, BY_COLUMNS),
    "m.npz": lambda path: np.savez_compressed(path, X=MATRIX, other=np.eye(3), y=np.arange(3)),
    "by_columns.npz": lambda path: np.savez(path, matrix=BY_COLUMNS, w=np.zeros((2, 2, 2))),
    "csr.npz": lambda path: scipy.sparse.save_npz(path, scipy.sparse.csr_array(MATRIX)),
    "csc.npz": lambda path: scipy.sparse.save_npz(path, scipy.sparse.csc_matrix(MATRIX)),
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
    {**FILES, **MATRICES}[name](path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(DataError, match="cannot be read"):
        list(open_source(path).blocks(64))


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


def test_what_a_mask_hides_is_missing():
    hidden = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    (block,) = open_source(hidden).blocks(10)
    np.testing.assert_array_equal(block, [[1, np.nan], [3, 4]])

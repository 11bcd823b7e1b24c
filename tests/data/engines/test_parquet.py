"""Workers read Parquet by themselves: every row once, and never a whole row group."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpcov
from dpcov.data.encode import Encoder
from dpcov.data.engines import parquet
from dpcov.data.engines.base import BallEncoding, Failure, MomentsTask, require_columns
from dpcov.data.exact.moments import MomentsSpec
from dpcov.data.sources import open_source
from dpcov.errors import DataError
from tests.data.reading import NAMES, local, rows, write

TASK = MomentsTask(
    encoding=BallEncoding(n_features=3, norm_bound=2.0), spec=MomentsSpec(shells=4, normalized=True)
)


X = rows(900, 3)


def gathered(path):
    files = parquet.open_files(path, "")
    names = require_columns(files.schema.names, TASK)
    merged = TASK.empty()
    for piece in parquet.pieces(files, names):
        merged.merge(parquet.gather_piece(names, TASK, piece))
    return merged


@pytest.mark.parametrize("values", [1, 1000, 10**9])
def test_every_row_group_is_in_one_piece(tmp_path, monkeypatch, values):
    monkeypatch.setattr(parquet, "_PIECE_VALUES", values)
    write(tmp_path / "one.parquet", X[:500])
    write(tmp_path / "two.parquet", X[500:])
    shared = parquet.pieces(parquet.open_files(tmp_path, ""), NAMES)
    held = [(Path(piece.path).stem, group.id) for piece in shared for group in piece.row_groups]
    assert sorted(held) == [("one", 0), ("one", 1), ("one", 2), ("two", 0), ("two", 1)]
    assert len(shared) == {1: 5, 1000: 3, 10**9: 2}[values]
    assert gathered(tmp_path) == local(X)


def test_columns_are_found_by_name_in_every_file(tmp_path):
    write(tmp_path / "one.parquet", X[:500])
    write(tmp_path / "two.parquet", X[500:][:, ::-1], NAMES[::-1])
    assert gathered(tmp_path) == local(X)


@pytest.mark.parametrize(("columns", "kind"), [(NAMES[:2], np.float64), (NAMES, np.float32)])
def test_files_that_say_different_things_of_a_column_are_refused(tmp_path, columns, kind):
    """Of another type, or not at all."""
    write(tmp_path / "one.parquet", X[:500])
    write(tmp_path / "two.parquet", X[500:, : len(columns)].astype(kind), columns)
    files = parquet.open_files(tmp_path, "")
    with pytest.raises(DataError, match="does not have the same type in all files"):
        parquet.pieces(files, NAMES)


@pytest.mark.parametrize(
    ("name", "words"),
    [("_delta_log", "versions"), (".hoodie", "versions"), ("c=7", "query of DuckDB")],
)
def test_a_folder_of_a_versioned_or_partitioned_table_is_refused(tmp_path, name, words):
    write(tmp_path / "one.parquet", X)
    (tmp_path / name).mkdir()
    write(tmp_path / name / "two.parquet", X)
    with pytest.raises(DataError, match=f"{words}.* pass the data frame"):
        parquet.open_files(tmp_path, "")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.parquet", r"no file 'none\.parquet'"),
        ("rows.csv", "give it to the local engine"),
        ("bad.parquet", "'the table' cannot be read"),
    ],
)
def test_what_is_no_parquet_file_is_refused(tmp_path, name, words):
    for place in ("rows.csv", "bad.parquet"):
        (tmp_path / place).write_bytes(b"12345.678" * 9)
    with pytest.raises(DataError, match=words) as refusal:
        parquet.open_files(tmp_path / name, "give it to the local engine")
    assert "12345" not in str(refusal.value)


def test_another_file_in_the_folder_is_named(tmp_path):
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "0.parquet")
    (tmp_path / "readme.txt").write_text("zebra4711")
    with pytest.raises(DataError, match=r"'readme\.txt' .*move it out of the folder") as caught:
        parquet.pieces(parquet.open_files(tmp_path, ""), ["a"])
    assert caught.value.__context__ is None


def test_a_piece_that_cannot_be_read_is_a_failure(tmp_path):
    write(tmp_path / "one.parquet", X)
    (piece,) = parquet.pieces(parquet.open_files(tmp_path, ""), NAMES)
    (tmp_path / "one.parquet").unlink()
    assert isinstance(parquet.gather_piece(NAMES, TASK, piece), Failure)


def test_a_place_outside_of_a_dictionary_is_refused(tmp_path):
    """By workers and by the local engine alike; all rows but the first ones are one run."""
    path, run = tmp_path / "texts.parquet", bytes([0xC0, 0x0F])
    table = pa.table({"a": ["a", "b", "c", *["a"] * 997]})
    pq.write_table(table, path, compression="none", write_statistics=False)
    written = path.read_bytes()
    assert written.count(run + b"\0") == 1
    path.write_bytes(written.replace(run + b"\0", run + b"\3"))
    schema = dpcov.Schema(columns={"a": dpcov.Categorical(categories=["a", "b", "c"])})
    task = MomentsTask(encoding=Encoder(schema), spec=MomentsSpec())
    (piece,) = parquet.pieces(parquet.open_files(path, ""), ["a"])
    assert isinstance(parquet.gather_piece(["a"], task, piece), Failure)
    with pytest.raises(DataError):
        dpcov.release(path, schema=schema, budget=dpcov.Budget(rho=1))


def test_long_texts_are_read_a_few_rows_at_a_time(tmp_path):
    """A dictionary would hold all texts of a row group, and a block all of its rows' texts."""
    texts = pa.array([f"{place:>5000}" for place in range(20_000)])
    table = pa.table({"long": texts, "short": texts.dictionary_encode().indices.cast(pa.string())})
    pq.write_table(table, tmp_path / "t.parquet")
    assert texts.nbytes > 2**26
    seen = []
    for block in open_source(tmp_path / "t.parquet").blocks(
        2**16, wanted={"long": "text", "short": "text"}
    ):
        assert block.nbytes < 2**24
        assert block.column("long").type == pa.string()
        assert pa.types.is_dictionary(block.column("short").type)
        seen += block.column("long").to_pylist()
    assert seen == texts.to_pylist()
    # Alone, short texts have no reason to be read otherwise than in whole blocks.
    (block,) = open_source(tmp_path / "t.parquet").blocks(2**16, wanted={"short": "text"})
    assert len(block) == 20_000

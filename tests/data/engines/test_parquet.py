"""Workers read Parquet by themselves: every row once, columns by their names, and never a whole row group in memory."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpcov
from dpcov.data.engines import BallEncoding, MomentsTask, parquet
from dpcov.data.moments import MomentsSpec
from dpcov.errors import DataError
from tests.data.engines.peak import measured

NAMES = ["a", "b", "c"]
TASK = MomentsTask(encoding=BallEncoding(n_features=3, norm_bound=2.0), spec=MomentsSpec(shells=3))

_PIECES = """
import sys
from dpcov.data.engines import BallEncoding, MomentsTask, parquet
names = [f"x{place}" for place in range(10)]
task = MomentsTask(encoding=BallEncoding(n_features=10, norm_bound=4.0), spec=MomentsSpec())

def gather(path):
    for piece in parquet.pieces(parquet.open_files(path, ""), names):
        assert parquet.gather_piece(names, task, piece).n_rows

def keep(path):
    kept.append(pa.parquet.read_table(path))

kept = []
noise, small, large = float(sys.argv[1]), *sys.argv[2:]
measured["pieces"] = growth(lambda: gather(small), lambda: gather(large), noise)
measured["kept"] = growth(lambda: gather(small), lambda: keep(large))
"""


def rows(n_rows=900):
    return np.random.default_rng(0).normal(size=(n_rows, 3))


def write(path, X, names=NAMES):
    columns = {name: X[:, place] for place, name in enumerate(names)}
    pq.write_table(pa.table(columns), path, row_group_size=200)


def gathered(path):
    files = parquet.open_files(path, "")
    names = parquet.columns_of(files, TASK)
    merged = TASK.empty()
    for piece in parquet.pieces(files, names):
        merged.merge(parquet.gather_piece(names, TASK, piece))
    return merged


def local(X):
    return dpcov.moments(X, norm_bound=2.0, shells=3, engine="local")


@pytest.mark.parametrize("values", [1, 1000, 10**9])
def test_every_row_group_is_in_one_piece(tmp_path, monkeypatch, values):
    monkeypatch.setattr(parquet, "_PIECE_VALUES", values)
    write(tmp_path / "one.parquet", rows()[:500])
    write(tmp_path / "two.parquet", rows()[500:])
    shared = parquet.pieces(parquet.open_files(tmp_path, ""), NAMES)
    held = [(Path(piece.path).stem, group.id) for piece in shared for group in piece.row_groups]
    assert sorted(held) == [("one", 0), ("one", 1), ("one", 2), ("two", 0), ("two", 1)]
    assert len(shared) == {1: 5, 1000: 3, 10**9: 2}[values]
    assert gathered(tmp_path) == local(rows())


def test_columns_are_found_by_name_in_every_file(tmp_path):
    write(tmp_path / "one.parquet", rows()[:500])
    write(tmp_path / "two.parquet", rows()[500:][:, ::-1], NAMES[::-1])
    assert gathered(tmp_path) == local(rows())


def test_what_stands_in_the_names_of_folders_is_a_column(tmp_path):
    for year in (1, 2):
        (tmp_path / f"c={year}").mkdir()
        write(tmp_path / f"c={year}" / "x.parquet", rows()[:100, :2], NAMES[:2])
    halves = [np.column_stack([rows()[:100, :2], np.full(100, year)]) for year in (1.0, 2.0)]
    assert gathered(tmp_path) == local(np.vstack(halves))


def test_a_column_that_one_file_lacks_is_missing_there(tmp_path):
    schema = dpcov.Schema(
        columns={name: dpcov.Numeric(lower=-3, upper=3, missing="indicator") for name in NAMES}
    )
    write(tmp_path / "one.parquet", rows()[:500])
    write(tmp_path / "two.parquet", rows()[500:, :2], NAMES[:2])
    whole = pa.concat_tables(
        [pq.read_table(tmp_path / "one.parquet"), pq.read_table(tmp_path / "two.parquet")],
        promote_options="default",
    )
    from dpcov.data.engines import TableEncoding, local

    task = MomentsTask(encoding=TableEncoding(schema=schema), spec=MomentsSpec())
    files = parquet.open_files(tmp_path, "")
    merged = task.empty()
    for piece in parquet.pieces(files, NAMES):
        merged.merge(parquet.gather_piece(NAMES, task, piece))
    assert merged == local.moments(whole, task)


@pytest.mark.parametrize("name", ["_delta_log", ".hoodie"])
def test_a_folder_of_a_versioned_table_is_refused(tmp_path, name):
    write(tmp_path / "one.parquet", rows())
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match="pass the data frame"):
        parquet.open_files(tmp_path, "")


@pytest.mark.skipif(
    sys.platform != "linux" or not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc"
)
def test_memory_does_not_grow_with_the_rows_of_a_row_group(tmp_path):
    small, large = 160_000, 760_000
    extra = 8 * 10 * (large - small)
    few = np.random.default_rng(0).uniform(-1, 1, (100, 10))
    for n_rows in (small, large):
        table = pa.table({f"x{place}": np.tile(few[:, place], n_rows // 100) for place in range(10)})
        pq.write_table(table, tmp_path / f"{n_rows}.parquet", row_group_size=n_rows, use_dictionary=False)
    paths = [str(tmp_path / f"{n_rows}.parquet") for n_rows in (small, large)]
    found = measured(_PIECES, str(0.7 * extra), *paths)
    assert found["pieces"] < 0.7 * extra < found["kept"]

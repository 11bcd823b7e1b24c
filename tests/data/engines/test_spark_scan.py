"""Files are read past Spark only where they are exactly what the data frame holds."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpcov

pytest.importorskip("pyspark", reason="the spark engine needs pyspark: pip install 'dpcov[spark]'")

from dpcov.data.engines import parquet
from dpcov.data.engines import spark as engine
from dpcov.data.engines.spark import refuse_guessed_types, scanned_files
from dpcov.errors import DataError

NAMES = ["a", "b", "c"]


def rows(n_rows=900, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, 3))


def write(path, X, names=NAMES):
    columns = {name: X[:, place] for place, name in enumerate(names)}
    pq.write_table(pa.table(columns), path, row_group_size=200)


@pytest.fixture
def folder(tmp_path):
    """Two files; their names would mean something else in an address or a pattern."""
    place = tmp_path / "a folder"
    place.mkdir()
    write(place / "one%20[1].parquet", rows()[:500])
    write(place / "two.parquet", rows()[500:])
    return place


@pytest.fixture
def through_spark(monkeypatch):
    """Which way each call went."""
    told = []
    for name in ("_of_batches", "_of_files"):
        kept = getattr(engine, name)
        monkeypatch.setattr(
            engine, name, lambda *args, n=name, f=kept: told.append(n == "_of_batches") or f(*args)
        )
    return told


def gathered(data, **options):
    return dpcov.moments(data, norm_bound=2.0, shells=3, **options)


def local(X):
    return gathered(X, engine="local")


def test_a_frame_that_is_its_files_is_read_from_them(session, folder, through_spark, monkeypatch):
    monkeypatch.setattr(parquet, "_PIECE_VALUES", 600)
    frame = session.read.parquet(str(folder))
    frame.createOrReplaceTempView("files")
    assert all(scanned_files(same, NAMES) for same in (frame.select("*"), session.table("files")))
    assert gathered(frame) == gathered(folder, engine="spark") == local(rows())
    assert through_spark == [False] * 2


def other_frames(session, folder):
    """Frames over the same files that hold other rows or columns, or may do so."""
    frame, path = session.read.parquet(str(folder)), str(folder)
    one = str(folder / "two.parquet")
    yield "a filter", frame.where("a > 0"), rows()[rows()[:, 0] > 0]
    yield "columns exchanged", frame.selectExpr("b AS a", "a AS b", "c"), rows()[:, [1, 0, 2]]
    yield "a limit", frame.limit(7), None
    yield "a computed column", frame.selectExpr("a", "2 * b AS b", "c"), None
    yield "fewer columns", frame.select("a", "b"), None
    yield "a cache", session.read.parquet(one).cache(), None
    yield "a union", frame.union(frame), None
    yield "the same file twice", session.read.parquet(one, one), None
    yield "another type", session.read.schema("a double, b double, z float").parquet(path), None


def test_other_frames_over_the_same_files_go_through_spark(session, folder, through_spark):
    for what, frame, expected in other_frames(session, folder):
        assert scanned_files(frame, frame.columns) is None, what
        if expected is not None:
            assert gathered(frame) == local(expected), what
    assert set(through_spark) == {True}


def test_columns_come_in_the_order_of_the_frame(session, folder, through_spark):
    frame = session.read.schema("c double, a double").parquet(str(folder))
    assert gathered(frame) == local(rows()[:, [2, 0]])
    assert through_spark == [False]


def test_partitioned_folders_go_through_spark(session, tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        write(tmp_path / f"year={year}" / "x.parquet", rows(50, year))
    with pytest.raises(DataError, match="guessed types from the names of folders"):
        gathered(session.read.parquet(str(tmp_path)))
    session.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    try:
        frame = session.read.parquet(str(tmp_path))
    finally:
        session.conf.unset("spark.sql.sources.partitionColumnTypeInference.enabled")
    assert scanned_files(frame, NAMES) is None
    years = np.repeat([2023.0, 2024.0], 50)[:, None]
    expected = local(np.hstack([np.vstack([rows(50, 2023), rows(50, 2024)]), years]))
    assert gathered(frame) == gathered(tmp_path, engine="spark") == expected


def test_types_that_spark_guesses_from_rows_are_refused(session, tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    session.range(3).write.json(str(tmp_path / "j"))
    guessed = session.read.csv(str(tmp_path / "x.csv"), header=True, inferSchema=True)
    for frame in (guessed.where("a > 0"), session.read.json(str(tmp_path / "j"))):
        with pytest.raises(DataError, match="guessed types from the rows"):
            refuse_guessed_types(frame)
    refuse_guessed_types(session.read.csv(str(tmp_path / "x.csv"), header=True))
    refuse_guessed_types(session.range(3))


def test_settings_and_other_types_leave_it_to_spark(session, folder):
    frame = session.read.parquet(str(folder))
    for name in ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles"):
        assert scanned_files(frame, NAMES) is not None
        session.conf.set(name, "true")
        try:
            assert scanned_files(frame, NAMES) is None
        finally:
            session.conf.unset(name)
    write(folder / "two.parquet", rows()[500:].astype(np.float32))
    assert scanned_files(frame, NAMES) is None
    assert scanned_files(session.read.parquet(str(folder / "one*.parquet")), NAMES) is not None


def test_a_reader_that_failed_after_its_last_row_and_ran_again_counts_once(
    session, folder, tmp_path, monkeypatch
):
    runs = tmp_path / "runs"
    runs.mkdir()

    def fail_once(*args):
        from pyspark import TaskContext

        context = TaskContext.get()
        made = parquet.gather_piece(*args)
        (runs / f"{context.partitionId()}-{context.attemptNumber()}").write_text(str(made.n_rows))
        if context.attemptNumber() == 0:
            raise OSError("lost")
        return made

    monkeypatch.setattr(engine, "gather_piece", fail_once)
    assert gathered(folder, engine="spark") == local(rows())
    assert sorted(path.name for path in runs.iterdir()) == ["0-0", "0-1", "1-0", "1-1"]
    assert sum(int(path.read_text()) for path in runs.iterdir()) == 2 * len(rows())

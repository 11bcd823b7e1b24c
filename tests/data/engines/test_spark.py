"""Spark gives the integers of the local engine, also when tasks fail and run again.

Files are read past Spark only where they are exactly what the data frame holds.
"""

import traceback
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpcov
from dpcov.data.exact.moments import MomentsSpec
from dpcov.errors import DataError, UsageError
from tests.data.reading import NAMES, gathered, local, rows, table_moments, write

pytest.importorskip("pyspark", reason="the spark engine needs pyspark: pip install 'dpcov[spark]'")

from dpcov.data.engines import parquet
from dpcov.data.engines import spark as engine
from dpcov.data.engines.spark import scanned_files
from dpcov.data.engines.spark_guesses import refuse_guessed_types

SPEC = {"shells": 4, "normalized": True}
SECRET = "SECRET-4711"
SCHEMA = dpcov.Schema(
    columns={
        "a.size": dpcov.Numeric(lower=0, upper=10),
        "dose": dpcov.Numeric(lower=0, upper=2),
        "count": dpcov.Numeric(lower=0, upper=9),
        "Smoker": dpcov.Boolean(),
        "kind": dpcov.Categorical(categories=("a", "b")),
        "note": dpcov.Ignored(note="free text"),
    }
)


X3, X4 = rows(900, 3), rows(1200, 4)


def matrix_table(X):
    return pa.table({f"x{index}": column for index, column in enumerate(X.T)})


def table(n_rows=500, seed=0):
    """Doubles, decimals, whole numbers, truth values and texts, each with nulls."""
    random = np.random.default_rng(seed)

    def column(cells, kind=None):
        return pa.array(cells, kind, mask=random.uniform(size=n_rows) < 0.1)

    doses = [Decimal(int(v)).scaleb(-3) for v in random.integers(-100, 2100, n_rows)]
    return pa.table(
        {
            "note": ["x"] * n_rows,
            "kind": column(random.choice(["a", "b", "c"], n_rows)),
            "a.size": column(random.uniform(-1, 11, n_rows)),
            "dose": pa.array(doses[:-9] + [None] * 9, pa.decimal128(12, 3)),
            "count": column(random.integers(0, 12, n_rows), pa.int32()),
            "Smoker": column(random.uniform(size=n_rows) < 0.4),
        }
    )


def test_nulls_decimals_truth_values_and_texts_mean_the_same_as_in_a_file(session):
    whole, told = table(), []
    frame = session.createDataFrame(whole).repartition(5)
    made = table_moments(frame, SCHEMA, MomentsSpec(**SPEC), progress=told.append)
    assert made == table_moments(whole, SCHEMA, MomentsSpec(**SPEC))
    assert sum(told) == 500


def test_a_table_name_a_path_and_groups(session, tmp_path):
    whole = table()
    pq.write_table(whole, tmp_path / "t.parquet")
    expected = table_moments(whole, SCHEMA, MomentsSpec())
    session.createDataFrame(whole).createOrReplaceTempView("people")
    for data in ("people", tmp_path / "t.parquet", str(tmp_path / "t.parquet")):
        assert table_moments(data, SCHEMA, MomentsSpec(), engine="spark") == expected
    made = dpcov.release(
        "people", schema=SCHEMA, budget=dpcov.Budget(rho=1), by="kind", engine="spark"
    )
    assert {"a", "b"} <= set(made.manifest.groups)


def test_a_skewed_table_with_empty_partitions_gives_equal_moments(session):
    lengths = [0, 1, 1100, 0, 0, 99, 0]
    ends = np.cumsum(lengths).tolist()
    parts = list(zip([0, *ends], ends, strict=False))
    context = session.sparkContext.parallelize(parts, len(parts))
    skewed = context.flatMap(lambda part: [tuple(map(float, row)) for row in X4[part[0] : part[1]]])
    frame = session.createDataFrame(skewed, "x0 double, x1 double, x2 double, x3 double")
    assert frame.rdd.glom().map(len).collect() == lengths
    made = gathered(frame)
    assert made == local(X4)
    made.merge(local(X4))
    assert made.n_rows == 2400


def flaky(folder):
    """Batches as they are, counted; the first attempt at a partition fails after its last row."""

    def fail_once(batches):
        from pathlib import Path

        from pyspark import TaskContext

        context, seen = TaskContext.get(), 0
        for batch in batches:
            seen += batch.num_rows
            yield batch
        (Path(folder) / f"{context.partitionId()}-{context.attemptNumber()}").write_text(str(seen))
        if context.attemptNumber() == 0:
            raise OSError("lost")

    return fail_once


def test_a_task_that_failed_after_its_last_row_and_ran_again_counts_once(session, tmp_path):
    frame = session.createDataFrame(matrix_table(X4)).repartition(2)
    failing = frame.mapInArrow(flaky(str(tmp_path)), frame.schema)
    assert gathered(failing) == local(X4)
    attempts = {path.name: int(path.read_text()) for path in tmp_path.iterdir()}
    assert sorted(attempts) == ["0-0", "0-1", "1-0", "1-1"]
    assert sum(attempts.values()) == 2 * len(X4)  # what a shared counter would have told


def test_no_value_of_a_row_is_told_and_the_task_is_not_tried_again(session, tmp_path):
    whole = table(60)
    whole = whole.set_column(whole.column_names.index("a.size"), "a.size", pa.array([SECRET] * 60))
    frame = session.createDataFrame(whole).repartition(2)
    with pytest.raises(DataError, match=r"'a\.size' holds text") as refusal:
        table_moments(frame, SCHEMA, MomentsSpec())
    assert SECRET not in "".join(traceback.format_exception(refusal.value))


def test_an_error_on_the_way_to_the_table_is_sealed(session):
    def stumble(batches):
        raise ValueError(SECRET)
        yield from batches

    frame = session.createDataFrame(matrix_table(X4[:50])).coalesce(1)
    with pytest.raises(DataError, match="Spark gave up") as refusal:
        dpcov.moments(frame.mapInArrow(stumble, frame.schema), norm_bound=1.0)
    assert SECRET not in "".join(traceback.format_exception(refusal.value))


def test_no_rows_and_missing_columns_are_refused(session):
    empty = session.range(0).selectExpr("id / 2 AS x0", "id / 3 AS x1")
    with pytest.raises(DataError, match="no rows"):
        dpcov.moments(empty, norm_bound=1.0)
    with pytest.raises(DataError, match="'kind'"):
        table_moments(
            session.createDataFrame(table().drop_columns(["kind"])), SCHEMA, MomentsSpec()
        )
    with pytest.raises(DataError, match="Spark gave up"):
        dpcov.moments("absent_table", norm_bound=1.0, engine="spark")
    with pytest.raises(DataError, match="takes a data frame"):
        dpcov.moments(7, norm_bound=1.0, engine="spark")


def test_what_spark_cannot_move_as_one_value_is_refused_first(session, monkeypatch):
    monkeypatch.setattr(engine, "_LARGEST_VALUE", 100)
    with pytest.raises(UsageError, match="2 GiB"):
        dpcov.moments(session.createDataFrame(matrix_table(X4[:5])), norm_bound=1.0)


@pytest.fixture
def folder(tmp_path):
    """Two files; their names would mean something else in an address or a pattern."""
    place = tmp_path / "a folder"
    place.mkdir()
    write(place / "one%20[1].parquet", X3[:500])
    write(place / "two.parquet", X3[500:])
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


def test_a_frame_that_is_its_files_is_read_from_them(session, folder, through_spark, monkeypatch):
    monkeypatch.setattr(parquet, "_PIECE_VALUES", 600)
    frame = session.read.parquet(str(folder))
    frame.createOrReplaceTempView("files")
    assert all(scanned_files(same, NAMES) for same in (frame.select("*"), session.table("files")))
    assert gathered(frame) == gathered(folder, engine="spark") == local(X3)
    assert through_spark == [False] * 2


def other_frames(session, folder):
    """Frames over the same files that hold other rows or columns, or may do so."""
    frame, path = session.read.parquet(str(folder)), str(folder)
    one = str(folder / "two.parquet")
    yield "a filter", frame.where("a > 0"), X3[X3[:, 0] > 0]
    yield "columns exchanged", frame.selectExpr("b AS a", "a AS b", "c"), X3[:, [1, 0, 2]]
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
    assert gathered(frame) == local(X3[:, [2, 0]])
    assert through_spark == [False]


def test_partitioned_folders_go_through_spark(session, tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        write(tmp_path / f"year={year}" / "x.parquet", X3[:50] / (year - 2020))
    with pytest.raises(DataError, match="guessed types from the names of folders"):
        gathered(session.read.parquet(str(tmp_path)))
    session.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    try:
        frame = session.read.parquet(str(tmp_path))
    finally:
        session.conf.unset("spark.sql.sources.partitionColumnTypeInference.enabled")
    assert scanned_files(frame, NAMES) is None
    years = np.repeat([2023.0, 2024.0], 50)[:, None]
    expected = local(np.hstack([np.vstack([X3[:50] / 3, X3[:50] / 4]), years]))
    assert gathered(frame) == expected
    with pytest.raises(DataError, match="pass the data frame"):
        gathered(tmp_path, engine="spark")


@pytest.fixture(params=["", "parquet,csv,json,orc,text"])
def session_of_files(session, request):
    """Files as tables of Spark's newer interface, or as relations of the older one."""
    setting = "spark.sql.sources.useV1SourceList"
    session.conf.set(setting, request.param)
    yield session
    session.conf.unset(setting)


def test_types_that_spark_guesses_from_rows_are_refused(session_of_files, tmp_path):
    session, csv = session_of_files, str(tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    (tmp_path / "x.xml").write_text("<rows><row><a>1</a></row></rows>")
    session.range(3).write.json(str(tmp_path / "j"))
    guessed = session.read.csv(csv, header=True, inferSchema=True)
    guessed.createOrReplaceTempView("guessed")
    xml = session.read.format("xml").option("rowTag", "row").load(str(tmp_path / "x.xml"))
    joined = session.sql("WITH g AS (SELECT a FROM guessed) SELECT x.a FROM g x JOIN g y USING (a)")
    hidden = session.sql("SELECT id FROM range(3) WHERE id IN (SELECT a FROM guessed)")
    cached = session.read.csv(csv, header=True, inferSchema=True).cache()
    for frame in (
        *(guessed.where("a > 0"), session.table("guessed"), joined, hidden, cached, xml),
        *(session.read.json(str(tmp_path / "j")), session.range(3).union(guessed.select("a"))),
    ):
        with pytest.raises(DataError, match="guessed types from the rows"):
            refuse_guessed_types(frame)


def test_types_that_somebody_declared_are_taken(session_of_files, tmp_path):
    session, csv = session_of_files, str(tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    for kind in ("parquet", "orc"):
        session.range(3).write.format(kind).save(str(tmp_path / kind))
    session.read.parquet(str(tmp_path / "parquet")).createOrReplaceTempView("typed")
    with_ctes = "WITH g AS (SELECT id FROM typed) SELECT x.id FROM g x JOIN g y USING (id)"
    if session.version >= "4.1":
        again = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 4) FROM r"
        refuse_guessed_types(session.sql(again))
    for frame in (
        *(session.read.csv(csv, header=True), session.read.schema("a INT, b INT").csv(csv)),
        *(session.read.orc(str(tmp_path / "orc")), session.table("typed"), session.sql(with_ctes)),
        *(session.range(3), session.sql("SELECT 1 AS a"), session.createDataFrame([(1,)], "a INT")),
        session.createDataFrame(session.sparkContext.parallelize([(1,)]), "a INT"),
        session.range(3).localCheckpoint(),
    ):
        refuse_guessed_types(frame)


def test_settings_and_other_types_leave_it_to_spark(session, folder):
    frame = session.read.parquet(str(folder))
    for name in ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles"):
        assert scanned_files(frame, NAMES) is not None
        session.conf.set(name, "true")
        try:
            assert scanned_files(frame, NAMES) is None
        finally:
            session.conf.unset(name)
    write(folder / "two.parquet", X3[500:].astype(np.float32))
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
    assert gathered(folder, engine="spark") == local(X3)
    assert sorted(path.name for path in runs.iterdir()) == ["0-0", "0-1", "1-0", "1-1"]
    assert sum(int(path.read_text()) for path in runs.iterdir()) == 2 * len(X3)


def test_the_day_of_an_instant_is_that_of_utc_whatever_the_session_says(session, tmp_path):
    moments = ["2020-01-01T02:00", "1969-12-31T23:30", "2020-06-30T23:59"]
    kind = pa.timestamp("us", "UTC")
    cells = pa.array(np.array(moments, dtype="datetime64[us]").astype(np.int64)).cast(kind)
    pq.write_table(pa.table({"seen": cells}), tmp_path / "x.parquet")
    column = dpcov.Date(as_="days", reference="2020-01-01", lower=-30000, upper=300)
    schema, spec = dpcov.Schema(columns={"seen": column}), MomentsSpec(shells=4)
    expected = table_moments(str(tmp_path / "x.parquet"), schema, spec)
    before = session.conf.get("spark.sql.session.timeZone")
    try:
        for zone in ("America/New_York", "Asia/Tokyo"):
            session.conf.set("spark.sql.session.timeZone", zone)
            # A further step, after which the rows are no longer those of files.
            frame = session.read.parquet(str(tmp_path / "x.parquet")).limit(3)
            assert table_moments(frame, schema, spec) == expected
    finally:
        session.conf.set("spark.sql.session.timeZone", before)

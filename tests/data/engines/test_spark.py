"""Spark gives the integers of the local engine, also when tasks fail and run again."""

import traceback
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpcov
from dpcov.data.gather import table_moments
from dpcov.data.moments import MomentsSpec
from dpcov.errors import DataError, UsageError

pytest.importorskip("pyspark", reason="the spark engine needs pyspark: pip install 'dpcov[spark]'")

from dpcov.data.engines import spark as engine

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


def rows(n_rows=1200, n_features=4, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(n_rows, n_features)) * 2.0 ** -random.integers(
        0, 6, size=(n_rows, 1)
    )


def matrix_table(X):
    return pa.table({f"x{index}": column for index, column in enumerate(X.T)})


def table(n_rows=500, seed=0):
    """Doubles, decimals, whole numbers, truth values and texts, each with nulls."""
    random = np.random.default_rng(seed)

    def sparse(values):
        return [
            None if missing else value
            for value, missing in zip(values, random.uniform(size=n_rows) < 0.1, strict=True)
        ]

    return pa.table(
        {
            "note": ["x"] * n_rows,
            "kind": sparse(random.choice(["a", "b", "c"], n_rows).tolist()),
            "a.size": sparse(random.uniform(-1, 11, n_rows).tolist()),
            "dose": pa.array(
                sparse([Decimal(int(v)).scaleb(-3) for v in random.integers(-100, 2100, n_rows)]),
                type=pa.decimal128(12, 3),
            ),
            "count": pa.array(sparse(random.integers(0, 12, n_rows).tolist()), type=pa.int32()),
            "Smoker": sparse((random.uniform(size=n_rows) < 0.4).tolist()),
        }
    )


def local(X, **spec):
    return dpcov.moments(X, norm_bound=2.0, engine="local", **spec)


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
    X = rows()
    lengths = [0, 1, 1100, 0, 0, 99, 0]
    ends = np.cumsum(lengths).tolist()
    parts = list(zip([0, *ends], ends, strict=False))
    context = session.sparkContext.parallelize(parts, len(parts))
    skewed = context.flatMap(lambda part: [tuple(map(float, row)) for row in X[part[0] : part[1]]])
    frame = session.createDataFrame(skewed, "x0 double, x1 double, x2 double, x3 double")
    assert frame.rdd.glom().map(len).collect() == lengths
    made = dpcov.moments(frame, norm_bound=2.0, **SPEC)
    assert made == local(X, **SPEC)
    made.merge(made)
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
    X = rows()
    frame = session.createDataFrame(matrix_table(X)).repartition(2)
    failing = frame.mapInArrow(flaky(str(tmp_path)), frame.schema)
    assert dpcov.moments(failing, norm_bound=2.0, **SPEC) == local(X, **SPEC)
    attempts = {path.name: int(path.read_text()) for path in tmp_path.iterdir()}
    assert sorted(attempts) == ["0-0", "0-1", "1-0", "1-1"]
    assert sum(attempts.values()) == 2 * len(X)  # what a shared counter would have told


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

    frame = session.createDataFrame(matrix_table(rows(50))).coalesce(1)
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
        dpcov.moments(session.createDataFrame(matrix_table(rows(5))), norm_bound=1.0)

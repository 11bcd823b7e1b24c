"""Dask gives the integers of the local engine, also when a worker is killed."""

import os
import signal
import traceback

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpcov
from dpcov.data.exact.moments import MomentsSpec
from dpcov.errors import DataError, DpcovError, UsageError
from tests.data.reading import gathered, local, rows, table_moments

dask = pytest.importorskip("dask", reason="the dask engine needs dask: pip install 'dpcov[dask]'")
distributed = pytest.importorskip("distributed")
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402

SPEC = MomentsSpec(shells=4, normalized=True)
SECRET = "SECRET-4711"
SCHEMA = dpcov.Schema(
    columns={
        "size": dpcov.Numeric(lower=0, upper=10),
        "smoker": dpcov.Boolean(),
        "kind": dpcov.Categorical(categories=("a", "b")),
        "note": dpcov.Ignored(note="free text"),
    }
)


def table(n_rows=600, seed=0):
    random = np.random.default_rng(seed)
    size = random.uniform(-1, 11, n_rows)
    size[::7] = np.nan
    kind = random.choice(np.array(["a", "b", "c", None], dtype=object), n_rows)
    smoker = random.uniform(size=n_rows) < 0.3
    return pd.DataFrame({"note": "x", "kind": kind, "smoker": smoker, "size": size})


@pytest.fixture(scope="module")
def client():
    """Two worker processes of one thread each."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def no_client():
    with dask.config.set(scheduler="threads"):
        yield


def joined(parts, rows_each, columns):
    """Delayed chunks as one array."""
    chunks = [da.from_delayed(part, (rows_each, columns), dtype=np.float64) for part in parts]
    return da.concatenate(chunks)


@pytest.mark.usefixtures("no_client")
class TestOnThreads:
    @pytest.mark.parametrize("chunks", [(2000, 5), (300, 2), (1, 5), ((0, 1500, 0, 500), (1, 4))])
    def test_an_array_in_any_chunks_gives_equal_moments(self, chunks):
        X = rows(2000 if chunks != (1, 5) else 40, 5)
        assert gathered(da.from_array(X, chunks=chunks)) == local(X)

    def test_chunks_of_unknown_length_and_empty_ones_are_taken(self):
        X = rows(2000, 5)
        kept = da.from_array(X, chunks=(250, 5))
        kept = kept[kept[:, 0] > 0.5]
        assert np.isnan(kept.shape[0])
        assert gathered(kept) == local(X[X[:, 0] > 0.5])

    def test_empty_partitions_count_nothing(self):
        whole = table().sort_values("size", ignore_index=True)
        kept = dd.from_pandas(whole, npartitions=6).query("size > 9")
        lengths = [len(part) for part in dask.compute(*kept.to_delayed())]
        assert lengths[0] == 0 < sum(lengths)
        expected = table_moments(whole[whole["size"] > 9], SCHEMA, SPEC)
        assert table_moments(kept, SCHEMA, SPEC) == expected

    def test_parquet_is_read_by_dask_or_by_the_workers_themselves(self, tmp_path):
        whole = pa.Table.from_pandas(table(), preserve_index=False)
        for index in range(3):
            pq.write_table(
                whole.slice(200 * index, 200), tmp_path / f"{index}.parquet", row_group_size=90
            )
        expected = table_moments(whole, SCHEMA, SPEC)
        for data in (tmp_path, dd.read_parquet(tmp_path)):
            assert table_moments(data, SCHEMA, SPEC, engine="dask") == expected
        first = table_moments(tmp_path / "0.parquet", SCHEMA, SPEC, engine="dask")
        assert first.n_rows == 200

    def test_a_partition_has_the_types_that_the_frame_declares(self):
        """Types that pandas infers follow from the other rows of a partition."""
        schema = dpcov.Schema(columns={"n": dpcov.Categorical(categories=("1", "1.5"))})
        cells = [pd.DataFrame({"n": [1, 1]}), pd.DataFrame({"n": [1.5, 1.0]})]

        def made(parts, kind):
            with dask.config.set({"dataframe.convert-string": False}):
                delayed = [dask.delayed(part) for part in parts]
                return dd.from_delayed(delayed, meta={"n": kind}, verify_meta=False)

        categories = [part.astype("category") for part in cells]
        for parts, kind in ((cells, "int64"), (cells, "object"), (categories, "category")):
            with pytest.raises(DataError, match="'n' has another type in a partition"):
                table_moments(made(parts, kind), schema, SPEC)
        whole = pd.DataFrame({"n": pd.Series([1, 1, 1.5, 1.0], dtype=object)})
        objects = made([part.astype(object) for part in cells], "object")
        assert table_moments(objects, schema, SPEC) == table_moments(whole, schema, SPEC)
        texts = [pd.DataFrame({"n": ["1", None]}), pd.DataFrame({"n": ["1.5", "1"]})]
        whole = pd.DataFrame({"n": pd.Series(["1", None, "1.5", "1"], dtype=object)})
        for kind in ("object", "category"):
            parts = [part.astype(kind if kind == "category" else part.n.dtype) for part in texts]
            assert table_moments(made(parts, kind), schema, SPEC) == table_moments(
                whole, schema, SPEC
            )

    def test_parquet_with_missing_whole_numbers_needs_types_that_hold_them(self, tmp_path):
        schema = dpcov.Schema(columns={"n": dpcov.Numeric(lower=0, upper=9, missing="indicator")})
        whole = pa.table({"n": pa.array([1, 2, 3, None])})
        for index in range(2):
            pq.write_table(whole.slice(2 * index, 2), tmp_path / f"{index}.parquet")
        with pytest.raises(DataError, match=r'dtype_backend="pyarrow"'):
            table_moments(dd.read_parquet(tmp_path), schema, SPEC)
        cured = dd.read_parquet(tmp_path, dtype_backend="pyarrow")
        assert table_moments(cured, schema, SPEC) == table_moments(whole, schema, SPEC)

    def test_a_chunk_has_the_type_that_the_array_declares(self):
        """A missing code is rounded as the type of the cells is."""
        coded = dpcov.Numeric(lower=0, upper=1000, missing_codes=[99.9])
        schema = dpcov.Schema(columns={"x0": coded})

        def made(chunk):
            return da.from_delayed(dask.delayed(chunk), shape=chunk.shape, dtype=float)

        X = np.array([[99.9], [5.0]])
        assert table_moments(made(X), schema, SPEC) == table_moments(X, schema, SPEC)
        with pytest.raises(DataError, match="A chunk has another type"):
            table_moments(made(X.astype("float32")), schema, SPEC)

    def test_a_release_takes_groups_and_a_recognized_frame(self):
        frame = dd.from_pandas(table(), npartitions=4)
        made = dpcov.release(frame, schema=SCHEMA, budget=dpcov.Budget(rho=1), by="kind")
        assert {"a", "b"} <= set(made.manifest.groups)

    @pytest.mark.parametrize(
        "data",
        [
            da.zeros(5),
            da.zeros((4, 4, 4)),
            [dask.delayed(np.zeros)((3, 2))],
            7,
            dd.from_pandas(pd.Series([1.0]), npartitions=1),
        ],
    )
    def test_what_is_no_table_is_refused(self, data):
        with pytest.raises(DataError, match=r"from_delayed|rows and columns"):
            dpcov.moments(data, norm_bound=1.0, engine="dask")

    def test_missing_columns_are_refused_before_a_partition_is_made(self):
        made = []
        size = table()[["size"]]
        frame = dd.from_map(lambda _: made.append(1) or size, [0], meta=size[:0])
        with pytest.raises(DataError, match="'smoker', 'kind'"):
            table_moments(frame, SCHEMA, SPEC)
        assert not made

    def test_no_rows_and_what_cannot_fit_are_refused(self):
        with pytest.raises(DataError, match="no rows"):
            gathered(da.zeros((0, 3), chunks=2))
        with pytest.raises(UsageError, match="GiB"):
            gathered(da.zeros((10, 9000), chunks=5), memory_limit=0.5)


class TestOnTwoProcesses:
    def test_arrays_and_frames_on_two_processes_give_equal_moments(self, client):
        X, whole = rows(2000, 5), table()
        assert gathered(da.from_array(X, chunks=(100, 2))) == local(X)
        frame = dd.from_pandas(whole, npartitions=5)
        told = []
        made = table_moments(frame, SCHEMA, SPEC, progress=told.append)
        assert made == table_moments(whole, SCHEMA, SPEC)
        assert told == [len(whole)]
        # Arrays from another process are read-only; these are not.
        made.merge(table_moments(whole, SCHEMA, SPEC))
        assert made.n_rows == 2 * len(whole)

    def test_no_value_of_a_row_leaves_a_worker(self, client):
        whole = table()
        whole["size"] = [SECRET] * len(whole)
        frame = dd.from_pandas(whole, npartitions=5)
        with pytest.raises(DpcovError) as refusal:
            table_moments(frame, SCHEMA, SPEC)
        told = "".join(traceback.format_exception(refusal.value))
        logs = [line for lines in client.get_worker_logs().values() for line in lines]
        assert "'size' holds text" in str(refusal.value)
        assert SECRET not in told + str(logs) + str(client.get_scheduler_logs())
        assert "merge_or_raise" in str(logs)

    def test_an_error_on_the_way_to_a_partition_is_sealed(self, client):
        def stumble():
            raise ValueError(SECRET)

        made = [dask.delayed(np.zeros)((3, 2)), dask.delayed(stumble, pure=False)()]
        parts = joined(made, 3, 2)
        with pytest.raises(DataError, match="ValueError") as refusal:
            dpcov.moments(parts, norm_bound=1.0)
        assert SECRET not in str(refusal.value)
        assert refusal.value.__cause__ is None and refusal.value.__context__ is None

    @pytest.mark.timeout(240)
    def test_a_killed_worker_changes_nothing(self, client, tmp_path):
        """A process kills itself while it makes a partition, after others are done."""
        X, runs, dead = rows(4000, 5), tmp_path / "runs", tmp_path / "dead"
        runs.mkdir()

        def part(start):
            import uuid

            (runs / uuid.uuid4().hex).touch()
            if len(list(runs.iterdir())) > 12 and not dead.exists():
                dead.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return X[start : start + 200]

        parts = [dask.delayed(part, pure=False)(start) for start in range(0, 4000, 200)]
        made = gathered(joined(parts, 200, 5))
        assert made == local(X)
        assert dead.exists()
        assert len(list(runs.iterdir())) > len(parts)


def test_partitions_keep_the_names_that_they_have():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)))
    schema = dpcov.Schema(columns={str(k): dpcov.Numeric(lower=-5, upper=5) for k in range(3)})
    kept = dask.dataframe.from_pandas(frame, npartitions=2).persist()
    delayed = dask.dataframe.from_delayed([dask.delayed(frame)], meta=frame.iloc[:0])
    for table in (kept, delayed):
        dpcov.release(table, schema=schema, budget=dpcov.Budget(rho=1))
        assert list(table.compute().columns) == [0, 1, 2]
    assert list(frame.columns) == [0, 1, 2]


@pytest.mark.usefixtures("no_client")
def test_an_array_of_chunks_of_unknown_length_is_released_all_the_same():
    frame = dd.from_pandas(pd.DataFrame({"x0": np.linspace(0, 1, 300)}), npartitions=2)
    schema = dpcov.Schema(columns={"x0": dpcov.Numeric(lower=0, upper=1)})
    made = dpcov.release(frame.to_dask_array(), schema=schema, budget=dpcov.Budget(rho=1))
    assert made.manifest.n_rows == 300


@pytest.mark.usefixtures("no_client")
def test_a_file_whose_footer_is_damaged_is_named(tmp_path):
    table().to_parquet(tmp_path / "all.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "all.parquet").read_bytes()[:-9])
    with pytest.raises(DataError, match=r"'cut\.parquet' cannot be read: it is no whole Parquet"):
        dpcov.release(tmp_path, schema=SCHEMA, budget=dpcov.Budget(rho=1), engine="dask")

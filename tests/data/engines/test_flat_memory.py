"""Peak memory does not grow with the number of rows, whatever the rows come from."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from tests.data.engines.peak import measured

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc"
)

FEATURES = 10
SMALL, LARGE = 60_000, 600_000
EXTRA = 8 * FEATURES * (LARGE - SMALL)
"""Bytes of the rows that the large table has more: 43 MB."""

_NAMES = [f"x{place}" for place in range(FEATURES)]

_FILES = """
import sys
schema = dpcov.Schema(columns={f"x{place}": dpcov.Numeric(lower=-1, upper=1) for place in range(10)})

def gather(data):
    table_moments(data, schema, MomentsSpec(shells=3), threads=2)

folder, *endings = sys.argv[1:]
for ending in endings:
    measured[ending] = growth(lambda: gather(f"{folder}/small.{ending}"), lambda: gather(f"{folder}/large.{ending}"))
"""

_OBJECTS = """
import scipy.sparse

def stream(n_rows):
    schema = pa.schema([(f"x{place}", pa.float64()) for place in range(10)])
    batch = pa.record_batch([np.random.default_rng(0).uniform(-1, 1, 20_000)] * 10, schema=schema)
    return pa.RecordBatchReader.from_batches(schema, (batch for _ in range(n_rows // 20_000)))

def sparse(n_rows):
    places = np.arange(n_rows, dtype=np.int32)
    return scipy.sparse.csr_array((np.ones(n_rows), places % 10, np.arange(n_rows + 1)), shape=(n_rows, 10))

def gather(X):
    dpcov.moments(X, norm_bound=4.0, threads=2)

def keep(X):
    kept.extend(dpcov.data.encode.read_unit_ball(dpcov.data.sources.open_source(X), 4.0, 16384))

kept = []
small, large = {SMALL}, {LARGE}
measured["stream"] = growth(lambda: gather(stream(small)), lambda: gather(stream(large)))
sparse_small, sparse_large = sparse(small), sparse(large)
measured["sparse"] = growth(lambda: gather(sparse_small), lambda: gather(sparse_large))
measured["kept"] = growth(lambda: gather(stream(small)), lambda: keep(stream(large)))
"""


def write(folder, name, n_rows):
    rows = np.random.default_rng(0).uniform(-1, 1, (n_rows, FEATURES)).round(3)
    table = pa.table(dict(zip(_NAMES, rows.T, strict=True)))
    pa.csv.write_csv(table, folder / f"{name}.csv")
    with pa.CompressedOutputStream(str(folder / f"{name}.csv.gz"), "gzip") as stream:
        pa.csv.write_csv(table, stream)
    pa.parquet.write_table(table, folder / f"{name}.parquet")
    with pa.ipc.new_file(str(folder / f"{name}.arrow"), table.schema) as writer:
        writer.write_table(table)
    np.save(folder / f"{name}.npy", rows)
    np.savez_compressed(folder / f"{name}.npz", X=rows)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes")
    for name, n_rows in (("small", SMALL), ("large", LARGE)):
        write(folder, name, n_rows)
    endings = ("csv", "csv.gz", "parquet", "arrow", "npy", "npz")
    return measured(_FILES, str(folder), *endings)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "arrow", "npy", "npz"])
def test_memory_does_not_grow_with_the_rows_of_a_file(files, ending):
    assert files[ending] < EXTRA / 4


@pytest.fixture(scope="module")
def objects():
    return measured(_OBJECTS.replace("{SMALL}", str(SMALL)).replace("{LARGE}", str(LARGE)))


@pytest.mark.parametrize("kind", ["stream", "sparse"])
def test_memory_does_not_grow_with_the_rows_of_an_object(objects, kind):
    assert objects[kind] < EXTRA / 4


def test_rows_that_are_kept_would_be_seen(objects):
    assert objects["kept"] > EXTRA * 0.9

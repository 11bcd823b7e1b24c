"""Peak memory does not grow with the number of rows, whatever the rows come from."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.data.engines.peak import measured

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not Path("/proc/self/clear_refs").exists(),
    reason="needs Linux's /proc",
)

FEATURES = 10
SMALL, LARGE = 160_000, 760_000
EXTRA = 8 * FEATURES * (LARGE - SMALL)
"""Bytes of the rows that the large table has more: 48 MB."""

NOISE = 0.7 * EXTRA
"""Buffers and mapped pages come and go; a reader that kept its rows would take all of `EXTRA`."""

_NAMES = [f"x{place}" for place in range(FEATURES)]

_FILES = """
import sys
unit = dpcov.Numeric(lower=-1, upper=1)
schema = dpcov.Schema(columns={f"x{place}": unit for place in range(10)})

def gather(data):
    table_moments(data, schema, MomentsSpec(shells=3), threads=2)

noise, folder, *endings = sys.argv[1:]
for ending in endings:
    small, large = (f"{folder}/{size}.{ending}" for size in ("small", "large"))
    measured[ending] = growth(lambda: gather(small), lambda: gather(large), float(noise))
"""

_OBJECTS = """
import sys
import scipy.sparse
from dpcov.data.encode import encode_array

def stream(n_rows):
    schema = pa.schema([(f"x{place}", pa.float64()) for place in range(10)])
    batch = pa.record_batch([np.random.default_rng(0).uniform(-1, 1, 20_000)] * 10, schema=schema)
    return pa.RecordBatchReader.from_batches(schema, (batch for _ in range(n_rows // 20_000)))

def sparse(n_rows):
    places = np.arange(n_rows, dtype=np.int32)
    parts = (np.ones(n_rows), places % 10, np.arange(n_rows + 1))
    return scipy.sparse.csr_array(parts, shape=(n_rows, 10))

def gather(X):
    dpcov.moments(X, norm_bound=4.0, threads=2)

def keep(X):
    blocks = dpcov.data.sources.open_source(X).blocks(16384)
    kept.extend(encode_array(block, 4.0) for block in blocks)

kept = []
noise, small, large = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
measured["stream"] = growth(lambda: gather(stream(small)), lambda: gather(stream(large)), noise)
sparse_small, sparse_large = sparse(small), sparse(large)
measured["sparse"] = growth(lambda: gather(sparse_small), lambda: gather(sparse_large), noise)
measured["kept"] = growth(lambda: gather(stream(small)), lambda: keep(stream(large)))
"""


def write(folder, name, n_rows):
    few = np.random.default_rng(0).uniform(-1, 1, (100, FEATURES)).round(3)
    rows = np.tile(few, (n_rows // 100, 1))
    table = pa.table(dict(zip(_NAMES, rows.T, strict=True)))
    # Long numbers: the reader is up to 32 MiB ahead, which the small file has to fill as well.
    lines = "".join(",".join(f"{number:.20f}" for number in row) + "\n" for row in few)
    text = (",".join(_NAMES) + "\n" + lines * (n_rows // 100)).encode()
    (folder / f"{name}.csv").write_bytes(text)
    (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text, compresslevel=1))
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
    return measured(_FILES, str(NOISE), str(folder), *endings)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "arrow", "npy", "npz"])
def test_memory_does_not_grow_with_the_rows_of_a_file(files, ending):
    assert files[ending] < NOISE


@pytest.fixture(scope="module")
def objects():
    return measured(_OBJECTS, str(NOISE), str(SMALL), str(LARGE))


@pytest.mark.parametrize("kind", ["stream", "sparse"])
def test_memory_does_not_grow_with_the_rows_of_an_object(objects, kind):
    assert objects[kind] < NOISE


def test_rows_that_are_kept_would_be_seen(objects):
    assert objects["kept"] > NOISE

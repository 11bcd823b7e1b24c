"""Peak memory does not grow with the number of rows, whatever the rows come from."""

import bz2
import gzip
import json
import lzma
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
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

AHEAD = 320_000
"""Rows of Parquet that both tables have more, 26 MB."""

_NAMES = [f"x{place}" for place in range(FEATURES)]

_FILES = """
import sys
schema = dpcov.Schema(
    columns={f"x{place}": dpcov.Numeric(lower=-1, upper=1) for place in range(10)}
)

def gather(path):
    table_moments(path, schema, MomentsSpec(shells=3), threads=2)

noise, folder, *endings = sys.argv[1:]
for ending in endings:
    small, large = (f"{folder}/{size}.{ending}" for size in ("small", "large"))
    measured[ending] = growth(lambda: gather(small), lambda: gather(large), float(noise))
"""

_PIECES = """
from dpcov.data.engines import parquet
from dpcov.data.engines.base import BallEncoding, MomentsTask
names = list(schema.columns)
task = MomentsTask(encoding=BallEncoding(n_features=10, norm_bound=4.0), spec=MomentsSpec())

def gather_pieces(path):
    for piece in parquet.pieces(parquet.open_files(path, ""), names):
        assert parquet.gather_piece(names, task, piece).n_rows

measured["pieces"] = growth(
    lambda: gather_pieces(f"{folder}/small.parquet"),
    lambda: gather_pieces(f"{folder}/large.parquet"),
    float(noise),
)
"""

_OBJECTS = """
import sys
from dpcov.data.encode import encode_array

def stream(n_rows):
    schema = pa.schema([(f"x{place}", pa.float64()) for place in range(10)])
    batch = pa.record_batch([np.random.default_rng(0).uniform(-1, 1, 20_000)] * 10, schema=schema)
    return pa.RecordBatchReader.from_batches(schema, (batch for _ in range(n_rows // 20_000)))

def query(n_rows):
    columns = ", ".join(f"CAST(i AS float) / {i + 1e7} AS x{i}" for i in range(10))
    return dpcov.Query(f"SELECT {columns} FROM generate_series(1, {n_rows}) AS s(i)", db=url)

def gather(X):
    dpcov.moments(X, norm_bound=4.0, threads=2)

def keep(X):
    blocks = dpcov.data.sources.open_source(X).blocks(16384)
    kept.extend(encode_array(block, 4.0) for block in blocks)

kept = []
noise, small, large, url = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
source = query if url else stream
measured["read"] = growth(lambda: gather(source(small)), lambda: gather(source(large)), noise)
if not url:
    measured["kept"] = growth(lambda: gather(stream(small)), lambda: keep(stream(large)))
"""

_COMPRESSED = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}


def write_text(folder, name, copies):
    few = np.random.default_rng(0).uniform(-1, 1, (100, FEATURES)).round(3).tolist()
    head = ",".join(_NAMES) + "\n"
    text = head + "".join(",".join(map(str, row)) + "\n" for row in few) * copies
    for ending, opener in _COMPRESSED.items():
        options = {"preset": 0} if ending == "xz" else {"compresslevel": 1}
        with opener(folder / f"{name}.csv.{ending}", "wt", **options) as file:
            file.write(text)
    with zipfile.ZipFile(folder / f"{name}.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.csv", text)
    pa_text = pa.py_buffer(text.encode())
    with pa.output_stream(folder / f"{name}.csv.zst", compression="zstd") as file:
        file.write(pa_text)
    lines = [json.dumps(dict(zip(_NAMES, row, strict=True))) for row in few]
    (folder / f"{name}.jsonl").write_text(("\n".join(lines) + "\n") * copies)
    return [*(f"csv.{ending}" for ending in (*_COMPRESSED, "zip", "zst")), "jsonl"]


def write_statistical(folder, name, copies):
    pyreadstat = pytest.importorskip("pyreadstat", reason="needs dpcov[files]")
    few = np.random.default_rng(0).uniform(-1, 1, (100, FEATURES)).round(3)
    table = pd.DataFrame(np.tile(few, (copies, 1)), columns=_NAMES)
    pyreadstat.write_sav(table, folder / f"{name}.sav", row_compress=True)
    pyreadstat.write_sav(table, folder / f"{name}.zsav", compress=True)
    pyreadstat.write_dta(table, folder / f"{name}.dta")
    pyreadstat.write_xport(table, folder / f"{name}.xpt")
    # No free program but R's haven writes these files.
    packed = Path(__file__).parents[1] / f"files/rows-{name}.sas7bdat.xz"
    (folder / f"{name}.sas7bdat").write_bytes(lzma.decompress(packed.read_bytes()))
    return ["sav", "zsav", "dta", "xpt", "sas7bdat"]


@pytest.mark.thorough
@pytest.mark.parametrize("write_all", [write_text, write_statistical])
def test_memory_does_not_grow_with_the_rows_of_other_files(write_all, tmp_path):
    write_all(tmp_path, "small", SMALL // 100)
    endings = write_all(tmp_path, "large", LARGE // 100)
    found = measured(_FILES, str(NOISE), str(tmp_path), *endings)
    assert max(found.values()) < NOISE, found


def write(folder, name, n_rows):
    few = np.random.default_rng(0).uniform(-1, 1, (100, FEATURES)).round(3)
    rows = np.tile(few, (n_rows // 100, 1))
    # Readers are up to 32 MiB ahead, which the small file has to fill as well: by long numbers, and
    # by as many more rows.
    more = np.tile(few, ((n_rows + AHEAD) // 100, 1))
    table = pa.table(dict(zip(_NAMES, more.T, strict=True)))
    lines = "".join(",".join(f"{number:.20f}" for number in row) + "\n" for row in few)
    (folder / f"{name}.csv").write_text(",".join(_NAMES) + "\n" + lines * (n_rows // 100))
    options = {"row_group_size": len(more), "use_dictionary": False}
    pa.parquet.write_table(table, folder / f"{name}.parquet", **options)
    np.save(folder / f"{name}.npy", rows)


def test_memory_does_not_grow_with_the_rows_of_a_file(tmp_path):
    for name, n_rows in (("small", SMALL), ("large", LARGE)):
        write(tmp_path, name, n_rows)
    found = measured(_FILES + _PIECES, str(NOISE), str(tmp_path), "csv", "parquet", "npy")
    assert max(found.values()) < NOISE, found


@pytest.mark.parametrize("kind", ["stream", "duckdb", "postgres"])
def test_memory_does_not_grow_with_the_rows_of_a_stream_or_a_query(kind, request):
    url = {"stream": "", "duckdb": "duckdb://"}.get(kind)
    url = request.getfixturevalue("postgres_database") if url is None else url
    found = measured(_OBJECTS, str(NOISE), str(SMALL), str(LARGE), url)
    assert found["read"] < NOISE < found.get("kept", EXTRA), found

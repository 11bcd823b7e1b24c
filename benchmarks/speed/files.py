"""Parquet to exact moments against decoding the same file to float64 blocks, in one run, with peak memory.

python -m benchmarks.speed.files [--rows 1000000] [--features 50]
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import dpcov
from benchmarks.speed.moments import interleaved
from dpcov.data.moments import Moments, MomentsSpec
from dpcov.pipeline import table_moments

BLOCK_ROWS = 8192
TARGET = 1.5

_PEAK = """
import resource, sys
import dpcov
from benchmarks.speed.files import schema_of
from dpcov.data.moments import MomentsSpec
from dpcov.pipeline import table_moments
table_moments(sys.argv[1], schema_of(int(sys.argv[2])), MomentsSpec())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def write_table(path: Path, n_rows: int, n_features: int) -> None:
    """Write a Parquet file of normal numbers in row groups of 100,000."""
    rng = np.random.default_rng(0)
    names = [f"c{index}" for index in range(n_features)]
    with pq.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in names])) as writer:
        for start in range(0, n_rows, 100_000):
            count = min(100_000, n_rows - start)
            writer.write_table(pa.table({name: rng.normal(size=count) for name in names}))


def schema_of(n_features: int) -> dpcov.Schema:
    """All columns numeric with the same public bounds."""
    return dpcov.Schema(
        columns={f"c{index}": dpcov.Numeric(lower=-4, upper=4) for index in range(n_features)}
    )


def decode(path: Path) -> int:
    """The floor: every batch as one row-major float64 block."""
    rows = 0
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=BLOCK_ROWS):
            block = np.empty((len(batch), batch.num_columns))
            for index in range(batch.num_columns):
                block[:, index] = batch.column(index).to_numpy()
            rows += len(block)
    return rows


def gather(path: Path, schema: dpcov.Schema) -> Moments:
    """What a release does with the file."""
    return table_moments(path, schema, MomentsSpec())


def peak_megabytes(path: Path, n_features: int) -> float:
    """Peak resident memory of a process that gathers the file's moments."""
    command = [sys.executable, "-c", _PEAK, str(path), str(n_features)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=50)
    arguments = parser.parse_args()
    table = Table(
        "rows", "decode s", "moments s", "ratio", "target", "peak MiB", title="Parquet to exact moments"
    )
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in (arguments.rows // 4, arguments.rows):
            path = Path(folder) / f"{n_rows}.parquet"
            write_table(path, n_rows, arguments.features)
            schema = schema_of(arguments.features)
            floor, seconds = interleaved(lambda p=path: decode(p), lambda p=path, s=schema: gather(p, s))
            peak = peak_megabytes(path, arguments.features)
            cells = (
                f"{n_rows:,}",
                f"{floor:.2f}",
                f"{seconds:.2f}",
                f"{seconds / floor:.2f}",
                f"{TARGET}",
                f"{peak:.0f}",
            )
            table.add_row(*cells)
    Console().print(table)


if __name__ == "__main__":
    main()

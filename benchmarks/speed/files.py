"""Parquet to exact moments against decoding the same file, in one run, with peak memory.

python -m benchmarks.speed.files [--rows 10000000] [--features 50] [--rounds 3]
python -m benchmarks.speed.files --formats [--rows 1000000] [--features 20]

With ``--formats`` files of SPSS, Stata and SAS, JSON lines and a workbook (of a tenth of the rows)
are measured against CSV of the same content instead.

Decoding is measured twice: to float64 blocks, which is the least that anybody has to do who
computes with the rows, and bare, when the batches are thrown away. It has all of pyarrow's threads,
and blocks of the size that gathering uses. Seconds are the best of several rounds, in which the
contestants take turns; CPU seconds count all threads and do not suffer from others who use the
machine.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import dpcov
from benchmarks.speed.timing import interleaved_cpu
from dpcov.data.moments import MomentsSpec
from dpcov.pipeline.table import table_moments

BLOCK_ROWS = 32_768
TARGET = 0.6

_PEAK = """
import re, sys
from pathlib import Path
import dpcov
from benchmarks.speed.files import schema_of
from dpcov.data.moments import MomentsSpec
from dpcov.pipeline.table import table_moments
table_moments(sys.argv[1], schema_of(int(sys.argv[2])), MomentsSpec())
# A process inherits the peak that getrusage tells.
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def write_table(path: Path, n_rows: int, n_features: int) -> None:
    """Write a Parquet file of normal numbers in row groups of 100,000, all alike."""
    rng = np.random.default_rng(0)
    group = pa.table(
        {f"c{index}": rng.normal(size=min(100_000, n_rows)) for index in range(n_features)}
    )
    with pq.ParquetWriter(path, group.schema, use_dictionary=False) as writer:
        for start in range(0, n_rows, len(group)):
            writer.write_table(group[: n_rows - start])


def schema_of(n_features: int) -> dpcov.Schema:
    """All columns numeric with the same public bounds."""
    return dpcov.Schema(
        columns={f"c{index}": dpcov.Numeric(lower=-4, upper=4) for index in range(n_features)}
    )


def decode_bare(path: Path) -> None:
    """Decode every batch and throw it away."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for _ in file.iter_batches(batch_size=BLOCK_ROWS):
            pass


def decode(path: Path) -> None:
    """Decode every batch to one row-major float64 block."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=BLOCK_ROWS):
            block = np.empty((len(batch), batch.num_columns))
            for index in range(batch.num_columns):
                block[:, index] = batch.column(index).to_numpy()


def peak_megabytes(path: Path, n_features: int) -> float:
    """Peak resident memory of a process that gathers the file's moments."""
    command = [sys.executable, "-c", _PEAK, str(path), str(n_features)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024


def measure(path: Path, n_features: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Best seconds and CPU seconds of each contestant."""
    schema = schema_of(n_features)
    actions: dict[str, Callable[[], object]] = {
        "decoding, bare": lambda: decode_bare(path),
        "decoding to float64": lambda: decode(path),
        "moments, 1 thread": lambda: table_moments(path, schema, MomentsSpec(), threads=1),
        "moments, 2 threads": lambda: table_moments(path, schema, MomentsSpec(), threads=2),
        "12 shells, 2 threads": lambda: table_moments(
            path, schema, MomentsSpec(shells=12), threads=2
        ),
    }
    return dict(zip(actions, interleaved_cpu(*actions.values(), rounds=rounds), strict=True))


def write_formats(folder: Path, n_rows: int, n_features: int) -> list[Path]:
    """Write the same numbers with three decimals in every format; the first is CSV."""
    import pandas as pd
    import pyreadstat

    rng = np.random.default_rng(0)
    names = [f"c{index}" for index in range(n_features)]
    table = pd.DataFrame(rng.normal(size=(n_rows, n_features)).round(3), columns=names)
    table.to_csv(folder / "t.csv", index=False)
    table.to_csv(folder / "t.csv.xz", index=False)
    table.to_json(folder / "t.jsonl", orient="records", lines=True)
    pyreadstat.write_sav(table, folder / "t.sav")
    pyreadstat.write_sav(table, folder / "t.zsav", compress=True)
    pyreadstat.write_dta(table, folder / "t.dta")
    pyreadstat.write_xport(table, folder / "t.xpt")
    table[: n_rows // 10].to_csv(folder / "tenth.csv", index=False)
    table[: n_rows // 10].to_excel(folder / "tenth.xlsx", index=False)
    endings = ("csv", "csv.xz", "jsonl", "sav", "zsav", "dta", "xpt")
    return [*(folder / f"t.{e}" for e in endings), folder / "tenth.csv", folder / "tenth.xlsx"]


def compare_formats(n_rows: int, n_features: int, rounds: int) -> Table:
    """CPU seconds and peak memory of moments of every format, and the ratio to CSV's."""
    table = Table("rows", "file", "MiB", "CPU s", "CPU: file / CSV", "peak MiB")
    schema = schema_of(n_features)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_formats(Path(folder), n_rows, n_features)
        actions = [partial(table_moments, path, schema, MomentsSpec(), threads=1) for path in paths]
        times = [cpu for _, cpu in interleaved_cpu(*actions, rounds=rounds)]
        for path, cpu in zip(paths, times, strict=True):
            tenth = path.stem == "tenth"
            ratio = cpu / times[-2 if tenth else 0]
            size, peak = path.stat().st_size / 2**20, peak_megabytes(path, n_features)
            cells = (f"{size:.0f}", f"{cpu:.2f}", f"{ratio:.2f}", f"{peak:.0f}")
            table.add_row(f"{n_rows // 10 if tenth else n_rows:,}", path.name, *cells)
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--formats", action="store_true")
    arguments = parser.parse_args()
    if arguments.formats:
        shape = arguments.rows, arguments.features, arguments.rounds
        Console().print(compare_formats(*shape))
        return
    heads = (
        "rows",
        "what",
        "seconds",
        "CPU s",
        "speed / float64",
        "CPU: speed / float64",
        "speed / bare",
    )
    table = Table(
        *heads, title=f"Parquet to exact moments; target {TARGET} x the speed of decoding"
    )
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in (arguments.rows // 4, arguments.rows):
            path = Path(folder) / f"{n_rows}.parquet"
            write_table(path, n_rows, arguments.features)
            times = measure(path, arguments.features, arguments.rounds)
            floor, bare = times["decoding to float64"], times["decoding, bare"]
            for what, (wall, cpu) in times.items():
                ratios = (floor[0] / wall, floor[1] / cpu, bare[0] / wall)
                cells = (f"{wall:.2f}", f"{cpu:.2f}", *(f"{ratio:.2f}" for ratio in ratios))
                table.add_row(f"{n_rows:,}", what, *cells)
            table.add_row(
                f"{n_rows:,}", "peak MiB", f"{peak_megabytes(path, arguments.features):.0f}"
            )
            path.unlink()
    Console().print(table)


if __name__ == "__main__":
    main()

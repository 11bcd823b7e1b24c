"""Parquet to exact moments against decoding the same file, in one run, with peak memory.

python -m benchmarks.speed.files [--rows 10000000] [--features 50] [--rounds 3]
python -m benchmarks.speed.files --formats [--rows 1000000] [--features 20]

With ``--formats`` files of other formats are measured against CSV of the same content, and against
the library that reads them, instead: the lines of docs/measured/files.csv.  Workbooks have a tenth
of the rows; LibreOffice writes them.

Decoding is measured twice: to float64 blocks, which is the least that anybody has to do who
computes with the rows, and bare, when the batches are thrown away. It has all of pyarrow's threads,
and blocks of the size that gathering uses. Seconds are the best of several rounds, in which the
contestants take turns; CPU seconds count all threads and do not suffer from others who use the
machine.
"""

import lzma
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import dpcov
from benchmarks.measured import store
from benchmarks.measured import table as markdown
from benchmarks.options import asked
from benchmarks.speed.timing import interleaved_cpu
from dpcov.data.encode import Encoder
from dpcov.data.exact.moments import MomentsSpec
from dpcov.data.gather import Gathering
from dpcov.data.layout import FileLayout
from dpcov.data.questions import MomentsQuestion
from dpcov.data.sources.streams import open_bytes

BLOCK_ROWS = 32_768
TARGET = 0.6
FILES = Path(__file__).parents[2] / "tests" / "data" / "files"

_PEAK = """
import re, sys
from pathlib import Path
import dpcov
from dpcov.data.layout import FileLayout
from dpcov.data.exact.moments import MomentsSpec
from dpcov.data.sources.streams import open_bytes
from dpcov.data.encode import Encoder
from dpcov.data.gather import Gathering
from dpcov.data.questions import MomentsQuestion
unit = dpcov.Numeric(lower=-4, upper=4)
schema = dpcov.Schema(columns=dict.fromkeys(sys.argv[2].split(","), unit))
Gathering().answer(sys.argv[1], Encoder(schema), MomentsQuestion())
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


def schema_of(n_features: int, bound: float = 4) -> dpcov.Schema:
    """All columns numeric with the same public bounds."""
    column = dpcov.Numeric(lower=-bound, upper=bound)
    return dpcov.Schema(columns={f"c{index}": column for index in range(n_features)})


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


def peak_megabytes(path: Path, names: Sequence[str]) -> float:
    """Peak resident memory of a process that gathers the file's moments."""
    command = [sys.executable, "-c", _PEAK, str(path), ",".join(names)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024


def table_moments(data: Any, schema: dpcov.Schema, spec: MomentsSpec, **where: Any) -> Any:
    """Exact moments of a table as a schema encodes it; keywords as in `Gathering`."""
    question = MomentsQuestion(spec=spec)
    return Gathering(**where).answer(data, Encoder(schema), question)


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


def write_formats(folder: Path, n_rows: int, n_features: int) -> Iterator[tuple[Path, Path]]:
    """Write the same numbers with three decimals in every format; yield each and its CSV."""
    import pyreadstat

    names = [f"c{index}" for index in range(n_features)]
    numbers = np.random.default_rng(0).normal(size=(n_rows, n_features)).round(3)
    table, whole = pd.DataFrame(numbers, columns=names), folder / "t.csv"
    table.to_csv(whole, index=False)
    yield whole, whole
    for ending in ("gz", "bz2", "xz", "zip"):
        table.to_csv(folder / f"t.csv.{ending}", index=False)
        yield folder / f"t.csv.{ending}", whole
    table.to_json(folder / "t.jsonl", orient="records", lines=True)
    pyreadstat.write_sav(table, folder / "t.sav", row_compress=True)
    pyreadstat.write_sav(table, folder / "t.zsav", compress=True)
    pyreadstat.write_dta(table, folder / "t.dta")
    pyreadstat.write_xport(table, folder / "t.xpt", file_format_version=5)
    yield from (
        (folder / f"t.{ending}", whole) for ending in ("jsonl", "sav", "zsav", "dta", "xpt")
    )
    # No free program but R's haven writes these files.
    packed = lzma.decompress((FILES / "rows-large.sas7bdat.xz").read_bytes())
    (folder / "rows.sas7bdat").write_bytes(packed)
    rows, _ = pyreadstat.read_sas7bdat(folder / "rows.sas7bdat")
    rows.to_csv(folder / "rows.csv", index=False)
    yield folder / "rows.sas7bdat", folder / "rows.csv"
    tenth = folder / "tenth.csv"
    table[: n_rows // 10].to_csv(tenth, index=False)
    for ending in ("xlsx", "ods", "xls"):
        office = ("soffice", "--headless", "--convert-to", ending, "--outdir", str(folder))
        subprocess.run([*office, str(tenth)], check=True, capture_output=True)
        yield tenth.with_suffix(f".{ending}"), tenth


def alone(path: Path) -> None:
    """Read a file with the library that reads it, and throw the cells away."""
    import msgspec
    import pyreadstat
    import python_calamine

    match path.suffix[1:]:
        case "jsonl":
            decode = msgspec.json.Decoder(dict[str, float]).decode
            with path.open("rb") as file:
                for line in file:
                    decode(line)
        case "sav" | "zsav":
            pyreadstat.read_sav(path, output_format="dict")
        case "xpt":
            pyreadstat.read_xport(path, output_format="dict")
        case "dta":
            with pd.read_stata(path, chunksize=BLOCK_ROWS, convert_dates=False) as frames:
                deque(frames, maxlen=0)
        case "sas7bdat":
            with pd.read_sas(path, chunksize=BLOCK_ROWS, encoding=None) as frames:
                deque(frames, maxlen=0)
        case "xlsx" | "ods" | "xls":
            python_calamine.load_workbook(str(path)).get_sheet_by_index(0).to_python()
        case _:
            opened, _ = open_bytes(path, FileLayout())
            with pa.csv.open_csv(pa.PythonFile(opened(), mode="r")) as batches:
                deque(batches, maxlen=0)


def compare_formats(n_rows: int, n_features: int, rounds: int) -> list[list[str]]:
    """CPU seconds of moments of every format, beside those of CSV and of its library, and peaks."""
    ratios = ["file / CSV", "its library alone / CSV", "file / its library alone"]
    found = [["file", "rows", "MiB", *ratios, "peak MiB"]]
    with tempfile.TemporaryDirectory() as folder:
        for path, text in write_formats(Path(folder), n_rows, n_features):
            names = text.open().readline().strip().split(",")
            unit = dpcov.Numeric(lower=-4, upper=4)
            schema = dpcov.Schema(columns=dict.fromkeys(names, unit))

            def moments(which: Path, schema: dpcov.Schema = schema) -> object:
                return table_moments(which, schema, MomentsSpec(), threads=1)

            actions = (partial(moments, path), partial(moments, text), partial(alone, path))
            cpu, csv, library = (cpu for _, cpu in interleaved_cpu(*actions, rounds=rounds))
            size, peak = path.stat().st_size / 2**20, peak_megabytes(path, names)
            count = sum(1 for _ in text.open()) - 1
            ratios = [f"{ratio:.2f}" for ratio in (cpu / csv, library / csv, cpu / library)]
            found.append([path.name, f"{count:,}", f"{size:.1f}", *ratios, f"{peak:.0f}"])
    return found


def main() -> None:
    """Print the table."""
    arguments = asked(__doc__, rows=1_000_000, features=50, rounds=3, formats=False)
    if arguments.formats:
        shape = arguments.rows, arguments.features, arguments.rounds
        found = compare_formats(*shape)
        store("files.csv", found)
        print(markdown(found))
        return
    ratios = ["speed / float64", "CPU: speed / float64", "speed / bare"]
    lines = [["rows", "what", "seconds", "CPU s", *ratios]]
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in (arguments.rows // 4, arguments.rows):
            path = Path(folder) / f"{n_rows}.parquet"
            write_table(path, n_rows, arguments.features)
            times = measure(path, arguments.features, arguments.rounds)
            floor, bare = times["decoding to float64"], times["decoding, bare"]
            for what, (wall, cpu) in times.items():
                numbers = (wall, cpu, floor[0] / wall, floor[1] / cpu, bare[0] / wall)
                lines.append([f"{n_rows:,}", what, *(f"{number:.2f}" for number in numbers)])
            peak = peak_megabytes(path, list(schema_of(arguments.features).columns))
            lines.append([f"{n_rows:,}", "peak MiB", f"{peak:.0f}", "", "", "", ""])
            path.unlink()
    print(f"Parquet to exact moments; target {TARGET} x the speed of decoding\n\n{markdown(lines)}")


if __name__ == "__main__":
    main()

"""A release that finds its geometry against one in the geometry of the bounds, from one file.

python -m benchmarks.speed.geometry --rows 1000000 10000000 |
    python -m benchmarks.measured --store geometry-speed.csv

A private geometry goes through the table several times.  CPU seconds of one thread are the best of
several rounds, in which all take turns; those of passes are of one of these releases.  A checkout
of another version releases once in the geometry of the bounds, too:

git worktree add ../earlier v0.2 && python -m benchmarks.speed.geometry --earlier ../earlier
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dpcov
from benchmarks.measured import table
from benchmarks.speed.files import schema_of, write_table
from benchmarks.speed.timing import interleaved_cpu
from dpcov.data.gather import Gathering
from dpcov.data.histograms import HistogramQuestion

# Far too wide for normal numbers, as bounds are that nobody tuned.
BOUND = 1e4
# GiB of which no copy of a table is kept; and rows of which one is on most machines.
AGAIN, KEPT = 2.0, 1_000_000
HEAD = ["table", "rows", "what", "CPU seconds", "of one pass"]


def releasing(
    path: Path, n_features: int, geometry: str, limit: float | None
) -> Callable[[], object]:
    """Release once, with so many GiB."""
    budget = dpcov.Budget(epsilon=1, delta=1e-9)
    schema = schema_of(n_features, BOUND)
    return lambda: dpcov.release(
        path, schema=schema, budget=budget, geometry=geometry, threads=1, memory_limit=limit
    )


def passes(release: Callable[[], object]) -> list[tuple[str, float]]:
    """CPU seconds of every pass of a release."""
    answer, found = Gathering.answer, list[tuple[str, float]]()

    def timed(self: Gathering, data: Any, encoding: Any, question: Any) -> Any:
        start = time.process_time()
        answered = answer(self, data, encoding, question)
        mapped = question.geometry is not None and question.geometry.linear is not None
        if isinstance(question, HistogramQuestion):
            kind = "lengths of rows" if question.geometry else "histograms of columns"
        else:
            kind = "matrix" if mapped else "first matrix"
        found.append((kind, time.process_time() - start))
        return answered

    with patch.object(Gathering, "answer", timed):
        release()
    return found


# Prints the CPU seconds of a release by another version, which may know no geometry.
EARLIER = """
import sys, time
from pathlib import Path
import pyarrow as pa
sys.path.insert(0, sys.argv[1])
import dpcov
wide = dpcov.Numeric(lower=-float(sys.argv[4]), upper=float(sys.argv[4]))
schema = dpcov.Schema(columns={f"c{index}": wide for index in range(int(sys.argv[3]))})
few = pa.table(dict.fromkeys(schema.columns, [0.0, 1.0]))
# The first release imports what both need.
for data in few, Path(sys.argv[2]):
    start = time.process_time()
    dpcov.release(data, schema=schema, budget=dpcov.Budget(epsilon=1, delta=1e-9), threads=1)
print(time.process_time() - start)
"""


def by_another(checkout: Path, path: Path, n_features: int) -> float:
    """CPU seconds of a release by the version in a checkout."""
    arguments = [checkout / "src", path, n_features, BOUND]
    command = [sys.executable, "-c", EARLIER, *map(str, arguments)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def lines(
    path: Path, n_rows: int, n_features: int, again: bool, rounds: int, earlier: Path | None
) -> list[list[str]]:
    """What one table takes, in CPU seconds: the release of both geometries, and every pass."""
    limit, every = AGAIN if again else None, list[list[tuple[str, float]]]()
    others: list[float] = []
    single, private = (
        releasing(path, n_features, geometry, limit) for geometry in ("schema", "private")
    )
    actions: list[Callable[[], object]] = [single, lambda: every.append(passes(private))]
    if earlier is not None:
        actions.append(lambda: others.append(by_another(earlier, path, n_features)))
    (_, once), (_, whole), *_ = interleaved_cpu(*actions, rounds=rounds)
    took = min(every, key=lambda each: sum(seconds for _, seconds in each))
    took += [("bounds, earlier version", min(others))] if others else []
    return [
        [
            f"{n_rows:,} × {n_features}",
            "read again" if again else "a copy is kept",
            what,
            f"{seconds:.2f}",
            f"{seconds / once:.2f}",
        ]
        for what, seconds in [("bounds", once), ("private", whole), *took]
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--earlier", type=Path, help="checkout of another version, released once")
    arguments = parser.parse_args()
    found, more = [HEAD], (arguments.rounds, arguments.earlier)
    with tempfile.TemporaryDirectory() as folder:
        for rows in arguments.rows:
            path = Path(folder) / f"{rows}.parquet"
            write_table(path, rows, arguments.features)
            # A copy of more rows than that is not kept on most machines.
            for again in (False, True) if rows <= KEPT else (True,):
                found += lines(path, rows, arguments.features, again, *more)
    print(table(found))


if __name__ == "__main__":
    main()

"""A release that finds its geometry against one in the geometry of the bounds, from one file.

python -m benchmarks.speed.geometry [--rows 1000000] [--features 50] [--rounds 3] [--threads 1 2]

A private geometry reads the table several times.  Seconds and CPU seconds are the best of several
rounds, in which the two take turns; every pass is told by what it answers.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

import dpcov
from benchmarks.speed.files import write_table
from benchmarks.speed.timing import interleaved_cpu
from dpcov.data.gather import Gathering
from dpcov.data.histograms import HistogramQuestion

# Far too wide for normal numbers, as bounds are that nobody tuned.
BOUND = 1e4
TARGET = 2.5


def schema_of(n_features: int) -> dpcov.Schema:
    """All columns numeric with the same wide bounds."""
    wide = dpcov.Numeric(lower=-BOUND, upper=BOUND)
    return dpcov.Schema(columns={f"c{index}": wide for index in range(n_features)})


def releasing(path: Path, n_features: int, geometry: str, threads: int) -> Callable[[], object]:
    """Release once."""
    budget = dpcov.Budget(epsilon=1, delta=1e-9)
    schema = schema_of(n_features)
    return lambda: dpcov.release(
        path, schema=schema, budget=budget, geometry=geometry, threads=threads
    )


def passes(release: Callable[[], object]) -> list[tuple[str, float]]:
    """CPU seconds of every pass of a release."""
    answer, found = Gathering.answer, list[tuple[str, float]]()

    def timed(self: Gathering, data: Any, encoding: Any, question: Any) -> Any:
        start = time.process_time()
        answered = answer(self, data, encoding, question)
        mapped = question.geometry is not None and question.geometry.linear is not None
        counts = isinstance(question, HistogramQuestion)
        kind = "moments" if not counts else "lengths" if question.geometry else "columns"
        found.append((f"{kind}, mapped" if mapped else kind, time.process_time() - start))
        return answered

    with patch.object(Gathering, "answer", timed):
        release()
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    title = f"{arguments.rows:,} x {arguments.features}; target: private within {TARGET} x schema"
    table = Table("threads", "what", "seconds", "CPU s", "ratio", "CPU: ratio", title=title)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write_table(path, arguments.rows, arguments.features)
        for threads in arguments.threads:
            releases = [
                releasing(path, arguments.features, geometry, threads)
                for geometry in ("schema", "private")
            ]
            (wall, cpu), private = interleaved_cpu(*releases, rounds=arguments.rounds)
            table.add_row(f"{threads}", "schema", f"{wall:.2f}", f"{cpu:.2f}", "1.00", "1.00")
            ratios = f"{private[0] / wall:.2f}", f"{private[1] / cpu:.2f}"
            table.add_row(
                f"{threads}", "private", f"{private[0]:.2f}", f"{private[1]:.2f}", *ratios
            )
            for kind, took in passes(releases[1]):
                table.add_row(f"{threads}", f"  {kind}", "", f"{took:.2f}", "", f"{took / cpu:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()

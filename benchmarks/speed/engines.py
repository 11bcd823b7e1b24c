"""What Dask and Spark add to the local engine on one machine: seconds, start-up excluded.

python -m benchmarks.speed.engines [--rows 5000000] [--features 50]
    [--rounds 3] [--only local "spark, path" dask]

All read the same Parquet file, made on the fly, and must return equal moments.  Local has two
threads, Dask two processes of one thread each, Spark ``local[2]``.  CPU seconds count all processes
(the JVM, the scheduler) and suffer less from others who use the machine.  The seconds that one more
partition costs are measured with partitions of one row each.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dask.array
import dask.dataframe
import distributed
import numpy as np
import psutil
from pyspark.sql import SparkSession

import dpcov
from benchmarks.measured import table
from benchmarks.speed.files import schema_of, table_moments, write_table
from dpcov.data.exact.moments import Moments, MomentsSpec

TARGETS = {"dask": 1.5, "spark": 4.0}
SMALL = 200_000
ONE_ROW_PARTITIONS = 200


def cpu_seconds() -> float:
    """CPU seconds of this process and all below it, of those that have ended too."""
    spent = 0.0
    for process in (own := psutil.Process(), *own.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        spent += times.user + times.system + times.children_user + times.children_system
    return spent


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """Spark with two threads."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name in ("bindAddress", "host"):
        builder = builder.config(f"spark.driver.{name}", "127.0.0.1")
    session = builder.config("spark.driver.memory", "2g").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def contestants(
    path: Path, schema: dpcov.Schema, session: SparkSession
) -> dict[str, Callable[[], Moments]]:
    """Every way to gather the file's moments."""

    def gather(data: Any, **where: Any) -> Callable[[], Moments]:
        return lambda: table_moments(
            data() if callable(data) else data, schema, MomentsSpec(), **where
        )

    return {
        "local, 2 threads": gather(path, threads=2),
        "dask, row groups read by the workers": gather(path, engine="dask"),
        "dask, dask.dataframe.read_parquet": gather(lambda: dask.dataframe.read_parquet(path)),
        "spark, path": gather(path, engine="spark"),
        "spark, data frame of a file": gather(lambda: session.read.parquet(str(path))),
        "spark, any other data frame": gather(
            lambda: session.read.parquet(str(path)).selectExpr("*", "1 AS _")
        ),
    }


def measure(
    actions: dict[str, Callable[[], Moments]], rounds: int
) -> dict[str, tuple[float, float]]:
    """Best seconds and CPU seconds; the contestants take turns, and their results must be equal."""
    best = dict.fromkeys(actions, (float("inf"), float("inf")))
    expected: Moments | None = None
    for _ in range(rounds):
        for what, action in actions.items():
            start, cpu = time.perf_counter(), cpu_seconds()
            made = action()
            took = time.perf_counter() - start, cpu_seconds() - cpu
            best[what] = min(best[what][0], took[0]), min(best[what][1], took[1])
            expected = expected or made
            if made != expected:
                raise SystemExit(f"{what} returned different moments")
    return best


def seconds_per_partition(session: SparkSession, n_features: int) -> dict[str, float]:
    """What a partition of one row costs each engine."""
    X = np.zeros((ONE_ROW_PARTITIONS, n_features))
    parts = dask.array.from_array(X, chunks=(1, n_features))
    rows = session.sparkContext.parallelize(X.tolist(), ONE_ROW_PARTITIONS)
    frame = session.createDataFrame(
        rows, ", ".join(f"x{index} double" for index in range(n_features))
    )
    costs = {}
    for name, data in (("dask", parts), ("spark", frame)):
        start = time.perf_counter()
        dpcov.moments(data, norm_bound=1.0, engine=name)
        costs[name] = (time.perf_counter() - start) / ONE_ROW_PARTITIONS
    return costs


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--only", nargs="+", default=[""], help="how the names of contestants begin; local first"
    )
    arguments = parser.parse_args()
    schema = schema_of(arguments.features)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        )
        stack.enter_context(cluster)
        stack.enter_context(distributed.Client(cluster))
        session = stack.enter_context(spark_session())
        for name, n_rows in (("small", SMALL), ("large", arguments.rows)):
            write_table(folder / f"{name}.parquet", n_rows, arguments.features)
        small, large = (
            {
                what: action
                for what, action in contestants(folder / f"{name}.parquet", schema, session).items()
                if what.startswith(tuple(arguments.only))
            }
            for name in ("small", "large")
        )
        measure(small, 1)
        times = measure(large, arguments.rounds)
        costs = seconds_per_partition(session, arguments.features)
    print(f"{arguments.rows:,} x {arguments.features} Parquet rows, results equal to the bit\n")
    lines = [["engine", "seconds", "CPU s", "seconds / local", "CPU s / local", "target"]]
    base = next(iter(times.values()))
    for what, (wall, cpu) in times.items():
        cells = (f"{each:.2f}" for each in (wall, cpu, wall / base[0], cpu / base[1]))
        lines.append([what, *cells, str(TARGETS.get(what.partition(",")[0], ""))])
    print(table(lines), end="\n\n")
    for name, seconds in costs.items():
        print(f"{name}: {1000 * seconds:.1f} ms for one more partition")


if __name__ == "__main__":
    main()

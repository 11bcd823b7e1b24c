"""Error of ``auto`` against the best of its rivals: tables, CSV files and a figure.

Run: python -m benchmarks.accuracy [zcdp|pure|sparse|robustness] [--quick] [--data DIR] [--out DIR] [--only TEXT]

Full runs repeat every release 20 times and take hours; --quick takes smaller tables and 4 repetitions.
"""

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from benchmarks.accuracy import contestants, populations, report
from benchmarks.accuracy.measure import Measurement, measure
from benchmarks.accuracy.populations import Population
from benchmarks.data import data_directory

Lister = Callable[[bool, Path], Iterator[Population]]
PARTS: dict[str, tuple[Lister, tuple[contestants.Contestant, ...], float]] = {
    "zcdp": (populations.zcdp, contestants.ZCDP, 1.0),
    "pure": (populations.pure, contestants.PURE, 1.0),
    "sparse": (populations.sparse, contestants.SPARSE, 0.8),
    "robustness": (populations.robustness, contestants.ROBUSTNESS, 1.03),
}
PROCESSES = 2


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy", description=__doc__.splitlines()[0]
    )
    parser.add_argument("part", nargs="?", choices=PARTS, default="zcdp")
    parser.add_argument("--quick", action="store_true", help="smaller tables, 4 repetitions")
    parser.add_argument("--data", type=Path, help="directory of the public tables")
    parser.add_argument("--out", type=Path, default=Path("accuracy"), help="where results are written")
    parser.add_argument("--only", default="", help="only populations whose group or name contains this text")
    parser.add_argument("--repetitions", type=int)
    arguments = parser.parse_args()
    repetitions = arguments.repetitions or (4 if arguments.quick else 20)
    lister, competing, limit = PARTS[arguments.part]
    chosen = [
        population
        for population in lister(arguments.quick, data_directory(arguments.data))
        if arguments.only in f"{population.group}: {population.name}"
    ]
    measured = run(chosen, competing, repetitions)
    found = report.points(measured)
    arguments.out.mkdir(parents=True, exist_ok=True)
    report.write_csv(arguments.out / f"{arguments.part}-errors.csv", measured)
    report.write_csv(arguments.out / f"{arguments.part}-ratios.csv", found)
    report.draw(
        arguments.out / f"{arguments.part}.svg", found, f"benchmarks.accuracy {arguments.part}", limit
    )
    print(report.table(found, limit))
    print(*report.skipped(measured), sep="\n")


def run(
    chosen: list[Population], competing: tuple[contestants.Contestant, ...], repetitions: int
) -> list[Measurement]:
    """Measure all populations in separate processes of one thread each; results in the order of ``chosen``."""
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    results: dict[int, list[Measurement]] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        futures = {
            pool.submit(measure, population, competing, repetitions): index
            for index, population in enumerate(chosen)
        }
        for done in as_completed(futures):
            results[futures[done]], line = done.result()
            print(f"[{len(results)}/{len(chosen)}] {line}", file=sys.stderr, flush=True)
    return [measurement for index in sorted(results) for measurement in results[index]]


if __name__ == "__main__":
    main()

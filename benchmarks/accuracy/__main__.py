"""Error of ``auto`` against the best of its rivals: tables and CSV files.

Run: python -m benchmarks.accuracy [zcdp|pure|sparse|robustness] [--quick]
     [--data DIR] [--out DIR] [--only PATTERN ...]

Every finished repetition is kept in a store in --out: the same command goes on where it was
stopped.  ``auto`` is measured again when its code has changed; its rivals only with
--fresh.  --rivals measures them alone, ahead of time; then --auto measures auto wherever they are.
Full runs repeat every release 20 times (but for those far behind the best) and take hours; --quick
takes smaller tables and 4 repetitions.
"""

import argparse
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

from benchmarks.accuracy import contestants, populations, report
from benchmarks.accuracy.job import Job, run
from benchmarks.accuracy.measure import Measurement
from benchmarks.accuracy.populations import Population
from benchmarks.data import data_directory
from benchmarks.measured import write_csv

Lister = Callable[[bool, Path], Iterator[Population]]
PARTS: dict[str, tuple[Lister, tuple[contestants.Contestant, ...], float]] = {
    "zcdp": (populations.zcdp, contestants.ZCDP, 1.0),
    "pure": (populations.pure, contestants.PURE, 1.0),
    "sparse": (populations.sparse, contestants.SPARSE, 0.8),
    "robustness": (populations.robustness, contestants.ROBUSTNESS, 1.03),
}
STORE = "store.sqlite"
QUICK_REPETITIONS, FULL_REPETITIONS = 4, 20


def main(arguments: list[str] | None = None) -> None:
    chosen = _parse(arguments)
    lister, competing, limit = PARTS[chosen.part]
    listed = [
        population
        for population in lister(chosen.quick, data_directory(chosen.data))
        if not chosen.only
        or any(re.search(text, f"{population.group}: {population.name}") for text in chosen.only)
    ]
    chosen.out.mkdir(parents=True, exist_ok=True)
    job = Job(
        competing=tuple(c for c in competing if not (chosen.rivals and c.role == "ours")),
        repetitions=chosen.repetitions or (QUICK_REPETITIONS if chosen.quick else FULL_REPETITIONS),
        store=(chosen.store or chosen.out) / STORE,
        fresh=frozenset(chosen.fresh),
        drawn=("ours",) if chosen.auto else get_args(contestants.Role),
    )
    measured = run(listed, job, chosen.jobs)
    if not chosen.rivals:
        _write(chosen.out, chosen.part, measured, limit)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy", description=__doc__.splitlines()[0]
    )
    parser.add_argument("part", nargs="?", choices=PARTS, default="zcdp")
    parser.add_argument("--quick", action="store_true", help="smaller tables, 4 repetitions")
    parser.add_argument("--data", type=Path, help="directory of the public tables")
    parser.add_argument(
        "--out", type=Path, default=Path("accuracy"), help="where results are written"
    )
    parser.add_argument(
        "--store", type=Path, help="directory of the store, if not that of the results"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        help="only populations whose 'group: name' matches one of these patterns",
    )
    parser.add_argument(
        "--auto", action="store_true", help="draw auto alone; its rivals as the store has them"
    )
    parser.add_argument(
        "--rivals", action="store_true", help="measure all but auto, and write no tables"
    )
    parser.add_argument(
        "--fresh", nargs="+", default=[], help="contestants whose stored results do not count"
    )
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--jobs", type=int, default=2, help="processes, of one thread each")
    return parser.parse_args(arguments)


def _write(out: Path, part: str, measured: list[Measurement], limit: float) -> None:
    found = report.points(measured)
    write_csv(out / f"{part}-errors.csv", [measurement.row() for measurement in measured])
    write_csv(out / f"{part}-ratios.csv", [point.row() for point in found])
    text = "\n".join([report.table(found, limit), *report.remarks(measured)])
    (out / f"{part}.txt").write_text(f"{text}\n")
    print(text)


if __name__ == "__main__":
    main()

"""Measure populations in separate processes of one thread each."""

import multiprocessing
import os
import sys
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.accuracy.contestants import Contestant, Role
from benchmarks.accuracy.measure import Measurement, measure, open_store
from benchmarks.accuracy.populations import Population
from benchmarks.papers.store import Store

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, kw_only=True)
class Job:
    """How populations are measured; sent to every process."""

    competing: tuple[Contestant, ...]
    repetitions: int
    store: Path
    fresh: Collection[str]
    drawn: Collection[Role]

    def measure(self, population: Population) -> tuple[list[Measurement], str]:
        return measure(
            population,
            self.competing,
            self.repetitions,
            store=_opened(self.store),
            fresh=self.fresh,
            drawn=self.drawn,
        )


@cache
def _opened(path: Path) -> Store:
    """One connection for each process."""
    return open_store(path)


def run(chosen: list[Population], job: Job, processes: int) -> list[Measurement]:
    """Measure all populations, in this process if there is to be only one; results in the order of
    ``chosen``."""
    results: dict[int, list[Measurement]] = {}
    for index, (measured, line) in _measured(chosen, job, processes):
        results[index] = measured
        print(f"[{len(results)}/{len(chosen)}] {line}", file=sys.stderr, flush=True)
    return [measurement for index in sorted(results) for measurement in results[index]]


def _measured(
    chosen: list[Population], job: Job, processes: int
) -> Iterator[tuple[int, tuple[list[Measurement], str]]]:
    """Results with the index of their population, as they come."""
    if processes == 1:
        yield from enumerate(map(job.measure, chosen))
        return
    os.environ |= dict.fromkeys(THREADS, "1")
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {
            pool.submit(job.measure, population): index for index, population in enumerate(chosen)
        }
        for done in as_completed(futures):
            yield futures[done], done.result()

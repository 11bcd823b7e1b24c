"""Run groups of trials in several processes, each on one thread, and hand outcomes back as they
finish."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from queue import Empty
from unittest import mock

from benchmarks.papers.trials import Group, Outcome, run_group

Report = Callable[[list[Outcome]], None]

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

_outcomes: "Queue[Outcome] | None" = None
_stop: "Event | None" = None


def run_groups(groups: list[Group], *, directory: Path, jobs: int, report: Report) -> None:
    """Run every group; ``report`` is called in this process."""
    if jobs == 1:
        for group in groups:
            run_group(group, directory, lambda outcome: report([outcome]))
        return
    context = get_context("spawn")
    outcomes: Queue[Outcome] = context.Queue()
    stop = context.Event()
    # They read this when they start.
    with mock.patch.dict(os.environ, dict.fromkeys(_THREADS, "1")):
        pool = ProcessPoolExecutor(
            jobs, mp_context=context, initializer=_receive, initargs=(outcomes, stop)
        )
        try:
            running = [pool.submit(_work, group, directory) for group in groups]
            _collect(running, outcomes, sum(len(group.trials) for group in groups), report)
        finally:
            # After an error or an interrupt, workers end with the draw they are at.
            stop.set()
            pool.shutdown(cancel_futures=True)


def _collect(
    running: list[Future[None]], outcomes: "Queue[Outcome]", count: int, report: Report
) -> None:
    """Report until every trial came back; a worker that died raises here."""
    while count:
        batch = list(_arrived(outcomes))
        report(batch)
        count -= len(batch)
        for future in [future for future in running if future.done()]:
            running.remove(future)
            future.result()


def _arrived(outcomes: "Queue[Outcome]") -> Iterator[Outcome]:
    try:
        yield outcomes.get(timeout=0.5)
        while True:
            yield outcomes.get_nowait()
    except Empty:
        return


def _receive(outcomes: "Queue[Outcome]", stop: "Event") -> None:
    global _outcomes, _stop
    _outcomes, _stop = outcomes, stop
    # The parent leaves only when it has everything, or wants nothing more: never wait for it to
    # read.
    outcomes.cancel_join_thread()


def _work(group: Group, directory: Path) -> None:
    run_group(group, directory, _send)


def _send(outcome: Outcome) -> None:
    assert _outcomes is not None
    assert _stop is not None
    _outcomes.put(outcome)
    if _stop.is_set():
        raise InterruptedError("The run was stopped.")

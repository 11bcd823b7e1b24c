"""Gather moments of files, frames and arrays on this machine, block by block.

Contract: memory does not depend on the number of rows.  Blocks are read ahead and worked on in
several threads, each once; the first error ends the work and surfaces; no thread outlives its
caller.
"""

import itertools
import os
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcov.data.engines.base import TABLE, Task, TellRows, require_memory, tell
from dpcov.data.seal import sealed
from dpcov.data.sources import Block, Source, open_source
from dpcov.errors import DataError, UsageError
from dpcov.published.linalg.one_thread import one_thread

Item = TypeVar("Item")

_DONE = object()

GroupedBlock = tuple[Block, NDArray[np.intp] | None]


@dataclass(frozen=True, kw_only=True)
class GroupedRows:
    """Rows and the group of each; sensitive."""

    rows: Any
    groups: NDArray[np.intp]

    def __repr__(self) -> str:
        return "GroupedRows(<sensitive>)"


def columns(data: Any) -> tuple[str, ...]:
    """Names of the data's columns."""
    return open_source(data).columns


def check(data: Any, task: Task) -> None:
    """Refuse what cannot be gathered; no row is read."""
    require_memory(task, threads=thread_count(task.threads))


def moments(data: Any, task: Task, progress: TellRows | None = None) -> Any:
    """Read once; threads encode and multiply blocks while the next ones are being read."""
    check(data, task)
    gathered = task.empty()
    # A progress bar need not be safe to call from several threads.
    one_at_a_time = threading.Lock()

    def add(item: GroupedBlock) -> None:
        sealed(lambda: task.add(gathered, *item), TABLE)
        with one_at_a_time:
            tell(progress, item[0])

    with closing(_blocks(data, task)) as blocks:
        share(blocks, add, thread_count(task.threads))
    return gathered


def _blocks(data: Any, task: Task) -> Generator[GroupedBlock, None, None]:
    rows, groups = (data.rows, data.groups) if isinstance(data, GroupedRows) else (data, None)
    if groups is not None:
        rows = open_source(rows)
        _require_a_group_a_row(rows, len(groups))
    start = 0
    with closing(prefetch(task.blocks(rows))) as blocks:
        for block in blocks:
            yield block, None if groups is None else groups[start : start + len(block)]
            start += len(block)


def _require_a_group_a_row(source: Source, n_groups: int) -> None:
    # Groups belong to rows by position, so rows need places that nothing in them can move.
    if source.n_rows is None:
        raise UsageError(
            "Groups beside the rows need an array or a data frame in memory, whose rows have fixed "
            "places. For a file or a query put the groups into a column, and use release(by=...)."
        )
    if source.n_rows != n_groups:
        raise DataError("There are not as many groups as rows. Give every row its group.")


def thread_count(threads: int | None) -> int:
    """As many threads as asked for, or one for every core that this process may use."""
    if threads is not None:
        return threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prefetch(items: Iterable[Item]) -> Generator[Item, None, None]:
    """Iterate over ``items`` with a background thread that stays up to two items ahead."""
    waiting: queue.SimpleQueue[object] = queue.SimpleQueue()
    room, stopped = threading.Semaphore(2), threading.Event()
    failure: list[BaseException] = []

    def read() -> None:
        try:
            for item in items:
                waiting.put(item)
                room.acquire()
                if stopped.is_set():
                    return
        except BaseException as error:
            failure.append(error)
        waiting.put(_DONE)

    # A daemon: a reader that is stuck in a library must not keep the process alive.
    reader = threading.Thread(target=read, name="dpcov-prefetch", daemon=True)
    reader.start()
    try:
        while (item := waiting.get()) is not _DONE:
            room.release()
            yield item  # type: ignore[misc]
        if failure:
            raise failure[0]
    finally:
        stopped.set()
        room.release()


def share(items: Iterator[Item], work: Callable[[Item], None], threads: int) -> None:
    """Call ``work`` with every item, in up to ``threads`` threads."""
    few = list(itertools.islice(items, 2))
    if threads == 1 or len(few) < 2:
        for item in _released(few, items):
            work(item)
        return
    free, failures = threading.Semaphore(threads), list[BaseException]()

    def attend(item: Item) -> None:
        try:
            work(item)
        except BaseException as error:
            failures.append(error)
        finally:
            free.release()

    turns = _released(few, items)
    with one_thread(), ThreadPoolExecutor(threads, "dpcov-moments") as pool:
        # Only this thread waits for items, so that an interrupt ends the call although none comes.
        while free.acquire() and not failures and (taken := list(itertools.islice(turns, 1))):
            pool.submit(attend, taken.pop())
    try:
        if failures:
            raise failures[0]
    finally:
        # The traceback would keep rows in memory.
        failures.clear()


def _released(first: list[Item], rest: Iterator[Item]) -> Iterator[Item]:
    # Iterate over items already taken, keeping none of them, and then the rest.
    while first:
        yield first.pop(0)
    yield from rest

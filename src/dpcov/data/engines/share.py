"""Work on a stream of items in several threads.

Promise: every item is worked on once; the first error ends the work and surfaces; no thread outlives the call; no more
items are in memory than there are threads.  While threads work, each of them multiplies matrices alone.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")

_NOTHING = object()


def share(items: Iterator[Item], work: Callable[[Item], None], threads: int) -> None:
    """Call ``work`` with every item, in up to ``threads`` threads that take turns at the iterator."""
    few = list(itertools.islice(items, 2))
    if threads == 1 or len(few) < 2:
        for item in _released(few, items):
            work(item)
        return
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads, "dpcov-moments") as pool:
        turns = _Turns(_released(few, items))
        for done in [pool.submit(turns.work_through, work) for _ in range(threads)]:
            done.result()


class _Turns:
    """An iterator that several threads take items from, until it ends or one of them fails."""

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._lock = threading.Lock()
        self._failed = False

    def work_through(self, work: Callable[[Item], None]) -> None:
        """Take items and work on them until none is left."""
        try:
            while (item := self._take()) is not _NOTHING:
                work(item)  # type: ignore[arg-type]
                del item
        except BaseException:
            self._failed = True
            raise

    def _take(self) -> object:
        with self._lock:
            return _NOTHING if self._failed else next(self._items, _NOTHING)


def _released(first: list[Item], rest: Iterator[Item]) -> Iterator[Item]:
    """Iterate over items already taken, keeping none of them, and then the rest."""
    while first:
        yield first.pop(0)
    yield from rest

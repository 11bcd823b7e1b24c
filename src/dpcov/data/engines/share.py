"""Work on a stream of items in several threads.

Contract: every item is worked on once; the first error ends the work and surfaces; no thread
outlives the call; no more items are in memory than there are threads.  While threads work, each
multiplies matrices alone.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from dpcov.published.linalg.one_thread import one_thread

Item = TypeVar("Item")


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
        failures.clear()


def _released(first: list[Item], rest: Iterator[Item]) -> Iterator[Item]:
    # Iterate over items already taken, keeping none of them, and then the rest.
    while first:
        yield first.pop(0)
    yield from rest

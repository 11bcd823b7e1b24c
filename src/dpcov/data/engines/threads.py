"""Read blocks ahead, and work on them in several threads.

Contract: same items in the same order, and each is worked on once; the first error ends the work
and surfaces; no thread outlives its caller; few items are in memory.
"""

import itertools
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from dpcov.published.linalg.one_thread import one_thread

Item = TypeVar("Item")

_DONE = object()


def prefetch(items: Iterable[Item], depth: int = 2) -> Generator[Item, None, None]:
    """Iterate over ``items`` with a background thread that stays up to ``depth`` items ahead."""
    waiting: queue.Queue[object] = queue.Queue(maxsize=depth)
    stopped = threading.Event()
    failure: list[BaseException] = []

    def read() -> None:
        try:
            for item in items:
                if not _put(waiting, item, stopped):
                    return
        except BaseException as error:
            failure.append(error)
        _put(waiting, _DONE, stopped)

    # A daemon: a reader that is stuck in a library must not keep the process alive.
    reader = threading.Thread(target=read, name="dpcov-prefetch", daemon=True)
    reader.start()
    try:
        while (item := waiting.get()) is not _DONE:
            yield item  # type: ignore[misc]
        if failure:
            raise failure[0]
    finally:
        stopped.set()


def _put(waiting: "queue.Queue[object]", item: object, stopped: threading.Event) -> bool:
    # Hand an item over; False when nobody wants it any more.
    # Wakes up now and then to see whether the consumer has stopped.
    while not stopped.is_set():
        try:
            waiting.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False


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

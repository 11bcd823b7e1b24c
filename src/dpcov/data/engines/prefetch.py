"""Read the next blocks while the current one is being worked on.

Contract: same items in the same order; an error of the reader surfaces in the consumer; a consumer
that stops early stops the reader; at most ``depth`` blocks wait.
"""

import queue
import threading
from collections.abc import Generator, Iterable
from typing import TypeVar

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
    while not stopped.is_set():
        try:
            waiting.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False

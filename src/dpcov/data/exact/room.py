"""Let one thread at a time into what several threads share.

Contract: what holds a lock can be copied and pickled.
"""

import threading


# Pickles of moments name this module.
class Lock:
    """A lock that is new in every copy: locks themselves cannot be pickled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *raised: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["Lock"], tuple[()]]:
        return Lock, ()

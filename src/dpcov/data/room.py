"""Use memory again, block after block: new pages cost as much as the arithmetic on them.

Contract: what a thread asks for under one name is overwritten when it asks again.
"""

import threading

import numpy as np
from numpy.typing import NDArray


class Room(threading.local):
    """Matrices whose columns lie together, one for each name and thread."""

    def __init__(self) -> None:
        self._held: dict[str, NDArray[np.float64]] = {}

    def __reduce__(self) -> tuple[type["Room"], tuple[()]]:
        return Room, ()

    def matrix(self, name: str, n_rows: int, n_columns: int) -> NDArray[np.float64]:
        """An (n_rows, n_columns) matrix that holds anything."""
        size, held = n_rows * n_columns, self._held.get(name)
        if held is None or len(held) < size:
            held = self._held[name] = np.empty(size)
        return held[:size].reshape(n_columns, n_rows).T


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

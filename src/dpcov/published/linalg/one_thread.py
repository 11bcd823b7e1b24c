"""One thread for linear algebra that is too small to share.

Contract: results do not change but for rounding, and BLAS gets its threads back whatever the order in which
threads of the program enter and leave.  Knows nothing of privacy, rows or noise.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

SHARED_FROM = 1000
"""Dimension from which BLAS may share its work.  Measured with two cores: on a quiet machine a second thread saves 7 ms
of an eigendecomposition at 500 and 60 ms at 1000; on a busy one threads wait for each other in every one of many
short steps, and it takes 10 to 30 times as long."""

WORTH_IT = 64
"""Dimension below which BLAS does not share its work anyway."""

_TURN = threading.RLock()
"""The limit is the process's, not a thread's: whoever sets it takes it back, and others leave it alone until then."""


@contextmanager
def one_thread(dimension: int | None = None) -> Iterator[None]:
    """Keep BLAS to one thread inside the block, unless another thread of the program does so already.

    Parameters
    ----------
    dimension : int, optional
        Size of the matrices; nothing changes where they are better shared or too small to matter.  Always one thread
        if not given.
    """
    if dimension is not None and not WORTH_IT <= dimension < SHARED_FROM:
        yield
        return
    if not _TURN.acquire(blocking=False):
        yield
        return
    try:
        with _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas"):
            yield
    finally:
        _TURN.release()


@cache
def _controller(with_scipy: bool) -> Any:
    """The BLAS libraries that are loaded; scipy brings one of its own."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()

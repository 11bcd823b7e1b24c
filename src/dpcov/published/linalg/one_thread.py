"""One thread for linear algebra that is too small to share.

Contract: results do not change but for rounding, and BLAS gets its threads back whatever the order
in which threads of the program enter and leave.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

# Dimension from which BLAS may share its work.  With two quiet cores a second thread saves 7 ms of
# an eigendecomposition at 500 and 60 ms at 1000; with busy ones threads wait for each other in
# each of many short steps, and it takes 10 to 30 times as long.
SHARED_FROM = 1000
# The limit is the process's, not a thread's: whoever sets it takes it back.
_TURN = threading.RLock()


@contextmanager
def one_thread(dimension: int | None = None) -> Iterator[None]:
    """Keep BLAS to one thread inside the block, unless another thread does so already.

    Nothing changes where matrices of this dimension are better shared.
    """
    matters = dimension is None or dimension < SHARED_FROM
    if not matters or not _TURN.acquire(blocking=False):
        yield
        return
    try:
        with _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas"):
            yield
    finally:
        _TURN.release()


@cache
def _controller(with_scipy: bool) -> Any:
    # The BLAS libraries that are loaded; scipy brings one of its own.
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()

"""One thread for linear algebra that is too small to share.

Promise: results do not change but for rounding.  Knows nothing of privacy, rows or noise.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

SHARED_FROM = 1000
"""Dimension from which a second thread shortens an eigendecomposition.  At 500 it lengthens it: threads wait for each
other in every one of many short steps."""

WORTH_IT = 64
"""Dimension below which BLAS does not share its work anyway."""


@contextmanager
def one_thread(dimension: int) -> Iterator[None]:
    """Keep BLAS to one thread inside the block if matrices of this dimension are quicker so."""
    if not WORTH_IT <= dimension < SHARED_FROM:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()

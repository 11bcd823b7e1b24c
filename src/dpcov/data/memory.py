"""Say how much memory this process may take.

Contract: the limit is the stated one, or follows from the machine; nothing of the rows decides.
"""

import math
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

_GIB = 2**30
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def allowed_bytes(stated: float | None) -> float:
    """Bytes for a stated number of GiB, or what this process may take."""
    return machine_memory() if stated is None else stated * _GIB


@cache
def machine_memory() -> float:
    """Bytes that this process may take: the machine's, or fewer in a container."""
    limits = [math.inf]
    if hasattr(os, "sysconf"):
        limits.append(float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
    for name in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):
            limits.append(float(Path(name).read_text()))
    return min(limits)


def gib(number: float) -> str:
    """A number of bytes in GiB, for messages."""
    return f"{number / _GIB:.2g}" if number < 0.995 * _GIB else f"{number / _GIB:.1f}"

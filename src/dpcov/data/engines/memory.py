"""Decide from public numbers, before a row is read, whether gathering fits into memory.

Contract: counts every stratum as if it were inhabited, so that neither a refusal nor the memory
that is counted on says anything about the rows.
"""

import math
import os
from contextlib import suppress
from pathlib import Path

from dpcov.data.engines.base import Task
from dpcov.data.exact import panel_entries
from dpcov.errors import UsageError

# Blocks that a thread holds while it works on one, and blocks that are read ahead.
_BLOCKS_PER_THREAD = 4
_BLOCKS_AHEAD = 3
_GIB = 2**30
_ENTRY = 8
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def working_bytes(task: Task, threads: int) -> int:
    """Bytes of the blocks and products in flight."""
    block = task.block_rows * task.encoding.n_features
    product = 2 * panel_entries(task.encoding.n_features)
    return _ENTRY * (threads * (_BLOCKS_PER_THREAD * block + product) + _BLOCKS_AHEAD * block)


def require_memory(task: Task, *, threads: int = 1, copies: int = 1) -> None:
    """Refuse what cannot fit where so many threads multiply and so many moments are held."""
    limit = allowed_bytes(task.memory_limit)
    sums, working = copies * task.answer_bytes, working_bytes(task, threads)
    if sums + working > limit:
        raise UsageError(
            f"Gathering needs up to {_gib(sums + working)} GiB of memory, but may take "
            f"{_gib(limit)}: {_gib(sums)} for what is summed, {_gib(working)} for blocks in "
            f"{threads} threads. Use fewer columns, groups, shells (an option of the mechanism) or "
            "threads, or raise memory_limit."
        )


def allowed_bytes(stated: float | None) -> float:
    """Bytes for a stated number of GiB, or what this process may take."""
    return machine_memory() if stated is None else stated * _GIB


def machine_memory() -> float:
    """Bytes that this process may take: the machine's, or fewer in a container."""
    limits = [math.inf]
    if hasattr(os, "sysconf"):
        limits.append(float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
    for name in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):
            limits.append(float(Path(name).read_text()))
    return min(limits)


def _gib(number: float) -> str:
    return f"{number / _GIB:.2g}" if number < 0.995 * _GIB else f"{number / _GIB:.1f}"

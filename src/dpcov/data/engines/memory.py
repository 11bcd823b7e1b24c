"""Whether gathering fits into memory, decided from public numbers before a row is read.

Contract: counts every stratum as if it were inhabited, so that neither a refusal nor the memory that is
counted on says anything about the rows.
"""

import math
import os
from pathlib import Path

from dpcov.data.engines.base import MomentsTask
from dpcov.data.exact import packed_entries, panel_entries
from dpcov.errors import UsageError

_WORDS = 2
"""A sum of more than about four million rows at 20 bits takes a second word."""

_BLOCKS_PER_THREAD = 4
_BLOCKS_AHEAD = 3
_GIB = 2**30
_ENTRY = 8

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def sums_bytes(task: MomentsTask) -> int:
    """Bytes of one `Moments` with all strata inhabited."""
    matrices = task.spec.n_strata * (2 if task.spec.normalized else 1)
    return matrices * packed_entries(task.encoding.n_features) * _WORDS * _ENTRY


def working_bytes(task: MomentsTask, threads: int) -> int:
    """Bytes of the blocks and products in flight."""
    block = task.block_rows * task.encoding.n_features
    product = 2 * panel_entries(task.encoding.n_features)
    return _ENTRY * (threads * (_BLOCKS_PER_THREAD * block + product) + _BLOCKS_AHEAD * block)


def require_memory(task: MomentsTask, *, threads: int = 1, copies: int = 1) -> None:
    """Refuse what cannot fit.

    Parameters
    ----------
    task : MomentsTask
    threads : int
        Threads that multiply at a time.
    copies : int
        Moments that are held at a time.

    Raises
    ------
    UsageError
        Saying the GiB needed and what to change.
    """
    limit = allowed_bytes(task.memory_limit)
    sums, working = copies * sums_bytes(task), working_bytes(task, threads)
    if sums + working <= limit:
        return
    spec = task.spec
    kinds = "two matrices" if spec.normalized else "one matrix"
    raise UsageError(
        f"Gathering needs up to {_gib(sums + working)} GiB of memory, but may take {_gib(limit)}: "
        f"{_gib(sums)} for {kinds} of {task.encoding.n_features} features in each of {spec.n_strata} strata "
        f"({spec.shells} shells, {spec.groups} groups), {_gib(working)} for blocks in {threads} threads. "
        "Use fewer columns, groups, shells (an option of the mechanism) or threads, or raise memory_limit."
    )


def allowed_bytes(stated: float | None) -> float:
    """Bytes for a stated number of GiB, or what this process may take."""
    if stated is None:
        return machine_memory()
    return stated * _GIB


def machine_memory() -> float:
    """Bytes that this process may take: the machine's, or fewer in a container."""
    limits = (
        [float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))]
        if hasattr(os, "sysconf")
        else []
    )
    for name in _CGROUP_LIMITS:
        try:
            limits.append(float(Path(name).read_text()))
        except (OSError, ValueError):
            continue
    return min(limits, default=math.inf)


def _gib(number: float) -> str:
    return f"{number / _GIB:.2g}" if number < 0.995 * _GIB else f"{number / _GIB:.1f}"

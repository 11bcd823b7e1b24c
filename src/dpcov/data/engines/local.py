"""Moments of files, frames and arrays on this machine, block by block.

Contract: memory does not depend on the number of rows, and what cannot fit is refused before the first one is
read.
"""

import os
import threading
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcov.data.engines.base import Encoding, MomentsTask, Progress, block_rows, tell
from dpcov.data.engines.memory import require_memory
from dpcov.data.engines.prefetch import prefetch
from dpcov.data.engines.share import share
from dpcov.data.moments import Moments
from dpcov.data.sources import Block, Source, open_source
from dpcov.errors import DataError, UsageError

GroupedBlock = tuple[Block, NDArray[np.intp] | None]


@dataclass(frozen=True, kw_only=True)
class GroupedRows:
    """Rows and the group of each; sensitive."""

    rows: Any
    groups: NDArray[np.intp]

    def __repr__(self) -> str:
        return "GroupedRows(<sensitive>)"


def columns(data: Any) -> tuple[str, ...]:
    """Names of the data's columns."""
    return open_source(data).columns


def moments(data: Any, task: MomentsTask, progress: Progress | None = None) -> Moments:
    """Read once, block by block; every thread encodes and multiplies blocks while the next ones are being read."""
    threads = thread_count(task.threads)
    require_memory(task, threads=threads)
    gathered = task.empty()
    one_at_a_time = threading.Lock()

    def add(item: GroupedBlock) -> None:
        task.add(gathered, *item)
        with one_at_a_time:
            tell(progress, item[0])

    with closing(_blocks(data, task.encoding)) as blocks:
        share(blocks, add, threads)
    return gathered


def _blocks(data: Any, encoding: Encoding) -> Generator[GroupedBlock, None, None]:
    rows, groups = (data.rows, data.groups) if isinstance(data, GroupedRows) else (data, None)
    start = 0
    source = open_source(rows)
    if groups is not None:
        _require_a_group_a_row(source, len(groups))
    read = source.blocks(block_rows(encoding.n_features), wanted=encoding.wanted)
    with closing(prefetch(read)) as blocks:
        for block in blocks:
            yield block, None if groups is None else groups[start : start + len(block)]
            start += len(block)


def _require_a_group_a_row(source: Source, n_groups: int) -> None:
    """Groups belong to rows by position, so rows need places that nothing in them can move."""
    if source.n_rows is None:
        raise UsageError(
            "Groups beside the rows need an array or a data frame in memory, whose rows have fixed places. "
            "For a file or a query put the groups into a column, and use release(by=...)."
        )
    if source.n_rows != n_groups:
        raise DataError("There are not as many groups as rows. Give every row its group.")


def thread_count(threads: int | None) -> int:
    """As many threads as asked for, or one for every core that this process may use."""
    if threads is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    return threads

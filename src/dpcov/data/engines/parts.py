"""One part of a table in a process of its own: its moments, or in public words why there are none.

Contract: a worker that stumbles over a row hands back a value and raises nothing, so that its framework has
nothing to log, to quote or to try again.  Nothing is added to what already exists: a task that runs twice
gives the same value twice.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dpcov.data.engines.base import Task
from dpcov.data.histograms import Histograms
from dpcov.data.moments import Moments
from dpcov.data.seal import sealed
from dpcov.data.sources import open_source
from dpcov.errors import DataError, DpcovError

FAN_IN = 4
"""Moments merged at a time."""

TABLE = "the table"


@dataclass(frozen=True)
class Failure:
    """Why a part has no moments; public."""

    error: DpcovError


Gathered = Moments | Histograms | Failure


def gather_part(task: Task, part: Any) -> Gathered:
    """Moments of a partition in memory."""
    return attempt(lambda: task.gather(part))


def attempt(gather: Callable[[], Moments]) -> Gathered:
    """Return what ``gather`` returns, or the sealed error that it raised."""
    try:
        return sealed(gather, TABLE)
    except DpcovError as error:
        failure = Failure(type(error)(str(error)))
    return failure


def merge_parts(task: Task, parts: Iterable[Gathered]) -> Gathered:
    """Return new moments of all parts, or the first failure."""
    merged = task.empty()
    for part in parts:
        if isinstance(part, Failure):
            return part
        merged.merge(part)
    made: Gathered = merged
    return made


def merge_or_raise(task: Task, parts: Iterable[Gathered]) -> Any:
    """Return new moments of all parts; raise the first failure, which ends the other tasks."""
    merged = merge_parts(task, parts)
    if isinstance(merged, Failure):
        raise merged.error
    return merged


def require_columns(names: Iterable[str], task: Task) -> None:
    """Refuse a table without the wanted columns before any work is sent out."""
    columns = tuple(names)
    if len(set(columns)) != len(columns) or not columns:
        raise DataError("The table needs columns, and all of different names. Rename them.")
    empty = open_source(pa.table({name: pa.nulls(1) for name in columns}))
    next(iter(empty.blocks(1, wanted=task.encoding.wanted)))

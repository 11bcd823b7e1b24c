"""Gather one part of a table in a process of its own.

Contract: a worker that stumbles over a row hands back a value and raises nothing, so that its
framework has nothing to log, to quote or to try again.  Nothing is added to what already exists: a
task that runs twice gives the same value twice.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dpcov.data.engines.base import MomentsTask
from dpcov.data.moments import Moments
from dpcov.data.seal import sealed
from dpcov.data.sources import open_source
from dpcov.errors import DataError, DpcovError

# Moments merged at a time.
FAN_IN = 4

TABLE = "the table"


@dataclass(frozen=True)
class Failure:
    """Why a part has no moments; public."""

    error: DpcovError


Gathered = Moments | Failure


def gather_part(task: MomentsTask, part: Any) -> Gathered:
    """Moments of a partition in memory."""
    return attempt(lambda: task.gather(part))


def attempt(gather: Callable[[], Moments]) -> Gathered:
    """Return what ``gather`` returns, or the sealed error that it raised."""
    try:
        return sealed(gather, TABLE)
    except DpcovError as error:
        # A new error: the old one's traceback holds rows.
        failure = Failure(type(error)(str(error)))
    return failure


def merge_parts(task: MomentsTask, parts: Iterable[Gathered]) -> Gathered:
    """Return new moments of all parts, or the first failure."""
    merged = task.empty()
    for part in parts:
        if isinstance(part, Failure):
            return part
        merged.merge(part)
    return merged


def merge_or_raise(task: MomentsTask, parts: Iterable[Gathered]) -> Moments:
    """Return new moments of all parts; raise the first failure, which ends the other tasks."""
    merged = merge_parts(task, parts)
    if isinstance(merged, Failure):
        raise merged.error
    return merged


def require_columns(names: Iterable[str], task: MomentsTask) -> None:
    """Refuse a table without the wanted columns before any work is sent out."""
    columns = tuple(names)
    if len(set(columns)) != len(columns) or not columns:
        raise DataError("The table needs columns, and all of different names. Rename them.")
    empty = open_source(pa.table({name: pa.nulls(1) for name in columns}))
    next(iter(empty.blocks(1, wanted=task.encoding.wanted)))

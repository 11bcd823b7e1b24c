"""Gather moments of Dask arrays, data frames and Parquet files, on the active scheduler.

Contract: the moments of a partition are the value of a task and are merged in a tree of such
values, so that a worker may die and its tasks run again without any row counting twice.  Rows never
leave the workers, and no task raises with rows among its arguments, which Dask would log.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array
import dask.dataframe
import distributed
from dask.delayed import delayed

from dpcov.data.engines import base
from dpcov.data.engines.parquet import gather_piece, open_files, pieces
from dpcov.data.seal import explain, sealed
from dpcov.data.sources.base import number_names
from dpcov.errors import DataError

_TAKES = (
    "The dask engine takes a Dask array or data frame, or the path of a Parquet file or of a "
    "folder of them. Delayed partitions declare no types: pass "
    "dask.dataframe.from_delayed(parts, meta=...)."
)

# Types of columns of which every cell is an object, or a text.
_TEXTS = {"object", "str", "string"}


def columns(data: Any) -> tuple[str, ...]:
    """Names of the columns."""
    if isinstance(data, dask.array.Array):
        return number_names(_array(data).shape[1])
    if isinstance(data, dask.dataframe.DataFrame):
        return tuple(str(label) for label in data.columns)
    if isinstance(data, str | Path):
        return tuple(open_files(data, _TAKES).schema.names)
    raise DataError(_TAKES)


def check(data: Any, task: base.Task) -> None:
    """Refuse what cannot be gathered; no row is read."""
    base.require_memory(task, copies=base.FAN_IN + 1)


def moments(data: Any, task: base.Task, progress: base.TellRows | None = None) -> Any:
    """Moments of every partition, merged on the workers; only the sum comes to this process."""
    check(data, task)
    shared = delayed(task, traverse=False, pure=False)
    gather, parts = sealed(lambda: _parts(data, task), base.TABLE, _describe)
    # Not pure: a key made of the content would say something of the rows.
    leaves = [delayed(gather, pure=False)(shared, part) for part in parts]
    total = sealed(lambda: _tree(shared, leaves).compute(), base.TABLE, _describe)
    # Arrays that arrived from another process may be read-only; the merged ones are not.
    return base.require_rows(base.merge_or_raise(task, [total]), progress)


def _parts(data: Any, task: base.Task) -> tuple[Callable[..., base.Gathered], Sequence[Any]]:
    if isinstance(data, dask.array.Array):
        return partial(_gather_chunk, data.dtype), list(_array(data).to_delayed().ravel())
    if isinstance(data, dask.dataframe.DataFrame):
        labels = {str(label): label for label in data.columns}
        data = data[[labels[name] for name in base.require_columns(columns(data), task)]]
        declared = {str(label): dtype for label, dtype in data.dtypes.items()}
        return partial(_gather_partition, declared), data.to_delayed()
    if isinstance(data, str | Path):
        dataset = open_files(data, _TAKES)
        names = base.require_columns(dataset.schema.names, task)
        return partial(gather_piece, names), pieces(dataset, names)
    raise DataError(_TAKES)


def _gather_chunk(declared: Any, task: base.Task, chunk: Any) -> base.Gathered:
    # Moments of a chunk of the type that the whole array declares.
    def gather() -> Any:
        if chunk.dtype != declared:
            raise DataError(
                "A chunk has another type than the array declares. Convert it in all chunks, for "
                "example with astype."
            )
        return task.gather(chunk)

    return base.attempt(gather)


def _gather_partition(declared: Mapping[str, Any], task: base.Task, part: Any) -> base.Gathered:
    # Moments of a partition, whose columns have the types that the whole frame declares.
    return base.attempt(lambda: task.gather(_as_declared(part, declared)))


def _as_declared(part: Any, declared: Mapping[str, Any]) -> Any:
    # Cells of a column of objects are read one by one; no other type may depend on the partition.
    part = part.set_axis([str(label) for label in part.columns], axis=1)
    for name, dtype in declared.items():
        if not _is_of(part[name].dtype, dtype):
            known = (
                "Let Dask know its categories (.categorize(columns=[...])), or leave it as it was."
                if dtype.name == "category"
                else "Convert it in all partitions, for example with astype. Of Parquet files with "
                'missing values read_parquet(..., dtype_backend="pyarrow") keeps the types, and so '
                'does engine="dask" with their path.'
            )
            raise DataError(
                f"Column '{name}' has another type in a partition than the data frame declares. "
                f"{known}"
            )
        if dtype.name == "object":
            part = part.assign(**{name: part[name].astype(object)})
    return part


def _is_of(found: Any, declared: Any) -> bool:
    # pandas infers types of objects from the rows of a partition; texts alone are objects, too.
    if declared.name == "object":
        return found.name in _TEXTS
    if found.name == declared.name == "category":
        found, declared = found.categories.dtype, declared.categories.dtype
        # Where Dask does not know the categories it declares a text.
        return found == declared or {found.name, declared.name} <= _TEXTS
    return bool(found.name == declared.name)


def _array(data: Any) -> Any:
    # An unknown length is NaN, which does not equal itself; and a row must lie in one chunk.
    if data.ndim != 2 or data.shape[1] != data.shape[1]:
        raise DataError("Give an array of rows and columns, whose number of columns Dask knows.")
    return data if data.numblocks[1] == 1 else data.rechunk({1: -1})


def _tree(task: Any, leaves: Sequence[Any]) -> Any:
    # Merges raise what the leaves only report: they hold no rows.
    merge = delayed(base.merge_or_raise, pure=False)
    level = list(leaves)
    while len(level) > base.FAN_IN:
        starts = range(0, len(level), base.FAN_IN)
        level = [merge(task, level[start : start + base.FAN_IN]) for start in starts]
    return merge(task, level)


def _describe(error: Exception) -> str:
    if isinstance(error, distributed.KilledWorker):
        return (
            "workers died again and again at the same partition, most likely of too little memory. "
            "Use smaller partitions."
        )
    if isinstance(error, OSError | MemoryError | UnicodeDecodeError):
        return explain(error)
    return (
        f"Dask could not make its partitions ({type(error).__name__}). "
        "Try the computation that leads to them alone."
    )

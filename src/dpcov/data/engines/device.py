"""Gather moments on a GPU or another device that PyTorch drives.

Contract: tensors are encoded, quantized and multiplied where they are; files and tables are encoded
here and sent block by block.  A device that does not multiply exactly is refused before any row.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from dpcov.data.engines.arrays import DeviceMoments, require_exact_products
from dpcov.data.engines.base import MomentsTask, Task, TellRows, require_memory, require_rows, tell
from dpcov.data.exact.library import Library
from dpcov.data.seal import explain, sealed
from dpcov.data.sources import open_source
from dpcov.data.sources.base import number_names
from dpcov.errors import DataError, UsageError

# Values that are encoded and quantized at a time, half a GiB; and arrays of this size alive then.
_CHUNK_VALUES = 2**26
_CHUNKS = 6


def columns(data: Any) -> tuple[str, ...]:
    """Names of the columns."""
    if not isinstance(data, torch.Tensor):
        return open_source(data).columns
    if len(data.shape) != 2:
        raise DataError("Give a matrix of rows and columns.")
    return number_names(int(data.shape[1]))


def check(data: Any, task: Task) -> None:
    """Refuse what cannot be gathered, and a device that rounds; no row is read."""
    require_memory(task)
    if isinstance(task, MomentsTask):
        device = _device(data)
        _require_device_memory(device, task)
        # A device that rounds would break every guarantee.
        sealed(lambda: require_exact_products(torch_library(device)), "the array", _describe)


def moments(data: Any, task: Task, progress: TellRows | None = None) -> Any:
    """Moments on the device that holds the data, or on the first GPU, or else on the CPU."""
    check(data, task)
    gathered = sealed(lambda: _gather(data, task, progress), "the array", _describe)
    return require_rows(gathered)


def _gather(data: Any, task: Task, progress: TellRows | None) -> Any:
    if not isinstance(task, MomentsTask):
        # Counting is no product: blocks come to this machine one by one.
        answer = task.empty()
        for block in _blocks(data, task, task.block_rows):
            # As its type holds it: missing codes are rounded to single precision, too.
            task.add(answer, block.cpu().numpy() if isinstance(block, torch.Tensor) else block)
            tell(progress, block)
        return answer
    device = _device(data)
    gathered = DeviceMoments(torch_library(device), task)
    for block in _blocks(data, task, max(1, _CHUNK_VALUES // task.encoding.n_features)):
        if isinstance(block, torch.Tensor):
            gathered.add_raw(block.to(device))
        else:
            gathered.add_host(block)
        tell(progress, block)
    return gathered.fetch()


def _blocks(data: Any, task: Task, rows: int) -> Iterable[Any]:
    # Parts of a tensor of so many rows, or what a source reads.
    if not isinstance(data, torch.Tensor):
        return task.blocks(data)
    if len(data.shape) != 2 or data.is_complex() or data.is_sparse:
        raise DataError("Give a dense matrix of real numbers with rows and columns.")
    return torch.split(data.detach(), rows)


def _device(data: Any) -> torch.device:
    if not isinstance(data, torch.Tensor):
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # Apple's devices have no float64.
    return torch.device("cpu") if data.device.type == "mps" else data.device


def torch_library(device: torch.device) -> Library:
    """PyTorch on a device."""
    kinds = {"float64": torch.float64, "int64": torch.int64}
    return Library(
        module=torch,
        from_host=lambda array: torch.from_numpy(np.ascontiguousarray(array)).to(device),
        to_host=lambda array: array.cpu().numpy(),
        cast=lambda array, kind: array.to(kinds[kind]),
        norms=lambda rows: torch.sum(rows * rows, dim=1),
    )


def _require_device_memory(device: torch.device, task: MomentsTask) -> None:
    # Refuse sums that cannot fit on a GPU, as if every stratum were inhabited.
    if device.type != "cuda":
        return
    needed = 8 * (task.n_matrices * task.encoding.n_features**2 + _CHUNKS * _CHUNK_VALUES)
    has = torch.cuda.get_device_properties(device).total_memory
    if needed > has:
        raise UsageError(
            f"Gathering needs up to {needed / 2**30:.1f} GiB on a device with {has / 2**30:.1f}. "
            "Use fewer columns, groups or shells, or engine='local' (--engine local)."
        )


def _describe(error: Exception) -> str:
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return (
            "the device has not enough memory; free some, or use engine='local' (--engine local)."
        )
    return explain(error)

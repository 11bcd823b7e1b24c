"""Moments on a GPU or another device that PyTorch drives.

Contract: tensors stay where they are and are encoded, quantized and multiplied there; files and tables are
encoded here and sent block by block.  A device that does not multiply exactly is refused before a row is
read.
"""

from typing import Any

import numpy as np
import torch

from dpcov.data.engines.arrays import DeviceMoments, Library, require_exact_products
from dpcov.data.engines.base import MomentsTask, TellRows, require_rows, tell
from dpcov.data.engines.memory import require_memory
from dpcov.data.moments import Moments
from dpcov.data.seal import explain, sealed
from dpcov.data.sources import open_source
from dpcov.data.sources.base import number_names
from dpcov.errors import DataError, UsageError

_CHUNK_VALUES = 2**26
"""Values that are encoded and quantized at a time: half a GiB."""

_CHUNKS = 6
"""Arrays of this size that are alive at a time."""


def columns(data: Any) -> tuple[str, ...]:
    """Names of the columns."""
    if not isinstance(data, torch.Tensor):
        return open_source(data).columns
    if len(data.shape) != 2:
        raise DataError("Give a matrix of rows and columns.")
    return number_names(int(data.shape[1]))


def moments(data: Any, task: MomentsTask, progress: TellRows | None = None) -> Moments:
    """Moments by products on the device that holds the data, or on the first GPU, or on the CPU if there is none."""
    require_memory(task)
    gathered = sealed(lambda: _gather(data, task, progress), "the array", _describe)
    return require_rows(gathered)


def _gather(data: Any, task: MomentsTask, progress: TellRows | None) -> Moments:
    device = _home(data) if isinstance(data, torch.Tensor) else _default_device()
    _require_device_memory(device, task)
    on = torch_library(device)
    require_exact_products(on)
    gathered = DeviceMoments(on, task)
    if isinstance(data, torch.Tensor):
        _add_array(data, gathered, device, progress)
    else:
        for block in open_source(data).blocks(task.block_rows, wanted=task.encoding.wanted):
            gathered.add_host(block)
            tell(progress, block)
    return gathered.fetch()


def _add_array(
    data: torch.Tensor, gathered: DeviceMoments, device: torch.device, progress: TellRows | None
) -> None:
    if len(data.shape) != 2 or data.is_complex() or data.is_sparse:
        raise DataError("Give a dense matrix of real numbers with rows and columns.")
    n_rows, n_features = (int(length) for length in data.shape)
    step = max(1, _CHUNK_VALUES // max(1, n_features))
    for start in range(0, n_rows, step):
        block = data[start : start + step]
        gathered.add_raw(block.detach().to(device))
        if progress is not None:
            progress(len(block))


def _home(data: torch.Tensor) -> torch.device:
    """The tensor's device, unless it has no float64."""
    return torch.device("cpu") if data.device.type == "mps" else data.device


def _default_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def torch_library(device: torch.device) -> Library:
    """PyTorch on a device."""
    kinds = {"float64": torch.float64, "int64": torch.int64}
    return Library(
        module=torch,
        from_host=lambda array: torch.from_numpy(np.ascontiguousarray(array)).to(device),
        to_host=lambda array: array.cpu().numpy(),
        cast=lambda array, kind: array.to(kinds[kind]),
    )


def _require_device_memory(device: torch.device, task: MomentsTask) -> None:
    """Refuse sums that cannot fit on a GPU, as if every stratum were inhabited."""
    if device.type != "cuda":
        return
    matrices = task.spec.n_strata * (2 if task.spec.normalized else 1)
    needed = 8 * (matrices * task.encoding.n_features**2 + _CHUNKS * _CHUNK_VALUES)
    has = torch.cuda.get_device_properties(device).total_memory
    if needed > has:
        raise UsageError(
            f"Gathering needs up to {needed / 2**30:.1f} GiB on a device with {has / 2**30:.1f}. "
            "Use fewer columns, groups or shells, or engine='local'."
        )


def _describe(error: Exception) -> str:
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return "the device has not enough memory; free some, or use engine='local'."
    return explain(error)

"""Moments on a GPU or another device that an array library drives; PyTorch first.

Promise: tensors stay where they are and are encoded, quantized and multiplied there; files and tables are encoded here
and sent block by block.  A device that does not multiply exactly is refused before a row is read.
"""

import math
from importlib import import_module
from typing import Any

import numpy as np
import torch

from dpcov.data.engines.arrays import (
    DeviceMoments,
    Library,
    Products,
    float64_products,
    require_exact_products,
)
from dpcov.data.engines.base import MomentsTask, Progress, require_rows, tell
from dpcov.data.engines.int8 import faster, int8_products
from dpcov.data.engines.memory import require_memory
from dpcov.data.moments import Moments
from dpcov.data.seal import explain, sealed
from dpcov.data.sources import open_source
from dpcov.data.sources.base import number_names
from dpcov.errors import DataError, UsageError

_CHUNK_VALUES = 2**26
"""Values that are encoded and quantized at a time: half a GiB."""

_TRIAL_ROWS = 2**15
"""Rows with which products are tried."""

_CHUNKS = 6
"""Arrays of this size that are alive at a time."""


def columns(data: Any) -> tuple[str, ...]:
    """Names of the columns."""
    if not _lies_on_a_device(data):
        return open_source(data).columns
    if len(data.shape) != 2:
        raise DataError("Give a matrix of rows and columns.")
    return number_names(int(data.shape[1]))


def moments(data: Any, task: MomentsTask, progress: Progress | None = None) -> Moments:
    """Moments by products on the device that holds the data, or on the first GPU, or on the CPU if there is none."""
    require_memory(task)
    gathered = sealed(lambda: _gather(data, task, progress), "the array", _describe)
    return require_rows(gathered)


def _gather(data: Any, task: MomentsTask, progress: Progress | None) -> Moments:
    on_device = _lies_on_a_device(data)
    device = _home(data) if isinstance(data, torch.Tensor) else _default_device()
    _require_device_memory(device, task)
    on = torch_library(device) if isinstance(data, torch.Tensor) or not on_device else _library_of(data)
    require_exact_products(on)
    gathered = DeviceMoments(on, task, choose_products(on, device, task))
    if on_device:
        _add_array(data, gathered, device, progress)
    else:
        for block in open_source(data).blocks(task.block_rows, wanted=task.encoding.wanted):
            gathered.add_host(block)
            tell(progress, block)
    return gathered.fetch()


def choose_products(on: Library, device: torch.device, task: MomentsTask) -> Products:
    """The faster of two exact products on a GPU, tried with rows of this width; float64 anywhere else."""
    usual = float64_products(on, task.spec.bits)
    if device.type != "cuda" or on.module is not torch:
        return usual
    n_features = task.encoding.n_features
    rows = max(1, min(_TRIAL_ROWS, _CHUNK_VALUES // n_features))
    largest = 2**task.spec.bits // math.isqrt(n_features)
    values = torch.randint(-largest, largest + 1, (rows, n_features), device=device).to(torch.float64)
    return faster(usual, int8_products(task.spec.bits), values)


def _add_array(data: Any, gathered: DeviceMoments, device: torch.device, progress: Progress | None) -> None:
    if len(data.shape) != 2 or "complex" in str(data.dtype) or getattr(data, "is_sparse", False):
        raise DataError("Give a dense matrix of real numbers with rows and columns.")
    n_rows, n_features = (int(length) for length in data.shape)
    step = max(1, _CHUNK_VALUES // max(1, n_features))
    for start in range(0, n_rows, step):
        block = data[start : start + step]
        gathered.add_raw(block.detach().to(device) if isinstance(block, torch.Tensor) else block)
        if progress is not None:
            progress(len(block))


def _lies_on_a_device(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] in ("torch", "cupy", "jax", "jaxlib")


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


def _library_of(data: Any) -> Library:
    """CuPy, or JAX with 64 bits, which its users switch on."""
    cast = lambda array, kind: array.astype(kind)  # noqa: E731
    if type(data).__module__.startswith("cupy"):
        cupy = import_module("cupy")
        return Library(module=cupy, from_host=cupy.asarray, to_host=cupy.asnumpy, cast=cast)
    jax = import_module("jax")
    if not jax.config.jax_enable_x64:
        raise UsageError(
            "JAX computes in float32. Switch to 64 bits: jax.config.update('jax_enable_x64', True)."
        )
    return Library(
        module=import_module("jax.numpy"),
        from_host=import_module("jax.numpy").asarray,
        to_host=np.asarray,
        cast=cast,
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

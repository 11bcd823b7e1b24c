"""Eigendecompositions and products of public matrices on a GPU.

Contract: inside ``with on_device():`` every eigendecomposition and product of `symmetric` is
computed in float64 by PyTorch; outside nothing changes.  Results agree with the CPU's to rounding,
not to the bit: only moments are exact.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dpcov.extras import load_extra
from dpcov.published.linalg.symmetric import Array, Solver, solving_with


@contextmanager
def on_device(device: str | None = None) -> Iterator[None]:
    """Compute on a device of PyTorch: the one named, the first GPU, or else the CPU."""
    torch = load_extra("torch", "Computing on a device", "device")
    linalg: Any = torch.linalg
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))

    def eigh(matrix: Array) -> tuple[Array, Array]:
        try:
            values, vectors = linalg.eigh(torch.from_numpy(matrix).to(place))
        except linalg.LinAlgError:
            raise np.linalg.LinAlgError("no convergence on the device") from None
        return values.cpu().numpy(), vectors.cpu().numpy()

    def matmul(left: Array, right: Array) -> Array:
        sent = (torch.from_numpy(np.ascontiguousarray(side)).to(place) for side in (left, right))
        product: Array = torch.matmul(*sent).cpu().numpy()
        return product

    with solving_with(Solver(eigh=eigh, matmul=matmul)):
        yield

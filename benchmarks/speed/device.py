"""Exact moments on a GPU against its float64 peak, and a whole release.

python -m benchmarks.speed.device [--rows 1000000 10000000] [--features 1000 2000] [--cpu] |
    python -m benchmarks.measured --store device.csv

The float64 peak is what the device reaches on a product of two large square matrices, measured
here.  GFLOP/s count 2 n d**2, for the full product.  One chunk of rows is made on the device and
added again and again, since the rows of the largest sizes would not fit.  ``--cpu`` tries the
command where there is no GPU.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

import dpcov
from benchmarks.measured import table
from benchmarks.options import asked
from dpcov.data.engines.arrays import DeviceMoments
from dpcov.data.engines.base import BallEncoding, MomentsTask
from dpcov.data.engines.device import torch_library
from dpcov.data.exact.moments import Moments, MomentsSpec
from dpcov.published.linalg.device import on_device

CHUNK_VALUES = 2**27
HEAD = ("rows", "columns", "shells", "moments, s", "GFLOP/s", "of the peak", "with release, s")


def seconds(action: Callable[[], object], device: torch.device) -> float:
    """Seconds of the second of two runs."""
    for _ in range(2):
        start = time.perf_counter()
        action()
        if device.type == "cuda":
            torch.cuda.synchronize()
        took = time.perf_counter() - start
    return took


def peak(device: torch.device, size: int) -> float:
    """GFLOP/s of a float64 product of square matrices."""
    A = torch.randn((size, size), dtype=torch.float64, device=device)
    return 2e-9 * size**3 / seconds(lambda: A @ A, device)


def gather(chunk: torch.Tensor, n_rows: int, shells: int) -> Moments:
    """Moments of ``n_rows`` rows: the chunk, over and over."""
    encoding = BallEncoding(n_features=chunk.shape[1], norm_bound=2.0 * chunk.shape[1] ** 0.5)
    on, task = (
        torch_library(chunk.device),
        MomentsTask(encoding=encoding, spec=MomentsSpec(shells=shells)),
    )
    gathered = DeviceMoments(on, task)
    for start in range(0, n_rows, len(chunk)):
        gathered.add_raw(chunk[: min(len(chunk), n_rows - start)])
    return gathered.fetch()


def whole_release(moments: Moments, device: torch.device) -> None:
    """Noise, and the shrunk second moment on the device."""
    made = dpcov.second_moment(moments, budget=dpcov.Budget(rho="0.1"), mechanism="gaussian")
    with on_device(str(device)):
        made.second_moment()


def of_width(
    d: int, sizes: list[int], device: torch.device, best: float
) -> Iterator[tuple[str, ...]]:
    """Rows of the table for one number of columns."""
    length = max(1, min(max(sizes), CHUNK_VALUES // d))
    chunk = torch.randn((length, d), dtype=torch.float64, device=device)
    for n, shells in itertools.product(sizes, (1, 12)):
        took = seconds(partial(gather, chunk, n, shells), device)
        release = ""
        if shells == 1:
            release = (
                f"{took + seconds(partial(whole_release, gather(chunk, n, 1), device), device):.2f}"
            )
        rate = 2e-9 * n * d**2 / took
        yield (
            f"{n:,}",
            f"{d:,}",
            str(shells),
            f"{took:.2f}",
            f"{rate:,.0f}",
            f"{rate / best:.2f}",
            release,
        )


def main() -> None:
    """Print the table, or that there is no GPU."""
    arguments = asked(__doc__, rows=[10**6, 10**7], features=[1000, 2000, 4000, 8000], cpu=False)
    if not torch.cuda.is_available() and not arguments.cpu:
        print("No GPU is at hand: nothing was measured.  --cpu tries this command on the CPU.")
        return
    device = torch.device("cpu" if arguments.cpu else "cuda")
    best = peak(device, 2048 if arguments.cpu else 8192)
    print(f"Exact moments; float64 products reach {best:,.0f} GFLOP/s\n")
    lines: list[Sequence[str]] = [HEAD]
    for d in arguments.features:
        lines += of_width(d, arguments.rows, device, best)
    print(table(lines))


if __name__ == "__main__":
    main()

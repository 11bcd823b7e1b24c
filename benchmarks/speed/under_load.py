"""Time small matrices while another process multiplies large ones, and in its pauses.

Run: ``python -m benchmarks.speed.under_load [--features D] [--rounds N]``.
Claim: at most twice the quiet time, where nothing else runs on two cores or more. Processor seconds
show on any machine whether threads wait for each other.
"""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
from numpy.typing import NDArray

import dpcov
from benchmarks.speed.timing import interleaved_cpu
from dpcov.analysis import PrivatePCA
from dpcov.noise.eigenvectors import sample_eigenvectors

Array = NDArray[np.float64]
Actions = dict[str, Callable[[], object]]

LARGEST_RATIO = 2.0

_MULTIPLY = (
    "import numpy as np\na = np.ones((1500, 1500))\nprint('ready', flush=True)\nwhile True: a @ a"
)


class Load:
    """A process that multiplies matrices with all threads that BLAS takes, and can be paused."""

    def __init__(self) -> None:
        limits = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        free = {name: value for name, value in os.environ.items() if name not in limits}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MULTIPLY], stdout=subprocess.PIPE, env=free
        )
        assert self._process.stdout is not None and self._process.stdout.readline()
        self.pause()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._process.send_signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.pause()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def under_load(actions: Actions, rounds: int) -> dict[str, Array]:
    """Best seconds and processor seconds of each action, quiet and under load, (2, 2); they take
    turns."""
    load = Load()

    def loaded(action: Callable[[], object]) -> None:
        with load.running():
            action()

    turns = [turn for action in actions.values() for turn in (action, partial(loaded, action))]
    try:
        best = np.reshape(interleaved_cpu(*turns, rounds=rounds), (-1, 2, 2))
    finally:
        load.end()
    return dict(zip(actions, best, strict=True))


def actions_of(n_features: int) -> Actions:
    """What a custodian and an analyst wait for, from the draw to an estimate."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, n_features)) / np.sqrt(n_features)
    sscp = np.diag(50_000 / np.arange(1.0, n_features + 1))
    exponents = np.full(n_features - 1, 0.5 * np.sqrt(0.8 / (n_features - 1)))
    terms = {"norm_bound": 2.0, "budget": dpcov.Budget(rho=1)}
    moments = dpcov.moments(rows, norm_bound=2.0)

    def release(mechanism: str) -> dpcov.Release:
        return dpcov.second_moment(moments, mechanism=mechanism, **terms)

    made = release("gaussian")
    return {
        "eigenvectors drawn": lambda: sample_eigenvectors(sscp, exponents, dpcov.SeededEntropy(0)),
        "release, separate": lambda: release("separate"),
        "shrinkage": lambda: dpcov.Release(made.manifest, made.statistics.arrays).second_moment(
            "shrink"
        ),
        "components": lambda: PrivatePCA.from_release(made, assume_centered=True),
    }


def main(arguments: list[str] | None = None) -> bool:
    """Print a line for each action; False if one of them exceeds the claim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10)
    chosen = parser.parse_args(arguments)
    print(
        f"d = {chosen.features}, {os.cpu_count()} cores; seconds, and processor seconds of all "
        f"threads"
    )
    print(f"{'':20}" + f" {'quiet':>9} {'loaded':>9} {'ratio':>6}" * 2)
    found = under_load(actions_of(chosen.features), chosen.rounds)
    for name, both in found.items():
        cells = (f"{quiet:9.4f} {loaded:9.4f} {loaded / quiet:6.2f}" for quiet, loaded in both.T)
        print(f"{name:20} {' '.join(cells)}")
    return all(loaded <= LARGEST_RATIO * quiet for (quiet, _), (loaded, _) in found.values())


if __name__ == "__main__":
    sys.exit(0 if main() else "more than twice the quiet time")

"""How the cost of exact moments grows with rows, columns and threads, in one run.

python -m benchmarks.speed.scaling [--rounds 7]

Exponents are least-squares slopes of log CPU seconds over log size: CPU seconds, since they do not
depend on who else uses the machine.  The gain of a second thread is told twice: by the clock, which
needs two free cores, and by CPU seconds of the busiest thread, which says what two free cores would
give up to uneven shares and doubled work.
"""

import threading
import time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.measured import table
from benchmarks.options import asked
from benchmarks.speed.timing import interleaved_cpu
from dpcov.data.engines import local
from dpcov.data.engines.base import BallEncoding, MomentsTask
from dpcov.data.exact.moments import Moments, MomentsSpec
from dpcov.data.sources import Block

ROWS = tuple(round(10 ** (5 + step / 2)) for step in range(5))
ROW_FEATURES = 20
COLUMNS = (100, 200, 400, 700, 1000, 1400, 2000)
COLUMN_ROWS = 16_384
EXPONENT_OF_ROWS = (0.95, 1.05)
EXPONENT_OF_COLUMNS = 2.1
SECOND_THREAD = 1.6
THREAD_SHAPE = (8 * 8388, 1000)


class BusiestThread(MomentsTask):
    """A task that notes the CPU seconds which each thread spends on it."""

    def add(self, moments: Moments, block: Block, groups: np.ndarray | None = None) -> None:
        """Add a block, taking the time."""
        start = time.thread_time()
        super().add(moments, block, groups)
        spent[threading.get_ident()] = (
            spent.get(threading.get_ident(), 0.0) + time.thread_time() - start
        )


spent: dict[int, float] = {}


def rows_of(n_rows: int, n_features: int) -> np.ndarray:
    """Rows in the unit ball; a few thousand different ones, so that they are quick to make."""
    few = np.random.default_rng(0).normal(size=(4096, n_features))
    few /= 1.01 * np.linalg.norm(few, axis=1)[:, None]
    return np.resize(few, (n_rows, n_features))


def gather(X: np.ndarray, threads: int = 1, spec: MomentsSpec | None = None) -> Moments:
    """Exact moments of an array."""
    encoding = BallEncoding(n_features=X.shape[1], norm_bound=1.0)
    return local.moments(
        X, BusiestThread(encoding=encoding, spec=spec or MomentsSpec(), threads=threads)
    )


def exponent(sizes: tuple[int, ...], seconds: list[float]) -> float:
    """Slope of log seconds over log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def by_rows(rounds: int) -> list[float]:
    """CPU seconds for every number of rows."""
    X = rows_of(max(ROWS), ROW_FEATURES)
    actions = [lambda n=n: gather(X[:n]) for n in ROWS]
    return [cpu for _, cpu in interleaved_cpu(*actions, rounds=rounds)]


def by_columns(rounds: int) -> list[float]:
    """CPU seconds for every number of columns."""
    X = rows_of(COLUMN_ROWS, max(COLUMNS))
    actions = [lambda d=d: gather(X[:, :d]) for d in COLUMNS]
    return [cpu for _, cpu in interleaved_cpu(*actions, rounds=rounds)]


def second_thread(rounds: int, shells: int = 1) -> tuple[float, float]:
    """Gain of a second thread: by the clock, and by the CPU seconds of the busiest thread."""
    X, spec = rows_of(*THREAD_SHAPE), MomentsSpec(shells=shells)
    busiest = {1: float("inf"), 2: float("inf")}

    def run(threads: int) -> None:
        spent.clear()
        # One thread means one: BLAS would take the second by itself.
        with threadpool_limits(1, user_api="blas"):
            gather(X, threads, spec)
        busiest[threads] = min(busiest[threads], max(spent.values()))

    (one, _), (two, _) = interleaved_cpu(lambda: run(1), lambda: run(2), rounds=rounds)
    return one / two, busiest[1] / busiest[2]


def main() -> None:
    """Print the tables."""
    rounds = asked(__doc__, rounds=7).rounds
    rows, columns = by_rows(rounds), by_columns(rounds)
    lines = [[f"size (d = {ROW_FEATURES}, n = {COLUMN_ROWS:,} unless said)", "CPU s"]]
    for letter, sizes, taken in (("n", ROWS, rows), ("d", COLUMNS, columns)):
        for size, seconds in zip(sizes, taken, strict=True):
            lines.append([f"{letter} = {size:,}", f"{seconds:.3f}"])
    print(table(lines), end="\n\n")
    print(f"exponent of rows {exponent(ROWS, rows):.3f} (target {EXPONENT_OF_ROWS})")
    slope = exponent(COLUMNS, columns)
    print(f"exponent of columns {slope:.3f} (target at most {EXPONENT_OF_COLUMNS})")
    for shells in (1, 12):
        clock, cpu = second_thread(rounds, shells)
        print(
            f"second thread, {THREAD_SHAPE[0]:,} x {THREAD_SHAPE[1]}, {shells} shells: "
            f"{clock:.2f} by the clock, "
            f"{cpu:.2f} by CPU seconds of the busiest thread (target {SECOND_THREAD})"
        )


if __name__ == "__main__":
    main()

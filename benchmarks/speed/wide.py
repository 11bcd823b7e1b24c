"""A release of many columns: CPU seconds of its steps, and a model of what more columns cost.

python -m benchmarks.speed.wide [--features 500 1000 2000] [--rows 4096] [--predict 10000] [--check]

Every step is fitted by one coefficient through the origin in the unit that its theory names: n d**2
for the moments, d**2 for noise and for the file, d**3 for the estimate, whose eigendecomposition
takes the time. The model is fitted to the sizes that are measured, and printed beside them, so that
its error can be seen; ``--check`` measures the predicted size too, the estimate excepted.
"""

import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dpcov
from benchmarks.measured import table
from benchmarks.options import asked
from benchmarks.speed.scaling import rows_of

UNITS: dict[str, Callable[[int, int], float]] = {
    "moments": lambda n, d: n * d**2,
    "noise": lambda n, d: d**2,
    "file": lambda n, d: d**2,
    "estimate": lambda n, d: d**3,
}


def measure(n_rows: int, n_features: int, *, estimate: bool = True) -> dict[str, float]:
    """CPU seconds of every step of one release."""
    X = rows_of(n_rows, n_features)
    spent: dict[str, float] = {}

    def timed(step: str, action: Callable[[], Any]) -> Any:
        start = time.process_time()
        made = action()
        spent[step] = time.process_time() - start
        return made

    gathered = timed("moments", partial(dpcov.moments, X, norm_bound=1.0))
    del X
    budget = dpcov.Budget(rho=1)
    made = timed(
        "noise", partial(dpcov.second_moment, gathered, budget=budget, mechanism="gaussian")
    )
    del gathered
    with tempfile.TemporaryDirectory() as folder:
        timed("file", lambda: made.save(Path(folder) / "release.dpcov"))
    if estimate:
        timed("estimate", made.second_moment)
    return spent


def fitted(n_rows: int, times: dict[int, dict[str, float]]) -> dict[str, float]:
    """CPU seconds per unit of every step: least squares of the relative errors."""
    model = {}
    for step, unit in UNITS.items():
        ratios = np.array([unit(n_rows, d) / spent[step] for d, spent in times.items()])
        model[step] = float(ratios.sum() / (ratios**2).sum())
    return model


def main() -> None:
    """Print the table."""
    arguments = asked(__doc__, features=[500, 1000, 2000], rows=4096, predict=10_000, check=False)
    n = arguments.rows
    measure(100, 50)  # what is imported and made once
    times = {d: measure(n, d) for d in arguments.features}
    model = fitted(n, times)
    wide = arguments.predict
    found = measure(n, wide, estimate=False) if arguments.check else {}
    lines = [["d", *UNITS]]
    for d, spent in (*times.items(), (wide, found)):
        predicted = (f"({model[step] * unit(n, d):.3g})" for step, unit in UNITS.items())
        seconds = (f"{spent[step]:.3g} " if step in spent else "" for step in UNITS)
        lines.append([f"{d:,}", *map("".join, zip(seconds, predicted, strict=True))])
    print(f"CPU seconds of a release of {n:,} rows, and by the model\n\n{table(lines)}\n")
    units = {"moments": "n d^2", "noise": "d^2", "file": "d^2", "estimate": "d^3"}
    print("; ".join(f"{step} {model[step]:.2e} s per {units[step]}" for step in UNITS))
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")


if __name__ == "__main__":
    main()

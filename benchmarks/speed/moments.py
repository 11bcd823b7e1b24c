"""Exact moments against numpy's own float64 product of the same array, in one run.

python -m benchmarks.speed.moments
"""

from collections.abc import Callable

import numpy as np

from benchmarks.measured import table
from benchmarks.speed.timing import interleaved
from dpcov.data.moments import Moments, MomentsSpec, quantize

SHAPES = ((100_000, 200), (20_000, 1000))
LIMITS = {1: 1.6, 12: 2.5}


def rows_of(n_rows: int, n_features: int) -> np.ndarray:
    """Rows whose norms spread over twelve shells."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_rows, n_features))
    return (
        rows
        / np.linalg.norm(rows, axis=1)[:, None]
        * 2.0 ** -rng.integers(0, 12, size=n_rows)[:, None]
    )


def measure(n_rows: int, n_features: int) -> list[tuple[int, float, float]]:
    """(strata, seconds, ratio to numpy) for each number of strata."""
    rows = rows_of(n_rows, n_features)
    specs = [MomentsSpec(shells=shells) for shells in LIMITS]
    lattice = [quantize(rows, spec) for spec in specs]

    def gather(index: int) -> Callable[[], object]:
        return lambda: Moments(n_features, specs[index]).add_lattice(*lattice[index])

    floor, *times = interleaved(
        lambda: rows.T @ rows, *(gather(index) for index in range(len(specs)))
    )
    return [
        (spec.shells, seconds, seconds / floor) for spec, seconds in zip(specs, times, strict=True)
    ]


def main() -> None:
    """Print the table."""
    lines = [["rows", "features", "strata", "seconds", "x numpy", "target"]]
    for n_rows, n_features in SHAPES:
        for strata, seconds, ratio in measure(n_rows, n_features):
            size = f"{n_rows:,}", str(n_features), str(strata)
            lines.append([*size, f"{seconds:.3f}", f"{ratio:.2f}", str(LIMITS[strata])])
    print(table(lines))


if __name__ == "__main__":
    main()

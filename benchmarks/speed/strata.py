"""Release and estimate by ``stratified`` against ``gaussian`` on the same table, in one run.

python -m benchmarks.speed.strata [--rows 100000] [--features 500]
    [--rounds 3] [--shells 1 2 4 9 12]

Everything that a user waits for: encoding, exact moments, noise, and the estimate with its default
post-processing. Rows of the papers' generator are spread evenly over the stated numbers of norm
shells; "matrices" says how many were drawn. CPU seconds do not depend on who else uses the machine.
"""

import resource

import numpy as np

import dpcov
from benchmarks.measured import table
from benchmarks.options import asked
from benchmarks.papers.synthetic import synthetic_rows
from benchmarks.speed.timing import interleaved_cpu
from dpcov.published.release import Release

LIMIT = 2.5
BUDGET = dpcov.Budget(rho="0.5")


def rows_of(n_rows: int, n_features: int, shells: int) -> np.ndarray:
    """Unit rows of the papers, shortened by powers of two."""
    generator = np.random.default_rng(shells)
    rows = synthetic_rows(n_rows, n_features, 1, generator)
    return rows * (0.9 * 2.0 ** -generator.integers(0, shells, size=(n_rows, 1)))


def released(rows: np.ndarray, mechanism: str) -> Release:
    """One release, read as it is read by default."""
    made = dpcov.second_moment(rows, norm_bound=1.0, budget=BUDGET, mechanism=mechanism)
    made.second_moment()
    return made


def measure(
    n_rows: int, n_features: int, shells: int, rounds: int
) -> tuple[int, list[tuple[float, float]]]:
    """Number of matrices drawn, and the best (seconds, CPU seconds) of gaussian and of
    stratified."""
    rows = rows_of(n_rows, n_features, shells)
    matrices = len(released(rows, "stratified").statistics.arrays["sscp"])
    actions = [lambda name=name: released(rows, name) for name in ("gaussian", "stratified")]
    return matrices, interleaved_cpu(*actions, rounds=rounds)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    chosen = asked(
        __doc__, arguments, rows=100_000, features=500, rounds=3, shells=[1, 2, 4, 9, 12]
    )
    lines = [["shells", "matrices", "s", "s", "ratio", "CPU s", "CPU s", "ratio", "target"]]
    for shells in chosen.shells:
        matrices, ((plain, plain_cpu), (ours, ours_cpu)) = measure(
            chosen.rows, chosen.features, shells, chosen.rounds
        )
        numbers = (plain, ours, ours / plain, plain_cpu, ours_cpu, ours_cpu / plain_cpu)
        cells = (f"{number:.2f}" for number in numbers)
        lines.append([f"{shells}", f"{matrices}", *cells, f"{LIMIT}"])
    print(f"{chosen.rows:,} x {chosen.features}: gaussian and stratified\n\n{table(lines)}\n")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"largest memory {peak:.2f} GiB, the table of {chosen.rows * chosen.features / 2**27:.2f} "
        f"GiB included"
    )


if __name__ == "__main__":
    main()

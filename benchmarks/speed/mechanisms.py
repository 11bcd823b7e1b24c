"""Time every mechanism above the moments, in seconds and in eigendecompositions of the same matrix.

Run: ``python -m benchmarks.speed.mechanisms [n_features ...]``.  ``kapralov-talwar`` needs a fresh
eigendecomposition for every direction and is timed up to 200 features only.
"""

import sys

import numpy as np

from benchmarks.papers.synthetic import synthetic_rows
from benchmarks.speed.timing import interleaved
from dpcov.data.moments import Moments
from dpcov.data.questions import Ask
from dpcov.errors import DpcovError
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.registry import MECHANISMS
from dpcov.noise.entropy import SystemEntropy
from dpcov.privacy.budget import Budget

SIZES = (200, 400, 1000)
N_ROWS = 4000
LARGEST = {"kapralov-talwar": 200}
LIMITS_IN_EIGENDECOMPOSITIONS = {
    ("separate", 1000): 3,
    ("projection", 1000): 3,
    ("nuclear-projection", 1000): 3,
}
LIMITS_IN_SECONDS = {("eigenvectors", 200): 1.0, ("eigenvectors", 400): 6.0}
BUDGETS = (Budget(rho="0.1"), Budget(epsilon=1), Budget(epsilon=1, delta="1e-6"))


def supported(mechanism, problem):
    """The first budget that the mechanism can honor, with its calibration."""
    for budget in BUDGETS:
        try:
            return budget, mechanism.calibrate(problem, budget)
        except DpcovError:
            continue
    return None, None


def timed(kind, rows, gathered):
    """Seconds of one draw and of one eigendecomposition, taking turns; moments are gathered once
    for all."""
    mechanism = kind()
    problem = Problem(n_features=rows.shape[1], neighbors="replace-one", n_rows=len(rows))
    budget, calibration = supported(mechanism, problem)
    if calibration is None or mechanism.asks_again:
        return None
    spec = mechanism.moments_spec(problem)
    if spec not in gathered:
        gathered[spec] = Moments(rows.shape[1], spec)
        gathered[spec].add(rows)
    second_moment = rows.T @ rows

    def draw():
        mechanism.draw(Ask.saved(gathered[spec]), calibration, problem, SystemEntropy())

    return budget, *interleaved(draw, lambda: np.linalg.eigh(second_moment))


def verdict(name, size, taken, unit):
    if (limit := LIMITS_IN_EIGENDECOMPOSITIONS.get((name, size))) is not None:
        return "within" if taken <= limit * unit else f"ABOVE {limit} eigh"
    if (limit := LIMITS_IN_SECONDS.get((name, size))) is not None:
        return "within" if taken <= limit else f"ABOVE {limit} s"
    return ""


def main(sizes):
    for size in sizes:
        rows, gathered = synthetic_rows(N_ROWS, size, 1, np.random.default_rng(0)), {}
        print(f"\nd = {size}")
        for kind in MECHANISMS:
            if size > LARGEST.get(kind.name, size):
                continue
            if (measured := timed(kind, rows, gathered)) is None:
                print(f"{kind.name:20} not timed: it reads rows, or no budget of this list fits")
                continue
            budget, taken, unit = measured
            row = f"{kind.name:20} {budget!s:12} {taken:8.3f} s {taken / unit:7.2f} eigh"
            print(row, verdict(kind.name, size, taken, unit), flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or SIZES)

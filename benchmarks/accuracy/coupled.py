"""``auto`` against the plain Gaussian mechanism where columns are few, both with the same noise.

Run: python -m benchmarks.accuracy.coupled [--columns 1 2 3 5] [--rows 100 1000 10000]
     [--repetitions 400] [--loose 1]

Errors of few columns scatter so much that independent draws need tens of thousands of repetitions
to tell a ratio of 1.03 from 1. Here the matrix that both draw has one noise, scaled to each one's
variance, and so has the trace that both release; everything else is what the package does. Rows and
budgets are those of the ``robustness`` part; ``--loose`` multiplies the norm bound, and errors are
also compared with that at the first of several bounds.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np

import dpcov
from benchmarks.accuracy.report import geometric_mean, ratio_error
from benchmarks.accuracy.rows import SHAPES, shaped_rows
from benchmarks.options import asked
from dpcov.data.exact.moments import Moments
from dpcov.data.questions import Ask
from dpcov.mechanisms import gaussian, stratified
from dpcov.mechanisms.auto import resolve
from dpcov.mechanisms.base import Mechanism, Problem
from dpcov.noise.entropy import SeededEntropy
from dpcov.published.estimate.post import POSTS, Noisy, shrunk
from dpcov.published.estimate.unit import UnitEstimate, unit_estimate

LIMIT = 1.03
RHOS = (0.01, 1.0)


class Noise:
    """Gaussian numbers of one repetition: the first matrix and the joint trace are the same for
    every mechanism.

    Different tables have different ones, so that cells are independent.
    """

    def __init__(self, dimension: int, repetition: int, table: int = 0) -> None:
        self._own = np.random.default_rng([table, repetition, 1])
        shared = np.random.default_rng([table, repetition, 0])
        square = shared.standard_normal((dimension, dimension))
        self._matrices = [(square + square.T) / 2.0]
        self._trace = shared.standard_normal(1)

    def symmetric(
        self, dimension: int, diagonal_variance: int, *_: object, **__: object
    ) -> np.ndarray:
        """As symmetric_noise draws it: (Z + Z')/2 has variance 1 on its diagonal and 1/2 off it."""
        if self._matrices:
            drawn = self._matrices.pop()
        else:
            square = self._own.standard_normal((dimension, dimension))
            drawn = (square + square.T) / 2.0
        return np.rint(drawn * float(diagonal_variance) ** 0.5).astype(np.int64)

    def numbers(self, variance: int, count: int, _: object) -> np.ndarray:
        """As rounded_gaussian draws them."""
        drawn = self._trace if count == 1 else self._own.standard_normal(count)
        return np.rint(drawn * float(variance) ** 0.5).astype(np.int64)


@contextmanager
def drawing(noise: Noise) -> Iterator[None]:
    """Let both mechanisms draw from it."""
    samplers = {"symmetric_noise": noise.symmetric, "rounded_gaussian": noise.numbers}
    with mock.patch.multiple(stratified, **samplers), mock.patch.multiple(gaussian, **samplers):
        yield


class Contender:
    """A mechanism with its exact moments, drawn again and again."""

    def __init__(self, name: str, rows: np.ndarray, problem: Problem, budget: dpcov.Budget) -> None:
        self.mechanism: Mechanism = resolve(name, {}, problem, budget).make()
        self.problem = problem
        self._table = zlib.crc32(rows.tobytes())
        self._calibration = self.mechanism.calibrate(problem, budget)
        spec = self.mechanism.moments_spec(problem)
        self._moments: Moments = dpcov.moments(
            rows,
            norm_bound=1.0,
            shells=spec.shells,
            fineness=spec.fineness,
            bits=spec.bits,
            normalized=spec.normalized,
        )

    def drawn(self, repetition: int) -> UnitEstimate:
        """One release."""
        with drawing(Noise(self.problem.n_features, repetition, self._table)):
            statistics = self.mechanism.draw(
                Ask.saved(self._moments), self._calibration, self.problem, SeededEntropy(repetition)
            )
        return unit_estimate(statistics, self.problem.n_rows)


def errors(rows: np.ndarray, rho: float, repetitions: int) -> tuple[np.ndarray, np.ndarray]:
    """Frobenius errors of auto, and of the plain mechanism read in the best way on average, shape
    (repetitions,)."""
    n, d = rows.shape
    problem = Problem(n_features=d, neighbors="replace-one", n_rows=n)
    budget = dpcov.Budget(rho=rho)
    ours, plain = (Contender(name, rows, problem, budget) for name in ("auto", "gaussian"))
    truth = rows.T @ rows / n
    found, read = [], []
    for repetition in range(repetitions):
        found.append(np.linalg.norm(shrunk(ours.drawn(repetition))[0] - truth))
        unit = plain.drawn(repetition)
        noisy = Noisy(unit=unit, matrix=unit.matrix)
        read.append(
            [np.linalg.norm(POSTS[p].apply(noisy) - truth) for p in ("none", "clip", "psd")]
        )
    columns = np.array(read)
    return np.array(found), columns[:, np.argmin(columns.mean(axis=0))]


def main(arguments: list[str] | None = None) -> None:
    """Print a line for every cell, and what they come to."""
    chosen = asked(
        __doc__,
        arguments,
        columns=[1, 2, 3, 5],
        rows=[100, 1_000, 10_000],
        loose=[1.0],
        repetitions=400,
    )
    ratios = []
    for d in chosen.columns:
        for n in chosen.rows:
            for shape in SHAPES:
                rows = np.vstack(list(shaped_rows(n, d, shape).make()))
                tight: dict[float, float] = {}
                for loose, rho in ((loose, rho) for loose in chosen.loose for rho in RHOS):
                    ours, plain = errors(rows / loose, rho, chosen.repetitions)
                    ratio, error = ours.mean() / plain.mean(), ratio_error(ours, plain)
                    ratios.append(ratio)
                    above = ratio > LIMIT
                    surely = ratio - 3.0 * error > LIMIT
                    mark = (
                        f"   <-- above {LIMIT}" + ("" if surely else ", within the noise")
                        if above
                        else ""
                    )
                    # In the rows' own units, over the error at the first bound.
                    error_at = ours.mean() * loose**2
                    cost = error_at / tight.setdefault(rho, error_at)
                    cell = f"{shape:<18} d={d} n={n} bound x {loose:g} rho={rho:g}"
                    cost_of = "" if loose == chosen.loose[0] else f", {cost:.2f} times the first"
                    print(f"{cell}: {ratio:.3f} ± {error:.3f}{cost_of}{mark}", flush=True)
    above = sum(ratio > LIMIT for ratio in ratios)
    print(
        f"{len(ratios)} cells: mean {geometric_mean(ratios):.3f}, largest {max(ratios):.3f}, "
        f"{above} above {LIMIT}"
    )


if __name__ == "__main__":
    main()

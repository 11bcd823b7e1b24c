"""Count rows, and cells of rows, under exact noise.

Contract: the number of rows leaves only where it is public or after noise.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt
from typing import TypedDict

import numpy as np

from dpcov.data.exact.moments import Moments
from dpcov.data.histograms import Counts
from dpcov.mechanisms.base import Calibration, Problem
from dpcov.mechanisms.blocks.cost import Cost, part_of, squared_noise_scale
from dpcov.noise.entropy import Entropy
from dpcov.noise.lattice import discrete_laplace, rounded_gaussian
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise, PureDP
from dpcov.published.linalg.symmetric import Array

# Part of the budget that buys a private row count under add-remove-one.
ROW_COUNT_SHARE = Fraction(1, 20)


@dataclass(frozen=True)
class CountNoise:
    """Exact integer noise on counts that a part of the cost pays for; a row adds ``unit``."""

    cost: Cost
    problem: Problem
    unit: int = 1

    def _moved(self, disjoint: bool) -> int:
        # One of two cells loses k rows and the other gains them when rows are replaced.
        rows = self.problem.moved_rows if disjoint else self.problem.rows_per_person
        return rows * self.unit

    def _squared_scale(self, disjoint: bool) -> Fraction:
        moved = self._moved(disjoint)
        return squared_noise_scale(
            self.cost, moved, moved * self.problem.rows_per_person * self.unit
        )

    def draw(self, size: int, entropy: Entropy, *, disjoint: bool = False) -> Counts:
        """Noise for ``size`` disjoint cells together, or for one count."""
        if isinstance(self.cost, ZCDP):
            return rounded_gaussian(self._squared_scale(disjoint), size, entropy)
        return discrete_laplace(self._moved(disjoint) / self.cost.epsilon, size, entropy)

    def variance(self, *, disjoint: bool = False) -> Fraction:
        """Of one count's noise, before it is discrete."""
        return self._squared_scale(disjoint) * (1 if isinstance(self.cost, ZCDP) else 2)

    def std(self, *, disjoint: bool = False) -> float:
        """Standard deviation of one count's noise."""
        return sqrt(self.variance(disjoint=disjoint))

    def evidence(self, std: float, chance: float) -> float:
        """A sum of noises of this standard deviation exceeds it with at most this chance."""
        log_inverse = log(1 / chance)
        # Sums of Laplace noises have lighter tails than one of them of the same variance.
        gaussian = isinstance(self.cost, ZCDP)
        return std * (sqrt(2 * log_inverse) if gaussian else log_inverse / sqrt(2))

    def log_ratio(self, seen: Array, rows: Array, std: float) -> Array:
        """Of the densities of noisy counts where so many rows are, and where there are none."""
        if isinstance(self.cost, ZCDP):
            return (seen - rows / 2) * rows / std**2
        return (np.abs(seen) - np.abs(seen - rows)) * (sqrt(2) / std)


def row_count_share(problem: Problem) -> Fraction:
    """Part of the budget that goes to the number of rows."""
    return Fraction(0) if problem.neighbors == "replace-one" else ROW_COUNT_SHARE


def rho_inside(budget: Budget) -> Fraction | None:
    """The zCDP guarantee through which parts meet an (epsilon, delta); None of other budgets."""
    return budget.zcdp_rho() if isinstance(budget.promise, ApproxDP) else None


@dataclass(frozen=True, kw_only=True)
class CountingCalibration(Calibration):
    """Of a mechanism that divides by a number of rows; None is paid for a public one."""

    row_count: Cost | None


class Stated(TypedDict):
    """What every such calibration states."""

    promise: Promise
    rho: Fraction | None
    row_count: Cost | None


def set_row_count_aside(budget: Budget, problem: Problem) -> tuple[Cost, Stated]:
    """What is left of a budget, and what a calibration states of it and of the number of rows."""
    promise = budget.promise
    # All of it: pure if it asks for that, else the zCDP guarantee inside it.
    whole: Cost = promise if isinstance(promise, PureDP) else ZCDP(rho=budget.zcdp_rho())
    share, cost = row_count_share(problem), None
    if share:
        cost = part_of(whole, share)
        # Refused here, before any row is read, if the count needs more noise than can be drawn.
        CountNoise(cost, problem).std()
    stated = Stated(promise=promise, rho=rho_inside(budget), row_count=cost)
    return part_of(whole, 1 - share), stated


def draw_row_count(
    moments: Moments, problem: Problem, cost: Cost | None, entropy: Entropy
) -> int | None:
    """The private number of rows, exactly discrete noise added; None where the number is public."""
    if cost is None:
        return None
    # A count is an integer, so its noise is exact even where the matrix is idealized.
    return moments.n_rows + int(CountNoise(cost, problem).draw(1, entropy)[0])


def row_count_variance(problem: Problem, cost: Cost | None) -> Fraction | None:
    """Of the noise on the number of rows; None where that is public."""
    return None if cost is None else CountNoise(cost, problem).variance()


def public_rows(problem: Problem, row_count: int | None) -> int:
    """The number of rows to compute with: public, or private already."""
    # A noisy count may fall below one row.
    rows = problem.n_rows if row_count is None else max(1, row_count)
    assert rows is not None
    return rows

"""Release second moments with discrete Laplace noise on every entry of the upper triangle.

Guarantee : epsilon-DP.  Numerics : exact.  Proof : laplace.md.
Sensitivity : l1 norm of the upper triangle of the sscp of rows in the unit ball, k rows per
    person.  Replace-one: k for d = 1, else k sqrt(d**2 / 2 + d + 1), attained for even d.
    Add-remove-one: k (d + 1) / 2, attained.
Utility : With scale b, E ||noise||_F**2 = 2 b**2 d**2: about d**2 / (epsilon n) in S / n.
References : Dong, Liang, Yi (2022), appendix I; Amin et al. (2019), section 5.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcov.data.exact.moments import DEFAULT_BITS, Bits, Clip
from dpcov.errors import BudgetError
from dpcov.mechanisms.base import Ask, Entropy, Mechanism, NoisyStatistics, Problem
from dpcov.mechanisms.blocks import counts
from dpcov.mechanisms.blocks.additive_noise import affordable_epsilon, upper_triangle
from dpcov.mechanisms.blocks.finished import noise_law
from dpcov.noise.lattice import LARGEST_STD, discrete_laplace
from dpcov.privacy.budget import Budget
from dpcov.privacy.convert import sqrt_up
from dpcov.privacy.guarantee import PureDP

Constants = Literal["tight", "paper"]


@dataclass(frozen=True, kw_only=True)
class LaplaceCalibration(counts.CountingCalibration):
    """Noise scale on every entry of the upper triangle, in lattice units."""

    scale: int


@dataclass(frozen=True, kw_only=True)
class Laplace(Mechanism[LaplaceCalibration]):
    """Discrete Laplace noise on the unnormalized second moments.

    Parameters
    ----------
    bits, clip
        As in :class:`~dpcov.mechanisms.gaussian.Gaussian`.
    sensitivity : {"tight", "paper"}, default="tight"
        ``paper``: the l1 norm of the full matrix, sqrt(2) d (replace-one) or d (add-remove-one),
        although only the upper triangle is drawn: about twice the noise.
    """

    name = "laplace"
    summary = "discrete Laplace noise on every entry; for very few columns"
    paper = "Dong, Liang, Yi (2022), I"
    numerics = "exact"
    promises = (PureDP,)

    bits: Bits = DEFAULT_BITS
    clip: Clip = 1.0
    sensitivity: Constants = "tight"

    def calibrate(self, problem: Problem, budget: Budget) -> LaplaceCalibration:
        """Smallest integer scale that keeps the budget (laplace.md, Theorem 1)."""
        self.check(problem, budget)
        rest, stated = counts.set_row_count_aside(budget, problem)
        # Rounded up: an integer scale never spends more than epsilon.
        scale = ceil(4**self.bits * self.l1_sensitivity(problem) / affordable_epsilon(rest))
        if scale > LARGEST_STD:
            raise BudgetError("This budget needs too much noise. Use a larger one, or fewer bits.")
        return LaplaceCalibration(**stated, scale=scale)

    def l1_sensitivity(self, problem: Problem) -> Fraction:
        """Of the upper triangle of the sscp of rows in the unit ball, rounded up."""
        if self.sensitivity == "tight":
            return upper_triangle(problem).l1
        d, replaced = problem.n_features, problem.neighbors == "replace-one"
        return problem.rows_per_person * (sqrt_up(Fraction(2 * d**2)) if replaced else Fraction(d))

    def draw(
        self, ask: Ask, calibration: LaplaceCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Add the noise to the integer moments of the single stratum."""
        moments, scale = ask(self.question(problem)), calibration.scale
        noise = symmetric_laplace(problem.n_features, scale, entropy)
        sscp, dropped = moments.strata[0].sscp.plus(noise)
        arrays = {"sscp": sscp}
        row_count = counts.draw_row_count(moments, problem, calibration.row_count, entropy)
        if row_count is not None:
            arrays["row_count"] = np.array([row_count])
        return NoisyStatistics(
            layout="sscp",
            arrays=arrays,
            lattice_bits=self.bits,
            dropped_bits=dropped,
            radius=self.clip,
            # The variance of discrete Laplace noise is less than 2 scale**2, by 1/6 at most.
            noise=noise_law(
                "discrete laplace",
                diagonal_variance=2 * scale**2,
                off_diagonal_variance=2 * scale**2,
                row_count=counts.row_count_variance(problem, calibration.row_count),
            ),
        )


def symmetric_laplace(dimension: int, scale: int, entropy: Entropy) -> NDArray[np.int64]:
    """Symmetric (d, d) integer noise of one discrete Laplace law on and above the diagonal."""
    noise = np.zeros((dimension, dimension), dtype=np.int64)
    rows, columns = np.triu_indices(dimension)
    noise[rows, columns] = noise[columns, rows] = discrete_laplace(scale, len(rows), entropy)
    return noise

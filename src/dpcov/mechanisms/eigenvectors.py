"""Release noisy eigenvalues and eigenvectors drawn one after another by the exponential mechanism.

Guarantee : epsilon-DP, rho-zCDP, or (epsilon, delta)-DP through it.  Not protected : running time
    (proposals depend on the matrix), memory.  Numerics : idealized.  Proof : eigenvectors.md.
Sensitivity : For k rows per person.  Sorted eigenvalues: l1 norm 2k, l2 norm sqrt(2) k
    (replace-one), both k (add-remove-one).  The score u' S u moves within an interval of length 2k,
    or k.
Utility : eigenvectors.md, Theorem 3: a bound on the Frobenius error with explicit constants.
References : Amin et al. (2019), Algorithm 1 and Corollary 1; Dong, Liang, Yi (2022), appendix C.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from scipy.optimize import isotonic_regression

from dpcov.data.exact.moments import Clip
from dpcov.mechanisms.base import Ask, Entropy, Mechanism, NoisyStatistics, Problem
from dpcov.mechanisms.blocks import counts, finished
from dpcov.mechanisms.blocks.additive_noise import AdditiveNoise, additive_noise, eigenvalues
from dpcov.mechanisms.blocks.cost import Cost, part_of, root_down
from dpcov.mechanisms.blocks.tail_bounds import FAILURE_PROBABILITY
from dpcov.noise.eigenvectors import sample_eigenvectors
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.published.linalg.symmetric import Array

Allocation = Literal["adaptive", "uniform"]
Exponent = Literal["tight", "paper"]


@dataclass(frozen=True, kw_only=True)
class EigenvectorsCalibration(counts.CountingCalibration):
    """Noise on the eigenvalues; the part of the budget for all directions together, if any."""

    eigenvalues: AdditiveNoise
    directions: Cost | None


@dataclass(frozen=True, kw_only=True)
class Eigenvectors(Mechanism[EigenvectorsCalibration]):
    """Noisy eigenvalues on eigenvectors from the exponential mechanism.

    Parameters
    ----------
    allocation : {"adaptive", "uniform"}, default="adaptive"
        ``adaptive`` gives directions with a larger noisy eigenvalue more of the budget.
    exponent : {"tight", "paper"}, default="tight"
        ``paper``: the exponent epsilon_i / 4, which costs twice what it needs to (four times and
        more under zCDP).
    clip : float, default=1
        Rows longer than this fraction of the norm bound are scaled down to it.
    """

    name = "eigenvectors"
    summary = "noisy eigenvalues, eigenvectors by the exponential mechanism"
    paper = "Amin et al. (2019), Algorithm 1"
    promises = (PureDP, ZCDP, ApproxDP)
    states_noise = False

    allocation: Allocation = "adaptive"
    exponent: Exponent = "tight"
    clip: Clip = 1.0

    def calibrate(self, problem: Problem, budget: Budget) -> EigenvectorsCalibration:
        """Split the budget (eigenvectors.md, Theorem 1)."""
        self.check(problem, budget)
        rest, stated = counts.set_row_count_aside(budget, problem)
        # All directions share one half; that of a single column costs nothing.
        directions = part_of(rest, Fraction(1, 2)) if problem.n_features > 1 else None
        return EigenvectorsCalibration(
            **stated,
            eigenvalues=additive_noise(directions or rest, eigenvalues(problem)),
            directions=directions,
        )

    def draw(
        self, ask: Ask, calibration: EigenvectorsCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Draw values and directions, and put them together."""
        moments = ask(self.question(problem))
        sscp = finished.sscp_of(moments)
        d, noise = len(sscp), calibration.eigenvalues
        values = np.linalg.eigvalsh(sscp)[::-1] + noise.draw(d, entropy)
        margin = noise.upper_bound(FAILURE_PROBABILITY / (2 * d))
        exponents = self._exponents(calibration.directions, values, margin, problem)
        directions = sample_eigenvectors(sscp, exponents, entropy)
        row_count = counts.draw_row_count(moments, problem, calibration.row_count, entropy)
        matrix = (directions * values) @ directions.T
        return finished.finish(matrix, problem, row_count, clip=self.clip, post="clip")

    def _exponents(
        self, cost: Cost | None, values: Array, margin: float, problem: Problem
    ) -> list[float]:
        # One exponent for every direction that is drawn.
        if cost is None:
            return []
        # The last direction is determined by the others and costs nothing.
        n_drawn = problem.n_features - 1
        shares = [Fraction(1, n_drawn)] * n_drawn
        if self.allocation == "adaptive":
            shares = adaptive_shares(values[:n_drawn], margin, cost)
        parts = [part_of(cost, share) for share in shares]
        return [direction_exponent(part, problem, self.exponent) for part in parts]


def adaptive_shares(noisy_values: Array, margin: float, cost: Cost) -> list[Fraction]:
    """Shares of the directions' budget that minimize sum_i (value_i + margin) / epsilon_i.

    With sum epsilon_i fixed: epsilon_i ~ value**(1/2) (Corollary 1 of the paper).  With
    sum epsilon_i**2 fixed: epsilon_i ~ value**(1/3), so that rho_i ~ value**(2/3).
    """
    # Eigenvalues fall; the nearest falling sequence is no farther from them, and even exponents
    # keep the sampler fast.
    falling = isotonic_regression(noisy_values, increasing=False).x
    # A value whose noise fell below -margin still needs a positive share.
    positive = np.maximum(falling + margin, 1e-3 * margin)
    powers = positive ** (0.5 if isinstance(cost, PureDP) else 2.0 / 3.0)
    weights = [Fraction(float(power)) for power in powers]
    total = sum(weights)
    return [weight / total for weight in weights]


def direction_exponent(cost: Cost, problem: Problem, exponent: Exponent) -> float:
    """The kappa of exp(kappa u' S u) that a cost buys (eigenvectors.md, Theorem 1)."""
    if exponent == "paper":
        squared = cost.epsilon**2 if isinstance(cost, PureDP) else 2 * cost.rho
        return root_down(squared / (4 * problem.rows_per_person) ** 2)
    squared = cost.epsilon**2 if isinstance(cost, PureDP) else 8 * cost.rho
    return root_down(squared / problem.moved_rows**2)

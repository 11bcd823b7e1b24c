"""Release second moments by whitening in rounds: each round clips to where the last one points.

Guarantee : rho-zCDP, or (epsilon, delta)-DP through it, for any rows.  Numerics : idealized.
    Proof : coinpress.md.  Private input : moments of the rows under a public linear map, one
    question in every round.
Sensitivity : In every round rows are whitened by a matrix drawn before and clipped to norm g:
    Frobenius norm of their sscp sqrt(2) k g**2 (replace-one), k g**2 (add-remove-one) for k rows
    per person.
Utility : Made for roughly normal rows of mean zero: then the error relative to the covariance C,
    ||C**-1/2 E C**-1/2 - I||_F, is small also where C is badly conditioned.
References : Biswas, Dong, Kamath, Ullman (2020), CoinPress, section 3.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated

import numpy as np

from dpcov.data.exact.linear import LinearMap
from dpcov.errors import NumericError
from dpcov.mechanisms.base import Ask, Entropy, Mechanism, NoisyStatistics, Problem
from dpcov.mechanisms.blocks import counts, finished
from dpcov.mechanisms.blocks.additive_noise import MatrixNoise, matrix_noise
from dpcov.mechanisms.blocks.cost import part_of
from dpcov.mechanisms.blocks.finished import sscp_of
from dpcov.mechanisms.blocks.tail_bounds import FAILURE_PROBABILITY, eta
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP
from dpcov.privacy.options import Between
from dpcov.published.linalg.project import project_psd
from dpcov.published.linalg.symmetric import Array, compose, eigh

# Part of the budget for the last round, which makes the estimate; the others share the rest.
LAST_ROUND_SHARE = Fraction(3, 4)


@dataclass(frozen=True, kw_only=True)
class CoinPressCalibration(counts.CountingCalibration):
    """Noise of every round for rows in the unit ball."""

    rounds: tuple[MatrixNoise, ...]


@dataclass(frozen=True, kw_only=True)
class CoinPress(Mechanism[CoinPressCalibration]):
    """Iterative whitening and clipping, for roughly normal rows of mean zero.

    Parameters
    ----------
    rounds : int, default=3
        Rounds of whitening; the table is read once for each.
    """

    name = "coinpress"
    summary = "whitening in rounds for normal rows; error relative to the covariance"
    paper = "Biswas, Dong, Kamath, Ullman (2020)"
    promises = (ZCDP, ApproxDP)
    states_noise = False

    rounds: Annotated[int, Between(1, 100)] = 3

    def calibrate(self, problem: Problem, budget: Budget) -> CoinPressCalibration:
        """Split the budget between the rounds (coinpress.md, Theorem 1)."""
        self.check(problem, budget)
        rest, stated = counts.set_row_count_aside(budget, problem)
        # Later rounds ask through maps drawn before, so the rounds compose.
        parts = [part_of(rest, share) for share in round_shares(self.rounds)]
        rounds = tuple(matrix_noise(part, problem) for part in parts)
        return CoinPressCalibration(**stated, rounds=rounds)

    @property
    def asks_again(self) -> bool:
        """After the first round every question follows from the answers before."""
        return self.rounds > 1

    def draw(
        self, ask: Ask, calibration: CoinPressCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Whiten, clip and add noise in rounds; the last round makes the estimate."""
        d, first = problem.n_features, self.question(problem)
        row_count = counts.draw_row_count(ask(first), problem, calibration.row_count, entropy)
        n_rows = counts.public_rows(problem, row_count)
        normal_norm = eta(d, FAILURE_PROBABILITY / (n_rows * self.rounds))
        asked, whitening, radius = first, np.eye(d), 1.0
        for last in calibration.rounds[:-1]:
            unit = radius**2 / n_rows
            moment = (sscp_of(ask(asked)) + last.draw(d, entropy)) * unit
            slack = unit * last.spectral_bound(d, FAILURE_PROBABILITY / self.rounds)
            # What the noise may hide counts as spread: the next norm must not be too small.
            spread = project_psd(moment) + slack * np.eye(d)
            wanted = _inverse_root(spread) @ whitening
            # No row of the unit ball is longer than the largest singular value.
            radius = min(normal_norm, float(np.linalg.norm(wanted, 2)))
            linear = LinearMap.nearest(wanted / radius)
            asked, whitening = replace(first, linear=linear), linear.matrix * radius
        moment = (sscp_of(ask(asked)) + calibration.rounds[-1].draw(d, entropy)) * radius**2
        coloring = np.linalg.inv(whitening)
        sscp = coloring @ moment @ coloring.T
        return finished.finish(sscp, problem, row_count, clip=1.0, post="psd")


def round_shares(rounds: int) -> list[Fraction]:
    """Parts of the budget for the rounds; they add up to one."""
    if rounds == 1:
        return [Fraction(1)]
    return [(1 - LAST_ROUND_SHARE) / (rounds - 1)] * (rounds - 1) + [LAST_ROUND_SHARE]


def _inverse_root(matrix: Array) -> Array:
    # Return the symmetric A**(-1/2), refusing to divide by rounding errors.
    values, vectors = eigh(matrix)
    if not values[0] > 0.0:
        raise NumericError("The matrix is not positive definite, so it has no inverse root.")
    return compose(values**-0.5, vectors)

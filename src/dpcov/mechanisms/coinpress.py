"""Release second moments by whitening in rounds: each round clips to where the last one says that the rows lie.

Privacy
-------
Guarantee : rho-zCDP, or (epsilon, delta)-DP through it, for any rows.  Neighbors : replace-one (public n) or
    add-remove-one.
Unit : the rows of one person.  Public inputs : options, budget, number of columns, n under replace-one.
Private input : moments of the rows under a public linear map, one question in every round.  Not protected : running time, memory.
Numerics : idealized.  Proof : coinpress.md.

Sensitivity
-----------
In every round rows are whitened by a matrix drawn before and clipped to norm g: Frobenius norm of their sscp
sqrt(2) k g**2 (replace-one), k g**2 (add-remove-one) for k rows per person.

Utility
-------
Made for roughly normal rows of mean zero: then the error relative to the covariance, ||C**-1/2 E C**-1/2 - I||_F, is
small also where C is badly conditioned.  Other rows are clipped with a bias.  Measure it with
:func:`~dpcov.mechanisms.blocks.whitening.mahalanobis_error`.

References
----------
Biswas, Dong, Kamath, Ullman (2020), CoinPress, section 3; Dong, Liang, Yi (2022), section 6, compare with it.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np

from dpcov.data.linear import LinearMap
from dpcov.data.moments import DEFAULT_BITS, Bits, MomentsSpec
from dpcov.data.questions import Ask
from dpcov.mechanisms.base import Calibration, Mechanism, Probability, Problem
from dpcov.mechanisms.blocks.additive_noise import whole_cost
from dpcov.mechanisms.blocks.finished import (
    Cost,
    check_row_count,
    draw_row_count,
    finish,
    part_of,
    public_rows,
    row_count_share,
    sscp_of,
)
from dpcov.mechanisms.blocks.matrix_noise import MatrixNoise, Shape, matrix_noise
from dpcov.mechanisms.blocks.tail_bounds import eta
from dpcov.mechanisms.blocks.whitening import inverse_root
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Numerics, Promise
from dpcov.privacy.options import Between
from dpcov.published.linalg.project import project_psd
from dpcov.published.statistics import NoisyStatistics

LAST_ROUND_SHARE = Fraction(3, 4)
"""Part of the budget for the last round, which makes the estimate; the others share the rest."""


@dataclass(frozen=True, kw_only=True)
class CoinPressCalibration(Calibration):
    """Noise of every round for rows in the unit ball, and the part of the budget for a private row count."""

    rounds: tuple[MatrixNoise, ...]
    row_count: Cost | None


@dataclass(frozen=True, kw_only=True)
class CoinPress(Mechanism[CoinPressCalibration]):
    """Iterative whitening and clipping, for roughly normal rows of mean zero.

    Parameters
    ----------
    rounds : int, default=3
        Rounds of whitening; the table is read once for each.
    upper : float, default=1
        Public bound on the largest eigenvalue of the second moment, in units of the squared norm bound.  1 always
        holds; choose the norm bound so large that it clips nobody.
    failure_probability : float, default=0.05
        Probability beta in the norms to clip to; privacy does not depend on it.
    noise : {"isotropic", "entrywise"}, default="isotropic"
        Noise on the matrix; ``entrywise`` is the paper's.
    bits : int, default=20
        Lattice resolution of a row after whitening.
    """

    name: ClassVar[str] = "coinpress"
    summary: ClassVar[str] = "whitening in rounds for normal rows; error relative to the covariance"
    paper: ClassVar[str] = "Biswas, Dong, Kamath, Ullman (2020)"
    numerics: ClassVar[Numerics] = "idealized"
    promises: ClassVar[tuple[type[Promise], ...]] = (ZCDP, ApproxDP)

    rounds: Annotated[int, Between(1, 100)] = 3
    upper: Annotated[float, Between(2.0**-60, 1)] = 1.0
    failure_probability: Probability = 0.05
    noise: Shape = "isotropic"
    bits: Bits = DEFAULT_BITS

    def calibrate(self, problem: Problem, budget: Budget) -> CoinPressCalibration:
        """Split the budget between the rounds (coinpress.md, Theorem 1)."""
        self.check(problem, budget)
        count, whole = row_count_share(problem), whole_cost(budget)
        parts = [part_of(whole, share * (1 - count)) for share in round_shares(self.rounds)]
        return CoinPressCalibration(
            promise=budget.promise,
            rounds=tuple(matrix_noise(part, problem, self.noise) for part in parts),
            row_count=check_row_count(problem, part_of(whole, count) if count else None),
        )

    @property
    def asks_again(self) -> bool:
        """After the first round every question follows from the answers before."""
        return self.rounds > 1 or self.upper < 1

    def moments_spec(self, problem: Problem) -> MomentsSpec:
        """One stratum of all rows, clipped at the unit ball only."""
        return MomentsSpec(bits=self.bits)

    def draw(
        self, ask: Ask, calibration: CoinPressCalibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Whiten, clip and add noise in rounds; the last round makes the estimate."""
        d, first = problem.n_features, self.question(problem)
        row_count = draw_row_count(ask(first), problem, calibration.row_count, entropy)
        n_rows = public_rows(problem, row_count)
        normal_norm = eta(d, self.failure_probability / (n_rows * self.rounds))
        # The first map is a multiple of the identity, which clipping alone can answer.
        radius = min(normal_norm, self.upper**-0.5)
        clipped = replace(first.spec, clip=min(1.0, radius * self.upper**0.5))
        asked, whitening = replace(first, spec=clipped), np.eye(d) * self.upper**-0.5
        for last, noise in zip(calibration.rounds, calibration.rounds[1:], strict=False):
            unit = radius**2 / n_rows
            moment = (sscp_of(ask(asked)) + last.draw(d, entropy)) * unit
            slack = unit * last.spectral_bound(d, self.failure_probability / self.rounds)
            # What the noise may hide counts as spread, so that the next norm to clip to is not too small.
            spread = project_psd(moment) + slack * np.eye(d)
            wanted = inverse_root(spread) @ whitening
            # No row of the unit ball is longer than the largest singular value.
            radius = min(normal_norm, float(np.linalg.norm(wanted, 2)))
            linear = LinearMap.nearest(wanted / radius)
            asked, whitening = replace(first, linear=linear), linear.matrix * radius
        moment = (sscp_of(ask(asked)) + calibration.rounds[-1].draw(d, entropy)) * radius**2
        coloring = np.linalg.inv(whitening)
        return finish(coloring @ moment @ coloring.T, problem, row_count, clip=1.0, post="psd")


def round_shares(rounds: int) -> list[Fraction]:
    """Parts of the budget for the rounds; they add up to one."""
    if rounds == 1:
        return [Fraction(1)]
    return [(1 - LAST_ROUND_SHARE) / (rounds - 1)] * (rounds - 1) + [LAST_ROUND_SHARE]

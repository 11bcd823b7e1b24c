"""Release second moments by whitening in rounds: each round clips to where the last one says that the rows lie.

Privacy
-------
Guarantee : rho-zCDP, or (epsilon, delta)-DP through it, for any rows.  Neighbors : replace-one (public n) or
    add-remove-one.
Unit : the rows of one person.  Public inputs : options, budget, number of columns, n under replace-one.
Private input : the rows, read once in every round.  Not protected : running time, memory.
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

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np

from dpcov.data.rows import EncodedRows
from dpcov.mechanisms.base import Calibration, Probability, Problem, RowMechanism
from dpcov.mechanisms.blocks.additive_noise import whole_cost
from dpcov.mechanisms.blocks.finished import (
    Cost,
    check_row_count,
    draw_row_count,
    finish,
    part_of,
    public_rows,
    row_count_share,
)
from dpcov.mechanisms.blocks.matrix_noise import MatrixNoise, Shape, matrix_noise
from dpcov.mechanisms.blocks.tail_bounds import eta
from dpcov.mechanisms.blocks.whitening import inverse_root
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Numerics, Promise
from dpcov.privacy.options import Between
from dpcov.published.linalg.project import project_psd
from dpcov.published.linalg.symmetric import Array
from dpcov.published.statistics import NoisyStatistics

LAST_ROUND_SHARE = Fraction(3, 4)
"""Part of the budget for the last round, which makes the estimate; the others share the rest."""


@dataclass(frozen=True, kw_only=True)
class CoinPressCalibration(Calibration):
    """Noise of every round for rows in the unit ball, and the part of the budget for a private row count."""

    rounds: tuple[MatrixNoise, ...]
    row_count: Cost | None


@dataclass(frozen=True, kw_only=True)
class CoinPress(RowMechanism[CoinPressCalibration]):
    """Iterative whitening and clipping, for roughly normal rows of mean zero.

    Parameters
    ----------
    rounds : int, default=3
        Rounds of whitening; the rows are kept in memory for them.
    upper : float, default=1
        Public bound on the largest eigenvalue of the second moment, in units of the squared norm bound.  1 always
        holds; choose the norm bound so large that it clips nobody.
    failure_probability : float, default=0.05
        Probability beta in the norms to clip to; privacy does not depend on it.
    noise : {"isotropic", "entrywise"}, default="isotropic"
        Noise on the matrix; ``entrywise`` is the paper's.
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

    def draw_rows(
        self,
        rows: EncodedRows,
        calibration: CoinPressCalibration,
        problem: Problem,
        entropy: Entropy,
    ) -> NoisyStatistics:
        """Whiten, clip and add noise in rounds; the last round makes the estimate."""
        d = problem.n_features
        row_count = draw_row_count(rows, problem, calibration.row_count, entropy)
        n_rows = public_rows(problem, row_count)
        normal_norm = eta(d, self.failure_probability / (n_rows * self.rounds))
        frame = _Frame(whitening=np.eye(d) * self.upper**-0.5, coloring=np.eye(d) * self.upper**0.5)
        for noise in calibration.rounds[:-1]:
            radius = min(normal_norm, frame.longest)
            moment = _noisy_moment(rows, frame.whitening, radius, noise, n_rows, entropy)
            slack = (
                noise.spectral_bound(d, self.failure_probability / self.rounds) * radius**2 / n_rows
            )
            frame = frame.refined(moment, slack)
        radius = min(normal_norm, frame.longest)
        moment = _noisy_moment(
            rows, frame.whitening, radius, calibration.rounds[-1], n_rows, entropy
        )
        sscp = frame.coloring @ moment @ frame.coloring.T * n_rows
        return finish(sscp, problem, row_count, clip=1.0, post="psd")


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """Coordinates in which the rows are believed to have a second moment of at most I, and the way back."""

    whitening: Array
    coloring: Array

    @property
    def longest(self) -> float:
        """Norm that no row of the unit ball exceeds in these coordinates."""
        return float(np.linalg.norm(self.whitening, 2))

    def refined(self, moment: Array, slack: float) -> "_Frame":
        """Whiten by the spread that a noisy moment allows, so that the next norm to clip to is not too small."""
        spread = project_psd(moment) + slack * np.eye(len(moment))
        root = inverse_root(spread)
        return _Frame(whitening=root @ self.whitening, coloring=self.coloring @ (spread @ root))


def round_shares(rounds: int) -> list[Fraction]:
    """Parts of the budget for the rounds; they add up to one."""
    if rounds == 1:
        return [Fraction(1)]
    return [(1 - LAST_ROUND_SHARE) / (rounds - 1)] * (rounds - 1) + [LAST_ROUND_SHARE]


def _noisy_moment(
    rows: EncodedRows,
    whitening: Array,
    radius: float,
    noise: MatrixNoise,
    n_rows: float,
    entropy: Entropy,
) -> Array:
    """Second moment of the rows, whitened and clipped to a norm, with noise for that norm."""
    d = len(whitening)
    total = np.zeros((d, d))
    for block in rows:
        whitened = block @ whitening.T
        norms = np.linalg.norm(whitened, axis=1)
        whitened *= np.minimum(1.0, radius / np.maximum(norms, 1e-300))[:, None]
        total += whitened.T @ whitened
    noisy: Array = (total + radius**2 * noise.draw(d, entropy)) / n_rows
    return noisy

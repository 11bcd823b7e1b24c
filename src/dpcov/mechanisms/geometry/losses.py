"""Publish what scaling long rows down takes of every column of numbers.

Guarantee : rho-zCDP or epsilon-DP, as the cost says.  Numerics : exact.  Proof : losses.md, Theorem
    6.  Private input : sums over the rows that a public geometry scales down.
Sensitivity : That of one vector a row, of norm one in units of the limit: losses.md, Lemma 5.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from dpcov.data.exact.linear import FloatMatrix
from dpcov.data.exact.losses import LARGEST_LIMIT, SMALLEST_LIMIT, Losses, LossQuestion
from dpcov.data.geometry import Geometry
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.cost import Cost
from dpcov.mechanisms.blocks.counts import CountNoise
from dpcov.noise.entropy import Entropy
from dpcov.privacy.guarantee import ZCDP
from dpcov.published.file.columns import EncodedColumn, numbers
from dpcov.published.file.statistics import LOSS_UNITS, LossLaw, NoisyStatistics


def loss_noise(cost: Cost, problem: Problem) -> CountNoise:
    """Noise on the sums; BudgetError where so much cannot be drawn."""
    noise = CountNoise(cost, problem, LOSS_UNITS)
    noise.std(disjoint=True)
    return noise


def loss_question(
    geometry: Geometry, columns: Sequence[EncodedColumn], cost: Cost, limit: float
) -> LossQuestion:
    """What rows lose in the columns of numbers, beside an intercept, in a geometry.

    ``limit`` is what a row loses at most, in squared encoded units.
    """
    middles = np.zeros(len(columns))
    if geometry.linear is not None:
        # Rows are scaled down toward what is mapped to zero.
        matrix = geometry.linear.matrix
        middles[1:] = -np.linalg.solve(matrix[:, 1:], matrix[:, 0])
    places = numbers(columns)
    return LossQuestion(
        columns=places,
        middles=tuple(float(middles[place]) for place in places),
        # Of any size it is as private, and the budget is charged by now.
        limit=min(max(limit, SMALLEST_LIMIT), LARGEST_LIMIT),
        in_l2=isinstance(cost, ZCDP),
    )


def spread_out(matrix: FloatMatrix, *, in_l2: bool) -> float:
    """Norm of what rows lose in columns, over what they lose along the map: 1 at least.

    ``matrix`` is the map's, (p, 1 + p), or (p, p) without an intercept.  A direction in which
    columns are alike is one for the map, and many columns lose in it.  Rows are taken to be long
    where the map says that they vary.
    """
    _, sizes, directions = np.linalg.svd(matrix[:, -len(matrix) :])
    variances = 1 / sizes**2
    # The smallest are those of noise, which the map takes for variances of rows, too.
    weights = 1 - variances.min() / variances
    if not weights.any():
        return 1.0
    norms = np.linalg.norm(directions**2, axis=1) if in_l2 else np.ones(len(variances))
    return max(1.0, float(weights @ (variances * norms) / weights.sum()))


def with_losses(
    made: NoisyStatistics, losses: Losses, noise: CountNoise, counted: float, entropy: Entropy
) -> NoisyStatistics:
    """Statistics with noisy losses, of which ``counted`` is the part below the limit."""
    # Group after group: a row is in one of them.
    sums = losses.sums.ravel()
    noisy = sums + noise.draw(len(sums), entropy, disjoint=True)
    law = LossLaw(
        unit=losses.question.limit / LOSS_UNITS,
        variance=str(round(noise.std(disjoint=True) ** 2)),
        counted=counted,
    )
    return msgspec.structs.replace(made, arrays={**made.arrays, "losses": noisy}, losses=law)

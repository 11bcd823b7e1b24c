"""Split a promise, draw the private row count and finish a matrix: what mechanisms share.

Contract: the parts of a split promise compose to the whole in exact arithmetic, and the number of
rows leaves only where it is public or after noise.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from dpcov.data.moments import Moments
from dpcov.errors import BudgetError, NumericError
from dpcov.mechanisms.base import Problem
from dpcov.noise.entropy import Entropy
from dpcov.noise.lattice import LARGEST_STD, discrete_laplace, rounded_gaussian
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, Promise, PureDP
from dpcov.published.linalg.symmetric import Array, symmetrize
from dpcov.published.statistics import NoiseLaw, NoisyStatistics, Post, PublishedArray

# A part of the budget; parts of one kind add up.
Cost = PureDP | ZCDP

# Part of the budget that buys a private row count under add-remove-one.
ROW_COUNT_SHARE = Fraction(1, 20)


def part_of(promise: Promise, share: Fraction) -> Cost:
    """Scale a promise; parts whose shares sum to one compose to the whole."""
    if isinstance(promise, PureDP):
        return PureDP(epsilon=promise.epsilon * share)
    assert isinstance(promise, ZCDP)
    return ZCDP(rho=promise.rho * share)


def row_count_share(problem: Problem) -> Fraction:
    """Part of the budget that goes to the number of rows."""
    return Fraction(0) if problem.neighbors == "replace-one" else ROW_COUNT_SHARE


def set_row_count_aside(budget: Budget, problem: Problem) -> tuple[Cost, Cost | None]:
    """What is left of a budget, and what the number of rows costs; None where it is public."""
    promise = budget.promise
    # All of it: pure if it asks for that, else the zCDP guarantee inside it.
    whole: Cost = promise if isinstance(promise, PureDP) else ZCDP(rho=budget.zcdp_rho())
    if not (share := row_count_share(problem)):
        return whole, None
    cost = part_of(whole, share)
    # Refused here, before any row is read, if the count needs more noise than can be drawn.
    squared_noise_scale(cost, problem.rows_per_person, problem.rows_per_person**2)
    return part_of(whole, 1 - share), cost


def squared_noise_scale(cost: Cost, absolute: int | Fraction, squared: int | Fraction) -> Fraction:
    """Square of the noise scale that a part of the budget needs, exactly.

    Pure: Laplace noise of scale absolute / epsilon, for the sensitivity ``absolute`` in l1.
    zCDP: Gaussian noise of variance squared / (2 rho), for the squared sensitivity in l2.
    """
    scale = (absolute / cost.epsilon) ** 2 if isinstance(cost, PureDP) else squared / (2 * cost.rho)
    if scale > LARGEST_STD**2:
        raise BudgetError("This budget drowns every table in noise. Use a larger budget.")
    return scale


def root_up(value: Fraction) -> float:
    """A float that is not below the square root of a fraction."""
    # The conversion and the root round once each, so each is moved outward by one float.
    return math.nextafter(math.sqrt(math.nextafter(float(value), math.inf)), math.inf)


def root_down(value: Fraction) -> float:
    """A float that is not above the square root of a fraction."""
    return math.nextafter(math.sqrt(math.nextafter(float(value), 0.0)), 0.0)


def sscp_of(moments: Moments) -> Array:
    """The **sensitive** sscp of the single stratum, rows in the unit ball."""
    (stratum,) = moments.strata
    return stratum.sscp.to_float() * 4.0**-moments.spec.bits


def draw_row_count(
    moments: Moments, problem: Problem, cost: Cost | None, entropy: Entropy
) -> int | None:
    """The private number of rows, exactly discrete noise added; None where the number is public."""
    if cost is None:
        return None
    k = problem.rows_per_person
    # A count is an integer, so its noise is exact even where the matrix is idealized.
    if isinstance(cost, PureDP):
        return moments.n_rows + int(discrete_laplace(k / cost.epsilon, 1, entropy)[0])
    return moments.n_rows + int(rounded_gaussian(Fraction(k**2) / (2 * cost.rho), 1, entropy)[0])


def public_rows(problem: Problem, row_count: int | None) -> int:
    """The number of rows to compute with: public, or private already."""
    # A noisy count may fall below one row.
    rows = problem.n_rows if row_count is None else max(1, row_count)
    assert rows is not None
    return rows


def finish(
    sscp: Array,
    problem: Problem,
    row_count: int | None,
    *,
    clip: float,
    post: Post,
    notes: tuple[str, ...] = (),
) -> NoisyStatistics:
    """Divide a private sscp by the number of rows and bring it to units of the norm bound."""
    rows = public_rows(problem, row_count)
    # The number is public or private already, so dividing by it is post-processing.
    if not np.isfinite(sscp).all():
        raise NumericError("The private matrix overflowed; nothing was released. Raise the budget.")
    arrays: dict[str, PublishedArray] = {"second_moment": symmetrize(sscp) * (clip**2 / rows)}
    if row_count is not None:
        arrays["row_count"] = np.array([row_count], dtype=np.int64)
    return NoisyStatistics(layout="estimate", arrays=arrays, radius=clip, post=post, notes=notes)


def noise_law(
    family: str, *, row_count: Fraction | None = None, **variances: int | float | str | None
) -> NoiseLaw:
    """State a noise law in the release; exact numbers are written out, a row count's as a float."""
    stated: dict[str, Any] = {
        name: None if value is None else str(value) for name, value in variances.items()
    }
    count = None if row_count is None else str(float(row_count))
    return NoiseLaw(family=family, row_count_variance=count, **stated)

"""Many releases of two made-up tables through a mechanism's own draw.

Contract: every release uses fresh randomness, and the two tables are gathered as a release would gather them.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcov.audit.neighboring import Neighboring
from dpcov.data.engines import BallEncoding
from dpcov.data.gather import Gathering
from dpcov.mechanisms.base import Calibration, Mechanism, Problem
from dpcov.noise.entropy import BlockEntropy, Entropy, SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.convert import zcdp_epsilon
from dpcov.published.estimate.post import unit_estimate
from dpcov.published.statistics import NoisyStatistics

Draw = Callable[[], NoisyStatistics]
Releases = list[NoisyStatistics]


def problem_of(pair: Neighboring, rows: NDArray[np.float64]) -> Problem:
    """What is public about one table of a pair."""
    n_rows = len(rows) if pair.relation == "replace-one" else None
    return Problem(n_features=pair.n_features, neighbors=pair.relation, n_rows=n_rows)


def drawers(
    mechanism: Mechanism[Any], budget: Budget, pair: Neighboring, entropy: Entropy
) -> tuple[Draw, Draw]:
    """For either table, a function that makes one release of it: calibrated and gathered once, drawn every time."""

    def drawer(rows: NDArray[np.float64]) -> Draw:
        problem = problem_of(pair, rows)
        calibration: Calibration = mechanism.calibrate(problem, budget)
        encoding = BallEncoding(n_features=problem.n_features, norm_bound=1.0)
        ask = Gathering(threads=1).ask(rows, encoding)
        return partial(mechanism.draw, ask, calibration, problem, entropy)

    return drawer(pair.first), drawer(pair.second)


def by_coin(
    both: tuple[Draw, Draw], draws: int, coins: np.random.Generator
) -> tuple[Iterator[NoisyStatistics], Iterator[NoisyStatistics]]:
    """``draws`` releases, a fair coin choosing the table of each; drawn when they are asked for."""
    firsts = int(coins.binomial(draws, 0.5))
    return (both[0]() for _ in range(firsts)), (both[1]() for _ in range(draws - firsts))


def seconds_per_release(both: tuple[Draw, Draw], draws: int = 8) -> float:
    """How long a release takes; the first ones, which build tables, are not timed."""
    for draw in both:
        draw()
    start = time.perf_counter()
    for _ in range(draws // 2):
        for draw in both:
            draw()
    return (time.perf_counter() - start) / draws


def released(
    mechanism: Mechanism[Any], budget: Budget, pair: Neighboring, draws: int, *, seed: int = 1
) -> tuple[Releases, Releases]:
    """Statistics of about ``draws`` releases of either table, calibrated for ``budget``, in the order of a coin's fall.

    To plant a broken mechanism, calibrate for a larger budget (:func:`half_noise`) and audit the smaller claim.
    """
    both = drawers(mechanism, budget, pair, BlockEntropy(SeededEntropy(seed)))
    first, second = by_coin(both, 2 * draws, np.random.default_rng(seed))
    return list(first), list(second)


def along_difference(statistics: Releases, pair: Neighboring) -> NDArray[np.float64]:
    """Score for any mechanism: the released matrix along the difference of the two tables' moments."""
    direction = pair.difference
    return np.array(
        [np.vdot(unit_estimate(each, len(pair.first)).matrix, direction) for each in statistics]
    )


def half_noise(budget: Budget) -> Budget:
    """The budget for which a mechanism draws half the noise, in standard deviations.

    With a delta that is four times the rho which the budget implies: half the noise for a mechanism that converts, and
    for the analytic Gaussian mechanism a little more than half.
    """
    if budget.rho is not None:
        return Budget(rho=4 * budget.rho)
    assert budget.epsilon is not None
    if budget.delta is None:
        return Budget(epsilon=2 * budget.epsilon)
    return Budget(epsilon=zcdp_epsilon(4 * budget.zcdp_rho(), budget.delta), delta=budget.delta)

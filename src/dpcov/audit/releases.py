"""Many releases of two made-up tables through a mechanism's own draw.

Contract: every release uses fresh randomness, and the two tables are gathered as a release would gather them.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcov.audit.neighboring import Neighboring
from dpcov.data.moments import Moments
from dpcov.data.rows import EncodedRows
from dpcov.mechanisms.base import Calibration, Mechanism, Problem, RowMechanism
from dpcov.noise.entropy import Entropy, SeededEntropy, Words
from dpcov.privacy.budget import Budget
from dpcov.published.estimate.post import unit_estimate
from dpcov.published.statistics import NoisyStatistics

Draw = Callable[[], NoisyStatistics]
_TIMED = 4


class BufferedEntropy:
    """Words of another source, fetched many at a time: small requests dominate the time of small releases."""

    def __init__(self, source: Entropy, size: int = 1 << 15) -> None:
        self.private = source.private
        self._source, self._size = source, size
        self._buffer, self._used = source.words(size), 0

    def words(self, count: int) -> Words:
        """Return the next ``count`` words of the source."""
        missing = self._used + count - len(self._buffer)
        if missing > 0:
            fresh = self._source.words(max(missing, self._size))
            self._buffer, self._used = np.concatenate([self._buffer[self._used :], fresh]), 0
        self._used += count
        return self._buffer[self._used - count : self._used].copy()


def problem_of(pair: Neighboring, rows: NDArray[np.float64]) -> Problem:
    """What is public about one table of a pair."""
    n_rows = len(rows) if pair.relation == "replace-one" else None
    return Problem(n_features=pair.n_features, neighbors=pair.relation, n_rows=n_rows)


def drawers(mechanism: Mechanism[Any], budget: Budget, pair: Neighboring, entropy: Entropy) -> list[Draw]:
    """For either table, a function that makes one release of it."""
    both: list[Draw] = []
    for rows in (pair.first, pair.second):
        problem = problem_of(pair, rows)
        calibration: Calibration = mechanism.calibrate(problem, budget)
        draw = _drawer(mechanism, rows, problem)
        both.append(partial(draw, calibration, problem, entropy))
    return both


def _drawer(
    mechanism: Mechanism[Any], rows: NDArray[np.float64], problem: Problem
) -> Callable[..., NoisyStatistics]:
    """The mechanism's draw, with the table already gathered in the form that it wants."""
    if isinstance(mechanism, RowMechanism):
        gathered = EncodedRows(problem.n_features)
        gathered.add(rows)
        return partial(mechanism.draw_rows, gathered)
    moments = Moments(problem.n_features, mechanism.moments_spec(problem))
    moments.add(rows)
    return partial(mechanism.draw, moments)


def released(
    mechanism: Mechanism[Any], budget: Budget, pair: Neighboring, draws: int, *, seed: int = 1
) -> list[list[NoisyStatistics]]:
    """Statistics of ``draws`` releases of either table, calibrated for ``budget``: two lists.

    To plant a broken mechanism, calibrate for a larger budget (:func:`half_noise`) and audit the smaller claim.
    """
    both = drawers(mechanism, budget, pair, BufferedEntropy(SeededEntropy(seed)))
    return [[draw() for _ in range(draws)] for draw in both]


def released_within(both: Sequence[Draw], draws: int, seconds: float) -> list[list[NoisyStatistics]]:
    """``draws`` releases of either table, or as many as fit into the time, judged by the first few."""
    found = [[draw()] for draw in both]  # not timed: the first draw builds tables
    start = time.perf_counter()
    for table, draw in zip(found, both, strict=True):
        table.extend(draw() for _ in range(_TIMED))
    taken = max(time.perf_counter() - start, 1e-9)
    wanted = min(draws, max(_TIMED, int(_TIMED * seconds / taken)))
    for table, draw in zip(found, both, strict=True):
        table.extend(draw() for _ in range(wanted - len(table)))
    return [table[:wanted] for table in found]


def along_difference(statistics: Sequence[NoisyStatistics], pair: Neighboring) -> NDArray[np.float64]:
    """Score for any mechanism: the released matrix along the difference of the two tables' moments."""
    direction = pair.difference
    return np.array([np.vdot(unit_estimate(each, len(pair.first)).matrix, direction) for each in statistics])


def half_noise(budget: Budget) -> Budget:
    """The budget for which a mechanism draws half the noise, in standard deviations."""
    if budget.rho is not None:
        return Budget(rho=4 * budget.rho)
    assert budget.epsilon is not None
    return Budget(epsilon=2 * budget.epsilon, delta=budget.delta)

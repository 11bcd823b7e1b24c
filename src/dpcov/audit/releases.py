"""Draw many releases of two made-up tables, and read what they publish as plain numbers.

Contract: every release uses fresh randomness, and both tables are gathered as a release would.
Everything that a release publishes is read, so that no leak is hidden from the scores.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from timeit import timeit
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcov.audit.neighboring import Neighboring
from dpcov.data.encode import Encoder
from dpcov.data.engines.base import BallEncoding, Encoding
from dpcov.data.gather import Gathering
from dpcov.data.schema.declared import Numeric
from dpcov.data.schema.schema import Schema
from dpcov.mechanisms.base import Mechanism, Problem
from dpcov.mechanisms.geometry.surveyed import Surveyed
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.convert import zcdp_epsilon
from dpcov.privacy.guarantee import PureDP
from dpcov.published.estimate.unit import unit_estimate
from dpcov.published.file.statistics import NoisyStatistics, PublishedArray
from dpcov.published.linalg.symmetric import Array

# A number's place between two multiples of 2**-k shows what noise on such a grid did not cover.
LOW_BITS = (4, 16, 28)
LOW_INTEGER_BITS = 12
# Labels of fewer known releases than that teach nothing.
OFTEN = 8

_PLACES = frozenset({"first_shell", "last_shell", "outermost_shell", "group"})

Draw = Callable[[], NoisyStatistics]
Releases = list[NoisyStatistics]


def problem_of(mechanism: Mechanism[Any], pair: Neighboring, rows: NDArray[np.float64]) -> Problem:
    """What is public about one table of a pair."""
    n_rows = len(rows) if pair.relation == "replace-one" else None
    n_features = _encoding(mechanism, rows.shape[1]).n_features
    return Problem(n_features=n_features, neighbors=pair.relation, n_rows=n_rows)


def surveyed(mechanism: Mechanism[Any], n_columns: int) -> Surveyed:
    """The mechanism in a geometry of so many columns that is found first."""
    schema = _schema(n_columns)
    return Surveyed.of(mechanism, schema, Encoder(schema))


def _schema(n_columns: int) -> Schema:
    names = [f"x{place}" for place in range(n_columns)]
    return Schema(columns={name: Numeric(lower=-1, upper=1) for name in names}, missing="never")


def _encoding(mechanism: Mechanism[Any], n_columns: int) -> Encoding:
    if isinstance(mechanism, Surveyed):
        return Encoder(_schema(n_columns))
    return BallEncoding(n_features=n_columns, norm_bound=1.0)


def drawers(
    mechanism: Mechanism[Any], budget: Budget, pair: Neighboring, entropy: Entropy
) -> tuple[Draw, Draw]:
    """For either table, a function that draws a release; calibrated and gathered once."""

    def drawer(rows: NDArray[np.float64]) -> Draw:
        problem = problem_of(mechanism, pair, rows)
        calibration = mechanism.calibrate(problem, budget)
        ask = Gathering(threads=1).ask(rows, _encoding(mechanism, rows.shape[1]))
        return partial(mechanism.draw, ask, calibration, problem, entropy)

    return drawer(pair.first), drawer(pair.second)


def by_coin(
    both: tuple[Draw, Draw], draws: int, coins: np.random.Generator
) -> tuple[Iterator[NoisyStatistics], Iterator[NoisyStatistics]]:
    """``draws`` releases, a fair coin choosing the table of each; drawn when asked for."""
    firsts = int(coins.binomial(draws, 0.5))
    return (both[0]() for _ in range(firsts)), (both[1]() for _ in range(draws - firsts))


def seconds_per_release(both: tuple[Draw, Draw]) -> float:
    """How long a release takes."""
    # The first ones build tables.
    for draw in both:
        draw()
    return timeit(lambda: [draw() for draw in both], number=4) / 8


def half_noise(budget: Budget) -> Budget:
    """The budget for which a mechanism draws half the noise, in standard deviations."""
    if isinstance(budget.promise, PureDP):
        return Budget(epsilon=2 * budget.promise.epsilon)
    # With a delta: four times the implied rho.  That is half the noise for a mechanism that
    # converts, and a little more than half for the analytic Gaussian mechanism.
    rho, delta = 4 * budget.zcdp_rho(), budget.delta
    return Budget(epsilon=zcdp_epsilon(rho, delta), delta=delta) if delta else Budget(rho=rho)


@dataclass(frozen=True)
class Outcomes:
    """What some releases of one table published.

    ``numbers`` (draws, k) are the arrays whose shape all releases share, the geometry found, and
    the matrix, without numbers that mirror others;
    ``matrices`` (draws, d, d) the released matrix, times the number of rows where that is private;
    ``labels`` (draws,) shapes, chosen shells and notes, numbered; ``low_bits`` (draws, m) the rest
    of the numbers within fine grids; ``family`` the stated law of the noise, empty if none or if
    not all releases have one geometry.
    """

    numbers: Array
    matrices: Array
    labels: NDArray[np.int64]
    low_bits: Array
    family: str

    def take(self, chosen: slice) -> "Outcomes":
        """Some of the releases."""
        return replace(self, **{k: v[chosen] for k, v in vars(self).items() if k != "family"})


class Reader:
    """Reads common shapes of ``known`` releases of both tables as columns, choices as labels."""

    def __init__(self, known: Sequence[NoisyStatistics], n_rows: int) -> None:
        self._blanks = {
            name: np.zeros_like(array)
            for name, array in known[0].arrays.items()
            if all(name in each.arrays and each.arrays[name].shape == array.shape for each in known)
        }
        self._places = {
            name: _places([each.arrays[name] for each in known]) for name in self._blanks
        }
        counts = Counter(map(_label, known))
        # In an order that says nothing of the table that a label came from.
        often = [label for label, count in counts.items() if count >= OFTEN]
        often.sort(key=lambda label: (-counts[label], repr(label)))
        self._labels = {label: number for number, label in enumerate(often)}
        self._n_rows, self._geometry = n_rows, max(map(_geometry, known), key=len)

    def __call__(self, releases: Sequence[NoisyStatistics]) -> Outcomes:
        """Read releases of one table; all labels that were rare share a number."""
        matrices = np.array([self._matrix(each) for each in releases])
        arrays = list[Any]()
        for name, blank in self._blanks.items():
            found = (each.arrays.get(name, blank) for each in releases)
            same = [array if array.shape == blank.shape else blank for array in found]
            arrays.append(np.array([array.ravel()[self._places[name]] for array in same]))
        # Some releases may keep the bounds.
        kept = np.zeros_like(self._geometry)
        geometries = np.array([own if len(own) else kept for own in map(_geometry, releases)])
        arrays.append(geometries)
        low_bits = [np.empty((len(releases), 0)), *map(_low_bits, arrays)]
        every = [*arrays, matrices[:, *np.triu_indices(matrices.shape[1])]]
        labels = [self._labels.get(_label(each), len(self._labels)) for each in releases]
        # In a geometry with noise of its own the matrix is not normal.
        noise = releases[0].noise if (geometries == self._geometry).all() else None
        return Outcomes(
            numbers=np.concatenate(every, axis=1, dtype=np.float64),
            matrices=matrices,
            labels=np.array(labels),
            low_bits=np.concatenate(low_bits, axis=1),
            family="" if noise is None else noise.family,
        )

    def _matrix(self, statistics: NoisyStatistics) -> Array:
        # Divided by one number of rows where the release leaves that to its reader.
        matrix = unit_estimate(statistics, self._n_rows).matrix
        if statistics.layout == "estimate" and "row_count" in statistics.arrays:
            return matrix * max(1.0, float(statistics.arrays["row_count"][0]))
        return matrix


def _places(arrays: Sequence[PublishedArray]) -> NDArray[np.intp]:
    """Where numbers are that do not mirror others, in these arrays of one shape."""
    kept, shape = np.ones(arrays[0].shape), arrays[0].shape
    is_square = len(shape) > 1 and shape[-1] == shape[-2]
    if is_square and all(np.array_equal(each, each.swapaxes(-1, -2)) for each in arrays):
        kept = np.tril(kept)
    return np.flatnonzero(kept)


def _label(statistics: NoisyStatistics) -> tuple[object, ...]:
    # All that is published but is no number with noise.
    arrays = statistics.arrays.items()
    shapes = tuple((name, array.shape) for name, array in arrays)
    places = tuple((name, tuple(array.tolist())) for name, array in arrays if name in _PLACES)
    return shapes, places, statistics.notes, statistics.dropped_bits, statistics.post


def _geometry(statistics: NoisyStatistics) -> Array:
    # What was found of the columns, and the linear map: zero where there is none.
    columns, exponent = statistics.columns, statistics.linear_exponent
    if columns is None:
        return np.empty(0)
    scales = [number for each in columns for number in (each.center, each.half_range)]
    linear = np.zeros(len(columns) * (len(columns) - 1))
    if exponent is not None:
        linear += statistics.arrays["linear"].ravel() * 2.0**exponent
    other = [statistics.norm_bound or 0.0, statistics.lost, exponent or 0]
    return np.concatenate([scales, other, linear])


def _low_bits(values: PublishedArray) -> Array:
    # Integers modulo a power of two; the rest of real numbers after multiples of fine grids.
    if np.issubdtype(values.dtype, np.integer):
        return np.asarray(values % (1 << LOW_INTEGER_BITS), dtype=np.float64)
    # A rounding error may fall to either side of a grid point; a quarter step keeps it together.
    rests = [np.mod(values * 2.0**bits + 0.25, 1.0) for bits in LOW_BITS]
    return np.concatenate(rests, axis=1)

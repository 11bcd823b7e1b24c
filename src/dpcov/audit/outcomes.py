"""Released statistics as plain numbers: one row of a table for every release.

Contract: everything that a release publishes is in here, so that no leak is hidden from the scores.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcov.published.estimate.post import unit_estimate
from dpcov.published.linalg.symmetric import Array
from dpcov.published.statistics import NoisyStatistics, PublishedArray

LOW_BITS = (4, 16, 28)
"""A number's place between two multiples of 2**-k shows what noise on such a grid did not cover."""

LOW_INTEGER_BITS = 12
_PLACES = frozenset({"first_shell", "last_shell", "outermost_shell", "group"})


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """What the releases of one table published.

    Parameters
    ----------
    numbers : (draws, k) float64
        Published arrays of the shape that all releases share; the estimate too where shapes vary.
    matrices : (draws, d, d) float64
        The released matrix.
    labels : tuple of int
        Shapes, chosen shells and notes, numbered.
    low_bits : (draws, m) float64
        What is left of the published numbers within fine grids.
    family : str
        Stated law of the noise, empty if there is none.
    """

    numbers: Array
    matrices: Array
    labels: NDArray[np.int64]
    low_bits: Array
    family: str

    def take(self, chosen: slice) -> "Outcomes":
        """Some of the releases."""
        return Outcomes(
            numbers=self.numbers[chosen],
            matrices=self.matrices[chosen],
            labels=self.labels[chosen],
            low_bits=self.low_bits[chosen],
            family=self.family,
        )


def read(tables: Sequence[Sequence[NoisyStatistics]], n_rows: int) -> list[Outcomes]:
    """Read the releases of two tables into columns that mean the same for both."""
    every = [each for table in tables for each in table]
    labels = _numbered([_label(each) for each in every])
    uniform = len({_shapes(each) for each in every}) == 1
    common = [name for name in every[0].arrays if len({_shape_of(each, name) for each in every}) == 1]
    parts = [np.array([each.arrays[name] for each in every]).reshape(len(every), -1) for name in common]
    matrices = _matrices(every, n_rows)
    numbers = [part.astype(np.float64) for part in parts]
    if not uniform:
        numbers.append(matrices.reshape(len(every), -1))
    if every[0].layout == "estimate" and "row_count" in common:
        numbers.append((matrices * _counts(every)[:, None, None]).reshape(len(every), -1))
    whole = Outcomes(
        numbers=_distinct(_beside(numbers, len(every))),
        matrices=matrices,
        labels=labels,
        low_bits=_distinct(_beside([_low_bits(part) for part in parts], len(every))),
        family=every[0].noise.family if every[0].noise is not None else "",
    )
    first = len(tables[0])
    return [whole.take(slice(0, first)), whole.take(slice(first, None))]


def _shape_of(statistics: NoisyStatistics, name: str) -> tuple[int, ...] | None:
    array = statistics.arrays.get(name)
    return None if array is None else array.shape


def _shapes(statistics: NoisyStatistics) -> tuple[object, ...]:
    return tuple((name, array.shape) for name, array in statistics.arrays.items())


def _label(statistics: NoisyStatistics) -> tuple[object, ...]:
    """All that is published but is no number with noise."""
    places = tuple(
        (name, tuple(array.tolist())) for name, array in statistics.arrays.items() if name in _PLACES
    )
    return _shapes(statistics), places, statistics.notes, statistics.dropped_bits, statistics.post


def _numbered(labels: Sequence[tuple[object, ...]]) -> NDArray[np.int64]:
    known: dict[tuple[object, ...], int] = {}
    return np.array([known.setdefault(label, len(known)) for label in labels], dtype=np.int64)


def _matrices(every: Sequence[NoisyStatistics], n_rows: int) -> Array:
    """The released matrices, divided by one number of rows where the release leaves that to its reader."""
    if all(each.layout == "sscp" for each in every):
        read_one: Callable[[NoisyStatistics], PublishedArray] = _plain_sscp
    elif all(each.layout == "estimate" for each in every):
        read_one = _finished
    else:
        return np.array([unit_estimate(each, n_rows).matrix for each in every])
    return np.array([read_one(each) for each in every], dtype=np.float64)


def _plain_sscp(statistics: NoisyStatistics) -> PublishedArray:
    scale = 2.0**statistics.dropped_bits / 4.0**statistics.lattice_bits
    return np.asarray(statistics.arrays["sscp"] * scale)


def _finished(statistics: NoisyStatistics) -> PublishedArray:
    return statistics.arrays["second_moment"]


def _counts(every: Sequence[NoisyStatistics]) -> Array:
    return np.array([max(1.0, float(each.arrays["row_count"][0])) for each in every])


def _low_bits(values: PublishedArray) -> Array:
    """Integers modulo a power of two; the rest of real numbers after multiples of fine grids."""
    if np.issubdtype(values.dtype, np.integer):
        return np.asarray(values % (1 << LOW_INTEGER_BITS), dtype=np.float64)
    # A rounding error of a sum may fall to either side of a grid point; a quarter of a step more keeps it together.
    rests = [np.mod(values * 2.0**bits + 0.25, 1.0) for bits in LOW_BITS]
    return np.concatenate(rests, axis=1)


def _beside(blocks: Sequence[Array], n_rows: int) -> Array:
    """Blocks of columns in one table: of no columns where there is no block, for shapes may have nothing in common."""
    return np.concatenate([np.empty((n_rows, 0)), *blocks], axis=1)


def _distinct(columns: Array) -> Array:
    """Without columns that never vary or that repeat others, such as the lower triangle."""
    varying = columns[:, np.ptp(columns, axis=0) > 0]
    _, places = np.unique(varying, axis=1, return_index=True)
    return np.asarray(varying[:, np.sort(places)])

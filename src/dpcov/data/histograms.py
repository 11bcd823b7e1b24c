"""Count all columns of a table exactly, on public edges.

Contract: a row moves one count of every column by one, whatever its cells hold; counts are integers
that do not depend on blocks, order, threads or engine.  **Sensitive** throughout.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcov.data.exact.room import Lock
from dpcov.data.geometry import Geometry
from dpcov.errors import DataError
from dpcov.published.digits import plural

BELOW, ABOVE, MISSING = 0, 1, 2
"""Places of the counts that precede the cells of a window."""

Counts = NDArray[np.int64]

# Values placed at a time, 128 KiB: they stay in cache.
_TILE = 2**14


# Of a fine window: 32 octaves on either side of the anchor, up to 2 away, of 1,024 cells each.
_OCTAVES, _MANTISSA_BITS = 32, 10
_SIDE = _OCTAVES << _MANTISSA_BITS
FINE_CELLS = 2 * _SIDE


@dataclass(frozen=True)
class Window:
    """Equal cells of [lower, upper) of one column, whose values lie in [-1, 1] between its bounds.

    A column of categories has their codes 0, 1, ... as values.  Ends are distances from ``anchor``.
    Where the window is ``closed``, the last cell holds its upper end too.
    """

    lower: float = -1.0
    upper: float = 1.0
    cells: int = 2**16
    anchor: float = 0.0
    closed: bool = True

    def places(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Where the values are counted; each by itself, NaN as missing."""
        # Every step is one correctly rounded operation on one value, so all machines agree.
        values = values - self.anchor
        scaled = np.floor((values - self.lower) * (self.cells / (self.upper - self.lower)))
        inside = np.clip(scaled, 0, self.cells - 1)
        places = np.where(np.isnan(inside), MISSING - 3, inside).astype(np.intp) + 3
        # Rounded products may lie on the other side of an end; the values themselves do not.
        places[values < self.lower] = BELOW
        top = values > self.upper if self.closed else values >= self.upper
        places[top] = ABOVE
        return places


@dataclass(frozen=True)
class FineWindow:
    """Cells of one column as fine as a thousandth of a value's distance from ``anchor``.

    However wide the bounds are, numbers of any size are told apart.  A cell holds its lower end.
    """

    anchor: float = 0.0

    @property
    def cells(self) -> int:
        """How many there are."""
        return FINE_CELLS

    def places(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Where the values are counted; each by itself, NaN as missing."""
        # Adding a zero that is not negative makes every zero positive.
        distance = values + (0.0 - self.anchor)
        missing = np.isnan(distance)
        # Exponent and leading digits of a float are its place among all of its sign.
        places: Counts = distance.view(np.int64)
        negative = places >> 63
        # Below the anchor a cell reaches from its far end, which it holds, to its near one.
        places += negative
        places >>= 52 - _MANTISSA_BITS
        places &= _MAGNITUDE
        np.maximum(places, _LEAST, out=places)
        np.minimum(places, _LEAST + _SIDE - 1, out=places)
        # The smallest is an odd multiple of a side: the low bits count from the anchor, and their
        # complement counts down from it.
        places ^= negative
        places &= FINE_CELLS - 1
        places += MISSING + 1
        places[missing] = MISSING
        return places


_LEAST = int(np.float64(2.0 ** (1 - _OCTAVES)).view(np.int64)) >> (52 - _MANTISSA_BITS)
_MAGNITUDE = 2 ** (11 + _MANTISSA_BITS) - 1


def fine_edges() -> NDArray[np.float64]:
    """Ends of the cells of a fine window as distances from its anchor, (cells + 1,)."""
    # The cell that ends at the anchor, and the one that begins there, reach it.
    inner = np.arange(_LEAST + 1, _LEAST + _SIDE + 1) << (52 - _MANTISSA_BITS)
    positive = inner.view(np.float64)
    return np.concatenate([-positive[::-1], [0.0], positive])


# By how much of it a radius may be missed because a middle is rounded, and more.
_ROUNDED = 2.0**-16


@dataclass(frozen=True)
class Rings:
    """Distances of a column's values from a middle, told apart by factors of two.

    The first ring begins at ``radius``; the last one holds all that is farther away.
    """

    middle: float
    radius: float
    cells: int

    def places(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Rings of the values, each by itself; -1 within the radius or missing."""
        # Correctly rounded operations on one value, and its exponent: alike on all machines.
        away = values - self.middle
        # As cells hold their lower ends, a ring holds the far one of those below the middle. That
        # of the first is often the value of most rows, and the middle may be rounded.
        distances = np.abs(away) / (self.radius * np.where(away < 0, 1 + _ROUNDED, 1 - _ROUNDED))
        distances[np.isnan(distances)] = 0.0
        _, exponents = np.frexp(distances)
        return np.clip(exponents.astype(np.intp) - 1, -1, self.cells - 1)


UNIT = 2**12
"""What a row adds to all its rings together, in integers."""


@dataclass(frozen=True)
class Shared:
    """Rings of several columns, among which a row shares one unit by public weights.

    A row whose values are in rings of columns with weights w adds :data:`UNIT` w / W to each,
    rounded down, where W is the sum of these weights, or the root of their squares' where
    ``in_l2``.  So what it adds has at most that l1 norm, or l2 norm, for any number of columns.
    """

    # With the place of the column, in order, and its positive weight, at most `UNIT`.
    rings: tuple[tuple[int, int, Rings], ...]
    in_l2: bool

    def counts(self, places: Sequence[NDArray[np.intp]]) -> list[Counts]:
        """Sums in the rings of each column, of the places that its values have."""
        weights = [weight for _, weight, _ in self.rings]
        inside = [each >= 0 for each in places]
        total = np.zeros(len(places[0]))
        for weight, here in zip(weights, inside, strict=True):
            total += here * float(weight**2 if self.in_l2 else weight)
        total = np.maximum(np.sqrt(total) if self.in_l2 else total, 1.0)
        # Rounding may add to a norm, but less than would make it another integer.
        counts = []
        for each, here, (_, weight, rings) in zip(places, inside, self.rings, strict=True):
            parts = np.floor(weight * (UNIT / total[here]))
            counts.append(np.bincount(each[here], parts, rings.cells).astype(np.int64))
        return counts


@dataclass(frozen=True)
class HistogramQuestion:
    """The histogram of every column.

    One person with k rows moves the counts of one column by at most ``sqrt(2) k`` in the l2 norm
    and ``2 k`` in the l1 norm under replace-one, by ``k`` and ``k`` under add-remove-one; those of
    m columns together by ``sqrt(m)`` and ``m`` times that.  A sum of neighboring cells moves by at
    most k.  All ``shared`` counts together move as those of one column do, times :data:`UNIT`.
    """

    # One for each column of the encoding's `column_values`.
    windows: tuple[Window | FineWindow, ...]
    # Count the lengths of rows encoded in it instead, as `Encoder.row_lengths` gives them.
    geometry: Geometry | None = None
    # Rings of some columns, whose counts come after those of the windows.
    shared: Shared | None = None

    @property
    def sizes(self) -> list[int]:
        """Lengths of all counts."""
        rings = () if self.shared is None else self.shared.rings
        return [window.cells + 3 for window in self.windows] + [each.cells for *_, each in rings]


class Histograms:
    """Counts of one table; grows by :meth:`add`, combines by :meth:`merge`."""

    def __init__(self, question: HistogramQuestion) -> None:
        self.question = question
        self.counts: list[Counts] = [np.zeros(size, dtype=np.int64) for size in question.sizes]
        self.n_rows = 0
        # Sum of the digests of all rows: a table that changes between questions is noticed.
        self.digest = 0
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"Histograms({plural(len(self.counts), 'column')}, <sensitive>)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histograms):
            return NotImplemented
        mine = self.question, self.n_rows, self.digest
        theirs = other.question, other.n_rows, other.digest
        return mine == theirs and all(map(np.array_equal, self.counts, other.counts))

    def add(self, columns: Iterable[NDArray[np.float64]]) -> None:
        """Count a block of rows, given column by column; several threads may do so."""
        windows, n_columns, n_rows = self.question.windows, 0, 0
        shared = self.question.shared
        wanted = {} if shared is None else {place: each for place, _, each in shared.rings}
        found: list[NDArray[np.intp]] = []
        for window, mine, values in zip(windows, self.counts, columns, strict=False):
            if n_columns in wanted:
                found.append(wanted[n_columns].places(values))
            n_columns, n_rows = n_columns + 1, len(values)
            places = np.empty(n_rows, dtype=np.intp)
            for start in range(0, n_rows, _TILE):
                tile = slice(start, start + _TILE)
                places[tile] = window.places(values[tile])
            counted = np.bincount(places, minlength=len(mine))
            with self._lock:
                mine += counted
        if n_columns != len(windows):
            raise DataError(f"Expected {plural(len(windows), 'column')} to count.")
        more = [] if shared is None else shared.counts(found)
        with self._lock:
            for mine, counted in zip(self.counts[n_columns:], more, strict=True):
                mine += counted
            self.n_rows += n_rows

    def watch(self, digest: int) -> None:
        """Add the digest of a block of rows; several threads may do so."""
        with self._lock:
            self.digest = (self.digest + digest) % 2**64

    def merge(self, other: "Histograms") -> None:
        """Add the counts of other rows."""
        if self.question != other.question:
            raise DataError("These histograms answer different questions.")
        self.watch(other.digest)
        with self._lock:
            self.counts = list(map(np.add, self.counts, other.counts))
            self.n_rows += other.n_rows

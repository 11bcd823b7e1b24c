"""Count all columns of a table exactly, on public edges.

Contract: a row moves one count of every column by one, whatever its cells hold; counts are integers
that do not depend on blocks, order, threads or engine.  **Sensitive** throughout.
"""

import math
import threading
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcov.data.geometry import Geometry
from dpcov.errors import DataError

BELOW, ABOVE, MISSING = 0, 1, 2
"""Places of the counts that precede the cells of a window."""

Counts = NDArray[np.int64]


# Of a fine window: 32 octaves on either side of the anchor, up to 2 away, of 1,024 cells each.
_OCTAVES, _MANTISSA_BITS = 32, 10
_SIDE = _OCTAVES << _MANTISSA_BITS
FINE_CELLS = 2 * _SIDE

# Values placed at a time, 128 KiB: they stay in cache.
_TILE = 2**14


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
        inside = np.clip(scaled, -1, self.cells)
        places = np.where(np.isnan(inside), MISSING - 3, inside).astype(np.intp) + 3
        places[inside == -1] = BELOW
        top = inside == self.cells
        is_end = (values[top] == self.upper) & self.closed
        places[top] = np.where(is_end, self.cells + 2, ABOVE)
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
        # Exponent and leading digits of a float are its place among all of its sign.
        bits = distance.view(np.int64)
        negative = bits >> 63
        # Below the anchor a cell reaches from its far end, which it holds, to its near one.
        places = (bits + negative) >> (52 - _MANTISSA_BITS)
        places &= _MAGNITUDE
        np.clip(places, _LEAST, _LEAST + _SIDE - 1, out=places)
        # The smallest is an odd multiple of a side: the low bits count from the anchor, and their
        # complement counts down from it.
        places ^= negative
        places &= FINE_CELLS - 1
        places += MISSING + 1
        # Distances are finite, so that their sum is NaN exactly if a value is missing.
        if math.isnan(distance.sum()):
            places[np.isnan(distance)] = MISSING
        return places


_LEAST = int(np.float64(2.0 ** (1 - _OCTAVES)).view(np.int64)) >> (52 - _MANTISSA_BITS)
_MAGNITUDE = 2 ** (11 + _MANTISSA_BITS) - 1


def fine_edges() -> NDArray[np.float64]:
    """Ends of the cells of a fine window as distances from its anchor, (cells + 1,)."""
    # The cell that ends at the anchor, and the one that begins there, reach it.
    inner = np.arange(_LEAST + 1, _LEAST + _SIDE + 1) << (52 - _MANTISSA_BITS)
    positive = inner.view(np.float64)
    return np.concatenate([-positive[::-1], [0.0], positive])


@dataclass(frozen=True)
class HistogramQuestion:
    """The histogram of every column.

    One person with k rows moves the counts of one column by at most ``sqrt(2) k`` in the l2 norm
    and ``2 k`` in the l1 norm under replace-one, by ``k`` and ``k`` under add-remove-one; those of
    m columns together by ``sqrt(m)`` and ``m`` times that.  A sum of neighboring cells moves by at
    most k.

    Parameters
    ----------
    windows : tuple of Window or FineWindow
        One for each column of the encoding's :meth:`column_values`.
    watched : bool
        Whether to sum up a digest of the rows.
    geometry : Geometry, optional
        Count the lengths of rows encoded in it instead, as
        :meth:`~dpcov.data.encode.Encoder.row_lengths` gives them, in one window.
    """

    windows: tuple[Window | FineWindow, ...]
    watched: bool = False
    geometry: Geometry | None = None


class Histograms:
    """Counts of one table; grows by :meth:`add`, combines by :meth:`merge`.

    Parameters
    ----------
    question : HistogramQuestion
    """

    def __init__(self, question: HistogramQuestion) -> None:
        self.question = question
        self.counts: list[Counts] = [
            np.zeros(window.cells + 3, dtype=np.int64) for window in question.windows
        ]
        self.n_rows = 0
        self.digest = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Histograms({len(self.counts)} columns, <sensitive>)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histograms):
            return NotImplemented
        mine = self.question, self.n_rows, self.digest
        theirs = other.question, other.n_rows, other.digest
        return mine == theirs and all(map(np.array_equal, self.counts, other.counts))

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def add(self, columns: Iterable[NDArray[np.float64]]) -> None:
        """Count a block of rows, given column by column; several threads may do so."""
        windows, n_columns, n_rows = self.question.windows, 0, 0
        for window, mine, values in zip(windows, self.counts, columns, strict=False):
            n_columns, n_rows = n_columns + 1, len(values)
            places = np.empty(n_rows, dtype=np.intp)
            for start in range(0, n_rows, _TILE):
                tile = slice(start, start + _TILE)
                places[tile] = window.places(values[tile])
            counted = np.bincount(places, minlength=len(mine))
            with self._lock:
                mine += counted
        if n_columns != len(windows):
            raise DataError(f"Expected {len(windows)} columns to count.")
        with self._lock:
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
            self.counts = [
                mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)
            ]
            self.n_rows += other.n_rows

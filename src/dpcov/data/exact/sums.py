"""Add up integer matrices exactly, for any number of terms.

Contract: the value never depends on the order, the chunking, the threads or the tree in which terms
were added.  One int64 word holds the sum until it could overflow; then a second word takes the
carry.  A large matrix is kept as panels of rows from the diagonal on: half the memory, and a
product is made one panel at a time.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcov.data.exact.room import Lock
from dpcov.errors import NumericError

IntegerMatrix = NDArray[np.int64]

_LIMIT = 2**62
_WORD = 32
_MASK = np.int64(2**_WORD - 1)

_PANEL_ROWS = 512
# Matrices up to this dimension are one panel: one symmetric product is the fastest.
_WHOLE = 1024


class _Words:
    """An integer array ``high * 2**32 + low`` that grows by exact additions."""

    __slots__ = ("_bound", "_high", "_low")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._low: IntegerMatrix = np.zeros(shape, dtype=np.int64)
        self._high: IntegerMatrix | None = None
        self._bound = 0

    def add(self, term: NDArray[Any], bound: int, places: Any = ...) -> None:
        """Add integers, held in any type, of at most ``bound`` < 2**62 in absolute value."""
        if self._bound + bound >= _LIMIT:
            self._carry()
        self._low[places] += term.astype(np.int64, copy=False)
        self._bound += bound

    def add_high(self, high: IntegerMatrix) -> None:
        """Add integers times ``2**32``."""
        self._carry()
        assert self._high is not None
        self._high += high

    def merge(self, other: "_Words") -> None:
        """Add another array of the same shape."""
        if other._high is not None:
            self.add_high(other._high)
        self.add(other._low, other._bound)

    def _carry(self) -> None:
        # Move everything above the low word into the high word.
        carried = self._low >> _WORD
        self._high = carried if self._high is None else self._high + carried
        # The shift rounds down, so that the low word is never negative.
        self._low &= _MASK
        self._bound = 2**_WORD

    def split(self) -> tuple[IntegerMatrix, IntegerMatrix]:
        """Return new arrays ``(high, low)`` with ``0 <= low < 2**32``."""
        high = self._low >> _WORD
        if self._high is not None:
            high += self._high
        return high, self._low & _MASK

    def diagonal(self) -> int:
        """Return the sum of the diagonal that starts in the first entry."""
        high: int = 0 if self._high is None else sum(np.diagonal(self._high).tolist())
        low: int = sum(np.diagonal(self._low).tolist())
        return (high << _WORD) + low

    def shifted_down(self, bits: int) -> "_Words":
        """Entrywise floor of the array divided by ``2**bits``."""
        high, low = self.split()
        result = _Words((0,))
        if bits >= _WORD:
            result._low, result._bound = high >> min(bits - _WORD, 62), _LIMIT - 1
        else:
            result._low = (low >> bits) + ((high & np.int64(2**bits - 1)) << (_WORD - bits))
            result._high, result._bound = high >> bits, 2**_WORD
        return result

    def plus(self, noise: IntegerMatrix) -> tuple[IntegerMatrix, IntegerMatrix]:
        """Return new arrays as `split` does, of the sum with ``noise``."""
        high, low = self.split()
        low += noise & _MASK
        high += (noise >> _WORD) + (low >> _WORD)
        return high, low & _MASK


class ExactSum:
    """A symmetric integer matrix that grows by exact additions, under `lock`, from any thread."""

    __slots__ = ("_panels", "dimension", "lock")

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._panels: list[_Words] | None = None
        self.lock = Lock()

    def __repr__(self) -> str:
        return f"ExactSum(dimension={self.dimension}, <sensitive>)"

    def add(self, term: NDArray[np.float64] | IntegerMatrix, bound: int) -> None:
        """Add an integer-valued symmetric matrix, entries at most ``bound`` < 2**62 in absolute."""
        _check_bound(bound)
        with self.lock:
            for panel, (start, stop) in self._filled():
                panel.add(term[start:stop, start:], bound)

    def add_gram(
        self, block: NDArray[np.float64], bound: int, places: NDArray[np.intp] | None = None
    ) -> None:
        """Add ``block.T @ block``; all its entries' partial sums are at most ``bound`` <= 2**53.

        ``places`` are the columns that the block has, ascending, where others are zero.
        """
        _check_bound(bound)
        # Outside the lock and one panel at a time, which bounds the memory of a thread.
        for index, (start, stop) in enumerate(_panels(self.dimension)):
            entries: Any = ...
            if places is not None:
                rows, columns = places[(start <= places) & (places < stop)], places[places >= start]
                entries = np.ix_(rows - start, columns - start)
                start = len(places) - len(columns)
                stop = start + len(rows)
            product = _panel_product(block, start, stop).astype(np.int64)
            with self.lock:
                self._filled()[index][0].add(product, bound, entries)

    def add_words(self, high: IntegerMatrix, low: IntegerMatrix) -> None:
        """Add a symmetric matrix as `words` returns it."""
        with self.lock:
            for panel, (start, stop) in self._filled():
                panel.add_high(high[start:stop, start:])
                panel.add(low[start:stop, start:], 2**_WORD)

    def merge(self, other: "ExactSum") -> None:
        """Add another sum; merging is associative and commutative to the bit."""
        if other._panels is not None:
            with self.lock:
                for (mine, _), theirs in zip(self._filled(), other._panels, strict=True):
                    mine.merge(theirs)

    def _filled(self) -> list[tuple[_Words, tuple[int, int]]]:
        # Return the panels to add to, with their rows; until then a sum takes no memory.
        self._panels = self._shown()
        return list(zip(self._panels, _panels(self.dimension), strict=True))

    def _shown(self) -> list[_Words]:
        # Return the panels to read.
        n = self.dimension
        return self._panels or [_Words((stop - start, n - start)) for start, stop in _panels(n)]

    def trace(self) -> int:
        """Exact trace as a Python integer."""
        return sum(panel.diagonal() for panel in self._panels or ())

    def words(self) -> tuple[IntegerMatrix, IntegerMatrix]:
        """Return (d, d) ``(high, low)`` of the sum ``high * 2**32 + low``, ``0 <= low < 2**32``."""
        high, low = zip(*(panel.split() for panel in self._shown()), strict=True)
        return self._assembled(high), self._assembled(low)

    def plus(self, noise: IntegerMatrix, *, room_for: int = 0) -> tuple[IntegerMatrix, int]:
        """Return ``(matrix, dropped_bits)``: the sum plus symmetric ``noise``, as int64.

        ``dropped_bits`` low bits are dropped: the fewest that make every *noisy* entry, and an
        already noisy number ``room_for``, fit.  Being a function of noisy numbers alone it costs no
        privacy.  It is 0 below about 4 million rows at 20 bits.
        """
        places = zip(self._shown(), _panels(self.dimension), strict=True)
        noisy = [panel.plus(noise[start:stop, start:]) for panel, (start, stop) in places]
        spreads = (max(int(high.max()), -int(high.min()) - 1) for high, _ in noisy)
        spread = max(abs(room_for) >> _WORD, *spreads)
        dropped = max(0, spread.bit_length() + _WORD - 62)
        if dropped > _WORD:
            raise NumericError("The moments are too large for the release format; use fewer bits.")
        parts = ((high << (_WORD - dropped)) + (low >> dropped) for high, low in noisy)
        return self._assembled(parts), dropped

    def shifted_down(self, bits: int) -> "ExactSum":
        """Entrywise floor of the sum divided by ``2**bits``."""
        result = ExactSum(self.dimension)
        if bits == 0:
            result.merge(self)
        elif self._panels is not None:
            result._panels = [panel.shifted_down(bits) for panel in self._panels]
        return result

    def times(self, factor: int) -> "ExactSum":
        """The sum times a small whole number."""
        result = ExactSum(self.dimension)
        for _ in range(factor):
            result.merge(self)
        return result

    def to_float(self) -> NDArray[np.float64]:
        """Nearest float64 values, for idealized mechanisms and for error measurements."""
        halves = (panel.split() for panel in self._shown())
        return self._assembled(high.astype(np.float64) * 2.0**_WORD + low for high, low in halves)

    def _assembled(self, parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
        # Return the whole matrix from its panels.
        whole: NDArray[Any] | None = None
        for (start, stop), part in zip(_panels(self.dimension), parts, strict=True):
            if len(part) == self.dimension:
                return part
            if whole is None:
                whole = np.empty((self.dimension, self.dimension), dtype=part.dtype)
            whole[start:stop, start:] = part
            # Below the diagonal the matrix mirrors what is above it.
            whole[stop:, start:stop] = part[:, stop - start :].T
        assert whole is not None
        return whole

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactSum) or self.dimension != other.dimension:
            return False
        pairs = zip(self._shown(), other._shown(), strict=True)
        return all(np.array_equal(mine.split(), theirs.split()) for mine, theirs in pairs)


def packed_entries(dimension: int) -> int:
    """Entries that one word of a sum keeps."""
    return sum((stop - start) * (dimension - start) for start, stop in _panels(dimension))


def panel_entries(dimension: int) -> int:
    """Entries of the largest panel: what a product takes beside the sum."""
    return _panels(dimension)[0][1] * dimension


def _panels(dimension: int) -> list[tuple[int, int]]:
    step = dimension if dimension <= _WHOLE else _PANEL_ROWS
    return [(start, min(start + step, dimension)) for start in range(0, dimension, step)]


def _panel_product(block: NDArray[np.float64], start: int, stop: int) -> NDArray[np.float64]:
    # Rows start:stop of block.T @ block from the diagonal on; the square on it is symmetric.
    left = block[:, start:stop]
    if stop == block.shape[1]:
        return left.T @ left
    product = np.empty((stop - start, block.shape[1] - start))
    product[:, : stop - start] = left.T @ left
    product[:, stop - start :] = left.T @ block[:, stop:]
    return product


def _check_bound(bound: int) -> None:
    if not 0 <= bound < _LIMIT:
        raise NumericError("A block of moments exceeds the exact range; use smaller blocks.")

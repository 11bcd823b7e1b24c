"""Sums of integer matrices that are exact for any number of terms.

Promise: the value never depends on the order, the chunking or the tree in which terms were added.  One int64
word holds the sum until it could overflow; then a second word takes the carry.  Knows nothing of rows.
"""

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import NumericError

IntegerMatrix = NDArray[np.int64]

_LIMIT = 2**62
_WORD = 32
_MASK = np.int64(2**_WORD - 1)


class ExactSum:
    """A symmetric integer matrix ``high * 2**32 + low`` that grows by exact additions.

    Parameters
    ----------
    dimension : int
        Number of rows and columns.
    """

    __slots__ = ("_bound", "_high", "_low")

    def __init__(self, dimension: int) -> None:
        self._low: IntegerMatrix = np.zeros((dimension, dimension), dtype=np.int64)
        self._high: IntegerMatrix | None = None
        self._bound = 0

    def __repr__(self) -> str:
        return f"ExactSum(dimension={self._low.shape[0]}, <sensitive>)"

    def add(self, term: NDArray[np.float64] | IntegerMatrix, bound: int) -> None:
        """Add an integer-valued matrix whose entries are at most ``bound`` < 2**62 in absolute value."""
        if not 0 <= bound < _LIMIT:
            raise NumericError("A block of moments exceeds the exact range; use smaller blocks.")
        if self._bound + bound >= _LIMIT:
            self._carry()
        self._low += np.asarray(term, dtype=np.int64)
        self._bound += bound

    def merge(self, other: "ExactSum") -> None:
        """Add another sum; merging is associative and commutative to the bit."""
        if other._high is not None:
            self._carry()
            assert self._high is not None
            self._high += other._high
        self.add(other._low, other._bound)

    def _carry(self) -> None:
        """Move everything above the low word into the high word."""
        carried = self._low >> _WORD
        self._high = carried if self._high is None else self._high + carried
        self._low &= _MASK
        self._bound = 2**_WORD

    def trace(self) -> int:
        """Exact trace as a Python integer."""
        total = sum(int(value) for value in np.diagonal(self._low))
        if self._high is not None:
            total += sum(int(value) for value in np.diagonal(self._high)) << _WORD
        return total

    def _words(self) -> tuple[IntegerMatrix, IntegerMatrix]:
        high = self._low >> _WORD
        return (high if self._high is None else high + self._high), self._low & _MASK

    def plus(self, noise: IntegerMatrix, *, room_for: int = 0) -> tuple[IntegerMatrix, int]:
        """Return ``(matrix, dropped_bits)``: the sum plus ``noise``, as int64 after dropping low bits.

        ``dropped_bits`` is the smallest number that makes every *noisy* entry, and the already noisy number
        ``room_for``, fit; being a function of noisy numbers alone it costs no privacy.  It is 0 below about
        4 million rows at 20 bits.
        """
        high, low = self._words()
        low = low + (noise & _MASK)
        high = high + (noise >> _WORD) + (low >> _WORD)
        low &= _MASK
        spread = max(int(high.max()), -int(high.min()) - 1, abs(room_for) >> _WORD)
        dropped = max(0, spread.bit_length() + _WORD - 62)
        if dropped > _WORD:
            raise NumericError("The moments are too large for the release format; use fewer bits.")
        return (high << (_WORD - dropped)) + (low >> dropped), dropped

    def shifted_down(self, bits: int) -> "ExactSum":
        """Entrywise floor of the sum divided by ``2**bits``."""
        result = ExactSum(len(self._low))
        if bits == 0:
            result.merge(self)
            return result
        high, low = self._words()
        if bits >= _WORD:
            result.add(high >> min(bits - _WORD, 62), _LIMIT - 1)
            return result
        carried = (high & np.int64(2**bits - 1)) << (_WORD - bits)
        result._low = (low >> bits) + carried
        result._high = high >> bits
        result._bound = 2**_WORD
        return result

    def to_float(self) -> NDArray[np.float64]:
        """Nearest float64 values, for idealized mechanisms and for researchers' error measurements."""
        high, low = self._words()
        return high.astype(np.float64) * 2.0**_WORD + low.astype(np.float64)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactSum):
            return NotImplemented
        mine, theirs = self._words(), other._words()
        return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))

    __hash__ = None  # type: ignore[assignment]

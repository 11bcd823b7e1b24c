"""Vectors of integers modulo 2**128, in two words of 64 bits.

Promise: addition is exact and wraps around, so that uniform masks cancel to the bit.  Knows nothing of moments or keys.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import DataError, NumericError

Words = NDArray[np.uint64]

_HALF = np.uint64(32)


@dataclass(frozen=True, eq=False)
class Residues:
    """Integers ``high * 2**64 + low`` modulo 2**128.

    Parameters
    ----------
    high, low : (n,) uint64
    """

    high: Words
    low: Words

    def __len__(self) -> int:
        return len(self.low)

    def __repr__(self) -> str:
        return f"Residues(<{len(self)} numbers>)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Residues):
            return NotImplemented
        return bool(np.array_equal(self.high, other.high) and np.array_equal(self.low, other.low))

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def zeros(cls, count: int) -> "Residues":
        """Return ``count`` zeros."""
        return cls(np.zeros(count, np.uint64), np.zeros(count, np.uint64))

    @classmethod
    def from_halves(cls, high: NDArray[np.int64], low: NDArray[np.int64]) -> "Residues":
        """Encode ``high * 2**32 + low`` with ``0 <= low < 2**32``, as exact sums hold their numbers."""
        lower = (high.astype(np.uint64) << _HALF) | low.astype(np.uint64)
        return cls((high >> 32).astype(np.uint64), lower)

    @classmethod
    def from_integers(cls, numbers: NDArray[np.int64] | Iterable[int]) -> "Residues":
        """Encode int64 numbers, or Python integers of up to 127 bits."""
        if isinstance(numbers, np.ndarray):
            return cls((numbers >> 63).astype(np.uint64), numbers.astype(np.uint64))
        wrapped = [number % 2**128 for number in numbers]
        high = np.array([number >> 64 for number in wrapped], dtype=np.uint64)
        return cls(high, np.array([number & (2**64 - 1) for number in wrapped], dtype=np.uint64))

    @classmethod
    def from_bytes(cls, content: bytes) -> "Residues":
        """Read what :meth:`to_bytes` wrote; any bytes of the right length are some residues."""
        if len(content) % 16:
            raise DataError("A contribution has the wrong length; ask the site to send it again.")
        words = np.frombuffer(content, dtype="<u8").astype(np.uint64).reshape(2, -1)
        return cls(words[0], words[1])

    def to_bytes(self) -> bytes:
        """All high words, then all low words, little-endian."""
        return np.concatenate([self.high, self.low]).astype("<u8").tobytes()

    def __add__(self, other: "Residues") -> "Residues":
        low = self.low + other.low
        return Residues(self.high + other.high + (low < self.low), low)

    def __neg__(self) -> "Residues":
        return Residues(~self.high, ~self.low) + Residues.from_integers(np.ones(len(self), np.int64))

    def halves(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Decode signed numbers below 2**94 into ``high * 2**32 + low``, the inverse of :meth:`from_halves`."""
        signed = self.high.astype(np.int64)
        if len(signed) and max(abs(int(signed.min())), abs(int(signed.max()))) >= 2**30:
            raise NumericError(
                "The sum is out of range. A contribution is missing, damaged or from another round; start a new one."
            )
        return (signed << 32) + (self.low >> _HALF).astype(np.int64), (
            self.low & np.uint64(2**32 - 1)
        ).astype(np.int64)

    def integers(self) -> list[int]:
        """Signed Python integers."""
        high, low = self.halves()
        return [(int(a) << 32) + int(b) for a, b in zip(high, low, strict=True)]


def total(parts: Iterable[Residues], count: int) -> Residues:
    """Sum vectors of ``count`` numbers."""
    result = Residues.zeros(count)
    for part in parts:
        if len(part) != count:
            raise DataError("A contribution has the wrong length; ask the site to send it again.")
        result = result + part
    return result

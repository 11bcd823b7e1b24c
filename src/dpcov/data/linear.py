"""Public linear maps of encoded rows, applied in integers.

Contract: a mapped row depends on its own row and the public map alone, and is equal to the bit on every
engine.  Knows nothing of noise or budgets.
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, frexp, log2

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import NumericError

FloatMatrix = NDArray[np.float64]

ROW_BITS = 26
"""Resolution of a row before it is mapped; finer than any lattice that it is rounded to afterwards."""


@dataclass(frozen=True)
class LinearMap:
    """A row x of norm at most 1 becomes ``matrix @ trunc(x * 2**ROW_BITS) / 2**ROW_BITS``.

    Parameters
    ----------
    numbers : tuple of tuples of int
        Rows of the integer matrix.
    exponent : int
        The matrix is ``numbers * 2**exponent``.
    """

    numbers: tuple[tuple[int, ...], ...]
    exponent: int

    @classmethod
    def nearest(cls, matrix: FloatMatrix) -> "LinearMap":
        """Round a (d, d) matrix to integers times a power of two, relative to its largest entry."""
        largest = float(np.abs(matrix).max())
        if not 0 < largest < np.inf:
            raise NumericError("A public linear map is zero or not finite.")
        # By Cauchy-Schwarz every partial sum of a product is at most sqrt(d) 2**(bits + ROW_BITS).
        bits = 53 - ROW_BITS - ceil(log2(len(matrix)) / 2)
        exponent = frexp(largest)[1] - bits
        whole = np.rint(np.ldexp(matrix, -exponent)).astype(np.int64)
        return cls(tuple(map(tuple, whole.tolist())), exponent)

    @cached_property
    def integers(self) -> FloatMatrix:
        """The (d, d) integer matrix in float64."""
        return np.array(self.numbers, dtype=np.float64)

    @property
    def matrix(self) -> FloatMatrix:
        """The (d, d) matrix that is applied."""
        return np.ldexp(self.integers, self.exponent)

    def apply(self, rows: FloatMatrix) -> FloatMatrix:
        """Map (n, d) rows of norm at most 1."""
        # Integers below 2**53 in any order of summation; the powers of two are exact.
        product = np.trunc(np.ldexp(rows, ROW_BITS)) @ self.integers.T
        mapped: FloatMatrix = np.ldexp(product, self.exponent - ROW_BITS)
        return mapped

"""Apply public linear maps to encoded rows, in integers.

Contract: a mapped row depends on its own row and the public map alone, and is equal to the bit on
every engine.
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, frexp, log2

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import NumericError, SchemaError

FloatMatrix = NDArray[np.float64]

# Resolution of a row before it is mapped; finer than any lattice that it is rounded to afterwards.
ROW_BITS = 26

_MOST_POWER = 200


@dataclass(frozen=True)
class LinearMap:
    """A row x of norm at most 1 becomes ``matrix @ trunc(x * 2**ROW_BITS) / 2**ROW_BITS``.

    Parameters
    ----------
    numbers : tuple of tuples of int
        Rows of the (p, d) integer matrix.
    exponent : int
        The matrix is ``numbers * 2**exponent``.
    """

    numbers: tuple[tuple[int, ...], ...]
    exponent: int

    @classmethod
    def nearest(cls, matrix: FloatMatrix) -> "LinearMap":
        """Round a (p, d) matrix to integers times a power of two, relative to its largest entry."""
        largest = float(np.abs(matrix).max())
        if not 0 < largest < np.inf:
            raise NumericError("A public linear map is zero or not finite.")
        exponent = frexp(largest)[1] - _bits(matrix.shape[1])
        whole = np.rint(np.ldexp(matrix, -exponent)).astype(np.int64)
        return cls(tuple(map(tuple, whole.tolist())), exponent)

    def check(self, n_rows: int, n_columns: int) -> None:
        """Refuse another shape, numbers whose products would not be exact, and a singular map."""
        shape_fits = {len(row) for row in self.numbers} == {n_columns}
        if not shape_fits or len(self.numbers) != n_rows:
            raise SchemaError(f"A linear map of these columns is {n_rows} by {n_columns} numbers.")
        largest = max(abs(number) for row in self.numbers for number in row)
        if largest > 2 ** _bits(n_columns) or not -_MOST_POWER <= self.exponent <= _MOST_POWER:
            raise SchemaError("The numbers of a linear map are too large.")
        if not self.can_be_undone:
            raise SchemaError("The linear map of a geometry cannot be undone.")

    @property
    def can_be_undone(self) -> bool:
        """Whether the last p columns, those of features, are invertible."""
        p = len(self.numbers)
        return bool(np.linalg.matrix_rank(self.integers[:, -p:]) == p)

    def scaled(self, power: int) -> "LinearMap":
        """The map times ``2**power``."""
        return LinearMap(self.numbers, self.exponent + power)

    @cached_property
    def integers(self) -> FloatMatrix:
        """The (p, d) integer matrix in float64."""
        return np.array(self.numbers, dtype=np.float64)

    @property
    def matrix(self) -> FloatMatrix:
        """The (p, d) matrix that is applied."""
        return np.ldexp(self.integers, self.exponent)

    def apply(self, rows: FloatMatrix) -> FloatMatrix:
        """Map (n, d) rows of norm at most 1 to (n, p)."""
        whole = np.multiply(rows, 2.0**ROW_BITS)
        np.trunc(whole, out=whole)
        return self.apply_to_whole(whole, 1.0, np.empty((len(self.numbers), len(rows))).T)

    def apply_to_whole(self, whole: FloatMatrix, factor: float, out: FloatMatrix) -> FloatMatrix:
        """Map (n, d) rows, in integers of ``2**-ROW_BITS``, to ``out`` times a factor, (n, p)."""
        # Integers below 2**53 in any order of summation; the powers of two are exact.
        # Columns lie together before and after, as encoded rows do.
        np.matmul(self.integers, whole.T, out=out.T)
        out *= 2.0 ** (self.exponent - ROW_BITS) * factor
        return out


def _bits(n_columns: int) -> int:
    # By Cauchy-Schwarz every partial sum of a product is at most sqrt(d) 2**(bits + ROW_BITS).
    return 53 - ROW_BITS - ceil(log2(n_columns) / 2)

"""Apply public linear maps to encoded rows, in integers.

Contract: a mapped row depends on its own row and the public map alone, and is equal to the bit on
every engine.
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, frexp, log2

import numpy as np
from numpy.typing import NDArray

from dpcov.data.exact.library import NUMPY, Array, Library
from dpcov.errors import NumericError, SchemaError
from dpcov.published.linalg.symmetric import is_invertible

FloatMatrix = NDArray[np.float64]
# Which columns rows have, ascending.
Places = NDArray[np.intp]

# Resolution of a row before it is mapped; finer than any lattice that it is rounded to afterwards.
ROW_BITS = 26

_MOST_POWER = 200
# Columns of which an output is made without a product of matrices.
_ALONE = 2


def by_columns(n_rows: int, n_columns: int) -> FloatMatrix:
    """An (n_rows, n_columns) matrix whose columns lie together, and which holds anything."""
    return np.empty((n_columns, n_rows)).T


@dataclass(frozen=True)
class LinearMap:
    """A row x of norm at most 1 becomes ``matrix @ trunc(x * 2**ROW_BITS) / 2**ROW_BITS``.

    The (p, d) matrix is ``numbers * 2**exponent``, row by row.
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
        largest = max(max(map(abs, row)) for row in self.numbers)
        if largest > 2 ** _bits(n_columns) or not -_MOST_POWER <= self.exponent <= _MOST_POWER:
            raise SchemaError("The numbers of a linear map are too large.")
        if not self.can_be_undone:
            raise SchemaError("The linear map of a geometry cannot be undone.")

    @cached_property
    def can_be_undone(self) -> bool:
        """Whether the last p columns, those of features, are invertible."""
        p = len(self.numbers)
        return is_invertible(self.integers[:, -p:])

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

    def apply(self, rows: Array, places: Places | None = None, on: Library = NUMPY) -> Array:
        """Map (n, d) rows of norm at most 1, or these columns of theirs, to (n, p)."""
        # Integers of 2**53 at most in any order of summation, times a power of two, which is exact.
        numbers = np.ldexp(self.integers, self.exponent - ROW_BITS)
        numbers = numbers if places is None else numbers[:, places]
        return (on.from_host(numbers) @ on.module.trunc(rows * 2.0**ROW_BITS).T).T

    def inhabited(self, places: Places) -> Places:
        """Which outputs may differ from zero where rows have these columns alone, ascending."""
        found: NDArray[np.intp] = np.flatnonzero(self.integers[:, places].any(axis=1))
        return found

    def apply_scaled(
        self, rows: FloatMatrix, places: Places, factor: float, out: FloatMatrix
    ) -> None:
        """Map rows, (n, c), in units of ``2**-ROW_BITS``, to inhabited outputs times a factor.

        ``places``, (c,), are the columns that rows have, ascending; others are zero.  ``out``,
        (n, q), is for the outputs of :meth:`inhabited`.
        """
        # Integers of 2**53 at most in any order of summation.
        outputs = self.inhabited(places)
        numbers = self.integers[np.ix_(outputs, places)]
        # Outputs of few columns, as indicators of missing values have, need no product of matrices.
        mixing = np.count_nonzero(numbers, axis=1) > _ALONE
        mixed = np.flatnonzero(numbers[mixing].any(axis=0))
        whole = rows.T[mixed]
        out.T[mixing] = numbers[np.ix_(mixing, mixed)] @ np.trunc(whole, out=whole)
        for place in np.flatnonzero(~mixing):
            parts = np.flatnonzero(numbers[place])
            out[:, place] = sum(np.trunc(rows[:, part]) * numbers[place, part] for part in parts)
        # The power of two is exact.
        out *= 2.0 ** (self.exponent - ROW_BITS) * factor


def _bits(n_columns: int) -> int:
    # By Cauchy-Schwarz every partial sum of a product is at most sqrt(d) 2**(bits + ROW_BITS), also
    # of rows that rounding leaves a little too long (mechanisms/geometry/whitening.md, Lemma 6).
    return 53 - ROW_BITS - ceil(log2(n_columns) / 2)

"""Encoded rows kept in memory, for mechanisms that must look at them more than once.

Contract: holds what the encoder made, rows in the unit ball, and shows none of it.  Knows nothing of noise or
budgets. Memory grows with the table: 8 bytes for every encoded number.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import DataError

FloatBlock = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RowsSpec:
    """Says that a mechanism wants the rows themselves; public."""


class EncodedRows:
    """Sensitive encoded rows of one table, in blocks; can be iterated over any number of times.

    Parameters
    ----------
    n_features : int
        Columns of the encoded rows.
    norm_bound : float
        Public bound by which the rows were divided.
    """

    def __init__(self, n_features: int, *, norm_bound: float = 1.0) -> None:
        self.n_features = n_features
        self.norm_bound = norm_bound
        self.n_rows = 0
        self._blocks: list[FloatBlock] = []

    def __repr__(self) -> str:
        return f"EncodedRows(n_features={self.n_features}, <sensitive>)"

    def __iter__(self) -> Iterator[FloatBlock]:
        return iter(self._blocks)

    def add(self, rows: FloatBlock) -> None:
        """Append encoded rows of norm at most 1; the block must not be changed afterwards."""
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise DataError(f"Expected blocks of rows with {self.n_features} encoded columns.")
        if not np.isfinite(rows).all():
            raise DataError("An encoded row is not finite; encode the rows first.")
        self._blocks.append(rows)
        self.n_rows += len(rows)

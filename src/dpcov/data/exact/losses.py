"""Add up exactly what scaling long rows down takes of the spread of every column.

Contract: what a row adds depends on that row and on public numbers alone: integers, none negative,
of an l2 norm, or l1 norm, of at most `LOSS_UNITS`, to the sums of one group.  Sums do not depend on
blocks, order, threads or engine.  **Sensitive** throughout.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcov.data.exact.linear import FloatMatrix
from dpcov.data.exact.room import Lock
from dpcov.errors import DataError, NumericError
from dpcov.published.file.statistics import LOSS_UNITS

# Squares of what is compared with a limit neither vanish nor overflow.
SMALLEST_LIMIT, LARGEST_LIMIT = 1e-100, 1e100
# Far more than a limit, and finite when squared.
_MOST = 2.0**60
# Sums beyond this, of about four thousand billion rows, are refused.
_LARGEST = 2**62


@dataclass(frozen=True)
class LossQuestion:
    """The sum of w (x_j - m_j)² (1 - s²) over rows that are scaled down by s < 1, by column j.

    Weights w are at most 1, and 1 for rows without weights.  Groups have sums of their own.

    One person with k rows moves the vector of all sums by at most ``sqrt(2) k`` (replace-one) or
    ``k`` (add-remove-one), times `LOSS_UNITS`, in the l2 norm where ``in_l2``; else by ``2 k`` or
    ``k`` in the l1 norm: a row whose vector is longer than ``limit`` is scaled down to it.
    """

    # Places among the encoded columns, and the encoded values that rows are scaled down around.
    columns: tuple[int, ...]
    middles: tuple[float, ...]
    # The norm that is counted as one `LOSS_UNITS`, in squared encoded units.
    limit: float
    in_l2: bool

    def __post_init__(self) -> None:
        if not SMALLEST_LIMIT <= self.limit <= LARGEST_LIMIT:
            raise NumericError("The limit of what rows lose is not a number of a usual size.")

    def of_rows(
        self, values: FloatMatrix, divisors: FloatMatrix, weights: FloatMatrix | None = None
    ) -> FloatMatrix:
        """What (n, k) encoded rows add, (k, n), that are divided by (n,) divisors of at least one.

        Whole numbers. Weights, (n,), are between 0 and 1; None: all are 1.
        """
        # Every step is one correctly rounded operation on a row's own numbers, in a fixed order.
        norms, parts = np.zeros(len(values)), []
        with np.errstate(over="ignore"):
            taken = 1.0 - 1.0 / (divisors * divisors)
            for column, middle in zip(values.T, self.middles, strict=True):
                distances = column - middle
                part = np.minimum(distances * distances * taken, _MOST * self.limit)
                part = part if weights is None else part * weights
                parts.append(part)
                norms += part * part if self.in_l2 else part
        norms = np.maximum(np.sqrt(norms) if self.in_l2 else norms, self.limit)
        # A hair less than the unit: rounding cannot make a row longer, and whole numbers are less.
        factors = (LOSS_UNITS * (1 - 2.0**-30)) / norms
        return np.floor(np.array(parts) * factors)


class Losses:
    """Sums that answer a `LossQuestion`, (g, k); several threads may :meth:`add` at a time."""

    def __init__(self, question: LossQuestion, n_groups: int = 1) -> None:
        self.question = question
        self.sums = np.zeros((n_groups, len(question.columns)), dtype=np.int64)
        self._lock = Lock()

    def __repr__(self) -> str:
        return "Losses(<sensitive>)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Losses):
            return NotImplemented
        return self.question == other.question and np.array_equal(self.sums, other.sums)

    def add(
        self,
        values: FloatMatrix,
        divisors: FloatMatrix,
        rows: NDArray[np.intp],
        weights: FloatMatrix | None = None,
        groups: NDArray[np.intp] | None = None,
    ) -> None:
        """Add ``rows`` of a block that are scaled down; weights and groups are the block's."""
        added = self.question.of_rows(values, divisors, None if weights is None else weights[rows])
        codes = np.zeros(len(rows), dtype=np.intp) if groups is None else groups[rows]
        # Exact in float64: a block has fewer than 2**32 rows, which add 2**20 at most.
        n_groups = len(self.sums)
        sums = [np.bincount(codes, weights=each, minlength=n_groups) for each in added]
        self._plus(np.array(sums).T.astype(np.int64))

    def merge(self, other: "Losses") -> None:
        """Add the sums of other rows."""
        if self.question != other.question or self.sums.shape != other.sums.shape:
            raise DataError("These sums answer different questions.")
        self._plus(other.sums)

    def _plus(self, sums: NDArray[np.int64]) -> None:
        with self._lock:
            self.sums = self.sums + sums
            if self.sums.size and int(self.sums.max()) > _LARGEST:
                raise NumericError("There are more rows than sums can hold.")

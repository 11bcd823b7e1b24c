"""From the coordinates in which noise was added back to encoded rows.

Contract: public numbers only.  Without a linear map the two are the same.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.linalg import block_diag

from dpcov.published.file.statistics import NoisyStatistics
from dpcov.published.linalg.symmetric import Array, Places, symmetrize

# Of an inverse matrix, relative to its entries.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Frame:
    """Encoded rows are ``back``, (d, d), times the rows that noise was added to.

    It is the identity unless rows were mapped: then it ``is_mapped``.
    """

    back: Array
    is_mapped: bool

    @classmethod
    def of(cls, statistics: NoisyStatistics, n_columns: int) -> Self:
        """That of published statistics of so many encoded columns."""
        if statistics.linear_exponent is None:
            return cls(np.eye(n_columns), is_mapped=False)
        features = np.ldexp(
            statistics.arrays["linear"].astype(np.float64), statistics.linear_exponent
        )
        p, d = features.shape
        back = np.linalg.inv(np.vstack([np.eye(d - p, d), features]))
        return cls(back, is_mapped=True)

    def on(self, places: Places) -> Self:
        """That of the encoded columns at ``places`` alone, which no others are mixed with."""
        return replace(self, back=self.back[np.ix_(places, places)])

    def of_few(self, places: Places) -> tuple[Self, Array]:
        """That of the features at ``places``, (q,), alone, and the directions that they lie in.

        The directions are an orthonormal basis, (d, q + 1), the intercept first; the frame leads
        from these coordinates to the features.
        """
        rows, back = self.back[1 + places], np.eye(1 + len(places))
        directions, upper = np.linalg.qr(rows[:, 1:].T)
        back[1:, 0], back[1:, 1:] = rows[:, 0], upper.T
        return replace(self, back=back, is_mapped=True), block_diag(1.0, directions)

    def moment(self, matrix: Array, intercept: float | None) -> Array:
        """A second moment, (d, d), of encoded rows; ``intercept`` is its public first entry."""
        if intercept is not None:
            matrix = matrix.copy()
            matrix[0, 0] = intercept
        return self._moved(matrix, self.back)

    def mean(self, mean: Array) -> Array:
        """Means, (p,), of encoded features beside an intercept."""
        return np.asarray(self.back[1:, 0] + self.back[1:, 1:] @ mean)

    def covariance(self, matrix: Array) -> Array:
        """A covariance, (p, p), of encoded features beside an intercept."""
        return self._moved(matrix, self.back[1:, 1:])

    def _moved(self, matrix: Array, back: Array) -> Array:
        return symmetrize(back @ matrix @ back.T) if self.is_mapped else matrix

    def around(self, places: Places) -> Array | None:
        """What encoded features at ``places`` were pulled to, in order; None where they are mixed.

        Alone they are what noise was added to, but for their units and centers.
        """
        rows = self.back[places + 1]
        features, own = rows[:, 1:], rows[np.arange(len(places)), places + 1]
        of_others = np.abs(features).sum(axis=1) - np.abs(own)
        return rows[:, 0] if (of_others <= _ROUNDING * np.abs(own)).all() else None

    def reach(self, norm_bound: float) -> Array:
        """Encoded distances, (p,), of rows of this length that are long in one feature alone."""
        length = np.sqrt(max(norm_bound**2 - 1.0, 0.0))
        return np.asarray(length / np.linalg.norm(np.linalg.inv(self.back)[1:, 1:], axis=0))

    def noise_gain(self, intercept_is_public: bool) -> float:
        """Mean squared norm of isotropic noise in encoded units, relative to that where added."""
        d = len(self.back)
        known = 2 * float(self.back[:, 0] @ self.back[:, 0]) ** 2 if intercept_is_public else 0.0
        return (mapped_squares(self.back) - known) / (d * (d + 1) - 2 * intercept_is_public)


def mapped_squares(linear: Array) -> float:
    """E ‖F N F'‖² of symmetric noise N whose variance is 1 off the diagonal and 2 on it."""
    metric = linear @ linear.T
    return float(np.trace(metric)) ** 2 + float(np.sum(metric**2))

"""What is random in the moments of a release: its noise, and what scaling rows down took.

Both are in encoded units, and symmetric.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from dpcov.analysis.intervals.shapes import of_pair, symmetric
from dpcov.published.linalg.symmetric import Array, Places


@dataclass(frozen=True, kw_only=True, eq=False)
class Noise:
    """Independent noise W = B N B' on the moments."""

    # Variance v of entries of N off the diagonal, which are independent.
    off_diagonal: float
    # Variances of those on the diagonal, (d,), uncorrelated with the other entries.
    diagonal: Array
    # Covariance of any two of them from this place on; those before have none.
    between: float = 0.0
    start: int = 0
    # The map B, (d, d): the identity unless rows were mapped before noise was added.
    back: Array

    @cached_property
    def _gram(self) -> Array:
        return self.back @ self.back.T

    def mapped(self, matrices: Array) -> Array:
        """What matrices (..., d, d) like N make of the moments."""
        return np.asarray(self.back @ matrices @ self.back.T)

    @cached_property
    def _own(self) -> tuple[Places, Array]:
        """Which diagonal entries are not those of isotropic noise, and their variance beyond.

        What all have in common, ``between``, is not in it.
        """
        beyond = self.diagonal - 2 * self.off_diagonal
        beyond[self.start :] -= self.between
        rounding = 1e-12 * np.abs(self.diagonal).max(initial=2 * self.off_diagonal)
        places = np.flatnonzero(np.abs(beyond) > rounding)
        return places, beyond[places]

    def form(self, a: Array, taken: Array | None) -> Array:
        """Matrix K with Var(a'Wu) = u'Ku for every u.

        ``taken``, (d, d), is in N with a factor of variance 1, too.
        """
        a = self.back.T @ a
        along, (places, beyond) = self.back @ a, self._own
        squares = self.back[:, places] * a[places]
        found = self.off_diagonal * (float(a @ a) * self._gram + np.outer(along, along))
        found += (squares * beyond) @ squares.T
        if self.between:
            shared = self.back[:, self.start :] @ a[self.start :]
            found += self.between * np.outer(shared, shared)
        if taken is not None:
            moved = self.back @ (taken @ a)
            found += np.outer(moved, moved)
        return np.asarray(found)

    def of_pairs(self, rows: Array, taken: Array | None) -> Callable[[int], Array]:
        """As in a law of moments; ``taken``, (d, d), is in W with a factor of variance 1, too."""
        places, beyond = self._own
        seen = rows @ self.back
        shared, own = seen[:, self.start :], seen[:, places]
        # Weights of squares of products, and the halves that these are of.
        halves = [(2 * self.off_diagonal, seen, seen), (self.between, shared, shared)]
        halves += [] if taken is None else [(1.0, rows @ taken, rows)]
        factors = [(weight, a, b, np.einsum("ij,ij->i", a, b)) for weight, a, b in halves]
        own_squares, lengths = np.square(own), factors[0][3]
        cubes, fourth = beyond * own_squares * own, own_squares**2 @ beyond

        def covariances(i: int) -> Array:
            # Sums over diagonal entries of variances of their own.
            even = own_squares @ (beyond * own_squares[i])
            found = symmetric(even[i], own @ cubes[i], even, even, cubes @ own[i], fourth)
            for weight, a, b, squares in factors:
                three = of_pair(squares[i], b @ a[i], squares)
                found += weight * three[:, None] * three
            # Squares of W_ii and W_jj covary by g_ij², and products W_ij by g_ii g_jj + g_ij².
            apart = self.off_diagonal * (lengths[i] * lengths - (seen @ seen[i]) ** 2)
            found[1, 1] += apart
            found[[0, 2], [2, 0]] -= 2 * apart
            return found

        return covariances

    @cached_property
    def _diagonal_root(self) -> Array:
        covariance = np.diag(self.diagonal)
        covariance[self.start :, self.start :] += self.between * (
            1 - np.eye(len(self.diagonal) - self.start)
        )
        values, vectors = np.linalg.eigh(covariance)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    def draw(self, draws: int, rng: np.random.Generator, rows: Array | None) -> Array:
        """F W F' for Gaussian W of this covariance and ``rows`` F, (q, d); None: W itself."""
        if rows is not None:
            return self._seen_by(rows).draw(draws, rng, None)
        d = len(self.diagonal)
        found = np.empty((draws, len(self.back), len(self.back)))
        for each in found:
            normals = rng.standard_normal((d, d))
            noise = sqrt(self.off_diagonal) * np.triu(normals, 1)
            noise += noise.T
            np.fill_diagonal(noise, self._diagonal_root @ np.diagonal(normals))
            each[:] = self.back @ noise @ self.back.T
        return found

    def _seen_by(self, rows: Array) -> "Noise":
        """That of F W F' for ``rows`` F, (q, d), in as few coordinates as it needs."""
        back = rows @ self.back
        own = np.union1d(np.arange(self.start), self._own[0])
        others = np.delete(np.arange(len(self.diagonal)), own)
        if len(own) + len(rows) >= len(self.diagonal):
            return replace(self, back=back)
        # Isotropic noise is the same in any directions: of F = L Q there it is that along Q's rows.
        lower = np.asarray(np.linalg.qr(back[:, others].T, mode="r")).T
        diagonal = np.full(len(rows), 2 * self.off_diagonal + self.between)
        return replace(
            self,
            diagonal=np.append(self.diagonal[own], diagonal),
            back=np.hstack([back[:, own], lower]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledDown:
    """What scaling rows down took of the moments, and what rows are like since."""

    # Part of all squared lengths, 0 if no row was scaled down; and what v counts for it, beside
    # the noise.
    lost: float = 0.0
    bias: float = 0.0
    # What else it may have taken beyond a common factor, (d, d); None: as much as of normal rows.
    unsure: Array | None = None
    # Length of the encoded features of a row, or of the mapped ones, that none exceeds.
    longest: float = inf
    # What a row loses at most of its squared values, as far as sums of losses count it.
    most_lost: float = 0.0
    # Lowest and largest encoded values that rows have since, (d, 2).
    ends: Array
    # What is taken from means, and what they are divided by then, because rows are shorter, (2, d);
    # None: nothing.
    shorter: Array | None = None
    # Deviations of the variances' units, over those units, where the release says what was taken of
    # every column, (d,); None: it does not.
    stretch_stds: Array | None = None
    # Parts that columns lost of their variances, (d,).
    lost_parts: Array
    # Errors of means of features, over deviations, (p,), by how many rows have a value of each.
    mean_errors: Callable[[Array], Array]
    # Of which columns it is not told how much they lost, (d,).
    untold: NDArray[np.bool_]

    @property
    def factor_std(self) -> float:
        """Deviation of a common factor of all that was scaled down, relative to one."""
        part = self.lost / (1 - self.lost)
        if self.stretch_stds is not None:
            # Columns have it back, as far as is known.
            known = self.stretch_stds[self.stretch_stds > 0]
            part = float(np.sqrt(np.mean(known**2))) if len(known) else part
        return part

    @property
    def factor_stds(self) -> Array:
        """Those of the factors of columns, (d,): the common one where the release tells of none."""
        if self.stretch_stds is None:
            return np.full(len(self.lost_parts), self.factor_std)
        return self.stretch_stds

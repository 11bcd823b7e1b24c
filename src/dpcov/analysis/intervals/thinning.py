"""Variances of products by sampling where columns are present in different rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from dpcov.published.linalg.symmetric import Array


@dataclass(frozen=True, eq=False)
class Thinning:
    """Normal rows, of which pairs of columns are present in different ones (docs/missing.md)."""

    # Positive semidefinite second moment of rows, (d, d), the intercept's first.
    moment: Array
    # Parts of the rows in which pairs of columns are present, (d, d).
    present: Array

    @cached_property
    def _parts(self) -> tuple[Array, Array, Array]:
        """Covariance of rows, what different rows add to it, (d, d), and 1/N - 1 of columns."""
        means, own = self.moment[0], np.diagonal(self.present)
        spread = self.moment - np.outer(means, means) / self.moment[0, 0]
        return spread, spread * (self.present / np.outer(own, own) - 1.0), 1 / own - 1.0

    def forms(self, rows: Array) -> Callable[[Array], Array]:
        """The map from a, (d,), to K, (q, q): u'Ku is n times the variance of a'MF'u by sampling.

        ``rows`` are F, (q, d), and a'MF'u is about zero.
        """
        (spread, more, rarer), L = self._parts, rows.T
        both = self.moment + more
        whole = rows @ both @ L
        # Columns that every row has add nothing else, and few of the others are in a combination.
        thin = np.flatnonzero(rarer)
        rarer, of_thin = rarer[thin], spread[thin]
        L, variances = L[thin], np.diagonal(spread)[thin]
        seen, apart, few = of_thin @ rows.T, of_thin[:, thin] ** 2, csr_array(L)
        np.fill_diagonal(apart, 0.0)
        own_more = rarer * variances

        def form(a: Array) -> Array:
            along, own = rows @ (more @ a), a[thin]
            # Pairs of which one column is in both are over more of the same rows.
            shared = own[:, None] * seen + (of_thin @ a - 2 * own * variances)[:, None] * L
            # A square is over the rows of its column, and no product of two columns.
            crossed = apart * np.outer(rarer * own, rarer * own)
            alone = rarer * (apart @ (rarer * own**2))
            alone -= 2 * own_more * own**2 * (variances + own_more)
            np.fill_diagonal(crossed, alone)
            found = float(a @ both @ a) * whole + np.outer(along, along)
            found += shared.T @ (rarer[:, None] * shared)
            return np.asarray(found + few.T @ (few.T @ crossed).T)

        return form

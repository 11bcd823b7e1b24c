"""Variances of the entries of nuclear-norm noise, for intervals around a released matrix.

Contract: within 1 % of the exact values up to 200 features (tests/noise/exact_means.py computes those);
deterministic. Knows nothing of rows, budgets or drawing noise.

Notes
-----
A symmetric law that no rotation changes has the variance v off the diagonal and u on it, and diagonal entries have the
covariance u - 2v.  They follow from E ||W||_F**2 = d u + d (d - 1) v and E (tr W)**2 = d u + d (d - 1) (u - 2v).
"""

import math
from typing import Literal

from dpcov.published.estimate import nuclear_law as ullman

SymmetrizedShape = Literal["square", "nuclear", "gauge", "wishart"]
"""Laws of docs/nuclear-noise.md; ``square`` is (Z + Z')/2 for Z on all matrices."""

_GAUGE = {
    1: (0.5, 0.5),
    2: (3.882, 1.142),
    3: (14.0, 1.452),
    4: (33.45, 1.694),
    5: (64.69, 1.749),
    6: (110.2, 1.825),
    7: (172.4, 1.86),
    8: (253.7, 1.894),
    9: (356.7, 1.911),
    10: (483.7, 1.938),
}
"""E ||W||_F**2 and E (tr W)**2 of the gauge law by quadrature."""


def entry_variances(shape: SymmetrizedShape, dimension: int) -> tuple[float, float]:
    """Variances of diagonal and off-diagonal entries of noise of scale 1.

    Examples
    --------
    >>> entry_variances("wishart", 3)
    (4.0, 2.0)
    """
    d = dimension
    if shape == "wishart":
        return d + 1.0, (d + 1) / 2
    if shape == "square":
        # Entries of Z are uncorrelated, each of variance E ||Z||_F**2 / d**2.
        each = _square_mean_square(d) / d**2
        return each, each / 2
    squared, trace = (
        _gauge(d) if shape == "gauge" else (ullman.mean_square(d), ullman.trace_variance(d))
    )
    if d == 1:
        return squared, squared / 2
    off_diagonal = (squared - trace / d) / ((d - 1) * (d + 2))
    return squared / d - (d - 1) * off_diagonal, off_diagonal


def _square_mean_square(dimension: int) -> float:
    """E ||Z||_F**2 of the law on all matrices, exactly 2 and 15 for d = 1 and 2: Ullman's rate, the rest a fit."""
    return math.pi**2 / 6 * dimension**2 * (dimension + 0.3635 - 0.22 / (dimension + 0.5))


def _gauge(dimension: int) -> tuple[float, float]:
    """E ||W||_F**2 and E (tr W)**2; for large d the trace's law is Laplace's and the rest that of ``nuclear``."""
    if dimension in _GAUGE:
        return _GAUGE[dimension]
    return ullman.mean_square(dimension) * (1.0 - 6.0 / (dimension + 0.7) ** 2), 2.0 - 8.0 / (
        dimension + 1.2
    ) ** 2

"""Variances of the entries of nuclear-norm noise, for intervals around a released matrix.

Contract: deterministic, within 1 % of the exact values up to 200 features
(tests/noise/test_exact_means.py computes those; derived in docs/nuclear-noise.md).
"""

import math
from typing import Literal

from dpcov.published.estimate import nuclear_law as ullman

SymmetrizedShape = Literal["square", "nuclear", "gauge", "wishart"]
"""Laws of docs/nuclear-noise.md; ``square`` is (Z + Z')/2 for Z on all matrices."""

# E ||W||_F**2 and E (tr W)**2 of the gauge law for d = 1, ..., 10, by quadrature.
_GAUGE_SQUARES = (0.5, 3.882, 14.0, 33.45, 64.69, 110.2, 172.4, 253.7, 356.7, 483.7)
_GAUGE_TRACES = (0.5, 1.142, 1.452, 1.694, 1.749, 1.825, 1.86, 1.894, 1.911, 1.938)


def entry_variances(shape: SymmetrizedShape, dimension: int) -> tuple[float, float]:
    """Variances of diagonal and off-diagonal entries of noise of scale 1.

    >>> entry_variances("wishart", 3)
    (4.0, 2.0)
    """
    d = dimension
    if shape == "wishart":
        return d + 1.0, (d + 1) / 2
    if shape == "square":
        # Ullman's rate, the rest a fit; E ||Z||_F**2 is 2 and 15 for d = 1 and 2.  Entries of Z
        # are uncorrelated and share it equally.
        square = math.pi**2 / 6 * d**2 * (d + 0.3635 - 0.22 / (d + 0.5))
        return square / d**2, square / d**2 / 2
    square, trace = ullman.mean_square(d), ullman.trace_variance(d)
    if shape == "gauge":
        square, trace = _gauge(d)
    if d == 1:
        return square, square / 2
    off_diagonal = (square - trace / d) / ((d - 1) * (d + 2))
    return square / d - (d - 1) * off_diagonal, off_diagonal


def _gauge(d: int) -> tuple[float, float]:
    if d <= len(_GAUGE_SQUARES):
        return _GAUGE_SQUARES[d - 1], _GAUGE_TRACES[d - 1]
    # For large d the trace's law is Laplace's and the rest that of the nuclear norm.
    square = ullman.mean_square(d) * (1.0 - 6.0 / (d + 0.7) ** 2)
    return square, 2.0 - 8.0 / (d + 1.2) ** 2

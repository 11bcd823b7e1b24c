"""Symmetric nuclear-norm noise as an estimator sees it: its size and its spectrum.

Contract: deterministic; constants of the law with density proportional to exp(-||W||_*) on
symmetric (d, d) matrices, within 1 % (the trace's within 3 %) of simulated ones; variances of
entries within 1 % of the exact ones up to 200 features (docs/measured/nuclear-noise.md).  For large
d its spectrum follows Ullman's law on [-e, e], e = pi d / 2 (docs/pure.md).
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcov.published.linalg.symmetric import Array

# Imaginary part at which the transform is taken, in units of e d**(-1/3).
SMOOTHING = 0.2
# Factor on the scale in excess(): smoothing blurs the edge, and mistaking noise for signal there
# costs more than the reverse.
CAUTION = 1.15
# Bound on |Im e g|: the density of Ullman's law is infinite at 0, that of d points is not.
LARGEST_DENSITY = 4.0

SymmetrizedShape = Literal["square", "nuclear", "gauge", "wishart"]
"""Laws of docs/nuclear-noise.md; ``square`` is (Z + Z')/2 for Z on all matrices."""

# E ||W||_F**2 and E (tr W)**2 of the gauge law for d = 1, ..., 10: exactly up to 6, by quadrature.
_GAUGE_SQUARES = (0.5, 3.893, 14.0, 33.45, 64.69, 110.2, 172.4, 253.7, 356.7, 483.7)
_GAUGE_TRACES = (0.5, 1.143, 1.452, 1.648, 1.749, 1.818, 1.86, 1.894, 1.911, 1.938)


def mean_square(dimension: int) -> float:
    """E ||W||_F**2; exactly 2, 25/3 and 150/7 for d = 1, 2 and 3."""
    if dimension == 1:
        return 2.0
    return float(np.pi**2 / 24 * (dimension + 1) ** 2 * (dimension + 0.25))


def trace_variance(dimension: int) -> float:
    """E (tr W)**2."""
    # For large d half the squared edge, as for every law with a spectrum on one interval.
    return 2.0 if dimension == 1 else float(np.pi**2 / 8 * (dimension + 1 / 3) ** 2)


def off_diagonal_variance(dimension: int) -> float:
    """Return v: the noise has variance 2v along every unit direction orthogonal to I."""
    return entry_variances("nuclear", dimension)[1]


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
    square, trace = mean_square(d), trace_variance(d)
    if shape == "gauge" and d <= len(_GAUGE_SQUARES):
        square, trace = _GAUGE_SQUARES[d - 1], _GAUGE_TRACES[d - 1]
    elif shape == "gauge":
        # For large d the trace's law is Laplace's and the rest that of the nuclear norm.
        square, trace = square * (1.0 - 6.0 / (d + 0.7) ** 2), 2.0 - 8.0 / (d + 1.2) ** 2
    if d == 1:
        return square, square / 2
    off_diagonal = (square - trace / d) / ((d - 1) * (d + 2))
    return square / d - (d - 1) * off_diagonal, off_diagonal


def laplace_part(dimension: int) -> float:
    """How far quantiles of an entry's noise lie from normal ones toward those of a Laplace law.

    Exact for d = 1; at most 4 % of the way too short, and mostly too long, up to d = 30 (simulated,
    levels of 0.9 to 0.999).

    >>> laplace_part(1), laplace_part(16)
    (1.0, 0.25)
    """
    return 5 / (dimension + 4)


def edge(dimension: int) -> float:
    """Largest eigenvalue of W for large d."""
    return 0.5 * np.pi * dimension


def largest_plausible(dimension: int) -> float:
    """Exceeded by the largest eigenvalue of W with probability of about 0.0002 (simulated)."""
    return float(edge(dimension) + 5.0 * np.cbrt(dimension))


def excess(values: Array, scale: float) -> Array:
    """What the oracle takes off noisy eigenvalues, (d,), beyond what it does for Gaussian noise."""
    if values.size == 1:
        return np.zeros(1)
    # lambda - Im(g R(g))/Im g (Bun, Allez, Bouchaud, Potters 2016) with R(g) = e/sin(e g) - 1/g;
    # the series' first term is that of Gaussian noise, which Stein's identity treats unsmoothed.
    end = CAUTION * scale * edge(values.size)
    x = end * _transform(values, SMOOTHING * end * values.size ** (-1 / 3))
    smallest = np.finfo(np.float64).eps
    x = np.clip(x.real, -np.pi / 2, np.pi / 2) + 1j * np.clip(x.imag, -LARGEST_DENSITY, -smallest)
    # Imaginary parts of x/sin x - x**2/6, by the series where they would cancel.
    square, small = x * x, np.abs(x) < 0.1
    series = square * square * (7 / 360 + square * (31 / 15120 + square * (127 / 604800)))
    rest = np.where(small, series, x / np.sin(x) - square / 6.0)
    return np.asarray(rest.imag / x.imag * end)


def _transform(values: Array, height: float) -> NDArray[np.complex128]:
    # Mean of 1/(lambda_i + i height - lambda_j) over the others.
    gaps = values[:, np.newaxis] + 1j * height - values
    return np.asarray(((1.0 / gaps).sum(axis=1) - 1.0 / (1j * height)) / values.size)

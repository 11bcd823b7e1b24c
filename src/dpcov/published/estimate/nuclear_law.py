"""Symmetric nuclear-norm noise as an estimator sees it: its size, and what its spectrum does to a risk estimate.

Contract: constants of the law with density proportional to exp(-||W||_*) on symmetric (d, d) matrices, within
1 % (the trace's within 3 %) of simulated ones; deterministic.  Knows nothing of rows, budgets or drawing
noise.

Notes
-----
For large d the spectrum follows Ullman's law on [-e, e], e = pi d / 2, a mixture of arcsine laws.  Its Stieltjes
transform is g(z) = arcsin(e/z)/e, hence its R-transform R(g) = e/sin(e g) - 1/g.  With S and W free and g the
transform of the noisy spectrum at its own eigenvalue, the best rotation-invariant estimate is (Bun, Allez, Bouchaud,
Potters 2016)

    xi = lambda - Im(g R(g)) / Im g,        g R(g) = e g/sin(e g) - 1 = (e g)**2/6 + 7 (e g)**4/360 + ...

The first term of the series is that of Gaussian noise of the same variance, which Stein's identity treats without
smoothing.  :func:`excess` is the rest, from a transform smoothed over a share of the spectrum.
"""

import numpy as np

from dpcov.published.linalg.symmetric import Array

SMOOTHING = 0.2
"""Imaginary part at which the transform is taken, in units of e d**(-1/3)."""

CAUTION = 1.15
"""Factor on the scale in :func:`excess`: smoothing blurs the edge, and mistaking noise there for signal costs more."""

LARGEST_DENSITY = 4.0
"""Bound on |Im e g|: the density of Ullman's law is infinite at 0, that of d points is not."""

BLOCK_ROWS = 256


def mean_square(dimension: int) -> float:
    """E ||W||_F**2; exactly 2, 25/3 and 150/7 for d = 1, 2 and 3."""
    if dimension == 1:
        return 2.0
    return float(np.pi**2 / 24 * (dimension + 1) ** 2 * (dimension + 0.25))


def trace_variance(dimension: int) -> float:
    """E (tr W)**2: for large d, half the squared edge, as for every law with a spectrum on one interval."""
    return 2.0 if dimension == 1 else float(np.pi**2 / 8 * (dimension + 1 / 3) ** 2)


def off_diagonal_variance(dimension: int) -> float:
    """Return v: the noise has variance 2v along every unit direction orthogonal to I."""
    d = dimension
    return 1.0 if d == 1 else (mean_square(d) - trace_variance(d) / d) / (d * (d + 1) - 2)


def edge(dimension: int) -> float:
    """Largest eigenvalue of W for large d."""
    return 0.5 * np.pi * dimension


def weakest_visible(dimension: int) -> float:
    """Eigenvalue of S below which, for large d, no eigenvector of S + W tells anything: 1/g(e)."""
    return 2.0 / np.pi * edge(dimension)


def largest_plausible(dimension: int) -> float:
    """Exceeded by the largest eigenvalue of W with a probability of about 0.0002, for every d (simulated)."""
    return float(edge(dimension) + 5.0 * np.cbrt(dimension))


def excess(values: Array, scale: float) -> Array:
    """Return what the oracle takes off each noisy eigenvalue beyond what it would for Gaussian noise.

    Parameters
    ----------
    values : (d,) float64
        Eigenvalues of S + ``scale`` W.
    scale : float
        Scale of the noise.
    """
    if values.size == 1:
        return np.zeros(1)
    end = CAUTION * scale * edge(values.size)
    x = end * _transform(values, SMOOTHING * end * values.size ** (-1 / 3))
    smallest = np.finfo(np.float64).eps
    x = np.clip(x.real, -np.pi / 2, np.pi / 2) + 1j * np.clip(x.imag, -LARGEST_DENSITY, -smallest)
    rest = _rest_of_series(x)
    return np.asarray(rest.imag / x.imag * end)


def _rest_of_series(x: np.ndarray[tuple[int], np.dtype[np.complex128]]) -> np.ndarray:
    """x/sin x - 1 - x**2/6, by its series where it would cancel."""
    square = x * x
    series = square * square * (7 / 360 + square * (31 / 15120 + square * (127 / 604800)))
    small = np.abs(x) < 0.1
    safe = np.where(small, 1.0, x)
    return np.where(small, series, safe / np.sin(safe) - 1.0 - safe * safe / 6.0)


def _transform(values: Array, height: float) -> np.ndarray[tuple[int], np.dtype[np.complex128]]:
    """Mean of 1/(lambda_i + i height - lambda_j) over the other eigenvalues, in memory of order d."""
    sums = np.empty(values.size, dtype=np.complex128)
    for start in range(0, values.size, BLOCK_ROWS):
        block = values[start : start + BLOCK_ROWS, np.newaxis]
        sums[start : start + len(block)] = (1.0 / (block + 1j * height - values)).sum(axis=1)
    return (sums - 1.0 / (1j * height)) / values.size

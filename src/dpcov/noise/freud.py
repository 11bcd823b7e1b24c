"""Tabulate orthonormal functions p_j(x) exp(-|x|) on the real line (Freud weight), on panels.

Contract: to rounding, the functions are orthonormal, and Gauss-Legendre quadrature on a panel
integrates every product of two of them.
"""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import legendre

from dpcov.noise.continuous import Floats

# Nodes per panel.
ORDER = 16
# Panel length in mean distances between zeros: 16 nodes then integrate products to rounding.
ZEROS_PER_PANEL = 1.5
# Beyond the zeros the functions vary like exp(-|x|), which 16 nodes resolve over this length.
LONGEST_PANEL = 4.0
# The recurrence grows by less than 1e60 over this many steps, so nothing overflows in between.
STEPS_PER_RESCALING = 16

NODES, WEIGHTS = legendre.leggauss(ORDER)
TO_LEGENDRE = np.linalg.inv(legendre.legvander(NODES, ORDER - 1)).astype(np.float64)
ANTIDERIVATIVES = legendre.legint(TO_LEGENDRE, lbnd=-1, axis=0).astype(np.float64)


def half_line_panels(count: int) -> Floats:
    """Return edges of panels from 0 to where the first ``count`` functions are below rounding."""
    edge = 0.5 * np.pi * count
    limit = edge * (1.0 + (30.0 / count) ** (2 / 3)) + 45.0
    edges = [0.0]
    while edges[-1] < limit:
        # Zeros have density arccosh(edge / x) count / (pi edge) (Ullman); 0.3 is in the first gap.
        zeros = count / (np.pi * edge) * np.arccosh(max(edge / (edges[-1] + 0.3), 1.0))
        edges.append(edges[-1] + ZEROS_PER_PANEL / max(zeros, ZEROS_PER_PANEL / LONGEST_PANEL))
    return np.array(edges)


def panel_nodes(edges: Floats) -> Floats:
    """Return the Gauss-Legendre nodes of every panel, one row per panel."""
    return edges[:-1, None] + np.diff(edges)[:, None] * (0.5 + 0.5 * NODES)


def recurrence(count: int) -> Floats:
    """Return b_0 = 0, b_1, ... of x p_j = b_{j+1} p_{j+1} + b_j p_{j-1} (Stieltjes' procedure)."""
    edges = half_line_panels(count)
    # Twice the half-line quadrature: the weight exp(-2|x|) is even, so no diagonal term arises.
    weights = np.outer(np.diff(edges), WEIGHTS).ravel()
    coefficients = np.zeros(count)

    def norm(degree: int, unnormalized: Floats) -> float:
        coefficients[degree] = np.sqrt(weights @ unnormalized**2)
        return float(coefficients[degree])

    _three_term(panel_nodes(edges).ravel(), count, norm)
    return coefficients


def orthonormal_functions(points: Floats, coefficients: Floats) -> Floats:
    """Return p_j(x) exp(-|x|), points in rows and degrees in columns."""
    return _three_term(points, len(coefficients), lambda degree, _: float(coefficients[degree]))


def interpolation(offsets: Floats) -> Floats:
    """Return weights q with q . f(NODES) = f(offset), offsets in [-1, 1], on a new last axis."""
    return np.asarray(legendre.legvander(offsets, ORDER - 1) @ TO_LEGENDRE)


def integrals_within(offsets: Floats) -> Floats:
    """Return weights q with q . f(NODES) = integral of f from -1 to the offset, a row each."""
    return np.asarray(legendre.legvander(offsets, ORDER) @ ANTIDERIVATIVES)


def _three_term(points: Floats, count: int, coefficient: Callable[[int, Floats], float]) -> Floats:
    result = np.empty((count, len(points)))
    # Mantissas run beside a logarithm: exp(-|x|) alone underflows before the products do.
    logarithm = -np.abs(points)
    previous, current, last = np.zeros_like(points), np.ones_like(points), 0.0
    result[0] = np.exp(logarithm)
    for degree in range(1, count):
        raw = points * current - last * previous
        last = coefficient(degree, raw * np.exp(logarithm))
        previous, current = current, raw / last
        if degree % STEPS_PER_RESCALING == 0:
            size = np.maximum(np.abs(previous), np.abs(current))
            previous, current, logarithm = previous / size, current / size, logarithm + np.log(size)
        result[degree] = current * np.exp(logarithm)
    return result.T

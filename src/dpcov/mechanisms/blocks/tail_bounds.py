"""Bound norms of noise vectors and matrices with a stated probability.

Contract: the norm exceeds the returned number with probability at most ``beta`` in (0, 1), in every
dimension d >= 1; the proofs are in ``blocks.md``.  Utility only: no guarantee depends on them.

``eta``, ``nu`` and ``omega`` are those of Dong, Liang, Yi (2022), Lemmas 6 and 7; as there,
log x = 1 for x <= e.
"""

import math

from dpcov.errors import UsageError

# Of the bounds that guide a mechanism's choices.
FAILURE_PROBABILITY = 0.05


def eta(dimension: int, beta: float) -> float:
    """Bound the l2 norm of a vector of d standard normal entries."""
    log_inverse = _log_inverse(dimension, beta)
    return math.sqrt(dimension + 2.0 * math.sqrt(dimension * log_inverse) + 2.0 * log_inverse)


def nu(dimension: int, beta: float) -> float:
    """Bound the spectral norm of a symmetric matrix, standard normal on and above the diagonal."""
    log_inverse, log_d = _log_inverse(dimension, beta), max(1.0, math.log(dimension))
    excess = math.cbrt(log_d / dimension)
    middle = 6.0 * (1.0 + excess) * math.sqrt(log_d / math.log1p(excess))
    edge = 2.0 * math.sqrt(dimension) + 2.0 * math.pow(dimension, 1.0 / 6.0) * math.cbrt(log_d)
    return edge + middle + 2.0 * math.sqrt(2.0 * log_inverse)


def omega(dimension: int, beta: float) -> float:
    """Bound the Frobenius norm of a symmetric matrix, standard normal on and above the diagonal."""
    log_twice = _log_inverse(dimension, beta) + math.log(2.0)
    spread = 2.0 * math.sqrt(dimension * log_twice) * (1.0 + math.sqrt(2.0 * (dimension - 1)))
    return math.sqrt(dimension**2 + spread + 6.0 * log_twice)


def isotropic_spectral(dimension: int, beta: float) -> float:
    """Bound the spectral norm of isotropic noise: variance 1 on the diagonal, 1/2 off it."""
    log_twice = _log_inverse(dimension, beta) + math.log(2.0)
    return math.sqrt(2.0 * dimension) + math.sqrt(2.0 * log_twice)


def isotropic_frobenius(dimension: int, beta: float) -> float:
    """Bound the Frobenius norm of isotropic noise: of d (d + 1) / 2 standard normal numbers."""
    return eta(dimension * (dimension + 1) // 2, beta)


def laplace_vector(dimension: int, beta: float) -> float:
    """Bound the l2 norm of a vector of Laplace entries of scale 1."""
    return _laplace_norm({1: dimension}, beta)


def laplace_frobenius(dimension: int, beta: float) -> float:
    """Bound the Frobenius norm of a symmetric matrix with Laplace entries of scale 1."""
    return _laplace_norm({1: dimension, 2: dimension * (dimension - 1) // 2}, beta)


def laplace_spectral(dimension: int, beta: float) -> float:
    """Bound the spectral norm of a symmetric matrix with Laplace entries of scale 1."""
    entries = dimension * (dimension + 1) // 2
    log_inverse, log_d = _log_inverse(dimension, beta), max(1.0, math.log(dimension))
    log_row = log_inverse + math.log(4.0 * dimension)
    largest_std = math.sqrt(2.0 * (log_inverse + math.log(4.0 * entries)))
    row_norm = math.sqrt(2.0 * (dimension + math.sqrt(2.0 * dimension * log_row) + log_row))
    by_largest = 2.0 * largest_std * math.sqrt(dimension)
    # Half is the largest excess that the theorem allows, and nearly the best at practical sizes.
    by_rows = 1.5 * (2.0 * row_norm + 6.0 * largest_std * math.sqrt(log_d / math.log(1.5)))
    return min(by_largest, by_rows) + 2.0 * largest_std * math.sqrt(log_inverse + math.log(4.0))


def wishart_spectral(dimension: int, beta: float) -> float:
    """Bound the spectral norm of the ``wishart`` nuclear-norm noise of scale 1."""
    log_twice = _log_inverse(dimension, beta) + math.log(2.0)
    edge = math.sqrt(dimension) + math.sqrt(dimension + 1.0) + math.sqrt(2.0 * log_twice)
    return 0.5 * edge**2


def wishart_frobenius(dimension: int, beta: float) -> float:
    """Bound the Frobenius norm of the ``wishart`` nuclear-norm noise of scale 1."""
    by_spectrum = math.sqrt(dimension) * wishart_spectral(dimension, beta)
    by_mean_square = math.sqrt(dimension / (2.0 * beta)) * (dimension + 1.0)
    return min(by_spectrum, by_mean_square)


def _laplace_norm(entries_by_weight: dict[int, int], beta: float) -> float:
    # Bound sqrt(sum of w x**2), x of the Laplace law.
    # Truncation at ``cut``, then Bernstein's inequality.
    count = sum(entries_by_weight.values())
    log_twice = _log_inverse(count, beta) + math.log(2.0)
    cut = log_twice + math.log(count)
    mean = 2.0 * sum(weight * entries for weight, entries in entries_by_weight.items())
    variance = 24.0 * sum(weight**2 * entries for weight, entries in entries_by_weight.items())
    largest = max(entries_by_weight) * cut**2
    return math.sqrt(mean + math.sqrt(2.0 * variance * log_twice) + largest * log_twice / 3.0)


def _log_inverse(dimension: int, beta: float) -> float:
    if dimension < 1 or not 0.0 < beta < 1.0:
        raise UsageError("A tail bound needs a dimension d >= 1 and a probability in (0, 1).")
    return -math.log(beta)

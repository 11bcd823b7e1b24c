"""Solve the graphical lasso: the sparse inverse of a correlation matrix.

It minimizes f(Θ) = tr(SΘ) - log det Θ + a Σ_{i≠j} |Θ_ij|.  Block descent starts outside of what the
penalty allows where correlations are strong and a is small, and then fails or stops elsewhere.  The
alternating directions of Boyd et al. (2011, section 6.5) converge from any start.
"""

import numpy as np

from dpcov.errors import NumericError
from dpcov.published.linalg.symmetric import Array, compose, eigenvalues, eigh, symmetrize

# Of the sum of all |S_ij Θ_ij|, whose rounding f has.
_GAP = 1e-12
_STEPS, _BETWEEN_CHECKS = 10_000, 10
# A step goes this far beyond its end, which needs fewer of them (their section 3.4.3).
_RELAXED = 1.6
_ADVICE = "Use a larger alpha, or fewer features."


def sparse_inverse(correlation: Array, alpha: float) -> tuple[Array, Array]:
    """Return the covariance and its sparse inverse, (p, p) each, for a penalty on correlations.

    The covariance differs from ``correlation`` by at most ``alpha``, and not on the diagonal.
    Raises NumericError where there is no such inverse.
    """
    S = symmetrize(correlation)
    if not alpha and _log_det(S) == -np.inf:
        raise NumericError(f"The matrix has no inverse. {_ADVICE}")
    identity = np.eye(len(S))
    penalty = alpha * (1 - identity)
    sparse, dual, rho = identity, np.zeros_like(S), 1.0
    for step in range(_STEPS):
        values, vectors = eigh(rho * (sparse - dual) - S)
        dense = compose((values + np.sqrt(values**2 + 4 * rho)) / (2 * rho), vectors)
        moved = _RELAXED * dense + (1 - _RELAXED) * sparse + dual
        before, sparse = sparse, np.sign(moved) * np.maximum(np.abs(moved) - penalty / rho, 0.0)
        dual = moved - sparse
        if step % _BETWEEN_CHECKS:
            continue
        # In the box around S by construction, and so a bound on every f.
        covariance = S + rho * dual
        if _gap(S, penalty, sparse, covariance) < _GAP * np.sum(np.abs(S * sparse)):
            return covariance, sparse
        # Neither of the two errors is left far behind the other (their section 3.4.1).
        factor = _balance(dense - sparse, sparse, sparse - before, dual)
        rho, dual = rho * factor, dual / factor
    raise NumericError(f"The graphical lasso did not converge. {_ADVICE}")


def _gap(S: Array, penalty: Array, precision: Array, covariance: Array) -> float:
    """How far f is from its least value at most: f less the dual, log det W + p."""
    value = float(np.sum(S * precision) + np.sum(penalty * np.abs(precision))) - len(S)
    return value - _log_det(precision) - _log_det(covariance)


def _log_det(matrix: Array) -> float:
    values = eigenvalues(matrix)
    # Rounding makes a singular matrix seem definite.
    definite = values[0] > len(values) * np.finfo(np.float64).eps * values[-1]
    return float(np.linalg.slogdet(matrix)[1]) if definite else -np.inf


def _balance(apart: Array, sparse: Array, moved: Array, dual: Array) -> float:
    primal = np.linalg.norm(apart) * np.linalg.norm(dual)
    other = np.linalg.norm(moved) * np.linalg.norm(sparse)
    return 2.0 if primal > 5 * other else 0.5 if other > 5 * primal else 1.0

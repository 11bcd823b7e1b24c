"""Ridge regression of the last column on the others, from a second moment matrix (Amin et al.,
section 1.1).

The objective is (1/n) sum (w'a - y)**2 / 2 + alpha ||w||**2, so w = (A + 2 alpha I)**-1 b with A =
E[a a'], b = E[a y].
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def ridge_weights(second_moment: Array, alpha: float) -> Array:
    """Minimizer of the objective, shape (d - 1,)."""
    features = second_moment[:-1, :-1]
    weights: Array = np.linalg.solve(
        features + 2 * alpha * np.eye(len(features)), second_moment[:-1, -1]
    )
    return weights


def excess_risk(weights: Array, second_moment: Array, alpha: float) -> float:
    """How much the objective exceeds its minimum, as a share of its value at zero."""
    best = ridge_weights(second_moment, alpha)
    hessian = second_moment[:-1, :-1] + 2 * alpha * np.eye(len(best))
    return float((weights - best) @ hessian @ (weights - best) / second_moment[-1, -1])


def lemma_bound(estimate: Array, second_moment: Array, alpha: float) -> float:
    """Bound on the distance of the weights that Lemma 1 gives for an estimate of the second moment.

    Numerator and denominator of the paper's statement are divided by n. The proof solves with A, so
    its smallest eigenvalue belongs to A; the paper's smallest eigenvalue of the whole matrix is not
    larger and gives a weaker bound.
    """
    error = estimate - second_moment
    columns = float(np.linalg.norm(error, axis=0).max())
    spectral = float(np.abs(np.linalg.eigvalsh(error)).max())
    smallest = max(0.0, float(np.linalg.eigvalsh(second_moment)[0]))
    norm = float(np.linalg.norm(ridge_weights(estimate, alpha)))
    return (columns + spectral * norm) / (smallest + 2 * alpha)

"""How far an outcome is from the truth.

A metric is a name with an optional number after a colon: ``frobenius``, ``relative frobenius``,
``relative spectral``, ``schatten:p``, ``ridge weights:alpha``, ``ridge excess:alpha``, ``ridge
bound:alpha``.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.ridge import excess_risk, lemma_bound, ridge_weights
from benchmarks.papers.tables import Data

Array = NDArray[np.float64]


def measure(metric: str, outcome: Array, data: Data) -> float:
    """Distance of a matrix, or of regression weights, from those of the data."""
    name, _, argument = metric.partition(":")
    parameters = (float(argument),) if argument else ()
    return float(METRICS[name](outcome, data, *parameters))


def frobenius(estimate: Array, data: Data) -> float:
    return float(np.linalg.norm(estimate - data.target))


def relative_frobenius(estimate: Array, data: Data) -> float:
    return frobenius(estimate, data) / float(np.linalg.norm(data.target))


def relative_spectral(estimate: Array, data: Data) -> float:
    return schatten(estimate, data, np.inf) / float(np.linalg.norm(data.target, 2))


def schatten(estimate: Array, data: Data, p: float) -> float:
    """p-norm of the singular values of the error."""
    return float(np.linalg.norm(np.linalg.svd(estimate - data.target, compute_uv=False), p))


def ridge_weight_error(outcome: Array, data: Data, alpha: float) -> float:
    """Relative l2 distance of the weights."""
    truth = ridge_weights(data.second_moment, alpha)
    return float(np.linalg.norm(_weights(outcome, alpha) - truth) / np.linalg.norm(truth))


def ridge_excess(outcome: Array, data: Data, alpha: float) -> float:
    """Excess of the regularized risk, as a share of the risk of predicting zero."""
    return excess_risk(_weights(outcome, alpha), data.second_moment, alpha)


def ridge_bound(outcome: Array, data: Data, alpha: float) -> float:
    """Amin et al., Lemma 1, on the scale of :func:`ridge_weight_error`."""
    truth = ridge_weights(data.second_moment, alpha)
    return lemma_bound(outcome, data.second_moment, alpha) / float(np.linalg.norm(truth))


def _weights(outcome: Array, alpha: float) -> Array:
    return outcome if outcome.ndim == 1 else ridge_weights(outcome, alpha)


METRICS: dict[str, Callable[..., float]] = {
    "frobenius": frobenius,
    "relative frobenius": relative_frobenius,
    "relative spectral": relative_spectral,
    "schatten": schatten,
    "ridge weights": ridge_weight_error,
    "ridge excess": ridge_excess,
    "ridge bound": ridge_bound,
}

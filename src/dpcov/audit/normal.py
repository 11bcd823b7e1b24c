"""Bounds for releases whose noise is stated to be Gaussian: from a mean and a variance instead of an event.

Contract: holds if a projection of the published numbers is normal under both tables, as the release's own noise law
says; a claim refuted here is wrong, or the stated law is.  Needs far fewer draws than an event for a small error.
"""

import math

import numpy as np
from scipy import stats

from dpcov.audit.limits import Tables
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise
from dpcov.published.linalg.symmetric import Array

LARGEST_SHIFT = 1e3
"""Noise that varies less beside the difference is none."""


def normal_bound(promise: Promise, tables: Tables, alpha: float) -> float:
    """Lower confidence bound on the rho or epsilon of a promise, from one normal number of every release."""
    return from_shift(promise, shift_below(*tables, alpha))


def shift_below(first: Array, second: Array, alpha: float) -> float:
    """Lower limit of the distance of two means in standard deviations: a larger variance and a smaller distance."""
    freedom = first.size + second.size - 2
    scatter = float(np.square(first - first.mean()).sum() + np.square(second - second.mean()).sum())
    if scatter == 0.0:
        return LARGEST_SHIFT if first[0] != second[0] else 0.0
    variance = scatter / freedom
    error = math.sqrt(variance * (1.0 / first.size + 1.0 / second.size)) * stats.t.isf(
        alpha / 4, freedom
    )
    distance = abs(float(first.mean() - second.mean())) - error
    largest_variance = scatter / float(stats.chi2.ppf(alpha / 2, freedom))
    return min(LARGEST_SHIFT, max(0.0, float(distance)) / math.sqrt(largest_variance))


def from_shift(promise: Promise, shift: float) -> float:
    """Rho, or the epsilon at the promise's delta, of normal laws ``shift`` standard deviations apart."""
    if isinstance(promise, ZCDP):
        return shift**2 / 2
    assert isinstance(promise, ApproxDP)
    return gaussian_epsilon(shift, float(promise.delta))


def gaussian_epsilon(shift: float, delta: float) -> float:
    """Smallest epsilon of the Gaussian mechanism at delta (Balle, Wang 2018, theorem 8), by bisection."""

    def excess(epsilon: float) -> float:
        one = stats.norm.cdf(shift / 2 - epsilon / shift)
        other = math.exp(min(700.0, epsilon + stats.norm.logcdf(-shift / 2 - epsilon / shift)))
        return float(one - other) - delta

    if shift == 0.0 or excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, shift**2 / 2 + shift * math.sqrt(2.0 * math.log(1.0 / delta)) + 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return low

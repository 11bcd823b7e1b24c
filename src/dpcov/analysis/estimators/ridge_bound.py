"""How far ridge coefficients from a release can be from those of the exact moments.

Contract: a release with Gaussian noise alone; holds with the stated probability over the noise, whatever the
rows are.

Notes
-----
With regressors Fz, target g'z, penalty P and exact moments M, the coefficients w of the exact moments have the residual
u = g - F'w and satisfy F M u = P w.  Put the released M + E + C in, where E is the noise and C is what post-processing
changed, which is public; its coefficients v then satisfy

    (F (M + E + C) F' + P)(v - w) = F (E + C) u,   u = g - F'v + F'(v - w).

*From the residual.*  u does not depend on the noise, so E u is normal with covariance at most s (|u|² I + uu') for
noise of variance s, and |E u| <= (√(d + 1) + √2 z) √s |u|, but for the chance that a normal number exceeds z (Gaussian
isoperimetry).  Inserting the right-hand equation bounds |v - w| by

    (q |F| |g - F'v| + |F C (g - F'v)|) / (a - q |F|² - |F C F'|),   q = (√(d + 1) + √2 z) √s,

a the least eigenvalue on the left.  It says nothing where the penalty does not outweigh the noise.

*Lemma 1 of Amin et al. (2019).*  |E| <= 2 √(ds) + √2 z √s, and M is at least zero: always finite with a penalty, and
wider, since the noise is taken to hit the coefficients in the worst direction.
"""

from math import inf, sqrt
from statistics import NormalDist

import numpy as np

from dpcov.analysis.estimators.linear_model import View
from dpcov.analysis.estimators.ridge_path import RidgeProblem
from dpcov.analysis.intervals.law import Array
from dpcov.analysis.problems import UnknownNoiseError


def error_bound(
    view: View, problem: RidgeProblem, weights: Array, alpha: float, confidence: float
) -> float:
    """Bound on the length of the error of intercept and coefficients, in encoded units; the smaller of two.

    Raises
    ------
    UnknownNoiseError
        Unless the noise is Gaussian with a published variance.
    """
    if view.noise is None or not view.noise.is_normal:
        raise UnknownNoiseError(
            "This bound needs Gaussian noise of published variance, which this release lacks."
        )
    regressors, penalty = problem.features, np.full(len(problem.features), alpha)
    whole = weights
    if problem.has_intercept:
        regressors = np.vstack([np.eye(len(view.moment))[:1], regressors])
        penalty, whole = np.append(0.0, penalty), np.append(problem.intercept(weights), weights)
    # Each of the two fails with half of what may fail.
    z = NormalDist().inv_cdf(1 - (1 - confidence) / 4)
    reach = sqrt(2 * view.noise.off_diagonal) * z
    return min(
        _from_the_residual(view, regressors, problem.target, np.diag(penalty), whole, reach),
        _lemma_1(view, problem, regressors, np.diag(penalty), whole, alpha, reach),
    )


def _from_the_residual(
    view: View, F: Array, target: Array, penalty: Array, weights: Array, reach: float
) -> float:
    """Start from the coefficients in use, or from those of the unprocessed moments; one event covers both."""
    assert view.noise is not None
    q = sqrt((len(view.moment) + 1) * view.noise.off_diagonal) + reach
    raw, length, found = view.release.second_moment("none"), float(np.linalg.norm(F, 2)), inf
    for moment in (view.moment, raw):
        system, change = F @ moment @ F.T + penalty, moment - raw
        certain = float(np.linalg.eigvalsh(system)[0]) - q * length**2 - _norm(F @ change @ F.T)
        if certain <= 0:
            continue
        start = np.linalg.solve(system, F @ moment @ target)
        residual = target - F.T @ start
        far = (q * length * _norm(residual) + _norm(F @ change @ residual)) / certain
        found = min(found, far + _norm(weights - start))
    return found


def _lemma_1(
    view: View,
    problem: RidgeProblem,
    F: Array,
    penalty: Array,
    weights: Array,
    alpha: float,
    reach: float,
) -> float:
    """With numerator and denominator of the lemma divided by n."""
    assert view.noise is not None
    d, variance = len(view.moment), view.noise.off_diagonal
    raw, length, goal = (
        view.release.second_moment("none"),
        float(np.linalg.norm(F, 2)),
        _norm(problem.target),
    )
    change, spectral = view.moment - raw, 2 * sqrt(d * variance) + reach
    column = (sqrt((d + 1) * variance) + reach) if goal == 1.0 else spectral * goal
    seen = float(np.linalg.eigvalsh(F @ raw @ F.T + penalty)[0]) - length**2 * spectral
    certain = (
        alpha / (view.release.manifest.norm_bound**2 + alpha) if problem.has_intercept else alpha
    )
    if max(seen, certain) <= 0:
        return inf
    target_error = _norm(F @ change @ problem.target) + length * column
    spectral_error = _norm(F @ change @ F.T) + length**2 * spectral
    return (target_error + spectral_error * _norm(weights)) / max(seen, certain)


def _norm(array: Array) -> float:
    """Length of a vector, spectral norm of a matrix."""
    return float(np.linalg.norm(array, 2))

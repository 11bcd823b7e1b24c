"""Bound the distance of ridge coefficients from those of the exact moments, for Gaussian noise.

Holds with the stated probability over the noise, whatever the rows are.
"""

from math import inf, sqrt
from statistics import NormalDist

import numpy as np

from dpcov.analysis.estimators.ridge_path import RidgeProblem
from dpcov.analysis.features import Array
from dpcov.analysis.problems import UnknownNoiseError
from dpcov.published.estimate.entry_noise import noise_of
from dpcov.published.release import Release

# The second moment in use and the unprocessed one.
Moments = tuple[Array, Array]


def error_bound(
    release: Release, problem: RidgeProblem, weights: Array, alpha: float, confidence: float
) -> float:
    """Bound the length of the error of intercept and coefficients, in encoded units.

    Raises UnknownNoiseError unless the noise is Gaussian with a published variance.
    """
    noise, raw, M = noise_of(release), release.second_moment("none"), problem.moment
    if noise is None or not noise.is_normal:
        raise UnknownNoiseError(
            "This bound needs Gaussian noise of published variance, which this release lacks."
        )
    F, penalty = problem.features, np.full(len(problem.features), alpha)
    if problem.has_intercept:
        F, penalty = np.vstack([np.eye(len(M))[:1], F]), np.append(0.0, penalty)
        weights = np.append(problem.intercept(weights), weights)
    # Each of the two bounds fails with half of what may fail.
    z = NormalDist().inv_cdf(1 - (1 - confidence) / 4)
    reach, P, g = sqrt(2 * noise.off_diagonal) * z, np.diag(penalty), problem.target
    q = sqrt((len(M) + 1) * noise.off_diagonal) + reach
    spectral = 2 * sqrt(len(M) * noise.off_diagonal) + reach
    least = alpha / (release.manifest.norm_bound**2 + alpha) if problem.has_intercept else alpha
    return min(
        _from_the_residual((M, raw), F, g, P, weights, q),
        _lemma_1((M, raw), F, g, P, weights, q, spectral, least),
    )


# With regressors Fz, target g'z, penalty P and exact moments M, the exact coefficients w have the
# residual u = g - F'w and satisfy F M u = P w.  The release adds the noise E and the public change
# C by post-processing; its coefficients v then satisfy
#     (F (M + E + C) F' + P)(v - w) = F (E + C) u,   u = g - F'v + F'(v - w).
# u does not depend on the noise, so E u is normal with covariance at most s (|u|² I + uu') for
# noise of variance s, and |E u| <= q |u| with q = (√(d + 1) + √2 z) √s, but for the chance that a
# normal number exceeds z (Gaussian isoperimetry).  Inserting the equation for u bounds |v - w| by
#     (q |F| |g - F'v| + |F C (g - F'v)|) / (a - q |F|² - |F C F'|),
# a the least eigenvalue on the left; nothing where the penalty does not outweigh the noise.
def _from_the_residual(
    moments: Moments, F: Array, g: Array, P: Array, weights: Array, q: float
) -> float:
    length, found = _norm(F), inf
    # Starting from the coefficients in use or from the unprocessed ones: one event covers both.
    for moment in moments:
        system, change = F @ moment @ F.T + P, moment - moments[1]
        certain = float(np.linalg.eigvalsh(system)[0]) - q * length**2 - _norm(F @ change @ F.T)
        if certain > 0:
            start = np.linalg.solve(system, F @ moment @ g)
            residual = g - F.T @ start
            far = (q * length * _norm(residual) + _norm(F @ change @ residual)) / certain
            found = min(found, far + _norm(weights - start))
    return found


# Lemma 1 of Amin et al. (2019), divided by n: |E| <= 2 √(ds) + √2 z √s and M is at least zero.
#  Always finite with a penalty, and wider: it lets the noise hit the
# coefficients in the worst direction.
def _lemma_1(
    moments: Moments,
    F: Array,
    g: Array,
    P: Array,
    weights: Array,
    q: float,
    spectral: float,
    least: float,
) -> float:
    change, length = moments[0] - moments[1], _norm(F)
    # One column of the noise is shorter than its spectral norm.
    column = q if _norm(g) == 1.0 else spectral * _norm(g)
    seen = float(np.linalg.eigvalsh(F @ moments[1] @ F.T + P)[0]) - length**2 * spectral
    if max(seen, least) <= 0:
        return inf
    target_error = _norm(F @ change @ g) + length * column
    spectral_error = _norm(F @ change @ F.T) + length**2 * spectral
    return (target_error + spectral_error * _norm(weights)) / max(seen, least)


def _norm(array: Array) -> float:
    """Length of a vector, spectral norm of a matrix."""
    return float(np.linalg.norm(array, 2))

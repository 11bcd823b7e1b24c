"""Fit ridge regression to a release, with the penalty chosen from it and a bound on the error.

The penalty is in encoded units: every column, target included, is divided by half the width of its
public bounds, and the objective is a mean over rows, so one alpha means the same for every table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import NormalDist
from typing import Any, ClassVar, Literal

import numpy as np

from dpcov.analysis.estimators import ridge_path
from dpcov.analysis.estimators.base import require_number
from dpcov.analysis.estimators.linear_model import LinearModel
from dpcov.analysis.estimators.ridge_path import RidgeProblem
from dpcov.analysis.features import Array
from dpcov.analysis.problems import InputError, UnknownNoiseError, warn_noise
from dpcov.published.base import on_one_thread
from dpcov.published.estimate.entry_noise import noise_of
from dpcov.published.release import Release

# The second moment in use and the unprocessed one.
Moments = tuple[Array, Array]
# Regressors F, target g, penalty P and coefficients.
Problem = tuple[Array, Array, Array, Array]


@dataclass(eq=False, repr=False)
class PrivateRidge(LinearModel):
    """Ridge regression whose penalty is chosen from the release itself.

    Minimizes the mean over rows of (y − x'w − b)² + alpha · |w|², in encoded units.  With
    ``sklearn.linear_model.Ridge`` on columns divided by their half ranges, alpha there is
    ``n_rows`` times alpha here.

    Parameters
    ----------
    alpha : float or "auto"
        ``"auto"`` takes the penalty with the lowest estimated risk on new rows: the release's own
        mean squared error, plus the cross term by which a model follows the noise, which the
        published law of the noise tells without any data.
    alphas : sequence of float, optional
        The regularization path; chosen from the noise and the spectrum if not given.

    Attributes
    ----------
    alpha_ : float or (n_targets,) float64
        The penalty in use; all that is not listed here is as in :class:`LinearModel`.
    alphas_ : (n_alphas,) float64
        The path, ascending.
    risk_path_ : (n_targets, n_alphas) float64
        Estimated mean squared error on new rows along the path, in original units; NaN where the
        noise has no law.

    Examples
    --------
    >>> import numpy as np, dpcov
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 3))
    >>> y = X @ [0.5, -0.2, 0.0] + rng.uniform(-0.1, 0.1, 20_000)
    >>> terms = {"bounds": (-1, 1), "target_bounds": (-1, 1), "budget": dpcov.Budget(rho=1)}
    >>> np.allclose(PrivateRidge(**terms).fit(X, y).coef_, [0.5, -0.2, 0.0], atol=0.05)
    True
    """

    alpha: float | Literal["auto"] = "auto"
    alphas: Sequence[float] | None = None

    N_ALPHAS: ClassVar[int] = 60

    def _solve(self, problems: list[RidgeProblem]) -> list[Array]:
        self.alphas_ = self._alphas(problems[0])
        half_ranges = np.array([goal.half_range for goal in self._goals])
        self.risk_path_ = self._risks(problems) * half_ranges[:, None] ** 2
        chosen = [self._choose(risks) for risks in self.risk_path_]
        self.alpha_: Any = self._flattened(chosen)
        if problems[0].spectrum[0][-1] <= self.noise_edge_:
            warn_noise(
                "Every direction of the features lies within the noise of the release: the "
                "coefficients say little about the data."
            )
        return [p.weights(alpha) for p, alpha in zip(problems, chosen, strict=True)]

    def _alphas(self, problem: RidgeProblem) -> Array:
        if self.alphas is None:
            return ridge_path.default_alphas(problem, self.noise_edge_, self.N_ALPHAS)
        alphas = np.unique(np.asarray(self.alphas, dtype=np.float64))
        if not alphas.size or not np.all(np.isfinite(alphas) & (alphas > 0)):
            raise InputError("alphas must be positive numbers.")
        return alphas

    def _risks(self, problems: list[RidgeProblem]) -> Array:
        noise = noise_of(self.release_)
        if noise is None and self.alpha != "auto":
            return np.full((len(problems), len(self.alphas_)), np.nan)
        if noise is None:
            raise UnknownNoiseError(
                "The release has no law of its noise, so alpha cannot be chosen. Give alpha."
            )
        raw, n_rows = self.release_.second_moment("none"), self.release_.n_rows
        noisy = ridge_path.noisy_moment(raw, problems[0].moment, noise.off_diagonal)
        risks = [
            ridge_path.risk(p, noisy, alpha, n_rows) for p in problems for alpha in self.alphas_
        ]
        return np.reshape(risks, (len(problems), -1))

    def _choose(self, risks: Array) -> float:
        if self.alpha == "auto":
            return float(self.alphas_[int(np.argmin(risks))])
        return require_number("alpha", self.alpha, 0.0)

    def _intervals(self, **options: Any) -> Any:
        return self._intervals_at(np.atleast_1d(self.alpha_).tolist(), **options)

    @on_one_thread
    def coef_path(self) -> Array:
        """Coefficients in original units for ``alphas_``, (n_targets, n_alphas, p) float64."""
        self._require_fitted()
        paths = [[p.weights(alpha) for alpha in self.alphas_] for p in self._problems]
        return np.array([[self._original(k, w)[0] for w in path] for k, path in enumerate(paths)])

    @on_one_thread
    def error_bound(self, confidence: float = 0.95) -> Any:
        """How far the coefficients can be from those of the same penalty on the exact moments.

        Bounds the length of the error of intercept and coefficients in encoded units, for each
        target with this ``confidence`` over the noise: the smaller of two bounds, one of them Lemma
        1 of Amin et al. (2019).  A coefficient in original units is off by at most that times the
        target's half range over the feature's, a contrast of levels by √2 times as much.
        :meth:`conf_int` says more of each.  Raises UnknownNoiseError unless the noise is Gaussian
        with a published variance.
        """
        self._require_fitted()
        require_number("confidence", confidence, 0.0, below=1.0)
        parts = zip(self._problems, self._weights, np.atleast_1d(self.alpha_), strict=True)
        return self._flattened([_error_bound(self.release_, *part, confidence) for part in parts])


def _error_bound(
    release: Release, problem: RidgeProblem, weights: Array, alpha: float, confidence: float
) -> float:
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
    both, parts = (M, raw), (F, g, P, weights)
    return min(_from_the_residual(both, parts, q), _lemma_1(both, parts, q, spectral, least))


# With regressors Fz, target g'z, penalty P and exact moments M, the exact coefficients w have the
# residual u = g - F'w and satisfy F M u = P w.  The release adds the noise E and the public change
# C by post-processing; its coefficients v then satisfy
#     (F (M + E + C) F' + P)(v - w) = F (E + C) u,   u = g - F'v + F'(v - w).
# u does not depend on the noise, so E u is normal with covariance at most s (|u|² I + uu') for
# noise of variance s, and |E u| <= q |u| with q = (√(d + 1) + √2 z) √s, but for the chance that a
# normal number exceeds z (Gaussian isoperimetry).  Inserting the equation for u bounds |v - w| by
#     (q |F| |g - F'v| + |F C (g - F'v)|) / (a - q |F|² - |F C F'|),
# a the least eigenvalue on the left; nothing where the penalty does not outweigh the noise.
def _from_the_residual(moments: Moments, problem: Problem, q: float) -> float:
    F, g, P, weights = problem
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
# Always finite with a penalty, and wider: noise may hit coefficients in the worst direction.
def _lemma_1(moments: Moments, problem: Problem, q: float, spectral: float, least: float) -> float:
    F, g, P, weights = problem
    change, length = moments[0] - moments[1], _norm(F)
    # One column of the noise is shorter than its spectral norm.
    column = q if _norm(g) == 1.0 else spectral * _norm(g)
    seen = float(np.linalg.eigvalsh(F @ moments[1] @ F.T + P)[0]) - length**2 * spectral
    if max(seen, least) <= 0:
        return inf
    target_error = _norm(F @ change @ g) + length * column
    spectral_error = _norm(F @ change @ F.T) + length**2 * spectral
    return (target_error + spectral_error * _norm(weights)) / max(seen, least)


# Length of a vector, spectral norm of a matrix.
def _norm(array: Array) -> float:
    return float(np.linalg.norm(array, 2))

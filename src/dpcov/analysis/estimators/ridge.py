"""Ridge regression on a release, with the penalty chosen from the release and a bound on the coefficients' error.

Contract: a release alone, in original units.

The penalty is measured in encoded units: every column, target included, is divided by half the width of its public
bounds, and the objective is a mean over rows, so that one alpha means the same for every column, number of rows and
target.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from dpcov.analysis.estimators import ridge_path
from dpcov.analysis.estimators.base import Array, require_numbers
from dpcov.analysis.estimators.linear_model import LinearModel
from dpcov.analysis.estimators.ridge_bound import error_bound
from dpcov.analysis.estimators.ridge_path import RidgeProblem
from dpcov.analysis.problems import InputError, warn_noise
from dpcov.published.base import on_one_thread


@dataclass(eq=False, repr=False)
class PrivateRidge(LinearModel):
    """Ridge regression whose penalty is chosen from the release itself.

    Minimizes the mean over rows of (y − x'w − b)² + alpha · |w|², in encoded units (see the module).  With
    ``sklearn.linear_model.Ridge`` on columns divided by their half ranges, alpha there is ``n_rows`` times alpha here.

    Parameters
    ----------
    alpha : float or "auto"
        ``"auto"`` takes the penalty with the lowest estimated risk on new rows: the release's own mean squared error,
        plus the cross term by which a model that follows the noise is too well pleased with itself, which the published
        law of the noise tells without any data (:mod:`dpcov.analysis.estimators.ridge_path`).
    alphas : sequence of float, optional
        The regularization path; chosen from the noise and the spectrum if not given.
    target, fit_intercept, target_bounds
        What to predict and how; see :class:`~dpcov.analysis.estimators.linear_model.LinearModel`.
    features, post, budget, ...
        As in :class:`~dpcov.analysis.estimators.base.ReleaseEstimator`.

    Attributes
    ----------
    coef_, intercept_, reference_levels_, noise_edge_, training_r2_
        As in :class:`~dpcov.analysis.estimators.regression.PrivateLinearRegression`.
    alpha_ : float or (n_targets,) float64
        The penalty in use.
    alphas_ : (n_alphas,) float64
        The path, ascending.
    risk_path_ : (n_targets, n_alphas) float64
        Estimated mean squared error on new rows along the path, in original units; NaN where the noise has no law.

    Examples
    --------
    >>> import numpy as np, dpcov
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 3))
    >>> y = X @ [0.5, -0.2, 0.0] + rng.uniform(-0.1, 0.1, 20_000)
    >>> ridge = PrivateRidge(bounds=(-1, 1), target_bounds=(-1, 1), budget=dpcov.Budget(rho=1)).fit(X, y)
    >>> np.allclose(ridge.coef_, [0.5, -0.2, 0.0], atol=0.05)
    True
    """

    alpha: float | Literal["auto"] = "auto"
    alphas: Sequence[float] | None = None

    N_ALPHAS: ClassVar[int] = 60

    def _solve(self, problems: list[RidgeProblem]) -> None:
        self.alphas_ = self._alphas(problems[0])
        self.risk_path_ = np.array(
            [
                self._risks(problem) * self._view.columns[target].half_range ** 2
                for problem, target in zip(problems, self._targets, strict=True)
            ]
        )
        chosen = [self._choose(risks) for risks in self.risk_path_]
        self.alpha_: Any = self._flattened(chosen)
        self._problems = problems
        self._weights = [p.weights(alpha) for p, alpha in zip(problems, chosen, strict=True)]
        self._set_coefficients(problems, self._weights)
        self._warn_if_hidden(problems[0])

    def _alphas(self, problem: RidgeProblem) -> Array:
        if self.alphas is None:
            return ridge_path.default_alphas(problem, self.noise_edge_, self.N_ALPHAS)
        alphas = np.unique(np.asarray(self.alphas, dtype=np.float64))
        if not alphas.size or not np.all(np.isfinite(alphas) & (alphas > 0)):
            raise InputError("alphas must be positive numbers.")
        return alphas

    def _risks(self, problem: RidgeProblem) -> Array:
        if self._view.noise is None and self.alpha != "auto":
            return np.full(len(self.alphas_), np.nan)
        noisy, n_rows = self._view.noisy, self._view.release.n_rows
        return np.array([ridge_path.risk(problem, noisy, alpha, n_rows) for alpha in self.alphas_])

    def _choose(self, risks: Array) -> float:
        if self.alpha == "auto":
            return float(self.alphas_[int(np.argmin(risks))])
        return require_numbers("alpha", self.alpha, 0.0)

    def _intervals(self, **options: Any) -> Any:
        return self._intervals_of_coefficients(np.atleast_1d(self.alpha_).tolist(), **options)

    def _warn_if_hidden(self, problem: RidgeProblem) -> None:
        if problem.spectrum[0][-1] <= self.noise_edge_:
            warn_noise(
                "Every direction of the features lies within the noise of the release: the coefficients say little "
                "about the data."
            )

    @on_one_thread
    def coef_path(self) -> Array:
        """Coefficients in original units along the path.

        Returns
        -------
        (n_targets, n_alphas, p) float64
            For ``alphas_``.
        """
        self._require_fitted()
        view = self._view
        return np.array(
            [
                [
                    view.original(problem, problem.weights(alpha), target)[0]
                    for alpha in self.alphas_
                ]
                for problem, target in zip(self._problems, self._targets, strict=True)
            ]
        )

    @on_one_thread
    def error_bound(self, confidence: float = 0.95) -> Any:
        """How far the coefficients can be from those of the same penalty on the exact moments.

        The smaller of two bounds (`ridge_bound`), one of them Lemma 1 of Amin et al. (2019), on the
        length of the error of intercept and coefficients in encoded units, levels as deviations from their mean; a
        coefficient in original units is off by at most that times the target's half range over the feature's, and a
        contrast of levels by √2 times as much.  :meth:`conf_int` says more of single coefficients.

        Parameters
        ----------
        confidence : float
            Probability over the noise with which the bound holds for one target.

        Returns
        -------
        float or (n_targets,) float64
            Infinite without a penalty where the noise may hide a direction.

        Raises
        ------
        UnknownNoiseError
            Unless the noise is Gaussian with a published variance.
        """
        self._require_fitted()
        require_numbers("confidence", confidence, 0.0, below=1.0)
        alphas = np.atleast_1d(self.alpha_)
        return self._flattened(
            [
                error_bound(self._view, problem, weights, alpha, confidence)
                for problem, weights, alpha in zip(
                    self._problems, self._weights, alphas, strict=True
                )
            ]
        )

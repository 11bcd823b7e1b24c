"""Fit ridge regression to a release, with the penalty chosen from it.

The penalty is in encoded units: every column, target included, is divided by half the width of its
public bounds, and the objective is a mean over rows, so one alpha means the same for every table.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpcov.analysis.estimators import ridge_path
from dpcov.analysis.estimators.base import require_number
from dpcov.analysis.estimators.linear_model import LinearModel
from dpcov.analysis.estimators.ridge_path import RidgeProblem
from dpcov.analysis.problems import UnknownNoiseError, warn_noise
from dpcov.published.base import on_one_thread
from dpcov.published.estimate.entry_noise import noise_of
from dpcov.published.linalg.symmetric import Array


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

    Attributes
    ----------
    alpha_ : float or (n_targets,) float64
        The penalty in use; all that is not listed here is as in :class:`LinearModel`.
    alphas_ : (n_alphas,) float64
        The path, ascending, from the noise and the spectrum.
    risk_path_ : (n_targets, n_alphas) float64
        Estimated mean squared error on new rows along the path, in original units; NaN where the
        noise has no law.
    """

    alpha: float | Literal["auto"] = "auto"

    def _solve(self, problems: list[RidgeProblem]) -> list[Array]:
        self.alphas_ = ridge_path.default_alphas(problems[0], self.noise_edge_)
        half_ranges = np.array([goal.half_range for goal in self._goals])
        self.risk_path_ = self._risks(problems) * half_ranges[:, None] ** 2
        if self.alpha == "auto":
            self._penalties = self.alphas_[self.risk_path_.argmin(axis=1)].tolist()
        else:
            self._penalties = [require_number("alpha", self.alpha, 0.0)] * len(problems)
        self.alpha_: Any = self._flattened(self._penalties)
        if problems[0].spectrum[0][-1] <= self.noise_edge_:
            warn_noise(
                "Every direction of the features lies within the noise of the release: the "
                "coefficients say little about the data."
            )
        return [p.weights(alpha) for p, alpha in zip(problems, self._penalties, strict=True)]

    def _risks(self, problems: list[RidgeProblem]) -> Array:
        noise = noise_of(self.release_)
        if noise is None:
            if self.alpha == "auto":
                raise UnknownNoiseError(
                    "The release has no law of its noise, so alpha cannot be chosen. Give alpha."
                )
            return np.full((len(problems), len(self.alphas_)), np.nan)
        raw, n_rows = self.release_.second_moment("none"), self.release_.n_rows
        noisy = ridge_path.noisy_moment(raw, problems[0].moment, noise.off_diagonal)
        return np.array(
            [[ridge_path.risk(p, noisy, alpha, n_rows) for alpha in self.alphas_] for p in problems]
        )

    @on_one_thread
    def coef_path(self) -> Array:
        """Coefficients in original units for ``alphas_``, (n_targets, n_alphas, p) float64."""
        self._require_fitted()
        paths = [[p.weights(alpha) for alpha in self.alphas_] for p in self._problems]
        return np.array([[self._original(k, w)[0] for w in path] for k, path in enumerate(paths)])

"""Least squares on a release: on all directions that stand out of the noise, or on principal components.

Contract: a release alone, in original units; directions of pure noise are never inverted.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpcov.analysis.estimators.base import require_numbers
from dpcov.analysis.estimators.linear_model import LinearModel
from dpcov.analysis.estimators.ridge_path import RidgeProblem
from dpcov.analysis.problems import InputError, warn_noise


@dataclass(eq=False, repr=False)
class PrivateLinearRegression(LinearModel):
    """Least squares, within the directions of the features that stand out of the noise.

    Inverting directions that hold little but noise would give coefficients of any size, so principal components of the
    (encoded) features below the noise edge are left out, with a warning.  Without noise it is ordinary least squares,
    with the smallest coefficients where columns are collinear.

    Parameters
    ----------
    target, fit_intercept, target_bounds
        What to predict and how; see :class:`~dpcov.analysis.estimators.linear_model.LinearModel`.
    features, post, budget, ...
        As in :class:`~dpcov.analysis.estimators.base.ReleaseEstimator`.

    Attributes
    ----------
    coef_ : (p,) or (n_targets, p) float64
        One for each encoded feature (:meth:`get_encoded_names`), in original units.
    reference_levels_ : tuple of str
        Categories without a coefficient; see :class:`~dpcov.analysis.estimators.linear_model.LinearModel`.
    intercept_ : float or (n_targets,) float64
    n_components_ : int
        Directions that were used.
    noise_edge_ : float
        Variance, in encoded units, that noise alone may show in any direction but that of the means; 0 where it is
        unknown.
    training_r2_ : float or (n_targets,)
        Share of variance explained according to the release, which the noise makes optimistic.
    """

    def _solve(self, problems: list[RidgeProblem]) -> None:
        values = problems[0].spectrum[0]
        above = int(np.sum(values > self.noise_edge_))
        hidden = self._count_hidden(problems[0])
        if hidden:
            warn_noise(
                f"{hidden} of {len(values)} directions of the features lie within the noise of the "
                "release and are left out of the regression. PrivateRidge uses them as far as they deserve."
            )
        self._solve_truncated(problems, above)

    def _intervals(self, **options: Any) -> Any:
        return self._intervals_of_coefficients([0.0] * len(self._targets), **options)


@dataclass(eq=False, repr=False)
class PrivateComponentRegression(LinearModel):
    """Principal component regression: least squares on the largest components of the features.

    Parameters
    ----------
    n_components : int or "noise"
        How many components of the encoded features to keep; ``"noise"``: those that stand out of the noise.
    target, fit_intercept, target_bounds
        What to predict and how; see :class:`~dpcov.analysis.estimators.linear_model.LinearModel`.
    features, post, budget, ...
        As in :class:`~dpcov.analysis.estimators.base.ReleaseEstimator`.

    Attributes
    ----------
    coef_, intercept_, reference_levels_, n_components_, noise_edge_, training_r2_
        As in :class:`PrivateLinearRegression`.
    """

    n_components: int | Literal["noise"] = "noise"

    def _solve(self, problems: list[RidgeProblem]) -> None:
        values = problems[0].spectrum[0]
        above = int(np.sum(values > self.noise_edge_))
        wanted = above if self.n_components == "noise" else self._wanted(len(values))
        if wanted > above or above == 0:
            warn_noise(
                f"Only {above} of {len(values)} components of the features stand out of the noise of the release."
            )
        self._solve_truncated(problems, wanted)

    def _wanted(self, n_features: int) -> int:
        wanted = int(require_numbers("n_components", self.n_components, 1))
        if wanted > n_features:
            raise InputError(f"n_components={wanted} exceeds the {n_features} features.")
        return wanted

"""Fit least squares to a release, without ever inverting directions of pure noise."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpcov.analysis.estimators.base import require_number
from dpcov.analysis.estimators.linear_model import LinearModel
from dpcov.analysis.estimators.ridge_path import RidgeProblem
from dpcov.analysis.features import Array
from dpcov.analysis.problems import InputError, warn_noise


@dataclass(eq=False, repr=False)
class PrivateLinearRegression(LinearModel):
    """Least squares, within the directions of the features that stand out of the noise.

    Inverting directions of pure noise would give coefficients of any size, so principal components
    of the (encoded) features below the noise edge are left out, with a warning.  Without noise it
    is ordinary least squares, with the smallest coefficients where columns are collinear.

    Attributes
    ----------
    n_components_ : int
        Directions that were used; all else as in :class:`LinearModel`.
    """

    def _solve(self, problems: list[RidgeProblem]) -> list[Array]:
        values = problems[0].spectrum[0]
        above = int(np.sum(values > self.noise_edge_))
        # Without a known law of the noise nothing counts as hidden.
        if self.noise_edge_ > 0 and above < len(values):
            warn_noise(
                f"{len(values) - above} of {len(values)} directions of the features lie within the "
                "noise and are left out. PrivateRidge uses them as far as they deserve."
            )
        return self._solve_truncated(problems, above)

    def _intervals(self, **options: Any) -> Any:
        return self._intervals_at([0.0] * len(self._targets), **options)


@dataclass(eq=False, repr=False)
class PrivateComponentRegression(LinearModel):
    """Principal component regression: least squares on the largest components of the features.

    Parameters
    ----------
    n_components : int or "noise"
        Components of the encoded features to keep; ``"noise"``: those that stand out of the noise.

    Attributes
    ----------
    n_components_ : int
        Components that were used; all else as in :class:`LinearModel`.
    """

    n_components: int | Literal["noise"] = "noise"

    def _solve(self, problems: list[RidgeProblem]) -> list[Array]:
        values = problems[0].spectrum[0]
        above = int(np.sum(values > self.noise_edge_))
        wanted = above
        if self.n_components != "noise":
            wanted = int(require_number("n_components", self.n_components, 1))
        if wanted > len(values):
            raise InputError(f"n_components={wanted} exceeds the {len(values)} features.")
        if wanted > above or above == 0:
            warn_noise(
                f"Only {above} of {len(values)} components of the features stand out of the noise "
                "of the release."
            )
        return self._solve_truncated(problems, wanted)

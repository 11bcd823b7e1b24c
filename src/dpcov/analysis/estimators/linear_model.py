"""What the linear models of one release share: targets, units, prediction.

Contract: a release alone, in original units, with an intercept where the release has one.  All models of a
release together cost what the release cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpcov.analysis.estimators import ridge_path
from dpcov.analysis.estimators.base import Array, Regressor, ReleaseEstimator
from dpcov.analysis.estimators.fit_rows import Bounds, Terms, columns_of, table_of
from dpcov.analysis.estimators.ridge_path import NoisyMoment, RidgeProblem
from dpcov.analysis.features import Places, feature_columns, find_features, other_features
from dpcov.analysis.intervals.inference import coefficient_intervals
from dpcov.analysis.levels import Coding, coding_of, without_references
from dpcov.analysis.problems import InputError, UnknownNoiseError
from dpcov.analysis.reading import original_map, reading_of
from dpcov.errors import ReleaseError
from dpcov.published.columns import EncodedColumn
from dpcov.published.estimate.entry_noise import MomentNoise, noise_of
from dpcov.published.release import Release
from dpcov.published.statistics import Post


@dataclass(eq=False, repr=False)
class LinearModel(Regressor, ReleaseEstimator):
    """What the regressions share: targets, units, reference levels, prediction.

    Beside an intercept, the levels of a categorical column that hold nearly all rows are collinear.  The first of them
    is the reference: it has no coefficient, and those of the others are contrasts to it.  A penalty draws all levels to
    their mean, whichever is the reference.

    Parameters
    ----------
    target : str or sequence of str, optional
        What to predict: features of the release.  ``fit(X, y)`` calls y ``"y"`` unless this names it.
    fit_intercept : bool
        Needs a release with an intercept.
    target_bounds : pair or sequence of pairs, optional
        Public bounds of y, where ``bounds`` are given instead of a schema.

    Attributes
    ----------
    reference_levels_ : tuple of str
        Encoded features that were left out; :meth:`get_encoded_names` has the others.
    """

    target: str | Sequence[str] | None = None
    fit_intercept: bool = True
    target_bounds: Bounds | None = None

    def _second_door(self, X: Any, y: Any) -> tuple[Terms, Any, dict[str, Any]]:
        if y is None and self.target is None:
            raise InputError(
                "This estimator requires y to be passed, but the target y is None. Give y, or a table that holds it "
                "and target=NAME."
            )
        if y is None:
            terms = self._terms(targets=self._target_names(1), target_bounds=self.target_bounds)
            return terms, table_of(X), {}
        columns = columns_of(y)
        names = self._target_names(columns.shape[1])
        terms = self._terms(targets=names, target_bounds=self.target_bounds)
        return (
            terms,
            table_of(X, columns, names),
            {"targets": names, "flat": np.asarray(y).ndim == 1},
        )

    def _target_names(self, number: int) -> tuple[str, ...]:
        if self.target is None:
            return ("y",) if number == 1 else tuple(f"y{i}" for i in range(number))
        return (self.target,) if isinstance(self.target, str) else tuple(self.target)

    def _chosen(self, release: Release, columns: Sequence[EncodedColumn]) -> Places:
        wanted = self._facts.get("targets", self.target)
        if wanted is None or len(wanted) == 0:
            raise InputError(
                "Say which feature of the release to predict: target=NAME, or a list of names. "
                "release.feature_names lists them."
            )
        self._targets = find_features(columns, wanted)
        self._flat = self._facts.get("flat", isinstance(wanted, str) and len(self._targets) == 1)
        others = other_features(columns, self._targets)
        chosen = others if self.features is None else find_features(columns, self.features)
        if np.intersect1d(chosen, self._targets).size:
            raise InputError("A target cannot be among its own features.")
        if not len(chosen):
            raise InputError("No feature is left to predict with.")
        self._asked = chosen
        if not self.fit_intercept:
            self.reference_levels_: tuple[str, ...] = ()
            return chosen
        if not release.has_intercept:
            raise ReleaseError(
                "This release has no intercept. Say fit_intercept=False, or release again with intercept = true."
            )
        kept, self.reference_levels_ = without_references(release, chosen)
        return kept

    def _read(self, release: Release) -> None:
        coding = coding_of(feature_columns(release), self._asked, self.reference_levels_)
        self._view = View(release, self._asked, self._places, coding, self.fit_intercept, self.post)
        self.noise_edge_ = self._view.edge
        self._solve([self._view.problem(target) for target in self._targets])

    def _solve(self, problems: list[RidgeProblem]) -> None:
        """Fit all targets and set ``coef_`` and ``intercept_``."""
        raise NotImplementedError

    def _solve_truncated(self, problems: list[RidgeProblem], n_components: int) -> None:
        """Least squares on the largest principal components of the features, as far as they can be told from zero."""
        values = problems[0].spectrum[0]
        usable = int(np.sum(values > values[-1] * len(values) * np.finfo(np.float64).eps))
        self.n_components_ = min(n_components, usable)
        self._set_coefficients(
            problems, [p.truncated_weights(self.n_components_) for p in problems]
        )

    def _count_hidden(self, problem: RidgeProblem) -> int:
        """Directions of the features that the noise hides."""
        return int(np.sum(problem.spectrum[0] <= self.noise_edge_)) if self.noise_edge_ > 0 else 0

    def _set_coefficients(self, problems: list[RidgeProblem], weights: list[Array]) -> None:
        """Keep the solution in original units."""
        view = self._view
        found = [
            view.original(p, w, t) for p, w, t in zip(problems, weights, self._targets, strict=True)
        ]
        coefficients, intercepts = np.array([c for c, _ in found]), np.array([b for _, b in found])
        self.coef_: Array = coefficients[0] if self._flat else coefficients
        self.intercept_: Any = float(intercepts[0]) if self._flat else intercepts
        directions = [p.error_direction(w) for p, w in zip(problems, weights, strict=True)]
        self.training_r2_: Any = self._flattened(
            [explained_share(view.moment, p, u) for p, u in zip(problems, directions, strict=True)]
        )

    def _intervals_of_coefficients(self, penalties: Sequence[float], **options: Any) -> Any:
        columns = feature_columns(self.release_)
        names = [columns[place].name for place in self._asked]
        options = {"fit_intercept": self.fit_intercept} | options
        tables = [
            coefficient_intervals(
                self.release_, columns[target].name, names, alpha=float(alpha), **options
            )
            for target, alpha in zip(self._targets, penalties, strict=True)
        ]
        return tables[0] if self._flat else tables

    def _flattened(self, values: list[Any]) -> Any:
        return values[0] if self._flat else np.array(values)

    def predict(self, X: Any) -> Array:
        """Predict the target of new rows, in its original units.

        Parameters
        ----------
        X : data frame or array of shape (n_rows, n_features_in_)

        Returns
        -------
        (n_rows,) or (n_rows, n_targets) float64
        """
        return np.asarray(self._features_of(X) @ self.coef_.T + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class View:
    """A release as a regression needs it: one second moment, maps into encoded units, the noise."""

    def __init__(
        self,
        release: Release,
        asked: Places,
        places: Places,
        coding: Coding,
        fit_intercept: bool,
        post: Post | None,
    ) -> None:
        self.release, self.asked, self.places = release, asked, places
        self.coding, self.fit_intercept = coding, fit_intercept
        self.columns = feature_columns(release)
        self.moment = release.second_moment(post)
        self.noise: MomentNoise | None = noise_of(release)
        self._reading = reading_of(release, places, post, not fit_intercept)

    @property
    def edge(self) -> float:
        """Edge of the noise on the features' second moment."""
        return self._reading.edge

    @cached_property
    def _rows(self) -> Array:
        """Features in units of their half ranges, as maps of the encoded row."""
        if not self.fit_intercept:
            half_ranges = np.array([column.half_range for column in self.columns])
            return np.asarray(original_map(self.release) / half_ranges[:, None])
        return np.eye(len(self.moment))[1:]

    def problem(self, target: int) -> RidgeProblem:
        """The regression of one target."""
        return RidgeProblem(
            moment=self.moment,
            features=self.coding.directions @ self._rows[self.asked],
            target=self._rows[target],
            has_intercept=self.fit_intercept,
        )

    @cached_property
    def noisy(self) -> NoisyMoment:
        """The unprocessed moment beside the one in use."""
        if self.noise is None:
            raise UnknownNoiseError(
                "This release does not say how its noise is distributed, so alpha cannot be chosen from it. Give alpha "
                "as a number."
            )
        return ridge_path.noisy_moment(
            self.release.second_moment("none"), self.moment, self.noise.off_diagonal
        )

    def original(self, problem: RidgeProblem, weights: Array, target: int) -> tuple[Array, float]:
        """Coefficients and intercept in original units."""
        columns = [self.columns[place] for place in self.places]
        half_ranges = np.array([column.half_range for column in columns])
        goal = self.columns[target]
        b = self.coding.directions.T @ weights
        coefficients = self.coding.contrasts @ b * goal.half_range / half_ranges
        if not self.fit_intercept:
            return coefficients, 0.0
        centers = np.array([column.center for column in columns])
        encoded = problem.intercept(weights) + self.coding.reference @ b
        return coefficients, float(goal.center + goal.half_range * encoded - coefficients @ centers)


def explained_share(moment: Array, problem: RidgeProblem, u: Array) -> float:
    """Share of the target's variance (or mean square) that the model explains by the release itself."""
    total = float(problem.target @ problem.residual_moment @ problem.target)
    return 1.0 - float(u @ moment @ u) / total if total > 0 else float("nan")

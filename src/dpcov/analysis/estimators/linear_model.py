"""Share what the linear models of one release have: targets, units, prediction."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from dpcov.analysis.estimators.base import ReleaseEstimator
from dpcov.analysis.estimators.fit_rows import Bounds, Roles, columns_of, table_of
from dpcov.analysis.estimators.ridge_path import NoisyMoment, RidgeProblem, noisy_moment
from dpcov.analysis.features import (
    Array,
    Columns,
    Places,
    feature_columns,
    find_features,
    predictors,
)
from dpcov.analysis.intervals.inference import coefficient_intervals
from dpcov.analysis.levels import Coding, coding_of, without_references
from dpcov.analysis.problems import InputError, UnknownNoiseError
from dpcov.analysis.reading import Reading, original_map
from dpcov.errors import ReleaseError
from dpcov.published.estimate.entry_noise import MomentNoise, noise_of
from dpcov.published.release import Release


@dataclass(frozen=True, eq=False)
class View:
    """A release as a regression needs it: one second moment, maps into encoded units, the noise."""

    reading: Reading
    asked: Places
    coding: Coding

    @cached_property
    def columns(self) -> Columns:
        """All features of the release."""
        return feature_columns(self.reading.release)

    @cached_property
    def moment(self) -> Array:
        """The second moment in use, (d, d)."""
        return self.reading.release.second_moment(self.reading.post)

    @cached_property
    def raw(self) -> Array:
        """The unprocessed second moment, (d, d)."""
        return self.reading.release.second_moment("none")

    @cached_property
    def noise(self) -> MomentNoise | None:
        """Law of the noise on the unprocessed second moment."""
        return noise_of(self.reading.release)

    @cached_property
    def noisy(self) -> NoisyMoment:
        """The unprocessed moment beside the one in use."""
        if self.noise is None:
            raise UnknownNoiseError(
                "This release does not say how its noise is distributed, so alpha cannot be chosen "
                "from it. Give alpha as a number."
            )
        return noisy_moment(self.raw, self.moment, self.noise.off_diagonal)

    @cached_property
    def _rows(self) -> Array:
        """Features in units of their half ranges, as maps of the encoded row."""
        if self.reading.centered:
            return np.eye(len(self.moment))[1:]
        half_ranges = np.array([column.half_range for column in self.columns])
        return np.asarray(original_map(self.reading.release) / half_ranges[:, None])

    def problem(self, target: int) -> RidgeProblem:
        """Return the regression of one target."""
        return RidgeProblem(
            moment=self.moment,
            features=self.coding.directions @ self._rows[self.asked],
            target=self._rows[target],
            has_intercept=self.reading.centered,
        )

    def original(self, problem: RidgeProblem, weights: Array, target: int) -> tuple[Array, float]:
        """Return coefficients and intercept in original units."""
        goal, b = self.columns[target], self.coding.directions.T @ weights
        coefficients = self.coding.contrasts @ b * goal.half_range / self.reading.half_ranges
        if not self.reading.centered:
            return coefficients, 0.0
        encoded = goal.half_range * (problem.intercept(weights) + self.coding.reference @ b)
        return coefficients, float(goal.center + encoded - coefficients @ self.reading.centers)

    def explained_share(self, problem: RidgeProblem, weights: Array) -> float:
        """Share of the target's variance (or mean square) explained, by the release itself."""
        u = problem.error_direction(weights)
        total = float(problem.target @ problem.residual_moment @ problem.target)
        return 1.0 - float(u @ self.moment @ u) / total if total > 0 else float("nan")


@dataclass(eq=False, repr=False)
class LinearModel(RegressorMixin, ReleaseEstimator):  # type: ignore[misc]
    """What the regressions share: targets, units, reference levels, prediction.

    Beside an intercept, the levels of a categorical column that hold nearly all rows are collinear.
    The first of them is the reference: it has no coefficient, and those of the others are contrasts
    to it.  A penalty draws all levels to their mean, whichever is the reference.

    Parameters
    ----------
    target : str or sequence of str, optional
        What to predict: features of the release.  ``fit(X, y)`` calls y ``"y"`` unless named here.
    fit_intercept : bool
        Needs a release with an intercept.
    target_bounds : pair or sequence of pairs, optional
        Public bounds of y, where ``bounds`` are given instead of a schema.

    Attributes
    ----------
    coef_ : (p,) or (n_targets, p) float64
        One for each encoded feature (:meth:`get_encoded_names`), in original units.
    intercept_ : float or (n_targets,) float64
    reference_levels_ : tuple of str
        Categories without a coefficient.
    noise_edge_ : float
        Variance, in encoded units, that noise alone may show in any direction but that of the
        means; 0 where it is unknown.
    training_r2_ : float or (n_targets,)
        Share of variance explained according to the release, which the noise makes optimistic.
    """

    target: str | Sequence[str] | None = None
    fit_intercept: bool = True
    target_bounds: Bounds | None = None

    def _table(self, X: Any, y: Any) -> tuple[Any, Roles, dict[str, Any]]:
        if y is None and self.target is None:
            raise InputError(
                "This estimator requires y to be passed, but the target y is None. Give y, or a "
                "table that holds it and target=NAME."
            )
        columns = None if y is None else columns_of(y)
        names = self._target_names(1 if columns is None else columns.shape[1])
        facts = {} if y is None else {"targets": names, "flat": np.asarray(y).ndim == 1}
        roles = Roles(targets=names, target_bounds=self.target_bounds)
        return table_of(X, columns, names), roles, facts

    def _target_names(self, number: int) -> tuple[str, ...]:
        if self.target is None:
            return ("y",) if number == 1 else tuple(f"y{i}" for i in range(number))
        return (self.target,) if isinstance(self.target, str) else tuple(self.target)

    def _chosen(self, release: Release, columns: Columns) -> Places:
        wanted = self._facts.get("targets", self.target)
        if wanted is None or len(wanted) == 0:
            raise InputError(
                "Say which feature of the release to predict: target=NAME, or a list of names. "
                "release.feature_names lists them."
            )
        self._targets = find_features(columns, wanted)
        self._flat = self._facts.get("flat", isinstance(wanted, str) and len(self._targets) == 1)
        self._asked = predictors(columns, self._targets, self.features)
        if not len(self._asked):
            raise InputError("No feature is left to predict with.")
        self.reference_levels_: tuple[str, ...] = ()
        if not self.fit_intercept:
            return self._asked
        if not release.has_intercept:
            raise ReleaseError(
                "This release has no intercept. Say fit_intercept=False, or release again with "
                "intercept = true."
            )
        kept, self.reference_levels_ = without_references(release, self._asked)
        return kept

    def _read(self, release: Release) -> None:
        coding = coding_of(feature_columns(release), self._asked, self.reference_levels_)
        self._view = View(self._reading(not self.fit_intercept), self._asked, coding)
        self.noise_edge_ = self._view.reading.edge
        self._problems = [self._view.problem(target) for target in self._targets]
        self._set_coefficients(self._solve(self._problems))

    def _solve(self, problems: list[RidgeProblem]) -> list[Array]:
        """Return the weights of every target."""
        raise NotImplementedError

    def _solve_truncated(self, problems: list[RidgeProblem], n_components: int) -> list[Array]:
        """Least squares on the largest principal components, as far as they differ from zero."""
        values = problems[0].spectrum[0]
        usable = int(np.sum(values > values[-1] * len(values) * np.finfo(np.float64).eps))
        self.n_components_ = min(n_components, usable)
        return [problem.truncated_weights(self.n_components_) for problem in problems]

    def _set_coefficients(self, weights: list[Array]) -> None:
        view, self._weights = self._view, weights
        pairs = list(zip(self._problems, weights, strict=True))
        found = [view.original(*pair, t) for pair, t in zip(pairs, self._targets, strict=True)]
        self.coef_: Array = self._flattened([coefficients for coefficients, _ in found])
        self.intercept_: Any = self._flattened([intercept for _, intercept in found])
        self.training_r2_: Any = self._flattened([view.explained_share(*pair) for pair in pairs])

    def _flattened(self, values: list[Any]) -> Any:
        return values[0] if self._flat else np.array(values)

    def _intervals_at(self, penalties: Sequence[float], **options: Any) -> Any:
        columns = self._view.columns
        names = [columns[place].name for place in self._asked]
        options = {"fit_intercept": self.fit_intercept} | options
        goals = [columns[target].name for target in self._targets]
        tables = [
            coefficient_intervals(self.release_, goal, names, alpha=float(alpha), **options)
            for goal, alpha in zip(goals, penalties, strict=True)
        ]
        return tables[0] if self._flat else tables

    def predict(self, X: Any) -> Array:
        """Predict the target of new rows in original units, (n_rows,) or (n_rows, n_targets)."""
        return np.asarray(self._features_of(X) @ self.coef_.T + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

"""Fit linear models to a release: what regressions share, and least squares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from dpcov.analysis.estimators.base import ReleaseEstimator
from dpcov.analysis.estimators.fit_rows import Bounds, Roles, array_of, columns_of, table_of
from dpcov.analysis.estimators.regression_summary import (
    NO_R2_ENDS,
    NOTES,
    R2_ENDS,
    RegressionSummary,
    with_coefficients,
)
from dpcov.analysis.estimators.ridge_path import RidgeProblem
from dpcov.analysis.features import (
    Columns,
    coding_of,
    find_features,
    predictors,
    require_features,
    require_function_values,
    require_intercept,
    without_references,
)
from dpcov.analysis.intervals.inference import coefficient_intervals, r2_interval
from dpcov.analysis.intervals.table import Interval, IntervalTable
from dpcov.analysis.problems import InputError, warn_noise
from dpcov.analysis.reading import half_range_map
from dpcov.markup import CELL, Child, listing, name_of, shorten
from dpcov.published.digits import plural
from dpcov.published.file.columns import INTERCEPT
from dpcov.published.linalg.symmetric import Array, Places
from dpcov.published.reading.rows import on_one_thread
from dpcov.published.release import Release
from dpcov.published.words.words import rows_in_words

FAR = 2.0
"""Values more than so many times as far away as any in a release can be are moved there: one cost
tables with real tails, three those in which the survey took a spread for far too small."""

# An R² that a summary prints as 1.
_ABOUT_ONE = 1.0005


@dataclass(eq=False, repr=False)
class LinearModel(RegressorMixin, ReleaseEstimator):  # type: ignore[misc]
    """What the regressions share: targets, units, reference levels, prediction.

    Where there is an intercept and the levels of a categorical column hold nearly all rows, the
    first has no coefficient, and those of the others are contrasts to it.  A penalty draws all
    levels to their mean, whichever is the reference.

    Parameters
    ----------
    target : str or sequence of str, optional
        What to predict: features of the release.  ``fit(X, y)`` calls y ``"y"`` unless named here.
    fit_intercept : bool
        Needs a release with an intercept.
    target_bounds : pair or mapping of names to pairs, optional
        Of y, if ``bounds`` does not name it.

    Attributes
    ----------
    coef_, intercept_ : (p,) float64 and float, or (n_targets, p) and (n_targets,) float64
        In original units, one for each encoded feature (:meth:`get_encoded_names`).
    reference_levels_ : tuple of str
        Categories without a coefficient.
    noise_edge_ : float
        Variance, in encoded units times the share of the rows that have a value, that noise alone
        may show in any direction but that of the means; 0 where it is unknown.
    """

    target: str | Sequence[str] | None = None
    fit_intercept: bool = True
    target_bounds: Bounds | None = None
    # What the R² of a summary is about.
    _r2_words: ClassVar[str] = "R², in the release"
    _extrapolates: ClassVar[bool] = True

    def _table(self, X: Any, y: Any) -> tuple[Any, Roles, dict[str, Any]]:
        if y is None and self.target is None:
            problem = f"{type(self).__name__} requires y to be passed, but the target y is None."
            raise InputError(f"{problem} Give y, or target=NAME.")
        columns = None if y is None else columns_of(y)
        if self.target is not None:
            names = (self.target,) if isinstance(self.target, str) else tuple(self.target)
        elif columns is None or columns.shape[1] == 1:
            names = ("y",)
        else:
            names = tuple(f"y{i}" for i in range(columns.shape[1]))
        if columns is not None and len(names) != columns.shape[1]:
            raise InputError("target must name every column of y, and nothing else.")
        facts = {} if y is None else {"targets": names, "flat": array_of(y).ndim == 1}
        is_named = isinstance(self.bounds, Mapping) and set(names) <= set(self.bounds)
        bounds = self.bounds if is_named and self.target_bounds is None else self.target_bounds
        roles = Roles(targets=names, target_bounds=bounds)
        return table_of(X, columns, names), roles, facts

    def _check(self, columns: Columns, unasked: str | None) -> None:
        super()._check(columns, unasked)
        wanted = self._facts.get("targets", self.target)
        if wanted is None:
            raise InputError("Say target=NAME, or a list of names among release.feature_names.")
        self._targets = find_features(columns, wanted)
        self._flat = self._facts.get("flat", isinstance(wanted, str) and len(self._targets) == 1)
        self._asked = predictors(columns, self._targets, self.features, unasked)
        self._used = np.append(self._asked, self._targets)
        require_features(self._asked)

    def _chosen(self, release: Release) -> Places:
        self.reference_levels_: tuple[str, ...] = ()
        if not self.fit_intercept:
            return self._asked
        require_intercept(release)
        kept, self.reference_levels_ = without_references(release, self._asked)
        return kept

    def _read(self, release: Release) -> None:
        columns = release.restored_features
        moment = release.present_moment(self.post, self.missing, self._used)
        self._units = self._reading(not self.fit_intercept)
        self.noise_edge_ = self._units.edge
        coding = coding_of(columns, self._asked, self.reference_levels_)
        self._goals = [columns[target] for target in self._targets]
        chosen = [columns[place] for place in self._asked]
        self._functionals = [coding.functionals(chosen, goal) for goal in self._goals]
        maps = half_range_map(release, self.fit_intercept)
        features = coding.directions @ maps[self._asked]
        self._problems = [
            RidgeProblem(moment, features, maps[target], self.fit_intercept)
            for target in self._targets
        ]
        # Of every target; a ridge regression has others.
        self._penalties = [0.0] * len(self._goals)
        self._weights = self._solve(self._problems)
        found = [self._original(k, w) for k, w in enumerate(self._weights)]
        self.coef_: Array = self._flattened([coefficients for coefficients, _ in found])
        self.intercept_: Any = self._flattened([intercept for _, intercept in found])

    def _solve(self, problems: list[RidgeProblem]) -> list[Array]:
        """Return the weights of every target."""
        raise NotImplementedError

    def _original(self, k: int, weights: Array) -> tuple[Array, float]:
        """Return coefficients and intercept of the k-th target in original units."""
        found = self._functionals[k] @ np.append(self._problems[k].intercept(weights), weights)
        intercept = self._goals[k].center + found[0] if self.fit_intercept else 0.0
        return found[1:], float(intercept)

    def _flattened(self, values: list[Any]) -> Any:
        return values[0] if self._flat else np.array(values)

    def _intervals(self, **options: Any) -> Any:
        options = {"fit_intercept": self.fit_intercept} | options
        tables = [coefficient_intervals(self.release_, **each) for each in self._asks(options)]
        return tables[0] if self._flat else tables

    def _asks(self, options: dict[str, Any]) -> list[dict[str, Any]]:
        """What is asked of the regression of every target."""
        columns = self.release_.restored_features
        names = [columns[place].name for place in self._asked]
        return [
            {"target": goal.name, "features": names, "alpha": float(alpha)} | options
            for goal, alpha in zip(self._goals, self._penalties, strict=True)
        ]

    @on_one_thread
    def summary(self, level: float = 0.95, **options: Any) -> RegressionSummary:
        """Coefficients with standard errors from sampling and from the noise, intervals, R², notes.

        ``options`` are those of :func:`dpcov.analysis.coefficient_intervals`.  Errors are its, too:
        without a published law of the noise there are no standard errors.
        """
        tables = self.conf_int(level, **options)
        errors = zip(self._mean_squares(), (p.whole for p in self._problems), strict=True)
        # Of a target that the noise leaves no variance nothing is explained.
        r2 = [1.0 - error / whole if whole > 0 else np.nan for error, whole in errors]
        # Errors without bias may be negative where noise is large: nothing is known then.
        r2 = [min(x, 1.0) if -1.0 <= x <= _ABOUT_ONE else np.nan for x in r2]
        options = {"level": level, "missing": self.missing} | options
        asked = self._asks(options) if self.fit_intercept else []
        around = [r2_interval(self.release_, **each) for each in asked]
        return self._summed_up([tables] if self._flat else tables, r2, around)

    def _summed_up(
        self, tables: list[IntervalTable], r2: list[float], around: list[Interval]
    ) -> RegressionSummary:
        release, goals = self.release_, ", ".join(shorten(goal.name) for goal in self._goals)
        title = release.manifest.title or "untitled table"
        about = "" if self.fit_intercept else ", about zero"
        told = [
            ("Release", f"{title}, {release.fingerprint[:12]}"),
            ("Guarantee", str(release.guarantee)),
            ("Rows", rows_in_words(release)),
            (self._r2_words + about, ", ".join(f"{x:.3f}" if np.isfinite(x) else "–" for x in r2)),
            ("Features", plural(len(tables[0].rows) - self.fit_intercept, "coefficient")),
        ]
        if around:
            ends = ", ".join(f"{x.lower:.3f} to {x.upper:.3f}" for x in around)
            told.insert(4, (f"R², {100 * tables[0].level:g} % interval", ends))
        notes = [*NOTES, R2_ENDS if around else NO_R2_ENDS, *tables[0].notes]
        if any(self._penalties):
            told.append(("Penalty", ", ".join(f"{alpha:.4g}" for alpha in self._penalties)))
        found = np.column_stack([np.atleast_1d(self.intercept_), np.atleast_2d(self.coef_)])
        # As tables of intervals have them: with the intercept, where there is one.
        rows = found[:, not self.fit_intercept :].tolist()
        return RegressionSummary(
            title=f"{type(self).__name__} of {goals}",
            facts=tuple(told),
            r2=tuple(map(float, r2)),
            r2_intervals=tuple(around),
            tables=tuple(map(with_coefficients, tables, rows)),
            notes=tuple(dict.fromkeys(notes)),
        )

    def _mean_squares(self) -> list[float]:
        """Mean squared errors of all targets, in encoded units."""
        pairs = zip(self._problems, self._weights, strict=True)
        return [problem.mean_square(weights) for problem, weights in pairs]

    def _findings(self) -> Child:
        goals = [goal.name for goal in self._goals]
        coefficients, intercepts = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        names = [INTERCEPT, *self.get_encoded_names()]
        columns = np.column_stack([intercepts, coefficients]).T.tolist()
        rows = [
            (name_of(name, CELL), *(f"{value:.5g}" for value in row))
            for name, row in zip(names, columns, strict=True)
        ]
        head = ("", *map(name_of, goals))
        return listing(head, rows, "Coefficients; summary() has their intervals")

    def predict(self, X: Any) -> Array:
        """Predict the target of new rows in original units, (n_rows,) or (n_rows, n_targets).

        Predictions beyond the target's public bounds are moved to them, which brings them nearer to
        every value that the target can have.  So are values twice as far from their column's center
        as any in the release can be: a model knows nothing of them, since longer rows were scaled
        down.
        """
        features = np.clip(self._features_of(X), *self._reach())
        predicted = features @ self.coef_.T + self.intercept_
        bounds = self.release_.bounds_of(self._goals)
        lower, upper = bounds[0] if self._flat else bounds.T
        return np.asarray(np.clip(predicted, lower, upper))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of predictions for new rows with ``y`` in their units.

        InputError for a ``y`` named ``cost`` where the target is a function, ``log1p(cost)``.
        """
        self._require_fitted()
        require_function_values(self.release_, self._goals, y)
        return float(super().score(X, y, sample_weight))

    def _reach(self) -> tuple[Array, Array]:
        # Smallest and largest values of the features that a prediction counts, in original units.
        start, units = int(self.release_.has_intercept), self._units
        lowest, largest = self.release_.ends[start + units.places].T
        middle, away = (largest + lowest) / 2, FAR * (largest - lowest) / 2
        ends = np.array([middle - away, middle + away])
        lower, upper = units.centers + units.half_ranges * ends
        return lower, upper

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@dataclass(eq=False, repr=False)
class PrivateLinearRegression(LinearModel):
    """Least squares within the principal components of the features that stand out of the noise.

    Those below ``noise_edge_``, in its units, are left out with a warning.  Without noise it is
    ordinary least squares.

    Attributes
    ----------
    n_components_ : int
        Directions that were used.
    """

    def _solve(self, problems: list[RidgeProblem]) -> list[Array]:
        evening = self._units.evening
        problems = [each.scaled(evening) for each in problems]
        values = problems[0].spectrum[0]
        above = int(np.sum(values > self.noise_edge_))
        # Without a known law of the noise nothing counts as hidden.
        if self.noise_edge_ > 0 and above < len(values):
            warn_noise(
                f"Directions that the noise hides are left out: {len(values) - above} of "
                f"{len(values)}. PrivateRidge uses each as far as it deserves."
            )
        # Directions that rounding cannot tell from zero are never inverted.
        self.n_components_ = min(above, int(np.sum(values > problems[0].rounding)))
        return [evening * problem.truncated_weights(self.n_components_) for problem in problems]

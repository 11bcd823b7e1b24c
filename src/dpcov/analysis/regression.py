"""Linear models of any target on any features of one release.

Promise: a release alone, in original units, with an intercept where the release has one.  All models of a release
together cost what the release cost.

The penalty of :class:`PrivateRidge` is measured in encoded units: every column, target included, is divided by half the
width of its public bounds, and the objective is a mean over rows, so that one alpha means the same for every column,
number of rows and target.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from statistics import NormalDist
from typing import Any, ClassVar, Literal

import numpy as np

from dpcov.analysis import ridge_path
from dpcov.analysis.base import Array, Regressor, ReleaseEstimator, require_numbers
from dpcov.analysis.features import Places, feature_columns, find_features, other_features
from dpcov.analysis.problems import InputError, UnknownNoiseError, warn_noise
from dpcov.analysis.reading import NoiseLevel, noise_level, original_map
from dpcov.analysis.ridge_path import NoisyMoment, RidgeProblem
from dpcov.analysis.second_door import Bounds, Terms, columns_of, table_of
from dpcov.artifact import Release
from dpcov.columns import EncodedColumn
from dpcov.errors import ReleaseError


@dataclass(eq=False, repr=False)
class LinearModel(Regressor, ReleaseEstimator):
    """What the regressions share: targets, units, prediction.

    Parameters
    ----------
    target : str or sequence of str, optional
        What to predict: features of the release.  ``fit(X, y)`` calls y ``"y"`` unless this names it.
    fit_intercept : bool
        Needs a release with an intercept.
    target_bounds : pair or sequence of pairs, optional
        Public bounds of y, where ``bounds`` are given instead of a schema.
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
        return terms, table_of(X, columns, names), {"targets": names, "flat": np.ndim(y) == 1}

    def _target_names(self, number: int) -> tuple[str, ...]:
        if self.target is None:
            return ("y",) if number == 1 else tuple(f"y{i}" for i in range(number))
        return (self.target,) if isinstance(self.target, str) else tuple(self.target)

    def _chosen(self, columns: Sequence[EncodedColumn]) -> Places:
        wanted = self._facts.get("targets", self.target)
        if wanted is None or len(wanted) == 0:
            raise InputError(
                "Say which feature of the release to predict: target=NAME, or a list of names; see release.feature_names."
            )
        self._targets = find_features(columns, wanted)
        self._flat = self._facts.get("flat", isinstance(wanted, str) and len(self._targets) == 1)
        others = other_features(columns, self._targets)
        chosen = others if self.features is None else find_features(columns, self.features)
        if np.intersect1d(chosen, self._targets).size:
            raise InputError("A target cannot be among its own features.")
        if not len(chosen):
            raise InputError("No feature is left to predict with.")
        return chosen

    def _read(self, release: Release) -> None:
        if self.fit_intercept and not release.has_intercept:
            raise ReleaseError(
                "This release has no intercept. Say fit_intercept=False, or release again with intercept = true."
            )
        self._view = _View(release, self._places, self.fit_intercept, self.post)
        self.noise_edge_ = self._view.edge
        self._solve([self._view.problem(target) for target in self._targets])

    def _solve(self, problems: list[RidgeProblem]) -> None:
        """Fit all targets and set ``coef_`` and ``intercept_``."""
        raise NotImplementedError

    def _set_coefficients(self, problems: list[RidgeProblem], weights: list[Array]) -> None:
        """Keep the solution in original units."""
        view = self._view
        found = [view.original(p, w, t) for p, w, t in zip(problems, weights, self._targets, strict=True)]
        coefficients, intercepts = np.array([c for c, _ in found]), np.array([b for _, b in found])
        self.coef_: Array = coefficients[0] if self._flat else coefficients
        self.intercept_: Any = float(intercepts[0]) if self._flat else intercepts
        directions = [p.error_direction(w) for p, w in zip(problems, weights, strict=True)]
        self.training_r2_: Any = self._flattened(
            [_explained(view.moment, p, u) for p, u in zip(problems, directions, strict=True)]
        )

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


class _View:
    """A release as a regression needs it: one second moment, maps into encoded units, the noise."""

    def __init__(self, release: Release, places: Places, fit_intercept: bool, post: Any) -> None:
        self.release, self.places, self.fit_intercept = release, places, fit_intercept
        self.columns = feature_columns(release)
        self.moment = release.second_moment(post)
        self.noise: NoiseLevel | None = noise_level(release)

    @property
    def edge(self) -> float:
        """Edge of the noise on the features' second moment."""
        return 0.0 if self.noise is None else self.noise.edge(len(self.places))

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
            features=self._rows[self.places],
            target=self._rows[target],
            has_intercept=self.fit_intercept,
        )

    @cached_property
    def noisy(self) -> NoisyMoment:
        """The unprocessed moment beside the one in use."""
        if self.noise is None:
            raise UnknownNoiseError(
                "This release does not say how its noise is distributed, so alpha cannot be chosen from it. Give alpha, "
                'or alpha="noise-free" where the noise is known to be negligible.'
            )
        return ridge_path.noisy_moment(self.release.second_moment("none"), self.moment, self.noise.variance)

    def original(self, problem: RidgeProblem, weights: Array, target: int) -> tuple[Array, float]:
        """Coefficients and intercept in original units."""
        columns = [self.columns[place] for place in self.places]
        half_ranges = np.array([column.half_range for column in columns])
        goal = self.columns[target]
        coefficients = weights * goal.half_range / half_ranges
        if not self.fit_intercept:
            return coefficients, 0.0
        centers = np.array([column.center for column in columns])
        intercept = goal.center + goal.half_range * problem.intercept(weights) - coefficients @ centers
        return coefficients, float(intercept)


def _explained(moment: Array, problem: RidgeProblem, u: Array) -> float:
    """Share of the target's variance (or mean square) that the model explains by the release itself."""
    total = float(problem.target @ problem.residual_moment @ problem.target)
    return 1.0 - float(u @ moment @ u) / total if total > 0 else float("nan")


@dataclass(eq=False, repr=False)
class PrivateLinearRegression(LinearModel):
    """Least squares, within the directions of the features that stand out of the noise.

    Inverting directions that hold little but noise would give coefficients of any size, so principal components of the
    (encoded) features below the noise edge are left out, with a warning.  Without noise it is ordinary least squares,
    with the smallest coefficients where columns are collinear.

    Parameters
    ----------
    target, fit_intercept, target_bounds
        What to predict and how; see :class:`LinearModel`.
    features, post, budget, ...
        As in :class:`~dpcov.analysis.base.ReleaseEstimator`.

    Attributes
    ----------
    coef_ : (p,) or (n_targets, p) float64
        One for each encoded feature (:meth:`get_encoded_names`), in original units.
    intercept_ : float or (n_targets,) float64
    n_components_ : int
        Directions that were used.
    noise_edge_ : float
        Variance, in encoded units, that noise alone may show in some direction; 0 where it is unknown.
    training_r2_ : float or (n_targets,)
        Share of variance explained according to the release, which the noise makes optimistic.
    """

    def _solve(self, problems: list[RidgeProblem]) -> None:
        values = problems[0].spectrum[0]
        floor = max(self.noise_edge_, float(values[-1]) * len(values) * np.finfo(np.float64).eps)
        self.n_components_ = int(np.sum(values > floor))
        hidden = int(np.sum(values <= self.noise_edge_))
        if hidden and self.noise_edge_ > 0:
            warn_noise(
                f"{hidden} of {len(values)} directions of the features lie within the noise of the release and are left "
                "out of the regression. PrivateRidge uses them as far as they deserve."
            )
        self._set_coefficients(problems, [p.truncated_weights(self.n_components_) for p in problems])


@dataclass(eq=False, repr=False)
class PrivateRidge(LinearModel):
    """Ridge regression whose penalty is chosen from the release itself.

    Minimizes the mean over rows of (y − x'w − b)² + alpha · |w|², in encoded units (see the module).  With
    ``sklearn.linear_model.Ridge`` on columns divided by their half ranges, alpha there is ``n_rows`` times alpha here.

    Parameters
    ----------
    alpha : float or "auto"
        ``"auto"`` takes the penalty with the lowest estimated risk on new rows: the release's own mean squared error, plus
        the cross term by which a model that follows the noise is too well pleased with itself, which the published law
        of the noise tells without any data (:mod:`dpcov.analysis.ridge_path`).
    alphas : sequence of float, optional
        The regularization path; chosen from the noise and the spectrum if not given.
    target, fit_intercept, target_bounds
        What to predict and how; see :class:`LinearModel`.
    features, post, budget, ...
        As in :class:`~dpcov.analysis.base.ReleaseEstimator`.

    Attributes
    ----------
    coef_, intercept_, noise_edge_, training_r2_
        As in :class:`PrivateLinearRegression`.
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

    def _warn_if_hidden(self, problem: RidgeProblem) -> None:
        if problem.spectrum[0][-1] <= self.noise_edge_:
            warn_noise(
                "Every direction of the features lies within the noise of the release: the coefficients say little about "
                "the data."
            )

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
                [view.original(problem, problem.weights(alpha), target)[0] for alpha in self.alphas_]
                for problem, target in zip(self._problems, self._targets, strict=True)
            ]
        )

    def error_bound(self, confidence: float = 0.95) -> Any:
        """How far the coefficients can be from those of the same penalty on the exact moments.

        Amin et al. (2019), Lemma 1, for the vector of intercept and coefficients in encoded units; a coefficient in
        original units is off by at most that times the target's half range over the feature's.

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

        Notes
        -----
        The norm of the noise exceeds 2 √(dv) + z √(2v), and that of a column √((d+1) v) + z √(2v), no more often than a
        normal number exceeds z (Gaussian isoperimetry).  What post-processing changed is public, and added.
        """
        self._require_fitted()
        require_numbers("confidence", confidence, 0.0, below=1.0)
        alphas = np.atleast_1d(self.alpha_)
        return self._flattened(
            [
                _error_bound(self._view, problem, weights, alpha, confidence)
                for problem, weights, alpha in zip(self._problems, self._weights, alphas, strict=True)
            ]
        )


def _error_bound(
    view: _View, problem: RidgeProblem, weights: Array, alpha: float, confidence: float
) -> float:
    noise, d = view.noise, len(view.moment)
    if noise is None or not noise.is_normal:
        raise UnknownNoiseError("This bound needs Gaussian noise of published variance, which this release lacks.")
    raw = view.release.second_moment("none")
    reach = NormalDist().inv_cdf(1 - (1 - confidence) / 2) * sqrt(2 * noise.variance)
    spectral_noise = 2 * sqrt(d * noise.variance) + reach
    rows = problem.features
    if problem.has_intercept:
        rows = np.vstack([np.eye(d)[:1], rows])
    length = float(np.linalg.norm(rows, 2))
    changed = view.moment - raw
    goal = float(np.linalg.norm(problem.target))
    target_noise = (sqrt((d + 1) * noise.variance) + reach) if goal == 1.0 else spectral_noise * goal
    penalty = np.diag([0.0] * problem.has_intercept + [alpha] * len(problem.features))
    seen = float(np.linalg.eigvalsh(rows @ raw @ rows.T + penalty)[0]) - length**2 * spectral_noise
    certain = alpha / (view.release.manifest.norm_bound**2 + alpha) if problem.has_intercept else alpha
    smallest = max(seen, certain)
    if smallest <= 0:
        return float("inf")
    whole = np.append(weights, problem.intercept(weights))
    return ridge_path.lemma_bound(
        target_error=float(np.linalg.norm(rows @ changed @ problem.target)) + length * target_noise,
        spectral_error=float(np.linalg.norm(rows @ changed @ rows.T, 2)) + length**2 * spectral_noise,
        weights_norm=float(np.linalg.norm(whole)),
        smallest_eigenvalue=smallest,
    )


@dataclass(eq=False, repr=False)
class PrivateComponentRegression(LinearModel):
    """Principal component regression: least squares on the largest components of the features.

    Parameters
    ----------
    n_components : int or "noise"
        How many components of the encoded features to keep; ``"noise"``: those that stand out of the noise.
    target, fit_intercept, target_bounds
        What to predict and how; see :class:`LinearModel`.
    features, post, budget, ...
        As in :class:`~dpcov.analysis.base.ReleaseEstimator`.

    Attributes
    ----------
    coef_, intercept_, n_components_, noise_edge_, training_r2_
        As in :class:`PrivateLinearRegression`.
    """

    n_components: int | Literal["noise"] = "noise"

    def _solve(self, problems: list[RidgeProblem]) -> None:
        values = problems[0].spectrum[0]
        usable = int(np.sum(values > values[-1] * len(values) * np.finfo(np.float64).eps))
        above = int(np.sum(values > self.noise_edge_))
        if self.n_components == "noise":
            self.n_components_ = min(above, usable)
        else:
            wanted = int(require_numbers("n_components", self.n_components, 1))
            if wanted > len(values):
                raise InputError(f"n_components={wanted} exceeds the {len(values)} features.")
            self.n_components_ = min(wanted, usable)
        if self.n_components_ > above or above == 0:
            warn_noise(
                f"Only {above} of {len(values)} components of the features stand out of the noise of the release."
            )
        self._set_coefficients(problems, [p.truncated_weights(self.n_components_) for p in problems])

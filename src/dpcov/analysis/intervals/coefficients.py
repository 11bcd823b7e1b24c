"""Give intervals for the coefficients of a linear regression, least squares or ridge.

With regressors Fz, target g'z and coefficients b the moment equations are
T(b) = F M g - (F M F' + alpha P) b = 0.  The values of a coefficient that are kept are those for
which some values of the others make T(b) no larger than its noise: a quadric (docs/inference.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, isnan, nan, sqrt

import numpy as np
from numpy.linalg import norm
from scipy.linalg import solve_triangular

from dpcov.analysis.features import Coding
from dpcov.analysis.intervals.law import MomentLaw
from dpcov.analysis.intervals.table import Interval
from dpcov.published.file.columns import INTERCEPT, centers_of, half_ranges_of
from dpcov.published.linalg.symmetric import Array, Places


@dataclass(frozen=True, kw_only=True, eq=False)
class Regression:
    """A regression in encoded units: F (q, d), g (d,) and the diagonal of alpha P (q,).

    ``functionals``, (m, q), of the coefficients are asked for; ``left``: the part of the rows that
    a fit leaves; ``known``: whether all products of its columns are.
    """

    law: MomentLaw
    regressors: Array
    target: Array
    penalty: Array
    functionals: Array
    left: float
    known: bool

    def line(self, k: int, name: str, offset: float, factor: float) -> Interval:
        """Interval for offset + functional'b of the k-th functional.

        ``factor`` multiplies the sampling variance.
        """
        law, functional, c, b = self.law, self.functionals[k], self._solved[k], self._solved[-1]
        # Collinear features do not determine the coefficient, nor do as many as rows.
        if not (np.isfinite(c + b).all() and self.known and self.left > 0):
            return Interval(name, -inf, inf, sampling_std=inf, privacy_std=inf)
        # The residual u = g - F'b and the variance of c'T(b), from noise and from sampling, are
        # functions of (b, 1).
        at = np.append(b, 1.0)
        privacy, sampling = self._privacy(c), self._sampling(c, at, factor)
        z, widening = law.reaches()
        # Kept are the (b, 1) with |c|² |T(b)|² <= z² Var(c'T(b)), in units of the noise on T.
        spread = (widening * privacy + sampling) / float(c @ self._units @ c)
        lower, upper = project_quadric(self._lengths - z * z * spread, functional)
        stds = (sqrt(max(0.0, float(at @ each @ at))) for each in (sampling, privacy))
        return Interval(name, lower, upper, float(functional @ b), *stds).scaled(1.0, offset)

    @cached_property
    def _system(self) -> Array:
        """The map from (b, 1) to T(b), (q, q + 1)."""
        F, moment = self.regressors, self.law.moment
        return np.column_stack(
            [-(F @ moment @ F.T + np.diag(self.penalty)), F @ moment @ self.target]
        )

    @cached_property
    def _solved(self) -> Array:
        """The c of every functional, and b last, (m + 1, q)."""
        A, y = -self._system[:, :-1], self._system[:, -1]
        try:
            return np.asarray(np.linalg.solve(A, np.column_stack([*self.functionals, y])).T)
        except np.linalg.LinAlgError:
            return np.full((len(self.functionals) + 1, len(y)), nan)

    @cached_property
    def _units(self) -> Array:
        """Covariance of the noise on T, (q, q)."""
        F = self.regressors
        units = F @ self.law.noise_metric @ F.T
        # Regressors that determine each other leave a penalty to decide.
        return np.asarray(units + np.eye(len(units)) * (1e-12 * np.trace(units)))

    @cached_property
    def _lengths(self) -> Array:
        """The form |T(b)|² of (b, 1)."""
        return np.asarray(self._system.T @ np.linalg.solve(self._units, self._system))

    @cached_property
    def _residual(self) -> Array:
        """The map from (b, 1) to u, (d, q + 1)."""
        return np.column_stack([-self.regressors.T, self.target])

    @cached_property
    def _forms(self) -> Callable[[Array], Array]:
        return self.law.privacy_forms(self._residual.T)

    @cached_property
    def _errors(self) -> Array:
        """The form E u² of (b, 1)."""
        return np.asarray(self._residual.T @ self.law.plausible @ self._residual)

    @cached_property
    def _thinned(self) -> Callable[[Array], Array]:
        return self.law.thinning.forms(self._residual.T)

    def _privacy(self, c: Array) -> Array:
        """Variance of c'T(b) by noise, a form of (b, 1)."""
        # A penalty is relative to variances, of which a common factor is not known.
        penalized = self.law.scaled.factor_std * np.append(self.penalty * c, 0.0)
        # F'c is what u is at (-c, 0).
        return np.asarray(self._forms(np.append(-c, 0.0)) + np.outer(penalized, penalized))

    def _sampling(self, c: Array, at: Array, factor: float) -> Array:
        """Variance of c'T(b) by sampling, a form of (b, 1); ``at`` is that of the fit."""
        law, L, direction = self.law, self._residual, self.regressors.T @ c
        weight, errors = float(direction @ law.plausible @ direction), self._errors
        if law.tails == "bounded":
            factor = _worst(law, (direction, weight), (L @ at, float(at @ errors @ at)))
        scale = law.sampling_factor / self.left
        if law.shares is None:
            return np.asarray(factor * (weight * errors * scale))
        return np.asarray(factor * self._thinned(direction) * scale)


def _worst(law: MomentLaw, *pairs: tuple[Array, float]) -> float:
    """Largest E[w² e²] / E[w²] E[e²] that bounds allow; vectors of w and e, with mean squares."""
    ratios = [law.largest(vector) ** 2 / square for vector, square in pairs if square > 0]
    return max(1.0, min(ratios, default=1.0))


def rows_left(law: MomentLaw, regressors: Array, penalty: Array) -> float:
    """Part of the rows that a fit leaves, by which squares of its residuals are too small."""
    # The fit moves the target's part along an eigenvector of the regressors by h, of 1 or less
    # where it is penalized, and of its square 1 - (1 - h)**2 goes.
    moment = regressors @ law.plausible @ regressors.T
    kept = penalty[:, None] * np.linalg.pinv(moment + np.diag(penalty), hermitian=True)
    return 1.0 - law.sampling_factor * float(len(penalty) - np.sum(kept * kept.T))


def project_quadric(form: Array, functional: Array) -> tuple[float, float]:
    """Range of functional'b over all b with (b, 1)' form (b, 1) <= 0; everything if unbounded.

    ``form`` is (q + 1, q + 1) float64, ``functional`` (q,) float64.
    """
    inner, mixed, constant = form[:-1, :-1], form[:-1, -1], float(form[-1, -1])
    # Units of coefficients differ.
    scale = np.sqrt(np.abs(np.diagonal(inner)))
    try:
        root = np.linalg.cholesky(inner / np.outer(scale, scale)) if scale.all() else inner
    except np.linalg.LinAlgError:
        return -inf, inf
    if not np.square(np.diagonal(root)).min() > 1e-13:
        return -inf, inf
    # With inner = R R', functional'b is between those of the center, -inner⁻¹ mixed, and the ends.
    sides = np.column_stack([functional, mixed]) / scale[:, None]
    along, beside = solve_triangular(root, sides, lower=True).T
    center, length = -float(along @ beside), float(along @ along)
    reach = sqrt(max(0.0, length * (float(beside @ beside) - constant)))
    return center - reach, center + reach


def coefficient_lines(
    law: MomentLaw,
    maps: Array,
    target: int,
    places: Places,
    coding: Coding,
    alpha: float,
    fit_intercept: bool,
) -> list[Interval]:
    """Lines of a regression; ``maps`` as in ``half_range_map``."""
    columns = [column for column in law.columns if column.kind != "intercept"]
    chosen = [columns[place] for place in places]
    goal, directions = columns[target], coding.directions
    regressors = directions @ maps[places]
    if fit_intercept:
        regressors = np.vstack([np.eye(1, len(law.moment)), regressors])
    penalty = np.array([0.0] * fit_intercept + [alpha] * len(directions))
    used = np.append(places, target) + int(law.has_intercept)
    known = not law.hardly_together(used)
    of_fit = law.restored.of_losses(used).of_pairs(used)
    left = rows_left(of_fit, regressors, penalty)
    start = int(not fit_intercept)
    fit = Regression(
        law=of_fit,
        regressors=regressors,
        target=maps[target],
        penalty=penalty,
        functionals=coding.functionals(chosen, goal)[start:, start:],
        left=left,
        known=known,
    )
    lines = []
    if fit_intercept:
        lines.append(fit.line(0, INTERCEPT, goal.center, error_factor(law, [target])))
    for place in map(int, places[coding.kept]):
        factor = error_factor(law, [target, place])
        line = fit.line(len(lines), columns[place].name, 0.0, factor)
        lines.append(line.times_unsure(_unit_std(law, target, place), law.reaches()[0]))
    if fit_intercept:
        moved = _moved_std(law, target, places[coding.kept], lines[1:])
        lines[0] = lines[0].plus_unsure(moved, law.reaches()[0])
    return lines


def _unit_std(law: MomentLaw, target: int, place: int) -> float:
    """Deviation of a ratio of the units of two features, over that ratio."""
    stds = law.scaled.stretch_stds
    if stds is None:
        return 0.0
    # Units are roots of what is uncertain.
    return float(np.hypot(stds[target + 1], stds[place + 1])) / 2


def _moved_std(law: MomentLaw, target: int, places: Places, slopes: list[Interval]) -> float:
    """Deviation of an intercept, the target's mean less slopes times means, by units alone."""
    stds = law.scaled.stretch_stds
    if stds is None:
        return 0.0
    columns = [law.columns[place] for place in places + 1]
    means = centers_of(columns) + half_ranges_of(columns) * law.means[places + 1]
    parts = np.array([slope.estimate for slope in slopes]) * means
    # All slopes have the target's unit.
    return float(np.hypot(stds[target + 1] * parts.sum(), norm(stds[places + 1] * parts))) / 2


def error_factor(law: MomentLaw, places: list[int]) -> float:
    """Largest root of the kurtosis, relative to 3, of the target and the feature."""
    # Halfway between errors of one variance, 1, and an elliptical law, the kurtosis itself.
    if not law.has_intercept:
        return 1.0
    shapes = [law.shape(place + 1) for place in places]
    return max([1.0, *(sqrt(shape.kurtosis) for shape in shapes if isnan(shape.skew_slope))])

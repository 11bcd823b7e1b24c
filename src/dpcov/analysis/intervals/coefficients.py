"""Give intervals for the coefficients of a linear regression, least squares or ridge.

With regressors Fz, target g'z and coefficients b the moment equations are
T(b) = F M g - (F M F' + alpha P) b = 0.  The values of a coefficient that are kept are those for
which some values of the others make T(b) no larger than its noise: a quadric (docs/inference.md).
"""

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.linalg import norm

from dpcov.analysis.features import Coding
from dpcov.analysis.intervals.law import MomentLaw
from dpcov.analysis.intervals.table import Interval, solve_quadratic
from dpcov.published.columns import INTERCEPT, centers_of, half_ranges_of
from dpcov.published.linalg.symmetric import Array, Places


class Regression(NamedTuple):
    """A regression in encoded units: F (q, d), g (d,) and the diagonal of alpha P (q,).

    ``left``: the part of the rows that a fit leaves; ``known``: whether all products of its
    columns are.
    """

    law: MomentLaw
    regressors: Array
    target: Array
    penalty: Array
    left: float
    known: bool

    def line(self, name: str, functional: Array, offset: float, factor: float) -> Interval:
        """Interval for offset + functional'b; ``factor`` multiplies the sampling variance."""
        law, F, g = self.law, self.regressors, self.target
        A, y = F @ law.moment @ F.T + np.diag(self.penalty), F @ law.moment @ g
        try:
            c, b = np.linalg.solve(A, np.column_stack([functional, y])).T
            determined = bool(np.isfinite(c).all() and np.isfinite(b).all() and c.any())
        except np.linalg.LinAlgError:
            determined = False
        # Collinear features do not determine the coefficient, nor do as many as rows.
        if not (determined and self.known and self.left > 0):
            return Interval(name, -inf, inf, sampling_std=inf, privacy_std=inf)
        # The residual u = g - F'b and the variance of c'T(b), from noise and from sampling, are
        # functions of (b, 1).
        at = np.append(b, 1.0)
        privacy, sampling = self._privacy(c), self._sampling(c, at, factor)
        z, widening = law.reaches()
        system, units = np.column_stack([-A, y]), F @ law.noise_metric @ F.T
        # Regressors that determine each other leave a penalty to decide.
        units += np.eye(len(units)) * (1e-12 * np.trace(units))
        # Kept are the (b, 1) with |c|² |T(b)|² <= z² Var(c'T(b)), in units of the noise on T.
        spread = (widening * privacy + sampling) / float(c @ units @ c)
        lengths = system.T @ np.linalg.solve(units, system)
        lower, upper = project_quadric(lengths - z * z * spread, functional)
        stds = (sqrt(max(0.0, float(at @ each @ at))) for each in (sampling, privacy))
        return Interval(name, lower, upper, float(functional @ b), *stds).scaled(1.0, offset)

    @property
    def _residual(self) -> Array:
        """The map from (b, 1) to u, (d, q + 1)."""
        return np.column_stack([-self.regressors.T, self.target])

    def _privacy(self, c: Array) -> Array:
        """Variance of c'T(b) by noise, a form of (b, 1)."""
        law, L = self.law, self._residual
        # A penalty is relative to variances, of which a common factor is not known.
        penalized = law.scaled.factor_std * np.append(self.penalty * c, 0.0)
        form = L.T @ law.privacy_form(self.regressors.T @ c) @ L
        return np.asarray(form + np.outer(penalized, penalized))

    def _sampling(self, c: Array, at: Array, factor: float) -> Array:
        """Variance of c'T(b) by sampling, a form of (b, 1); ``at`` is that of the fit."""
        law, L, direction = self.law, self._residual, self.regressors.T @ c
        weight, errors = float(direction @ law.plausible @ direction), L.T @ law.plausible @ L
        if law.tails == "bounded":
            factor = _worst(law, (direction, weight), (L @ at, float(at @ errors @ at)))
        scale = law.sampling_factor / self.left
        if law.shares is None:
            return np.asarray(factor * (weight * errors * scale))
        return np.asarray(factor * (L.T @ law.thinned(direction) @ L) * scale)


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
    # Coordinates in which functional'b is the k-th.
    k = int(np.argmax(np.abs(functional)))
    change = np.eye(len(form))
    change[k, :-1] = -functional / functional[k]
    change[k, k] = 1.0 / functional[k]
    form = change.T @ form @ change
    others = [i for i in range(len(form) - 1) if i != k]
    ends = [k, len(form) - 1]
    reduced = form[np.ix_(ends, ends)]
    if others:
        inner, mixed = form[np.ix_(others, others)], form[np.ix_(others, ends)]
        # Units of coefficients differ.
        scale = np.sqrt(np.abs(np.diagonal(inner)))
        if not scale.all() or np.linalg.eigvalsh(inner / np.outer(scale, scale))[0] <= 1e-13:
            return -inf, inf
        reduced = reduced - mixed.T @ np.linalg.solve(inner, mixed)
    return solve_quadratic(float(reduced[0, 0]), -float(reduced[0, 1]), float(reduced[1, 1]))


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
    fit = Regression(of_fit, regressors, maps[target], penalty, left, known)
    lines = []
    if fit_intercept:
        centers = centers_of(chosen) / half_ranges_of(chosen)
        offsets = coding.reference - coding.contrasts.T @ centers[coding.kept]
        functional = goal.half_range * np.append(1.0, directions @ offsets)
        lines.append(fit.line(INTERCEPT, functional, goal.center, error_factor(law, [target])))
    for place, contrast in zip(map(int, places[coding.kept]), coding.contrasts, strict=True):
        scale = goal.half_range / columns[place].half_range
        functional = np.append([0.0] * fit_intercept, directions @ contrast) * scale
        factor = error_factor(law, [target, place])
        line = fit.line(columns[place].name, functional, 0.0, factor)
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
    return max([1.0, *(sqrt(shape.kurtosis) for shape in shapes if shape.skew_slope is None)])

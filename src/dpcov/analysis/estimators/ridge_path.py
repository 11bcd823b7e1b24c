"""Solve ridge regression from a noisy second moment: the whole path, and every point's risk.

Matrices only: no releases, no units.  Rows are z in R^d with second moment M; features are L z, the
target is τ'z, and the model's error on a row is u'z with u = L'w + e w₀ − τ, where e picks the
intercept, if there is one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpcov.errors import NumericError
from dpcov.published.linalg.symmetric import Array, eigh

N_ALPHAS = 60
# Penalties below this share of the noise edge leave directions of noise nearly unpenalized; where
# rows were mapped before noise was added, there is less of it where values vary little (measured).
SMALLEST_SHARE_OF_EDGE, SHARE_OF_MAPPED = 0.25, 0.01


class RidgeProblem:
    """One target τ (d,), penalized features L (p, d), and an estimate of M (d, d).

    ``has_intercept``: the first coordinate of z is an intercept that the model has, unpenalized.
    ``spectrum`` has eigenvalues (p,), ascending, and eigenvectors of the features' second moment;
    up to ``rounding`` they may be zero.
    """

    def __init__(self, moment: Array, features: Array, target: Array, has_intercept: bool) -> None:
        self.moment, self.features, self.target = moment, features, target
        self.has_intercept = has_intercept
        # What the intercept explains of every coordinate of z, (d,).
        self._means = np.zeros(len(moment))
        if has_intercept:
            if not moment[0, 0] > 0:
                raise NumericError(
                    "The noise hides the number of rows, so there is no intercept. "
                    "Use more rows or a larger budget."
                )
            self._means = moment[0] / moment[0, 0]
        rest = moment - np.outer(self._means, self._means) * moment[0, 0]
        self.spectrum = eigh(features @ rest @ features.T)
        # Of what was subtracted, too: rounding cannot tell smaller eigenvalues from zero.
        sizes = float(np.abs(_squares(features, moment)).sum() + np.abs(self.spectrum[0]).sum())
        self.rounding = len(moment) * np.finfo(np.float64).eps * sizes
        # The eigenvectors' products with the target, (p,).
        self._projections = self.spectrum[1].T @ (features @ rest @ target)

    def at(self, moment: Array) -> "RidgeProblem":
        """The same with another estimate of M."""
        return RidgeProblem(moment, self.features, self.target, self.has_intercept)

    def scaled(self, scales: Array) -> "RidgeProblem":
        """The same with features times ``scales``, (p,)."""
        if (scales == 1.0).all():
            return self
        features = scales[:, None] * self.features
        return RidgeProblem(self.moment, features, self.target, self.has_intercept)

    def weights(self, alpha: float) -> Array:
        """Minimizer of E[(target - w'features - w_0)^2] + alpha |w|^2, shape (p,)."""
        return np.asarray(self.path(np.array([alpha]))[0])

    def path(self, alphas: Array) -> Array:
        """The minimizers for several penalties, (n_alphas, p)."""
        values, vectors = self.spectrum
        shifted = values + alphas[:, None]
        if np.any(alphas[shifted.min(axis=1, initial=1.0) <= 0] > 0):
            problem = "This alpha does not outweigh how indefinite the matrix is; use a larger one"
            raise NumericError(f'{problem}, or post="psd".')
        # Directions that rounding cannot tell from zero get no weight.
        kept = np.abs(shifted) > self.rounding
        goal = np.broadcast_to(self._projections, shifted.shape)
        scaled = np.divide(goal, shifted, out=np.zeros_like(shifted), where=kept)
        return np.asarray(scaled @ vectors.T)

    def truncated_weights(self, n_components: int) -> Array:
        """Least squares within the span of the largest principal components, shape (p,)."""
        values, vectors = self.spectrum
        kept = slice(len(values) - n_components, None)
        return np.asarray(vectors[:, kept] @ (self._projections[kept] / values[kept]))

    def intercept(self, weights: Array) -> float:
        """The intercept that goes with the weights; zero without one."""
        return float(self._means @ (self.target - self.features.T @ weights))

    def mean_square(self, weights: Array) -> float:
        """Mean squared error of a model with these weights, as far as M knows."""
        return float(_squares(self.error_directions(weights[None, :]), self.moment)[0])

    @property
    def whole(self) -> float:
        """Mean squared error without features; zero where rounding cannot tell it from that."""
        found = self.mean_square(np.zeros(len(self.features)))
        about_zero = float(self.target @ self.moment @ self.target)
        return found if found > len(self.moment) * np.finfo(np.float64).eps * about_zero else 0.0

    def error_directions(self, weights: Array) -> Array:
        """The u of the module's text for every row of weights, (n, d)."""
        u = weights @ self.features - self.target
        if self.has_intercept:
            u[:, 0] -= u @ self._means
        return np.asarray(u)


class Probe(NamedTuple):
    """Noise, (d, d), and what it makes of a problem: at a small step along it, and against it."""

    noise: Array
    after: RidgeProblem
    before: RidgeProblem


def cross_terms(probes: Sequence[Probe], alphas: Array, step: float) -> Array:
    """What u'M̂u falls short by because u follows the noise, -E[u'Wu], (n_alphas,).

    By Stein's lemma it is a derivative along made-up noise (Ramani, Blu, Unser 2008), in whichever
    way the estimate was made.
    """
    found = np.zeros(len(alphas))
    for noise, after, before in probes:
        ends = (each.error_directions(each.path(alphas)) for each in (after, before))
        first, second = (_squares(u, noise) for u in ends)
        found -= (first - second) / (2 * step)
    return found / len(probes)


def risks(
    problem: RidgeProblem, moment: Array, alphas: Array, n_rows: float, cross: Array | float = 0.0
) -> Array:
    """Estimated mean squared error on new rows, (n_alphas,), by a moment and a cross term.

    ``n_rows`` counts independent rows of one weight.  Infinite where there are fewer of them than
    a model has parameters.
    """
    found = _squares(problem.error_directions(problem.path(alphas)), moment) + cross
    if not np.isfinite(n_rows):
        return found
    # The rows' own optimism: generalized cross-validation (Golub, Heath, Wahba 1979).
    values = np.maximum(problem.spectrum[0], 0.0)
    # A direction without variance has no parameter, whatever the penalty.
    whole = np.maximum(values + alphas[:, None], np.finfo(np.float64).tiny)
    parameters = np.sum(values / whole, axis=1) + problem.has_intercept
    left = np.maximum(1.0 - parameters / n_rows, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = found + np.maximum(found, 0.0) * (left**-2 - 1.0)
    return np.where(left > 0, grown, np.inf)


def _squares(u: Array, matrix: Array) -> Array:
    return np.asarray(np.sum((u @ matrix) * u, axis=1))


def default_alphas(problem: RidgeProblem, edge: float, *, is_mapped: bool = False) -> Array:
    """Penalties from where noise no longer dominates to where nothing is left of the model."""
    values = problem.spectrum[0]
    largest = max(float(values[-1]), edge, np.finfo(np.float64).tiny ** 0.5)
    share = SHARE_OF_MAPPED if is_mapped else SMALLEST_SHARE_OF_EDGE
    smallest = max(share * edge, 1e-10 * largest, -1.05 * float(values[0]))
    return np.geomspace(smallest, max(100.0 * largest, 10.0 * smallest), N_ALPHAS)

"""Solve ridge regression from a noisy second moment: the whole path, and every point's risk.

Matrices only: no releases, no units.  Rows are z in R^d with second moment M; features are L z, the
target is τ'z, and the model's error on a row is u'z with u = L'w + e w₀ − τ, where e picks the
intercept, if there is one.
"""

from functools import cached_property
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
    ``spectrum`` has eigenvalues (p,), ascending, and eigenvectors of the features' second moment.
    """

    def __init__(self, moment: Array, features: Array, target: Array, has_intercept: bool) -> None:
        self.moment, self.features, self.target = moment, features, target
        self.has_intercept = has_intercept
        # What the intercept explains of every coordinate of z, (d,).
        self._means = np.zeros(len(moment))
        if has_intercept:
            if not moment[0, 0] > 0:
                raise NumericError("The noise hides the number of rows, so there is no intercept.")
            self._means = moment[0] / moment[0, 0]
        rest = moment - np.outer(self._means, self._means) * moment[0, 0]
        self.spectrum = eigh(features @ rest @ features.T)
        # The eigenvectors' products with the target, (p,).
        self._projections = self.spectrum[1].T @ (features @ rest @ target)

    def weights(self, alpha: float) -> Array:
        """Minimizer of E[(target - w'features - w_0)^2] + alpha |w|^2, shape (p,)."""
        values, vectors = self.spectrum
        largest = max(float(np.abs(values).max(initial=0.0)), np.finfo(np.float64).tiny)
        shifted = values + alpha
        if alpha > 0 and shifted.min(initial=1.0) <= 0:
            problem = "This alpha does not outweigh how indefinite the matrix is; use a larger one"
            raise NumericError(f'{problem}, or post="psd".')
        # Directions that rounding cannot tell from zero get no weight.
        kept = np.abs(shifted) > largest * len(values) * np.finfo(np.float64).eps
        scaled = np.divide(self._projections, shifted, out=np.zeros_like(shifted), where=kept)
        return np.asarray(vectors @ scaled)

    def truncated_weights(self, n_components: int) -> Array:
        """Least squares within the span of the largest principal components, shape (p,)."""
        values, vectors = self.spectrum
        kept = slice(len(values) - n_components, None)
        return np.asarray(vectors[:, kept] @ (self._projections[kept] / values[kept]))

    def intercept(self, weights: Array) -> float:
        """The intercept that goes with the weights; zero without one."""
        return float(self._means @ (self.target - self.features.T @ weights))

    def error_direction(self, weights: Array) -> Array:
        """The u of the module's text, (d,)."""
        u = self.features.T @ weights - self.target
        if self.has_intercept:
            u[0] += self.intercept(weights)
        return np.asarray(u)

    @cached_property
    def sensitivity_roots(self) -> tuple[Array, Array]:
        """Columns G (d, p) and g (d, 0 or 1) with Q = G diag(1 / (values + alpha)) G' + g g'."""
        roots = self.features.T @ self.spectrum[1]
        if not self.has_intercept:
            return roots, np.zeros((len(self.moment), 0))
        roots[0] -= self._means @ roots
        return roots, np.eye(len(self.moment))[:, :1] / np.sqrt(self.moment[0, 0])


class NoisyMoment(NamedTuple):
    """The eigensystem of the unprocessed second moment M̂, and how an estimate follows it.

    ``following`` is the matrix Φ of ``cross_term``, ``variance`` the v of off-diagonal entries.
    """

    values: Array
    vectors: Array
    following: Array
    variance: float

    def mean_square(self, u: Array) -> float:
        """u'M̂u, unbiased for a u that does not depend on the noise."""
        return float(self.values @ (self.vectors.T @ u) ** 2)

    # For Gaussian noise W of variance v off and 2v on the diagonal, Stein's lemma gives E[u'Wu].
    # With Q the derivative of −u to the gradient (Q = L'(L f L' + αI)^{-1} L without an intercept)
    # and du = −Q df u,
    #     E[u'Wu] = −2v E Σ_kl Φ_kl (ũ_l² Q̃_kk + ũ_k ũ_l Q̃_kl)
    # in the eigenbasis of M̂, where df = V (Φ ∘ V'dM̂V) V' for the estimate f (Daleckii and Krein).
    def cross_term(self, problem: RidgeProblem, u: Array, alpha: float) -> float:
        """What u'M̂u falls short by because u follows the noise: −E[u'Wu]."""
        roots, first = problem.sensitivity_roots
        scaled = np.column_stack([roots / np.sqrt(problem.spectrum[0] + alpha), first])
        rotated, turned = self.vectors.T @ scaled, self.vectors.T @ u
        diagonal = np.sum(rotated**2, axis=1) @ self.following @ turned**2
        weighted = turned[:, None] * rotated
        mixed = np.sum(weighted * (self.following @ weighted))
        return 2.0 * self.variance * float(diagonal + mixed)


# Φ_kl = (f_k − f_l)/(λ_k − λ_l) for an f that acts on eigenvalues; 1 without post-processing.
# Where f looks at several eigenvalues, as shrinkage does, Φ is formed from those it ended with,
# which leaves out its smaller part.
def noisy_moment(
    raw: Array, estimate: Array, variance: float, back: Array | None = None
) -> NoisyMoment:
    """Relate an estimate to the unprocessed second moment that it was made of.

    Noise is isotropic in coordinates of which encoded rows are ``back``, (d, d), times.
    """
    if back is not None:
        forth = np.linalg.inv(back)
        raw, estimate = forth @ raw @ forth.T, forth @ estimate @ forth.T
    values, vectors = eigh(raw)
    followed = np.einsum("ik,ij,jk->k", vectors, estimate, vectors, optimize=True)
    gaps = values[:, None] - values[None, :]
    close = np.abs(gaps) <= 1e-12 * max(1e-300, float(np.abs(values).max()))
    ratio = (followed[:, None] - followed[None, :]) / np.where(close, 1.0, gaps)
    slopes = np.gradient(followed, values) if np.all(np.diff(values) > 0) else np.ones(len(values))
    ratio = np.where(close, (slopes[:, None] + slopes[None, :]) / 2, ratio)
    turned = vectors if back is None else back @ vectors
    return NoisyMoment(values, turned, np.clip(ratio, 0.0, 1.0), variance)


def risk(problem: RidgeProblem, noisy: NoisyMoment, alpha: float, n_rows: float) -> float:
    """Estimated mean squared error of the model on new rows."""
    u = problem.error_direction(problem.weights(alpha))
    value = noisy.mean_square(u) + noisy.cross_term(problem, u, alpha)
    if not np.isfinite(n_rows):
        return value
    # The rows' own optimism: generalized cross-validation (Golub, Heath, Wahba 1979).
    values = np.maximum(problem.spectrum[0], 0.0)
    parameters = float(np.sum(values / (values + alpha))) + problem.has_intercept
    left = 1.0 - parameters / n_rows
    return value + max(value, 0.0) * (left**-2 - 1.0) if left > 0 else float("inf")


def default_alphas(problem: RidgeProblem, edge: float, *, is_mapped: bool = False) -> Array:
    """Penalties from where noise no longer dominates to where nothing is left of the model."""
    values = problem.spectrum[0]
    largest = max(float(values[-1]), edge, np.finfo(np.float64).tiny ** 0.5)
    share = SHARE_OF_MAPPED if is_mapped else SMALLEST_SHARE_OF_EDGE
    smallest = max(share * edge, 1e-10 * largest, -1.05 * float(values[0]))
    return np.geomspace(smallest, max(100.0 * largest, 10.0 * smallest), N_ALPHAS)

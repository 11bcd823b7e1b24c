"""Post-processings: what a release can be read as, at no privacy cost, one row of a table each.

Contract: reads noisy numbers only, so every choice made here can be changed later.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt

import numpy as np

from dpcov.errors import UsageError
from dpcov.privacy.options import plain
from dpcov.published.estimate.shrunk import centered_covariance, shrunk, shrunk_covariance
from dpcov.published.estimate.threshold import RULES, choose_threshold, threshold_matrix
from dpcov.published.estimate.unit import UnitEstimate
from dpcov.published.linalg.project import clip_eigenvalues, project_psd, project_psd_trace
from dpcov.published.linalg.symmetric import Array
from dpcov.published.statistics import Post, PostOptions

_DEFAULT = PostOptions()


@dataclass(frozen=True, kw_only=True, eq=False)
class Noisy:
    """A noisy second moment, or the covariance made of it, and what is needed to improve it.

    ``unit`` has the law of the noise; ``trace_bound`` bounds trace and eigenvalues of the truth;
    ``intercept`` is what second moments of a covariance were divided by; ``is_centered`` says that
    columns had centers of their own, so that means are short.
    """

    unit: UnitEstimate
    matrix: Array
    trace_bound: float = 1.0
    options: PostOptions = _DEFAULT
    intercept: float | None = None
    is_centered: bool = False

    @cached_property
    def shrunk(self) -> tuple[Array, float | None]:
        """Optimally shrunk matrix, and its expected squared error where that is known."""
        if self.intercept is None:
            return shrunk(self.unit)[:2]
        read = centered_covariance if self.is_centered else shrunk_covariance
        return read(self.unit, self.intercept), None


@dataclass(frozen=True, kw_only=True)
class PostProcessing:
    """One way to read a release: what it does, in words and to a matrix."""

    words: str
    apply: Callable[[Noisy], Array]
    # Expected squared Frobenius error caused by the noise, where that is known.
    squared_error: Callable[[Noisy], float | None] = lambda noisy: None
    # Whether it projects on a set that holds the truth: no error grows.
    is_contraction: bool = False
    may_be_indefinite: bool = False
    # Whether strata of noise alone are estimated as zero, so that their noise does not count.
    drops_empty: bool = False


def _noise(noisy: Noisy) -> float | None:
    d, unit = len(noisy.matrix), noisy.unit
    if unit.noise_variance is None or unit.off_diagonal_variance is None:
        return None
    return unit.noise_variance * d + unit.off_diagonal_variance * d * (d - 1)


def _projected(noisy: Noisy) -> Array:
    bound = noisy.trace_bound
    if noisy.options.trace == "noisy":
        bound = min(bound, max(0.0, float(np.trace(noisy.matrix))))
    return project_psd_trace(noisy.matrix, bound)


def _thresholded(noisy: Noisy) -> Array:
    # Wang, Xu, Yang 2019, Algorithm 1: threshold, then set negative eigenvalues to zero.
    unit, options, scale = noisy.unit, noisy.options, 1 / (noisy.intercept or 1.0)
    if not unit.noise_is_normal or not unit.off_diagonal_variance:
        raise UsageError("Noise that is not Gaussian cannot be thresholded. Use another post.")
    rules = RULES if options.rule == "best" else (options.rule,)
    variance = unit.off_diagonal_variance * scale**2
    if options.gamma is None:
        chosen = choose_threshold(noisy.matrix, off_diagonal_variance=variance, rules=rules)
        return project_psd(chosen.matrix)
    # Equation (10), γ√(log p/n) + 4·noise_std·√(log p), with the noise that was really used.
    log_p = log(len(noisy.matrix))
    level = scale * options.gamma * sqrt(log_p / unit.n_rows) + 4 * sqrt(variance * log_p)
    return project_psd(threshold_matrix(noisy.matrix, level, rules[0]))


POSTS: dict[Post, PostProcessing] = {
    "none": PostProcessing(
        words="none: the noisy matrix itself, unbiased, perhaps not positive semidefinite",
        apply=lambda noisy: noisy.matrix,
        squared_error=_noise,
        may_be_indefinite=True,
    ),
    "psd": PostProcessing(
        words="negative eigenvalues were set to zero",
        apply=lambda noisy: project_psd(noisy.matrix),
        is_contraction=True,
    ),
    "clip": PostProcessing(
        words="eigenvalues were clipped to what the public bounds allow",
        apply=lambda noisy: clip_eigenvalues(noisy.matrix, 0.0, noisy.trace_bound),
        is_contraction=True,
    ),
    "projection": PostProcessing(
        words="the nearest positive semidefinite matrix within the private trace was taken",
        apply=_projected,
        is_contraction=True,
    ),
    "shrink": PostProcessing(
        words="optimal shrinkage: directions that the noise dominates were pulled toward zero",
        apply=lambda noisy: noisy.shrunk[0],
        squared_error=lambda noisy: noisy.shrunk[1],
        drops_empty=True,
    ),
    "threshold": PostProcessing(
        words="small covariances were set to zero, then negative eigenvalues", apply=_thresholded
    ),
}


def find_post(name: Post) -> PostProcessing:
    """Look a post-processing up by name, or say which ones exist."""
    return POSTS[plain("post", name, Post)]

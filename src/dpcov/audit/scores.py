"""Scores that tell the releases of two tables apart: learned on some releases, applied to others.

Contract: a score is one number per release, by a rule that was fixed without that release.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcov.audit.outcomes import Outcomes
from dpcov.published.linalg.symmetric import Array

# Intervals of every feature, each with about as many releases.
BINS = 16
# Trees, how far each one goes, and how many releases' worth of doubt a leaf has.
ROUNDS, RATE, PRIOR = 40, 0.1, 10.0
# In units of a column's variance; small enough to see noise that was used twice.
_RIDGE = 1e-12

Bins = NDArray[np.intp]
Score = Callable[[Outcomes], Array]


def learn(first: Outcomes, second: Outcomes) -> Mapping[str, Score]:
    """Learn all scores from releases of two tables; large scores speak for the first."""
    trees = _Trees.grown(_features(first), _features(second))
    direction = projection(first.numbers, second.numbers)
    middle = 0.5 * (first.numbers.mean(axis=0) + second.numbers.mean(axis=0))
    return {
        "trees": lambda outcomes: trees.score(_features(outcomes)),
        "projection": lambda outcomes: np.asarray((outcomes.numbers - middle) @ direction),
    }


def _features(outcomes: Outcomes) -> Array:
    # All that was published, the spectrum of the matrix, its leading direction, what was chosen.
    values, vectors = np.linalg.eigh(outcomes.matrices)
    rows, columns = np.triu_indices(values.shape[1])
    leading = vectors[:, rows, -1] * vectors[:, columns, -1]
    trace = values.sum(axis=1, keepdims=True)
    parts = [outcomes.numbers, outcomes.low_bits, values, trace, leading, outcomes.labels[:, None]]
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True, kw_only=True)
class _Trees:
    """A sum of trees with two splits: the log-likelihood ratio by gradient boosting.

    Functions of one feature and of two: independent pieces of a release add up, noise of any law
    shows, and so does what two numbers have in common.
    """

    edges: list[Array]
    splits: list[tuple[tuple[int, int], tuple[int, int]]]
    leaves: list[Array]

    @classmethod
    def grown(cls, first: Array, second: Array) -> "_Trees":
        features = np.concatenate([first, second])
        truth = np.repeat([1.0, 0.0], [len(first), len(second)])
        edges = [_edges(column) for column in features.T]
        trees = cls(edges=edges, splits=[], leaves=[])
        binned = trees._binned(features)
        score = np.zeros(len(truth))
        for _ in range(ROUNDS):
            guess = 1.0 / (1.0 + np.exp(-score))
            weights = np.stack([truth - guess, guess * (1.0 - guess)])
            one = _best_split(binned, weights, np.zeros(len(truth), dtype=np.intp))
            other = _best_split(binned, weights, _sides(binned, one))
            leaf = 2 * _sides(binned, one) + _sides(binned, other)
            slope, curvature = (np.bincount(leaf, each, minlength=4) for each in weights)
            trees.splits.append((one, other))
            trees.leaves.append(RATE * slope / (curvature + PRIOR))
            score += trees.leaves[-1][leaf]
        return trees

    def score(self, features: Array) -> Array:
        """One number per release."""
        binned, score = self._binned(features), np.zeros(len(features))
        for (one, other), leaves in zip(self.splits, self.leaves, strict=True):
            score += leaves[2 * _sides(binned, one) + _sides(binned, other)]
        return score

    def _binned(self, features: Array) -> Bins:
        columns = zip(self.edges, features.T, strict=True)
        return np.array(
            [np.searchsorted(edges, column, side="right") for edges, column in columns],
            dtype=np.intp,
        )


def _best_split(binned: Bins, weights: Array, node: NDArray[np.intp]) -> tuple[int, int]:
    # Feature and interval that split two nodes, by the quadratic gain of both (Friedman 2001).
    shape = (2, len(binned), BINS)
    cells = (node * len(binned) + np.arange(len(binned))[:, None]) * BINS + binned
    slope, curvature = (
        np.bincount(cells.ravel(), np.tile(each, len(binned)), minlength=int(np.prod(shape)))
        .reshape(shape)
        .cumsum(axis=2)
        for each in weights
    )
    rest, other = slope[..., -1:] - slope, curvature[..., -1:] - curvature
    gain = (slope**2 / (curvature + PRIOR) + rest**2 / (other + PRIOR)).sum(axis=0)
    feature, interval = np.unravel_index(int(np.argmax(gain)), gain.shape)
    return int(feature), int(interval)


def _sides(binned: Bins, split: tuple[int, int]) -> NDArray[np.intp]:
    return np.asarray(binned[split[0]] > split[1], dtype=np.intp)


def _edges(values: Array) -> Array:
    # Ends of the intervals: every value where there are few, else quantiles.
    distinct = np.unique(values)
    if len(distinct) <= BINS:
        return np.asarray(distinct[1:], dtype=np.float64)
    return np.unique(np.quantile(values, np.linspace(0.0, 1.0, BINS + 1)[1:-1]))


def projection(first: Array, second: Array) -> NDArray[np.float64]:
    """Fisher's direction: the likelihood ratio of normal laws with one covariance depends on it."""
    pooled = 0.5 * (_covariance(first) + _covariance(second))
    scale = np.sqrt(np.diag(pooled))
    scale[scale == 0] = 1.0
    shift = (first.mean(axis=0) - second.mean(axis=0)) / scale
    solved, *_ = np.linalg.lstsq(
        pooled / np.outer(scale, scale) + _RIDGE * np.eye(len(scale)), shift, rcond=None
    )
    return np.asarray(solved / scale)


def _covariance(values: Array) -> Array:
    return np.atleast_2d(np.cov(values, rowvar=False))

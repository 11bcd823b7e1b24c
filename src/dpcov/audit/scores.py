"""Scores that tell the releases of two tables apart: learned on some releases, applied to others.

Contract: a score is one number per release, computed by a rule that was fixed without that release.  Which
scores are tried decides how much a bound finds, never whether it holds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcov.audit.outcomes import Outcomes
from dpcov.published.linalg.symmetric import Array

MOST_COLUMNS = 40
"""Single columns that are tried by themselves: those whose means differ most."""

_RIDGE = 1e-12
"""In units of a column's variance; small enough to see noise that was used twice."""

_LARGEST = 1e100

Rule = Callable[[Outcomes], Array]


@dataclass(frozen=True, kw_only=True)
class ScoreBook:
    """Rules for scores and what they are called."""

    names: tuple[str, ...]
    rules: tuple[Rule, ...]

    def of(self, outcomes: Outcomes) -> Array:
        """(draws, n_scores) scores."""
        scores = np.stack([rule(outcomes) for rule in self.rules], axis=1)
        return np.asarray(np.clip(scores, -_LARGEST, _LARGEST), dtype=np.float64)


def learn(first: Outcomes, second: Outcomes) -> ScoreBook:
    """Fix the rules of all scores on the training releases of two tables."""
    named = [*_label_rules(first, second), *_eigenvalue_rules()]
    named += [*_direction_rules(first, second), *_spread_rules(first, second)]
    for kind, part in (("number", _numbers), ("low bits", _low_bits)):
        named += _column_rules(part, first, second, kind)
    if first.numbers.shape[1]:
        named += _projection_rules(first, second)
    names, rules = zip(*named, strict=True)
    return ScoreBook(names=names, rules=rules)


def _numbers(outcomes: Outcomes) -> Array:
    return outcomes.numbers


def _low_bits(outcomes: Outcomes) -> Array:
    return outcomes.low_bits


def _label_rules(first: Outcomes, second: Outcomes) -> list[tuple[str, Rule]]:
    """Log-likelihood ratio of what was chosen: shapes, shells, notes."""
    size = 1 + int(max(first.labels.max(), second.labels.max()))
    counts = [np.bincount(each.labels, minlength=size) + 0.5 for each in (first, second)]
    ratio = np.log(counts[0] / len(first.labels)) - np.log(counts[1] / len(second.labels))

    def score(outcomes: Outcomes) -> Array:
        known = np.minimum(outcomes.labels, size - 1)
        return np.asarray(np.where(outcomes.labels < size, ratio[known], 0.0))

    return [("choices", score)]


def _eigenvalue_rules() -> list[tuple[str, Rule]]:
    """Eigenvalue events, and the trace."""

    def values(outcomes: Outcomes) -> Array:
        return np.asarray(np.linalg.eigvalsh(outcomes.matrices), dtype=np.float64)

    return [
        ("largest eigenvalue", lambda outcomes: values(outcomes)[:, -1]),
        ("smallest eigenvalue", lambda outcomes: values(outcomes)[:, 0]),
        ("trace", lambda outcomes: np.trace(outcomes.matrices, axis1=1, axis2=2)),
    ]


def _direction_rules(first: Outcomes, second: Outcomes) -> list[tuple[str, Rule]]:
    """The eigenvector of the eigenvalue largest in size, along what it tells on average."""
    telling = np.mean(_projectors(first), axis=0) - np.mean(_projectors(second), axis=0)
    return [("leading direction", lambda outcomes: np.einsum("nij,ij->n", _projectors(outcomes), telling))]


def _projectors(outcomes: Outcomes) -> Array:
    """U u' for the leading direction u of every release."""
    values, vectors = np.linalg.eigh(outcomes.matrices)
    leading = np.argmax(np.abs(values), axis=1)
    chosen = np.take_along_axis(vectors, leading[:, None, None], axis=2)
    return np.asarray(chosen @ np.swapaxes(chosen, 1, 2))


def _spread_rules(first: Outcomes, second: Outcomes) -> list[tuple[str, Rule]]:
    """Log-density ratio of noise with the nuclear or the l1 norm in its exponent, up to its scale."""
    centers = [np.median(each.matrices, axis=0) for each in (first, second)]
    medians = [np.median(each.numbers, axis=0) for each in (first, second)]
    scale = np.mean(np.abs(first.numbers - medians[0]), axis=0)
    weights = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)

    def nuclear(outcomes: Outcomes) -> Array:
        near, far = (np.abs(np.linalg.eigvalsh(outcomes.matrices - each)).sum(axis=1) for each in centers)
        return np.asarray(far - near)

    def laplace(outcomes: Outcomes) -> Array:
        near, far = (np.abs(outcomes.numbers - each) @ weights for each in medians)
        return np.asarray(far - near)

    return [("density ratio, nuclear norm", nuclear), ("density ratio, Laplace", laplace)]


def _column_rules(
    part: Callable[[Outcomes], Array], first: Outcomes, second: Outcomes, kind: str
) -> list[tuple[str, Rule]]:
    """Single columns, if there are many those with the clearest difference."""
    one, other = part(first), part(second)
    if one.shape[1] == 0:
        return []
    spread = np.sqrt(one.var(axis=0) + other.var(axis=0))
    distance = np.abs(one.mean(axis=0) - other.mean(axis=0))
    clear = np.divide(distance, spread, out=np.full_like(spread, _LARGEST), where=spread > 1e-9 * distance)
    chosen = np.argsort(-clear)[:MOST_COLUMNS]
    return [(kind, _column(part, int(column))) for column in chosen]


def _column(part: Callable[[Outcomes], Array], column: int) -> Rule:
    return lambda outcomes: part(outcomes)[:, column]


def _projection_rules(first: Outcomes, second: Outcomes) -> list[tuple[str, Rule]]:
    """Gaussian likelihood ratios: with one covariance (a projection), and with two."""
    direction = projection(first.numbers, second.numbers)
    scale = np.concatenate([first.numbers, second.numbers]).std(axis=0)
    scale[scale == 0] = 1.0
    laws = [_Normal.fitted(each.numbers / scale) for each in (first, second)]

    def quadratic(outcomes: Outcomes) -> Array:
        scaled = outcomes.numbers / scale
        return laws[0].log_density(scaled) - laws[1].log_density(scaled)

    return [
        ("projection", lambda outcomes: outcomes.numbers @ direction),
        ("quadratic likelihood ratio", quadratic),
    ]


def projection(first: Array, second: Array) -> NDArray[np.float64]:
    """Fisher's direction, of which the likelihood ratio of normal laws with one covariance is a function."""
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


@dataclass(frozen=True, kw_only=True)
class _Normal:
    mean: Array
    root: Array
    log_determinant: float

    @classmethod
    def fitted(cls, values: Array) -> "_Normal":
        eigenvalues, vectors = np.linalg.eigh(_covariance(values))
        eigenvalues = np.maximum(eigenvalues, _RIDGE)
        return cls(
            mean=values.mean(axis=0),
            root=vectors / np.sqrt(eigenvalues),
            log_determinant=float(np.log(eigenvalues).sum()),
        )

    def log_density(self, values: Array) -> Array:
        return np.asarray(
            -0.5 * (np.square((values - self.mean) @ self.root).sum(axis=1) + self.log_determinant)
        )

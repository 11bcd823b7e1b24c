"""What releases of two tables teach an attacker: how to read a release, and when to guess.

Contract: a lesson is fixed by the releases it was learned from, so a score is one number per
release by a rule that was fixed without that release; a bound holds whatever was learned.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcov.audit import limits
from dpcov.audit.releases import Outcomes, Reader, Releases
from dpcov.privacy.guarantee import Promise, PureDP
from dpcov.published.file.statistics import NoisyStatistics
from dpcov.published.linalg.symmetric import Array

NORMAL = "normal law, as stated"

# Confidence at which the thresholds of a rule are compared: there are thousands.
RULE_ALPHA = 1e-4
# Rounded normal noise of this standard deviation is normal to 34 digits, with 1/12 more variance.
SMOOTH_STD = 2.0
_PART = 4096
# Intervals of every feature, each with about as many releases.
BINS = 16
# Trees, how far each one goes, and how many releases' worth of doubt a leaf has.
ROUNDS, RATE, PRIOR = 40, 0.1, 10.0
# In units of a column's variance; small enough to see noise that was used twice.
_RIDGE = 1e-12
# Releases differ in a direction if by more than this part of what they differ most.
_SEEN = 1e-9

Bins = NDArray[np.intp]
Score = Callable[[Outcomes], Array]


@dataclass(frozen=True)
class Lesson:
    """A way to guess: all ``rules`` on a score are counted, and share the probability to be wrong.

    ``normal`` projects what is stated to be normal; ``promising`` is about what bounds come to.
    """

    reader: Reader
    name: str
    score: Score
    rules: list[limits.Rule]
    normal: Score | None
    promising: float

    def count(
        self, releases: Iterable[Iterable[NoisyStatistics]], promise: Promise, alpha: float
    ) -> tuple[float, str]:
        """Bound from fresh releases of both tables, and what gave it."""
        one, other = map(self._measured, releases)
        tables, bound = (one.scores, other.scores), limits.bound_for(promise)
        if self.normal is None or not _is_normal(promise, one, other):
            return limits.largest_bound(self.rules, bound, tables, alpha), self.name
        # Two bounds share alpha.
        stated = limits.normal_bound(promise, (one.projected, other.projected), alpha / 2)
        guessed = limits.largest_bound(self.rules, bound, tables, alpha / 2)
        return max((guessed, self.name), (stated, NORMAL))

    def _measured(self, releases: Iterable[NoisyStatistics]) -> "_Measured":
        # Part by part: a million releases would fill the memory.
        parts, families, left = [], set[str](), iter(releases)
        while some := list(islice(left, _PART)):
            outcomes = self.reader(some)
            projected = (self.normal or self.score)(outcomes)
            parts.append((self.score(outcomes), projected, outcomes.labels))
            families.add(outcomes.family)
        return _Measured(min(families), *map(np.concatenate, zip(*parts, strict=True)))


class _Measured(NamedTuple):
    family: str
    scores: Array
    projected: Array
    labels: NDArray[np.int64]


def teach(first: Releases, second: Releases, promise: Promise, n_rows: int, alpha: float) -> Lesson:
    """Learn scores from releases of two tables; each half judges what the other half taught."""
    reader, bound = Reader([*first, *second], n_rows), limits.bound_for(promise)
    outcomes = reader(first), reader(second)
    halves = [
        (outcomes[0].take(half), outcomes[1].take(half))
        for half in (slice(0, None, 2), slice(1, None, 2))
    ]
    taught, whole = [learn(*half) for half in halves], learn(*outcomes)
    compared = []
    for name, score in whole.items():
        # Every release is scored by what the half without it taught.
        parts = [[taught[1 - half][name](each) for each in halves[half]] for half in (0, 1)]
        first_scores, second_scores = map(np.concatenate, zip(*parts, strict=True))
        crossed = first_scores, second_scores
        chosen, worth = limits.choose_rule(bound, crossed, RULE_ALPHA)
        rules = limits.both_tails(np.concatenate(crossed))
        worth = max(worth, limits.largest_bound(rules, bound, crossed, alpha))
        compared.append((worth, name, score, [chosen, *rules]))
    promising, name, score, rules = max(compared, key=lambda each: each[0])
    # Noise that is wide beside the whole numbers it was rounded to: rounding does not show.
    spread = np.minimum(*(each.numbers.std(axis=0) for each in outcomes))
    smooth, normal = np.asarray(spread >= SMOOTH_STD), None
    if smooth.any() and _is_normal(promise, *outcomes):
        normal = _projected(smooth, *outcomes)
        learned = _projected(smooth, *halves[0])
        tested = learned(halves[1][0]), learned(halves[1][1])
        promising = max(promising, limits.normal_bound(promise, tested, alpha))
    return Lesson(reader, name, score, rules, normal, promising)


def _projected(smooth: NDArray[np.bool_], first: Outcomes, second: Outcomes) -> Score:
    direction = projection(first.numbers[:, smooth], second.numbers[:, smooth])
    return lambda outcomes: np.asarray(outcomes.numbers[:, smooth] @ direction)


def _is_normal(promise: Promise, first: Outcomes | _Measured, second: Outcomes | _Measured) -> bool:
    # Whether the law is stated to be Gaussian, and nothing was chosen by looking at it.
    one_choice = np.unique(np.concatenate([first.labels, second.labels])).size == 1
    families = "gaussian" in first.family and "gaussian" in second.family
    return not isinstance(promise, PureDP) and families and one_choice


def learn(first: Outcomes, second: Outcomes) -> Mapping[str, Score]:
    """Learn all scores from releases of two tables; large scores speak for the first."""
    trees = _trees(_features(first), _features(second))
    direction = projection(first.numbers, second.numbers)
    middle = 0.5 * (first.numbers.mean(axis=0) + second.numbers.mean(axis=0))
    return {
        "trees": lambda outcomes: trees(_features(outcomes)),
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


def _trees(first: Array, second: Array) -> Callable[[Array], Array]:
    # A sum of trees with two splits: the log-likelihood ratio by gradient boosting.  Functions of
    # one feature and of two: independent pieces of a release add up, noise of any law shows, and
    # so does what two numbers have in common.
    features = np.concatenate([first, second])
    truth = np.repeat([1.0, 0.0], [len(first), len(second)])
    edges = [_edges(column) for column in features.T]
    grown: list[tuple[tuple[int, int], tuple[int, int], Array]] = []

    def bins_of(features: Array) -> Bins:
        columns = zip(edges, features.T, strict=True)
        return np.array([np.searchsorted(ends, column, "right") for ends, column in columns])

    def score_of(features: Array) -> Array:
        binned, score = bins_of(features), np.zeros(len(features))
        for one, other, leaves in grown:
            score += leaves[2 * _sides(binned, one) + _sides(binned, other)]
        return score

    binned, score = bins_of(features), np.zeros(len(truth))
    for _ in range(ROUNDS):
        guess = 1.0 / (1.0 + np.exp(-score))
        weights = np.stack([truth - guess, guess * (1.0 - guess)])
        one = _best_split(binned, weights, np.zeros(len(truth), dtype=np.intp))
        other = _best_split(binned, weights, _sides(binned, one))
        leaf = 2 * _sides(binned, one) + _sides(binned, other)
        slope, curvature = (np.bincount(leaf, each, minlength=4) for each in weights)
        grown.append((one, other, RATE * slope / (curvature + PRIOR)))
        score += grown[-1][2][leaf]
    return score_of


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
    values = np.concatenate([first, second])
    if len(values) < values.shape[1]:
        # Few releases differ in few directions, and in these all matrices are small.
        widths = values.std(axis=0)
        widths[widths == 0] = 1.0
        centered = (values - values.mean(axis=0)) / widths
        _, lengths, along = np.linalg.svd(centered, full_matrices=False)
        basis = along[lengths > _SEEN * lengths[0]].T / widths[:, None]
        return np.asarray(basis @ projection(first @ basis, second @ basis))
    one, other = (np.atleast_2d(np.cov(values, rowvar=False)) for values in (first, second))
    pooled = 0.5 * (one + other)
    scale = np.sqrt(np.diag(pooled))
    scale[scale == 0] = 1.0
    shift = (first.mean(axis=0) - second.mean(axis=0)) / scale
    solved, *_ = np.linalg.lstsq(
        pooled / np.outer(scale, scale) + _RIDGE * np.eye(len(scale)), shift, rcond=None
    )
    return np.asarray(solved / scale)

"""What releases of two tables teach an attacker: how to read a release, score it, and when to guess.

Contract: a lesson is fixed by the releases it was learned from, so a bound from others holds whatever was learned.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from dpcov.audit.limits import Rule, Tables, both_tails, bound_for, choose_rule, largest_bound
from dpcov.audit.normal import normal_bound
from dpcov.audit.outcomes import Outcomes, Reader
from dpcov.audit.releases import Releases
from dpcov.audit.scores import Score, learn, projection
from dpcov.privacy.guarantee import Promise, PureDP
from dpcov.published.linalg.symmetric import Array
from dpcov.published.statistics import NoisyStatistics

NORMAL = "normal law, as stated"

RULE_ALPHA = 1e-4
"""Confidence at which the thresholds of a rule are compared: there are thousands."""

SMOOTH_STD = 2.0
"""Rounded to whole numbers, normal noise of this standard deviation is normal to 34 digits, with 1/12 more variance."""

_PART = 4096


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A way to guess.

    Parameters
    ----------
    reader : Reader
    name : str
        Of the score.
    score : callable
    rules : list of Rule
        All are counted, and share the probability to be wrong.
    normal : callable or None
        A projection of what is stated to be normal.
    promising : float
        About what a bound may come to.
    """

    reader: Reader
    name: str
    score: Score
    rules: list[Rule]
    normal: Score | None
    promising: float

    def count(
        self,
        first: Iterable[NoisyStatistics],
        second: Iterable[NoisyStatistics],
        promise: Promise,
        alpha: float,
    ) -> tuple[float, str]:
        """Bound from fresh releases, and what gave it; where noise is stated to be normal, two bounds share alpha."""
        one, other = self._measured(first), self._measured(second)
        normal = self.normal is not None and _is_normal(promise, one, other)
        share = alpha / 2 if normal else alpha
        guessed = largest_bound(self.rules, bound_for(promise), (one.scores, other.scores), share)
        if not normal:
            return guessed, self.name
        return max(
            (guessed, self.name),
            (normal_bound(promise, (one.projected, other.projected), share), NORMAL),
        )

    def _measured(self, releases: Iterable[NoisyStatistics]) -> "_Measured":
        """Score releases part by part: a million of them would fill the memory."""
        parts, left = [], iter(releases)
        while some := list(islice(left, _PART)):
            outcomes = self.reader(some)
            scores = self.score(outcomes)
            projected = scores if self.normal is None else self.normal(outcomes)
            parts.append((scores, projected, outcomes.labels))
        scores, projected, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
        return _Measured(scores=scores, projected=projected, labels=labels, family=outcomes.family)


@dataclass(frozen=True, kw_only=True)
class _Measured:
    scores: Array
    projected: Array
    labels: NDArray[np.int64]
    family: str


def teach(first: Releases, second: Releases, promise: Promise, n_rows: int, alpha: float) -> Lesson:
    """Learn scores from releases of two tables; half of them judge what the other half taught, at ``alpha``."""
    reader, bound = Reader([*first, *second], n_rows), bound_for(promise)
    outcomes = reader(first), reader(second)
    halves = [
        (outcomes[0].take(half), outcomes[1].take(half))
        for half in (slice(0, None, 2), slice(1, None, 2))
    ]
    taught, whole = [learn(*half) for half in halves], learn(*outcomes)
    compared = []
    for name, score in whole.items():
        crossed = _crossed(taught[0][name], taught[1][name], halves)
        chosen, worth = choose_rule(bound, crossed, RULE_ALPHA)
        rules = both_tails(np.concatenate(crossed))
        compared.append(
            (max(worth, largest_bound(rules, bound, crossed, alpha)), name, score, [chosen, *rules])
        )
    promising, name, score, rules = max(compared, key=lambda each: each[0])
    smooth, normal = _smooth_columns(*outcomes), None
    if smooth.any() and _is_normal(promise, *outcomes):
        normal = _projected(smooth, *outcomes)
        tested = _scored(_projected(smooth, *halves[0]), halves[1])
        promising = max(promising, normal_bound(promise, tested, alpha))
    return Lesson(
        reader=reader, name=name, score=score, rules=rules, normal=normal, promising=promising
    )


def _scored(score: Score, outcomes: tuple[Outcomes, Outcomes]) -> Tables:
    return score(outcomes[0]), score(outcomes[1])


def _crossed(one: Score, other: Score, halves: list[tuple[Outcomes, Outcomes]]) -> Tables:
    """Scores of all releases, each by what the half without it taught."""
    parts = [_scored(other, halves[0]), _scored(one, halves[1])]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _smooth_columns(first: Outcomes, second: Outcomes) -> NDArray[np.bool_]:
    """Columns whose noise is wide beside the whole numbers that it was rounded to, so that rounding does not show."""
    spread = np.minimum(first.numbers.std(axis=0), second.numbers.std(axis=0))
    return np.asarray(spread >= SMOOTH_STD)


def _projected(smooth: NDArray[np.bool_], first: Outcomes, second: Outcomes) -> Score:
    direction = projection(first.numbers[:, smooth], second.numbers[:, smooth])

    def score(outcomes: Outcomes) -> Array:
        return np.asarray(outcomes.numbers[:, smooth] @ direction)

    return score


def _is_normal(promise: Promise, first: Outcomes | _Measured, second: Outcomes | _Measured) -> bool:
    """Whether the law is stated to be Gaussian, and nothing was chosen by looking at it."""
    one_choice = np.unique(np.concatenate([first.labels, second.labels])).size == 1
    return not isinstance(promise, PureDP) and "gaussian" in first.family and one_choice

"""What releases of two tables teach an attacker: how to read a release, and when to guess.

Contract: a lesson is fixed by the releases it was learned from; a bound from others holds whatever
was learned.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from dpcov.audit import limits
from dpcov.audit.limits import Tables
from dpcov.audit.outcomes import Outcomes, Reader
from dpcov.audit.releases import Releases
from dpcov.audit.scores import Score, learn, projection
from dpcov.privacy.guarantee import Promise, PureDP
from dpcov.published.linalg.symmetric import Array
from dpcov.published.statistics import NoisyStatistics

NORMAL = "normal law, as stated"

# Confidence at which the thresholds of a rule are compared: there are thousands.
RULE_ALPHA = 1e-4
# Rounded normal noise of this standard deviation is normal to 34 digits, with 1/12 more variance.
SMOOTH_STD = 2.0
_PART = 4096


@dataclass(frozen=True, kw_only=True)
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
        self,
        first: Iterable[NoisyStatistics],
        second: Iterable[NoisyStatistics],
        promise: Promise,
        alpha: float,
    ) -> tuple[float, str]:
        """Bound from fresh releases, and what gave it."""
        one, other = self._measured(first), self._measured(second)
        tables, bound = (one.scores, other.scores), limits.bound_for(promise)
        if self.normal is None or not _is_normal(promise, one, other):
            return limits.largest_bound(self.rules, bound, tables, alpha), self.name
        # Two bounds share alpha.
        stated = limits.normal_bound(promise, (one.projected, other.projected), alpha / 2)
        guessed = limits.largest_bound(self.rules, bound, tables, alpha / 2)
        return max((guessed, self.name), (stated, NORMAL))

    def _measured(self, releases: Iterable[NoisyStatistics]) -> "_Measured":
        # Part by part: a million releases would fill the memory.
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
        crossed = _crossed(taught[0][name], taught[1][name], halves)
        chosen, worth = limits.choose_rule(bound, crossed, RULE_ALPHA)
        rules = limits.both_tails(np.concatenate(crossed))
        worth = max(worth, limits.largest_bound(rules, bound, crossed, alpha))
        compared.append((worth, name, score, [chosen, *rules]))
    promising, name, score, rules = max(compared, key=lambda each: each[0])
    smooth, normal = _smooth_columns(*outcomes), None
    if smooth.any() and _is_normal(promise, *outcomes):
        normal = _projected(smooth, *outcomes)
        tested = _scored(_projected(smooth, *halves[0]), halves[1])
        promising = max(promising, limits.normal_bound(promise, tested, alpha))
    return Lesson(
        reader=reader, name=name, score=score, rules=rules, normal=normal, promising=promising
    )


def _scored(score: Score, outcomes: tuple[Outcomes, Outcomes]) -> Tables:
    return score(outcomes[0]), score(outcomes[1])


def _crossed(one: Score, other: Score, halves: list[tuple[Outcomes, Outcomes]]) -> Tables:
    # Scores of all releases, each by what the half without it taught.
    parts = [_scored(other, halves[0]), _scored(one, halves[1])]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _smooth_columns(first: Outcomes, second: Outcomes) -> NDArray[np.bool_]:
    # Their noise is wide beside the whole numbers that it was rounded to: rounding does not show.
    spread = np.minimum(first.numbers.std(axis=0), second.numbers.std(axis=0))
    return np.asarray(spread >= SMOOTH_STD)


def _projected(smooth: NDArray[np.bool_], first: Outcomes, second: Outcomes) -> Score:
    direction = projection(first.numbers[:, smooth], second.numbers[:, smooth])

    def score(outcomes: Outcomes) -> Array:
        return np.asarray(outcomes.numbers[:, smooth] @ direction)

    return score


def _is_normal(promise: Promise, first: Outcomes | _Measured, second: Outcomes | _Measured) -> bool:
    # Whether the law is stated to be Gaussian, and nothing was chosen by looking at it.
    one_choice = np.unique(np.concatenate([first.labels, second.labels])).size == 1
    return not isinstance(promise, PureDP) and "gaussian" in first.family and one_choice

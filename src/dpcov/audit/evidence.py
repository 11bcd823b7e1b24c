"""From releases of two tables to one lower bound: learn scores, choose an event, count it on fresh releases."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcov.audit.limits import ALPHA, bound_for, bound_of_event, choose_event
from dpcov.audit.normal import normal_bound
from dpcov.audit.outcomes import Outcomes, read
from dpcov.audit.scores import learn
from dpcov.privacy.guarantee import Promise, PureDP
from dpcov.published.statistics import NoisyStatistics

NORMAL = "normal law, as stated"
SEARCH_ALPHA = 0.05
"""Confidence of the bounds that a search compares; nothing is claimed with it."""

CHOICE_ALPHA = 1e-4
"""Confidence at which events are compared: lower than what counts, for the comparison has fewer releases."""

SMOOTH_STD = 2.0
"""Rounded to whole numbers, normal noise of this standard deviation is normal to 34 digits, with 1/12 more variance."""

_FEWEST_TO_LEARN = 8


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A lower bound and the score that gave it."""

    bound: float
    score: str


def weigh(
    promise: Promise, tables: Sequence[Sequence[NoisyStatistics]], n_rows: int, alpha: float = ALPHA
) -> Evidence:
    """Lower confidence bound on a promise's number from releases of two neighboring tables.

    A quarter of the releases fixes the rules of the scores, a quarter the event, and half of them count it.  Where the
    release states Gaussian noise, a second bound from mean and variance of all but the first quarter shares ``alpha``.
    """
    first, second = read(tables, n_rows)
    quarter = len(first.labels) // 4
    if quarter < _FEWEST_TO_LEARN:
        return Evidence(bound=0.0, score="too few releases")
    learning, choosing, counting = slice(0, quarter), slice(quarter, 2 * quarter), slice(2 * quarter, None)
    smooth = _smooth_columns(first, second)
    normal = bool(smooth.any()) and _is_normal(promise, first, second)
    share = alpha / 2 if normal else alpha
    book = learn(first.take(learning), second.take(learning))
    bound = bound_for(promise)
    compared = [book.of(each.take(choosing)) for each in (first, second)]
    chosen, _ = choose_event(compared[0], compared[1], bound, max(share, CHOICE_ALPHA))
    counted = [book.of(each.take(counting)) for each in (first, second)]
    counted_bound = bound_of_event(chosen, counted[0], counted[1], bound, share)
    found = [Evidence(bound=counted_bound, score=book.names[chosen.score])]
    if normal:
        train, held_out = (
            (first.take(part).numbers[:, smooth], second.take(part).numbers[:, smooth])
            for part in (learning, slice(quarter, None))
        )
        found.append(Evidence(bound=normal_bound(promise, train, held_out, share), score=NORMAL))
    return max(found, key=lambda each: each.bound)


def _smooth_columns(first: Outcomes, second: Outcomes) -> NDArray[np.bool_]:
    """Columns whose noise is wide beside the whole numbers that it was rounded to, so that rounding does not show."""
    spread = np.minimum(first.numbers.std(axis=0), second.numbers.std(axis=0))
    return np.asarray(spread >= SMOOTH_STD)


def _is_normal(promise: Promise, first: Outcomes, second: Outcomes) -> bool:
    """Whether the law is stated to be Gaussian, and nothing was chosen by looking at it."""
    one_choice = np.unique(np.concatenate([first.labels, second.labels])).size == 1
    return (
        not isinstance(promise, PureDP)
        and "gaussian" in first.family
        and one_choice
        and first.numbers.shape[1] > 0
        and len(first.labels) > 8 * first.numbers.shape[1]
    )

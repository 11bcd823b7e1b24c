"""The guarantee, the columns and the caveats in words that need no training in statistics.

Contract: claims no more than the guarantee; every number in a promise is rounded up.
"""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, sqrt

from dpcov.privacy.convert import pure_to_zcdp, zcdp_epsilon
from dpcov.privacy.guarantee import ZCDP, Guarantee, Promise, PureDP, costs_nothing, format_number
from dpcov.privacy.meaning import detection, exponential, rounded_up
from dpcov.published.reading.base import BaseRelease
from dpcov.published.words.numbers import WITHIN

FALSE_ALARMS = Fraction(5, 100)
DELTAS = tuple(Fraction(1, 10**power) for power in (5, 6, 9, 12))
PEOPLE = (2, 5)

NUMERICS_WORDS = {
    "exact": "Computer rounding does not weaken the guarantee.",
    "idealized": "The proof assumes real numbers: it does not cover computer rounding.",
}


def own_rows(guarantee: Guarantee) -> str:
    """What is one person's: ``row``, or ``rows (at most k)``."""
    k = guarantee.rows_per_person
    return "row" if k == 1 else f"rows (at most {k})"


def bound_in_words(release: BaseRelease) -> str:
    """What the norm bound is: public, or found with the release."""
    if any(column.lower is not None for column in release.features):
        return "the length to which longer encoded rows were scaled"
    return "the public bound on the length of an encoded row"


def counted(release: BaseRelease) -> str:
    """Whose number of rows replace-one neighbors have in common: a group's is protected."""
    return "the table" if release.manifest.n_rows is not None else "the whole table"


def change_in_words(release: BaseRelease) -> str:
    """Say what may change without the file changing much."""
    guarantee = release.guarantee
    own = f"one person’s {own_rows(guarantee)}"
    likely = "and this file would come out almost as likely as it did."
    if guarantee.neighbors == "replace-one":
        done = f"Replace {own} by anything else"
        so = f"The number of rows of {counted(release)} is public, not protected."
    else:
        done = f"Add {own} to the table, or take them out"
        so = "So it also hides who is in the table, and how many rows there are."
    return f"{done}, {likely} {so}"


def promise_in_words(promise: Promise) -> str:
    """Say what an attacker can and cannot find out."""
    if costs_nothing(promise):
        return "Nothing in this file depends on the table."
    found = format_number(100 * rounded_up(detection(promise, FALSE_ALARMS)))
    alarms = format_number(100 * FALSE_ALARMS)
    return (
        "Suppose that an attacker knows everybody else’s rows, and suspects something about one "
        f"person. If they may be wrong in {alarms} of 100 cases in which the suspicion is false, "
        f"this file lets them confirm at most {found} of 100 suspicions that are true; guessing "
        f"confirms {alarms}."
    )


def conversions(promise: Promise) -> Iterator[tuple[str, str]]:
    """Other promises that this one implies, as pairs of a formula and a remark."""
    yield str(promise), "what the proof shows"
    if costs_nothing(promise):
        return
    if isinstance(promise, PureDP):
        yield f"({format_number(pure_to_zcdp(promise.epsilon))})-zCDP", "ρ = ε²/2"
    elif isinstance(promise, ZCDP):
        for delta in DELTAS:
            epsilon = short_number(zcdp_epsilon(promise.rho, delta))
            yield f"({epsilon}, {format_number(delta)})-DP", "from the curve of zCDP"
    for people in PEOPLE:
        yield _for_several(promise, people), f"for {people} people together"


def _for_several(promise: Promise, people: int) -> str:
    if isinstance(promise, ZCDP):
        return f"({short_number(people**2 * promise.rho)})-zCDP"
    epsilon = short_number(people * promise.epsilon)
    if isinstance(promise, PureDP):
        return f"({epsilon})-DP"
    # A chain of neighbors: the deltas of its links grow with e^epsilon.
    delta = people * exponential(promise.epsilon) ** (people - 1) * promise.delta
    return f"({epsilon}, {short_number(min(delta, Fraction(1)))})-DP"


def short_number(value: Fraction) -> str:
    """Three digits, never less than the value."""
    return format_number(rounded_up(value))


def rows_in_words(release: BaseRelease) -> str:
    """Say how many rows there are and whether that is exact."""
    if release.manifest.n_rows is not None:
        return f"{release.manifest.n_rows:,}"
    known = release.n_rows == release.n_rows
    return f"about {rows_within(release)}" if known else "not published"


def rows_within(release: BaseRelease) -> str:
    """Write a noisy number of rows, ± what holds 95 of 100 errors."""
    half = WITHIN * sqrt(release.unit.count_variance) * release.n_rows
    return f"{release.n_rows:,.0f}" + f" ± {ceil(half):,}" * (half > 0)

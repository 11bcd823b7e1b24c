"""What still fits into a dataset's total, and how to say it.

Contract: :func:`check_room` lets a release pass only if it and all earlier ones keep the total; a
release of the size that :func:`room_in_words` states passes, and one that is larger by a hundredth
does not.
"""

from collections import Counter
from fractions import Fraction

from dpcov.errors import LedgerError
from dpcov.privacy.calibrate import gaussian_noise_multiplier
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise, PureDP, format_number, promise_numbers
from dpcov.privacy.ledger.composition import (
    Composition,
    Spends,
    choose_composition,
    is_within,
    spent,
)
from dpcov.privacy.ledger.spend import Spend

# Sizes have three digits, and one of a billionth of the total is nothing.
_STEPS, _DECADES = 900, 9

_SQUARES = "grows with the square of ε, so two releases cost less than twice the ε of one."
_WHY: dict[Composition, str] = {
    "pure": "ε adds up.",
    "basic": "ε and δ add up.",
    "zcdp": f"What adds up, ρ, {_SQUARES}",
    "gaussian": f"What adds up, 1/noise², {_SQUARES}",
    "planned": "Releases that are fixed in advance add up best: "
    "two cost less than twice the ε of one.",
}


def check_room(composition: Composition, total: Promise, earlier: Spends, new: Spend) -> None:
    """Refuse the new release if it would overspend the total."""
    if not has_room(composition, total, earlier, new):
        raise LedgerError(
            f"This release would overspend the dataset's total of {total}. "
            f"{room_in_words(composition, total, earlier)} Give the release a smaller budget, or "
            "publish from the releases that exist, which costs nothing."
        )


def has_room(
    composition: Composition, total: Promise, earlier: Spends, new: Spend, copies: int = 1
) -> bool:
    """Whether so many releases of a kind may follow the earlier ones."""
    return is_within(composition, total, Counter(earlier) + Counter({new: copies}))


def room_in_words(composition: Composition | None, total: Promise, earlier: Spends) -> str:
    """Say how large one more release may be, how large two may be, and why.

    Examples
    --------
    >>> room_in_words("pure", PureDP(epsilon=Fraction(3, 2)), [])
    'Left: one more release of up to ε = 1.5, or two of up to ε = 0.75 each. ε adds up.'
    """
    rule = composition or choose_composition(total, _typical(total))
    one = largest_release(rule, total, earlier)
    if one is None:
        return "Nothing is left that a release could use."
    # Planned releases take seconds to add up.
    two = None if rule == "planned" else largest_release(rule, total, earlier, copies=2)
    each = "" if two is None else f", or two of up to {_size(two, unless=_delta(one))} each"
    return f"Left: one more release of up to {_size(one)}{each}. {_WHY[rule]}"


def largest_release(
    composition: Composition, total: Promise, earlier: Spends, *, copies: int = 1
) -> Promise | None:
    """Return the largest budget of which so many releases still fit, in three digits.

    It is of the total's kind, Gaussian noise where that has a delta; None where not even a
    billionth of the total fits.
    """
    counted, delta = Counter(earlier), _delta_left(composition, total, earlier, copies)

    def sized(step: int) -> Promise:
        return _promise(total, _grid(total, step), delta)

    def fits(step: int) -> bool:
        return has_room(composition, total, counted, _typical(sized(step)), copies)

    low, high = 0, _STEPS * (_DECADES + 1)
    if not fits(low):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return sized(low)


def _typical(promise: Promise) -> Spend:
    # Gaussian noise where there is a delta.
    multiplier = None
    if isinstance(promise, ApproxDP):
        multiplier = gaussian_noise_multiplier(promise.epsilon, promise.delta)
    return Spend(promise=promise, mechanism="any", noise_multiplier=multiplier)


def _promise(total: Promise, size: Fraction, delta: Fraction) -> Promise:
    if isinstance(total, ZCDP):
        return ZCDP(rho=size)
    return ApproxDP(epsilon=size, delta=delta) if delta else PureDP(epsilon=size)


def _delta_left(composition: Composition, total: Promise, earlier: Spends, copies: int) -> Fraction:
    """The delta of each further release: the total's, or what is left of it where deltas add up."""
    if not isinstance(total, ApproxDP):
        return Fraction(0)
    if composition != "basic":
        return total.delta
    return max(Fraction(0), total.delta - spent(composition, total, earlier)["delta"]) / copies


def _grid(total: Promise, step: int) -> Fraction:
    """Sizes of three digits, rising from a billionth of the total to ten times it."""
    size = next(iter(promise_numbers(total).values()))
    # The largest power of ten that is not above the size.
    power = len(str(size.numerator)) - len(str(size.denominator))
    power -= Fraction(10) ** power > size
    decade, place = divmod(step, _STEPS)
    return (100 + place) * Fraction(10) ** (decade + power - _DECADES - 2)


def _size(promise: Promise, *, unless: Fraction | None = None) -> str:
    if isinstance(promise, ZCDP):
        return f"ρ = {format_number(promise.rho)}"
    delta = _delta(promise)
    at = "" if delta in (None, unless) else f" at δ = {format_number(delta)}"
    return f"ε = {format_number(promise.epsilon)}{at}"


def _delta(promise: Promise) -> Fraction | None:
    return promise.delta if isinstance(promise, ApproxDP) else None

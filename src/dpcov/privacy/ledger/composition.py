"""How the promises of several releases add up, and what still fits into a total.

Contract: if what releases cost stays within the limit of their rule, then all of them together keep
the total promise, even when each was chosen after looking at the results of the earlier ones.

That takes a *privacy filter* (Rogers, Roth, Ullman & Vadhan 2016).  These rules are filters:

``pure``, ``basic``  sums of epsilon and of delta (the same paper).
``zcdp``             sum of rho (Feldman & Zrnic 2021; Whitehouse, Ramdas, Rogers & Wu 2023).
``gaussian``         sum of 1 / noise_multiplier^2, tight for real-valued Gaussian noise (Smith &
                     Thakurta 2022; Koskela, Tobaben & Honkela 2023).

Switching rules may cost delta twice, so a dataset keeps one.  Sharper sums that hold only for
releases fixed in advance are no filters.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Literal

from dpcov.errors import LedgerError
from dpcov.privacy import calibrate, convert
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise, PureDP, format_number
from dpcov.privacy.ledger.spend import Spend

Composition = Literal["pure", "zcdp", "gaussian", "basic"]

_LONGEST_DENOMINATOR_BITS, _SHORT_BITS = 2048, 512
# Sizes have three digits, and one of a billionth of the total is nothing.
_STEPS, _DECADES = 900, 9

_SQUARES = "grows with the square of ε, so two releases cost less than twice the ε of one."
# What adds up under a rule, and which releases it counts.
_RULES: dict[Composition, tuple[str, str]] = {
    "pure": ("ε adds up.", "budgets in ε alone"),
    "basic": ("ε and δ add up.", "budgets in ε, or in ε and δ"),
    "zcdp": (f"What adds up, ρ, {_SQUARES}", "budgets in ρ or ε, and with a δ if met through ρ"),
    "gaussian": (
        f"What adds up, 1/noise², {_SQUARES}",
        "Gaussian noise, for budgets with a δ or in ρ",
    ),
}

_NOTHING = "Nothing is left that a release could use."

# Amounts by unit, such as {"epsilon": 1, "delta": 1/1000000}.
Amounts = dict[str, Fraction]
# Releases, or how many there are of each kind.
Spends = Iterable[Spend] | Mapping[Spend, int]


def compositions_for(total: Promise) -> tuple[Composition, ...]:
    """Return the rules that can guard this total."""
    if isinstance(total, ApproxDP):
        return ("zcdp", "gaussian", "basic")
    return ("pure",) if isinstance(total, PureDP) else ("zcdp",)


def check_composition(composition: str, total: Promise) -> Composition:
    """Return the rule, or say which ones can guard this total."""
    known = compositions_for(total)
    if composition in known:
        return known[known.index(composition)]
    rules = ", ".join(known)
    raise LedgerError(f"This composition cannot guard a total of {total}. Use one of: {rules}.")


def choose_composition(total: Promise, first: Spend) -> Composition:
    """Return the filter in which the first release takes the smallest share of the total."""
    shares: dict[Composition, Fraction] = {}
    for composition in compositions_for(total):
        if (cost := _cost(composition, first)) is not None:
            available = limit(composition, total)
            shares[composition] = max(cost[unit] / available[unit] for unit in cost)
    if not shares:
        raise _unsupported(compositions_for(total)[0], first)
    return min(shares, key=lambda composition: shares[composition])


def limit(composition: Composition, total: Promise) -> Amounts:
    """Return what may be spent in all, in the units of this rule, rounded down."""
    if isinstance(total, ApproxDP) and composition == "zcdp":
        return {"rho": convert.zcdp_rho(total.epsilon, total.delta)}
    if isinstance(total, ApproxDP) and composition == "gaussian":
        multiplier = calibrate.gaussian_noise_multiplier(total.epsilon, total.delta)
        return {"inverse_square_multiplier": 1 / multiplier**2}
    return dict(vars(total))


def spent(composition: Composition, total: Promise, spends: Spends) -> Amounts:
    """Return what these releases cost together, in the units of this rule, rounded up."""
    amounts = dict.fromkeys(limit(composition, total), Fraction(0))
    for spend, count in Counter(spends).items():
        cost = _cost(composition, spend)
        if cost is None:
            raise _unsupported(composition, spend)
        for unit, amount in cost.items():
            amounts[unit] = _short(amounts[unit] + count * amount)
    return amounts


def is_within(composition: Composition, total: Promise, spends: Spends) -> bool:
    """Whether these releases together keep the total."""
    available, used = limit(composition, total), spent(composition, total, spends)
    return all(used[unit] <= available[unit] for unit in available)


def unit_words(unit: str) -> str:
    """Name a unit for people."""
    return "Gaussian noise, 1/noise²" if unit == "inverse_square_multiplier" else unit


def _short(amount: Fraction) -> Fraction:
    # Sums of unlike fractions would grow without end; rounded up, they cost no less.
    if amount.denominator.bit_length() <= _LONGEST_DENOMINATOR_BITS:
        return amount
    return Fraction(math.ceil(amount * 2**_SHORT_BITS), 2**_SHORT_BITS)


def _cost(composition: Composition, spend: Spend) -> Amounts | None:
    # What one release costs, None if the rule does not cover it.
    if composition == "zcdp":
        rho = spend.best_rho()
        return None if rho is None else {"rho": rho}
    if composition == "gaussian":
        multiplier = spend.noise_multiplier
        return None if multiplier is None else {"inverse_square_multiplier": 1 / multiplier**2}
    covered = PureDP if composition == "pure" else PureDP | ApproxDP
    return dict(vars(spend.promise)) if isinstance(spend.promise, covered) else None


def _unsupported(composition: Composition, spend: Spend) -> LedgerError:
    return LedgerError(
        f"This dataset's releases are added up by the rule '{composition}', which cannot count a "
        f"{spend.promise} release of the mechanism {spend.mechanism}. "
        f"It counts {_RULES[composition][1]}. Choose such a release: the rule of an account stays."
    )


def fits(total: Promise, asked: Promise) -> bool:
    """Whether one release, of Gaussian noise where it has a delta, keeps a total by some rule."""
    spend = typical(asked)
    try:
        return is_within(choose_composition(total, spend), total, [spend])
    except LedgerError:
        return False


def check_room(
    composition: Composition, total: Promise, earlier: Spends, new: Spend, kept: Composition | None
) -> None:
    """Refuse the new release if it would overspend the total.

    ``kept`` is the rule of the releases there are, None if this would be the first.
    """
    if not is_within(composition, total, Counter(earlier) + Counter([new])):
        room = room_in_words(kept, total, earlier)
        smaller = "" if room == _NOTHING else "Give the release a smaller budget, or use"
        raise LedgerError(
            f"This release would overspend the dataset's total of {total}. {room} "
            f"{smaller or 'Use'} the releases that exist, which costs nothing."
        )


def room_in_words(composition: Composition | None, total: Promise, earlier: Spends) -> str:
    """Say how large one more release may be, how large two may be, and why."""
    rule = composition or choose_composition(total, typical(total))
    one = largest_release(rule, total, earlier)
    if one is None:
        return _NOTHING
    two = largest_release(rule, total, earlier, copies=2)
    # Where deltas add up, earlier releases may have taken all of it.
    none = " and no δ" if isinstance(total, ApproxDP) and isinstance(one, PureDP) else ""
    each = "" if two is None else f", or two of up to {_size(two, unless=one)} each"
    return f"Left: one more release of up to {_size(one)}{none}{each}. {_RULES[rule][0]}"


def spent_in_words(composition: Composition, total: Promise, earlier: Spends) -> str:
    """Say what all releases keep together, in three digits and at the delta of the total."""

    def keeps(step: int) -> bool:
        return is_within(composition, _sized(total, step), earlier)

    if not is_within(composition, total, earlier):
        return "All releases so far, taken together, exceed the total: see dpcov ledger verify."
    steps = range(_STEPS * (_DECADES + 1))
    joint = _sized(total, bisect_left(steps, True, key=keeps))
    # Rounded up it may be more than the total, which they keep.
    joint = min(joint, total, key=_amount)
    kept = f"{_size(joint)} at most, of a total of {_size(total, unless=joint)}"
    return f"All releases so far, taken together: {kept}."


def largest_release(
    composition: Composition, total: Promise, earlier: Spends, *, copies: int = 1
) -> Promise | None:
    """Return the largest budget, of the total's kind, of which so many releases still fit.

    In three digits, for Gaussian noise under a delta; None where not even a billionth fits.
    """
    counted, delta = Counter(earlier), getattr(total, "delta", Fraction(0))
    # The delta of each further release: the total's, or what is left of it where deltas add up.
    if composition == "basic":
        delta = max(Fraction(0), delta - spent(composition, total, earlier)["delta"]) / copies

    def overspends(step: int) -> bool:
        further = Counter({typical(_sized(total, step, delta)): copies})
        return not is_within(composition, total, counted + further)

    fitting = bisect_left(range(_STEPS * (_DECADES + 1)), True, key=overspends)
    return _sized(total, fitting - 1, delta) if fitting else None


def typical(promise: Promise) -> Spend:
    """What a release costs whose noise is Gaussian where it has a delta, as that of ``auto``."""
    multiplier = None
    if isinstance(promise, ApproxDP):
        multiplier = calibrate.gaussian_noise_multiplier(promise.epsilon, promise.delta)
    return Spend(promise=promise, mechanism="any", noise_multiplier=multiplier)


def _sized(total: Promise, step: int, delta: Fraction | None = None) -> Promise:
    # Of the total's kind, with its delta unless another is given.
    size = _grid(total, step)
    if isinstance(total, ZCDP):
        return ZCDP(rho=size)
    delta = getattr(total, "delta", Fraction(0)) if delta is None else delta
    return ApproxDP(epsilon=size, delta=delta) if delta else PureDP(epsilon=size)


def _amount(promise: Promise) -> Fraction:
    return promise.rho if isinstance(promise, ZCDP) else promise.epsilon


def _grid(total: Promise, step: int) -> Fraction:
    # Sizes of three digits, rising from a billionth of the total to ten times it.
    size = _amount(total)
    # The largest power of ten that is not above the size.
    power = len(str(size.numerator)) - len(str(size.denominator))
    power -= Fraction(10) ** power > size
    decade, place = divmod(step, _STEPS)
    return (100 + place) * Fraction(10) ** (decade + power - _DECADES - 2)


def _size(promise: Promise, unless: Promise | None = None) -> str:
    if isinstance(promise, ZCDP):
        return f"ρ = {format_number(promise.rho)}"
    size = f"ε = {format_number(promise.epsilon)}"
    # A delta that was said already is not said again.
    if isinstance(promise, PureDP) or getattr(unless, "delta", None) == promise.delta:
        return size
    return f"{size} at δ = {format_number(promise.delta)}"

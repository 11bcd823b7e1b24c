"""How the promises of several releases add up.

Contract: if what releases cost stays within the limit of their rule, then all of them together keep
the total promise, even when each was chosen after looking at the results of the earlier ones.

That takes a *privacy filter* (Rogers, Roth, Ullman & Vadhan 2016).  These rules are filters:

``pure``, ``basic``  sums of epsilon and of delta (the same paper).
``zcdp``             sum of rho (Feldman & Zrnic 2021; Whitehouse, Ramdas, Rogers & Wu 2023).
``gaussian``         sum of 1 / noise_multiplier^2, tight for real-valued Gaussian noise (Smith &
                     Thakurta 2022; Koskela, Tobaben & Honkela 2023).

Switching rules in mid-course may cost delta twice, so a dataset keeps one, fixed before its first
result exists.  ``planned`` is no filter: it is valid only for releases that were all fixed in
advance (:mod:`dpcov.privacy.ledger.accountant`), and never chosen by itself.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Literal, get_args

from dpcov.errors import LedgerError
from dpcov.privacy import calibrate, convert
from dpcov.privacy.guarantee import ApproxDP, Promise, PureDP, promise_numbers
from dpcov.privacy.ledger import accountant
from dpcov.privacy.ledger.spend import Spend

Composition = Literal["pure", "zcdp", "gaussian", "basic", "planned"]
COMPOSITIONS: tuple[Composition, ...] = get_args(Composition)

_LONGEST_DENOMINATOR_BITS, _SHORT_BITS = 2048, 512

Amounts = dict[str, Fraction]
"""Amounts by unit, such as ``{"epsilon": 1, "delta": 1/1000000}``."""

Spends = Iterable[Spend] | Mapping[Spend, int]
"""Releases, or how many there are of each kind."""


def compositions_for(total: Promise) -> tuple[Composition, ...]:
    """Return the rules that can guard this total."""
    if isinstance(total, ApproxDP):
        return ("zcdp", "gaussian", "basic", "planned")
    return ("pure",) if isinstance(total, PureDP) else ("zcdp",)


def check_composition(composition: str, total: Promise) -> Composition:
    """Return the rule, or say which ones can guard this total."""
    known = compositions_for(total)
    for candidate in known:
        if composition == candidate:
            return candidate
    rules = ", ".join(known)
    raise LedgerError(
        f"A total of {total} cannot be guarded by this composition. Use one of: {rules}."
    )


def choose_composition(total: Promise, first: Spend) -> Composition:
    """Return the filter in which the first release takes the smallest share of the total."""
    shares: dict[Composition, Fraction] = {}
    for composition in compositions_for(total):
        cost = None if composition == "planned" else _cost(composition, first)
        if cost is not None:
            available = limit(composition, total)
            shares[composition] = max(cost[unit] / available[unit] for unit in cost)
    if not shares:
        raise _unsupported(compositions_for(total)[0], first)
    return min(shares, key=lambda composition: shares[composition])


def limit(composition: Composition, total: Promise) -> Amounts:
    """Return what may be spent in all, in the units of this rule, rounded down."""
    if not isinstance(total, ApproxDP) or composition == "basic":
        return promise_numbers(total)
    if composition == "zcdp":
        return {"rho": convert.zcdp_rho(total.epsilon, total.delta)}
    if composition == "gaussian":
        multiplier = calibrate.gaussian_noise_multiplier(total.epsilon, total.delta)
        return {"inverse_square_multiplier": 1 / multiplier**2}
    return {"delta": total.delta}


def spent(composition: Composition, total: Promise, spends: Spends) -> Amounts:
    """Return what these releases cost together, in the units of this rule, rounded up."""
    counted = Counter(spends)
    if composition == "planned":
        if not isinstance(total, ApproxDP):
            raise LedgerError("Planned releases need a total with epsilon and delta.")
        return {"delta": accountant.planned_delta(list(counted.elements()), total.epsilon)}
    amounts = dict.fromkeys(limit(composition, total), Fraction(0))
    for spend, count in counted.items():
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
    return "Gaussian noise, 1/multiplier²" if unit == "inverse_square_multiplier" else unit


def _short(amount: Fraction) -> Fraction:
    # Sums of unlike fractions would grow without end; rounded up, they cost no less.
    if amount.denominator.bit_length() <= _LONGEST_DENOMINATOR_BITS:
        return amount
    return Fraction(math.ceil(amount * 2**_SHORT_BITS), 2**_SHORT_BITS)


def _cost(composition: Composition, spend: Spend) -> Amounts | None:
    """Return what one release costs under an additive rule, None if the rule does not cover it."""
    promise = spend.promise
    if composition == "zcdp":
        rho = spend.best_rho()
        return None if rho is None else {"rho": rho}
    if composition == "gaussian":
        multiplier = spend.noise_multiplier
        return None if multiplier is None else {"inverse_square_multiplier": 1 / multiplier**2}
    covered = isinstance(promise, PureDP) or (
        composition == "basic" and isinstance(promise, ApproxDP)
    )
    return promise_numbers(promise) if covered else None


_WANTED: dict[Composition, str] = {
    "pure": "a pure epsilon guarantee",
    "zcdp": "a zCDP or pure guarantee",
    "gaussian": "real-valued Gaussian noise",
    "basic": "an epsilon or (epsilon, delta) guarantee",
}


def _unsupported(composition: Composition, spend: Spend) -> LedgerError:
    return LedgerError(
        f"This dataset's releases are added up by the rule '{composition}', which cannot count a "
        f"{spend.promise} release of the mechanism {spend.mechanism}. "
        f"Choose a mechanism with {_WANTED[composition]}."
    )

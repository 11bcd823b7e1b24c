"""How the promises of several releases add up.

Contract: if what releases cost stays within the limit of their rule, then all of them together keep the total
promise, even when each release was chosen after looking at the results of the earlier ones.  Knows nothing of
files, mechanisms or data.

The person who decides what to release next has seen the earlier releases, so the rule that adds them up must be a
*privacy filter* (Rogers, Roth, Ullman & Vadhan 2016).  These rules are filters:

``pure``      sum of epsilon.
``basic``     sums of epsilon and of delta (the same paper).
``zcdp``      sum of rho (Feldman & Zrnic 2021; Whitehouse, Ramdas, Rogers & Wu 2023), with rho = epsilon^2 / 2 for
              a pure release; a total (epsilon, delta) is turned into one rho at the start.
``gaussian``  sum of 1 / noise_multiplier^2 (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2023): tight for
              real-valued Gaussian noise; a total (epsilon, delta) is turned into one multiplier at the start.

Switching between rules in mid-course may cost delta twice, so a dataset keeps one rule, fixed before its first
result exists.  ``planned`` is the exception: it uses the tightest composition known
(:mod:`dpcov.privacy.ledger.accountant`), which fails for adaptive choices and is valid only for releases that were all
fixed in advance.  It is never chosen by itself.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Literal, get_args

from dpcov.errors import LedgerError
from dpcov.privacy import calibrate, convert
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise, PureDP
from dpcov.privacy.ledger import accountant
from dpcov.privacy.ledger.spend import Spend, promise_numbers

Composition = Literal["pure", "zcdp", "gaussian", "basic", "planned"]
COMPOSITIONS: tuple[Composition, ...] = get_args(Composition)

_LONGEST_DENOMINATOR_BITS, _SHORT_BITS = 2048, 512

Amounts = dict[str, Fraction]
"""Amounts by unit, such as ``{"epsilon": 1, "delta": 1/1000000}``."""


def compositions_for(total: Promise) -> tuple[Composition, ...]:
    """Return the rules that can guard this total."""
    if isinstance(total, PureDP):
        return ("pure",)
    if isinstance(total, ZCDP):
        return ("zcdp",)
    return ("zcdp", "gaussian", "basic", "planned")


def check_composition(composition: str, total: Promise) -> Composition:
    """Return the rule, or say which ones can guard this total."""
    known = compositions_for(total)
    for candidate in known:
        if composition == candidate:
            return candidate
    raise LedgerError(
        f"A total of {total} cannot be guarded by this composition. Use one of: {', '.join(known)}."
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
        raise LedgerError(_explain_unsupported(compositions_for(total)[0], first))
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


def spent(
    composition: Composition, total: Promise, spends: Iterable[Spend] | Mapping[Spend, int]
) -> Amounts:
    """Return what these releases (or so many of each kind) cost together, in the units of this rule, rounded up."""
    counted = Counter(spends)
    if composition == "planned":
        if not isinstance(total, ApproxDP):
            raise LedgerError("Planned releases need a total with epsilon and delta.")
        return {"delta": accountant.planned_delta(list(counted.elements()), total.epsilon)}
    amounts = dict.fromkeys(limit(composition, total), Fraction(0))
    for spend, count in counted.items():
        cost = _cost(composition, spend)
        if cost is None:
            raise LedgerError(_explain_unsupported(composition, spend))
        for unit, amount in cost.items():
            amounts[unit] = _short(amounts[unit] + count * amount)
    return amounts


def _short(amount: Fraction) -> Fraction:
    """Round an amount up to few digits where sums of unlike fractions would grow without end."""
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
    if isinstance(promise, PureDP):
        return {"epsilon": promise.epsilon}
    if composition == "basic" and isinstance(promise, ApproxDP):
        return promise_numbers(promise)
    return None


def unit_words(unit: str) -> str:
    """Name a unit for people."""
    return "Gaussian noise, 1/multiplier²" if unit == "inverse_square_multiplier" else unit


def _explain_unsupported(composition: Composition, spend: Spend) -> str:
    return (
        f"This dataset's releases are added up by the rule '{composition}', which cannot count a {spend.promise} "
        f"release of the mechanism {spend.mechanism}. Choose a mechanism with {_WANTED[composition]}."
    )


_WANTED: dict[Composition, str] = {
    "pure": "a pure epsilon guarantee",
    "zcdp": "a zCDP or pure guarantee",
    "gaussian": "real-valued Gaussian noise",
    "basic": "an epsilon or (epsilon, delta) guarantee",
    "planned": "any guarantee",
}

"""What is left, in words: a release of that size is accepted, one a hundredth larger is not."""

import dataclasses
import re
from fractions import Fraction

import numpy as np
import pytest

import dpcov
from dpcov.errors import LedgerError
from dpcov.privacy.calibrate import gaussian_noise_multiplier
from dpcov.privacy.guarantee import ZCDP, ApproxDP
from dpcov.privacy.ledger.composition import (
    check_room,
    choose_composition,
    is_within,
    largest_release,
    room_in_words,
    spent_in_words,
)
from dpcov.privacy.ledger.spend import Spend
from tests.contracts.test_mechanisms import UnreadSource
from tests.privacy import spends
from tests.privacy.spends import MILLIONTH, pure, zcdp

X = np.random.default_rng(0).normal(size=(200, 4)) / 4
MORE = Fraction(101, 100)


def gaussian(epsilon, delta=MILLIONTH):
    multiplier = gaussian_noise_multiplier(Fraction(epsilon), Fraction(delta))
    return spends.gaussian(multiplier, epsilon, delta)


def spend_of(promise, factor=1):
    size = (promise.rho if isinstance(promise, ZCDP) else promise.epsilon) * factor
    if isinstance(promise, ApproxDP):
        return gaussian(size, promise.delta)
    return zcdp(size) if isinstance(promise, ZCDP) else pure(size)


TOTAL = gaussian("1.5").promise
CASES = [
    ("pure", pure("7/3").promise, [pure("1/7"), pure(1)]),
    ("pure", pure(100).promise, []),
    ("zcdp", zcdp("0.5").promise, [zcdp("1/3"), pure("0.1")]),
    ("zcdp", TOTAL, [gaussian(1)]),
    ("gaussian", TOTAL, []),
    ("gaussian", TOTAL, [gaussian(1), gaussian("1.05")]),
    ("basic", TOTAL, [pure("0.4")]),
    ("basic", TOTAL, [gaussian("0.4", MILLIONTH / 3)]),
    ("basic", TOTAL, [gaussian("0.4")]),
]


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize(("rule", "total", "earlier"), CASES)
def test_what_is_stated_fits_and_a_hundredth_more_does_not(rule, total, earlier, copies):
    stated = largest_release(rule, total, earlier, copies=copies)
    assert is_within(rule, total, [*earlier, *[spend_of(stated)] * copies])
    assert not is_within(rule, total, [*earlier, *[spend_of(stated, MORE)] * copies])


def test_an_account_whose_delta_is_spent_says_so():
    """A release with a delta was told that its epsilon is left."""
    told = room_in_words("basic", TOTAL, [gaussian("0.4")])
    assert told.startswith("Left: one more release of up to ε = 1.1 and no δ, or two of up to")
    assert "no δ" not in room_in_words("basic", TOTAL, [pure("0.4")])


@pytest.mark.parametrize(("rule", "total", "earlier"), [case for case in CASES if case[2]])
def test_what_releases_keep_so_far_is_the_smallest_total_that_holds_them(rule, total, earlier):
    told = spent_in_words(rule, total, earlier)
    unit = "rho" if isinstance(total, ZCDP) else "epsilon"
    size = Fraction(re.search("together: . = ([0-9.]+)", told)[1])
    assert is_within(rule, dataclasses.replace(total, **{unit: size}), earlier)
    assert not is_within(rule, dataclasses.replace(total, **{unit: size / MORE}), earlier)


def test_an_account_says_what_its_releases_keep_together(tmp_path):
    """A sum of what adds up alone tells people little."""
    ledger = dpcov.Ledger(tmp_path / "ledger.sqlite")
    ledger.create("people", dpcov.Budget(epsilon=3, delta="1e-6"), "replace-one")
    assert ledger.remaining("people").so_far == ""
    for spend in (gaussian(1), gaussian(1)):
        ledger.reserve("people", spend, "replace-one")
    told = ledger.remaining("people").so_far
    assert told.endswith("together: ε = 1.46 at δ = 1e-6 at most, of a total of ε = 3.")


def test_what_adds_up_has_one_name_beside_its_amounts_and_in_the_sentence(tmp_path):
    """It was 1/multiplier² beside amounts, and 1/noise² in the sentence and on the page."""
    ledger = dpcov.Ledger(tmp_path / "ledger.sqlite")
    ledger.create("people", dpcov.Budget(epsilon=3, delta="1e-6"), "replace-one")
    ledger.reserve("people", gaussian(1), "replace-one")
    balance = ledger.remaining("people")
    ((name, *_),) = balance.rows
    assert f"What adds up, {name.rpartition(', ')[2]}, grows" in balance.in_words


def test_what_releases_keep_is_never_said_to_be_more_than_a_total_that_they_keep():
    """Three digits, rounded up, were 0.334 of a third."""
    third = pure(Fraction(1, 3)).promise
    told = spent_in_words("pure", third, [pure(Fraction(1, 9))] * 3)
    assert "ε = 0.333334 at most, of a total of ε = 0.333334." in told
    assert "exceed the total" in spent_in_words("pure", third, [pure(Fraction(1, 9))] * 4)


SPENT = [
    *[("pure", pure(1).promise, [pure(1)]), ("zcdp", zcdp(1).promise, [zcdp(2)])],
    *[("gaussian", TOTAL, [gaussian("1.5")]), ("basic", TOTAL, [gaussian("1.5"), gaussian("1.5")])],
]


@pytest.mark.parametrize(("rule", "total", "earlier"), SPENT)
def test_nothing_is_left_of_what_was_spent(rule, total, earlier):
    assert largest_release(rule, total, earlier) is None
    assert room_in_words(rule, total, earlier) == "Nothing is left that a release could use."
    with pytest.raises(LedgerError, match=r"would overspend .* Nothing is left[^.]*\. Use the"):
        check_room(rule, total, earlier, earlier[0], rule)


@pytest.mark.parametrize("epsilon", ["1.01", "1.5", "3"])
def test_a_refused_first_release_says_what_the_empty_account_says(epsilon):
    """Whatever was asked for: no rule is chosen before the first release."""
    total = ApproxDP(epsilon=Fraction(1), delta=MILLIONTH)
    promise = ApproxDP(epsilon=Fraction(epsilon), delta=MILLIONTH)
    multiplier = gaussian_noise_multiplier(promise.epsilon, promise.delta)
    asked = Spend(promise=promise, mechanism="any", noise_multiplier=multiplier)
    chosen = choose_composition(total, asked)
    with pytest.raises(LedgerError) as caught:
        check_room(chosen, total, [], asked, None)
    assert room_in_words(None, total, []) in str(caught.value)


ACCOUNTS = [
    ({"epsilon": "1.5", "delta": "1e-6"}, "stratified", "epsilon"),
    ({"epsilon": "1.5"}, "stratified-nuclear", "epsilon"),
    ({"rho": "0.3"}, "separate", "rho"),
]


@pytest.mark.parametrize(("total", "mechanism", "unit"), ACCOUNTS)
def test_a_ledger_accepts_what_it_says_and_no_hundredth_more(tmp_path, total, mechanism, unit):
    ledger = dpcov.Ledger(tmp_path / "ledger.sqlite")
    ledger.create("people", dpcov.Budget(**total), "replace-one")

    def release(size, rows=X):
        how = {"norm_bound": 1.0, "mechanism": mechanism, "ledger": ledger, "dataset": "people"}
        dpcov.second_moment(rows, budget=dpcov.Budget(**(total | {unit: size})), **how)

    release("0.2")
    words = ledger.remaining("people").in_words
    size = Fraction(re.search(r"up to . = ([0-9.]+)", words)[1])
    with pytest.raises(LedgerError, match="overspend") as refused:
        release(size * MORE, UnreadSource())
    assert words in str(refused.value)
    release(size)

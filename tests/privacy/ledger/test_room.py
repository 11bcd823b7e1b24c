"""What is left, in words: a release of the stated size is accepted, one that is larger by a hundredth is not."""

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dpcov
from dpcov.errors import LedgerError
from dpcov.privacy.calibrate import gaussian_noise_multiplier
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP, promise_numbers
from dpcov.privacy.ledger.composition import check_room, has_room, largest_release, room_in_words
from dpcov.privacy.ledger.spend import Spend
from tests.contracts.test_mechanisms import UnreadSource

X = np.random.default_rng(0).normal(size=(200, 4)) / 4
DELTA = Fraction(1, 10**6)


def pure(epsilon):
    return Spend(promise=PureDP(epsilon=Fraction(epsilon)), mechanism="laplace")


def zcdp(rho):
    return Spend(promise=ZCDP(rho=Fraction(rho)), mechanism="gaussian")


def gaussian(epsilon, delta=DELTA):
    multiplier = gaussian_noise_multiplier(Fraction(epsilon), Fraction(delta))
    promise = ApproxDP(epsilon=Fraction(epsilon), delta=Fraction(delta))
    return Spend(promise=promise, mechanism="gaussian", noise_multiplier=multiplier)


def spend_of(promise, factor=1):
    numbers = [
        number * (factor if name != "delta" else 1)
        for name, number in promise_numbers(promise).items()
    ]
    return {PureDP: pure, ZCDP: zcdp, ApproxDP: gaussian}[type(promise)](*numbers)


TOTAL = gaussian("1.5").promise
CASES = [
    ("pure", pure("7/3").promise, [pure("1/7"), pure(1)]),
    ("pure", pure(100).promise, []),
    ("zcdp", zcdp("0.5").promise, [zcdp("1/3"), pure("0.1")]),
    ("zcdp", TOTAL, [gaussian(1)]),
    ("gaussian", TOTAL, []),
    ("gaussian", TOTAL, [gaussian(1)]),
    ("gaussian", TOTAL, [gaussian(1), gaussian("1.05")]),
    ("basic", TOTAL, [pure("0.4")]),
    ("basic", TOTAL, [gaussian("0.4", DELTA / 3)]),
    ("basic", TOTAL, [gaussian("0.4")]),
]


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize(("rule", "total", "earlier"), CASES)
def test_what_is_stated_fits_and_a_hundredth_more_does_not(rule, total, earlier, copies):
    stated = largest_release(rule, total, earlier, copies=copies)
    assert has_room(rule, total, earlier, spend_of(stated), copies)
    assert not has_room(rule, total, earlier, spend_of(stated, Fraction(101, 100)), copies)


@pytest.mark.parametrize(
    ("rule", "total", "earlier"),
    [
        ("pure", pure(1).promise, [pure(1)]),
        ("zcdp", zcdp(1).promise, [zcdp(2)]),
        ("gaussian", TOTAL, [gaussian("1.5")]),
        ("basic", TOTAL, [gaussian("1.5"), gaussian("1.5")]),
    ],
)
def test_nothing_is_left_of_what_was_spent(rule, total, earlier):
    assert largest_release(rule, total, earlier) is None
    assert room_in_words(rule, total, earlier) == "Nothing is left that a release could use."
    with pytest.raises(LedgerError, match=r"would overspend .* Nothing is left"):
        check_room(rule, total, earlier, earlier[0])


def test_two_releases_of_one_fit_into_one_and_a_half_and_the_words_say_why():
    words = room_in_words("gaussian", TOTAL, [gaussian(1)])
    assert has_room("gaussian", TOTAL, [gaussian(1)], gaussian(1))
    found = re.match(
        r"Left: one more release of up to ε = (\S+) at δ = 1e-6, or two of up to ε = (\S+) each\. ",
        words,
    )
    one, two = map(float, found.groups())
    assert 1 < one < 1.5
    assert two < one < 2 * two
    assert "grows with the square of ε, so two releases cost less than twice the ε of one" in words
    assert words in " ".join(Path("docs/ledger.md").read_text(encoding="utf-8").split())
    assert room_in_words(None, TOTAL, []) == room_in_words("gaussian", TOTAL, [])


def test_planned_releases_have_room_for_one_more_by_their_own_rule():
    pytest.importorskip("dp_accounting")
    total = gaussian("0.7", "0.01").promise
    stated = largest_release("planned", total, [pure("0.1")] * 3)
    assert has_room("planned", total, [pure("0.1")] * 3, spend_of(stated))
    assert not has_room("planned", total, [pure("0.1")] * 3, spend_of(stated, Fraction(101, 100)))


@pytest.mark.parametrize(
    ("total", "mechanism", "unit"),
    [
        ({"epsilon": "1.5", "delta": "1e-6"}, "stratified", "epsilon"),
        ({"epsilon": "1.5", "delta": "1e-6"}, "gaussian", "epsilon"),
        ({"epsilon": "1.5"}, "stratified-nuclear", "epsilon"),
        ({"rho": "0.3"}, "separate", "rho"),
    ],
)
def test_a_ledger_accepts_what_it_says_and_no_hundredth_more(tmp_path, total, mechanism, unit):
    ledger = dpcov.Ledger(tmp_path / "ledger.sqlite")
    ledger.create("people", dpcov.Budget(**total), "replace-one")
    how = {"norm_bound": 1.0, "mechanism": mechanism, "ledger": ledger, "dataset": "people"}
    dpcov.second_moment(X, budget=dpcov.Budget(**(total | {unit: "0.2"})), **how)
    words = ledger.remaining("people").in_words
    size = Fraction(re.search(r"up to . = ([0-9.]+)", words)[1])
    larger = dpcov.Budget(**(total | {unit: size * Fraction(101, 100)}))
    with pytest.raises(LedgerError, match="overspend") as refused:
        dpcov.second_moment(UnreadSource(), budget=larger, **how)
    assert words in str(refused.value)
    dpcov.second_moment(X, budget=dpcov.Budget(**(total | {unit: size})), **how)

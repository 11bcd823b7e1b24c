"""What a guarantee says in words: numbers as they are, or never smaller; what a spend may be."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dpcov.errors import BudgetError
from dpcov.privacy.guarantee import (
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    costs_nothing,
    format_number,
    promise_of,
)
from tests.privacy.spends import MILLIONTH, approximate, pure, zcdp

ZERO, HALF = Fraction(0), Fraction(1, 2)
SAID = {
    **{"1/8": "0.125", "99999": "99999", "100000": "1e+5", "1/10000": "0.0001", "1/100000": "1e-5"},
    **{"123456789012/1000": "1.23456789012e+8", "1/3": "0.333334", "2/3": "0.666667", "0": "0"},
    **{"1234567890123/1000": "1.23457e+9", "1/1048576": "9.53675e-7"},
    "12345678901234567890123456789/1000": "1.23457e+25",
    "0.1" + "0" * 60 + "1": "0.100001",
    "100000" + "0" * 60 + "1": "1.00001e+66",
}


@pytest.mark.parametrize(("value", "said"), SAID.items())
def test_numbers_are_exact_if_short_and_rounded_up_otherwise(value, said):
    assert format_number(Fraction(value)) == said
    assert Fraction(said) >= Fraction(value)


def test_only_an_epsilon_of_zero_costs_nothing():
    assert costs_nothing(PureDP(epsilon=ZERO))
    for promise in (PureDP(epsilon=HALF), ZCDP(rho=HALF), ApproxDP(epsilon=ZERO, delta=HALF)):
        assert not costs_nothing(promise)
        assert promise_of(**vars(promise)) == promise


def test_a_guarantee_names_whom_it_protects():
    made = Guarantee(
        promise=ZCDP(rho=HALF), neighbors="replace-one", rows_per_person=1, numerics="exact"
    )
    assert str(made) == "(0.5)-zCDP, replace-one neighbors, unit: one row, numerics: exact"
    assert "unit: up to 2 rows of one person" in str(replace(made, rows_per_person=2))


@pytest.mark.parametrize("names", [(), ("delta",), ("rho", "epsilon"), ("rho", "delta")])
def test_numbers_that_describe_no_promise_are_refused(names):
    with pytest.raises(BudgetError, match="No promise"):
        promise_of(**dict.fromkeys(names, HALF))


def test_best_rho_is_the_smallest_known_guarantee():
    five = Fraction(5)
    assert pure(HALF).best_rho() == Fraction(1, 8)
    assert zcdp(HALF).best_rho() == HALF
    assert approximate(HALF, MILLIONTH).best_rho() is None
    assert approximate(HALF, MILLIONTH, rho=MILLIONTH).best_rho() == MILLIONTH
    assert approximate(HALF, MILLIONTH, noise_multiplier=five).best_rho() == Fraction(1, 50)
    assert replace(zcdp(HALF), rho=MILLIONTH, noise_multiplier=five).best_rho() == MILLIONTH


@pytest.mark.parametrize("number", [0, -1])
def test_a_spend_without_cost_is_refused(number):
    names = ("rho", "noise_multiplier", "rows_per_person")
    also = [lambda name=name: pure(HALF, **{name: number}) for name in names]
    for made in (*also, lambda: pure(number), lambda: approximate(HALF, number)):
        with pytest.raises(BudgetError, match="greater than zero"):
            made()
    with pytest.raises(BudgetError, match="delta"):
        approximate(HALF, 1)

from dataclasses import replace
from fractions import Fraction

import pytest

from dpcov.errors import BudgetError
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP, promise_numbers, promise_of
from tests.privacy.spends import MILLIONTH, approximate, pure, zcdp

HALF = Fraction(1, 2)
PROMISES = [PureDP(epsilon=HALF), ZCDP(rho=HALF), ApproxDP(epsilon=HALF, delta=MILLIONTH)]


@pytest.mark.parametrize("promise", PROMISES)
def test_promises_survive_their_numbers(promise):
    assert promise_of(**promise_numbers(promise)) == promise


@pytest.mark.parametrize(
    "numbers", [{}, {"delta": HALF}, {"rho": HALF, "epsilon": HALF}, {"rho": HALF, "delta": HALF}]
)
def test_numbers_that_describe_no_promise_are_refused(numbers):
    with pytest.raises(BudgetError, match="no promise"):
        promise_of(**numbers)


def test_best_rho_is_the_smallest_known_guarantee():
    five = Fraction(5)
    assert pure(HALF).best_rho() == Fraction(1, 8)
    assert zcdp(HALF).best_rho() == HALF
    assert approximate(HALF, MILLIONTH).best_rho() is None
    assert approximate(HALF, MILLIONTH, rho=MILLIONTH).best_rho() == MILLIONTH
    assert approximate(HALF, MILLIONTH, noise_multiplier=five).best_rho() == Fraction(1, 50)
    assert replace(zcdp(HALF), rho=MILLIONTH, noise_multiplier=five).best_rho() == MILLIONTH


@pytest.mark.parametrize("number", [Fraction(0), Fraction(-1)])
def test_a_spend_without_cost_is_refused(number):
    for made in (
        lambda: pure(number),
        lambda: zcdp(number),
        lambda: approximate(HALF, number),
        lambda: pure(HALF, rho=number),
        lambda: pure(HALF, noise_multiplier=number),
        lambda: pure(HALF, rows_per_person=int(number)),
    ):
        with pytest.raises(BudgetError, match="greater than zero"):
            made()
    with pytest.raises(BudgetError, match="delta"):
        approximate(HALF, 1)

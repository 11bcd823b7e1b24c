from fractions import Fraction

import pytest

from dpcov.errors import BudgetError
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP, promise_numbers, promise_of
from dpcov.privacy.ledger.spend import Spend

HALF, SMALL = Fraction(1, 2), Fraction(1, 10**6)
PROMISES = [PureDP(epsilon=HALF), ZCDP(rho=HALF), ApproxDP(epsilon=HALF, delta=SMALL)]


@pytest.mark.parametrize("promise", PROMISES)
def test_promises_survive_their_numbers(promise):
    assert promise_of(**promise_numbers(promise)) == promise


@pytest.mark.parametrize(
    "numbers", [{}, {"delta": SMALL}, {"rho": HALF, "epsilon": HALF}, {"rho": HALF, "delta": SMALL}]
)
def test_numbers_that_describe_no_promise_are_refused(numbers):
    with pytest.raises(BudgetError, match="no promise"):
        promise_of(**numbers)


def test_best_rho_is_the_smallest_known_guarantee():
    approximate = PROMISES[2]
    assert Spend(promise=PureDP(epsilon=HALF), mechanism="m").best_rho() == Fraction(1, 8)
    assert Spend(promise=ZCDP(rho=HALF), mechanism="m").best_rho() == HALF
    assert Spend(promise=approximate, mechanism="m").best_rho() is None
    assert Spend(promise=approximate, mechanism="m", rho=SMALL).best_rho() == SMALL
    assert Spend(
        promise=approximate, mechanism="m", noise_multiplier=Fraction(5)
    ).best_rho() == Fraction(1, 50)
    assert (
        Spend(
            promise=ZCDP(rho=HALF), mechanism="m", rho=SMALL, noise_multiplier=Fraction(5)
        ).best_rho()
        == SMALL
    )


@pytest.mark.parametrize("number", [Fraction(0), Fraction(-1)])
def test_a_spend_without_cost_is_refused(number):
    for numbers in (
        {"promise": PureDP(epsilon=number)},
        {"promise": ZCDP(rho=number)},
        {"promise": ApproxDP(epsilon=HALF, delta=number)},
        {"promise": PROMISES[0], "rho": number},
        {"promise": PROMISES[0], "noise_multiplier": number},
    ):
        with pytest.raises(BudgetError, match="greater than zero"):
            Spend(mechanism="m", **numbers)


def test_delta_of_one_is_refused():
    with pytest.raises(BudgetError, match="delta"):
        Spend(promise=ApproxDP(epsilon=HALF, delta=Fraction(1)), mechanism="m")

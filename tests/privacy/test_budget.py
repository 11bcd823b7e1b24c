from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.errors import BudgetError
from dpcov.privacy.budget import LARGEST_EPSILON, LARGEST_RHO, Budget, budget_of
from dpcov.privacy.convert import zcdp_delta
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP

TENTH, SMALLEST = Fraction(1, 10), Fraction(1, 10**300)
NAN, INF = float("nan"), float("inf")
EXACT = [
    *(0.1, np.float64(0.1), np.float32(0.1), np.longdouble("0.1"), "0.1", "1e-1", TENTH),
    Decimal("0.10"),
]
REFUSED = [
    *(0, -1, 0.0, -0.0, "0", "-0.5", -SMALLEST / 10, "-1e-400", NAN, INF, -INF, "nan", "inf"),
    *(Decimal("sNaN"), "one", "", "1/2", True, False, [1], 1j, b"1"),
    *("1e999999999999", "1e-999999999999", "1e301", "1e-301", SMALLEST / 10),
]
WRONG = [
    *(({"rho": -1}, "greater than zero"), ({"rho": "-1e-999999999"}, "greater than zero")),
    *(({}, "either"), ({"delta": 1e-6}, "either"), ({"rho": 1, "epsilon": 1}, "either")),
    *(({"rho": 1, "delta": 1e-6}, "either"), ({"rho": "1e301"}, "far too large")),
    *(({"epsilon": 1, "delta": delta}, "delta") for delta in (1, "1.0", 1.5)),
    ({"epsilon": LARGEST_EPSILON + TENTH}, "above 100 protects nobody"),
    ({"rho": LARGEST_RHO + TENTH}, "above 1000 protects nobody"),
    *(({"rho": "1e-301"}, "1e-300"), ({"rho": "1e-999999999"}, "1e-300")),
]


@pytest.mark.parametrize("number", EXACT)
def test_numbers_are_taken_exactly(number):
    assert Budget(rho=number).promise == ZCDP(rho=TENTH)
    assert Budget(epsilon=number).promise == PureDP(epsilon=TENTH)
    assert Budget(epsilon=3, delta=number).promise == ApproxDP(epsilon=Fraction(3), delta=TENTH)
    for whole in (2, np.int8(2), np.uint64(2), np.float16(2)):
        exact = Budget(rho=whole).rho
        assert (exact, type(exact.numerator)) == (2, int)


@given(st.floats(min_value=1e-290, max_value=100))
def test_a_float_means_its_shortest_decimal(value):
    assert Budget(epsilon=value).epsilon == Fraction(repr(value))
    epsilon = Budget(rho=value).pure_epsilon()
    exact = Fraction(repr(value))
    assert epsilon**2 / 2 <= exact < (epsilon * (1 + Fraction(1, 10**28))) ** 2 / 2


@pytest.mark.parametrize("value", REFUSED)
def test_unusable_numbers_are_refused(value):
    for numbers in ({"epsilon": value}, {"rho": value}, {"epsilon": 1, "delta": value}):
        with pytest.raises(BudgetError, match=list(numbers)[-1]):
            Budget(**numbers)


@pytest.mark.parametrize(("numbers", "message"), WRONG)
def test_what_is_wrong_with_a_budget_is_said(numbers, message):
    with pytest.raises(BudgetError, match=message):
        Budget(**numbers)


def test_the_largest_and_the_smallest_budgets_are_accepted():
    assert Budget(epsilon=LARGEST_EPSILON).epsilon == 100
    assert Budget(rho=LARGEST_RHO).rho == 1000
    assert Budget(rho="1e-300").rho == Budget(epsilon=SMALLEST).epsilon == SMALLEST


def test_the_rho_and_the_pure_epsilon_inside_a_budget():
    one, delta = Fraction(1), Fraction(1, 10**6)
    assert Budget(rho="0.3").zcdp_rho() == Fraction(3, 10)
    rho = Budget(epsilon=1, delta="1e-6").zcdp_rho()
    assert zcdp_delta(rho, one) <= delta < zcdp_delta(rho * Fraction(1001, 1000), one)
    with pytest.raises(BudgetError, match="pure"):
        Budget(epsilon=1).zcdp_rho()
    assert Budget(epsilon="0.3", delta=0.1).pure_epsilon() == Fraction(3, 10)
    assert Budget(rho="0.5").pure_epsilon() == 1


def test_a_part_of_a_budget_may_be_anything_that_can_be_written_down():
    promise = ApproxDP(epsilon=Fraction(2), delta=Fraction(1, 10**6))
    assert budget_of(promise) == Budget(epsilon=2, delta="1e-6")
    assert budget_of(ZCDP(rho=Fraction(10**9))).promise == ZCDP(rho=Fraction(10**9))
    for rho, problem in ((0, "greater than zero"), (1 + Fraction(1, 3**9000), "digits")):
        with pytest.raises(BudgetError, match=problem):
            budget_of(ZCDP(rho=Fraction(rho)))

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.errors import BudgetError
from dpcov.privacy.budget import LARGEST_EPSILON, LARGEST_RHO, Budget
from dpcov.privacy.convert import zcdp_delta
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP

TENTH, SMALLEST = Fraction(1, 10), Fraction(1, 10**300)
NAN, INF = float("nan"), float("inf")
NOT_POSITIVE = (0, -1, 0.0, -0.0, "0", "-1", NAN, INF, -INF, "nan", "inf", Decimal("sNaN"))
NOT_NUMBERS = ("one", "", "1/2", True, False, [1], 1j, b"1")
OUT_OF_RANGE = ("1e999999999999", "1e-999999999999", "1e-301", Fraction(1, 10**301))


@pytest.mark.parametrize(
    "number",
    [
        *(0.1, np.float64(0.1), np.float32(0.1), np.longdouble("0.1")),
        *("0.1", "1e-1", Decimal("0.10"), TENTH),
    ],
)
def test_numbers_are_taken_exactly(number):
    assert Budget(rho=number).promise == ZCDP(rho=TENTH)
    assert Budget(epsilon=number).promise == PureDP(epsilon=TENTH)
    assert Budget(epsilon=3, delta=number).promise == ApproxDP(epsilon=Fraction(3), delta=TENTH)


@pytest.mark.parametrize("number", [2, np.int8(2), np.uint64(2), np.float16(2)])
def test_whole_numbers_of_any_width_are_taken_exactly(number):
    exact = Budget(rho=number).rho
    assert exact == 2
    assert type(exact.numerator) is int


@given(st.floats(min_value=1e-290, max_value=100))
def test_a_float_means_its_shortest_decimal(value):
    assert Budget(epsilon=value).epsilon == Fraction(repr(value))


@pytest.mark.parametrize("name", ["epsilon", "rho"])
@pytest.mark.parametrize("value", (*NOT_POSITIVE, *NOT_NUMBERS, *OUT_OF_RANGE))
def test_unusable_numbers_are_refused(name, value):
    with pytest.raises(BudgetError, match=name):
        Budget(**{name: value})


@pytest.mark.parametrize("delta", [0, 1, "1.0", 1.5, -1e-6, NAN, True])
def test_unusable_deltas_are_refused(delta):
    with pytest.raises(BudgetError, match="delta"):
        Budget(epsilon=1, delta=delta)


NEGATIVE = [({"rho": value}, "greater than zero") for value in (0, -1, "-0.5", -SMALLEST / 10)]


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        *NEGATIVE,
        ({}, "empty"),
        ({"delta": 1e-6}, "delta alone"),
        ({"rho": 1, "epsilon": 1}, "not both"),
        ({"rho": 1, "delta": 1e-6}, "not both"),
        ({"rho": 1, "epsilon": 1, "delta": 1e-6}, "not both"),
        ({"epsilon": LARGEST_EPSILON + TENTH}, "above 100 protects nobody"),
        ({"rho": LARGEST_RHO + TENTH}, "above 1000 protects nobody"),
        ({"rho": "1e300"}, "above 1000 protects nobody"),
        ({"rho": 10**301}, "above 1000"),
        ({"rho": "1e301"}, "far too large"),
        ({"rho": "1e-301"}, "1e-300"),
    ],
)
def test_what_is_wrong_with_a_budget_is_said(numbers, message):
    with pytest.raises(BudgetError, match=message):
        Budget(**numbers)


def test_the_largest_and_the_smallest_budgets_are_accepted():
    assert Budget(epsilon=LARGEST_EPSILON).epsilon == 100
    assert Budget(rho=LARGEST_RHO).rho == 1000
    for number in ("1e-300", SMALLEST):
        assert Budget(rho=number).rho == Budget(epsilon=number).epsilon == SMALLEST


def test_a_budget_is_keyword_only_frozen_and_comparable_and_reads_like_its_promise():
    with pytest.raises(TypeError):
        Budget(1)
    with pytest.raises(AttributeError):
        Budget(epsilon=1).epsilon = Fraction(2)
    assert Budget(epsilon=0.5) == Budget(epsilon="0.50")
    assert len({Budget(rho=1), Budget(rho="1")}) == 1
    assert str(Budget(rho="0.5")) == "(0.5)-zCDP"


def test_zcdp_rho():
    one, delta = Fraction(1), Fraction(1, 10**6)
    assert Budget(rho="0.3").zcdp_rho() == Fraction(3, 10)
    rho = Budget(epsilon=1, delta="1e-6").zcdp_rho()
    assert zcdp_delta(rho, one) <= delta < zcdp_delta(rho * Fraction(1001, 1000), one)
    with pytest.raises(BudgetError, match="pure"):
        Budget(epsilon=1).zcdp_rho()


def test_pure_epsilon():
    assert Budget(epsilon="0.3").pure_epsilon() == Fraction(3, 10)
    assert Budget(epsilon="0.3", delta=0.1).pure_epsilon() == Fraction(3, 10)
    assert Budget(rho="0.5").pure_epsilon() == 1


@given(st.floats(min_value=1e-290, max_value=1000))
def test_pure_epsilon_of_rho_is_rounded_down_and_tight(rho):
    exact = Fraction(repr(rho))
    epsilon = Budget(rho=rho).pure_epsilon()
    assert epsilon**2 / 2 <= exact < (epsilon * (1 + Fraction(1, 10**28))) ** 2 / 2

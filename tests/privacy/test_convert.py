from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcov.errors import BudgetError, NumericError
from dpcov.privacy import convert
from tests.privacy import privacy_oracle as oracle

RHOS = [Fraction(text) for text in ("1e-12", "1e-6", "0.001", "0.1", "1", "30", "1000")]
EPSILONS = [Fraction(text) for text in ("0", "1e-6", "0.01", "1", "10", "100", "5000")]
DELTAS = [Fraction(text) for text in ("1e-300", "1e-100", "1e-12", "1e-6", "0.01", "0.5", "0.99")]
TIGHT = Fraction(1, 10**9)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_delta_is_an_upper_bound_and_tight(rho, epsilon):
    delta = oracle.number(convert.zcdp_delta(rho, epsilon))
    true = min(oracle.mpf(1), oracle.zcdp_delta(rho, epsilon))
    assert true <= delta <= min(oracle.mpf(1), max(oracle.mpf(10) ** -499, true * (1 + oracle.number(TIGHT))))


@pytest.mark.parametrize("epsilon", ["68.7", "68.719", "68.72", "68.722", "68.73"])
def test_delta_is_an_upper_bound_around_what_is_negligible(epsilon):
    epsilon = Fraction(epsilon)
    assert oracle.zcdp_delta(1, epsilon) <= oracle.number(convert.zcdp_delta(Fraction(1), epsilon))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_epsilon_is_an_upper_bound_and_tight(rho, delta):
    epsilon = convert.zcdp_epsilon(rho, delta)
    assert oracle.zcdp_delta(rho, epsilon) <= oracle.number(delta)
    if epsilon > 0:
        assert oracle.zcdp_delta(rho, epsilon * (1 - TIGHT)) > oracle.number(delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", [epsilon for epsilon in EPSILONS if epsilon])
def test_rho_is_a_lower_bound_and_tight(epsilon, delta):
    rho = convert.zcdp_rho(epsilon, delta)
    assert oracle.zcdp_delta(rho, epsilon) <= oracle.number(delta)
    assert oracle.zcdp_delta(rho * (1 + TIGHT), epsilon) > oracle.number(delta)


exponents = st.floats(min_value=-12, max_value=2)


@settings(max_examples=60, deadline=None)
@given(exponents, st.floats(min_value=1e-15, max_value=300))
def test_round_trips_stay_on_the_safe_side(log_epsilon, log_delta):
    epsilon, delta = Fraction(10**log_epsilon), Fraction(10**-log_delta)
    rho = convert.zcdp_rho(epsilon, delta)
    assert convert.zcdp_epsilon(rho, delta) >= epsilon * (1 - TIGHT)
    assert convert.zcdp_epsilon(rho, delta) <= epsilon * (1 + TIGHT)
    assert convert.zcdp_delta(rho, epsilon) <= delta * (1 + TIGHT)


def test_a_delta_next_to_one_stays_sound():
    delta = 1 - Fraction(1, 10**40)
    assert oracle.zcdp_delta(convert.zcdp_rho(Fraction(1), delta), Fraction(1)) <= oracle.number(delta)


@pytest.mark.parametrize("of_sums", [True, False])
def test_the_allowance_for_rounding_goes_to_the_safe_side(monkeypatch, of_sums):
    rho, epsilon, delta = Fraction(1, 10), Fraction(1), Fraction(1, 100)
    before = (
        convert.zcdp_delta(rho, epsilon),
        convert.zcdp_epsilon(rho, delta),
        convert.zcdp_rho(epsilon, delta),
    )
    monkeypatch.setattr(convert, "_ROUNDING", convert.to_decimal(Fraction(1, 10**6)))
    if not of_sums:
        monkeypatch.setattr(convert, "_error", lambda terms: 0)
    assert convert.zcdp_delta(rho, epsilon) > before[0]
    assert convert.zcdp_epsilon(rho, delta) > before[1] or not of_sums
    assert convert.zcdp_rho(epsilon, delta) < before[2]


def test_published_value():
    # Canonne, Kamath & Steinke (2020): the optimal conversion beats rho + 2 sqrt(rho log(1 / delta)).
    assert float(convert.zcdp_epsilon(Fraction(1, 10), Fraction(1, 10**6))) < 0.1 + 2 * (0.1 * 13.8155) ** 0.5


def test_pure_conversions():
    assert convert.pure_to_zcdp(Fraction(1, 3)) == Fraction(1, 18)
    assert convert.zcdp_pure_epsilon(Fraction(1, 18)) == Fraction(1, 3)


@given(st.fractions(min_value=Fraction(1, 10**300), max_value=10**6))
def test_square_roots_are_rounded_as_named(value):
    down, up = convert.sqrt_down(value), convert.sqrt_up(value)
    assert down**2 <= value <= up**2
    assert up - down <= up / 10**25


@pytest.mark.parametrize(
    "call",
    [
        lambda: convert.zcdp_delta(Fraction(0), Fraction(1)),
        lambda: convert.zcdp_delta(Fraction(1), Fraction(-1)),
        lambda: convert.zcdp_epsilon(Fraction(1), Fraction(0)),
        lambda: convert.zcdp_epsilon(Fraction(1), Fraction(1)),
        lambda: convert.zcdp_rho(Fraction(0), Fraction(1, 2)),
        lambda: convert.pure_to_zcdp(Fraction(-1)),
    ],
)
def test_impossible_arguments_are_refused(call):
    with pytest.raises(BudgetError):
        call()


@pytest.mark.parametrize("delta", [Fraction(9, 10), Fraction(999, 1000)])
def test_a_conversion_that_needs_no_epsilon_says_zero(delta):
    assert convert.zcdp_epsilon(Fraction(1, 10**6), delta) == 0


def test_a_rho_too_small_for_numbers_is_refused():
    with pytest.raises(NumericError, match="underflowed"):
        convert.zcdp_rho(Fraction(1, 10**200), Fraction(1, 10**300))


@pytest.mark.parametrize("value", ["2", "1/3", "1e-201", "123456789e40", "7/1000003"])
def test_roots_are_rounded_to_their_side_and_keep_thirty_digits(value):
    value = Fraction(value)
    down, up = convert.sqrt_down(value), convert.sqrt_up(value)
    assert down**2 < value < up**2
    assert value - down**2 < value / 10**29
    assert up**2 - value < value / 10**29


@pytest.mark.parametrize("value", ["4", "1/9", "49/1000000"])
def test_roots_of_squares_are_exact(value):
    value = Fraction(value)
    assert convert.sqrt_down(value) ** 2 == convert.sqrt_up(value) ** 2 == value

from decimal import Context, Decimal
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
    tight = max(oracle.mpf(10) ** -499, true * (1 + oracle.number(TIGHT)))
    assert true <= delta <= min(oracle.mpf(1), tight)


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
    rho = convert.zcdp_rho(Fraction(1), delta)
    assert oracle.zcdp_delta(rho, Fraction(1)) <= oracle.number(delta)


@pytest.mark.parametrize("of_sums", [True, False])
def test_the_allowance_for_rounding_goes_to_the_safe_side(monkeypatch, of_sums):
    rho, epsilon, delta = Fraction(1, 10), Fraction(1), Fraction(1, 100)

    def converted():
        numbers = convert.zcdp_delta(rho, epsilon), convert.zcdp_epsilon(rho, delta)
        return *numbers, convert.zcdp_rho(epsilon, delta)

    before = converted()
    monkeypatch.setattr(convert, "_ROUNDING", convert.to_decimal(Fraction(1, 10**6)))
    if not of_sums:
        monkeypatch.setattr(convert, "_error", lambda terms: 0)
    after = converted()
    assert after[0] > before[0]
    assert after[1] > before[1] or not of_sums
    assert after[2] < before[2]


def test_published_value():
    # Canonne, Kamath & Steinke (2020): better than rho + 2 sqrt(rho log(1 / delta)).
    epsilon = convert.zcdp_epsilon(Fraction(1, 10), Fraction(1, 10**6))
    assert float(epsilon) < 0.1 + 2 * (0.1 * 13.8155) ** 0.5


def test_pure_conversions():
    assert convert.pure_to_zcdp(Fraction(1, 3)) == Fraction(1, 18)
    assert convert.zcdp_pure_epsilon(Fraction(1, 18)) == Fraction(1, 3)


@given(st.fractions(min_value=Fraction(1, 10**300), max_value=10**6))
def test_square_roots_are_rounded_as_named(value):
    down, up = convert.sqrt_down(value), convert.sqrt_up(value)
    assert down**2 <= value <= up**2
    assert up - down <= up / 10**25


@pytest.mark.parametrize(
    ("conversion", "numbers"),
    [
        ("zcdp_delta", (0, 1)),
        ("zcdp_delta", (1, -1)),
        ("zcdp_epsilon", (1, 0)),
        ("zcdp_epsilon", (1, 1)),
        ("zcdp_rho", (0, "1/2")),
        ("pure_to_zcdp", (-1,)),
    ],
)
def test_impossible_arguments_are_refused(conversion, numbers):
    with pytest.raises(BudgetError):
        getattr(convert, conversion)(*map(Fraction, numbers))


@pytest.mark.parametrize("delta", [Fraction(9, 10), Fraction(999, 1000)])
def test_a_conversion_that_needs_no_epsilon_says_zero(delta):
    assert convert.zcdp_epsilon(Fraction(1, 10**6), delta) == 0


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


@pytest.fixture
def at(monkeypatch):
    """Convert at a given x, and hand back the number before it is shortened."""

    def convert_at(x, conversion, *numbers):
        seen = []
        monkeypatch.setattr(convert, "_root", lambda increasing: Decimal(x))
        for name in ("round_up", "round_down"):
            monkeypatch.setattr(convert, name, lambda value: seen.append(value) or Fraction(1))
        conversion(*(Fraction(number) for number in numbers))
        assert len(seen[0].as_tuple().digits) == 120
        return oracle.mpf(str(seen[0]))

    return convert_at


def order_terms(x):
    return [x * oracle.mp.log(x), -(1 + x) * oracle.mp.log(1 + x)]


def number(text):
    return oracle.number(Fraction(text))


UNIT = oracle.mpf(10) ** -110


def agree(actual, expected):
    """Whether an allowance of a few units is met to six digits."""
    return abs(actual - expected) < oracle.mpf("1e-6") * UNIT


@pytest.mark.parametrize(
    ("x", "rho", "epsilon"), [("0.7", "0.1", "1.3"), ("3.1", "0.01", "2"), ("12", "1e-3", "0.7")]
)
def test_a_delta_is_raised_by_the_rounding_of_its_terms(x, rho, epsilon, at):
    raw = at(x, convert.zcdp_delta, rho, epsilon)
    x, rho, epsilon = number(x), number(rho), number(epsilon)
    terms = [x * (1 + x) * rho, -x * epsilon, *order_terms(x)]
    assert agree(oracle.mp.log(raw), sum(terms) + UNIT * sum(map(abs, terms)) + UNIT)


@pytest.mark.parametrize(("x", "rho", "delta"), [("0.7", "0.1", "0.01"), ("3.1", "0.02", "1e-9")])
def test_an_epsilon_is_raised_by_the_rounding_of_its_terms(x, rho, delta, at):
    raw = at(x, convert.zcdp_epsilon, rho, delta)
    x, rho, delta = number(x), number(rho), number(delta)
    terms = [(1 + x) * rho, *(term / x for term in order_terms(x)), -oracle.mp.log(delta) / x]
    assert agree(raw, sum(terms) + UNIT * sum(map(abs, terms)))


@pytest.mark.parametrize(("x", "epsilon", "delta"), [("0.7", "1.1", "0.3"), ("3.1", "9", "1e-9")])
def test_a_rho_is_lowered_by_the_rounding_of_its_terms(x, epsilon, delta, at):
    raw = at(x, convert.zcdp_rho, epsilon, delta)
    x, epsilon, delta = number(x), number(epsilon), number(delta)
    terms = [epsilon, *(-term / x for term in order_terms(x)), oracle.mp.log(delta) / x]
    lowered = sum(terms) - UNIT * sum(map(abs, terms))
    assert agree(raw, lowered / (1 + x) * (1 - UNIT))


def test_a_logarithm_keeps_520_digits_for_a_delta_next_to_one():
    tiny = Fraction(1, 10**390)
    log_inverse = convert._log_inverse(1 - tiny)
    assert len(log_inverse.as_tuple().digits) == 520
    assert abs(Fraction(log_inverse) / tiny - 1) < Fraction(1, 10**120)


@pytest.mark.parametrize(
    ("log_delta", "negligible"),
    [("-1151.1", False), ("-1151.9", False), ("-1152.1", True), ("-1152.9", True)],
)
def test_a_logarithm_below_minus_1152_is_called_negligible(log_delta, negligible, monkeypatch):
    assert Fraction(1, 10**500) == convert.NEGLIGIBLE
    monkeypatch.setattr(convert, "_root", lambda increasing: Decimal(1))
    monkeypatch.setattr(convert, "_order_terms", lambda x: (Decimal(0), Decimal(0)))
    delta = convert.zcdp_delta(Fraction(1), 2 - Fraction(log_delta))
    assert (delta == convert.NEGLIGIBLE) == negligible
    if not negligible:
        excess = oracle.number(delta) / oracle.mp.exp(number(log_delta)) - 1
        assert 0 < excess < oracle.mpf(10) ** -29


@pytest.mark.parametrize("rho", [1, 10**6, 10**30])
def test_a_rho_that_promises_nothing_has_delta_one(rho):
    assert convert.zcdp_delta(Fraction(rho), Fraction(0)) <= 1
    assert convert.zcdp_delta(Fraction(10**30), Fraction(rho)) == 1


def test_a_rho_of_zero_is_not_returned(monkeypatch):
    with pytest.raises(NumericError, match="underflowed"):
        convert.zcdp_rho(Fraction(1, 10**200), Fraction(1, 10**300))
    monkeypatch.setattr(convert, "round_down", lambda value: Fraction(0))
    with pytest.raises(NumericError, match="underflowed"):
        convert.zcdp_rho(Fraction(1), Fraction(1, 10))


def test_numbers_are_shortened_to_their_side():
    third = Decimal(1) / 3
    assert convert.round_up(third, 5) == Fraction(33334, 10**5)
    assert convert.round_down(third, 5) == Fraction(33333, 10**5)
    assert convert.round_up(Context(prec=50).divide(1, 3)) == Fraction(10**30 // 3 + 1, 10**30)
    assert convert.round_down(Context(prec=50).divide(1, 3)) == Fraction(10**30 // 3, 10**30)
    assert convert.shorten_down(Fraction(2, 3)) == Fraction(666666, 10**6)
    assert convert.shorten_down(Fraction(2, 3), 2) == Fraction(66, 100)
    assert convert.shorten_down(1 - Fraction(1, 10**200), 2) == Fraction(99, 100)


def test_checked_numbers_are_handed_back():
    assert convert.require_positive("rho", Fraction(1, 3)) == Fraction(1, 3)
    assert convert.require_delta(Fraction(1, 3)) == Fraction(1, 3)
    for refused in (0, -1, Fraction(-1, 10**9)):
        with pytest.raises(BudgetError, match="rho must be greater"):
            convert.require_positive("rho", Fraction(refused))
    for refused in (0, 1, -1, 2):
        with pytest.raises(BudgetError, match="delta must be"):
            convert.require_delta(Fraction(refused))

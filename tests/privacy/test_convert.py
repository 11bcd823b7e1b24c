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


@pytest.mark.parametrize(
    ("conversion", "numbers"),
    [
        *(("zcdp_delta", numbers) for numbers in ((0, 1), (1, -1))),
        *(("zcdp_epsilon", numbers) for numbers in ((0, "1/2"), (1, 0), (1, 1))),
        *(("zcdp_rho", numbers) for numbers in ((0, "1/2"), (1, 0), (1, 1))),
        *(("pure_to_zcdp", (-1,)), ("zcdp_pure_epsilon", (0,))),
    ],
)
def test_impossible_arguments_are_refused(conversion, numbers):
    with pytest.raises(BudgetError, match="must"):
        getattr(convert, conversion)(*map(Fraction, numbers))


@pytest.mark.parametrize("value", ["2", "1/3", "1e-201", "123456789e40", "7/1000003"])
def test_roots_are_rounded_to_their_side_keep_thirty_digits_and_are_exact_for_squares(value):
    value = Fraction(value)
    assert convert.sqrt_down(value**2) == convert.sqrt_up(value**2) == value
    assert convert.zcdp_pure_epsilon(convert.pure_to_zcdp(value)) == value
    epsilon = convert.zcdp_pure_epsilon(value)
    assert convert.pure_to_zcdp(epsilon) <= value < convert.pure_to_zcdp(epsilon * (1 + TIGHT))
    down, up = convert.sqrt_down(value), convert.sqrt_up(value)
    assert down**2 < value < up**2
    assert value - down**2 < value / 10**29
    assert up**2 - value < value / 10**29


@pytest.fixture
def at(monkeypatch):
    """Convert at a given x, and hand back the number before it is shortened."""

    def convert_at(x, conversion, *numbers):
        seen = []
        monkeypatch.setattr(convert, "_root", lambda increasing: Decimal(x))
        for name in ("round_up", "round_down"):
            monkeypatch.setattr(convert, name, lambda value: seen.append(value) or Fraction(1))
        # Behind the cache, which must not keep what is made up here.
        plain = getattr(conversion, "__wrapped__", conversion)
        plain(*(Fraction(number) for number in numbers))
        assert len(seen[0].as_tuple().digits) == 120
        return oracle.mpf(str(seen[0]))

    return convert_at


def number(text):
    return oracle.number(Fraction(text))


@pytest.mark.parametrize(
    ("conversion", "x", "one", "other"),
    [
        *[("zcdp_delta", "0.7", "0.1", "1.3"), ("zcdp_delta", "12", "1e-3", "0.7")],
        *[("zcdp_epsilon", "0.7", "0.1", "0.01"), ("zcdp_epsilon", "3.1", "0.02", "1e-9")],
        *[("zcdp_rho", "0.7", "1.1", "0.3"), ("zcdp_rho", "3.1", "9", "1e-9")],
    ],
)
def test_a_result_is_moved_to_its_side_by_the_rounding_of_its_terms(conversion, x, one, other, at):
    raw = at(x, getattr(convert, conversion), one, other)
    x, one, other, unit = number(x), number(one), number(other), oracle.mpf(10) ** -110
    order, log_other = [x * oracle.mp.log(x), -(1 + x) * oracle.mp.log(1 + x)], oracle.mp.log(other)
    terms = {
        "zcdp_delta": [x * (1 + x) * one, -x * other, *order],
        "zcdp_epsilon": [(1 + x) * one, *(term / x for term in order), -log_other / x],
        "zcdp_rho": [one, *(-term / x for term in order), log_other / x],
    }[conversion]
    error = unit * sum(map(abs, terms))
    expected = {
        "zcdp_delta": oracle.mp.exp(sum(terms) + error) * (1 + unit),
        "zcdp_epsilon": sum(terms) + error,
        "zcdp_rho": (sum(terms) - error) / (1 + x) * (1 - unit),
    }[conversion]
    # To six digits of an allowance of a few units.
    assert abs(raw - expected) < unit * oracle.mpf("1e-6") * max(1, expected)


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
    assert convert.shorten_down(1 - Fraction(1, 10**200)) == Fraction(999999, 10**6)

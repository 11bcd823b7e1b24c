"""Conversions between promises, each rounded to the safe side.

Contract: ``zcdp_delta`` and ``zcdp_epsilon`` never return too little, ``zcdp_rho`` and
``zcdp_pure_epsilon`` never too much, whatever the arithmetic does.

rho-zCDP implies (epsilon, delta)-DP for every order alpha = 1 + x > 1 with (Canonne, Kamath &
Steinke 2020, Proposition 12)

    log delta = x ((1 + x) rho - epsilon) + x log x - (1 + x) log(1 + x).

The bound holds for *every* x > 0, so x is chosen in floating point: a poor x costs accuracy, never
privacy.  The evaluation at x runs in 120-digit decimals, whose ``exp`` and ``ln`` are correctly
rounded, and moves the result by more than the accumulated rounding error.
"""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from dpcov.errors import BudgetError, NumericError

_DIGITS = 120
_RESULT_DIGITS = 30
# Fewer than 100 operations, each off by at most half a unit in digit 120, relative to its own size.
_ROUNDING = Decimal(10) ** -110
# Stands for every smaller delta: beyond it decimals may underflow, and zero would be a lie.
NEGLIGIBLE = Fraction(1, 10**500)
# A little below log(10^-500): what is called negligible is.
_LOG_NEGLIGIBLE = -1152
# x >= 1e-87 with 17 digits: 1 + x is exact where its rounding would matter.
_LOG_X_RANGE = (-200.0, 708.0)


def pure_to_zcdp(epsilon: Fraction) -> Fraction:
    """Return the rho of any epsilon-DP mechanism: epsilon^2 / 2 (Bun & Steinke 2016, Prop. 1.4)."""
    return require_positive("epsilon", epsilon) ** 2 / 2


def zcdp_pure_epsilon(rho: Fraction) -> Fraction:
    """Return the largest epsilon that implies rho-zCDP: sqrt(2 rho), rounded down."""
    return sqrt_down(2 * require_positive("rho", rho))


@lru_cache
def zcdp_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """Return a delta for which rho-zCDP implies (epsilon, delta)-DP, rounded up; at most 1."""
    require_positive("rho", rho)
    require_positive("epsilon", epsilon, or_zero=True)
    r, e = float(rho), float(epsilon)
    # d/dx log delta, strictly increasing in x.
    x = _root(lambda x: (1 + 2 * x) * r - e - math.log1p(1 / x))
    with localcontext(Context(prec=_DIGITS)):
        terms = (x * (1 + x) * to_decimal(rho), -x * to_decimal(epsilon), *_order_terms(x))
        log_delta = sum(terms) + _error(terms)
        if log_delta < _LOG_NEGLIGIBLE:
            return NEGLIGIBLE
        # A positive logarithm might overflow, and no delta exceeds 1.
        return min(Fraction(1), round_up(min(log_delta, Decimal(0)).exp() * (1 + _ROUNDING)))


@lru_cache
def zcdp_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return an epsilon for which rho-zCDP implies (epsilon, delta)-DP, rounded up; at least 0."""
    require_positive("rho", rho)
    log_inverse = _log_inverse(delta)
    # Setting d epsilon / dx = 0 leaves rho x^2 + log(1 + x) = log(1 / delta).
    x = _root(lambda x: float(rho) * x * x + math.log1p(x) - float(log_inverse))
    with localcontext(Context(prec=_DIGITS)):
        orders = (term / x for term in _order_terms(x))
        terms = ((1 + x) * to_decimal(rho), *orders, log_inverse / x)
        return max(Fraction(0), round_up(sum(terms) + _error(terms)))


def zcdp_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest rho for which rho-zCDP implies (epsilon, delta)-DP, rounded down."""
    require_positive("epsilon", epsilon)
    log_inverse = _log_inverse(delta)
    e, inverse = float(epsilon), float(log_inverse)
    # The optimal x of zcdp_epsilon, with rho eliminated.
    x = _root(lambda x: x / (2 + 1 / x) * (e + math.log1p(1 / x)) + math.log1p(x) - inverse)
    with localcontext(Context(prec=_DIGITS)):
        terms = (to_decimal(epsilon), *(-term / x for term in _order_terms(x)), -log_inverse / x)
        rho = round_down((sum(terms) - _error(terms)) / (1 + x) * (1 - _ROUNDING))
    if rho <= 0:
        raise NumericError("The conversion to rho underflowed. Use a larger epsilon or delta.")
    return rho


def require_positive(name: str, value: Fraction, *, or_zero: bool = False) -> Fraction:
    """Return the value, or say which number must be positive."""
    if value < 0 or (value == 0 and not or_zero):
        raise BudgetError(
            f"{name} must {'not be negative' if or_zero else 'be greater than zero'}."
        )
    return value


def require_delta(delta: Fraction) -> Fraction:
    """Return delta, or say where it must lie."""
    if not 0 < delta < 1:
        raise BudgetError("delta must be greater than 0 and less than 1.")
    return delta


def sqrt_down(value: Fraction) -> Fraction:
    """Return the root of a positive fraction: exact, or rounded down at 30 digits or more."""
    numerator, denominator = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if Fraction(numerator**2, denominator**2) == value:
        return Fraction(numerator, denominator)
    magnitude = max(0, len(str(value.denominator)) - len(str(value.numerator)))
    scale = 10 ** (_RESULT_DIGITS + magnitude)
    return Fraction(math.isqrt(value.numerator * scale**2 // value.denominator), scale)


def sqrt_up(value: Fraction) -> Fraction:
    """Return the root of a positive fraction, rounded up."""
    return 1 / sqrt_down(1 / value)


def to_decimal(value: Fraction) -> Decimal:
    """Divide in the current decimal context."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def round_up(value: Decimal, digits: int = _RESULT_DIGITS) -> Fraction:
    """Return the next larger number with few digits."""
    return Fraction(Context(prec=digits, rounding=ROUND_CEILING).plus(value))


def round_down(value: Decimal, digits: int = _RESULT_DIGITS) -> Fraction:
    """Return the next smaller number with few digits."""
    return Fraction(Context(prec=digits, rounding=ROUND_FLOOR).plus(value))


def shorten_down(value: Fraction) -> Fraction:
    """Return the next smaller number with six digits."""
    with localcontext(Context(prec=_DIGITS, rounding=ROUND_FLOOR)):
        return round_down(to_decimal(value), 6)


@lru_cache
def _log_inverse(delta: Fraction) -> Decimal:
    require_delta(delta)
    # 400 digits more keep full relative accuracy for a delta close to 1.
    with localcontext(Context(prec=_DIGITS + 400)):
        return -to_decimal(delta).ln()


def _order_terms(x: Decimal) -> tuple[Decimal, Decimal]:
    return x * x.ln(), -(1 + x) * (1 + x).ln()


def _error(terms: tuple[Decimal, ...]) -> Decimal:
    # In units of the terms, not of their sum: cancellation is covered.
    return sum((abs(term) for term in terms), Decimal(0)) * _ROUNDING


def _root(increasing: Callable[[float], float]) -> Decimal:
    # By bisection: where it ends matters for accuracy only.
    low, high = _LOG_X_RANGE
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (middle, high) if increasing(math.exp(middle)) < 0 else (low, middle)
    return Context(prec=17).plus(Decimal(math.exp(high)))

"""The formulas once more, in 400-digit arithmetic that shares no code with the package."""

from fractions import Fraction

import mpmath
from mpmath import mpf

DIGITS = 500


def number(value: Fraction) -> mpf:
    return mpf(value.numerator) / mpf(value.denominator)


def gaussian_delta(multiplier: Fraction, epsilon: Fraction) -> mpf:
    with mpmath.workdps(DIGITS):
        m, e = number(multiplier), number(epsilon)
        upper = mpmath.erfc((e * m - 1 / (2 * m)) / mpmath.sqrt(2)) / 2
        lower = mpmath.erfc((e * m + 1 / (2 * m)) / mpmath.sqrt(2)) / 2
        return upper - mpmath.exp(e) * lower


def zcdp_delta(rho: Fraction, epsilon: Fraction) -> mpf:
    with mpmath.workdps(DIGITS):
        r, e = number(rho), number(epsilon)

        def slope(u: mpf) -> mpf:
            return (1 + 2 * mpmath.exp(u)) * r - e - mpmath.log1p(mpmath.exp(-u))

        low, high = mpf(-900), mpf(900)
        for _ in range(140):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        alpha = 1 + mpmath.exp(high)
        return mpmath.exp((alpha - 1) * (alpha * r - e)) / (alpha - 1) * (1 - 1 / alpha) ** alpha

"""The formulas once more, in 500-digit arithmetic that shares no code with the package."""

from fractions import Fraction

import mpmath

mp = mpmath.MPContext()
mp.dps = 500
mpf = mp.mpf


def number(value: Fraction) -> mpf:
    return mpf(value.numerator) / mpf(value.denominator)


def gaussian_delta(multiplier: Fraction, epsilon: Fraction) -> mpf:
    m, e = number(multiplier), number(epsilon)
    upper = mp.erfc((e * m - 1 / (2 * m)) / mp.sqrt(2)) / 2
    lower = mp.erfc((e * m + 1 / (2 * m)) / mp.sqrt(2)) / 2
    return upper - mp.exp(e) * lower


def zcdp_delta(rho: Fraction, epsilon: Fraction) -> mpf:
    r, e = number(rho), number(epsilon)
    low, high = mpf(-900), mpf(900)
    for _ in range(70):
        u = (low + high) / 2
        slope = (1 + 2 * mp.exp(u)) * r - e - mp.log1p(mp.exp(-u))
        low, high = (u, high) if slope < 0 else (low, u)
    x = mp.exp(high)
    alpha = 1 + x
    return mp.exp(x * (alpha * r - e)) / x * (1 - 1 / alpha) ** alpha


def hockey_stick(loss: Fraction, epsilon: Fraction) -> mpf:
    """Return (1 - e^(epsilon - loss))+."""
    return -mp.expm1(number(epsilon - loss)) if loss > epsilon else mpf(0)

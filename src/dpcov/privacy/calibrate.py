"""How much Gaussian noise a promise needs.

Contract: noise calibrated here meets the requested (epsilon, delta) exactly as stated; every
multiplier is rounded up and verified before it is returned.  A *noise multiplier* m is the noise's
standard deviation over the l2 sensitivity.  It is (epsilon, delta)-DP exactly when (Balle & Wang
2018, Theorem 8)

    delta >= Phi(a) - e^epsilon Phi(b),    a = 1/(2m) - epsilon m,    b = -1/(2m) - epsilon m.

The difference cancels badly, so it is computed in decimals with as many digits as the cancellation
eats, and the bound on the remaining error is added.  This concerns Gaussian noise over the real
numbers, rounded afterwards or not; discrete Gaussian noise is accounted for by its rho.
"""

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from dpcov.errors import BudgetError, NumericError
from dpcov.privacy.convert import NEGLIGIBLE, require_delta, require_positive, round_up, to_decimal

SMALLEST_DELTA = Fraction(1, 10**300)

_GUARD_DIGITS = 60
# Phi(-50) < 10^-543.
_TAIL_CUT = 50
# |b| <= 70 whenever |a| <= 50 and epsilon <= 1000.
_B_CUT = 70
_MULTIPLIER_DIGITS = 18
_STEPS = 200


def gaussian_delta(noise_multiplier: Fraction, epsilon: Fraction) -> Fraction:
    """Return the delta of Gaussian noise at this epsilon >= 0, rounded up.

    Within a relative 1e-20 of the truth where that exceeds 1e-500 and epsilon <= 1000.
    """
    require_positive("noise_multiplier", noise_multiplier)
    require_positive("epsilon", epsilon, or_zero=True)
    a = 1 / (2 * noise_multiplier) - epsilon * noise_multiplier
    b = a - 1 / noise_multiplier
    if a < -_TAIL_CUT:
        return NEGLIGIBLE
    if a > _TAIL_CUT:
        return Fraction(1)
    # Cancellation loses about x^2 / (2 log 10) digits in 1/2 - Phi, log10(m) in the difference.
    tail = float(min(max(a * a, b * b), Fraction(_B_CUT**2))) / (2 * math.log(10))
    digits = _GUARD_DIGITS + math.ceil(tail) + 2 * len(str(int(noise_multiplier)))
    with localcontext(Context(prec=digits)) as context:
        scale, delta = Decimal(0), _normal_cdf(a)
        # Leaving e^epsilon Phi(b) out only enlarges delta.
        if b > -_B_CUT:
            scale = to_decimal(epsilon).exp()
            delta -= scale * _normal_cdf(b)
        # Each Phi <= 1 is off by less than 10^9 units in the last digit: under 10^5 roundings,
        # amplified by x^2.  The sum stays below 1: that digit lies 50 places behind 1 - Phi(a).
        delta += (1 + scale) * Decimal(10) ** (9 - context.prec)
        return round_up(delta)


# A ledger asks for the same multipliers again and again.
@lru_cache(maxsize=256)
def gaussian_noise_multiplier(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the smallest noise multiplier that is (epsilon, delta)-DP, rounded up.

    Above the optimum by at most a relative 1e-12; delta lies between ``SMALLEST_DELTA`` and 1.
    """
    require_positive("epsilon", epsilon)
    if require_delta(delta) < SMALLEST_DELTA:
        raise BudgetError("delta is smaller than 1e-300. Use a larger delta.")
    multiplier = _solve(epsilon, delta)
    # The search may end a little too low: raise until delta is met.
    for exponent in range(17, 12, -1):
        candidate = _round_multiplier(multiplier * (1 + Fraction(1, 10**exponent)))
        if gaussian_delta(candidate, epsilon) <= delta:
            return candidate
    raise NumericError("The noise could not be calibrated. Use a larger epsilon or delta.")


def _solve(epsilon: Fraction, delta: Fraction) -> Fraction:
    # Newton steps on logarithms in a bracket.
    high = Fraction(1)
    while gaussian_delta(high, epsilon) > delta:
        high *= 4
    low = high / 4
    while gaussian_delta(low, epsilon) <= delta:
        low, high = low / 4, low
    multiplier = (low + high) / 2
    for _ in range(_STEPS):
        achieved = gaussian_delta(multiplier, epsilon)
        low, high = (multiplier, high) if achieved > delta else (low, multiplier)
        step = _newton(multiplier, epsilon, achieved, delta)
        if abs(step - multiplier) <= multiplier / 10**17:
            return multiplier
        multiplier = _round_multiplier(step if low < step < high else (low + high) / 2)
    return high


def _newton(m: Fraction, epsilon: Fraction, achieved: Fraction, delta: Fraction) -> Fraction:
    # One step, from d delta / d m = -phi(a) / m^2.
    a = 1 / (2 * m) - epsilon * m
    with localcontext(Context(prec=_GUARD_DIGITS)):
        multiplier, reached = to_decimal(m), to_decimal(achieved)
        density = (-to_decimal(a * a / 2)).exp() / (2 * _pi()).sqrt()
        log_ratio = (reached / to_decimal(delta)).ln()
        # The cap keeps a far-away step finite; the bracket then decides.
        step = min(log_ratio * multiplier * reached / density, Decimal(20))
        return Fraction(multiplier * step.exp())


def _round_multiplier(multiplier: Fraction) -> Fraction:
    # Short numbers keep the next step fast.
    with localcontext(Context(prec=_GUARD_DIGITS)):
        return round_up(to_decimal(multiplier), _MULTIPLIER_DIGITS)


def _normal_cdf(x: Fraction) -> Decimal:
    # Phi(x) = 1/2 + phi(x) (x + x^3/3 + x^5/(3 5) + ...) in the current context.
    point = to_decimal(x)
    square = point * point
    term, total, k = point, Decimal(0), 1
    # No term cancels another.  They grow up to k = x^2; where one no longer counts they fall fast.
    while total != (total := total + term):
        k += 2
        term = term * square / k
    return Decimal("0.5") + (-square / 2).exp() / (2 * _pi()).sqrt() * total


def _pi() -> Decimal:
    # Machin's formula, 16 arctan(1/5) - 4 arctan(1/239), in the current context.
    arctans = []
    for n in (5, 239):
        power, total, k = Decimal(1) / n, Decimal(0), 1
        while total != (total := total + power / k):
            k += 2
            power /= -n * n
        arctans.append(total)
    return 16 * arctans[0] - 4 * arctans[1]

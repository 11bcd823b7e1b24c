"""How much Gaussian noise a promise needs.

Contract: noise calibrated here meets the requested (epsilon, delta) exactly as stated; every multiplier is
rounded up and re-verified before it is returned.  Knows nothing of sensitivities, sampling or data: a *noise
multiplier* is the noise's standard deviation divided by the l2 sensitivity.

The Gaussian mechanism with multiplier m is (epsilon, delta)-DP exactly when (Balle & Wang 2018, Theorem 8)

    delta >= Phi(a) - e^epsilon Phi(b),    a = 1/(2m) - epsilon m,    b = -1/(2m) - epsilon m.

The difference cancels badly, so it is computed in decimals with as many digits as the cancellation eats, and the
bound on the remaining error is added.  This concerns Gaussian noise over the real numbers, rounded afterwards or
not; discrete Gaussian noise is accounted for by its rho (:mod:`dpcov.privacy.convert`).
"""

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from dpcov.errors import BudgetError, NumericError
from dpcov.privacy.convert import NEGLIGIBLE, require_delta, require_positive, round_up, to_decimal

SMALLEST_DELTA = Fraction(1, 10**300)
"""The smallest delta that noise is calibrated for."""

_GUARD_DIGITS = 60
_TAIL_CUT = 50  # Phi(-50) < 10^-543.
_B_CUT = 70  # |b| <= 70 whenever |a| <= 50 and epsilon <= 1000.
_MULTIPLIER_DIGITS = 18
_STEPS = 200


def gaussian_delta(noise_multiplier: Fraction, epsilon: Fraction) -> Fraction:
    """Return the delta of Gaussian noise at this epsilon, rounded up.

    Parameters
    ----------
    noise_multiplier
        Standard deviation over l2 sensitivity, greater than zero.
    epsilon
        Not negative.

    Returns
    -------
    Fraction
        An upper bound, within a relative 1e-20 of the truth where the truth exceeds 1e-500 and epsilon <= 1000.
    """
    require_positive("noise_multiplier", noise_multiplier)
    if epsilon < 0:
        raise BudgetError("epsilon must not be negative.")
    a = 1 / (2 * noise_multiplier) - epsilon * noise_multiplier
    b = a - 1 / noise_multiplier
    if a < -_TAIL_CUT:
        return NEGLIGIBLE
    if a > _TAIL_CUT:
        return Fraction(1)
    with localcontext(Context(prec=_digits_needed(a, b, noise_multiplier))) as context:
        scale, delta = Decimal(0), _normal_cdf(a)
        # Leaving e^epsilon Phi(b) out only enlarges delta.
        if b > -_B_CUT:
            scale = to_decimal(epsilon).exp()
            delta -= scale * _normal_cdf(b)
        # Each Phi <= 1 is off by less than 10^9 units in the last digit: under 10^5 roundings, amplified by x^2.
        # The sum stays below 1, since the last digit lies 50 places behind 1 - Phi(a).
        delta += (1 + scale) * Decimal(10) ** (9 - context.prec)
        return round_up(delta)


@lru_cache(maxsize=256)
def gaussian_noise_multiplier(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the smallest noise multiplier that is (epsilon, delta)-DP, rounded up.

    Parameters
    ----------
    epsilon
        Greater than zero.
    delta
        Between ``SMALLEST_DELTA`` and 1.

    Returns
    -------
    Fraction
        ``gaussian_delta`` of it is at most delta; it exceeds the optimum by at most a relative 1e-12.
    """
    require_positive("epsilon", epsilon)
    if require_delta(delta) < SMALLEST_DELTA:
        raise BudgetError("delta is smaller than 1e-300. Use a larger delta.")
    multiplier = _solve(epsilon, delta)
    for exponent in range(17, 12, -1):
        candidate = _round_multiplier(multiplier * (1 + Fraction(1, 10**exponent)))
        if gaussian_delta(candidate, epsilon) <= delta:
            return candidate
    raise NumericError(
        "The noise could not be calibrated for this budget. Use a larger epsilon or delta."
    )


def _solve(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find the multiplier where delta is met, by Newton steps on logarithms inside a shrinking bracket."""
    low, high = _bracket(epsilon, delta)
    multiplier = (low + high) / 2
    for _ in range(_STEPS):
        achieved = gaussian_delta(multiplier, epsilon)
        if achieved > delta:
            low = multiplier
        else:
            high = multiplier
        step = _newton(multiplier, epsilon, achieved, delta)
        if abs(step - multiplier) <= multiplier / 10**17:
            return multiplier
        multiplier = _round_multiplier(step if low < step < high else (low + high) / 2)
    return high


def classical_noise_multiplier(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return sqrt(2 log(1.25 / delta)) / epsilon, rounded up: the papers' multiplier, valid for epsilon <= 1 only."""
    require_positive("epsilon", epsilon)
    require_delta(delta)
    if epsilon > 1:
        raise BudgetError(
            "The classical formula for Gaussian noise holds for epsilon <= 1 only. Use the analytic calibration."
        )
    with localcontext(Context(prec=_GUARD_DIGITS)):
        exact = (2 * (Decimal("1.25") / to_decimal(delta)).ln()).sqrt() / to_decimal(epsilon)
        multiplier = round_up(exact, _MULTIPLIER_DIGITS)
    if gaussian_delta(multiplier, epsilon) > delta:
        raise BudgetError(
            "The classical formula does not reach this delta. Use the analytic calibration."
        )
    return multiplier


def _bracket(epsilon: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
    """Double or halve until the answer lies between."""
    high = Fraction(1)
    while gaussian_delta(high, epsilon) > delta:
        high *= 4
    low = high / 4
    while gaussian_delta(low, epsilon) <= delta:
        low, high = low / 4, low
    return low, high


def _newton(
    multiplier: Fraction, epsilon: Fraction, achieved: Fraction, delta: Fraction
) -> Fraction:
    """Take one step, from d delta / d m = -phi(a) / m^2."""
    a = 1 / (2 * multiplier) - epsilon * multiplier
    with localcontext(Context(prec=_GUARD_DIGITS)):
        m, reached = to_decimal(multiplier), to_decimal(achieved)
        density = (-to_decimal(a * a / 2)).exp() / (2 * _pi()).sqrt()
        log_ratio = (reached / to_decimal(delta)).ln()
        # The cap keeps a far-away step finite; the bracket then decides.
        return Fraction(m * min(log_ratio * m * reached / density, Decimal(20)).exp())


def _round_multiplier(multiplier: Fraction) -> Fraction:
    """Keep the numbers short."""
    with localcontext(Context(prec=_GUARD_DIGITS)):
        return round_up(to_decimal(multiplier), _MULTIPLIER_DIGITS)


def _digits_needed(a: Fraction, b: Fraction, multiplier: Fraction) -> int:
    """Count the digits lost to cancellation: in 1/2 - Phi, about x^2 / (2 log 10); in the difference, log10(m)."""
    tail = float(min(max(a * a, b * b), Fraction(_B_CUT**2))) / (2 * math.log(10))
    return _GUARD_DIGITS + math.ceil(tail) + 2 * len(str(int(multiplier)))


def _normal_cdf(x: Fraction) -> Decimal:
    """Return Phi(x) = 1/2 + phi(x) (x + x^3/3 + x^5/(3 5) + ...) in the current context; no term cancels another."""
    point = to_decimal(x)
    square = point * point
    term, total, k = point, Decimal(0), 1
    # Terms grow up to k = x^2 at first; where one no longer counts they fall geometrically.
    while total != (total := total + term):
        k += 2
        term = term * square / k
    return Decimal("0.5") + (-square / 2).exp() / (2 * _pi()).sqrt() * total


def _pi() -> Decimal:
    """Return pi in the current context: 16 atan(1/5) - 4 atan(1/239) (Machin)."""
    return 16 * _atan_inverse(5) - 4 * _atan_inverse(239)


def _atan_inverse(n: int) -> Decimal:
    """Return atan(1/n) by its alternating series."""
    power, total, k = Decimal(1) / n, Decimal(0), 1
    while total != (total := total + power / k):
        k += 2
        power /= -n * n
    return total

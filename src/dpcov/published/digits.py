"""Write numbers for people: counts, parts, and what counts of a number with an error.

Contract: an error is never written smaller than it is by more than a rounding.
"""

from math import ceil, floor, isfinite, log10


def plural(count: int, noun: str) -> str:
    """Write a number of things: 1 feature, 2,000 features."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def plus_minus(value: float) -> str:
    """Write half the width of an interval: two digits, never less than the value."""
    if not isfinite(value):
        return "–"
    digits = 2 if value >= 0.01 else 3
    return f"{ceil(value * 10**digits - 1e-9) / 10**digits:.{digits}f}"


def percent(share: float) -> str:
    """Write a part of a whole with two digits, or with three where it is all of it."""
    return f"{100 * share:{'.2g' if abs(share) < 0.995 else '.0f'}} %"


def two_digits(value: float) -> str:
    """Two digits, or the whole number where that has more: ``0.047``, ``1,204``."""
    return f"{value:.2g}" if abs(value) < 99.5 else f"{value:,.0f}"


def with_error(value: float, within: float) -> tuple[str, str]:
    """Write a number to the last digit that counts, and half the width of its interval."""
    if not (isfinite(value) and isfinite(within) and within > 0):
        return _digits(value), _digits(within)
    places = 1 - floor(log10(within))
    if not -6 <= places <= 6:
        return f"{value:.4g}", f"{within:.2g}"
    return _digits(value, places), _digits(within, places)


def _digits(value: float, places: int | None = None) -> str:
    if places is None:
        return f"{value:.4g}" if isfinite(value) else "–"
    # Adding zero takes the sign of a rounded zero; years have no comma.
    rounded, comma = round(float(value), places) + 0.0, "," * (abs(value) >= 10_000)
    return f"{rounded:{comma}.{max(places, 0)}f}"

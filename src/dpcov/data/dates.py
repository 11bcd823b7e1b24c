"""Read dates from text, and turn them into numbers.

Contract: a date is the one that is written, whatever its time and time zone; neither the locale nor
the clock of a machine counts.  Days are counted from January 1, 1970.
"""

import re
from calendar import isleap
from contextlib import suppress
from datetime import date
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcov.errors import SchemaError

Floats = NDArray[np.float64]

_EPOCH = date(1970, 1, 1).toordinal()
# The mean year of the Gregorian calendar.
DAYS_OF_A_YEAR = 365.2425
_ISO = (
    r"(?P<Y>[0-9]{4})-(?P<m>[0-9]{2})-(?P<d>[0-9]{2})"
    r"(?:[T ][0-2][0-9]:[0-5][0-9](?::[0-6][0-9](?:[.,][0-9]+)?)?"
    r" ?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
# Directives of digits, and how many: one alone may do where no other digits are beside them.
_DIGITS = {"Y": 4, "m": 2, "d": 2, "j": 3, "H": 2, "I": 2, "M": 2, "S": 2, "f": 6}
_OTHERS = {
    "b": f"(?P<b>(?i:{'|'.join(name[:3] for name in _MONTHS)}))",
    "B": f"(?P<b>(?i:{'|'.join(_MONTHS)}))",
    "p": "(?i:[ap]m)",
    "z": "(?:Z|[+-][0-9]{2}:?[0-9]{2})",
    "%": "%",
}
# What of a text makes the date.
_USED = "YmdjbB"


@cache
def pattern_of(written: str) -> re.Pattern[str]:
    """Return what texts of this `strptime` format look like; an empty format means ISO.

    Raises a `SchemaError` for a directive that depends on the locale, or leaves the year open.
    """
    # Blanks around a format count as little as those around a cell.
    written = written.strip()
    if not written:
        return re.compile(_ISO)
    pieces = re.findall("%.|[^%]+|%$", written, re.DOTALL)
    signs = [piece[1:] for piece in pieces if piece[0] == "%" and piece != "%%"]
    unknown = set(signs) - {*_DIGITS, *_OTHERS}
    twice = len(set(signs)) < len(signs) or {*"bB"} <= {*signs}
    # The day of a year says the month, too: the two could differ.
    twice |= "j" in signs and not set(signs).isdisjoint("mdbB")
    if unknown or twice or "Y" not in signs:
        raise SchemaError(
            "a format of dates has %Y, and what it needs of %m %d %b %B, or %j alone, and of "
            "%H %I %M %S %f %p %z"
        )
    digits = [piece[0] == "%" and piece[1:] in _DIGITS for piece in pieces]
    beside = [any(pair) for pair in zip([False, *digits], [*digits[1:], False], strict=False)]
    parts = (_part(piece, alone=not other) for piece, other in zip(pieces, beside, strict=True))
    return re.compile("".join(parts), re.ASCII)


def _part(piece: str, *, alone: bool) -> str:
    if piece[0] != "%":
        return re.escape(piece)
    sign = piece[1:]
    if sign in _OTHERS:
        return _OTHERS[sign]
    most = _DIGITS[sign]
    least = 1 if alone and sign != "Y" else most
    named = f"?P<{sign}>" if sign in _USED else "?:"
    return f"({named}[0-9]{{{least},{most}}})"


def day_of(text: str, pattern: re.Pattern[str]) -> float | None:
    """Return the day of a text, None if it is no date of this pattern."""
    if not (match := pattern.fullmatch(text)):
        return None
    found = match.groupdict()
    month = _month_of(found["b"]) if found.get("b") else int(found.get("m") or 1)
    year, of_year = int(found["Y"]), int(found.get("j") or 1)
    try:
        first = date(year, month, int(found.get("d") or 1)).toordinal()
    except ValueError:
        return None
    exists = 1 <= of_year <= 365 + isleap(year)
    return float(first + of_year - 1 - _EPOCH) if exists else None


def days_of_texts(texts: pa.Array, pattern: re.Pattern[str]) -> Floats:
    """Return the days of texts, as `day_of` does, or NaN: it may know more, but no other day."""
    if not set(pattern.groupindex) <= {*"Ymd"}:
        return np.full(len(texts), np.nan)
    if pattern.pattern == _ISO:
        usual = pc.match_substring_regex(texts, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
        # Arrow reads these faster, and fails at February 30.
        if 2 * usual.true_count > len(texts):
            with suppress(pa.ArrowInvalid):
                days = pc.if_else(usual, texts, None).cast(pa.date32()).cast(pa.int32())
                read = days.to_numpy(zero_copy_only=False).astype(np.float64)
                return np.where(read < 1 - _EPOCH, np.nan, read)
    found = pc.extract_regex(texts, f"^ *(?:{pattern.pattern}) *$")
    year, month, day = (_integers(found, sign) for sign in "Ymd")
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    first, next_first = months.astype("datetime64[D]"), (months + 1).astype("datetime64[D]")
    exists = (year > 0) & (month > 0) & (month <= 12) & (day > 0)
    exists &= day <= (next_first - first).astype(np.int64)
    return np.where(exists, first.astype(np.int64) + day - 1.0, np.nan)


def _integers(found: pa.Array, sign: str) -> NDArray[np.int64]:
    # What is not in the format counts as 1; where nothing was found, 0 is no date.
    if found.type.get_field_index(sign) < 0:
        return np.ones(len(found), dtype=np.int64)
    texts = pc.struct_field(found, sign)
    return np.asarray(pc.cast(texts, pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))


def _month_of(name: str) -> int:
    return next(at for at, month in enumerate(_MONTHS, 1) if month[:3] == name[:3].lower())


def day_of_date(cell: date) -> float:
    """Return the day of a date, or of a time as it is written."""
    return float(cell.toordinal() - _EPOCH)


def years(days: Floats) -> Floats:
    """Return the decimal year of days: January 1, 2020 is 2020.0, July 2, 2020 is 2020.5."""
    known = np.isfinite(days)
    dates = np.where(known, days, 0.0).astype("datetime64[D]")
    year = dates.astype("datetime64[Y]")
    first, next_first = year.astype("datetime64[D]"), (year + 1).astype("datetime64[D]")
    part = (dates - first).astype(np.float64) / (next_first - first).astype(np.float64)
    return np.where(known, year.astype(np.float64) + 1970.0 + part, days)


def numbers_of_days(days: Floats, unit: str, reference: date | None) -> Floats:
    """Return the "year" of days, or the "days" to a reference, or the "age" then."""
    if unit == "year" or reference is None:
        return years(days)
    return np.asarray((day_of_date(reference) - days) / (1.0 if unit == "days" else DAYS_OF_A_YEAR))


def days_of_numbers(numbers: Floats, unit: str, reference: date | None) -> Floats:
    """Return days of which such numbers are made, up to a day."""
    if unit == "year" or reference is None:
        return (numbers - 1970.0) * DAYS_OF_A_YEAR
    return np.asarray(
        day_of_date(reference) - numbers * (1.0 if unit == "days" else DAYS_OF_A_YEAR)
    )

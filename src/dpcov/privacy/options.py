"""Make options plain: a field's annotation says what it takes.

Contract: after :func:`make_plain` every field is an int, float, bool, str or None in its range,
which a manifest can hold; anything else is refused with a UsageError that names the option.
"""

from contextlib import suppress
from dataclasses import dataclass, fields
from decimal import Decimal
from math import inf, isfinite, nan
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from dpcov.errors import UsageError

# Floats count exactly up to here.
_MOST = 2**53


@dataclass(frozen=True)
class Between:
    """Range of a number, as in ``Annotated[int, Between(2, 60)]``; without its ends if ``open``."""

    low: float = -inf
    high: float = inf
    open: bool = False

    def holds(self, number: float) -> bool:
        """Whether a number lies in the range; NaN lies in none."""
        return self.low < number < self.high if self.open else self.low <= number <= self.high

    def __str__(self) -> str:
        if self.low == -inf:
            return ""
        if self.high >= _MOST:
            return f" above {self.low:.3g}" if self.open else f", {self.low:.3g} or more"
        return f" from {self.low:.3g} to {self.high:.6g}" + self.open * ", both excluded"


Count = Annotated[int, Between(1, _MOST)]
"""Of rows, columns, people."""


def make_plain(options: Any, *names: str) -> None:
    """Make fields of a frozen dataclass plain, all or those named, or refuse them."""
    hints = get_type_hints(type(options), include_extras=True)
    for name in names or [field.name for field in fields(options)]:
        object.__setattr__(options, name, plain(name, getattr(options, name), hints[name]))


def plain(name: str, value: object, hint: Any) -> Any:
    """Return the plain value of one option.

    Parameters
    ----------
    name : str
        For the message.
    value : object
        As typed: Python's own numbers, those of numpy, fractions and decimals.
    hint : type
        ``int`` or ``float``, :class:`Between` limits; ``bool``; ``str``; a ``Literal`` of words; or
        one of these or None.

    Examples
    --------
    >>> plain("clip", Decimal("0.5"), Annotated[float, Between(0, 1)])
    0.5
    """
    if get_origin(hint) in (Union, UnionType):
        if value is None:
            return None
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    kind, within = get_args(hint) if get_origin(hint) is Annotated else (hint, Between())
    if get_origin(kind) is Literal:
        return _word(name, value, get_args(kind))
    if kind is bool:
        return _switch(name, value)
    if kind is str:
        return _text(name, value)
    return (_whole if kind is int else _number)(name, value, within)


def _word(name: str, value: object, words: tuple[str, ...]) -> str:
    for word in words:
        if isinstance(value, str) and value == word:
            return word
    raise UsageError(f"{name} must be one of: {', '.join(words)}.")


def _switch(name: str, value: object) -> bool:
    # By name, so that nobody imports numpy for this.
    if type(value).__module__ == "numpy" and type(value).__name__ == "bool":
        return bool(value)
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be True or False.")
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{name} must be text.")
    return str(value)


def _whole(name: str, value: object, within: Between) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or not within.holds(int(value)):
        raise UsageError(f"{name} must be a whole number{within}.")
    return int(value)


def _number(name: str, value: object, within: Between) -> float:
    number = nan
    if not isinstance(value, bool) and isinstance(value, Real | Decimal):
        # Beyond the largest float, or a signaling NaN: not a number.
        with suppress(OverflowError, ValueError):
            number = float(value)
    if not (isfinite(number) and within.holds(number)):
        raise UsageError(f"{name} must be a number{within}.")
    return number

"""Options as people type them: a field's annotation says what it takes, and one function makes that plain.

Contract: after :func:`make_plain` every field is an int, float, bool, str or None in its range, which a
manifest can hold; anything else was refused with a UsageError that names the option.  Knows nothing of what
options mean.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from decimal import Decimal
from math import inf, isfinite, nan
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from dpcov.errors import UsageError

_MOST = 2**53
"""Floats can count so far."""


@dataclass(frozen=True)
class Between:
    """Range of a number, as in ``Annotated[int, Between(2, 60)]``; both ends belong to it unless it is ``open``."""

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
    """Replace fields of a frozen dataclass, all or those named, by the plain values they stand for, or refuse them."""
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
        ``int`` or ``float``, with a :class:`Between` where the range is limited; ``bool``; ``str``; a ``Literal`` of
        words; or one of these or None.

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
    return _READERS[kind](name, value, within)


def _word(name: str, value: object, words: tuple[str, ...]) -> str:
    for word in words:
        if isinstance(value, str) and value == word:
            return word
    raise UsageError(f"{name} must be one of: {', '.join(words)}.")


def _switch(name: str, value: object, within: Between) -> bool:
    if type(value).__module__ == "numpy" and type(value).__name__ == "bool":
        value = bool(value)
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be True or False.")
    return value


def _whole(name: str, value: object, within: Between) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or not within.holds(int(value)):
        raise UsageError(f"{name} must be a whole number{within}.")
    return int(value)


def _text(name: str, value: object, within: Between) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{name} must be text.")
    return str(value)


def _number(name: str, value: object, within: Between) -> float:
    number = nan
    if not isinstance(value, bool) and isinstance(value, Real | Decimal):
        with suppress(OverflowError, ValueError):  # beyond the largest float; a signaling NaN
            number = float(value)
    if not (isfinite(number) and within.holds(number)):
        raise UsageError(f"{name} must be a number{within}.")
    return number


_READERS: dict[Any, Callable[[str, object, Between], Any]] = {
    **{bool: _switch, int: _whole, float: _number, str: _text}
}

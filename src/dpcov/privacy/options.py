"""Make options plain: a field's annotation says what it takes.

Contract: after :func:`make_plain` every field is an int, float, bool, str or None in its range,
which a manifest can hold; anything else is refused with a UsageError that names the option.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from decimal import Decimal
from functools import cache
from math import inf, isfinite
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

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
        if self.high in (_MOST, inf):
            return f" above {self.low:.3g}" if self.open else f", {self.low:.3g} or more"
        return f" from {self.low:.3g} to {self.high:.6g}" + self.open * ", both excluded"


Count = Annotated[int, Between(1, _MOST)]
"""Of rows, columns, people."""

Seed = Annotated[int, Between(0)]
"""As NumPy takes them."""


def make_plain(options: Any, *names: str) -> None:
    """Make fields of a frozen dataclass plain, all or those named, or refuse them."""
    kind: Any = type(options)
    hints = _hints(kind)
    for name in names or [field.name for field in fields(options)]:
        object.__setattr__(options, name, plain(name, getattr(options, name), hints[name]))


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    # Annotations are read anew whenever they are asked for.
    return get_type_hints(kind, include_extras=True)


def plain(name: str, value: object, hint: Any) -> Any:
    """Return the plain value of one option, as its annotation says, or raise UsageError.

    ``hint`` is ``int`` or ``float``, with :class:`Between` if limited; ``bool``; ``str``; a
    ``Literal`` of words; or one of these or None.
    """
    if get_origin(hint) in (Union, UnionType):
        if value is None:
            return None
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    kind, within = get_args(hint) if get_origin(hint) is Annotated else (hint, Between())
    found = _read(kind, value)
    if found is None or (kind in (int, float) and not within.holds(found)):
        wanted = _WANTED.get(kind, "one of: " + ", ".join(get_args(kind)))
        raise UsageError(f"{name} must be {wanted}{within}.")
    return found


_WANTED = {bool: "True or False", int: "a whole number", float: "a number", str: "text"}


def _read(kind: Any, value: object) -> Any:
    # The plain value of this kind, None if there is none.
    # By name, so that nobody imports numpy for its truth values.
    if type(value).__module__ == "numpy" and type(value).__name__ == "bool":
        value = bool(value)
    if kind is bool or isinstance(value, bool):
        return value if kind is bool and isinstance(value, bool) else None
    if isinstance(value, str):
        # Subclasses of str, such as numpy's, become plain; arrays compare to arrays.
        return str(value) if kind is str or value in get_args(kind) else None
    if kind is int:
        return int(value) if isinstance(value, Integral) else None
    if kind is float and isinstance(value, Real | Decimal):
        # Beyond the largest float, or a signaling NaN: not a number.
        with suppress(OverflowError, ValueError):
            number = float(value)
            return number if isfinite(number) else None
    return None

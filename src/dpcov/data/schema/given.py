"""Take what a schema file or a person's code gives for a field as a plain value, or refuse it."""

import math
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

from dpcov.data.cells import plain_cell
from dpcov.errors import SchemaError

Codes: TypeAlias = tuple[str | int | float, ...]


def as_texts(what: str, given: object) -> tuple[str, ...]:
    """Return a list of texts as a tuple, without blanks around them."""
    # Blanks around a category are ignored in the data, too.
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise SchemaError(f'{what} are a list of texts, such as ["Male", "Female"].')
    texts = tuple(given)
    if not all(isinstance(text, str) for text in texts):
        raise SchemaError(f'{what} are texts: write whole numbers so, too: ["1", "2"].')
    return tuple(text.strip() for text in texts)


def as_codes(given: object) -> Codes | None:
    """Return missing codes as numbers, and texts without blanks around them."""
    if given is None:
        return None
    codes = () if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    plain = [code.strip() if isinstance(code, str) else plain_cell(code) for code in codes]
    wrong = any(isinstance(code, bool) or not isinstance(code, str | int | float) for code in plain)
    if wrong or (not codes and given not in ((), [])):
        raise SchemaError('Missing codes are a list of numbers or texts: [999, "unknown"].')
    return tuple(dict.fromkeys(plain))


def as_bound(value: object) -> float | None:
    """Return a bound as a float, or None where it is not filled in."""
    if value is None:
        return None
    # Python takes True for a number.
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise SchemaError("A bound is a number, such as 90 or 0.5, without quotes.")
    # Beyond all floats: refused with the other bounds that are not finite.
    number = math.inf
    with suppress(OverflowError, ValueError, TypeError):
        number = float(value)
    return None if math.isnan(number) else number


def as_names(value: object) -> tuple[Any, ...]:
    """Return a list of names, or of such lists, as a tuple."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise SchemaError('missing_together is a list of lists: [["bp_sys", "bp_dia"]].')
    return tuple(map(as_name, value))


def as_name(value: Any) -> Any:
    """Return a whole number as text: data frames may number their columns, by years for example."""
    is_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return str(value) if is_number else value

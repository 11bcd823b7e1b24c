"""What a schema says of columns, as plain values: kinds, bounds, categories, weights.

Contract: everything is public, and the norm bound of an encoded row follows from it alone.
"""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from dpcov.errors import SchemaError
from dpcov.published.columns import EncodedColumn, EncodedKind

# ``center``: a missing number is encoded as 0, the middle of its bounds; a missing category as no
# category.  ``indicator``: the same, and a further 0/1 column says that the value is missing.
Missing = Literal["center", "indicator"]


class _Declared(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What is said of one column of the table."""


class Numeric(_Declared, tag="numeric", frozen=True, kw_only=True):
    """A number between public bounds; values outside are moved to the nearest bound."""

    lower: float | None = None
    upper: float | None = None
    missing: Missing | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "lower", as_bound(self.lower))
        force_setattr(self, "upper", as_bound(self.upper))


class Boolean(_Declared, tag="boolean", frozen=True, kw_only=True):
    """True or false, encoded as a number with the bounds 0 and 1."""

    missing: Missing | None = None


class Categorical(_Declared, tag="categorical", frozen=True, kw_only=True):
    """One of a public list of categories; any other value is encoded as zeros."""

    categories: tuple[str, ...] = ()
    missing: Missing | None = None

    def __post_init__(self) -> None:
        given: object = self.categories
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise SchemaError('Categories are a list of texts, such as ["Male", "Female"].')
        labels = tuple(given)
        if not all(isinstance(label, str) for label in labels):
            raise SchemaError('Categories are texts: write whole numbers so, too: ["1", "2"].')
        # Blanks around a category are ignored in the data, too.
        force_setattr(self, "categories", tuple(label.strip() for label in labels))


class Ignored(_Declared, tag="ignored", frozen=True, kw_only=True):
    """A column that is never read, unless it holds the weights."""

    note: str = ""


Declared = Numeric | Boolean | Categorical | Ignored


class Weights(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The column of row weights, which lie between 0 and a public upper bound.

    Larger weights are moved to it; missing and negative ones are 0.  Listed as numeric from 0 to
    ``upper``, the column releases Kish's design effect (docs/weights.md); it may be ignored, too.
    """

    column: str
    upper: float | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "upper", as_bound(self.upper))


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


class Declarations(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a :class:`~dpcov.data.schema.schema.Schema`, and what follows from them."""

    columns: dict[str, Declared]
    title: str = ""
    intercept: bool = True
    missing: Missing = "center"
    weights: Weights | None = None
    rows_per_person: int = 1
    norm_bound: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise SchemaError("The columns are a mapping of column names to declarations.")
        force_setattr(self, "columns", dict(self.columns))
        for name in ("title", "intercept", "missing", "rows_per_person"):
            value = getattr(self, name)
            if isinstance(value, np.generic):
                force_setattr(self, name, value.item())
        force_setattr(self, "norm_bound", as_bound(self.norm_bound))

    @property
    def features(self) -> dict[str, Numeric | Boolean | Categorical]:
        """The columns that are encoded, in order."""
        return {name: kind for name, kind in self.columns.items() if not isinstance(kind, Ignored)}

    def missing_of(self, name: str) -> Missing:
        """How missing values of a feature are encoded."""
        return getattr(self.columns[name], "missing", None) or self.missing

    @property
    def worst_case_norm(self) -> float:
        """The largest l2 norm of an encoded row."""
        # Every feature has norm at most 1: a number has u**2 <= 1, or u = 0 where the indicator
        # is 1; one category at most is 1.
        return math.sqrt(len(self.features) + self.intercept)


def encoded_columns_of(schema: Declarations) -> tuple[EncodedColumn, ...]:
    """List the encoded columns of a schema whose bounds are known to be filled in."""
    columns = [_encoded("(intercept)", "", "intercept")] if schema.intercept else []
    for name, declared in schema.features.items():
        if isinstance(declared, Categorical):
            labels = declared.categories
            columns += [_encoded(f"{name}={label}", name, "category") for label in labels]
        elif isinstance(declared, Boolean):
            columns.append(_encoded(name, name, "boolean", 0.5, 0.5))
        else:
            # Halves first: the sum and the difference of two finite bounds may overflow.
            lower, upper = (declared.lower or 0.0) / 2, (declared.upper or 0.0) / 2
            columns.append(_encoded(name, name, "numeric", upper + lower, upper - lower))
        if schema.missing_of(name) == "indicator":
            columns.append(_encoded(f"{name} (missing)", name, "missing"))
    return tuple(columns)


def _encoded(
    name: str, source: str, kind: EncodedKind, center: float = 0.0, half_range: float = 1.0
) -> EncodedColumn:
    return EncodedColumn(name=name, source=source, kind=kind, center=center, half_range=half_range)

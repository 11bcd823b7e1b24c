"""What a schema says of columns, as plain values: kinds, bounds, categories, weights.

Contract: everything is public, and the norm bound of an encoded row follows from it alone.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct, field
from msgspec.structs import force_setattr

from dpcov.data.cells import transformed
from dpcov.data.layout import FileLayout
from dpcov.data.schema.given import Codes, as_bound, as_codes, as_name, as_names, as_texts
from dpcov.errors import SchemaError
from dpcov.published.file.columns import INTERCEPT, EncodedColumn, EncodedKind

# ``center``: a missing number is encoded as 0, the middle of its bounds; a missing category as no
# category.  ``indicator``: the same, and a further 0/1 column says that the value is missing.
# ``never``: the column is complete; a cell that is missing all the same is put at the center.
Missing = Literal["center", "indicator", "never"]
Transform = Literal["log1p", "sqrt"]
DateAs = Literal["year", "days", "age"]
Decimal = Literal[".", ","]
Thousands = Literal["", ",", ".", " ", "'"]
# What ``other`` is where values that are not listed count as no level.
NO_OTHER = "none"


class _Declared(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What is said of one column of the table."""

    description: str = ""


class _Feature(_Declared, frozen=True, kw_only=True):
    """What is said of every column that is encoded; None stands for what the table says."""

    missing: Missing | None = None
    # Cells that mean "missing" beside nothing, NaN and words such as NA.
    missing_codes: Codes | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "missing_codes", as_codes(self.missing_codes))


class _Bounded(_Feature, frozen=True, kw_only=True):
    """What is read as a number between public bounds; others are moved to the nearest bound."""

    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "lower", as_bound(self.lower))
        force_setattr(self, "upper", as_bound(self.upper))

    @property
    @abstractmethod
    def function(self) -> str:
        """What is made of the number, empty if nothing."""

    @property
    def encoded_bounds(self) -> tuple[float, float]:
        """The bounds of what is encoded; 0 where they are not filled in."""
        return self.lower or 0.0, self.upper or 0.0

    def of(self, name: str) -> str:
        """What is encoded of a column of this name, in words."""
        return f"{self.function}({name})" if self.function else name


class Numeric(_Bounded, tag="numeric", frozen=True, kw_only=True):
    """A number between public bounds; values outside are moved to the nearest bound.

    Parameters
    ----------
    lower, upper : float
        Public bounds, in the unit of the column, before any transform.
    unit : str
        Carried into the release: ``"kg"``.
    transform : {"log1p", "sqrt"}, optional
        A public function that is applied to the number within its bounds.  The encoded column is
        called ``log1p(income)``, and every estimate is one of the transformed value.
    decimal, thousands : str, optional
        The marks of numbers that are written as text: ``decimal=","`` and ``thousands="."`` read
        ``1.234,5``.  Cells that hold numbers are what they are.
    missing_codes : sequence of str or number, optional
        Cells that mean "missing", such as ``(999, "unknown")``; None takes the table's.
    """

    unit: str = ""
    transform: Transform | None = None
    decimal: Decimal | None = None
    thousands: Thousands | None = None

    @property
    def function(self) -> str:
        """The transform."""
        return self.transform or ""

    @property
    def encoded_bounds(self) -> tuple[float, float]:
        """The bounds under the transform."""
        lower, upper = transformed(np.array(super().encoded_bounds), self.transform).tolist()
        return lower, upper

    @property
    def encoded_unit(self) -> str:
        """The unit under the transform."""
        return self.of(self.unit) if self.unit else ""


class Date(_Bounded, tag="date", frozen=True, kw_only=True):
    """A date, encoded as a number between public bounds; a time of day is left out.

    Parameters
    ----------
    as_ : {"year", "days", "age"}
        ``as`` in a file.  ``"year"``: the decimal year, 2020.5 for July 2, 2020; ``"days"``: days
        from the date to the reference; ``"age"``: the same in years of 365.2425 days.
    reference : date, optional
        For days and ages.
    format : str
        How texts write the date, as for ``strptime``: ``"%d.%m.%Y"``; empty for ISO.
    lower, upper : float
        Public bounds of the resulting number.
    """

    as_: DateAs = field(default="year", name="as")
    reference: date | None = None
    format: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        given: object = self.reference
        if isinstance(given, str):
            try:
                force_setattr(self, "reference", date.fromisoformat(given))
            except ValueError:
                raise SchemaError("A reference date is written as 2020-12-31.") from None

    @property
    def function(self) -> str:
        """The number that is made of a date."""
        return self.as_

    @property
    def encoded_unit(self) -> str:
        """Years or days."""
        return "days" if self.as_ == "days" else "years"


class Boolean(_Feature, tag="boolean", frozen=True, kw_only=True):
    """True or false, encoded as a number with the bounds 0 and 1."""


class Categorical(_Feature, tag="categorical", frozen=True, kw_only=True):
    """One of a public list of levels; any other value is encoded as zeros, or as ``other``.

    Parameters
    ----------
    categories : sequence of str
        As the data write them.
    labels : mapping of str to str
        What levels are called in the release: ``{"1": "male"}`` gives the column ``sex=male``.
    groups : mapping of str to sequence of str
        Further levels, each with the spellings in the data that count as it.
    other : str
        ``"none"``, or the level that every other value counts as that is not missing.
    ignore_case : bool
        Whether ``Male`` and ``MALE`` are one.  Blanks around a value never count.
    """

    categories: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    other: str = NO_OTHER
    ignore_case: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "categories", as_texts("Categories", self.categories))
        if not all(isinstance(each, Mapping) for each in (self.labels, self.groups)):
            raise SchemaError('Labels and groups are tables, such as {"1" = "male"}.')
        sides = (as_texts("Labels", tuple(side)) for side in (self.labels, self.labels.values()))
        force_setattr(self, "labels", dict(zip(*sides, strict=True)))
        groups = {str(name).strip(): as_texts("Groups", of) for name, of in self.groups.items()}
        force_setattr(self, "groups", groups)
        force_setattr(self, "other", str(self.other).strip())

    @property
    def levels(self) -> tuple[str, ...]:
        """Categories, groups and the level of all others, each once."""
        other = () if self.other == NO_OTHER else (self.other,)
        return tuple(dict.fromkeys(self.categories + tuple(self.groups) + other))

    def spelling_of(self, level: str) -> str:
        """Return one text in the data that counts as the level."""
        own = self.groups.get(level, ())
        return level if level in self.categories or not own else own[0]

    @property
    def names(self) -> tuple[str, ...]:
        """What the levels are called."""
        return tuple(self.labels.get(level, level) for level in self.levels)


class Ignored(_Declared, tag="ignored", frozen=True, kw_only=True):
    """A column that is never read, unless it holds the weights."""

    note: str = ""


Declared = Numeric | Date | Boolean | Categorical | Ignored
Feature: TypeAlias = Numeric | Date | Boolean | Categorical


class Weights(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The column of row weights, which lie between 0 and a public upper bound.

    Larger weights are moved to it; missing and negative ones are 0.  Listed as numeric from 0 to
    ``upper``, the column releases Kish's design effect (docs/weights.md); it may be ignored, too.
    """

    column: str
    upper: float | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "column", as_name(self.column))
        force_setattr(self, "upper", as_bound(self.upper))


class Declarations(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a :class:`~dpcov.data.schema.schema.Schema`, and what follows from them."""

    columns: dict[str, Declared]
    title: str = ""
    wildcards: bool = True
    intercept: bool = True
    missing: Missing = "indicator"
    # Columns whose values are missing in the same rows: one indicator says so of all of them.
    missing_together: tuple[tuple[str, ...], ...] = ()
    missing_codes: Codes = ()
    decimal: Decimal = "."
    thousands: Thousands = ""
    weights: Weights | None = None
    rows_per_person: int = 1
    norm_bound: float | None = None
    file: FileLayout | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise SchemaError("The columns are a mapping of column names to declarations.")
        named = {as_name(name): kind for name, kind in self.columns.items()}
        if len(named) < len(self.columns):
            raise SchemaError("A column is listed twice, as a number and as text. Leave one out.")
        force_setattr(self, "columns", named)
        together = tuple(map(as_names, as_names(self.missing_together)))
        force_setattr(self, "missing_together", together)
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, np.generic):
                force_setattr(self, name, value.item())
        force_setattr(self, "norm_bound", as_bound(self.norm_bound))
        force_setattr(self, "missing_codes", as_codes(self.missing_codes))

    @property
    def features(self) -> dict[str, Feature]:
        """The columns that are encoded, in order."""
        return {name: kind for name, kind in self.columns.items() if not isinstance(kind, Ignored)}

    @property
    def groupings(self) -> list[str]:
        """Columns whose categories or truth values may have a matrix each."""
        kinds = self.columns.items()
        return [name for name, kind in kinds if isinstance(kind, Boolean | Categorical)]

    def codes_of(self, name: str) -> Codes:
        """Cells of a column that mean "missing"."""
        own: Codes | None = getattr(self.columns[name], "missing_codes", None)
        return self.missing_codes if own is None else own

    def marks_of(self, name: str) -> tuple[str, str]:
        """Decimal and thousands marks of a column's texts."""
        column = self.columns[name]
        decimal, thousands = getattr(column, "decimal", None), getattr(column, "thousands", None)
        return decimal or self.decimal, self.thousands if thousands is None else thousands

    def missing_of(self, name: str) -> Missing:
        """How missing values of a feature are encoded.

        Without an intercept indicators tell nothing of means: only columns that ask for one get it.
        A row without a weight counts for nothing, so the weights need none.
        """
        if self.weights is not None and self.weights.column == name:
            return "never"
        own: Missing | None = getattr(self.columns[name], "missing", None)
        return own or (self.missing if self.intercept is True else "center")

    @property
    def indicators(self) -> dict[str, tuple[str, ...]]:
        """Features behind which an indicator stands, and those that it speaks of."""
        features = self.features
        groups = [[n for n in features if n in group] for group in self.missing_together]
        shared = {name: tuple(group) for group in groups for name in group}
        marked = {
            name: shared.get(name, (name,))
            for name in features
            if name in shared or self.missing_of(name) == "indicator"
        }
        return {name: group for name, group in marked.items() if group[-1] == name}

    @property
    def worst_case_norm(self) -> float:
        """The largest l2 norm of an encoded row."""
        # Every feature has norm at most 1: a number has u**2 <= 1, or u = 0 where the indicator
        # is 1; one category at most is 1.
        return math.sqrt(len(self.features) + self.intercept)


def encoded_columns_of(schema: Declarations) -> tuple[EncodedColumn, ...]:
    """List the encoded columns of a schema whose bounds are known to be filled in."""
    columns = [_encoded(INTERCEPT, "", "intercept")] if schema.intercept else []
    indicators = schema.indicators
    for name, declared in schema.features.items():
        if isinstance(declared, Categorical):
            columns += [_encoded(f"{name}={level}", name, "category") for level in declared.names]
        elif isinstance(declared, Boolean):
            columns.append(_encoded(name, name, "boolean", 0.5, 0.5))
        else:
            # Halves first: the sum and the difference of two finite bounds may overflow.
            lower, upper = (bound / 2 for bound in declared.encoded_bounds)
            number = _encoded(declared.of(name), name, "numeric", upper + lower, upper - lower)
            columns.append(replace(number, unit=declared.encoded_unit))
        if group := indicators.get(name):
            together = group if len(group) > 1 else ()
            shown = f"{', '.join(group)} (missing)"
            columns.append(replace(_encoded(shown, name, "missing"), together=together))
    about = {name: declared.description for name, declared in schema.features.items()}
    return tuple(replace(each, description=about.get(each.source, "")) for each in columns)


def _encoded(
    name: str, source: str, kind: EncodedKind, center: float = 0.0, half_range: float = 1.0
) -> EncodedColumn:
    return EncodedColumn(name=name, source=source, kind=kind, center=center, half_range=half_range)

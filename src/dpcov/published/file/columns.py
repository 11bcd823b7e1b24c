"""What the columns of an encoded table are called and mean.

Contract: public metadata alone, all of it from the schema, so that a release may carry it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpcov.published.linalg.symmetric import Array

# Half ranges lie between these, so that their squares, in which covariances are measured, are
# finite floats other than zero; norm bounds so that their fourth powers are, in which noise is.
SMALLEST_SCALE, LARGEST_SCALE = 1e-150, 1e150
SMALLEST_BOUND, LARGEST_BOUND = 1e-70, 1e70

Scale = Annotated[float, msgspec.Meta(ge=SMALLEST_SCALE, le=LARGEST_SCALE)]
NormBound = Annotated[float, msgspec.Meta(ge=SMALLEST_BOUND, le=LARGEST_BOUND)]
Center = Annotated[float, msgspec.Meta(ge=-2 * LARGEST_SCALE, le=2 * LARGEST_SCALE)]

# What the encoded intercept is called, and the group of rows whose group is missing or not listed.
INTERCEPT, OTHER = "(intercept)", "(other)"

EncodedKind = Literal["intercept", "numeric", "boolean", "category", "missing"]
TWO_VALUED: tuple[EncodedKind, ...] = ("boolean", "category", "missing")


def of_kind(columns: Iterable["EncodedColumn"], *kinds: EncodedKind) -> NDArray[np.bool_]:
    """Which of k columns are of one of these kinds, (k,)."""
    return np.array([column.kind in kinds for column in columns], dtype=bool)


def half_ranges_of(columns: Iterable["EncodedColumn"]) -> Array:
    """Original units of one encoded unit, (k,)."""
    return np.array([column.half_range for column in columns], dtype=np.float64)


def centers_of(columns: Iterable["EncodedColumn"]) -> Array:
    """What columns are encoded around, in original units, (k,)."""
    return np.array([column.center for column in columns], dtype=np.float64)


def count_values(columns: Iterable["EncodedColumn"]) -> int:
    """Encoded columns but for the intercept and indicators of missing values."""
    return sum(column.kind not in ("intercept", "missing") for column in columns)


def numbers(columns: Iterable["EncodedColumn"]) -> tuple[int, ...]:
    """Places of the encoded columns of numbers: it is told of them alone what they lost."""
    return tuple(place for place, column in enumerate(columns) if column.kind == "numeric")


@dataclass(frozen=True, kw_only=True)
class EncodedColumn:
    """One column of the encoded table, before rows are divided by the norm bound.

    ``name`` is for people: ``age``, ``sex=Male``, ``age (missing)``, ``(intercept)``; ``source``
    the table's column, empty for the intercept.  The original value is ``center + half_range *
    encoded value``, between ``lower`` and ``upper`` where the geometry is not that of bounds.
    A number is called after its public function, ``log1p(income)`` or ``age(born)``, and is the
    function's value; ``unit`` is the unit of that.  ``together`` are the columns of the table that
    an indicator speaks of, where there are several.
    """

    name: str
    source: str
    kind: EncodedKind
    center: Center
    half_range: Scale
    lower: Center | None = None
    upper: Center | None = None
    unit: str = ""
    description: str = ""
    together: tuple[str, ...] = ()

    @property
    def level(self) -> str:
        """What one level of a category is called: ``Male`` of ``sex=Male``."""
        return self.name.removeprefix(f"{self.source}=")

    @property
    def missing_of(self) -> tuple[str, ...]:
        """Columns of the table whose values are missing where this indicator is one."""
        return self.together or (self.source,)

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest original value."""
        if self.lower is not None and self.upper is not None:
            return self.lower, self.upper
        return self.center + self.lowest * self.half_range, self.center + self.half_range

    @property
    def lowest(self) -> float:
        """Smallest encoded value."""
        if self.lower is None:
            return 0.0 if self.kind in ("category", "missing") else -1.0
        return (self.lower - self.center) / self.half_range

    @property
    def largest(self) -> float:
        """Largest encoded value."""
        return 1.0 if self.upper is None else (self.upper - self.center) / self.half_range


def given_names(columns: Iterable[EncodedColumn]) -> dict[str, str]:
    """Return what the values of every table column are called, by the column's own name.

    That of a number is called as it is encoded, ``log1p(income)``: rows that come with a release,
    or are drawn from it, have the function's values.
    """
    columns = tuple(columns)
    numbers = {column.source: column.name for column in columns if column.kind == "numeric"}
    return {source: source for column in columns for source in column.missing_of} | numbers

"""What the custodian declares about a table: columns, bounds, categories.

Promise: everything in a schema is public.  The person writes it from what anybody may know about the table,
never from its rows, and the norm bound of an encoded row follows from it alone.  Knows nothing of files.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Self, cast

import msgspec
import numpy as np

from dpcov.columns import EncodedColumn
from dpcov.errors import SchemaError

Missing = Literal["center", "indicator"]
"""``center``: a missing number is encoded as 0, the middle of its bounds; a missing category as no category.
``indicator``: the same, and a further 0/1 column says that the value is missing."""


class _Declared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What is said of one column of the table."""


class Numeric(_Declared, tag="numeric", frozen=True, kw_only=True):
    """A number between public bounds; values outside are moved to the nearest bound."""

    lower: float | None = None
    upper: float | None = None
    missing: Missing | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "lower", as_bound(self.lower))
        msgspec.structs.force_setattr(self, "upper", as_bound(self.upper))


class Boolean(_Declared, tag="boolean", frozen=True, kw_only=True):
    """True or false, encoded as a number with the bounds 0 and 1."""

    missing: Missing | None = None


class Categorical(_Declared, tag="categorical", frozen=True, kw_only=True):
    """One of a public list of categories; any other value is encoded as zeros."""

    categories: tuple[str, ...] = ()
    missing: Missing | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "categories", _as_categories(self.categories))


class Ignored(_Declared, tag="ignored", frozen=True, kw_only=True):
    """A column that is never read, unless it holds the weights."""

    note: str = ""


Declared = Numeric | Boolean | Categorical | Ignored


class Weights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The column of row weights, which lie between 0 and a public upper bound."""

    column: str
    upper: float | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "upper", as_bound(self.upper))


class Schema(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The public description of a sensitive table.

    Parameters
    ----------
    columns : mapping of str to Numeric, Boolean, Categorical or Ignored
        In the order of the encoded table.  Columns of the data that are not listed are not read.
    title : str
    intercept : bool
        Whether the encoded table starts with a column of ones, which gives means and centered covariances.
    missing : {"center", "indicator"}
        For all columns that do not say otherwise.
    weights : Weights, optional
        A row is multiplied by ``sqrt(weight / upper)``; needs the intercept.
    rows_per_person : int
        The largest number of rows one person can have in the table.
    norm_bound : float, optional
        A public bound on the l2 norm of an encoded row, below the worst case; longer rows are scaled down.

    Notes
    -----
    A schema may be a draft with unfilled bounds (``None``, or ``nan`` in a file) and empty lists of
    categories; `require_complete` refuses it.

    Examples
    --------
    >>> sex = Categorical(categories=("F", "M"))
    >>> schema = Schema(columns={"age": Numeric(lower=17, upper=90), "sex": sex})
    >>> [column.name for column in schema.encoded_columns]
    ['(intercept)', 'age', 'sex=F', 'sex=M']
    >>> round(schema.worst_case_norm**2, 9)
    3.0
    """

    columns: dict[str, Declared]
    title: str = ""
    intercept: bool = True
    missing: Missing = "center"
    weights: Weights | None = None
    rows_per_person: int = 1
    norm_bound: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise SchemaError("The columns of a schema are a mapping of column names to their declarations.")
        msgspec.structs.force_setattr(self, "columns", dict(self.columns))
        for name in ("title", "intercept", "missing", "rows_per_person"):
            value = getattr(self, name)
            msgspec.structs.force_setattr(
                self, name, value.item() if isinstance(value, np.generic) else value
            )
        msgspec.structs.force_setattr(self, "norm_bound", as_bound(self.norm_bound))

    @property
    def features(self) -> dict[str, Numeric | Boolean | Categorical]:
        """The columns that are encoded, in order."""
        return {name: kind for name, kind in self.columns.items() if not isinstance(kind, Ignored)}

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """The names of the columns that are read from the data."""
        weight = () if self.weights is None else (self.weights.column,)
        return (*self.features, *weight)

    def missing_of(self, name: str) -> Missing:
        """How missing values of a feature are encoded."""
        return getattr(self.columns[name], "missing", None) or self.missing

    @property
    def worst_case_norm(self) -> float:
        """The largest l2 norm of an encoded row: every feature, and the intercept, has norm at most 1.

        A number has u**2 <= 1, or u = 0 where the indicator is 1; one category at most is 1.
        """
        return math.sqrt(len(self.features) + self.intercept)

    @property
    def norm_bound_or_worst_case(self) -> float:
        """The norm bound that rows are divided by."""
        return self.worst_case_norm if self.norm_bound is None else self.norm_bound

    @property
    def encoded_columns(self) -> tuple[EncodedColumn, ...]:
        """The columns of the encoded table; the schema must be complete."""
        self.require_complete()
        return encoded_columns_of(self)

    def problems(self) -> list[str]:
        """List what must be corrected before the schema can be used, one sentence each."""
        from dpcov.data.schema_problems import problems_of

        return problems_of(self)

    def require_complete(self) -> None:
        """Raise a `SchemaError` that lists every problem, if there is one."""
        problems = self.problems()
        if problems:
            raise SchemaError(listed("The schema cannot be used yet:", problems))

    @classmethod
    def loads(cls, text: str) -> Self:
        """Read a schema from TOML text."""
        from dpcov.data.schema_toml import parse_schema

        return cast(Self, parse_schema(text))

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Read a schema from a TOML file."""
        from dpcov.data.schema_toml import read_schema

        return cast(Self, read_schema(Path(path)))

    def dumps(self) -> str:
        """Write the schema as TOML text, with comments where something has to be filled in."""
        from dpcov.data.schema_toml import format_schema

        return format_schema(self)

    def save(self, path: str | Path) -> None:
        """Write the schema to a TOML file, which is replaced as a whole or not at all."""
        from dpcov.data.schema_toml import write_schema

        write_schema(self, Path(path))


_SHOWN_PROBLEMS, _LONGEST_PROBLEM = 20, 400


def listed(heading: str, problems: Sequence[str]) -> str:
    """One screen of problems, a line each, and how many more there are."""
    lines = [heading, *(f"  - {problem[:_LONGEST_PROBLEM]}" for problem in problems[:_SHOWN_PROBLEMS])]
    if len(problems) > _SHOWN_PROBLEMS:
        lines.append(f"  - and {len(problems) - _SHOWN_PROBLEMS} more")
    return "\n".join(lines)


def encoded_columns_of(schema: Schema) -> tuple[EncodedColumn, ...]:
    """List the encoded columns of a schema whose bounds are known to be filled in."""
    columns = [_unit_column("(intercept)", "", "intercept")] if schema.intercept else []
    for name, declared in schema.features.items():
        if isinstance(declared, Categorical):
            columns += [_unit_column(f"{name}={label}", name, "category") for label in declared.categories]
        elif isinstance(declared, Boolean):
            columns.append(
                EncodedColumn(name=name, source=name, kind="boolean", center=0.5, half_range=0.5),
            )
        else:
            columns.append(_numeric_column(name, declared))
        if schema.missing_of(name) == "indicator":
            columns.append(_unit_column(f"{name} (missing)", name, "missing"))
    return tuple(columns)


def _unit_column(name: str, source: str, kind: Literal["intercept", "category", "missing"]) -> EncodedColumn:
    return EncodedColumn(name=name, source=source, kind=kind, center=0.0, half_range=1.0)


def _numeric_column(name: str, declared: Numeric) -> EncodedColumn:
    lower, upper = declared.lower or 0.0, declared.upper or 0.0
    # Halves first: the sum and the difference of two finite bounds may overflow.
    center, half_range = upper / 2 + lower / 2, upper / 2 - lower / 2
    return EncodedColumn(name=name, source=name, kind="numeric", center=center, half_range=half_range)


def as_bound(value: object) -> float | None:
    """Return a bound as a float, or None where it is not filled in."""
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise SchemaError("A bound is a number, such as 90 or 0.5, without quotes.")
    try:
        number = float(value)
    except (OverflowError, ValueError, TypeError):
        number = math.inf
    return None if math.isnan(number) else number


def _as_categories(values: Iterable[str]) -> tuple[str, ...]:
    """Return the categories without the blanks around them, which are ignored in the data too."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise SchemaError('Categories are a list of texts, such as ["Male", "Female"].')
    labels = tuple(values)
    if not all(isinstance(label, str) for label in labels):
        raise SchemaError('Categories are texts: write whole numbers as texts too, such as ["1", "2"].')
    return tuple(label.strip() for label in labels)

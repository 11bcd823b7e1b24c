"""Describe the public affine map in which a table is encoded: centers, scales, and a linear map.

Contract: a geometry is public: it was typed, or found by a survey that was charged.
"""

import math
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec.structs import force_setattr

from dpcov.data.exact.linear import LinearMap
from dpcov.data.schema.mistakes import TOO_LONG_OR_DEEP
from dpcov.data.schema.toml import toml_value
from dpcov.errors import SchemaError, UsageError, few_of
from dpcov.files import as_path, reason_of, write_file
from dpcov.markup import CELL, Child, card, facts, listing, name_of
from dpcov.privacy.options import Between, plain
from dpcov.published.digits import plural
from dpcov.published.file.columns import LARGEST_BOUND, LARGEST_SCALE, SMALLEST_SCALE, EncodedColumn
from dpcov.published.file.stated import learned

# Rows before a linear map may be so many bits longer than the root of the number of columns.
_REACH_BITS = 6

_SCALE = Annotated[float, Between(SMALLEST_SCALE, LARGEST_SCALE)]
_ANEW = "let the release find one anew (geometry='private', --geometry private)"
_INSTEAD = (
    f"Use the schema that it was found in, or {_ANEW}. Or ignore the column in the schema: its "
    'type = "ignored" takes it out of the geometry of a release.'
)
_A_GEOMETRY = "Give a file that `dpcov survey` wrote, or a release."


def _plain(name: str, value: object, kind: Any) -> Any:
    try:
        return plain(name, value, kind)
    except UsageError as error:
        raise SchemaError(str(error)) from None


class Scale(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a column is centered and what it is divided by, in its own unit, which may be named."""

    center: float
    scale: float
    unit: str = ""

    @classmethod
    def nearest(cls, center: float, scale: float, unit: str = "") -> "Scale":
        """With the nearest scale that a geometry may have."""
        return cls(center=center, scale=min(max(scale, SMALLEST_SCALE), LARGEST_SCALE), unit=unit)


@learned
class Geometry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Centers and scales of encoded columns by name; others keep the schema's.

    Parameters
    ----------
    columns : mapping of str to Scale
    norm_bound : float, optional
        Longer encoded rows are scaled down to it, but for their intercept; by default to a length
        that fits, or of saved moments none.
    linear : LinearMap, optional
        Turns an encoded row, intercept included, into the features that stand beside the intercept
        instead of its own; then a norm bound is needed.
    lost : float
        Part of all squared lengths that the norm bound took where this geometry was found.
    seeded : bool
        Whether it was found with seeded randomness: then it is not private, and what is released in
        it is not either.
    """

    columns: dict[str, Scale]
    norm_bound: float | None = None
    linear: LinearMap | None = None
    lost: float = 0.0
    seeded: bool = False

    def __post_init__(self) -> None:
        known = self.columns
        if not isinstance(known, dict) or not all(isinstance(x, Scale) for x in known.values()):
            raise SchemaError(
                "The columns of a geometry are a dict, of a Scale(center=..., scale=...) by name."
            )
        # Numbers of numpy cannot be written down.
        columns = {
            name: Scale(
                center=_plain(f"The center of '{name}'", column.center, float),
                scale=_plain(f"The scale of '{name}'", column.scale, _SCALE),
                unit=_plain(f"The unit of '{name}'", column.unit, str),
            )
            for name, column in self.columns.items()
        }
        force_setattr(self, "columns", columns)
        force_setattr(self, "lost", _plain("What a geometry's norm bound took", self.lost, float))
        bound = self.norm_bound
        if bound is not None:
            bound = _plain("The norm bound of a geometry", bound, float)
            force_setattr(self, "norm_bound", bound)
            if not 1.0 < bound <= LARGEST_BOUND:
                raise SchemaError("The norm bound of a geometry is larger than its intercept, 1.")
        # As a release states it.
        if not 0.0 <= self.lost < 1.0:
            raise SchemaError("What a geometry's norm bound took is a part: 0 to less than 1.")
        if self.linear is not None and bound is None:
            raise SchemaError("A geometry with a linear map needs a norm bound.")

    def apply(self, columns: tuple[EncodedColumn, ...]) -> tuple[EncodedColumn, ...]:
        """The encoded columns of a schema in this geometry."""
        unknown = set(self.columns) - {column.name for column in columns}
        if unknown:
            raise SchemaError(
                f"The geometry names columns that the schema lacks: {few_of(sorted(unknown), 10)}. "
                f"{_INSTEAD}"
            )
        if self.linear is not None:
            features = [column.name for column in columns if column.kind != "intercept"]
            n_features, n_mapped = len(features), len(self.linear.numbers)
            if n_mapped != n_features:
                new = few_of([name for name in features if name not in self.columns], 10)
                raise SchemaError(
                    f"The geometry has a linear map of {plural(n_mapped, 'encoded column')}, and "
                    f"the schema has {n_features}{f' (new: {new})' * bool(new)}. Use the schema "
                    f"and the groups (by) of the release that it was found in, or {_ANEW}."
                )
            self.linear.check(n_features, len(columns))
        applied = tuple(self._applied(column) for column in columns)
        for column, made in zip(columns, applied, strict=True):
            if made.center != column.center and columns[0].kind != "intercept":
                raise SchemaError(
                    f"The geometry of '{column.name}' has its center at {made.center:.6g}. Without "
                    f"an intercept it must be the middle of the bounds, {column.center:.6g}."
                )
        return applied

    def _applied(self, column: EncodedColumn) -> EncodedColumn:
        found = self.columns.get(column.name)
        if found is None:
            return column
        if found.unit and column.unit and found.unit != column.unit:
            raise SchemaError(
                f"The geometry of '{column.name}' is in {found.unit}, and the schema has "
                f"{column.unit}. Use the unit that it was found in, or {_ANEW}."
            )
        lower, upper = column.bounds
        if not lower <= found.center <= upper:
            raise SchemaError(
                f"The geometry of '{column.name}' has its center, {found.center:.6g}, outside of "
                f"the bounds, {lower:.6g} to {upper:.6g}. {_INSTEAD}"
            )
        if max(upper - found.center, found.center - lower) > LARGEST_BOUND * found.scale:
            raise SchemaError(
                f"The geometry of '{column.name}' has a scale, {found.scale:.6g}, too small for "
                f"the bounds, {lower:.6g} to {upper:.6g}. {_INSTEAD}"
            )
        return replace(
            column, center=found.center, half_range=found.scale, lower=lower, upper=upper
        )

    def without(self, names: Collection[str]) -> "Geometry":
        """The same for rows without these encoded columns, as if they were at their centers."""
        kept = [place for place, name in enumerate(self.columns) if name not in names]
        if len(kept) == len(self.columns):
            return self
        if not kept:
            raise SchemaError(f"The schema ignores every column of the geometry: {_ANEW}.")
        columns = {name: own for name, own in self.columns.items() if name not in names}
        linear = self.linear
        if linear is not None:
            intercept, features = np.split(linear.matrix, [-len(self.columns)], axis=1)
            # Rotated to as few outputs as there are columns left, which changes no length.
            rotation, mixed = np.linalg.qr(features[:, kept])
            linear = LinearMap.nearest(np.hstack([rotation.T @ intercept, mixed]))
        bound, part = self.norm_bound, len(kept) / len(self.columns)
        # As much squared length a column, beside the intercept.
        bound = bound and math.sqrt(1.0 + (bound**2 - 1.0) * part)
        return msgspec.structs.replace(self, columns=columns, linear=linear, norm_bound=bound)

    def in_order_of(self, columns: Iterable[EncodedColumn]) -> "Geometry":
        """The same for a schema that lists its columns in another order."""
        names = [column.name for column in columns if column.kind != "intercept"]
        held, linear = list(self.columns), self.linear
        # What does not fit is refused where it is applied.
        if linear is None or names == held or sorted(names) != sorted(held):
            return self
        first = [0] * (len(linear.numbers[0]) > len(names))
        places = [*first, *(len(first) + held.index(name) for name in names)]
        if {len(row) for row in linear.numbers} != {len(places)}:
            return self
        numbers = tuple(tuple(row[place] for place in places) for row in linear.numbers)
        scales = {name: self.columns[name] for name in names}
        linear = LinearMap(numbers, linear.exponent)
        return msgspec.structs.replace(self, columns=scales, linear=linear)

    @property
    def meaning(self) -> "Geometry":
        """Without units, which older files lack: a schema has them, too."""
        bare = {name: Scale(own.center, own.scale) for name, own in self.columns.items()}
        return msgspec.structs.replace(self, columns=bare)

    def in_units(self, unit: float) -> "Geometry":
        """The same rows, scaled down alike, with features divided by a unit of 1 or more."""
        if unit == 1.0:
            return self
        bound = self.norm_bound and math.sqrt(1.0 + (self.norm_bound**2 - 1.0) / unit**2)
        if self.linear is not None:
            linear = LinearMap.nearest(self.linear.matrix / unit)
            # Rounded anew, it must still be one that can be undone.
            if not linear.can_be_undone:
                return self
            return msgspec.structs.replace(self, linear=linear, norm_bound=bound)
        columns = {
            name: Scale.nearest(column.center, column.scale * unit, column.unit)
            for name, column in self.columns.items()
        }
        return msgspec.structs.replace(self, columns=columns, norm_bound=bound)

    def bound(self, columns: Iterable[EncodedColumn]) -> float:
        """What encoded rows are divided by."""
        if self.linear is not None and self.norm_bound is not None:
            return self.norm_bound
        longest = longest_row(columns)
        return longest if self.norm_bound is None else min(longest, self.norm_bound)

    @classmethod
    def of(
        cls,
        columns: Iterable[EncodedColumn],
        norm_bound: float,
        linear: LinearMap | None = None,
        lost: float = 0.0,
        seeded: bool = False,
    ) -> "Geometry":
        """That of a release's columns, for other rows of the same schema."""
        scales = {
            column.name: Scale(center=column.center, scale=column.half_range, unit=column.unit)
            for column in columns
            if column.lower is not None
        }
        if not scales:
            raise SchemaError(
                "That release has the geometry of its bounds. Use geometry='schema' "
                "(--geometry schema)."
            )
        return cls(columns=scales, norm_bound=norm_bound, linear=linear, lost=lost, seeded=seeded)

    @classmethod
    def from_toml(cls, path: str | Path) -> "Geometry":
        """Read a geometry from a TOML file."""
        try:
            text = as_path(path).read_text(encoding="utf-8-sig")
            return msgspec.convert(tomllib.loads(text), cls)
        except OSError as error:
            told = f"The geometry file '{Path(path).name}' cannot be read: {reason_of(error)}."
            raise SchemaError(f"{told} Check the path, or say schema or private.") from None
        except msgspec.ValidationError as error:
            told = f"'{Path(path).name}' is no geometry: {error}."
            raise SchemaError(f"{told} {_A_GEOMETRY}") from None
        # What a parser says may quote a table that was given by mistake.
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            told = f"'{Path(path).name}' is no geometry, since it is not TOML."
            raise SchemaError(f"{told} {_A_GEOMETRY}") from None
        except (ValueError, RecursionError):
            raise SchemaError(f"'{Path(path).name}' has {TOO_LONG_OR_DEEP}.") from None

    def _repr_html_(self) -> str:
        rows = [
            (name_of(name, CELL), f"{column.center:.6g}", f"{column.scale:.6g}")
            for name, column in self.columns.items()
        ]
        bound = None if self.norm_bound is None else f"{self.norm_bound:.6g}"
        said: list[tuple[str, Child]] = [
            ("Longer rows are scaled down to", bound),
            ("Part of squared lengths that this took", f"{self.lost:.2g}" if self.lost else None),
            ("Not private", "its randomness was seeded" if self.seeded else None),
            ("Linear map", "takes correlations out before noise is added" * bool(self.linear)),
        ]
        caption = "A column is encoded as (value - center) / scale"
        made = listing(("Column", "Center", "Scale"), rows, caption)
        return card("Geometry", f"of {plural(len(rows), 'column')}", made, facts(said))

    def dumps(self, notes: Iterable[str] = ()) -> str:
        """TOML text, with notes as comments on top."""
        lines = [f"# {note}" for note in notes]
        if self.norm_bound is not None:
            lines.append(f"norm_bound = {self.norm_bound!r}")
        if self.lost:
            lines.append(f"lost = {self.lost!r}")
        if self.seeded:
            lines.append("seeded = true")
        for name, column in self.columns.items():
            lines += [
                "",
                f"[columns.{toml_value(name)}]",
                f"center = {column.center!r}",
                f"scale = {column.scale!r}",
                *([f"unit = {toml_value(column.unit)}"] if column.unit else []),
            ]
        if self.linear is not None:
            rows = ",\n  ".join(str(list(row)) for row in self.linear.numbers)
            exponent = f"exponent = {self.linear.exponent}"
            lines += ["", "[linear]", exponent, f"numbers = [\n  {rows},\n]"]
        return "\n".join(lines) + "\n"

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a TOML file, whole or not at all."""
        write_file(path, self.dumps().encode(), overwrite=overwrite)


def reach(n_columns: int) -> float:
    """Length, a power of two, to which encoded rows are scaled down before a linear map."""
    return 2.0 ** math.ceil(math.log2(n_columns) / 2 + _REACH_BITS)


def longest_row(columns: Iterable[EncodedColumn]) -> float:
    """The largest norm that an encoded row can have, rounded up.

    At most one of the encoded columns of one column of the table is not zero: levels exclude each
    other, and a missing value leaves only its indicator.
    """
    # A product that is too large is infinite, and a power an error.
    squares = [
        max(max(column.lowest * column.lowest, column.largest * column.largest) for column in group)
        for _, group in groupby(columns, lambda column: column.source)
    ]
    return math.sqrt(math.fsum(squares)) * (1 + 2.0**-40)

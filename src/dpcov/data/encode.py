"""Encode rows of a table as vectors in the unit ball, by a public schema.

Contract: every encoded row has l2 norm at most 1 up to float rounding, whatever the cell holds
(NaN, infinity, unknown categories), and depends on its own row alone.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpcov.data import values
from dpcov.data.exact.library import NUMPY, Array, Library, column_norms, ordered_norms
from dpcov.data.exact.linear import ROW_BITS, FloatMatrix, Places, by_columns
from dpcov.data.exact.losses import Losses
from dpcov.data.geometry import Geometry, longest_row, reach
from dpcov.data.groups import Grouping
from dpcov.data.layout import FileLayout
from dpcov.data.questions import digest_of
from dpcov.data.readers import Reader, reader_of
from dpcov.data.schema.declared import Categorical
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import Block, ReadAs
from dpcov.errors import DataError, UsageError
from dpcov.published.file.columns import count_values

Flags: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Cells:
    """What is read of a block of rows; **sensitive**.

    Parameters
    ----------
    columns : k arrays of length n
        Numbers, NaN where missing, or codes of levels.
    weights, groups : (n,) arrays, optional
        Numbers of the column of weights, and the group of every row.
    """

    columns: Sequence[NDArray[Any]] | NDArray[Any]
    weights: FloatMatrix | None = None
    groups: NDArray[np.intp] | None = None

    def __repr__(self) -> str:
        return "Cells(<sensitive>)"

    @property
    def digest(self) -> int:
        """A number for all that was read, whatever the order of the rows."""
        beside = (each for each in (self.weights, self.groups) if each is not None)
        return digest_of(np.asarray(each, np.float64) for each in (*self.columns, *beside))


@dataclass(frozen=True)
class _Feature:
    """Where a column is written, and the column that says that it is missing."""

    reader: Reader
    place: int
    indicator: int | None


class Encoder:
    """Encode blocks of rows as a complete schema says; an intercept is the first column.

    Rows have groups by one more column where there is a ``grouping``.  It can be pickled.
    """

    def __init__(
        self, schema: Schema, geometry: Geometry | None = None, grouping: Grouping | None = None
    ) -> None:
        self.schema, self.geometry, self.grouping = schema, geometry, grouping
        declared = schema.encoded_columns
        if geometry is None:
            self.columns, self.norm_bound = declared, schema.norm_bound_or_worst_case
            worst_case = schema.worst_case_norm
        else:
            self.columns = geometry.apply(declared)
            self.norm_bound = geometry.bound(self.columns)
            worst_case = longest_row(self.columns)
        self._unit, self._linear = 1.0 / self.norm_bound, None
        if geometry is not None and geometry.linear is not None:
            # Mapped rows have no longest one.
            longest, worst_case = reach(len(self.columns)), math.inf
            self._unit = 2.0**ROW_BITS / longest
            self._linear = geometry.linear.scaled(int(math.log2(longest)))
        # Whether a row can be longer than the bound, and is scaled down then; in a geometry its
        # intercept is left as it is, so that its moment is the number of rows.
        self.shortens = self.norm_bound < worst_case
        self.keeps_intercept = schema.intercept and schema.weights is None
        self.keeps_intercept &= geometry is not None or not self.shortens
        self._spares_intercept = schema.intercept and geometry is not None
        self._declared = declared
        # What a level, an indicator or the intercept is written as.
        self._ones = np.array([column.largest for column in self.columns]) * self._unit
        self._n_values = count_values(declared)
        self._weight: Reader | None = None
        if schema.weights is not None and schema.weights.upper is not None:
            self._weight = reader_of(schema, schema.weights.column)
            self._largest_weight = schema.weights.upper
        self._numbers: list[_Feature] = []
        self._categories: list[_Feature] = []
        self._plan(schema)
        kinds = np.array([column.kind for column in self.columns])
        self._levels = np.flatnonzero(kinds == "category")
        # Columns that are written in every block.
        self._always = kinds != "missing"
        self._limits = [(c.lowest * self._unit, c.largest * self._unit) for c in self.columns]

    def __reduce__(self) -> tuple[type["Encoder"], tuple[Any, ...]]:
        return Encoder, (self.schema, self.geometry, self.grouping)

    @property
    def layout(self) -> FileLayout | None:
        """How files with the table are laid out."""
        return self.schema.file

    @property
    def n_features(self) -> int:
        """Columns of the encoded rows."""
        return len(self.columns)

    @property
    def readers(self) -> list[Reader]:
        """Of the columns to read from a source."""
        features = [each.reader for each in (*self._numbers, *self._categories)]
        beside = [] if self._weight is None else [self._weight]
        return [*features, *beside, *([self.grouping.reader] if self.grouping else ())]

    @property
    def wanted(self) -> dict[str, ReadAs]:
        """The columns to read from a source, and how."""
        return {reader.name: reader.wanted for reader in self.readers}

    @np.errstate(over="ignore", invalid="ignore")
    def read(self, block: Block) -> Cells:
        """Read a block: features in the order of :attr:`value_columns`, weights, and groups."""
        features = (*self._numbers, *self._categories)
        weights = None if self._weight is None else np.asarray(self._weight.of(block), np.float64)
        groups = None if self.grouping is None else self.grouping.codes(block)
        return Cells([each.reader.of(block) for each in features], weights, groups)

    def encode(self, cells: Cells, losses: Losses | None = None) -> tuple[FloatMatrix, Places]:
        """Encode rows as (n, c) float64, Fortran-contiguous: rows of norm at most 1.

        The c columns are told, too: others, indicators of values of which none is missing, are zero
        in all rows of the block.  ``losses`` is told the rows that are scaled down beside their
        intercept, and their groups.
        """
        written, columns = self._written(cells)
        encoded, places = self._mapped(written, columns)
        weights = cells.weights
        if weights is not None:
            # In [0, 1], so that no row gets longer; a missing or negative weight is 0.
            largest = self._largest_weight
            weights = np.clip(np.nan_to_num(weights), 0.0, largest) / largest
        if self.shortens and self._spares_intercept:
            long, divisors = _long_rows(encoded[:, 1:], 1.0 - self.norm_bound**-2.0)
            if losses is not None and len(long):
                at = np.searchsorted(columns, losses.question.columns)
                # Column by column, as they are read.
                values = np.array([written[long, place] for place in at]) / self._unit
                losses.add(values.T, divisors, long, weights, cells.groups)
            _divide(encoded[:, 1:], long, divisors)
        if weights is not None:
            encoded *= np.sqrt(weights)[:, None]
        if self.shortens and not self._spares_intercept:
            _shorten(encoded, 1.0)
        return encoded, places

    def row_lengths(self, cells: Cells) -> FloatMatrix:
        """Map the mean squared feature e of full-length rows to e / (1 + e), (n,).

        Indicators of missing values are part of the sum, but not counted.
        """
        encoded, _ = self._mapped(*self._written(cells))
        features = encoded[:, int(self.schema.intercept) :]
        mean_square = column_norms(features) * (self.norm_bound**2 / max(1, self._n_values))
        found: FloatMatrix = mean_square / (1.0 + mean_square)
        return found

    def _written(self, cells: Cells) -> tuple[FloatMatrix, Places]:
        # Rows at full length before a map, and their columns.
        # Column by column, as the table is stored: the product that follows takes either order.
        # An indicator is there where a value of the block is missing.
        n_rows, n_numbers = len(cells.columns[0]), len(self._numbers)
        encoded = by_columns(n_rows, len(self.columns))
        encoded[:, self._levels] = 0.0
        if self.schema.intercept:
            encoded[:, 0] = self._unit
        there = self._always.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            for number, found in zip(self._numbers, cells.columns, strict=False):
                self._write_number(number, found, encoded, there)
        for category, codes in zip(self._categories, cells.columns[n_numbers:], strict=True):
            self._write_category(category, codes, encoded, there)
        for indicator, places in self._together:
            # Where one value of the row is missing, the others count as missing.
            if there[indicator]:
                missing = np.flatnonzero(encoded[:, indicator])
                encoded[np.ix_(missing, places)] = 0.0
        if not there.all():
            encoded = encoded.T[there].T
        return encoded, np.flatnonzero(there)

    def _mapped(self, rows: FloatMatrix, places: Places) -> tuple[FloatMatrix, Places]:
        # Features under the linear map beside the intercept, all divided by the norm bound.
        start, linear = int(self.schema.intercept), self._linear
        if linear is None:
            return rows, places
        _shorten(rows[:, start:], 4.0**ROW_BITS - start * self._unit**2)
        outputs = linear.inhabited(places)
        mapped = by_columns(len(rows), start + len(outputs))
        mapped[:, :start] = 1.0 / self.norm_bound
        linear.apply_scaled(rows, places, 1.0 / self.norm_bound, mapped[:, start:])
        return mapped, np.concatenate([np.arange(start), outputs + start])

    def column_values(self, cells: Cells) -> Iterator[FloatMatrix]:
        """Every column's own numbers, before anything depends on another column.

        Yields
        ------
        (n_rows,) float64
            Numbers and truth values between -1 and 1, the bounds; codes of categories; NaN where
            missing.
        """
        for number, found in zip(self._numbers, cells.columns, strict=False):
            declared = self._declared[number.place]
            with np.errstate(over="ignore", invalid="ignore"):
                scaled = np.subtract(found, declared.center, dtype=np.float64)
                scaled /= declared.half_range
            yield np.clip(scaled, -1.0, 1.0, out=scaled)
        for codes in cells.columns[len(self._numbers) :]:
            yield np.where(codes >= 0, codes.astype(np.float64), np.nan)

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The columns in the order of :meth:`column_values`: numbers first, then categories."""
        return tuple(each.reader.name for each in (*self._numbers, *self._categories))

    def _plan(self, schema: Schema) -> None:
        # With R the norm bound, a number x with bounds [a, b] becomes u / R, where
        # u = (x - (a + b)/2) / ((b - a)/2) is clipped to [-1, 1]; a category, the intercept and
        # an indicator of missingness become 1 / R or 0.
        indicators, places = dict[str, int](), dict[str, list[int]]()
        for place, column in enumerate(self._declared):
            if column.kind == "missing":
                indicators |= dict.fromkeys(column.missing_of, place)
            else:
                places.setdefault(column.source, []).append(place)
        for name, declared in schema.features.items():
            kinds = self._categories if isinstance(declared, Categorical) else self._numbers
            kinds.append(_Feature(reader_of(schema, name), places[name][0], indicators.get(name)))
        self._together = [
            (indicators[column.source], np.concatenate([places[name] for name in column.together]))
            for column in self._declared
            if column.together
        ]

    def _write_number(
        self, number: _Feature, found: NDArray[Any], encoded: FloatMatrix, there: Flags
    ) -> None:
        column, scaled = self.columns[number.place], encoded[:, number.place]
        # In float64 always: a cell's number does not depend on the type its column is stored in.
        np.subtract(found, column.center, out=scaled, dtype=np.float64)
        np.multiply(scaled, self._unit / column.half_range, out=scaled)
        np.clip(scaled, *self._limits[number.place], out=scaled)
        missing = np.isnan(scaled)
        if missing.any():
            scaled[missing] = 0.0
            self._mark_missing(number, missing, encoded, there)

    def _write_category(
        self, category: _Feature, codes: NDArray[Any], encoded: FloatMatrix, there: Flags
    ) -> None:
        known = np.flatnonzero(codes >= 0)
        places = category.place + codes[known]
        encoded[known, places] = self._ones[places]
        missing = codes == values.MISSING
        if missing.any():
            self._mark_missing(category, missing, encoded, there)

    def _mark_missing(
        self, feature: _Feature, missing: Flags, encoded: FloatMatrix, there: Flags
    ) -> None:
        place = feature.indicator
        if place is None:
            return
        column = encoded[:, place]
        if not there[place]:
            column[:] = 0.0
            there[place] = True
        column[missing] = self._ones[place]


def whole(rows: FloatMatrix, places: Places, n_columns: int) -> FloatMatrix:
    """All columns of encoded rows, Fortran-contiguous, of which others than these are zero."""
    if len(places) == n_columns:
        return rows
    found = np.zeros((n_columns, len(rows))).T
    found[:, places] = rows
    return found


@np.errstate(over="ignore", invalid="ignore")
def encode_array(block: Array, norm_bound: float, on: Library = NUMPY) -> Array:
    """Divide (n, d) finite rows by a positive norm bound; scale longer ones down to norm 1.

    The block is where the library ``on`` has it.  NaN or infinity raises a `DataError`.
    """
    if not 0 < norm_bound < math.inf:
        raise UsageError("norm_bound must be a positive number.")
    xp, raw = on.module, on.cast(block, "float64")
    encoded = raw / on.number(norm_bound)
    energies = on.norms(encoded)
    # Which way a sum near 1 is rounded depends on the processor; the lattice must not.
    close = xp.where(xp.abs(energies - 1.0) < 1e-9)[0]
    if len(close):
        energies[close] = ordered_norms(encoded[close])
    # NaN, infinity and overflow all fail this comparison.
    long = xp.where(~(energies <= 1.0))[0]
    if len(long):
        rows = raw[long]
        if not bool(xp.isfinite(rows).all()):
            raise DataError("The data holds NaN or infinity. Fill in missing values first.")
        # Only the direction stays, so dividing by the largest entry first avoids overflow.
        rows = rows / xp.amax(xp.abs(rows), axis=1)[:, None]
        encoded[long] = rows / xp.sqrt(ordered_norms(rows))[:, None]
    return encoded


def as_matrix(block: Block) -> FloatMatrix:
    """Return a block of numbers as a matrix."""
    if isinstance(block, np.ndarray):
        return block
    columns = [values.numbers(block.column(name), name) for name in block.schema.names]
    return np.column_stack(columns).astype(np.float64, copy=False)


def _shorten(encoded: FloatMatrix, largest: float) -> None:
    # Scale rows of larger squared norm down to it, in place.
    _divide(encoded, *_long_rows(encoded, largest))


def _long_rows(encoded: FloatMatrix, largest: float) -> tuple[Places, FloatMatrix]:
    # Which rows have a larger squared norm, and what brings their norms down to it.
    energies = column_norms(encoded)
    long = np.flatnonzero(energies > largest)
    return long, np.sqrt(energies[long] / largest)


def _divide(encoded: FloatMatrix, rows: Places, divisors: FloatMatrix) -> None:
    # In place.
    if len(rows):
        for column in encoded.T:
            column[rows] /= divisors

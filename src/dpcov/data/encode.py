"""Rows of a table as vectors in the unit ball, by a public schema.

Contract: every encoded row has l2 norm at most 1 up to float rounding, whatever the cell holds (NaN,
infinity, unknown categories), and depends on its own row alone.  Knows nothing of moments or noise.

With R the norm bound, a number x with bounds [a, b] becomes u / R, u = (x - (a + b)/2) / ((b - a)/2) clipped to
[-1, 1]; a category, the intercept and an indicator of missingness become 1 / R or 0.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcov.data import values
from dpcov.data.schema.declared import Boolean, Categorical
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import Block, ReadAs, Source, TellBytes
from dpcov.errors import DataError, UsageError
from dpcov.published.columns import EncodedColumn

FloatMatrix = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class _Number:
    """Where and how a numeric or boolean column is written."""

    name: str
    place: int
    indicator: int | None
    center: float
    scale: float
    read: Callable[[values.Column, str], NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class _Category:
    """Where and how a categorical column is written."""

    name: str
    place: int
    indicator: int | None
    code_of: dict[str, int]


class Encoder:
    """Encode blocks of rows as a complete schema says.

    Parameters
    ----------
    schema : Schema
        Must be complete.

    Attributes
    ----------
    columns : tuple of EncodedColumn
        The columns of the encoded rows; the intercept, if any, is the first.
    norm_bound : float
        What every row is divided by.
    """

    def __init__(self, schema: Schema) -> None:
        self.columns: tuple[EncodedColumn, ...] = schema.encoded_columns
        self.norm_bound: float = schema.norm_bound_or_worst_case
        self._unit = 1.0 / self.norm_bound
        self._must_shorten = self.norm_bound < schema.worst_case_norm
        self._intercept = schema.intercept
        self._weights = schema.weights
        self._numbers: list[_Number] = []
        self._categories: list[_Category] = []
        self._plan(schema)

    @property
    def wanted(self) -> dict[str, ReadAs]:
        """The columns to read from a source, and how."""
        wanted: dict[str, ReadAs] = {}
        for number in self._numbers:
            wanted[number.name] = "number" if number.read is values.numbers else "text"
        wanted.update(dict.fromkeys((category.name for category in self._categories), "text"))
        if self._weights is not None:
            wanted[self._weights.column] = "number"
        return wanted

    def encode(self, block: Block) -> FloatMatrix:
        """Encode a block.

        Parameters
        ----------
        block : pyarrow.RecordBatch or ndarray of shape (n_rows, n_columns)
            The columns of a matrix are called ``x0``, ``x1``, ...

        Returns
        -------
        ndarray of shape (n_rows, n_encoded_columns), float64, Fortran-contiguous
            Rows of norm at most 1, without NaN.  Column by column, as the table is stored: the product that
            follows takes either order, and transposing would cost as much as everything else here.
        """
        encoded = np.zeros((len(self.columns), len(block))).T
        if self._intercept:
            encoded[:, 0] = self._unit
        self._write_numbers(block, encoded)
        for category in self._categories:
            self._write_category(category, _column(block, category.name), encoded)
        if self._weights is not None and self._weights.upper is not None:
            encoded *= _root_weights(block, self._weights.column, self._weights.upper)[:, None]
        if self._must_shorten:
            _shorten(encoded)
        return encoded

    def _plan(self, schema: Schema) -> None:
        place = int(schema.intercept)
        for name, declared in schema.features.items():
            width = len(declared.categories) if isinstance(declared, Categorical) else 1
            indicator = place + width if schema.missing_of(name) == "indicator" else None
            if isinstance(declared, Categorical):
                code_of = values.codes_of_labels(declared.categories)
                category = _Category(name=name, place=place, indicator=indicator, code_of=code_of)
                self._categories.append(category)
            else:
                column = self.columns[place]
                read = values.truth_values if isinstance(declared, Boolean) else values.numbers
                scale = self._unit / column.half_range
                number = _Number(
                    name=name,
                    place=place,
                    indicator=indicator,
                    center=column.center,
                    scale=scale,
                    read=read,
                )
                self._numbers.append(number)
            place += width + (indicator is not None)

    def _write_numbers(self, block: Block, encoded: FloatMatrix) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            for number in self._numbers:
                column = number.read(_column(block, number.name), number.name)
                self._write_number(number, column, encoded)

    def _write_number(self, number: _Number, column: NDArray[Any], encoded: FloatMatrix) -> None:
        scaled = encoded[:, number.place]
        # In float64 whatever type the column has: a cell's number does not depend on how it was stored.
        np.subtract(column, number.center, out=scaled, dtype=np.float64)
        np.multiply(scaled, number.scale, out=scaled)
        np.clip(scaled, -self._unit, self._unit, out=scaled)
        # Clipped numbers have a finite sum, so that it is NaN exactly if a value is missing.
        if math.isnan(scaled.sum()):
            missing = np.isnan(scaled)
            scaled[missing] = 0.0
            if number.indicator is not None:
                encoded[missing, number.indicator] = self._unit

    def _write_category(
        self, category: _Category, column: values.Column, encoded: FloatMatrix
    ) -> None:
        codes = values.category_codes(column, category.name, category.code_of)
        known = np.flatnonzero(codes >= 0)
        encoded[known, category.place + codes[known]] = self._unit
        if category.indicator is not None:
            encoded[codes == values.MISSING, category.indicator] = self._unit


def encode_array(block: FloatMatrix, norm_bound: float) -> FloatMatrix:
    """Divide rows by a norm bound; scale those that are longer down to norm 1.

    Parameters
    ----------
    block : ndarray of shape (n_rows, n_features)
        Finite numbers of any size.
    norm_bound : float
        A public bound, positive.

    Raises
    ------
    DataError
        If there is NaN or infinity.
    """
    if not 0 < norm_bound < math.inf:
        raise UsageError("norm_bound must be a positive number.")
    with np.errstate(over="ignore", invalid="ignore"):
        encoded = np.ascontiguousarray(block, dtype=np.float64) / norm_bound
        energies = np.einsum("ij,ij->i", encoded, encoded)
        # Which way a sum near 1 is rounded depends on the processor; the lattice must not.
        close = np.flatnonzero(np.abs(energies - 1.0) < 1e-9)
        energies[close] = _energies(encoded[close])
    # NaN, infinity and overflow all fail this comparison.
    long = np.flatnonzero(~(energies <= 1.0))
    if long.size:
        rows = np.asarray(block[long], dtype=np.float64)
        if not np.isfinite(rows).all():
            raise DataError(
                "The data holds NaN or infinity. Fill in or leave out missing values first."
            )
        # A long row keeps its direction only, so that dividing by the largest entry first avoids overflow.
        rows = rows / np.abs(rows).max(axis=1, keepdims=True)
        encoded[long] = rows / np.sqrt(_energies(rows))[:, None]
    return encoded


def read_encoded(
    source: Source, schema: Schema, block_rows: int, progress: TellBytes | None = None
) -> Iterator[FloatMatrix]:
    """Read a source and encode it block by block.

    Parameters
    ----------
    source : Source
    schema : Schema
        Must be complete.
    block_rows : int
        The largest number of rows of a block.
    progress : callable, optional
        Called with the number of bytes read so far.
    """
    encoder = Encoder(schema)
    for block in source.blocks(block_rows, wanted=encoder.wanted, progress=progress):
        yield encoder.encode(block)


def read_unit_ball(
    source: Source, norm_bound: float, block_rows: int, progress: TellBytes | None = None
) -> Iterator[FloatMatrix]:
    """Read a source of numbers only and encode it by `encode_array`, without a schema."""
    for block in source.blocks(block_rows, progress=progress):
        yield encode_array(as_matrix(block), norm_bound)


def as_matrix(block: Block) -> FloatMatrix:
    """Return a block of numbers as a matrix."""
    if isinstance(block, np.ndarray):
        return block
    columns = [values.numbers(block.column(name), name) for name in block.schema.names]
    return np.column_stack(columns).astype(np.float64, copy=False)


def _energies(rows: FloatMatrix) -> FloatMatrix:
    """Squared norms, added entry by entry in an order of their own: equal to the bit on every processor."""
    squares = rows * rows
    width = squares.shape[1]
    while width > 1:
        half = (width + 1) // 2
        squares[:, : width - half] += squares[:, half:width]
        width = half
    return squares[:, 0]


def _column(block: Block, name: str) -> values.Column:
    return block[:, int(name[1:])] if isinstance(block, np.ndarray) else block.column(name)


def _shorten(encoded: FloatMatrix) -> None:
    """Scale rows longer than 1 down to norm 1, in place."""
    # Column after column, so that a row's norm does not depend on the rows it is read with.
    energies = np.zeros(len(encoded))
    for column in encoded.T:
        energies += column * column
    long = np.flatnonzero(energies > 1.0)
    encoded[long] /= np.sqrt(energies[long])[:, None]


def _root_weights(block: Block, name: str, upper: float) -> FloatMatrix:
    """Return sqrt(w / upper) in [0, 1]; a missing or negative weight counts as 0."""
    weights = values.numbers(_column(block, name), name).astype(np.float64)
    return np.sqrt(np.clip(np.nan_to_num(weights), 0.0, upper) / upper)

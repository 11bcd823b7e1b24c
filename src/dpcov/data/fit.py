"""Say how the rows of a table fit their schema: for the custodian alone.

Contract: what is found counts rows and is **sensitive**; it holds no cell.  The table is read once,
by the same readers as for a release, a column by itself; memory does not depend on the rows.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcov.data.cells import number_of
from dpcov.data.notation import Notation
from dpcov.data.readers import Reader, reader_of
from dpcov.data.schema.declared import Boolean, Categorical, Date, Feature, Numeric
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import Block, Source
from dpcov.data.values import MISSING, UNKNOWN, as_arrow, column_of
from dpcov.errors import DataError, few_of
from dpcov.published.digits import plural

NOT_PRIVATE = (
    "FOR THE CUSTODIAN ONLY: this was read from the rows and is not private. Do not publish it. "
    "Change the schema only for what is plainly wrong (a unit, a spelling, a missing code), and "
    "from public knowledge: bounds and categories that follow the rows leak them."
)
_BLOCK_ROWS = 2**15
# Distinct cells that cannot be read, after which a column is read no further.
_ENOUGH = 1000
# Numbers outside of the bounds that are told apart.
_TOLD_APART = 10_000
# Names of columns in a line.
_SHOWN = 5
# What the texts of cells begin with that were no texts.
_MARK = "\0"
_UNREADABLE = f"{_MARK}unreadable"
# Parts of the values.
_MOST, _MANY, _OFTEN = 0.5, 0.05, 0.01
# Part of the bounds in which all values lie if their unit may be another one.
_NARROW = 1 / 100


class Finding(msgspec.Struct, frozen=True):
    """One way in which a column does not fit; ``rows`` says in how many rows, without a value."""

    what: str
    rows: int
    words: str


class ColumnFit(msgspec.Struct, frozen=True):
    """How a column fits its declaration; **sensitive**."""

    name: str
    type: str
    usable: bool
    missing: int
    findings: tuple[Finding, ...]


class TableFit(msgspec.Struct, frozen=True, kw_only=True):
    """How a table fits its schema; **sensitive**."""

    note: str = NOT_PRIVATE
    n_rows: int
    columns: tuple[ColumnFit, ...]
    # Columns of the table that the schema does not name.
    undeclared: tuple[str, ...] = ()
    # Rows without a value in any of several columns.
    empty: int = 0

    @property
    def usable(self) -> bool:
        """Whether every column can be used."""
        return all(column.usable for column in self.columns)

    def summary(self) -> str:
        """One line for every way in which columns do not fit, those of no use first."""
        told: dict[tuple[bool, str], list[str]] = {}
        for column in self.columns:
            for finding in column.findings:
                told.setdefault((column.usable, finding.words), []).append(column.name)
        lines = [
            f"{'look' if usable else 'NO  '}  {few_of(told[usable, words], _SHOWN)}: {words}"
            for usable, words in sorted(told, key=lambda each: each[0])
        ]
        if self.empty:
            lines.append(f"look  {_EMPTY.format(self.empty, self.n_rows)}")
        if self.undeclared:
            left_out = "in the table, but not in the schema: not released"
            lines.append(f"look  {few_of(self.undeclared, _SHOWN)}: {left_out}")
        fitting = sum(not column.findings for column in self.columns)
        return "\n".join([*lines, f"Columns that fit: {fitting} of {len(self.columns)}."])


def fit(source: Source, schema: Schema, progress: Callable[[int], None] | None = None) -> TableFit:
    """Read a table once and say how it fits a complete schema without patterns; **sensitive**.

    ``progress`` is called with the number of rows after every block.
    """
    schema.require_complete()
    declared: dict[str, Feature] = dict(schema.features)
    if schema.weights is not None:
        declared[schema.weights.column] = Numeric(lower=0.0, upper=schema.weights.upper)
    columns = [_Column(name, kind, _reader(schema, name)) for name, kind in declared.items()]
    n_rows = n_empty = 0
    wanted = {column.name: column.reader.wanted for column in columns}
    for block in source.blocks(_BLOCK_ROWS, wanted=wanted):
        n_rows += len(block)
        n_empty += int(np.logical_and.reduce([column.add(block) for column in columns]).sum())
        if progress is not None:
            progress(len(block))
    return TableFit(
        n_rows=n_rows,
        columns=tuple(column.found(n_rows) for column in columns),
        undeclared=tuple(name for name in source.columns if name not in schema.columns),
        # Which rows of a block hold cells that cannot be read is not known.
        empty=n_empty if len(columns) > 1 and not any(c.unreadable for c in columns) else 0,
    )


def _reader(schema: Schema, name: str) -> Reader:
    # Before the transform, which only takes numbers within the bounds.
    declared = schema.columns[name]
    if isinstance(declared, Numeric):
        columns = {name: msgspec.structs.replace(declared, transform=None)}
        schema = msgspec.structs.replace(schema, columns=columns, wildcards=False)
    return reader_of(schema, name, _Lenient)


class _Lenient(Notation):
    """Keeps cells as texts, so that one that cannot be read is counted and ends nothing.

    Cells of other types are read as in a release, and marked: no format writes them otherwise.
    """

    is_plain = False
    takes_any_type = True

    def column(self, cells: Iterable[object], name: str) -> pa.Array:
        return pa.array([self._kept(cell, name) for cell in cells], pa.string())

    def _kept(self, cell: object, name: str) -> str | None:
        if isinstance(cell, str):
            return cell
        try:
            value = super().value_of(cell, name)
        except DataError:
            return _UNREADABLE
        mark = _MARK if self.has_marks or self.dates is not None else ""
        return None if math.isnan(value) else f"{mark}{value!r}"

    def value_of(self, cell: object, name: str) -> float:
        if isinstance(cell, str) and cell.startswith(_MARK):
            return number_of(cell.removeprefix(_MARK), name)
        return super().value_of(cell, name)


@dataclass
class _Column:
    """Counts of one column."""

    name: str
    declared: Feature
    reader: Reader
    missing: int = 0
    unreadable: int = 0
    distinct_unreadable: int = 0
    # Values outside of the bounds or the categories, and on each bound.
    outside: int = 0
    at_lower: int = 0
    at_upper: int = 0
    n_values: int = 0
    least: float = math.inf
    largest: float = -math.inf
    strays: Counter[float] = field(default_factory=Counter)

    @property
    def given_up(self) -> bool:
        return self.distinct_unreadable >= _ENOUGH

    def add(self, block: Block) -> NDArray[np.bool_]:
        """Count the cells of a block, and say which are missing; none if some cannot be read."""
        none = np.zeros(len(block), dtype=bool)
        if self.given_up:
            return none
        column = column_of(block, self.name)
        try:
            cells = self.reader.of(block)
            self._count(cells, np.ones(len(block), dtype=np.int64))
            return self._missing(cells)
        except DataError:
            try:
                column = as_arrow(column)
                if isinstance(column, pa.DictionaryArray):
                    # It holds cells of other rows, too.
                    column = column.dictionary_decode()
                counted = column.value_counts()
            except pa.ArrowException:
                # Lists and the like have no single cells to try.
                self.unreadable += len(block)
            else:
                self._count_distinct(counted.field(0), counted.field(1).to_numpy())
        return none

    def _missing(self, cells: NDArray[Any]) -> NDArray[np.bool_]:
        is_level = isinstance(self.declared, Categorical)
        return np.asarray(cells == MISSING if is_level else np.isnan(cells))

    def _count_distinct(self, values: pa.Array, weights: NDArray[np.int64]) -> None:
        # Halve what cannot be read until single cells are left.
        waiting = [(0, len(values))]
        while waiting and not self.given_up:
            start, stop = waiting.pop()
            part = values[start:stop]
            try:
                cells = self.reader.of(pa.RecordBatch.from_arrays([part], names=[self.name]))
            except DataError:
                if stop - start > 1:
                    middle = (start + stop) // 2
                    waiting += [(start, middle), (middle, stop)]
                else:
                    self.unreadable += int(weights[start])
                    self.distinct_unreadable += 1
            else:
                self._count(cells, weights[start:stop])

    def _count(self, cells: NDArray[Any], weights: NDArray[np.int64]) -> None:
        declared, is_missing = self.declared, self._missing(cells)
        if isinstance(declared, Categorical):
            outside = cells == UNKNOWN
        else:
            lower, upper = _bounds(declared)
            at_lower, at_upper = cells == lower, cells == upper
            outside = (cells < lower) | (cells > upper)
            if isinstance(declared, Boolean):
                outside = ~(is_missing | at_lower | at_upper)
            self.at_lower += int(weights[at_lower].sum())
            self.at_upper += int(weights[at_upper].sum())
            self._count_strays(cells[outside], weights[outside])
        self.missing += int(weights[is_missing].sum())
        self.outside += int(weights[outside].sum())
        values = cells[~is_missing]
        self.n_values += int(weights[~is_missing].sum())
        if len(values):
            self.least = min(self.least, float(values.min()))
            self.largest = max(self.largest, float(values.max()))

    def _count_strays(self, cells: NDArray[Any], weights: NDArray[np.int64]) -> None:
        values, places = np.unique(cells, return_inverse=True)
        counts = np.bincount(places, weights=weights, minlength=len(values))
        self.strays.update(dict(zip(values.tolist(), counts.astype(int).tolist(), strict=True)))
        if len(self.strays) > _TOLD_APART:
            self.strays = Counter(dict(self.strays.most_common(_TOLD_APART // 2)))

    def found(self, n_rows: int) -> ColumnFit:
        """What does not fit."""
        unusable = list(self._unusable(n_rows))
        findings = unusable or list(self._doubtful(n_rows))
        kind = str(type(self.declared).__struct_config__.tag)
        return ColumnFit(self.name, kind, not unusable, self.missing, tuple(findings))

    def _unusable(self, n_rows: int) -> Iterator[Finding]:
        if self.unreadable:
            least = "at least " * self.given_up
            count = f"{least}{self.unreadable:,} of {plural(n_rows, 'row')}"
            wanted = _WANTED.get(type(self.declared), "a number")
            advice = _CORRECT.get(type(self.declared), _CORRECT[Boolean])
            words = f"in {count} the cell is not {wanted}. {advice}, or correct the data."
            yield Finding("unreadable", self.unreadable, words)
        elif self.missing == n_rows:
            yield Finding("missing", n_rows, "all values are missing. Ignore the column.")
        elif self.outside == self.n_values:
            what = "categories" if isinstance(self.declared, Categorical) else "bounds"
            yield Finding(
                "outside",
                self.outside,
                f"no value is within the {what}. Is it another unit, coding or spelling?",
            )

    def _doubtful(self, n_rows: int) -> Iterator[Finding]:
        values, declared = self.n_values, self.declared
        common, next_common = [*sorted(self.strays.values(), reverse=True), 0, 0][:2]
        if self.missing > _MOST * n_rows:
            yield self._finding("missing", self.missing, n_rows, "rows are missing.")
        if self.least >= self.largest:
            is_mark = self.missing and isinstance(declared, Boolean | Categorical)
            yield Finding("constant", values, _MARKS if is_mark else _CONSTANT)
        elif common > max(_OFTEN * values, 2 * next_common) and not isinstance(declared, Boolean):
            yield self._finding("code", common, values, _CODE_OF.get(type(declared), _CODE))
        # Every category is listed, so one that is rare and not listed is spelled differently.
        elif self.outside > (_OFTEN if isinstance(declared, Categorical) else _MANY) * values:
            words = _OUTSIDE.get(type(declared), _OUT_OF_BOUNDS)
            yield self._finding("outside", self.outside, values, words)
        elif isinstance(declared, Numeric) and self.at_lower + self.at_upper == values:
            yield Finding("two values", values, _TWO_VALUES)
        elif isinstance(declared, Numeric | Date):
            lower, upper = _bounds(declared)
            reach = min(self.largest - lower, upper - self.least)
            if isinstance(declared, Numeric) and reach <= _NARROW * (upper - lower):
                yield Finding("narrow", values, _FILL_LITTLE)
            for side, count in (("lower", self.at_lower), ("upper", self.at_upper)):
                if count > _MOST * values:
                    yield self._finding(f"at {side}", count, values, _AT_BOUND.format(side))

    def _finding(self, what: str, count: int, of: int, words: str) -> Finding:
        return Finding(what, count, f"{count:,} of {of:,} {words}")


# Fields of the schema that help.
_CORRECT: dict[type, str] = {
    Boolean: "Declare it categorical, add missing_codes",
    Date: (
        'Say how it is written, such as format = "%d.%m.%Y", add what means a missing value to '
        'missing_codes, such as missing_codes = ["00.00.0000"]'
    ),
    Numeric: (
        "Declare it categorical, add missing_codes, say how it is written (decimal, thousands)"
    ),
}
_EMPTY = (
    "rows without a value in any column: {:,} of {:,}. Are they notes, totals or blank lines? "
    "Then delete them: each counts as a person."
)
_CONSTANT = "one value only: nothing varies. Ignore the column?"
_MARKS = (
    "one value only, and missing ones. Does an empty cell mean no? Then write that into the data. "
    "Otherwise nothing varies: ignore the column?"
)
_CODE = (
    "values are one and the same number outside of the bounds. Is it a missing code? Then add it "
    "to missing_codes."
)
_CODE_OF: dict[type, str] = {
    Date: (
        "values are one and the same date outside of the bounds. Does it mean a missing value? "
        'Then add it to missing_codes as a text, written as in the data: ["9999-12-31"].'
    )
}
_TWO_VALUES = (
    "all values are the two bounds. Declare the column boolean, or categorical if they are not 0 "
    "and 1: the release then spends less on finding its spread, and is mostly closer."
)
_FILL_LITTLE = (
    "all values lie in a hundredth of the bounds, at one end. Is it another unit, such as 0.55 for "
    "55 %? If not, leave the bounds as they are."
)
_OUT_OF_BOUNDS = "values are outside of the bounds, and will be moved to them. Is the unit right?"
_OUTSIDE: dict[type, str] = {
    Categorical: "values are in no category. Are labels spelled as in the data?",
    Boolean: (
        "values are neither 0 nor 1, and are moved to these. Codes such as 1 and 2 are categories: "
        "declare the column categorical."
    ),
}
_AT_BOUND = (
    "values are at the {} bound. That is right where most have just that value (zeros, 100 %); "
    "otherwise the bound is wrong."
)
_WANTED: dict[type, str] = {Date: "a date so written", Boolean: "true or false"}


def _bounds(declared: Any) -> tuple[float, float]:
    if isinstance(declared, Boolean):
        return 0.0, 1.0
    return float(declared.lower), float(declared.upper)

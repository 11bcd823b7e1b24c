"""Say how the rows of a table fit their schema: for the custodian alone.

Contract: what is found counts rows and is **sensitive**; it holds no cell.  The table is read once,
by the same readers as for a release, a column by itself; memory does not depend on the rows.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcov.data.encode import Encoder
from dpcov.data.schema.declared import Boolean, Categorical, Declared, Feature, Numeric
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import Block, Source
from dpcov.data.values import MISSING, UNKNOWN, column_of
from dpcov.errors import DataError

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
# Parts of the values.
_MOST, _MANY, _OFTEN = 0.5, 0.05, 0.01


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


class TableFit(msgspec.Struct, frozen=True):
    """How a table fits its schema; **sensitive**."""

    n_rows: int
    columns: tuple[ColumnFit, ...]
    note: str = NOT_PRIVATE

    @property
    def usable(self) -> bool:
        """Whether every column can be used."""
        return all(column.usable for column in self.columns)

    def summary(self) -> str:
        """One line for every column that does not fit, those that cannot be used first."""
        told = [c for c in self.columns if not c.usable]
        told += [c for c in self.columns if c.usable and c.findings]
        lines = [
            f"{'look' if column.usable else 'NO  '}  {column.name}: {finding.words}"
            for column in told
            for finding in column.findings
        ]
        fitting = len(self.columns) - len(told)
        return "\n".join([*lines, f"{fitting} of {len(self.columns)} columns fit."])


def fit(source: Source, schema: Schema, progress: Callable[[int], None] | None = None) -> TableFit:
    """Read a table once and say how it fits a complete schema without patterns; **sensitive**.

    ``progress`` is called with the number of rows after every block.
    """
    schema.require_complete()
    declared: dict[str, Feature] = dict(schema.features)
    if schema.weights is not None:
        declared[schema.weights.column] = Numeric(lower=0.0, upper=schema.weights.upper)
    columns = [_Column(name, kind, _alone(schema, name, kind)) for name, kind in declared.items()]
    n_rows = 0
    # As texts, so that a text among numbers is counted and ends nothing.
    for block in source.blocks(_BLOCK_ROWS, wanted=dict.fromkeys(declared, "text")):
        n_rows += len(block)
        for column in columns:
            column.add(block)
        if progress is not None:
            progress(len(block))
    return TableFit(n_rows, tuple(column.found(n_rows) for column in columns))


def _alone(schema: Schema, name: str, declared: Declared) -> Encoder:
    # A column by itself, so that what is wrong in one does not hide another.
    rest = {"weights": None, "norm_bound": None, "intercept": True, "wildcards": False}
    return Encoder(msgspec.structs.replace(schema, columns={name: declared}, **rest))


@dataclass
class _Column:
    """Counts of one column."""

    name: str
    declared: Feature
    encoder: Encoder
    missing: int = 0
    unreadable: int = 0
    distinct_unreadable: int = 0
    # Values outside of the bounds or the categories, and on each bound or beyond.
    outside: int = 0
    at_lower: int = 0
    at_upper: int = 0
    n_values: int = 0
    first: float | None = None
    varies: bool = False
    strays: Counter[float] = field(default_factory=Counter)

    @property
    def given_up(self) -> bool:
        return self.distinct_unreadable >= _ENOUGH

    def add(self, block: Block) -> None:
        """Count the cells of a block."""
        if self.given_up:
            return
        column = column_of(block, self.name)
        try:
            self._count(self._read(block), np.ones(len(block), dtype=np.int64))
        except DataError:
            cells = pa.array(column) if isinstance(column, np.ndarray) else column
            self._count_distinct(cells)

    def _read(self, block: Block) -> NDArray[np.float64]:
        (cells,) = self.encoder.cells(block)
        return cells

    def _count_distinct(self, column: pa.Array) -> None:
        # Halve what cannot be read until single cells are left.
        counted = column.value_counts()
        values, weights = counted.field(0), counted.field(1).to_numpy()
        waiting = [(0, len(values))]
        while waiting and not self.given_up:
            start, stop = waiting.pop()
            part = values[start:stop]
            try:
                cells = self._read(pa.RecordBatch.from_arrays([part], names=[self.name]))
            except DataError:
                if stop - start > 1:
                    middle = (start + stop) // 2
                    waiting += [(start, middle), (middle, stop)]
                else:
                    self.unreadable += int(weights[start])
                    self.distinct_unreadable += 1
            else:
                self._count(cells, weights[start:stop])

    def _count(self, cells: NDArray[np.float64], weights: NDArray[np.int64]) -> None:
        declared = self.declared
        if isinstance(declared, Categorical):
            is_missing, outside = cells == MISSING, cells == UNKNOWN
        else:
            is_missing = np.isnan(cells)
            lower, upper = _bounds(declared)
            outside = (cells < lower) | (cells > upper)
            self.at_lower += int(weights[cells <= lower].sum())
            self.at_upper += int(weights[cells >= upper].sum())
            self._count_strays(cells[outside], weights[outside])
        self.missing += int(weights[is_missing].sum())
        self.outside += int(weights[outside].sum())
        values = cells[~is_missing]
        self.n_values += int(weights[~is_missing].sum())
        if len(values):
            self.first = float(values[0]) if self.first is None else self.first
            self.varies |= bool((values != self.first).any())

    def _count_strays(self, cells: NDArray[np.float64], weights: NDArray[np.int64]) -> None:
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
            least = "at least " if self.given_up else ""
            wanted = _WANTED.get(type(self.declared), "a number")
            yield Finding(
                "unreadable",
                self.unreadable,
                f"{least}{self.unreadable:,} rows hold something that is not {wanted}. Declare it "
                "categorical, add missing_codes, say how it is written, or correct the data.",
            )
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
        values = self.n_values
        if self.missing > _MOST * n_rows:
            yield self._finding("missing", self.missing, n_rows, "rows are missing.")
        if not self.varies:
            yield Finding("constant", values, "one value only: nothing varies. Ignore the column?")
        if isinstance(self.declared, Categorical):
            if self.outside > _MANY * values:
                words = "values are in no category. Are labels spelled as in the data?"
                yield self._finding("outside", self.outside, values, words)
            return
        common = max(self.strays.values(), default=0)
        if common > _OFTEN * values:
            words = (
                "values are one and the same number outside of the bounds. Is it a missing code? "
                "Then add it to missing_codes."
            )
            yield self._finding("code", common, values, words)
        if isinstance(self.declared, Boolean) or not self.varies:
            return
        for side, count in (("lower", self.at_lower), ("upper", self.at_upper)):
            if count > _MOST * values:
                words = f"values are at the {side} bound or beyond. Is the unit right?"
                yield self._finding(f"at {side}", count, values, words)

    def _finding(self, what: str, count: int, of: int, words: str) -> Finding:
        return Finding(what, count, f"{count:,} of {of:,} {words}")


_WANTED = {Categorical: "a category", Boolean: "true or false"}


def _bounds(declared: Any) -> tuple[float, float]:
    if isinstance(declared, Boolean):
        return 0.0, 1.0
    return float(declared.lower), float(declared.upper)

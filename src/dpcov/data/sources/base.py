"""What every source of rows has in common.

Contract: rows come in blocks of at most the wanted size, and every error while they are read is
sealed.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcov.data.cells import is_missing, is_number_as_text, number_column, text_column
from dpcov.data.dates import day_of, pattern_of
from dpcov.data.layout import NAMES_BELOW
from dpcov.data.notation import Notation
from dpcov.data.seal import explain, sealed, sealed_iteration
from dpcov.errors import DataError, as_seen, few_of
from dpcov.published.digits import plural

T = TypeVar("T")

# Some rows: a record batch of named columns, or a matrix.
Block: TypeAlias = pa.RecordBatch | NDArray[np.float64]

# What a column physically holds, as far as a draft of a schema has to know.
Kind = Literal["number", "boolean", "text", "date", "other"]

# How a column is wanted, where the source itself does not say (CSV), or holds cells of any type.
ReadAs: TypeAlias = Literal["number", "text"] | Notation
# The columns to read, and how.
Wanted: TypeAlias = Mapping[str, ReadAs]

# Rows that a draft looks at.
FIRST_ROWS = 1000
# Rows at a time, so few that their cells stay in the processor's cache.
FEW_ROWS = 1024
_OTHER_FORM = (
    " Check capitals, blanks, and letters with accents, which can be written in two ways. A draft "
    "(dpcov schema draft) writes names as the table does."
)


class Source(ABC):
    """Rows that can be read in blocks.

    `name` is a label without any directory; columns without names are called ``x0``, ``x1``, ...
    `n_rows` is None where rows have no fixed places; `once` says that they can be read only once,
    `names_columns` that the names stand beside the rows and not in them; `unnamed` counts columns
    that are not read, because they have no name.
    """

    name: str
    columns: tuple[str, ...]
    n_rows: int | None = None
    once: bool = False
    names_columns: bool = True
    unnamed: int = 0

    @abstractmethod
    def kinds(self, decimal: str = ".") -> dict[str, Kind]:
        """What each column physically holds; ``decimal`` is the mark of numbers in texts."""

    @abstractmethod
    def _read(self, block_rows: int, wanted: Wanted) -> Iterator[Block]:
        """Yield the wanted columns in blocks of any size."""

    def blocks(self, block_rows: int, *, wanted: Wanted | None = None) -> Iterator[Block]:
        """Yield blocks of so many rows at most; all columns as numbers if none are wanted.

        Columns that are not wanted are not read, but matrices always have all.
        """
        schema_names = () if wanted is None else tuple(wanted)
        wanted = dict.fromkeys(self.columns, "number") if wanted is None else wanted
        self.check_wanted(wanted)
        any_rows = False
        pieces = sealed_iteration(
            lambda: self._read(block_rows, wanted),
            self.name,
            lambda error: self._explain(error, schema_names),
        )
        for piece in pieces:
            for start in range(0, len(piece), block_rows):
                any_rows = True
                yield piece[start : start + block_rows]
        if not any_rows:
            raise DataError(f"'{self.name}' has no rows. Give it at least one.")

    def check_wanted(self, wanted: Iterable[str]) -> None:
        """Refuse names that no column has; no row is read."""
        # The names found are not told, since a stray row may stand in their place.
        missing = [column for column in wanted if column not in self.columns]
        if not missing:
            return
        known = set(map(as_seen, self.columns))
        similar = known.issuperset(map(as_seen, missing))
        hint = _OTHER_FORM if similar else " Correct the schema, or take them out of it."
        listed = few_of([f"'{column}'" for column in missing], 10)
        # Names that were read from a row are neither told nor counted.
        if self.names_columns and self.columns == number_names(len(self.columns)):
            hint = f" The columns of an array are called x0 to x{len(self.columns) - 1}."
        held = (
            f"has {plural(len(self.columns), 'column')}, but not" if self.names_columns else "lacks"
        )
        raise DataError(
            f"'{self.name}' {held} these columns, which the schema names: {listed}.{hint}"
        )

    def _sealed(self, action: Callable[[], T]) -> T:
        # What an action returns that reads something beside the rows.
        return sealed(action, self.name, lambda error: self._explain(error, ()))

    def _explain(self, error: Exception, schema_names: Sequence[str]) -> str:
        # Say why reading failed: no part of the error, and no names but the schema's.
        return explain(error)


class TypedSource(Source):
    """A source whose columns have Arrow types of their own."""

    def __init__(self, name: str, schema: Callable[[], pa.Schema]) -> None:
        self.name = name
        self._schema: pa.Schema = self._sealed(schema)
        self.columns = self._sealed(lambda: check_names(self._schema.names, name))

    def kinds(self, decimal: str = ".") -> dict[str, Kind]:
        """Read from the types."""
        return kinds_of(self._schema)


def check_names(names: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the names if there are some and all differ."""
    if not names:
        raise DataError(f"'{name}' has no columns. Give a table that has some.")
    repeated = {label for label, count in Counter(names).items() if count > 1}
    if repeated:
        # Positions are told: a name may be a stray value.
        places = [str(place) for place, label in enumerate(names, 1) if label in repeated]
        are, mend = "of the same name", "Rename them."
        if repeated == {""}:
            are, mend = "without a name", f"Name them. {NAMES_BELOW}"
        told = few_of(places, 10)
        raise DataError(f"'{name}' has columns {are}, at the positions {told}. {mend}")
    return tuple(names)


def check_header(labels: Sequence[str], name: str, header: int = 1) -> tuple[str, ...]:
    """Return the names in a line of names, the ``header``th, without blanks around."""
    labels = [label.strip() for label in labels]
    if any(_is_value(label) for label in labels):
        raise DataError(
            f"'{name}' holds numbers or dates where column names are expected, in line {header}. "
            "Add a line of column names (these need a letter, such as y2020), or "
            f"{'declare' if header == 1 else 'correct'} header in the schema's [file]."
        )
    return check_names(labels, name)


def _is_value(label: str) -> bool:
    # Words such as inf and nan are names; numbers and dates, as any country writes them, are not.
    if not any(map(str.isdigit, label)):
        return False
    if not any(map(str.isalpha, label)) or day_of(label, pattern_of("")) is not None:
        return True
    try:
        float(label)
    except ValueError:
        return False
    return True


def number_names(count: int) -> tuple[str, ...]:
    """Return the names of columns that have none."""
    return tuple(f"x{index}" for index in range(count))


def kinds_of(schema: pa.Schema) -> dict[str, Kind]:
    """What columns of these Arrow types hold."""
    return {field.name: kind_of_arrow_type(field.type) for field in schema}


def kind_of_cells(cells: Iterable[object], decimal: str = ".") -> Kind:
    """What a column holds whose cells have types of their own, by those that are not missing."""
    given = [cell for cell in cells if not is_missing(cell)]
    found = set(map(type, given))
    # Spreadsheets keep some of the numbers of a column as texts.
    if {int, float} & found and all(
        is_number_as_text(cell, decimal) for cell in given if type(cell) is str
    ):
        found.discard(str)
    if found and found <= {bool}:
        return "boolean"
    if found and found <= {bool, int, float}:
        return "number"
    if found and found <= {date, datetime}:
        return "date"
    return "text" if str in found else "other"


def kind_of_arrow_type(data_type: pa.DataType) -> Kind:
    """What a column of this Arrow type holds."""
    types = pa.types
    if types.is_dictionary(data_type):
        return kind_of_arrow_type(data_type.value_type)
    if types.is_boolean(data_type):
        return "boolean"
    if types.is_integer(data_type) or types.is_floating(data_type) or types.is_decimal(data_type):
        return "number"
    if types.is_date(data_type) or types.is_timestamp(data_type):
        return "date"
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    return "text" if any(is_text(data_type) for is_text in texts) else "other"


def batch_of_cells(cells: Mapping[str, Iterable[object]], wanted: Wanted) -> pa.RecordBatch:
    """Return the wanted columns of cells of any types; every cell is read by itself."""
    columns = [column_of_cells(cells[name], name, reading) for name, reading in wanted.items()]
    return pa.RecordBatch.from_arrays(columns, names=list(wanted))


def column_of_cells(cells: Iterable[object], name: str, reading: ReadAs) -> pa.Array:
    """Return cells of any types, read one by one, as a column; missing values are null."""
    if isinstance(reading, Notation):
        return reading.column(cells, name)
    return (number_column if reading == "number" else text_column)(cells, name)

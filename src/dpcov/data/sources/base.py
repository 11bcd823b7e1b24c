"""What every source of rows has in common, and the seal that keeps row values out of error messages.

Promise: whatever goes wrong while rows are read, the error that leaves carries no value of a row, neither in its
message nor in a chained exception.  Knows nothing of schemas, bounds or encodings.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcov.errors import DataError, DpcovError

T = TypeVar("T")

Block: TypeAlias = pa.RecordBatch | NDArray[np.float64]
"""Some rows: a record batch of named columns, or a matrix."""

Kind = Literal["number", "boolean", "text", "other"]
"""What a column physically holds, as far as a draft of a schema has to know."""

Reading = Literal["number", "text"]
"""How a column is wanted, where the file itself does not say (CSV)."""

Progress = Callable[[int], None]
"""Called with the number of bytes read so far."""


class Source(ABC):
    """Rows that can be read in blocks.

    Attributes
    ----------
    name : str
        A label without any directory.
    columns : tuple of str
        The names of the columns, in order; ``x0``, ``x1``, ... where the data has none.
    progress_total : int or None
        The number of bytes to read, where it is known.
    """

    name: str
    columns: tuple[str, ...]
    progress_total: int | None = None

    @abstractmethod
    def kinds(self) -> dict[str, Kind]:
        """What each column physically holds."""

    @abstractmethod
    def _read(self, block_rows: int, wanted: Mapping[str, Reading]) -> Iterator[tuple[Block, int]]:
        """Yield blocks of any size with the number of bytes read so far."""

    def blocks(
        self,
        block_rows: int,
        *,
        wanted: Mapping[str, Reading] | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Block]:
        """Yield blocks of at most ``block_rows`` rows.

        Parameters
        ----------
        block_rows : int
        wanted : mapping of str to {"number", "text"}, optional
            The columns to read; all of them, as numbers, if not given.  Matrices always have all their columns.
        progress : callable, optional
            Called with the number of bytes read so far after each piece.
        """
        if wanted is None:
            wanted = dict.fromkeys(self.columns, "number")
        self._check_wanted(wanted)
        any_rows = False
        for piece, done in sealed_iteration(lambda: self._read(block_rows, wanted), self.name, self._explain):
            for start in range(0, len(piece), block_rows):
                any_rows = True
                yield piece[start : start + block_rows]
            if progress is not None:
                progress(done)
        if not any_rows:
            raise DataError(f"'{self.name}' has no rows. Give it at least one row below the column names.")

    def _check_wanted(self, wanted: Mapping[str, Reading]) -> None:
        """Raise if columns are missing; the names found are not told, since a stray row may stand in their place."""
        missing = [column for column in wanted if column not in self.columns]
        if not missing:
            return
        known = {column.strip().lower() for column in self.columns}
        hint = (
            " Check capitals and blanks."
            if known.issuperset(name.strip().lower() for name in missing)
            else ""
        )
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        listed = ", ".join(f"'{column}'" for column in missing[:10]) + more
        raise DataError(
            f"'{self.name}' has {len(self.columns)} columns, but not these, which the schema names: {listed}.{hint}"
        )

    def _explain(self, error: Exception) -> str:
        """Say in public words why reading failed; the error's own message must not be repeated."""
        return explain(error)


def sealed(action: Callable[[], T], name: str, describe: Callable[[Exception], str] | None = None) -> T:
    """Return what the action returns; replace any foreign error by a `DataError` without its text.

    Readers quote the value they stumble over, in the message or in a chained error.  The new error is therefore
    raised after the handler has ended: it then has no ``__context__`` at all.
    """
    try:
        return action()
    except DpcovError:
        raise
    except Exception as error:  # every reader has its own errors, and any of them may quote a row
        failure = DataError(f"'{name}' cannot be read: {(describe or explain)(error)}")
    raise failure


def sealed_iteration(
    start: Callable[[], Iterable[T]], name: str, describe: Callable[[Exception], str] | None = None
) -> Iterator[T]:
    """Iterate under the seal of `sealed`."""
    iterator = sealed(lambda: iter(start()), name, describe)
    nothing_left = object()
    while (item := sealed(lambda: next(iterator, nothing_left), name, describe)) is not nothing_left:
        yield item  # type: ignore[misc]


def explain(error: Exception) -> str:
    """Say in public words why reading failed."""
    if isinstance(error, MemoryError):
        return "there is not enough memory; use smaller blocks or a format that is read in pieces (Parquet, CSV)."
    if isinstance(error, PermissionError):
        return "you have no permission to read it."
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text; convert it to UTF-8."
    return "it is damaged, cut short, or not what its name says; write it again."


def check_names(names: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the names if there are some and all differ; positions are told, since a name may be a stray value."""
    if not names:
        raise DataError(f"'{name}' has no columns.")
    repeated = {label for label, count in Counter(names).items() if count > 1}
    if repeated:
        places = ", ".join(str(place) for place, label in enumerate(names, 1) if label in repeated)
        raise DataError(f"'{name}' has columns of the same name, at the positions {places}. Rename them.")
    return tuple(names)


def number_names(count: int) -> tuple[str, ...]:
    """Return the names of columns that have none."""
    return tuple(f"x{index}" for index in range(count))


def kind_of_arrow_type(data_type: pa.DataType) -> Kind:
    """What a column of this Arrow type holds."""
    types = pa.types
    if types.is_dictionary(data_type):
        return kind_of_arrow_type(data_type.value_type)
    if types.is_boolean(data_type):
        return "boolean"
    if types.is_integer(data_type) or types.is_floating(data_type) or types.is_decimal(data_type):
        return "number"
    if types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type):
        return "text"
    return "other"

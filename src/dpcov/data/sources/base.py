"""What every source of rows has in common.

Contract: rows come in blocks of at most the wanted size, and every error while they are read is sealed.
Knows nothing of schemas, bounds or encodings.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcov.data.seal import explain, sealed_iteration
from dpcov.errors import DataError

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
    n_rows : int or None
        The number of rows, where it is known before reading and rows keep their order.
    once : bool
        Whether the rows can be read one time only.
    """

    name: str
    columns: tuple[str, ...]
    progress_total: int | None = None
    n_rows: int | None = None
    once: bool = False

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
        schema_names = () if wanted is None else tuple(wanted)
        wanted = dict.fromkeys(self.columns, "number") if wanted is None else wanted
        self._check_wanted(wanted)
        any_rows = False
        pieces = sealed_iteration(
            lambda: self._read(block_rows, wanted),
            self.name,
            lambda error: self._explain(error, schema_names),
        )
        for piece, done in pieces:
            for start in range(0, len(piece), block_rows):
                any_rows = True
                yield piece[start : start + block_rows]
            if progress is not None:
                progress(done)
        if not any_rows:
            raise DataError(
                f"'{self.name}' has no rows. Give it at least one row below the column names."
            )

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

    def _explain(self, error: Exception, schema_names: Sequence[str]) -> str:
        """Say in public words why reading failed, repeating no part of the error and no name but the schema's."""
        return explain(error)


def check_names(names: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the names if there are some and all differ; positions are told, since a name may be a stray value."""
    if not names:
        raise DataError(f"'{name}' has no columns.")
    repeated = {label for label, count in Counter(names).items() if count > 1}
    if repeated:
        places = ", ".join(str(place) for place, label in enumerate(names, 1) if label in repeated)
        raise DataError(
            f"'{name}' has columns of the same name, at the positions {places}. Rename them."
        )
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
    if (
        types.is_string(data_type)
        or types.is_large_string(data_type)
        or types.is_string_view(data_type)
    ):
        return "text"
    return "other"

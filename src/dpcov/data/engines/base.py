"""What an engine does with rows, said once for all engines.

Contract: a task is public, frozen and can be pickled; whichever process adds a block, and in whatever order,
the moments are equal to the bit.  Knows nothing of where blocks come from.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcov.data.encode import Encoder, as_matrix, encode_array
from dpcov.data.groups import Grouping
from dpcov.data.linear import LinearMap
from dpcov.data.moments import Moments, MomentsSpec
from dpcov.data.questions import digest
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import Block, Reading, open_source
from dpcov.errors import DataError

Progress = Callable[[int], None]
"""Called with the number of rows after every block."""

EncodedBlock = tuple[NDArray[np.float64], NDArray[np.intp] | None]
"""Encoded rows and the group of each, or None without groups."""

_BLOCK_VALUES = 2**23
_MOST_ROWS = 2**15


class Encoding(Protocol):
    """How a block of rows becomes vectors in the unit ball; public."""

    @property
    def n_features(self) -> int:
        """Columns of the encoded rows."""

    @property
    def norm_bound(self) -> float:
        """What every row is divided by."""

    @property
    def wanted(self) -> Mapping[str, Reading] | None:
        """The columns to read and how; None for all of them, as numbers."""

    def encode(self, block: Block) -> EncodedBlock:
        """Encode a block."""


@dataclass(frozen=True, kw_only=True)
class TableEncoding:
    """Rows of a table as a complete public schema says, with groups by one more column if wanted."""

    schema: Schema
    grouping: Grouping | None = None

    @cached_property
    def encoder(self) -> Encoder:
        """Made once in every process."""
        return Encoder(self.schema)

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "grouping": self.grouping}

    @property
    def n_features(self) -> int:
        """Columns of the encoded rows."""
        return len(self.encoder.columns)

    @property
    def norm_bound(self) -> float:
        """The schema's bound."""
        return self.encoder.norm_bound

    @property
    def wanted(self) -> Mapping[str, Reading]:
        """The columns that the schema names, and the grouping column."""
        grouping = {} if self.grouping is None else self.grouping.wanted
        return {**self.encoder.wanted, **grouping}

    def encode(self, block: Block) -> EncodedBlock:
        """Encode a block of the wanted columns."""
        groups = None if self.grouping is None else self.grouping.codes(block)
        return self.encoder.encode(block), groups


@dataclass(frozen=True, kw_only=True)
class BallEncoding:
    """Plain numbers divided by a public norm bound; longer rows are scaled down to it."""

    n_features: int
    norm_bound: float

    @property
    def wanted(self) -> None:
        """All columns, as numbers."""
        return

    def encode(self, block: Block) -> EncodedBlock:
        """Encode a block."""
        return encode_array(as_matrix(block), self.norm_bound), None


@dataclass(frozen=True, kw_only=True)
class MomentsTask:
    """What to do with every block of a table; public, and picklable for engines with several processes.

    Parameters
    ----------
    encoding : TableEncoding or BallEncoding
        How rows become vectors in the unit ball.
    spec : MomentsSpec
        What to gather.
    linear : LinearMap, optional
        Applied to every encoded row.
    watched : bool
        Whether to sum up a digest of the encoded rows.
    threads : int, optional
        Threads of this machine to use; all cores by default.
    memory_limit : float, optional
        GiB that gathering may take on one machine; what the machine has by default.
    """

    encoding: Encoding
    spec: MomentsSpec
    linear: LinearMap | None = None
    watched: bool = False
    threads: int | None = None
    memory_limit: float | None = None

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return block_rows(self.encoding.n_features)

    def empty(self) -> Moments:
        """Moments of no rows."""
        return Moments(self.encoding.n_features, self.spec, norm_bound=self.encoding.norm_bound)

    def add(self, moments: Moments, block: Block, groups: NDArray[np.intp] | None = None) -> None:
        """Encode a block and add it; several threads may add to one `Moments`.

        Parameters
        ----------
        moments : Moments
            From :meth:`empty`.
        block : pyarrow.RecordBatch or (n, d) float64
            At least the columns that the encoding wants.
        groups : (n,) integer, optional
            Group of every row, where the encoding does not tell it.
        """
        rows, codes = self.encoding.encode(block)
        if self.watched:
            moments.watch(digest(rows))
        if self.linear is not None:
            rows = self.linear.apply(rows)
        moments.add(rows, groups if codes is None else codes, overwrite=True)

    def gather(self, part: Any) -> Moments:
        """Moments of one part of a table: anything that `open_source` reads and that has a length."""
        moments = self.empty()
        if _length(part):
            for block in open_source(part).blocks(self.block_rows, wanted=self.encoding.wanted):
                self.add(moments, block)
        return moments


class Engine(Protocol):
    """A module that gathers moments somewhere."""

    def columns(self, data: Any) -> tuple[str, ...]:
        """Names of the data's columns; ``x0``, ``x1``, ... where they have none."""

    def moments(self, data: Any, task: MomentsTask, progress: Progress | None) -> Moments:
        """Exact sensitive moments of all rows, each counted once."""


def block_rows(n_features: int) -> int:
    """Rows of a block: enough for fast products, few enough for bounded memory."""
    return max(1, min(_MOST_ROWS, _BLOCK_VALUES // n_features))


def tell(progress: Progress | None, block: Block) -> None:
    """Report the rows of a block."""
    if progress is not None:
        progress(len(block))


def _length(part: Any) -> int:
    return int(part.shape[0]) if hasattr(part, "shape") else len(part)


def require_rows(moments: Moments) -> Moments:
    """Refuse a table without rows."""
    if not moments.n_rows:
        raise DataError("The table has no rows. Give it at least one.")
    return moments

"""What an engine does with rows, said once for all engines.

Contract: a task is public, frozen and can be pickled; whichever process adds a block, and in whatever order,
the moments are equal to the bit.  Knows nothing of where blocks come from.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcov.data.encode import Encoder, as_matrix, encode_array
from dpcov.data.exact import packed_entries
from dpcov.data.groups import Grouping
from dpcov.data.histograms import HistogramQuestion, Histograms
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
_SUM_BYTES = 16
"""Of an entry: a sum of more than about four million rows at 20 bits takes a second word."""


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

    def column_values(self, block: Block) -> Sequence[NDArray[np.float64]]:
        """Every column's own numbers in [-1, 1], or codes of categories; NaN where missing."""


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

    def column_values(self, block: Block) -> Sequence[NDArray[np.float64]]:
        """What :meth:`~dpcov.data.encode.Encoder.column_values` returns."""
        return self.encoder.column_values(block)


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

    def column_values(self, block: Block) -> Sequence[NDArray[np.float64]]:
        """Every column in units of the norm bound."""
        rows = as_matrix(block).astype(np.float64, copy=False)
        if not np.isfinite(rows).all():
            raise DataError("The data holds NaN or infinity. Fill in or leave out missing values.")
        return [np.clip(column / self.norm_bound, -1.0, 1.0) for column in rows.T]


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """What to do with every block of a table; public, and picklable for engines with several processes.

    Parameters
    ----------
    encoding : TableEncoding or BallEncoding
        How rows become vectors in the unit ball.
    threads : int, optional
        Threads of this machine to use; all cores by default.
    memory_limit : float, optional
        GiB that gathering may take on one machine; what the machine has by default.
    """

    encoding: Encoding
    threads: int | None = None
    memory_limit: float | None = None

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return block_rows(self.encoding.n_features)

    @property
    @abstractmethod
    def answer_bytes(self) -> int:
        """Bytes of an answer, at most."""

    @abstractmethod
    def empty(self) -> Any:
        """The answer for no rows."""

    @abstractmethod
    def add(self, answer: Any, block: Block, groups: NDArray[np.intp] | None = None) -> None:
        """Add a block of rows to an answer; several threads may do so.

        Parameters
        ----------
        answer : Moments or Histograms
            From :meth:`empty`.
        block : pyarrow.RecordBatch or (n, d) float64
            At least the columns that the encoding wants.
        groups : (n,) integer, optional
            Group of every row, where the encoding does not tell it.
        """

    def gather(self, part: Any) -> Any:
        """The answer for one part of a table: anything that `open_source` reads and that has a length."""
        answer = self.empty()
        if _length(part):
            for block in open_source(part).blocks(self.block_rows, wanted=self.encoding.wanted):
                self.add(answer, block)
        return answer


@dataclass(frozen=True, kw_only=True)
class MomentsTask(Task):
    """Answer a :class:`~dpcov.data.questions.MomentsQuestion`, whose fields it has."""

    spec: MomentsSpec
    linear: LinearMap | None = None
    watched: bool = False

    @property
    def answer_bytes(self) -> int:
        """All strata inhabited."""
        matrices = self.spec.n_strata * (2 if self.spec.normalized else 1)
        return matrices * packed_entries(self.encoding.n_features) * _SUM_BYTES

    def empty(self) -> Moments:
        """Moments of no rows."""
        return Moments(self.encoding.n_features, self.spec, norm_bound=self.encoding.norm_bound)

    def add(self, answer: Moments, block: Block, groups: NDArray[np.intp] | None = None) -> None:
        """Encode, map and add."""
        rows, codes = self.encoding.encode(block)
        if self.watched:
            answer.watch(digest(self.encoding.column_values(block)))
        if self.linear is not None:
            rows = self.linear.apply(rows)
        answer.add(rows, groups if codes is None else codes, overwrite=True)


@dataclass(frozen=True, kw_only=True)
class HistogramTask(Task):
    """Answer a :class:`~dpcov.data.histograms.HistogramQuestion`."""

    question: HistogramQuestion

    @property
    def answer_bytes(self) -> int:
        """All counts."""
        return 8 * sum(window.cells + 3 for window in self.question.windows)

    def empty(self) -> Histograms:
        """Counts of no rows."""
        return Histograms(self.question)

    def add(self, answer: Histograms, block: Block, groups: NDArray[np.intp] | None = None) -> None:
        """Count every column's own numbers."""
        values = self.encoding.column_values(block)
        if self.question.watched:
            answer.watch(digest(values))
        answer.add(values)


class Engine(Protocol):
    """A module that gathers moments somewhere."""

    def columns(self, data: Any) -> tuple[str, ...]:
        """Names of the data's columns; ``x0``, ``x1``, ... where they have none."""

    def moments(self, data: Any, task: Task, progress: Progress | None) -> Any:
        """Exact sensitive answer about all rows, each counted once."""


def block_rows(n_features: int) -> int:
    """Rows of a block: enough for fast products, few enough for bounded memory."""
    return max(1, min(_MOST_ROWS, _BLOCK_VALUES // n_features))


def tell(progress: Progress | None, block: Block) -> None:
    """Report the rows of a block."""
    if progress is not None:
        progress(len(block))


def _length(part: Any) -> int:
    return int(part.shape[0]) if hasattr(part, "shape") else len(part)


def require_rows(answer: Any) -> Any:
    """Refuse a table without rows."""
    if not answer.n_rows:
        raise DataError("The table has no rows. Give it at least one.")
    return answer

"""Say what an engine does with rows, once for all engines.

Contract: a task is public, frozen and can be pickled; whichever process adds a block, and in
whatever order, the moments are equal to the bit.  A worker that stumbles over a row hands back a
value and raises nothing, so that its framework has nothing to log, to quote or to try again.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcov.data.encode import Encoder, as_matrix, encode_array
from dpcov.data.groups import Grouping
from dpcov.data.linear import LinearMap
from dpcov.data.moments import Moments, MomentsSpec
from dpcov.data.questions import digest
from dpcov.data.schema.schema import Schema
from dpcov.data.seal import sealed
from dpcov.data.sources import Block, Reading, open_source
from dpcov.errors import DataError, DpcovError

# Called with the number of rows after every block.
Progress = Callable[[int], None]

# Encoded rows and the group of each, or None without groups.
EncodedBlock = tuple[NDArray[np.float64], NDArray[np.intp] | None]

# Moments merged at a time.
FAN_IN = 4
TABLE = "the table"

# 64 MiB of float64, and rows beyond which products get no faster.
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
        """Encode a block of the wanted columns."""


@dataclass(frozen=True, kw_only=True)
class TableEncoding:
    """Rows of a table as a complete schema says, with groups by one more column if wanted."""

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
        return {**self.encoder.wanted, **(self.grouping.wanted if self.grouping else {})}

    def encode(self, block: Block) -> EncodedBlock:
        """Encode a block of the wanted columns."""
        groups = None if self.grouping is None else self.grouping.codes(block)
        return self.encoder.encode(block), groups


@dataclass(frozen=True, kw_only=True)
class BallEncoding:
    """Plain numbers divided by a public norm bound; longer rows are scaled down to it."""

    n_features: int
    norm_bound: float
    wanted: None = None

    def encode(self, block: Block) -> EncodedBlock:
        """Encode a block."""
        return encode_array(as_matrix(block), self.norm_bound), None


@dataclass(frozen=True, kw_only=True)
class MomentsTask:
    """What to do with every block of a table; public, and picklable.

    Every encoded row is mapped by `linear`, if given; `watched` sums up a digest of encoded rows.
    `threads` are all cores by default, `memory_limit` (GiB) is what the machine has.
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

    @property
    def n_matrices(self) -> int:
        """Matrices that are gathered, as if every stratum were inhabited."""
        return self.spec.n_strata * (2 if self.spec.normalized else 1)

    def empty(self) -> Moments:
        """Moments of no rows."""
        return Moments(self.encoding.n_features, self.spec, norm_bound=self.encoding.norm_bound)

    def add(self, moments: Moments, block: Block, groups: NDArray[np.intp] | None = None) -> None:
        """Encode a block and add it; several threads may add to one `Moments`.

        ``groups`` are the (n,) groups of the rows, where the encoding does not tell them.
        """
        rows, codes = self.encoding.encode(block)
        if self.watched:
            moments.watch(digest(rows))
        if self.linear is not None:
            rows = self.linear.apply(rows)
        moments.add(rows, groups if codes is None else codes, overwrite=True)

    def gather(self, part: Any) -> Moments:
        """Moments of one part of a table: what `open_source` reads and has a length."""
        moments = self.empty()
        # A sparse matrix has a shape, and no length.
        if part.shape[0] if hasattr(part, "shape") else len(part):
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


def require_rows(moments: Moments) -> Moments:
    """Refuse a table without rows."""
    if not moments.n_rows:
        raise DataError("The table has no rows. Give it at least one.")
    return moments


@dataclass(frozen=True)
class Failure:
    """Why a part has no moments; public."""

    error: DpcovError


Gathered = Moments | Failure


def gather_part(task: MomentsTask, part: Any) -> Gathered:
    """Moments of a partition in memory."""
    return attempt(lambda: task.gather(part))


def attempt(gather: Callable[[], Moments]) -> Gathered:
    """Return what ``gather`` returns, or the sealed error that it raised."""
    try:
        return sealed(gather, TABLE)
    except DpcovError as error:
        # A new error: the old one's traceback holds rows.
        failure = Failure(type(error)(str(error)))
    return failure


def merge_parts(task: MomentsTask, parts: Iterable[Gathered]) -> Gathered:
    """Return new moments of all parts, or the first failure."""
    merged = task.empty()
    for part in parts:
        if isinstance(part, Failure):
            return part
        merged.merge(part)
    return merged


def merge_or_raise(task: MomentsTask, parts: Iterable[Gathered]) -> Moments:
    """Return new moments of all parts; raise the first failure, which ends the other tasks."""
    merged = merge_parts(task, parts)
    if isinstance(merged, Failure):
        raise merged.error
    return merged


def require_columns(names: Iterable[str], task: MomentsTask) -> None:
    """Refuse a table without the wanted columns before any work is sent out."""
    columns = tuple(names)
    if len(set(columns)) != len(columns) or not columns:
        raise DataError("The table needs columns, and all of different names. Rename them.")
    empty = open_source(pa.table({name: pa.nulls(1) for name in columns}))
    next(iter(empty.blocks(1, wanted=task.encoding.wanted)))

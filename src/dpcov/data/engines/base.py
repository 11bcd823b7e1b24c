"""Say what an engine does with rows, once for all engines.

Contract: a task is public, frozen and can be pickled; whichever process adds a block, and in
whatever order, the moments are equal to the bit.  A worker that stumbles over a row hands back a
value and raises nothing, so that its framework has nothing to log, to quote or to try again.  What
cannot fit into memory is refused before a row is read, from public numbers: every stratum counts as
if it were inhabited.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcov.data.encode import Cells, Encoder, as_matrix, encode_array
from dpcov.data.exact.linear import Places
from dpcov.data.exact.losses import Losses
from dpcov.data.exact.moments import Moments
from dpcov.data.exact.sums import packed_entries, panel_entries
from dpcov.data.histograms import HistogramQuestion, Histograms
from dpcov.data.memory import allowed_bytes, gib
from dpcov.data.questions import MomentsQuestion
from dpcov.data.seal import sealed
from dpcov.data.sources import Block, open_source
from dpcov.data.sources.base import check_names
from dpcov.errors import DataError, DpcovError, UsageError

# Called with the number of rows after every block.
TellRows = Callable[[int], None]

# Moments merged at a time.
FAN_IN = 4
TABLE = "the table"

# 64 MiB of float64, and rows beyond which reading gets hardly any faster.
_BLOCK_VALUES = 2**23
_MOST_ROWS = 2**16

# Blocks that a thread holds while it works on one, and blocks that are read ahead.
_BLOCKS_PER_THREAD = 5
_BLOCKS_AHEAD = 3
_ENTRY = 8


@dataclass(frozen=True, kw_only=True)
class BallEncoding:
    """Plain numbers divided by a public norm bound; longer rows are scaled down to it."""

    n_features: int
    norm_bound: float
    wanted: None = None
    layout: None = None
    readers: tuple[()] = ()

    def read(self, block: Block) -> Cells:
        """Read a block of numbers."""
        return Cells(as_matrix(block).T)

    def encode(
        self, cells: Cells, losses: Losses | None = None
    ) -> tuple[NDArray[np.float64], Places | None]:
        """Encode rows; nobody asks what numbers without a schema lose."""
        return encode_array(np.asarray(cells.columns).T, self.norm_bound), None


# How a block of rows becomes vectors in the unit ball; public.
Encoding: TypeAlias = Encoder | BallEncoding


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """What to do with every block of a table; public, and picklable; the limit is in GiB."""

    encoding: Encoding
    threads: int | None = None
    memory_limit: float | None = None

    @property
    def width(self) -> int:
        """Numbers that are made of a row."""
        return self.encoding.n_features

    @property
    def block_rows(self) -> int:
        """Rows of a block: enough for fast products, few enough for bounded memory."""
        return max(1, min(_MOST_ROWS, _BLOCK_VALUES // self.width))

    @property
    def block_values(self) -> tuple[int, int]:
        """Numbers of a block that was read, and those that a thread holds while it adds one."""
        size = self.block_rows * self.width
        return size, _BLOCKS_PER_THREAD * size

    @property
    @abstractmethod
    def answer_bytes(self) -> int:
        """Bytes of an answer, at most."""

    @abstractmethod
    def empty(self) -> Any:
        """The answer for no rows."""

    @abstractmethod
    def add(self, answer: Any, block: Block, groups: NDArray[np.intp] | None = None) -> None:
        """Add rows, and their groups if the encoding does not tell them; from any thread."""

    def blocks(self, data: Any) -> Iterator[Block]:
        """What is read of data that `open_source` opens."""
        source = open_source(data, self.encoding.layout, self.memory_limit)
        return source.blocks(self.block_rows, wanted=self.encoding.wanted)

    def total(self, blocks: Iterable[Block]) -> Any:
        """The answer for these rows."""
        answer = self.empty()
        for block in blocks:
            self.add(answer, block)
        return answer

    def gather(self, part: Any) -> Any:
        """The answer for one part of a table: what `open_source` reads and has a length."""
        if not len(part):
            return self.empty()
        return self.total(self.blocks(part))


@dataclass(frozen=True, kw_only=True)
class MomentsTask(Task, MomentsQuestion):
    """Answer a `MomentsQuestion`, whose fields it has."""

    @property
    def n_matrices(self) -> int:
        """Matrices that are gathered, as if every stratum were inhabited."""
        return self.spec.n_strata * (2 if self.spec.normalized else 1)

    @property
    def answer_bytes(self) -> int:
        """All sums in two words: more than about four million rows at 20 bits need them."""
        return self.n_matrices * packed_entries(self.encoding.n_features) * 2 * 8

    def empty(self) -> Moments:
        """Moments of no rows."""
        n_features, bound = self.encoding.n_features, self.encoding.norm_bound
        return Moments(n_features, self.spec, norm_bound=bound, losses=self.losses)

    def add(self, answer: Moments, block: Block, groups: NDArray[np.intp] | None = None) -> None:
        """Encode, map and add."""
        cells = self.encoding.read(block)
        if self.watched:
            answer.watch(cells.digest)
        rows, places = self.encoding.encode(cells, answer.losses)
        if self.linear is not None:
            rows, places = self.linear.apply(rows, places), None
        groups = groups if cells.groups is None else cells.groups
        answer.add(rows, groups, places=places, overwrite=True)


@dataclass(frozen=True, kw_only=True)
class HistogramTask(Task):
    """Answer a `HistogramQuestion`, which is asked of tables with a schema only."""

    encoding: Encoder
    question: HistogramQuestion

    @property
    def width(self) -> int:
        """Fewer where columns are counted, of which none is encoded as several."""
        return len(self.question.windows) if self.question.geometry is None else super().width

    @property
    def block_values(self) -> tuple[int, int]:
        """No matrix is made of columns."""
        size, working = super().block_values
        return size, size if self.question.geometry is None else working

    @property
    def answer_bytes(self) -> int:
        """All counts."""
        return 8 * sum(self.question.sizes)

    def empty(self) -> Histograms:
        """Counts of no rows."""
        return Histograms(self.question)

    def add(self, answer: Histograms, block: Block, groups: NDArray[np.intp] | None = None) -> None:
        """Count every column's own numbers."""
        cells = self.encoding.read(block)
        answer.watch(cells.digest)
        if self.question.geometry is None:
            answer.add(self.encoding.column_values(cells))
        else:
            answer.add([self.encoding.row_lengths(cells)])


def tell(progress: TellRows | None, block: Block) -> None:
    """Report the rows of a block."""
    if progress is not None:
        progress(len(block))


def require_rows(answer: Any, progress: TellRows | None = None) -> Any:
    """Refuse a table without rows; otherwise report how many there are."""
    if not answer.n_rows:
        raise DataError("The table has no rows. Give it at least one.")
    if progress is not None:
        progress(answer.n_rows)
    return answer


@dataclass(frozen=True)
class Failure:
    """Why a part has no moments; public."""

    error: DpcovError


Gathered = Moments | Histograms | Failure


def attempt(gather: Callable[[], Any]) -> Gathered:
    """Return what ``gather`` returns, or the sealed error that it raised."""
    try:
        return cast(Gathered, sealed(gather, TABLE))
    except DpcovError as error:
        # A new error: the old one's traceback holds rows.
        failure = Failure(type(error)(str(error)))
    return failure


def merge_parts(task: Task, parts: Iterable[Gathered]) -> Gathered:
    """Return new moments of all parts, or the first failure."""
    merged = task.empty()
    for part in parts:
        if isinstance(part, Failure):
            return part
        merged.merge(part)
    return cast(Gathered, merged)


def merge_or_raise(task: Task, parts: Iterable[Gathered]) -> Any:
    """Return new moments of all parts; raise the first failure, which ends the other tasks."""
    merged = merge_parts(task, parts)
    if isinstance(merged, Failure):
        raise merged.error
    return merged


def require_columns(names: Iterable[str], task: Task) -> list[str]:
    """Names of the columns to read; a table without them is refused before any work is sent out."""
    columns, wanted = check_names(tuple(names), TABLE), task.encoding.wanted
    empty = open_source(pa.table({name: pa.nulls(1) for name in columns}))
    next(iter(empty.blocks(1, wanted=wanted)))
    return list(columns if wanted is None else wanted)


def working_bytes(task: Task, threads: int) -> int:
    """Bytes of the blocks and products in flight."""
    block, working = task.block_values
    product = 2 * panel_entries(task.encoding.n_features)
    return _ENTRY * (threads * (working + product) + _BLOCKS_AHEAD * block)


def require_memory(task: Task, *, threads: int = 1, copies: int = 1) -> None:
    """Refuse what cannot fit where so many threads multiply and so many moments are held."""
    limit = allowed_bytes(task.memory_limit)
    sums, working = copies * task.answer_bytes, working_bytes(task, threads)
    if sums + working > limit:
        raise UsageError(
            f"Gathering needs up to {gib(sums + working)} GiB of memory, but may take "
            f"{gib(limit)}: {gib(sums)} for what is summed, {gib(working)} for blocks in "
            f"{threads} threads. Use fewer columns, groups, shells (an option of the mechanism) or "
            "threads, or allow more memory."
        )

"""Read a source several times at the price of once, where a copy of its rows has room in memory.

Contract: every reading yields the same rows.  The copy takes at most the room that is given.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from dpcov.data.readers import Reader
from dpcov.data.sources.base import Block, Kind, Source, Wanted, kind_of_arrow_type
from dpcov.data.values import distinct
from dpcov.errors import UsageError

# What a cell of a source that can be read once only is taken to need, whatever it holds: what is
# refused follows from public numbers.  Of texts no more than one for each level is held.
_CELL_BYTES = 64
# Part of the memory that a copy may take where rows can be read again: a larger one takes longer to
# get new pages for than Parquet takes to be decoded.
_SHARE = 1 / 16
# Bytes of a copy at most, on a large machine too: beyond, memory does not grow with the table.
MOST_BYTES = 1 << 29


class KeptSource(Source):
    """The wanted columns of a source, always the same ones.

    Where they do not fit into ``memory``, in bytes, a source is read again, or refused if it can be
    read once only.  ``readers`` say which texts of a column are read alike.
    """

    def __init__(self, source: Source, memory: float, readers: Iterable[Reader]) -> None:
        self.name, self.columns, self.n_rows = source.name, source.columns, source.n_rows
        self._source = source
        self._readers = {each.name: each for each in readers if each.wanted == "text"}
        self._room = memory if source.once else min(memory * _SHARE, MOST_BYTES)
        self._held: list[Block] | None = None

    def kinds(self, decimal: str = ".") -> dict[str, Kind]:
        """Those of the source."""
        return self._source.kinds(decimal)

    def _read(self, block_rows: int, wanted: Wanted) -> Iterator[Block]:
        if self._held is not None:
            yield from self._held
            return
        held: list[Block] = []
        for each in self._source.blocks(block_rows, wanted=wanted):
            block = _folded(each, self._readers)
            self._room -= self._size(block)
            if self._room >= 0:
                held.append(block)
            elif self._source.once:
                raise UsageError(
                    f"'{self.name}' can be read once only, this mechanism reads it several "
                    "times, and a copy does not fit into memory. Save it to a file first, or use "
                    "geometry='schema' (--geometry schema)."
                )
            else:
                held.clear()
            yield block
        if self._room >= 0:
            self._held = held

    def _size(self, block: Block) -> int:
        once = self._source.once
        return len(block) * len(self.columns) * _CELL_BYTES if once else block.nbytes


def _folded(block: Any, readers: Mapping[str, Reader]) -> Block:
    # What is said again and again is held once.
    names = block.schema.names
    columns = [
        _one_for_each(cells, readers[name])
        if name in readers and kind_of_arrow_type(cells.type) == "text"
        else cells
        for name, cells in zip(names, block.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _one_for_each(texts: pa.Array, reader: Reader) -> pa.Array:
    # Of all texts that are read as the same, one: those that no level lists may be long.
    entries, places = distinct(texts)
    _, first, same = np.unique(
        reader.read(entries, reader.name), return_index=True, return_inverse=True
    )
    # In as few bytes as tell them apart; the place -1 of a null picks the entry at the end.
    small = np.append(same, 0).astype(np.min_scalar_type(len(first)))
    placed = pa.array(small[places], mask=places < 0)
    return pa.DictionaryArray.from_arrays(placed, entries.take(pa.array(first)))

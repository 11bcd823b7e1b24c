"""Read a source several times at the price of once, where a copy of its rows has room in memory.

Contract: every reading yields the same rows.  The copy takes at most the room that is given.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from dpcov.data.sources.base import Block, Kind, ReadAs, Source
from dpcov.errors import UsageError

# What a cell of a source that can be read once only is taken to need, whatever it holds: what is
# refused follows from public numbers.
_CELL_BYTES = 64
# Part of the memory that a copy may take where rows can be read again: a larger one takes longer to
# get new pages for than Parquet takes to be decoded.
_SHARE = 1 / 16
# Bytes of a copy at most, on a large machine too: beyond, memory does not grow with the table.
MOST_BYTES = 1 << 29


class KeptSource(Source):
    """The wanted columns of a source, always the same ones.

    Where they do not fit into ``memory``, in bytes, a source is read again, or refused if it can be
    read once only.
    """

    def __init__(self, source: Source, memory: float) -> None:
        self.name, self.columns, self.n_rows = source.name, source.columns, source.n_rows
        self._source = source
        self._room = memory if source.once else min(memory * _SHARE, MOST_BYTES)
        self._held: list[Block] | None = None

    def kinds(self) -> dict[str, Kind]:
        """Those of the source."""
        return self._source.kinds()

    def _read(self, block_rows: int, wanted: Mapping[str, ReadAs]) -> Iterator[Block]:
        if self._held is not None:
            yield from self._held
            return
        held: list[Block] = []
        for each in self._source.blocks(block_rows, wanted=wanted):
            block = _folded(each, wanted)
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


def _folded(block: Any, wanted: Mapping[str, ReadAs]) -> Block:
    # Levels are said again and again: each text is held once.
    names = block.schema.names
    columns = [
        cells.dictionary_encode()
        if wanted[name] == "text" and pa.types.is_string(cells.type)
        else cells
        for name, cells in zip(names, block.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=names)

"""Exact moments of whatever the custodian has: files, frames, arrays; read once, block by block.

Promise: memory does not depend on the number of rows, except for mechanisms that ask for the rows themselves.  What
comes out is sensitive.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcov.data.encode import Encoder, read_unit_ball
from dpcov.data.groups import Grouping
from dpcov.data.moments import Moments, MomentsSpec
from dpcov.data.prefetch import prefetch
from dpcov.data.rows import EncodedRows, RowsSpec
from dpcov.data.schema import Schema
from dpcov.data.sources import open_source

Progress = Callable[[int], None]
EncodedBlock = tuple[NDArray[np.float64], NDArray[np.intp] | None]
"""Encoded rows and the group of each, or None without groups."""

_BLOCK_ROWS = 16384


def table_moments(
    data: Any, schema: Schema, spec: MomentsSpec, *, progress: Progress | None = None
) -> Moments:
    """Exact **sensitive** moments of a table as a schema encodes it, read once, block by block."""
    encoder = Encoder(schema)
    gathered = Moments(len(encoder.columns), spec, norm_bound=encoder.norm_bound)
    return fill_moments(table_blocks(data, encoder), gathered, progress)


def table_blocks(data: Any, encoder: Encoder, grouping: Grouping | None = None) -> Iterator[EncodedBlock]:
    """Encode a table block by block, while the next blocks are being read."""
    wanted = encoder.wanted if grouping is None else {**encoder.wanted, **grouping.wanted}
    for block in prefetch(open_source(data).blocks(_BLOCK_ROWS, wanted=wanted)):
        yield encoder.encode(block), None if grouping is None else grouping.codes(block)


def ball_blocks(X: Any, norm_bound: float, groups: NDArray[np.intp] | None = None) -> Iterator[EncodedBlock]:
    """Encode an array or a table of numbers into the unit ball, without a schema."""
    start = 0
    for rows in read_unit_ball(open_source(X), norm_bound, _BLOCK_ROWS):
        yield rows, None if groups is None else groups[start : start + len(rows)]
        start += len(rows)


def gather(
    blocks: Iterable[EncodedBlock],
    n_features: int,
    spec: MomentsSpec | RowsSpec,
    norm_bound: float,
    progress: Progress | None = None,
) -> Moments | EncodedRows:
    """Keep the rows, or their moments only: what the mechanism wants."""
    if isinstance(spec, MomentsSpec):
        return fill_moments(blocks, Moments(n_features, spec, norm_bound=norm_bound), progress)
    kept = EncodedRows(n_features, norm_bound=norm_bound)
    for rows, _ in blocks:
        kept.add(rows)
        _tell(progress, rows)
    return kept


def fill_moments(
    blocks: Iterable[EncodedBlock], moments: Moments, progress: Progress | None = None
) -> Moments:
    """Add every block to the moments."""
    for rows, groups in blocks:
        _tell(progress, rows)
        moments.add(rows, groups, overwrite=True)
    return moments


def _tell(progress: Progress | None, rows: NDArray[np.float64]) -> None:
    if progress is not None:
        progress(len(rows))

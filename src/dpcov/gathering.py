"""Exact moments of whatever the custodian has: files, frames, arrays; read once, block by block.

Promise: memory does not depend on the number of rows, except for mechanisms that ask for the rows themselves.  What
comes out is sensitive.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcov.data.encode import Encoder, read_unit_ball
from dpcov.data.moments import Moments, MomentsSpec
from dpcov.data.prefetch import prefetch
from dpcov.data.rows import EncodedRows, RowsSpec
from dpcov.data.schema import Schema
from dpcov.data.sources import open_source

Progress = Callable[[int], None]
Gathered = TypeVar("Gathered", Moments, EncodedRows)

_BLOCK_ROWS = 8192


def table_moments(
    data: Any, schema: Schema, spec: MomentsSpec, *, progress: Progress | None = None
) -> Moments:
    """Exact **sensitive** moments of a table as a schema encodes it, read once, block by block."""
    encoder = Encoder(schema)
    gathered = Moments(len(encoder.columns), spec, norm_bound=encoder.norm_bound)
    return fill(table_blocks(data, encoder), gathered, progress)


def table_blocks(data: Any, encoder: Encoder) -> Iterator[NDArray[np.float64]]:
    """Encode a table block by block, while the next blocks are being read."""
    read = prefetch(open_source(data).blocks(_BLOCK_ROWS, wanted=encoder.wanted))
    return (encoder.encode(block) for block in read)


def ball_blocks(X: Any, norm_bound: float) -> Iterator[NDArray[np.float64]]:
    return read_unit_ball(open_source(X), norm_bound, _BLOCK_ROWS)


def gather_blocks(
    blocks: Iterable[NDArray[np.float64]],
    n_features: int,
    spec: MomentsSpec | RowsSpec,
    norm_bound: float,
    progress: Progress | None = None,
) -> Moments | EncodedRows:
    """Keep the rows, or their moments only: what the mechanism wants."""
    if isinstance(spec, RowsSpec):
        return fill(blocks, EncodedRows(n_features, norm_bound=norm_bound), progress)
    return fill(blocks, Moments(n_features, spec, norm_bound=norm_bound), progress)


def fill(
    blocks: Iterable[NDArray[np.float64]], gathered: Gathered, progress: Progress | None = None
) -> Gathered:
    for block in blocks:
        gathered.add(block)
        if progress is not None:
            progress(len(block))
    return gathered

"""The correlation matrix as data for the page's heat map, and in words for who cannot see it.

Contract: every pair is in the page at a stated precision, or the page says that it is not.

Notes
-----
The upper triangle is packed row by row.  A correlation takes two bytes (steps of 0.0001), its noise two (relative steps
of 0.03 %); where all parts of a page together exceed ``FINE_PAIRS`` pairs, one byte each (0.01 and 8 %); beyond
``MOST_PAIRS`` the matrices that no longer fit are left out.
"""

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FINE_PAIRS = 1_500_000
MOST_PAIRS = 4_000_000
NOISE_RANGE = (1e-9, 1e1)
ORDERED_OPTIMALLY = 300
"""Up to here leaves of the clustering tree are ordered optimally, which takes cubic time."""


@dataclass(frozen=True, kw_only=True)
class Precision:
    """How numbers are packed: the step of a correlation, the number of codes for its noise, and their types."""

    step: float
    codes: int
    correlation_type: str
    noise_type: str


FINE = Precision(step=1e-4, codes=2**16 - 1, correlation_type="<i2", noise_type="<u2")
COARSE = Precision(step=1e-2, codes=2**8 - 1, correlation_type="<i1", noise_type="<u1")


def n_pairs(dimension: int) -> int:
    """Entries above the diagonal."""
    return dimension * (dimension - 1) // 2


def precision_for(dimensions: list[int]) -> Precision:
    """What keeps a page with matrices of these sizes small."""
    return FINE if sum(map(n_pairs, dimensions)) <= FINE_PAIRS else COARSE


def fits(dimensions: list[int]) -> bool:
    """Whether matrices of these sizes can all be in one page."""
    return sum(map(n_pairs, dimensions)) <= MOST_PAIRS


def pack(correlation: Array, noise: Array | None, precision: Precision) -> dict[str, Any]:
    """Data of one heat map, ready for JSON."""
    upper = np.triu_indices(len(correlation), 1)
    return {
        "order": [int(place) for place in clustered(correlation)],
        "known": [bool(value) for value in np.isfinite(np.diagonal(correlation))],
        "step": precision.step,
        "range": NOISE_RANGE,
        "r": _base64(_correlation_codes(correlation[upper], precision)),
        "noise": None if noise is None else _base64(_noise_codes(noise[upper], precision)),
    }


def _correlation_codes(values: Array, precision: Precision) -> NDArray[Any]:
    """Whole steps; the smallest integer stands for unknown."""
    smallest = int(np.iinfo(precision.correlation_type).min)
    known = np.isfinite(values)
    codes = np.rint(np.where(known, values, 0.0) / precision.step)
    return np.where(known, codes, smallest).astype(precision.correlation_type)


def _noise_codes(values: Array, precision: Precision) -> NDArray[Any]:
    """Steps on a logarithmic scale from 1 on; 0 stands for unknown."""
    low, high = np.log(NOISE_RANGE[0]), np.log(NOISE_RANGE[1])
    known = np.isfinite(values)
    place = (np.log(np.clip(np.where(known, values, 1.0), *NOISE_RANGE)) - low) / (high - low)
    return np.where(known, 1 + np.rint(place * (precision.codes - 1)), 0).astype(
        precision.noise_type
    )


def _base64(codes: NDArray[Any]) -> str:
    return base64.b64encode(codes.tobytes()).decode()


def clustered(correlation: Array) -> NDArray[np.intp]:
    """Order in which features that go together are neighbors: average linkage on 1 - r.

    Signed, so that the mean of a block of neighbors does not cancel.
    """
    d = len(correlation)
    if d < 3:
        return np.arange(d)
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    distance = 1 - np.clip(np.nan_to_num(correlation), -1, 1)
    np.fill_diagonal(distance, 0.0)
    pairs = squareform(distance, checks=False)
    tree = linkage(pairs, "average")
    if d <= ORDERED_OPTIMALLY:
        tree = optimal_leaf_ordering(tree, pairs)
    return np.asarray(leaves_list(tree), dtype=np.intp)


def strongest(correlation: Array, count: int) -> list[tuple[int, int]]:
    """Pairs with the largest absolute correlation, the largest first."""
    rows, columns = np.triu_indices(len(correlation), 1)
    sizes = np.abs(np.nan_to_num(correlation[rows, columns]))
    if count < sizes.size:
        kept = np.argpartition(-sizes, count)[:count]
        rows, columns, sizes = rows[kept], columns[kept], sizes[kept]
    order = np.lexsort((columns, rows, -sizes))
    return [(int(rows[place]), int(columns[place])) for place in order if sizes[place] > 0]

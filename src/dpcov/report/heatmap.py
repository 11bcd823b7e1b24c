"""Pack correlations as data for the page's heat map, and find the strongest for its tables.

Contract: every pair is in the page at a stated precision, or the page says that it is not.  The
upper triangle is packed row by row.  A correlation takes two bytes (steps of 0.0001), its noise two
(relative steps of 0.03 %).  Beyond ``FINE_PAIRS`` pairs each takes one byte (0.01 and 8 %).
Matrices beyond ``MOST_PAIRS`` are left out.
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
# Optimal order of the leaves of the clustering tree takes cubic time.
ORDERED_OPTIMALLY = 300


@dataclass(frozen=True, kw_only=True)
class Precision:
    """How numbers are packed: step of a correlation, number of codes for its noise, types."""

    step: float
    codes: int
    correlation_type: str
    noise_type: str


FINE = Precision(step=1e-4, codes=2**16 - 1, correlation_type="<i2", noise_type="<u2")
COARSE = Precision(step=1e-2, codes=2**8 - 1, correlation_type="<i1", noise_type="<u1")


def precision_for(size: int, maps: int) -> Precision:
    """What keeps a page with so many maps of so many features small."""
    return FINE if maps * _n_pairs(size) <= FINE_PAIRS else COARSE


def most_maps(size: int) -> int:
    """How many maps of so many features fit into a page; none of a single feature."""
    return MOST_PAIRS // _n_pairs(size) if size > 1 else 0


def _n_pairs(size: int) -> int:
    return size * (size - 1) // 2


def pack(correlation: Array, noise: Array | None, precision: Precision) -> dict[str, Any]:
    """Data of one heat map, ready for JSON."""
    upper = np.triu_indices(len(correlation), 1)
    return {
        "order": [int(place) for place in clustered(correlation)],
        "known": [bool(value) for value in np.isfinite(np.diagonal(correlation))],
        "step": precision.step,
        "range": NOISE_RANGE,
        "r": _correlation_codes(correlation[upper], precision),
        "noise": None if noise is None else _noise_codes(noise[upper], precision),
    }


def _correlation_codes(values: Array, precision: Precision) -> str:
    smallest = int(np.iinfo(precision.correlation_type).min)  # stands for unknown
    known = np.isfinite(values)
    # Rounded to the nearest step: half a step is the stated precision.
    codes = np.rint(np.where(known, values, 0.0) / precision.step)
    codes = np.where(known, codes, smallest).astype(precision.correlation_type)
    return base64.b64encode(codes.tobytes()).decode()


def _noise_codes(values: Array, precision: Precision) -> str:
    # Steps on a logarithmic scale from 1 on; 0 stands for unknown.
    low, high = np.log(NOISE_RANGE)
    known = np.isfinite(values)
    place = (np.log(np.clip(np.where(known, values, 1.0), *NOISE_RANGE)) - low) / (high - low)
    codes = np.where(known, 1 + np.rint(place * (precision.codes - 1)), 0)
    return base64.b64encode(codes.astype(precision.noise_type).tobytes()).decode()


def clustered(correlation: Array) -> NDArray[np.intp]:
    """Order in which features that go together are neighbors: average linkage on 1 - r."""
    d = len(correlation)
    if d < 3:
        return np.arange(d)
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    # Signed, so that the mean of a block of neighbors does not cancel.
    # Unknown correlations count as zero, so that every feature has a place.
    distance = 1 - np.clip(np.nan_to_num(correlation), -1, 1)
    np.fill_diagonal(distance, 0.0)
    pairs = squareform(distance, checks=False)
    tree = linkage(pairs, "average", optimal_ordering=d <= ORDERED_OPTIMALLY)
    return np.asarray(leaves_list(tree), dtype=np.intp)


def strongest(correlation: Array, count: int) -> list[tuple[int, int]]:
    """Pairs with the largest absolute correlation, the largest first."""
    # Above the diagonal only: each pair once, and no feature with itself.
    rows, columns = np.triu_indices(len(correlation), 1)
    sizes = np.abs(np.nan_to_num(correlation[rows, columns]))
    order = np.argsort(-sizes, kind="stable")[:count]  # of equal pairs the upper left comes first
    return [(int(rows[place]), int(columns[place])) for place in order if sizes[place] > 0]

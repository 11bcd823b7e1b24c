"""Pack correlations as data for the page's heat map, and find the strongest for its tables.

Contract: every pair of the upper triangle is in the page at a stated precision, two bytes for it
and two for its noise; matrices beyond ``MOST_PAIRS`` pairs are left out, and the page says so.
"""

import base64
from typing import Any

import numpy as np

from dpcov.published.linalg.symmetric import Array, Places

MOST_PAIRS = 1_500_000
STEP = 1e-4
NOISE_RANGE = (1e-9, 1e1)
# Optimal order of the leaves of the clustering tree takes cubic time.
ORDERED_OPTIMALLY = 300


def most_maps(size: int) -> int:
    """How many maps of so many features fit into a page; none of a single feature."""
    return MOST_PAIRS // (size * (size - 1) // 2) if size > 1 else 0


def pack(correlation: Array, noise: Array | None, clear: float) -> dict[str, Any]:
    """Data of one heat map, ready for JSON; ``clear`` noise stds from zero a pair is shown."""
    upper = np.triu_indices(len(correlation), 1)
    if noise is not None:
        # A column that the noise hides reads 0, and nothing is known of it.
        correlation = np.where(np.isnan(noise), np.nan, correlation)
    return {
        "order": clustered(correlation).tolist(),
        "known": np.isfinite(np.diagonal(correlation)).tolist(),
        "step": STEP,
        "clear": round(clear, 3),
        "range": NOISE_RANGE,
        # Rounded to the nearest step: half a step is the stated precision; -2**15 is unknown.
        "r": _packed(np.rint(correlation[upper] / STEP), -(2**15), "<i2"),
        "noise": None if noise is None else _noise_codes(noise[upper]),
    }


def _packed(codes: Array, unknown: int, kind: str) -> str:
    # Of whole numbers of two bytes.
    known = np.where(np.isfinite(codes), codes, unknown)
    return base64.b64encode(known.astype(kind).tobytes()).decode()


def _noise_codes(values: Array) -> str:
    # Steps on a logarithmic scale from 1 to 2**16 - 1; 0 stands for unknown.
    low, high = np.log(NOISE_RANGE)
    place = (np.log(np.clip(values, *NOISE_RANGE)) - low) / (high - low)
    return _packed(1 + np.rint(place * (2**16 - 2)), 0, "<u2")


def clustered(correlation: Array) -> Places:
    """Order in which features that go together are neighbors: average linkage on 1 - r."""
    if (d := len(correlation)) < 3:
        return np.arange(d)
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    # Signed, so that the mean of a block of neighbors does not cancel.
    # Unknown correlations count as zero, so that every feature has a place.
    distance = 1 - np.clip(np.nan_to_num(correlation), -1, 1)
    # Without checks the diagonal, 1 where nothing is known, is not read.
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

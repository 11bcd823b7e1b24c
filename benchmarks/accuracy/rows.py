"""Rows of the synthetic populations, in the unit ball, in blocks where they do not fit into memory.

Contract: the same arguments give the same rows everywhere.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.papers.synthetic import synthetic_rows

Rows = np.ndarray
BLOCK_VALUES = 2**24
"""Numbers made at a time: 128 MiB."""


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """A table of n rows and d columns that is made block by block, as often as it is needed.

    Parameters
    ----------
    n, d : int
    make : callable
        Yields the rows in blocks of shape (at most n, d).
    truth : (d, d) array or None
        What errors are measured against, if it is not the rows' second moment.
    """

    n: int
    d: int
    make: Callable[[], Iterator[Rows]]
    truth: np.ndarray | None = None

    @classmethod
    def of(cls, rows: Rows, truth: np.ndarray | None = None) -> "Blocks":
        """A table that is held in memory."""
        return cls(n=len(rows), d=rows.shape[1], make=lambda: iter([rows]), truth=truth)


def zipf_rows(n: int, d: int, bins: int) -> Rows:
    """Dong et al., section 6.1."""
    return synthetic_rows(n, d, bins, np.random.default_rng([n, d, bins]))


def unit_maximum(load: Callable[[], Rows]) -> Rows:
    """Rows divided by the largest norm, as in the papers' experiments; the norm counts as public
    there."""
    rows = load()
    return rows / np.linalg.norm(rows, axis=1).max()


def sparse_rows(n: int, p: int, share: float) -> Blocks:
    """Wang et al.: N(0, U) with U = (sparse symmetric + 50 I) / 200, rows cut to norm 1; and U on
    that scale.

    The nonzero entries are standard normal.  Rows have squared norm about p / 4, so that U is
    divided by p too.
    """
    generator = np.random.default_rng([n, p, int(100 * share)])
    upper = np.triu(generator.standard_normal((p, p)) * (generator.uniform(size=(p, p)) < share))
    truth = (upper + np.triu(upper, 1).T + 50 * np.eye(p)) / (200 * p)
    return Blocks.of(generator.standard_normal((n, p)) @ np.linalg.cholesky(truth).T, truth)


SHAPES: dict[str, Callable[[int], np.ndarray]] = {
    "identity": lambda d: np.ones(d),
    "power law": lambda d: np.arange(1.0, d + 1) ** -1.0,
    "spiked": lambda d: np.where(np.arange(d) < 3, 1.0, 0.01),
    "t with 3 degrees": lambda d: np.arange(1.0, d + 1) ** -0.5,
}
"""Eigenvalues up to scale."""


def shaped_rows(n: int, d: int, shape: str) -> Blocks:
    """Normal rows with the stated spectrum, cut to norm 1; or t rows with 3 degrees of freedom."""
    step = max(1, BLOCK_VALUES // d)
    sizes = [min(step, n - start) for start in range(0, n, step)]
    return Blocks(n=n, d=d, make=partial(_shaped_blocks, sizes, d, shape))


def _shaped_blocks(sizes: list[int], d: int, shape: str) -> Iterator[Rows]:
    generator = np.random.default_rng([sum(sizes), d, zlib.crc32(shape.encode())])
    scales = np.sqrt(SHAPES[shape](d))
    for size in sizes:
        rows = generator.standard_normal((size, d)) * (scales / (2 * np.linalg.norm(scales)))
        if shape == "t with 3 degrees":
            rows /= 4 * np.sqrt(generator.chisquare(3, size=(size, 1)) / 3)
        yield rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)

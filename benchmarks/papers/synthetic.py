"""The synthetic tables of the papers' experiments (Amin et al. 2019; Dong, Liang, Yi 2022, section
6.1).

X = Z U with U uniform on (0, 1) and Z standard normal, columns centered, rows scaled to the norms
2**(k - N), k = 1 ... N, in numbers proportional to 1 / k**s.  N = 1 gives unit rows.
"""

import numpy as np

SKEWNESS = 3.0
"""The s of the text above."""


def norms(n_rows: int, bins: int) -> np.ndarray:
    """Row norms, shape (n_rows,): 2**(k - bins) about n_rows k**-SKEWNESS / sum times."""
    rank = np.arange(1, bins + 1)
    shares = np.cumsum(rank**-SKEWNESS)
    ends = np.round(n_rows * shares / shares[-1]).astype(int)
    return np.repeat(2.0 ** (rank - bins), np.diff(ends, prepend=0))


def synthetic_rows(
    n_rows: int, n_features: int, bins: int, generator: np.random.Generator
) -> np.ndarray:
    """Rows in the unit ball, shape (n_rows, n_features); treated as public data in all
    experiments."""
    rows = generator.standard_normal((n_rows, n_features)) @ generator.random(
        (n_features, n_features)
    )
    rows -= rows.mean(axis=0)
    rows *= (norms(n_rows, bins) / np.linalg.norm(rows, axis=1))[:, None]
    return rows

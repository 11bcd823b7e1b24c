"""Choose a linear map from a first noisy matrix, so that noise meets no small variance.

Contract: deterministic post-processing of what a mechanism drew.  The map makes correlations small
and leaves every column its spread: rows stay about as long as they were (docs/geometry.md).
"""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from dpcov.data.linear import LinearMap
from dpcov.errors import ReleaseError
from dpcov.published.columns import EncodedColumn
from dpcov.published.estimate.entry_noise import (
    NUCLEAR_EDGE,
    MomentNoise,
    inhabited,
    largest_noise_eigenvalue,
)
from dpcov.published.estimate.unit import centered, unit_estimate
from dpcov.published.linalg.symmetric import compose, eigh
from dpcov.published.statistics import NoisyStatistics

# Variances and eigenvalues, relative to the largest, that are never stretched further.
_LEAST = 1e-6

RESOLVED = 1.0
"""Eigenvalues of noise on correlations up to which a first matrix is worth its cost."""


def with_map(statistics: NoisyStatistics, linear: LinearMap) -> NoisyStatistics:
    """The statistics of rows that were mapped, with the map."""
    numbers = np.array(linear.numbers, dtype=np.int64)
    arrays = {**statistics.arrays, "linear": numbers}
    return replace(statistics, arrays=arrays, linear_exponent=linear.exponent)


def whitening_map(
    first: NoisyStatistics, columns: Sequence[EncodedColumn], bound: float, n_rows: int | None
) -> LinearMap | None:
    """With D the spreads and R the correlations, ``D (R + edge I)^-1/2 D^-1 (x - mean)``.

    Parameters
    ----------
    first : NoisyStatistics
        A matrix of rows in the geometry of ``columns``, whose noise has a law.
    columns : sequence of EncodedColumn
    bound : float
        Norm bound of the rows.
    n_rows : int or None
        Public number of rows, None where the matrix has a noisy one.

    Returns
    -------
    LinearMap or None
        None where the noise hides the number of rows.
    """
    unit, start = inhabited(unit_estimate(first, n_rows)), int(columns[0].kind == "intercept")
    assert unit.noise_variance is not None and unit.off_diagonal_variance is not None
    mean, covariance = np.zeros(len(columns)), unit.matrix * bound**2.0
    if start:
        try:
            _, mean, covariance = centered(unit, None)
        except ReleaseError:
            return None
    noise = MomentNoise(
        diagonal=unit.noise_variance * bound**4.0,
        off_diagonal=unit.off_diagonal_variance * bound**4.0,
        edge_factor=NUCLEAR_EDGE if unit.noise_is_nuclear else 1.0,
    )
    matrix, features = np.eye(len(covariance)), columns[start:]
    # Indicators of missing values stay as they are: noise on them matters little.
    values_at = np.array([i for i, c in enumerate(features) if c.kind != "missing"], dtype=np.intp)
    covariance = covariance[np.ix_(values_at, values_at)]
    # What the noise may hide counts as spread.
    variances = np.diagonal(covariance)
    least = max(sqrt(noise.diagonal), _LEAST * float(variances.max()), np.finfo(float).tiny)
    spreads = np.sqrt(np.maximum(variances, least))
    edge = largest_noise_eigenvalue(noise, 1 / spreads, np.zeros(len(spreads)))
    values, vectors = eigh(covariance / np.outer(spreads, spreads))
    root = compose((np.maximum(values, 0.0) + max(edge, _LEAST)) ** -0.5, vectors)
    matrix[np.ix_(values_at, values_at)] = spreads[:, None] * root / spreads
    if start:
        matrix = np.column_stack([-matrix @ mean, matrix])
    found = LinearMap.nearest(matrix)
    # Rounded, it must still be one that can be undone: the budget is charged by now.
    return found if found.can_be_undone else None

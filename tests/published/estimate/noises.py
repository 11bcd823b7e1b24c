"""Symmetric noise, isometric coordinates and plain shrinkage for tests of estimates."""

import numpy as np

from dpcov.published.estimate.strata import Stratum
from dpcov.published.estimate.unit import Part


def svec(matrix):
    """The upper triangle, off-diagonal entries times √2, so that ‖svec(A)‖₂ = ‖A‖_F."""
    rows, columns = np.triu_indices(len(matrix))
    return matrix[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))


def smat(vector):
    """The symmetric matrix of which ``vector`` is the svec."""
    d = (int(np.sqrt(8 * len(vector) + 1)) - 1) // 2
    rows, columns = np.triu_indices(d)
    matrix = np.zeros((d, d))
    matrix[rows, columns] = vector * np.where(rows == columns, 1.0, np.sqrt(0.5))
    matrix[columns, rows] = matrix[rows, columns]
    return matrix


def noise(d, variance, generator):
    """Off-diagonal entries of the given variance, diagonal entries of twice that."""
    return smat(np.sqrt(2.0 * variance) * generator.standard_normal(d * (d + 1) // 2))


def stratum(matrix, variance, trace=None, trace_variance=None):
    law = {"trace": trace, "trace_variance": trace_variance}
    return Stratum.of(Part(matrix=matrix, diagonal_variance=2 * variance, **law))


def shrunk(*law):
    """The shrunk matrix and its risk, for a noisy one with the law of :func:`stratum`."""
    return stratum(*law).shrunk

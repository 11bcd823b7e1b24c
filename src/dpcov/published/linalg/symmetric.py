"""Symmetric matrices: checking, mirroring and eigendecomposition.

Contract: every result is a float64 array in C order, exactly symmetric where it is a matrix, and a
number that is not finite raises :class:`~dpcov.errors.NumericError` instead of traveling on.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from dpcov.errors import NumericError, UsageError

Array = NDArray[np.float64]
Places = NDArray[np.intp]


class EigenSystem(NamedTuple):
    """Eigenvalues, ascending, (d,), and unit eigenvectors as columns, (d, d)."""

    values: Array
    vectors: Array


class Solver(NamedTuple):
    """Who computes the operations of cubic cost: arrays in, arrays out."""

    eigh: Callable[[Array], tuple[Array, Array]]
    matmul: Callable[[Array, Array], Array]


_HERE = Solver(eigh=np.linalg.eigh, matmul=np.matmul)
_NO_CONVERGENCE = "The eigendecomposition did not converge. Rescale the matrix and retry."
_SOLVER = ContextVar("solver", default=_HERE)


@contextmanager
def solving_with(solver: Solver) -> Iterator[None]:
    """Let another solver do the work inside a ``with`` block, in this thread only."""
    before = _SOLVER.set(solver)
    try:
        yield
    finally:
        _SOLVER.reset(before)


def square_matrix(matrix: ArrayLike) -> Array:
    """Return a float64 array after checking that it is square, not empty and finite."""
    checked = np.ascontiguousarray(matrix, dtype=np.float64)
    if checked.ndim != 2 or checked.shape[0] != checked.shape[1] or checked.shape[0] == 0:
        raise UsageError(f"Expected a square matrix with rows, got shape {checked.shape}.")
    if not np.isfinite(checked).all():
        raise NumericError("The matrix holds NaN or infinite entries, as after an overflow.")
    return checked


def symmetrize(matrix: ArrayLike) -> Array:
    """Return the symmetric part (A + Aᵀ) / 2, the nearest symmetric matrix in Frobenius norm."""
    checked = square_matrix(matrix)
    # Halving first keeps entries near the largest float finite.
    half = 0.5 * checked
    return half + half.T


def mirror_upper(matrix: ArrayLike) -> Array:
    """Return the symmetric matrix with the upper triangle, diagonal included, of ``matrix``."""
    upper = np.triu(square_matrix(matrix))
    return upper + np.triu(upper, 1).T


def eigh(matrix: ArrayLike) -> EigenSystem:
    """Decompose the symmetric part; NumericError if that does not converge or is not finite."""
    try:
        values, vectors = _SOLVER.get().eigh(symmetrize(matrix))
    except np.linalg.LinAlgError as error:
        raise NumericError(_NO_CONVERGENCE) from error
    if not (np.isfinite(values).all() and np.isfinite(vectors).all()):
        raise NumericError("The eigendecomposition overflowed. Rescale the matrix and retry.")
    return EigenSystem(values, np.ascontiguousarray(vectors))


def eigenvalues(matrix: ArrayLike) -> Array:
    """Return the values of :func:`eigh`, up to rounding, at less than half the cost."""
    # Another solver may have no cheaper way to the values alone.
    if _SOLVER.get() is not _HERE:
        return eigh(matrix).values
    try:
        return np.asarray(np.linalg.eigvalsh(symmetrize(matrix)))
    except np.linalg.LinAlgError as error:
        raise NumericError(_NO_CONVERGENCE) from error


def largest_eigh(matrix: ArrayLike, k: int) -> EigenSystem:
    """Return the k largest values of :func:`eigh` with their vectors, at a third of the cost."""
    symmetric = symmetrize(matrix)
    d = len(symmetric)
    # Another solver may have no cheaper way to some of them.
    if _SOLVER.get() is not _HERE:
        values, vectors = eigh(symmetric)
        return EigenSystem(values[d - k :], vectors[:, d - k :])
    try:
        return EigenSystem(*scipy.linalg.eigh(symmetric, subset_by_index=(d - k, d - 1)))
    except np.linalg.LinAlgError as error:
        raise NumericError(_NO_CONVERGENCE) from error


def is_invertible(matrix: Array) -> bool:
    """Whether a (p, p) matrix has rank p, as ``np.linalg.matrix_rank`` says.

    Its inverse tells, at a third of the cost, where it is far from singular.
    """
    p = len(matrix)
    try:
        condition = float(np.linalg.norm(matrix)) * float(np.linalg.norm(np.linalg.inv(matrix)))
    except np.linalg.LinAlgError:
        condition = np.inf
    # Below this an inverse is right to a thousandth, and so is what it says.
    far = condition * p < 1e-3 / sys.float_info.epsilon
    return far or bool(np.linalg.matrix_rank(matrix) == p)


def correlation_of(
    covariance: Array, *, undefined: float = float("nan"), least: Array | float = 0.0
) -> Array:
    """Correlations, within [-1, 1], of a (d, d) covariance in units in which variances compare.

    Variances are ``least``, a number or (d,), at least: what noise may hide.  One of the size of
    rounding errors is none: correlations with such a column are ``undefined``, its own is 1 unless
    that is NaN.
    """
    variances = np.maximum(np.diagonal(covariance), least)
    known = variances > variances.max(initial=0.0) * np.finfo(np.float64).eps
    # No division by what rounding left of a variance.
    deviations = np.sqrt(np.where(known, variances, 1.0))
    scaled = np.clip(covariance / np.outer(deviations, deviations), -1.0, 1.0)
    correlation = np.where(np.outer(known, known), scaled, undefined)
    np.fill_diagonal(correlation, np.where(known | np.isfinite(undefined), 1.0, undefined))
    return np.asarray(correlation)


def compose(values: Array, vectors: Array) -> Array:
    """Return V diag(values) Vᵀ, exactly symmetric."""
    return symmetrize(_SOLVER.get().matmul(vectors * values, vectors.T))

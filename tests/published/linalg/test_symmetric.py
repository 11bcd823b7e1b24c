import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpcov.errors import NumericError, UsageError
from dpcov.published.linalg.symmetric import (
    Solver,
    compose,
    eigenvalues,
    eigh,
    is_invertible,
    mirror_upper,
    solving_with,
    symmetrize,
)

ENTRIES = st.floats(-1e6, 1e6)


@st.composite
def square_matrices(draw, largest=6):
    dimension = draw(st.integers(1, largest))
    return draw(arrays(np.float64, (dimension, dimension), elements=ENTRIES))


def test_symmetrize_survives_entries_near_the_largest_float():
    largest = np.finfo(np.float64).max
    assert np.array_equal(symmetrize(np.full((2, 2), largest)), np.full((2, 2), largest))


@given(square_matrices())
def test_mirror_upper_reads_only_the_upper_triangle(matrix):
    mirrored = mirror_upper(matrix)
    assert np.array_equal(mirrored, mirrored.T)
    assert np.array_equal(np.triu(mirrored), np.triu(matrix))


@given(square_matrices())
def test_eigh_recomposes_the_symmetric_part(matrix):
    values, vectors = eigh(matrix)
    assert np.all(np.diff(values) >= 0.0)
    assert vectors.flags.c_contiguous
    recomposed, slack = compose(values, vectors), 1e-12 * (1.0 + np.abs(matrix).max())
    assert np.array_equal(recomposed, recomposed.T)
    np.testing.assert_allclose(recomposed, symmetrize(matrix), atol=slack)
    scale = 1.0 + np.abs(values).max()
    np.testing.assert_allclose(eigenvalues(matrix), values, atol=1e-9 * scale)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_raise(bad):
    matrix = np.eye(3)
    matrix[2, 0] = bad
    for function in (symmetrize, mirror_upper, eigh):
        with pytest.raises(NumericError):
            function(matrix)


@pytest.mark.parametrize("shape", [(0, 0), (2, 3), (4,), (2, 2, 2)])
def test_shapes_that_are_not_square_raise(shape):
    with pytest.raises(UsageError):
        symmetrize(np.zeros(shape))


def test_the_solver_in_use_may_fail_and_is_asked_for_eigenvalues_too():
    def doubled(matrix):
        if not matrix.any():
            raise np.linalg.LinAlgError
        values, vectors = np.linalg.eigh(matrix)
        return 2.0 * values, vectors

    with solving_with(Solver(eigh=doubled, matmul=np.matmul)):
        np.testing.assert_allclose(eigenvalues(np.diag([1.0, 3.0])), [2.0, 6.0])
        with pytest.raises(NumericError, match="did not converge"):
            eigh(np.zeros((2, 2)))


@pytest.mark.parametrize("smallest", [1.0, 1e-6, 1e-11, 1e-13, 3e-15, 1e-15, 1e-16, 0.0])
def test_what_can_be_inverted_is_what_has_full_rank(smallest):
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(40, 40)))[0] for _ in range(2))
    matrix = left * np.append(np.ones(39), smallest) @ right
    assert is_invertible(matrix) == (np.linalg.matrix_rank(matrix) == 40)
    assert is_invertible(matrix) == (smallest > 1e-14)


def test_zeros_and_a_matrix_of_few_columns_cannot_be_inverted():
    assert not is_invertible(np.zeros((3, 3)))
    assert not is_invertible(np.ones((2, 2)))
    assert is_invertible(np.diag([1.0, 2.0, 1e-9]))


def test_singular_values_are_not_needed_far_from_a_singular_matrix(monkeypatch):
    monkeypatch.delattr(np.linalg, "matrix_rank")
    assert is_invertible(np.eye(4) + 0.1)

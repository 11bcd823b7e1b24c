import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpcov.published.linalg.project import (
    clip_eigenvalues,
    project_nuclear_ball,
    project_psd,
    project_psd_trace,
    simplex_projection,
)
from dpcov.published.linalg.symmetric import symmetrize

ENTRIES = st.floats(-100, 100)
MATRICES = st.integers(1, 5).flatmap(lambda d: arrays(np.float64, (d, d), elements=ENTRIES))
VECTORS = st.integers(1, 8).flatmap(lambda k: arrays(np.float64, k, elements=ENTRIES))
RADII = st.floats(0, 200)


def _random_psd(dimension, trace, generator):
    factor = generator.standard_normal((dimension, generator.integers(1, dimension + 1)))
    matrix = factor @ factor.T
    return matrix * (trace * generator.uniform() / np.trace(matrix))


@given(VECTORS, RADII)
def test_simplex_projection_meets_its_optimality_conditions(values, radius):
    point = simplex_projection(values, radius)
    assert point.min() >= 0.0
    assert point.sum() == pytest.approx(radius, abs=1e-10)
    # ⟨values − x, y − x⟩ ≤ 0 for every y of the simplex; its corners suffice.
    corners = radius * np.eye(values.size)
    assert np.all((corners - point) @ (values - point) <= 1e-8)


def test_simplex_projection_keeps_its_digits_under_a_large_common_shift():
    values = np.array([1.0, 2.0, 4.0])
    shifted = simplex_projection(values + 2.0**50, 1.5)
    np.testing.assert_allclose(shifted, simplex_projection(values, 1.5))
    np.testing.assert_allclose(simplex_projection([3.0, 3.0], 1.0), [0.5, 0.5])
    assert np.array_equal(simplex_projection([2.0, -1.0], 0.0), [0.0, 0.0])


@given(MATRICES)
def test_psd_projection_is_the_moreau_split(matrix):
    symmetric = symmetrize(matrix)
    positive = project_psd(matrix)
    negative = positive - symmetric
    assert np.linalg.eigvalsh(positive).min() >= -1e-9
    assert np.linalg.eigvalsh(negative).min() >= -1e-9
    assert np.sum(positive * negative) == pytest.approx(0.0, abs=1e-7)


@given(MATRICES, st.floats(0.01, 200), st.integers(0, 2**32 - 1))
def test_psd_trace_projection_is_variationally_optimal(matrix, bound, seed):
    point = project_psd_trace(matrix, bound)
    assert np.array_equal(point, point.T)
    assert np.linalg.eigvalsh(point).min() >= -1e-9
    assert np.trace(point) <= bound + 1e-9
    generator = np.random.default_rng(seed)
    for _ in range(5):
        other = _random_psd(matrix.shape[0], bound, generator)
        assert np.sum((symmetrize(matrix) - point) * (other - point)) <= 1e-6
    # The extreme points are 0 and bound·vvᵀ; the worst one is an eigenvector of the residual.
    residual = symmetrize(matrix) - point
    worst = max(0.0, bound * np.linalg.eigvalsh(residual)[-1])
    assert worst <= np.sum(residual * point) + 1e-6


@given(MATRICES, st.floats(0.01, 200))
def test_nuclear_projection_is_variationally_optimal(matrix, radius):
    point = project_nuclear_ball(matrix, radius)
    assert np.abs(np.linalg.eigvalsh(point)).sum() <= radius * (1 + 1e-9)
    # sup over the ball of ⟨residual, Y⟩ is radius·‖residual‖_op, and the projection attains it.
    residual = symmetrize(matrix) - point
    assert radius * np.abs(np.linalg.eigvalsh(residual)).max() <= np.sum(residual * point) + 1e-6


@given(MATRICES, st.floats(-50, 0), st.floats(0, 50))
def test_clipped_eigenvalues_stay_inside_and_clipping_is_idempotent(matrix, lower, upper):
    clipped = clip_eigenvalues(matrix, lower, upper)
    values = np.linalg.eigvalsh(clipped)
    assert values.min() >= lower - 1e-9
    assert values.max() <= upper + 1e-9
    np.testing.assert_allclose(clip_eigenvalues(clipped, lower, upper), clipped, atol=1e-9)
    expected = np.clip(np.linalg.eigvalsh(symmetrize(matrix)), lower, upper)
    np.testing.assert_allclose(values, expected, atol=1e-9)

import numpy as np
import pytest
from scipy.optimize import nnls

from dpcov.published.estimate.curve import increasing_basis, noise_knots

POINTS = np.linspace(-3.0, 40.0, 4001)


@pytest.mark.parametrize("pieces", [0, 1, 2, 5])
@pytest.mark.parametrize("largest", [-5.0, 0.5, 3.0, 1e3, 1e12])
def test_knots_cover_the_noise_and_the_largest_value(pieces, largest):
    knots = noise_knots(2.0, largest, pieces)
    assert knots[0] == -2.0
    assert 2.0 in knots
    assert np.all(np.diff(knots) > 0.0)
    assert knots[-2] > min(largest, knots[1])
    assert knots.size < 60


@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_curves_are_increasing_between_zero_and_one_with_the_stated_slopes(pieces):
    knots = noise_knots(2.0, 40.0, pieces)
    basis = increasing_basis(POINTS, knots)
    assert basis.heights.min() >= -1e-12
    assert basis.heights.max() <= 1.0 + 1e-12
    assert np.diff(basis.heights, axis=0).min() >= -1e-12
    assert basis.slopes.min() >= 0.0
    step = POINTS[1] - POINTS[0]
    midpoints = increasing_basis(POINTS[:-1] + step / 2, knots)
    np.testing.assert_allclose(np.diff(basis.heights, axis=0) / step, midpoints.slopes, atol=0.02)
    smooth = np.abs(midpoints.curvatures[1:] - midpoints.curvatures[:-1]) < 1e-12
    bent = np.diff(midpoints.slopes, axis=0) / step
    np.testing.assert_allclose(bent[smooth], midpoints.curvatures[1:][smooth], atol=1e-9)


def test_curves_vanish_at_the_lower_noise_edge_and_end_at_one():
    knots = noise_knots(2.0, 10.0, 2)
    ends = increasing_basis(np.array([knots[0], knots[-1]]), knots)
    np.testing.assert_allclose(ends.heights[0], [1.0] + [0.0] * (knots.size - 2))
    np.testing.assert_allclose(ends.heights[1], 1.0)


def test_nonnegative_weights_reach_the_identity_up_to_a_constant():
    knots = noise_knots(2.0, 40.0, 2)
    inside = POINTS[(knots[1] < POINTS)]
    heights = increasing_basis(inside, knots).heights
    _, residual = nnls(heights, inside + 2.0)
    assert residual < 1e-8

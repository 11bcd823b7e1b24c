import math
from fractions import Fraction

import numpy as np
import pytest

from dpcov.noise import log_gas


def exact_recurrence(count):
    """b_1**2, b_2**2, ... of the weight exp(-2|x|), whose even moments are (2k)! / 4**k."""
    moments = [
        Fraction(0) if k % 2 else Fraction(math.factorial(k), 2**k) for k in range(2 * count)
    ]

    def inner(p, q):
        return sum(
            a * b * moments[i + j] for i, a in enumerate(p) for j, b in enumerate(q) if a and b
        )

    before, current = [Fraction(0)], [Fraction(1)]
    norms, squares = [inner(current, current)], []
    for _ in range(1, count):
        square = squares[-1] if squares else Fraction(0)
        after = [Fraction(0), *current]
        for place, coefficient in enumerate(before):
            after[place] -= square * coefficient
        before, current = current, after
        norms.append(inner(current, current))
        squares.append(norms[-1] / norms[-2])
    return squares


def test_the_recurrence_is_that_of_the_exact_moments():
    made = log_gas.recurrence(14)
    assert made[0] == 0.0
    assert made[1:] ** 2 == pytest.approx(
        [float(square) for square in exact_recurrence(14)], rel=1e-12
    )
    assert made[1] ** 2 == pytest.approx(1 / 2)


@pytest.mark.parametrize("count", [1, 2, 17, 33, 150, 900])
def test_functions_are_orthonormal_to_rounding(count):
    edges = log_gas.half_line_panels(count)
    edges = np.concatenate([-edges[:0:-1], edges])
    points = log_gas.panel_nodes(edges).ravel()
    weights = np.outer(0.5 * np.diff(edges), log_gas.WEIGHTS).ravel()
    functions = log_gas.orthonormal_functions(points, log_gas.recurrence(count))
    assert functions.shape == (len(points), count)
    gram = functions.T @ (weights[:, None] * functions)
    assert np.abs(gram - np.eye(count)).max() < 1e-11
    assert np.abs(functions[[0, -1]]).max() < 1e-13


def test_functions_far_out_neither_underflow_early_nor_overflow():
    """exp(-|x|) alone is zero at 760, the product of many terms is not."""
    coefficients = log_gas.recurrence(700)
    values = log_gas.orthonormal_functions(np.array([760.0, 1000.0, 1090.0]), coefficients)
    assert np.all(np.isfinite(values))
    assert values[0, 0] == 0.0
    assert 1e-3 < np.abs(values[:, -1]).max() < 1.0


@pytest.mark.parametrize("degree", [0, 1, 2, 7, 15])
def test_interpolation_and_integration_are_exact_for_polynomials(degree):
    offsets = np.array([-1.0, -0.73, 0.0, 0.4, 1.0])
    values = log_gas.NODES**degree
    assert log_gas.interpolation(offsets) @ values == pytest.approx(offsets**degree, abs=1e-13)
    integrals = (offsets ** (degree + 1) - (-1.0) ** (degree + 1)) / (degree + 1)
    assert log_gas.integrals_within(offsets) @ values == pytest.approx(integrals, abs=1e-13)

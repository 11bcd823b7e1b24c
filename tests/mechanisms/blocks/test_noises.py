import math
from fractions import Fraction

import numpy as np
import pytest

from dpcov.data.moments import MomentsSpec, gather
from dpcov.mechanisms.blocks import tail_bounds
from dpcov.mechanisms.blocks.additive_noise import (
    AdditiveNoise,
    additive_noise,
    affordable_epsilon,
    laplaces,
    whole_cost,
)
from dpcov.mechanisms.blocks.matrix_noise import MatrixNoise, matrix_noise
from dpcov.mechanisms.blocks.sensitivity import Sensitivity, eigenvalues, scalar, upper_triangle
from dpcov.mechanisms.blocks.shells import clipped_sscp, clipped_trace
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, PureDP
from tests.mechanisms.chosen import choose, problem

ENTROPY = SeededEntropy(0)
ADDITIVE = "dpcov.mechanisms.blocks.additive_noise."
MATRIX = "dpcov.mechanisms.blocks.matrix_noise."


@pytest.mark.parametrize("k", [1, 3])
def test_sensitivities_under_both_relations(k):
    public, private = problem(4, k=k), problem(4, "add-remove-one", k)
    for asked in (public, private):
        assert scalar(asked) == Sensitivity(l1=Fraction(k), l2_squared=Fraction(k**2))
    assert eigenvalues(public) == Sensitivity(l1=Fraction(2 * k), l2_squared=Fraction(2 * k**2))
    assert eigenvalues(private) == Sensitivity(l1=Fraction(k), l2_squared=Fraction(k**2))
    assert upper_triangle(private) == Sensitivity(l1=Fraction(5 * k, 2), l2_squared=Fraction(k**2))
    triangle = upper_triangle(public)
    assert float(triangle.l1) == pytest.approx(k * math.sqrt(13), rel=1e-14)
    assert triangle.l1**2 >= 13 * k**2
    assert triangle.l2_squared == 2 * k**2
    assert upper_triangle(problem(1, k=k)).l1 == k
    assert upper_triangle(problem(1, "add-remove-one", k)).l1 == k
    assert float(upper_triangle(problem(2, k=k)).l1) == pytest.approx(k * math.sqrt(5), rel=1e-14)


def test_what_a_budget_is_worth():
    assert whole_cost(Budget(epsilon="0.5")) == PureDP(epsilon=Fraction(1, 2))
    assert whole_cost(Budget(rho="0.5")) == ZCDP(rho=Fraction(1, 2))
    approximate = Budget(epsilon=1, delta="1e-6")
    assert whole_cost(approximate) == ZCDP(rho=approximate.zcdp_rho())
    assert affordable_epsilon(PureDP(epsilon=Fraction(3))) == 3
    assert float(affordable_epsilon(ZCDP(rho=Fraction(1, 8)))) == pytest.approx(0.5, rel=1e-12)


def test_noise_on_a_vector_by_the_kind_of_its_cost(monkeypatch):
    normal = choose(monkeypatch, ADDITIVE + "normals", lambda size: np.arange(size) + 1.0)
    exponential = choose(
        monkeypatch,
        ADDITIVE + "exponentials",
        lambda size: np.full(size, 10.0 ** -len(exponential.asked)),
    )
    moved = Sensitivity(l1=Fraction(3), l2_squared=Fraction(8))
    gaussian, laplace = (
        additive_noise(cost, moved)
        for cost in (ZCDP(rho=Fraction(1, 4)), PureDP(epsilon=Fraction(1, 2)))
    )
    assert gaussian.draw(3, ENTROPY) == pytest.approx([4, 8, 12])
    assert laplace.draw(2, ENTROPY) == pytest.approx([6 * 0.09] * 2)
    assert normal.asked == [(3,)]
    assert exponential.asked == [(2,), (2,)]
    assert (gaussian.law, laplace.law) == ("gaussian", "laplace")
    assert gaussian.scaled(0.25) == AdditiveNoise(law="gaussian", scale=gaussian.scale * 0.25)
    assert laplaces(1, ENTROPY)[0] == pytest.approx(0.0009)


def test_bounds_on_noise_on_a_vector():
    gaussian, laplace = (AdditiveNoise(law=law, scale=3.0) for law in ("gaussian", "laplace"))
    assert gaussian.upper_bound(0.01) == pytest.approx(3 * math.sqrt(2 * math.log(100)))
    assert laplace.upper_bound(0.01) == pytest.approx(3 * math.log(100))
    assert gaussian.norm_bound(7, 0.01) == 3 * tail_bounds.eta(7, 0.01)
    assert laplace.norm_bound(7, 0.01) == 3 * tail_bounds.laplace_vector(7, 0.01)


@pytest.mark.parametrize(
    ("cost", "shape", "law", "scale"),
    [
        (ZCDP(rho=Fraction(1, 4)), "isotropic", "gaussian-isotropic", 2.0),
        (ZCDP(rho=Fraction(1, 4)), "entrywise", "gaussian-entrywise", 2.0),
        (PureDP(epsilon=Fraction(1, 2)), "isotropic", "wishart", 4.0),
        (PureDP(epsilon=Fraction(1, 2)), "entrywise", "laplace-entrywise", 2 * math.sqrt(13)),
    ],
)
def test_noise_on_a_matrix_by_cost_and_shape(cost, shape, law, scale):
    made = matrix_noise(cost, problem(4), shape)
    assert (made.law, made.scale) == (law, pytest.approx(scale, rel=1e-12))
    assert made.scale >= scale * (1 - 1e-15)
    if shape == "isotropic":
        assert matrix_noise(cost, problem(4)) == made


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        ("gaussian-isotropic", [[2, 5], [5, 8]]),
        ("gaussian-entrywise", [[2, 4], [4, 8]]),
        ("laplace-entrywise", [[2, 4], [4, 8]]),
        ("wishart", [[14, 0], [0, 14]]),
    ],
)
def test_a_matrix_of_noise_is_made_of_its_numbers(monkeypatch, law, expected):
    normal = choose(
        monkeypatch, MATRIX + "normals", lambda shape: np.array([[1.0, 2.0], [3.0, 4.0]])
    )
    laplace = choose(monkeypatch, MATRIX + "laplaces", lambda size: np.arange(1.0, size + 1))
    wishart = choose(
        monkeypatch, MATRIX + "symmetric_nuclear_noise", lambda d, scale, law: 7 * scale * np.eye(d)
    )
    found = MatrixNoise(law=law, scale=2.0).draw(2, ENTROPY)
    assert found.tolist() == expected
    assert [*normal.asked, *laplace.asked, *wishart.asked] in (
        [((2, 2),)],
        [(4,)],
        [(2, 2.0, "wishart")],
    )
    if law == "laplace-entrywise":
        found = MatrixNoise(law=law, scale=1.0).draw(3, ENTROPY)
        assert found.tolist() == [[1, 2, 3], [2, 5, 6], [3, 6, 9]]


@pytest.mark.parametrize(
    ("law", "spectral", "frobenius"),
    [
        ("gaussian-isotropic", tail_bounds.isotropic_spectral, tail_bounds.isotropic_frobenius),
        ("gaussian-entrywise", tail_bounds.nu, tail_bounds.omega),
        ("wishart", tail_bounds.wishart_spectral, tail_bounds.wishart_frobenius),
        ("laplace-entrywise", tail_bounds.laplace_spectral, tail_bounds.laplace_frobenius),
    ],
)
def test_bounds_on_noise_on_a_matrix(law, spectral, frobenius):
    noise = MatrixNoise(law=law, scale=3.0)
    assert noise.spectral_bound(5, 0.1) == 3 * spectral(5, 0.1)
    assert noise.frobenius_bound(5, 0.1) == 3 * frobenius(5, 0.1)


@pytest.mark.parametrize("shell", range(4))
def test_the_trace_of_clipped_rows_is_exact_on_the_lattice_and_their_sscp_nearly(shell):
    rows = np.array([[1.0, 0.0], [0.0, 0.75], [0.25, 0.25], [0.0, 0.125], [2.0**-5, 0.0]])
    moments = gather([rows], 2, MomentsSpec(shells=4, bits=8, normalized=True))
    norms = np.linalg.norm(rows, axis=1)
    assert clipped_trace(moments, shell) == np.sum(np.minimum(norms, 2.0**-shell) ** 2)
    short = rows * np.minimum(1.0, 2.0**-shell / norms)[:, None] * 2**shell
    np.testing.assert_allclose(clipped_sscp(moments, shell), short.T @ short, atol=0.02)

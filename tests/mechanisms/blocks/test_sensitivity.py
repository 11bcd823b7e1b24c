from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcov.data.moments import gather
from dpcov.mechanisms.adaptive import Adaptive
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks import sensitivity
from dpcov.mechanisms.blocks.additive_noise import (
    AdditiveNoise,
    additive_noise,
    affordable_epsilon,
    whole_cost,
)
from dpcov.mechanisms.blocks.finished import part_of
from dpcov.mechanisms.blocks.matrix_noise import matrix_noise
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP
from tests.statistical.goodness import assert_mean_square

RELATIONS = ["replace-one", "add-remove-one"]


def problem(d, relation, k=1):
    return Problem(
        n_features=d,
        neighbors=relation,
        n_rows=9 if relation == "replace-one" else None,
        rows_per_person=k,
    )


def changes(rows, old, new):
    # Changes of eigenvalues, matrix and upper triangle when the rows ``old`` are exchanged for
    # ``new``.
    before, after = (np.vstack([rows, part]) for part in (old, new))
    first, second = before.T @ before, after.T @ after
    upper = np.triu_indices(len(first))
    values = np.linalg.eigvalsh(first) - np.linalg.eigvalsh(second)
    return values, first - second, (first - second)[upper]


def assert_within(rows, old, new, stated):
    values, matrix, upper = changes(rows, old, new)
    eigen, triangle = sensitivity.eigenvalues(stated), sensitivity.upper_triangle(stated)
    slack = 1 + 1e-9
    assert np.abs(values).sum() <= float(eigen.l1) * slack
    assert np.sum(values**2) <= float(eigen.l2_squared) * slack
    assert np.sum(matrix**2) <= float(eigen.l2_squared) * slack
    assert np.linalg.norm(matrix, "nuc") <= float(eigen.l1) * slack
    assert np.abs(upper).sum() <= float(triangle.l1) * slack
    assert np.sum(upper**2) <= float(triangle.l2_squared) * slack
    assert abs(np.trace(matrix)) <= float(sensitivity.scalar(stated).l1) * slack


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 6),
    k=st.integers(1, 3),
    relation=st.sampled_from(RELATIONS),
)
def test_neighbors_stay_within_the_stated_sensitivities(seed, d, k, relation):
    rng = np.random.default_rng(seed)
    rows, old, new = (rng.normal(size=(count, d)) for count in (rng.integers(0, 6), k, k))
    for part in (rows, old, new):
        part /= (
            np.maximum(1.0, np.linalg.norm(part, axis=1))[:, None]
            if seed % 3
            else np.linalg.norm(part, axis=1)[:, None]
        )
    assert_within(
        rows, old, new if relation == "replace-one" else np.zeros((0, d)), problem(d, relation, k)
    )


def test_they_are_attained():
    common = np.diag([3.0, 2.0])
    for k in (1, 3):
        old, new, none = np.tile([0.0, 1.0], (k, 1)), np.tile([1.0, 0.0], (k, 1)), np.zeros((0, 2))
        for relation, other in (("replace-one", new), ("add-remove-one", none)):
            stated = sensitivity.eigenvalues(problem(2, relation, k))
            values, matrix, _ = changes(10 * common, old, other)
            for l1, l2 in (
                (np.abs(values).sum(), np.sum(values**2)),
                (np.linalg.norm(matrix, "nuc"), np.sum(matrix**2)),
            ):
                assert l1 == pytest.approx(float(stated.l1))
                assert l2 == pytest.approx(float(stated.l2_squared))
    ones = np.full((1, 4), 0.5)
    assert changes(ones[:0], ones, ones[:0])[2].sum() == pytest.approx(
        float(sensitivity.upper_triangle(problem(4, "add-remove-one")).l1)
    )


@pytest.mark.parametrize(
    "budget", [Budget(rho="0.3"), Budget(epsilon="0.7"), Budget(epsilon=1, delta="1e-6")]
)
@pytest.mark.parametrize("relation", RELATIONS)
def test_noise_scales_spend_no_more_than_the_cost(budget, relation):
    whole = whole_cost(budget)
    for share in (Fraction(1), Fraction(1, 3)):
        cost, stated = part_of(whole, share), sensitivity.eigenvalues(problem(5, relation, 2))
        noise, matrix = additive_noise(cost, stated), matrix_noise(cost, problem(5, relation, 2))
        assert noise.scale == matrix.scale
        scale = Fraction(noise.scale)
        if isinstance(cost, ZCDP):
            assert (noise.law, matrix.law) == ("gaussian", "gaussian-isotropic")
            spent = stated.l2_squared / (2 * scale**2)
            assert (
                cost.rho * Fraction(1 - 10**-12) <= spent <= cost.rho
                or 0.999999 < spent / cost.rho <= 1
            )
            assert affordable_epsilon(cost) ** 2 / 2 <= cost.rho
        else:
            assert (noise.law, matrix.law) == ("laplace", "wishart")
            assert 0.999999 < stated.l1 / scale / cost.epsilon <= 1
            assert affordable_epsilon(cost) == cost.epsilon


@pytest.mark.parametrize(
    ("law", "diagonal", "upper", "kurtosis"),
    [
        ("gaussian-isotropic", 4.0, 2.0, 3.0),
        ("gaussian-entrywise", 4.0, 4.0, 3.0),
        ("laplace-entrywise", 8.0, 8.0, 6.0),
    ],
)
def test_matrices_have_the_stated_variances(law, diagonal, upper, kurtosis):
    from dpcov.mechanisms.blocks.matrix_noise import MatrixNoise

    draws = np.array(
        [MatrixNoise(law=law, scale=2.0).draw(6, e) for e in map(SeededEntropy, range(1500))]
    )
    np.testing.assert_array_equal(draws, draws.swapaxes(1, 2))
    assert_mean_square(np.diagonal(draws, axis1=1, axis2=2).ravel(), diagonal, kurtosis=kurtosis)
    rows, columns = np.triu_indices(6, 1)
    assert_mean_square(draws[:, rows, columns].ravel(), upper, kurtosis=kurtosis)


def test_the_bound_on_a_private_trace_holds():
    noise, entropy = AdditiveNoise(law="gaussian", scale=10.0), SeededEntropy(5)
    moments = gather(
        [np.ones((300, 1))], 1, Adaptive(shells=2).moments_spec(problem(1, RELATIONS[0]))
    )
    calibration = SimpleNamespace(trace=noise)

    def bounds(largest, draws):
        chosen = Adaptive(shells=2, failure_probability=0.8), moments, calibration, 0, largest
        return np.array([Adaptive._trace_bound(*chosen, entropy) for _ in range(draws)])

    found = bounds(1000, 2000)
    assert np.sum(found < 300.0) <= stats.binom.isf(1e-9, 2000, 0.1)
    assert_mean_square(found - 300.0 - noise.upper_bound(0.1), 100.0)
    assert set(bounds(1, 5)) == {1.0}

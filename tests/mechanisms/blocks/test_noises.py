import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcov.data.exact.moments import Moments, MomentsSpec
from dpcov.errors import BudgetError, UsageError
from dpcov.mechanisms.adaptive import Adaptive, _trace_bound
from dpcov.mechanisms.blocks import tail_bounds
from dpcov.mechanisms.blocks.additive_noise import (
    AdditiveNoise,
    MatrixNoise,
    Sensitivity,
    additive_noise,
    affordable_epsilon,
    eigenvalues,
    laplaces,
    matrix_noise,
    scalar,
    upper_triangle,
)
from dpcov.mechanisms.blocks.cost import part_of, squared_noise_scale
from dpcov.mechanisms.blocks.counts import draw_row_count, public_rows, set_row_count_aside
from dpcov.mechanisms.blocks.finished import finish, sscp_of
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.lattice import LARGEST_STD
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, PureDP
from tests.data.reading import gather
from tests.mechanisms.chosen import choose, problem
from tests.statistical.goodness import assert_mean_square

ENTROPY = SeededEntropy(0)
ADDITIVE = "dpcov.mechanisms.blocks.additive_noise."


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
    assert set_row_count_aside(Budget(epsilon="0.5"), problem(1))[0] == PureDP(
        epsilon=Fraction(1, 2)
    )
    assert set_row_count_aside(Budget(rho="0.5"), problem(1))[0] == ZCDP(rho=Fraction(1, 2))
    approximate = Budget(epsilon=1, delta="1e-6")
    assert set_row_count_aside(approximate, problem(1))[0] == ZCDP(rho=approximate.zcdp_rho())
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
    assert laplaces(1, ENTROPY)[0] == pytest.approx(0.0009)


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
        monkeypatch, ADDITIVE + "normals", lambda shape: np.array([[1.0, 2.0], [3.0, 4.0]])
    )
    laplace = choose(monkeypatch, ADDITIVE + "laplaces", lambda size: np.arange(1.0, size + 1))
    wishart = choose(
        monkeypatch,
        ADDITIVE + "symmetric_nuclear_noise",
        lambda d, scale, law: 7 * scale * np.eye(d),
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


RELATIONS = ["replace-one", "add-remove-one"]


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
    eigen, triangle = eigenvalues(stated), upper_triangle(stated)
    slack = 1 + 1e-9
    assert np.abs(values).sum() <= float(eigen.l1) * slack
    assert np.sum(values**2) <= float(eigen.l2_squared) * slack
    assert np.sum(matrix**2) <= float(eigen.l2_squared) * slack
    assert np.linalg.norm(matrix, "nuc") <= float(eigen.l1) * slack
    assert np.abs(upper).sum() <= float(triangle.l1) * slack
    assert np.sum(upper**2) <= float(triangle.l2_squared) * slack
    assert abs(np.trace(matrix)) <= float(scalar(stated).l1) * slack


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
        lengths = np.linalg.norm(part, axis=1)[:, None]
        part /= np.maximum(1.0, lengths) if seed % 3 else lengths
    assert_within(
        rows, old, new if relation == "replace-one" else np.zeros((0, d)), problem(d, relation, k)
    )


def test_they_are_attained():
    common = np.diag([3.0, 2.0])
    for k in (1, 3):
        old, new, none = np.tile([0.0, 1.0], (k, 1)), np.tile([1.0, 0.0], (k, 1)), np.zeros((0, 2))
        for relation, other in (("replace-one", new), ("add-remove-one", none)):
            stated = eigenvalues(problem(2, relation, k))
            values, matrix, _ = changes(10 * common, old, other)
            for l1, l2 in (
                (np.abs(values).sum(), np.sum(values**2)),
                (np.linalg.norm(matrix, "nuc"), np.sum(matrix**2)),
            ):
                assert l1 == pytest.approx(float(stated.l1))
                assert l2 == pytest.approx(float(stated.l2_squared))
    ones = np.full((1, 4), 0.5)
    assert changes(ones[:0], ones, ones[:0])[2].sum() == pytest.approx(
        float(upper_triangle(problem(4, "add-remove-one")).l1)
    )


@pytest.mark.parametrize(
    "budget", [Budget(rho="0.3"), Budget(epsilon="0.7"), Budget(epsilon=1, delta="1e-6")]
)
@pytest.mark.parametrize("relation", RELATIONS)
def test_noise_scales_spend_no_more_than_the_cost(budget, relation):
    whole = set_row_count_aside(budget, problem(1))[0]
    for share in (Fraction(1), Fraction(1, 3)):
        cost, stated = part_of(whole, share), eigenvalues(problem(5, relation, 2))
        noise, matrix = additive_noise(cost, stated), matrix_noise(cost, problem(5, relation, 2))
        assert noise.scale == matrix.scale
        scale = Fraction(noise.scale)
        if isinstance(cost, ZCDP):
            assert (noise.law, matrix.law) == ("gaussian", "gaussian-isotropic")
            spent = stated.l2_squared / (2 * scale**2)
            assert 0.999999 < spent / cost.rho <= 1
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
    draws = np.array(
        [MatrixNoise(law=law, scale=2.0).draw(6, e) for e in map(SeededEntropy, range(1500))]
    )
    np.testing.assert_array_equal(draws, draws.swapaxes(1, 2))
    assert_mean_square(np.diagonal(draws, axis1=1, axis2=2).ravel(), diagonal, kurtosis=kurtosis)
    rows, columns = np.triu_indices(6, 1)
    assert_mean_square(draws[:, rows, columns].ravel(), upper, kurtosis=kurtosis)


def test_the_bound_on_a_private_trace_holds(monkeypatch):
    noise, entropy = AdditiveNoise(law="gaussian", scale=10.0), SeededEntropy(5)
    moments = gather(
        [np.ones((300, 1))], 1, Adaptive(shells=2).moments_spec(problem(1, RELATIONS[0]))
    )
    monkeypatch.setattr("dpcov.mechanisms.adaptive.FAILURE_PROBABILITY", 0.8)

    def bounds(largest, draws):
        return np.array([_trace_bound(moments, noise, 0, largest, entropy) for _ in range(draws)])

    found = bounds(1000, 2000)
    assert np.sum(found < 300.0) <= stats.binom.isf(1e-9, 2000, 0.1)
    assert_mean_square(found - 300.0 - noise.upper_bound(0.1), 100.0)
    assert set(bounds(1, 5)) == {1.0}


DRAWS = 400
LAWS = ["gaussian-isotropic", "gaussian-entrywise", "wishart", "laplace-entrywise"]


def exceeded_too_often(norms, bound, beta):
    """Size 1e-9: a bound that fails with probability beta at most is rejected this rarely."""
    return np.sum(norms > bound) > stats.binom.isf(1e-9, len(norms), beta)


@pytest.mark.parametrize("beta", [0.5, 0.05])
@pytest.mark.parametrize("dimension", [1, 2, 30])
@pytest.mark.parametrize("law", LAWS)
def test_matrix_bounds_hold_at_their_probability(law, dimension, beta):
    noise, entropy = MatrixNoise(law=law, scale=1.7), SeededEntropy(dimension)
    draws = np.array([noise.draw(dimension, entropy) for _ in range(DRAWS)])
    spectral = np.abs(np.linalg.eigvalsh(draws)).max(axis=1)
    frobenius = np.linalg.norm(draws, axis=(1, 2))
    assert not exceeded_too_often(spectral, noise.spectral_bound(dimension, beta), beta)
    assert not exceeded_too_often(frobenius, noise.frobenius_bound(dimension, beta), beta)


@pytest.mark.parametrize("law", LAWS)
def test_the_check_notices_bounds_that_are_too_small(law):
    noise, entropy = MatrixNoise(law=law, scale=1.0), SeededEntropy(1)
    draws = np.array([noise.draw(30, entropy) for _ in range(DRAWS)])
    spectral = np.abs(np.linalg.eigvalsh(draws)).max(axis=1)
    assert exceeded_too_often(spectral, np.median(spectral), 0.05)


@pytest.mark.parametrize("beta", [0.5, 0.05])
@pytest.mark.parametrize("size", [1, 5, 60])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_vector_bounds_hold_at_their_probability(law, size, beta):
    noise = AdditiveNoise(law=law, scale=0.3)
    draws = noise.draw(2_000 * size, SeededEntropy(size)).reshape(2_000, size)
    assert not exceeded_too_often(np.linalg.norm(draws, axis=1), noise.norm_bound(size, beta), beta)
    assert not exceeded_too_often(draws[:, 0], noise.upper_bound(beta), beta / 2)


AT = ((1, 0.5), (7, 0.05), (100, 1e-6), (100, 0.9))
PINNED = {
    "eta": (2.012809873, 4.706388696, 14.211596142, 10.329693991),
    "nu": (20.76828895, 33.155846272, 69.283857756, 59.688901427),
    "omega": (3.416516678, 10.793627422, 105.996162936, 101.361443066),
    "isotropic_spectral": (3.079322785, 6.457860418, 19.528907893, 15.405866367),
    "isotropic_frobenius": (2.012809873, 7.23247707, 74.872591253, 71.388682803),
    "laplace_vector": (3.3234623, 9.39402501, 47.230853862, 16.421996859),
    "laplace_frobenius": (3.454485113, 18.605576918, 169.868728555, 144.636243877),
    "laplace_spectral": (9.960216821, 37.229344803, 191.498866492, 100.460947997),
    "wishart_spectral": (8.320437191, 33.54117429, 323.511527941, 227.134908136),
    "wishart_frobenius": (2.0, 66.932802123, 3235.115279406, 752.809552425),
}


@pytest.mark.parametrize("name", PINNED)
def test_bounds_are_what_they_were_when_their_formulas_were_proven(name):
    bound = getattr(tail_bounds, name)
    assert [bound(*place) for place in AT] == pytest.approx(PINNED[name], rel=1e-8)
    for wrong in ((0, 0.5), (3, 0.0), (3, 1.0), (3, float("nan"))):
        with pytest.raises(UsageError):
            bound(*wrong)


PURE, CONCENTRATED = PureDP(epsilon=Fraction(2, 3)), ZCDP(rho=Fraction(2, 3))


def gathered(rows, **spec):
    moments = Moments(rows.shape[1], MomentsSpec(**spec))
    moments.add(rows)
    return moments


@pytest.mark.parametrize("cost", [PURE, CONCENTRATED])
def test_the_largest_noise_that_can_be_drawn_is_drawn(cost):
    largest = Fraction(LARGEST_STD)
    absolute, squared = largest * Fraction(2, 3), largest**2 * Fraction(4, 3)
    assert squared_noise_scale(cost, absolute, squared) == largest**2
    with pytest.raises(BudgetError, match="larger budget"):
        squared_noise_scale(cost, absolute + 1, squared + 1)


def test_the_sscp_is_in_units_of_the_unit_ball():
    rows = np.array([[0.5, 0.25], [0.75, 0.0]])
    for bits in (6, 20):
        np.testing.assert_array_equal(sscp_of(gathered(rows, bits=bits)), rows.T @ rows)


@pytest.mark.parametrize("k", [1, 3])
def test_the_row_count_gets_the_noise_of_its_part(monkeypatch, k):
    block = "dpcov.mechanisms.blocks.counts."
    laplace = choose(monkeypatch, block + "discrete_laplace", lambda *_: np.array([-9, 99]))
    gaussian = choose(monkeypatch, block + "rounded_gaussian", lambda *_: np.array([5, 99]))
    moments, asked = gathered(np.ones((4, 1))), problem(1, "add-remove-one", k)
    entropy = SeededEntropy(0)
    assert draw_row_count(moments, asked, None, entropy) is None
    assert draw_row_count(moments, asked, PURE, entropy) == -5
    assert draw_row_count(moments, asked, CONCENTRATED, entropy) == 9
    assert laplace.asked == [(Fraction(3 * k, 2), 1)]
    assert gaussian.asked == [(Fraction(3 * k**2, 4), 1)]


def test_row_counts_that_cannot_be_drawn_are_refused():
    asked = problem(1, "add-remove-one", 3)
    for cost in (PURE, CONCENTRATED):
        budget = Budget(epsilon=Fraction(2, 3)) if cost is PURE else Budget(rho=Fraction(2, 3))
        for of, parts in ((problem(1), (1, 0)), (asked, (Fraction(19, 20), Fraction(1, 20)))):
            rest, stated = set_row_count_aside(budget, of)
            assert rest == part_of(cost, parts[0])
            assert stated["row_count"] == (part_of(cost, parts[1]) if parts[1] else None)
    least = Fraction(3, LARGEST_STD)
    for kind, amount in (("epsilon", least), ("rho", least**2 / 2)):
        make = PureDP if kind == "epsilon" else ZCDP
        _, stated = set_row_count_aside(Budget(**{kind: 20 * amount}), asked)
        assert stated["row_count"] == make(**{kind: amount})
        with pytest.raises(BudgetError):
            set_row_count_aside(Budget(**{kind: 20 * amount * Fraction(999, 1000)}), asked)


def test_rows_to_divide_by_are_public_or_private_already():
    assert public_rows(problem(1, n_rows=7), None) == 7
    private = problem(1, "add-remove-one")
    assert [public_rows(private, count) for count in (-3, 0, 1, 2)] == [1, 1, 1, 2]
    with pytest.raises(AssertionError):
        public_rows(problem(1, "add-remove-one"), None)


def test_the_last_division_and_what_a_finished_matrix_says():
    sscp = np.array([[8.0, 4.0], [0.0, 6.0]])
    public = finish(sscp, problem(2, n_rows=4), None, clip=0.5, post="clip")
    np.testing.assert_array_equal(public.arrays["second_moment"], [[0.5, 0.125], [0.125, 0.375]])
    assert (public.layout, public.radius, public.post) == ("estimate", 0.5, "clip")
    assert public.notes == ()
    assert list(public.arrays) == ["second_moment"]
    private = finish(sscp, problem(2, "add-remove-one"), 2, clip=1.0, post="psd", notes=("so",))
    np.testing.assert_array_equal(private.arrays["second_moment"], [[4.0, 1.0], [1.0, 3.0]])
    assert private.arrays["row_count"].tolist() == [2]
    assert private.arrays["row_count"].dtype == np.int64
    assert private.notes == ("so",)

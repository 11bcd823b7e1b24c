from fractions import Fraction

import numpy as np
import pytest

from dpcov.data.moments import Moments, MomentsSpec
from dpcov.errors import BudgetError
from dpcov.mechanisms.blocks.finished import (
    draw_row_count,
    finish,
    part_of,
    public_rows,
    row_count_cost,
    row_count_share,
    squared_noise_scale,
    sscp_of,
)
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.lattice import LARGEST_STD
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from tests.mechanisms.chosen import choose, problem

PURE, CONCENTRATED = PureDP(epsilon=Fraction(2, 3)), ZCDP(rho=Fraction(2, 3))


def gathered(rows, **spec):
    moments = Moments(rows.shape[1], MomentsSpec(**spec))
    moments.add(rows)
    return moments


def test_a_twentieth_pays_for_a_private_row_count():
    assert row_count_share(problem(3)) == 0
    assert row_count_share(problem(3, "add-remove-one")) == Fraction(1, 20)


def test_parts_are_shares_of_the_promise():
    assert part_of(PURE, Fraction(1, 5)) == PureDP(epsilon=Fraction(2, 15))
    assert part_of(CONCENTRATED, Fraction(1, 5)) == ZCDP(rho=Fraction(2, 15))
    with pytest.raises(AssertionError):
        part_of(ApproxDP(epsilon=Fraction(1), delta=Fraction(1, 9)), Fraction(1, 2))


def test_squared_scales_of_both_kinds_of_noise():
    assert squared_noise_scale(PURE, 4, 7) == 36
    assert squared_noise_scale(CONCENTRATED, 4, 7) == Fraction(21, 4)


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
    block = "dpcov.mechanisms.blocks.finished."
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
    assert row_count_cost(problem(1), PURE) is None
    for cost in (PURE, CONCENTRATED):
        assert row_count_cost(asked, cost) == part_of(cost, Fraction(1, 20))
    least = Fraction(3, LARGEST_STD)
    for kind, amount in (("epsilon", least), ("rho", least**2 / 2)):
        make = PureDP if kind == "epsilon" else ZCDP
        assert row_count_cost(asked, make(**{kind: 20 * amount})) == make(**{kind: amount})
        with pytest.raises(BudgetError):
            row_count_cost(asked, make(**{kind: 20 * amount * Fraction(999, 1000)}))


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

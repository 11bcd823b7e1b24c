"""Splitting a promise, sizes of noise, the private row count and the last division, on numbers worked out by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcov.data.moments import Moments, MomentsSpec
from dpcov.errors import BudgetError
from dpcov.mechanisms.blocks.finished import (
    check_row_count,
    draw_row_count,
    finish,
    part_of,
    public_rows,
    root_down,
    root_up,
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


def test_roots_are_next_to_the_true_ones():
    for value in (Fraction(4), Fraction(2), Fraction(1, 3), Fraction(10**30)):
        root = math.sqrt(value)
        for _ in range(3):
            root = math.nextafter(root, math.inf)
        assert root_up(value) <= root
        assert root_down(value) <= math.sqrt(value) <= root_up(value)
        assert root_down(value) >= math.sqrt(value) * (1 - 1e-15)


def test_the_sscp_is_in_units_of_the_unit_ball():
    rows = np.array([[0.5, 0.25], [0.75, 0.0]])
    for bits in (6, 20):
        np.testing.assert_array_equal(sscp_of(gathered(rows, bits=bits)), rows.T @ rows)


@pytest.mark.parametrize("k", [1, 3])
def test_the_row_count_gets_the_noise_of_its_part(monkeypatch, k):
    laplace = choose(
        monkeypatch,
        "dpcov.mechanisms.blocks.finished.discrete_laplace",
        lambda scale, size: np.array([-9, 99]),
    )
    gaussian = choose(
        monkeypatch,
        "dpcov.mechanisms.blocks.finished.rounded_gaussian",
        lambda variance, size: np.array([5, 99]),
    )
    moments, asked, entropy = (
        gathered(np.ones((4, 1))),
        problem(1, "add-remove-one", k),
        SeededEntropy(0),
    )
    assert draw_row_count(moments, asked, None, entropy) is None
    assert draw_row_count(moments, asked, PURE, entropy) == -5
    assert draw_row_count(moments, asked, CONCENTRATED, entropy) == 9
    assert laplace.asked == [(Fraction(3 * k, 2), 1)]
    assert gaussian.asked == [(Fraction(3 * k**2, 4), 1)]


def test_row_counts_that_cannot_be_drawn_are_refused():
    asked = problem(1, "add-remove-one", 3)
    assert check_row_count(asked, None) is None
    for cost in (PURE, CONCENTRATED):
        assert check_row_count(asked, cost) is cost
    least = Fraction(3, LARGEST_STD)
    for kind, amount in (("epsilon", least), ("rho", least**2 / 2)):
        make = PureDP if kind == "epsilon" else ZCDP
        check_row_count(asked, make(**{kind: amount}))
        with pytest.raises(BudgetError):
            check_row_count(asked, make(**{kind: amount * Fraction(999, 1000)}))


def test_rows_to_divide_by_are_public_or_private_already():
    assert public_rows(problem(1, n_rows=7), None) == 7
    assert [public_rows(problem(1, "add-remove-one"), count) for count in (-3, 0, 1, 2)] == [
        1,
        1,
        1,
        2,
    ]
    with pytest.raises(AssertionError):
        public_rows(problem(1, "add-remove-one"), None)


def test_the_last_division_and_what_a_finished_matrix_says():
    sscp = np.array([[8.0, 4.0], [0.0, 6.0]])
    public = finish(sscp, problem(2, n_rows=4), None, clip=0.5, post="clip")
    np.testing.assert_array_equal(public.arrays["second_moment"], [[0.5, 0.125], [0.125, 0.375]])
    assert (public.layout, public.radius, public.post, public.notes) == (
        "estimate",
        0.5,
        "clip",
        (),
    )
    assert list(public.arrays) == ["second_moment"]
    private = finish(sscp, problem(2, "add-remove-one"), 2, clip=1.0, post="psd", notes=("so",))
    np.testing.assert_array_equal(private.arrays["second_moment"], [[4.0, 1.0], [1.0, 3.0]])
    assert private.arrays["row_count"].tolist() == [2]
    assert private.arrays["row_count"].dtype == np.int64
    assert private.notes == ("so",)

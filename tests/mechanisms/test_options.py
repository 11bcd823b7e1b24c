"""Options, problems and budgets at the edge of what a mechanism takes: the last is taken, the next refused."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from dpcov.errors import BudgetError, NumericError, UsageError
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.finished import finish, root_down, root_up
from dpcov.mechanisms.blocks.private_radius import private_radius, private_radius_outliers
from dpcov.mechanisms.blocks.sparse_vector import sparse_vector, sparse_vector_error
from dpcov.mechanisms.eigenvectors import direction_exponent
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.registry import find_mechanism, make_mechanism, names
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, PureDP

PROBLEM = Problem(n_features=3, neighbors="replace-one", n_rows=10)
NAN = float("nan")

GOOD = [
    ("gaussian", {"bits": 4, "clip": 1.0}),
    ("gaussian", {"bits": 24, "clip": 2.0**-60}),
    ("laplace", {"bits": 4}),
    ("laplace", {"sensitivity": "paper"}),
    ("stratified", {"shells": 2}),
    ("stratified", {"shells": 60}),
    ("stratified-nuclear", {"shells": 2}),
    ("stratified-nuclear", {"shells": 60}),
    ("coinpress", {"rounds": 1}),
    ("coinpress", {"rounds": 100, "upper": 1.0}),
    ("eigenvectors", {"rank": 1}),
    ("eigenvectors", {"rank": None, "value_share": 0.999}),
    ("kapralov-talwar", {"rank": 1}),
    ("thresholding", {"gamma": 0.0}),
]
BAD = [
    ("gaussian", {"bits": 3}),
    ("gaussian", {"bits": 25}),
    ("gaussian", {"clip": 0.0}),
    ("gaussian", {"clip": 1.1}),
    ("gaussian", {"noise": "pink"}),
    ("laplace", {"bits": 3}),
    ("laplace", {"clip": NAN}),
    ("laplace", {"sensitivity": "loose"}),
    ("stratified", {"shells": 1}),
    ("stratified", {"shells": 61}),
    ("stratified-nuclear", {"shells": 1}),
    ("stratified-nuclear", {"shells": 61}),
    ("stratified-nuclear", {"shorten": 1}),
    ("coinpress", {"rounds": 0}),
    ("coinpress", {"rounds": 101}),
    ("coinpress", {"rounds": 2.0}),
    ("coinpress", {"rounds": True}),
    ("coinpress", {"upper": 0.0}),
    ("coinpress", {"upper": 1.5}),
    ("coinpress", {"upper": NAN}),
    ("eigenvectors", {"rank": 0}),
    ("eigenvectors", {"rank": True}),
    ("eigenvectors", {"allocation": "fair"}),
    ("eigenvectors", {"value_share": 0}),
    ("eigenvectors", {"value_share": 1}),
    ("eigenvectors", {"value_share": True}),
    ("eigenvectors", {"value_share": NAN}),
    ("eigenvectors", {"failure_probability": 1.0}),
    ("kapralov-talwar", {"rank": 0}),
    ("kapralov-talwar", {"rank": True}),
    ("thresholding", {"gamma": -0.1}),
    ("thresholding", {"gamma": NAN}),
    ("thresholding", {"gamma": True}),
    ("thresholding", {"gamma": "1"}),
    ("thresholding", {"gamma": float("inf")}),
    ("adaptive", {"radius": 1}),
    ("nuclear", {"noise": "round"}),
    ("gaussian", {"magic": 1}),
]


@pytest.mark.parametrize(("name", "options"), GOOD, ids=str)
def test_options_are_taken_up_to_their_limits(name, options):
    made = make_mechanism(name, options)
    assert all(getattr(made, option) == value for option, value in options.items())


@pytest.mark.parametrize(("name", "options"), BAD, ids=str)
def test_options_beyond_their_limits_are_refused(name, options):
    with pytest.raises(UsageError):
        make_mechanism(name, options)


def test_an_unknown_option_is_told_from_the_known_ones():
    with pytest.raises(UsageError, match="no option a, b; it has: bits"):
        make_mechanism("gaussian", {"b": 1, "a": 2, "bits": 20})
    with pytest.raises(UsageError, match="it has: none"):
        make_mechanism("zero", {"b": 1})
    with pytest.raises(UsageError, match=", ".join(names())):
        find_mechanism("Gaussian")


@pytest.mark.parametrize("rank", [3, 4])
def test_a_rank_is_at_most_the_number_of_columns(rank):
    mechanism = make_mechanism("eigenvectors", {"rank": rank})
    if rank == 3:
        mechanism.calibrate(PROBLEM, Budget(rho=1))
        return
    with pytest.raises(UsageError, match="must not exceed"):
        mechanism.calibrate(PROBLEM, Budget(rho=1))


@pytest.mark.parametrize("name", ["n_features", "n_rows", "rows_per_person", "n_groups"])
@pytest.mark.parametrize("count", [0, -1, 1.5, True, "3"])
def test_counts_of_a_problem_are_whole_numbers(name, count):
    with pytest.raises(UsageError, match=f"{name} must be a whole number"):
        Problem(**{"n_features": 2, "neighbors": "replace-one", name: count})
    Problem(**{"n_features": 2, "neighbors": "replace-one", name: np.int64(1)})


@dataclass(frozen=True, kw_only=True)
class OneRelation(Gaussian):
    relations = ("add-remove-one",)


def test_what_a_mechanism_has_no_proof_for_is_refused():
    with pytest.raises(UsageError, match="releases no groups"):
        Gaussian().check(Problem(n_features=2, neighbors="replace-one", n_groups=2), Budget(rho=1))
    with pytest.raises(BudgetError, match="no guarantee under replace-one; use add-remove-one"):
        OneRelation().check(PROBLEM, Budget(rho=1))
    with pytest.raises(BudgetError, match="cannot honor"):
        Gaussian().check(PROBLEM, Budget(epsilon=1))
    with pytest.raises(BudgetError, match="Give the budget as"):
        Gaussian().check(PROBLEM, 1.0)
    Gaussian().check(PROBLEM, Budget(rho=1))


@pytest.mark.parametrize("epsilon", [0, -1, NAN])
def test_searches_need_a_budget(epsilon):
    entropy = SeededEntropy(1)
    with pytest.raises(UsageError):
        sparse_vector([0.0], threshold=1.0, epsilon=epsilon, entropy=entropy)
    with pytest.raises(UsageError):
        sparse_vector_error(3, epsilon=epsilon, beta=0.1)
    with pytest.raises(UsageError):
        private_radius([1, 0], epsilon=epsilon, beta=0.1, entropy=entropy)
    with pytest.raises(UsageError):
        private_radius_outliers(3, epsilon=epsilon or -1, beta=0.1)


@pytest.mark.parametrize("wrong", [{"sensitivity": 0.0}, {"sensitivity": NAN}, {"threshold": NAN}])
def test_searches_need_finite_numbers(wrong):
    with pytest.raises(UsageError):
        sparse_vector(
            [0.0], **{"threshold": 1.0, "epsilon": 1, "entropy": SeededEntropy(1), **wrong}
        )


@pytest.mark.parametrize("beta", [0.0, 1.0, NAN])
def test_searches_fail_with_some_probability(beta):
    with pytest.raises(UsageError):
        sparse_vector_error(1, epsilon=1, beta=beta)
    with pytest.raises(UsageError):
        private_radius([1], epsilon=1, beta=beta, entropy=SeededEntropy(1))
    with pytest.raises(UsageError):
        private_radius([], epsilon=1, beta=0.5, entropy=SeededEntropy(1))
    with pytest.raises(UsageError):
        sparse_vector_error(0, epsilon=1, beta=0.5)


@pytest.mark.parametrize(("monotone", "expected"), [(False, 6.0), (True, 4.0)])
def test_the_error_of_a_search_is_that_of_its_theorem(monotone, expected):
    error = sparse_vector_error(
        8, epsilon=Fraction(1, 2), beta=0.25, sensitivity=3.0, monotone=monotone
    )
    assert error == pytest.approx(expected * 3 * 2 * np.log(64), rel=1e-12)


def test_the_error_of_a_radius_is_that_of_its_theorem():
    found = private_radius_outliers(8, epsilon=Fraction(1, 2), beta=0.25, rows_per_person=3)
    assert found == pytest.approx(
        3 * 2 * (4 * np.log(8) + 2 * np.log(64) + 2 * np.log(8)), rel=1e-12
    )


@pytest.mark.parametrize("entry", [np.nan, np.inf])
def test_a_matrix_that_overflowed_is_not_released(entry):
    with pytest.raises(NumericError, match="nothing was released"):
        finish(np.array([[entry]]), PROBLEM, None, clip=1.0, post="none")


@pytest.mark.parametrize(("count", "rows"), [(None, 10), (4, 4), (0, 1), (-7, 1)])
def test_a_private_number_of_rows_is_at_least_one(count, rows):
    made = finish(np.eye(3) * 20.0, PROBLEM, count, clip=0.5, post="psd", notes=("a",))
    np.testing.assert_allclose(made.arrays["second_moment"], np.eye(3) * 20 * 0.25 / rows)
    assert (made.radius, made.post, made.notes) == (0.5, "psd", ("a",))
    assert ("row_count" in made.arrays) == (count is not None)


@pytest.mark.parametrize(
    ("promise", "neighbors", "rows", "exponent", "expected"),
    [
        (PureDP(epsilon=Fraction(2)), "replace-one", 1, "tight", 1.0),
        (PureDP(epsilon=Fraction(2)), "add-remove-one", 1, "tight", 2.0),
        (PureDP(epsilon=Fraction(2)), "replace-one", 4, "tight", 0.25),
        (ZCDP(rho=Fraction(1, 2)), "replace-one", 1, "tight", 1.0),
        (ZCDP(rho=Fraction(1, 2)), "add-remove-one", 2, "tight", 1.0),
        (PureDP(epsilon=Fraction(2)), "replace-one", 1, "paper", 0.5),
        (ZCDP(rho=Fraction(1, 2)), "replace-one", 2, "paper", 0.125),
    ],
)
def test_a_direction_gets_the_exponent_of_its_theorem(promise, neighbors, rows, exponent, expected):
    problem = Problem(n_features=3, neighbors=neighbors, n_rows=10, rows_per_person=rows)
    found = direction_exponent(promise, problem, exponent)
    assert expected * (1 - 1e-12) <= found <= expected


@pytest.mark.parametrize("value", ["0", "1/3", "2", "4", "1e-300", "1e300"])
def test_roots_lie_on_their_side_next_to_the_true_one(value):
    value = Fraction(value)
    down, up = root_down(value), root_up(value)
    assert 0 <= Fraction(down) ** 2 <= value < Fraction(up) ** 2
    assert up - down <= 1e-15 * up or value == 0

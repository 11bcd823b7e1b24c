from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

import dpcov
from dpcov.errors import BudgetError, NumericError, UsageError
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.cost import root_down, root_up
from dpcov.mechanisms.blocks.finished import finish
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.registry import make_mechanism
from dpcov.mechanisms.stratified import Stratified
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import PureDP


def test_groups_are_for_the_mechanisms_that_take_them():
    budget, asked = Budget(rho=1), Problem(n_features=2, neighbors="replace-one", n_groups=2)
    Stratified().check(asked, budget)
    with pytest.raises(UsageError, match="The gaussian mechanism releases no groups"):
        Gaussian().check(asked, budget)


@dataclass(frozen=True, kw_only=True)
class OnlyAdded(Gaussian):
    relations = ("add-remove-one",)


def test_relations_and_budgets_without_a_proof_are_refused():
    public, private = (
        Problem(n_features=2, neighbors=each) for each in ("replace-one", "add-remove-one")
    )
    OnlyAdded().check(private, Budget(rho=1))
    with pytest.raises(BudgetError, match="no guarantee under replace-one"):
        OnlyAdded().check(public, Budget(rho=1))


BUDGETS = [dpcov.Budget(rho=1), dpcov.Budget(epsilon=1), dpcov.Budget(epsilon=1, delta="1e-6")]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_it_is_zero_and_promises_everything(budget, neighbors):
    made = dpcov.second_moment(
        np.eye(3), norm_bound=1, budget=budget, mechanism="zero", neighbors=neighbors
    )
    assert made.guarantee.promise == PureDP(epsilon=Fraction(0))
    for post in ("none", "psd", "clip", "projection"):
        assert not made.second_moment(post).any()
    assert made.expected_error() is None


PROBLEM = Problem(n_features=3, neighbors="replace-one", n_rows=10)
NAN = float("nan")


GOOD = {
    "gaussian": {"bits": [4, 24], "clip": [1.0, 2.0**-60]},
    "laplace": {"bits": [4], "sensitivity": ["paper"]},
    "stratified": {"shells": [2, 60]},
    "coinpress": {"rounds": [1, 100]},
    "thresholding": {"gamma": [0.0]},
}
BAD = {
    "gaussian": {"bits": [3, 25], "clip": [0.0, 1.1, NAN], "noise": ["pink", 3]},
    "laplace": {"sensitivity": ["loose"]},
    "projection": {"trace": ["exact"]},
    "thresholding": {"gamma": [-0.1, NAN, True, "1", float("inf")], "rule": ["firm"]},
    "stratified": {"shells": [1, 61, 2.5]},
    "stratified-nuclear": {"shells": [1, 61], "shorten": [1]},
    "coinpress": {"rounds": [0, 101, 1.5, True]},
    "eigenvectors": {"allocation": ["fair"], "exponent": ["loose"]},
    "kapralov-talwar": {"exponent": ["x"], "clip": [0.0]},
    "adaptive": {"radius": [1], "constants": ["paper"], "shells": [0, 65]},
    "separate": {"eigenvalues": ["best"], "noise": ["loud"]},
    "nuclear": {"noise": ["round"]},
    "nuclear-projection": {"budget_split": ["most"]},
}


def options(table):
    return [
        pytest.param(name, option, value, id=f"{name}-{option}-{value}")
        for name, options in table.items()
        for option, values in options.items()
        for value in values
    ]


@pytest.mark.parametrize(("name", "option", "value"), options(GOOD))
def test_options_are_taken_up_to_their_limits(name, option, value):
    assert getattr(make_mechanism(name, {option: value}), option) == value


@pytest.mark.parametrize(("name", "option", "value"), options(BAD))
def test_options_beyond_their_limits_are_refused(name, option, value):
    with pytest.raises(UsageError):
        make_mechanism(name, {option: value})


@pytest.mark.parametrize("name", ["n_features", "n_rows", "rows_per_person", "n_groups"])
@pytest.mark.parametrize("count", [0, -1, 1.5, True, "3"])
def test_counts_of_a_problem_are_whole_numbers(name, count):
    with pytest.raises(UsageError, match=f"{name} must be a whole number"):
        Problem(**{"n_features": 2, "neighbors": "replace-one", name: count})
    Problem(**{"n_features": 2, "neighbors": "replace-one", name: np.int64(1)})


@pytest.mark.parametrize("entry", [np.nan, np.inf])
def test_a_matrix_that_overflowed_is_not_released(entry):
    with pytest.raises(NumericError, match="nothing was released"):
        finish(np.array([[entry]]), PROBLEM, None, clip=1.0, post="none")


@pytest.mark.parametrize("value", ["0", "1/3", "2", "4", "1e-300", "1e300"])
def test_roots_lie_on_their_side_next_to_the_true_one(value):
    value = Fraction(value)
    down, up = root_down(value), root_up(value)
    assert 0 <= Fraction(down) ** 2 <= value < Fraction(up) ** 2
    assert up - down <= 1e-15 * up or value == 0

from fractions import Fraction

import numpy as np
import pytest

from dpcov.errors import NumericError, UsageError
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.finished import finish, root_down, root_up
from dpcov.mechanisms.blocks.sparse_vector import private_radius, sparse_vector
from dpcov.mechanisms.registry import find_mechanism, make_mechanism, names
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget

PROBLEM = Problem(n_features=3, neighbors="replace-one", n_rows=10)
NAN = float("nan")

GOOD = {
    "gaussian": {"bits": [4, 24], "clip": [1.0, 2.0**-60]},
    "laplace": {"bits": [4], "sensitivity": ["paper"]},
    "stratified": {"shells": [2, 60]},
    "stratified-nuclear": {"shells": [2, 60]},
    "coinpress": {"rounds": [1, 100], "upper": [1.0]},
    "eigenvectors": {"rank": [1, None], "value_share": [0.999]},
    "kapralov-talwar": {"rank": [1]},
    "thresholding": {"gamma": [0.0]},
}
BAD = {
    "gaussian": {
        "bits": [3, 25],
        "clip": [0.0, 1.1],
        "noise": ["pink", 3],
        "calibration": ["best"],
    },
    "laplace": {"bits": [3], "clip": [NAN], "sensitivity": ["loose"]},
    "projection": {"trace": ["exact"], "bits": [3]},
    "thresholding": {"gamma": [-0.1, NAN, True, "1", float("inf")], "rule": ["firm"]},
    "stratified": {"shells": [1, 61, 2.5]},
    "stratified-nuclear": {"shells": [1, 61, 2.5, True], "shorten": [1]},
    "coinpress": {
        "rounds": [0, 101, 2.0, 1.5, True],
        "upper": [0.0, 1.5, NAN],
        "noise": ["x"],
        "failure_probability": [1],
    },
    "eigenvectors": {
        "rank": [0, True],
        "allocation": ["fair"],
        "exponent": ["loose"],
        "values": ["none"],
        "value_share": [0, 1, True, NAN],
        "failure_probability": [0, 1.0],
        "clip": [2.0],
    },
    "kapralov-talwar": {"rank": [0, True], "exponent": ["x"], "value_share": [0.0], "clip": [0.0]},
    "adaptive": {
        "radius": [1],
        "constants": ["paper"],
        "shells": [0],
        "failure_probability": [0.0],
        "eigenvalues": ["x"],
        "noise": ["x"],
        "bits": [2],
    },
    "separate": {
        "eigenvalues": ["best"],
        "noise": ["loud"],
        "clip": [0.0],
        "eigenvalue_share": [1.0],
        "bits": [3],
    },
    "nuclear": {"noise": ["round"]},
    "nuclear-projection": {"noise": ["round"], "budget_split": ["most"], "clip": [3]},
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


@pytest.mark.parametrize("epsilon", [0, -1, NAN])
def test_searches_need_a_budget(epsilon):
    entropy = SeededEntropy(1)
    with pytest.raises(UsageError):
        sparse_vector([0.0], threshold=1.0, epsilon=epsilon, entropy=entropy)
    with pytest.raises(UsageError):
        private_radius([1, 0], epsilon=epsilon, beta=0.1, entropy=entropy)


@pytest.mark.parametrize(
    "wrong", [*({"sensitivity": x} for x in (0.0, NAN, float("inf"), -1.0)), {"threshold": NAN}]
)
def test_searches_need_finite_numbers(wrong):
    options = {"threshold": 1.0, "epsilon": 1, "entropy": SeededEntropy(1), **wrong}
    with pytest.raises(UsageError, match="must be positive"):
        sparse_vector([0.0], **options)


@pytest.mark.parametrize(
    ("outliers", "beta"), [([1], 0.0), ([1], 1.0), ([1], NAN), ([], 0.5)], ids=str
)
def test_searches_fail_with_some_probability(outliers, beta):
    with pytest.raises(UsageError, match="beta between 0 and 1"):
        private_radius(outliers, epsilon=1, beta=beta, entropy=SeededEntropy(1))


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

"""The audit itself: bounds that hold for known laws, and find what they should."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpcov.audit import (
    attaining,
    clopper_pearson,
    half_noise,
    lower_bound_epsilon,
    lower_bound_rho,
    refutes,
)
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP

RUNS = 20_000


def normal_scores(shift, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(shift, size=RUNS), random.normal(size=RUNS)


@pytest.mark.parametrize("count", [0, 1, 7, 500, 999, 1000])
def test_confidence_limits_invert_the_binomial_tails(count):
    low, high = clopper_pearson(count, 1000, 1e-9)
    assert low <= count / 1000 <= high
    if count > 0:
        assert stats.binom.sf(count - 1, 1000, low) == pytest.approx(1e-9, rel=1e-6)
    if count < 1000:
        assert stats.binom.cdf(count, 1000, high) == pytest.approx(1e-9, rel=1e-6)


@pytest.mark.parametrize("shift", [0.5, 1.0, 2.0, 4.0])
def test_gaussian_noise_is_bounded_from_below_but_never_beyond_the_truth(shift):
    bound = lower_bound_rho(*normal_scores(shift))
    assert bound <= shift**2 / 2
    assert bound > shift**2 / 8


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_laplace_noise_attains_its_epsilon(epsilon):
    random = np.random.default_rng(1)
    first, second = epsilon + random.laplace(size=RUNS), random.laplace(size=RUNS)
    assert 0.6 * epsilon < lower_bound_epsilon(first, second) <= epsilon


def test_identical_tables_teach_nothing():
    assert lower_bound_epsilon(*normal_scores(0.0)) == 0.0
    assert lower_bound_rho(*normal_scores(0.0)) < 0.001


def test_exact_answers_are_worth_a_lot():
    ones, zeros = np.ones(RUNS), np.zeros(RUNS)
    assert lower_bound_epsilon(ones, zeros) > 5
    assert refutes(PureDP(epsilon=Fraction(0)), ones, zeros)
    assert refutes(ZCDP(rho=Fraction(3)), ones, zeros)
    assert refutes(ApproxDP(epsilon=Fraction(3), delta=Fraction(1, 10)), ones, zeros)


def test_delta_is_granted():
    leaks = (np.random.default_rng(2).random(RUNS) < 0.2).astype(float)
    assert lower_bound_epsilon(leaks, np.zeros(RUNS)) > 3
    assert lower_bound_epsilon(leaks, np.zeros(RUNS), delta=Fraction(1, 4)) == 0.0


def test_half_the_noise_is_four_times_rho_and_twice_epsilon():
    assert half_noise(Budget(rho="0.5")) == Budget(rho=2)
    assert half_noise(Budget(epsilon=1)) == Budget(epsilon=2)


@pytest.mark.parametrize(("relation", "frobenius"), [("replace-one", np.sqrt(2.0)), ("add-remove-one", 1.0)])
def test_the_pairs_attain_the_frobenius_sensitivity(relation, frobenius):
    pair = attaining(relation, 3)
    assert np.linalg.norm(pair.difference) == pytest.approx(frobenius)
    assert max(np.linalg.norm(rows, axis=1).max() for rows in (pair.first, pair.second)) <= 1

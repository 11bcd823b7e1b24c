"""Bounds from guesses: honest where laws can be enumerated, and close to the truth."""

import itertools
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
from dpcov.audit.limits import bound_for
from dpcov.privacy.budget import Budget
from dpcov.privacy.calibrate import gaussian_noise_multiplier
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP

RUNS = 20_000
LAWS = [(0.7, 0.3), (0.6, 0.1), (0.25, 0.05), (0.1, 0.1)]
"""Probabilities of a right and of a wrong guess."""


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


def divergence(right, wrong):
    """Rho of a right guess against a wrong one: the largest D_a / a, by a fine grid of orders."""
    if right <= wrong:
        return 0.0
    orders = np.linspace(1.001, 20, 5000)
    yes = right**orders * wrong ** (1 - orders)
    no = (1 - right) ** orders * (1 - wrong) ** (1 - orders)
    return float(np.max(np.log(yes + no) / (orders - 1) / orders))


@pytest.mark.parametrize(("right", "wrong"), LAWS)
@pytest.mark.parametrize("kind", ["pure", "approximate", "zcdp"])
def test_no_law_is_bounded_beyond_its_number_more_often_than_stated(kind, right, wrong):
    # All outcomes of 200 releases are enumerated, so the probability of a wrong bound is exact.
    size, alpha, delta = 200, 0.1, Fraction(1, 20) if kind == "approximate" else 0
    zero = Fraction(0)
    approximate = ApproxDP(epsilon=zero, delta=Fraction(1, 20))
    promises = {"pure": PureDP(epsilon=zero), "approximate": approximate, "zcdp": ZCDP(rho=zero)}
    odds = max(right - delta, 1e-9) / wrong
    truth = divergence(right, wrong) if kind == "zcdp" else max(0.0, np.log(odds))
    counts = [(r, w) for r, w in itertools.product(range(size + 1), repeat=2) if r + w <= size]
    rights, wrongs = np.array(counts).T
    bounds = bound_for(promises[kind])(rights, wrongs, size, alpha)
    law = np.array([right, wrong, 1 - right - wrong])
    outcomes = np.stack([rights, wrongs, size - rights - wrongs], axis=1)
    chances = stats.multinomial.pmf(outcomes, size, law)
    assert chances[bounds > truth + 1e-9].sum() <= alpha
    assert chances[bounds > 0.2 * truth].sum() > 0.5 or truth < 1


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("shift", [0.5, 1.0, 2.0, 4.0])
def test_gaussian_noise_is_bounded_from_below_but_never_beyond_the_truth(shift, sign):
    bound = lower_bound_rho(*normal_scores(sign * shift))
    assert bound <= shift**2 / 2
    assert bound > shift**2 / 8


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_laplace_noise_attains_its_epsilon(epsilon):
    random = np.random.default_rng(1)
    first, second = epsilon + random.laplace(size=RUNS), random.laplace(size=RUNS)
    assert 0.7 * epsilon < lower_bound_epsilon(first, second) <= epsilon


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


@pytest.mark.parametrize("epsilon", [1, 4])
def test_half_the_noise_of_an_epsilon_with_a_delta_is_half_and_never_less(epsilon):
    budget = Budget(epsilon=epsilon, delta="1e-3")
    halved = half_noise(budget)
    assert float(halved.zcdp_rho() / budget.zcdp_rho()) == pytest.approx(4)
    whole, half = (gaussian_noise_multiplier(each.epsilon, each.delta) for each in (budget, halved))
    assert 0.5 <= half / whole < 0.53


@pytest.mark.parametrize(
    ("relation", "frobenius"), [("replace-one", np.sqrt(2.0)), ("add-remove-one", 1.0)]
)
def test_the_pairs_attain_the_frobenius_sensitivity(relation, frobenius):
    pair = attaining(relation, 3)
    assert np.linalg.norm(pair.difference) == pytest.approx(frobenius)
    assert max(np.linalg.norm(rows, axis=1).max() for rows in (pair.first, pair.second)) <= 1

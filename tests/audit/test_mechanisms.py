"""Every registered mechanism against its own claim, in the quick form; CI cannot afford more."""

from fractions import Fraction

import numpy as np
import pytest

from dpcov.audit import (
    Case,
    Effort,
    along_difference,
    attaining,
    audit,
    cases_of,
    half_noise,
    refutes,
    released,
)
from dpcov.audit.evidence import weigh
from dpcov.audit.suite import BUDGETS
from dpcov.mechanisms.registry import MECHANISMS, make_mechanism
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, PureDP
from dpcov.published.statistics import NoisyStatistics
from tests.audit.zoo import NO_HURRY

QUICK = Effort(draws=250, candidates=1, search_draws=1, seconds=0.15)
CASES = cases_of(mechanism() for mechanism in MECHANISMS)
DRAWS, PLANTED_DRAWS = 300, 400
ADDITIVE = [
    pytest.param("gaussian", {}, id="gaussian"),
    pytest.param("gaussian", {"noise": "upper-triangle"}, id="gaussian-upper-triangle"),
    pytest.param("projection", {}, id="projection"),
    pytest.param("thresholding", {}, id="thresholding"),
]


@pytest.mark.parametrize(
    "case",
    CASES,
    ids=lambda case: f"{case.mechanism.name}-{case.neighbors}-{type(case.budget.promise).__name__}",
)
def test_no_claim_is_refuted(case):
    (finding,) = audit([case], QUICK)
    assert not finding.refuted
    assert finding.draws > 0


@pytest.mark.parametrize(("name", "options"), ADDITIVE)
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_half_the_gaussian_noise_is_caught(name, options, neighbors):
    pair, mechanism, claim = attaining(neighbors), make_mechanism(name, options), BUDGETS[ZCDP]
    tables = released(mechanism, half_noise(claim), pair, PLANTED_DRAWS)
    assert weigh(claim.promise, tables, len(pair.first)).bound > claim.rho


@pytest.mark.parametrize("name", ["gaussian", "stratified"])
def test_a_row_count_whose_noise_rounds_away_is_not_taken_for_normal(name):
    budget = Budget(rho=100)
    case = Case(mechanism=make_mechanism(name, {}), neighbors="add-remove-one", budget=budget)
    (finding,) = audit([case], Effort(draws=400, candidates=1, search_draws=1, seconds=NO_HURRY), seed=1)
    assert 10 < finding.bound <= budget.rho


def test_a_zero_that_leaks_is_caught():
    pair = attaining("replace-one")
    leaks = [
        [NoisyStatistics(layout="estimate", arrays={"second_moment": rows.T @ rows})] * DRAWS
        for rows in (pair.first, pair.second)
    ]
    assert weigh(PureDP(epsilon=Fraction(0)), leaks, len(pair.first)).bound > 1
    first, second = (along_difference(each, pair) for each in leaks)
    assert np.ptp(first) == 0
    assert refutes(PureDP(epsilon=Fraction(0)), first, second)

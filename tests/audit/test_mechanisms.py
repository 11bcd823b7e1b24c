"""Every registered mechanism against its own claim, and against one that draws half the noise it should."""

from fractions import Fraction

import numpy as np
import pytest

import dpcov
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.registry import MECHANISMS, make_mechanism
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.statistics import NoisyStatistics
from tests.audit.auditing import along_difference, attaining, half_noise, refutes, released

DRAWS = 300
PLANTED_DRAWS = 2500
CLAIMS = {
    PureDP: dpcov.Budget(epsilon=1),
    ZCDP: dpcov.Budget(rho=1),
    ApproxDP: dpcov.Budget(epsilon=2, delta="1e-3"),
}
CASES = [
    pytest.param(mechanism, neighbors, kind, id=f"{mechanism.name}-{neighbors}-{kind.__name__}")
    for mechanism in MECHANISMS
    for neighbors in mechanism.relations
    for kind in mechanism.promises
]
ADDITIVE = [
    pytest.param("gaussian", {}, id="gaussian"),
    pytest.param("gaussian", {"noise": "upper-triangle"}, id="gaussian-upper-triangle"),
    pytest.param("projection", {}, id="projection"),
    pytest.param("thresholding", {}, id="thresholding"),
]


def scores(mechanism, budget, pair, draws):
    return [along_difference(each, pair) for each in released(mechanism, budget, pair, draws)]


@pytest.mark.parametrize(("mechanism", "neighbors", "kind"), CASES)
def test_no_claim_is_refuted(mechanism, neighbors, kind):
    pair, chosen = attaining(neighbors), mechanism()
    n_rows = len(pair.first) if neighbors == "replace-one" else None
    problem = Problem(n_features=pair.n_features, neighbors=neighbors, n_rows=n_rows)
    claim = chosen.calibrate(problem, CLAIMS[kind]).promise
    assert not refutes(claim, *scores(chosen, CLAIMS[kind], pair, DRAWS))


@pytest.mark.parametrize(("name", "options"), ADDITIVE)
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_half_the_gaussian_noise_is_caught(name, options, neighbors):
    pair, mechanism = attaining(neighbors), make_mechanism(name, options)
    claim = CLAIMS[ZCDP]
    found = scores(mechanism, half_noise(claim), pair, PLANTED_DRAWS)
    assert refutes(claim.promise, *found)


def test_a_zero_that_leaks_is_caught():
    pair = attaining("replace-one")
    leaks = [
        [NoisyStatistics(layout="estimate", arrays={"second_moment": rows.T @ rows})] * DRAWS
        for rows in (pair.first, pair.second)
    ]
    first, second = (along_difference(each, pair) for each in leaks)
    assert np.ptp(first) == 0
    assert refutes(PureDP(epsilon=Fraction(0)), first, second)

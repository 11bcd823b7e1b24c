"""Every registered mechanism against its own claim: sound ones hold, half the noise is caught."""

from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

import pytest

from dpcov.audit import QUICK, Case, Effort, attaining, audit, cases_of, half_noise, suite
from dpcov.audit.lesson import teach
from dpcov.errors import BudgetError
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.registry import MECHANISMS, make_mechanism
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import PureDP, costs_nothing
from dpcov.published.file.statistics import NoisyStatistics

CASES = cases_of(mechanism() for mechanism in MECHANISMS)
IN_PRIVATE_GEOMETRY = cases_of(
    (make_mechanism(name, {}) for name in ("gaussian", "stratified", "stratified-nuclear")),
    private_geometry=True,
)
# However long it takes: a machine that stalls takes no draw away.
SHORT = Effort(draws=400, candidates=1, seconds=1e6)
LONG = replace(QUICK, seconds=1e6)
FRACTION = {"exact": 0.4, "idealized": 0.2}
"""What a default audit finds of a claim at least, by numerics."""

SLOW = ("stratified-nuclear", "coinpress")
FAST = [("gaussian", "replace-one"), ("laplace", "add-remove-one")]
QUICK_CASES = [case for case in CASES if (case.mechanism.name, case.neighbors) in FAST]


def each_of(cases):
    """The quick run takes the first promise of all mechanisms but the slowest."""
    chosen = []
    for case in cases:
        mechanism, kind = case.mechanism, type(case.budget.promise)
        quick = kind is mechanism.promises[0] and mechanism.name not in SLOW
        name = f"{mechanism.name}-{case.neighbors}-{kind.__name__}"
        chosen.append(pytest.param(case, id=name, marks=[] if quick else [pytest.mark.thorough]))
    return chosen


def found(case, effort, seed=1):
    (finding,) = audit([case], effort, seed=seed)
    return finding


def at_half_noise(mechanism):
    """The same mechanism with half the noise that its claim needs."""

    class Halved(type(mechanism)):
        name: ClassVar[str] = f"halved-{mechanism.name}"

        def calibrate(self, problem, budget):
            right = super().calibrate(problem, budget)
            return replace(super().calibrate(problem, half_noise(budget)), promise=right.promise)

    return Halved()


@pytest.mark.parametrize("case", each_of(CASES))
def test_no_claim_is_refuted(case):
    assert found(case, SHORT).verdict != "refuted"


@pytest.mark.thorough
@pytest.mark.parametrize("case", each_of(IN_PRIVATE_GEOMETRY))
def test_no_claim_in_a_private_geometry_is_refuted(case):
    assert found(case, SHORT).verdict != "refuted"


def check_power(case, effort):
    """The fractions of the docs, and half the noise refuted wherever the verdict says so."""
    finding = found(case, effort)
    assert finding.verdict != "refuted"
    if costs_nothing(finding.promise):
        assert finding.verdict == "ok"
        return finding
    assert finding.bound >= FRACTION[finding.numerics] * finding.claim
    if finding.control > 1.1 * finding.claim:
        assert finding.verdict == "ok"
        halved = replace(case, mechanism=at_half_noise(case.mechanism))
        assert found(halved, effort, seed=2).verdict == "refuted"
    return finding


@pytest.mark.parametrize("case", each_of(QUICK_CASES))
def test_exact_noise_is_bounded_well_and_half_of_it_refuted(case):
    assert check_power(case, replace(LONG, draws=4_000)).verdict == "ok"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", each_of(CASES))
def test_a_default_audit_bounds_its_share_of_every_claim(case):
    check_power(case, LONG)


class Bounded(Gaussian):
    def calibrate(self, problem, budget):
        if budget.epsilon > 1:
            raise BudgetError("The proof ends here.")
        return super().calibrate(problem, budget)


def test_a_budget_that_cannot_be_doubled_leaves_no_power():
    budget = Budget(epsilon=1, delta="1e-3")
    finding = found(Case(mechanism=Bounded(), neighbors="replace-one", budget=budget), SHORT)
    assert (finding.control, finding.verdict) == (None, "no power")


@pytest.mark.parametrize("name", ["gaussian", "stratified"])
def test_a_row_count_whose_noise_rounds_away_is_not_taken_for_normal(name):
    budget = Budget(rho=100)
    case = Case(mechanism=make_mechanism(name, {}), neighbors="add-remove-one", budget=budget)
    assert 10 < found(case, replace(SHORT, draws=800)).bound <= budget.rho


def test_several_processes_find_what_one_does_and_tell_how_far_they_are(monkeypatch):
    monkeypatch.setattr(suite, "_BETWEEN_LOOKS", 0.001)
    cases, few = QUICK_CASES[:2], replace(SHORT, draws=100)
    found, told = [], []
    for count in (1, 2):
        done = []
        made = audit(cases, few, seed=3, processes=count, tell=done.append)
        found.append([replace(each, seconds=0.0) for each in made])
        told.append(done)
    assert found[0] == found[1]
    for done in told:
        assert done == sorted(done) and done[0] >= 0 and done[-1] <= len(cases)
        # Within a case, too.
        assert len({part for part in done if 0 < part < 1}) > 3
    assert told[0][-1] == len(cases)


def test_a_zero_that_leaks_is_caught():
    pair, claim = attaining("replace-one"), PureDP(epsilon=Fraction(0))
    leaks = [
        [NoisyStatistics(layout="estimate", arrays={"second_moment": rows.T @ rows})] * 300
        for rows in (pair.first, pair.second)
    ]
    lesson = teach(*leaks, claim, len(pair.first), 0.05)
    assert lesson.count(leaks, claim, 1e-9)[0] > 1

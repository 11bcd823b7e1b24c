from dataclasses import dataclass
from fractions import Fraction

import pytest

from dpcov.data.moments import Moments, MomentsSpec
from dpcov.data.questions import Ask, MomentsQuestion
from dpcov.errors import BudgetError, UsageError
from dpcov.mechanisms.base import Calibration, Problem
from dpcov.mechanisms.coinpress import CoinPress
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.stratified import Stratified
from dpcov.mechanisms.zero import Zero
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP


def test_a_problem_is_one_group_of_rows_of_different_people_unless_it_says_otherwise():
    asked = Problem(n_features=3, neighbors="add-remove-one")
    assert (asked.n_rows, asked.rows_per_person, asked.n_groups) == (None, 1, 1)
    assert Problem(n_features=1, neighbors="replace-one", n_rows=1).n_rows == 1


def test_a_calibration_is_no_gaussian_mechanism_unless_it_says_so():
    assert Calibration(promise=ZCDP(rho=Fraction(1))).noise_multiplier is None


def test_moments_of_one_stratum_are_wanted_unless_a_mechanism_says_otherwise():
    asked = Problem(n_features=3, neighbors="add-remove-one")
    assert Zero().moments_spec(asked) == MomentsSpec(
        bits=20, shells=1, groups=1, clip=1.0, normalized=False
    )
    assert Gaussian(bits=9).question(asked) == MomentsQuestion(spec=MomentsSpec(bits=9))
    assert CoinPress(bits=9).question(asked) == MomentsQuestion(
        spec=MomentsSpec(bits=9), watched=True
    )


def test_groups_are_for_the_mechanisms_that_take_them():
    budget, asked = Budget(rho=1), Problem(n_features=2, neighbors="replace-one", n_groups=2)
    Stratified().check(asked, budget)
    assert [mechanism.takes_groups for mechanism in (Stratified, Gaussian, CoinPress)] == [
        True,
        False,
        False,
    ]
    with pytest.raises(UsageError, match="The gaussian mechanism releases no groups"):
        Gaussian().check(asked, budget)


def test_a_mechanism_of_several_questions_takes_no_saved_moments():
    mechanism, asked = CoinPress(), Problem(n_features=2, neighbors="replace-one", n_rows=3)
    calibration = mechanism.calibrate(asked, Budget(rho=1))
    with pytest.raises(UsageError, match="This mechanism wants"):
        mechanism.draw(Ask.saved(Moments(2)), calibration, asked, SeededEntropy(0))


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
    with pytest.raises(BudgetError, match="it can promise ZCDP, ApproxDP"):
        Gaussian().check(public, Budget(epsilon=1))
    with pytest.raises(BudgetError, match="Give the budget as"):
        Gaussian().check(public, 0.5)

"""What a promise means for a person is an upper bound; what means little is not made silently."""

import re
import warnings
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, localcontext
from fractions import Fraction
from math import exp, sqrt

import numpy as np
import pytest
from scipy.stats import norm

import dpcov
from dpcov.analysis import PrivatePCA
from dpcov.errors import BudgetError, PrivacyWarning
from dpcov.privacy.convert import zcdp_rho
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.privacy.meaning import certainty, detection, rounded_up
from tests.contracts.test_mechanisms import UnreadSource

X = np.random.default_rng(0).normal(size=(200, 4)) / 4
BORDER = zcdp_rho(Fraction(4), Fraction(1, 10**6))
ALARMS = Fraction(1, 20)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3", "4", "30"])
def test_pure_numbers_are_those_of_the_worst_mechanism(epsilon):
    # A coin that is right with odds e^epsilon, and the best test against it.
    promise, odds = PureDP(epsilon=Fraction(epsilon)), exp(float(epsilon))
    right, wrong = odds / (1 + odds), 1 / (1 + odds)
    power = odds * 0.05 if wrong >= 0.05 else right + (0.05 - wrong) / odds
    assert float(detection(promise, ALARMS)) == pytest.approx(power, rel=1e-9)
    assert right <= float(certainty(promise)) + 1e-15
    assert float(certainty(promise)) == pytest.approx(right, rel=1e-12)
    leaky = ApproxDP(epsilon=Fraction(epsilon), delta=Fraction(1, 10))
    assert float(certainty(leaky)) == pytest.approx((odds + 0.1) / (1 + odds), rel=1e-12)
    assert detection(ApproxDP(epsilon=Fraction(epsilon), delta=Fraction(99, 100)), ALARMS) == 1


@pytest.mark.parametrize("rho", ["0.001", "0.01", "0.1", "0.5", "2", "1000"])
def test_zcdp_numbers_cover_gaussian_noise_and_are_not_far_above(rho):
    # Gaussian noise with sensitivity over std = sqrt(2 rho) is the extreme case of rho-zCDP here.
    promise, shift = ZCDP(rho=Fraction(rho)), sqrt(2 * float(rho))
    power, guess = norm.cdf(norm.ppf(0.05) + shift), norm.cdf(shift / 2)
    assert power <= detection(promise, ALARMS) <= min(1.0, 1.6 * power)
    assert guess <= float(certainty(promise)) <= min(1.0, 1.25 * guess)


WARNINGS = [
    *[({"epsilon": 4}, None), ({"rho": BORDER}, None)],
    ({"epsilon": "4.01"}, r"epsilon = 4\.01 is large.* 98\.22 %"),
    ({"epsilon": 5, "delta": "1e-6"}, r"epsilon = 5 is large.*\(50 %\).* 99\.34 %"),
    ({"rho": 1}, "rho = 1 implies epsilon = 7.77 at delta = 1e-6, which is large"),
]


@pytest.mark.parametrize(("budget", "said"), WARNINGS)
@pytest.mark.parametrize("rows_per_person", [1, 3])
def test_an_epsilon_above_four_says_what_it_means_for_a_person(budget, said, rows_per_person):
    how = {"norm_bound": 1.0, "mechanism": "auto", "rows_per_person": rows_per_person}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dpcov.second_moment(X, budget=dpcov.Budget(**budget), **how)
    told = [warning for warning in caught if warning.category is PrivacyWarning]
    assert len(told) == (said is not None)
    for warning in told:
        assert re.search(said, str(warning.message))
        assert warning.filename == __file__


@pytest.mark.parametrize("way", ["release", "fit", "fit_transform"])
def test_a_warning_names_the_line_that_called_this_package(way):
    large = {"budget": dpcov.Budget(epsilon=5, delta="1e-6")}
    model = PrivatePCA(n_components=1, bounds=(-1, 1), **large)
    columns = {f"x{i}": dpcov.Numeric(lower=-1, upper=1) for i in range(4)}
    schema = dpcov.Schema(columns=columns, norm_bound=1.5)
    with pytest.warns(UserWarning) as told:
        if way == "release":
            # In the geometry of the bounds, of which it tells, too.
            dpcov.release(X, schema=schema, **large)
        else:
            getattr(model, way)(X)
    assert PrivacyWarning in {warning.category for warning in told}
    assert {warning.filename for warning in told} == {__file__}


@pytest.fixture
def ledger(tmp_path):
    return dpcov.Ledger(tmp_path / "ledger.sqlite")


def release(ledger, delta, data=X, *, neighbors="replace-one", **how):
    ledger.create("people", dpcov.Budget(epsilon=4, delta="0.9"), neighbors)
    schema = dpcov.Schema(columns={f"x{i}": dpcov.Numeric(lower=-1, upper=1) for i in range(4)})
    how = {"ledger": ledger, "dataset": "people", "neighbors": neighbors, **how}
    return dpcov.release(data, schema=schema, budget=dpcov.Budget(epsilon=1, delta=delta), **how)


@pytest.mark.parametrize("delta", ["1/200", "0.005", "0.5"])
@pytest.mark.parametrize("stated", [True, False])
def test_a_delta_of_one_over_the_public_number_of_rows_is_refused_early(ledger, delta, stated):
    delta, data = Fraction(delta), UnreadSource() if stated else X
    words = r"not below one over the number of rows, 200\..*--accept-large-delta"
    with pytest.raises(BudgetError, match=words) as refused:
        release(ledger, delta, data, n_rows=200 if stated else None)
    assert refused.value.__notes__ == ["No budget was spent and nothing was released."]
    assert ledger.entries("people") == ()


def test_a_delta_above_a_thousandth_is_refused_unread_where_the_number_of_rows_is_private(ledger):
    with pytest.raises(BudgetError, match=r"not 0\.001 or less"):
        release(ledger, "0.0011", UnreadSource(), neighbors="add-remove-one")
    assert ledger.entries("people") == ()


TAKEN = [
    *[("0.00499", "replace-one", False), ("0.001", "add-remove-one", False)],
    *[("0.005", "replace-one", True), ("0.1", "add-remove-one", True)],
]


@pytest.mark.parametrize(("delta", "neighbors", "insists"), TAKEN)
def test_small_deltas_are_taken_and_large_ones_on_demand(ledger, delta, neighbors, insists):
    release(ledger, delta, neighbors=neighbors, accept_large_delta=insists)
    assert [entry.state for entry in ledger.entries("people")] == ["committed"]


@pytest.mark.parametrize("rounding", [ROUND_FLOOR, ROUND_HALF_EVEN])
def test_what_is_said_does_not_depend_on_the_decimal_context_of_the_caller(rounding):
    promise, odds = PureDP(epsilon=Fraction("1.2345")), exp(1.2345)
    with localcontext(Context(prec=3, rounding=rounding)):
        exact, rounded = certainty(promise), rounded_up(Fraction(10**40 + 1, 10**40))

    assert exact == certainty(promise) and float(exact) > odds / (odds + 1) - 1e-12
    assert rounded == Fraction("1.01")

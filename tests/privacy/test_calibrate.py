import subprocess
import sys
from fractions import Fraction

import dp_accounting
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcov.errors import BudgetError, NumericError
from dpcov.privacy import calibrate
from tests.privacy import privacy_oracle as oracle

EPSILONS = [Fraction(text) for text in ("1e-6", "1e-3", "0.1", "1", "2", "10", "100")]
DELTAS = [Fraction(text) for text in ("1e-300", "1e-100", "1e-20", "1e-9", "1e-6", "0.01", "0.5", "0.9")]
TIGHT = Fraction(1, 10**12)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_requested_delta_is_met_and_no_noise_is_wasted(epsilon, delta):
    multiplier = calibrate.gaussian_noise_multiplier(epsilon, delta)
    assert oracle.gaussian_delta(multiplier, epsilon) <= oracle.number(delta)
    assert oracle.gaussian_delta(multiplier * (1 - TIGHT), epsilon) > oracle.number(delta)


@settings(max_examples=60, deadline=None)
@given(st.floats(min_value=-4, max_value=9), st.floats(min_value=-9, max_value=2.5))
def test_delta_is_an_upper_bound_and_tight(log_multiplier, log_epsilon):
    multiplier, epsilon = Fraction(10**log_multiplier), Fraction(10**log_epsilon)
    delta, true = (
        oracle.number(calibrate.gaussian_delta(multiplier, epsilon)),
        oracle.gaussian_delta(multiplier, epsilon),
    )
    assert true <= delta <= max(oracle.mpf(10) ** -500, true * (1 + oracle.mpf(10) ** -20))


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(2000), Fraction(3000), Fraction(10**6)])
@pytest.mark.parametrize(
    "multiplier", [Fraction(1, 1000), Fraction(1, 60), Fraction(1, 50), Fraction(1), Fraction(1000)]
)
def test_extreme_arguments_still_give_an_upper_bound(multiplier, epsilon):
    # Both terms underflow the oracle's digits for large losses; then only the bound's own range is checked.
    true = oracle.gaussian_delta(multiplier, epsilon)
    assert true - oracle.mpf(10) ** -490 <= oracle.number(calibrate.gaussian_delta(multiplier, epsilon)) <= 1


@pytest.mark.parametrize(("a", "cut"), [(-50, False), (Fraction(-101, 2), True)])
def test_deltas_beyond_fifty_deviations_are_called_negligible(a, cut):
    delta = calibrate.gaussian_delta(Fraction(1, 2), 2 - 2 * Fraction(a))  # a = 1 / (2 m) - epsilon m
    negligible = Fraction(1, 10**500)
    assert (delta == negligible) == cut
    assert 0 < delta <= negligible


def test_at_epsilon_zero_delta_is_the_total_variation_distance():
    delta = float(calibrate.gaussian_delta(Fraction(2), Fraction(0)))
    assert delta == pytest.approx(float(oracle.mp.erf(1 / (4 * oracle.mp.sqrt(2)))), rel=1e-14)


def test_dp_accounting_agrees_within_its_own_accuracy():
    for epsilon, delta in [(0.1, 1e-5), (1.0, 1e-6), (2.0, 1e-9), (10.0, 1e-5)]:
        ours = float(calibrate.gaussian_noise_multiplier(Fraction(repr(epsilon)), Fraction(repr(delta))))
        assert ours == pytest.approx(dp_accounting.get_sigma_gaussian(epsilon, delta), rel=1e-4)


def test_calibration_is_sharper_than_the_classical_formula():
    for epsilon in (Fraction(1, 100), Fraction(1, 2), Fraction(1)):
        for delta in (Fraction(1, 10**9), Fraction(1, 10**3)):
            classical = calibrate.classical_noise_multiplier(epsilon, delta)
            assert oracle.gaussian_delta(classical, epsilon) <= oracle.number(delta)
            assert calibrate.gaussian_noise_multiplier(epsilon, delta) < classical


def test_the_classical_formula_is_rounded_up():
    exact = oracle.mp.sqrt(2 * oracle.mp.log(oracle.mpf("1.25e6"))) * 2
    rounded = oracle.number(calibrate.classical_noise_multiplier(Fraction(1, 2), Fraction(1, 10**6)))
    assert exact <= rounded <= exact * (1 + oracle.mpf(10) ** -16)


def test_the_classical_formula_is_refused_where_it_is_unproven():
    with pytest.raises(BudgetError, match="epsilon <= 1"):
        calibrate.classical_noise_multiplier(Fraction(101, 100), Fraction(1, 10**6))


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, "0.1"), (-1, "0.1"), (1, 0), (1, 1), (1, "1e-301"), (1, -1)]
)
def test_impossible_requests_are_refused(epsilon, delta):
    with pytest.raises(BudgetError):
        calibrate.gaussian_noise_multiplier(Fraction(epsilon), Fraction(delta))


@pytest.mark.parametrize(("multiplier", "epsilon"), [(0, 1), (-1, 1), (1, -1)])
def test_deltas_of_impossible_noise_are_refused(multiplier, epsilon):
    with pytest.raises(BudgetError):
        calibrate.gaussian_delta(Fraction(multiplier), Fraction(epsilon))


@pytest.mark.parametrize("exponent", [14, 16])
def test_a_multiplier_that_is_a_little_too_small_is_raised_until_delta_is_met(exponent, monkeypatch):
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    solve, calls = calibrate._solve, []
    monkeypatch.setattr(calibrate, "_solve", lambda *asked: calls.append(asked) or shrunk)
    shrunk = solve(epsilon, delta) * (1 - Fraction(1, 10**exponent))
    found = calibrate.gaussian_noise_multiplier.__wrapped__(epsilon, delta)
    assert calls == [(epsilon, delta)]
    assert calibrate.gaussian_delta(found, epsilon) <= delta < calibrate.gaussian_delta(shrunk, epsilon)


def test_a_multiplier_that_cannot_be_verified_is_not_returned(monkeypatch):
    monkeypatch.setattr(calibrate, "_solve", lambda *asked: Fraction(1, 2))
    with pytest.raises(NumericError):
        calibrate.gaussian_noise_multiplier.__wrapped__(Fraction(1), Fraction(1, 10**6))


def test_the_bracket_answers_where_steps_do_not_settle(monkeypatch):
    monkeypatch.setattr(calibrate, "_STEPS", 3)
    found = calibrate._solve(Fraction(1), Fraction(1, 10**6))
    assert calibrate.gaussian_delta(found, Fraction(1)) <= Fraction(1, 10**6)


def test_the_classical_formula_is_verified(monkeypatch):
    monkeypatch.setattr(calibrate, "gaussian_delta", lambda *asked: Fraction(1))
    with pytest.raises(BudgetError, match="does not reach"):
        calibrate.classical_noise_multiplier(Fraction(1), Fraction(1, 10**6))
    monkeypatch.setattr(calibrate, "gaussian_delta", lambda *asked: Fraction(1, 10**6))
    assert calibrate.classical_noise_multiplier(Fraction(1), Fraction(1, 10**6)) > 5


def test_calibration_needs_no_heavy_import():
    code = "import sys, dpcov.privacy.ledger; print(*{'scipy', 'numpy', 'dp_accounting'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""

import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcov.errors import BudgetError, NumericError
from dpcov.privacy import calibrate
from tests.privacy import privacy_oracle as oracle

EPSILONS = [Fraction(text) for text in ("1e-6", "1e-3", "0.1", "1", "2", "10", "100")]
DELTAS = [
    Fraction(text) for text in ("1e-300", "1e-100", "1e-20", "1e-9", "1e-6", "0.01", "0.5", "0.9")
]
TIGHT = Fraction(1, 10**12)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_requested_delta_is_met_and_no_noise_is_wasted(epsilon, delta):
    multiplier = calibrate.gaussian_noise_multiplier(epsilon, delta)
    smaller = multiplier * (1 - TIGHT)
    met, wasted = (oracle.gaussian_delta(each, epsilon) for each in (multiplier, smaller))
    assert met <= oracle.number(delta) < wasted


@settings(max_examples=60, deadline=None)
@given(st.floats(min_value=-4, max_value=9), st.floats(min_value=-9, max_value=2.5))
def test_delta_is_an_upper_bound_and_tight(log_multiplier, log_epsilon):
    multiplier, epsilon = Fraction(10**log_multiplier), Fraction(10**log_epsilon)
    true = oracle.gaussian_delta(multiplier, epsilon)
    delta = oracle.number(calibrate.gaussian_delta(multiplier, epsilon))
    assert true <= delta <= max(oracle.mpf(10) ** -500, true * (1 + oracle.mpf(10) ** -20))


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(2000), Fraction(3000), Fraction(10**6)])
@pytest.mark.parametrize(
    "multiplier", [Fraction(1, 1000), Fraction(1, 60), Fraction(1, 50), Fraction(1), Fraction(1000)]
)
def test_extreme_arguments_still_give_an_upper_bound(multiplier, epsilon):
    # Large losses underflow the oracle's digits; then only the bound's own range is checked.
    true = oracle.gaussian_delta(multiplier, epsilon)
    delta = oracle.number(calibrate.gaussian_delta(multiplier, epsilon))
    assert true - oracle.mpf(10) ** -490 <= delta <= 1


@pytest.mark.parametrize(("a", "cut"), [(-50, False), (Fraction(-101, 2), True)])
def test_deltas_beyond_fifty_deviations_are_called_negligible(a, cut):
    # a = 1 / (2 m) - epsilon m
    delta = calibrate.gaussian_delta(Fraction(1, 2), 2 - 2 * Fraction(a))
    negligible = Fraction(1, 10**500)
    assert (delta == negligible) == cut
    assert 0 < delta <= negligible


@pytest.mark.parametrize(
    ("calibration", "number", "other"),
    [
        *(("gaussian_noise_multiplier", *asked) for asked in ((0, "0.1"), (1, 0), (1, 1))),
        ("gaussian_noise_multiplier", 1, "1e-301"),
        *(("gaussian_delta", *asked) for asked in ((0, 1), (-1, 1), (1, -1))),
    ],
)
def test_impossible_requests_are_refused(calibration, number, other):
    with pytest.raises(BudgetError):
        getattr(calibrate, calibration)(Fraction(number), Fraction(other))


@pytest.mark.parametrize("exponent", [14, 16])
def test_a_multiplier_a_little_too_small_is_raised_until_delta_is_met(exponent, monkeypatch):
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    solve, calls = calibrate._solve, []
    monkeypatch.setattr(calibrate, "_solve", lambda *asked: calls.append(asked) or shrunk)
    shrunk = solve(epsilon, delta) * (1 - Fraction(1, 10**exponent))
    found = calibrate.gaussian_noise_multiplier.__wrapped__(epsilon, delta)
    assert calls == [(epsilon, delta)]
    met, missed = (calibrate.gaussian_delta(each, epsilon) for each in (found, shrunk))
    assert met <= delta < missed


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_search_that_is_cut_short_costs_accuracy_and_no_privacy(steps, monkeypatch):
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    monkeypatch.setattr(calibrate, "_STEPS", steps)
    found = calibrate.gaussian_noise_multiplier.__wrapped__(epsilon, delta)
    assert calibrate.gaussian_delta(found, epsilon) <= delta


def test_calibration_needs_no_heavy_import():
    heavy = "{'scipy', 'numpy'} & set(sys.modules)"
    code = f"import sys, dpcov.privacy.ledger.ledger; print(*{heavy})"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""


def raw_delta(multiplier, epsilon, monkeypatch):
    """The sum before it is shortened to thirty digits."""
    seen = []
    monkeypatch.setattr(calibrate, "round_up", lambda value: seen.append(value) or Fraction(value))
    calibrate.gaussian_delta(Fraction(multiplier), Fraction(epsilon))
    return oracle.mpf(str(seen[0]))


def digits_needed(a, b, multiplier):
    tail = min(oracle.number(Fraction(max(a**2, b**2))), oracle.mpf(4900)) / oracle.mp.log(100)
    return 60 + int(oracle.mp.ceil(tail)) + 2 * len(str(int(multiplier)))


@pytest.mark.parametrize(
    ("multiplier", "epsilon"),
    [("0.3", 1), (1, 0), (1, 20), ("99.5", "0.2"), (100, "0.001"), ("0.02", 0)],
)
def test_the_allowance_for_rounding_is_the_proven_one(multiplier, epsilon, monkeypatch):
    multiplier, epsilon = Fraction(multiplier), Fraction(epsilon)
    a, b = (sign / (2 * multiplier) - epsilon * multiplier for sign in (1, -1))
    scale = oracle.mp.exp(oracle.number(epsilon))
    allowance = (1 + scale) * oracle.mpf(10) ** (9 - digits_needed(a, b, multiplier))
    added = raw_delta(multiplier, epsilon, monkeypatch) - oracle.gaussian_delta(multiplier, epsilon)
    assert abs(added / allowance - 1) < oracle.mpf("1e-4")


def test_a_multiplier_that_cannot_be_verified_is_not_returned(monkeypatch):
    monkeypatch.setattr(calibrate, "_solve", lambda *asked: Fraction(1, 2))
    with pytest.raises(NumericError, match="could not be calibrated"):
        calibrate.gaussian_noise_multiplier.__wrapped__(Fraction(1), Fraction(1, 10**6))


def test_a_delta_just_below_one_is_not_rounded_beyond_it():
    assert calibrate.gaussian_delta(Fraction(1, 20), Fraction(0)) < 1
    assert calibrate.gaussian_delta(Fraction(1, 60), Fraction(1)) == 1
    assert calibrate.gaussian_delta(Fraction(1, 10**9), Fraction(1)) == 1

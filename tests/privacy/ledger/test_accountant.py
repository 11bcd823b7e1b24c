import importlib
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace

import pytest

from dpcov.errors import LedgerError, NumericError
from dpcov.privacy.convert import zcdp_delta
from dpcov.privacy.ledger import accountant
from dpcov.privacy.ledger.accountant import planned_delta
from tests.privacy import privacy_oracle as oracle
from tests.privacy import spends
from tests.privacy.spends import ONE, TENTH, approximate, pure, zcdp

QUARTER, MARGIN = Fraction(1, 4), Fraction(1, 10**10)


def gaussian(multiplier):
    """A promise that is worth nothing beside its noise."""
    return spends.gaussian(multiplier, 50, "0.5")


def power(exponent):
    return oracle.mpf(10) ** exponent


def test_nothing_costs_nothing():
    assert planned_delta([], ONE) == 0


@pytest.mark.parametrize("count", [1, 2, 9, 40])
@pytest.mark.parametrize("epsilon", [TENTH, ONE, Fraction(3)])
def test_gaussians_compose_to_one_gaussian(count, epsilon):
    true = oracle.gaussian_delta(Fraction(3), epsilon)
    multiplier = Fraction(3) * Fraction(count**0.5)
    bound = oracle.number(planned_delta([gaussian(multiplier)] * count, epsilon))
    assert true * (1 - power(-12)) <= bound <= true * (1 + power(-3)) + power(-9)


@pytest.mark.parametrize(
    "epsilons", [["0.1"] * 20, ["0.1", "0.2", "0.3", "0.7"], ["0.05"] * 60, ["1.00005", "0.33333"]]
)
def test_pure_mechanisms_compose_to_their_worst_case(epsilons):
    parts = [Fraction(text) for text in epsilons]
    true = oracle.pure_composition_delta(parts, ONE)
    bound = oracle.number(planned_delta([pure(part) for part in parts], ONE))
    assert true <= bound <= true + oracle.mpf("3e-4")
    assert planned_delta([pure(part) for part in parts], sum(parts)) == 0


def test_approximate_mechanisms_compose_to_their_worst_case():
    delta = Fraction(1, 10**7)
    true = oracle.pure_composition_delta([TENTH] * 20, ONE)
    true = 1 - (1 - oracle.number(delta)) ** 20 * (1 - true)
    bound = oracle.number(planned_delta([approximate(TENTH, delta)] * 20, ONE))
    assert true <= bound <= true + oracle.mpf("3e-4")
    assert planned_delta([approximate(TENTH, delta)] * 10, ONE) == 10 * delta


def test_mixtures_cost_more_than_their_parts():
    mixed = planned_delta([pure(TENTH), gaussian(5)], ONE)
    assert mixed > planned_delta([gaussian(5)], ONE)
    assert mixed <= planned_delta([gaussian(5)], ONE - TENTH) + Fraction(1, 10**9)


def test_gaussians_are_merged_exactly_under_the_name_of_the_first():
    merge = accountant._merge_gaussians
    named = [replace(gaussian(3), mechanism="first"), replace(gaussian(4), mechanism="second")]
    assert merge(named) == [replace(gaussian("12/5"), mechanism="first")]
    assert merge([pure(1), gaussian(3), gaussian(4)]) == [gaussian("12/5"), pure(1)]
    for alone in ([gaussian(3), pure(1)], [pure(1), gaussian(3)]):
        assert merge(alone) == alone


def test_zcdp_sums_use_the_optimal_conversion():
    parts = [zcdp(Fraction(n, 1000)) for n in (1, 2, 3)]
    assert planned_delta(parts, ONE) == zcdp_delta(Fraction(6, 1000), ONE)
    with_delta = planned_delta([*parts, approximate(TENTH, Fraction(1, 1000))], ONE)
    assert with_delta == zcdp_delta(Fraction(11, 1000), ONE) + Fraction(1, 1000)


def test_tiny_deltas_are_not_read_off_floating_point_noise():
    true = oracle.gaussian_delta(Fraction(20), ONE)
    assert oracle.number(planned_delta([gaussian(40)] * 4, ONE)) >= true
    assert true < power(-80)


def test_huge_releases_are_bounded_without_a_distribution():
    assert planned_delta([pure(30), pure(30)], ONE) > Fraction(99, 100)
    assert planned_delta([gaussian("0.01")], ONE) == 1


@pytest.mark.parametrize("nonsense", [float("nan"), float("inf"), -1.0, -1.01e-10])
def test_impossible_results_are_refused(nonsense):
    with pytest.raises(NumericError, match="reliably"):
        accountant._trusted(nonsense, 2, Fraction(0))
    with pytest.raises(NumericError, match="smaller"):
        accountant._trusted(0.0, 2, Fraction(1, 1000))


@pytest.mark.parametrize(
    ("delta", "largest", "bound"),
    [
        (0.25, 0, QUARTER + 2 * MARGIN),
        (0.25, QUARTER + 2 * MARGIN, QUARTER + 2 * MARGIN),
        (-1e-10, 0, Fraction(-1e-10) + 2 * MARGIN),
        (1.0, 1, 1),
    ],
)
def test_a_computed_delta_is_raised_by_the_margin(delta, largest, bound):
    assert accountant._trusted(delta, 2, Fraction(largest)) == bound


def test_a_missing_library_is_explained(monkeypatch):
    def refuse(name, *arguments, **options):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(LedgerError, match=r"dpcov\[ledger\]"):
        planned_delta([pure(1)], ONE)


@dataclass
class Asked:
    """A stand-in for a loss distribution: its parts, and where its delta was asked for."""

    made_of: list
    asked: list

    def compose(self, other):
        return Asked(self.made_of + other.made_of, self.asked)

    def get_delta_for_epsilon(self, epsilon):
        self.asked.append((epsilon, *self.made_of))
        return 0.25


@pytest.fixture
def library(monkeypatch):
    """The library's interface, which notes what is asked of it."""
    asked = []

    def from_gaussian(*, standard_deviation, value_discretization_interval):
        return Asked([("gaussian", standard_deviation, value_discretization_interval)], asked)

    def from_parameters(parameters, interval):
        return Asked([(*parameters, interval)], asked)

    fake = SimpleNamespace(
        asked=asked,
        common=SimpleNamespace(DifferentialPrivacyParameters=lambda *numbers: numbers),
        privacy_loss_distribution=SimpleNamespace(
            from_gaussian_mechanism=from_gaussian, from_privacy_parameters=from_parameters
        ),
    )
    monkeypatch.setattr(accountant, "_library", lambda: fake)
    return fake


@pytest.mark.parametrize(
    ("spend", "passed"),
    [
        (gaussian(3), ("gaussian", math.nextafter(3.0, 0.0), 1e-4)),
        (gaussian("1/2"), ("gaussian", math.nextafter(0.5, 0.0), 1e-4)),
        (gaussian("0.4999"), None),
        (pure(2), (2.0 + 1e-6, 0.0, 1e-4)),
        (pure(20), (20.0 + 1e-6, 0.0, 1e-4)),
        (pure("20.001"), None),
        (approximate(2, "1e-6"), (2.0 + 1e-6, math.nextafter(1e-6, 1.0), 1e-4)),
        (approximate("20.001", "1e-6"), None),
        (zcdp(TENTH), None),
    ],
)
def test_the_library_is_given_safe_numbers_and_none_it_cannot_bear(spend, passed, library):
    found = accountant._distribution(library, spend)
    assert (found and found.made_of) == (passed and [passed])


def test_all_distributions_are_composed_and_a_margin_is_added_for_each(library):
    several = [pure(1), pure(2), approximate(1, "1e-6")]
    assert accountant._loss_distribution(several, Fraction(3)) == QUARTER + 3 * MARGIN
    parts = [accountant._distribution(library, spend).made_of[0] for spend in several]
    assert library.asked == [(math.nextafter(3.0, 0.0), *parts)]


def test_one_release_without_a_distribution_leaves_the_bound_out(library):
    assert accountant._loss_distribution([pure(1), pure(21), pure(1)], ONE) is None
    assert accountant._loss_distribution([pure(1)], ONE) == QUARTER + MARGIN
    assert library.asked == [(math.nextafter(1.0, 0.0), (1.0 + 1e-6, 0.0, 1e-4))]


def test_a_composition_must_cost_what_its_dearest_release_costs_alone(library):
    assert accountant._loss_distribution([approximate(1, "0.2"), approximate(1, "0.25")], ONE)
    with pytest.raises(NumericError, match="smaller than one of its releases"):
        accountant._loss_distribution([approximate(1, "0.26"), approximate(1, "0.1")], ONE)


def test_the_smallest_of_the_bounds_is_taken(monkeypatch):
    for bounds in ([3, 2, 4], [None, 5, 4], [None, 1, None], [1, 1, None]):
        for name, bound in zip(("_basic", "_zcdp", "_loss_distribution"), bounds, strict=True):
            monkeypatch.setattr(accountant, name, lambda spends, epsilon, bound=bound: bound)
        assert planned_delta([pure(1)], ONE) == min(bound for bound in bounds if bound is not None)


def test_the_basic_bound_adds_deltas_while_the_epsilons_fit():
    half, delta = Fraction(1, 2), Fraction(1, 1000)
    parts = [pure(half), approximate(half, delta), approximate(half, delta)]
    assert accountant._basic(parts[:2], ONE) == delta
    assert accountant._basic(parts, Fraction(3, 2)) == 2 * delta
    assert accountant._basic(parts, Fraction(149, 100)) is None
    assert accountant._basic([*parts, zcdp(TENTH)], Fraction(9)) is None


def test_the_zcdp_bound_is_at_most_one():
    costly, far = approximate(5, "0.6"), Fraction(200)
    assert accountant._zcdp([costly], TENTH) == accountant._zcdp([costly, costly], far) == 1
    assert accountant._zcdp([costly], far) == Fraction(6, 10) + zcdp_delta(Fraction(25, 2), far)


def test_the_delta_of_a_release_alone_is_that_of_its_own_distribution():
    assert accountant._delta_alone(pure(3), ONE) == 0
    assert accountant._delta_alone(approximate(3, "0.1"), ONE) == TENTH
    alone = oracle.number(accountant._delta_alone(gaussian(2), ONE))
    assert alone == pytest.approx(oracle.gaussian_delta(Fraction(2), ONE), rel=1e-15)


def test_floats_are_the_neighbors_of_the_nearest_and_zero_stays():
    third = Fraction(1, 3)
    assert accountant._float_down(third) == math.nextafter(1 / 3, 0)
    assert accountant._float_up(third) == math.nextafter(1 / 3, 1)
    assert accountant._float_down(Fraction(0)) == accountant._float_up(Fraction(0)) == 0.0
    assert accountant._float_up(Fraction(2)) == math.nextafter(2.0, 3.0)

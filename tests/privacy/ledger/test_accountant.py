import importlib
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace

import pytest

from dpcov.errors import LedgerError, NumericError
from dpcov.privacy.convert import zcdp_delta
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.privacy.ledger import accountant
from dpcov.privacy.ledger.accountant import planned_delta
from dpcov.privacy.ledger.spend import Spend
from tests.privacy import privacy_oracle as oracle

ONE = Fraction(1)
TENTH = Fraction(1, 10)


def gaussian(multiplier):
    promise = ApproxDP(epsilon=Fraction(50), delta=Fraction(1, 2))
    return Spend(promise=promise, mechanism="gaussian", noise_multiplier=Fraction(multiplier))


def pure(epsilon):
    return Spend(promise=PureDP(epsilon=Fraction(epsilon)), mechanism="pure")


def approximate(epsilon, delta):
    return Spend(
        promise=ApproxDP(epsilon=Fraction(epsilon), delta=Fraction(delta)), mechanism="approximate"
    )


def test_nothing_costs_nothing():
    assert planned_delta([], ONE) == 0


@pytest.mark.parametrize("count", [1, 2, 9, 40])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), ONE, Fraction(3)])
def test_gaussians_compose_to_one_gaussian(count, epsilon):
    true = oracle.gaussian_delta(Fraction(3), epsilon)
    multiplier = Fraction(3) * Fraction(count**0.5)
    bound = oracle.number(planned_delta([gaussian(multiplier)] * count, epsilon))
    assert (
        true * (1 - oracle.mpf(10) ** -12)
        <= bound
        <= true * (1 + oracle.mpf(10) ** -3) + oracle.mpf(10) ** -9
    )


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


def test_gaussians_are_merged_exactly():
    merged, other = accountant._merge_gaussians([gaussian(3), pure(1), gaussian(4)])
    assert (merged.noise_multiplier, other) == (Fraction(12, 5), pure(1))
    assert accountant._merge_gaussians([gaussian(3), pure(1)]) == [gaussian(3), pure(1)]


def test_zcdp_sums_use_the_optimal_conversion():
    parts = [Spend(promise=ZCDP(rho=Fraction(n, 1000)), mechanism="m") for n in (1, 2, 3)]
    assert planned_delta(parts, ONE) == zcdp_delta(Fraction(6, 1000), ONE)
    with_delta = planned_delta([*parts, approximate(TENTH, Fraction(1, 1000))], ONE)
    assert with_delta == zcdp_delta(Fraction(11, 1000), ONE) + Fraction(1, 1000)


def test_tiny_deltas_are_not_read_off_floating_point_noise():
    true = oracle.gaussian_delta(Fraction(20), ONE)
    assert oracle.number(planned_delta([gaussian(40)] * 4, ONE)) >= true
    assert true < oracle.mpf(10) ** -80


def test_huge_releases_are_bounded_without_a_distribution():
    assert planned_delta([pure(30), pure(30)], ONE) > Fraction(99, 100)
    assert planned_delta([gaussian("0.01")], ONE) == 1


@pytest.mark.parametrize("nonsense", [float("nan"), float("inf"), -1.0])
def test_impossible_results_are_refused(nonsense):
    with pytest.raises(NumericError, match="reliably"):
        accountant._trusted(nonsense, 2, Fraction(0))


def test_a_result_below_a_single_release_is_refused():
    with pytest.raises(NumericError, match="smaller"):
        accountant._trusted(0.0, 2, Fraction(1, 1000))


def test_a_missing_library_is_explained(monkeypatch):
    def refuse(name, *arguments, **options):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(LedgerError, match=r"dpcov\[ledger\]"):
        planned_delta([pure(1)], ONE)


@dataclass
class Asked:
    """A stand-in for a loss distribution: what it was made of, and at which epsilon its delta was asked for."""

    made_of: list
    asked: list
    delta: float = 0.25

    def compose(self, other):
        return Asked(self.made_of + other.made_of, self.asked, self.delta)

    def get_delta_for_epsilon(self, epsilon):
        self.asked.append((epsilon, *self.made_of))
        return self.delta


@pytest.fixture
def library(monkeypatch):
    """The library's interface, which notes what is asked of it."""
    asked = []
    fake = SimpleNamespace(
        asked=asked,
        common=SimpleNamespace(
            DifferentialPrivacyParameters=lambda epsilon, delta: (epsilon, delta)
        ),
        privacy_loss_distribution=SimpleNamespace(
            from_gaussian_mechanism=lambda *, standard_deviation, value_discretization_interval: (
                Asked([("gaussian", standard_deviation, value_discretization_interval)], asked)
            ),
            from_privacy_parameters=lambda parameters, interval: Asked(
                [(*parameters, interval)], asked
            ),
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
        (Spend(promise=ZCDP(rho=TENTH), mechanism="m"), None),
    ],
)
def test_the_library_is_given_numbers_on_the_safe_side_and_none_it_cannot_bear(
    spend, passed, library
):
    distribution = accountant._distribution(library, spend)
    assert (None if distribution is None else distribution.made_of) == (
        None if passed is None else [passed]
    )


def test_all_distributions_are_composed_and_a_margin_is_added_for_each(library):
    spends = [pure(1), pure(2), approximate(1, "1e-6")]
    assert accountant._loss_distribution(spends, Fraction(3)) == Fraction(1, 4) + Fraction(
        3, 10**10
    )
    parts = [accountant._distribution(library, spend).made_of[0] for spend in spends]
    assert library.asked == [(math.nextafter(3.0, 0.0), *parts)]


def test_one_release_without_a_distribution_leaves_the_bound_out(library):
    assert accountant._loss_distribution([pure(1), pure(21), pure(1)], ONE) is None
    assert accountant._loss_distribution([pure(1)], ONE) == Fraction(1, 4) + Fraction(1, 10**10)
    assert library.asked == [(math.nextafter(1.0, 0.0), (1.0 + 1e-6, 0.0, 1e-4))]


def test_a_composition_must_cost_what_its_dearest_release_costs_alone(library):
    assert accountant._loss_distribution(
        [approximate(1, "0.2"), approximate(1, "0.25")], ONE
    ) > Fraction(1, 4)
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
    assert (
        accountant._basic([*parts, Spend(promise=ZCDP(rho=TENTH), mechanism="m")], Fraction(9))
        is None
    )


def test_the_zcdp_bound_is_at_most_one():
    costly = approximate(5, "0.6")
    assert accountant._zcdp([costly], TENTH) == 1
    assert accountant._zcdp([costly, costly], Fraction(200)) == 1
    assert accountant._zcdp([costly], Fraction(200)) == Fraction(6, 10) + zcdp_delta(
        Fraction(25, 2), Fraction(200)
    )


def test_merged_gaussians_go_under_the_name_of_the_first():
    spends = [replace(gaussian(3), mechanism="first"), replace(gaussian(4), mechanism="second")]
    assert accountant._merge_gaussians(spends) == [replace(gaussian("12/5"), mechanism="first")]


def test_a_single_gaussian_stays_as_it_is_and_where_it_is():
    assert accountant._merge_gaussians([pure(1), gaussian(3)]) == [pure(1), gaussian(3)]
    assert accountant._merge_gaussians([pure(1), gaussian(3), gaussian(4)]) == [
        gaussian("12/5"),
        pure(1),
    ]


@pytest.mark.parametrize(
    ("delta", "largest", "bound"),
    [
        (0.25, 0, Fraction(1, 4) + Fraction(2, 10**10)),
        (0.25, Fraction(1, 4) + Fraction(2, 10**10), Fraction(1, 4) + Fraction(2, 10**10)),
        (-1e-10, 0, Fraction(-1e-10) + Fraction(2, 10**10)),
        (1.0, 1, 1),
    ],
)
def test_a_computed_delta_is_raised_by_the_margin(delta, largest, bound):
    assert accountant._trusted(delta, 2, Fraction(largest)) == bound


def test_a_delta_far_below_zero_is_refused():
    with pytest.raises(NumericError, match="reliably"):
        accountant._trusted(-1.01e-10, 2, Fraction(0))


def test_the_delta_of_a_release_alone_is_that_of_its_own_distribution():
    assert accountant._delta_alone(pure(3), ONE) == 0
    assert accountant._delta_alone(approximate(3, "0.1"), ONE) == TENTH
    assert oracle.number(accountant._delta_alone(gaussian(2), ONE)) == pytest.approx(
        oracle.gaussian_delta(Fraction(2), ONE), rel=1e-15
    )


def test_floats_are_the_neighbors_of_the_nearest_and_zero_stays():
    third = Fraction(1, 3)
    assert (accountant._float_down(third), accountant._float_up(third)) == (
        math.nextafter(1 / 3, 0),
        math.nextafter(1 / 3, 1),
    )
    assert accountant._float_down(Fraction(0)) == accountant._float_up(Fraction(0)) == 0.0
    assert accountant._float_up(Fraction(2)) == math.nextafter(2.0, 3.0)

import importlib
from fractions import Fraction

import pytest

from dpcov.errors import LedgerError, NumericError
from dpcov.privacy import accountant
from dpcov.privacy.accountant import planned_delta
from dpcov.privacy.convert import zcdp_delta
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.privacy.spend import Spend
from tests.privacy import privacy_oracle as oracle

ONE = Fraction(1)
TENTH = Fraction(1, 10)


def gaussian(multiplier):
    promise = ApproxDP(epsilon=Fraction(50), delta=Fraction(1, 2))
    return Spend(promise=promise, mechanism="gaussian", noise_multiplier=Fraction(multiplier))


def pure(epsilon):
    return Spend(promise=PureDP(epsilon=Fraction(epsilon)), mechanism="pure")


def approximate(epsilon, delta):
    return Spend(promise=ApproxDP(epsilon=Fraction(epsilon), delta=Fraction(delta)), mechanism="approximate")


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

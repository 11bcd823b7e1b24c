"""The noise of the honest sites alone keeps the budget."""

from fractions import Fraction

import mpmath
import pytest

from dpcov import Boolean, Budget, Numeric, Schema
from dpcov.errors import BudgetError, UsageError
from dpcov.federated import Study
from dpcov.federated.study import SMALLEST_SHARE

SCHEMA = Schema(columns={"age": Numeric(lower=0, upper=100), "ill": Boolean()})


def study(**changes: object) -> Study:
    facts = {"schema": SCHEMA, "budget": Budget(rho="0.25"), "sites": ("a", "b", "c", "d"), "honest": 3}
    return Study(**(facts | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize("honest", [2, 3, 4])
def test_honest_shares_reach_the_central_variance_and_hardly_more(neighbors: str, honest: int) -> None:
    plan = study(neighbors=neighbors, honest=honest)
    shares, central = plan.shares(), plan.central()
    for share, wanted in (
        (shares.diagonal, central.diagonal_variance),
        (shares.off_diagonal, central.off_diagonal_variance),
    ):
        assert wanted < honest * share < wanted * (1 + 1e-9)
    assert (shares.trace is None) == (neighbors == "add-remove-one")
    if shares.row_count is not None and central.row_count_variance is not None:
        assert honest * shares.row_count >= central.row_count_variance * 4**plan.bits


def _law(variance: float, count: int, reach: int = 40) -> dict[int, mpmath.mpf]:
    """Law of the sum of ``count`` discrete Gaussians."""
    weights = {x: mpmath.exp(-mpmath.mpf(x * x) / (2 * variance)) for x in range(-reach, reach + 1)}
    norm = mpmath.fsum(weights.values())
    single = {x: weight / norm for x, weight in weights.items()}
    law = single
    for _ in range(count - 1):
        longer: dict[int, mpmath.mpf] = {}
        for x, p in law.items():
            for y, q in single.items():
                longer[x + y] = longer.get(x + y, mpmath.mpf(0)) + p * q
        law = longer
    return law


def _divergence(law: dict[int, mpmath.mpf], shift: int, order: float) -> mpmath.mpf:
    terms = (p**order * law[x - shift] ** (1 - order) for x, p in law.items() if law.get(x - shift))
    return mpmath.log(mpmath.fsum(terms)) / (order - 1)


@pytest.mark.parametrize("variance", [0.5, 1.0])
def test_the_gap_bound_covers_sums_of_coarse_discrete_gaussians_and_is_needed(variance: float) -> None:
    """At coarse noise, where the gap shows, the plain Gaussian bound fails and the one with the gap holds."""
    with mpmath.workdps(30):
        law = _law(variance, 2)
        gap = 10 * mpmath.exp(-(mpmath.pi**2) * variance)
        ratios = []
        for shift in (1, 2, 3):
            for order in (1.0001, 1.5, 4.0):
                divergence = _divergence(law, shift, order)
                root = shift / mpmath.sqrt(2 * variance)
                assert divergence <= order / 2 * (root + gap) ** 2
                ratios.append(divergence / (order / 2 * root**2))
        assert max(ratios) > 1


def test_the_stated_gap_is_above_the_theorems() -> None:
    with mpmath.workdps(400):
        theorem = 10 * mpmath.exp(-(mpmath.pi**2) * SMALLEST_SHARE)
        assert theorem < mpmath.mpf(2) ** -880


def test_unusable_plans_are_refused() -> None:
    with pytest.raises(UsageError, match="two or more sites"):
        study(sites=("a",))
    with pytest.raises(UsageError, match="honest"):
        study(honest=5)
    with pytest.raises(UsageError, match="honest"):
        study(honest=1)
    with pytest.raises(BudgetError, match="rho"):
        study(budget=Budget(epsilon=1, delta="1e-6"))


def test_every_public_fact_changes_the_context() -> None:
    contexts = {
        plan.context
        for plan in (
            study(),
            study(round=2),
            study(honest=4),
            study(budget=Budget(rho="0.5")),
            study(neighbors="add-remove-one"),
            study(sites=("a", "b", "c", "e")),
            study(bits=18),
        )
    }
    assert len(contexts) == 7
    assert study().context == study(budget=Budget(rho=Fraction(1, 4))).context

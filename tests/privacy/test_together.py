import itertools
from fractions import Fraction

import pytest

from dpcov.errors import UsageError
from dpcov.privacy.calibrate import gaussian_delta, gaussian_noise_multiplier
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.privacy.together import divided, largest, spend_of, together

HALF, DELTA = Fraction(1, 2), Fraction(1, 10**6)
NORMAL = spend_of(ApproxDP(epsilon=HALF, delta=DELTA), "gaussian", is_gaussian=True)
OTHER = spend_of(ApproxDP(epsilon=HALF, delta=DELTA), "coinpress", is_gaussian=False)


def test_the_joint_epsilon_is_met_by_the_joint_multiplier_and_hardly_larger():
    promise = together([NORMAL] * 3)
    multiplier = gaussian_noise_multiplier(HALF, DELTA) / Fraction(3**0.5)
    assert gaussian_delta(multiplier, promise.epsilon) <= DELTA
    assert gaussian_delta(multiplier, promise.epsilon - Fraction(2, 10**6)) > DELTA
    assert promise.epsilon < 3 * HALF


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), HALF, Fraction(1), Fraction(10)])
@pytest.mark.parametrize("delta", [DELTA, Fraction(1, 10**30), Fraction(1, 10)])
def test_no_noise_that_keeps_a_promise_is_smaller_than_is_counted_for_it(epsilon, delta):
    counted = spend_of(ApproxDP(epsilon=epsilon, delta=delta), "gaussian", is_gaussian=True)
    assert counted.noise_multiplier is not None
    assert gaussian_delta(counted.noise_multiplier, epsilon) > delta


def test_a_single_promise_is_kept_up_to_a_step():
    promise = together([NORMAL])
    assert HALF <= promise.epsilon <= HALF + Fraction(2, 10**6) and promise.delta == DELTA


def test_the_largest_delta_is_kept():
    small = spend_of(ApproxDP(epsilon=HALF, delta=DELTA / 10), "gaussian", is_gaussian=True)
    assert together([NORMAL, small]).delta == DELTA


def test_noise_that_is_not_normal_adds_up():
    pure = spend_of(PureDP(epsilon=HALF), "laplace", is_gaussian=False)
    assert together([NORMAL, OTHER]) == ApproxDP(epsilon=Fraction(1), delta=2 * DELTA)
    assert together([NORMAL, pure]) == ApproxDP(epsilon=Fraction(1), delta=DELTA)


def test_rho_and_delta_have_no_common_sum():
    rho = spend_of(ZCDP(rho=HALF), "gaussian", is_gaussian=True)
    with pytest.raises(UsageError, match="make no joint promise"):
        together([NORMAL, rho])


@pytest.mark.parametrize("weights", [[1, 1], [1, 4], [1, 2, 3, 4], [1] * 12])
@pytest.mark.parametrize(
    "total",
    [
        *[PureDP(epsilon=HALF), ZCDP(rho=HALF), ApproxDP(epsilon=HALF, delta=DELTA)],
        # One step of rounding would not do for a fifth and four of this.
        ApproxDP(epsilon=Fraction(5, 7), delta=Fraction(1, 1000)),
    ],
)
def test_what_is_divided_keeps_the_total_and_uses_it(total, weights):
    parts = divided(total, weights)
    assert all(
        next(iter(vars(one).values())) <= next(iter(vars(other).values()))
        for one, other in itertools.pairwise(parts)
    )
    joint = together([spend_of(part, "gaussian", is_gaussian=True) for part in parts])
    name = "rho" if isinstance(total, ZCDP) else "epsilon"
    assert type(joint) is type(total)
    assert 0.999 * getattr(total, name) < getattr(joint, name) <= getattr(total, name)


@pytest.mark.parametrize("total", [PureDP(epsilon=Fraction(2)), ZCDP(rho=HALF)])
def test_what_is_divided_keeps_the_total_as_it_is_printed(total):
    """Parts were printed rounded up, and an account refused the last of them."""
    for weights in ([1, 1, 1], [1, 2, 3, 4, 5], [1] * 7):
        told = [str(part) for part in divided(total, weights)]
        whole = next(iter(vars(total).values()))
        assert sum(Fraction(each[1 : each.index(")")]) for each in told) <= whole


@pytest.mark.parametrize("weights", [[1] * 100, [1, 10**6]], ids=["many", "one is too small"])
def test_parts_that_leave_nothing_are_refused(weights):
    with pytest.raises(UsageError, match="fewer"):
        divided(ApproxDP(epsilon=Fraction(1, 10**5), delta=DELTA), weights)


def test_of_disjoint_tables_the_largest_holds():
    pure = spend_of(PureDP(epsilon=Fraction(1)), "laplace", is_gaussian=False)
    rho = spend_of(ZCDP(rho=HALF), "gaussian", is_gaussian=True)
    assert largest([pure, pure]) == PureDP(epsilon=Fraction(1))
    assert largest([pure, rho]) == ZCDP(rho=HALF)
    assert largest([NORMAL, pure]) == ApproxDP(epsilon=Fraction(1), delta=DELTA)
    with pytest.raises(UsageError, match="make no joint promise"):
        largest([NORMAL, rho])

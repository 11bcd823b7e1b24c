from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcov.errors import LedgerError
from dpcov.privacy.calibrate import gaussian_noise_multiplier
from dpcov.privacy.convert import zcdp_rho
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.privacy.ledger import composition as rules
from dpcov.privacy.ledger.composition import check_composition, choose_composition, spent
from tests.privacy import privacy_oracle as oracle
from tests.privacy.spends import MILLIONTH, ONE, TENTH, approximate, gaussian, pure, zcdp

PURE, RHO = PureDP(epsilon=ONE), ZCDP(rho=ONE)
TOTAL = ApproxDP(epsilon=ONE, delta=MILLIONTH)
EXACT = zcdp_rho(ONE, MILLIONTH)
MULTIPLIER = gaussian_noise_multiplier(ONE, MILLIONTH)


def fits(composition, total, *spends):
    return rules.is_within(composition, total, spends)


def test_sums_are_exact_and_nothing_more_fits():
    tiny = "1e-200"
    assert fits("pure", PURE, *[pure(TENTH)] * 10)
    assert not fits("pure", PURE, *[pure(TENTH)] * 10, pure(tiny))
    assert fits("zcdp", RHO, zcdp("0.5"), pure(1))
    assert not fits("zcdp", RHO, zcdp("0.5"), pure(1), zcdp(tiny))
    assert fits("zcdp", RHO, approximate(9, "0.1", rho=ONE))
    half = approximate("0.5", MILLIONTH / 2)
    assert fits("basic", TOTAL, half, half)
    assert not fits("basic", TOTAL, half, half, pure(tiny))
    assert not fits("basic", TOTAL, half, approximate("0.1", MILLIONTH))


WHOLE = [
    *[(pure(1), "basic"), (zcdp(EXACT), "zcdp"), (gaussian(MULTIPLIER), "gaussian")],
    *[(approximate(1, MILLIONTH), "basic"), (approximate(1, MILLIONTH, rho=EXACT), "zcdp")],
]
PARTS = [
    *[(pure("0.001"), "zcdp"), (zcdp("0.001"), "zcdp"), (gaussian(50), "gaussian")],
    (approximate("0.5", "1e-7"), "basic"),
    (approximate("0.5", MILLIONTH / 2, rho=zcdp_rho(ONE / 2, MILLIONTH / 2)), "zcdp"),
]


@pytest.mark.parametrize(("spend", "composition"), [*WHOLE, *PARTS])
def test_the_first_release_chooses_the_rule_that_costs_it_least(spend, composition):
    assert choose_composition(TOTAL, spend) == composition
    assert fits(composition, TOTAL, spend)
    if (spend, composition) in WHOLE:
        assert not fits(composition, TOTAL, spend, spend)


def test_gaussians_fill_the_total_tightly():
    parts = [gaussian(2 * MULTIPLIER)] * 4
    assert fits("gaussian", TOTAL, *parts)
    assert not fits("gaussian", TOTAL, *parts, gaussian(10**9))
    composed, allowed = oracle.gaussian_delta(MULTIPLIER, ONE), oracle.number(MILLIONTH)
    assert allowed * (1 - oracle.mpf(10) ** -9) <= composed <= allowed


UNCOUNTED = [
    *[("pure", PURE, zcdp(TENTH)), ("zcdp", RHO, approximate(TENTH, MILLIONTH))],
    *[("basic", TOTAL, zcdp(TENTH)), ("gaussian", TOTAL, pure(TENTH)), (None, PURE, zcdp(TENTH))],
]


@pytest.mark.parametrize(("composition", "total", "spend"), UNCOUNTED)
def test_a_release_that_a_rule_cannot_count_is_refused(composition, total, spend):
    with pytest.raises(LedgerError, match="cannot count") as caught:
        fits(composition or choose_composition(total, spend), total, spend)
    counted = {"basic": "ε, or in ε and δ.", "gaussian": "with a δ or in ρ.", "zcdp": "in ρ or ε"}
    assert counted.get(composition, "budgets in ε alone.") in str(caught.value)
    assert "Choose such a release" in str(caught.value)


@pytest.mark.parametrize(
    ("composition", "total"), [("zcdp", PURE), ("basic", RHO), ("all", TOTAL), ("planned", TOTAL)]
)
def test_rules_that_do_not_suit_the_total_are_refused(composition, total):
    with pytest.raises(LedgerError, match="Use one of"):
        check_composition(composition, total)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_filters_hold_against_custodians_who_choose_after_each_answer(data):
    # Worst-case pure and leaking releases, chosen anew after each answer, keep delta.
    total = ApproxDP(epsilon=ONE, delta=Fraction(3, 10))
    composition = data.draw(st.sampled_from(["basic", "zcdp"]))
    choices = [(Fraction(n, 10), Fraction(0)) for n in (1, 2, 4, 5, 7)]
    choices += [(Fraction(n, 10), TENTH) for n in (1, 4)] * (composition == "basic")

    def true_delta(spends, loss, depth):
        epsilon, leak = data.draw(st.sampled_from(choices))
        spend = approximate(epsilon, leak) if leak else pure(epsilon)
        if depth == 0 or not fits(composition, total, *spends, spend):
            return oracle.hockey_stick(loss, total.epsilon)
        high, delta = 1 / (1 + oracle.mp.exp(-oracle.number(epsilon))), oracle.number(leak)
        up = true_delta([*spends, spend], loss + epsilon, depth - 1)
        down = true_delta([*spends, spend], loss - epsilon, depth - 1)
        return delta + (1 - delta) * (high * up + (1 - high) * down)

    assert true_delta([], Fraction(0), 4) <= oracle.number(total.delta)


def test_long_fractions_are_rounded_up_to_512_binary_places_and_others_kept():
    kept, rounded = Fraction(1, 2**2047), Fraction(5, 3) + Fraction(1, 2**2048)
    assert rules._short(kept) == kept
    assert rules._short(Fraction(1, 2**2048)) == Fraction(1, 2**512)
    short = rules._short(rounded)
    assert rounded < short < rounded + Fraction(1, 2**512)
    assert short.denominator <= 2**512
    unlike = [Fraction(1, prime) for prime in range(10**9, 10**9 + 400)]
    added = spent("zcdp", RHO, map(zcdp, unlike))["rho"]
    assert sum(unlike) < added < sum(unlike) + Fraction(400, 2**512)
    assert added.denominator.bit_length() < 2100

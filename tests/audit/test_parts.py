"""The parts of an audit: neighboring tables, readers that miss nothing, honest and close bounds."""

import itertools
import tracemalloc
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from scipy import stats

from dpcov.audit import half_noise
from dpcov.audit.lesson import learn, projection, teach
from dpcov.audit.limits import Rule, bound_for, gaussian_epsilon, largest_bound, shift_below
from dpcov.audit.neighboring import attaining, far_out, known_pairs, random_pair, turned
from dpcov.audit.releases import LOW_BITS, OFTEN, Reader, _places
from dpcov.privacy.budget import Budget
from dpcov.privacy.calibrate import gaussian_noise_multiplier
from dpcov.privacy.guarantee import NEIGHBORS, ZCDP, ApproxDP, PureDP
from dpcov.published.file.columns import EncodedColumn
from dpcov.published.file.statistics import NoiseLaw, NoisyStatistics
from tests.audit.bounds import clopper_pearson, lower_bound_epsilon, lower_bound_rho

RUNS = 20_000
LAWS = [(0.7, 0.3), (0.6, 0.1), (0.25, 0.05), (0.1, 0.1)]
"""Probabilities of a right and of a wrong guess."""


@pytest.mark.parametrize("columns", [2, 5])
@pytest.mark.parametrize("relation", NEIGHBORS)
def test_every_pair_is_neighboring_and_in_the_unit_ball(relation, columns):
    random = np.random.default_rng(1)
    made = [random_pair(relation, columns, random) for _ in range(50)]
    for pair in [*known_pairs(relation, columns), *far_out(relation, columns), *made]:
        others = pair.second[1:] if relation == "replace-one" else pair.second
        assert np.array_equal(pair.first[1:], others)
        assert max(np.linalg.norm(rows, axis=1).max() for rows in (pair.first, pair.second)) <= 1
        assert pair.first.shape[1] == pair.second.shape[1] == columns


@pytest.mark.parametrize("columns", [2, 5])
@pytest.mark.parametrize(("relation", "frobenius"), [*zip(NEIGHBORS, (2**0.5, 1), strict=True)])
def test_the_pairs_attain_the_frobenius_sensitivity_also_turned(relation, frobenius, columns):
    best = attaining(relation, columns)
    for pair in (best, turned(best)):
        difference = pair.first.T @ pair.first - pair.second.T @ pair.second
        assert np.linalg.norm(difference) == pytest.approx(frobenius)
    assert np.allclose(np.abs(pair.first[0]), 1 / np.sqrt(columns))


@pytest.mark.parametrize("count", [0, 1, 500, 999, 1000])
def test_confidence_limits_invert_the_binomial_tails(count):
    low, high = clopper_pearson(count, 1000, 1e-9)
    assert low <= count / 1000 <= high
    if count > 0:
        assert stats.binom.sf(count - 1, 1000, low) == pytest.approx(1e-9, rel=1e-6)
    if count < 1000:
        assert stats.binom.cdf(count, 1000, high) == pytest.approx(1e-9, rel=1e-6)


def divergence(right, wrong):
    """Rho of a right guess against a wrong one: the largest D_a / a, by a fine grid of orders."""
    if right <= wrong:
        return 0.0
    orders = np.linspace(1.001, 20, 5000)
    yes = right**orders * wrong ** (1 - orders)
    no = (1 - right) ** orders * (1 - wrong) ** (1 - orders)
    return float(np.max(np.log(yes + no) / (orders - 1) / orders))


@pytest.mark.parametrize(("right", "wrong"), LAWS)
@pytest.mark.parametrize("kind", ["pure", "approximate", "zcdp"])
def test_no_law_is_bounded_beyond_its_number_more_often_than_stated(kind, right, wrong):
    # All outcomes of 200 releases are enumerated, so the probability of a wrong bound is exact.
    size, alpha, zero, delta = 200, 0.1, Fraction(0), Fraction(1, 20)
    approximate = ApproxDP(epsilon=zero, delta=delta)
    promises = {"pure": PureDP(epsilon=zero), "approximate": approximate, "zcdp": ZCDP(rho=zero)}
    odds = max(right - delta * (kind == "approximate"), 1e-9) / wrong
    truth = divergence(right, wrong) if kind == "zcdp" else max(0.0, np.log(odds))
    counts = [(r, w) for r, w in itertools.product(range(size + 1), repeat=2) if r + w <= size]
    rights, wrongs = np.array(counts).T
    bounds = bound_for(promises[kind])(rights, wrongs, size, alpha)
    outcomes = np.stack([rights, wrongs, size - rights - wrongs], axis=1)
    chances = stats.multinomial.pmf(outcomes, size, [right, wrong, 1 - right - wrong])
    assert chances[bounds > truth + 1e-9].sum() <= alpha
    assert chances[bounds > 0.2 * truth].sum() > 0.5 or truth < 1


@pytest.mark.parametrize("shift", [0.0, 0.5, -1.0, 4.0])
def test_normal_noise_is_bounded_close_to_the_truth_and_below_it(shift):
    random = np.random.default_rng(0)
    scores = random.normal(shift, size=RUNS), random.normal(size=RUNS)
    assert 0.8 * abs(shift) <= shift_below(*scores, 1e-9) <= abs(shift)
    assert shift**2 / 8 <= lower_bound_rho(*scores) <= max(shift**2 / 2, 0.001)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_laplace_noise_attains_its_epsilon_and_delta_is_granted(epsilon):
    random = np.random.default_rng(1)
    first, second = epsilon + random.laplace(size=RUNS), random.laplace(size=RUNS)
    assert 0.7 * epsilon < lower_bound_epsilon(first, second) <= epsilon
    leaks = (random.random(RUNS) < 0.2).astype(float)
    assert lower_bound_epsilon(leaks, np.zeros(RUNS)) > 3
    assert lower_bound_epsilon(leaks, np.zeros(RUNS), delta=Fraction(1, 4)) == 0.0


@pytest.mark.parametrize(("epsilon", "delta"), [("1/2", "1e-6"), ("2", "1e-3"), ("8", "1e-9")])
def test_epsilon_of_a_shift_inverts_the_calibration(epsilon, delta):
    multiplier = gaussian_noise_multiplier(Fraction(epsilon), Fraction(delta))
    found = gaussian_epsilon(1 / float(multiplier), float(Fraction(delta)))
    assert found == pytest.approx(float(Fraction(epsilon)), rel=1e-6)


def test_half_the_noise_is_four_times_rho_and_twice_epsilon():
    assert half_noise(Budget(rho="0.5")) == Budget(rho=2)
    assert half_noise(Budget(epsilon=1)) == Budget(epsilon=2)
    for epsilon in (1, 4):
        budget = Budget(epsilon=epsilon, delta="1e-3")
        both = (budget, half_noise(budget))
        assert float(both[1].zcdp_rho() / budget.zcdp_rho()) == pytest.approx(4)
        whole, half = (gaussian_noise_multiplier(each.epsilon, each.delta) for each in both)
        assert 0.5 <= half / whole < 0.53


def finished(*matrices, note="one"):
    return [
        NoisyStatistics(layout="estimate", arrays={"second_moment": each}, notes=(note,))
        for each in matrices
    ]


def test_shapes_notes_and_last_bits_are_all_read():
    tables = [
        finished(*(np.diag([rest + each % 3, 1.0]) for each in range(OFTEN)), note=note)
        for rest, note in ((0.0, "one"), (2.0**-10, "other"))
    ]
    first, second = map(Reader([*tables[0], *tables[1]], n_rows=4), tables)
    assert set(first.labels).isdisjoint(second.labels)
    assert set(first.numbers.ravel()) == {0.0, 1.0, 2.0}
    assert LOW_BITS[1] > 10
    bits = zip(first.low_bits.T, second.low_bits.T, strict=True)
    assert any(set(one).isdisjoint(other) for one, other in bits)


def test_releases_whose_arrays_have_no_shape_in_common_are_read_by_their_matrices():
    law = NoiseLaw(family="discrete-gaussian", diagonal_variance="1", off_diagonal_variance="1")
    (one,) = finished(np.diag([1.0, 2.0]))
    other = NoisyStatistics(layout="sscp", arrays={"sscp": np.diag([12, 8])}, noise=law)
    read = Reader([one, other] * OFTEN, n_rows=4)
    first, second = map(read, ([one, other], [other, one]))
    assert sorted(first.labels) == [0, 1] and list(first.labels) == list(second.labels[::-1])
    assert [*first.numbers[:, 0], *second.numbers[:, 0]] == [1.0, 3.0, 3.0, 1.0]
    assert first.low_bits.shape == second.low_bits.shape == (2, 0)


def test_a_geometry_is_read_and_the_law_is_stated_for_one_geometry_only():
    columns = [
        EncodedColumn(name=name, source="", kind="numeric", center=3.0, half_range=5.0)
        for name in "ab"
    ]
    law = NoiseLaw(family="gaussian", diagonal_variance="1", off_diagonal_variance="1")
    arrays = {"second_moment": np.eye(2), "linear": np.array([[7, 11]])}
    made = NoisyStatistics(
        layout="estimate", arrays=arrays, columns=tuple(columns), norm_bound=2.5, noise=law
    )
    made = msgspec.structs.replace(made, linear_exponent=-1, lost=0.125)
    read = Reader([made] * OFTEN, n_rows=4)
    assert {3.0, 5.0, 2.5, -1.0, 0.125, 3.5, 5.5} <= set(read([made]).numbers.ravel())
    other = msgspec.structs.replace(made, columns=(columns[0], replace(columns[1], half_range=6.0)))
    assert (read([made]).family, read([made, other]).family) == ("gaussian", "")
    assert (
        read([msgspec.structs.replace(made, linear_exponent=None)]).numbers.shape
        == read([made]).numbers.shape
    )


def test_rare_labels_share_a_number_and_the_order_of_tables_shows_in_none():
    notes = [f"{table}, {kind}" for kind in "ab" for table in "21"]
    every = [each for note in notes for each in finished(*[np.eye(2)] * OFTEN, note=note)]
    rare = [
        each
        for note in ("rare", "as rare")
        for each in finished(*[np.eye(2)] * (OFTEN - 1), note=note)
    ]
    orders = ([*every, *rare], [*rare, *every[::-1]])
    one, other = (Reader(known, n_rows=4)(orders[0]).labels for known in orders)
    assert np.array_equal(one, other) and len(set(one)) == 5
    unseen = Reader(every, n_rows=4)([*rare, *finished(np.eye(2), note="never seen")])
    assert set(unseen.labels) == {4}


def test_what_was_learned_is_judged_on_other_releases_and_rules_share_alpha():
    random = np.random.default_rng(5)
    alike = [finished(*map(np.diag, random.normal(size=(300, 2)))) for _ in range(2)]
    assert teach(*alike, PureDP(epsilon=Fraction(0)), 4, 0.05).promising < 0.3
    scores, bound = random.normal([[1.0], [0.0]], size=(2, 500)), bound_for(ZCDP(rho=Fraction(1)))
    one, five = (largest_bound([Rule(0.0, 1.0)] * n, bound, scores, n * 1e-3) for n in (1, 5))
    assert one == five > 0


def test_trees_see_what_only_two_numbers_together_tell():
    # The sign of a product: no number tells anything by itself, and no projection does.
    random = np.random.default_rng(4)
    signs = random.choice([-1.0, 1.0], size=(3_000, 2))
    noisy = [
        finished(*(np.diag(each + random.normal(size=2)) for each in signs[signs.prod(1) == side]))
        for side in (1.0, -1.0)
    ]
    tables = list(map(Reader([*noisy[0], *noisy[1]], n_rows=4), noisy))
    score = learn(*(each.take(slice(0, None, 2)) for each in tables))["trees"]
    first, second = (score(each.take(slice(1, None, 2))) for each in tables)
    assert (np.mean(first > 0) + np.mean(second < 0)) / 2 > 0.7


def test_few_releases_of_many_numbers_take_little_memory():
    rng, k = np.random.default_rng(0), 2000
    widths, apart = rng.uniform(1, 1e6, k), 0.5
    first, second = rng.normal(size=(2, 40, k)) * widths
    tracemalloc.start()
    direction = projection(first + apart * widths, second)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A matrix of all pairs takes 32 MB.
    assert peak < 10e6
    fresh = rng.normal(size=(500, k)) * widths @ direction
    assert apart * widths @ direction > 4 * fresh.std()


def test_a_symmetric_array_is_read_once_and_another_as_it_is():
    symmetric = np.arange(9).reshape(3, 3) + np.arange(9).reshape(3, 3).T
    np.testing.assert_array_equal(_places([symmetric, 2 * symmetric]), [0, 3, 4, 6, 7, 8])
    np.testing.assert_array_equal(_places([symmetric, np.arange(9).reshape(3, 3)]), np.arange(9))
    np.testing.assert_array_equal(_places([np.arange(3)]), np.arange(3))
    stacked = np.array([symmetric, symmetric])
    assert len(_places([stacked])) == 12

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

import dpcov
from dpcov.data.moments import gather
from dpcov.data.questions import Ask
from dpcov.mechanisms.blocks.gaussian_scale import ROW_COUNT_WEIGHT
from dpcov.mechanisms.stratified import Stratified, _run_sum
from dpcov.mechanisms.stratified_rules import Run, trace_weight
from dpcov.noise.entropy import SeededEntropy
from tests.mechanisms.chosen import problem

RELATIONS = ("replace-one", "add-remove-one")
BITS = 5
SHELLS = 5


def rows_of_norm(norms, d, seed=0):
    rows = np.random.default_rng(seed).normal(size=(len(norms), d))
    return rows * (np.array(norms) / np.linalg.norm(rows, axis=1))[:, None]


def gathered(rows, shells=SHELLS, bits=BITS):
    d = rows.shape[1]
    return gather([rows], d, Stratified(shells=shells, bits=bits).moments_spec(problem(d)))


def exact_shift(old, new, groups, neighbors):
    """Squared shift of all that is released, in units of a diagonal entry's variance."""
    before, after = gathered(old), gathered(new)
    traces = sum(
        (a.sscp.trace() - b.sscp.trace()) ** 2
        for a, b in zip(before.strata, after.strata, strict=True)
    )
    matrices = joint = 0
    for group in groups:
        one, two = _run_sum(before, group), _run_sum(after, group)
        matrices += int(np.sum((one.to_float() - two.to_float()) ** 2))
        joint += one.trace() - two.trace()
    count = (len(old) - len(new)) ** 2 * (16**BITS // 16)
    free = joint**2 if neighbors == "replace-one" else 0
    return trace_weight(old.shape[1]) * traces + matrices + free + count


def allowed(d, neighbors, rows_per_person=1, shells=SHELLS):
    mechanism = Stratified(shells=shells, bits=BITS)
    return mechanism._squared_sensitivity(problem(d, neighbors, rows_per_person))


def singles(shells=SHELLS):
    return [Run(shell, shell, shell) for shell in range(shells)]


WHOLE = Run(0, 0, SHELLS - 1)


@st.composite
def groupings(draw):
    cuts = sorted(draw(st.sets(st.integers(0, SHELLS - 1), min_size=1)))
    groups = [
        Run(a, draw(st.integers(a, b - 1)), b - 1)
        for a, b in zip(cuts, [*cuts[1:], SHELLS], strict=True)
    ]
    return [group for group in groups if draw(st.booleans())]


@given(
    st.integers(1, 6),
    st.integers(1, 3),
    st.sampled_from(RELATIONS),
    groupings(),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=200, deadline=None)
@example(1, 1, "replace-one", [WHOLE], 0)
def test_neighbors_stay_within_the_sensitivity_for_every_choice_of_groups(
    d, k, neighbors, groups, seed
):
    random = np.random.default_rng(seed)
    others, mine, changed = (
        rows_of_norm(2.0 ** -random.uniform(0, SHELLS, size), d, seed + size) for size in (7, k, k)
    )
    old = np.vstack([others, mine])
    new = np.vstack([others, changed]) if neighbors == "replace-one" else others
    assert exact_shift(old, new, groups, neighbors) <= allowed(d, neighbors, k)


@pytest.mark.parametrize("first", [1.0, 0.5])
def test_two_orthogonal_rows_attain_the_sensitivity(first):
    # The row moves from one shell to another, or stays in its shell.
    old, new = np.array([[first, 0.0]]), np.array([[0.0, 0.5]])
    shift = exact_shift(old, new, singles(), "replace-one")
    unit = 4**BITS
    assert shift == (2 * (1 + trace_weight(2)) if first == 1.0 else 2) * unit**2
    assert (
        shift
        <= allowed(2, "replace-one")
        < shift + 2 * trace_weight(2) * unit**2 + 5 * unit * SHELLS * 2
    )


def test_one_row_more_attains_the_sensitivity_for_k_rows():
    old = np.repeat([[0.5, 0.0]], 3, axis=0)
    shift = exact_shift(old, old[:0], singles(), "add-remove-one")
    assert shift == (9 * (1 + trace_weight(2)) + 9 * ROW_COUNT_WEIGHT) * 16**BITS
    assert shift <= allowed(2, "add-remove-one", 3)


def test_a_trace_that_is_not_charged_would_be_noticed():
    old, new = np.array([[1.0, 0.0]]), np.array([[0.0, 0.5]])
    without_rounding = 2 * 16**BITS
    assert exact_shift(old, new, singles(), "replace-one") > without_rounding * (
        1 + trace_weight(2) / 2
    )


def test_joined_shells_stay_within_the_sensitivity_where_rounding_is_against_them():
    # A changed row may carry every entry of a joined shell across a multiple of the ratio of the
    # units.
    d = 4

    def table(norm):
        return rows_of_norm([1.0, 0.06, norm], d, 1)

    worst = max(
        exact_shift(table(small), table(large), [WHOLE], "replace-one")
        for small in np.linspace(0.03, 0.06, 15)
        for large in np.linspace(0.9, 1.0, 5)
    )
    assert worst <= allowed(d, "replace-one")


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("budget", [dpcov.Budget(rho="0.3"), dpcov.Budget(epsilon=1, delta="1e-6")])
def test_the_noise_is_as_large_as_the_proof_asks(neighbors, budget):
    mechanism, asked = Stratified(), problem(6, neighbors, 2)
    calibration = mechanism.calibrate(asked, budget)
    squared = mechanism._squared_sensitivity(asked)
    multiplier = calibration.noise_multiplier
    assert multiplier**2 * squared <= calibration.diagonal_variance
    if budget.rho is not None:
        assert calibration.diagonal_variance >= squared / (2 * budget.rho)
    assert calibration.trace_variance >= calibration.diagonal_variance / trace_weight(6)
    assert calibration.diagonal_variance % 2 == 0


def signal_to_noise(draw_one, pair, claim, runs=1200):
    # Shift over standard deviation of the best linear score, estimated from releases of both
    # tables.
    mechanism = Stratified(shells=2, bits=BITS)
    calibration = mechanism.calibrate(problem(11), claim)
    exact = [gathered(rows, shells=2) for rows in pair]
    change = [
        a.sscp.to_float() - b.sscp.to_float()
        for a, b in zip(*(e.strata for e in exact), strict=True)
    ]
    entropy = SeededEntropy(5)

    def score(made):
        arrays = made.arrays
        assert list(arrays["first_shell"]) == [0, 1]
        matrices = sum(np.vdot(y, c) for y, c in zip(arrays["sscp"], change, strict=True))
        traces = sum(t * np.trace(c) for t, c in zip(arrays["trace"], change, strict=True))
        joint = arrays["joint_trace"][0] * sum(np.trace(c) for c in change)
        return matrices + float(trace_weight(11)) * traces + joint

    first, second = (
        np.array([draw_one(mechanism, each, calibration, entropy, score) for _ in range(runs)])
        for each in exact
    )
    return (first.mean() - second.mean()) / math.sqrt((first.var() + second.var()) / 2)


def once(mechanism, moments, calibration, entropy, score):
    return score(mechanism.draw(Ask.saved(moments), calibration, problem(11), entropy))


def twice(mechanism, moments, calibration, entropy, score):
    return once(mechanism, moments, calibration, entropy, score) + once(
        mechanism, moments, calibration, entropy, score
    )


def test_the_audit_finds_the_promised_privacy_loss_and_a_stratum_released_twice():
    # The score is normal: with 1200 draws each, its shift is known within 0.06; 6.2 of these are
    # 1e-9.
    claim = dpcov.Budget(rho=1)
    pair = np.eye(11)[:1], np.eye(11)[1:2] / 2
    largest = math.sqrt(2 * float(claim.rho))
    assert largest - 0.45 < signal_to_noise(once, pair, claim) < largest + 0.3
    assert signal_to_noise(twice, pair, claim) > largest + 0.3


def test_shortened_rows_keep_their_direction_and_get_the_radius_of_the_shell_they_join():
    moments = gathered(np.array([[0.9, 0.0], [0.0, 0.1]]), bits=20)
    shortened = _run_sum(moments, Run(0, 3, SHELLS - 1)).to_float() / 4.0**20
    np.testing.assert_allclose(shortened, np.diag([1.0, 0.64]), atol=1e-5)


def relative_errors(rows, norm_bound, budget, repeats=5, mechanism="stratified"):
    exact = dpcov.moments(
        rows,
        norm_bound=norm_bound,
        **({"shells": 32, "normalized": rows.shape[1] <= 64} if mechanism == "stratified" else {}),
    )
    truth = rows.T @ rows / len(rows)
    errors = []
    for seed in range(repeats):
        made = dpcov.second_moment(
            exact, budget=budget, mechanism=mechanism, entropy=SeededEntropy(seed)
        )
        errors.append(np.linalg.norm(made.second_moment("shrink") - truth) / np.linalg.norm(truth))
    return float(np.mean(errors))


def test_rows_of_different_norms_are_released_far_better_than_in_one_piece():
    norms = np.repeat([1.0, 0.5, 0.25, 0.125], [200, 800, 3000, 16000]) * 0.999
    rows = rows_of_norm(norms, 20) * np.linspace(1.0, 0.2, 20)
    budget = dpcov.Budget(rho="0.01")
    plain = relative_errors(rows, 1.0, budget, mechanism="gaussian")
    assert relative_errors(rows, 1.0, budget) < 0.5 * plain


@pytest.mark.parametrize("d", [1, 3, 20])
@pytest.mark.parametrize(("loose_bound", "factor"), [(1024.0, 1.3), (1000.0, 5.0)])
def test_a_norm_bound_that_is_far_too_large_costs_no_more_than_the_misfit_of_shells(
    d, loose_bound, factor
):
    # A factor that is no power of two leaves a shell up to twice as wide: four times the noise.
    rows = rows_of_norm(np.full(20_000, 0.9), d) * np.linspace(1.0, 0.2, d)
    budget, repeats = dpcov.Budget(rho="0.1"), 60 if d == 1 else 10
    tight, loose = (relative_errors(rows, bound, budget, repeats) for bound in (1.0, loose_bound))
    assert loose < factor * tight


@pytest.mark.parametrize("d", [1, 3, 10])
@pytest.mark.parametrize("n", [100, 3000])
def test_few_features_with_a_tight_bound_lose_nothing_to_one_layer_of_noise(d, n):
    rows = rows_of_norm(np.full(n, 0.9), d) * np.linspace(1.0, 0.2, d)
    budget, repeats = dpcov.Budget(rho=1), {1: 150, 3: 40, 10: 10}[d]
    plain = relative_errors(rows, 1.0, budget, repeats, mechanism="gaussian")
    assert relative_errors(rows, 1.0, budget, repeats) < 1.25 * plain


@pytest.mark.parametrize("d", [11, 80])
def test_a_table_that_drowns_is_estimated_as_zero(d):
    rows = rows_of_norm(np.full(3, 0.9), d)
    errors = relative_errors(rows, 1.0, dpcov.Budget(rho="0.01"))
    assert errors == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(("d", "radius"), [(12, 0.02), (70, 1e-5)])
def test_a_table_that_drowns_comes_with_an_upper_bound_of_its_error(d, radius):
    """Twice a standard deviation: one table in 40 may lie above.  Size 1e-9 for 40 releases."""
    rows = rows_of_norm([radius] * 30, d)
    truth, raw, within, drowned = np.linalg.norm(rows.T @ rows / len(rows)), [], 0, 0
    exact = gathered(rows, shells=32, bits=20)
    for seed in range(40):
        made = dpcov.second_moment(
            exact,
            budget=dpcov.Budget(rho="0.05"),
            mechanism="stratified",
            entropy=SeededEntropy(seed),
        )
        if np.any(made.second_moment()):
            continue
        drowned += 1
        bound = made.expected_error("shrink")
        within += truth <= bound <= 1.0
        raw.append(bound)
        if drowned == 1:
            assert "drowned" in made.summary()
    assert drowned >= 35
    assert within >= stats.binom.ppf(1e-9, drowned, 1 - stats.norm.sf(2))
    # The noise on one number, whatever the number of columns.
    gaussian = dpcov.second_moment(
        rows, norm_bound=1.0, budget=dpcov.Budget(rho="0.05"), mechanism="gaussian"
    )
    assert np.mean(raw) < 25 * gaussian.expected_error() / d

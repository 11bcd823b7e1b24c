from dataclasses import replace
from fractions import Fraction
from math import ceil

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

import dpcov
from dpcov.analysis import mean_intervals
from dpcov.data.exact.moments import Moments, part_energies
from dpcov.data.questions import Ask
from dpcov.errors import BudgetError
from dpcov.mechanisms.gaussian import ROW_COUNT_WEIGHT
from dpcov.mechanisms.stratified import (
    Stratified,
    StratifiedCalibration,
    _aligned,
    _Edges,
    _run_sum,
    _shells,
)
from dpcov.mechanisms.stratified_rules import Run, trace_weight
from dpcov.noise.entropy import BlockEntropy, SeededEntropy
from dpcov.noise.lattice import LARGEST_STD
from dpcov.privacy.guarantee import ZCDP
from dpcov.published.estimate.unit import unit_estimate
from tests.data.reading import gather
from tests.mechanisms.chosen import choose, problem, rows_of_norm, shell_sscps
from tests.releases import released, released_of
from tests.statistical.goodness import assert_mean_square, mean_square_samples

RELATIONS = ("replace-one", "add-remove-one")
BITS = 5
SHELLS = 5


def gathered(rows, shells=SHELLS, bits=BITS):
    d = rows.shape[1]
    return gather([rows], d, Stratified(shells=shells, bits=bits).moments_spec(problem(d)))


WHOLE_SHELLS = _Edges()


def exact_shift(old, new, groups, neighbors, edges=WHOLE_SHELLS):
    """Squared shift of all that is released, in units of a diagonal entry's variance."""
    before, after = (_shells(gathered(rows), edges) for rows in (old, new))
    traces = sum((a.sscp.trace() - b.sscp.trace()) ** 2 for a, b in zip(before, after, strict=True))
    matrices = joint = 0
    for group in groups:
        one, two = _run_sum(before, group), _run_sum(after, group)
        matrices += int(np.sum((one.to_float() - two.to_float()) ** 2))
        joint += one.trace() - two.trace()
    count = (len(old) - len(new)) ** 2 * (16**BITS // 16)
    free = joint**2 if neighbors == "replace-one" else 0
    # Noise is in proportion to the squared radius.
    shape = (trace_weight(old.shape[1]) * traces + matrices + free) / edges.energy**2
    return shape + count


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
    # The outermost shell that is fitted is one more.
    fitted = [Run(*(1 + shell for shell in group)) for group in groups] + [Run(0, 0, 0)]
    edges = fitted_edges(seed % 15 + 1)
    assert exact_shift(old, new, fitted, neighbors, edges) <= allowed(d, neighbors, k)


def fitted_edges(place, shell=1):
    return _Edges(place=place, energy=Fraction(float(part_energies(16)[place])), shell=shell)


def test_fitted_shells_hold_the_rows_between_their_edges():
    # Squared norms 0.9, 0.7, 0.6 and 0.2 with edges at 1, 5/8, 5/32, ...: in units of twice the
    # norm bound, of it, and of half of it.
    rows = np.sqrt([[0.9, 0.0], [0.0, 0.7], [0.6, 0.0], [0.0, 0.1]])
    shells = _shells(gathered(rows, bits=20), fitted_edges(6))
    found = [shell.sscp.to_float() / 4.0**20 for shell in shells]
    assert len(found) == SHELLS + 1
    expected = [np.diag([0.9, 0.7]) / 4, np.diag([0.6, 0.0]), np.diag([0.0, 0.4])]
    np.testing.assert_allclose(found[:3], expected, atol=1e-5)
    assert not np.any(found[3:])
    # At full length, which is the radius of the shell.
    kept = [shell.normalized.to_float() / 4.0**20 for shell in shells]
    lengths = [np.eye(2), np.diag([1.0, 0.0]), np.diag([0.0, 1.0])]
    np.testing.assert_allclose(kept[:3], np.array(lengths) * 0.625, atol=1e-5)


@pytest.mark.parametrize("place", [1, 8, 15])
@pytest.mark.parametrize("first", [1.0, 0.5])
def test_two_orthogonal_rows_attain_the_sensitivity_of_fitted_shells(first, place):
    edges = fitted_edges(place)
    radius = np.sqrt(float(edges.energy)) * 0.9999
    old, new = np.array([[first * radius, 0.0]]), np.array([[0.0, radius]])
    runs = [Run(shell, shell, shell) for shell in range(SHELLS + 1)]
    shift = exact_shift(old, new, runs, "replace-one", edges)
    expected = 2 if first == 1.0 else 2 * (1 + trace_weight(2))
    assert expected * 0.75 * 16**BITS < shift <= allowed(2, "replace-one")


@pytest.mark.parametrize("first", [1.0, 0.5])
def test_two_orthogonal_rows_attain_the_sensitivity(first):
    # The row moves from one shell to another, or stays in its shell.
    old, new = np.array([[first, 0.0]]), np.array([[0.0, 0.5]])
    shift = exact_shift(old, new, singles(), "replace-one")
    unit = 4**BITS
    assert shift == (2 * (1 + trace_weight(2)) if first == 1.0 else 2) * unit**2
    rounding = 4 * (SHELLS + 1) * 2
    more = 2 * trace_weight(2) * unit**2 + 4 * unit * rounding + 2 * rounding**2
    assert shift <= allowed(2, "replace-one") <= shift + more


def test_one_row_more_attains_the_sensitivity_for_k_rows():
    old = np.repeat([[0.5, 0.0]], 3, axis=0)
    shift = exact_shift(old, old[:0], singles(), "add-remove-one")
    assert shift == (9 * (1 + trace_weight(2)) + 9 * ROW_COUNT_WEIGHT) * 16**BITS
    assert shift <= allowed(2, "add-remove-one", 3)


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


def relative_errors(rows, norm_bound, budget, repeats=5, mechanism="stratified"):
    exact = dpcov.moments(
        rows,
        norm_bound=norm_bound,
        **(
            {"shells": 32, "fineness": 4, "normalized": rows.shape[1] <= 64}
            if mechanism == "stratified"
            else {}
        ),
    )
    truth = rows.T @ rows / len(rows)
    errors = []
    for seed in range(repeats):
        made = dpcov.second_moment(
            exact, budget=budget, mechanism=mechanism, entropy=SeededEntropy(seed)
        )
        errors.append(np.linalg.norm(made.second_moment("shrink") - truth) / np.linalg.norm(truth))
    return float(np.mean(errors))


@pytest.mark.parametrize("d", [1, 3, 20])
@pytest.mark.parametrize(("loose_bound", "factor"), [(1024.0, 1.6), (1000.0, 1.6)])
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
    budget, repeats = dpcov.Budget(rho=1), {1: 160, 3: 40, 10: 10}[d]
    plain = relative_errors(rows, 1.0, budget, repeats, mechanism="gaussian")
    # Ratios of mean errors deviate by 8 %.
    assert relative_errors(rows, 1.0, budget, repeats) < 1.33 * plain


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
            assert f"None of {d} columns can be used" in made.summary()
    assert drowned >= 35
    assert within >= stats.binom.ppf(1e-9, drowned, 1 - stats.norm.sf(2))
    # The noise on one number, whatever the number of columns.
    gaussian = dpcov.second_moment(
        rows, norm_bound=1.0, budget=dpcov.Budget(rho="0.05"), mechanism="gaussian"
    )
    assert np.mean(raw) < 25 * gaussian.expected_error() / d


FINE, FOUR = 6, 4
NAME = "dpcov.mechanisms.stratified."
MECHANISM = Stratified(shells=FOUR, bits=FINE)
ROWS = np.array([[1.0, 0.0], [0.0, 0.75], [0.25, 0.25], [0.0, 0.125], [2.0**-9, 0.0]])
GROUPS = np.array([0, 1, 0, 1, 0])


def grouped(neighbors="replace-one", n_groups=2, k=1):
    return replace(problem(2, neighbors, k, n_rows=5), n_groups=n_groups)


def grouped_moments(rows=ROWS, n_groups=1, mechanism=MECHANISM, d=2):
    moments = Moments(d, mechanism.moments_spec(replace(problem(d), n_groups=n_groups)))
    moments.add(rows, GROUPS if n_groups > 1 else None)
    return moments


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(
    ("neighbors", "n_groups", "moved", "extra"),
    [
        ("replace-one", 1, 2, 0),
        ("replace-one", 2, 2, Fraction(1, 16)),
        ("add-remove-one", 1, 1, Fraction(1, 16)),
        ("add-remove-one", 2, 1, Fraction(1, 16)),
    ],
)
def test_variances_are_those_of_the_theorems(k, neighbors, n_groups, moved, extra):
    made = MECHANISM.calibrate(grouped(neighbors, n_groups, k), dpcov.Budget(rho="0.3"))
    # Of two columns the trace has weight 1/64; every shell of every group may be rounded in each
    # column.
    unit, rounding = 4**FINE * k, 4 * (FOUR + 1) * n_groups * 2
    squared = (
        moved * (1 + Fraction(1, 64) + extra) * unit**2 + 4 * rounding * unit + 2 * rounding**2
    )
    variance = 2 * ceil(squared / Fraction("0.6") / 2)
    assert made.promise == ZCDP(rho=Fraction("0.3"))
    assert made.diagonal_variance == variance
    assert made.trace_variance == 64 * variance
    assert made.row_count_variance == (16 * Fraction(variance, 16**FINE) if extra else None)
    assert made.noise_multiplier**2 * squared <= variance
    assert float(made.noise_multiplier**2 * squared) == pytest.approx(variance, rel=1e-12)


def test_the_largest_noise_that_can_be_drawn_is_drawn():
    # Traces of few columns have the largest noise: 64 times the variance, after a look for 1/4.
    public = problem(2)
    squared = MECHANISM._squared_sensitivity(public)
    most = 64 * Fraction(5, 4) * Fraction(65, 64)
    least = squared * most / (2 * Fraction(LARGEST_STD) ** 2)
    made = MECHANISM.calibrate(public, dpcov.Budget(rho=least * (1 + Fraction(1, 10**12))))
    assert float(made.diagonal_variance * most) == pytest.approx(LARGEST_STD**2, rel=1e-11)
    with pytest.raises(BudgetError):
        MECHANISM.calibrate(public, dpcov.Budget(rho=least * (1 - Fraction(1, 10**12))))


def choose_noise(monkeypatch, *lots):
    # Draws of one number or several are these, one lot after another; matrices get 9 * [[3, 1], [1,
    # 2]].
    waiting = list(lots)
    gaussian = choose(
        monkeypatch,
        NAME + "rounded_gaussian",
        lambda variance, size: np.array(waiting.pop(0), dtype=np.int64),
    )
    matrix = choose(monkeypatch, NAME + "symmetric_noise", lambda d, variance: NOISE)
    return gaussian, matrix


NOISE = np.array([[27, 9], [9, 18]])
CALIBRATION = StratifiedCalibration(
    promise=ZCDP(rho=Fraction(1)), diagonal_variance=100, trace_variance=6400
)


def test_traces_first_then_the_joint_trace_and_the_matrices_of_the_runs(monkeypatch):
    gaussian, matrix = choose_noise(monkeypatch, [5, -6, 7, 8], [40, 99])
    rule = choose(
        monkeypatch, NAME + "choose_runs", lambda *asked, fitted: [Run(0, 1, 1), Run(2, 2, 3)]
    )
    moments = grouped_moments()
    made = MECHANISM.draw(Ask.saved(moments), CALIBRATION, problem(2), SeededEntropy(0))
    assert gaussian.asked == [(6400, 4), (100, 1)]
    assert matrix.asked == [(2, 100)] * 2
    shells = shell_sscps(ROWS, FOUR, FINE)
    traces = [int(np.trace(s)) + z for s, z in zip(shells, (5, -6, 7, 8), strict=True)]
    assert rule.asked == [(traces, 100, 6400, 2, None)]
    whole = _shells(moments, WHOLE_SHELLS)
    shortened = whole[0].normalized.to_float() + shells[1]
    joined = shells[2] + np.floor(shells[3] / 4)
    np.testing.assert_array_equal(made.arrays["sscp"], [shortened + NOISE, joined + NOISE])
    assert made.arrays["trace"].tolist() == traces
    assert made.arrays["joint_trace"].tolist() == [np.trace(shortened) + np.trace(joined) + 40]
    assert made.arrays["outermost_shell"].tolist() == [0, 2]
    assert made.arrays["first_shell"].tolist() == [1, 2]
    assert made.arrays["last_shell"].tolist() == [1, 3]
    shells = {"outermost_shell", "first_shell", "last_shell"}
    assert set(made.arrays) == {"sscp", "trace", "joint_trace", *shells}
    assert (made.layout, made.post) == ("strata", "shrink")
    assert (made.lattice_bits, made.dropped_bits) == (FINE, 0)
    law = made.noise
    assert (law.diagonal_variance, law.off_diagonal_variance) == ("100", "50")
    assert (law.trace_variance, law.row_count_variance) == ("6400", None)


@pytest.mark.parametrize("edge", [16, 20])
def test_a_look_at_lengths_is_paid_by_all_that_follows(monkeypatch, edge):
    # Counts have a quarter of a matrix entry's precision; new traces, of new shells alone, 1/64.
    lots = [[5, -6, 7, 8], range(48), [40]] if edge == 16 else [[0] * 4, [0] * 48, range(5), [40]]
    gaussian, matrix = choose_noise(monkeypatch, *lots)
    asked_shell = choose(monkeypatch, NAME + "shell_to_fit", lambda *asked: 1)
    looked = choose(monkeypatch, NAME + "Cells.edge", lambda *asked: edge)
    rule = choose(monkeypatch, NAME + "choose_runs", lambda *asked, fitted: [Run(0, 1, 3)])
    moments, unit = grouped_moments(), 4**FINE
    made = MECHANISM.draw(Ask.saved(moments), CALIBRATION, problem(2), SeededEntropy(0))
    (_, std, columns), (counts, *stds) = asked_shell.asked[0], looked.asked[0]
    assert (std, columns) == (80.0, 2)
    variance = Fraction(100 * 5, 4)
    assert gaussian.asked[:2] == [(6400, 4), (variance * 4 / unit**2, 48)]
    exact = np.bincount([0, 7, 16 + 8], minlength=48)
    assert counts.tolist() == (exact + lots[1]).tolist()
    assert stds == [np.sqrt(500) / unit, np.sqrt(125) / unit, 2]
    left = variance * (Fraction(65, 64) * Fraction(3, 4) ** 2 if edge == 20 else 1)
    rounded = 2 * ceil(left / 2)
    assert matrix.asked == [(2, rounded)]
    assert int(made.noise.diagonal_variance) == 2 * int(made.noise.off_diagonal_variance) == rounded
    if edge == 16:
        assert gaussian.asked[2:] == [(rounded, 1)]
        assert made.noise.trace_variance == "6400"
        assert (made.radius, made.notes) == (1.0, ())
    else:
        assert gaussian.asked[2:] == [(ceil(64 * left), 5), (rounded, 1)]
        assert made.noise.trace_variance == str(ceil(64 * left))
        assert made.radius == 2.0
        assert "0.866" in made.notes[0]
    shells = _shells(moments, fitted_edges(4) if edge == 20 else WHOLE_SHELLS)
    exact = np.array([shell.sscp.trace() for shell in shells])
    found = made.arrays["trace"].tolist()
    assert found == (exact + (range(5) if edge == 20 else [5, -6, 7, 8])).tolist()
    trace_variance = int(made.noise.trace_variance)
    assert rule.asked == [(found, rounded, trace_variance, 2, 1 + (edge == 20))]
    total = _run_sum(shells, Run(0, 1, 3)).to_float()
    assert made.arrays["sscp"].tolist() == [(total + NOISE).tolist()]
    assert made.arrays["joint_trace"].tolist() == [np.trace(total) + 40]


def test_the_estimate_is_in_the_units_of_the_table_whatever_the_edges():
    rows = rows_of_norm(np.full(3000, 0.3), 3) * [1.0, 0.8, 0.5]
    made = dpcov.second_moment(
        rows, norm_bound=7.0, budget=dpcov.Budget(rho=10), entropy=SeededEntropy(1)
    )
    assert made.statistics.radius == 2.0
    truth = rows.T @ rows / 3000
    for post in ("none", "shrink"):
        found = made.second_moment(post)
        assert np.linalg.norm(found - truth) < 0.02 * np.linalg.norm(truth)


@pytest.mark.parametrize(
    "neighbors", ["replace-one", pytest.param("add-remove-one", marks=pytest.mark.thorough)]
)
def test_matrices_and_traces_of_fitted_shells_have_the_stated_variances(neighbors):
    """Size 1e-9, power 1 - 1e-6 against a scale error of a quarter."""
    mechanism, d, n = Stratified(shells=6), 2, 3000
    case = replace(problem(d, neighbors), n_rows=n if neighbors == "replace-one" else None)
    calibration = mechanism.calibrate(case, dpcov.Budget(rho=1))
    rows = rows_of_norm(np.full(n, 0.19), d)
    moments, truth = gather([rows], d, mechanism.moments_spec(case)), rows.T @ rows / n
    noise: dict[str, list[float]] = {"diagonal": [], "off": [], "trace": []}
    places, entropy = set(), BlockEntropy(SeededEntropy(1))
    for _ in range(mean_square_samples(scale_error=0.25)):
        made = mechanism.draw(Ask.saved(moments), calibration, case, entropy)
        (part,) = unit_estimate(
            msgspec.structs.replace(made, arrays=without_counts(made.arrays)), n
        ).parts
        difference, std = part.matrix - truth, np.sqrt(part.diagonal_variance)
        noise["diagonal"] += (np.diagonal(difference) / std).tolist()
        noise["off"].append(difference[0, 1] / std * np.sqrt(2))
        noise["trace"].append((part.trace - np.trace(truth)) / np.sqrt(part.trace_variance))
        places.add(made.notes)
    for each in noise.values():
        assert_mean_square(np.array(each), 1.0)
    assert len(places) > 1


def without_counts(arrays):
    return {name: array for name, array in arrays.items() if name != "row_count"}


def test_every_group_has_runs_traces_and_counts_of_its_own(monkeypatch):
    gaussian, _ = choose_noise(monkeypatch, range(8), [0, 99], [10, -20])
    first, second = [Run(1, 1, 3)], [Run(0, 0, 0), Run(2, 2, 3)]
    waiting = [first, second]
    rule = choose(monkeypatch, NAME + "choose_runs", lambda *asked, fitted: waiting.pop(0))
    # Whole shells have no parts that a look would pay for.
    choose(monkeypatch, NAME + "shell_to_fit", lambda *asked: 1)
    calibration = replace(CALIBRATION, row_count_variance=Fraction(7, 2))
    made = MECHANISM.draw(
        Ask.saved(grouped_moments(n_groups=2)), calibration, grouped(), SeededEntropy(0)
    )
    shells = [shell_sscps(ROWS[group == GROUPS], FOUR, FINE) for group in (0, 1)]
    traces = [int(np.trace(s)) for each in shells for s in each]
    noisy = [trace + z for z, trace in enumerate(traces)]
    assert gaussian.asked == [(6400, 8), (100, 1), (Fraction(7, 2), 2)]
    assert [asked[0] for asked in rule.asked] == [noisy[:4], noisy[4:]]
    runs = [*first, *second]
    for field in Run._fields:
        assert made.arrays[f"{field}_shell"].tolist() == [getattr(run, field) for run in runs]
    assert made.arrays["group"].tolist() == [0] * len(first) + [1] * len(second)
    assert made.arrays["row_count"].tolist() == [13, -18]
    assert made.n_groups == 2
    expected = []
    for run, group in zip(runs, made.arrays["group"], strict=True):
        inside = range(run.first, run.last + 1)
        joined = sum(np.floor(shells[group][s] / 4 ** (s - run.first)) for s in inside)
        expected.append(joined + NOISE)
    np.testing.assert_array_equal(made.arrays["sscp"], expected)
    assert made.noise.row_count_variance == "3.5"


def test_a_private_number_of_rows_has_no_joint_trace_and_may_draw_nothing(monkeypatch):
    choose_noise(monkeypatch, [0] * 4, [1000], [-3])
    choose(monkeypatch, NAME + "choose_runs", lambda *asked, fitted: [])
    calibration = replace(CALIBRATION, row_count_variance=Fraction(7))
    made = MECHANISM.draw(
        Ask.saved(grouped_moments()), calibration, problem(2, "add-remove-one"), SeededEntropy(0)
    )
    assert made.arrays["row_count"].tolist() == [2]
    assert made.arrays["sscp"].shape == (0, 2, 2)
    assert "joint_trace" not in made.arrays
    assert "group" not in made.arrays
    assert made.arrays["first_shell"].shape == (0,)


def test_outer_rows_keep_their_length_where_they_were_not_gathered_at_another():
    mechanism = Stratified(shells=3, bits=FINE)
    rows = np.zeros((2, 65))
    rows[0, 0], rows[1, 1] = 0.75, 0.25
    moments = grouped_moments(rows, mechanism=mechanism, d=65)
    total = _run_sum(_shells(moments, WHOLE_SHELLS), Run(0, 2, 2))
    assert total.to_float()[0, 0] == 0.5625 * 4**FINE
    assert total.to_float()[1, 1] == 4**FINE


@pytest.mark.parametrize(
    ("bits", "numbers", "dropped"),
    [
        (0, [[0]], 0),
        (0, [[2**62 - 1, -5]], 0),
        (0, [[5], [-(2**62)]], 1),
        (0, [[2**70]], 9),
        (3, [[2**63]], 3),
        (3, [[2**70]], 9),
    ],
)
def test_low_bits_are_dropped_from_everything_alike(bits, numbers, dropped):
    named = {str(place): several for place, several in enumerate(numbers)}
    arrays, found = _aligned([(np.array([[4096]]), bits), (np.array([[-4096]]), 0)], named, 1)
    assert found == dropped
    assert arrays["sscp"].tolist() == [[[4096 >> (dropped - bits)]], [[-4096 >> dropped]]]
    for name, several in named.items():
        assert arrays[name].tolist() == [number >> dropped for number in several]


@pytest.mark.parametrize("size", [3, 20])
def test_a_group_without_rows_does_not_drown_all_rows(size):
    """Its matrix was drawn for the longest rows that there could be, however short all others are.

    Intervals of all rows were 20 times as wide as those of a group with nine tenths of them.
    """
    rng, n = np.random.default_rng(0), 30_000
    frame = pd.DataFrame(rng.normal(size=(n, size)), columns=[f"x{place}" for place in range(size)])
    frame["g"], frame["w"] = rng.choice(["a", "b"], n, p=[0.9, 0.1]), 0.2
    columns = {name: dpcov.Numeric(lower=-100, upper=100) for name in frame.columns[:size]}
    columns |= {"g": dpcov.Categorical(categories=("a", "b", "empty")), "w": dpcov.Ignored()}
    terms = {"weights": dpcov.Weights(column="w", upper=20), "missing": "never", "by": "g"}
    made = released_of(columns, frame, budget=dpcov.Budget(epsilon=4, delta="1e-6"), **terms)
    lines = [mean_intervals(each, ["x0"], sampling=False)["x0"] for each in (made, made.group("a"))]
    widths = [line.upper - line.lower for line in lines]
    assert widths[0] < 2 * widths[1]


def test_groups_in_pure_epsilon_are_refused_in_plain_words():
    frame = pd.DataFrame({"x": [1.0, 2.0], "g": ["a", "b"]})
    terms = {"budget": dpcov.Budget(epsilon=1), "by": "g"}
    for mechanism in ("auto", "stratified", "laplace"):
        with pytest.raises(BudgetError, match="Groups need a delta, or rho"):
            released(frame, 0, 3, mechanism=mechanism, **terms)

import math
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dpcov
from dpcov.data.questions import Ask
from dpcov.errors import BudgetError, ReleaseError
from dpcov.mechanisms import stratified_nuclear as module
from dpcov.mechanisms.stratified_nuclear import UNIT, NuclearScales, StratifiedNuclear, trace_weight
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.lattice import LARGEST_STD
from dpcov.privacy.guarantee import PureDP
from dpcov.published.estimate import nuclear_law as ullman
from dpcov.published.estimate.unit import unit_estimate
from dpcov.published.release import Release
from tests.data.reading import gather
from tests.mechanisms.chosen import choose, drawn, problem, rows_of_norm, shell_sscps

RELATIONS = ("replace-one", "add-remove-one")
SHELLS = 6


def shell_moments(rows):
    d = rows.shape[1]
    moments = gather([rows], d, StratifiedNuclear(shells=SHELLS).moments_spec(problem(d)))
    return [stratum.sscp.to_float() for stratum in moments.strata]


def joint_change(old, new, weight):
    """Sum over shells of nuclear norm + weight |trace|, in lattice units."""
    changes = [a - b for a, b in zip(shell_moments(old), shell_moments(new), strict=True)]
    return sum(np.linalg.norm(each, "nuc") + weight * abs(np.trace(each)) for each in changes)


@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
@example(2, 1, 0)
def test_neighbors_stay_within_the_sensitivity(d, k, seed):
    random = np.random.default_rng(seed)
    norms = 2.0 ** -random.integers(0, 4, size=(2, k))
    old, new = rows_of_norm(norms[0], d, seed), rows_of_norm(norms[1], d, seed + 1)
    for neighbors, other in (("replace-one", new), ("add-remove-one", np.zeros((0, d)))):
        weight = float(trace_weight(d))
        public, budget = problem(d, neighbors, k), dpcov.Budget(epsilon=1)
        calibration = StratifiedNuclear().calibrate(public, budget)
        spent = joint_change(old, other, weight) / float(calibration.matrix_scale)
        count = 0 if calibration.row_count_scale is None else k / float(calibration.row_count_scale)
        assert spent + count <= 1 + 1e-12


def test_the_sensitivity_is_attained_across_two_shells():
    old, new = np.array([[1.0, 0.0]]), np.array([[0.0, 0.5]])
    calibration = StratifiedNuclear().calibrate(problem(2), dpcov.Budget(epsilon="0.7"))
    change = joint_change(old, new, float(trace_weight(2)))
    assert change / float(calibration.matrix_scale) == pytest.approx(0.7, rel=1e-12)


def looking(d=10, k=1, epsilon="0.7", n_rows=10_000):
    public = problem(d, k=k, n_rows=n_rows)
    return StratifiedNuclear().calibrate(public, dpcov.Budget(epsilon=epsilon)), public


@pytest.mark.parametrize(("share_of_long_rows", "expected"), [(1.0, 1), (0.5, 1), (0.1, 6)])
def test_tables_of_long_rows_are_released_as_one(share_of_long_rows, expected):
    count = round(10_000 * share_of_long_rows)
    rows = rows_of_norm([1.0] * count + [0.3] * (10_000 - count), 10)
    scale = looking()[0].whole_scale
    (made,) = drawn(StratifiedNuclear(shells=SHELLS), rows, dpcov.Budget(epsilon="0.7"), seed=0)
    assert len(made.arrays["trace"]) == expected
    assert bool(made.notes) == (expected == 1)
    if expected == 1:
        error = made.arrays["trace"][0] / UNIT - np.sum(rows**2)
        assert abs(error) < 30 * float(scale) / UNIT
        assert float(made.noise.scale) >= scale


def fold_everything(rows, fold):
    """All shells, rows of larger ones shortened by powers of two; in units of shell ``fold``."""
    return sum(each * 4.0 ** -max(s - fold, 0) for s, each in enumerate(shell_moments(rows)))


@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, SHELLS - 1), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_neighbors_stay_within_the_sensitivity_of_the_look_and_of_any_fold(d, k, fold, seed):
    random = np.random.default_rng(seed)
    norms = random.choice([1.0, 0.9, 0.5, 0.3, 0.01], size=(2, k))
    tables = [rows_of_norm(each, d, seed + i) for i, each in enumerate(norms)]
    looks = [np.trace(shell_moments(rows)[0]) for rows in tables]
    assert abs(looks[0] - looks[1]) <= k * UNIT
    old, new = (fold_everything(rows, fold) for rows in tables)
    traces = abs(math.floor(np.trace(old)) - math.floor(np.trace(new)))
    assert np.linalg.norm(old - new, "nuc") + traces <= 2 * k * UNIT + 1 + 1e-3


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("n_rows", [100, 10_000])
def test_traces_and_a_fold_after_them_cost_all_of_epsilon(k, n_rows):
    calibration, _ = looking(k=k, n_rows=n_rows)
    seen = k * UNIT / calibration.look_scale if calibration.look_scale else 0
    traces = 2 * k * UNIT / calibration.trace_scale
    fold = (2 * k * UNIT + 1) / calibration.folded_scale
    assert seen + traces + fold == Fraction("0.7")


def many(mechanism, rows):
    """Thirty draws at epsilon 1."""
    budget = dpcov.Budget(epsilon=1)
    return [drawn(mechanism, rows, budget, seed=seed)[0] for seed in range(30)]


def test_a_folded_release_says_so_and_reads_in_its_own_units():
    rows = rows_of_norm([0.9] * 4 + [0.45] * 56, 4)
    mechanism, public = StratifiedNuclear(shells=SHELLS, shorten=True), problem(4, n_rows=60)
    calibration = mechanism.calibrate(public, dpcov.Budget(epsilon=1))
    folded = [each for each in many(mechanism, rows) if each.radius == 0.5]
    assert folded
    truth = fold_everything(rows, 1)
    scale = float(calibration.folded_scale)
    for each in folded:
        assert "2^-1 of the norm bound" in each.notes[0]
        assert abs(each.arrays["trace"][0] - np.trace(truth)) < 25 * scale
        # The trace is that of the shortened rows, and bounds nothing but them.
        assert unit_estimate(each, 60).trace_bound == 1.0
    mean = np.mean([each.arrays["sscp"][0] for each in folded], axis=0)
    assert np.linalg.norm(mean - truth) < 6 * scale * math.sqrt(ullman.mean_square(4) / len(folded))


NAME = "dpcov.mechanisms.stratified_nuclear."
ENTROPY = SeededEntropy(0)
ROWS = np.array([[1.0, 0.0], [0.0, 0.75], [0.25, 0.25], [0.0, 0.125], [2.0**-9, 0.0]])
"""Norms in shells 0, 0, 1, 3 and, of four shells, the last; exact on the lattice."""


def gathered(rows=ROWS, shells=4):
    d = rows.shape[1]
    return gather([rows], d, StratifiedNuclear(shells=shells).moments_spec(problem(d)))


@pytest.mark.parametrize("k", [1, 3])
def test_scales_under_add_remove_one(k):
    made = StratifiedNuclear().calibrate(
        problem(10, "add-remove-one", k), dpcov.Budget(epsilon="0.7")
    )
    scale = k * (1 + Fraction(1, 7) + Fraction(1, 16)) / Fraction("0.7")
    assert made == NuclearScales(
        promise=PureDP(epsilon=Fraction("0.7")),
        matrix_scale=UNIT * scale,
        trace_scale=UNIT * scale * 7,
        row_count_scale=scale * 16,
    )


@pytest.mark.parametrize(
    ("k", "n_rows", "share"),
    [
        (1, 10, 0),
        (1, 320, Fraction(1, 16)),
        (1, 319, 0),
        (1, 420, Fraction(14 * 10, 420 * 7)),
        (3, 1260, Fraction(14 * 10, 420 * 7)),
        (1, 10**6, Fraction(1, 200)),
        (1, None, 0),
    ],
)
def test_scales_under_replace_one(k, n_rows, share):
    made = StratifiedNuclear().calibrate(
        problem(10, k=k, n_rows=n_rows), dpcov.Budget(epsilon="0.7")
    )
    epsilon = Fraction("0.7") * (1 - share)
    scale, one = 2 * k * Fraction(8, 7) / epsilon, 2 * k * UNIT + 1
    assert made == NuclearScales(
        promise=PureDP(epsilon=Fraction("0.7")),
        matrix_scale=UNIT * scale,
        trace_scale=UNIT * scale * 7,
        row_count_scale=None,
        look_scale=UNIT * k / (share * Fraction("0.7")) if share else None,
        whole_scale=one / epsilon if share else None,
        folded_scale=one * Fraction(8, 7) / epsilon,
    )


def test_the_largest_noise_that_can_be_drawn_is_drawn():
    # Traces have the largest noise, UNIT 2 (1 + w) / (w epsilon) with w = 1/5.
    least = Fraction(UNIT * 12, LARGEST_STD)
    StratifiedNuclear().calibrate(problem(1), dpcov.Budget(epsilon=least))
    with pytest.raises(BudgetError):
        StratifiedNuclear().calibrate(
            problem(1), dpcov.Budget(epsilon=least * (1 - Fraction(1, 10**12)))
        )


def test_a_look_whose_noise_cannot_be_drawn_is_left_out():
    """Of so many rows it has a 200th of the budget: found at the draw, it would be charged."""
    least = 200 * Fraction(UNIT, LARGEST_STD)
    for epsilon, scale in ((least, LARGEST_STD), (least * (1 - Fraction(1, 10**12)), None)):
        public = problem(1, n_rows=10**8)
        made = StratifiedNuclear().calibrate(public, dpcov.Budget(epsilon=epsilon))
        assert made.look_scale == scale


@pytest.mark.parametrize(("noise", "long"), [(0, False), (1, True)])
def test_most_rows_are_long_when_a_third_of_the_largest_trace_is_in_the_outermost_shell(
    monkeypatch, noise, long
):
    laplace = choose(
        monkeypatch, NAME + "discrete_laplace", lambda scale, size: np.array([noise, 10**9])
    )
    moments = gathered(np.array([[1.0], [0.5], [0.5]]))
    found = module._most_rows_are_long(moments, Fraction(5), problem(1, n_rows=3), ENTROPY)
    assert found is long
    assert laplace.asked == [(Fraction(5), 1)]


def choose_noise(monkeypatch, *traces):
    """Traces get these draws in turn; matrix noise is 1000 everywhere and 500 more at (0, 0)."""
    waiting = list(traces)
    laplace = choose(
        monkeypatch,
        NAME + "discrete_laplace",
        lambda scale, size: np.array([waiting.pop(0) for _ in range(size)]),
    )
    matrix = choose(
        monkeypatch,
        NAME + "symmetric_nuclear_noise",
        lambda d, scale: np.full((d, d), 1000.0) + 500 * np.outer(np.eye(d)[0], np.eye(d)[0]),
    )
    return laplace, matrix


NOISE = np.array([[1500.0, 1000.0], [1000.0, 1000.0]])


def calibration(**others):
    scales = {"matrix_scale": Fraction(7), "trace_scale": Fraction(35)}
    return NuclearScales(promise=PureDP(epsilon=Fraction(1)), **{**scales, **others})


def law_of(scale, trace, row_count, law, d=2):
    # What a release must say: total square and the part off the diagonal as the noise is simulated.
    off, whole = ullman.off_diagonal_variance(d) * scale**2, ullman.mean_square(d) * scale**2
    assert float(law.off_diagonal_variance) == pytest.approx(off, abs=0.5)
    assert d * float(law.diagonal_variance) + d * (d - 1) * off == pytest.approx(whole, abs=d)
    assert float(law.trace_variance) == 2 * trace**2
    assert float(law.scale) == math.nextafter(scale, math.inf)
    return law.row_count_variance == (None if row_count is None else str(2.0 * row_count**2))


def test_a_look_that_is_enough_ends_in_one_matrix(monkeypatch):
    laplace, matrix = choose_noise(monkeypatch, 1, 77)
    looked = calibration(
        look_scale=Fraction(3), whole_scale=Fraction(1001), folded_scale=Fraction(9)
    )
    made = StratifiedNuclear(shells=4).draw(
        Ask.saved(gathered()), looked, problem(2, n_rows=4), ENTROPY
    )
    assert laplace.asked == [(Fraction(3), 1), (Fraction(1001), 1)]
    assert matrix.asked == [(2, math.nextafter(1001.0, math.inf))]
    np.testing.assert_array_equal(made.arrays["sscp"], [UNIT * ROWS.T @ ROWS + NOISE])
    assert made.arrays["trace"].tolist() == [math.floor(UNIT * np.sum(ROWS**2)) + 77]
    assert [made.arrays[f"{end}_shell"].tolist() for end in ("first", "last")] == [[0], [0]]
    assert made.radius == 1.0
    assert made.notes == (module.AS_ONE,)
    assert law_of(1001.0, 1001, None, made.noise)


@pytest.mark.parametrize("fold", [None, 0, 1, 3])
def test_after_the_traces_one_matrix_or_one_for_every_run(monkeypatch, fold):
    laplace, matrix = choose_noise(monkeypatch, 5, -6, 7, 8, 40)
    fold_rule = choose(monkeypatch, NAME + "choose_fold", lambda traces, scale, d, shorten: fold)
    run_rule = choose(
        monkeypatch, NAME + "choose_runs", lambda traces, scale, d: [range(0, 1), range(1, 4)]
    )
    made = StratifiedNuclear(shells=4, shorten=True).draw(
        Ask.saved(gathered()), calibration(folded_scale=Fraction(9)), problem(2), ENTROPY
    )
    shells = shell_sscps(ROWS, 4, 20)
    traces = [int(np.trace(s)) + z for s, z in zip(shells, (5, -6, 7, 8), strict=True)]
    scale = math.nextafter(7.0, math.inf)
    assert laplace.asked[0] == (Fraction(35), 4)
    assert fold_rule.asked == [(traces, scale, 2, True)]
    if fold is None:
        assert run_rule.asked == [(traces, scale, 2)]
        assert matrix.asked == [(2, scale)] * 2
        joined = sum(shells[s] / 4.0 ** (s - 1) for s in (1, 2, 3))
        np.testing.assert_array_equal(made.arrays["sscp"], [shells[0] + NOISE, joined + NOISE])
        assert made.arrays["trace"].tolist() == traces
        assert made.arrays["first_shell"].tolist() == [0, 1]
        assert made.arrays["last_shell"].tolist() == [0, 3]
        assert (made.notes, made.radius) == ((), 1.0)
        assert law_of(7.0, 35, None, made.noise)
        return
    assert laplace.asked[1:] == [(Fraction(9), 1)]
    folded = sum(shell / 4.0 ** max(s - fold, 0) for s, shell in enumerate(shells))
    np.testing.assert_array_equal(made.arrays["sscp"], [folded + NOISE])
    assert made.arrays["trace"].tolist() == [math.floor(np.trace(folded)) + 40]
    assert made.radius == 0.5**fold
    assert made.notes[0].startswith(module.NONE_STANDS_OUT)
    assert made.notes[0].endswith(f"2^-{fold} of the norm bound shortened to that") == (fold > 0)
    assert law_of(9.0, 9, None, made.noise)


def test_a_private_number_of_rows_gets_noise_and_is_released(monkeypatch):
    laplace, _ = choose_noise(monkeypatch, 0, 0, 0, 0, -2)
    made = StratifiedNuclear(shells=4).draw(
        Ask.saved(gathered()),
        calibration(row_count_scale=Fraction(3)),
        problem(2, "add-remove-one"),
        ENTROPY,
    )
    assert laplace.asked == [(Fraction(35), 4), (Fraction(3), 1)]
    assert made.arrays["row_count"].tolist() == [3]
    assert made.arrays["row_count"].dtype == np.int64
    assert law_of(7.0, 35, 3, made.noise)
    assert (made.layout, made.post) == ("strata", "shrink")
    assert (made.lattice_bits, made.dropped_bits) == (20, 0)


@pytest.mark.parametrize(
    ("traces", "dropped"),
    [
        ([0], 0),
        ([2**62 - 1, 5], 0),
        ([2**62, 5], 1),
        ([8, 1 - 2**62], 0),
        ([8, -(2**62)], 1),
        ([2**70, 3], 9),
    ],
)
def test_low_bits_are_dropped_as_the_longest_trace_needs(traces, dropped):
    law = module._law(Fraction(7), Fraction(35), None, 1)
    made = module._statistics([np.array([[2.0**20]])], [range(2, 5)], traces, law, 1)
    assert made.dropped_bits == dropped
    assert made.arrays["sscp"].tolist() == [[[2.0 ** (20 - dropped)]]]
    assert made.arrays["trace"].tolist() == [trace >> dropped for trace in traces]
    assert (made.arrays["first_shell"].tolist(), made.arrays["last_shell"].tolist()) == ([2], [4])
    assert (made.radius, made.notes, "row_count" in made.arrays) == (1.0, (), False)


@pytest.mark.parametrize("damage", ["nan", "integers", "no scale", "zero scale"])
def test_damaged_statistics_are_refused(damage):
    made = dpcov.second_moment(
        rows_of_norm([1.0] * 40 + [0.25] * 5000, 5),
        norm_bound=1.0,
        budget=dpcov.Budget(epsilon=2),
        mechanism="stratified-nuclear",
    )
    arrays, manifest = dict(made.statistics.arrays), made.manifest
    law = manifest.statistics.noise
    if damage == "nan":
        arrays["sscp"] = np.full_like(arrays["sscp"], np.nan)
    elif damage == "integers":
        arrays["sscp"] = arrays["sscp"].astype(np.int64)
    else:
        scale = None if damage == "no scale" else "0.0"
        law = type(law)(**{**vars(law), "scale": scale})
    statistics = msgspec.structs.replace(manifest.statistics, noise=law)
    with pytest.raises(ReleaseError):
        Release(msgspec.structs.replace(manifest, statistics=statistics), arrays)

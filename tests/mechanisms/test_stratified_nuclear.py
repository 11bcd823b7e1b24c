import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dpcov
from dpcov.audit import Neighboring, half_noise
from dpcov.data.moments import Moments, gather
from dpcov.data.questions import Ask
from dpcov.errors import ReleaseError
from dpcov.mechanisms.stratified_nuclear import UNIT, StratifiedNuclear
from dpcov.mechanisms.stratified_nuclear_rules import choose_fold, trace_weight
from dpcov.noise.entropy import SeededEntropy, SystemEntropy
from dpcov.noise.nuclear import symmetric_nuclear_noise
from dpcov.published.estimate import nuclear_law as ullman
from dpcov.published.estimate.unit import unit_estimate
from dpcov.published.release import Release
from tests.audit.bounds import lower_bound_epsilon, refutes, released
from tests.mechanisms.chosen import drawn, problem
from tests.statistical.goodness import assert_same_law

RELATIONS = ("replace-one", "add-remove-one")
SHELLS = 6


def rows_of_norm(norms, d, seed=0):
    rows = np.random.default_rng(seed).normal(size=(len(norms), d))
    return rows * (np.array(norms) / np.linalg.norm(rows, axis=1))[:, None]


def shell_moments(rows):
    d = rows.shape[1]
    moments = gather([rows], d, StratifiedNuclear(shells=SHELLS).moments_spec(problem(d)))
    return [stratum.sscp.to_float() for stratum in moments.strata]


def joint_change(old, new, weight):
    """Sum over shells of nuclear norm + weight |trace|, in lattice units."""
    changes = [a - b for a, b in zip(shell_moments(old), shell_moments(new), strict=True)]
    return sum(np.linalg.norm(each, "nuc") + weight * abs(np.trace(each)) for each in changes)


def two_shells():
    return np.array([[1.0, 0.0]]), np.array([[0.0, 0.5]])


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
    old, new = two_shells()
    calibration = StratifiedNuclear().calibrate(problem(2), dpcov.Budget(epsilon="0.7"))
    change = joint_change(old, new, float(trace_weight(2)))
    assert change / float(calibration.matrix_scale) == pytest.approx(0.7, rel=1e-12)


def test_inside_one_shell_the_trace_is_free():
    for a in (0.0, 0.4, 1.0):
        old, new = rows_of_norm([1.0], 3), math.sqrt(0.3 + 0.7 * a) * rows_of_norm([1.0], 3, seed=1)
        assert joint_change(old, new, 1.0) <= 2 * UNIT * (1 + 1e-9)


def looking(d=10, k=1, epsilon="0.7", n_rows=10_000):
    public = problem(d, k=k, n_rows=n_rows)
    return StratifiedNuclear().calibrate(public, dpcov.Budget(epsilon=epsilon)), public


@pytest.mark.parametrize("k", [1, 3])
def test_either_way_after_a_look_costs_all_of_epsilon(k):
    calibration, _ = looking(k=k)
    seen = k * UNIT / calibration.look.scale
    shells = 2 * k * (UNIT / calibration.matrix_scale + UNIT / calibration.trace_scale)
    assert seen + shells == Fraction("0.7")
    assert seen + (2 * k * UNIT + 1) / calibration.look.whole_scale == Fraction("0.7")


@pytest.mark.parametrize(("share_of_long_rows", "expected"), [(1.0, 1), (0.5, 1), (0.1, 6)])
def test_tables_of_long_rows_are_released_as_one(share_of_long_rows, expected):
    count = round(10_000 * share_of_long_rows)
    rows = rows_of_norm([1.0] * count + [0.3] * (10_000 - count), 10)
    scale = looking()[0].look.whole_scale
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
    seen = k * UNIT / calibration.look.scale if calibration.look else 0
    traces = 2 * k * UNIT / calibration.trace_scale
    fold = (2 * k * UNIT + 1) / calibration.folded_scale
    assert seen + traces + fold == Fraction("0.7")


def many(mechanism, rows):
    """Thirty draws at epsilon 1."""
    budget = dpcov.Budget(epsilon=1)
    return [drawn(mechanism, rows, budget, seed=seed)[0] for seed in range(30)]


def test_rows_stay_as_long_as_they_are_unless_they_may_be_shortened():
    assert choose_fold([0, 35, 0, 0], 1.0, 10, shorten=False) == 0
    rows = rows_of_norm([0.9] * 4 + [0.45] * 56, 4)
    assert {each.radius for each in many(StratifiedNuclear(shells=SHELLS), rows)} == {1.0}


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


def naive_release(rows, epsilon, random):
    """The mechanism line by line for shells 0 and 1, in floats; both are drawn in most releases."""
    d = rows.shape[1]
    weight = float(trace_weight(d))
    scale = 2 * (1 + weight) / epsilon
    norms = np.linalg.norm(rows, axis=1)
    noisy = []
    for low, high in ((0.5, 1.0), (0.25, 0.5)):
        shell = rows[(norms > low) & (norms <= high)] / high
        noise = symmetric_nuclear_noise(d, scale, random)
        trace = (
            np.trace(shell.T @ shell)
            + np.random.default_rng(random.words(1)[0]).laplace() * scale / weight
        )
        noisy.append((shell.T @ shell + noise, trace))
    return noisy


def test_the_noise_is_what_it_says():
    rows, epsilon, repeats = rows_of_norm([0.9] * 24 + [0.45] * 100, 3), 2, 400
    mechanism, public = StratifiedNuclear(shells=2), problem(3, n_rows=None)
    calibration = mechanism.calibrate(public, dpcov.Budget(epsilon=epsilon))
    moments = Moments(3, mechanism.moments_spec(public))
    moments.add(rows)
    entropy, other = SeededEntropy(1), SeededEntropy(2)
    made = [
        mechanism.draw(Ask.saved(moments), calibration, public, entropy) for _ in range(repeats)
    ]
    naive = [naive_release(rows, epsilon, other) for _ in range(repeats)]
    separate = [each for each in made if len(each.arrays["sscp"]) == 2]
    assert len(separate) > repeats / 2
    for shell, entry in ((0, (0, 0)), (0, (0, 1)), (1, (1, 1)), (1, (1, 2))):
        ours = np.array([each.arrays["sscp"][shell][entry] / UNIT for each in separate])
        assert_same_law(ours, np.array([each[shell][0][entry] for each in naive]))
    assert_same_law(
        np.array([each.arrays["trace"][1] / UNIT for each in made]),
        np.array([each[1][1] for each in naive]),
    )


def test_the_noise_law_is_the_measured_one():
    d, repeats = 4, 1000
    calibration = StratifiedNuclear().calibrate(problem(d), dpcov.Budget(epsilon=1))
    empty = Moments(d, StratifiedNuclear().moments_spec(problem(d)))
    law = StratifiedNuclear().draw(Ask.saved(empty), calibration, problem(d), SystemEntropy()).noise
    entropy = SeededEntropy(4)
    noise = np.array(
        [symmetric_nuclear_noise(d, float(law.scale), entropy) for _ in range(repeats)]
    )
    diagonal = np.mean(noise[:, np.arange(d), np.arange(d)] ** 2)
    off_diagonal = np.mean(noise[:, 0, 1:] ** 2)
    assert diagonal == pytest.approx(float(law.diagonal_variance), rel=0.15)
    assert off_diagonal == pytest.approx(float(law.off_diagonal_variance), rel=0.15)
    assert float(law.scale) >= float(calibration.matrix_scale)


def exchange():
    # Two tables of 200 unit rows, one different: shell 0 is always drawn, joined with all others.
    first = np.tile(np.eye(2)[0], (200, 1))
    second = first.copy()
    second[0] = np.eye(2)[1]
    return Neighboring(relation="replace-one", first=first, second=second)


def one_more():
    """The same with one column, where the noise is Laplace, and one row more."""
    first = np.ones((200, 1))
    return Neighboring(relation="add-remove-one", first=first, second=first[1:])


def scores(budget, pair, draws):
    """Log-likelihood ratio of the matrix, up to a factor."""
    ours, theirs = (UNIT * (rows.T @ rows) for rows in (pair.first, pair.second))

    def score(statistics):
        (seen,) = statistics.arrays["sscp"]
        # The extreme value has a probability of its own: rounding must not scatter it.
        return round(
            (np.linalg.norm(seen - theirs, "nuc") - np.linalg.norm(seen - ours, "nuc")) / UNIT, 6
        )

    tables = released(StratifiedNuclear(shells=2), budget, pair, draws)
    return [np.array([score(each) for each in table]) for table in tables]


def test_the_audit_finds_a_good_part_of_epsilon_in_one_matrix():
    # The matrix, released as one, is charged all but the look's 3.5 %.
    budget = dpcov.Budget(epsilon=2)
    claimed = scores(budget, exchange(), 800)
    assert not refutes(budget.promise, *claimed)
    assert lower_bound_epsilon(*claimed, alpha=1e-3) > 0.6


def test_the_audit_catches_half_the_noise():
    # The matrix is charged epsilon / (1 + weight + count weight) = 0.79 of a claim of 1, planted
    # 1.58.
    budget, pair = dpcov.Budget(epsilon=1), one_more()
    assert not refutes(budget.promise, *scores(budget, pair, 400))
    assert lower_bound_epsilon(*scores(half_noise(budget), pair, 2500), alpha=1e-4) > 1


@pytest.fixture(scope="module")
def made():
    rows = rows_of_norm([1.0] * 40 + [0.25] * 5000, 5)
    return dpcov.second_moment(
        rows, norm_bound=1.0, budget=dpcov.Budget(epsilon=2), mechanism="stratified-nuclear"
    )


def test_a_release_survives_its_file_and_reads_as_shrunk(made, tmp_path):
    made.save(tmp_path / "release.dpcov")
    loaded = Release.load(tmp_path / "release.dpcov")
    assert loaded == made
    assert loaded.statistics.arrays["sscp"].dtype == np.float64
    assert np.array_equal(loaded.second_moment(), loaded.second_moment("shrink"))
    assert np.linalg.eigvalsh(loaded.second_moment()).min() >= -1e-12
    assert "nuclear" in loaded.summary()


@pytest.mark.parametrize("damage", ["nan", "integers", "no scale", "zero scale"])
def test_damaged_statistics_are_refused(made, damage):
    arrays, manifest = dict(made.statistics.arrays), made.manifest
    law = manifest.statistics.noise
    if damage == "nan":
        arrays["sscp"] = np.full_like(arrays["sscp"], np.nan)
    elif damage == "integers":
        arrays["sscp"] = arrays["sscp"].astype(np.int64)
    else:
        scale = None if damage == "no scale" else "0.0"
        law = type(law)(**{**vars(law), "scale": scale})
    import msgspec

    statistics = msgspec.structs.replace(manifest.statistics, noise=law)
    with pytest.raises(ReleaseError):
        Release(msgspec.structs.replace(manifest, statistics=statistics), arrays)


def relative_error(rows, epsilon, seed):
    release = dpcov.second_moment(
        rows,
        norm_bound=1.0,
        budget=dpcov.Budget(epsilon=epsilon),
        mechanism="stratified-nuclear",
        entropy=SeededEntropy(seed),
    )
    truth = rows.T @ rows / len(rows)
    return np.linalg.norm(release.second_moment() - truth) / np.linalg.norm(truth)


NORMS = (1, 2, 4, np.inf)


def schatten_norms_of_errors(name, rows, budget, repeats):
    """Mean p-norms of the error of a release, for p in NORMS."""
    truth = rows.T @ rows / len(rows)
    found = []
    for seed in range(repeats):
        made = dpcov.second_moment(
            rows, norm_bound=1.0, budget=budget, mechanism=name, entropy=SeededEntropy(seed)
        )
        found.append(np.linalg.eigvalsh(made.second_moment() - truth))
    return [np.linalg.norm(found, p, axis=1).mean() for p in NORMS]


@pytest.mark.parametrize(
    ("d", "n", "repeats"),
    [
        (2, 500, 60),
        (3, 8_000, 60),
        (10, 1_000, 25),
        (10, 8_000, 40),
        (50, 8_000, 4),
        pytest.param(50, 500, 4, marks=pytest.mark.slow),
        pytest.param(200, 1_000, 3, marks=pytest.mark.slow),
        pytest.param(200, 16_000, 3, marks=pytest.mark.slow),
    ],
)
def test_every_schatten_norm_of_the_error_is_below_the_plain_mechanisms(d, n, repeats):
    rows, budget = rows_of_norm(np.ones(n), d), dpcov.Budget(epsilon=1)
    ours = schatten_norms_of_errors("auto", rows, budget, repeats)
    plain = schatten_norms_of_errors("nuclear", rows, budget, repeats)
    for p, error, other in zip(NORMS, ours, plain, strict=True):
        assert error < other
        constant = 3 if p < np.inf else math.pi
        assert error < constant * d ** (1 + 1 / p) / n


def test_it_beats_one_release_of_the_same_noise_by_far():
    rows, budget = rows_of_norm([1.0] * 100 + [0.125] * 20000, 10), dpcov.Budget(epsilon="0.5")
    truth = rows.T @ rows / len(rows)
    plain = [
        dpcov.second_moment(
            rows,
            norm_bound=1.0,
            budget=budget,
            mechanism="nuclear",
            noise="nuclear",
            entropy=SeededEntropy(i),
        ).second_moment()
        for i in range(5)
    ]
    theirs = np.mean([np.linalg.norm(each - truth) / np.linalg.norm(truth) for each in plain])
    assert np.mean([relative_error(rows, 0.5, seed) for seed in range(5)]) < 0.6 * theirs


def test_hopeless_tables_are_estimated_as_nearly_zero():
    rows = rows_of_norm([0.5] * 20, 20)
    errors = [relative_error(rows, 0.1, seed) for seed in range(10)]
    assert np.median(errors) == 1.0

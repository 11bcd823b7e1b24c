"""What scaling long rows down took of columns is given back."""

from dataclasses import replace

import msgspec
import numpy as np
import pandas as pd
import pytest

import dpcov
from benchmarks.analyst.spreads import without_losses as as_made_before
from dpcov import SeededEntropy
from dpcov.analysis import PrivateRidge, correlation_intervals, mean_intervals, variance_intervals
from dpcov.data.geometry import Geometry, Scale
from dpcov.errors import ReleaseError
from dpcov.published.estimate.stretch import (
    SKEW,
    Seen,
    Stretch,
    average,
    of_means,
    stiffness_of,
    stretch,
)
from dpcov.published.release import Release
from dpcov.published.words.numbers import group_numbers

N = 30_000
COLUMNS = ("normal", "tail", "sibling", "count")


@pytest.fixture(scope="module")
def table():
    """A normal column, two with long tails that go together, one that is mostly zero."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=N)
    tail = np.exp(1.2 * (0.9 * common + 0.4 * rng.normal(size=N)))
    sibling = tail * np.exp(0.2 * rng.normal(size=N))
    count = np.where(rng.random(N) < 0.1, rng.exponential(size=N) ** 2, 0.0)
    normal = 0.5 * common + rng.normal(size=N)
    frame = pd.DataFrame(np.column_stack([normal, tail, sibling, count]), columns=COLUMNS)
    frame["kind"] = np.where(common > 0, "a", "b")
    return frame


def schema():
    columns = {name: dpcov.Numeric(lower=-1000, upper=1000) for name in COLUMNS}
    columns["kind"] = dpcov.Categorical(categories=("a", "b"))
    return dpcov.Schema(columns=columns, missing="never")


def released(table, seed=0, budget=None, **more):
    budget = budget or dpcov.Budget(epsilon=2, delta="1e-6")
    terms = {"schema": schema(), "budget": budget, "entropy": SeededEntropy(seed)}
    return dpcov.release(table, **terms | more)


def deviation_errors(release, table):
    found = np.sqrt(np.diag(release.covariance_matrix()))[: len(COLUMNS)]
    return found / table[list(COLUMNS)].std(ddof=0).to_numpy() - 1


# In pure epsilon rows of the last column lose more than a sum counts of them.
@pytest.mark.parametrize(
    ("budget", "most"),
    [
        (dpcov.Budget(epsilon=2, delta="1e-6"), 0.85),
        (dpcov.Budget(rho="0.1"), 0.85),
        (dpcov.Budget(epsilon=3), 1.0),
    ],
)
def test_deviations_of_long_tails_come_out_right(table, budget, most):
    releases = [released(table, seed, budget) for seed in range(8)]
    errors = [deviation_errors(release, table) for release in releases]
    before = [deviation_errors(as_made_before(release), table) for release in releases]
    # Tails lose a sixth and more of their deviations.
    assert np.mean(before, axis=0)[1:].min() < -0.15
    assert np.sqrt(np.mean(np.square(errors))) < most * np.sqrt(np.mean(np.square(before)))


def test_correlations_stay_as_they_are(table):
    made = released(table)
    before = as_made_before(made)
    np.testing.assert_allclose(
        made.correlation_matrix(), before.correlation_matrix(), rtol=1e-6, atol=1e-9
    )
    pairs = [correlation_intervals(each, sampling=False) for each in (made, before)]
    np.testing.assert_allclose(pairs[0].estimate, pairs[1].estimate, atol=1e-6)
    assert made.stretch.factors.max() > 1.005 and np.all(made.stretch.factors >= 1)
    # Levels tell by themselves what they lost.
    assert made.stretch.factors[4:].tolist() == [1.0, 1.0]


def test_an_interval_of_a_correlation_is_as_wide_as_what_its_own_columns_lost(table):
    """Not as what all lost: narrower where these two lost less, and wider where they lost more."""
    rng, held, narrower = np.random.default_rng(5), [], []
    frame = table.assign(sibling=table["normal"] + rng.normal(size=N))
    truth = frame[list(COLUMNS)].corr().loc["normal"]
    for seed in range(6):
        made = released(frame, seed)
        pairs, before = (
            correlation_intervals(each, list(COLUMNS), sampling=False)
            for each in (made, as_made_before(made))
        )
        for places in ([0, 2], [1, 3]):
            name = ", ".join(COLUMNS[place] for place in places)
            widths = [each[name].upper - each[name].lower for each in (pairs, before)]
            narrower.append(np.divide(*widths) < 1)
            own = np.sqrt(np.mean(made.lost_parts[places] ** 2))
            assert narrower[-1] == (own < made.statistics.lost)
        held += [pairs[f"normal, {name}"] for name in COLUMNS[1:]]
    assert any(narrower) and not all(narrower)
    inside = [each.lower <= truth[each.name.split(", ")[1]] <= each.upper for each in held]
    assert np.mean(inside) >= 0.7


def test_means_count_what_is_not_known_of_the_whole_spread(table):
    """In the summary as in intervals."""
    made = released(table)
    before = as_made_before(made)
    # Levels tell by themselves; nothing else does if nobody asked.
    whole = 1 / (1 - made.statistics.lost)
    np.testing.assert_allclose(before.whole_variances, [*[whole] * 4, 1, 1])
    restored = np.exp((SKEW * made.stretch.unsure[:4]) ** 2 / 2)
    np.testing.assert_allclose(made.whole_variances, [*restored, 1, 1])
    assert restored.max() > 1.001
    longer = replace(made.manifest.statistics.losses, counted=0.1)
    statistics = msgspec.structs.replace(made.manifest.statistics, losses=longer)
    unsure = Release(
        msgspec.structs.replace(made.manifest, statistics=statistics), made.statistics.arrays
    )
    for stds in (
        lambda x: mean_intervals(x, sampling=False).privacy_std,
        lambda x: group_numbers(x).estimates.mean_noise,
    ):
        assert np.all(stds(unsure)[:4] > 1.2 * stds(made)[:4])


def test_an_interval_for_a_variance_reaches_farther_up_than_down(table):
    (line,) = variance_intervals(released(table), ["count"], sampling=False).rows
    up, down = np.log(line.upper / line.estimate), np.log(line.estimate / line.lower)
    assert up > 1.2 * down


def test_intervals_for_variances_hold(table):
    truth = table[list(COLUMNS)].var(ddof=0).to_numpy()
    held = []
    for seed in range(8):
        made = released(table, seed)
        for release in (made, as_made_before(made)):
            found = variance_intervals(release, list(COLUMNS), sampling=False)
            held.append(np.mean((found.lower <= truth) & (truth <= found.upper)))
    # The column that is mostly zero holds least often; before, it never did.
    now, before = np.mean(held[::2]), np.mean(held[1::2])
    assert now >= 0.7 and now > before
    means = mean_intervals(made, list(COLUMNS)[:3], sampling=False)
    true = table[list(COLUMNS)[:3]].mean().to_numpy()
    assert np.all((means.lower <= true) & (true <= means.upper))


def test_regressions_read_the_same_units(table):
    """A slope is a correlation times a ratio of deviations."""
    made = released(table)
    model = PrivateRidge.from_release(made, target="normal", features=["tail"], alpha=0.0)
    covariance = made.covariance_matrix("psd")
    assert model.coef_[0] == pytest.approx(covariance[0, 1] / covariance[1, 1], rel=0.02)


def test_releases_are_combined_and_written(table, tmp_path):
    first = released(table, 1)
    first.save(tmp_path / "first.dpcov")
    again = released(table, 2, geometry=tmp_path / "first.dpcov")
    both = first.combine(again)
    factors = [each.stretch.factors for each in (both, first, again)]
    assert np.all(factors[0] >= np.minimum(*factors[1:]) - 1e-9)
    assert np.all(factors[0] <= np.maximum(*factors[1:]) + 1e-9)
    now, before = (deviation_errors(each, table)[:3] for each in (both, as_made_before(first)))
    assert np.abs(now).max() < np.abs(before).max()
    loaded = dpcov.load(tmp_path / "first.dpcov")
    np.testing.assert_array_equal(loaded.covariance_matrix(), first.covariance_matrix())
    # The geometry of an earlier release is the one that rows were encoded in.
    assert again.manifest.columns == first.manifest.columns


def mean_errors(release, table):
    columns = table[list(COLUMNS)]
    return (release.mean_vector()[: len(COLUMNS)] - columns.mean()) / columns.std(ddof=0)


def test_means_get_back_what_far_rows_on_one_side_lost(table):
    """The last column is mostly zero: its mean came out a fifth too small."""
    now, before, held = [], [], []
    for seed in range(8):
        made = released(table, seed)
        now.append(mean_errors(made, table))
        before.append(mean_errors(as_made_before(made), table))
        found = mean_intervals(made, list(COLUMNS), sampling=False)
        true = table[list(COLUMNS)].mean().to_numpy()
        held.append((found.lower <= true) & (true <= found.upper))
        told = group_numbers(made).estimates
        np.testing.assert_allclose(told.means[:4], found.estimate, rtol=1e-6)
    now, before = (np.sqrt(np.mean(np.square(each), axis=0)) for each in (now, before))
    assert now[3] < 0.97 * before[3]
    assert np.all(now[:3] < before[:3] + 2e-3)
    assert np.mean(held) > 0.9


def test_the_least_that_a_mean_lost_follows_from_sums_of_squares():
    """All far rows lie at one distance, on one side, and are brought to the reach."""
    reach, distance, share = 3.0, 5.0, 0.01
    lost, kept = share * (distance**2 - reach**2), share * reach**2
    mean, ones = share * reach, np.ones(1)
    seen = Seen(*(each * ones for each in (kept - mean**2, 0.0, mean, 0.0, reach)))
    relative = np.array([lost / (kept - mean**2)])
    moved, error = of_means(relative, distance**2 - reach**2, seen)
    # A column leans as far as it can; a row is counted as far as it reaches.
    least = share * (distance - reach) / (1 + 0.2**2)
    assert moved[0] == pytest.approx(1.5 * least)
    assert error[0] == pytest.approx(3 * least)
    # To both sides nothing is lost, and noise leans to one as well.
    assert of_means(relative, 16.0, seen._replace(means=0 * ones))[0] == 0
    noisy = of_means(relative, 16.0, seen._replace(mean_stds=mean * ones))[0]
    assert noisy == pytest.approx(moved / 5, rel=0.05)


def test_a_release_counts_in_a_combination_by_its_share(table):
    """One in another geometry made what is not known of a better one twice as much."""
    columns = {name: Scale(center=0.0, scale=1.0) for name in COLUMNS}
    first, other = released(table, 1), Geometry(columns=columns, norm_bound=6.0)
    worse = released(table, 2, dpcov.Budget(epsilon="0.5", delta="1e-6"), geometry=other)
    both = first.combine(worse)
    unsure, own, others = (each.stretch.unsure[:3] for each in (both, first, worse))
    assert np.any(others > own) and np.all(unsure < 1.05 * own)


def test_a_sum_has_its_parts_of_variances_left():
    ones = np.ones(2)
    one = Stretch(np.array([1.0, 2.0]), 0.1 * ones, 0.2 * ones, ones, 0.3 * ones)
    other = Stretch(np.array([1.0, 3.0]), 0.2 * ones, 0.4 * ones, 2 * ones, 0.5 * ones)
    found = average([one, None, other], [0.6, 0.2, 0.2])
    np.testing.assert_allclose(found.factors**2, [1.0, 1 / (0.75 / 4 + 0.25 / 9)])
    assert found.unsure[0] == pytest.approx(np.hypot(0.75 * 0.1, 0.25 * 0.2))
    np.testing.assert_allclose(found.lost, np.sqrt(0.75 * 0.2**2 + 0.25 * 0.4**2))
    np.testing.assert_allclose(found.moved, 1.25)
    np.testing.assert_allclose(found.moved_stds, 0.35)
    assert average([None, None], [0.5, 0.5]) is None


def test_losses_that_do_not_fit_are_refused(table):
    made = released(table)
    arrays = dict(made.statistics.arrays)
    wrong = [arrays["losses"][:-1], arrays["losses"].astype(float)]
    for losses in wrong:
        with pytest.raises(ReleaseError):
            Release(made.manifest, arrays | {"losses": losses})
    del arrays["losses"]
    with pytest.raises(ReleaseError):
        Release(made.manifest, arrays)


@pytest.fixture(scope="module")
def skewed():
    """Numbers that are skewed alike, in two groups that are alike, and weights of rows."""
    rng = np.random.default_rng(0)
    logs = 0.7 * rng.normal(size=(20_000, 1)) + 0.6 * rng.normal(size=(20_000, 4))
    frame = pd.DataFrame(np.exp(0.9 * logs), columns=COLUMNS)
    return frame.assign(kind=rng.choice(["a", "b"], len(frame)), w=rng.uniform(0, 3, len(frame)))


def of_weights():
    columns = {**schema().columns, "w": dpcov.Ignored()}
    weights = dpcov.Weights(column="w", upper=2)
    return dpcov.Schema(columns=columns, missing="never", weights=weights)


def read_spreads(release, frame, weights=None):
    """Errors and widths with and without what is given back, and whether intervals hold."""
    columns, found = frame[[*COLUMNS]].to_numpy(), []
    variances = np.diagonal(np.cov(columns.T, aweights=weights))
    for each in (release, as_made_before(release)):
        lines = variance_intervals(each, sampling=False)
        lower, upper = (np.sqrt(ends[:4] / variances) for ends in (lines.lower, lines.upper))
        own = np.sqrt(np.diagonal(each.covariance_matrix())[:4] / variances)
        root = np.sqrt(np.mean(np.square(own - 1)))
        found.append((root, np.mean(upper - lower), np.mean((lower < 1) & (upper > 1))))
    return found


def test_groups_and_weighted_rows_get_their_own_spread_back(skewed):
    found = []
    for seed in range(5):
        made = released(skewed, seed, by="kind")
        assert len(made.statistics.arrays["losses"]) == 3 * len(COLUMNS)
        of_rows = released(skewed, seed, schema=of_weights())
        lines = [read_spreads(made, skewed), read_spreads(of_rows, skewed, skewed["w"].clip(0, 2))]
        parts = ((made.group(name), skewed[skewed["kind"] == name]) for name in "ab")
        found.append([*lines, *(read_spreads(*part) for part in parts)])
    now, before = np.mean(found, axis=0).transpose(1, 2, 0)
    assert np.all(now[0, :2] < before[0, :2]), (now, before)
    assert now[0].mean() < 0.95 * before[0].mean()
    assert now[2].mean() > 0.8, now


def test_groups_that_are_estimated_together_get_theirs_back(skewed):
    made = released(skewed, by="kind")
    together = made.pooled
    for place, name in enumerate("ab"):
        rows = skewed.loc[skewed["kind"] == name, [*COLUMNS]]
        found = np.sqrt(np.diagonal(together.covariances[place])[:4] / rows.var())
        alone = np.sqrt(np.diagonal(made.group(name).covariance_matrix())[:4] / rows.var())
        np.testing.assert_allclose(found, alone, rtol=0.07)
        written = made.group(name, pooled=True)
        np.testing.assert_allclose(written.covariance_matrix(), together.covariances[place])
        np.testing.assert_allclose(written.mean_vector(), together.means[place])


def test_without_noise_the_factors_are_exact():
    losses, variances = np.array([0.0, 0.5, 3.0]), np.array([1.0, 0.5, 1.5])
    found = stretch(losses, np.full(3, 1e-6), variances, np.eye(3))
    np.testing.assert_allclose(found.factors**2, 1 + losses / variances, rtol=1e-3)
    assert np.all(found.unsure < 2e-3)


def test_noise_is_not_given_back():
    rng, kept = np.random.default_rng(0), []
    for _ in range(200):
        noisy = 0.3 * rng.normal(size=8)
        kept.append(stretch(noisy, np.full(8, 0.3), np.ones(8), np.eye(8)).factors ** 2 - 1)
    # Half of normal noise, cut off at zero, has a mean square of 0.3²/2.
    assert np.mean(np.square(kept)) < 0.25 * 0.3**2 / 2


def test_columns_that_are_nearly_one_lose_alike():
    rng, gaps = np.random.default_rng(1), []
    stiffness = stiffness_of(np.full((4, 4), 0.99) + 0.01 * np.eye(4), 1e-6)
    for _ in range(100):
        found = stretch(0.8 + 0.2 * rng.normal(size=4), np.full(4, 0.2), np.ones(4), stiffness)
        gaps.append(np.ptp(found.factors**2))
    # The noise alone has a range of 0.4.
    assert np.mean(gaps) < 0.12


def test_small_directions_resist_and_common_factors_do_not():
    """R^-½ D R^½ + its transpose is how far C is from I in units of its own directions."""
    rng = np.random.default_rng(2)
    factors = rng.normal(size=(6, 2))
    covariance = factors @ factors.T + 0.01 * np.eye(6)
    scale = np.sqrt(np.diagonal(covariance))
    r, change = covariance / np.outer(scale, scale), rng.normal(size=6)
    values, vectors = np.linalg.eigh(r)
    root, inverse = (vectors * values**power @ vectors.T for power in (0.5, -0.5))
    expected = np.linalg.norm(inverse @ np.diag(change) @ root) ** 2
    stiffness = stiffness_of(r, 0.0)
    assert change @ stiffness @ change == pytest.approx(expected)
    np.testing.assert_allclose(stiffness.sum(axis=1), 1.0)
    np.testing.assert_allclose(stiffness_of(np.eye(3), 0.1), np.eye(3))


def test_nothing_is_given_back_where_nearly_all_was_lost(table):
    made = released(table)
    statistics = msgspec.structs.replace(made.manifest.statistics, lost=0.94)
    manifest = msgspec.structs.replace(made.manifest, statistics=statistics)
    assert Release(manifest, dict(made.statistics.arrays)).stretch is None


def test_what_is_not_counted_is_given_back_by_half_and_doubted():
    losses, ones = np.array([1.0, 1.0]), np.ones(2)
    whole = stretch(losses, 1e-6 * ones, ones, np.eye(2), counted=1.0)
    half = stretch(losses, 1e-6 * ones, ones, np.eye(2), counted=0.5)
    np.testing.assert_allclose(whole.factors**2, 2.0, rtol=1e-3)
    np.testing.assert_allclose(half.factors**2, 2.5, rtol=1e-3)
    assert np.all(half.unsure > 0.4) and np.all(whole.unsure < 0.01)


def test_few_columns_that_lose_much_are_told_from_many_that_lose_nothing():
    """Under one normal law the error was 0.27."""
    rng, errors = np.random.default_rng(3), []
    truth = np.append(1.4, np.zeros(7))
    for _ in range(200):
        found = stretch(truth + 0.3 * rng.normal(size=8), np.full(8, 0.3), np.ones(8), np.eye(8))
        errors.append(found.factors**2 - 1 - truth)
    assert np.sqrt(np.mean(np.square(errors))) < 0.24


def test_lengths_tell_how_much_columns_lose_where_noise_hides_it():
    rng, found = np.random.default_rng(4), {0.02: [], 0.5: []}
    for _ in range(100):
        noisy = 0.3 * rng.normal(size=8)
        for lost, kept in found.items():
            kept.append(stretch(noisy, np.full(8, 0.3), np.ones(8), np.eye(8), lost=lost))
    few, many = (np.mean([each.factors**2 - 1 for each in kept]) for kept in found.values())
    assert 0.01 < few < 0.03 and 3 * few < many


def test_losses_beyond_all_that_are_told_apart_give_numbers():
    losses = np.array([1e300, -1e300, 0.0])
    found = stretch(losses, np.full(3, 1e-3), np.full(3, 1e-6), np.eye(3), lost=0.5)
    assert np.isfinite(found).all() and np.all(found.factors >= 1)

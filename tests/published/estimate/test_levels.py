"""Levels: what everybody knows of them is exact, blocks of noise go, blocks of signal stay."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov import Budget, Categorical, Numeric, Schema
from dpcov.analysis import mean_intervals
from dpcov.noise.entropy import SeededEntropy
from dpcov.published.estimate import levels
from dpcov.published.estimate.entry_noise import MomentNoise, covariance_noise, variance_noise
from dpcov.published.estimate.levels import (
    between,
    improved,
    relations,
    sources_of,
    with_known,
    with_psd_correlations,
    within_counts,
)
from dpcov.published.estimate.row_factors import row_factors
from dpcov.published.estimate.unit import EntryNoise
from dpcov.published.file.columns import EncodedColumn
from dpcov.published.reading import rows as moments_of_rows
from tests.releases import released_of

RNG = np.random.default_rng(0)


def level(source, name, scale=1.0):
    where = {"center": 0.0, "half_range": scale, "lower": 0.0, "upper": 1.0}
    return EncodedColumn(name=f"{source}={name}", source=source, kind="category", **where)


def number(name):
    return EncodedColumn(name=name, source=name, kind="numeric", center=0.0, half_range=1.0)


def missing(source):
    name = f"{source} (missing)"
    return EncodedColumn(
        name=name, source=source, kind="missing", center=0.0, half_range=0.5, lower=0.0, upper=1.0
    )


COLUMNS = [level("a", "x", 0.3), level("a", "y"), missing("a"), number("b"), missing("b")]


def encoded(n):
    """Levels x and y, neither, or missing; a number that is missing at times."""
    kind, absent = RNG.integers(0, 4, n), RNG.random(n) < 0.3
    scales = np.array([column.half_range for column in COLUMNS])
    value = np.where(absent, 0.0, RNG.normal(size=n) + kind)
    return np.column_stack([kind == 0, kind == 1, kind == 2, value, absent]) / scales


def test_what_is_known_is_the_covariance_of_the_rows():
    rows = encoded(500)
    true = np.cov(rows.T, ddof=0)
    within = np.zeros_like(true)
    for places in sources_of(COLUMNS):
        within[np.ix_(places, places)] = 1
    # The number's own variance and pairs of two columns are not known; they stay.
    within[3, 3] = 0
    found = with_known(true + (1 - within) * 0.5 + within * 7.0, rows.mean(axis=0), COLUMNS)
    assert found == pytest.approx(true + (1 - within) * 0.5)


def test_noise_hides_covariances_of_columns_with_missing_values_alone():
    columns = [number("a"), number("b"), number("c"), missing("c")]
    seen = np.eye(4) + 0.5
    found = improved(seen, seen, np.zeros(4), law_of(np.zeros(4), 1.0), columns, 0.0)
    assert np.flatnonzero(found[0]).tolist() == np.flatnonzero(found[1]).tolist() == [0, 1]


def test_a_mean_beyond_what_a_level_can_have_makes_no_negative_variance():
    found = with_known(np.eye(5), np.array([-0.1, 1.3, 0.1, 0.0, 0.1]), COLUMNS)
    assert found[0, 0] == found[1, 1] == 0.0


STD = 0.02


def law_of(mean, std=STD):
    """That of so many features."""
    features = np.eye(1 + len(mean))[1:]
    return MomentNoise(entries=EntryNoise(2 * std**2, std**2), features=features)


def table_of(n=50_000):
    """Means and covariances of three columns of eight levels, two of them related."""
    columns = [level(source, str(place), 0.3) for source in "abc" for place in range(8)]
    first = RNG.integers(0, 8, n)
    # One level of a is related to nothing.
    same = (RNG.random(n) < 0.5) & (first > 0)
    codes = [first, np.where(same, first, RNG.integers(0, 8, n)), RNG.integers(0, 8, n)]
    rows = np.column_stack([code[:, None] == np.arange(8) for code in codes]) / 0.3
    return columns, rows.mean(axis=0), np.cov(rows.T, ddof=0)


def noisy_of(true):
    noise = RNG.normal(size=true.shape) * STD / np.sqrt(2)
    return true + noise + noise.T


def test_blocks_of_noise_go_and_blocks_of_signal_stay():
    empty, related, parts = np.s_[:16, 16:], np.s_[:8, 8:16], []
    for _ in range(6):
        columns, mean, true = table_of()
        noisy = noisy_of(true)
        found = relations(noisy, mean, law_of(mean), columns, true)
        assert found == pytest.approx(found.T)
        assert np.linalg.norm(found[related]) > 0.9 * np.linalg.norm(true[related])
        error, before = (np.linalg.norm((each - true)[related]) for each in (found, noisy))
        left, noise = (np.linalg.norm(each[empty]) for each in (found, noisy))
        parts.append((left / noise, error / before))
    left, error = np.mean(parts, axis=0)
    assert left < 0.3 and error < 0.95


def test_levels_that_hold_every_row_add_up():
    columns, mean, true = table_of()
    noisy = noisy_of(true)
    scales = np.array([column.half_range for column in columns])
    found = relations(noisy, mean, law_of(mean), columns, true)[:8, 8:16]
    assert scales[:8] @ found == pytest.approx(np.zeros(8), abs=1e-12)
    # A level that the schema does not list leaves a sum below one: nothing is forced then.
    listed = np.delete(np.arange(24), 3)
    part = relations(
        noisy[np.ix_(listed, listed)],
        mean[listed],
        law_of(listed),
        [columns[place] for place in listed],
        true[np.ix_(listed, listed)],
    )
    assert np.abs(scales[:7] @ part[:7, 7:15]).max() > 1e-2
    # Rows that were scaled down have shorter levels.
    shorter = relations(noisy, 0.9 * mean, law_of(mean), columns, true, lost=0.25)[:8, 8:16]
    assert scales[:8] @ shorter == pytest.approx(np.zeros(8), abs=1e-12)


def test_what_levels_fall_short_of_one_moves_none_by_more():
    columns, mean, true = table_of()
    own, common = np.array([column.half_range for column in columns[:8]]), RNG.normal(size=8)
    # Where a map shows what levels add up to, next to no noise is left in that direction.
    back = np.column_stack([mean, np.eye(24)])
    back[:8, 1:9] -= (1 - 1e-6) * np.outer(common, own) / (own @ common)
    short = true.copy()
    off = np.array([1e-4, -1e-4])
    short[0, 8:10] += off
    short[8:10, 0] += off
    law = replace(law_of(mean, 1e-6), features=back)
    found = relations(short, mean, law, columns, true, lost=0.01)
    assert np.abs(found - true)[:8, 8:16].max() < 2e-4


def test_the_law_of_combinations_is_that_of_the_noise():
    mean, map_ = np.array([0.5, -1.0, 0.0]), RNG.normal(size=(2, 3))
    law, draws = law_of(mean, 0.1), []
    for _ in range(4_000):
        noise = np.triu(RNG.normal(size=(4, 4))) * 0.1
        noise = noise + np.triu(noise, 1).T
        noise[np.diag_indices(4)] *= np.sqrt(2)
        # The number of rows is public.
        noise[0, 0] = 0.0
        centered = np.column_stack([-mean, np.eye(3)])
        draws.append(map_ @ centered @ noise @ centered.T @ map_.T)
    expected = covariance_noise(map_ @ mean, np.zeros((2, 2)), law.mapped(map_))
    assert np.std(draws, axis=0) == pytest.approx(expected, rel=0.06)


def test_no_more_rows_have_both_levels_than_either_and_no_fewer_than_none():
    columns = [level("a", "x", 0.5), level("b", "y"), number("c")]
    mean, matrix = np.array([0.2, 0.3, 0.0]), np.full((3, 3), 5.0)
    assert within_counts(matrix, mean, columns)[0, 1] == pytest.approx(0.2 * 0.7)
    assert within_counts(-matrix, mean, columns)[0, 1] == pytest.approx(-0.2 * 0.3)
    assert within_counts(matrix, mean, columns)[0, 2] == 5.0


def test_blocks_are_pairs_of_columns_one_of_which_has_many_levels():
    columns = [*(level("a", str(place)) for place in range(3)), number("b"), number("c")]
    found = between(columns)
    assert found[:3, 3:].all()
    assert not found[:3, :3].any()
    assert not found[3:, 3:].any()


def test_the_nearest_positive_matrix_keeps_variances():
    matrix = np.array([[4.0, 2.0, -2.0], [2.0, 1.0, 1.0], [-2.0, 1.0, 0.0]])
    found = with_psd_correlations(matrix)
    assert np.linalg.eigvalsh(found).min() > -1e-9
    assert np.diagonal(found) == pytest.approx([4.0, 1.0, 0.0])
    psd = np.array([[2.0, 0.5], [0.5, 1.0]])
    assert with_psd_correlations(psd) == pytest.approx(psd)


def made(seed, n=6_000):
    """Two related columns of levels, a third that is not, and a number."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=n)
    codes = {}
    for name, pull, size in (("a", 1.0, 9), ("b", 1.0, 7), ("c", 0.0, 12)):
        tilt = np.linspace(-1, 1, size)
        codes[name] = (pull * np.outer(factor, tilt) + rng.gumbel(size=(n, size))).argmax(axis=1)
    labels = {name: [f"v{place}" for place in range(max(code) + 1)] for name, code in codes.items()}
    schema = Schema(
        columns={name: Categorical(categories=each) for name, each in labels.items()}
        | {"x": Numeric(lower=-10, upper=10)}
    )
    table = {name: np.array(labels[name])[code] for name, code in codes.items()}
    hot = [code == place for name, code in codes.items() for place in range(len(labels[name]))]
    value = factor + rng.normal(size=n)
    rows = np.column_stack([*hot, value])
    return pa.table(table | {"x": value}), schema, np.corrcoef(rows.T)


@pytest.mark.parametrize("budget", [{"epsilon": 1, "delta": Fraction(1, 10**6)}, {"epsilon": 4}])
@pytest.mark.parametrize("geometry", ["private", "schema"])
def test_blocks_are_better_than_shrinking_all_alike(budget, geometry, monkeypatch):
    before, after = [], []
    for seed in range(3):
        table, schema, truth = made(seed)
        terms = {"budget": Budget(**budget), "geometry": geometry}
        release = dpcov.release(table, schema=schema, entropy=SeededEntropy(seed), **terms)
        sources = np.array([column.source for column in release.features])
        apart = sources[:, None] != sources
        after.append(np.linalg.norm((release.correlation_matrix() - truth)[apart]))
        with monkeypatch.context() as patch:
            patch.setattr(levels, "relations", lambda *facts: facts[4])
            alike = dpcov.Release(release.manifest, release.statistics.arrays).correlation_matrix()
        before.append(np.linalg.norm((alike - truth)[apart]))
        share = release.mean_vector()[:9]
        assert np.diagonal(release.covariance_matrix("shrink"))[:9] == pytest.approx(
            share * (1 - share)
        )
        assert np.linalg.eigvalsh(release.covariance_matrix()).min() > -1e-9
    # With so little noise there is less to gain.
    most = 0.97 if geometry == "private" and "delta" not in budget else 0.85
    assert np.mean(after) < most * np.mean(before)


def test_numbers_beside_many_levels_are_not_lost_in_the_noise_of_all():
    """Their correlations erred by two to three times what they err without shrinkage."""
    rng, names = np.random.default_rng(0), [f"k{place}" for place in range(80)]
    numbers = rng.normal(size=(60_000, 3)) @ rng.normal(size=(3, 12)) + rng.normal(
        size=(60_000, 12)
    )
    table = {f"x{place}": column for place, column in enumerate(numbers.T)}
    columns = {name: Numeric(lower=-20, upper=20) for name in table}
    for name in ("one", "other"):
        table[name] = rng.choice(names, size=60_000)
        columns[name] = Categorical(categories=tuple(names))
    release = released_of(columns, pa.table(table))
    pairs = np.triu_indices(12, 1)
    truth = np.corrcoef(numbers.T)[pairs]
    shrunk, plain = (
        np.linalg.norm(release.correlation_matrix(post)[pairs] - truth)
        for post in ("shrink", "none")
    )
    assert shrunk < 1.3 * plain


def test_one_column_of_levels_has_no_blocks():
    columns = {"a": Categorical(categories=("x", "y", "z"))}
    made = released_of(columns, pa.table({"a": ["x", "y", "y", "z"] * 500}), rho=1, missing="never")
    assert made.correlation_matrix()[0, 1] == pytest.approx(-1 / np.sqrt(3), abs=0.05)


def test_an_estimate_without_noise_stays():
    columns, mean, true = table_of()
    found = relations(true, mean, law_of(mean, 1e-9), columns, true)
    assert found[between(columns)] == pytest.approx(true[between(columns)], abs=1e-6)


def test_levels_are_shrunk_once_for_all_that_is_read(monkeypatch):
    table, schema, _ = made(0, 2_000)
    release = dpcov.release(table, schema=schema, budget=Budget(rho=1), entropy=SeededEntropy(0))
    assert "losses" in release.statistics.arrays
    calls, whole = [], moments_of_rows.improved
    monkeypatch.setattr(
        moments_of_rows, "improved", lambda *facts: calls.append(facts) or whole(*facts)
    )
    release.diagnose()
    assert len(calls) == 1


def test_all_pairs_of_a_block_have_the_same_shares_of_spreads():
    whole = levels._shares(RNG.random((9, 500)), np.array([0, 20, 27, 300, 301]))
    assert np.ptp(whole[:, :20], axis=1) == pytest.approx(0)
    assert whole.sum(axis=0) == pytest.approx(1)
    assert np.ptp(whole[0]) > 0


def shortened(n=20_000, seed=0, centered=False):
    """Rows of levels, rare ones longer, that are scaled down around nothing, or around shares."""
    rng = np.random.default_rng(seed)
    names = {"a": (0.6, 0.3, 0.1), "b": (0.5, 0.5), "c": (0.9, 0.1)}
    hot, columns = [], []
    common = rng.random(n) < 0.3
    for name, shares in names.items():
        code = np.where(common, 0, rng.choice(len(shares), n, p=shares))
        for place, share in enumerate(shares):
            scale = np.sqrt(share * (1 - share))
            hot.append((code == place) / scale)
            columns.append(level(name, f"v{place}", scale))
    rows = np.column_stack([*hot, rng.normal(size=n) + common])
    columns.append(number("x"))
    around = np.zeros(len(columns))
    if centered:
        # Shares are known with an error; numbers are around their means.
        around = rows.mean(axis=0) * np.append(rng.uniform(0.95, 1.05, len(columns) - 1), 1.0)
        rows[:, -1] -= around[-1]
        around[-1] = 0.0
    squares = np.sum((rows - around) ** 2, axis=1)
    bound = (4.0 if centered else 0.7) * np.quantile(squares, 0.2)
    factors = np.sqrt(np.minimum(1, bound / squares))[:, None]
    lost = 1 - np.minimum(squares, bound).sum() / squares.sum()
    return rows, around + factors * (rows - around), columns, lost, around


@pytest.mark.parametrize("centered", [False, True])
def test_levels_tell_how_much_shorter_rows_are(centered):
    rows, shorter, columns, lost, around = shortened(centered=centered)
    found = row_factors(
        shorter.mean(axis=0), np.cov(shorter.T, ddof=0), law_of(around, 1e-9), columns, lost, around
    )
    means, truth = found.means(shorter.mean(axis=0)), rows.mean(axis=0)[:-1]
    assert lost > 0.1
    # As they are, shares are a tenth too small or more; around shares those of rare levels are.
    wrong, left = (np.abs(each[:-1] / truth - 1) for each in (shorter.mean(axis=0), means))
    assert (wrong.max() if centered else wrong.min()) > 0.1
    # A factor is not believed to be as small as that of the rarest level.
    assert left.max() < (0.75 * wrong.max() if centered else 0.01)
    assert found.of_means[-1] == 1.0

    def apart(covariance, mean):
        known = with_known(covariance, mean, columns)
        deviations = np.sqrt(np.diagonal(known))
        return (known / np.outer(deviations, deviations))[between(columns)]

    truth = apart(np.cov(rows.T, ddof=0), rows.mean(axis=0))
    raw = apart(np.cov(shorter.T, ddof=0), shorter.mean(axis=0))
    better = apart(found.restored(np.cov(shorter.T, ddof=0)), means)
    most = 1.0 if centered else 0.5
    assert np.linalg.norm(better - truth) < most * np.linalg.norm(raw - truth)


def test_noise_on_a_level_does_not_tell_how_long_its_rows_are():
    _, shorter, columns, lost, around = shortened()
    covariance = np.cov(shorter.T, ddof=0)
    covariance[2, 2] += 0.4
    sure, unsure = (
        row_factors(
            shorter.mean(axis=0), covariance, law_of(around, v), columns, lost, around
        ).of_means
        for v in (1e-9, 0.3)
    )
    assert sure[2] == 1.0
    assert unsure[2] < 0.95


@pytest.mark.parametrize("seen", [-0.01, 0.0, 0.01])
def test_a_level_that_noise_hides_tells_nothing_and_others_tell_their_own(seen):
    _, shorter, columns, lost, around = shortened()
    mean, covariance = shorter.mean(axis=0), np.cov(shorter.T, ddof=0)
    # Rows of one level are much shorter than others, and another has no more than noise.
    covariance[1, 1] -= 0.3
    expected = row_factors(mean, covariance, law_of(mean, 0.01), columns, lost, around).of_means
    mean[2], covariance[2, 2] = seen, 0.001
    found = row_factors(mean, covariance, law_of(mean, 0.01), columns, lost, around).of_means
    assert np.ptp(expected[[0, 1, 3, 4]]) > 0.05
    assert found[[0, 1, 3, 4]] == pytest.approx(expected[[0, 1, 3, 4]], abs=0.02)
    assert found[2] == pytest.approx(np.median(found[:-1]), abs=0.05)


def test_labels_that_are_not_listed_do_not_pass_for_shorter_rows():
    rows, _, columns, _, around = shortened()
    # A fifth of the rows have none of the levels of the first column.
    rows[:4_000, :3] = 0.0
    mean, covariance = rows.mean(axis=0), np.cov(rows.T, ddof=0)
    found = row_factors(mean, covariance, law_of(mean, 1e-9), columns, 0.2, around)
    assert found.of_means[:-1] == pytest.approx(np.ones(7))
    # Alone it could be taken for one of shorter rows, but its levels' squares say otherwise.
    alone = np.array([0, 1, 2, 7])
    own = row_factors(
        mean[alone],
        covariance[np.ix_(alone, alone)],
        law_of(alone, 1e-9),
        [columns[place] for place in alone],
        0.2,
        around[alone],
    )
    assert (own.of_means[:-1] >= 0.9).all()
    # Neither are numbers of these rows much shorter: 0.8 of them have a level, and no 0.8 is taken.
    assert own.of_rows[-1] == pytest.approx(0.9, abs=1e-3)


@pytest.mark.parametrize("std", [0.01, 0.05, 0.2])
def test_noisy_levels_weigh_as_much_as_noise_leaves_beside_what_is_known_before(std):
    """A mean squared factor is before anything from 1 less what is lost to 1, and here seen as 1.

    The oracle is the mean weighed by inverse variances, that of a uniform law among them.
    """
    columns = [level("a", "x"), level("a", "y"), number("b")]
    around, lost = np.array([0.5, 0.5, 0.0]), 0.3
    law, covariance = law_of(around, std), np.diag([0.25, 0.25, 1.0])
    noise = variance_noise(around, np.diagonal(covariance), law)[:2]
    # Squares of levels tell by what they have beyond those of what they were pulled to.
    seen = np.sum(noise**2) / (1 - 2 * 0.5**2) ** 2
    before = lost**2 / 12
    expected = ((1 - lost / 2) / before + 1 / seen) / (1 / before + 1 / seen)
    found = row_factors(around, covariance, law, columns, lost, around)
    assert found.of_rows[-1] ** 2 == pytest.approx(expected, rel=1e-6)


def test_columns_that_miss_values_or_numbers_alone_tell_nothing():
    mean, covariance = np.full(len(COLUMNS), 0.2), np.eye(len(COLUMNS))
    nothing = np.zeros(len(COLUMNS))
    assert row_factors(mean, covariance, law_of(mean, 1e-9), COLUMNS, 0.2, nothing) is None
    one = [number("x")]
    assert row_factors(np.zeros(1), np.eye(1), law_of([0], 1e-9), one, 0.2, np.zeros(1)) is None


@pytest.mark.parametrize("budget", [{"epsilon": 1, "delta": Fraction(1, 10**6)}, {"epsilon": 2}])
def test_shares_of_levels_in_a_release_are_those_of_the_table(budget):
    rng, n = np.random.default_rng(3), 5_000
    answers = rng.choice(3, (n, 12), p=(0.6, 0.3, 0.1))
    # Some gave no answer at all: their rows are long.
    answers[rng.random(n) < 0.15] = 2
    names, labels = [f"q{place}" for place in range(12)], np.array(["yes", "no", "unknown"])
    columns = {name: Categorical(categories=tuple(labels)) for name in names}
    # In pure epsilon a table of levels alone keeps its bounds.
    schema = Schema(columns=columns | {"age": Numeric(lower=0, upper=120)}, missing="never")
    table = {name: labels[code] for name, code in zip(names, answers.T, strict=True)}
    table = pa.table(table | {"age": rng.normal(50, 10, n)})
    release = dpcov.release(table, schema=schema, budget=Budget(**budget), entropy=SeededEntropy(1))
    assert release.statistics.lost > 0.05
    sums = release.mean_vector()[:36].reshape(12, 3).sum(axis=1)
    assert sums.mean() == pytest.approx(1.0, abs=0.02)
    true = np.array([[np.mean(code == place) for place in range(3)] for code in answers.T])
    rows = {row.name: row for row in mean_intervals(release, sampling=False).rows}
    lines = [rows[f"{name}={label}"] for name in names for label in labels]
    held = [line.lower <= x <= line.upper for line, x in zip(lines, true.ravel(), strict=True)]
    assert np.mean(held) > 0.8


def test_numbers_that_determine_each_other_leave_correlations_of_levels_alone():
    rng, n = np.random.default_rng(0), 50_000
    x = rng.normal(size=n)
    codes = np.digitize(x + 0.3 * rng.normal(size=n), [-1.0, 0.3, 1.2])
    z = rng.normal(size=n) + x
    table = pa.table({"x": x, "twice": 2 * x, "z": z, "k": np.array(list("pqrs"))[codes]})
    columns = {
        "x": Numeric(lower=-6, upper=6),
        "twice": Numeric(lower=-12, upper=12),
        "z": Numeric(lower=-10, upper=10),
        "k": Categorical(categories=tuple("pqrs")),
    }
    # A map makes the difference of the numbers, and the sum of the levels, as large as they are.
    schema, budget = Schema(columns=columns, missing="never"), Budget(rho=1000)
    rows = np.column_stack([x, 2 * x, z, codes[:, None] == np.arange(4)])
    made = [
        dpcov.release(table, schema=schema, budget=budget, entropy=SeededEntropy(seed))
        for seed in range(3)
    ]
    # Some keep the bounds.
    assert any(release.frame.is_mapped for release in made)
    for release in made:
        assert release.correlation_matrix() == pytest.approx(np.corrcoef(rows.T), abs=0.005)


def test_a_share_that_noise_makes_zero_leaves_other_correlations_alone():
    truth = np.full((4, 4), 0.2) + 0.8 * np.eye(4)
    noisy = truth.copy()
    noisy[3, 3], noisy[3, :3], noisy[:3, 3] = 0.0, 0.9, 0.9
    found = with_psd_correlations(noisy)
    assert found[:3, :3] == pytest.approx(truth[:3, :3])
    assert found[3] == pytest.approx(np.zeros(4))

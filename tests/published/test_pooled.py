from dataclasses import replace
from types import SimpleNamespace

import msgspec
import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.analysis import PrivateRidge, mean_intervals
from dpcov.data.geometry import Geometry, Scale
from dpcov.errors import DpcovError, ReleaseError, ReleaseWarning, UsageError
from dpcov.published.estimate.unit import EntryNoise, Part, UnitEstimate
from dpcov.published.pooled import _covariance_of_rows, _moments, _places
from dpcov.published.release import Release
from tests.releases import released as released_within
from tests.releases import released_of

NAMES = ["a", "b", "c", "d"]


def regions(differ, count=20, rows=200, seed=0):
    rng, parts, means = np.random.default_rng(seed), [], []
    common = rng.normal(size=(4, 2))
    for _ in range(count):
        own = common + differ * rng.normal(size=(4, 2))
        means.append(mean := differ * rng.normal(size=4))
        parts.append(rng.normal(size=(rows, 2)) @ own.T + rng.normal(size=(rows, 4)) + mean)
    frame = pd.DataFrame(np.vstack(parts), columns=NAMES)
    frame.attrs["means"] = np.array(means).tolist()
    return frame.assign(region=[f"r{g:02d}" for g in range(count) for _ in range(rows)])


def released(frame, seed=0, rho="0.1", **terms):
    terms = {"budget": dpcov.Budget(rho=rho), "by": "region"} | terms
    return released_within(frame, -20, 20, seed, **terms)


def truth_of_alike():
    """Correlations of the population that regions which are alike were drawn from."""
    common = np.random.default_rng(0).normal(size=(4, 2))
    covariance = common @ common.T + np.eye(4)
    deviations = np.sqrt(np.diagonal(covariance))
    return covariance / np.outer(deviations, deviations)


@pytest.fixture(scope="module")
def made():
    frame = regions(0.0)
    return frame, released(frame, 1, rho="0.03")


def alone_or_unrelated(release, name):
    """Correlations of a group by itself; none where noise hides its rows."""
    try:
        return np.nan_to_num(release.group(name).correlation_matrix())
    except ReleaseError:
        return np.eye(4)


def scores(frame, release, truth=None):
    """Squared errors of correlations, alone and together, and whether intervals hold them."""
    alone, together, held = [], [], []
    pairs = np.triu_indices(4, 1)
    for place, name in enumerate(release.pooled.names):
        rows = frame[frame["region"] == name][NAMES]
        if len(rows):
            own = rows.corr().to_numpy() if truth is None else truth
            found = alone_or_unrelated(release, name)
            alone.append((found - own)[pairs] ** 2)
            error = (release.pooled.correlations[place] - own)[pairs]
            together.append(error**2)
            held.append(np.abs(error) < 1.96 * release.pooled.correlation_std[place][pairs])
    return np.mean(alone), np.mean(together), np.mean(held)


def test_small_groups_gain_and_intervals_hold(made):
    found = [
        scores(made[0], released(made[0], seed, rho="0.03"), truth_of_alike()) for seed in range(8)
    ]
    alone, together, held = np.mean(found, axis=0)
    assert together < 0.7**2 * alone
    assert held > 0.85


def test_correlations_are_not_stated_to_err_by_more_than_where_nothing_is_known(made):
    errors = released(made[0], rho="0.0001").pooled.correlation_std
    assert errors.max() == 1


def test_groups_that_differ_lose_next_to_nothing():
    alone, together, held = np.mean(
        [
            scores(frame := regions(2.0, count=8, rows=1_000, seed=seed), released(frame, seed))
            for seed in range(3)
        ],
        axis=0,
    )
    assert together < 1.06**2 * alone
    assert held > 0.9


@pytest.mark.parametrize("missing", ["never", "indicator"])
def test_intervals_of_means_hold_where_groups_differ_a_little(missing):
    # By less than the noise, so that how much is not known.
    held = []
    for seed in range(4):
        frame, rng = regions(0.1, count=16, seed=seed), np.random.default_rng(seed)
        truth = frame.attrs["means"]
        if missing == "indicator":
            frame[NAMES] = frame[NAMES].mask(rng.random((len(frame), 4)) < 0.1)
        pooled = released(frame, seed, missing=missing).pooled
        for place in range(16):
            error = np.abs(pooled.means[place] - truth[place])
            held.append(error < 1.96 * pooled.mean_std[place])
    assert np.mean(held) > 0.9


def test_intervals_of_means_hold_beside_a_group_that_has_most_rows():
    """They held in 14 %: the mean of all is close to that group's, whatever the others are."""
    rng, sizes, held = np.random.default_rng(0), np.array([20_000, *[100] * 25]), []
    for seed in range(3):
        truth = 0.6 * rng.normal(size=(26, 4))
        rows = rng.normal(size=(sizes.sum(), 4)) + np.repeat(truth, sizes, axis=0)
        frame = pd.DataFrame(rows, columns=NAMES)
        frame["region"] = np.repeat([f"r{g:02d}" for g in range(26)], sizes)
        pooled = released(frame, seed, rho="0.03").pooled
        held.append(np.abs(pooled.means[:26] - truth) < 1.96 * pooled.mean_std[:26])
    assert np.mean(held) > 0.75


def test_a_pooled_group_says_that_it_does_not_know_what_is_missing(made):
    group = made[1].group("r03", pooled=True)
    for read in (group.mean, group.covariance, group.correlation):
        with pytest.warns(ReleaseWarning, match=r"Use release.group\(name\)"):
            read(missing="at-random")


def test_a_pooled_group_is_a_release(made, tmp_path):
    _, release = made
    group = release.group("r03", pooled=True)
    place = release.pooled.names.index("r03")
    assert np.allclose(group.covariance_matrix(), release.pooled.covariances[place])
    assert np.allclose(group.correlation_matrix(), release.pooled.correlations[place])
    assert np.allclose(group.mean_vector(), release.pooled.means[place])
    assert group.n_rows == release.group("r03").n_rows
    group.save(tmp_path / "r03.dpcov")
    again = dpcov.load(tmp_path / "r03.dpcov")
    assert np.array_equal(again.covariance_matrix(), group.covariance_matrix())
    assert release.fingerprint[:12] in again.summary(details=True)
    model = PrivateRidge.from_release(group, target="a", alpha=0.1)
    assert np.isfinite(model.coef_).all()
    # Its noise is no longer of a known law.
    assert group.expected_error() is None
    # Whatever its notes say; files from before said it in a note alone.
    statistics = msgspec.structs.replace(group.manifest.statistics, notes=("another note",))
    silent = Release(
        msgspec.structs.replace(group.manifest, statistics=statistics), group.statistics.arrays
    )
    older = Release(msgspec.structs.replace(group.manifest, pooled=False), group.statistics.arrays)
    for told in (group, again, silent, older):
        with pytest.raises(UsageError, match="Combine the releases that it is of"):
            told.combine(release.group("r04", pooled=True))
        assert "estimated together" in told.diagnose().columns[0].cause
    for refused in (group, again, silent, older):
        with pytest.raises(DpcovError, match=r"release\.group\(name\)"):
            mean_intervals(refused)


def test_what_cannot_be_pooled_is_refused(made):
    with pytest.raises(UsageError, match="by=COLUMN"):
        assert made[1].group("r03").pooled
    with pytest.raises(UsageError, match="no group of that name"):
        made[1].group("nowhere", pooled=True)


def test_of_a_pooled_group_it_is_not_known_how_far_to_shrink(made):
    pooled = made[1].group("r03", pooled=True)
    with pytest.raises(UsageError, match=r"groups estimated together. Use post='psd'"):
        pooled.covariance_matrix("shrink")
    assert np.isfinite(pooled.covariance_matrix("psd")).all()


def test_groups_of_combined_releases_are_pooled(made):
    frame, truth, errors = made[0], truth_of_alike(), []
    for seed in range(0, 16, 2):
        one, other = (released(frame, seed=seed + more, rho="0.03") for more in (0, 1))
        both = one.combine(other)
        errors.append([scores(frame, each, truth)[:2] for each in (one, other, both)])
        pooled = both.group("r03", pooled=True)
        assert np.isfinite(pooled.covariance_matrix()).all()
        assert pooled.n_rows == round(both.group("r03").n_rows)
    # Alone and together, of either release and of both.
    one, other, combined = np.mean(errors, axis=0)
    single = (one + other) / 2
    assert np.prod(combined / single) < 1


def test_groups_with_missing_values_are_pooled_over_the_values_that_are_present():
    # A missing value is encoded as the center, 3: means that took it for a value would be off by
    # up to 0.8.  Some groups have more of them than others.
    frame, rng = regions(0.3, count=16), np.random.default_rng(7)
    frame[NAMES] += 5
    often = 0.1 + 0.3 * (frame["region"] > "r07")
    frame["a"] = frame["a"].mask(rng.random(len(frame)) < often)
    frame["b"] = frame["b"].mask(rng.random(len(frame)) < 0.15)
    place = Geometry(columns={name: Scale(center=3.0, scale=2.0) for name in NAMES}, norm_bound=6.0)
    release = released(frame, missing="indicator", geometry=place, rho="20")
    pooled, held, wrong = release.pooled, [], []
    for place, name in enumerate(pooled.names):
        rows = frame.loc[frame["region"] == name, NAMES]
        if len(rows):
            wrong.append(pooled.means[place] - rows.mean().to_numpy())
            held.append(np.abs(wrong[-1]) < 1.96 * pooled.mean_std[place])
    assert np.mean(held) > 0.85
    assert np.sqrt(np.mean(np.square(wrong))) < 0.25
    assert np.abs(np.mean(wrong, axis=0)).max() < 0.15
    alone, together, within = scores(frame, release)
    assert together < alone and within > 0.8
    group, place = release.group("r12", pooled=True), pooled.names.index("r12")
    assert group.feature_names == release.feature_names and group.missing() == {}
    assert np.allclose(group.mean_vector(), pooled.means[place])
    assert np.allclose(group.covariance_matrix(), pooled.covariances[place])


@pytest.mark.filterwarnings("ignore::dpcov.errors.PrivacyWarning")
def test_the_covariance_of_rows_has_zeros_where_values_are_missing():
    """In what noise was added to, whichever way it is read."""
    rng, n = np.random.default_rng(0), 40_000
    values = 0.5 + rng.normal(size=(n, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    gone = rng.random((n, 2)) < (0.2, 0.4)
    frame = pd.DataFrame(np.where(gone, np.nan, values), columns=["a", "b"])
    place = Geometry(columns=dict.fromkeys("ab", Scale(center=0.0, scale=1.0)), norm_bound=6.0)
    terms = {"missing": "indicator", "budget": dpcov.Budget(rho=50), "geometry": place}
    made = released_within(frame, -6, 6, **terms)
    places = _places(made)
    found = _covariance_of_rows(made, places, made.frame.on(places).back)
    zeros = np.where(gone, 0.0, values)
    rows = np.column_stack([zeros[:, 0], gone[:, 0], zeros[:, 1], gone[:, 1]])
    assert found == pytest.approx(np.cov(rows.T), abs=0.02)


def test_a_column_without_values_does_not_move_correlations_of_others():
    frame, errors = regions(0.0).assign(d=np.nan), []
    for seed in range(3):
        pooled = released(frame, seed, missing="indicator").pooled
        errors += [found[:3, :3] - truth_of_alike()[:3, :3] for found in pooled.correlations[:-1]]
        assert (pooled.correlation_std[:, 3, :3] == 1).all()
    assert np.sqrt(np.mean(np.square(errors))) < 0.07
    nothing = released(frame[["d", "region"]], missing="indicator").pooled
    assert np.isfinite(nothing.covariances).all() and np.isfinite(nothing.covariance_std).all()


def test_groups_that_lack_different_columns_know_correlations_from_each_other():
    frame, errors, stated = regions(0.0, count=4, rows=1500), [], []
    for place, name in enumerate(NAMES):
        frame[name] = frame[name].mask(frame["region"] == f"r{place:02d}")
    for seed in range(3):
        pooled = released(frame, seed, missing="indicator", rho="0.5").pooled
        errors += [found - truth_of_alike() for found in pooled.correlations[:4]]
        stated += list(pooled.correlation_std[:4])
    assert np.sqrt(np.mean(np.square(errors))) < 0.08
    assert np.max(stated) < 0.3


def test_correlations_of_groups_do_not_depend_on_units():
    rng = np.random.default_rng(0)
    z = rng.normal(size=4000)
    frame = pd.DataFrame(
        {
            "revenue": 5e8 * (1 + 0.3 * z),
            "rate": 0.05 + 0.01 * (z + rng.normal(size=4000)),
            "region": rng.choice(["north", "south"], 4000),
        }
    )
    columns = {
        "revenue": dpcov.Numeric(lower=0, upper=1e9),
        "rate": dpcov.Numeric(lower=0, upper=0.1),
        "region": dpcov.Categorical(categories=("north", "south")),
    }
    release = released_of(columns, frame, by="region")
    for place, name in enumerate(("north", "south")):
        alone = release.group(name).correlation_matrix()
        assert release.pooled.correlations[place] == pytest.approx(alone, abs=0.1)


def test_groups_of_which_noise_leaves_nothing_can_be_read():
    rng = np.random.default_rng(3)
    z = rng.normal(size=1000)
    frame = pd.DataFrame({"x": z, "y": z + rng.normal(size=1000), "k": np.full(1000, 2.5)})
    frame["g"] = rng.choice(list("abc"), 1000, p=[0.6, 0.3, 0.1])
    budget = dpcov.Budget(epsilon=0.1, delta="1e-6")
    for seed in range(6):
        terms = {"budget": budget, "by": "g", "missing": "indicator"}
        release = released_within(frame, -4, 4, seed, **terms)
        assert np.isfinite(release.pooled.covariances).all()
        for name in "abc":
            assert np.isfinite(release.group(name, pooled=True).covariance_matrix()).all()


def test_a_column_that_alone_differs_between_groups_is_not_too_sure():
    """Groups of unequal size; all other columns are alike, and draw what differs toward nothing."""
    sizes, middles, held = (3000, 1500, 750, 750), np.array([60, 64, 60, 64]), []
    bounds = {"x": (0, 200), "y": (-500, 500), "z": (0, 1000)}
    columns = {name: dpcov.Numeric(lower=a, upper=b) for name, (a, b) in bounds.items()}
    columns |= {"g": dpcov.Categorical(categories=tuple("abcd"))}
    for seed in range(25):
        rng, parts = np.random.default_rng(500 + seed), []
        for group, size, middle in zip("abcd", sizes, middles, strict=True):
            rows = rng.normal(size=(size, 3)) * (12, 40, 30) + (middle, 20, 100)
            parts.append(pd.DataFrame(rows, columns=list("xyz")).assign(g=group))
        release = released_of(
            columns, pd.concat(parts, ignore_index=True), seed, by="g", geometry="schema"
        )
        pooled = release.pooled
        places = [pooled.names.index(group) for group in "abcd"]
        errors = np.abs(pooled.means[places, 0] - middles)
        held.append(errors <= 1.96 * pooled.mean_std[places, 0])
    assert np.mean(held) > 0.8


def test_a_group_of_a_few_rows_is_not_taken_for_what_is_left_of_it():
    """Short rows have little noise, and a group whose other rows noise hides has none of them."""
    rng, p, sizes = np.random.default_rng(0), 10, {"a": 3_500, "b": 750, "c": 45}
    count = sum(sizes.values())
    rows = rng.normal(size=(count, 2)) @ rng.normal(size=(2, p)) + rng.normal(size=(count, p))
    frame = pd.DataFrame(rows, columns=[f"x{i}" for i in range(p)])
    frame["k"] = np.repeat([*sizes], [*sizes.values()])
    terms = {"budget": dpcov.Budget(rho="0.02"), "by": "k", "missing": "indicator"}
    truth, pairs, errors = np.corrcoef(rows.T), np.triu_indices(p, 1), []
    for seed in range(8):
        made = released_within(frame, -40, 60, seed, **terms).pooled
        errors.append(np.abs(made.correlations[2] - truth)[pairs].max())
    # One in a hundred errs by more.
    assert sorted(errors)[-2] < 0.3


def test_a_group_whose_longest_stratum_is_not_published_has_its_noise():
    """Its trace was within the noise, and what is left has next to no noise, and no rows."""

    def one(size, rows):
        part = Part(matrix=size * np.eye(3), diagonal_variance=size**2 / 100, largest_trace=size)
        law = {"noise": EntryNoise(size**2 / 100, size**2 / 200)}
        return UnitEstimate(matrix=part.matrix, n_rows=rows, parts=(part,), **law)

    all_rows, left = one(1.0, 4000), SimpleNamespace(unit=one(1e-6, 40), public_intercept=0.5)
    found = _moments(left, np.arange(3), all_rows, all_rows.parts[0])
    assert found["variances"] == pytest.approx(100**2 / 200 / 0.5**2)
    # Noise that has no strata leaves none out.
    assert _moments(left, np.arange(3), all_rows, None)["variances"] < 1e-6
    whole = SimpleNamespace(unit=one(1.0, 40), public_intercept=1.0)
    found = _moments(whole, np.arange(3), all_rows, all_rows.parts[0])
    assert found["variances"] == pytest.approx(1 / 200)
    # Of 40 rows with noise of 40, twice the noise is taken; of 40 with noise of 4 themselves.
    for noise, rows in ((40, 80), (4, 40)):
        unsure = replace(one(1.0, 40), count_variance=(noise / 40) ** 2)
        stated = SimpleNamespace(unit=unsure, public_intercept=1.0)
        found = _moments(stated, np.arange(3), all_rows, all_rows.parts[0])
        assert found["counts"] == pytest.approx(rows)
        assert found["count_variances"] == pytest.approx((noise / rows) ** 2)
    # A private number of rows is that of the intercept, with the variance of its ratio.
    private = SimpleNamespace(unit=one(3.0, 40), public_intercept=None)
    found = _moments(private, np.arange(3), all_rows, all_rows.parts[0])
    assert found["count_variances"] == pytest.approx((3.0**2 / 100) / 3.0**2)


def test_standard_deviations_count_what_scaling_rows_down_took():
    """They held in 12 to 38 % of the cases: noise is the smaller part of what is not known."""
    rng, names = np.random.default_rng(0), ["big", "mid", *(f"s{place}" for place in range(4))]

    def drawn(n):
        return np.exp(0.9 * (0.7 * rng.normal(size=(n, 1)) + 0.6 * rng.normal(size=(n, 4))))

    truth, held = drawn(1_000_000), []
    for seed in range(6):
        frame = pd.DataFrame(drawn(20_000), columns=NAMES)
        frame["region"] = rng.choice(names, len(frame), p=[0.6, 0.35, *[0.0125] * 4])
        made = released_within(frame, 0, 1000, seed, by="region").pooled
        # Without the group of unlisted values.
        variances, stds = (
            np.diagonal(each, axis1=1, axis2=2)[:-1]
            for each in (made.covariances, made.covariance_std)
        )
        of_means = np.abs(made.means - truth.mean(axis=0)) < 1.96 * made.mean_std
        held.append((np.abs(variances - truth.var(axis=0)) < 1.96 * stds, of_means[:-1]))
        # What says nothing of its own has the spread of all.
        assert np.all(variances[2:].mean(axis=0) > 0.8 * variances[0])
    assert np.all(np.mean(held, axis=(0, 2, 3)) > 0.75)


def people_by_group(seed, terms):
    """Two columns with a correlation of 0.6 in six groups, weighted or of three rows a person."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=2_000), "g": rng.choice([*"uvwxyz"], 2_000)})
    frame["b"] = 0.6 * frame["a"] + 0.8 * rng.normal(size=2_000)
    frame["k"] = np.where(rng.random(2_000) < 0.2, 1.0, 0.02)
    columns = {name: dpcov.Numeric(lower=-6, upper=6) for name in "ab"}
    columns["g"] = dpcov.Categorical(categories=tuple("uvwxyz"))
    columns["k"] = dpcov.Numeric(lower=0, upper=1) if "weights" in terms else dpcov.Ignored()
    frame = frame.loc[frame.index.repeat(terms.get("rows_per_person", 1))]
    options = {"budget": dpcov.Budget(rho=1000), "mechanism": "stratified", "geometry": "schema"}
    return released_of(columns, frame, seed, missing="never", **terms, by="g", **options)


@pytest.mark.filterwarnings("ignore::dpcov.errors.PrivacyWarning")
@pytest.mark.parametrize(
    "terms", [{"weights": dpcov.Weights(column="k", upper=1)}, {"rows_per_person": 3}]
)
def test_standard_deviations_count_weights_and_several_rows_of_a_person(terms):
    """With three rows a person, intervals of correlations held in 76 % of the cases."""
    held = []
    for seed in range(24):
        made = people_by_group(seed, terms).pooled
        errors = np.abs(made.correlations[:6, 0, 1] - 0.6)
        held.append(errors < 1.96 * made.correlation_std[:6, 0, 1])
    assert np.mean(held) > 0.86


def test_variances_of_yes_or_no_are_those_of_their_means():
    rng, n = np.random.default_rng(1), 4000
    frame = pd.DataFrame({"x": rng.normal(size=n), "region": rng.choice(["r", "s"], n)})
    frame["yes"] = frame["x"] + rng.normal(size=n) > 0
    made = released_within(frame[["x", "yes", "region"]], -9, 9, by="region").pooled
    shares = made.means[:2, 1]
    np.testing.assert_allclose(made.covariances[:2, 1, 1], shares * (1 - shares), rtol=1e-6)


def test_a_rare_level_whose_mean_noise_moves_to_its_bound_is_not_surer_for_that():
    rng, n = np.random.default_rng(0), 4_000
    frame = pd.DataFrame({"x": rng.normal(size=n), "region": rng.choice(list("abc"), n)})
    frame["y"] = np.where(rng.random(n) < 0.015, "rare", "usual")
    errors = []
    for seed in range(6):
        made = released_within(frame, -4, 4, seed, by="region", geometry="schema").pooled
        rare = made.covariances[:, 1, 1] - 0.015 * 0.985
        errors.append(np.abs(rare / made.covariance_std[:, 1, 1]).max())
    assert max(errors) < 5


def test_means_of_groups_may_be_anything_where_noise_hides_how_many_rows_have_a_value():
    """Rows that lack one would count as rows at the center, which is far from all values."""
    rng, n = np.random.default_rng(0), 800
    table = pd.DataFrame({f"r{i}": np.where(rng.random(n) < 0.05, 3.0, np.nan) for i in range(20)})
    table["g"] = rng.choice(["p", "q"], n)
    made = released_within(table, 0, 100, missing="indicator", by="g")
    assert made.hides_presence.any()
    found = made.pooled
    assert np.all(np.abs(found.means - 3) <= 1.97 * found.mean_std)
    reach = np.maximum(found.means, 100 - found.means)
    unknown = made.hides_presence[made.shown]
    np.testing.assert_allclose(1.96 * found.mean_std[:, unknown], reach[:, unknown])


@pytest.mark.parametrize("seed", range(3))
def test_no_mean_of_a_group_errs_by_more_than_the_bounds_allow(seed):
    """One from 0 to 100 was 44 ± 66."""
    rng, n = np.random.default_rng(seed), 600
    frame = pd.DataFrame({"x": rng.uniform(0, 100, n), "yes": rng.random(n) < 0.5})
    frame["region"] = rng.choice(["a", "b"], n)
    columns = {"x": dpcov.Numeric(lower=0, upper=100), "yes": dpcov.Boolean()}
    columns["region"] = dpcov.Categorical(categories=("a", "b", "c"))
    found = released_of(columns, frame, seed, by="region", rho="1e-4").pooled
    reach = np.maximum(found.means, [100, 1] - found.means)
    assert (1.96 * found.mean_std <= reach * (1 + 1e-9)).all()


def test_no_spread_of_a_group_is_larger_than_the_bounds_allow():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(1.0 * (rng.random((1000, 10)) < 0.5)).add_prefix("x")
    rows = rows.assign(g=rng.choice(list("abc"), 1000, p=[0.7, 0.2, 0.1]))
    columns = {name: dpcov.Numeric(lower=0, upper=1) for name in rows.columns[:-1]}
    columns["g"] = dpcov.Categorical(categories=("a", "b", "c"))
    made = released_of(columns, rows, by="g")
    for name, covariance in zip(made.group_names, made.pooled.covariances, strict=True):
        assert np.diagonal(covariance).max() <= 0.25 * (1 + 1e-12)
        read = made.group(name, pooled=True).covariance_matrix()
        assert np.diagonal(read).max() <= 0.25 * (1 + 1e-9)

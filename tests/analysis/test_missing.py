"""Values that are missing neither bias what a release says nor leave its intervals too short."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpcov
from benchmarks.analyst.missing import BY_LEVEL, LINES, SETTINGS
from dpcov.analysis import (
    NoiseWarning,
    PrivateCorrelation,
    PrivateCovariance,
    PrivateLDA,
    PrivateLinearRegression,
    PrivateQDA,
    PrivateRidge,
    coefficient_intervals,
    correlation_intervals,
    eigenvalue_intervals,
    mean_intervals,
    variance_intervals,
)
from dpcov.analysis.intervals.moments import _thinning
from dpcov.analysis.intervals.of_release import moment_law
from dpcov.errors import ReleaseError, ReleaseWarning
from dpcov.published.estimate.entry_noise import share_noise
from tests.releases import released as released_within
from tests.releases import released_of

R = np.array([[1.0, 0.6, 0.3], [0.6, 1.0, 0.5], [0.3, 0.5, 1.0]])
NAMES, MEANS = ["x0", "x1", "x2"], np.array([0.0, 1.0, 7.0])
COLUMNS = {
    name: dpcov.Numeric(lower=mean - 6, upper=mean + 8)
    for name, mean in zip(NAMES, MEANS, strict=True)
}
SLOPES = np.linalg.solve(R[1:, 1:], R[1:, 0])
DRAWS = "dpcov.analysis.intervals.of_release._DRAWS"


@pytest.fixture
def few_draws(monkeypatch):
    """Variances of noise are known to a fifth: enough where many releases are read."""
    monkeypatch.setattr(DRAWS, 50)


def rows(share, seed, n=4_000):
    rng = np.random.default_rng(seed)
    found = MEANS + rng.multivariate_normal(np.zeros(3), R, size=n)
    found[rng.random(found.shape) < share] = np.nan
    return pd.DataFrame(found, columns=NAMES)


def released(share, seed, missing="indicator", rho="0.5", **options):
    return released_of(COLUMNS, rows(share, seed), seed, rho=rho, missing=missing, **options)


@pytest.mark.parametrize("geometry", ["schema", "private"])
def test_pairs_are_unbiased_and_the_center_is_not(geometry):
    def off(missing):
        found = [released(0.4, seed, missing, "2", geometry=geometry) for seed in range(8)]
        return np.abs(np.mean([made.correlation_matrix() - R for made in found], axis=0)).max()

    assert off("indicator") < 0.05 < 0.15 < off("center")


@pytest.mark.filterwarnings("ignore::dpcov.errors.PrivacyWarning")
def test_where_noise_hides_no_direction_the_precision_is_the_inverse_of_the_covariance():
    """Columns that lack values count for less where directions are compared with the noise."""
    found = PrivateCovariance.from_release(released(0.4, 0, rho="100"))
    np.testing.assert_allclose(found.precision_ @ found.covariance_, np.eye(3), atol=1e-9)


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_intervals_hold_the_truth(share):
    """Those that took every row for a complete one would be half as wide, and fail."""
    held = {"means": [], "correlations": [], "coefficients": []}
    for seed in range(25):
        made = released(share, seed, rho="5")
        truths = {
            "means": (mean_intervals(made), MEANS),
            "correlations": (correlation_intervals(made), R[np.triu_indices(3, 1)]),
            "coefficients": (coefficient_intervals(made, "x0"), [-SLOPES @ MEANS[1:], *SLOPES]),
        }
        for kind, (table, truth) in truths.items():
            held[kind] += list((table.lower <= truth) & (truth <= table.upper))
            assert np.all(np.isfinite(table.upper - table.lower))
    # At 95 %, 75 trials: fewer come once in a thousand.
    assert all(np.mean(found) > 0.85 for found in held.values())


def test_indicators_are_features_only_where_they_are_named():
    made = released(0.4, 0)
    assert made.feature_names == tuple(NAMES)
    assert made.correlation().shape == (3, 3) and made.correlation(indicators=True).shape == (6, 6)
    assert len(PrivateCorrelation.from_release(made).correlation_) == 3
    named = PrivateCorrelation.from_release(made, features=["x0", "x1 (missing)"])
    assert list(named.get_encoded_names()) == ["x0", "x1 (missing)"]
    shares = made.missing()
    assert set(shares) == set(NAMES)
    assert all(abs(share - 0.4) < 5 * noise + 0.03 for share, noise in shares.values())
    assert all(0.3 < column.missing < 0.5 for column in made.diagnose().columns)


def test_coefficients_are_those_of_rows_without_missing_values():
    made = released(0.4, 1, rho="50")
    model = PrivateRidge.from_release(made, target="x0")
    np.testing.assert_allclose(model.coef_, SLOPES, atol=0.12)
    new = pd.DataFrame({"x1": [np.nan], "x2": [np.nan]})
    assert model.predict(new)[0] == pytest.approx(made.mean_vector()[0], abs=0.1)


def by_first(seed, n=4_000, cut=1.5):
    """Rows whose other values are missing more often where the first is large."""
    found = rows(0.0, seed, n)
    chance = 1 / (1 + np.exp(-cut * found["x0"].to_numpy()))
    hide = np.random.default_rng([seed, 1]).random((n, 2)) < chance[:, None]
    found[NAMES[1:]] = found[NAMES[1:]].mask(hide)
    return found


def released_by_first(seed, noise_seed, rho, **options):
    return released_of(COLUMNS, by_first(seed), noise_seed, rho=rho, **options)


@pytest.mark.parametrize("rho", [pytest.param("0.2", marks=pytest.mark.slow), "5"])
@pytest.mark.usefixtures("few_draws")
def test_intervals_at_random_hold_the_truth_of_all_rows(rho):
    """Intervals over the values that are present fail where missing values depend on others."""
    held = {"at-random": {}, "pairwise": {}}
    for seed in range(12):
        made = released_by_first(seed, seed, rho)
        for missing, kinds in held.items():
            truths = {
                "means": (mean_intervals(made, missing=missing), MEANS),
                "variances": (variance_intervals(made, missing=missing), np.ones(3)),
                "correlations": (
                    correlation_intervals(made, missing=missing),
                    R[np.triu_indices(3, 1)],
                ),
                "coefficients": (
                    coefficient_intervals(made, "x0", missing=missing),
                    [-SLOPES @ MEANS[1:], *SLOPES],
                ),
            }
            for kind, (table, truth) in truths.items():
                kinds.setdefault(kind, []).extend((table.lower <= truth) & (truth <= table.upper))
                assert np.all(np.isfinite(table.upper - table.lower))
    # At 95 %, 36 trials: fewer come once in a thousand.
    assert all(np.mean(found) > 0.8 for found in held["at-random"].values())
    if rho == "5":
        assert np.mean(held["pairwise"]["means"]) < 0.6


@pytest.fixture(scope="module")
def released_again():
    """One table, again and again, where no row is scaled down."""
    return [released_by_first(0, seed, "0.5", geometry="schema") for seed in range(40)]


@pytest.mark.parametrize(
    "intervals", [mean_intervals, pytest.param(correlation_intervals, marks=pytest.mark.thorough)]
)
def test_noise_at_random_is_as_large_as_it_is_said_to_be(intervals, released_again, monkeypatch):
    terms = {"missing": "at-random", "sampling": False}
    said = np.mean([intervals(made, **terms).privacy_std for made in released_again[:8]], axis=0)
    # Estimates need no simulated noise.
    monkeypatch.setattr(DRAWS, 2)
    found = np.std([intervals(made, **terms).estimate for made in released_again], axis=0, ddof=1)
    # A standard deviation of 40 numbers is known to a ninth.
    assert np.all(np.abs(np.log(found / said)) < 0.4)


def test_laws_at_random_agree_with_themselves_and_where_nothing_is_missing():
    law, rng = (
        moment_law(released_by_first(0, 0, "0.1"), missing="at-random"),
        np.random.default_rng(0),
    )
    a, u = rng.normal(size=(2, len(law.moment)))
    expected = law.noise_of_pairs(np.array([a, u]))(0)[1, 1, 1]
    assert u @ law.privacy_forms(np.eye(len(a)))(a) @ u == pytest.approx(expected)
    whole = released(0.0, 0, "never")
    one, other = (correlation_intervals(whole, missing=each) for each in ("pairwise", "at-random"))
    assert one.rows == other.rows


def test_laws_at_random_of_some_features_read_those_alone():
    made = released_by_first(0, 0, "0.5", geometry="schema")
    names = [column.name for column in made.restored_features]
    places = np.array([names.index("x0"), names.index("x2")])
    every, some = (moment_law(made, each, missing="at-random") for each in (None, places))
    own, other = np.append(0, places + 1), names.index("x1") + 1
    np.testing.assert_array_equal(some.moment[np.ix_(own, own)], every.moment[np.ix_(own, own)])
    pairwise = moment_law(made)
    assert some.moment[other, other] == pairwise.moment[other, other]
    assert every.moment[other, other] != pairwise.moment[other, other]
    drawn = some.draw_noise(3, np.random.default_rng(0))
    among = every.draw_noise(3, np.random.default_rng(0))[:, own[:, None], own]
    np.testing.assert_allclose(drawn, among, rtol=1e-9)


def test_estimators_give_intervals_for_what_they_estimate():
    made = released_by_first(0, 0, "5")
    model = PrivateRidge.from_release(made, target="x0", missing="at-random", alpha=0.0)
    expected = coefficient_intervals(made, "x0", missing="at-random")
    assert model.conf_int().rows == expected.rows
    # What is given goes before what the model was fitted with.
    others = coefficient_intervals(made, "x0", missing="pairwise", alpha=0.1)
    assert model.conf_int(missing="pairwise", alpha=0.1).rows == others.rows
    # A missing number is read as the mean of all rows.
    new = pd.DataFrame({"x1": [np.nan], "x2": [0.0]})
    mean = made.mean(missing="at-random")["x1"]
    np.testing.assert_allclose(model.predict(new), model.predict(new.assign(x1=mean)))
    with pytest.raises(ValueError, match="missing must be one of"):
        mean_intervals(made, missing="center")


def test_bias_is_below_the_noise_on_nhanes_and_intervals_hold():
    found = pd.read_csv(LINES).set_index(["share", "how", "reading"])
    settings = {index[:2] for index in found.index}
    assert settings == {(share, how) for share, how in (*SETTINGS, *BY_LEVEL)}
    for share, how in settings:
        line = found.loc[share, how, "pairwise" if how == "MCAR" else "at-random"]
        assert line["bias"] < line["noise"]
        assert line["mean_bias"] < line["mean_noise"]
        # Where two fifths are missing by age, what follows age along a curve has a bias.
        least = 0.92 if (share, how) == (0.4, "MAR by age") else 0.93
        assert min(line["means"], line["correlations"], line["coefficients"]) > least
    # Those of the people whose values are present.
    assert found.loc[0.4, "MAR by age", "pairwise"]["means"] < 0.85
    # What is put at the center has more bias than noise at 40 %.
    center = found.loc[0.4, "MCAR", "center"]
    assert center["bias"] > 2 * center["noise"]


def test_levels_at_random_have_intervals_around_what_is_estimated():
    """Levels never meet: what noise and filling make of them may be the law of no rows."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=5000)
    levels = np.array(list("abcd"))
    g = levels[np.clip((z + rng.normal(size=5000) + 2).astype(int), 0, 3)].astype(object)
    g[rng.random(5000) < 1 / (1 + np.exp(-1.5 * z + 0.6))] = None
    frame = pd.DataFrame({"z": z, "y": z + 0.6 * rng.normal(size=5000), "g": g})
    number = dpcov.Numeric(lower=-5, upper=5, missing="never")
    columns = {"z": number, "y": number, "g": dpcov.Categorical(categories=tuple("abcd"))}
    for seed in range(3):
        found = released_of(columns, frame, seed, rho=0.5)
        table = correlation_intervals(found, ["g"], missing="at-random")
        assert (table.sampling_std > 0.002).all()
        assert ((table.lower < table.estimate) & (table.estimate < table.upper)).all()


def test_intervals_at_random_hold_the_truth_where_a_category_decides():
    rng = np.random.default_rng(8)
    level = rng.choice(3, 20_000, p=[0.05, 0.55, 0.4])
    y = np.array([3.0, 0.0, -1.0])[level] + rng.normal(size=len(level))
    z = 0.4 * y + rng.normal(size=len(level))
    frame = pd.DataFrame({"y": y, "z": z, "g": np.array(list("abc"))[level]})
    truth = np.corrcoef([y, z, level == 0])[0]
    frame.loc[rng.random(len(y)) < np.array([0.9, 0.1, 0.5])[level], "y"] = None
    columns = {"y": dpcov.Numeric(lower=-6, upper=8), "z": dpcov.Numeric(lower=-6, upper=6)}
    columns["g"] = dpcov.Categorical(categories=tuple("abc"), missing="never")
    made = released_of(columns, frame, rho=2)
    for missing, holds in (("at-random", True), ("pairwise", False)):
        table = correlation_intervals(made, ["y", "z", "g"], missing=missing)
        for name, value in zip(("y, z", "y, g=a"), truth[1:], strict=True):
            assert (table[name].lower <= value <= table[name].upper) == holds


def test_reading_at_random_says_where_nothing_predicts():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5_000, 2)) @ np.array([[1, 0.7], [0, 0.7]])
    x[rng.random(x.shape) < np.array([0.25, 0.3])] = np.nan
    made = released_within(x, -5, 5, rho=1, missing="indicator")
    for read in (made.mean, made.covariance, made.correlation):
        with pytest.warns(ReleaseWarning, match="No feature that 80 %"):
            assert read(missing="at-random").equals(read())
    with pytest.warns(ReleaseWarning, match="No feature that 80 %") as told:
        PrivateRidge.from_release(made, target="x1", missing="at-random")
    assert [each.filename for each in told] == [__file__]
    for intervals in (mean_intervals, correlation_intervals):
        table = intervals(made, missing="at-random")
        assert "No feature that 80 %" in table.notes[-1]
        np.testing.assert_array_equal(table.lower, intervals(made).lower)


def test_nothing_predicts_features_that_are_missing_together():
    found = rows(0.0, 0)[NAMES[:2]]
    found[:400] = np.nan
    columns = {name: COLUMNS[name] for name in NAMES[:2]}
    made = released_of(columns, found, rho=1, missing_together=[NAMES[:2]])
    with pytest.warns(ReleaseWarning, match="No feature that 80 %"):
        assert made.mean(missing="at-random").equals(made.mean())


@pytest.mark.usefixtures("few_draws")
def test_intervals_at_random_hold_the_truth_where_all_columns_lack_values():
    held = {"at-random": [], "pairwise": []}
    truth = [*MEANS, *R[np.triu_indices(3, 1)]]
    for seed in range(4):
        found = by_first(seed)
        rng = np.random.default_rng(seed)
        found["x0"] = found["x0"].mask(rng.random(len(found)) < 0.15)
        made = released_of(COLUMNS, found, seed, rho=5)
        for missing, kinds in held.items():
            tables = [
                each(made, missing=missing) for each in (mean_intervals, correlation_intervals)
            ]
            lower, upper = (np.hstack([getattr(t, e) for t in tables]) for e in ("lower", "upper"))
            kinds += list((lower <= truth) & (truth <= upper))
    # At 95 %, 24 trials: fewer come once in a thousand.
    assert np.mean(held["pairwise"]) < 0.7 < 0.78 < np.mean(held["at-random"])


def test_variances_over_fewer_rows_are_those_of_some_rows():
    rng = np.random.default_rng(2)
    for _ in range(200):
        shares = rng.uniform(0.02, 1.0, size=3)
        thinning = _thinning(shares[0], shares[2], shares[1])
        assert np.linalg.eigvalsh(thinning)[0] > -1e-9 * thinning.max()


def test_sums_over_different_rows_vary_as_a_sum_over_all_pairs_of_products_says():
    rng = np.random.default_rng(0)
    root, own = rng.normal(size=(4, 4)), np.array([0.8, 1.0, 0.5, 0.7])
    law = moment_law(released(0.0, 0, missing="never"))
    moment = np.eye(5)
    moment[1:, 1:] = root @ root.T
    law = replace(law, moment=moment, shares=np.outer(own, own) + np.diag(own - own**2))
    a, u = rng.normal(size=(2, 5)) * (np.arange(5) > 0)
    u -= (a @ moment @ u) / (a @ moment @ a) * a
    form, present = (np.outer(a, u) + np.outer(u, a)) / 2, np.append(1.0, own)

    def share(*columns):
        return np.prod(present[list(set(columns))])

    expected = sum(
        form[i, j]
        * form[k, m]
        * (moment[i, k] * moment[j, m] + moment[i, m] * moment[j, k])
        * share(i, j, k, m)
        / (share(i, j) * share(k, m))
        for i, j, k, m in itertools.product(range(1, 5), repeat=4)
    )
    assert law.thinning.forms(u[None])(a)[0, 0] == pytest.approx(expected)


def test_partial_correlations_of_columns_that_nearly_agree_are_over_different_rows():
    """Rows taken for complete ones would leave a fourth of the deviation."""
    numbers, found = dpcov.Numeric(lower=-20, upper=20), []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        x, *noise = rng.normal(size=(4, 4_000))
        frame = pd.DataFrame({"a": x, "b": x + 0.3 * noise[0], "c": x + noise[1], "d": noise[2]})
        frame.loc[rng.random(len(frame)) < 0.2, "a"] = np.nan
        precision = np.linalg.inv(frame.cov())
        found.append(-precision[0, 1] / np.sqrt(precision[0, 0] * precision[1, 1]))
    made = released_of(dict.fromkeys(frame, numbers), frame, rho=1000, missing="indicator")
    stated = correlation_intervals(made, partial=True).sampling_std[0]
    assert 0.8 < stated / np.std(found) < 1.8


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_moment_that_noise_leaves_nothing_of_is_finite():
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3)), columns=list("abc"))
    rows.loc[:75, "a"] = np.nan
    budget = dpcov.Budget(epsilon=0.05, delta="1e-6")
    terms = {"budget": budget, "missing": "indicator", "accept_large_delta": True}
    for seed in range(8):
        found = released_within(rows, -4, 4, seed, **terms)
        assert np.isfinite(found.present_moment()).all()


@pytest.mark.parametrize("post", ["shrink", "psd"])
@pytest.mark.parametrize("share", [0.97, 1.0])
def test_a_column_that_is_hardly_ever_there_leaves_others_alone(share, post):
    """Its own correlations are noise; a nearest matrix without negative eigenvalues spread them."""
    rng, errors = np.random.default_rng(3), []
    rows = pd.DataFrame(rng.normal(size=(5_000, 5)), columns=[*"abcde"])
    rows["b"] = 0.8 * rows["a"] + 0.6 * rows["b"]
    rows.loc[rng.uniform(size=len(rows)) < share, "e"] = np.nan
    terms = {"budget": dpcov.Budget(rho="0.05"), "missing": "indicator"}
    for seed in range(6):
        release = released_within(rows, -20, 30, seed, **terms)
        errors.append(release.correlation(post=post).loc["a", "b"] - rows["a"].corr(rows["b"]))
    assert np.sqrt(np.mean(np.square(errors))) < 0.03


@pytest.mark.filterwarnings("ignore::dpcov.analysis.NoiseWarning")
@pytest.mark.parametrize("share", [0.9, 1.0])
def test_a_column_that_is_hardly_ever_there_does_not_hide_others_from_estimators(share):
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(rng.normal(size=(4_000, 4)), columns=[*"abce"])
    rows["b"] = 0.8 * rows["a"] + 0.6 * rows["b"]
    rows["class"] = np.where(rng.random(len(rows)) < 0.5, "x", "y")
    rows["c"] += 3.0 * (rows["class"] == "x")
    new = rows.drop(columns="class").tail(500)
    rows.loc[rng.random(len(rows)) < share, "e"] = np.nan
    release = released_within(rows, -20, 30, missing="indicator", by="class")
    slopes = PrivateLinearRegression.from_release(release, target="b").coef_
    assert slopes[:2] == pytest.approx([0.8, 0.0], abs=0.1)
    # Its penalty is for the column that is hardly ever there, too.
    assert PrivateRidge.from_release(release, target="b").coef_[0] > 0.4
    partial = PrivateCorrelation.from_release(release).partial_correlation_
    assert partial[0, 1] == pytest.approx(0.8, abs=0.1)
    for estimator in (PrivateLDA, PrivateQDA):
        right = estimator.from_release(release).predict(new) == rows["class"].tail(500)
        assert right.mean() > 0.88


def test_levels_that_noise_hides_do_not_stop_reading_at_random():
    """A level without rows has a variance of noise: in its units all directions seemed noise."""
    rng, n = np.random.default_rng(1), 2000
    age = 45 + 15 * rng.normal(size=n)
    frame = pd.DataFrame({"age": age, "y": 2 * age + 5 * rng.normal(size=n)})
    frame["kind"] = rng.choice([*"uvwx"], n, p=[0.98, 0.018, 0.002, 0])
    truth, deviation = frame["y"].mean(), frame["y"].std()
    frame.loc[rng.random(n) < 1 / (1 + np.exp(-(age - 45) / 15 + 1)), "y"] = np.nan
    columns = {
        "age": dpcov.Numeric(lower=0, upper=120, missing="never"),
        "y": dpcov.Numeric(lower=0, upper=1000),
        "kind": dpcov.Categorical(categories=(*"uvwx",), missing="never"),
    }
    errors = []
    for seed in range(8):
        made = released_of(columns, frame, seed, budget=dpcov.Budget(epsilon=2, delta="1e-6"))
        line = mean_intervals(made, ["y"], missing="at-random", sampling=False)["y"]
        errors.append((line.estimate - truth) / deviation)
        assert line.lower < truth < line.upper
    # 0.2 is what reading pair by pair errs by.
    assert abs(np.mean(errors)) < 0.03 and np.std(errors) < 0.1


def released_in_parts(both, seed, rho):
    """x1 and x2 are in 0.5 of the rows each, and in ``both`` of them together."""
    found, drawn = rows(0.0, 0), np.random.default_rng(1).random(4_000)
    found.loc[drawn > 0.5, "x1"] = np.nan
    found.loc[drawn < 0.5 - both, "x2"] = np.nan
    found.loc[drawn > 1.0 - both, "x2"] = np.nan
    return released_of(COLUMNS, found, seed, rho=rho)


@pytest.mark.parametrize(
    ("missing", "rho", "seeds"),
    [("pairwise", "0.05", 3), ("pairwise", "5", 3), ("at-random", "5", 1)],
)
def test_nothing_is_said_of_two_features_that_no_row_has_both_of(missing, rho, seeds):
    """Covariances were divided by a share that is nothing but noise, and intervals were narrow."""
    for seed in range(seeds):
        made = released_in_parts(0.0, seed, rho)
        pairs = correlation_intervals(made, missing=missing)
        assert (pairs["x1, x2"].lower, pairs["x1, x2"].upper) == (-1.0, 1.0)
        assert pairs["x0, x1"].upper - pairs["x0, x1"].lower < 0.5
        # Wherever that pair stands, the others have their intervals.
        turned = correlation_intervals(made, ["x1", "x2", "x0"], missing=missing)
        lengths = (sorted(each.upper - each.lower) for each in (turned, pairs))
        assert next(lengths) == pytest.approx(next(lengths))
        assert made.correlation(missing=missing).loc["x1", "x2"] == pytest.approx(0.0, abs=0.1)
        partial = correlation_intervals(made, partial=True, missing=missing)
        assert (partial.lower == -1).all() and (partial.upper == 1).all()
        slopes = coefficient_intervals(made, "x0", missing=missing)
        assert np.isinf(slopes.lower).all() and np.isinf(slopes.upper).all()
        for table in (partial, slopes):
            assert any("'x1' with 'x2'" in note for note in table.notes)
        alone = coefficient_intervals(made, "x0", ["x1"], missing=missing)
        assert np.isfinite(alone.upper - alone.lower).all()
        with pytest.raises(ReleaseError, match="'x1' with 'x2'"):
            eigenvalue_intervals(made, missing=missing)
        with pytest.warns(NoiseWarning, match="They count as unrelated") as told:
            PrivateRidge.from_release(made, target="x0", missing=missing)
        assert {each.filename for each in told} == {__file__}


def test_noise_on_a_pair_counts_how_few_rows_have_both():
    """As if values were missing by chance, it would be taken for less than half as large."""
    found, said, others, said_of_others = [], [], [], []
    for seed in range(40):
        made = released_in_parts(0.1, seed, "5")
        line = correlation_intervals(made, sampling=False)["x1, x2"]
        found.append(line.estimate), said.append(line.privacy_std)
        slopes = coefficient_intervals(made, "x0", sampling=False)
        partial = correlation_intervals(made, partial=True, sampling=False)
        others.append(np.r_[slopes.estimate, partial.estimate])
        said_of_others.append(np.r_[slopes.privacy_std, partial.privacy_std])
    # A spread of 40 numbers is known to a ninth.
    assert 0.7 < np.std(found) / np.mean(said) < 1.3
    assert (np.std(others, axis=0) < 1.2 * np.median(said_of_others, axis=0)).all()


def test_noise_on_the_share_of_rows_with_both_is_as_large_as_it_is_said_to_be():
    made = [released_in_parts(0.3, seed, "0.5") for seed in range(25)]
    own = np.ix_(made[0].shown, made[0].shown)
    found = np.std([each.pairwise.shares[own][1, 2] for each in made])
    noise = [share_noise(each.presence, each.noise_law)[own][1, 2] for each in made]
    # Half of what is said, within a fifth.
    assert 0.3 < found / np.mean(noise) < 1.3


@pytest.mark.parametrize("missing", ["center", "indicator"])
@pytest.mark.parametrize("by", [None, "g"])
def test_the_spread_of_yes_or_no_counts_missing_ones_in_the_middle_only_where_they_are(missing, by):
    rng = np.random.default_rng(0)
    g, yes = rng.choice(["u", "v"], 4_000), rng.random(4_000) < 0.3
    known = rng.random(4_000) < 0.6
    table = pd.DataFrame({"yes": pd.Series(yes).where(known), "x": rng.random(4_000), "g": g})
    columns = {
        "yes": dpcov.Boolean(missing=missing),
        "x": dpcov.Numeric(lower=0, upper=1),
        "g": dpcov.Categorical(categories=("u", "v")),
    }
    terms = {"missing": "never", "geometry": "schema", "by": by}
    release = released_of(columns, table, rho=100, **terms)
    read = np.where(known, yes, 0.5) if missing == "center" else yes[known]
    interval = variance_intervals(release, ["yes"], sampling=False)["yes"]
    assert interval.lower < read.var() < interval.upper
    assert release.diagnose().columns[0].spread == pytest.approx(read.std(), rel=0.01)
    if by is not None:
        pooled = release.group("u", pooled=True).covariance().to_numpy()[0, 0]
        own = table["g"] == "u" if missing == "center" else (table["g"] == "u")[known]
        assert pooled == pytest.approx(read[own].var(), rel=0.05)


@pytest.mark.parametrize("share", [0.05, 1.0])
def test_where_noise_hides_how_much_is_missing_means_may_be_anything_within_the_bounds(share):
    """Rows that all count as having a value would be at the center: nine tenths of these are."""
    rng, n = np.random.default_rng(0), 200
    rare = {f"r{i}": np.where(rng.random(n) < share, 3.0, np.nan) for i in range(20)}
    table = pd.DataFrame(rare).fillna({"r0": 3.0} if share < 1 else {})
    for seed in range(3):
        made = released_within(
            table, 0, 100, seed, missing="indicator", budget=dpcov.Budget(epsilon=4)
        )
        means, variances = (of(made, sampling=False) for of in (mean_intervals, variance_intervals))
        assert np.all((means.lower <= 3) & (means.upper >= 3))
        assert np.all(variances.lower == 0)
        assert "how many rows have a value" in str(means) and "how many" in str(variances)
        for column in made.diagnose().columns:
            assert abs(column.mean - 3) <= 1.97 * column.mean_noise, column


def rows_that_lack_most_columns():
    """With what is declared, and the columns that a tenth of them have, around 10."""
    rng, n = np.random.default_rng(0), 6_000
    there = {f"a{i}": rng.normal(50, 10, n) for i in range(10)}
    rare = {f"r{i}": np.where(rng.random(n) < 0.1, rng.normal(10, 3, n), np.nan) for i in range(25)}
    table = pd.DataFrame(there | rare).clip(0, 100)
    columns = {name: dpcov.Numeric(lower=0, upper=100, missing="never") for name in there}
    columns |= {name: dpcov.Numeric(lower=0, upper=100) for name in rare}
    return table, columns, list(rare)


def test_rows_that_lack_most_columns_are_counted_as_what_they_are_though_scaled_down():
    """Their indicators make them long, and scaling them down must not make values of what lacks."""
    table, columns, rare = rows_that_lack_most_columns()
    budget = dpcov.Budget(epsilon=4)
    held, off = [], []
    for seed in range(2):
        made = released_of(columns, table, seed, budget=budget)
        assert made.statistics.lost > 0.3
        told, truth = mean_intervals(made, rare, sampling=False), table[rare].mean()
        held += list((told.lower <= truth) & (truth <= told.upper))
        off.append(np.mean(made.mean()[rare] - truth))
        shares = [share for share, _ in made.missing().values()]
        assert abs(np.mean(shares) - 0.9) < 0.06 and max(shares) <= 1
        synthetic = made.sample(2_000, seed=0).to_pandas()[rare].isna().to_numpy()
        assert synthetic.mean() == pytest.approx(np.mean(shares), abs=0.02)
    # Of 50 intervals of 95 % fewer hold once in a thousand; values of what lacks would be 50.
    assert np.mean(held) > 0.83 and np.abs(off).max() < 10


def test_shares_hold_where_a_geometry_centers_some_indicators_alone():
    """Columns that are missing together, of which noise hides some: those have no center."""
    rng, n = np.random.default_rng(0), 6_000
    values = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 20)) + rng.normal(size=(n, 20))
    table = pd.DataFrame(50 + 10 * values, columns=[f"x{i}" for i in range(20)]).clip(-100, 200)
    lacking = list(table)[:15]
    table.loc[rng.random(n) < 0.2, lacking] = np.nan
    columns = {
        name: dpcov.Numeric(lower=-100, upper=200)
        if name in lacking
        else dpcov.Numeric(lower=-100, upper=200, missing="never")
        for name in table
    }
    off = []
    for seed in (0, 1, 7):
        made = dpcov.release(
            table,
            schema=dpcov.Schema(columns=columns),
            budget=dpcov.Budget(epsilon=0.5, delta="1e-6"),
            entropy=dpcov.SeededEntropy(seed),
        )
        assert made.statistics.lost > 0.2
        marks = made.marked.marks
        middles, longer = made.frame.around(marks), made.longer[marks]
        assert middles.any() and not middles.all()
        assert (longer[middles != 0] == 1).all() and (longer[middles == 0] > 1).all()
        off += [share - table["x0"].isna().mean() for share, _ in made.missing().values()]
    # With nothing given back they are off by 0.09.
    assert abs(np.mean(off)) < 0.015


@pytest.mark.parametrize("lacking", ["long", "short"])
def test_errors_of_shares_count_that_rows_which_lack_a_value_are_scaled_down_more_or_less(lacking):
    rng, n, off = np.random.default_rng(0), 4_000, []
    size = np.exp(rng.normal(size=n))
    table = pd.DataFrame({f"x{i}": size * np.exp(rng.normal(size=n) / 2) for i in range(6)})
    lacks = (size > 1) == (lacking == "long")
    columns = {name: dpcov.Numeric(lower=0, upper=200, missing="never") for name in table}
    table["y"] = np.where(lacks, np.nan, rng.normal(size=n))
    columns["y"] = dpcov.Numeric(lower=-10, upper=10)
    for seed in range(8):
        made = released_of(columns, table, seed)
        assert made.statistics.lost > 0.3
        share, error = made.missing()["y"]
        off.append((share - lacks.mean()) / error)
        assert error < 0.1
    # Of 8 shares of which 95 % hold 3 or more miss once in 170 times; errors of noise alone miss 6.
    assert np.mean(np.abs(off) < 1.96) > 0.7


@pytest.mark.parametrize("epsilon", [1.4, 1.6, 1.7])
def test_means_are_within_the_bounds_where_noise_hides_longer_indicators(epsilon):
    """Rows of a geometry that scales many down: noise on their shares is as much larger."""
    table, columns, rare = rows_that_lack_most_columns()
    made = released_of(columns, table, 1, budget=dpcov.Budget(epsilon=4))
    made = released_of(columns, table[:1000], budget=dpcov.Budget(epsilon=epsilon), geometry=made)
    assert made.statistics.lost > 0.3
    told = mean_intervals(made, rare, sampling=False)
    truth = table[:1000][rare].mean()
    # Where no indicator is known, all rows seem to have a value at the center, which is far away.
    assert np.all((told.lower <= truth) & (truth <= told.upper))
    assert "how many rows have a value" in str(told)
    shares = [share for share, _ in made.missing().values()]
    assert abs(np.mean(shares) - 0.9) < 0.1


@pytest.mark.parametrize("sampling", [True, False])
@pytest.mark.parametrize("tails", ["moments", "bounded"])
def test_nothing_is_said_of_pairs_that_no_row_has_and_all_of_the_others(sampling, tails):
    rng, n = np.random.default_rng(0), 3_000
    both, lacks = rng.normal(50, 10, n), rng.random(n) < 0.5
    table = pd.DataFrame({"a": np.where(lacks, np.nan, both), "b": np.where(lacks, both, np.nan)})
    table["c"] = both
    made = released_within(table, 0, 100, missing="indicator", budget=dpcov.Budget(epsilon=8))
    told = correlation_intervals(made, list(table), sampling=sampling, tails=tails)
    assert [row.name for row in told.rows] == ["a, b", "a, c", "b, c"]
    assert (told.lower[0], told.upper[0]) == (-1, 1) and np.isnan(told.estimate[0])
    assert np.all(told.estimate[1:] > 0.9) and np.all(told.lower[1:] > 0)


def test_a_group_in_which_nothing_is_missing_does_not_get_what_its_indicators_were_pulled_by():
    """Half of the rows lack half of the columns, so that indicators are centered in the middle."""
    rng, count, n, found = np.random.default_rng(0), 12, 20_000, []
    rows = pd.DataFrame(rng.normal(size=(n, count))).add_prefix("x")
    rows["site"] = rng.choice(["a", "b"], n)
    rows.iloc[(rows["site"] == "b").to_numpy(), : count // 2] = np.nan
    columns = {f"x{place}": dpcov.Numeric(lower=-10, upper=10) for place in range(count)}
    columns["site"] = dpcov.Categorical(categories=("a", "b"))
    for seed in range(3):
        made = released_of(columns, rows, seed, by="site", budget=dpcov.Budget(rho="0.02"))
        found.append(np.diagonal(made.group("a").covariance_matrix()))
    assert np.mean(found) == pytest.approx(1.0, abs=0.04)

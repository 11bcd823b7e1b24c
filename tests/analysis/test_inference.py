"""Intervals rest on the law of the noise, agree with the rows, and are wide in large noise."""

import itertools
from dataclasses import replace
from time import process_time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpcov
from dpcov.analysis import (
    PrivateCorrelation,
    PrivateCovariance,
    PrivateGraphicalLasso,
    PrivateLinearRegression,
    PrivatePCA,
    PrivateRidge,
    coefficient_intervals,
    correlation_intervals,
    eigenvalue_intervals,
    mean_intervals,
    variance_intervals,
)
from dpcov.analysis.features import coding_of
from dpcov.analysis.intervals.coefficients import _unit_std, coefficient_lines, project_quadric
from dpcov.analysis.intervals.eigenvalues import INFLATION, Spectrum, _spread, scale_of, spectrum_of
from dpcov.analysis.intervals.moments import correlation_lines, mean_lines, variance_lines
from dpcov.analysis.intervals.noises import Noise
from dpcov.analysis.intervals.of_release import moment_law
from dpcov.analysis.intervals.shapes import OUTLIERS, ColumnShape, column_shape, pair_covariance
from dpcov.analysis.intervals.table import Interval, ratio_interval
from dpcov.analysis.problems import InputError, UnknownNoiseError
from dpcov.analysis.reading import half_range_map
from dpcov.errors import ReleaseError
from tests.analysis.conftest import N_ROWS, noise_covariance
from tests.analysis.conftest import released as made_release
from tests.releases import released as released_within
from tests.releases import released_of
from tests.statistical.goodness import GoodnessError, assert_mean_square, mean_square_samples

SMALL = dpcov.Schema(
    missing="never", columns={name: dpcov.Numeric(lower=-1, upper=1) for name in ("x0", "x1", "x2")}
)


def small_rows(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    mixing = np.array([[0.3, 0.2, 0.0], [0.0, 0.2, 0.1], [0.0, 0.0, 0.2]])
    return np.clip(0.1 + rng.standard_normal((n_rows, 3)) @ mixing, -1, 1)


def released(rows, seed, *, schema=SMALL, rho="0.5", **options):
    return made_release(rows, rho, seed, schema=schema, **options)


def whitened_noise(mechanism, budget, n_releases):
    """Noise of real releases on all moments, in units of the root of the modeled covariance."""
    rows = small_rows()
    exact = np.column_stack([np.ones(len(rows)), rows])
    exact = exact.T @ exact / len(rows)
    entries = list(itertools.combinations_with_replacement(range(4), 2))[1:]
    found = []
    for seed in range(n_releases):
        law = moment_law(released(rows, seed, mechanism=mechanism, budget=budget))
        found.append([law.moment[i, j] - exact[i, j] for i, j in entries])
    forms = np.zeros((len(entries), 4, 4))
    for form, (i, j) in zip(forms, entries, strict=True):
        form[i, j] += 0.5
        form[j, i] += 0.5
    root = np.linalg.cholesky(noise_covariance(law, forms))
    return np.linalg.solve(root, np.array(found).T).T


@pytest.mark.parametrize(
    ("mechanism", "budget", "kurtosis"),
    [
        ("gaussian", dpcov.Budget(rho="0.5"), 3.0),
        ("stratified", dpcov.Budget(rho="0.5"), 3.0),
        ("laplace", dpcov.Budget(epsilon=1), 6.0),
        ("nuclear", dpcov.Budget(epsilon=1), 6.0),
        pytest.param("stratified-nuclear", dpcov.Budget(epsilon=1), 6.0, marks=pytest.mark.slow),
    ],
)
def test_the_law_of_the_noise_is_that_of_the_releases(mechanism, budget, kurtosis):
    size = mean_square_samples(kurtosis=kurtosis, scale_error=0.35)
    samples = whitened_noise(mechanism, budget, size // 9 + 1)
    assert_mean_square(samples.ravel(), 1.0, kurtosis=kurtosis)
    with pytest.raises(GoodnessError):
        assert_mean_square(1.4 * samples.ravel(), 1.0, kurtosis=kurtosis)
    # A trace that is merged into the diagonal correlates its entries, until they are whitened.
    correlation = np.corrcoef(samples[:, [3, 6, 8]].T)
    assert np.abs(correlation[np.triu_indices(3, 1)]).max() < 6 / np.sqrt(len(samples))


def test_privacy_form_and_simulated_noise_have_the_covariance_of_the_noise():
    law = moment_law(released(small_rows(), 0, mechanism="gaussian", neighbors="add-remove-one"))
    rng = np.random.default_rng(0)
    a, u = rng.standard_normal((2, 4))
    form = (np.outer(a, u) + np.outer(u, a)) / 2
    expected = noise_covariance(law, form[None])[0, 0]
    assert u @ law.privacy_forms(np.eye(len(a)))(a) @ u == pytest.approx(expected)
    drawn = law.draw_noise(mean_square_samples(), rng)
    assert_mean_square(np.einsum("i,kij,j->k", a, drawn, u), expected)


@pytest.mark.parametrize(("start", "own"), [(0, []), (1, []), (1, [4, 7]), (0, [0, 7])])
def test_few_combinations_of_many_columns_draw_few_numbers(start, own):
    """Of the same law, exactly."""
    rng, d = np.random.default_rng(1), 12
    diagonal = np.full(d, 0.02 - 0.001)
    diagonal[own] = 0.005
    diagonal[:start] = 0.0
    noise = Noise(
        off_diagonal=0.01,
        diagonal=diagonal,
        between=-0.001,
        start=start,
        back=rng.standard_normal((d, d)),
    )
    rows = rng.standard_normal((3, d))
    few = noise._seen_by(rows)
    assert len(few.diagonal) == 3 + len({*own, *range(start)})
    found, expected = few.of_pairs(np.eye(3), None), noise.of_pairs(rows, None)
    for i in range(3):
        np.testing.assert_allclose(found(i), expected(i), rtol=1e-10)


@pytest.mark.parametrize("start", [0, 1])
def test_noise_of_all_pairs_is_that_of_every_pair(start):
    law = moment_law(released(small_rows(), 0, mechanism="gaussian")).restored
    rng, d = np.random.default_rng(2), len(law.moment)
    noise = replace(
        law.noises[0],
        off_diagonal=0.01,
        diagonal=rng.uniform(0.005, 0.02, d),
        between=-0.001,
        start=start,
        back=rng.standard_normal((d, d)),
    )
    scaled = replace(law.scaled, lost=0.1, unsure=np.diag(rng.uniform(size=d)))
    law = replace(law, noises=(noise,), scaled=scaled).around_means
    rows = law.centered(np.array([3, 0, 1, 2]))
    np.testing.assert_array_equal(rows[1], np.eye(d)[0])
    found = law.noise_of_pairs(rows)
    for i, j in itertools.product(range(4), repeat=2):
        a, u = rows[i], rows[j]
        forms = np.array([np.outer(x, y) for x, y in ((a, a), (a, u), (u, u))])
        expected = noise_covariance(law, (forms + forms.transpose(0, 2, 1)) / 2)
        np.testing.assert_allclose(found(i)[..., j], expected, rtol=1e-9)
        assert u @ law.privacy_forms(np.eye(d))(a) @ u == pytest.approx(expected[1, 1])


def test_covariances_are_free_of_what_the_noise_on_means_takes_off():
    law = moment_law(released(small_rows(), 0, rho="0.0001", mechanism="gaussian"))
    drawn = law.draw_noise(4000, np.random.default_rng(0))
    found = [replace(law, moment=law.moment + each).covariance[1, 1] for each in drawn]
    (noise,) = law.noises
    exact = replace(law, noises=(replace(noise, off_diagonal=0.0),)).covariance[1, 1]
    assert abs(np.mean(found) - exact) < 6 * np.std(found) / np.sqrt(len(found))
    assert noise.off_diagonal > 12 * np.std(found) / np.sqrt(len(found))


@pytest.mark.parametrize("combined", [False, True])
def test_noise_on_two_means_multiplies_and_counts_where_it_is_large(combined):
    """Where units were far below the noise, one in five of the intervals that say much held."""
    made = released(small_rows(), 0, rho="0.0000003", mechanism="gaussian")
    law = replace(moment_law(made), moment=np.eye(len(made.second_moment())))
    (noise,) = law.noises
    assert noise.off_diagonal > 1
    if combined:
        half = replace(noise, off_diagonal=noise.off_diagonal / 2, diagonal=noise.diagonal / 2)
        back = np.diag(np.r_[1.0, np.linspace(0.8, 1.2, len(law.moment) - 1)])
        law = replace(law, noises=(half, replace(half, back=back)))
    drawn = law.draw_noise(4000, np.random.default_rng(0))
    found = np.array([replace(law, moment=law.moment + noise).covariance for noise in drawn])
    rows = np.eye(len(law.moment))
    for first, second in ((1, 2), (1, 1)):
        around, alone = (
            each.noise_of_pairs(rows)(first)[1, 1, second] for each in (law.around_means, law)
        )
        spread = found[:, first, second].var()
        assert spread == pytest.approx(around, rel=0.15)
        assert alone < 0.6 * spread


def test_coefficients_and_standard_errors_are_those_of_least_squares_where_noise_is_small(
    made, frame
):
    sectors = [frame.sector == name for name in ("trade", "farm")]
    X = np.column_stack([np.ones(len(frame)), frame.age, *sectors, frame.member.astype(float)])
    y = frame.income.to_numpy()
    expected = np.linalg.solve(X.T @ X, X.T @ y)
    errors = y - X @ expected
    stds = np.sqrt(np.diagonal(np.linalg.inv(X.T @ X)) * (errors @ errors) / (len(y) - 5))
    table = coefficient_intervals(made, "income", ["age", "sector", "member"])
    assert table.names == ("(intercept)", "age", "sector=trade", "sector=farm", "member")
    assert [line.name for line in table] == [*table.names]
    assert "sector=care" in table.notes[0]
    # Allowance for errors of unequal variance.
    assert np.all((0.99 * stds < table.sampling_std) & (table.sampling_std < 1.25 * stds))
    assert np.all(np.abs(table.estimate - expected) < 6 * table.privacy_std + 1e-3)
    np.testing.assert_allclose((table.upper - table.lower) / 2, 1.96 * table.std_error, rtol=0.02)
    assert np.all(table.privacy_std > 0)


def test_a_fit_leaves_fewer_rows_than_it_was_given_and_so_many_coefficients_none(made):
    """Of 40 independent rows, 38 penalized coefficients: intervals held in 81 of 100."""
    names = ["age", "sector", "member"]
    few, most, all_ = (
        coefficient_intervals(made, "income", names, design_effect=part * N_ROWS)
        for part in (0.02, 0.16, 0.201)
    )
    # As five coefficients are too many for a fifth of the rows.
    grown = np.sqrt(0.16 / 0.02 * (1 - 5 * 0.02) / (1 - 5 * 0.16))
    np.testing.assert_allclose(most.sampling_std / few.sampling_std, grown, rtol=0.05)
    assert np.isinf(all_.upper).all()
    # Most of what is penalized is left.
    kept = coefficient_intervals(made, "income", names, design_effect=0.201 * N_ROWS, alpha=10.0)
    assert np.isfinite(kept["age"].upper)


def test_means_variances_and_correlations_agree_with_the_rows_where_noise_is_small(
    made, frame, encoded
):
    means, names = mean_intervals(made), list(made.feature_names)
    assert np.all(np.abs(means.estimate - encoded.mean(axis=0)) < 6 * means.std_error + 1e-3)
    expected = frame.age.std() / np.sqrt(len(frame))
    assert means["age"].sampling_std == pytest.approx(expected, rel=0.05)
    variances = variance_intervals(made)
    place = names.index("income")
    assert variances["income"].estimate == pytest.approx(encoded[:, place].var(), rel=0.05)
    # Yes or no: the mean tells the variance, within the same bounds.
    assert variances["member"].estimate == pytest.approx(encoded[:, -1].var(), rel=0.02)
    pair = correlation_intervals(made, ["age", "income"])["age, income"]
    assert pair.lower < frame.age.corr(frame.income) < pair.upper
    assert pair.sampling_std > 0 and pair.privacy_std < pair.sampling_std


def test_pairs_have_names_of_their_own_whatever_columns_are_called():
    names = ("a", "a, b", "b", "'a", "'a'")
    columns = {name: dpcov.Numeric(lower=-1, upper=1) for name in names}
    table = pd.DataFrame(np.tile(np.eye(5), (100, 1)), columns=names)
    made = released(table, 0, schema=dpcov.Schema(columns=columns), rho=1000)
    intervals = correlation_intervals(made)
    found = intervals.names
    for first, second in itertools.combinations(names, 2):
        assert intervals[first, second] is intervals[second, first]
    assert len({intervals[pair].name for pair in itertools.combinations(names, 2)}) == 10
    with pytest.raises(KeyError, match="no interval for"):
        intervals["a", "c"]
    assert found[:3] == ("a, 'a, b'", "a, b", 'a, "\'a"') and found[4] == "'a, b', b"
    assert len(set(found)) == 10


def test_the_interval_of_a_share_is_wilsons():
    rare = np.arange(500) < 10
    rows = pd.DataFrame({"rare": rare, "kind": np.where(rare, "a", "b")})
    columns = {"rare": dpcov.Boolean(), "kind": dpcov.Categorical(categories=("a",))}
    table = mean_intervals(released(rows, 0, schema=dpcov.Schema(columns=columns), rho=1000))
    wilson = stats.binomtest(10, 500).proportion_ci(method="wilson")
    for line in (table["rare"], table["kind=a"]):
        assert (line.lower, line.upper) == pytest.approx((wilson.low, wilson.high), abs=1e-3)


def test_the_partial_correlation_is_that_of_the_estimator(made):
    features = ["age", "income", "member"]
    expected = PrivateCorrelation.from_release(made, features=features).partial_correlation_[0, 1]
    line = correlation_intervals(made, features, partial=True)["age, income"]
    assert line.estimate == pytest.approx(expected, abs=0.01)
    assert line.lower < expected < line.upper


def test_the_privacy_part_of_a_correlation_is_how_much_releases_of_one_table_differ():
    rows = np.random.default_rng(0).multivariate_normal([1, 0], [[1, 0.5], [0.5, 1]], size=3_000)
    lines = []
    for seed in range(80):
        made = released_within(rows, -6, 6, seed, rho="0.02", geometry="schema")
        lines += correlation_intervals(made, sampling=False).rows
    # A standard deviation of 80 numbers is known to 8 %.
    differ = np.std([line.estimate for line in lines])
    assert np.mean([line.privacy_std for line in lines]) == pytest.approx(differ, rel=0.2)


def test_intervals_of_eigenvalues_are_as_long_as_their_level_says(made):
    wide, narrow = (
        eigenvalue_intervals(made, ["age", "income"], level=level) for level in (0.95, 0.5)
    )
    ratios = (wide.upper - wide.lower) / (narrow.upper - narrow.lower)
    assert ratios == pytest.approx(stats.norm.ppf(0.975) / stats.norm.ppf(0.75), rel=0.1)


def test_simulated_eigenvalues_do_not_depend_on_how_columns_are_turned():
    """With tails alike in all columns; the law of sampling is that of their covariance."""
    rng, p = np.random.default_rng(0), 3
    normals = 0.05 * rng.normal(size=(4_000, p, p))
    turn = np.linalg.qr(rng.normal(size=(p, p)))[0]
    spreads = []
    for basis in (np.eye(p), turn):
        values = np.array([9.0, 4.0, 1.0])
        found = Spectrum(
            covariance=basis @ np.diag(values) @ basis.T,
            noise=np.zeros((4_000, p, p)),
            sampling=normals + normals.transpose(0, 2, 1),
            spread=np.ones(p),
            normalized=False,
            worst=(np.ones(p), 0.0),
        )
        spreads.append(found.simulated(values).std(axis=0))
    np.testing.assert_allclose(spreads[1], spreads[0], rtol=0.06)
    # 2 λ² times the variance of an entry beside the diagonal.
    np.testing.assert_allclose(spreads[0], 0.1 * values, rtol=0.1)


@pytest.mark.parametrize(("target", "place", "expected"), [(0, 1, 6.5), (1, 2, 10.0)])
def test_units_that_are_unsure_make_their_ratio_unsure(target, place, expected):
    """By half the root of the sum of squares; the intercept's unit is 1."""
    law = SimpleNamespace(scaled=SimpleNamespace(stretch_stds=np.array([0.0, 5, 12, 16, 9])))
    assert _unit_std(law, target, place) == pytest.approx(expected)


@pytest.mark.parametrize("scaling", ["original", "encoded", "correlation"])
def test_eigenvalues_agree_with_the_rows_where_noise_is_small(made, frame, scaling):
    pair = frame[["age", "income"]].to_numpy()
    scale = {"original": [1, 1], "encoded": [25, 50], "correlation": pair.std(axis=0)}[scaling]
    expected = np.linalg.eigvalsh(np.cov((pair / scale).T))[::-1]
    table = eigenvalue_intervals(made, ["age", "income"], n_eigenvalues=2, scaling=scaling)
    np.testing.assert_allclose(table.estimate, expected, rtol=0.03)
    assert np.all((table.lower < expected) & (expected < table.upper))
    assert np.all(table.upper - table.lower < 0.2 * expected)
    default = eigenvalue_intervals(made, ["age", "income"], scaling=scaling)
    assert default.rows == table.rows


def test_eigenvalues_of_columns_in_units_that_are_far_apart_have_intervals_of_their_own_size():
    rng, scales = np.random.default_rng(0), [10_000, 100, 1]
    rows = (rng.normal(size=(3000, 3)) + rng.normal(size=(3000, 1))) * scales
    columns = {f"x{k}": dpcov.Numeric(lower=-9 * s, upper=9 * s) for k, s in enumerate(scales)}
    found = eigenvalue_intervals(released_of(columns, rows, rho=1, missing="never"))
    expected = np.linalg.eigvalsh(np.cov(rows.T))[::-1]
    assert np.all((found.lower < expected) & (expected < found.upper))
    assert np.all((found.lower < 0.97 * found.estimate) & (1.03 * found.estimate < found.upper))
    assert np.all(found.upper - found.lower < 0.4 * expected)


def test_the_variance_of_equal_shares_is_within_its_interval(frame):
    half = frame.assign(member=np.arange(len(frame)) % 2 == 0)[["member"]]
    found = variance_intervals(released_of({"member": dpcov.Boolean()}, half, rho=1))
    assert found["member"].upper >= 0.25


def test_a_release_of_noise_gives_intervals_that_exclude_nothing(noisy):
    coefficients = coefficient_intervals(noisy, "income", ["age", "member"])
    assert np.all(coefficients.lower == -np.inf) and np.all(coefficients.upper == np.inf)
    for table in (correlation_intervals(noisy), correlation_intervals(noisy, partial=True)):
        assert np.mean((table.lower == -1) & (table.upper == 1)) > 0.8
        assert np.min(table.upper - table.lower) > 1
    assert np.isnan(correlation_intervals(noisy, partial=True).estimate).all()
    means = mean_intervals(noisy, ["age"])["age"]
    assert (means.lower, means.upper) == (20, 70)
    variances = variance_intervals(noisy, ["age"])["age"]
    assert (variances.lower, variances.upper) == (0, pytest.approx(625))
    assert eigenvalue_intervals(noisy).lower[1] == 0
    hidden = eigenvalue_intervals(noisy, scaling="correlation")
    assert list(hidden.lower) == [1, 0, 0] and hidden.upper[0] == 7


def test_infinite_coefficients_name_the_features_to_leave_out():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(5_000, 3)), columns=["x", "k", "y"])
    rows["y"] += rows.x
    # Most codebooks have levels that nobody has.
    rows["region"] = "mid"
    numbers = dict.fromkeys(["x", "k", "y"], dpcov.Numeric(lower=-8, upper=8))
    region = dpcov.Categorical(categories=("mid", "east", "west"))
    release = released_of({**numbers, "region": region}, rows, missing="never")
    found = coefficient_intervals(release, "y")
    assert np.isinf(found["k"].upper)
    (told,) = [note for note in found.notes if "hides the spread" in note]
    assert "region=" in told and told.endswith("Name the features without them.")
    without = coefficient_intervals(release, "y", ["x", "k"])
    assert np.isfinite(without.upper).all() and not any("infinite" in x for x in without.notes)


def test_levels_that_somebody_has_are_all_levels_where_noise_hides_the_rest():
    """So naming the features as the note says, without them, gives limits and a reference."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(5_000, 2)), columns=["x", "y"])
    rows["region"] = rng.choice(["mid", "east"], 5_000)
    numbers = dict.fromkeys(["x", "y"], dpcov.Numeric(lower=-8, upper=8))
    region = dpcov.Categorical(categories=("mid", "east", "west"))
    release = released_of({**numbers, "region": region}, rows, missing="never")
    hidden = coefficient_intervals(release, "y")
    assert np.isinf(hidden["region=west"].upper)
    assert hidden.notes[0].endswith("without them; for region name region=mid, region=east.")
    named = ["x", "region=mid", "region=east"]
    found = coefficient_intervals(release, "y", named)
    assert found.names == ("(intercept)", "x", "region=east") and np.isfinite(found.upper).all()
    model = PrivateRidge.from_release(release, target="y", features=named)
    assert model.reference_levels_ == ("region=mid",)
    # Who leaves out a level that shows chooses the reference.
    kept = coefficient_intervals(release, "y", ["region=mid"])
    assert kept.names == ("(intercept)", "region=mid")


def test_collinear_features_have_no_coefficients_without_a_penalty(made):
    without = coefficient_intervals(made, "income", ["age", "sector"], fit_intercept=False)
    assert np.isfinite(without.lower).all()
    collinear = coefficient_intervals(made, "income", ["age", "constant"])
    assert np.isinf(collinear["constant"].lower)
    assert any("hide" in note for note in collinear.notes)
    ridge = coefficient_intervals(made, "income", ["age", "constant"], alpha=0.1)
    assert np.isfinite(ridge.lower).all() and np.isfinite(ridge.upper).all()
    options = {"target": "income", "features": ["age", "member"], "alpha": 0.1, "post": "none"}
    model = PrivateRidge.from_release(made, **options)
    expected = [model.intercept_, *model.coef_]
    np.testing.assert_allclose(model.conf_int().estimate, expected, atol=1e-3)
    release = released(small_rows(), 0)
    singular = replace(moment_law(release), moment=np.diag([1.0, 0.0, 0.3, 0.3]))
    assert np.isinf(standard_errors(all_lines(release, 0.0)(singular)[-3:])).all()


def test_nearly_collinear_features_have_finite_intervals_where_the_noise_tells_them_apart():
    """In units other than those of the noise one in twenty was finite here."""
    finite, inside = [], []
    for seed in range(2, 6):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(8_000, 10))
        rows[:, 2] = rows[:, 0] + rows[:, 1] + 0.2 * rng.normal(size=len(rows))
        rows[:, 9] = 0.2 * rows[:, :9].sum(axis=1) + rng.normal(size=len(rows))
        made = released_within(rows, -50, 50, seed)
        table = coefficient_intervals(made, "x9", sampling=False)
        X = np.column_stack([np.ones(len(rows)), rows[:, :9]])
        truth = np.linalg.lstsq(X, rows[:, 9], rcond=None)[0]
        finite += list(np.isfinite(table.upper - table.lower))
        inside += list((table.lower <= truth) & (truth <= table.upper))
    assert np.mean(finite) > 0.5
    assert np.mean(inside) > 0.9


def test_a_table_taken_for_the_population_leaves_the_noise_alone(made, frame):
    sample, table = (mean_intervals(made, ["age"], sampling=s)["age"] for s in (True, False))
    assert table.sampling_std == 0 and table.privacy_std == pytest.approx(sample.privacy_std)
    assert table.lower < frame.age.mean() < table.upper and table.upper - table.lower < 0.01


def slopes_of(lines, law):
    """Derivatives of the estimates by the moments, (m, d, d)."""
    found = np.zeros((len(lines(law)), *law.moment.shape))
    for i, j in itertools.combinations_with_replacement(range(len(law.moment)), 2):
        step = np.zeros_like(law.moment)
        step[i, j] = step[j, i] = 1e-6
        up, down = (lines(replace(law, moment=law.moment + s * step)) for s in (1, -1))
        slopes = np.array([(a.estimate - b.estimate) / 4e-6 for a, b in zip(up, down, strict=True)])
        found[:, i, j] += slopes
        found[:, j, i] += slopes
    return found


def products_of_normal_rows(spread, present):
    """Covariances of products of two columns around their means, over the rows that have both."""
    moment, mean = spread.copy(), np.eye(len(spread))[0]
    moment[0, 0] = 1.0
    pairs = np.indices(moment.shape).reshape(2, -1).T
    found = np.zeros((len(pairs), len(pairs)))
    for (x, (i, j)), (y, (k, m)) in itertools.product(enumerate(pairs), repeat=2):
        product = moment[i, k] * spread[j, m] + moment[i, m] * spread[j, k]
        product += mean[j] * (mean[k] * spread[i, m] + mean[m] * spread[i, k])
        # Values are missing here and there.
        own = [np.prod([present[place] for place in {*places}]) for places in ((i, j), (k, m))]
        found[x, y] = product * np.prod([present[place] for place in {i, j, k, m}]) / np.prod(own)
    return found


def all_lines(release, alpha):
    """What gives every kind of line of a law; the last column is the target."""
    places = np.arange(len(release.encoded_features))
    others, target = places[:-1], int(places[-1])
    coding, maps = coding_of(release.restored_features, others, ()), half_range_map(release, True)

    def lines(law):
        return [
            *mean_lines(law, places),
            *variance_lines(law, places),
            *correlation_lines(law, places),
            *correlation_lines(law, places, partial=True),
            *coefficient_lines(law, maps, target, others, coding, alpha, True),
        ]

    return lines


def standard_errors(lines):
    return np.array([(line.privacy_std, line.sampling_std) for line in lines]).T


@pytest.mark.parametrize("alpha", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["complete", "missing", "combined", "laplace"])
def test_standard_errors_are_those_that_all_moments_give_to_first_order(kind, alpha):
    rng = np.random.default_rng(0)
    release = released(small_rows(), 0, rho=1000, neighbors="add-remove-one")
    mean, factor = np.array([1, 0.05, -0.1, 0.1]), np.array([0, 0.3, 0.2, -0.25])
    spread = 0.45 * np.diag([0, 1, 1, 1]) + np.outer(factor, factor)
    # So many rows that a regression leaves them all.
    law = replace(moment_law(release), moment=np.outer(mean, mean) + spread, n_rows=1e7)
    present = np.ones(4)
    if kind == "missing":
        present[1:] = 0.9, 0.7, 0.8
        shares = np.outer(present, present)
        np.fill_diagonal(shares, present)
        law = replace(law, shares=shares[1:, 1:])
    if kind == "laplace":
        law = replace(law, laplace_part=1.0)
    if kind == "combined":
        (noise,) = law.noises
        tilted = np.eye(4) + np.triu(rng.uniform(0, 0.2, (4, 4)), 1)
        law = replace(law, noises=(noise, replace(noise, back=tilted)))
    lines = all_lines(release, alpha)
    slopes, around = slopes_of(lines, law), np.column_stack([mean, np.eye(4)[:, 1:]])
    flat = (around.T @ slopes @ around).reshape(len(slopes), -1)
    of_rows = flat @ products_of_normal_rows(spread, present) @ flat.T / law.n_rows
    expected = np.sqrt([np.diagonal(noise_covariance(law, slopes)), np.diagonal(of_rows)])
    found = lines(law)
    np.testing.assert_allclose(standard_errors(found), expected, rtol=1e-3)
    z, widening = law.reaches()
    reach = z * np.sqrt([widening, 1.0] @ expected**2)
    np.testing.assert_allclose([(x.upper - x.lower) / 2 for x in found], reach, rtol=1e-3)


@pytest.mark.parametrize("kind", [dpcov.Numeric(lower=-1, upper=1), dpcov.Boolean()])
def test_standard_errors_are_exact_where_the_law_of_rows_is_known(kind):
    """With bounded tails no rows vary by more than these; yes or no has one law."""
    bounded = isinstance(kind, dpcov.Numeric)
    schema = dpcov.Schema(missing="never", columns={"x0": kind, "x1": kind})
    frame = pd.DataFrame(np.ones((400, 2), bool), columns=[*schema.columns])
    release = made_release(frame, 1000, 0, schema=schema)
    corners = [[1, 1], [-1, -1], [1, -1], [-1, 1], [0, 0]]
    rows = np.repeat(corners, [3, 3, 1, 1, 4] if bounded else [5, 2, 2, 1, 0], axis=0)
    points = np.column_stack([np.ones(len(rows)), rows])
    law = moment_law(release, tails="bounded" if bounded else "moments")
    law = replace(law, moment=points.T @ points / len(rows), n_rows=1e7)
    every = all_lines(release, 0.0)

    def lines(law):
        # Residuals of yes or no have no such law.
        return every(law)[: None if bounded else 5]

    slopes = slopes_of(lines, law)
    of_rows = np.einsum("ki,mij,kj->km", points, slopes, points).std(axis=0) / np.sqrt(law.n_rows)
    np.testing.assert_allclose(standard_errors(lines(law))[1], of_rows, rtol=1e-4)


@pytest.mark.parametrize("scaling", ["encoded", "correlation"])
@pytest.mark.parametrize("share", [1.0, 0.7])
def test_standard_errors_of_eigenvalues_are_those_of_first_order(scaling, share):
    """Noise on the number of rows is on every eigenvalue of covariances."""
    mean, factor = np.array([1, 0.05, -0.1, 0.1]), np.array([0, 0.4, 0.2, -0.3])
    spread = np.diag([0, 0.45, 0.4, 0.35]) + np.outer(factor, factor)
    law = moment_law(released(small_rows(), 0, rho=1000, neighbors="add-remove-one"))
    law = replace(law, moment=np.outer(mean, mean) + spread, n_rows=1e6)
    if share < 1:
        law = replace(law, shares=np.full((3, 3), share))
    places, normalized = np.arange(3), scaling == "correlation"

    def values(law):
        scaled = law.covariance[1:, 1:]
        if normalized:
            own = np.sqrt(np.diagonal(scaled))
            scaled = scaled / np.outer(own, own)
        return [SimpleNamespace(estimate=value) for value in np.linalg.eigvalsh(scaled)[::-1]]

    def simulated(law):
        scale = scale_of(law, places, scaling)
        found = spectrum_of(law, places, scale, normalized=normalized, draws=2000)
        bounds = np.array([law.reach(place + 1) for place in places]) * scale
        return [found.line(k, 2.0) for k in places], found, bounds

    slopes, around = slopes_of(values, law), np.column_stack([mean, np.eye(4)[:, 1:]])
    flat = (around.T @ slopes @ around).reshape(3, -1)
    # Counted is as if values were missing apart from each other.
    n_both = law.n_rows * share**2
    of_rows = flat @ products_of_normal_rows(spread, np.ones(4)) @ flat.T / n_both
    expected = np.sqrt([np.diagonal(noise_covariance(law, slopes)), np.diagonal(of_rows)])
    lines, found, bounds = simulated(law)
    usual = standard_errors(lines)
    np.testing.assert_allclose(usual, INFLATION * expected, rtol=0.06)
    sides = [(line.estimate - line.lower, line.upper - line.estimate) for line in lines]
    np.testing.assert_allclose(np.transpose(sides), [2 * np.hypot(*usual)] * 2, rtol=0.06)
    worst = standard_errors(simulated(replace(law, tails="bounded"))[0])
    longest = (np.abs(found.system[1].T) @ bounds) ** 2
    added = found.unbiased * (longest - found.unbiased) / (law.n_rows * share)
    np.testing.assert_allclose(worst[1] ** 2 - usual[1] ** 2, added, rtol=0.01)


def test_what_scaling_rows_down_may_have_taken_makes_intervals_longer():
    release = released(small_rows(), 0, rho=1000)
    law = replace(moment_law(release), moment=np.diag([1, 0.3, 0.25, 0.2]) + 0.02, n_rows=1e5)
    some = np.array([0, 0.1, 0.1, 0.1])
    scaled = replace(law.scaled, lost=0.1, lost_parts=some, stretch_stds=0.01 * some)
    lines = all_lines(release, 0.0)
    kinds = np.repeat(["mean", "variance", "correlation", "partial", "slope"], 3)

    def lengths(**changed):
        found = lines(replace(law, scaled=replace(scaled, **changed)))
        return np.array([line.upper - line.lower for line in found])

    for changed, longer in (
        ({"lost_parts": 2 * some}, {"variance", "correlation"}),
        ({"most_lost": 0.5}, {"variance"}),
        ({"mean_errors": lambda rows: some[1:]}, {"mean"}),
        ({"stretch_stds": some}, {"variance", "slope"}),
    ):
        ratios, expected = lengths(**changed) / lengths(), np.isin(kinds, [*longer])
        assert np.all(ratios[expected] > 1.001)
        np.testing.assert_allclose(ratios[~expected], 1.0)
    # A slope is in units of the target over those of its column.
    alone, unsure = (
        lines(replace(law, scaled=replace(scaled, stretch_stds=stds)))[-2:]
        for stds in (np.zeros(4), np.array([0, 0.1, 0.2, 0.3]))
    )
    for line, longer, own in zip(alone, unsure, (0.1, 0.2), strict=True):
        assert longer == line.times_unsure(np.hypot(own, 0.3) / 2, law.reaches()[0])
    known = replace(scaled, stretch_stds=np.array([0, 0.1, 0.0, 0.3]))
    assert known.factor_std == pytest.approx(np.sqrt((0.1**2 + 0.3**2) / 2))


def test_partial_correlations_given_what_the_noise_hides_may_be_anything():
    release = released(small_rows(), 0, rho=1)
    law = moment_law(release)
    (noise,) = law.noises
    for times, known in ((1, False), (100, True)):
        hidden = replace(law, moment=np.diag([1, 0.3, 0.3, times * np.sqrt(noise.off_diagonal)]))
        line = correlation_lines(hidden, np.arange(3), partial=True)[0]
        assert known == np.isfinite(line.estimate) == (line.upper - line.lower < 2)


def test_unknown_tails_take_the_bounds_at_their_word(made):
    pair = ["age", "income"]
    for function, features in ((variance_intervals, pair[1:]), (correlation_intervals, pair)):
        usual, safe = (function(made, features, tails=tails) for tails in ("moments", "bounded"))
        assert np.all(safe.upper - safe.lower > usual.upper - usual.lower)
    # The bounds say that uniform columns have no heavy tails.
    age = variance_intervals(made, ["age"])["age"]
    assert age.sampling_std == pytest.approx(np.sqrt(2 / N_ROWS) * age.estimate, rel=0.05)
    usual, safe = (
        coefficient_intervals(made, "income", ["age"], tails=t) for t in ("moments", "bounded")
    )
    assert np.all(safe.upper - safe.lower > 1.2 * (usual.upper - usual.lower))


def test_rows_of_an_array_reach_as_far_as_their_length_and_those_of_a_table_its_corners():
    directions = np.random.default_rng(5).normal(size=(5, 3))
    array = dpcov.second_moment(np.eye(3), norm_bound=6.0, budget=dpcov.Budget(rho=1000))
    table = made_release(np.eye(3), 1000, 0, schema=SMALL)
    for a in directions:
        # The largest product, with a row that is allowed and has it.
        assert moment_law(array).largest(a) == pytest.approx(a @ (6 * a / np.linalg.norm(a)))
        assert moment_law(table).largest(np.append(1, a)) == pytest.approx(1 + a @ np.sign(a))


def test_infinite_intervals_say_whether_it_may_be_the_bounds_that_make_them_so():
    rows = np.random.default_rng(5).normal(size=(2000, 2))
    made = released_within(rows, -60, 60, 0)
    usual, safe = (coefficient_intervals(made, "x1", tails=t) for t in ("moments", "bounded"))
    assert np.isfinite(usual["x0"].upper) and not usual.notes
    assert np.isinf(safe["x0"].upper) and "leave out tails='bounded'" in safe.notes[0]
    here = coefficient_intervals(made, "x1", tails="bounded", sampling=False)
    assert not any("bounded" in note for note in here.notes)


def test_estimators_give_the_intervals_of_what_they_estimate(made):
    linear = PrivateLinearRegression.from_release(made, target="income", features=["age", "member"])
    expected = coefficient_intervals(made, "income", ["age", "member"], level=0.9, tails="bounded")
    np.testing.assert_array_equal(linear.conf_int(0.9, tails="bounded").lower, expected.lower)
    options = {"features": ["member"], "alpha": 0.01}
    several = PrivateRidge.from_release(made, target=["income", "age"], **options)
    assert [table.names for table in several.conf_int(level=0.9)] == [("(intercept)", "member")] * 2
    pair = {"features": ["age", "income"]}
    pca = PrivatePCA.from_release(made, n_components=1, scaling="correlation", **pair).conf_int()
    assert (pca.what, pca.names) == ("eigenvalues (correlation units)", ("eigenvalue 1",))
    assert PrivateCorrelation.from_release(made, **pair).conf_int().names == ("age, income",)
    table = PrivateCovariance.from_release(made, **pair).conf_int()
    assert "variances, 95 % intervals" in str(table) and "income" in str(table)
    assert list(table.to_frame().index) == ["age", "income"]
    with pytest.raises(KeyError, match="names lists them"):
        table["absent"]


def test_bad_questions_are_refused(made):
    for match, function, arguments, options in (
        ("level", mean_intervals, (), {"level": 95}),
        ("tails", variance_intervals, (), {"tails": "thin"}),
        ("own features", coefficient_intervals, ("age", ["age", "income"]), {}),
        ("name one", coefficient_intervals, ("sector",), {}),
        ("alpha", coefficient_intervals, ("age",), {"alpha": -1.0}),
        ("scaling", eigenvalue_intervals, (), {"scaling": "unit"}),
        ("n_eigenvalues", eigenvalue_intervals, (), {"n_eigenvalues": 100}),
        ("level", mean_intervals, (), {"level": "high"}),
        ("design_effect", mean_intervals, (), {"design_effect": "2"}),
        ("alpha", coefficient_intervals, ("age",), {"alpha": "auto"}),
        ("alpha", coefficient_intervals, ("age",), {"alpha": float("inf")}),
        ("draws must be a whole number", eigenvalue_intervals, (), {"draws": 0}),
        ("n_eigenvalues must be a whole", eigenvalue_intervals, (), {"n_eigenvalues": 1.5}),
        ("Name a feature", variance_intervals, ([],), {}),
        ("Name a feature", variance_intervals, (3,), {}),
    ):
        with pytest.raises(InputError, match=match):
            function(made, *arguments, **options)
    with pytest.raises(InputError, match="PrivateGraphicalLasso"):
        PrivateGraphicalLasso.from_release(made, features=["age", "member"]).conf_int()
    with pytest.raises(dpcov.DpcovError, match=r"not fitted yet. Call fit with a release"):
        PrivatePCA().conf_int()


def test_a_release_without_a_law_of_its_noise_is_refused():
    made = released(small_rows(), 0, mechanism="separate", rho=1)
    with pytest.raises(UnknownNoiseError, match="gaussian"):
        mean_intervals(made)


def test_a_release_without_an_intercept_has_no_means():
    schema = dpcov.Schema(columns=SMALL.columns, intercept=False)
    made = released(small_rows(20_000), 0, schema=schema)
    with pytest.raises(ReleaseError, match="no intercept"):
        mean_intervals(made)
    with pytest.raises(ReleaseError, match="fit_intercept"):
        coefficient_intervals(made, "x0")
    assert np.isfinite(coefficient_intervals(made, "x0", fit_intercept=False).lower).all()
    columns = SMALL.columns | {"x0": dpcov.Numeric(lower=-1, upper=3)}
    uneven = released(small_rows(), 0, schema=dpcov.Schema(columns=columns, intercept=False))
    with pytest.raises(ReleaseError, match="middle of all bounds"):
        coefficient_intervals(uneven, "x1", fit_intercept=False)


@pytest.mark.parametrize("scaling", ["original", "encoded", "correlation"])
def test_the_privacy_part_of_an_eigenvalue_is_how_much_releases_of_one_table_differ(scaling):
    rows = small_rows(20_000)
    releases = (released(rows, seed, rho="0.02") for seed in range(40))
    options = {"n_eigenvalues": 1, "scaling": scaling, "draws": 50}
    lines = [eigenvalue_intervals(release, **options) for release in releases]
    told = np.mean([line.privacy_std[0] for line in lines])
    seen = np.std([line.estimate[0] for line in lines], ddof=1)
    assert 0.6 < told / seen < 1.9


def test_eigenvalues_are_freed_of_what_noise_adds_to_them():
    law = moment_law(released(small_rows(20_000), 0, rho="0.0002", mechanism="gaussian"))
    places, ones = np.arange(3), np.ones(3)
    spectrum = spectrum_of(law, places, ones, normalized=False, draws=200)
    biased, freed = (
        np.abs(spectrum.simulated(values).mean(axis=0) - spectrum.system[0])
        for values in (np.maximum(spectrum.system[0], 0.0), spectrum.unbiased)
    )
    assert freed[0] < 0.5 * biased[0]


def test_ratios_are_those_that_fieller_keeps():
    line = ratio_interval("r", (1.0, 2.0), (0.01, 0.0, 0.0), (0.0, 0.0, 0.04), reach=(2.0, 1.0))
    for end in (line.lower, line.upper):
        assert abs(1.0 - 2.0 * end) == pytest.approx(2.0 * np.sqrt(0.01 + 0.04 * end**2))
    drowned = ratio_interval("r", (1.0, 0.3), (0.01, 0.0, 0.0), (0.0, 0.0, 0.04), reach=(2.0, 1.0))
    assert (drowned.lower, drowned.upper) == (-np.inf, np.inf)


def test_the_partial_correlation_of_two_features_is_their_correlation():
    made = released_within(np.random.default_rng(0).normal(size=(2_000, 3)), -3, 3)
    plain, partial = (
        correlation_intervals(made, ["x0", "x1"], partial=each).rows for each in (False, True)
    )
    assert partial == plain


@pytest.mark.parametrize("partial", [False, True])
def test_a_correlation_needs_two_features(made, partial):
    for features in (["age"], "member"):
        with pytest.raises(InputError, match="Name two or more"):
            correlation_intervals(made, features, partial=partial)
    assert len(correlation_intervals(made, "sector").rows) == 3


def test_an_estimate_beyond_what_is_possible_keeps_the_length_of_its_interval():
    line = Interval("v", 7.0, 11.0, 9.0, 0.0, 1.0)
    clipped = line.clipped(0.0, 5.0)
    assert (clipped.estimate, clipped.lower, clipped.upper) == (5.0, 3.0, 5.0)
    clipped = Interval("v", -11.0, -7.0, -9.0).clipped(-5.0, 0.0)
    assert (clipped.estimate, clipped.lower, clipped.upper) == (-5.0, -5.0, -3.0)
    clipped = Interval("v", 0.1, 2.0, -0.5).clipped(0.0, 5.0)
    assert (clipped.estimate, clipped.lower, clipped.upper) == (0.0, 0.0, 2.5)
    clipped = Interval("v", 1.0, 2.0, np.nan).clipped(0.0, 5.0)
    assert (clipped.lower, clipped.upper) == (1.0, 2.0)


def test_the_projection_of_a_quadric_is_what_a_grid_finds():
    form = np.array([[2.0, 0.5, 0.3], [0.5, 1.0, -0.2], [0.3, -0.2, -1.0]])
    grid = np.linspace(-3, 3, 1201)
    b = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    inside = b[np.einsum("ki,ij,kj->k", b, form[:2, :2], b) + 2 * b @ form[:2, 2] + form[2, 2] <= 0]
    for functional in ([1.0, 0.0], [0.0, 1.0], [1.0, -2.0]):
        found = project_quadric(form, np.array(functional))
        values = inside @ functional
        assert found == pytest.approx((values.min(), values.max()), abs=0.02)
    for unbounded in (-form, np.diag([1.0, -1.0, -1.0])):
        assert project_quadric(unbounded, np.array([1.0, 0.0])) == (-np.inf, np.inf)


def test_kurtosis_is_that_of_the_exponential_with_outliers_at_the_bound_and_of_the_coin_exactly():
    number = moment_law(released(small_rows(), 0)).columns[1]
    coin, ends = replace(number, kind="boolean"), (number.lowest, number.largest)
    assert OUTLIERS == 0.05  # docs/inference.md says so
    skewed = column_shape(number, ends, -0.9, 0.01)
    assert 3 * skewed.kurtosis - 3 == pytest.approx(6 + OUTLIERS * (1.9**2 / 0.01 - 3))
    for variance in (0.34, 0.4, 0.5, 0.9):
        assert column_shape(number, ends, 0.0, variance).kurtosis == 1.0
    assert column_shape(number, ends, 0.0, 0.3).kurtosis > 1
    p = 0.02
    rare = column_shape(coin, ends, 2 * p - 1, 4 * p * (1 - p))
    assert 3 * rare.kurtosis == pytest.approx((1 - 3 * p * (1 - p)) / (p * (1 - p)))
    # A column with that share of its variance at the bounds has that kurtosis.
    variance, chance = 0.01, OUTLIERS * 0.01
    fourth = chance + (1 - chance) * 3 * ((1 - OUTLIERS) * variance / (1 - chance)) ** 2
    shape = column_shape(number, ends, 0.0, variance)
    assert 3 * shape.kurtosis == pytest.approx(fourth / variance**2, rel=0.05)
    linear, square = shape.square_variance
    spread = linear * variance + square * variance**2
    assert spread == pytest.approx((3 * shape.kurtosis - 1) * variance**2)


def test_fourth_moments_of_pairs_are_exact_for_normal_and_for_yes_or_no_columns():
    rng = np.random.default_rng(3)
    latent = rng.standard_normal((400_000, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
    coins = (latent < [-0.3, 0.4]) * 2.0 - 1.0
    mixed = np.column_stack([coins[:, 0], coins[:, 0] + rng.standard_normal(400_000)]) / [1, 2]
    heavy = latent * np.sqrt(rng.choice([0.5, 1.5], (400_000, 1)))
    for rows, n_coins, kurtosis in ((latent, 0, 1), (heavy, 0, 1.25), (mixed, 1, 1), (coins, 2, 1)):
        covariance, means = np.cov(rows.T), rows.mean(axis=0)
        shapes = [
            ColumnShape(covariance[i, i], kurtosis, -2 * means[i] if i < n_coins else np.nan)
            for i in range(2)
        ]
        u, w = (rows - means).T
        expected = np.cov(np.array([u**2, u * w, w**2]))
        found = pair_covariance(shapes[0], shapes[1], covariance[0, 1])
        np.testing.assert_allclose(found, expected, atol=0.03 * np.abs(expected).max())
        swapped = pair_covariance(shapes[1], shapes[0], covariance[0, 1])
        np.testing.assert_allclose(swapped, found[::-1, ::-1], atol=1e-9)


def test_noise_that_is_not_gaussian_gets_the_longer_reach():
    law = moment_law(released(small_rows(), 0, mechanism="gaussian"))
    assert law.reaches(0.95)[1] == 1.0
    z, factor = replace(law, laplace_part=1.0).reaches(0.95)
    # A Laplace number of variance 1 exceeds this with probability 5 %.
    assert np.exp(-np.sqrt(2) * z * np.sqrt(factor)) == pytest.approx(0.05)


def test_a_skewed_law_has_the_longer_reach_on_its_long_side_and_the_usual_one_on_the_other():
    draws = np.random.default_rng(2).standard_exponential(50_000)
    usual, upper, lower = (_spread(draws, 0.0, side) for side in (None, 1.0, -1.0))
    assert usual == pytest.approx(INFLATION, rel=0.02) and lower == usual
    # E[max(x - 1, 0)²] = 2 / e.
    assert upper == pytest.approx(INFLATION * np.sqrt(4 / np.e), rel=0.02)


@pytest.mark.parametrize("estimate", [0.5, -0.5])
def test_an_unsure_factor_reaches_farther_away_from_zero(estimate):
    size = abs(estimate)
    line = Interval("x", estimate - 0.1, estimate + 0.1, estimate, 0.0, 0.05)
    found = line.times_unsure(0.2, 2.0)
    away = max(abs(found.lower), abs(found.upper)) - size
    toward = size - min(abs(found.lower), abs(found.upper))
    assert away == pytest.approx(np.hypot(0.1, size * (np.exp(0.4) - 1)))
    assert toward == pytest.approx(np.hypot(0.1, size * (1 - np.exp(-0.4))))
    assert found.privacy_std == pytest.approx(np.hypot(0.05, 0.2 * size))
    assert line.times_unsure(0.0, 2.0) == line
    skewed = line.times_unsure(0.2, 2.0, 1.5)
    ends = sorted((abs(skewed.lower), abs(skewed.upper)))
    assert ends[1] - size == pytest.approx(np.hypot(0.1, size * (np.exp(0.6) - 1)))
    assert size - ends[0] == pytest.approx(np.hypot(0.1, size * (1 - np.exp(-0.4 / 1.5))))


@pytest.mark.parametrize(
    "budget", [dpcov.Budget(rho="1e-4"), dpcov.Budget(epsilon=0.1, delta="1e-6")], ids=str
)
def test_eigenvalues_that_noise_drowns_lie_in_wide_intervals(budget):
    missed = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows = 0.6 * rng.normal(size=(100, 4)) + 0.8 * rng.normal(size=(100, 1))
        terms = {"budget": budget, "geometry": "schema", "accept_large_delta": True}
        release = released_within(rows, -4, 4, seed, **terms)
        found = eigenvalue_intervals(release, n_eigenvalues=4)
        assert ((found.lower <= found.estimate) & (found.estimate <= found.upper)).all()
        assert (found.upper - found.lower > 1).all()
        true = np.linalg.eigvalsh(np.cov(rows.T))[::-1]
        missed += int(np.sum((true < found.lower) | (true > found.upper)))
    assert missed <= 2


def test_the_noise_of_one_column_with_all_takes_one_product_of_whole_matrices():
    """All means ask for it: of thousands of columns it would be minutes instead of seconds."""
    d, rng = 1_000, np.random.default_rng(0)
    back, rows = rng.normal(size=(2, d, d))
    noise = Noise(off_diagonal=1.0, diagonal=np.full(d, 2.5), between=0.5, start=1, back=back)

    def took(action):
        begun = process_time()
        action()
        return process_time() - begun

    one = min(took(lambda: noise.of_pairs(rows, None)(0)) for _ in range(5))
    assert one < 4 * min(took(lambda: rows @ back) for _ in range(5))


@pytest.mark.parametrize(("n", "most"), [(500, np.inf), (3_000, 2.0)])
def test_noise_that_may_hide_a_far_column_leaves_other_eigenvalues_their_size(n, most):
    """Where few simulations have a negative variance there, all estimates were of other columns."""
    rng = np.random.default_rng(0)
    spreads = {"far": (100, 700), "b": (1, 3), "c": (0.1, 0.3)}
    columns = {name: dpcov.Numeric(lower=-end, upper=end) for name, (_, end) in spreads.items()}
    rows = {
        name: np.clip(rng.normal(scale=spread, size=n), -end, end)
        for name, (spread, end) in spreads.items()
    }
    truth = np.sort([column.var() for column in rows.values()])[::-1]
    found, held = [], []
    for seed in range(20):
        made = released_of(columns, pd.DataFrame(rows), seed, missing="never", geometry="schema")
        table = eigenvalue_intervals(made, sampling=False)
        found.append(table.estimate / truth)
        held.append((table.lower <= truth) & (truth <= table.upper))
    assert np.quantile(found, 0.9, axis=0).max() < most
    # Of the few rows the far column's variance is as likely as not below zero.
    assert np.mean(held, axis=0).min() >= 0.85

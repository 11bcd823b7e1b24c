"""Regressions on a release match those on the rows where noise is small, and are sensible else."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression, Ridge

import dpcov
from dpcov.analysis import NoiseWarning, PrivateLinearRegression, PrivateRidge
from dpcov.analysis.estimators import ridge_path
from dpcov.analysis.estimators.fit_rows import columns_of, table_of
from dpcov.analysis.problems import InputError
from dpcov.errors import DpcovError
from dpcov.published.estimate.unit import STEP
from dpcov.published.file.columns import half_ranges_of
from dpcov.published.linalg.project import project_psd
from dpcov.published.reading.encoded import noise_of
from tests.analysis.conftest import SCHEMA, released
from tests.releases import released as released_within
from tests.releases import released_of

# Of age, the three sectors, the constant, and member; the first sector is the reference.
HALF_RANGES, CARE = np.array([25.0, 1.0, 1.0, 1.0, 5.0, 0.5]), 1


def without_income(encoded):
    return np.delete(encoded, 1, axis=1), encoded[:, 1]


def contrasts(coefficients):
    """Differences of the sectors to the reference, from coefficients of all levels."""
    shifted = coefficients - np.isin(range(6), [1, 2, 3]) * coefficients[CARE]
    return np.delete(shifted, CARE)


@pytest.mark.filterwarnings("ignore::dpcov.analysis.NoiseWarning")
def test_least_squares_predicts_as_on_the_rows_although_columns_are_constant_and_collinear(
    made, frame, encoded
):
    X, y = without_income(encoded)
    model = PrivateLinearRegression.from_release(made, target="income")
    exact = LinearRegression().fit(X, y)
    names = ["age", "sector=trade", "sector=farm", "constant", "member"]
    assert list(model.get_encoded_names()) == names
    np.testing.assert_allclose(model.predict(frame), exact.predict(X), atol=0.3)
    assert model.score(frame, y) == pytest.approx(exact.score(X, y), abs=1e-3)
    assert model.coef_[0] == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_ridge_is_that_of_scikit_learn_on_columns_divided_by_their_half_ranges(
    made, encoded, alpha
):
    X, y = without_income(encoded)
    model = PrivateRidge.from_release(made, target="income", alpha=alpha)
    # A penalty on all levels alike.
    exact = Ridge(alpha=alpha * len(y)).fit(X / HALF_RANGES, y)
    scaled = model.coef_ * np.delete(HALF_RANGES, CARE)
    np.testing.assert_allclose(scaled, contrasts(exact.coef_), atol=0.05)
    predicted = model.predict(np.delete(X, CARE, axis=1))
    np.testing.assert_allclose(predicted, exact.predict(X / HALF_RANGES), atol=0.1)
    bare = PrivateRidge.from_release(made, target="income", alpha=alpha, fit_intercept=False)
    exact = Ridge(alpha=alpha * len(y), fit_intercept=False).fit(X / HALF_RANGES, y)
    np.testing.assert_allclose(bare.coef_ * HALF_RANGES, exact.coef_, atol=0.1)
    assert "sector=care" in bare.get_encoded_names() and bare.intercept_ == 0.0


def test_predictions_stay_within_the_bounds_of_the_target(made, frame):
    for target in ("income", ["income", "member"]):
        model = PrivateRidge.from_release(made, target=target, features=["age"])
        inside = frame[["age"]].assign(age=45.0)
        plain = np.atleast_2d(model.coef_)[0, 0] * 45.0 + np.atleast_1d(model.intercept_)[0]
        assert model.predict(inside).reshape(len(frame), -1)[0, 0] == pytest.approx(plain)
        for beyond, bound in ((-1e6, 0.0), (1e6, 100.0)):
            model.intercept_ = np.zeros_like(model.intercept_) + beyond
            assert model.predict(inside).reshape(len(frame), -1)[0, 0] == bound


def test_values_that_no_row_can_have_are_moved_to_twice_the_length_of_the_longest(made, frame):
    model = PrivateRidge.from_release(made, target="income", features=["age"])
    column = next(each for each in made.features if each.name == "age")
    away = 2.0 * made.manifest.norm_bound * column.half_range
    ages = column.center + away * np.array([-1e6, -1.0, 0.0, 1.0, 1e6])
    found = model.predict(frame[["age"]].iloc[:5].assign(age=ages))
    assert found[0] == found[1] < found[2] < found[3] == found[4]
    lower, upper = column.bounds
    assert lower > ages[1] and upper < ages[3], "no value within the bounds is moved here"


@pytest.mark.parametrize("missing", ["never", "indicator"])
def test_a_regression_reads_the_covariance_that_the_release_shows(missing):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, 3000), "kind": rng.integers(0, 30, 3000)})
    frame = frame.assign(y=frame.x + 0.1 * frame.kind, kind=frame.kind.astype(str))
    made = released_within(frame, -5, 5, missing=missing)
    first, *rest = made.present_moment()
    mean, second = first[1:] / first[0], np.array(rest)[:, 1:] / first[0]
    units = half_ranges_of(made.restored_features)
    np.testing.assert_allclose(
        (second - np.outer(mean, mean)) * np.outer(units, units),
        made.covariance_matrix(indicators=True),
        atol=1e-12 * units.max() ** 2,
    )


def test_any_target_any_features_and_several_targets(made):
    options = {"features": ["sector", "member"], "alpha": 0.1}
    both = PrivateRidge.from_release(made, target=["income", "age"], **options)
    assert both.coef_.shape == (2, 3)
    for place, target in enumerate(("income", "age")):
        one = PrivateRidge.from_release(made, target=target, **options)
        np.testing.assert_array_equal(both.coef_[place], one.coef_)
    care = PrivateRidge.from_release(made, target="sector=care")
    assert "sector=farm" not in care.get_encoded_names()


@pytest.mark.parametrize("estimator", [PrivateRidge, PrivateLinearRegression])
def test_levels_that_hold_all_rows_are_contrasts_to_the_first(made, frame, encoded, estimator):
    features = ["age", "sector", "member"]
    model = estimator.from_release(made, target="income", features=features)
    assert model.reference_levels_ == ("sector=care",)
    assert list(model.get_encoded_names()) == ["age", "sector=trade", "sector=farm", "member"]
    exact = LinearRegression().fit(encoded[:, [0, 3, 4, 6]], encoded[:, 1])
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=0.02, atol=0.2)
    # A schema ignores blanks around text, so new rows may have them.
    padded = frame.assign(sector=" " + frame.sector)
    np.testing.assert_array_equal(model.predict(padded), model.predict(frame))
    table = model.conf_int()
    assert table.names == ("(intercept)", *model.get_encoded_names())
    assert np.isfinite([*table.lower, *table.upper]).all()
    np.testing.assert_allclose(table.estimate[1:], model.coef_, rtol=0.01, atol=0.01)
    # A table of a penalized regression was taken for one of least squares.
    *others, reference = table.notes
    assert reference == "Reference category: sector=care."
    assert [note[:32] for note in others] == ["The penalty is taken as given: i"] * hasattr(
        model, "alpha_"
    )


@pytest.mark.parametrize("estimator", [PrivateRidge, PrivateLinearRegression])
@pytest.mark.parametrize("shares", [[0.5, 0.3, 0.2], [0.9, 0.07, 0.03]])
def test_levels_of_unlike_scales_have_the_coefficients_of_the_rows(frame, estimator, shares):
    rows = frame.copy()
    rows["sector"] = np.random.default_rng(0).choice(["care", "trade", "farm"], len(rows), p=shares)
    rows["income"] += 4.0 * (rows.sector == "farm")
    made = released(rows, 1000, 1, geometry="private")
    scales = [column.half_range for column in made.features if column.source == "sector"]
    assert max(scales) > 1.05 * min(scales)
    model = estimator.from_release(made, target="income", features=["age", "sector"])
    columns = [rows.age, rows.sector == "trade", rows.sector == "farm"]
    X = np.column_stack(columns).astype(float)
    exact = LinearRegression().fit(X, rows.income)
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=0.02, atol=0.1)
    np.testing.assert_allclose(model.predict(rows), exact.predict(X), atol=0.3)
    table = model.conf_int()
    np.testing.assert_allclose(table.estimate[1:], model.coef_, rtol=0.02, atol=0.05)
    assert table.estimate[0] == pytest.approx(model.intercept_, abs=0.2)


def test_a_fit_does_not_depend_on_which_level_is_the_reference(frame):
    found = []
    for order in (("care", "trade", "farm"), ("farm", "care", "trade")):
        columns = {**SCHEMA.columns, "sector": dpcov.Categorical(categories=order)}
        made = released(frame, 1000, 1, schema=dpcov.Schema(columns=columns))
        options = {"target": "income", "features": ["age", "sector"], "alpha": 0.1}
        model = PrivateRidge.from_release(made, **options)
        found.append(model.predict(frame))
        np.testing.assert_allclose(model.conf_int().estimate[1:], model.coef_, atol=0.01)
        assert model.conf_int().estimate[0] == pytest.approx(model.intercept_, abs=0.05)
    np.testing.assert_allclose(found[0], found[1], atol=0.05)


@pytest.mark.parametrize(("share", "references"), [(0.02, ("kind=a",)), (0.5, ())])
def test_levels_beside_a_marked_missing_value_hold_all_rows_too(share, references):
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", "other"], p=[0.35, 0.65 - share, share], size=5000)
    # A fifth of the cells is missing: the two levels alone do not hold nearly all rows.
    masked = pa.array(kind, mask=rng.random(5000) < 0.2)
    table = pa.table({"kind": masked, "y": rng.uniform(-1, 1, 5000)})
    kinds = dpcov.Categorical(categories=("a", "b"), missing="indicator")
    schema = dpcov.Schema(columns={"kind": kinds, "y": dpcov.Numeric(lower=-1, upper=1)})
    model = PrivateRidge.from_release(released(table, 1000, 0, schema=schema), target="y")
    assert model.reference_levels_ == references
    assert np.isfinite(model.conf_int().upper).all()


def test_what_cannot_be_fitted_is_refused_in_words(made):
    own = {"features": ["age"]}
    for target, wrong in (("wealth", {}), (None, {}), ("age", own), ("age", {"alpha": -1})):
        with pytest.raises(DpcovError):
            PrivateRidge.from_release(made, target=target, **wrong)


def test_the_path_holds_the_fitted_model(made):
    model = PrivateRidge.from_release(made, target="income")
    place = int(np.flatnonzero(model.alphas_ == model.alpha_)[0])
    np.testing.assert_allclose(model.coef_path()[0, place], model.coef_)
    assert model.coef_path().shape == (1, len(model.alphas_), 5)


def test_features_that_are_noise_alone_are_told_of(made, noisy):
    for release, is_noise in ((made, False), (noisy, True)):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            PrivateRidge.from_release(release, target="income", features=["age", "member"])
        assert any("may be noise alone" in str(each.message) for each in told) == is_noise


def test_how_many_directions_are_left_out_is_said():
    rng = np.random.default_rng(0)
    rows = 3 * rng.normal(size=(2_000, 1)) + 0.05 * rng.normal(size=(2_000, 4))
    release = released_within(rows, -12, 12, rho="0.1")
    with pytest.warns(NoiseWarning, match="^Directions that the noise hides are left out: 2 of 3"):
        model = PrivateLinearRegression.from_release(release, target="x3")
    assert model.n_components_ == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", ["pay", ["pay"]])
def test_the_target_of_rows_has_the_name_that_is_given(target):
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, size=(500, 2))
    terms = {"bounds": (-1, 1), "target_bounds": (-1, 1), "budget": dpcov.Budget(rho=10)}
    model = PrivateLinearRegression(target=target, seed=1, **terms).fit(rows, rows[:, 0])
    assert model.release_.feature_names[-1] == "pay"


@pytest.mark.parametrize("bounds", [3, (1,), ("a", 1), (0, 1, 2), {"x0": 5}])
def test_bounds_that_are_no_pair_are_refused(bounds):
    terms = {"target_bounds": (-1, 1), "budget": dpcov.Budget(rho=1)}
    with pytest.raises(InputError, match="Bounds are one pair"):
        PrivateLinearRegression(bounds=bounds, **terms).fit(np.zeros((9, 1)), np.zeros(9))


def noise_matrix(rng, d, variance):
    upper = np.triu(rng.normal(size=(d, d)), 1)
    return np.sqrt(variance) * (upper + upper.T + np.diag(np.sqrt(2) * rng.normal(size=d)))


def problem(moment):
    d = len(moment)
    return ridge_path.RidgeProblem(moment, np.eye(d)[1:-1], np.eye(d)[-1], True)


@pytest.fixture(scope="module")
def truth():
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.ones(400), rng.normal(size=(400, 6)) * [1, 1, 0.5, 0.3, 0.1, 0.1]])
    rows = np.column_stack([rows, rows[:, 1] - rows[:, 3] + 0.3 * rng.normal(size=400)])
    return rows.T @ rows / 400


def test_risks_on_new_rows_grow_as_generalized_cross_validation_says(truth):
    """Without a penalty by 1/(1 - k/n)², where k counts the intercept, and no risk below zero."""
    model, alphas, n, k = problem(truth), np.array([0.0, 0.1, 10.0]), 50, 7
    many, few = (ridge_path.risks(model, truth, alphas, rows) for rows in (np.inf, n))
    assert few[0] == pytest.approx(many[0] / (1 - k / n) ** 2)
    assert (few > many).all() and (np.diff(few / many) < 0).all()
    np.testing.assert_allclose(few[-1], many[-1], rtol=0.15)
    below = ridge_path.risks(model, truth, alphas, n, -1e3)
    np.testing.assert_allclose(below, many - 1e3)
    assert np.isinf(ridge_path.risks(model, truth, alphas, k)[0])


def test_a_direction_without_variance_gets_no_weight_beside_large_means():
    """Post-processing leaves such directions; coefficients were ratios of two rounding errors."""
    rng, order = np.random.default_rng(0), [0, 3, 2, 1, 4]
    for _ in range(100):
        row, root = np.append(1.0, rng.uniform(-1, 1, 4)), np.zeros((5, 2))
        root[1:] = 0.01 * rng.normal(size=(4, 2))
        moment = np.outer(row, row) + root @ root.T
        found, turned = (problem(m).weights(0.0) for m in (moment, moment[np.ix_(order, order)]))
        np.testing.assert_allclose(turned[::-1], found, rtol=1e-6, atol=1e-9)


def test_what_rounding_leaves_of_a_target_is_no_variance():
    """R² was one of two rounding errors, such as 0.99, where noise hides the target."""
    for means in np.random.default_rng(0).uniform(0.1, 1.0, size=(100, 4)):
        row = np.append(1.0, means)
        moment = np.outer(row, row) * 0.3 + np.diag([0, 1, 1, 1, 0])
        assert problem(moment).whole == 0.0
    assert problem(moment + np.diag([0, 0, 0, 0, 1e-12])).whole == pytest.approx(1e-12, rel=1e-3)


def probes_of(raw, post, variance, n=24):
    """Made-up noises, and problems at a small step along them and against them."""
    rng = np.random.default_rng(7)
    noises = [noise_matrix(rng, len(raw), variance) for _ in range(n)]
    return [
        ridge_path.Probe(w, problem(post(raw + STEP * w)), problem(post(raw - STEP * w)))
        for w in noises
    ]


@pytest.mark.parametrize("post", [np.asarray, project_psd])
def test_the_cross_term_is_what_finite_differences_say(truth, post):
    variance, alpha, step = 0.002, 0.3, 1e-6
    raw = truth + noise_matrix(np.random.default_rng(3), len(truth), variance)
    model = problem(post(raw))
    alphas = np.array([alpha])
    u, expected = model.error_directions(model.path(alphas))[0], 0.0
    for i, j in zip(*np.triu_indices(len(raw)), strict=True):
        moved = np.zeros_like(raw)
        moved[i, j] = moved[j, i] = step
        ends = [model.at(post(raw + sign * moved)) for sign in (1, -1)]
        first, second = (end.error_directions(end.path(alphas))[0] for end in ends)
        slope = (first - second) / (2 * step)
        # Stein's lemma for the term 2 u_i u_j W_ij, or u_i² W_ii of twice the variance.
        expected -= 2 * variance * (slope[i] * u[j] + u[i] * slope[j])
    found = ridge_path.cross_terms(probes_of(raw, post, variance, 4_000), alphas, STEP)
    assert found[0] == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("post", [np.asarray, project_psd])
def test_the_estimated_risk_is_unbiased_and_without_its_cross_term_far_too_low(truth, post):
    rng, variance, alphas = np.random.default_rng(1), 0.002, np.array([0.3])
    estimated, true, naive = [], [], []
    for _ in range(300):
        raw = truth + noise_matrix(rng, len(truth), variance)
        model = problem(post(raw))
        u = model.error_directions(model.path(alphas))[0]
        cross = ridge_path.cross_terms(probes_of(raw, post, variance), alphas, STEP)
        estimated.append(ridge_path.risks(model, raw, alphas, np.inf, cross)[0])
        naive.append(u @ raw @ u)
        true.append(u @ truth @ u)
    gap, missed = np.subtract(estimated, true), np.subtract(naive, true)
    assert abs(gap.mean()) < 6 * gap.std() / np.sqrt(len(gap))
    # The planted fault: leaving the cross term out is found out.
    assert missed.mean() < -8 * missed.std() / np.sqrt(len(gap))


def test_alpha_is_chosen_near_the_best_one(truth):
    rng, variance = np.random.default_rng(2), 0.002
    edge = 2 * np.sqrt(len(truth) * variance)
    regret, least_squares = [], []
    for _ in range(30):
        raw = truth + noise_matrix(rng, len(truth), variance)
        model, around = problem(project_psd(raw)), probes_of(raw, project_psd, variance)
        alphas = ridge_path.default_alphas(model, edge)
        directions = model.error_directions(model.path(alphas))
        losses = np.array([u @ truth @ u for u in directions])
        cross = ridge_path.cross_terms(around, alphas, STEP)
        chosen = int(np.argmin(ridge_path.risks(model, raw, alphas, 400, cross)))
        regret.append(losses[chosen] - losses.min())
        u = model.error_directions(model.path(np.array([1e-3])))[0]
        least_squares.append(u @ truth @ u - losses.min())
    assert np.mean(regret) < 0.2 * np.mean(least_squares)
    assert np.mean(regret) < 0.1 * truth[-1, -1]


def test_a_risk_that_is_low_by_chance_is_not_believed(frame, monkeypatch):
    made, risks = released(frame, "0.05", 3, geometry="private"), PrivateRidge._risks
    fair = PrivateRidge.from_release(made, target="income")

    def lucky(model, problems, alphas):
        found = risks(model, problems, alphas)
        found[:, -10:] -= 10 * found.max()
        return found

    monkeypatch.setattr(PrivateRidge, "_risks", lucky)
    model = PrivateRidge.from_release(made, target="income")
    assert model.risk_path_[0].argmin() >= 50
    assert model.alpha_ == fair.alpha_ < model.alphas_[50]
    # Without the matrix's own word it would be.
    monkeypatch.setattr(PrivateRidge, "_own_risks", lambda self, problems, alphas: -np.inf)
    assert PrivateRidge.from_release(made, target="income").alpha_ >= model.alphas_[50]


def test_a_matrix_that_was_not_shrunk_does_not_judge_its_own_model(frame):
    made = released(frame, 1, 3)
    model = PrivateRidge.from_release(made, target="income", post="none")
    risks = model._risks(model._problems, model.alphas_)
    # A model that follows the noise looks better than it is.
    assert (model._own_risks(model._problems, model.alphas_) < risks).mean() > 0.9
    careful = risks + model._risk_noise(model._problems)
    assert model.alpha_ == model.alphas_[careful[0].argmin()]


@pytest.mark.parametrize("geometry", ["private", "schema"])
def test_made_up_noise_has_the_law_of_the_release(frame, geometry):
    made = released(frame, 1, 3, geometry=geometry)
    law, probes = noise_of(made), list(made.noise_probes("none"))
    noises = np.array([noise for noise, _, _ in probes])
    for noise, after, before in probes[:2]:
        np.testing.assert_allclose((after - before) / (2 * STEP), noise, rtol=1e-3, atol=1e-9)
    back = made.frame.back
    forth = np.linalg.inv(back)
    plain = forth @ noises @ forth.T
    places = np.triu_indices(len(back), 1)
    places = tuple(each[places[0] > 0] for each in places)
    variance = np.mean(plain[(slice(None), *places)] ** 2)
    assert variance == pytest.approx(law.entries.off_diagonal, rel=0.35)


def test_more_features_than_rows_are_penalized():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(30, 60))
    y = X[:, 0] + 0.1 * rng.uniform(-1, 1, 30)
    terms = {"bounds": (-1, 1), "target_bounds": (-2, 2), "budget": dpcov.Budget(rho=1000)}
    model = PrivateRidge(seed=1, **terms).fit(X, y)
    assert np.all(np.isfinite(model.coef_))
    assert model.alpha_ > 1e-4
    assert not np.isnan(model.risk_path_).any()


@pytest.mark.parametrize("estimator", [PrivateRidge, PrivateLinearRegression])
def test_a_release_that_is_all_noise_gives_finite_coefficients_and_says_so(noisy, frame, estimator):
    with pytest.warns(NoiseWarning):
        model = estimator.from_release(noisy, target="income")
    assert np.all(np.isfinite(model.coef_))
    assert np.all(np.isfinite(model.predict(frame[:50])))


def test_noise_without_a_published_law_asks_for_an_alpha():
    rows = np.random.default_rng(6).uniform(-1, 1, size=(500, 4))
    terms = {"norm_bound": 2.0, "budget": dpcov.Budget(rho=10), "mechanism": "separate"}
    made = dpcov.second_moment(rows, entropy=dpcov.SeededEntropy(1), **terms)
    with pytest.raises(DpcovError, match="fit_intercept=False"):
        PrivateRidge.from_release(made, target="x3")
    options = {"target": "x3", "fit_intercept": False}
    with pytest.raises(DpcovError, match="alpha"):
        PrivateRidge.from_release(made, **options)
    model = PrivateRidge.from_release(made, alpha=0.1, **options)
    assert np.all(np.isnan(model.risk_path_))


def wide_rows(n_rows, seed, columns=60, factors=6):
    loadings = np.random.default_rng(0).normal(size=(factors, columns))
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_rows, factors)) @ loadings
    rows = common + 0.3 * rng.normal(size=(n_rows, columns))
    return pd.DataFrame(rows, columns=[f"x{place}" for place in range(columns)])


def lost_by_the_penalty(seed):
    """R² of new rows that the automatic penalty, and the smallest, have less than the best one."""
    rows, new = wide_rows(1_500, seed), wide_rows(4_000, 99)
    budget = dpcov.Budget(epsilon=2, delta="1e-6")
    release = released_within(rows, -30, 30, seed, budget=budget, neighbors="add-remove-one")
    terms = {"target": "x0", "features": list(rows)[1:]}

    def score(**alpha):
        model = PrivateRidge.from_release(release, **terms, **alpha)
        wrong = new["x0"] - model.predict(new[terms["features"]])
        return 1 - np.mean(wrong**2) / new["x0"].var()

    path = PrivateRidge.from_release(release, **terms).alphas_[::10]
    scores = [score(alpha=alpha) for alpha in path]
    return max(scores) - score(), max(scores) - scores[0]


@pytest.mark.thorough
def test_few_rows_of_many_columns_get_no_penalty_that_noise_chose():
    """Noise is as large as correlations are here, and small penalties seem to leave no error."""
    automatic, smallest = np.mean([lost_by_the_penalty(seed) for seed in range(4)], axis=0)
    assert automatic < 0.1
    assert automatic < 0.75 * smallest


def called_like_arrays():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 5000))
    frame = pd.DataFrame({"x1": first, "x2": second, "y": first + 0.1 * rng.normal(size=5000)})
    return frame, released_within(frame, -5, 5, missing="indicator")


def test_columns_that_are_called_as_those_of_arrays_are_found_by_name():
    frame, release = called_like_arrays()
    model = PrivateRidge.from_release(release, target="y", features=["x1", "x2"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.score(frame[["x1", "x2"]], frame["y"]) > 0.9
    # Those of a whole table too, in any order.
    whole = frame[["y", "x2", "x1"]].assign(place="north")
    np.testing.assert_array_equal(model.predict(whole), model.predict(frame[["x1", "x2"]]))
    for other in (["x2", "x1"], ["x1", "x3"], ["x1"]):
        with pytest.raises(DpcovError, match="in this order"):
            model.predict(frame.rename(columns={"y": "x3"})[other])
    # A matrix has no names.
    assert model.score(frame[["x1", "x2"]].to_numpy(), frame["y"]) > 0.9


def test_a_whole_table_of_numbers_is_taken_by_name(made, frame):
    model = PrivateRidge.from_release(made, target="income", features=["age", "member"])
    whole, chosen = frame[frame.columns[::-1]], frame[["age", "member"]]
    np.testing.assert_array_equal(model.predict(whole), model.predict(chosen))


def test_missing_truth_values_of_pandas_own_type_are_predicted_with():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"ill": rng.random(3000) < 0.3, "sex": rng.choice(["F", "M"], 3000)})
    frame["y"] = frame["ill"] + 0.5 * (frame["sex"] == "F") + rng.normal(size=3000) / 5
    frame["ill"] = frame["ill"].astype("boolean").where(rng.random(3000) > 0.1)
    columns = {"ill": dpcov.Boolean(), "sex": dpcov.Categorical(categories=("F", "M"))}
    release = released_of({**columns, "y": dpcov.Numeric(lower=-2, upper=3)}, frame, rho=10)
    model = PrivateRidge.from_release(release, target="y", features=["ill", "sex"])
    ill = frame["ill"].astype(object).where(frame["ill"].notna(), None)
    objects = frame[["sex"]].assign(ill=ill)
    np.testing.assert_array_equal(model.predict(frame[["ill", "sex"]]), model.predict(objects))


def test_a_feature_that_is_nearly_written_is_proposed(made):
    with pytest.raises(DpcovError, match="Did you mean 'income'"):
        PrivateRidge.from_release(made, target="incme")


@pytest.mark.filterwarnings("ignore::dpcov.analysis.NoiseWarning")
@pytest.mark.parametrize("geometry", ["schema", "private"])
def test_a_public_number_of_rows_is_not_hidden_by_noise(geometry):
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(600, 12)), columns=[*"abcdefghijkl"])
    terms = {"budget": dpcov.Budget(rho="0.002"), "missing": "indicator", "geometry": geometry}
    for seed in range(2):
        found = released_within(rows, -4, 5, seed, **terms)
        assert found.present_moment()[0, 0] == pytest.approx(1.0, rel=1e-9)
        assert np.isfinite(PrivateRidge.from_release(found, target="a").coef_).all()


@pytest.mark.thorough
def test_noise_does_not_make_the_reference_come_and_go():
    """In two of 20 releases a group of few rows had all levels, none of them the reference."""
    rng, n = np.random.default_rng(0), 3000
    kind, group = rng.choice([*"abc"], n, p=[0.5, 0.3, 0.2]), rng.choice([*"st"], n, p=[0.92, 0.08])
    frame = pd.DataFrame({"x": rng.normal(size=n), "kind": kind, "group": group})
    frame["y"] = frame["x"] + 2 * (frame["kind"] == "c") + rng.normal(size=n)
    frame = frame[["x", "y", "kind", "group"]]
    for seed in range(20):
        made = released_within(frame, -10, 12, seed, by="group")
        model = PrivateRidge().from_release(made.group("t"), target="y")
        assert model.reference_levels_ == ("kind=a",)


@pytest.mark.parametrize("last", [np.float32(0.1), 2, "3", True, None])
def test_one_cell_of_a_list_never_changes_how_others_are_read(last):
    """numpy makes texts of all cells where a list holds one, and reads others of them."""
    cells = [np.float32(0.1), np.float32(0.3), last]
    table = table_of([[cell] for cell in cells], columns_of(cells))
    for name in ("x0", "y"):
        assert table[name].to_list()[:2] == [float(cell) for cell in cells[:2]]

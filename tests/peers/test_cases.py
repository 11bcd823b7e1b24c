"""What OpenDP, diffprivlib, SmartNoise and scikit-learn test of covariance, PCA and regression.

The cases are theirs, the code is ours; docs/peer-tests.md lists all of them.  "Nearly no noise" is
rho = 1000, where they ask for an infinite epsilon, which is no promise.
"""

import numpy as np
import pytest
from sklearn import covariance, datasets, decomposition, linear_model

import dpcov
from dpcov import Budget, Ledger, Numeric, Schema
from dpcov.analysis import (
    PrivateCorrelation,
    PrivateCovariance,
    PrivateLinearRegression,
    PrivatePCA,
    PrivateRidge,
)
from dpcov.errors import DataError, DpcovError

LOUD = Budget(rho=1000)
ONE_COLUMN = np.array(
    [0.5, 0.75, 1, 1.25, 1.5, 1.75, 1.75, 2, 2.25, 2.5, 2.75, 3, 3.25, 3.5, 4, 4.25, 4.5, 4.75, 5.5]
)[:, None]
IRIS = ((4.3, 7.9), (2.0, 4.4), (1.0, 6.9), (0.1, 2.5))


def unit_rows(n, d, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n, d))
    rows -= rows.mean(axis=0)
    return rows / np.linalg.norm(rows, axis=1).max()


def second_moment(rows, budget=LOUD, norm_bound=1.0, seed=0, **options):
    terms = {"norm_bound": norm_bound, "budget": budget, "entropy": dpcov.SeededEntropy(seed)}
    return dpcov.second_moment(rows, **terms, **options)


def moments_of(made):
    return made.second_moment() * made.n_rows


# --- diffprivlib, covariance_eig: eigenvalues and eigenvectors of the moments of rows in a ball


def test_eigenvectors_are_orthogonal_and_eigenvalues_not_negative():
    made = second_moment(unit_rows(50, 5), Budget(epsilon=1), mechanism="eigenvectors")
    values, vectors = np.linalg.eigh(made.second_moment())
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(5), atol=1e-12)
    assert (values >= -1e-12).all() and made.second_moment().shape == (5, 5)


@pytest.mark.parametrize("norm", [1.0, 2.0])
def test_with_nearly_no_noise_the_spectrum_is_that_of_the_rows(norm):
    rows = unit_rows(5000, 3) * norm
    values, vectors = np.linalg.eigh(moments_of(second_moment(rows, norm_bound=norm)))
    exact, directions = np.linalg.eigh(rows.T @ rows)
    np.testing.assert_allclose(values, exact, rtol=0.02)
    # Variances are close to each other, so directions are compared by what they span.
    assert np.abs(np.linalg.det(vectors.T @ directions)) == pytest.approx(1)
    left, _, right = np.linalg.svd(moments_of(second_moment(rows, norm_bound=norm)))
    np.testing.assert_allclose(np.abs((left * right.T).sum(axis=0)), 1.0, atol=1e-6)


def test_without_a_public_norm_nothing_is_released():
    with pytest.raises(DpcovError, match="norm_bound"):
        dpcov.second_moment(unit_rows(10, 3), budget=LOUD, norm_bound=0)


def test_rows_beyond_the_norm_bound_are_scaled_down_and_not_refused():
    """They raise an error, which tells that somebody is beyond the bound."""
    rows = unit_rows(5000, 3) * 2
    shorter = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    np.testing.assert_allclose(
        moments_of(second_moment(rows)), shorter.T @ shorter, rtol=0.05, atol=9
    )


@pytest.mark.parametrize(("wanted", "kept"), [(3, 3), (5, 5), (0.5, None)])
def test_as_many_components_are_given_as_are_asked_for(wanted, kept):
    pca = PrivatePCA(n_components=wanted, bounds=(-1, 1), budget=LOUD, seed=0).fit(
        unit_rows(500, 5)
    )
    assert kept in (None, len(pca.components_))
    assert pca.components_.shape[1] == 5 and len(pca.scree_) == 5


@pytest.mark.parametrize("wanted", [-5, 0, 10, "most"])
def test_impossible_numbers_of_components_are_refused_in_words(wanted):
    made = PrivateCovariance(bounds=(-1, 1), budget=LOUD, seed=0).fit(unit_rows(500, 5)).release_
    with pytest.raises(DpcovError):
        PrivatePCA.from_release(made, n_components=wanted)


# --- diffprivlib, PCA


def test_an_estimator_without_terms_refuses_rows_instead_of_reading_bounds_from_them():
    """They warn that the data leaks; here nothing is read."""
    with pytest.raises(DpcovError, match="budget"):
        PrivatePCA().fit(ONE_COLUMN)
    with pytest.raises(DpcovError, match=r"bounds|schema"):
        PrivatePCA(budget=LOUD, seed=0).fit(ONE_COLUMN)


def test_one_column_of_few_rows_has_one_component():
    pca = PrivatePCA(bounds=(0, 6), budget=Budget(epsilon=10), seed=0).fit(ONE_COLUMN)
    np.testing.assert_allclose(np.abs(pca.components_), 1.0)


def test_fit_transform_gives_the_scores_of_the_rows():
    rows = unit_rows(1000, 5)
    terms = {"bounds": (-1, 1), "budget": Budget(epsilon=5), "n_components": 2, "seed": 3}
    scores = PrivatePCA(**terms).fit_transform(rows)
    assert scores.shape == (1000, 2)
    np.testing.assert_array_equal(scores, PrivatePCA(**terms).fit(rows).transform(rows))


def test_with_nearly_no_noise_components_are_those_of_scikit_learn():
    rows = unit_rows(2500, 10)
    ours = PrivatePCA(bounds=(-1, 1), budget=LOUD, assume_centered=True, seed=0).fit(rows)
    theirs = decomposition.PCA(svd_solver="full").fit(rows)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=0.02)
    both = np.abs((ours.components_ * theirs.components_).sum(axis=1))
    assert (both > 0.95).all()


def test_releases_of_the_same_rows_differ_and_with_one_seed_agree():
    rows = datasets.load_iris().data
    terms = {"bounds": (0, 8), "budget": Budget(rho=100)}
    first, second = (PrivatePCA(**terms).fit(rows).scree_ for _ in range(2))
    assert not np.array_equal(first, second)
    first, second, third = (PrivatePCA(seed=seed, **terms).fit(rows).scree_ for seed in (0, 0, 1))
    assert np.array_equal(first, second) and not np.array_equal(first, third)


@pytest.mark.parametrize("estimator", [PrivatePCA, PrivateCovariance])
def test_the_accountant_counts_and_refuses_what_is_too_much(tmp_path, estimator):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.create("people", Budget(epsilon=8), "replace-one")
    terms = {
        "bounds": (-1, 1),
        "budget": Budget(epsilon=5),
        "ledger": ledger,
        "dataset": "people",
        "seed": 0,
    }
    rows = unit_rows(500, 4)
    estimator(**terms).fit(rows)
    assert ledger.remaining("people").remaining["epsilon"] == 3
    with pytest.raises(DpcovError, match=r"people|budget"):
        estimator(**terms).fit(rows)
    assert len(ledger.entries("people")) == 1


# --- diffprivlib, LinearRegression; OpenDP, Theil-Sen; SmartNoise, dp_linear_regression


def line(n=1000):
    x = np.linspace(-1, 1, n)
    return x[:, None], x.copy()


def test_a_line_through_zero_is_found_at_epsilon_two():
    X, y = line()
    terms = {"bounds": (-1, 1), "target_bounds": (-1, 1), "budget": Budget(epsilon=2)}
    model = PrivateLinearRegression(seed=0, **terms).fit(X, y)
    assert model.predict(np.array([[0.5]]))[0] == pytest.approx(0.5, abs=0.05)


def test_several_targets_have_the_shapes_of_scikit_learn():
    X, y = line()
    targets = np.column_stack([y, -y, y / 2, y])
    terms = {"bounds": (-1, 1), "target_bounds": (-1, 1), "budget": Budget(epsilon=8), "seed": 0}
    ours, theirs = (
        PrivateLinearRegression(**terms).fit(X, targets),
        linear_model.LinearRegression().fit(X, targets),
    )
    at = np.array([[0.5]])
    assert (
        ours.coef_.shape == theirs.coef_.shape and ours.intercept_.shape == theirs.intercept_.shape
    )
    assert ours.predict(at).shape == theirs.predict(at).shape
    with pytest.raises(ValueError):
        PrivateLinearRegression(**terms).fit(X, targets.T)


def test_targets_need_public_bounds_too():
    with pytest.raises(DpcovError, match="target"):
        PrivateLinearRegression(bounds=(0, 5), budget=LOUD, seed=0).fit(*line())


def test_with_nearly_no_noise_coefficients_are_those_of_scikit_learn():
    X, y = datasets.load_iris(return_X_y=True)
    X, y = np.vstack([X] * 200), np.hstack([y] * 200).astype(float)
    bounds = {f"x{place}": pair for place, pair in enumerate(IRIS)}
    terms = {"bounds": bounds, "target_bounds": (0, 2), "budget": Budget(rho=1000), "seed": 0}
    ours, theirs = (
        PrivateLinearRegression(**terms).fit(X, y),
        linear_model.LinearRegression().fit(X, y),
    )
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=0.02)
    np.testing.assert_allclose(ours.predict(X), np.clip(theirs.predict(X), 0, 2), atol=0.02)


def test_a_noisy_line_is_found_within_the_tolerances_of_opendp():
    rng = np.random.default_rng(5)
    x = np.clip(rng.normal(size=1000), -3, 3)
    y = np.clip(2 * x + 1 + rng.normal(scale=0.5, size=1000), -10, 10)
    terms = {"bounds": (-3, 3), "target_bounds": (-10, 10), "budget": Budget(epsilon=2)}
    model = PrivateLinearRegression(seed=1, **terms).fit(x[:, None], y)
    assert 1.5 < model.coef_[0] < 2.5 and 0.5 < model.intercept_ < 1.5


def test_weights_of_rows_stand_in_the_schema():
    """They warn that weights are ignored."""
    with pytest.raises(TypeError):
        PrivateLinearRegression(bounds=(-1, 1), budget=LOUD, seed=0).fit(
            *line(), sample_weight=np.ones(1000)
        )


# --- OpenDP, sscp and sensitivities


def test_moments_are_those_of_the_rows_up_to_the_noise():
    rows = np.round(unit_rows(1000, 4) * 2**18) / 2**18
    made = second_moment(rows, Budget(rho=1000), mechanism="gaussian")
    np.testing.assert_allclose(moments_of(made), rows.T @ rows, atol=0.2)


def test_the_promise_is_that_of_the_budget():
    made = second_moment(unit_rows(100, 4), Budget(epsilon=1))
    assert float(made.guarantee.promise.epsilon) == 1 and made.guarantee.rows_per_person == 1


def test_rows_that_are_not_numbers_are_refused():
    rows = unit_rows(100, 4)
    rows[3, 2] = np.nan
    with pytest.raises(DataError, match="NaN"):
        second_moment(rows)


# --- SmartNoise, dp_covariance: one pair, a matrix, a cross-covariance


def people(n=1000, seed=2):
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 90, n)
    sex, married = (rng.random((2, n)) < 0.5).astype(float)
    educ = rng.integers(1, 17, n).astype(float)
    income = np.clip(1000 * educ + 100 * age + rng.normal(scale=5000, size=n), 0, 500_000)
    return np.column_stack([age, sex, educ, income, married])


BOUNDS = {
    "age": (0, 100),
    "sex": (0, 1),
    "educ": (1, 16),
    "income": (0, 500_000),
    "married": (0, 1),
}


def released(budget):
    import pyarrow as pa

    columns = {name: Numeric(lower=low, upper=high) for name, (low, high) in BOUNDS.items()}
    table = pa.table(dict(zip(BOUNDS, people().T, strict=True)))
    entropy = dpcov.SeededEntropy(0)
    return dpcov.release(table, schema=Schema(columns=columns), budget=budget, entropy=entropy)


def test_a_covariance_matrix_of_unlike_units_is_released_at_once():
    made = released(Budget(rho=1000))
    exact = np.cov(people().T)
    scale = np.sqrt(np.diag(exact))
    ours = np.asarray(made.covariance()) / np.outer(scale, scale)
    np.testing.assert_allclose(ours, exact / np.outer(scale, scale), atol=0.05)


def test_one_pair_and_a_cross_covariance_are_parts_of_the_matrix():
    made = released(Budget(rho=1000))
    pair = PrivateCovariance.from_release(made, features=["age", "income"])
    whole = np.asarray(made.covariance())
    np.testing.assert_allclose(pair.covariance_[0, 1], whole[0, 3], rtol=1e-9)


def test_correlations_lie_between_minus_one_and_one_whatever_the_noise_is():
    for budget in (Budget(epsilon=10), Budget(epsilon="0.1")):
        found = PrivateCorrelation.from_release(released(budget)).correlation_
        assert np.abs(found).max() <= 1 + 1e-12
        np.testing.assert_allclose(np.diag(found), 1.0)


# --- scikit-learn


def test_a_fitted_covariance_has_the_methods_of_scikit_learn():
    rows = datasets.load_diabetes().data
    terms = {"bounds": (-0.2, 0.2), "budget": Budget(rho=1000), "seed": 0}
    ours, theirs = PrivateCovariance(**terms).fit(rows), covariance.EmpiricalCovariance().fit(rows)
    distance = ours.mahalanobis(rows)
    assert distance.min() > 0 and distance.shape == theirs.mahalanobis(rows).shape
    with pytest.raises(ValueError):
        ours.mahalanobis(rows[:, :2])
    assert ours.error_norm(ours.covariance_, "spectral") == 0.0
    one = PrivateCovariance(**terms).fit(rows[:, :1])
    np.testing.assert_allclose(one.covariance_, rows[:, 0].var(), rtol=0.01)


def test_one_row_and_an_empty_table_end_in_words_or_in_noise():
    terms = {"bounds": (0, 5), "budget": Budget(epsilon=1)}
    with pytest.raises((DpcovError, ValueError)):
        PrivateCovariance(**terms).fit(np.empty((0, 5)))
    with pytest.raises(DpcovError, match="hides the means"):
        PrivateCovariance(seed=1, **terms).fit(np.arange(5.0)[None])


def test_components_whiten_and_come_back():
    rows = unit_rows(3000, 6)
    pca = PrivatePCA(bounds=(-1, 1), budget=LOUD, seed=0).fit(rows)
    scores = pca.transform(rows)
    np.testing.assert_allclose(pca.inverse_transform(scores), rows, atol=1e-9)
    white = scores / np.sqrt(pca.explained_variance_)
    np.testing.assert_allclose(np.cov(white.T), np.eye(6), atol=0.1)


def test_explained_variances_are_shares_of_the_whole():
    digits = datasets.load_digits().data
    pca = PrivatePCA(bounds=(0, 16), budget=LOUD, seed=0, post="none").fit(digits)
    ratio = pca.explained_variance_ / pca.explained_variance_ratio_
    # What scaling rows down took is given back, with noise of a tenth in each of 64 columns.
    np.testing.assert_allclose(ratio, digits.var(axis=0).sum(), rtol=0.1)
    assert (np.diff(pca.explained_variance_) <= 1e-12).all()


def test_the_number_of_components_that_explain_a_share_is_the_smallest():
    pca = PrivatePCA(bounds=(0, 16), budget=LOUD, seed=0).fit(datasets.load_digits().data)
    some = PrivatePCA.from_release(pca.release_, n_components=0.95)
    shares = np.cumsum(pca.explained_variance_ratio_)
    assert len(some.components_) == np.searchsorted(shares, 0.95) + 1


def test_signs_are_the_same_for_every_reader():
    made = PrivateCovariance(bounds=(-1, 1), budget=LOUD, seed=0).fit(unit_rows(500, 5)).release_
    first, second = (PrivatePCA.from_release(made).components_ for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (first[np.arange(5), np.abs(first).argmax(axis=1)] > 0).all()


def test_names_of_components_and_frames():
    pytest.importorskip("pandas")
    pca = PrivatePCA(n_components=2, bounds=(-1, 1), budget=LOUD, seed=0).set_output(
        transform="pandas"
    )
    frame = pca.fit(unit_rows(500, 5)).transform(unit_rows(500, 5))
    assert list(frame.columns) == list(pca.get_feature_names_out())


def test_ridge_shrinks_to_zero_and_to_least_squares():
    X, y = datasets.load_diabetes(return_X_y=True)
    terms = {
        "bounds": (-0.2, 0.2),
        "target_bounds": (0, 400),
        "budget": Budget(rho=1000),
        "seed": 0,
    }
    made = PrivateRidge(alpha=1.0, **terms).fit(X, y).release_
    large, small = (
        PrivateRidge.from_release(made, target="y", alpha=alpha).coef_ for alpha in (1e9, 0.0)
    )
    exact = linear_model.LinearRegression().fit(X, y).coef_
    assert np.abs(large).max() < 1e-3 * np.abs(exact).max()
    np.testing.assert_allclose(small, exact, rtol=0.3, atol=60)


@pytest.mark.parametrize("alpha", [-1.0, float("nan"), "best"])
def test_an_impossible_penalty_is_refused_before_anything_is_spent(tmp_path, alpha):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.create("people", Budget(epsilon=8), "replace-one")
    terms = {"bounds": (-1, 1), "target_bounds": (-1, 1), "budget": Budget(epsilon=1), "seed": 0}
    with pytest.raises((DpcovError, ValueError)):
        PrivateRidge(alpha=alpha, ledger=ledger, dataset="people", **terms).fit(*line())
    assert ledger.entries("people") == ()


def test_single_and_double_precision_give_the_same_release():
    rows = unit_rows(300, 4).astype(np.float32)
    first, second = (second_moment(part, seed=4) for part in (rows, rows.astype(np.float64)))
    np.testing.assert_array_equal(first.second_moment(), second.second_moment())


def test_a_budget_that_is_no_promise_is_refused():
    for wrong in ({"epsilon": float("inf")}, {"epsilon": -1}, {"epsilon": 0}, {}):
        with pytest.raises(DpcovError):
            Budget(**wrong)

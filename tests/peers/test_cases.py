"""What OpenDP, diffprivlib, SmartNoise and scikit-learn test of covariance, PCA and regression.

The cases are theirs, the code is ours; README.md here lists all of them.  "Nearly no noise" is
rho = 1000, where they ask for an infinite epsilon, which is no promise.
"""

import numpy as np
import pytest
from sklearn import datasets, linear_model

import dpcov
from dpcov import Budget
from dpcov.analysis import PrivateCovariance, PrivateLinearRegression, PrivatePCA, PrivateRidge
from dpcov.errors import DpcovError

LOUD = Budget(rho=1000)
ONE_COLUMN = np.array(
    [0.5, 0.75, 1, 1.25, 1.5, 1.75, 1.75, 2, 2.25, 2.5, 2.75, 3, 3.25, 3.5, 4, 4.25, 4.5, 4.75, 5.5]
)[:, None]


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


def test_eigenvalues_are_not_negative():
    made = second_moment(unit_rows(50, 5), Budget(epsilon=1), mechanism="eigenvectors")
    assert (np.linalg.eigvalsh(made.second_moment()) >= -1e-12).all()


@pytest.mark.parametrize("norm", [1.0, 2.0])
def test_with_nearly_no_noise_the_spectrum_is_that_of_the_rows(norm):
    rows = unit_rows(5000, 3) * norm
    moments, exact = moments_of(second_moment(rows, norm_bound=norm)), rows.T @ rows
    np.testing.assert_allclose(np.linalg.eigvalsh(moments), np.linalg.eigvalsh(exact), rtol=0.02)
    np.testing.assert_allclose(moments, exact, atol=0.02 * np.trace(exact))


@pytest.mark.parametrize("wanted", [-5, 0, 10, "most"])
def test_impossible_numbers_of_components_are_refused_in_words(wanted):
    made = PrivateCovariance(bounds=(-1, 1), budget=LOUD, seed=0).fit(unit_rows(500, 5)).release_
    with pytest.raises(DpcovError):
        PrivatePCA.from_release(made, n_components=wanted)


# --- diffprivlib, PCA


def test_one_column_of_few_rows_has_one_component():
    pca = PrivatePCA(bounds=(0, 6), budget=Budget(epsilon=10), seed=0).fit(ONE_COLUMN)
    np.testing.assert_allclose(np.abs(pca.components_), 1.0)


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


# --- scikit-learn


def test_explained_variances_are_shares_of_the_whole():
    digits = datasets.load_digits().data
    pca = PrivatePCA(bounds=(0, 16), budget=LOUD, seed=0, post="none").fit(digits)
    ratio = pca.explained_variance_ / pca.explained_variance_ratio_
    # What scaling rows down took is given back, with noise of a tenth in each of 64 columns.
    np.testing.assert_allclose(ratio, digits.var(axis=0).sum(), rtol=0.1)
    assert (np.diff(pca.explained_variance_) <= 1e-12).all()


def test_signs_are_the_same_for_every_reader():
    made = PrivateCovariance(bounds=(-1, 1), budget=LOUD, seed=0).fit(unit_rows(500, 5)).release_
    first, second = (PrivatePCA.from_release(made).components_ for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (first[np.arange(5), np.abs(first).argmax(axis=1)] > 0).all()


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


def test_single_and_double_precision_give_the_same_release():
    rows = unit_rows(300, 4).astype(np.float32)
    first, second = (second_moment(part, seed=4) for part in (rows, rows.astype(np.float64)))
    np.testing.assert_array_equal(first.second_moment(), second.second_moment())

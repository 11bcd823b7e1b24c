"""Covariances, correlations, components and factors of a release against those of the rows."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.covariance import EmpiricalCovariance, graphical_lasso
from sklearn.decomposition import PCA, FactorAnalysis

import dpcov
from dpcov.analysis import (
    NoiseWarning,
    PrivateCorrelation,
    PrivateCovariance,
    PrivateFactorAnalysis,
    PrivateGraphicalLasso,
    PrivateLinearRegression,
    PrivatePCA,
)
from dpcov.analysis.estimators.components import _discrepancy, _uniqueness
from dpcov.analysis.estimators.sparse_inverse import sparse_inverse
from dpcov.analysis.problems import InputError
from dpcov.errors import DpcovError, NumericError
from dpcov.published.linalg.symmetric import correlation_of
from tests.published.mistakes import MISTAKES, released
from tests.releases import released as released_within
from tests.releases import released_of

NUMBERS = ["age", "income", "member"]


@pytest.fixture(scope="module")
def numbers(frame):
    return frame[NUMBERS].astype(float)


def test_covariance_mirrors_that_of_scikit_learn(made, numbers):
    ours = PrivateCovariance.from_release(made, features=NUMBERS)
    exact = EmpiricalCovariance().fit(numbers)
    np.testing.assert_allclose(ours.covariance_, exact.covariance_, atol=0.05)
    np.testing.assert_allclose(ours.location_, exact.location_, atol=0.01)
    np.testing.assert_allclose(ours.precision_, exact.precision_, atol=1e-3)
    np.testing.assert_allclose(
        ours.mahalanobis(numbers[:50]), exact.mahalanobis(numbers[:50]), atol=0.05
    )
    assert ours.score(numbers) == pytest.approx(exact.score(numbers), abs=1e-3)
    assert ours.error_norm(exact.covariance_) < 0.01
    assert ours.error_norm(ours.covariance_, "spectral") == 0.0
    with pytest.raises(ValueError, match="feature names"):
        ours.mahalanobis(numbers[:50].iloc[:, :2])
    one = PrivateCovariance.from_release(made, features=NUMBERS[:1])
    np.testing.assert_allclose(one.covariance_, ours.covariance_[:1, :1], rtol=0.01)


@pytest.mark.filterwarnings("error::dpcov.analysis.NoiseWarning")
def test_categories_that_sum_to_one_are_inverted_without_a_word(made, frame):
    ours = PrivateCovariance.from_release(made, features=["age", "sector"])
    assert np.all(np.isfinite(ours.precision_))
    numbers = np.column_stack([frame.age, pd.get_dummies(frame.sector).astype(float)])
    exact = np.linalg.pinv(np.cov(numbers, rowvar=False))
    assert ours.precision_[0, 0] == pytest.approx(exact[0, 0], rel=0.01)
    PrivateLinearRegression.from_release(made, target="age", features=["sector"])


def test_hidden_directions_are_pointed_out_and_means_stay_within_the_bounds(made, noisy, frame):
    with pytest.warns(NoiseWarning, match="2 of 7 directions"):
        # A constant and a collinear column.
        ours = PrivateCovariance.from_release(made, post="psd")
    assert ours.covariance_[5, 5] == pytest.approx(0.0, abs=0.01)
    assert np.all(np.isfinite(ours.mahalanobis(frame[:20]))) and np.isfinite(ours.score(frame))
    with pytest.warns(NoiseWarning):
        ours = PrivateCovariance.from_release(noisy)
    assert 20 <= ours.location_[0] <= 70
    assert np.all((ours.location_[2:5] >= 0) & (ours.location_[2:5] <= 1))
    # Hidden directions are given the variance of the noise, so that none is left out.
    half_ranges = np.array([25, 50, 1, 1, 1, 5, 0.5])
    values = np.linalg.eigvalsh(ours.precision_ * np.outer(half_ranges, half_ranges))
    assert values[0] > 0.1 * values[-1]


def test_a_release_without_an_intercept_gives_second_moments_only():
    rows = np.random.default_rng(0).uniform(size=(5000, 2))
    made = dpcov.second_moment(
        rows, norm_bound=2.0, budget=dpcov.Budget(rho=100), entropy=dpcov.SeededEntropy(0)
    )
    # Others than these have no such parameter.
    takers = "PrivatePCA and PrivateCovariance also take assume_centered"
    for kind in (PrivateCovariance, PrivateCorrelation):
        with pytest.raises(DpcovError, match=takers):
            kind.from_release(made)
    ours = PrivateCovariance.from_release(made, assume_centered=True)
    np.testing.assert_allclose(ours.covariance_, rows.T @ rows / 5000, atol=0.01)


def test_a_table_without_an_intercept_keeps_the_centers_of_its_bounds():
    """Nothing would tell of others: second moments could not be read in the columns' units."""
    rows = np.random.default_rng(0).normal([5.0, -3.0, 1.0], [2.0, 1.0, 0.5], size=(5000, 3))
    columns = {name: dpcov.Numeric(lower=-30, upper=30) for name in "abc"}
    frame = pd.DataFrame(rows, columns=list(columns))
    made = released_of(columns, frame, rho="0.5", missing="never", intercept=False)
    assert [column.center for column in made.manifest.columns] == [0.0] * 3
    assert max(column.half_range for column in made.manifest.columns) < 10
    ours = PrivateCovariance.from_release(made, assume_centered=True)
    np.testing.assert_allclose(ours.covariance_, rows.T @ rows / 5000, rtol=0.05)


@pytest.mark.parametrize("kind", [PrivateCovariance, PrivatePCA])
def test_intervals_are_of_what_is_around_the_means(made, kind):
    estimator = kind.from_release(made, features=NUMBERS, assume_centered=True)
    with pytest.raises(InputError, match="without assume_centered"):
        estimator.conf_int()


def test_correlations_and_partial_correlations_are_those_of_the_rows(made, numbers):
    ours = PrivateCorrelation.from_release(made, features=NUMBERS)
    np.testing.assert_allclose(ours.correlation_, np.corrcoef(numbers.T), atol=0.005)
    inverse = np.linalg.inv(np.cov(numbers.T))
    partial = -inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])
    assert ours.partial_correlation_[0, 1] == pytest.approx(partial, abs=0.01)
    for partially, matrix in ((True, ours.partial_correlation_), (False, ours.correlation_)):
        frame = ours.to_frame(partial=partially)
        assert [*frame.columns] == [*frame.index] == NUMBERS
        np.testing.assert_array_equal(frame, matrix)


def test_correlations_with_a_constant_column_are_never_outside_one(made, noisy):
    with pytest.warns(NoiseWarning):
        ours = [PrivateCorrelation.from_release(release) for release in (made, noisy)]
    for found in ours:
        assert np.abs([found.correlation_, found.partial_correlation_]).max() <= 1
        np.testing.assert_array_equal(np.diagonal(found.correlation_), 1.0)


def test_the_noise_of_correlations_does_not_depend_on_where_zero_is():
    rows, found = np.random.default_rng(3).uniform(size=(2000, 2)) ** 2, []
    for zero in (0.0, 10.0):
        terms = {"bounds": (zero, zero + 1), "mechanism": "gaussian", "seed": 1}
        model = PrivateCorrelation(budget=dpcov.Budget(rho=1), **terms).fit(rows + zero)
        found.append([model.noise_std_[0, 1], model.noise_edge_])
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_the_graphical_lasso_keeps_the_edge_that_is_there_and_no_other():
    rng = np.random.default_rng(3)
    rows = rng.uniform(-1, 1, size=(10_000, 3))
    rows[:, 1] = 0.7 * rows[:, 0] + 0.3 * rows[:, 1]
    terms = {"bounds": (-1, 1), "budget": dpcov.Budget(rho=10), "mechanism": "gaussian", "seed": 1}
    made = PrivateGraphicalLasso(alpha=0.05, **terms).fit(rows)
    stds, exact = rows.std(axis=0), graphical_lasso(np.corrcoef(rows.T), alpha=0.05)[1]
    np.testing.assert_allclose(made.precision_, exact / np.outer(stds, stds), rtol=0.02)
    assert made.precision_[0, 2] == made.precision_[1, 2] == 0.0
    assert made.partial_correlation_[0, 1] > 0.5
    assert 0 < PrivateGraphicalLasso.from_release(made.release_).alpha_ < 0.1
    for wrong in (-0.1, "none", np.nan):
        with pytest.raises(InputError, match="alpha"):
            PrivateGraphicalLasso(alpha=wrong, **terms).fit(rows)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ((np.eye(2),), r"a covariance of numbers, \(3, 3\)"),
        (([["a"]],), "a covariance of numbers"),
        ((3,), "2D array"),
        ((np.eye(3), "l1"), "norm must be one of"),
    ],
)
def test_what_is_no_covariance_has_no_distance(made, wrong, words):
    with pytest.raises(InputError, match=words):
        PrivateCovariance.from_release(made, features=NUMBERS).error_norm(*wrong)


def test_components_are_those_of_the_rows(made, numbers):
    scaled = PrivatePCA.from_release(made, features=NUMBERS, scaling="correlation")
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(numbers.T))[::-1]
    np.testing.assert_allclose(scaled.scree_, eigenvalues, atol=0.01)
    ours = PrivatePCA.from_release(made, features=NUMBERS)
    exact = PCA().fit(numbers)
    variances = ours.explained_variance_, exact.explained_variance_
    np.testing.assert_allclose(*variances, rtol=0.03, atol=0.01)
    np.testing.assert_allclose(ours.explained_variance_ratio_.sum(), 1.0)
    components = ours.components_[:2], exact.components_[:2]
    np.testing.assert_allclose(*map(np.abs, components), atol=0.01)
    scores = ours.transform(numbers)
    np.testing.assert_allclose(scores.mean(axis=0), 0.0, atol=0.05)
    np.testing.assert_allclose(ours.inverse_transform(scores), numbers, atol=1e-9)
    for wrong in (scores[:, :2], scores[0], 3, "a", [["a"]]):
        with pytest.raises(InputError, match=r"one of every component|2D array"):
            ours.inverse_transform(wrong)


@pytest.mark.parametrize("scaling", ["original", "encoded", "correlation"])
def test_whitened_scores_have_a_variance_of_one_and_lead_back(made, numbers, scaling):
    ours = PrivatePCA.from_release(made, features=NUMBERS, scaling=scaling, whiten=True)
    scores = ours.transform(numbers)
    np.testing.assert_allclose(np.cov(scores.T), np.eye(3), atol=0.03)
    np.testing.assert_allclose(ours.inverse_transform(scores), numbers, atol=1e-9)
    if scaling == "original":
        exact = PCA(whiten=True).fit_transform(numbers)
        np.testing.assert_allclose(np.abs(scores[:, :2]), np.abs(exact[:, :2]), atol=0.15)


def test_components_without_a_variance_are_not_whitened(noisy):
    plain = PrivatePCA.from_release(noisy, post="psd", scaling="encoded")
    assert plain.explained_variance_[-1] == 0
    with pytest.raises(InputError, match='n_components="noise" keeps 1'):
        PrivatePCA.from_release(noisy, post="psd", scaling="encoded", whiten=True)
    with pytest.warns(NoiseWarning):
        kept = PrivatePCA.from_release(noisy, n_components="noise", scaling="encoded", whiten=True)
    assert kept.n_components_ == 1


@pytest.mark.parametrize(("n_components", "kept"), [(2, 2), (0.5, 1), (None, 3), ("noise", None)])
def test_the_number_of_components_is_a_count_a_share_or_what_stands_out(made, n_components, kept):
    ours = PrivatePCA.from_release(made, features=NUMBERS, n_components=n_components)
    assert len(ours.components_) == (ours.n_above_noise_ if kept is None else kept)
    # The card counts them from one, and says which of them stand out.
    rows = re.findall(r"<tr>(.*?)</tr>", str(ours._findings()).partition("<tbody>")[2])
    cells = [[re.sub("<[^>]*>", "", cell) for cell in re.split("</t[hd]>", row)] for row in rows]
    assert [row[0] for row in cells] == [str(1 + k) for k in range(len(ours.components_))]
    assert sum("yes" in row for row in cells) == min(ours.n_above_noise_, len(cells))


@pytest.mark.parametrize(
    ("title", "said"), [("Pay & sex", "Pay &amp; sex"), ("", "untitled table")]
)
def test_the_card_of_an_estimator_names_the_table_it_read(title, said):
    release = released_within(np.arange(30.0).reshape(10, 3), 0, 30, rho=1000, title=title)
    assert f"“<bdi>{said}</bdi>”" in PrivateCovariance.from_release(release)._repr_html_()


def test_components_of_pure_noise_are_not_reported_as_found(noisy):
    with pytest.warns(NoiseWarning):
        ours = PrivatePCA.from_release(noisy, n_components=3, scaling="encoded")
    assert ours.n_above_noise_ == 0
    with pytest.warns(NoiseWarning, match="^0 of 1 component can be told") as warned:
        PrivatePCA.from_release(noisy, n_components="noise", scaling="encoded")
    assert 'scaling="correlation"' not in str(warned[0].message)
    # In the units of the columns the noise on the largest may hide all others.
    with pytest.warns(NoiseWarning, match='scaling="correlation"'):
        PrivatePCA.from_release(noisy, n_components=3)
    with pytest.warns(
        NoiseWarning, match=r"Only \d directions? can be told .* fewer than 3 factors"
    ):
        PrivateFactorAnalysis.from_release(noisy, n_components=3)


def test_the_scree_plot_marks_the_noise_edge_and_what_lies_below_it(noisy):
    pytest.importorskip("matplotlib")
    pca = PrivatePCA.from_release(noisy)
    axes = pca.plot_scree()
    axes.figure.canvas.draw()
    lines = {line.get_label(): line for line in axes.get_lines()}
    np.testing.assert_allclose(lines["noise edge"].get_ydata(), pca.noise_edge_)
    assert len(lines["above the noise"].get_ydata()) == pca.n_above_noise_
    assert lines["could be noise alone"].get_ydata().max() <= pca.noise_edge_


def test_factors_are_those_of_maximum_likelihood_on_the_rows():
    rng = np.random.default_rng(7)
    factors = rng.uniform(-1, 1, size=(5_000, 2))
    loadings = np.array([[0.5, 0.5, 0.4, 0.0, 0.0, 0.0], [0.0, 0.0, 0.1, 0.4, 0.4, 0.3]])
    rows = 0.1 + factors @ loadings + rng.uniform(-0.3, 0.3, size=(5_000, 6))
    terms = {"bounds": (-1, 1), "budget": dpcov.Budget(rho=1000), "mechanism": "gaussian"}
    ours = PrivateFactorAnalysis(n_components=2, seed=1, **terms).fit(rows)
    exact = FactorAnalysis(2, tol=1e-6, max_iter=1000).fit(rows)
    np.testing.assert_allclose(ours.get_covariance(), exact.get_covariance(), atol=2e-3)
    np.testing.assert_allclose(ours.noise_variance_, exact.noise_variance_, atol=2e-3)
    turned = np.linalg.lstsq(ours.transform(rows), exact.transform(rows), rcond=None)[0]
    np.testing.assert_allclose(ours.transform(rows) @ turned, exact.transform(rows), atol=0.05)
    # A column without variance says nothing about the factors, whatever it holds.
    ours.noise_variance_[2] = ours.components_[:, 2] = 0.0
    other = rows.copy()
    other[:, 2] = 0.9
    np.testing.assert_allclose(ours.transform(other), ours.transform(rows))


@pytest.mark.parametrize(("p", "most"), [(2, 0), (3, 1), (4, 1), (5, 2), (6, 3)])
def test_more_factors_than_correlations_tell_apart_are_refused(p, most):
    rows = np.random.default_rng(0).normal(size=(400, p))
    made = released_within(rows, -4, 4, rho=1)
    with pytest.raises(
        InputError,
        match=f"no more than {most} can" if most else "1 factor cannot be told.*three or more",
    ):
        PrivateFactorAnalysis.from_release(made, n_components=most + 1)
    with pytest.raises(InputError, match="n_components"):
        PrivateFactorAnalysis.from_release(made, n_components=0)


@pytest.mark.parametrize(
    ("rows_per_person", "missing", "factor"), [(4, 0.0, 2.0), (1, 0.5, 2.0), (2, 0.5, 8**0.5)]
)
def test_rows_that_count_less_make_the_penalty_of_a_graph_larger(rows_per_person, missing, factor):
    def penalty(rows_per_person, missing):
        rng = np.random.default_rng(0)
        rows = pd.DataFrame(rng.normal(size=(4_000, 4)), columns=list("abcd"))
        rows = rows.mask(rng.random(rows.shape) < missing)
        terms = {"rows_per_person": rows_per_person, "missing": "indicator", "rho": 1000}
        made = released_within(rows, -5, 5, **terms)
        return PrivateGraphicalLasso.from_release(made).alpha_

    assert penalty(rows_per_person, missing) / penalty(1, 0.0) == pytest.approx(factor, rel=0.1)


@pytest.mark.parametrize("seed", [0, 2, 8])
def test_factors_are_the_most_likely_of_several_maxima(seed):
    correlation = np.corrcoef(np.random.default_rng(seed).normal(size=(100, 15)).T)
    found = _discrepancy(np.log(_uniqueness(correlation, 4)), correlation, 4)[0]
    # One search from what the other features leave of each ends in a lower maximum.
    start = np.log((1 - 4 / 30) / np.diagonal(np.linalg.inv(correlation)))
    terms = {"args": (correlation, 4), "jac": True, "bounds": [(np.log(0.005), 0.0)] * 15}
    assert found < minimize(_discrepancy, start, **terms).fun - 0.01


@pytest.mark.filterwarnings("ignore::dpcov.analysis.NoiseWarning")
def test_factor_analysis_survives_noise_and_constants(made, noisy, frame):
    for release in (made, noisy):
        ours = PrivateFactorAnalysis.from_release(release, n_components=2)
        assert np.all(np.isfinite(ours.transform(frame[:20])))
        assert np.all(ours.noise_variance_ >= 0)


def test_a_hidden_column_is_named_once_where_it_is_used():
    made = released("hospital", 7, [MISTAKES[0]])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        PrivateCorrelation.from_release(made)
        PrivateCorrelation.from_release(made, features=["age", "weight"])
    (warning,) = [each for each in told if "hides the spread" in str(each.message)]
    assert "1 of 12 columns: height" in str(warning.message)


@pytest.mark.parametrize("seed", range(5))
def test_the_graphical_lasso_of_two_features_is_a_soft_threshold(seed):
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-0.5, 0.5, size=(2_000, 2)) @ [[1, 0.35], [0, 1]]
    release = released_within(rows, -1, 1, seed, rho=100)
    made = PrivateGraphicalLasso.from_release(release, alpha=0.025)
    r = PrivateCorrelation.from_release(release).correlation_[0, 1]
    # The off-diagonal entry of the covariance, and with it of its inverse.
    assert made.partial_correlation_[0, 1] == pytest.approx(r - 0.025, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 0.01, 0.1])
@pytest.mark.parametrize("unique", [0.3, 0.01, 1e-6])
def test_the_graphical_lasso_is_solved_whatever_the_penalty_and_the_factors(alpha, unique):
    """scikit-learn's failed, or stopped elsewhere, in half of these: its start is not allowed."""
    rng = np.random.default_rng(0)
    correlation = correlation_of(np.cov(rng.normal(size=(12, 3)) @ rng.normal(size=(3, 60))))
    correlation = (correlation + unique * np.eye(12)) / (1 + unique)
    covariance, precision = sparse_inverse(correlation, alpha)
    # What a correlation and the estimate differ by is the penalty, where there is an edge.
    moved, edges = covariance - correlation, (precision != 0) & ~np.eye(12, dtype=bool)
    assert np.abs(moved).max() <= alpha + 1e-12 and not moved.diagonal().any()
    np.testing.assert_allclose(moved[edges], alpha * np.sign(precision[edges]), atol=1e-6)
    np.testing.assert_allclose(covariance @ precision, np.eye(12), atol=2e-4)


def test_what_has_no_sparse_inverse_in_time_asks_for_a_larger_penalty(monkeypatch):
    with pytest.raises(NumericError, match=r"has no inverse\. Use a larger alpha"):
        sparse_inverse(np.ones((3, 3)), 0.0)
    monkeypatch.setattr("dpcov.analysis.estimators.sparse_inverse._STEPS", 5)
    with pytest.raises(NumericError, match=r"did not converge\. Use a larger alpha"):
        sparse_inverse(np.ones((3, 3)), 0.01)


def test_what_cannot_be_read_so_says_that_the_release_is_kept():
    # The noise hides the number of rows.
    terms = {"bounds": (-1, 1), "budget": dpcov.Budget(rho="1e-6"), "mechanism": "gaussian"}
    rows = np.random.default_rng(0).uniform(size=(500, 3))
    estimator = PrivateCovariance(neighbors="add-remove-one", seed=0, **terms)
    with (
        pytest.warns(NoiseWarning, match="hides the spread"),
        pytest.raises(DpcovError, match="hides the means") as refused,
    ):
        estimator.fit(rows)
    assert "PrivateCovariance.from_release(fitted.release_" in refused.value.__notes__[-1]
    assert estimator.release_.feature_names == ("x0", "x1", "x2")


def test_no_edge_is_found_between_questions_that_nobody_answers_both():
    rows, lower = np.random.default_rng(0).uniform(size=(3000, 2)), np.arange(3000) % 2 == 0
    rows[lower, 0] = rows[~lower, 1] = np.nan
    made = released_within(rows, 0, 1, rho=10, missing="indicator", geometry="schema")
    with pytest.warns(NoiseWarning, match="no edge can be found"):
        found = PrivateGraphicalLasso.from_release(made)
    assert found.alpha_ == 1.0
    assert found.partial_correlation_[0, 1] == 0.0


def test_pairs_carry_their_noise_and_levels_of_one_column_are_none():
    pairs = PrivateCorrelation.from_release(released("hospital", 7)).to_pairs()
    assert set(pairs.loc[0, ["first", "second"]]) == {"height", "weight"}
    assert not pairs.loc[0, "below_noise"]
    # Of independent columns some pairs are correlated in a sample.
    assert pairs["below_noise"].mean() > 0.8
    assert not pairs["first"].eq("sex=M").mul(pairs["second"].eq("sex=F")).any()
    assert (pairs["noise_std"] > 0).all()

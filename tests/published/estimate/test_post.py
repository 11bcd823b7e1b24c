from contextlib import nullcontext

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dpcov
from dpcov.errors import ReleaseError, UsageError
from dpcov.published.estimate.post import POSTS, Noisy, restricted
from dpcov.published.estimate.unit import (
    EntryNoise,
    Part,
    UnitEstimate,
    centered,
    unit_estimate,
    with_noise,
)
from tests.releases import released_of
from tests.statistical.goodness import assert_mean_square, mean_square_samples

HUGE = dpcov.Budget(rho=1000)
SPECTRAL = ("psd", "clip", "projection")


def post_process(matrix, post, bound):
    unit = UnitEstimate(matrix=matrix, n_rows=1.0)
    return POSTS[post].apply(Noisy(unit=unit, matrix=matrix, trace_bound=bound))


def symmetric(seed, d=5):
    matrix = np.random.default_rng(seed).normal(size=(d, d))
    return (matrix + matrix.T) / 2


@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.floats(0, 5))
@settings(max_examples=50, deadline=None)
def test_posts_keep_their_promises(seed, d, bound):
    matrix = symmetric(seed, d)
    assert (post_process(matrix, "none", bound) == matrix).all()
    for post in SPECTRAL:
        values = np.linalg.eigvalsh(post_process(matrix, post, bound))
        assert values.min() >= -1e-9
        assert post != "clip" or values.max() <= bound + 1e-9
        assert post != "projection" or values.sum() <= min(bound, max(0, np.trace(matrix))) + 1e-9


def test_strata_have_together_the_noise_that_the_matrix_is_said_to_have():
    rows = np.random.default_rng(0).normal(size=(4_000, 20))
    rows[:40] *= 100
    terms = {"budget": dpcov.Budget(rho="0.1"), "entropy": dpcov.SeededEntropy(0)}
    made = dpcov.second_moment(rows, norm_bound=1e3, mechanism="stratified", **terms)
    unit, firsts = made.unit, made.statistics.arrays["first_shell"].tolist()
    assert len(unit.parts) > 1 and max(firsts) > 0
    assert [part.largest_trace for part in unit.parts] == [4.0**-first for first in firsts]
    together = sum(part.diagonal_variance for part in unit.parts)
    assert (
        unit.noise.diagonal == pytest.approx(together) == pytest.approx(2 * unit.noise.off_diagonal)
    )
    np.testing.assert_allclose(sum(part.matrix for part in unit.parts), unit.matrix)


@pytest.mark.parametrize("has_parts", [True, False])
def test_made_up_noise_has_the_law_of_the_real_one(has_parts):
    parts = [Part(matrix=np.eye(40), diagonal_variance=v) for v in (0.5, 0.1)] * has_parts
    unit = UnitEstimate(
        matrix=2 * np.eye(40), n_rows=9.0, noise=EntryNoise(0.6, 0.3), parts=tuple(parts)
    )
    beside, twice = (with_noise(unit, step, 3).matrix - unit.matrix for step in (1.0, 2.0))
    np.testing.assert_allclose(twice, 2 * beside, atol=1e-12)
    many = np.array([with_noise(unit, 1.0, seed).matrix - unit.matrix for seed in range(20)])
    others = many[:, *np.triu_indices(40, 1)]
    assert np.mean(others**2) == pytest.approx(0.3, rel=0.05)
    assert np.mean(np.diagonal(many, axis1=1, axis2=2) ** 2) == pytest.approx(0.6, rel=0.2)
    # Parts have their own, which add up to that of all.
    apart = sum(part.matrix for part in with_noise(unit, 1.0, 3).parts)
    assert not has_parts or np.allclose(apart - unit.matrix, beside)


def test_the_trace_of_all_strata_is_known_while_no_feature_is_left_out():
    part = Part(matrix=np.diag([3.0, 2, 1]), diagonal_variance=0.1, trace=6.1, trace_variance=0.2)
    unit = UnitEstimate(matrix=part.matrix, n_rows=9.0, parts=(part,), joint_trace=19.0)
    every, nothing = np.arange(3), np.arange(0)
    assert restricted(unit, every, nothing).joint_trace == 19.0
    # What is left out has no rows.
    assert restricted(unit, every[:2], nothing).joint_trace == 19.0
    fewer = restricted(unit, every[:2], every[2:])
    assert fewer.joint_trace is None
    # The trace has its own noise and that of the entry that was taken off.
    assert fewer.parts[0].trace_variance < 0.2 + 0.1
    assert fewer.parts[0].trace == pytest.approx(5.1, abs=0.5)


def test_unknown_posts_are_refused():
    made = dpcov.second_moment(np.eye(3), norm_bound=1, budget=HUGE)
    for read in (made.second_moment, made.expected_error):
        with pytest.raises(UsageError, match="psd"):
            read("best")


def rows(n_rows, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(n_rows, 3)) @ np.array([[1.0, 0.4, 0], [0, 0.5, 0.2], [0, 0, 0.3]])


def drawn(repeats):
    """Exact moments, and statistics drawn from them."""
    exact = dpcov.moments(rows(400) * 0.2, norm_bound=1.0)
    # A small rho is quiet; the law of the noise is the same.
    terms = {"budget": dpcov.Budget(rho="0.05"), "mechanism": "gaussian"}
    seeds = map(dpcov.SeededEntropy, range(repeats))
    return exact, [dpcov.second_moment(exact, entropy=seed, **terms).statistics for seed in seeds]


def test_none_is_unbiased_and_its_error_is_the_predicted_one():
    """Size 1e-9; power 1 - 1e-6 against biases of noise std / 4 and scale errors of 15 percent."""
    repeats = mean_square_samples(scale_error=0.15) // 3 + 1
    exact, statistics = drawn(repeats)
    units = [unit_estimate(each, 400) for each in statistics]
    errors = np.array([unit.matrix for unit in units]) - exact.second_moment()
    unit, upper = units[0], np.triu_indices(3, 1)
    off_diagonal = errors[:, upper[0], upper[1]]
    assert_mean_square(off_diagonal.ravel(), unit.noise.off_diagonal)
    # The merged trace makes a diagonal entry's variance d / (d + 1) of the noise's, correlated.
    diagonal, variance = np.diagonal(errors, axis1=1, axis2=2), 2 * unit.noise.off_diagonal
    assert unit.noise.diagonal == pytest.approx(3 * variance / 4)
    assert_mean_square(diagonal.sum(axis=1), 3 * variance / 4, alpha=1e-9)
    for entry in (*diagonal.T, *off_diagonal.T):
        assert abs(entry.mean()) < 6.2 * entry.std() / repeats**0.5
    measured = np.sqrt((errors**2).sum(axis=(1, 2)).mean())
    predicted = POSTS["none"].squared_error(Noisy(unit=unit, matrix=unit.matrix))
    assert measured == pytest.approx(predicted**0.5, rel=0.1)
    # Variances: 3 v of the diagonal's sum, v of the trace, 3 v / 4 of both, a factor of 4.
    without = [np.trace(each.arrays["sscp"]) / (4.0**20 * 400) for each in statistics]
    assert diagonal.sum(axis=1).var() < np.var(without) / 2.5


def test_a_trace_is_rarely_above_its_bound_unless_rows_were_shortened():
    """In one of forty releases; a bound of twice the trace would say little."""
    exact, statistics = drawn(200)
    truth = np.trace(exact.second_moment())
    bounds = np.array([unit_estimate(each, 400).trace_bound for each in statistics])
    assert stats.binom.sf(np.sum(bounds < truth) - 1, 200, 1 / 40) > 1e-6
    assert np.median(bounds) < 2 * truth < 1
    shortened = msgspec.structs.replace(statistics[0], radius=0.5)
    assert unit_estimate(shortened, 400).trace_bound == 1.0


def patients(n_rows=100_000):
    random = np.random.default_rng(5)
    age = random.uniform(20, 90, n_rows)
    sex = random.choice(["F", "M", "X"], n_rows, p=[0.5, 0.3, 0.2])
    ill = random.uniform(size=n_rows) < age / 100
    weight = random.uniform(0.1, 2.0, n_rows)
    features = np.column_stack([age, sex == "F", sex == "M", ill])
    return pa.table({"age": age, "sex": sex, "ill": ill, "weight": weight}), features, weight


COLUMNS = {
    "age": dpcov.Numeric(lower=0, upper=120),
    "sex": dpcov.Categorical(categories=("F", "M")),
    "ill": dpcov.Boolean(),
    "weight": dpcov.Ignored(),
}
UNITS = np.array([60, 1, 1, 0.5])


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize("weighted", [False, True])
def test_original_units_at_a_huge_budget(neighbors, weighted):
    table, features, weight = patients()
    weights = dpcov.Weights(column="weight", upper=2.0) if weighted else None
    schema = dpcov.Schema(columns=COLUMNS, weights=weights)
    made = dpcov.release(table, schema=schema, budget=HUGE, neighbors=neighbors)
    weight, tolerance = (weight, 2e-3) if weighted else (None, 1e-3)
    mean = np.average(features, axis=0, weights=weight)
    covariance = np.cov(features.T, bias=True, aweights=weight)
    assert made.feature_names == ("age", "sex=F", "sex=M", "ill")
    np.testing.assert_allclose(made.mean() / UNITS, mean / UNITS, atol=tolerance)
    scale = np.outer(UNITS, UNITS)
    for post in ("none", *SPECTRAL):
        found = made.covariance_matrix(post) / scale
        np.testing.assert_allclose(found, covariance / scale, atol=tolerance)
    np.testing.assert_allclose(np.diagonal(made.correlation()), 1.0)
    if not weighted:
        exact = np.corrcoef(features[:, 0], features[:, 3])[0, 1]
        assert made.correlation_matrix()[0, 3] == pytest.approx(exact, abs=0.01)
        slack = 5 if neighbors == "add-remove-one" else 0
        assert made.n_rows == pytest.approx(len(features), abs=slack)


def test_a_plain_array_comes_back_in_its_units():
    X = rows(20_000)
    made = dpcov.second_moment(X, norm_bound=6.0, budget=HUGE)
    assert np.linalg.norm(X, axis=1).max() < 6
    np.testing.assert_allclose(made.second_moment(), X.T @ X / len(X), atol=0.002)
    with pytest.raises(ReleaseError, match="no intercept"):
        made.covariance()


def test_no_mean_without_more_rows_than_noise():
    terms = {"rho": "0.0001", "neighbors": "add-remove-one"}
    made = released_of({"age": COLUMNS["age"]}, pa.table({"age": [30.0, 40.0]}), 4, **terms)
    with pytest.raises(ReleaseError, match=r"(?i)more rows"):
        made.covariance()


@pytest.mark.parametrize("public", [None, 0.5])
@pytest.mark.parametrize(("deviations", "refused"), [(3.9, True), (4.1, False)])
def test_means_need_a_number_of_rows_of_four_standard_deviations(public, deviations, refused):
    law = EntryNoise((0.5 / deviations) ** 2, 0.0) if public is None else None
    unit = UnitEstimate(
        matrix=np.full((2, 2), 0.5), n_rows=9.0, noise=law, count_variance=deviations**-2
    )
    with pytest.raises(ReleaseError) if refused else nullcontext():
        assert centered(unit, public)[1] == 1


@pytest.mark.parametrize("law", [None, EntryNoise(1.0, 0.0)])
def test_a_matrix_is_thresholded_only_where_noise_off_the_diagonal_has_a_known_law(law):
    unit = UnitEstimate(matrix=np.eye(2), n_rows=1.0, noise=law, laplace_part=0.0)
    with pytest.raises(UsageError, match="thresholded"):
        POSTS["threshold"].apply(Noisy(unit=unit, matrix=np.eye(2)))

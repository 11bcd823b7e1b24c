import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpcov
from dpcov.errors import ReleaseError, UsageError
from dpcov.published.estimate.post import POSTS, Noisy
from dpcov.published.estimate.unit import UnitEstimate, centered
from tests.statistical.goodness import assert_mean_square, mean_square_samples

HUGE = dpcov.Budget(rho=1000)


def post_process(matrix, post, bound):
    unit = UnitEstimate(matrix=matrix, n_rows=1.0, noise_variance=None)
    return POSTS[post].apply(Noisy(unit=unit, matrix=matrix, trace_bound=bound))


def symmetric(seed, d=5):
    matrix = np.random.default_rng(seed).normal(size=(d, d))
    return (matrix + matrix.T) / 2


@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.floats(0, 5))
@settings(max_examples=50, deadline=None)
def test_posts_keep_their_promises(seed, d, bound):
    matrix = symmetric(seed, d)
    assert (post_process(matrix, "none", bound) == matrix).all()
    for post in ("psd", "clip", "projection"):
        values = np.linalg.eigvalsh(post_process(matrix, post, bound))
        assert values.min() >= -1e-9
        assert post != "clip" or values.max() <= bound + 1e-9
        assert post != "projection" or values.sum() <= min(bound, max(0, np.trace(matrix))) + 1e-9


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_posts_do_not_move_what_is_already_possible(seed):
    matrix = symmetric(seed)
    possible = matrix @ matrix / 50
    for post in ("none", "psd", "clip", "projection"):
        np.testing.assert_allclose(
            post_process(possible, post, np.trace(possible) * 1.01), possible, atol=1e-12
        )


def test_unknown_posts_are_refused():
    made = dpcov.second_moment(np.eye(3), norm_bound=1, budget=HUGE)
    with pytest.raises(UsageError, match="psd"):
        made.second_moment("best")


def rows(n_rows, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(n_rows, 3)) @ np.array([[1.0, 0.4, 0], [0, 0.5, 0.2], [0, 0, 0.3]])


def moments(spread=0.2, n_rows=400):
    return dpcov.moments(rows(n_rows) * spread, norm_bound=1.0)


def noise_of(neighbors, repeats):
    """Errors of the unprocessed estimate, one row per release."""
    exact = moments()
    truth = exact.second_moment()
    errors = []
    for seed in range(repeats):
        made = dpcov.second_moment(
            exact,
            budget=dpcov.Budget(rho=1),
            mechanism="gaussian",
            neighbors=neighbors,
            entropy=dpcov.SeededEntropy(seed),
        )
        errors.append(made.second_moment("none") - truth * (exact.n_rows / made.n_rows))
    return np.array(errors), made


def test_none_is_unbiased_and_its_error_is_the_predicted_one():
    """Size 1e-9; power 1 - 1e-6 against a bias of noise std / 4 and against a scale error of ten percent."""
    repeats = mean_square_samples() // 3 + 1
    errors, made = noise_of("replace-one", repeats)
    upper = np.triu_indices(3, 1)
    off_diagonal = errors[:, upper[0], upper[1]]
    assert_mean_square(off_diagonal.ravel(), made._unit.off_diagonal_variance)
    # The merged trace makes every diagonal entry's variance d / (d + 1) of the noise's; errors are correlated.
    diagonal, variance = np.diagonal(errors, axis1=1, axis2=2), 2 * made._unit.off_diagonal_variance
    assert made._unit.noise_variance == pytest.approx(3 * variance / 4)
    assert_mean_square(diagonal.sum(axis=1), 3 * variance / 4, alpha=1e-9)
    for entry in (*diagonal.T, *off_diagonal.T):
        assert abs(entry.mean()) < 6.2 * entry.std() / repeats**0.5
    measured = np.sqrt((errors**2).sum(axis=(1, 2)).mean())
    assert measured == pytest.approx(made.expected_error(), rel=0.1)


def test_the_merged_trace_is_better_than_either():
    """The sum of the diagonal has variance 3 v, the trace v, both together 3 v / 4: a factor 4 cannot be missed."""
    exact = moments()
    budget = dpcov.Budget(rho=1)
    with_trace, without = [], []
    for seed in range(300):
        made = dpcov.second_moment(
            exact, budget=budget, mechanism="gaussian", entropy=dpcov.SeededEntropy(seed)
        )
        unit = 4.0**20 * exact.n_rows
        without.append(np.trace(made.statistics.arrays["sscp"]) / unit)
        with_trace.append(np.trace(made.second_moment("none")))
    assert np.var(with_trace) < np.var(without) / 2.5


def exact_covariance(columns):
    """Covariance of the encoded features in their original units."""
    stacked = np.column_stack(columns)
    return stacked.mean(axis=0), np.cov(stacked.T, bias=True)


def patients(n_rows=100_000):
    random = np.random.default_rng(5)
    age = random.uniform(20, 90, n_rows)
    sex = random.choice(["F", "M", "X"], n_rows, p=[0.5, 0.3, 0.2])
    ill = random.uniform(size=n_rows) < age / 100
    weight = random.uniform(0.1, 2.0, n_rows)
    return pa.table({"age": age, "sex": sex, "ill": ill, "weight": weight}), (age, sex, ill, weight)


COLUMNS = {
    "age": dpcov.Numeric(lower=0, upper=120),
    "sex": dpcov.Categorical(categories=("F", "M")),
    "ill": dpcov.Boolean(),
    "weight": dpcov.Ignored(),
}


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_original_units_at_a_huge_budget(neighbors):
    table, (age, sex, ill, _) = patients()
    made = dpcov.release(
        table, schema=dpcov.Schema(columns=COLUMNS), budget=HUGE, neighbors=neighbors
    )
    mean, covariance = exact_covariance([age, sex == "F", sex == "M", ill])
    assert made.feature_names == ("age", "sex=F", "sex=M", "ill")
    units = np.array([60, 1, 1, 0.5])
    np.testing.assert_allclose(made.mean(), mean, atol=0.001 * units.max())
    scale = np.outer(units, units)
    for post in ("none", "psd", "clip", "projection"):
        np.testing.assert_allclose(made.covariance(post) / scale, covariance / scale, atol=0.001)
    np.testing.assert_allclose(np.diagonal(made.correlation()), 1.0)
    np.testing.assert_allclose(made.correlation()[0, 3], np.corrcoef(age, ill)[0, 1], atol=0.01)
    assert made.n_rows == pytest.approx(len(age), abs=5 if neighbors == "add-remove-one" else 0)


@pytest.mark.parametrize("policy", ["center", "indicator"])
def test_missing_values_at_a_huge_budget(policy):
    table, (age, *_) = patients()
    gone = np.random.default_rng(2).uniform(size=len(age)) < 0.25
    table = table.set_column(0, "age", pa.array(age, mask=gone))
    schema = dpcov.Schema(columns={"age": COLUMNS["age"]}, missing=policy)
    made = dpcov.release(table, schema=schema, budget=HUGE)
    filled = np.where(gone, 60.0, age)
    mean, covariance = exact_covariance([filled, gone])
    width = len(made.feature_names)
    assert width == (2 if policy == "indicator" else 1)
    np.testing.assert_allclose(made.mean(), mean[:width], atol=0.05)
    units = np.array([60.0, 1.0])[:width]
    np.testing.assert_allclose(
        made.covariance() / np.outer(units, units),
        (covariance / np.outer([60, 1], [60, 1]))[:width, :width],
        atol=1e-3,
    )


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_weights_at_a_huge_budget(neighbors):
    table, (age, sex, ill, weight) = patients()
    schema = dpcov.Schema(columns=COLUMNS, weights=dpcov.Weights(column="weight", upper=2.0))
    made = dpcov.release(table, schema=schema, budget=HUGE, neighbors=neighbors)
    features = np.column_stack([age, sex == "F", sex == "M", ill])
    units = np.array([60, 1, 1, 0.5])
    mean = np.average(features, axis=0, weights=weight)
    covariance = np.cov(features.T, bias=True, aweights=weight)
    np.testing.assert_allclose(made.mean() / units, mean / units, atol=2e-3)
    np.testing.assert_allclose(
        made.covariance() / np.outer(units, units), covariance / np.outer(units, units), atol=2e-3
    )


def test_a_norm_bound_that_no_row_exceeds_changes_nothing():
    random = np.random.default_rng(0)
    age = random.uniform(55, 65, 50_000)
    schema = dpcov.Schema(columns={"age": COLUMNS["age"]}, norm_bound=1.05)
    made = dpcov.release(pa.table({"age": age}), schema=schema, budget=HUGE)
    assert made.mean()[0] == pytest.approx(age.mean(), abs=0.1)
    assert made.covariance()[0, 0] == pytest.approx(age.var(), abs=3.0)
    assert not made.manifest.intercept_is_public


def test_a_plain_array_comes_back_in_its_units():
    X = rows(20_000)
    made = dpcov.second_moment(X, norm_bound=6.0, budget=HUGE)
    assert np.linalg.norm(X, axis=1).max() < 6
    np.testing.assert_allclose(made.second_moment(), X.T @ X / len(X), atol=0.002)
    with pytest.raises(ReleaseError, match="no intercept"):
        made.covariance()


def test_no_mean_without_more_rows_than_noise():
    schema = dpcov.Schema(columns={"age": COLUMNS["age"]})
    made = dpcov.release(
        pa.table({"age": [30.0, 40.0]}),
        schema=schema,
        budget=dpcov.Budget(rho="0.0001"),
        neighbors="add-remove-one",
        entropy=dpcov.SeededEntropy(4),
    )
    with pytest.raises(ReleaseError, match=r"(?i)more rows"):
        made.covariance()


def test_centering_is_the_definition():
    random = np.random.default_rng(1)
    features = random.normal(size=(100, 3))
    encoded = np.column_stack([np.ones(100), features]) / 2
    unit = UnitEstimate(matrix=encoded.T @ encoded / 100, n_rows=100.0, noise_variance=1e-12)
    for known in (None, 0.25):
        _, mean, covariance = centered(unit, known)
        np.testing.assert_allclose(mean, features.mean(axis=0))
        np.testing.assert_allclose(covariance, np.cov(features.T, bias=True))


def test_reading_twice_changes_nothing():
    made = dpcov.second_moment(moments(), budget=dpcov.Budget(rho="0.01"), mechanism="gaussian")
    before = made.to_bytes()
    for post in ("none", "psd", "clip", "projection"):
        assert post in POSTS
        np.testing.assert_array_equal(made.second_moment(post), made.second_moment(post))
    assert made.to_bytes() == before
    assert dataclasses.is_dataclass(made.statistics)

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.report.entry_noise import MomentNoise, correlation_noise, deviation_noise, mean_noise
from dpcov.report.numbers import part_numbers
from tests.statistical.goodness import GoodnessError, assert_mean_square, mean_square_samples

MEANS = np.array([0.5, -0.3, 0.1])
COVARIANCE = np.array([[0.3, 0.1, -0.05], [0.1, 0.2, 0.08], [-0.05, 0.08, 0.25]])
INTERCEPT = 0.4
STD = 2e-5


def noisy_estimates(count, intercept_is_noisy):
    """Means, standard deviations and correlations from second moments with isotropic noise."""
    rng = np.random.default_rng(0)
    moment = np.block(
        [[np.ones((1, 1)), MEANS[None, :]], [MEANS[:, None], COVARIANCE + np.outer(MEANS, MEANS)]]
    )
    noise = rng.normal(size=(count, 4, 4)) * STD
    noise = (noise + noise.transpose(0, 2, 1)) / 2  # variance STD**2 on the diagonal, half of it off
    noisy = INTERCEPT * moment + noise
    divisor = noisy[:, 0, 0] if intercept_is_noisy else np.full(count, INTERCEPT)
    means = noisy[:, 0, 1:] / divisor[:, None]
    covariance = noisy[:, 1:, 1:] / divisor[:, None, None] - means[:, :, None] * means[:, None, :]
    deviations = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    correlation = covariance / deviations[:, :, None] / deviations[:, None, :]
    return means - MEANS, deviations - np.sqrt(np.diagonal(COVARIANCE)), correlation - exact_correlation()


def exact_correlation():
    deviations = np.sqrt(np.diagonal(COVARIANCE))
    return COVARIANCE / np.outer(deviations, deviations)


def law(intercept_is_noisy, factor=1.0):
    return MomentNoise(
        diagonal=(factor * STD) ** 2,
        off_diagonal=(factor * STD) ** 2 / 2,
        intercept=INTERCEPT,
        intercept_is_noisy=intercept_is_noisy,
    )


@pytest.mark.parametrize("intercept_is_noisy", [False, True])
def test_the_closed_form_is_the_spread_of_noisy_estimates(intercept_is_noisy):
    means, deviations, correlation = noisy_estimates(mean_square_samples(), intercept_is_noisy)
    noise = law(intercept_is_noisy)
    for k in range(3):
        assert_mean_square(means[:, k], mean_noise(MEANS, noise)[k] ** 2)
        assert_mean_square(deviations[:, k], deviation_noise(MEANS, np.diagonal(COVARIANCE), noise)[k] ** 2)
    stated = correlation_noise(MEANS, COVARIANCE, noise)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert_mean_square(correlation[:, i, j], stated[i, j] ** 2)


def test_a_tenth_more_noise_or_a_forgotten_intercept_would_be_noticed():
    _, _, correlation = noisy_estimates(mean_square_samples(), True)
    for wrong in (law(True, 1.1), law(True, 0.9)):
        with pytest.raises(GoodnessError):
            assert_mean_square(correlation[:, 0, 1], correlation_noise(MEANS, COVARIANCE, wrong)[0, 1] ** 2)
    means, _, _ = noisy_estimates(mean_square_samples(), True)
    with pytest.raises(GoodnessError):
        assert_mean_square(means[:, 0], mean_noise(MEANS, law(False))[0] ** 2)


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_a_page_states_the_noise_of_repeated_releases_in_original_units(neighbors):
    rng = np.random.default_rng(0)
    table = pa.table({"a": rng.uniform(0, 30, size=1000), "b": rng.uniform(0, 30, size=1000)})
    columns = {"a": dpcov.Numeric(lower=-10, upper=30), "b": dpcov.Numeric(lower=0, upper=40)}
    schema = dpcov.Schema(columns=columns)
    count = mean_square_samples(scale_error=0.5)
    found = []
    for seed in range(count):
        made = dpcov.release(
            table,
            schema=schema,
            budget=dpcov.Budget(rho=10),
            mechanism="gaussian",
            neighbors=neighbors,
            entropy=dpcov.SeededEntropy(seed),
        )
        found.append((made.mean()[0], made.correlation("none")[0, 1]))
    means, correlations = np.array(found).T
    estimates = part_numbers(0, "all", made).estimates
    widened = np.sqrt(count / (count - 1))
    assert_mean_square((means - means.mean()) * widened, estimates.table.mean_noise[0] ** 2)
    stated = estimates.correlation_noise[0, 1]
    assert_mean_square((correlations - correlations.mean()) * widened, stated**2)


def test_the_diagonal_has_no_noise_and_vanished_variances_are_unknown():
    covariance = np.diag([1.0, 0.0])
    found = correlation_noise(np.zeros(2), covariance, law(False))
    assert found[0, 0] == 0.0
    assert np.isnan(found[1, 1])
    assert np.isnan(found[0, 1])
    assert np.isnan(deviation_noise(np.zeros(2), np.diagonal(covariance), law(False))[1])

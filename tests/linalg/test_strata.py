import numpy as np
import pytest

from dpcov.errors import UsageError
from dpcov.linalg.shrink import shrink
from dpcov.linalg.strata import shrink_strata
from dpcov.linalg.symmetric import smat


def noise(dimension, variance, generator):
    count = dimension * (dimension + 1) // 2
    return smat(np.sqrt(2.0 * variance) * generator.standard_normal(count))


def power_law(dimension):
    levels = 1.0 / np.arange(1.0, dimension + 1.0)
    return np.diag(levels / np.linalg.norm(levels))


def observe(truths, variances, seed):
    generator = np.random.default_rng(seed)
    noisy = [truth + noise(len(truth), v, generator) for truth, v in zip(truths, variances, strict=True)]
    traces = [
        np.trace(truth) + np.sqrt(2 * v) * generator.normal()
        for truth, v in zip(truths, variances, strict=True)
    ]
    return noisy, {
        "off_diagonal_variances": variances,
        "traces": traces,
        "trace_variances": 2.0 * np.asarray(variances),
    }


def test_a_single_stratum_is_shrunk_as_usual():
    noisy, law = observe([power_law(8)], [0.01], seed=0)
    result = shrink_strata(noisy, **law)
    alone = shrink(noisy[0], off_diagonal_variance=0.01, trace=law["traces"][0], trace_variance=0.02)
    np.testing.assert_allclose(result.matrix, alone.matrix)
    assert result.expected_squared_error == pytest.approx(alone.expected_squared_error)
    assert result.actions == ("shrunk",)


def test_faint_equal_strata_are_pooled():
    dimension, count = 40, 10
    truths = [power_law(dimension) / count] * count
    noisy, law = observe(truths, [1.0 / (dimension * (dimension + 1) * count)] * count, seed=1)
    result = shrink_strata(noisy, **law)
    assert result.actions == ("pooled",) * count
    error = np.sum((result.matrix - sum(truths)) ** 2)
    apart = sum(shrink(y, off_diagonal_variance=law["off_diagonal_variances"][0]).matrix for y in noisy)
    assert error < 0.6 * np.sum((apart - sum(truths)) ** 2)
    assert result.expected_squared_error == pytest.approx(error, rel=0.3)


def test_strata_of_which_most_are_empty_stay_apart():
    dimension = 40
    truths = [power_law(dimension) / 2] * 2 + [np.zeros((dimension, dimension))] * 8
    noisy, law = observe(truths, [0.1 / (dimension * (dimension + 1))] * 10, seed=2)
    result = shrink_strata(noisy, **law)
    assert "pooled" not in result.actions
    pooled = shrink(sum(noisy), off_diagonal_variance=sum(law["off_diagonal_variances"]))
    assert np.sum((result.matrix - sum(truths)) ** 2) < 0.8 * np.sum((pooled.matrix - sum(truths)) ** 2)


def test_norm_shells_are_never_drowned_by_the_outer_ones():
    dimension = 30
    variances = 16.0 / (dimension * (dimension + 1)) * 16.0 ** -np.arange(5.0)
    truths = [share * power_law(dimension) for share in (0.0, 0.05, 0.75, 0.15, 0.05)]
    noisy, law = observe(truths, variances, seed=3)
    result = shrink_strata(noisy, **law)
    assert "pooled" not in result.actions
    assert np.linalg.norm(result.matrix - sum(truths)) < 0.3


def test_the_order_of_strata_does_not_matter():
    truths = [power_law(6), 0.3 * power_law(6), 0.1 * power_law(6)]
    noisy, law = observe(truths, np.array([0.02, 0.001, 0.3]), seed=4)
    order = [2, 0, 1]
    turned = {name: np.asarray(values)[order] for name, values in law.items()}
    first, second = shrink_strata(noisy, **law), shrink_strata([noisy[i] for i in order], **turned)
    np.testing.assert_array_equal(first.matrix, second.matrix)
    assert second.actions == tuple(first.actions[i] for i in order)


def test_expected_error_counts_biases_and_noise_that_repeat():
    # Guided strata repeat the noise of their guide: adding their risks up understates the error.
    shape = power_law(5)
    truths, variances = [shape, 2.0 * shape, 3.0 * shape], [0.002, 0.05, 1.0]
    gaps, independent_gaps = [], []
    for seed in range(60):
        noisy, law = observe(truths, variances, seed)
        result = shrink_strata(noisy, **law)
        error = np.sum((result.matrix - sum(truths)) ** 2)
        gaps.append(result.expected_squared_error - error)
        independent_gaps.append(sum(group.expected_squared_error for group in result.groups) - error)
    spread = 6.11 * np.std(gaps) / np.sqrt(len(gaps))
    assert abs(np.mean(gaps)) < spread
    assert np.mean(independent_gaps) < np.mean(gaps)


def test_a_noisy_stratum_takes_its_directions_from_a_clear_one():
    shape = power_law(40)
    truths, variances = [shape, shape], [1e-5, 0.02]
    errors, errors_alone = [], []
    for seed in range(5):
        noisy, law = observe(truths, variances, seed)
        errors.append(np.linalg.norm(shrink_strata(noisy, **law).matrix - 2 * shape))
        alone = sum(shrink(y, off_diagonal_variance=v).matrix for y, v in zip(noisy, variances, strict=True))
        errors_alone.append(np.linalg.norm(alone - 2 * shape))
    assert np.mean(errors) < 0.5 * np.mean(errors_alone)


def test_a_guide_that_points_elsewhere_does_little_harm():
    other = power_law(40)[::-1, ::-1]
    truths, variances = [power_law(40), other], [1e-5, 1e-3]
    errors, errors_alone = [], []
    for seed in range(5):
        noisy, law = observe(truths, variances, seed)
        errors.append(np.linalg.norm(shrink_strata(noisy, **law).matrix - sum(truths)))
        alone = sum(shrink(y, off_diagonal_variance=v).matrix for y, v in zip(noisy, variances, strict=True))
        errors_alone.append(np.linalg.norm(alone - sum(truths)))
    assert np.mean(errors) < 1.1 * np.mean(errors_alone)


@pytest.mark.parametrize("dimension", [1, 3, 30])
def test_noise_far_above_a_clear_stratum_is_dropped(dimension):
    truth = power_law(dimension)
    variances = [1e-4 / dimension**2, 1.0, 1e4, 1e8]
    zero = np.zeros_like(truth)
    for seed in range(20):
        noisy, law = observe([truth, zero, zero, zero], variances, seed)
        result = shrink_strata(noisy, **law)
        assert result.actions[0] == "shrunk"
        assert np.linalg.norm(result.matrix - truth) < 0.5


@pytest.mark.parametrize("dimension", [1, 4, 40])
def test_noise_alone_is_estimated_as_zero(dimension):
    zero = np.zeros((dimension, dimension))
    for seed in range(30):
        noisy, law = observe([zero] * 3, [1.0, 16.0, 256.0], seed)
        assert not np.any(shrink_strata(noisy, **law).matrix)


def test_results_are_positive_semidefinite_and_repeat():
    noisy, law = observe([power_law(9), 0.5 * power_law(9)[::-1, ::-1]], [0.001, 0.05], seed=7)
    first, second = shrink_strata(noisy, **law), shrink_strata(noisy, **law)
    np.testing.assert_array_equal(first.matrix, second.matrix)
    assert np.linalg.eigvalsh(first.matrix).min() > -1e-12


def test_a_stratum_without_signal_is_reported_as_dropped():
    result = shrink_strata([np.eye(2), np.zeros((2, 2))], off_diagonal_variances=[0.0, 0.0])
    assert result.actions == ("shrunk", "dropped")
    np.testing.assert_array_equal(result.matrix, np.eye(2))


def test_strata_that_do_not_fit_together_raise():
    with pytest.raises(UsageError):
        shrink_strata([], off_diagonal_variances=[])
    with pytest.raises(UsageError):
        shrink_strata([np.eye(2), np.eye(3)], off_diagonal_variances=[1.0, 1.0])
    with pytest.raises(UsageError):
        shrink_strata([np.eye(2), np.eye(2)], off_diagonal_variances=[1.0])
    with pytest.raises(UsageError):
        shrink_strata([np.eye(2)], off_diagonal_variances=[1.0], traces=[1.0])

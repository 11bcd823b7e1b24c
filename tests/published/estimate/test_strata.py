import numpy as np
import pytest

from dpcov.errors import UsageError
from dpcov.published.estimate import strata
from dpcov.published.estimate.shrink import shrink
from dpcov.published.estimate.strata import shrink_strata
from dpcov.published.estimate.threshold import choose_threshold
from dpcov.published.linalg.symmetric import smat


def noise(dimension, variance, generator):
    count = dimension * (dimension + 1) // 2
    return smat(np.sqrt(2.0 * variance) * generator.standard_normal(count))


def power_law(dimension):
    levels = 1.0 / np.arange(1.0, dimension + 1.0)
    return np.diag(levels / np.linalg.norm(levels))


def observe(truths, variances, seed):
    generator = np.random.default_rng(seed)
    noisy = [
        truth + noise(len(truth), v, generator) for truth, v in zip(truths, variances, strict=True)
    ]
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
    noisy, law = observe([power_law(8)], [0.01], seed=1)
    result = shrink_strata(noisy, **law)
    alone = shrink(
        noisy[0], off_diagonal_variance=0.01, trace=law["traces"][0], trace_variance=0.02
    )
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
    apart = sum(
        shrink(y, off_diagonal_variance=law["off_diagonal_variances"][0]).matrix for y in noisy
    )
    assert error < 0.6 * np.sum((apart - sum(truths)) ** 2)
    # The noise has energy one; the estimate's standard deviation is 2/√(d(d + 1)) = 0.05, and choosing adds as much.
    assert result.expected_squared_error == pytest.approx(error, abs=0.2)


def test_strata_of_which_most_are_empty_stay_apart():
    dimension = 40
    truths = [power_law(dimension) / 2] * 2 + [np.zeros((dimension, dimension))] * 8
    noisy, law = observe(truths, [0.1 / (dimension * (dimension + 1))] * 10, seed=2)
    result = shrink_strata(noisy, **law)
    assert "pooled" not in result.actions
    pooled = shrink(sum(noisy), off_diagonal_variance=sum(law["off_diagonal_variances"]))
    assert np.sum((result.matrix - sum(truths)) ** 2) < 0.8 * np.sum(
        (pooled.matrix - sum(truths)) ** 2
    )


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
        independent_gaps.append(
            sum(group.expected_squared_error for group in result.groups) - error
        )
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
        alone = sum(
            shrink(y, off_diagonal_variance=v).matrix for y, v in zip(noisy, variances, strict=True)
        )
        errors_alone.append(np.linalg.norm(alone - 2 * shape))
    assert np.mean(errors) < 0.5 * np.mean(errors_alone)


def test_a_guide_that_points_elsewhere_does_little_harm():
    other = power_law(40)[::-1, ::-1]
    truths, variances = [power_law(40), other], [1e-5, 1e-3]
    errors, errors_alone = [], []
    for seed in range(5):
        noisy, law = observe(truths, variances, seed)
        errors.append(np.linalg.norm(shrink_strata(noisy, **law).matrix - sum(truths)))
        alone = sum(
            shrink(y, off_diagonal_variance=v).matrix for y, v in zip(noisy, variances, strict=True)
        )
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


def sparse_truth(dimension):
    generator = np.random.default_rng(0)
    shape = (dimension, dimension)
    upper = np.triu(generator.standard_normal(shape) * (generator.random(shape) < 0.1), 1)
    return upper + upper.T + 15.0 * np.eye(dimension)


def test_a_sparse_matrix_gains_on_shrinkage_and_on_thresholding():
    dimension, variance = 60, 0.1
    truth, errors = sparse_truth(dimension), {"combined": [], "shrunk": [], "thresholded": []}
    for seed in range(5):
        (noisy,), law = observe([truth], [variance], seed)
        trace, trace_variance = law["traces"][0], law["trace_variances"][0]
        alone = shrink(
            noisy, off_diagonal_variance=variance, trace=trace, trace_variance=trace_variance
        )
        for kind, matrix in (
            ("combined", shrink_strata([noisy], **law).matrix),
            ("shrunk", alone.matrix),
            ("thresholded", choose_threshold(noisy, off_diagonal_variance=variance).matrix),
        ):
            errors[kind].append(np.linalg.norm(matrix - truth, 2))
    means = {kind: np.mean(values) for kind, values in errors.items()}
    assert means["combined"] < 0.8 * means["shrunk"]
    assert means["combined"] < 1.0 * means["thresholded"]


BAND = (0.5, 2.0)
REGIMES = {
    # Dimension, noise of each stratum relative to the signal of the whole, and the share of the signal in each.
    "few features": (3, (0.05,), (1.0,)),
    "clear": (20, (0.02, 0.1), (0.5, 0.5)),
    "an outer stratum drowns the risk": (20, (0.02, 0.3), (0.5, 0.5)),
    "faint": (40, (0.3,), (1.0,)),
}


def calibration(dimension, noises, shares, expected, seeds=40):
    """Mean expected over mean actual squared error."""
    turned = np.linalg.qr(np.random.default_rng(9).normal(size=(dimension, dimension)))[0]
    shape = turned @ power_law(dimension) @ turned.T
    truths = [share * shape for share in shares]
    variances = [noise**2 / (dimension * (dimension + 1)) for noise in noises]
    found = []
    for seed in range(seeds):
        noisy, law = observe(truths, variances, seed)
        result = shrink_strata(noisy, **law)
        found.append((expected(result), np.sum((result.matrix - shape) ** 2)))
    return np.divide(*np.mean(found, axis=0))


@pytest.mark.parametrize("regime", REGIMES)
def test_the_expected_error_is_within_its_band_on_average(regime):
    ratio = calibration(*REGIMES[regime], lambda result: result.expected_squared_error)
    assert BAND[0] < ratio < BAND[1]


def test_an_expected_error_that_ignores_the_outer_stratum_would_be_noticed():
    def ignoring(result):
        clearest = min(result.groups, key=lambda group: group.members)
        return clearest.expected_squared_error

    assert calibration(*REGIMES["clear"], ignoring) < BAND[0]


def test_the_expected_error_is_not_hidden_by_the_noise_of_an_outer_stratum(monkeypatch):
    shape = power_law(20)

    def expected():
        releases = (observe([shape, 0.2 * shape], [1e-4, 0.003], seed) for seed in range(20))
        return [shrink_strata(noisy, **law).expected_squared_error for noisy, law in releases]

    steady = expected()
    monkeypatch.setattr(strata, "SUPPOSED_ERROR", 1e9)  # Stein's estimate as it is
    monkeypatch.setattr(strata, "LEAST_ERROR", -np.inf)
    unbiased = expected()
    assert np.std(steady) < 0.5 * np.std(unbiased)
    assert min(unbiased) < 0 < np.mean(steady)
    assert min(steady) > 0.2 * min(unbiased)

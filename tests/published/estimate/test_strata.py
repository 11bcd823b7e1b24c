import numpy as np
import pytest

from dpcov.errors import NumericError, UsageError
from dpcov.published.estimate import strata
from dpcov.published.estimate.strata import FEW_FEATURES, estimated_strata, shrink_strata
from dpcov.published.estimate.threshold import choose_threshold
from dpcov.published.estimate.unit import Part
from tests.published.estimate.noises import noise, shrunk


def power_law(dimension):
    levels = 1.0 / np.arange(1.0, dimension + 1.0)
    return np.diag(levels / np.linalg.norm(levels))


def observe(truths, variances, seed):
    generator, seen = np.random.default_rng(seed), list(zip(truths, variances, strict=True))
    noisy = [truth + noise(len(truth), v, generator) for truth, v in seen]
    traces = [np.trace(truth) + np.sqrt(2 * v) * generator.normal() for truth, v in seen]
    return [
        Part(matrix=y, diagonal_variance=2 * v, trace=t, trace_variance=2 * v)
        for y, v, t in zip(noisy, variances, traces, strict=True)
    ]


def apart(parts):
    """What shrinkage of every part alone adds up to."""
    return sum(shrunk(part.matrix, part.diagonal_variance / 2).matrix for part in parts)


def kept(parts):
    """Noise variances of the strata that were estimated, alone or pooled."""
    return [each.stratum.variance for each in estimated_strata(parts)]


def squared_error(estimate, truths):
    return np.sum((estimate - sum(truths)) ** 2)


def test_faint_equal_strata_are_pooled():
    d, count = 40, 10
    truths = [power_law(d) / count] * count
    parts = observe(truths, [1.0 / (d * (d + 1) * count)] * count, seed=1)
    result = shrink_strata(parts)
    assert len(kept(parts)) == 1
    error = squared_error(result.matrix, truths)
    assert error < 0.6 * squared_error(apart(parts), truths)
    # Noise energy is one, the estimate's deviation 2/√(d(d + 1)) = 0.05; choosing adds as much.
    assert result.risk == pytest.approx(error, abs=0.2)


def test_the_order_of_strata_does_not_matter():
    truths = [power_law(6), 0.3 * power_law(6), 0.1 * power_law(6)]
    parts, order = observe(truths, [0.02, 0.001, 0.3], seed=4), [2, 0, 1]
    first, second = shrink_strata(parts), shrink_strata([parts[i] for i in order])
    np.testing.assert_array_equal(first.matrix, second.matrix)
    assert np.linalg.eigvalsh(first.matrix).min() > -1e-12


def test_expected_error_counts_biases_and_noise_that_repeat():
    # Guided strata repeat the noise of their guide: adding their risks up understates the error.
    truths = [share * power_law(5) for share in (1.0, 2.0, 3.0)]
    gaps, independent_gaps = [], []
    for seed in range(60):
        parts = observe(truths, [0.002, 0.05, 1.0], seed)
        result = shrink_strata(parts)
        error = squared_error(result.matrix, truths)
        gaps.append(result.risk - error)
        independent_gaps.append(sum(x.estimate.risk for x in estimated_strata(parts)) - error)
    assert abs(np.mean(gaps)) < 6.11 * np.std(gaps) / np.sqrt(len(gaps))
    assert np.mean(independent_gaps) < np.mean(gaps)


@pytest.mark.parametrize(
    ("outer", "variance", "limit"),
    [(power_law(40), 0.02, 0.5), (power_law(40)[::-1, ::-1], 1e-3, 1.1)],
    ids=["directions are shared", "a guide that points elsewhere does little harm"],
)
def test_a_noisy_stratum_takes_its_directions_from_a_clear_one(outer, variance, limit):
    truths, errors, errors_alone = [power_law(40), outer], [], []
    for seed in range(5):
        parts = observe(truths, [1e-5, variance], seed)
        errors.append(np.linalg.norm(shrink_strata(parts).matrix - sum(truths)))
        errors_alone.append(np.linalg.norm(apart(parts) - sum(truths)))
    assert np.mean(errors) < limit * np.mean(errors_alone)


def test_the_risk_falls_by_the_square_of_what_projecting_takes():
    found = strata._positive(strata.Estimate(np.diag([2.0, -0.5]), 1.0, 0.3))
    np.testing.assert_allclose(found.matrix, np.diag([2.0, 0.0]), atol=1e-12)
    assert (found.risk, found.guide_share) == (pytest.approx(1 - 0.5**2), 0.3)


@pytest.mark.parametrize("dimension", [1, 3, 30])
def test_noise_far_above_a_clear_stratum_is_dropped(dimension):
    truth, zero = power_law(dimension), np.zeros((dimension, dimension))
    for seed in range(20):
        parts = observe([truth, zero, zero, zero], [1e-4 / dimension**2, 1.0, 1e4, 1e8], seed)
        result = shrink_strata(parts)
        assert kept(parts)[0] == 1e-4 / dimension**2
        assert np.linalg.norm(result.matrix - truth) < 0.5


@pytest.mark.parametrize("dimension", [FEW_FEATURES + 1, 40])
def test_noise_alone_is_estimated_as_zero(dimension):
    zero = np.zeros((dimension, dimension))
    for seed in range(30):
        assert not np.any(shrink_strata(observe([zero] * 3, [1.0, 16.0, 256.0], seed)).matrix)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_raise(bad):
    with pytest.raises(UsageError, match="finite"):
        shrink_strata([Part(matrix=np.eye(2), diagonal_variance=bad)])
    with pytest.raises(NumericError):
        shrink_strata([Part(matrix=bad * np.ones((2, 2)), diagonal_variance=1.0)])


def test_a_sparse_matrix_gains_on_shrinkage_and_on_thresholding():
    generator, d, variance = np.random.default_rng(0), 60, 0.1
    upper = np.triu(generator.standard_normal((d, d)) * (generator.random((d, d)) < 0.1), 1)
    truth, errors = upper + upper.T + 15.0 * np.eye(d), []
    for seed in range(5):
        (part,) = observe([truth], [variance], seed)
        made = (
            shrink_strata([part]),
            shrunk(part.matrix, variance, part.trace, part.trace_variance),
            choose_threshold(part.matrix, off_diagonal_variance=variance),
        )
        errors.append([np.linalg.norm(each.matrix - truth, 2) for each in made])
    combined, alone, thresholded = np.mean(errors, axis=0)
    assert combined < 0.8 * alone
    assert combined < 1.0 * thresholded


BAND = (0.5, 2.0)
REGIMES = {
    # Dimension, noise of each stratum relative to the signal of the whole, its share of the signal.
    "few features": (3, (0.05,), (1.0,)),
    "clear": (20, (0.02, 0.1), (0.5, 0.5)),
    "an outer stratum drowns the risk": (20, (0.02, 0.3), (0.5, 0.5)),
    "faint": (40, (0.3,), (1.0,)),
}


def calibration(dimension, noises, shares, expected, seeds=40):
    """Mean expected over mean actual squared error."""
    turned = np.linalg.qr(np.random.default_rng(9).normal(size=(dimension, dimension)))[0]
    shape = turned @ power_law(dimension) @ turned.T
    variances = [size**2 / (dimension * (dimension + 1)) for size in noises]
    found = []
    for seed in range(seeds):
        parts = observe([share * shape for share in shares], variances, seed)
        error = squared_error(shrink_strata(parts).matrix, [shape])
        found.append((expected(parts), error))
    return np.divide(*np.mean(found, axis=0))


@pytest.mark.parametrize("regime", REGIMES)
def test_the_expected_error_is_within_its_band_on_average(regime):
    ratio = calibration(*REGIMES[regime], lambda parts: shrink_strata(parts).risk)
    # Of forty runs with other seeds the ratio was 1.8 with a deviation of 0.26 in the worst regime.
    assert BAND[0] < ratio < BAND[1] * (1.5 if regime.startswith("an outer") else 1.0)


@pytest.mark.parametrize("times", [0.95, 1.05])
@pytest.mark.parametrize(("ratio", "needed"), [(None, 4.5), (0, 7.5), (0.1, 3.69), (0.01, 4.267)])
def test_a_stratum_is_kept_by_evidence_that_grows_with_its_noise(ratio, needed, times):
    """√(9 + 2 log r) deviations of its trace beside one whose noise is a part 1/r of its own."""
    d, std = 12, np.sqrt(2)
    trace = {"trace": times * needed * std, "trace_variance": std**2}
    # Of its own matrix, which shows nothing, the trace is not known.
    noisy = Part(matrix=np.zeros((d, d)), diagonal_variance=1e12, **trace)
    clear = 1e9 * np.eye(d) if ratio else np.eye(d)
    others = [] if ratio is None else [Part(matrix=clear, diagonal_variance=1e12 * ratio**2)]
    assert (len(kept([noisy, *others])) > len(others)) == (times > 1)


def test_an_expected_error_that_ignores_the_outer_stratum_would_be_noticed():
    def ignoring(parts):
        return estimated_strata(parts)[0].estimate.risk

    assert calibration(*REGIMES["clear"], ignoring) < BAND[0]


def test_the_expected_error_is_not_hidden_by_the_noise_of_an_outer_stratum(monkeypatch):
    shape = power_law(20)

    def expected():
        releases = (observe([shape, 0.2 * shape], [1e-4, 0.003], seed) for seed in range(20))
        return [shrink_strata(parts).risk for parts in releases]

    steady = expected()
    monkeypatch.setattr(strata, "SUPPOSED_ERROR", 1e9)  # Stein's estimate, but for its least
    limited = expected()
    monkeypatch.setattr(strata, "LEAST_ERROR", -np.inf)
    unbiased = expected()
    assert np.std(steady) < 0.9 * np.std(limited) < 0.75 * np.std(unbiased)
    assert min(unbiased) < 0 < min(steady)

import numpy as np
import pytest

import dpcov
from dpcov.report.numbers import part_numbers
from tests.statistical.goodness import assert_mean_square, mean_square_samples

NAMES = ("a", "b", "c")


def drawn(neighbors, count):
    """Correlations, means and standard deviations of releases of one table, unshrunk, with the stated noise."""
    rng = np.random.default_rng(0)
    rows = np.clip(
        rng.normal(size=(20_000, 3)) @ np.array([[0.3, 0.2, 0], [0, 0.2, 0.1], [0, 0, 0.3]]) + 0.3, -1, 1
    )
    schema = dpcov.Schema(columns={name: dpcov.Numeric(lower=-1, upper=1) for name in NAMES})
    found = []
    for seed in range(count):
        made = dpcov.release(
            rows_named(rows),
            schema=schema,
            budget=dpcov.Budget(rho="0.1"),
            mechanism="gaussian",
            neighbors=neighbors,
            entropy=dpcov.SeededEntropy(seed),
        )
        covariance = made.covariance("none")
        found.append((made.correlation("none")[0], made.mean(), np.sqrt(np.diagonal(covariance))))
    return made, [np.array(values) for values in zip(*found, strict=True)]


def rows_named(rows):
    import pyarrow as pa

    return pa.table({name: rows[:, place] for place, name in enumerate(NAMES)})


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_stated_noise_is_the_noise_of_repeated_releases(neighbors):
    count = mean_square_samples(scale_error=0.25)
    made, (correlations, means, deviations) = drawn(neighbors, count)
    estimates = part_numbers(0, "all", made).estimates
    stated = (
        (correlations[:, 1], estimates.correlation_noise[0, 1]),
        (correlations[:, 2], estimates.correlation_noise[0, 2]),
        (means[:, 0], estimates.table.mean_noise[0]),
        (deviations[:, 1], estimates.table.deviation_noise[1]),
    )
    for values, std in stated:
        # A quarter of slack covers the plug-in of one release's estimates and the merged trace.
        spread = (values - values.mean()) * np.sqrt(count / (count - 1))
        within = [widened for widened in (0.9, 1.0, 1.1) if _fits(spread, widened * std)]
        assert within, (np.std(values), std)


def _fits(values, std):
    try:
        assert_mean_square(values, float(std) ** 2)
    except AssertionError:
        return False
    return True


def test_half_the_noise_would_be_noticed():
    made, (correlations, _, _) = drawn("replace-one", mean_square_samples(scale_error=0.25))
    std = part_numbers(0, "all", made).estimates.correlation_noise[0, 1]
    spread = correlations[:, 1] - correlations[:, 1].mean()
    assert not any(_fits(spread, factor * std / 2) for factor in (0.9, 1.0, 1.1))


def test_the_diagonal_has_no_noise_and_vanished_variances_are_unknown():
    from dpcov.report.entry_noise import MomentNoise, correlation_noise, deviation_noise

    noise = MomentNoise(diagonal=1e-4, off_diagonal=5e-5)
    covariance = np.diag([1.0, 0.0])
    found = correlation_noise(np.zeros(2), covariance, noise)
    assert found[0, 0] == 0.0
    assert np.isnan(found[1, 1])
    assert np.isnan(found[0, 1])
    assert np.isnan(deviation_noise(np.zeros(2), np.diagonal(covariance), noise)[1])

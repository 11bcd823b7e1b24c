"""The statistical assertions accept right laws and reject wrong ones, as declared."""

from functools import partial

import numpy as np
import pytest
from scipy import stats

from tests.statistical.goodness import (
    GoodnessError,
    assert_continuous_law,
    assert_discrete_law,
    assert_mean_square,
    assert_same_law,
    assert_tail,
    continuous_law_samples,
    discrete_law_samples,
    mean_square_samples,
    tail_samples,
)

STD = 5.0


def rounded_cdf(x, scale=1.0):
    return stats.norm.cdf(x + 0.5, scale=STD * scale)


def rounded(size, *, scale=1.0, seed=0):
    return np.rint(np.random.default_rng(seed).normal(0.0, STD * scale, size)).astype(np.int64)


def discrete_size():
    return discrete_law_samples(
        rounded_cdf, [partial(rounded_cdf, scale=scale) for scale in (0.9, 1.1)]
    )


@pytest.mark.parametrize("seed", range(5))
def test_good_samples_pass_everywhere(seed):
    samples = rounded(discrete_size(), seed=seed)
    assert_discrete_law(samples, rounded_cdf)
    assert_same_law(samples, rounded(discrete_size(), seed=seed + 100))
    assert_tail(samples, 9.5, 2 * stats.norm.sf(9.5 / STD))
    drawn = normals(continuous_law_samples(stats.norm.cdf, np.linspace(-4, 4, 999)), seed=seed)
    assert_continuous_law(drawn, stats.norm.cdf)
    assert_mean_square(drawn, 1.0)


def normals(size, scale=1.0, seed=0):
    return np.random.default_rng(seed).normal(0.0, scale, size)


@pytest.mark.parametrize("scale", [0.5, 0.9, 1.1])
@pytest.mark.parametrize("seed", range(3))
def test_a_wrong_scale_is_rejected_everywhere(scale, seed):
    with pytest.raises(GoodnessError):
        assert_discrete_law(rounded(discrete_size(), scale=scale, seed=seed), rounded_cdf)
    with pytest.raises(GoodnessError):
        assert_mean_square(normals(mean_square_samples(), scale, seed), 1.0)
    size = continuous_law_samples(stats.norm.cdf, np.linspace(-4, 4, 999))
    with pytest.raises(GoodnessError):
        assert_continuous_law(normals(size, scale, seed), stats.norm.cdf)
    claimed = 2 * stats.norm.sf(2.0)
    size = tail_samples(claimed, (2 * stats.norm.sf(2.0 / 0.9), 2 * stats.norm.sf(2.0 / 1.1)))
    with pytest.raises(GoodnessError):
        assert_tail(normals(size, scale, seed), 2.0, claimed)


@pytest.mark.parametrize("scale", [0.5, 0.9, 1.1])
def test_wrong_scale_of_heavy_tails_is_rejected_by_the_mean_square(scale):
    size = mean_square_samples(kurtosis=6.0)
    assert_mean_square(np.random.default_rng(1).laplace(size=size), 2.0, kurtosis=6.0)
    with pytest.raises(GoodnessError):
        assert_mean_square(np.random.default_rng(1).laplace(0.0, scale, size), 2.0, kurtosis=6.0)


def test_lattice_shifted_by_one_is_rejected():
    samples = rounded(4 * discrete_size())
    with pytest.raises(GoodnessError):
        assert_discrete_law(samples + 1, rounded_cdf)
    with pytest.raises(GoodnessError):
        assert_same_law(samples + 1, rounded(samples.size, seed=9))


def test_lattice_of_even_numbers_only_is_rejected():
    with pytest.raises(GoodnessError):
        assert_discrete_law(rounded(discrete_size()) // 2 * 2, rounded_cdf)


def test_truncated_tail_is_rejected():
    claimed = 2 * stats.norm.sf(3.0)
    samples = np.random.default_rng(4).normal(size=tail_samples(claimed, (0.0,)))
    with pytest.raises(GoodnessError):
        assert_tail(samples[np.abs(samples) <= 3.0], 3.0, claimed)


def test_size_of_the_tests_at_a_large_alpha():
    # At alpha = 0.05, more than 40 rejections among 400 good samples have probability 2e-5.
    alpha, rejections = 0.05, np.zeros(4)
    for seed in range(400):
        samples, drawn = rounded(5000, seed=seed), normals(500, seed=seed)
        checks = [
            partial(assert_discrete_law, samples, rounded_cdf),
            partial(assert_mean_square, drawn, 1.0),
            partial(assert_continuous_law, drawn, stats.norm.cdf),
            partial(assert_tail, drawn, 1.0, 2 * stats.norm.sf(1.0)),
        ]
        for number, check in enumerate(checks):
            try:
                check(alpha=alpha)
            except GoodnessError:
                rejections[number] += 1
    assert np.all(rejections <= 40)
    assert np.all(rejections >= 2)


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="fewer bins or more samples"):
        assert_discrete_law(rounded(100), rounded_cdf)


def test_a_sample_that_is_not_a_number_is_rejected():
    with pytest.raises(GoodnessError):
        assert_mean_square(np.array([np.nan, 1.0]), 1.0)

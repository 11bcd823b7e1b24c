import numpy as np
import pytest

from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.nuclear import symmetric_nuclear_noise, symmetric_nuclear_spectrum
from dpcov.published.estimate import nuclear_law as ullman
from dpcov.published.estimate.nuclear_variances import entry_variances
from tests.noise.exact_means import Law, gauge_means, second_moments


def test_means_that_are_known_exactly():
    assert second_moments(1) == pytest.approx((2, 2))
    assert second_moments(2) == pytest.approx((25 / 3, 20 / 3))
    assert second_moments(3) == pytest.approx((150 / 7, 96 / 7))
    for d in (2, 7, 40):
        assert Law(d).mean_sum(1) == pytest.approx(d * (d + 1) / 2)
        assert Law(d, half_line=True).mean_sum(1) == pytest.approx(d**2)


def test_means_agree_with_draws():
    entropy = SeededEntropy(3)
    nuclear = np.array([symmetric_nuclear_spectrum(5, 1.0, entropy) for _ in range(2_000)])
    accepted = np.exp(-np.abs(nuclear.sum(axis=1)))
    rate, squares, squared_trace = gauge_means(5)
    assert np.mean(np.sum(nuclear**2, axis=1)) == pytest.approx(Law(5).mean_sum(2), rel=0.05)
    assert np.mean(accepted) == pytest.approx(rate, rel=0.15)
    assert np.average(np.sum(nuclear**2, axis=1), weights=accepted) == pytest.approx(
        squares, rel=0.15
    )
    assert np.average(nuclear.sum(axis=1) ** 2, weights=accepted) == pytest.approx(
        squared_trace, rel=0.3
    )


@pytest.mark.parametrize("dimension", [2, 3, 4, 10, 40, 100])
def test_constants_of_the_estimator_are_the_exact_ones(dimension):
    squares, squared_trace = second_moments(dimension)
    assert ullman.mean_square(dimension) == pytest.approx(squares, rel=0.003)
    assert ullman.trace_variance(dimension) == pytest.approx(squared_trace, rel=0.008)


def exact_variances(squares, squared_trace, d):
    off_diagonal = (squares - squared_trace / d) / ((d - 1) * (d + 2))
    return squares / d - (d - 1) * off_diagonal, off_diagonal


@pytest.mark.parametrize("dimension", [2, 3, 4, 9, 10, 11, 30])
def test_variances_of_entries_are_the_exact_ones(dimension):
    d = dimension
    nuclear = exact_variances(*second_moments(d), d)
    assert entry_variances("nuclear", d) == pytest.approx(nuclear, rel=0.01)
    gauge = exact_variances(*gauge_means(d, reach=60.0 if d == 2 else None, nodes=160)[1:], d)
    assert entry_variances("gauge", d) == pytest.approx(gauge, rel=0.01)
    square = Law(d, half_line=True).mean_sum(2) / d**2
    assert entry_variances("square", d) == pytest.approx((square, square / 2), rel=0.01)


def test_variances_of_wishart_noise_are_those_of_draws():
    entropy = SeededEntropy(4)
    noise = np.array([symmetric_nuclear_noise(3, 1.0, entropy, "wishart") for _ in range(4_000)])
    seen = np.mean(noise[:, 0, 0] ** 2), np.mean(noise[:, 0, 1] ** 2)
    assert entry_variances("wishart", 3) == pytest.approx(seen, rel=0.15)


@pytest.mark.parametrize("shape", ["square", "nuclear", "gauge", "wishart"])
def test_one_entry_is_laplace_noise(shape):
    assert entry_variances(shape, 1)[0] == pytest.approx(0.5 if shape == "gauge" else 2.0, rel=0.01)

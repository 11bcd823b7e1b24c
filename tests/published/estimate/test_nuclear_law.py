import mpmath
import numpy as np
import pytest

from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.nuclear import symmetric_nuclear_noise, symmetric_nuclear_spectrum
from dpcov.published.estimate import nuclear_law as ullman
from dpcov.published.estimate.entry_noise import noise_quantile
from dpcov.published.estimate.nuclear_law import laplace_part


def naive_excess(values, scale):
    """The oracle's series without its first term, in 40 digits."""
    d = len(values)
    end = mpmath.mpf(float(ullman.CAUTION * scale * ullman.edge(d)))
    height = mpmath.mpc(0, float(ullman.SMOOTHING * end * d ** (-1 / 3)))
    result = []
    with mpmath.workdps(40):
        for i, value in enumerate(values):
            others = [1 / (value + height - other) for j, other in enumerate(values) if j != i]
            x = end * sum(others) / d
            x = mpmath.mpc(min(max(x.real, -mpmath.pi / 2), mpmath.pi / 2), max(x.imag, -4))
            result.append(float((x / mpmath.sin(x) - 1 - x * x / 6).imag / (x.imag / end)))
    return np.array(result)


@pytest.mark.parametrize("signal", [0.0, 1.0, 1e4])
def test_excess_is_the_naive_formula(signal):
    d = 12
    noise = symmetric_nuclear_spectrum(d, 3.0, SeededEntropy(0))
    values = np.sort(noise + signal * np.linspace(0, 40, d))
    naive = naive_excess(values, 3.0)
    assert ullman.excess(values, 3.0) == pytest.approx(naive, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("d", [2, 3, 5, 30])
def test_entries_share_the_mean_square_and_the_trace_of_noise_that_no_turn_changes(d):
    diagonal, other = ullman.entry_variances("nuclear", d)
    assert d * diagonal + d * (d - 1) * other == pytest.approx(ullman.mean_square(d))
    # No turn of the axes changes the law, so that two diagonal entries share diagonal - 2 other.
    trace = d * diagonal + d * (d - 1) * (diagonal - 2 * other)
    assert trace == pytest.approx(ullman.trace_variance(d))


@pytest.mark.parametrize("shape", ["nuclear", "gauge", "square", "wishart"])
def test_a_single_entry_is_on_the_diagonal_and_has_twice_the_variance_of_others(shape):
    diagonal, other = ullman.entry_variances(shape, 1)
    assert diagonal == 2 * other > 0


@pytest.mark.parametrize("d", [1, 5, pytest.param(20, marks=pytest.mark.thorough)])
def test_the_largest_eigenvalue_stays_below_the_plausible_one(d):
    entropy = SeededEntropy(d)
    spectra = np.array([symmetric_nuclear_spectrum(d, 1.0, entropy) for _ in range(600)])
    extremes = np.concatenate([spectra[:, -1], -spectra[:, 0]])
    assert np.sum(extremes > ullman.largest_plausible(d)) <= 5
    assert np.sum(extremes > 0.5 * ullman.largest_plausible(d)) > 5


def test_one_entry_exceeds_the_plausible_one_as_rarely_as_a_laplace_law_says():
    """A few times in ten thousand, on either side."""
    assert 1e-4 < np.exp(-ullman.largest_plausible(1)) / 2 < 1e-3


def test_a_faint_direction_becomes_visible_at_the_stated_strength():
    d, entropy, overlaps = 120, SeededEntropy(3), []
    for factor in (0.5, 2.0):
        spectrum = symmetric_nuclear_spectrum(d, 1.0, entropy)
        basis = np.linalg.qr(np.random.default_rng(0).normal(size=(d, d)))[0]
        noisy = (basis * spectrum) @ basis.T
        noisy[0, 0] += factor * d
        overlaps.append(np.linalg.eigh(noisy)[1][0, -1] ** 2)
    assert overlaps[0] < 0.3 < 0.7 < overlaps[1]


@pytest.mark.parametrize("d", [pytest.param(1, marks=pytest.mark.slow), 2, 5, 12])
def test_quantiles_of_entries_lie_between_those_of_a_normal_and_a_laplace_law(d):
    entropy, draws = SeededEntropy(d), 20_000 // d
    noise = [symmetric_nuclear_noise(d, 1.0, entropy, "nuclear") for _ in range(draws)]
    entries = np.array([np.diagonal(each) for each in noise]).ravel()
    entries /= np.sqrt(np.mean(entries**2))
    for level, slack in ((0.9, 0.03), (0.95, 0.04), (0.99, 0.12)):
        stated = noise_quantile((1 - level) / 2, laplace_part(d))
        # A normal quantile is below it, that of a Laplace law above it from two columns on.
        assert np.quantile(np.abs(entries), level) == pytest.approx(stated, abs=slack)
    if d >= 5:
        assert noise_quantile(0.005, 1.0) > np.quantile(np.abs(entries), 0.99) + 0.2

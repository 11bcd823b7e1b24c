import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcov.noise import log_gas, nuclear
from dpcov.noise.continuous import normals
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.nuclear import (
    nuclear_noise,
    nuclear_singular_values,
    symmetric_nuclear_noise,
    symmetric_nuclear_spectrum,
)
from tests.statistical.goodness import GoodnessError, assert_continuous_law, continuous_law_samples

SPECTRA = {
    "nuclear": symmetric_nuclear_spectrum,
    "gauge": lambda d, scale, entropy: symmetric_nuclear_spectrum(d, scale, entropy, "gauge"),
    "singular values": nuclear_singular_values,
}


def degrees_of_freedom(kind, dimension):
    return dimension**2 if kind == "singular values" else dimension * (dimension + 1) // 2


def radius(kind, spectra):
    if kind == "gauge":
        return 2 * np.maximum(
            np.maximum(spectra, 0).sum(axis=1), np.maximum(-spectra, 0).sum(axis=1)
        )
    return np.abs(spectra).sum(axis=1)


def radius_law(kind, dimension):
    return stats.gamma(degrees_of_freedom(kind, dimension)).cdf


@cache
def draws(kind, dimension, scale_error):
    law = radius_law(kind, dimension)
    freedom = degrees_of_freedom(kind, dimension)
    grid = np.linspace(0, 3 * freedom + 10, 20_000)
    size = continuous_law_samples(law, grid, scale_error=scale_error)
    entropy = SeededEntropy(dimension)
    return np.array([SPECTRA[kind](dimension, 1.0, entropy) for _ in range(size)])


def largest_value_law(kind, dimension):
    # For ordered points the product of differences is a determinant; d running sums integrate each
    # of its d! terms over x_1 < ... < x_d <= t.
    reach = 30.0 + 10.0 * dimension
    grid = np.linspace(0.0 if kind == "singular values" else -reach, reach, 200_001)
    step, power = grid[1] - grid[0], 2 if kind == "singular values" else 1
    total = np.zeros_like(grid)
    for order in itertools.permutations(range(dimension)):
        term = np.ones_like(grid)
        for exponent in order:
            integrand = term * grid ** (power * exponent) * np.exp(-np.abs(grid))
            term = np.concatenate([[0.0], np.cumsum(0.5 * step * (integrand[1:] + integrand[:-1]))])
        total += np.linalg.det(np.eye(dimension)[list(order)]) * term
    return lambda x: np.interp(x, grid, total / total[-1])


SMALL = [(kind, d) for kind in ("nuclear", "singular values") for d in (1, 2, 3)]


@pytest.mark.parametrize(("kind", "dimension"), SMALL)
def test_radius_and_largest_value_at_small_dimensions(kind, dimension):
    # Power 1 - 1e-6 against a radius that is off by 25 %.
    spectra = draws(kind, dimension, 0.25)
    assert_continuous_law(radius(kind, spectra), radius_law(kind, dimension))
    assert_continuous_law(spectra[:, -1], largest_value_law(kind, dimension))


LARGE = [(kind, d, 0.1) for kind in ("nuclear", "singular values") for d in (10, 11, 30)]


@pytest.mark.parametrize(
    ("kind", "dimension", "off"), [*LARGE, ("gauge", 2, 0.25), ("gauge", 3, 0.25)]
)
def test_radius_follows_its_gamma_law(kind, dimension, off):
    # Power 1 - 1e-6 against a radius that is off by this share; the sampler never uses this law.
    assert_continuous_law(radius(kind, draws(kind, dimension, off)), radius_law(kind, dimension))


def uniform_gaps(kind, pairs):
    # The gap g of two points has density g (1 + g) exp(-g) / 3; that of two singular values over
    # their sum has density 2 t.
    gap = pairs[:, 1] - pairs[:, 0]
    if kind == "singular values":
        return (gap / pairs.sum(axis=1)) ** 2
    return 1.0 - (gap**2 / 3.0 + gap + 1.0) * np.exp(-gap)


@pytest.mark.parametrize("kind", ["nuclear", "singular values"])
def test_gap_of_two_points_repels(kind):
    pairs = draws(kind, 2, 0.25)
    assert_continuous_law(uniform_gaps(kind, pairs), stats.uniform.cdf)
    generator = np.random.default_rng(0)
    directions = generator.dirichlet(np.ones(2), len(pairs))
    if kind == "nuclear":
        directions *= generator.choice([-1.0, 1.0], directions.shape)
    without_repulsion = np.sort(radius(kind, pairs)[:, None] * directions, axis=1)
    with pytest.raises(GoodnessError):
        assert_continuous_law(uniform_gaps(kind, without_repulsion), stats.uniform.cdf)


def test_eigenvectors_are_uniform():
    entropy = SeededEntropy(3)
    noises = (symmetric_nuclear_noise(3, 1.0, entropy, "nuclear") for _ in range(1_000))
    tops = [np.linalg.eigh(noise)[1][:, -1] for noise in noises]
    for component in np.array(tops).T:
        assert_continuous_law(component**2, stats.beta(0.5, 1.0).cdf)


def test_singular_vectors_are_uniform_and_independent():
    entropy = SeededEntropy(4)
    factors = [np.linalg.svd(nuclear_noise(3, 1.0, entropy)) for _ in range(1_000)]
    left, right = np.array([f[0][:, 0] for f in factors]), np.array([f[2][0] for f in factors])
    assert_continuous_law(left[:, 0] ** 2, stats.beta(0.5, 1.0).cdf)
    # The cosine between independent uniform directions in space is uniform on [-1, 1].
    assert_continuous_law(np.abs((left * right).sum(axis=1)), stats.uniform.cdf)


@pytest.mark.parametrize("half_line", [False, True])
@pytest.mark.parametrize("dimension", [2, 5, 40])
def test_conditioning_never_raises_the_intensity(half_line, dimension):
    # This is what makes the rejection step valid; it fails for points that attract each other.
    gas = log_gas.prepare(dimension, half_line)
    entropy = SeededEntropy(dimension)
    drawn = log_gas._Drawn(gas)
    block = log_gas._propose(gas, 400, entropy)
    images = block.features @ gas.kernel
    for _ in range(dimension - 1):
        columns = drawn._columns(block, images)
        before = drawn._intensity(block, images, columns)
        chosen = int(np.argmax(before / block.heights))
        drawn._admit(block, images, columns, chosen, float(before[chosen]))
        after = drawn._intensity(block, images, drawn._columns(block, images))
        assert np.all(after <= before + 1e-9)


def wishart_log_density(middle, radius):
    # At d = 2, scale 1: A = t I + (traceless part u) >= 0 means t >= |u|; Z has middle +- radius.
    grid = np.linspace(-12.0, 12.0, 801)
    first, second = np.meshgrid(grid, grid, sparse=True)
    lowest = np.maximum(np.hypot(first, second), middle + np.hypot(first - radius, second))
    return 2.0 * middle + np.log(np.exp(-4.0 * lowest).sum())


@settings(max_examples=15, deadline=None)
@given(st.floats(-2, 2), st.floats(0, 2), st.floats(0.05, 1.0), st.floats(0, np.pi))
def test_wishart_density_is_lipschitz_in_nuclear_norm(middle, radius, size, angle):
    # Adding size * v v' moves the middle and the traceless part by size / 2 each.
    moved = abs(radius + 0.5 * size * np.exp(1j * angle))
    loss = wishart_log_density(middle + 0.5 * size, moved) - wishart_log_density(middle, radius)
    assert abs(loss) <= size + 1e-3


@pytest.mark.parametrize("law", ["nuclear", "gauge", None])
def test_noise_has_the_drawn_spectrum(law):
    one, other = SeededEntropy(5), SeededEntropy(5)
    if law is None:
        singular = np.linalg.svd(nuclear_noise(4, 3.0, one), compute_uv=False)
        assert np.allclose(singular[::-1], nuclear_singular_values(4, 3.0, other))
    else:
        noise = symmetric_nuclear_noise(5, 3.0, one, law)
        assert np.array_equal(noise, noise.T)
        spectrum = symmetric_nuclear_spectrum(5, 3.0, other, law)
        assert np.allclose(np.linalg.eigvalsh(noise), spectrum)


@pytest.mark.parametrize(
    ("draw", "half_line"), [(symmetric_nuclear_spectrum, False), (nuclear_singular_values, True)]
)
def test_spectra_are_draws_of_the_log_gas_and_nothing_else(draw, half_line):
    gas, drawn, expected = log_gas.prepare(5, half_line), SeededEntropy(21), SeededEntropy(21)
    for _ in range(3):
        assert np.allclose(
            draw(5, 2.0, drawn), 2.0 * log_gas.sample(gas, expected), rtol=1e-12, atol=0
        )


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_wishart_noise_is_the_scaled_difference_of_two_squares(dimension):
    plus, minus = normals((2, dimension, dimension + 1), SeededEntropy(22))
    expected = 1.5 * (plus @ plus.T) - 1.5 * (minus @ minus.T)
    noise = symmetric_nuclear_noise(dimension, 3.0, SeededEntropy(22), "wishart")
    assert np.allclose(noise, expected, rtol=1e-12, atol=1e-12)
    assert np.array_equal(noise, noise.T)


def test_the_gauge_law_takes_the_first_spectrum_whose_trace_an_exponential_exceeds(monkeypatch):
    spectra = [np.array(pair) for pair in ([-3.0, 1.0], [0.5, 1.0], [-1.0, -0.25], [4.0, -4.0])]
    levels, waiting = iter([1.9, 1.4, 1.3, 0.1]), iter(spectra)
    monkeypatch.setattr(nuclear, "exponentials", lambda size, _: np.full(size, next(levels)))
    monkeypatch.setattr(log_gas, "sample", lambda gas, entropy: next(waiting))
    found = symmetric_nuclear_spectrum(2, 2.0, SeededEntropy(0), "gauge")
    assert found.tolist() == [-2.0, -0.5]

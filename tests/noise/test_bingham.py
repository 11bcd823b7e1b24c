import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import cumulative_trapezoid
from scipy.stats import beta, kstest

from dpcov.errors import NumericError, UsageError
from dpcov.noise import eigenvectors as bingham
from dpcov.noise.eigenvectors import acceptance, envelope_width, sample_binghams
from dpcov.noise.entropy import SeededEntropy

ALPHA = 1e-9

SPECTRA = {
    "d=3 spread": np.array([0.0, 2.0, 7.0]),
    "d=3 far apart": np.array([0.0, 5.0, 400.0]),
    "d=10 spread": np.linspace(0.0, 20.0, 10),
    "d=10 all but one equal": np.array([30.0] + [0.0] * 9),
    "d=10 one below": np.array([-30.0] + [0.0] * 9),
    "d=50 spread": np.linspace(0.0, 60.0, 50),
    "d=50 powers": 500.0 * np.arange(1, 51) ** -2.0,
}


FULL = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 1.0]])


def squared_moments(eigenvalues, indices=None):
    # The normalizing constant of exp(u'Au) is the inverse Laplace transform at 1 of
    # prod (p - a_i)**(-1/2); differentiating in a_i gives E[u_i**2].  Top eigenvalue shifted to 0.
    gaps = [mpmath.mpf(float(gap)) for gap in eigenvalues.max() - eigenvalues]
    chosen = range(len(gaps)) if indices is None else indices

    def transform(p):
        return mpmath.fprod((p + gap) ** -0.5 for gap in gaps)

    def inverse(transformed):
        return mpmath.invertlaplace(transformed, 1, method="talbot")

    with mpmath.workdps(25):
        total = inverse(transform)
        parts = [inverse(lambda p, g=gaps[i]: transform(p) / (2 * (p + g))) for i in chosen]
        return np.array([float(part / total) for part in parts])


def assert_mean(values, expected):
    # Size ALPHA by the normal approximation (|z| < 6.11), at n >= 10**4 and bounded values.
    error = values.std(axis=0) / math.sqrt(len(values))
    assert np.all(np.abs(values.mean(axis=0) - expected) < 6.2 * error + 1e-12)


def assert_circle_law(concentration, draws):
    # The angle from the first axis, folded to [0, pi/2], against its distribution by quadrature.
    angles = np.arctan2(np.abs(draws[:, 1]), np.abs(draws[:, 0]))
    reach = min(math.pi / 2, 12 / math.sqrt(max(concentration, 1e-9)))
    grid = np.linspace(0.0, reach, 200_001)
    mass = cumulative_trapezoid(np.exp(-concentration * np.sin(grid) ** 2), grid, initial=0.0)
    assert kstest(angles, lambda angle: np.interp(angle, grid, mass / mass[-1])).pvalue > ALPHA


def divided_instead_of_multiplied(ratio, dimension):
    # The planted bug: exp(-x) exp((d-b)/2) (b/d)**(d/2) over, not times, (u' Omega u)**(d/2).
    return np.minimum(1.0, np.exp(0.5 * dimension * (1.0 - ratio - np.log(ratio))))


@pytest.mark.parametrize("concentration", [0.0, 1e-12, 0.3, 5.0, 200.0, 1e9])
def test_law_on_circle(concentration):
    draws = sample_binghams(np.diag([concentration, 0.0]), 50_000, SeededEntropy(2))
    assert_circle_law(concentration, draws)


def assert_moments(name):
    eigenvalues = SPECTRA[name]
    indices = sorted({0, 1, len(eigenvalues) // 2, len(eigenvalues) - 1})
    draws = sample_binghams(np.diag(eigenvalues), 15_000, SeededEntropy(3))
    assert_mean(draws[:, indices] ** 2, squared_moments(eigenvalues, indices))


@pytest.mark.parametrize("name", SPECTRA)
def test_moments(name):
    assert_moments(name)


def test_moments_reject_inverted_acceptance(monkeypatch):
    monkeypatch.setattr(bingham, "acceptance", divided_instead_of_multiplied)
    with pytest.raises(AssertionError):
        assert_moments("d=10 spread")


@pytest.mark.parametrize("dimension", [2, 3, 20])
@pytest.mark.parametrize("level", [0.0, 1e9])
def test_equal_eigenvalues_give_the_uniform_law(dimension, level):
    draws = sample_binghams(level * np.eye(dimension), 30_000, SeededEntropy(4))
    law = beta(0.5, 0.5 * (dimension - 1))
    assert kstest(draws[:, 0] ** 2, law.cdf).pvalue > ALPHA
    assert kstest(draws[:, -1] ** 2, law.cdf).pvalue > ALPHA
    assert_mean(draws, 0.0)


def test_rotated_matrix_rotates_the_law():
    eigenvalues = SPECTRA["d=3 spread"]
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    draws = sample_binghams((rotation * eigenvalues) @ rotation.T, 50_000, SeededEntropy(6))
    products = (draws[:, :, None] * draws[:, None, :]).reshape(-1, 9)
    assert_mean(products, ((rotation * squared_moments(eigenvalues)) @ rotation.T).ravel())


@given(st.lists(st.floats(0.0, 1e9), min_size=0, max_size=30))
def test_envelope_width_solves_its_equation(gaps):
    gaps = np.array([0.0, *gaps])
    width = envelope_width(gaps)
    assert 1.0 <= width <= gaps.size
    assert np.sum(1 / (width + 2 * gaps)) == pytest.approx(1.0, rel=1e-11)


def test_broken_numbers_end_in_an_error_and_not_in_a_loop(monkeypatch):
    assert math.isnan(envelope_width(np.array([math.nan, 0.0])))
    with pytest.raises(UsageError, match="finite"):
        sample_binghams(np.diag([math.inf, 0.0]), 1, SeededEntropy(0))
    monkeypatch.setattr(bingham, "MAX_BATCHES", 3)
    monkeypatch.setattr(bingham, "acceptance", lambda ratio, dimension: np.zeros_like(ratio))
    with pytest.raises(NumericError, match="nothing was released"):
        sample_binghams(np.eye(2), 5, SeededEntropy(1))


def test_acceptance_is_a_power_times_an_exponential():
    assert acceptance(np.array([0.25, 1.0, 3.0]), 4) == pytest.approx(
        [math.exp(1.5) / 16, 1.0, 9 * math.exp(-4.0)]
    )
    assert acceptance(np.array([2.0]), 1) == pytest.approx([math.sqrt(2.0) * math.exp(-0.5)])


@pytest.mark.parametrize(
    ("matrix", "size", "first", "last", "total", "word"),
    [
        (np.diag([5.0, 0.0]), 3, -0.99244915, 0.43303701, 1.15689915, 11675829030975602478),
        (np.diag([3.0, 1.0, 0.0]), 200, 0.83595803, 0.43610830, 12.85940392, 6052787503132283053),
        (FULL, 2, -0.79709355, 0.32605875, 0.26246725, 14620268279997568582),
    ],
)
def test_a_seed_gives_the_same_directions_in_every_version(matrix, size, first, last, total, word):
    entropy = SeededEntropy(1)
    draws = sample_binghams(matrix, size, entropy)
    assert (draws[0, 0], draws[-1, -1], draws.sum()) == pytest.approx(
        (first, last, total), abs=2e-8
    )
    assert int(entropy.words(1)[0]) == word

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import cumulative_trapezoid
from scipy.special import i0, i1
from scipy.stats import beta, kstest

from dpcov.errors import NumericError, UsageError
from dpcov.noise import bingham
from dpcov.noise.bingham import acceptance, envelope_width, sample_binghams
from dpcov.noise.entropy import SeededEntropy

ALPHA = 1e-9
MEAN_ON_CIRCLE = (1 + i1(2.5) / i0(2.5)) / 2
"""E[u_1**2] under density exp(5 u_1**2) on the circle."""

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


def test_mean_on_circle():
    draws = sample_binghams(np.diag([5.0, 0.0]), 200_000, SeededEntropy(1))
    assert pytest.approx(0.8825, abs=5e-5) == MEAN_ON_CIRCLE
    assert_mean(draws[:, 0] ** 2, MEAN_ON_CIRCLE)


def test_mean_on_circle_rejects_inverted_acceptance(monkeypatch):
    monkeypatch.setattr(bingham, "acceptance", divided_instead_of_multiplied)
    draws = sample_binghams(np.diag([5.0, 0.0]), 20_000, SeededEntropy(1))
    with pytest.raises(AssertionError):
        assert_mean(draws[:, 0] ** 2, MEAN_ON_CIRCLE)
    with pytest.raises(AssertionError):
        assert_circle_law(5.0, draws)


@pytest.mark.parametrize("concentration", [0.0, 1e-12, 0.3, 5.0, 200.0, 1e9])
def test_law_on_circle(concentration):
    draws = sample_binghams(np.diag([concentration, 0.0]), 50_000, SeededEntropy(2))
    assert_circle_law(concentration, draws)


def test_moments_oracle():
    assert squared_moments(SPECTRA["d=10 spread"]).sum() == pytest.approx(1.0, abs=1e-12)
    assert squared_moments(np.array([5.0, 0.0])) == pytest.approx(
        [MEAN_ON_CIRCLE, 1 - MEAN_ON_CIRCLE], abs=1e-12
    )


def assert_moments(name):
    eigenvalues = SPECTRA[name]
    indices = sorted({0, 1, len(eigenvalues) // 2, len(eigenvalues) - 1})
    draws = sample_binghams(np.diag(eigenvalues), 40_000, SeededEntropy(3))
    assert_mean(draws[:, indices] ** 2, squared_moments(eigenvalues, indices))


@pytest.mark.parametrize("name", SPECTRA)
def test_moments(name):
    assert_moments(name)


@pytest.mark.parametrize("name", ["d=3 spread", "d=10 spread", "d=50 spread"])
def test_moments_reject_inverted_acceptance(name, monkeypatch):
    monkeypatch.setattr(bingham, "acceptance", divided_instead_of_multiplied)
    with pytest.raises(AssertionError):
        assert_moments(name)


@pytest.mark.parametrize("dimension", [2, 3, 20])
@pytest.mark.parametrize("level", [0.0, 1e9])
def test_equal_eigenvalues_give_the_uniform_law(dimension, level):
    draws = sample_binghams(level * np.eye(dimension), 30_000, SeededEntropy(4))
    law = beta(0.5, 0.5 * (dimension - 1))
    assert kstest(draws[:, 0] ** 2, law.cdf).pvalue > ALPHA
    assert kstest(draws[:, -1] ** 2, law.cdf).pvalue > ALPHA
    assert_mean(draws, 0.0)


def epsilon_lower_bound(exponent):
    # Rows {e1, e1, e1} against {e1, e1, e2}: scores and normalizing constants move against each
    # other.  The event is a direction near e2; Clopper and Pearson's bounds, each of size ALPHA.
    size, hits = 200_000, []
    for rows in ([3.0, 0.0], [2.0, 1.0]):
        draws = sample_binghams(exponent * np.diag(rows), size, SeededEntropy(10))
        hits.append(int((draws[:, 1] ** 2 > 0.9).sum()))
    highest = beta.isf(ALPHA, hits[0] + 1, size - hits[0])
    return math.log(beta.ppf(ALPHA, hits[1], size - hits[1] + 1) / highest)


def test_audit_of_pure_differential_privacy():
    # Exponent epsilon / 2 loses 0.62 of epsilon = 1 here, exponent epsilon would lose 1.44.
    assert 0.4 < epsilon_lower_bound(0.5) <= 1.0
    assert epsilon_lower_bound(1.0) > 1.0


def test_one_dimension_gives_a_fair_sign():
    draws = sample_binghams(np.array([[3.0]]), 20_000, SeededEntropy(5))
    assert set(np.unique(draws)) == {-1.0, 1.0}
    assert_mean(draws[:, 0], 0.0)


def test_rotated_matrix_rotates_the_law():
    eigenvalues = SPECTRA["d=3 spread"]
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    draws = sample_binghams((rotation * eigenvalues) @ rotation.T, 50_000, SeededEntropy(6))
    products = (draws[:, :, None] * draws[:, None, :]).reshape(-1, 9)
    assert_mean(products, ((rotation * squared_moments(eigenvalues)) @ rotation.T).ravel())


@pytest.mark.parametrize("scale", [1e-12, 1e9])
def test_extreme_scales_give_unit_vectors(scale):
    (draw,) = sample_binghams(scale * np.diag([1.0, 2.0, 2.0, 5.0]), 1, SeededEntropy(7))
    assert np.linalg.norm(draw) == pytest.approx(1.0, abs=1e-14)
    assert scale < 1 or abs(draw[3]) > 0.999


def proposals_per_draw(eigenvalues, monkeypatch):
    probabilities = []

    def recorded(ratio, dimension):
        probabilities.append(acceptance(ratio, dimension))
        return probabilities[-1]

    monkeypatch.setattr(bingham, "acceptance", recorded)
    sample_binghams(np.diag(eigenvalues), 4_000, SeededEntropy(8))
    return 1 / np.concatenate(probabilities).mean()


@pytest.mark.parametrize("dimension", [3, 10, 30, 100])
@pytest.mark.parametrize(("strength", "limit"), [(0.01, 1.01), (0.1, 6), (1.0, 6), (5.0, 6)])
def test_proposals_per_draw(dimension, strength, limit, monkeypatch):
    top = strength * (dimension if limit > 2 else 1)
    assert proposals_per_draw(np.linspace(0.0, top, dimension), monkeypatch) < limit


@pytest.mark.parametrize("dimension", [3, 10, 30, 100])
def test_proposals_per_draw_at_the_highest_concentration(dimension, monkeypatch):
    # One eigenvalue far above the others: h(d) / h(1), about sqrt(e d/2), with
    # h(d) = (d/2)**(d/2) exp(-d/2) / Gamma(d/2).
    half = dimension / 2
    logarithm = half * math.log(half) + 0.5 - half - math.lgamma(half)
    limit = math.exp(logarithm) * math.sqrt(2 * math.pi)
    measured = proposals_per_draw(np.array([1e8] + [0.0] * (dimension - 1)), monkeypatch)
    assert measured == pytest.approx(limit, rel=0.1)
    assert limit < math.sqrt(math.e * half) + 1e-9


@given(st.lists(st.floats(0.0, 1e9), min_size=0, max_size=30))
def test_envelope_width_solves_its_equation(gaps):
    gaps = np.array([0.0, *gaps])
    width = envelope_width(gaps)
    assert 1.0 <= width <= gaps.size
    assert np.sum(1 / (width + 2 * gaps)) == pytest.approx(1.0, rel=1e-11)


@given(st.floats(1e-300, 1e300), st.integers(1, 1000))
def test_acceptance_is_a_probability_and_reaches_one(ratio, dimension):
    assert 0.0 <= acceptance(np.array([ratio]), dimension)[0] <= 1.0
    assert acceptance(np.array([1.0]), dimension)[0] == 1.0


def test_negative_size_is_refused_and_zero_is_empty():
    assert sample_binghams(np.eye(2), 0, SeededEntropy(0)).shape == (0, 2)
    with pytest.raises(UsageError, match="negative"):
        sample_binghams(np.eye(2), -1, SeededEntropy(0))


def test_broken_numbers_end_in_an_error_and_not_in_a_loop(monkeypatch):
    assert math.isnan(envelope_width(np.array([math.nan, 0.0])))
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
    ("matrix", "fits"),
    [
        ([[1.0, 1.0 + 0.9e-10], [1.0, 1.0]], True),
        ([[1.0, 1.0 + 2.2e-10], [1.0, 1.0]], False),
        ([[1.0, 0.9e-10], [0.0, 1.0]], True),
        ([[1.0, 1.2e-10], [0.0, 1.0]], False),
        ([[-1e6, 0.9e-4], [0.0, 1.0]], True),
        ([[-1e6, 1.2e-4], [0.0, 1.0]], False),
        ([[np.inf, 0.0], [0.0, 1.0]], False),
        ([[np.nan, 0.0], [0.0, 1.0]], False),
        ([[7.0]], True),
    ],
)
def test_a_matrix_is_symmetric_up_to_rounding(matrix, fits):
    if fits:
        bingham.check_symmetric(np.array(matrix))
    else:
        with pytest.raises(UsageError, match=r"Average it|finite"):
            sample_binghams(np.array(matrix), 1, SeededEntropy(0))


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 0), (2, 2, 2)])
def test_what_is_not_a_square_matrix_is_refused_as_such(shape):
    with pytest.raises(UsageError, match="square"):
        sample_binghams(np.zeros(shape), 1, SeededEntropy(0))


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

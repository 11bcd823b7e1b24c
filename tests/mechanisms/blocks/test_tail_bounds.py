import numpy as np
import pytest
from scipy import stats

from dpcov.errors import UsageError
from dpcov.mechanisms.blocks import tail_bounds
from dpcov.mechanisms.blocks.additive_noise import AdditiveNoise
from dpcov.mechanisms.blocks.matrix_noise import MatrixNoise
from dpcov.noise.entropy import SeededEntropy

DRAWS = 400
LAWS = ["gaussian-isotropic", "gaussian-entrywise", "wishart", "laplace-entrywise"]


def exceeded_too_often(norms, bound, beta):
    """Size 1e-9: a bound that fails with probability beta at most is rejected this rarely."""
    return np.sum(norms > bound) > stats.binom.isf(1e-9, len(norms), beta)


@pytest.mark.parametrize("beta", [0.5, 0.05])
@pytest.mark.parametrize("dimension", [1, 2, 30])
@pytest.mark.parametrize("law", LAWS)
def test_matrix_bounds_hold_at_their_probability(law, dimension, beta):
    noise, entropy = MatrixNoise(law=law, scale=1.7), SeededEntropy(dimension)
    draws = np.array([noise.draw(dimension, entropy) for _ in range(DRAWS)])
    spectral = np.abs(np.linalg.eigvalsh(draws)).max(axis=1)
    frobenius = np.linalg.norm(draws, axis=(1, 2))
    assert not exceeded_too_often(spectral, noise.spectral_bound(dimension, beta), beta)
    assert not exceeded_too_often(frobenius, noise.frobenius_bound(dimension, beta), beta)


@pytest.mark.parametrize("law", LAWS)
def test_the_check_notices_bounds_that_are_too_small(law):
    noise, entropy = MatrixNoise(law=law, scale=1.0), SeededEntropy(1)
    draws = np.array([noise.draw(30, entropy) for _ in range(DRAWS)])
    spectral = np.abs(np.linalg.eigvalsh(draws)).max(axis=1)
    assert exceeded_too_often(spectral, np.median(spectral), 0.05)


@pytest.mark.parametrize("beta", [0.5, 0.05])
@pytest.mark.parametrize("size", [1, 5, 60])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_vector_bounds_hold_at_their_probability(law, size, beta):
    noise = AdditiveNoise(law=law, scale=0.3)
    draws = noise.draw(2_000 * size, SeededEntropy(size)).reshape(2_000, size)
    assert not exceeded_too_often(np.linalg.norm(draws, axis=1), noise.norm_bound(size, beta), beta)
    assert not exceeded_too_often(draws[:, 0], noise.upper_bound(beta), beta / 2)


def test_bounds_for_isotropic_noise_are_sharp_and_below_the_papers():
    for dimension in (20, 200, 1000):
        assert tail_bounds.isotropic_spectral(dimension, 0.05) < 1.5 * np.sqrt(2 * dimension)
        assert (
            tail_bounds.isotropic_frobenius(dimension, 0.05)
            < tail_bounds.omega(dimension, 0.05) * 0.9
        )
        assert tail_bounds.isotropic_spectral(dimension, 0.05) < tail_bounds.nu(dimension, 0.05) / 2


def test_the_papers_formulas():
    # Lemmas 6 and 7 at d = 100, beta = 0.1, evaluated by hand with 1 / beta = 10.
    log10, log100 = np.log(10), np.log(100)
    assert tail_bounds.eta(100, 0.1) == pytest.approx(
        np.sqrt(100 + 2 * np.sqrt(100 * log10) + 2 * log10)
    )
    e = (log100 / 100) ** (1 / 3)
    middle = 6 * (1 + e) * np.sqrt(log100) / np.sqrt(np.log(1 + e))
    expected = 20 + 2 * 100 ** (1 / 6) * log100 ** (1 / 3) + middle + 2 * np.sqrt(2 * log10)
    assert tail_bounds.nu(100, 0.1) == pytest.approx(expected)
    log20 = np.log(20)
    expected = np.sqrt(100**2 + 2 * np.sqrt(100 * log20) * (1 + np.sqrt(2 * 99)) + 6 * log20)
    assert tail_bounds.omega(100, 0.1) == pytest.approx(expected)


AT = ((1, 0.5), (7, 0.05), (100, 1e-6), (100, 0.9))
PINNED = {
    "eta": (2.012809873, 4.706388696, 14.211596142, 10.329693991),
    "nu": (20.76828895, 33.155846272, 69.283857756, 59.688901427),
    "omega": (3.416516678, 10.793627422, 105.996162936, 101.361443066),
    "isotropic_spectral": (3.079322785, 6.457860418, 19.528907893, 15.405866367),
    "isotropic_frobenius": (2.012809873, 7.23247707, 74.872591253, 71.388682803),
    "laplace_vector": (3.3234623, 9.39402501, 47.230853862, 16.421996859),
    "laplace_frobenius": (3.454485113, 18.605576918, 169.868728555, 144.636243877),
    "laplace_spectral": (9.960216821, 37.229344803, 191.498866492, 100.460947997),
    "wishart_spectral": (8.320437191, 33.54117429, 323.511527941, 227.134908136),
    "wishart_frobenius": (2.0, 66.932802123, 3235.115279406, 752.809552425),
}


@pytest.mark.parametrize("name", PINNED)
def test_bounds_are_what_they_were_when_their_formulas_were_proven(name):
    bound = getattr(tail_bounds, name)
    assert [bound(*place) for place in AT] == pytest.approx(PINNED[name], rel=1e-8)
    for wrong in ((0, 0.5), (3, 0.0), (3, 1.0), (3, float("nan"))):
        with pytest.raises(UsageError):
            bound(*wrong)


def test_many_columns_of_laplace_noise_are_bounded_row_by_row():
    # Bandeira and van Handel (2016), Corollary 3.9, with an excess of 1/2, for entries at most as
    # large as they are with probability 1 - beta / 4 and rows as long as they are with probability
    # 1 - beta / 4; and a deviation.
    d, beta = 10_000, 0.05
    largest = np.sqrt(2 * np.log(4 * (d * (d + 1) / 2) / beta))
    log_row = np.log(4 * d / beta)
    row = np.sqrt(2 * (d + np.sqrt(2 * d * log_row) + log_row))
    by_rows = 1.5 * (2 * row + 6 * largest * np.sqrt(np.log(d) / np.log(1.5)))
    expected = by_rows + 2 * largest * np.sqrt(np.log(4 / beta))
    assert tail_bounds.laplace_spectral(d, beta) == pytest.approx(expected, rel=1e-12)

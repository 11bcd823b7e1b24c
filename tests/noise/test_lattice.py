import hashlib
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpcov.errors import NumericError, UsageError
from dpcov.noise import lattice
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.lattice import discrete_laplace, rounded_gaussian
from tests.statistical.goodness import (
    assert_discrete_law,
    assert_mean_square,
    assert_same_law,
    assert_tail,
    discrete_law_samples,
    equal_bins,
)

STDS = [Fraction(1), Fraction(37, 10), *(Fraction(2**bits) for bits in (10, 20, 40, 45))]
LAWS = [rounded_gaussian, discrete_laplace]
SIZE = 300_000


def parameter(law, std):
    return std if law is discrete_laplace else std**2


def rounded_gaussian_cdf(std):
    return lambda x: stats.norm.cdf((x + 0.5) / float(std))


def discrete_laplace_cdf(std):
    scale = float(std)
    edge = 1.0 + math.exp(-1.0 / scale)

    def cdf(x):
        left = np.exp(np.minimum(x, 0) / scale) / edge
        return np.where(x < 0, left, 1.0 - np.exp(-(np.maximum(x, 0) + 1) / scale) / edge)

    return cdf


CDFS = {rounded_gaussian: rounded_gaussian_cdf, discrete_laplace: discrete_laplace_cdf}


def survival(law, std, threshold):
    """P(abs(x) > threshold) of a symmetric law, without cancellation."""
    return 2 * float(CDFS[law](std)(np.array([-threshold - 1]))[0])


@pytest.mark.parametrize("std", STDS, ids=float)
@pytest.mark.parametrize("law", LAWS)
def test_law_by_chi_square(law, std):
    cdf = CDFS[law](std)
    edges = equal_bins(cdf, 60)
    wrong = [CDFS[law](std * factor) for factor in (Fraction(9, 10), Fraction(11, 10))]
    assert discrete_law_samples(cdf, wrong, edges=edges) < SIZE
    assert_discrete_law(law(parameter(law, std), SIZE, SeededEntropy(1)), cdf, edges=edges)


@pytest.mark.parametrize("std", [Fraction(1, 8), Fraction(1, 2), Fraction(3)], ids=float)
@pytest.mark.parametrize("law", LAWS)
def test_small_noise_has_its_probabilities(law, std):
    samples = law(parameter(law, std), SIZE, SeededEntropy(4))
    for value in range(4):
        cdf = CDFS[law](std)
        assert_tail(samples, value, survival(law, std, value))
        below, above = cdf(np.array([-1]))[0], 1.0 - cdf(np.array([0]))[0]
        assert below == pytest.approx(above)
        assert_tail(samples == 0, 0.5, 1.0 - below - above)


@pytest.mark.parametrize(("law", "kurtosis"), [(rounded_gaussian, 3), (discrete_laplace, 6)])
@pytest.mark.parametrize("std", STDS[2:], ids=float)
def test_variance_symmetry_and_low_bits(law, kurtosis, std):
    samples = law(parameter(law, std), SIZE, SeededEntropy(5))
    assert_mean_square(
        samples, float(std) ** 2 * (2 if law is discrete_laplace else 1), kurtosis=kurtosis
    )
    assert_tail(samples > 0, 0.5, (1.0 - CDFS[law](std)(np.array([0]))[0]))
    assert_discrete_law(samples & 15, lambda x: np.clip((x + 1) / 16, 0, 1), edges=np.arange(15))


def test_the_largest_noise_is_drawn_without_wrapping():
    for law in LAWS:
        samples = law(parameter(law, 2**56), 1_000_000, SeededEntropy(6))
        assert np.abs(samples).max() < 2**61
        assert_tail(samples, 2**57, survival(law, 2**56, 2**57))


@pytest.mark.parametrize(
    "std", [Fraction(1, 2**20), Fraction(5, 4), 63, 64, 127, 128, 2**20, 2**56], ids=float
)
def test_a_rounded_gaussian_is_real_and_wide_before_it_is_rounded(std, monkeypatch):
    asked = []
    build = lattice.build_staircase
    monkeypatch.setattr(
        lattice, "build_staircase", lambda decay: asked.append(decay) or build(decay)
    )
    rounded_gaussian(std**2, 3, SeededEntropy(0))
    (decay,) = asked
    assert decay.rounding_bits
    assert decay.rate == 1 / (2 * (Fraction(std) * 2**decay.rounding_bits) ** 2)
    assert 2**7 <= std * 2**decay.rounding_bits <= max(2**8, 2 * std)


@pytest.mark.parametrize("number", [Fraction(1, 3), 2**55 + 1, Fraction(10**17 + 1, 7)])
def test_a_law_has_its_parameter_exactly(number, monkeypatch):
    """None of these is a float."""
    asked = []
    build = lattice.build_staircase
    monkeypatch.setattr(
        lattice, "build_staircase", lambda decay: asked.append(decay) or build(decay)
    )
    discrete_laplace(number, 3, SeededEntropy(0))
    rounded_gaussian(number, 3, SeededEntropy(0))
    laplace, gaussian = asked
    assert Fraction(float(number)) != number
    assert laplace.exponent(Fraction(5)) == 5 / Fraction(number)
    five = Fraction(5 * 2**gaussian.rounding_bits)
    assert gaussian.exponent(five) == 25 / (2 * Fraction(number))


@pytest.mark.parametrize("law", LAWS)
def test_the_ends_of_the_range_are_drawn_and_what_lies_beyond_is_refused(law):
    smallest, largest = (parameter(law, Fraction(2) ** bits) for bits in (-20, 56))
    assert law(smallest, 100, SeededEntropy(0)).tolist() == [0] * 100
    assert 2**54 < np.abs(law(largest, 100, SeededEntropy(0))).mean() < 2**58
    integer = np.int64(2**50)
    assert law(integer, 9, SeededEntropy(8)).tolist() == law(2**50, 9, SeededEntropy(8)).tolist()
    for value in (0, -1, Fraction(-1, 3), smallest * (1 - Fraction(1, 10**9))):
        with pytest.raises(UsageError, match="at least"):
            law(value, 3, SeededEntropy(0))
    for value in (1.0, float("nan"), "1", None):
        with pytest.raises(UsageError, match="exact number"):
            law(value, 3, SeededEntropy(0))
    with pytest.raises(NumericError, match="coarser grid"):
        law(largest * (1 + Fraction(1, 10**9)), 3, SeededEntropy(0))


DIGESTS = {
    rounded_gaussian: "c63e6bc0c684c5d4 0c9320e6e9ee3abc f1ab24311690a18f 705eb1e166e6d4ce",
    discrete_laplace: "0e059cb4ed22480d e15b3a7aeed7f5d2 d1bb9787577543c0 bac13aedb4be992a",
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("place", range(4))
def test_a_seed_gives_the_same_integers_on_every_machine_and_in_every_version(law, place):
    std = [Fraction(1, 8), Fraction(37, 10), Fraction(2**10), Fraction(2**40)][place]
    samples = law(parameter(law, std), 40_000, SeededEntropy(1))
    found = hashlib.sha256(samples.astype("<i8").tobytes()).hexdigest()
    assert found.startswith(DIGESTS[law].split()[place])


@pytest.mark.parametrize(
    "std", [pytest.param(1.0, marks=pytest.mark.thorough), 3.7, 2.0**20, 2.0**40], ids=float
)
def test_agrees_with_opendp(std):
    opendp = pytest.importorskip("opendp.prelude")
    opendp.enable_features("contrib")
    domain = opendp.vector_domain(opendp.atom_domain(T="i64"))
    laplace = opendp.m.make_laplace(domain, opendp.l1_distance(T="i64"), scale=std)
    ours = discrete_laplace(Fraction(std), SIZE, SeededEntropy(10))
    assert_same_law(ours, np.array(laplace([0] * 20_000)))

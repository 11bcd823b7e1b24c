import hashlib
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpcov.errors import NumericError, UsageError
from dpcov.noise import lattice
from dpcov.noise.entropy import SeededEntropy, SystemEntropy
from dpcov.noise.lattice import discrete_gaussian, discrete_laplace, rounded_gaussian
from tests.statistical.goodness import (
    assert_discrete_law,
    assert_mean_square,
    assert_same_law,
    assert_tail,
    discrete_law_samples,
    equal_bins,
    pmf_to_cdf,
)

STDS = [Fraction(1), Fraction(37, 10), *(Fraction(2**bits) for bits in (10, 20, 40, 45))]
LAWS = [rounded_gaussian, discrete_gaussian, discrete_laplace]
SIZE = 300_000


def parameter(law, std):
    return std if law is discrete_laplace else std**2


def rounded_gaussian_cdf(std):
    return lambda x: stats.norm.cdf((x + 0.5) / float(std))


def discrete_gaussian_cdf(std):
    if std > 100:
        # The midpoint rule errs by less than 1 / (24 std**2).
        return rounded_gaussian_cdf(std)
    masses = [math.exp(-(x**2) / (2 * float(std) ** 2)) for x in range(-1000, 1001)]
    total = math.fsum(masses)
    return pmf_to_cdf(lambda x: masses[x + 1000] / total, 1000)


def discrete_laplace_cdf(std):
    scale = float(std)
    edge = 1.0 + math.exp(-1.0 / scale)

    def cdf(x):
        left = np.exp(np.minimum(x, 0) / scale) / edge
        return np.where(x < 0, left, 1.0 - np.exp(-(np.maximum(x, 0) + 1) / scale) / edge)

    return cdf


CDFS = {
    rounded_gaussian: rounded_gaussian_cdf,
    discrete_gaussian: discrete_gaussian_cdf,
    discrete_laplace: discrete_laplace_cdf,
}


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


@pytest.mark.parametrize("std", STDS, ids=float)
@pytest.mark.parametrize("law", LAWS)
def test_tails(law, std):
    samples = law(parameter(law, std), SIZE, SeededEntropy(2))
    for multiple in (2, 3, 4):
        threshold = math.ceil(multiple * std)
        assert_tail(samples, threshold, survival(law, std, threshold))


@pytest.mark.parametrize("law", LAWS)
def test_every_integer_near_zero_has_its_probability(law):
    std = Fraction(20)
    samples = law(parameter(law, std), 3_000_000, SeededEntropy(3))
    assert_discrete_law(samples, CDFS[law](std), edges=np.arange(-60, 60))


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


@pytest.mark.parametrize(
    ("law", "kurtosis"), [(rounded_gaussian, 3), (discrete_gaussian, 3), (discrete_laplace, 6)]
)
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
    assert decay.continuous
    assert decay.rate == 1 / (2 * (Fraction(std) * 2**decay.rounding_bits) ** 2)
    assert 2**7 <= std * 2**decay.rounding_bits <= max(2**8, 2 * std)


@pytest.mark.parametrize("law", LAWS)
def test_the_ends_of_the_range_are_drawn_and_what_lies_beyond_is_refused(law):
    smallest, largest = (parameter(law, Fraction(2) ** bits) for bits in (-20, 56))
    assert law(smallest, 100, SeededEntropy(0)).tolist() == [0] * 100
    assert 2**54 < np.abs(law(largest, 100, SeededEntropy(0))).mean() < 2**58
    for value in (0, -1, Fraction(-1, 3), smallest * (1 - Fraction(1, 10**9))):
        with pytest.raises(UsageError, match="at least"):
            law(value, 3, SeededEntropy(0))
    for value in (1.0, float("nan"), "1", None):
        with pytest.raises(UsageError, match="exact number"):
            law(value, 3, SeededEntropy(0))
    with pytest.raises(NumericError, match="coarser grid"):
        law(largest * (1 + Fraction(1, 10**9)), 3, SeededEntropy(0))


@pytest.mark.parametrize("law", LAWS)
def test_integers_of_numpy_are_taken_exactly(law):
    assert np.array_equal(
        law(np.int64(2**50), 9, SeededEntropy(8)), law(2**50, 9, SeededEntropy(8))
    )
    assert not np.array_equal(law(2**50, 9, SystemEntropy()), law(2**50, 9, SystemEntropy()))


DIGESTS = {
    rounded_gaussian: "c63e6bc0c684c5d4 0c9320e6e9ee3abc f1ab24311690a18f 705eb1e166e6d4ce",
    discrete_gaussian: "ac2878215ad33205 4581e0e0e21e0438 cf4271a74ec5d096 259bf7d2abb0e641",
    discrete_laplace: "0e059cb4ed22480d e15b3a7aeed7f5d2 d1bb9787577543c0 bac13aedb4be992a",
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("place", range(4))
def test_a_seed_gives_the_same_integers_on_every_machine_and_in_every_version(law, place):
    std = [Fraction(1, 8), Fraction(37, 10), Fraction(2**10), Fraction(2**40)][place]
    samples = law(parameter(law, std), 40_000, SeededEntropy(1))
    found = hashlib.sha256(samples.astype("<i8").tobytes()).hexdigest()
    assert found.startswith(DIGESTS[law].split()[place])


class ReferenceSampler:
    """Canonne, Kamath, Steinke (2020), algorithms 1 to 3, in rational arithmetic."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def bernoulli(self, p):
        return self.random.randrange(p.denominator) < p.numerator

    def bernoulli_exp(self, gamma):
        while gamma > 1:
            if not self.bernoulli_exp(Fraction(1)):
                return False
            gamma -= 1
        trial = 1
        while self.bernoulli(gamma / trial):
            trial += 1
        return trial % 2 == 1

    def laplace(self, scale):
        while True:
            low = self.random.randrange(scale.numerator)
            if not self.bernoulli_exp(Fraction(low, scale.numerator)):
                continue
            high = 0
            while self.bernoulli_exp(Fraction(1)):
                high += 1
            magnitude = (low + scale.numerator * high) // scale.denominator
            sign = self.random.randrange(2)
            if sign == 0 or magnitude:
                return -magnitude if sign else magnitude

    def gaussian(self, variance):
        scale = Fraction(math.isqrt(math.floor(variance)) + 1)
        while True:
            proposal = self.laplace(scale)
            if self.bernoulli_exp((abs(proposal) - variance / scale) ** 2 / (2 * variance)):
                return proposal


@pytest.mark.parametrize("std", [Fraction(1, 2), Fraction(1), Fraction(37, 10)], ids=float)
def test_agrees_with_the_slow_exact_reference(std):
    reference = ReferenceSampler(9)
    gaussian = np.array([reference.gaussian(std**2) for _ in range(8000)])
    assert_same_law(discrete_gaussian(std**2, SIZE, SeededEntropy(9)), gaussian)
    laplace = np.array([reference.laplace(std) for _ in range(8000)])
    assert_same_law(discrete_laplace(std, SIZE, SeededEntropy(9)), laplace)


@pytest.mark.parametrize(
    "std", [pytest.param(1.0, marks=pytest.mark.thorough), 3.7, 2.0**20, 2.0**40], ids=float
)
def test_agrees_with_opendp(std):
    opendp = pytest.importorskip("opendp.prelude")
    opendp.enable_features("contrib")
    domain = opendp.vector_domain(opendp.atom_domain(T="i64"))
    gaussian = opendp.m.make_gaussian(domain, opendp.l2_distance(T="f64"), scale=std)
    laplace = opendp.m.make_laplace(domain, opendp.l1_distance(T="i64"), scale=std)
    for law, other in ((discrete_gaussian, gaussian), (discrete_laplace, laplace)):
        ours = law(parameter(law, Fraction(std)), SIZE, SeededEntropy(10))
        assert_same_law(ours, np.array(other([0] * 20_000)))

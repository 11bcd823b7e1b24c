import numpy as np

import dpcov
from dpcov.published.estimate.entry_noise import MomentNoise
from dpcov.published.estimate.spectrum import spectrum
from dpcov.published.numbers import group_numbers
from tests.report.examples import make


def wigner(d, rng, variance):
    upper = np.triu(rng.normal(size=(d, d)), 1)
    return np.sqrt(variance) * (upper + upper.T + np.diag(rng.normal(size=d)) * np.sqrt(2))


def test_noise_alone_has_nothing_above_and_planted_components_are_counted():
    rng, d, variance = np.random.default_rng(2), 100, 1e-4
    noise = MomentNoise(diagonal=2 * variance, off_diagonal=variance)
    planted = np.diag([2.0, 1.5, 1.0] + [0.0] * (d - 3))
    for signal, expected in ((np.zeros((d, d)), 0), (planted, 3)):
        noisy = (signal + wigner(d, rng, variance) for _ in range(20))
        made = [spectrum(each, signal, noise=noise, means=np.zeros(d)) for each in noisy]
        assert [each.n_above for each in made].count(expected) >= 18


def test_unknown_noise_has_no_edge():
    made = spectrum(np.eye(2), np.eye(2), noise=None, means=np.zeros(2))
    assert made.edge is None
    assert made.n_above is None


def test_a_table_with_causes_shows_as_many_components():
    names, entropy = tuple(f"x{k}" for k in range(40)), dpcov.SeededEntropy(0)
    made = make(names, 20_000, epsilon="0.3", entropy=entropy)
    assert group_numbers(0, "all", made).estimates.spectrum.n_above == 4

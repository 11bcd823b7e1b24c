import numpy as np

import dpcov
from dpcov.published.estimate.entry_noise import MomentNoise
from dpcov.published.estimate.spectrum import spectrum
from dpcov.published.numbers import part_numbers
from tests.report.examples import make


def wigner(d, rng, variance=1.0):
    noise = rng.normal(size=(d, d)) * np.sqrt(variance)
    return (
        np.triu(noise, 1)
        + np.triu(noise, 1).T
        + np.diag(rng.normal(size=d)) * np.sqrt(2 * variance)
    )


def test_noise_alone_has_nothing_above_and_planted_components_are_counted():
    rng, d, variance = np.random.default_rng(2), 100, 1e-4
    noise = MomentNoise(diagonal=2 * variance, off_diagonal=variance)
    planted = np.zeros((d, d))
    planted[:3, :3] = np.diag([2.0, 1.5, 1.0])
    for signal, expected in ((np.zeros((d, d)), 0), (planted, 3)):
        counts = []
        for _ in range(20):
            noisy = signal + wigner(d, rng, variance)
            made = spectrum(noisy, signal, noise=noise, means=np.zeros(d))
            counts.append(made.n_above)
        assert counts.count(expected) >= 18


def test_unknown_noise_has_no_edge():
    made = spectrum(np.eye(2), np.eye(2), noise=None, means=np.zeros(2))
    assert made.edge is None
    assert made.n_above is None


def test_a_table_with_causes_shows_as_many_components():
    made = make(
        tuple(f"x{k}" for k in range(40)), 20_000, epsilon="0.3", entropy=dpcov.SeededEntropy(0)
    )
    estimates = part_numbers(0, "all", made).estimates
    assert estimates.spectrum.n_above == 4

from dataclasses import replace

import numpy as np
import pytest

import dpcov
from dpcov.estimate import UnitEstimate
from dpcov.report.numbers import part_numbers
from dpcov.report.spectrum import centered_edge, noise_edge, spectrum
from tests.report.examples import make


def wigner(d, rng, variance=1.0):
    noise = rng.normal(size=(d, d)) * np.sqrt(variance)
    return np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(rng.normal(size=d)) * np.sqrt(2 * variance)


@pytest.mark.parametrize("mean_square", [0.0, 0.9, 4.0])
def test_the_edge_is_where_noise_ends_after_centering(mean_square):
    rng, d = np.random.default_rng(1), 250
    means = np.full(d, np.sqrt(mean_square / d))
    center = np.hstack([-means[:, None], np.eye(d)])
    largest = [np.linalg.eigvalsh(center @ wigner(d + 1, rng) @ center.T)[-1] for _ in range(8)]
    assert np.mean(largest) == pytest.approx(centered_edge(2 * np.sqrt(d), mean_square), rel=0.08)


def test_noise_alone_has_nothing_above_and_planted_components_are_counted():
    rng, d, variance = np.random.default_rng(2), 100, 1e-4
    unit = UnitEstimate(
        matrix=np.eye(d), n_rows=1.0, noise_variance=2 * variance, off_diagonal_variance=variance
    )
    planted = np.zeros((d, d))
    planted[:3, :3] = np.diag([2.0, 1.5, 1.0])
    for signal, expected in ((np.zeros((d, d)), 0), (planted, 3)):
        counts = []
        for _ in range(20):
            noisy = signal + wigner(d, rng, variance)
            made = spectrum(noisy, signal, unit=unit, means=np.zeros(d), intercept=1.0)
            counts.append(made.n_above)
        assert counts.count(expected) >= 18


def test_unknown_noise_has_no_edge():
    unit = UnitEstimate(matrix=np.eye(2), n_rows=1.0, noise_variance=None)
    made = spectrum(np.eye(2), np.eye(2), unit=unit, means=np.zeros(2), intercept=1.0)
    assert made.edge is None
    assert made.n_above is None


def test_nuclear_noise_has_its_own_edge():
    made = make(("a", "b", "c", "d"), budget=dpcov.Budget(epsilon=1), mechanism="stratified-nuclear")
    from dpcov.estimate import unit_estimate

    unit = unit_estimate(made.statistics, made.manifest.n_rows)
    assert any(part.nuclear_scale for part in unit.parts)
    halved = replace(unit, parts=tuple(replace(p, nuclear_scale=p.nuclear_scale / 2) for p in unit.parts))
    assert noise_edge(halved, 4) == pytest.approx(noise_edge(unit, 4) / 2)


def test_a_table_with_causes_shows_as_many_components():
    made = make(tuple(f"x{k}" for k in range(40)), 20_000, epsilon="0.3", entropy=dpcov.SeededEntropy(0))
    estimates = part_numbers(0, "all", made).estimates
    assert estimates.spectrum.n_above == 4

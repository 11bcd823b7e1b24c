import numpy as np
import pytest

import dpcov
from dpcov.published.estimate.entry_noise import MomentNoise
from dpcov.published.numbers import group_numbers, numbers_by_group, spectrum
from dpcov.report.charts import number
from tests.published.estimate.noises import noise
from tests.report.examples import demo, grouped, make, plain


def seeded(rows, seed, rho="0.01", **options):
    budget, entropy = dpcov.Budget(rho=rho), dpcov.SeededEntropy(seed)
    return dpcov.second_moment(rows, norm_bound=4, budget=budget, entropy=entropy, **options)


def numbers(release):
    return group_numbers(0, "all", release)


def test_the_expected_errors_are_those_of_repeated_releases():
    rows = np.random.default_rng(0).normal(size=(2000, 20)) * np.geomspace(1, 0.05, 20)
    truth = seeded(rows, 0, rho=1000).second_moment("none")
    found = []
    for seed in range(20):
        made = seeded(rows, seed, mechanism="stratified")
        page = numbers(made)
        real = [np.linalg.norm(made.second_moment(post) - truth) for post in ("none", "shrink")]
        found.append(np.square([page.error_before, page.error_after, *real]))
    before, after, real_before, real_after = np.mean(found, axis=0)
    assert before == pytest.approx(real_before, rel=0.3)
    assert after == pytest.approx(real_after, rel=0.5)
    assert after < before / 2


def test_groups_are_parts_of_their_own():
    parts = list(numbers_by_group(grouped()))
    assert [part.name for part in parts] == ["all rows", "north", "<i>south</i>", "(other)"]
    assert [part.index for part in parts] == [0, 1, 2, 3]
    means = parts[1].estimates.means
    np.testing.assert_array_equal(means, grouped().group("north").mean())
    # Nobody is in the last group, and its noise says so.
    assert parts[3].estimates is None
    assert "noise" in parts[3].problem


def test_estimates_are_the_releases_own():
    estimates = numbers(demo()).estimates
    np.testing.assert_allclose(estimates.correlation, demo().correlation())
    deviations = np.sqrt(np.diagonal(demo().covariance()))
    np.testing.assert_allclose(estimates.deviations, deviations)
    made = plain()
    estimates = numbers(made).estimates
    deviations = np.sqrt(np.diagonal(made.second_moment()))
    np.testing.assert_allclose(estimates.deviations, deviations)
    assert estimates.means is None


def test_unknown_noise_is_not_invented():
    made = plain(3, mechanism="eigenvectors", budget=dpcov.Budget(epsilon=1))
    estimates = numbers(made).estimates
    assert estimates.correlation_noise is None
    assert estimates.deviation_noise is None
    assert estimates.spectrum.edge is None


def test_noise_alone_has_nothing_above_and_planted_components_are_counted():
    rng, d, variance = np.random.default_rng(2), 100, 1e-4
    law = MomentNoise(diagonal=2 * variance, off_diagonal=variance)
    planted = np.diag([2.0, 1.5, 1.0] + [0.0] * (d - 3))
    for signal, expected in ((np.zeros((d, d)), 0), (planted, 3)):
        noisy = (signal + noise(d, variance, rng) for _ in range(20))
        made = [spectrum(each, signal, noise=law, means=np.zeros(d)) for each in noisy]
        assert [each.n_above for each in made].count(expected) >= 18


def test_a_table_with_causes_shows_as_many_components():
    names, entropy = tuple(f"x{k}" for k in range(40)), dpcov.SeededEntropy(0)
    made = make(names, 20_000, epsilon="0.3", entropy=entropy, geometry="schema")
    assert numbers(made).estimates.spectrum.n_above == 4


WRITTEN = {
    0.0: "0",
    1.0: "1",
    0.5: "0.5",
    100.0: "100",
    -0.01234: "−0.0123",
    12345.6: "12,346",
    1234567.0: "1.23e6",
    0.00001: "1e−5",
    float("nan"): "–",
    float("inf"): "–",
}


@pytest.mark.parametrize(("value", "text"), WRITTEN.items())
def test_numbers_are_written_for_people(value, text):
    assert number(value) == text

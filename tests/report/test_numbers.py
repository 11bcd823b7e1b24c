import numpy as np
import pytest

import dpcov
from dpcov.published.estimate.unit import unit_estimate
from dpcov.published.numbers import group_numbers, numbers_by_group
from dpcov.published.stratum_table import stratum_rows
from dpcov.report.charts import number
from tests.report.examples import demo, grouped, make, plain


def seeded(rows, seed, rho="0.01", **options):
    budget, entropy = dpcov.Budget(rho=rho), dpcov.SeededEntropy(seed)
    return dpcov.second_moment(rows, norm_bound=4, budget=budget, entropy=entropy, **options)


def numbers(release):
    return group_numbers(0, "all", release)


def strata(release):
    return stratum_rows(release, unit_estimate(release.statistics, release.manifest.n_rows))


def test_the_expected_errors_are_those_of_repeated_releases():
    rows = np.random.default_rng(0).normal(size=(2000, 20)) * np.geomspace(1, 0.05, 20)
    truth = seeded(rows, 0, rho=1000).second_moment("none")
    found = []
    for seed in range(20):
        made = seeded(rows, seed, mechanism="stratified")
        errors = numbers(made).errors
        real = [np.linalg.norm(made.second_moment(post) - truth) for post in ("none", "shrink")]
        found.append(np.square([errors.before, errors.after, *real]))
    before, after, real_before, real_after = np.mean(found, axis=0)
    assert before == pytest.approx(real_before, rel=0.3)
    assert after == pytest.approx(real_after, rel=0.5)
    assert after < before / 2


def test_the_signal_of_a_stratum_is_its_size_without_noise():
    rows = np.random.default_rng(0).normal(size=(500, 10)) * np.geomspace(1, 0.1, 10)
    truth = np.linalg.norm(seeded(rows, 0, rho=1000).second_moment())
    squares = []
    for seed in range(20):
        (row,), left_out = strata(seeded(rows, seed))
        squares.append(row.signal**2)
        assert left_out == 0
    assert np.sqrt(np.mean(squares)) == pytest.approx(truth, rel=0.2)


def test_groups_are_parts_of_their_own():
    parts = list(numbers_by_group(grouped()))
    assert [part.name for part in parts] == ["all rows", "north", "<i>south</i>", "(other)"]
    assert [part.index for part in parts] == [0, 1, 2, 3]
    means = parts[1].estimates.table.means
    np.testing.assert_array_equal(means, grouped().group("north").mean())
    # Nobody is in the last group, and its noise says so.
    assert parts[3].estimates is None
    assert "noise" in parts[3].problem


def test_estimates_are_the_releases_own():
    estimates = numbers(demo()).estimates
    np.testing.assert_allclose(estimates.correlation, demo().correlation())
    deviations = np.sqrt(np.diagonal(demo().covariance()))
    np.testing.assert_allclose(estimates.table.deviations, deviations)
    made = plain()
    estimates = numbers(made).estimates
    deviations = np.sqrt(np.diagonal(made.second_moment()))
    np.testing.assert_allclose(estimates.table.deviations, deviations)
    assert estimates.table.means is None


def test_unknown_noise_is_not_invented():
    made = plain(3, mechanism="eigenvectors", budget=dpcov.Budget(epsilon=1))
    estimates = numbers(made).estimates
    assert estimates.correlation_noise is None
    assert estimates.table.deviation_noise is None
    assert estimates.spectrum.edge is None


def test_strata_are_named_by_the_length_of_their_rows():
    rows, _ = strata(make(tuple(f"x{k}" for k in range(30)), 20_000))
    assert all(row.label == "all rows" or row.label.startswith("length") for row in rows)
    noises = [row.noise for row in rows]
    assert noises == sorted(noises, reverse=True)


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

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.analysis import mean_intervals, variance_intervals
from dpcov.published.estimate.inhabited import left_open
from dpcov.published.estimate.unit import Part, UnitEstimate
from dpcov.published.words.numbers import WITHIN, group_numbers
from tests.releases import released_of
from tests.report.examples import demo, make, plain


def seeded(rows, seed, rho="0.01", **options):
    budget, entropy = dpcov.Budget(rho=rho), dpcov.SeededEntropy(seed)
    return dpcov.second_moment(rows, norm_bound=4, budget=budget, entropy=entropy, **options)


def numbers(release):
    return group_numbers(release)


def test_the_expected_errors_are_those_of_repeated_releases():
    rows = np.random.default_rng(0).normal(size=(2000, 20)) * np.geomspace(1, 0.05, 20)
    truth = seeded(rows, 0, rho=1000).second_moment("none")
    found = []
    for seed in range(20):
        made = seeded(rows, seed, mechanism="stratified")
        stated = [made.expected_error(post) for post in ("none", "shrink")]
        real = [np.linalg.norm(made.second_moment(post) - truth) for post in ("none", "shrink")]
        found.append(np.square([*stated, *real]))
    before, after, real_before, real_after = np.mean(found, axis=0)
    assert before == pytest.approx(real_before, rel=0.3)
    assert after == pytest.approx(real_after, rel=0.5)
    assert after < before / 2


def test_estimates_are_the_releases_own():
    estimates = numbers(demo()).estimates
    np.testing.assert_allclose(estimates.correlation, demo().correlation())
    deviations = np.sqrt(np.diagonal(demo().covariance_matrix()))
    # The spread of yes or no is that of its mean.
    two = np.array([column.kind in ("boolean", "category") for column in demo().features])
    np.testing.assert_allclose(estimates.deviations[~two], deviations[~two])
    means = demo().mean_vector()[two]
    spreads, errors = np.sqrt(means * (1 - means)), estimates.mean_noise[two]
    np.testing.assert_allclose(estimates.deviations[two], spreads)
    # By the slope of the root, and its curvature where the slope is small.
    moved = (np.abs(1 - 2 * means) + errors) * errors / (2 * spreads)
    np.testing.assert_allclose(estimates.deviation_noise[two], moved)
    made = plain()
    estimates = numbers(made).estimates
    deviations = np.sqrt(np.diagonal(made.second_moment()))
    np.testing.assert_allclose(estimates.deviations, deviations)
    assert estimates.means is None


@pytest.mark.parametrize("present", [0, 1])
@pytest.mark.parametrize("rho", [1000, 1])
def test_of_a_column_that_hardly_any_row_has_nothing_is_known_but_the_bounds(present, rho):
    """The mean of the only value, 95, was said to be 64 ± 18; a share is taken to be 1/200."""
    rng, columns = np.random.default_rng(0), dict.fromkeys("xy", dpcov.Numeric(lower=0, upper=100))
    rows = pd.DataFrame({"x": np.nan, "y": rng.uniform(0, 100, 800)})
    rows.loc[: present - 1, "x"] = 95.0
    made = released_of(columns, rows, rho=rho, missing="indicator")
    means, variances = mean_intervals(made, sampling=False), variance_intervals(made)
    assert (means["x"].lower, means["x"].upper) == (0, 100)
    assert (variances["x"].lower, variances["x"].upper) == (0, 2500)
    assert any("Hardly any row has a value" in note for note in means.notes)
    assert means["y"].upper - means["y"].lower < 60
    mean = numbers(made).estimates.means[0]
    within = WITHIN * numbers(made).estimates.mean_noise[0]
    assert within == pytest.approx(max(mean, 100 - mean))


@pytest.mark.parametrize("rho", ["1e-5", "1e-4", "1e-3"])
def test_no_error_is_stated_that_the_bounds_exclude(rho):
    """A mean from 0 to 100 was 0 ± 120, and a spread, at most 50, ± 380."""
    columns = {"x": dpcov.Numeric(lower=0, upper=100), "t": dpcov.Boolean()}
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.uniform(0, 100, 500), "t": rng.random(500) < 0.5})
    for seed in range(5):
        made = numbers(released_of(columns, rows, seed, rho=rho)).estimates
        within, of_spreads = WITHIN * made.mean_noise, WITHIN * made.deviation_noise
        largest = np.array([100, 1])
        assert (within <= np.maximum(made.means, largest - made.means) * (1 + 1e-9)).all()
        known = np.isfinite(of_spreads)
        reach = np.maximum(made.deviations, largest / 2 - made.deviations)
        assert (of_spreads[known] <= reach[known] * (1 + 1e-9)).all()


def test_unknown_noise_is_not_invented():
    made = plain(3, mechanism="eigenvectors", budget=dpcov.Budget(epsilon=1))
    estimates = numbers(made).estimates
    assert estimates.correlation_noise is None
    assert estimates.deviation_noise is None
    assert estimates.spectrum.edge is None


def test_a_table_with_causes_shows_as_many_components():
    names, entropy = tuple(f"x{k}" for k in range(40)), dpcov.SeededEntropy(0)
    made = make(names, 20_000, epsilon="0.3", entropy=entropy, geometry="schema")
    assert numbers(made).estimates.spectrum.n_above == 4


def test_what_strata_that_do_not_show_may_hold_counts_for_spreads(monkeypatch):
    """In groups of few rows those of longer rows were left out, and the ± of spreads was half."""
    plain = {"matrix": np.eye(2), "diagonal_variance": 1.0}
    shows = Part(**plain, trace=1.0, trace_variance=1e-4)
    parts = shows, Part(**plain, trace=0.4, trace_variance=0.04)
    unit = UnitEstimate(matrix=np.eye(2), n_rows=100, parts=parts)
    kept = UnitEstimate(matrix=np.eye(2), n_rows=100, parts=(shows,))
    assert left_open(unit, unit) == 0
    # As far as two of these, what is left out may hold 0.8 of what is kept: 0.4 and two deviations.
    assert left_open(unit, kept) == pytest.approx(0.4)
    before = numbers(demo()).estimates
    monkeypatch.setattr("dpcov.published.words.numbers.left_open", lambda unit, kept: 0.4)
    after = numbers(demo()).estimates
    is_number = np.array([column.kind == "numeric" for column in demo().features])
    expected = np.hypot(before.deviation_noise, 0.2 * before.deviations)
    np.testing.assert_allclose(after.deviation_noise[is_number], expected[is_number])


def test_what_goes_with_a_column_that_the_noise_hides_is_hidden():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=3000), "sex": rng.choice(["f", "m"], size=3000)})
    columns = {
        "x": dpcov.Numeric(lower=-4, upper=4),
        "sex": dpcov.Categorical(categories=("f", "m", "d")),
    }
    made = released_of(columns, table, 2, budget=dpcov.Budget(epsilon=4, delta="1e-6"))
    estimates = numbers(made).estimates
    lost = made.feature_names.index("sex=d")
    assert np.isnan(estimates.correlation_noise[lost]).all()
    assert estimates.hidden[lost].all() and estimates.hidden[:, lost].all()

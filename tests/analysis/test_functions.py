"""Intervals for functions of the covariance: R², a mediation, or what somebody writes."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.analysis import coefficient_intervals, correlation_intervals, function_intervals
from dpcov.analysis.intervals import eigenvalues
from dpcov.analysis.problems import InputError
from dpcov.errors import ReleaseError

NAMES = ["age", "dose", "recovery"]
SCHEMA = dpcov.Schema(columns={name: dpcov.Numeric(lower=-200, upper=200) for name in NAMES})


def rows(n=8000, seed=0):
    rng = np.random.default_rng(seed)
    age, error, other = rng.normal(size=(3, n))
    dose = 0.5 * age + error
    recovery = 0.4 * dose + 0.1 * age + other
    columns = {"age": 50 + 10 * age, "dose": 10 + 3 * dose, "recovery": 2 * recovery}
    return pd.DataFrame(columns)


def released(table, seed, epsilon=1, schema=SCHEMA):
    budget = dpcov.Budget(epsilon=epsilon, delta="1e-6")
    return dpcov.release(table, schema=schema, budget=budget, entropy=dpcov.SeededEntropy(seed))


@pytest.fixture(scope="module")
def release():
    return released(rows(), 1)


def known(covariance):
    """Numbers that have intervals of their own."""
    matrix = covariance.to_numpy()
    slopes = np.linalg.solve(matrix[:2, :2], matrix[:2, 2])
    return {"slope": slopes[1], "r": matrix[0, 1] / np.sqrt(matrix[0, 0] * matrix[1, 1])}


def r_squared(covariance):
    matrix = covariance.to_numpy()
    along = matrix[:2, 2]
    return along @ np.linalg.solve(matrix[:2, :2], along) / matrix[2, 2]


def indirect(covariance):
    matrix = covariance.to_numpy()
    return known(covariance)["slope"] * matrix[0, 1] / matrix[0, 0]


def test_matrices_are_simulated_in_blocks_that_fit_into_memory(release, monkeypatch):
    def measured():
        tracemalloc.start()
        found = function_intervals(release, indirect, draws=1_000).rows[0]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found, peak

    whole, much = measured()
    monkeypatch.setattr(eigenvalues, "_AT_ONCE", 500)
    blocks, little = measured()
    assert little < much / 4
    assert blocks.upper - blocks.lower == pytest.approx(whole.upper - whole.lower, rel=0.1)
    # Every block has numbers of its own: those of one again and again would tell less.
    assert blocks.std_error != function_intervals(release, indirect, draws=55).rows[0].std_error


@pytest.mark.parametrize("sampling", [True, False])
def test_they_are_those_that_a_coefficient_and_a_correlation_have(release, sampling):
    found = function_intervals(release, known, sampling=sampling, draws=300)
    assert found.names == ("slope", "r")
    slope = coefficient_intervals(release, "recovery", ["dose", "age"], sampling=sampling)["dose"]
    r = correlation_intervals(release, ["age", "dose"], sampling=sampling)["age", "dose"]
    for own, other in ((found["slope"], slope), (found["r"], r)):
        # What scaling rows down did is counted in other ways.
        assert own.std_error / other.std_error == pytest.approx(1.0, abs=0.25)
        assert own.privacy_std / other.privacy_std == pytest.approx(1.0, abs=0.25)
        assert own.estimate == pytest.approx(other.estimate, abs=other.std_error / 2)


def test_they_hold_for_the_table_and_for_a_population():
    table, large = rows(seed=2), rows(400_000, seed=3).cov()
    held = []
    for seed in range(10):
        of_table = released(table, seed)
        sample = rows(seed=100 + seed)
        of_sample = released(sample, seed)
        for function in (r_squared, indirect):
            (about_table,) = function_intervals(of_table, function, sampling=False, draws=100)
            (about_people,) = function_intervals(of_sample, function, draws=100)
            held += [
                about_table.lower <= function(table.cov()) <= about_table.upper,
                about_people.lower <= function(large) <= about_people.upper,
            ]
    # 95 % of 40 are 38, with a deviation of 1.4.
    assert sum(held) >= 34


def test_a_function_is_asked_of_the_features_that_are_named(release):
    seen = []

    def spread(covariance):
        seen.append(covariance)
        return covariance.loc["age", "age"]

    (line,) = function_intervals(release, spread, ["age", "dose"], draws=20)
    assert line.name == "spread"
    assert {tuple(each.columns) for each in seen} == {("age", "dose")}
    assert line.estimate == pytest.approx(100, rel=0.1)
    (unnamed,) = function_intervals(release, lambda covariance: covariance.iloc[0, 0], draws=20)
    assert unnamed.name == "value" and unnamed.estimate == pytest.approx(line.estimate)
    # The first is the release's own, then come 20 with noise, and 20 with sampling, too.
    spreads = [each.loc["age", "age"] for each in seen[1:]]
    away = (np.abs(some - np.median(some)) for some in (spreads[:20], spreads[20:]))
    noise, both = (1.1 * np.quantile(each, 0.95) / 1.96 for each in away)
    assert (line.privacy_std, line.std_error) == pytest.approx((noise, both))
    assert line.upper - line.estimate == pytest.approx(1.96 * both, rel=1e-3)
    again = function_intervals(release, spread, ["age", "dose"], draws=20)
    assert (again.lower, again.upper) == (line.lower, line.upper)


def test_few_simulations_that_are_far_away_do_not_stretch_an_interval(release):
    """One that noise had made nearly singular made the interval of R² eight times as long."""
    calls = iter(range(401))

    def rarely_far(covariance):
        return covariance.loc["age", "dose"] + 1e6 * (next(calls) % 50 == 49)

    (far,) = function_intervals(release, rarely_far)
    (usual,) = function_intervals(release, lambda covariance: covariance.loc["age", "dose"])
    assert far.upper - far.lower < 1.3 * (usual.upper - usual.lower)
    assert far.privacy_std < 1.3 * usual.privacy_std


def test_what_the_noise_may_leave_undefined_has_no_ends():
    table = rows()
    table["age"] = table["dose"] * 4 + np.random.default_rng(4).normal(size=len(table)) / 100
    made = released(table, 2)
    found = function_intervals(made, known)
    assert np.all(np.isinf(found.lower)) and np.all(np.isinf(found.upper))
    # What is asked first is a covariance, though the release has none.
    assert np.linalg.eigvalsh(made.covariance_matrix(post="none"))[0] < 0
    (line,) = function_intervals(made, lambda x: np.linalg.cholesky(x)[2, 2])
    assert np.isfinite(line.estimate) and np.isinf(line.upper)

    def sometimes(covariance):
        if covariance.loc["age", "dose"] < 13:
            raise np.linalg.LinAlgError
        return 1.0

    (line,) = function_intervals(released(rows(), 1), sometimes)
    assert np.isinf(line.upper)


@pytest.mark.parametrize("undefined", [lambda x: 1 / 0, lambda x: (-1) ** 0.5, lambda x: {}])
def test_what_a_function_cannot_say_of_some_covariances_is_undefined(release, undefined):
    def sometimes(covariance):
        seen = covariance.loc["age", "dose"]
        return {"seen": seen} if seen < first else undefined(seen)

    def spread(covariance):
        return covariance.loc["age", "dose"]

    first = function_intervals(release, spread, draws=20)["spread"].estimate * 1.0001
    (line,) = function_intervals(release, sometimes, draws=20)
    assert (line.name, line.lower, line.upper) == ("seen", -np.inf, np.inf)


@pytest.mark.parametrize("without_sampling", [True, False])
def test_what_is_undefined_with_or_without_sampling_has_no_ends(release, without_sampling):
    calls = iter(range(41))

    def half(covariance):
        # The first is the estimate, and 20 of 40 simulations have sampling.
        call = next(calls)
        return np.nan if call and (call <= 20) == without_sampling else float(call)

    (line,) = function_intervals(release, half, draws=20)
    assert (line.lower, line.upper) == (-np.inf, np.inf)


def test_numbers_are_told_apart_by_their_names(release):
    calls = iter(range(41))

    def in_any_order(covariance):
        made = {"small": np.float32(1), "large": np.array(100), "none": False}
        return made if next(calls) % 2 else pd.Series(dict(reversed(made.items())))

    found = function_intervals(release, in_any_order, draws=20)
    for name, number in {"small": 1.0, "large": 100.0, "none": 0.0}.items():
        line = found[name]
        assert (line.lower, line.estimate, line.upper) == (number, number, number)


def test_columns_that_no_row_has_both_of_are_refused():
    """Their covariance seemed to be zero, with a short interval."""
    table = rows()
    half = np.arange(len(table)) < len(table) // 2
    apart = table.assign(age=table.age.mask(half), dose=table.dose.mask(~half))
    for missing in ("pairwise", "at-random"):
        with pytest.raises(ReleaseError, match="'age' with 'dose'"):
            function_intervals(released(apart, 1), known, missing=missing)
    (line,) = function_intervals(released(apart, 1), lambda x: 1.0, ["age", "recovery"])
    assert line.upper == 1


def test_a_category_is_left_out_of_columns_of_levels():
    """All of them determine each other, so that no function had limits."""
    table = rows().assign(ward=np.where(np.arange(8000) % 3, "a", "b"))
    levels = dpcov.Categorical(categories=("a", "b"))
    schema = dpcov.Schema(columns=SCHEMA.columns | {"ward": levels})
    made = released(table, 1, schema=schema)
    seen = []
    found = function_intervals(made, lambda x: seen.append(list(x)) or known(x), draws=20)
    assert seen[0] == [*NAMES, "ward=b"] and np.isfinite(found.upper).all()
    assert "Reference category: ward=a." in found.notes


def test_a_variance_that_noise_hides_is_refused():
    with pytest.raises(ReleaseError, match="hides the variance"):
        function_intervals(released(rows(300), 1, epsilon="0.01"), known)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("r_squared", "give a function"),
        (lambda covariance: covariance.to_numpy(), "no real number"),
        (lambda covariance: covariance, "no real number"),
        (lambda covariance: 1j, "no real number"),
        (lambda covariance: {"a": np.complex128(1)}, "no real number"),
        (lambda covariance: None, "no real number"),
        (lambda covariance: "1.5", "no real number"),
    ],
)
def test_what_is_no_function_of_numbers_is_refused(release, function, words):
    with pytest.raises(InputError, match=words):
        function_intervals(release, function)


def test_a_mistake_in_a_function_is_its_own(release):
    with pytest.raises(KeyError, match="size"):
        function_intervals(release, lambda covariance: covariance.loc["size", "age"])

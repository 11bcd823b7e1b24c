import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace

import dpcov
from dpcov.analysis import (
    correlation_intervals,
    difference_intervals,
    mean_intervals,
    trend_intervals,
    variance_intervals,
)
from dpcov.analysis.intervals.differences import told_of
from dpcov.analysis.problems import InputError
from dpcov.data.geometry import Geometry, Scale
from tests.releases import released_of

SCHEMA = dpcov.Schema(
    columns={name: dpcov.Numeric(lower=-10, upper=10) for name in ("a", "b")}, title="years"
)
PLACE = Geometry(columns={n: Scale(center=0.0, scale=1.0) for n in ("a", "b")}, norm_bound=4.0)


def year(seed, correlation, mean=0.0, n_rows=1_000, rho="0.05"):
    rng = np.random.default_rng(seed)
    covariance = [[1.0, correlation], [correlation, 1.0]]
    rows = pd.DataFrame(rng.multivariate_normal([mean, 0], covariance, n_rows), columns=["a", "b"])
    return released_of(SCHEMA.columns, rows, seed, rho=rho, geometry=PLACE, mechanism="gaussian")


def test_intervals_of_differences_hold_and_are_not_too_wide():
    held, widths, errors = [], [], []
    for seed in range(60):
        line = difference_intervals(year(2 * seed, 0.2), year(2 * seed + 1, 0.5)).rows[0]
        held.append(line.lower <= 0.3 <= line.upper)
        widths.append(line.upper - line.lower)
        errors.append(line.estimate - 0.3)
    # Of 60 intervals at 95 %, 48 or fewer hold in one of a million cases.
    assert sum(held) > 48
    assert np.mean(widths) < 1.5 * 2 * 1.96 * np.std(errors)


def test_a_difference_counts_the_errors_of_both():
    first, second = year(1, 0.2), year(2, 0.5)
    line = difference_intervals(first, second).rows[0]
    parts = [correlation_intervals(each).rows[0] for each in (first, second)]
    assert line.estimate == pytest.approx(parts[1].estimate - parts[0].estimate)
    assert line.std_error == pytest.approx(np.hypot(parts[0].std_error, parts[1].std_error))
    turned = difference_intervals(second, first).rows[0]
    assert (turned.lower, turned.upper) == pytest.approx((-line.upper, -line.lower))


def test_the_screen_shows_the_clearest_of_many_differences():
    """Those of 300 columns were 44,850 lines."""
    rng = np.random.default_rng(0)
    columns = {f"x{place}": dpcov.Numeric(lower=-5, upper=5) for place in range(16)}
    tables = (pd.DataFrame(rng.normal(size=(300, 16)), columns=list(columns)) for _ in range(2))
    made = [released_of(columns, rows, seed, rho=1) for seed, rows in enumerate(tables)]
    table = difference_intervals(*made)
    told = told_of(table)
    lines = [line for line in told.splitlines() if line.startswith("x")]
    assert len(lines) == 100 and "and 20 are not: --json prints all." in told
    assert "of 120. " in told
    clearest = max(table, key=lambda row: abs(row.estimate) / row.std_error)
    assert lines[0].startswith(f"{clearest.name} ")


def test_a_trend_is_the_slope_of_a_weighted_line():
    releases = {2020 + k: year(k, 0.1, mean=0.2 * k, rho=str(0.02 + 0.05 * k)) for k in range(5)}
    found = trend_intervals(releases, what="means")
    lines = [mean_intervals(each).rows[0] for each in releases.values()]
    weight = [1 / line.std_error for line in lines]
    slope, _ = np.polyfit(list(releases), [line.estimate for line in lines], 1, w=weight)
    assert found["a"].estimate == pytest.approx(slope, rel=1e-6)
    for name, truth in (("a", 0.2), ("b", 0.0)):
        assert abs(found[name].estimate - truth) < 4 * found[name].std_error
    single = trend_intervals(
        {np.float32(time): each for time, each in releases.items()}, what="means"
    )
    assert single.rows == found.rows


def test_what_noise_hides_has_no_limits():
    lost = year(5, 0.3, n_rows=40, rho="0.0001")
    line = difference_intervals(lost, year(6, 0.3)).rows[0]
    assert line.upper - line.lower > 1 or not np.isfinite(line.upper)


def test_wrong_questions_are_refused():
    one, other = year(1, 0.2), year(2, 0.2)
    with pytest.raises(InputError, match="twice"):
        difference_intervals(one, one)
    columns = {"x": dpcov.Numeric(lower=0, upper=1), "g": dpcov.Categorical(categories=["a", "b"])}
    table = pd.DataFrame({"x": np.linspace(0, 1, 400), "g": ["a", "b"] * 200})
    whole, again = (released_of(columns, table, seed, rho=5, by="g") for seed in range(2))
    both = whole.combine(again)
    for parts in ((whole, whole.group("a")), (both, again), (again.group("a"), both.group("a"))):
        with pytest.raises(InputError, match="a group or release that is part of it"):
            difference_intervals(*parts, "x", what="means")
    assert difference_intervals(both.group("b"), both.group("a"), "x", what="means").names
    assert difference_intervals(whole.group("b"), whole.group("a"), "x", what="means").names
    with pytest.raises(InputError, match="must be one of"):
        difference_intervals(one, other, what="spectra")
    with pytest.raises(InputError, match="three releases"):
        trend_intervals({1.0: one, 2.0: other})
    for unclear in (float("inf"), "2026"):
        with pytest.raises(InputError, match="by time"):
            trend_intervals({1.0: one, 2.0: other, unclear: year(3, 0.2)})
    for ask in (dpcov.analysis.mean_intervals, dpcov.analysis.eigenvalue_intervals):
        with pytest.raises(InputError, match="Give a release"):
            ask(3)
    with pytest.raises(InputError, match="Give a release"):
        difference_intervals(one, 3)
    with pytest.raises(InputError, match="Give a release"):
        dpcov.analysis.coefficient_intervals(3, "a")


def test_weights_are_no_feature_and_their_notes_are_kept():
    columns = {name: dpcov.Numeric(lower=-5, upper=5) for name in ("a", "b")}
    columns["w"] = dpcov.Numeric(lower=0, upper=4)
    made = []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        rows = pd.DataFrame(rng.normal(size=(2_000, 2)), columns=["a", "b"])
        rows["w"] = rng.uniform(0.5, 4, size=len(rows))
        made.append(
            released_of(columns, rows, seed, rho="0.5", weights=dpcov.Weights(column="w", upper=4))
        )
    table = difference_intervals(*made, what="means")
    assert table.names == ("a", "b")
    assert any("design effect" in note for note in table.notes)
    both = made[0].unite(made[1])
    (line, _) = dpcov.analysis.mean_intervals(both).rows
    alone = [dpcov.analysis.mean_intervals(each).rows[0].sampling_std for each in made]
    assert 0.6 < line.sampling_std / np.mean(alone) < 0.82


def survey_year(seed, columns, table):
    return released_of(columns, table, seed, rho=1)


def aged(seed, factor=1, unit="", **more):
    rows = pd.DataFrame({"age": factor * np.random.default_rng(seed).uniform(20, 70, 2_000)})
    rows["dose"] = rows["age"] / factor / 10
    columns = {"age": dpcov.Numeric(lower=0, upper=110 * factor, unit=unit)}
    columns["dose"] = dpcov.Numeric(lower=0, upper=11)
    return survey_year(seed, columns | more, rows.assign(**dict.fromkeys(more, 1)))


def test_means_in_different_units_are_refused():
    years, months, unknown = aged(1, 1, "years"), aged(2, 12, "months"), aged(3)
    for what in ("means", "variances"):
        with pytest.raises(InputError, match=r"'age' is in months in one .* in years in another"):
            difference_intervals(years, months, what=what)
    with pytest.raises(InputError, match="'age' is in months"):
        trend_intervals({1: years, 2: months, 3: unknown}, what="means")
    assert difference_intervals(years, months, "dose", what="means").names == ("dose",)
    assert difference_intervals(years, unknown, what="means").names == ("age", "dose")
    # Correlations are the same in every unit.
    (line,) = difference_intervals(years, months).rows
    assert line.lower < 0 < line.upper


def test_variances_are_said_to_be_in_squared_units():
    """A variance of 209 squared years was said to be in years."""
    one, other = aged(1, 1, "years"), aged(2, 1, "years")
    assert mean_intervals(one).notes == ("Units: age in years.",)
    assert variance_intervals(one).notes == ("Units: age in years squared.",)
    found = difference_intervals(one, other, what="variances")
    assert found.notes == ("Units: age in years squared.",)
    told = difference_intervals(one, aged(3), what="variances").notes
    assert told == ("First: Units: age in years squared.",)
    # Which is subtracted from which nobody could tell from the table.
    assert str(found).startswith("differences of variances (second less first), 95 % intervals")


def test_what_only_some_releases_have_is_noted():
    one, other = aged(1), aged(2, seen=dpcov.Numeric(lower=0, upper=2))
    found = difference_intervals(one, other, what="means")
    assert found.names == ("age", "dose")
    assert "Left out, since only some of the releases have it: 'seen'." in found.notes
    assert not any(
        "Left out" in x for x in difference_intervals(one, other, "age", what="means").notes
    )
    assert difference_intervals(one, aged(3), what="means").notes == ()


SOUTH = dpcov.Categorical(categories=("DE",), groups={"south": ("IT", "ES")})
BORN = dpcov.Date(as_="age", reference="2015-01-01", lower=0, upper=110)
MEANINGS = {
    "other words for the same": (SOUTH, replace(SOUTH, groups={"south": ("ES", "IT")}), None),
    "other bounds": (BORN, replace(BORN, lower=10), None),
    "another group": (SOUTH, replace(SOUTH, groups={"south": ("IT", "ES", "PT")}), "'x=south' is"),
    "more categories": (SOUTH, replace(SOUTH, categories=("DE", "FR")), None),
    "all others": (
        replace(SOUTH, other="else"),
        replace(SOUTH, categories=("DE", "FR"), other="else"),
        "'x=else' is",
    ),
    "swapped labels": (
        dpcov.Categorical(categories=("1", "2"), labels={"1": "DE", "2": "IT"}),
        dpcov.Categorical(categories=("2", "1"), labels={"2": "DE", "1": "IT"}),
        "'x=DE', 'x=IT' are",
    ),
    "another day": (BORN, replace(BORN, reference="2025-01-01"), "'age(x)' is"),
    "another kind": (dpcov.Boolean(), dpcov.Numeric(lower=0, upper=1), "'x' is"),
}


@pytest.mark.parametrize(("first", "second", "said"), MEANINGS.values(), ids=MEANINGS)
def test_what_is_declared_differently_is_noted(first, second, said):
    rng, made = np.random.default_rng(4), []
    for seed, declared in enumerate((first, second)):
        cells = rng.choice(["DE", "IT", "ES", "PT", "FR"], 500)
        if isinstance(declared, dpcov.Date):
            cells = rng.choice(["1970-01-01", "1980-01-01"], 500)
        elif not isinstance(declared, dpcov.Categorical) or declared.labels:
            cells = rng.integers(0, 2, 500)
        made.append(survey_year(seed, {"x": declared}, pd.DataFrame({"x": cells})))
    notes = [
        note
        for note in difference_intervals(*made, what="means").notes
        if "declared differently" in note
    ]
    assert len(notes) == (said is not None)
    if said:
        assert notes[0].startswith(said)
    # Anybody may have written the file.
    forged = replace(made[1].manifest, schema_toml="[columns]\nx = 3\n")
    other = type(made[1])(forged, dict(made[1].statistics.arrays))
    assert not any(
        "declared" in x for x in difference_intervals(made[0], other, what="means").notes
    )

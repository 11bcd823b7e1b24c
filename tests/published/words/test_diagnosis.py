import re
from dataclasses import replace
from math import nan

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.data.geometry import Geometry, Scale
from dpcov.published.digits import percent, plus_minus, with_error
from dpcov.published.words import diagnosis
from dpcov.published.words.diagnosis import FALSE_ALARMS, GOOD, diagnose
from dpcov.published.words.numbers import WITHIN
from dpcov.published.words.summary import told_by_doctor
from dpcov.published.words.verdicts import ColumnVerdict, Diagnosis
from tests.published.mistakes import MISTAKES, TABLES, Mistake, released
from tests.releases import released as released_within
from tests.releases import released_of
from tests.report.examples import grouped, make, plain

IDS = [f"{mistake.table}-{mistake.column}" for mistake in MISTAKES]


def columns(made, source):
    return [column for column in made.diagnose().columns if column.source == source]


@pytest.mark.parametrize("geometry", ["private", "schema"])
@pytest.mark.parametrize("mistake", MISTAKES, ids=IDS)
def test_a_planted_mistake_is_named_with_its_column_and_cause(mistake, geometry):
    made = released(mistake.table, 7, [mistake], geometry=geometry)
    # In the geometry of the bounds noise hides what little spread there is.
    cause = mistake.cause if geometry == "private" else f"{mistake.cause}|{mistake.in_bounds}"
    named = [c for c in columns(made, mistake.column) if re.search(cause, c.cause)]
    assert named
    assert all(column.advice and not column.usable for column in named)
    if geometry == "private":
        others = {c.source for c in made.diagnose().columns if not c.usable} - {mistake.column}
        assert not others


def test_a_bound_is_named_as_it_was_declared():
    rng, bounds = np.random.default_rng(0), {"year": (1999.5, 2026.5), "share": (99.6, 200.25)}
    rows = pd.DataFrame({"year": np.full(5000, 2026.5), "share": np.full(5000, 99.6)})
    kinds = {name: dpcov.Numeric(lower=low, upper=high) for name, (low, high) in bounds.items()}
    kinds["x"] = dpcov.Numeric(lower=0, upper=1)
    made = released_of(
        kinds, rows.assign(x=rng.uniform(size=5000)), rho=1, missing="never", geometry="schema"
    )
    year, share, _ = (column.cause for column in made.diagnose().columns)
    assert "upper bound, 2026.5," in year and "lower bound, 99.6," in share
    unsure = made.numbers.estimates._replace(mean_noise=made.numbers.estimates.deviations + 100)
    found = diagnose(made, replace(made.numbers, estimates=unsure))
    assert not any("bound," in column.cause for column in found.columns)


def test_a_column_whose_spread_is_not_known_is_not_good():
    made = released("hospital", 7)
    numbers = made.numbers
    good = next(k for k, c in enumerate(made.diagnose().columns) if c.verdict == "good")
    for part, verdict in ((0.45, "good"), (0.55, "weak"), (2.0, "weak")):
        noise = numbers.estimates.deviation_noise.copy()
        noise[good] = part * numbers.estimates.deviations[good] / WITHIN
        found = replace(numbers, estimates=numbers.estimates._replace(deviation_noise=noise))
        assert diagnose(made, found).columns[good].verdict == verdict


@pytest.mark.parametrize(("lower", "upper"), [(0, 1000), (-1000, 0), (-1, 1000)])
def test_the_logarithm_is_advised_where_it_helps_and_a_schema_may_have_it(lower, upper):
    """It was advised of values at the upper end, and of those that it has no logarithm of."""
    rng, bounds = np.random.default_rng(0), dpcov.Numeric(lower=lower, upper=upper)
    end = -1 if upper == 0 else 1
    rows = pd.DataFrame({name: end * rng.exponential(0.01, 5000) for name in ("a", "b")})
    rows += lower if lower == -1 else 0
    found = (
        released_of(dict.fromkeys(rows, bounds), rows, rho=1, missing="never").diagnose().columns
    )
    assert all("of the bounds, at the" in column.cause for column in found)
    assert {"log1p" in column.advice for column in found} == {lower == 0}


@pytest.mark.parametrize("name", TABLES)
def test_no_column_of_a_clean_table_is_suspicious(name):
    """All five together: 120 releases, which may have 0.12 false alarms at the stated rate.

    Of a rate that is thirty times as large 97 of 100 such runs would have one.
    """
    made = [released(name, 100 + seed, n_rows=4000) for seed in range(24)]
    assert 120 * FALSE_ALARMS < 1
    found = [column for each in made for column in each.diagnose().columns]
    assert {column.verdict for column in found} <= {"good", "weak", "lost"}
    assert sum(column.usable for column in found) > 0.9 * len(found)


def truth(name, made, seed, n_rows):
    """Correlations of the rows that a release was made of, in the order of its features."""
    rng = np.random.default_rng(seed)
    values, _ = TABLES[name](rng, n_rows)
    rows = []
    for column in made.features:
        own = values[column.source]
        if column.kind == "category":
            rows.append(own == column.name.removeprefix(f"{column.source}="))
        elif column.kind == "missing":
            rows.append(own == "" if own.dtype.kind == "U" else np.isnan(own))
        else:
            lower, upper = column.bounds
            rows.append(np.nan_to_num(np.clip(own, lower, upper), nan=column.center))
    return np.corrcoef(np.array(rows, dtype=float))


def held(name, seed, n_rows, epsilon):
    made = released(name, seed, n_rows=n_rows, epsilon=epsilon)
    numbers = diagnosis.group_numbers(made)
    found = diagnose(made, numbers)
    usable = [place for place, column in enumerate(found.columns) if column.usable]
    sources = np.array([column.source for column in found.columns])
    pairs = [(i, j) for i in usable for j in usable if i < j and sources[i] != sources[j]]
    errors = np.abs(made.correlation_matrix() - truth(name, made, seed, n_rows))
    within = numbers.estimates.within
    assert found.worst == pytest.approx(max(within[pair] for pair in pairs))
    assert found.typical == pytest.approx(np.median([within[pair] for pair in pairs]))
    return [errors[pair] <= within[pair] for pair in pairs]


@pytest.mark.parametrize("epsilon", ["1", "4"])
def test_95_of_100_errors_of_correlations_are_within_what_is_stated(epsilon):
    """On ten tables: five kinds, of few and of many rows."""
    found = [
        np.mean([hit for seed in range(3) for hit in held(name, seed, n_rows, epsilon)])
        for name in TABLES
        for n_rows in (5_000, 30_000)
    ]
    assert np.mean(found) >= 0.95
    assert min(found) >= 0.85


def symmetric(rng):
    rows = rng.normal(size=(6000, 6)) + 0.5 * rng.normal(size=(6000, 1))
    rows[:, 5] = rng.standard_t(6, size=6000)
    return rows


def skewed(rng):
    rows = rng.normal(size=(6000, 6)) + 0.7 * rng.normal(size=(6000, 1))
    return np.exp(rows * np.linspace(0.2, 0.8, 6))


@pytest.mark.parametrize(("rows", "means", "spreads"), [(symmetric, 0.9, 0.9), (skewed, 0.9, 0.8)])
def test_widths_count_what_scaling_rows_down_takes(rows, means, spreads):
    """Widths of the noise alone hold 1 and 0.28 of the first, 0.68 and 0.21 of the second."""
    held = []
    for seed in range(12):
        made = rows(np.random.default_rng(seed))
        found = released_within(made, -100, 100, seed).diagnose()
        told = [(c.mean, c.mean_noise, c.spread, c.spread_noise) for c in found.columns]
        mean, mean_noise, spread, spread_noise = np.transpose(told)
        held.append(
            (
                np.abs(mean - made.mean(axis=0)) < 1.96 * mean_noise,
                np.abs(spread - made.std(axis=0)) < 1.96 * spread_noise,
            )
        )
    found = np.mean(held, axis=(0, 2))
    assert (found >= (means, spreads)).all()


def test_a_width_that_is_far_too_small_would_be_noticed(monkeypatch):
    monkeypatch.setattr("dpcov.published.words.numbers.WITHIN", 0.5)
    assert np.mean(held("census", 0, 30_000, "1")) < 0.9


def test_the_headline_counts_columns_and_states_errors():
    made = released("census", 0).diagnose()
    usable = sum(column.usable for column in made.columns)
    assert made.headline == (
        f"{usable} of {len(made.columns)} columns can be used; their correlations are within "
        f"±{plus_minus(made.typical)} (typical), ±{plus_minus(made.worst)} (worst)."
    )
    assert made.headline.rstrip(".") in repr(released("census", 0))
    assert made.headline in released("census", 0).summary()


def test_worse_bounds_do_not_make_a_better_headline():
    """What an error relative to the matrix did."""
    wide = dpcov.Numeric(lower=-50_000, upper=50_000)
    told = [
        released("hospital", 0, mistakes, geometry="schema").diagnose()
        for mistakes in ([], [Mistake("hospital", "age", "", kind=wide)])
    ]
    assert sum(c.usable for c in told[1].columns) < sum(c.usable for c in told[0].columns)


def test_what_noise_hides_is_said_in_the_columns_own_unit():
    few = released("hospital", 0, n_rows=300)
    lost = next(c for c in few.diagnose().columns if c.name == "height")
    assert lost.verdict == "lost"
    assert "too few rows" in lost.cause
    assert 10 < lost.smallest < 200
    # A number near zero is no value that few rows have.
    small = dpcov.Numeric(lower=-0.5, upper=0.5)
    near = Mistake("hospital", "age", "", lambda age, rng: age / 1e5, small)
    wide = released("hospital", 0, [near], n_rows=5000, geometry="schema")
    for source in ("temperature", "age"):
        assert "bounds are too wide" in columns(wide, source)[0].cause


def test_a_rare_level_is_named():
    kind = dpcov.Categorical(categories=("surgery", "medicine", "children", "eyes", "burns"))
    rare = Mistake("hospital", "ward", "", kind=kind)
    made = released("hospital", 0, [rare])
    found = {column.name: column for column in columns(made, "ward")}
    assert found["ward=burns"].verdict == "lost"
    assert "this level" in found["ward=burns"].cause
    assert found["ward=burns"].advice == "Merge it with another level."
    assert found["ward=eyes"].verdict == "good"


def test_what_scaling_took_of_a_column_with_a_long_tail_is_said_and_no_logarithm_has_one():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(50, 10, (8000, 5)), columns=list("abcde"))
    rows["income"] = rng.lognormal(8, 1.6, 8000)
    kinds = dict.fromkeys("abcde", dpcov.Numeric(lower=0, upper=100))
    for transform in (None, "log1p"):
        income = dpcov.Numeric(lower=0, upper=10**6, transform=transform)
        terms = {"budget": dpcov.Budget(epsilon=2, delta="1e-6"), "missing": "never"}
        made = released_of({**kinds, "income": income}, rows, **terms)
        *others, last = made.diagnose().columns
        assert all(not column.cause for column in others)
        # Its correlations are known, and half of its spread may be missing.
        assert last.within <= GOOD and last.verdict == ("good" if transform else "weak")
        if transform is None:
            assert WITHIN * last.spread_noise > last.spread / 2
            assert re.match(r"Scaling down took about [4-9]\d % of its variance", last.cause)
            assert last.advice.startswith("Where it has a long tail") and "log1p" in last.advice
            scales = {name: Scale(center=50.0, scale=20.0) for name in kinds}
            place = Geometry(columns={**scales, "income": Scale(center=5e3, scale=1e4)})
            again = released_of({**kinds, "income": income}, rows, geometry=place, **terms)
            advice = again.diagnose().columns[-1].advice
            assert "a geometry of its own (--geometry private)" in advice and "log1p" in advice
        else:
            assert not last.cause


def test_rare_levels_and_columns_that_are_mostly_missing_are_told_of_together():
    """A share in every sentence made a sentence for every level and column of a survey."""
    rng, n = np.random.default_rng(0), 20_000
    shares = np.array([0.003, 0.007, 0.012, 0.02, 0.03])
    levels = [f"l{place}" for place in range(6)]
    table = pd.DataFrame({"kind": rng.choice(levels, n, p=[*shares, 1 - shares.sum()])})
    for name, share in {"p": 0.6, "q": 0.7, "r": 0.8}.items():
        table[name] = np.where(rng.random(n) < share, np.nan, rng.normal(50, 10, n))
    columns = {"kind": dpcov.Categorical(categories=levels)}
    columns |= {name: dpcov.Numeric(lower=0, upper=100) for name in "pqr"}
    made = released_of(columns, table, rho="0.002")
    causes = {column.name: column.cause for column in made.diagnose().columns}
    assert {causes[name] for name in "pqr"} == {"More than half of its values are missing."}
    rare = [cause for cause in causes.values() if "rows have this level" in cause]
    assert len(rare) >= 3 and set(rare) == {"Fewer than 5 % of rows have this level."}


@pytest.mark.parametrize(("deviations", "named"), [(3.7, False), (4.5, True)])
def test_a_column_is_suspicious_beyond_what_noise_makes_of_any_of_them(
    monkeypatch, deviations, named
):
    made = released("laboratory", 7)
    missing = {"ferritin": (0.5 + 0.01 * deviations, 0.01)}
    monkeypatch.setattr(type(made), "missing", lambda self: missing)
    assert [c.source for c in made.diagnose().columns if "half of its values" in c.cause] == [
        "ferritin"
    ] * named


def test_a_level_that_noise_hides_is_not_called_rare():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"smoker": rng.random(2000) < 0.3})
    table["ward"] = rng.choice(["north", "south", "west"], 2000)
    table["age"] = rng.integers(20, 90, 2000)
    budget = dpcov.Budget(epsilon="0.01", delta="1e-6")
    for seed in range(20):
        made = released_within(table, 0, 120, seed, budget=budget, missing="indicator")
        causes = [column.cause for column in made.diagnose().columns]
        assert not [cause for cause in causes if "ny row" in cause or "of rows have" in cause]
        assert "e+02 %" not in str(made.diagnose())


def test_nothing_is_said_where_the_noise_is_not_known_or_hides_all():
    unknown = plain(mechanism="eigenvectors", budget=dpcov.Budget(epsilon=1)).diagnose()
    assert {column.verdict for column in unknown.columns} == {"unknown"}
    assert "does not say" in unknown.headline
    hidden = make(("a", "b"), 50, epsilon="0.01").diagnose()
    assert hidden.headline == "None of 2 columns can be used: the noise hides them."
    one = replace(hidden, columns=hidden.columns[:1])
    assert one.headline == "None of 1 column can be used: the noise hides it."
    assert np.isnan(hidden.typical)
    assert all(column.hidden for column in hidden.columns)
    alone = make(("a",)).diagnose()
    assert alone.headline == "1 of 1 column can be used."


@pytest.mark.parametrize(("seed", "rows"), [(15, 400), (19, 400), (36, 250)])
def test_columns_cannot_be_used_where_no_correlation_is_known_to_a_half(seed, rows):
    found = make("abc", rows, epsilon="1", entropy=dpcov.SeededEntropy(seed)).diagnose()
    assert all(column.within > 0.5 and not column.hidden for column in found.columns)
    assert {column.verdict for column in found.columns} == {"lost"}
    assert found.headline == "None of 3 columns can be used: the noise hides them."


def test_without_means_none_has_an_error_and_sizes_are_root_mean_squares():
    found = plain().diagnose()
    assert all(np.isnan(column.mean_noise) for column in found.columns)
    told = told_by_doctor(found)
    assert "  rms  " in told and "spread" not in told.lower()
    # Nor is a level called rare, though few rows have it.
    kinds = {"ward": dpcov.Categorical(categories=tuple("abc")), "ill": dpcov.Boolean()}
    rows = pd.DataFrame({"ward": [*"aaaaaabbbc"] * 200, "ill": [True, False] * 1000})
    made = released_of(kinds, rows, rho="0.001", missing="never", intercept=False)
    level = made.diagnose().columns[2]
    assert (level.verdict, level.cause) == ("weak", "The noise is large beside its spread.")


def test_advice_is_given_once_where_noise_hides_the_number_of_rows():
    terms = {"epsilon": "0.01", "neighbors": "add-remove-one", "entropy": dpcov.SeededEntropy(0)}
    causes = {f"{c.cause} {c.advice}" for c in make(("a", "b"), 50, **terms).diagnose().columns}
    assert [cause.count("more rows or a larger budget") for cause in causes] == [1]


def test_it_is_a_frame_and_every_group_has_its_own():
    made = grouped()
    frame = made.diagnose().to_frame()
    assert list(frame.index) == list(made.feature_names)
    assert {"verdict", "cause", "advice", "mean", "within"} <= set(frame)
    assert made.group("north").diagnose().typical > made.diagnose().typical
    assert frame.loc["x0", "within"] <= GOOD


def test_the_same_is_said_once_of_all_columns_and_the_worst_first():
    made = released("census", 0, MISTAKES[5:8:2], n_rows=20_000)
    found = [(names, column.verdict) for names, column in made.diagnose().by_finding()]
    assert found == [(["income"], "suspicious"), (["region"], "suspicious")]
    few = released("hospital", 0, n_rows=800).diagnose()
    names, _ = next(each for each in few.by_finding() if each[1].verdict == "weak")
    assert len(names) > 1
    assert len({c.cause for c in few.columns if c.name in names}) == 1
    verdicts = [column.verdict for _, column in few.by_finding()]
    assert verdicts == sorted(verdicts, key=("suspicious", "lost", "weak").index)


@pytest.mark.parametrize("value", [0.0004, 0.01, 0.0301, 0.5])
def test_half_widths_are_rounded_up(value):
    assert value <= float(plus_minus(value)) <= value + 0.01


@pytest.mark.parametrize(
    ("value", "within", "written"),
    [
        (2024.4943, 0.00492, ("2024.4943", "0.0049")),
        (128.94, 0.351, ("128.94", "0.35")),
        (1_234_567.0, 1234.0, ("1,234,600", "1200")),
        (-0.00001, 0.2, ("0.00", "0.20")),
        (-12.3, 99.6, ("-12", "100")),
        (3e-9, 2e-9, ("3e-09", "2e-09")),
        (5.0, 0.0, ("5", "0")),
        (float("nan"), 1.0, ("–", "1")),
    ],
)
def test_numbers_end_with_the_last_digit_that_counts(value, within, written):
    assert with_error(value, within) == written


@pytest.mark.parametrize("unit", [1.0, 2.0**20, 2.0**-20])
def test_why_a_column_of_an_array_is_lost_does_not_depend_on_its_unit(unit):
    """In a large one there were too few rows, and in a small one bounds that nobody gave."""
    rows = np.random.default_rng(0).normal(size=(3000, 3)) * [1, 1, 1e-3]
    terms = {"budget": dpcov.Budget(rho=2), "entropy": dpcov.SeededEntropy(0)}
    made = dpcov.second_moment(unit * rows, norm_bound=9 * unit, **terms)
    first, _, last = made.diagnose().columns
    assert (first.verdict, last.verdict) == ("good", "lost")
    assert "small beside norm_bound" in last.cause


# Days of a season, which leave most of the variance behind, and days of a whole year.
@pytest.mark.parametrize("width", [0.3, 1.0])
@pytest.mark.parametrize(("moved", "told"), [(1.0, True), (0.0, False)])
def test_a_geometry_of_another_year_is_said_not_to_fit_where_a_column_moved(width, moved, told):
    random = np.random.default_rng(0)
    year = pd.DataFrame(random.normal(50, 10, (4000, 5))).add_prefix("x")
    year["interview"] = random.uniform(23.0, 23.0 + width, 4000)
    terms = {"lower": 0, "upper": 100, "budget": dpcov.Budget(epsilon=4, delta="1e-6")}
    first = released_within(year, **terms)
    year["interview"] += moved
    later = released_within(year, seed=1, geometry=first, **terms).diagnose()
    assert any("The mean of interview lies far" in remark for remark in later.remarks) == told
    # A table is not told from its own geometry.
    own = released_within(year, seed=1, **terms).diagnose()
    assert not any("geometry" in remark for remark in own.remarks)


def test_the_level_of_most_rows_is_not_told_as_far_from_its_center():
    """Levels are encoded around zero, so their shares are no distance."""
    random = np.random.default_rng(0)
    rows = pd.DataFrame({"x": random.normal(50, 10, 4000), "g": random.choice(list("aab"), 4000)})
    first = released_within(rows, 0, 100)
    later = released_within(rows, 0, 100, seed=1, geometry=first)
    assert later.mean()["g=a"] > 0.6
    assert not any("geometry" in remark for remark in later.diagnose().remarks)


@pytest.mark.parametrize(("n_rows", "told"), [(100, True), (3000, False)])
def test_a_site_that_brings_more_noise_than_its_rows_are_worth_is_named(n_rows, told):
    rows = np.random.default_rng(0).normal(50, 10, (3000, 3))
    large = released_within(rows, 0, 100, 1, geometry="schema")
    site = released_within(rows[:n_rows] + 1, 0, 100, 2, geometry="schema")
    whole = large.unite(site)
    remarks = [remark for remark in whole.diagnose().remarks if "brings" in remark]
    assert len(remarks) == told
    if told:
        assert site.fingerprint[:12] in remarks[0] and "3.2 % of the rows" in remarks[0]
        # Leaving it out has the effect that is named.
        noise = [np.median(each.diagnose().columns[0].mean_noise) for each in (large, whole)]
        left = float(re.search(r"would be (\d+) %", remarks[0])[1])
        assert 100 * noise[0] / noise[1] == pytest.approx(left, abs=3)
    assert not any("brings" in remark for remark in large.diagnose().remarks)


@pytest.mark.parametrize("bound", [2.0, 55.0, 100.0])
def test_rows_that_a_norm_bound_scales_down_are_remarked_on(bound):
    """Of arrays nobody but their owner knows how long rows are: the noisy trace tells."""
    rows = np.random.default_rng(0).normal(50, 10, size=(4_000, 2))
    budget = dpcov.Budget(epsilon=1, delta="1e-6")
    entropy = dpcov.SeededEntropy(1)
    made = dpcov.second_moment(rows, norm_bound=bound, budget=budget, entropy=entropy)
    found = made.diagnose()
    remarks, told = found.remarks, " ".join(told_by_doctor(found).split())
    assert [f"norm_bound, {bound:g}" in remark for remark in remarks] == [True] * (bound < 60)
    assert all(remark in told for remark in remarks)


@pytest.mark.parametrize(
    ("share", "written"),
    [(0.0123, "1.2 %"), (0.994, "99 %"), (0.996, "100 %"), (1, "100 %"), (1.04, "104 %")],
)
def test_shares_are_written_without_powers_of_ten(share, written):
    assert percent(share) == written


@pytest.mark.parametrize(("wrong", "said"), [(1, "1 looks like"), (2, "2 look like")])
def test_the_headline_counts_in_grammar(wrong, said):
    columns = [
        ColumnVerdict(f"x{k}", f"x{k}", "suspicious", "", "", *[nan] * 6) for k in range(wrong)
    ]
    assert said in Diagnosis(columns=tuple(columns), typical=nan, worst=nan).headline

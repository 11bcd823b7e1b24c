import itertools
import re
import shutil
import warnings
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpcov
from dpcov.analysis import PrivatePCA, PrivateRidge, correlation_intervals, mean_intervals
from dpcov.data.geometry import Geometry, Scale
from dpcov.errors import PrivacyWarning, ReleaseError, UsageError
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.published.estimate.correlation_noise import correlation_noise
from dpcov.published.estimate.entry_noise import covariance_noise, mean_noise, variance_noise
from dpcov.published.estimate.post import shrunk
from dpcov.published.estimate.unit import EntryNoise, Part, UnitEstimate
from dpcov.published.file.manifest import guarantee_record
from dpcov.published.reading.combined import joint_guarantee
from dpcov.published.reading.combined_unit import Weighted, merged
from dpcov.published.reading.encoded import noise_of
from dpcov.published.release import Release
from dpcov.published.words.numbers import group_numbers
from dpcov.published.words.summary import told_by_doctor
from dpcov.report import render_release
from tests.releases import ledger_in, released

N = 4_000
NAMES = ("height", "weight", "age")
SCHEMA = dpcov.Schema(
    columns={name: dpcov.Numeric(lower=-10, upper=10) for name in NAMES}, title="people"
)


def table(seed=0, n_rows=N):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_rows, 1))
    return pd.DataFrame(common + rng.normal(size=(n_rows, 3)) * (0.5, 1, 2) + 1, columns=NAMES)


ROWS = table()


def made(seed, rows=ROWS, *, schema=SCHEMA, rho="0.02", **terms):
    budget = terms.pop("budget", None) or dpcov.Budget(rho=rho)
    entropy = dpcov.SeededEntropy(seed)
    return dpcov.release(rows, schema=schema, budget=budget, entropy=entropy, **terms)


def by_ward(rows=ROWS):
    """Rows of two wards, and the terms of a release of each."""
    columns = {**SCHEMA.columns, "ward": dpcov.Categorical(categories=("a", "b"))}
    terms = {"schema": dpcov.Schema(columns=columns, title="people"), "by": "ward"}
    return rows.assign(ward=np.where(np.arange(N) % 3 == 0, "a", "b")), terms


def of_moments(seed, rows=ROWS, *, rho="0.02", **terms):
    """All of the budget is a matrix's: lengths of rows are not asked."""
    common = {"schema": SCHEMA, "budget": dpcov.Budget(rho=rho), "mechanism": "gaussian"}
    saved = dpcov.checkpoint(rows, **common, **terms)
    return dpcov.release(saved, entropy=dpcov.SeededEntropy(seed), **common)


def geometry(shift=0.0, factor=1.0):
    scales = {
        name: Scale(center=1.0 + shift, scale=factor * (1 + k)) for k, name in enumerate(NAMES)
    }
    return Geometry(columns=scales, norm_bound=6.0)


@pytest.fixture(scope="module")
def several():
    """Releases in different geometries, with different budgets."""
    places = ("schema", geometry(), geometry(), geometry(0.3, 1.5), "private")
    budgets = ("0.02", "0.02", "0.1", "0.05", "0.2")
    terms = zip(places, budgets, strict=True)
    return [made(seed, geometry=g, rho=rho) for seed, (g, rho) in enumerate(terms)]


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(4)), split=st.integers(1, 3))
def test_neither_order_nor_brackets_matter(several, order, split):
    chosen = [several[place] for place in order]
    whole = several[0].combine(*several[1:4])
    left, right = chosen[:split], chosen[split:]
    parts = [each[0].combine(*each[1:]) if len(each) > 1 else each[0] for each in (left, right)]
    nested = parts[0].combine(parts[1])
    assert nested == whole and nested.fingerprint == whole.fingerprint
    assert np.array_equal(nested.covariance_matrix(), whole.covariance_matrix())


def test_a_release_twice_is_refused_also_inside_another(several):
    first, second, third = several[:3]
    for wrong in (
        lambda: first.combine(first),
        lambda: first.combine(second).combine(first),
        lambda: first.combine(second).combine(second.combine(third)),
    ):
        with pytest.raises(UsageError, match="twice"):
            wrong()
    with pytest.raises(UsageError, match="at least two"):
        first.combine()
    # The same noise in another file: the seed was the same.
    later = msgspec.structs.replace(first.manifest, created="2030-01-01T00:00:00+00:00")
    again = Release(later, first.statistics.arrays)
    assert again.fingerprint != first.fingerprint
    with pytest.raises(UsageError, match="twice"):
        first.combine(again)


def test_what_is_of_another_table_is_refused(several):
    first = several[1]
    other = dpcov.Schema(columns=SCHEMA.columns, title="others")
    wider = dpcov.Schema(
        columns={**SCHEMA.columns, "age": dpcov.Numeric(lower=-20, upper=20)}, title="people"
    )
    twice = dpcov.Schema(columns=SCHEMA.columns, title="people", rows_per_person=2)
    place = {"geometry": geometry()}
    for wrong, words in (
        (made(9, schema=other, **place), "titles"),
        (made(9, schema=wider, geometry="schema"), "schemas differ in 'age'"),
        (made(9, schema=twice, **place), "schemas differ in 'rows_per_person'"),
        (made(9, ROWS.head(3_000), **place), "numbers of rows"),
        (made(9, neighbors="add-remove-one", **place), "numbers of rows"),
        (made(9, mechanism="coinpress", geometry="schema"), "law of its noise"),
    ):
        with pytest.raises(UsageError, match=words):
            first.combine(wrong)
    for wrong in ("x", None):
        for join in (first.combine, first.unite):
            with pytest.raises(UsageError, match="Give releases"):
                join(wrong)


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        (({"rho": "0.1"}, {"rho": "0.2"}), ZCDP(rho=Fraction(3, 10))),
        (({"epsilon": 1}, {"epsilon": 2}), PureDP(epsilon=Fraction(3))),
        (({"epsilon": 1}, {"rho": "0.2"}), ZCDP(rho=Fraction(7, 10))),
    ],
)
def test_guarantees_add_up(budgets, expected):
    parts = [
        made(seed, budget=dpcov.Budget(**each), geometry=geometry())
        for seed, each in enumerate(budgets)
    ]
    assert parts[0].combine(parts[1]).guarantee.promise == expected


def test_gaussian_noise_under_delta_adds_up_as_one_mechanism():
    budget = dpcov.Budget(epsilon=1, delta="1e-6")
    parts = [made(seed, budget=budget, geometry=geometry()) for seed in (0, 1)]
    promise = parts[0].combine(parts[1]).guarantee.promise
    assert isinstance(promise, ApproxDP) and promise.delta == Fraction(1, 10**6)
    # 1/m² is twice that of one release: less than twice the epsilon.
    assert Fraction("1.454") < promise.epsilon < Fraction("1.456")


@pytest.mark.parametrize("noise", [None, SimpleNamespace(family="laplace")])
def test_noise_of_another_law_under_delta_adds_up_by_basic_composition(noise):
    parts = [made(seed, budget=dpcov.Budget(epsilon=1, delta="1e-6")) for seed in (0, 1)]
    stated = SimpleNamespace(noise=noise)
    members = [
        SimpleNamespace(guarantee=part.guarantee, manifest=part.manifest, statistics=stated)
        for part in parts
    ]
    expected = ApproxDP(epsilon=Fraction(2), delta=Fraction(2, 10**6))
    assert joint_guarantee(members).promise == expected


def test_the_file_holds_every_release_as_it_is(several, tmp_path):
    whole = several[1].combine(several[2], several[4])
    whole.save(tmp_path / "whole.dpcov")
    again = dpcov.load(tmp_path / "whole.dpcov")
    assert again == whole
    assert {member.fingerprint for member in again.members} == {
        several[place].fingerprint for place in (1, 2, 4)
    }
    assert np.array_equal(again.covariance_matrix(), whole.covariance_matrix())
    assert several[2].fingerprint[:12] in again.summary()
    manifest, arrays = whole.manifest, dict(whole.statistics.arrays)
    arrays.pop("0.trace")
    with pytest.raises(ReleaseError, match="contradict"):
        Release(manifest, arrays)


def errors(release, truth, noise):
    return (release.covariance_matrix("none") - truth)[np.triu_indices(3)] / noise


@pytest.mark.parametrize("places", [(0, 0), (0, 1), (1, 2)])
def test_the_stated_noise_is_the_noise(places):
    # Standardized errors of the combination have variance one: 480 numbers, so within 0.68 to 1.32
    # (five standard deviations), where the noise of one member would give two.
    rooms = (geometry(), geometry(0.4, 1.6), "schema")
    truth, found, alone = np.cov(ROWS.T.to_numpy(), ddof=0), [], []
    for seed in range(80):
        both = [
            of_moments(1_000 * k + seed, geometry=rooms[place]) for k, place in enumerate(places)
        ]
        one = both[0].combine(both[1])
        units = np.outer(one.half_ranges, one.half_ranges)
        means = (one.mean_vector() - one.centers) / one.half_ranges
        noise = covariance_noise(means, truth / units, noise_of(one)) * units
        found.append(errors(one, truth, noise[np.triu_indices(3)]))
        alone.append(errors(both[0], truth, noise[np.triu_indices(3)]))
    assert 0.68 < np.mean(np.square(found)) < 1.32
    assert abs(np.mean(found)) < 5 / np.sqrt(480)
    assert np.mean(np.square(alone)) > 1.4 or places != (0, 0)


def test_the_noise_is_that_of_one_release_at_the_whole_budget():
    place = geometry()
    one = made(0, rho="0.04", geometry=place).unit
    two = made(1, geometry=place).combine(made(2, geometry=place)).unit
    three = made(1, rho="0.01", geometry=place).combine(made(2, rho="0.03", geometry=place)).unit
    for unit in (two, three):
        assert unit.noise.diagonal == pytest.approx(one.noise.diagonal, rel=1e-3)
        assert unit.noise.off_diagonal == pytest.approx(one.noise.off_diagonal, rel=1e-3)
        assert unit.parts[0].trace_variance == pytest.approx(one.parts[0].trace_variance, rel=1e-3)


def test_intervals_of_mixed_geometries_hold(several):
    whole = several[0].combine(*several[1:])
    tables = [correlation_intervals(whole, sampling=False), mean_intervals(whole, sampling=False)]
    truth = np.corrcoef(ROWS.T.to_numpy())
    pairs = [truth[i, j] for i, j in itertools.combinations(range(3), 2)]
    for lines, values in zip(tables, (pairs, ROWS.mean().to_numpy()), strict=True):
        widths = lines.upper - lines.lower
        assert np.all((lines.lower - widths < values) & (values < lines.upper + widths))
        assert np.all(np.isfinite(widths))


def test_a_combination_does_what_a_release_does(several):
    whole = several[3].combine(several[4])
    assert whole.diagnose().typical <= several[3].diagnose().typical
    assert "Made of" in whole.summary()
    assert render_release(whole).startswith(b"<!doctype html>")
    model = PrivateRidge.from_release(whole, target="weight")
    assert np.isfinite(model.coef_).all()
    assert PrivatePCA.from_release(whole).components_.shape == (3, 3)
    for post in ("none", "psd", "clip", "projection", "shrink", "threshold"):
        assert np.isfinite(whole.covariance_matrix(post)).all()
    assert whole.sample(10, seed=1).num_rows == 10
    assert whole.expected_error("shrink") is not None


def test_private_numbers_of_rows_are_averaged():
    parts = [
        made(seed, neighbors="add-remove-one", geometry=geometry(), rho="0.05") for seed in (0, 1)
    ]
    whole, counts = parts[0].combine(parts[1]), [part.n_rows for part in parts]
    assert min(counts) <= whole.n_rows <= max(counts)
    assert whole.unit.count_variance < min(part.unit.count_variance for part in parts)


@pytest.mark.parametrize("budget", [dpcov.Budget(rho="0.05"), dpcov.Budget(epsilon=4)])
def test_private_numbers_of_rows_of_different_tables_are_refused(budget):
    terms = {"neighbors": "add-remove-one", "geometry": geometry(), "budget": budget}
    one, other = (made(seed, ROWS.head(n), **terms) for seed, n in ((0, N), (1, 1_000)))
    with pytest.raises(UsageError, match="different numbers of rows"):
        one.combine(other)
    assert one.unite(other).n_rows == pytest.approx(5_000, abs=300)


def test_sites_that_are_nearly_empty_do_not_add_rows_to_a_union():
    """Noisy numbers below one became one, and were added up."""
    terms = {"neighbors": "add-remove-one", "geometry": "schema", "rho": "0.05"}
    sites = [made(seed, ROWS[2 * seed : 2 * seed + 2], **terms) for seed in range(12)]
    large = made(99, ROWS, **terms)
    whole, every = large.unite(*sites), [large, *sites]
    noisy = [int(site.statistics.arrays["row_count"].sum()) for site in every]
    assert min(noisy) < 0 and whole.n_rows == sum(noisy)
    added = sum(site.unit.matrix * site.n_rows for site in every)
    np.testing.assert_allclose(whole.unit.matrix * whole.n_rows, added, rtol=1e-9)


def test_a_union_whose_rows_the_noise_of_one_site_hides_can_be_shown():
    """What one site tells of the rows that it scaled down was looked for around unknown means."""
    rows, relation = np.random.default_rng(0).exponential(size=(200, 2)), "add-remove-one"
    budgets = [dpcov.Budget(rho=rho) for rho in ("10", "0.0001")]
    told, noisy = (
        released(rows, -20, 20, seed, budget=budget, neighbors=relation)
        for seed, budget in enumerate(budgets)
    )
    whole = told.unite(noisy)
    assert told.stretch is not None and not whole.knows_means
    assert "The noise exceeds the number of rows" in told_by_doctor(whole.diagnose())
    assert "None of 2 columns can be used: the noise hides them." in whole.summary()


def test_groups_are_combined_one_by_one():
    rows, terms = by_ward()
    parts = [made(seed, rows, geometry="schema", **terms) for seed in (0, 1)]
    whole = parts[0].combine(parts[1])
    assert whole.group_names == parts[0].group_names
    group, alone = whole.group("a"), [part.group("a") for part in parts]
    assert len(group.members) == 2 and group == alone[0].combine(alone[1])
    assert (
        np.isfinite(group.covariance_matrix()).all()
        and np.isfinite(whole.covariance_matrix()).all()
    )


def test_other_laws_of_noise():
    budget = dpcov.Budget(epsilon=4)
    for mechanisms in (("laplace", "laplace"), ("stratified-nuclear",) * 2, ("nuclear", "laplace")):
        parts = [
            made(seed, budget=budget, mechanism=name, geometry=geometry())
            for seed, name in enumerate(mechanisms)
        ]
        whole = parts[0].combine(parts[1])
        noise = [part.unit.noise.off_diagonal for part in (*parts, whole)]
        assert noise[2] < min(noise[:2]) * 1.001
        assert whole.unit.laplace_part == max(part.unit.laplace_part for part in parts)
        assert np.isfinite(whole.correlation_matrix()).all()


def test_disjoint_tables_are_put_together():
    tables = [table(1, 1_000), table(2, 3_000) + 0.5]
    parts = [
        made(seed, rows, rho=rho, geometry=geometry(shift))
        for seed, (rows, rho, shift) in enumerate(zip(tables, ("0.5", "1"), (0, 0.2), strict=True))
    ]
    whole = parts[0].unite(parts[1])
    rows = pd.concat(tables)
    assert whole.n_rows == whole.manifest.n_rows == len(rows)
    assert whole.guarantee.promise == ZCDP(rho=Fraction(1))
    # Hundreds of rows a noise: within a few percent.
    assert np.allclose(whole.mean_vector(), rows.mean(), atol=0.1)
    assert np.allclose(whole.covariance_matrix("none"), np.cov(rows.T.to_numpy(), ddof=0), atol=0.3)
    assert whole == parts[1].unite(parts[0])
    again = [made(9, tables[0], rho="0.5", geometry=geometry())]
    with pytest.raises(UsageError, match=r"numbers of rows.*--disjoint"):
        parts[0].combine(parts[1])
    with pytest.raises(UsageError, match="neither can be made of the other"):
        parts[0].combine(again[0]).unite(parts[1])
    with pytest.raises(UsageError, match="twice"):
        whole.unite(parts[0])


MISSING = ROWS.mask(np.random.default_rng(5).random(ROWS.shape) < (0.2, 0.1, 0.0))


@pytest.mark.parametrize("places", [(0, 0), (1, 2), (0, 2)])
def test_moments_are_those_over_the_values_that_are_present(places):
    # In one geometry and in several: a missing value is the center of each, which is elsewhere.
    rooms, pairs = ("schema", geometry(0, 1.5), geometry(0.8, 2)), np.triu_indices(3, 1)
    found, stated = [], []
    for seed in range(60):
        one, other = (
            of_moments(1_000 * k + seed, MISSING, rho="1", geometry=rooms[place])
            for k, place in enumerate(places)
        )
        both = one.combine(other)
        units, law = both.half_ranges, noise_of(both)
        means, covariance = both.mean_vector(), both.covariance_matrix("none")
        found.append([*means, *both.correlation_matrix("none")[pairs]])
        encoded = (means - both.centers) / units
        noise = correlation_noise(encoded, covariance / np.outer(units, units), law)
        stated.append([*(mean_noise(encoded, law) * units), *noise[pairs]])
    # Every independent noise is that on means over present values.
    assert len(law.others) == (places != (0, 0))
    assert all(np.array_equal(own.shares, law.shares) for own in law.alone())
    truth = np.array([*MISSING.mean(), *MISSING.corr().to_numpy()[pairs]])
    wrong, std = np.array(found) - truth, np.mean(stated, axis=0)
    assert np.all(np.abs(wrong.mean(axis=0)) < 5 * std / np.sqrt(60))
    # 180 numbers each: a standard deviation is 5 %.
    spread = wrong.std(axis=0) / std
    for part in (spread[:3], spread[3:]):
        assert 0.85 < np.sqrt(np.mean(part**2)) < 1.15
    shares = [share for share, _ in both.missing().values()]
    assert np.allclose(shares, MISSING.isna().mean(), atol=0.05)


def roomy(k):
    """Geometries in which rows are so short that there are several strata."""
    return Geometry(columns=geometry(k).columns, norm_bound=30.0)


def test_a_release_of_which_noise_alone_is_left_hides_no_other_noise():
    """Its empty strata leave none of its own; nothing is known of columns that no row has both."""
    apart = ROWS.assign(height=ROWS["height"][: N // 2], weight=ROWS["weight"][N // 2 :])
    one, lost = (
        made(k, apart, rho=rho, mechanism="stratified", geometry=roomy(k))
        for k, rho in enumerate(("10", "0.001"))
    )
    found = group_numbers(one.combine(lost)).estimates.correlation_noise
    assert found[0, 1] == group_numbers(one).estimates.correlation_noise[0, 1] == 1.0
    assert np.all(found[2, :2] < 0.1)


@pytest.mark.parametrize("other", [0, 1])
def test_a_site_that_noise_hides_may_have_wide_spreads(other):
    """In a geometry of its own, too: what its strata hold is not taken for nothing."""
    one, hidden = (
        made(k, table(k), rho=rho, mechanism="stratified", geometry=roomy(place))
        for k, (rho, place) in enumerate((("10", 0), ("0.0001", other)))
    )
    found = group_numbers(one.unite(hidden)).estimates
    # Or nothing is known.
    assert not np.any(found.deviation_noise <= 0.1 * found.deviations)


def test_a_combination_of_tables_with_missing_values_does_what_a_release_does():
    places = (geometry(), geometry(0.5, 1.5), "schema")
    parts = [made(s, MISSING, rho="1", geometry=place) for s, place in enumerate(places)]
    both = parts[0].combine(*parts[1:])
    truth = MISSING.corr().to_numpy()
    for post in ("none", "psd", "clip", "projection", "shrink", "threshold"):
        assert np.allclose(both.correlation_matrix(post), truth, atol=0.15)
    for table_, values in (
        (mean_intervals(both, sampling=False), MISSING.mean().to_numpy()),
        (correlation_intervals(both, sampling=False), truth[np.triu_indices(3, 1)]),
    ):
        widths = table_.upper - table_.lower
        assert np.all((table_.lower - widths < values) & (values < table_.upper + widths))
    model = PrivateRidge.from_release(both, target="weight")
    complete = MISSING.dropna()
    design = np.column_stack([np.ones(len(complete)), complete[["height", "age"]]])
    slopes = np.linalg.lstsq(design, complete["weight"], rcond=None)[0][1:]
    assert np.allclose(model.coef_, slopes, atol=0.15)
    assert np.allclose(both.mean_vector(missing="at-random"), MISSING.mean(), atol=0.15)
    assert both.group_names == () and both.summary()


def stating(release, **changes):
    """The same file with another guarantee."""
    record = release.manifest.guarantee
    promise = msgspec.structs.replace(record.promise, **changes.pop("promise", {}))
    record = msgspec.structs.replace(record, promise=promise, **changes)
    manifest = msgspec.structs.replace(release.manifest, guarantee=record)
    return Release(manifest, release.statistics.arrays)


def test_a_file_that_states_less_than_its_members_is_refused(several, tmp_path):
    whole = several[1].combine(several[2])
    assert whole.guarantee.promise == ZCDP(rho=Fraction(12, 100))
    for changes in (
        {"promise": {"rho": "1/10"}},
        {"promise": {"kind": "pure", "epsilon": "1/100", "rho": None}},
        {"rows_per_person": 2},
        {"neighbors": "add-remove-one"},
    ):
        with pytest.raises(ReleaseError, match="The file states"):
            stating(whole, **changes)
    # More than need be, such as an older rule gave, is no lie.
    assert stating(whole, promise={"rho": "2/10"}).guarantee.promise == ZCDP(rho=Fraction(1, 5))
    seeded = msgspec.structs.replace(whole.manifest, warnings=())
    with pytest.raises(ReleaseError, match="warnings"):
        Release(seeded, whole.statistics.arrays)
    manifest = msgspec.structs.replace(
        whole.manifest,
        combined=whole.manifest.combined[:1] * 2,
        members={
            f"{i}.{k}": v for i in (0, 1) for k, v in whole.manifest.combined[0].members.items()
        },
    )
    arrays = {
        name: whole.statistics.arrays[f"0.{name.partition('.')[2]}"] for name in manifest.members
    }
    with pytest.raises(ReleaseError, match="twice"):
        Release(manifest, arrays)


def test_releases_of_other_groups_or_datasets_are_refused(tmp_path):
    rows, levels = ROWS.assign(ward="a", room="c"), {"ward": ("a", "b"), "room": ("c", "d")}
    columns = SCHEMA.columns | {n: dpcov.Categorical(categories=x) for n, x in levels.items()}
    schema = dpcov.Schema(columns=columns, title="people")
    place = {"schema": schema, "geometry": "schema"}
    one = made(0, rows, by="ward", **place)
    for by in ("room", None):
        with pytest.raises(UsageError, match="groups"):
            one.combine(made(1, rows, by=by, **place))
    ledger, paid = ledger_in(tmp_path, "people", "others"), []
    for seed, name in enumerate(("people", "others", "people")):
        paid.append(made(seed, geometry="schema", ledger=ledger, dataset=name))
    with pytest.raises(UsageError, match="charged to different datasets"):
        paid[0].combine(paid[1])
    both = paid[0].combine(paid[2])
    assert both.manifest.is_charged and len(both.manifest.charges) == 2


def test_disjoint_tables_with_missing_values_are_put_together():
    tables = [table(1, 2_000), table(2, 2_000) + 1]
    for rows, often in zip(tables, (0.1, 0.4), strict=True):
        hidden = np.random.default_rng(3).random(len(rows)) < often
        rows.loc[hidden, "height"] = np.nan
    parts = [
        made(seed, rows, rho="2", geometry=geometry(shift, 1.5))
        for seed, (rows, shift) in enumerate(zip(tables, (0, 0.5), strict=True))
    ]
    whole, rows = parts[0].unite(parts[1]), pd.concat(tables)
    # Values of the first table count more: fewer of the second's are present.
    assert np.allclose(whole.mean_vector(), rows.mean(), atol=0.06)
    assert np.allclose(whole.correlation_matrix("none"), rows.corr(), atol=0.06)
    assert whole.missing()["height"][0] == pytest.approx(0.25, abs=0.04)


def test_groups_with_missing_values_are_combined_and_pooled():
    rows, terms = by_ward(MISSING)
    places = enumerate((geometry(0.5, 1.5), "schema"))
    parts = [made(seed, rows, rho="1", geometry=place, **terms) for seed, place in places]
    whole, own = parts[0].combine(parts[1]), rows.loc[rows["ward"] == "a", list(NAMES)]
    for group in (whole.group("a"), whole.group("a", pooled=True)):
        assert np.allclose(group.mean_vector(), own.mean(), atol=0.2)
        assert np.allclose(group.correlation_matrix(), own.corr(), atol=0.2)


def test_disjoint_releases_of_one_account_add_up(tmp_path):
    """Years of a panel stated the guarantee of one: whoever is in both has the sum."""
    book = ledger_in(tmp_path, "people", "others")
    releases = [
        made(seed, ledger=book, dataset=name)
        for seed, name in ((0, "people"), (1, "people"), (2, "others"))
    ]
    first, again, other = releases
    both, apart = first.unite(again), first.unite(other)
    assert both.guarantee.promise == ZCDP(rho=Fraction("0.04"))
    assert any("called 'people', so" in each for each in both.manifest.warnings)
    assert apart.guarantee == first.guarantee
    assert not any("called" in each for each in apart.manifest.warnings)
    # What somebody in both years is promised decides, also beside other people.
    assert first.unite(again, other).guarantee == both.guarantee
    path = tmp_path / "both.dpcov"
    both.save(path)
    assert dpcov.load(path).guarantee == both.guarantee
    less = msgspec.structs.replace(both.manifest, guarantee=first.manifest.guarantee)
    with pytest.raises(ReleaseError, match="promise no more than"):
        type(both)(less, dict(both.statistics.arrays))


@pytest.mark.parametrize("number", ["epsilon", "delta"])
def test_a_combination_that_states_less_in_one_number_is_refused(number):
    budget = dpcov.Budget(epsilon=1, delta="1e-6")
    both = made(0, budget=budget).combine(made(1, budget=budget))
    stated = both.guarantee
    less = replace(stated.promise, **{number: getattr(stated.promise, number) / 2})
    forged = guarantee_record(replace(stated, promise=less))
    with pytest.raises(ReleaseError, match="promise no more than"):
        type(both)(
            msgspec.structs.replace(both.manifest, guarantee=forged), dict(both.statistics.arrays)
        )


def test_accounts_of_one_name_in_two_ledgers_are_two(tmp_path):
    """Two hospitals that both followed the pages, with an account called patients."""
    sites = []
    for seed in range(2):
        book = ledger_in(tmp_path, "patients", file=f"{seed}.sqlite")
        sites.append(made(seed, ledger=book, dataset="patients"))
    first, second = sites
    united = first.unite(second)
    assert united.guarantee == first.guarantee
    assert not any("called" in each for each in united.manifest.warnings)
    warned = first.combine(second).manifest.warnings
    assert any("2 accounts called 'patients'" in each for each in warned)
    # An older file does not say when its account was opened.
    spent = msgspec.structs.replace(first.manifest.spent, opened=None)
    unsaid = msgspec.structs.replace(first.manifest, spent=spent, created=second.manifest.created)
    older = type(first)(unsaid, dict(first.statistics.arrays))
    assert b"opened" not in older.to_bytes() and b"opened" in first.to_bytes()
    assert older.unite(second).guarantee.promise == ZCDP(rho=2 * first.guarantee.promise.rho)


def test_groups_of_one_release_that_was_charged_are_united_without_a_warning(tmp_path):
    rows, terms = by_ward()
    one = made(0, rows, ledger=ledger_in(tmp_path, "people"), dataset="people", **terms)
    united = one.group("a").unite(one.group("b"))
    assert united.guarantee == one.guarantee
    assert not any("called" in each for each in united.manifest.warnings)
    with pytest.raises(UsageError, match="estimated together with others"):
        one.group("a", pooled=True).unite(one.group("b"))


def test_groups_of_two_releases_that_nobody_charged_are_united_with_a_warning():
    rows, terms = by_ward()
    one, other = (made(seed, rows, **terms) for seed in range(2))

    def warned(release):
        return any("groups of 2 releases" in each for each in release.manifest.warnings)

    assert warned(one.group("a").unite(other.group("a")))
    assert warned(one.group("a").unite(other.group("b")))
    assert not warned(one.group("a").unite(one.group("b")))
    assert not warned(one.group("a").combine(other.group("a")))
    # Of whole releases somebody said that they are of other people.
    assert not warned(one.unite(other)) and not warned(one.unite(other).group("a"))


def test_releases_of_one_entry_show_that_a_ledger_was_copied_or_restored(tmp_path):
    book, copy = ledger_in(tmp_path, "people"), dpcov.Ledger(tmp_path / "copy.sqlite")
    shutil.copy(tmp_path / "ledger.sqlite", tmp_path / "copy.sqlite")
    first, other, again = (
        made(seed, ledger=ledger, dataset="people")
        for seed, ledger in enumerate((book, copy, book))
    )
    said = "2 of these releases were charged as entry 1 of dataset 'people'"
    assert any(said in each for each in first.combine(other).manifest.warnings)
    assert not any("entry" in each for each in first.combine(again).manifest.warnings)


@pytest.mark.parametrize("by_groups", [False, True])
def test_releases_that_a_copied_ledger_paid_for_in_one_second_add_up(tmp_path, by_groups):
    """They were taken for groups of one release."""
    book, copy = ledger_in(tmp_path, "people"), dpcov.Ledger(tmp_path / "copy.sqlite")
    shutil.copy(tmp_path / "ledger.sqlite", tmp_path / "copy.sqlite")
    rows, terms = by_ward() if by_groups else (table(), {})
    parts = []
    for seed, ledger in enumerate((book, copy)):
        if by_groups:
            terms["geometry"] = geometry(0.5, 1.5 + seed)
        one = made(seed, rows, ledger=ledger, dataset="people", **terms)
        one = one.group("ab"[seed]) if by_groups else one
        at_once = msgspec.structs.replace(one.manifest, created="2026-01-01T00:00:00+00:00")
        parts.append(type(one)(at_once, dict(one.statistics.arrays)))
    first, other = parts
    assert first.manifest.spent == other.manifest.spent
    united = first.unite(other)
    assert united.guarantee.promise == ZCDP(rho=2 * first.guarantee.promise.rho)
    assert any("called 'people', so" in each for each in united.manifest.warnings)


@pytest.mark.parametrize(
    ("field", "value"), [("title", "Harmless"), ("n_rows", 9_000_000), ("norm_bound", 77.0)]
)
def test_a_combination_describes_the_table_of_its_releases(several, field, value):
    combination = several[0].combine(*several[1:])
    manifest = msgspec.structs.replace(combination.manifest, **{field: value})
    with pytest.raises(ReleaseError, match=r"another (table|number of rows)"):
        Release(manifest, dict(combination.statistics.arrays))


def test_intervals_of_a_combination_do_not_depend_on_how_wide_bounds_are():
    columns = {name: dpcov.Numeric(lower=-10_000, upper=10_000) for name in NAMES}
    wide = dpcov.Schema(columns=columns, title="people")
    releases = [made(seed, schema=wide, rho="0.05", geometry="private") for seed in range(2)]
    combination = releases[0].combine(releases[1])
    assert releases[0].manifest.columns != releases[1].manifest.columns
    true = ROWS.corr().to_numpy()[np.triu_indices(3, 1)]
    for release in (*releases, combination):
        found = correlation_intervals(release)
        assert (found.upper - found.lower < 0.4).all()
        assert ((found.lower <= true) & (true <= found.upper)).all()


def test_releases_whose_rows_were_scaled_alike_lost_the_same():
    """Each measures it with noise of its own, which must not decide about their shares."""
    place = geometry(0.0, 0.4)
    place = msgspec.structs.replace(place, norm_bound=2.0)
    pair = [made(seed, rho="5", geometry=place) for seed in (1, 2)]
    lost = [each.statistics.lost for each in pair]
    assert min(lost) > 0.05 and lost[0] != lost[1]
    shares = re.findall(r"(\d+) % of release", " ".join(pair[0].combine(pair[1]).statistics.notes))
    assert shares == ["50", "50"]


@pytest.mark.parametrize(
    ("second", "least", "most"), [({"rho": "0.1"}, 80, 80), ({"geometry": "schema"}, 81, 99)]
)
def test_united_tables_say_what_part_of_rows_and_noise_each_brings(second, least, most):
    """The variance of noise goes with 1/ρ, whatever rows there are, and grows with scales."""
    terms = {"rho": "0.4", "geometry": geometry()}
    parts = [of_moments(0, **terms), of_moments(1, ROWS.head(N // 4), **terms | second)]
    told = " ".join(parts[0].unite(parts[1]).statistics.notes)
    found = dict(re.findall(r"(\d+) % of the rows, (\d+) % of the noise", told))
    assert least <= int(found["20"]) <= most and int(found["20"]) + int(found["80"]) == 100


def test_which_release_is_older_does_not_decide_what_noise_is_stated():
    """What scaling rows down took is in units of the found geometry, not of the oldest."""
    columns = {name: dpcov.Numeric(lower=-1_000, upper=1_000) for name in NAMES}
    wide = dpcov.Schema(columns=columns, title="people")
    rooms = ("schema", "private", "schema")
    oldest, found, youngest = (
        made(seed, schema=wide, rho="0.05", geometry=room) for seed, room in enumerate(rooms)
    )
    assert found.statistics.lost > 0
    stated = []
    for both in (oldest.combine(found), found.combine(youngest)):
        assert both.unit.sources
        stated.append(variance_noise(np.zeros(3), np.ones(3), noise_of(both)))
    np.testing.assert_allclose(*stated, rtol=0.1)


def of_rows(rows, seed, bound, rho="10"):
    budget, entropy = dpcov.Budget(rho=rho), dpcov.SeededEntropy(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return dpcov.second_moment(rows, norm_bound=bound, budget=budget, entropy=entropy)


@pytest.mark.parametrize("bound", [8.0, 10.0, 16.0])
@pytest.mark.parametrize("disjoint", [False, True])
def test_what_is_shrunk_is_as_near_as_what_is_not(bound, disjoint):
    # Releases whose rows are in other norm shells: their traces are no longer known together.
    rows = np.random.default_rng(0).normal((0, 1, 0), size=(3000, 3))
    halves = (rows[:500], rows[500:]) if disjoint else (rows, rows)
    for seed in range(0, 12, 2):
        first, other = of_rows(halves[0], seed, 8.0), of_rows(halves[1], seed + 1, bound)
        both = first.unite(other) if disjoint else first.combine(other)
        error = np.linalg.norm(both.second_moment("shrink") - rows.T @ rows / len(rows))
        assert error < 5 * both.expected_error()


def test_parts_of_members_whose_noise_is_unlike_stay_apart():
    def member(noise):
        traces = {"trace": 0.2, "trace_variance": noise, "largest_trace": 0.25}
        part = Part(matrix=np.diag([0.12, 0.08]), diagonal_variance=noise, **traces)
        law = EntryNoise(noise, noise / 2)
        unit = UnitEstimate(
            matrix=part.matrix, n_rows=N, noise=law, parts=(part,), parts_may_be_empty=True
        )
        return Weighted(unit=unit, share=0.5, base=1e-9)

    whole = merged([member(1e-9), member(16e-9)])
    assert len(whole.parts) == 2
    assert np.trace(shrunk(whole).matrix) == pytest.approx(0.2, rel=0.01)

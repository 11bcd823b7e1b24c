"""The linear map of a geometry: what it does to rows, and as a public file."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace as with_changes

import dpcov
from dpcov.analysis import mean_intervals
from dpcov.data.exact.linear import LinearMap
from dpcov.data.geometry import Geometry, Scale
from dpcov.errors import ReleaseError, SchemaError
from dpcov.mechanisms.geometry.whitening import _mixing, whitening_map
from dpcov.noise.entropy import SeededEntropy
from dpcov.published.estimate.entry_noise import MomentNoise
from dpcov.published.estimate.unit import EntryNoise
from tests.releases import released as released_within
from tests.releases import released_of

N, D = 4_000, 5
RNG = np.random.default_rng(2)
ROWS = RNG.normal(size=(N, 2)) @ RNG.normal(size=(2, D)) + 0.05 * RNG.normal(size=(N, D)) + 1.0
NAMES = [f"x{place}" for place in range(D)]
SCHEMA = dpcov.Schema(
    missing="never", columns=dict.fromkeys(NAMES, dpcov.Numeric(lower=-20, upper=20))
)
UNITS = Geometry(columns=dict.fromkeys(NAMES, Scale(center=0.5, scale=1.0)), norm_bound=12.0)
ENCODED = np.column_stack([np.ones(N), ROWS - 0.5])


def released(budget, geometry=UNITS, **more):
    terms = {"missing": "never", "geometry": geometry} | more
    return released_of(SCHEMA.columns, ROWS, 1, rho=budget, **terms)


def whitened(budget, before=None, rows=ROWS, **more):
    # Of moments: all of the budget is the matrix's.
    terms = {"schema": SCHEMA, "budget": dpcov.Budget(rho=budget), "mechanism": "gaussian"} | more
    linear, spreads = (None, None) if before is None else (before.linear, before.spreads)
    saved = dpcov.checkpoint(rows, geometry=with_changes(UNITS, linear=linear), **terms)
    made = dpcov.release(saved, entropy=SeededEntropy(1), **terms)
    facts = made.manifest
    known = (made.statistics, facts.columns, facts.norm_bound, facts.n_rows)
    # No row is longer than the norm bound.
    more = {"keeps_intercept": True, "mapped_by": linear, "spreads_before": spreads}
    return whitening_map(*known, **more)


def found(budget, **more):
    return whitened(budget, **more).linear


def test_a_variance_below_the_deviation_of_its_noise_counts_as_that():
    noise = MomentNoise(entries=EntryNoise(0.04, 0.02), features=np.eye(3))
    _, spreads, _ = _mixing(np.diag([1.0, 0.01, -0.5]), noise, None)
    assert (spreads**2).tolist() == pytest.approx([1.0, 0.2, 0.2])


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_mapped_rows_are_nearly_uncorrelated_and_keep_their_spreads(neighbors):
    mapped = ENCODED @ found("300", neighbors=neighbors).matrix.T
    before, after = (np.linalg.eigvalsh(np.corrcoef(rows.T)) for rows in (ROWS, mapped))
    assert before[-1] > 500 * before[0]
    assert after[-1] < 15 * after[0]
    assert np.abs(mapped.mean(axis=0)).max() < 0.1
    assert mapped.std(axis=0) == pytest.approx(ROWS.std(axis=0), rel=0.5)


def test_levels_stay_around_what_the_map_before_took_from_them():
    """Numbers have a mean of their own in it, and are around that."""
    table = pd.DataFrame(ROWS, columns=NAMES).assign(kind=np.where(ROWS[:, 0] > 0.5, "a", "b"))
    columns = SCHEMA.columns | {"kind": dpcov.Categorical(categories=("a", "b"))}
    made = released_of(columns, table, rho=300, missing="never", geometry="schema")
    facts, p = made.manifest, D + 2
    known = made.statistics, facts.columns, facts.norm_bound, facts.n_rows
    before = LinearMap.nearest(np.column_stack([np.full(p, -0.3), np.eye(p)]))
    after = whitening_map(*known, mapped_by=before).linear.matrix
    around = before.matrix[:, 0] - np.linalg.solve(after[:, 1:], after[:, 0])
    assert around[:D] == pytest.approx(ROWS.mean(axis=0) / 20, abs=0.01)
    assert around[D:] == pytest.approx([0.0, 0.0], abs=1e-3)


def test_what_noise_hides_is_not_stretched():
    """The smallest spread is a thousandth of the largest; noise of a tenth leaves it near that."""
    stretched = np.linalg.svd(found("0.01").matrix[:, 1:], compute_uv=False)
    assert stretched[0] < 10 * stretched[-1]
    clear = np.linalg.svd(found("300").matrix[:, 1:], compute_uv=False)
    assert clear[0] > 10 * clear[-1]


def test_a_second_matrix_shows_what_the_first_one_hides():
    """Where the noise of the first hides directions, and not most of them."""
    assert not whitened("0.01").goes_on
    assert not whitened("1", rows=np.random.default_rng(3).normal(size=(N, D))).goes_on
    first = whitened("1")
    second = whitened("1", first)
    assert first.goes_on
    conditions = [
        np.linalg.cond(np.cov(ENCODED @ each.linear.matrix.T, rowvar=False))
        for each in (first, second)
    ]
    assert conditions[1] < conditions[0] / 4
    # Those of the features are still the unit of the noise.
    np.testing.assert_array_equal(second.spreads, first.spreads)
    mapped = ENCODED @ second.linear.matrix.T
    assert np.abs(mapped.mean(axis=0)).max() < 0.3
    assert mapped.std(axis=0).max() < 1.5 * ROWS.std(axis=0).max()


def test_columns_keep_their_spreads_however_much_the_noise_hides():
    """Features that the map made short would lie below the noise that their intercept costs."""
    sizes = np.linalg.svd(found("0.01").matrix[:, 1:], compute_uv=False)
    assert 1.0 < sizes[0] < 2.0


def test_means_that_noise_drowns_one_by_one_are_taken_out():
    """30 means of 3 units each, beside noise of 3: together they are 30 times as long as one."""
    rng, count = np.random.default_rng(1), 30
    rows = 3.0 + rng.normal(size=(3_000, count))
    units = {f"x{place}": Scale(center=0.0, scale=1.0) for place in range(count)}
    terms = {"budget": dpcov.Budget(rho="0.001"), "neighbors": "add-remove-one"}
    terms |= {"mechanism": "gaussian", "geometry": Geometry(columns=units, norm_bound=18.0)}
    made = released_within(rows, -20, 20, 1, **terms)
    facts = made.manifest
    law = facts.norm_bound**2 * made.unit.noise.off_diagonal**0.5
    assert law > 1.0, "a single mean is drowned"
    known = (made.statistics, facts.columns, facts.norm_bound, facts.n_rows)
    assert whitening_map(*known) is None, "so is the number of rows, where it is not known better"
    found = whitening_map(*known, keeps_intercept=True).linear
    left = np.column_stack([np.ones(len(rows)), rows]) @ found.matrix.T
    assert np.linalg.norm(left.mean(axis=0)) < 0.5 * np.linalg.norm(rows.mean(axis=0))


def test_an_indicator_is_centered_where_it_is_more_than_noise():
    """So what is complete stays zero in all rows."""
    rows = ROWS.copy()
    rows[: N // 4, 0] = np.nan
    terms = {"budget": dpcov.Budget(rho="10"), "geometry": UNITS, "mechanism": "gaussian"}
    made = released_within(rows, -20, 20, 1, missing="indicator", **terms)
    facts = made.manifest
    columns = [column.kind for column in facts.columns[1:]]
    linear = whitening_map(made.statistics, facts.columns, facts.norm_bound, facts.n_rows).linear
    centers = linear.matrix[np.array(columns) == "missing", 0]
    assert centers[0] == pytest.approx(-0.25, abs=0.02)
    assert centers[1:].tolist() == [0.0] * (D - 1)
    complete = np.flatnonzero(np.array(["intercept", *columns]) != "missing")
    left_out = np.setdiff1d(np.arange(2 * D), linear.inhabited(complete))
    assert [columns[place] for place in left_out] == ["missing"] * (D - 1)


@pytest.mark.parametrize("share", [0.0, 0.05])
def test_indicators_of_rows_that_were_scaled_down_are_centered_at_their_share(share):
    """A row that lacks most values is long by its indicators, and its mean too small by that."""
    rng, count, n = np.random.default_rng(0), 20, 4_000
    rows = np.where(rng.random((n, count)) < share, 1.0, np.nan)
    terms = {"budget": dpcov.Budget(rho="0.5"), "mechanism": "gaussian"}
    units = {f"x{place}": Scale(center=0.0, scale=1.0) for place in range(count)}
    terms["geometry"] = Geometry(columns=units, norm_bound=3.0)
    made = released_within(rows, -2, 2, 1, missing="indicator", **terms)
    facts = made.manifest
    marks = [column.kind == "missing" for column in facts.columns[1:]]
    assert made.means_of_rows[marks].max() < 0.8, "rows were scaled down"
    linear = whitening_map(made.statistics, facts.columns, facts.norm_bound, facts.n_rows).linear
    assert linear.matrix[marks, 0].mean() == pytest.approx(share - 1, abs=0.05)


def test_no_indicator_is_centered_where_no_share_is():
    """Noise on the second moment of an indicator may say that rows were shorter than they were."""
    rng, count, n = np.random.default_rng(0), 30, 4_000
    rows = rng.choice([-2.0, 2.0], (n, count))
    rows[rng.random(n) < 0.3, 0] = np.nan
    units = {f"x{place}": Scale(center=0.0, scale=1.0) for place in range(count)}
    terms = {"mechanism": "gaussian", "geometry": Geometry(columns=units, norm_bound=1.5)}
    centers = []
    for seed in range(40):
        made = released_within(rows, -2, 2, seed, missing="indicator", rho="0.01", **terms)
        facts = made.manifest
        marked = [column.kind == "missing" for column in facts.columns[1:]].index(True)
        known = made.statistics, facts.columns, facts.norm_bound, facts.n_rows
        centers.append(-whitening_map(*known).linear.matrix[marked, 0])
    assert min(centers) >= -1e-3 and max(centers) <= 1 + 1e-3


def test_no_map_where_the_number_of_rows_drowns():
    assert whitened("1e-7", neighbors="add-remove-one") is None


def geometry(**more):
    made = LinearMap.nearest(np.column_stack([np.full(D, 0.1), np.eye(D) + 0.3]))
    return Geometry(columns=UNITS.columns, norm_bound=30.0, linear=replace(made, **more))


def test_a_file_says_it_all(tmp_path):
    known = geometry()
    known.save(tmp_path / "geometry.toml")
    assert Geometry.from_toml(tmp_path / "geometry.toml") == known
    one, other = released("100", known), released("100", tmp_path / "geometry.toml")
    assert one.covariance_matrix().tolist() == other.covariance_matrix().tolist()
    one.save(tmp_path / "one.dpcov")
    again = released("100", tmp_path / "one.dpcov")
    assert again.covariance_matrix().tolist() == one.covariance_matrix().tolist()
    # A seeded release hides nothing, and neither does what uses its geometry.
    terms = {"schema": SCHEMA, "budget": dpcov.Budget(rho=1), "geometry": tmp_path / "one.dpcov"}
    assert not dpcov.release(ROWS, **terms).is_private
    # Saved moments remember it.
    moments = dpcov.checkpoint(ROWS, **terms)
    del terms["geometry"]
    assert not dpcov.release(moments, **terms).is_private
    np.testing.assert_allclose(one.covariance("none"), np.cov(ROWS.T, ddof=0), atol=0.5)
    np.testing.assert_allclose(one.mean(), ROWS.mean(axis=0), atol=0.2)


def test_columns_may_come_in_another_order_next_year():
    """The map was applied by place, to other columns than those that it was found for."""
    known = Geometry(columns=UNITS.columns, norm_bound=30.0, linear=found("300"))
    turned = dpcov.Schema(
        missing="never", columns=dict.fromkeys(NAMES[::-1], dpcov.Numeric(lower=-20, upper=20))
    )
    frame = pd.DataFrame(ROWS, columns=NAMES)
    terms = {"budget": dpcov.Budget(rho="1"), "geometry": known, "entropy": SeededEntropy(1)}
    one, other = (dpcov.release(frame, schema=each, **terms) for each in (SCHEMA, turned))
    maps = [
        LinearMap(tuple(map(tuple, r.statistics.arrays["linear"].tolist())), 0).integers
        for r in (one, other)
    ]
    assert np.array_equal(maps[0][:, 1:], maps[1][:, :0:-1])
    assert np.array_equal(maps[0][:, 0], maps[1][:, 0])
    # A row that lacks a number has no place to be read from.
    rows = known.linear.numbers
    torn = replace(known.linear, numbers=(*rows[:-1], rows[-1][:-1]))
    for schema in (SCHEMA, turned):
        terms["geometry"] = with_changes(known, linear=torn)
        with pytest.raises(SchemaError, match="A linear map of these columns is"):
            dpcov.release(frame, schema=schema, **terms)
    truth = np.corrcoef(ROWS.T)
    assert np.abs(other.correlation().loc[NAMES, NAMES].to_numpy() - truth).max() < 0.05


@pytest.mark.parametrize("linear", [None, found("300")], ids=["scales", "map"])
def test_a_column_that_is_ignored_next_year_leaves_the_geometry(linear):
    """A date of last year made the geometry unfit, and without it the geometry was refused."""
    terms = {"budget": dpcov.Budget(rho=100), "entropy": SeededEntropy(1)}
    known = Geometry(columns=UNITS.columns, norm_bound=30.0, linear=linear)
    frame = pd.DataFrame(ROWS, columns=NAMES)
    before = dpcov.release(frame, schema=SCHEMA, geometry=known, **terms)
    fewer = dpcov.Schema(missing="never", columns=SCHEMA.columns | {"x1": dpcov.Ignored()})
    after = dpcov.release(frame.assign(x1=19), schema=fewer, geometry=before, **terms)
    assert after.statistics.lost < 0.05
    # As much squared length a column, beside the intercept.
    energies = [(r.manifest.norm_bound**2 - 1) / len(r.feature_names) for r in (before, after)]
    assert energies[1] == pytest.approx(energies[0])
    kept = ["x0", *NAMES[2:]]
    truth = frame[kept].corr().to_numpy()
    assert np.abs(after.correlation().loc[kept, kept].to_numpy() - truth).max() < 0.05
    none = SCHEMA.columns | dict.fromkeys(NAMES, dpcov.Ignored())
    none |= {"more": dpcov.Numeric(lower=0, upper=1)}
    with pytest.raises(SchemaError, match="ignores every column of the geometry"):
        other = dpcov.Schema(missing="never", columns=none)
        dpcov.release(frame.assign(more=1), schema=other, geometry=before, **terms)
    if linear is None:
        return
    # Rows with the column at its center, and under the map as short as can be, are as long as were.
    first, second = (
        np.array(r.statistics.arrays["linear"]) * 2.0**r.statistics.linear_exponent
        for r in (before, after)
    )
    rest = np.delete(first, 2, axis=1)
    np.testing.assert_allclose(
        second[:, 1:].T @ second[:, 1:], rest[:, 1:].T @ rest[:, 1:], rtol=1e-5
    )
    np.testing.assert_allclose(
        second[:, 1:].T @ second[:, 0], rest[:, 1:].T @ rest[:, 0], atol=1e-5
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"numbers": ((1, 0), (0, 1))},
            r"a linear map of 2 encoded columns.* --geometry private\)",
        ),
        ({"numbers": tuple((1,) * 6 for _ in range(5))}, "cannot be undone"),
        ({"numbers": tuple((2**60,) * 6 for _ in range(5))}, "too large"),
        ({"exponent": 2_000}, "too large"),
    ],
)
def test_a_map_that_is_none_is_refused(more, words):
    with pytest.raises(SchemaError, match=words):
        released("1", geometry(**more))


def test_a_map_names_columns_that_it_does_not_have():
    columns = {**SCHEMA.columns, "more": dpcov.Numeric(lower=-20, upper=20)}
    schema = dpcov.Schema(missing="never", columns=columns)
    with pytest.raises(SchemaError, match=r"has 6 \(new: more\)\. Use the schema"):
        geometry().apply(schema.encoded_columns)


def test_a_map_needs_a_norm_bound():
    with pytest.raises(SchemaError, match="norm bound"):
        Geometry(columns={}, linear=LinearMap(((1,),), 0))


@pytest.mark.parametrize("numbers", [np.ones((5, 6)), np.eye(5, 5), np.full((5, 6), 2**60)])
def test_a_release_with_another_map_is_not_read(numbers):
    made = released("1", geometry())
    arrays = {**made.statistics.arrays, "linear": numbers.astype(np.int64)}
    with pytest.raises(ReleaseError, match="contradict"):
        dpcov.Release(made.manifest, arrays)


AMPLE = dpcov.Budget(epsilon=4, delta="1e-6")


@pytest.mark.parametrize("related", [True, False])
def test_levels_are_mapped_as_numbers_are(related):
    """Questions with three answers that one thing decides, or that have nothing in common."""
    n, names = 20_000, [f"q{place}" for place in range(6)]
    rng = np.random.default_rng(4)
    own, shared = rng.normal(size=(n, 6)), rng.normal(size=n)
    score = 0.1 * own + shared[:, None] if related else own
    answers = np.array(["no", "so", "yes"])[np.digitize(score, [-0.5, 0.5])]
    numbers = own[:, :2] + shared[:, None]
    table = dict(zip((*names, "x", "y"), (*answers.T, *numbers.T), strict=True))
    made = released_within(pd.DataFrame(table), -20, 20, budget=AMPLE)
    map_ = np.linalg.inv(made.frame.back)[1:, 1:]
    levels = np.array([column.kind == "category" for column in made.encoded_features])
    mixed = np.abs(map_ - np.diag(np.diagonal(map_)))
    assert mixed[np.ix_(~levels, ~levels)].max() > 0.05
    assert mixed[np.ix_(levels, levels)].max() > 0.05
    # Levels of one question exclude each other; of two that share nothing noise alone mixes some.
    questions = np.array([column.source for column in made.encoded_features])
    pairs, same = levels & levels[:, None], questions == questions[:, None]
    assert (mixed[pairs & ~same].max() > 0.3 * mixed[pairs & same].max()) == related


def test_rows_of_a_rare_level_are_not_stretched():
    """Levels were once taken to vary by one under the maps that follow the first."""
    n, rng = 8_000, np.random.default_rng(3)
    table = pd.DataFrame(rng.normal(size=(n, 4)) @ rng.normal(size=(4, 4)), columns=list("abcd"))
    table["t"] = rng.random(n) < 0.02
    table["k"] = rng.choice(["x", "y", "z", "rare"], n, p=[0.5, 0.3, 0.195, 0.005])
    share, found, held = (table.k == "rare").mean(), [], []
    for seed in range(4):
        made = released_within(table, -10, 10, budget=AMPLE, seed=seed)
        line = mean_intervals(made, ["k=rare"])["k=rare"]
        found.append(line.estimate)
        held.append(line.lower <= share <= line.upper)
    assert np.mean(found) > 0.5 * share
    assert sum(held) >= 3


@pytest.mark.parametrize("n_numbers", [1, 2])
def test_levels_are_around_the_shares_that_the_survey_found(n_numbers):
    """A first matrix, for two numbers, maps them too; one number needs none."""
    rng, n = np.random.default_rng(6), 20_000
    shares = np.array([0.6, 0.3, 0.1])
    answers = np.array(["no", "so", "yes"])[rng.choice(3, (n, 4), p=shares)]
    numbers = {f"x{place}": rng.normal(3.0, 1.0, n) for place in range(n_numbers)}
    asked = {f"q{place}": each for place, each in enumerate(answers.T)}
    made = released_within(pd.DataFrame(asked | numbers), -20, 20, budget=AMPLE)
    has_first = any("takes correlations out" in note for note in made.statistics.notes)
    assert has_first == (n_numbers == 2)
    levels = np.flatnonzero([column.kind == "category" for column in made.encoded_features])
    units = np.array([column.half_range for column in made.encoded_features])[levels]
    assert made.mean_vector()[levels] == pytest.approx(answers_of(answers), abs=0.01)
    around = made.frame.around(levels)
    assert (around is None) == has_first
    if around is not None:
        assert around * units == pytest.approx(np.tile(shares, 4), abs=0.02)


def answers_of(answers):
    """Shares of the answers, question by question."""
    return np.concatenate(
        [[np.mean(each == label) for label in ("no", "so", "yes")] for each in answers.T]
    )

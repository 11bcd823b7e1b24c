"""Moments over the values that are present agree with those of the rows, pair by pair."""

import numpy as np
import pandas as pd
import pytest

from dpcov import Boolean, Budget, Categorical, Numeric, Schema, SeededEntropy, release
from dpcov.data.encode import Encoder
from dpcov.data.sources import open_source
from dpcov.published.estimate.at_random import Doubt, at_random
from dpcov.published.estimate.entry_noise import MomentNoise
from dpcov.published.estimate.post import find_post
from dpcov.published.estimate.present import Presence, PresentMoments
from dpcov.published.estimate.selections import Selections, levels_among, levels_of
from dpcov.published.estimate.unit import EntryNoise
from tests.data.reading import read_encoded

COLUMNS = {
    "a": Numeric(lower=-8, upper=6),
    "b": Numeric(lower=-5, upper=9),
    "c": Numeric(lower=-9, upper=9),
    "kind": Categorical(categories=("u", "v")),
}


def table(n=3_000, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    b = 1 + 0.6 * a + 0.8 * rng.normal(size=n)
    c = b - a + rng.normal(size=n)
    kind = np.where(a + rng.normal(size=n) > 0, "u", "v")
    rows = pd.DataFrame({"a": a, "b": b, "c": c, "kind": kind})
    for name, share in (("a", 0.1), ("b", 0.4), ("kind", 0.2)):
        rows.loc[rng.random(n) < share, name] = None
    return rows


def moments(schema, rows):
    """The exact second moment in encoded units, and the columns."""
    encoder = Encoder(schema)
    read = read_encoded(open_source(rows), schema, 10_000)
    encoded = np.vstack(list(read)) * encoder.norm_bound
    return encoded.T @ encoded / len(encoded), encoder.columns[1:]


def seen(schema, rows):
    moment, columns = moments(schema, rows)
    found = Presence.of(columns).moments(moment)
    units = np.array([column.half_range for column in columns])
    places = {column.name: place for place, column in enumerate(columns)}
    centers = np.array([column.center for column in columns])
    return found, places, units, centers


def test_pairs_of_other_rows_make_as_much_variance_as_is_said():
    """Correlations of 200 unrelated columns, each over the rows that have both."""
    rng, d, n = np.random.default_rng(0), 200, 4_000
    shares = np.triu(rng.uniform(0.2, 0.9, (d, d)), 1)
    shares += shares.T + np.eye(d)
    errors = np.triu(rng.normal(size=(d, d)) * np.sqrt((1 / shares - 1) / n), 1)
    largest = np.linalg.eigvalsh(errors + errors.T)[-1]
    said = PresentMoments(shares, np.zeros((d, d)), np.eye(d)).mixed(np.arange(d), n)
    assert said == pytest.approx(largest, rel=0.15)


def known(columns, rows):
    """The encoded columns, and what is read at random from the rows: pairs, and who predicts."""
    moment, encoded = moments(Schema(columns=columns), rows)
    presence = Presence.of(encoded)
    pairwise = presence.moments(moment)
    return encoded, (pairwise, presence, presence.predicts(pairwise))


def test_rows_times_a_matrix_are_read_from_it():
    found = Presence.of(moments(Schema(columns=COLUMNS), table())[1])
    matrix = np.random.default_rng(0).normal(size=(1 + len(found.units), 5))
    assert np.count_nonzero(found.units)
    np.testing.assert_allclose(found.of_rows(matrix), found.rows @ matrix, atol=1e-12)


def test_pairs_are_those_of_the_rows_in_which_both_are_present():
    rows = table()
    found, places, units, centers = seen(Schema(columns=COLUMNS), rows)
    levels = pd.DataFrame({f"kind={one}": (rows["kind"] == one).astype(float) for one in "uv"})
    wide = pd.concat([rows[["a", "b", "c"]].astype(float), levels], axis=1)
    wide.loc[rows["kind"].isna(), ["kind=u", "kind=v"]] = np.nan
    for one in wide:
        for other in wide:
            both = wide[[one, other]].dropna().to_numpy()
            i, j = places[one], places[other]
            expected = np.mean((both - both.mean(axis=0)).prod(axis=1)) if one != other else None
            if expected is None:
                expected = both[:, 0].var()
            assert found.shares[i, j] == pytest.approx(len(both) / len(rows), abs=1e-9)
            mean = found.means[i, j] * units[i] + centers[i]
            assert mean == pytest.approx(both[:, 0].mean(), abs=1e-9)
            assert found.covariance[i, j] * units[i] * units[j] == pytest.approx(expected, abs=1e-9)


def test_a_shared_indicator_counts_rows_in_which_none_is_missing():
    rows = table()
    schema = Schema(columns=COLUMNS, missing_together=[["a", "b"]])
    found, places, units, centers = seen(schema, rows)
    assert "a, b (missing)" in places and "a (missing)" not in places
    both = rows[["a", "b"]].astype(float).dropna()
    i, j = places["a"], places["b"]
    assert found.shares[i, i] == pytest.approx(len(both) / len(rows))
    assert found.mean[i] * units[i] + centers[i] == pytest.approx(both["a"].mean())
    expected = np.cov(both.T, ddof=0)
    block = found.covariance[np.ix_([i, j], [i, j])] * np.outer(units[[i, j]], units[[i, j]])
    np.testing.assert_allclose(block, expected, atol=1e-9)


def test_values_alone_are_improved_and_indicators_left_as_they_are():
    schema, rows = Schema(columns={n: COLUMNS[n] for n in "abc"}), table(500)[[*"abc"]]
    entropy = SeededEntropy(0)
    made = release(
        rows, schema=schema, budget=Budget(rho="0.05"), geometry="schema", entropy=entropy
    )
    marks = np.array([column.kind == "missing" for column in made.encoded_features])
    noisy, improved = (
        made._covariance_of_rows(find_post(post), made.unit) for post in ("none", "shrink")
    )
    np.testing.assert_array_equal(improved[marks], noisy[marks])
    assert not np.allclose(improved[~marks][:, ~marks], noisy[~marks][:, ~marks])


def test_columns_that_are_never_missing_have_no_indicator():
    columns = {**COLUMNS, "c": Numeric(lower=-9, upper=9, missing="never")}
    names = [column.name for column in Schema(columns=columns).encoded_columns]
    assert "c (missing)" not in names and "a (missing)" in names


def test_what_is_missing_at_random_is_made_up_for():
    """The planted estimate that leaves selection alone is off by several times as much."""
    rng = np.random.default_rng(3)
    n = 60_000
    age = rng.normal(size=n)
    y = 0.6 * age + 0.8 * rng.normal(size=n)
    z = 0.5 * y + 0.4 * age + 0.7 * rng.normal(size=n)
    rows = pd.DataFrame({"a": age, "b": y, "c": z})
    whole = rows.copy()
    for name in ("b", "c"):
        rows.loc[rng.random(n) < 1 / (1 + np.exp(-1.5 * age)), name] = np.nan
    columns, read = known({name: COLUMNS[name] for name in "abc"}, rows)
    filled = at_random(*read, Doubt())
    shown = [0, 2, 4]
    units = np.array([columns[place].half_range for place in shown])
    centers = np.array([columns[place].center for place in shown])

    def errors(found):
        mean = found.mean[shown] * units + centers - whole.mean().to_numpy()
        covariance = found.covariance[np.ix_(shown, shown)] * np.outer(units, units)
        return np.abs(mean).max(), np.abs(covariance - np.cov(whole.T)).max()

    assert errors(filled)[0] < 0.03 < 0.25 < errors(read[0])[0]
    assert errors(filled)[1] < 0.09 < 0.18 < errors(read[0])[1]


def test_what_is_missing_says_nothing_beside_what_decides_it():
    """A value and its own indicator never meet, which is no covariance of zero."""
    rng = np.random.default_rng(3)
    a = rng.normal(size=60_000)
    rows = pd.DataFrame({"a": a, "b": 0.8 * a + 0.6 * rng.normal(size=len(a))})
    whole, missing = rows["b"].copy(), rng.random(len(a)) < 1 / (1 + np.exp(-1.5 * a))
    rows.loc[missing, "b"] = np.nan
    columns, read = known({name: COLUMNS[name] for name in "ab"}, rows)
    found = at_random(*read, Doubt()).covariance
    b, mark = (next(i for i, c in enumerate(columns) if c.name == n) for n in ("b", "b (missing)"))
    correlation = found[b, mark] / np.sqrt(found[b, b] * found[mark, mark])
    assert correlation == pytest.approx(np.corrcoef(whole, missing)[0, 1], abs=0.01)
    assert found[b, mark] == found[mark, b]


def test_two_selections_take_what_their_precisions_say():
    rng = np.random.default_rng(0)
    taken = rng.normal(size=(5, 3))
    parts = rng.uniform(0.1, 0.8, 5)
    present = rng.uniform(0.2, 0.9, 5)
    lengths = np.sqrt(parts * (1 - present) / present) / np.linalg.norm(taken, axis=1)
    none = np.zeros((5, 0))
    selections = Selections.of(taken * lengths[:, None], present, none, none > 0)
    alone = [np.linalg.inv(np.eye(3) - np.outer(t, t)) for t in selections.taken]
    np.testing.assert_allclose(np.sum(selections.taken**2, axis=1), parts)
    first, second = np.indices((5, 5)).reshape(2, -1)
    lost = selections.within(first, second).lost(np.eye(3)[None], np.eye(3)[None])
    for i, j, taken in zip(first, second, lost, strict=True):
        both = alone[i] if i == j else alone[i] + alone[j] - np.eye(3)
        np.testing.assert_allclose(np.eye(3) - taken, np.linalg.inv(both), atol=1e-12)


@pytest.mark.parametrize("chance", [0.9, 0.96])
def test_what_is_missing_by_level_is_made_up_for(chance):
    """The planted estimate that takes levels for normal columns is off by many times as much."""
    rng = np.random.default_rng(4)
    n = 60_000
    level = rng.choice(4, n, p=[0.02, 0.38, 0.35, 0.25])
    truth = rng.random(n) < 0.3
    a = rng.normal(size=n) + np.array([2.0, 0.0, -0.5, 0.6])[level]
    b = 0.5 * a + np.array([3.0, 0.0, 0.5, -1.0])[level] + truth + rng.normal(size=n)
    c = b - a + 0.8 * truth + rng.normal(size=n)
    rows = pd.DataFrame({"a": a, "b": b, "c": c, "kind": np.array(list("uvwx"))[level]})
    rows["truth"] = truth
    whole = pd.concat([rows[["a", "b", "c"]], pd.get_dummies(rows["kind"]), rows["truth"]], axis=1)
    rows.loc[rng.random(n) < np.array([chance, 0.1, 0.3, 0.5])[level], "b"] = np.nan
    rows.loc[rng.random(n) < np.where(truth, 0.7, 0.2), "c"] = np.nan
    kinds = {"kind": Categorical(categories=tuple("uvwx")), "truth": Boolean()}
    columns, read = known({name: COLUMNS[name] for name in "abc"} | kinds, rows)
    shown = [place for place, column in enumerate(columns) if column.kind != "missing"]

    def error(exact):
        found = at_random(*read, Doubt(), exact)
        deviations = np.sqrt(np.diagonal(found.covariance)[shown])
        correlations = found.covariance[np.ix_(shown, shown)] / np.outer(deviations, deviations)
        return np.abs(correlations - np.corrcoef(whole.T.astype(float)))[:3].max()

    two = np.array([column.kind != "numeric" for column in columns])
    assert 10 * error(levels_of(columns, two)) < 0.2 < error(())


@pytest.mark.parametrize("noise", [-5.0, 5.0])
def test_two_shares_bound_the_share_of_the_rows_that_have_both(noise):
    moment, encoded = moments(Schema(columns=COLUMNS), table())
    kinds = [(column.source, column.kind) for column in encoded]
    first, second = (kinds.index((name, "numeric")) for name in "ab")
    marks = [1 + kinds.index((name, "missing")) for name in "ab"]
    moment[marks, marks[::-1]] += noise
    shares = Presence.of(encoded).moments(moment).shares
    one, other = shares[first, first], shares[second, second]
    assert 0.89 < one < 0.91 and 0.59 < other < 0.61
    assert shares[first, second] == (one + other - 1 if noise < 0 else other)


def test_doubt_about_directions_is_the_same_in_other_units():
    """Noise of standardized predictors: a fourth where their deviations are twice as large."""
    _, (pairwise, _, predicts) = known(COLUMNS, table())
    p = len(predicts)
    law = MomentNoise(entries=EntryNoise(2e-4, 1e-4), features=np.eye(1 + p)[1:])
    wide = pairwise._replace(covariance=4 * pairwise.covariance)
    own, other = (Doubt.of(each, predicts, law, np.inf).edge for each in (pairwise, wide))
    assert own == pytest.approx(4 * other) and own > 0


def filled(rows, columns, doubt=None):
    """The mean of every column of numbers and all correlations, at random and pairwise."""
    encoded, read = known(columns, rows)
    pairwise, _, predicts = read
    two = np.array([column.kind != "numeric" for column in encoded])
    doubt = doubt or Doubt.of(pairwise, predicts, None, len(rows))
    found = at_random(*read, doubt, levels_of(encoded, two))
    shown = [place for place, column in enumerate(encoded) if column.kind != "missing"]
    units = np.array([encoded[place].half_range for place in shown])
    centers = np.array([encoded[place].center for place in shown])
    for each in (found, pairwise):
        own = each.covariance[np.ix_(shown, shown)]
        spreads = np.sqrt(np.diagonal(own))
        yield each.mean[shown] * units + centers, own / np.outer(spreads, spreads)


@pytest.mark.parametrize("how", ["by chance", "by another", "together"])
def test_predictors_that_lack_values_predict_and_are_predicted(how):
    """Read from features that nearly all rows have alone, all would be as it is pair by pair."""
    rng = np.random.default_rng(5)
    n = 60_000
    level = rng.choice(3, n, p=[0.15, 0.45, 0.4])
    a = rng.normal(size=n) + np.array([1.5, 0.0, -0.6])[level]
    b = 0.6 * a + rng.normal(size=n)
    c = b - 0.5 * a + np.array([2.0, 0.0, -1.0])[level] + rng.normal(size=n)
    rows = pd.DataFrame({"a": a, "b": b, "c": c, "kind": np.array(list("uvw"))[level]})
    whole = pd.concat([rows[["a", "b", "c"]], pd.get_dummies(rows["kind"])], axis=1).astype(float)
    rows.loc[rng.random(n) < np.array([0.85, 0.3, 0.15])[level], "c"] = np.nan
    lacks = {
        "by chance": rng.random((n, 2)) < 0.12,
        "by another": rng.random((n, 2)) < 0.3 / (1 + np.exp(-2 * b))[:, None],
        "together": (rng.random((n, 1)) < 0.3 / (1 + np.exp(-2 * b))[:, None]) & [True, True],
    }[how]
    rows.loc[lacks[:, 0], "a"] = np.nan
    rows.loc[lacks[:, 1], "kind"] = None
    rows.loc[rng.random(n) < 0.05, "b"] = np.nan
    columns = {**COLUMNS, "kind": Categorical(categories=tuple("uvw"))}
    at_random_, pairwise = filled(rows, columns)
    errors = [
        (np.abs(mean - whole.mean()).max(), np.abs(correlations - whole.corr()).max().max())
        for mean, correlations in (at_random_, pairwise)
    ]
    assert errors[0][0] < 0.03 < 0.3 < errors[1][0]
    assert errors[0][1] < 0.05 < 0.3 < errors[1][1]


def test_features_that_are_missing_in_the_same_rows_do_not_predict_each_other():
    """Beside its like, which is as high where both are present, the third would say little."""
    rng = np.random.default_rng(6)
    n = 60_000
    a = rng.normal(size=n)
    b, c = 0.8 * a + 0.6 * rng.normal(size=(2, n))
    rows = pd.DataFrame({"a": a, "b": b, "c": b + 0.1 * c})
    truth = rows.mean()
    rows.loc[rng.random(n) < 0.3 / (1 + np.exp(-3 * a)), ["b", "c"]] = np.nan
    columns, (pairwise, presence, predicts) = known({name: COLUMNS[name] for name in "abc"}, rows)
    places = {column.name: place for place, column in enumerate(columns)}
    assert [[predicts[places[i], places[j]] for j in "abc"] for i in "abc"] == [
        [False, True, True],
        [False, False, False],
        [False, False, False],
    ]
    # As a planted one that lets them.
    both = predicts.copy()
    both[places["b"], places["c"]] = both[places["c"], places["b"]] = True
    units = np.array([columns[places[i]].half_range for i in "abc"])
    centers = np.array([columns[places[i]].center for i in "abc"])

    def error(each):
        found = at_random(pairwise, presence, each, Doubt())
        mean = found.mean[[places[i] for i in "abc"]] * units + centers
        return np.abs(mean - truth).max()

    assert error(predicts) < 0.02 < 0.08 < error(both)


@pytest.mark.parametrize("how", ["apart", "where c is, b is"])
def test_lines_are_of_the_same_rows_where_others_decide_which_values_predictors_lack(how):
    """Of a and c over all rows, and of b and c over those with b, a line would lean on a."""
    rng, n = np.random.default_rng(2), 60_000
    a = rng.normal(size=n)
    b = 0.8 * a + 0.6 * rng.normal(size=n)
    c = 0.8 * b + 0.6 * rng.normal(size=n)
    rows = pd.DataFrame({"a": a, "b": b, "c": c})
    truth, chance = rows.corr().to_numpy(), 1 / (1 + np.exp([3 - 2 * a, 1.5 - 2 * a, 1 - 2 * a]))
    first, second = rng.random((2, n))
    lacks_c = first < (0.4 if how == "apart" else chance[1])
    lacks_b = second < chance[0] if how == "apart" else lacks_c & (second < chance[2])
    rows.loc[lacks_b, "b"], rows.loc[lacks_c, "c"] = np.nan, np.nan
    (_, found), _ = filled(rows, {name: COLUMNS[name] for name in "abc"})
    assert np.abs(found - truth).max() < 0.04


def test_a_feature_that_no_row_has_beside_another_does_not_predict_it():
    """Of zero covariance, for want of a row that has both, the other predictor would say little."""
    rng, n = np.random.default_rng(1), 40_000
    a = rng.normal(size=n)
    b = 0.8 * a + 0.6 * rng.normal(size=n)
    c = 0.5 * (a + b + rng.normal(size=n))
    rows = pd.DataFrame({"a": a, "b": b, "c": c})
    truth, asked = rows.mean().to_numpy(), rng.random(n) < 0.19
    rows.loc[asked, "b"] = np.nan
    rows.loc[~asked | (rng.random(n) < 1 / (1 + np.exp(-1.5 * a))), "c"] = np.nan
    (mean, _), (pairwise, _) = filled(rows, {name: COLUMNS[name] for name in "abc"})
    assert 3 * abs(mean - truth)[2] < 0.4 < abs(pairwise - truth)[2]


def test_pairs_over_different_rows_make_nothing_of_sums_of_predictors():
    """Sums leave directions without variance, and chance is divided by what is left of them."""
    rng, n = np.random.default_rng(0), 1_000
    parts = rng.normal(size=(n, 8))
    names = [f"x{place}" for place in range(16)]
    rows = pd.DataFrame(np.hstack([parts, parts + np.roll(parts, 1, axis=1)]), columns=names)
    truth = rows.mean()
    rows = rows.mask(rng.random((n, 16)) < 0.15)
    columns = {name: Numeric(lower=-12, upper=12) for name in rows}
    errors = [
        np.abs(next(filled(rows, columns, doubt))[0] - truth).max() for doubt in (None, Doubt())
    ]
    assert errors[0] < 0.03 < 0.3 < errors[1]


def test_without_pairs_single_features_are_read_as_with_them():
    rows = table()
    rows.loc[rows["kind"].eq("u") & (rows.index % 4 > 0), "c"] = np.nan
    columns, read = known(COLUMNS, rows)
    one, other = (at_random(*read, Doubt(0.01), pairs=pairs) for pairs in (True, False))
    np.testing.assert_allclose(one.mean, other.mean)
    np.testing.assert_allclose(np.diagonal(one.covariance), np.diagonal(other.covariance))
    b, c = (next(i for i, each in enumerate(columns) if each.name == name) for name in "bc")
    assert abs(one.covariance[b, c] - other.covariance[b, c]) > 1e-4


def test_wanted_features_are_read_as_among_all_and_others_are_left():
    rows = table()
    rows.loc[rows["kind"].eq("u") & (rows.index % 4 > 0), "c"] = np.nan
    moment, columns = moments(Schema(columns=COLUMNS), rows)
    presence = Presence.of(columns)
    pairwise = presence.moments(moment)
    predicts = presence.predicts(pairwise)
    lacking = np.flatnonzero(predicts.any(axis=0) & ~predicts.any(axis=1))
    wanted, left = lacking[:1], lacking[1:]
    every, some = (
        at_random(pairwise, presence, predicts, Doubt(0.01), wanted=each) for each in (None, wanted)
    )
    assert len(left)
    for all_read, read, pairs in zip(every, some, pairwise, strict=True):
        np.testing.assert_array_equal(read[wanted[0], wanted], all_read[wanted[0], wanted])
        np.testing.assert_array_equal(read[np.ix_(left, left)], pairs[np.ix_(left, left)])
    assert not np.allclose(every.mean[left], pairwise.mean[left])


def test_what_selections_leave_of_covariances_is_divided_by():
    """With levels, of a matrix that is never made."""
    rng = np.random.default_rng(0)
    schema = Schema(columns={"kind": Categorical(categories=tuple("uvw")), "truth": Boolean()})
    rows = pd.DataFrame({"kind": rng.choice(list("uvwx"), 900), "truth": rng.random(900) < 0.4})
    moment, columns = moments(schema, rows)
    exact, mean = levels_of(columns, np.ones(len(columns), dtype=bool)), moment[0, 1:]
    inner = moment[1:, 1:] - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(inner)
    kept = values > 1e-3
    axes = (vectors[:, kept] / np.sqrt(values[kept])).T
    levels = [levels_among(each, mean, inner, axes, 1e-3) for each in exact]
    within_bounds = mean + 0.05 * rng.random((4, len(mean)))
    present, told = rng.uniform(0.3, 0.9, 4), np.ones((4, len(mean)), dtype=bool)
    shifts = (within_bounds - mean) @ axes.T
    selections = Selections.of(shifts, present, within_bounds, told, levels)
    sides, unit = rng.normal(size=(len(axes), 2)), np.eye(len(axes))[None]
    for each in selections.alone:
        left = unit[0] - each.lost(unit, unit)[0]
        assert np.abs(left - np.eye(len(axes))).max() > 0.01
        np.testing.assert_allclose(left @ each.solved(sides[None])[0], sides, atol=1e-12)


def test_a_part_is_made_up_for_where_relations_are_curves():
    """docs/measured/missing.md has these numbers, as a limit."""
    rng, n = np.random.default_rng(3), 60_000
    a = rng.normal(size=n)
    rows = pd.DataFrame({"a": a, "b": np.exp(0.8 * a) + 0.7 * rng.normal(size=n)})
    mean, spread, truth = rows["b"].mean(), rows["b"].std(), rows.corr().to_numpy()[0, 1]
    rows.loc[rng.random(n) < 1 / (1 + np.exp(-1.5 * a)), "b"] = np.nan
    rows.loc[rng.random(n) < 0.1, "a"] = np.nan
    columns = {"a": COLUMNS["a"], "b": Numeric(lower=-10, upper=60)}
    found, pairwise = (
        ((means[1] - mean) / spread, correlations[0, 1] - truth)
        for means, correlations in filled(rows, columns)
    )
    np.testing.assert_allclose(found, (-0.14, -0.10), atol=0.02)
    np.testing.assert_allclose(pairwise, (-0.38, -0.25), atol=0.02)

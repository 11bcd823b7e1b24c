import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpcov
from dpcov.analysis import correlation_intervals
from dpcov.analysis.intervals.of_release import moment_law
from dpcov.data.geometry import Geometry, Scale
from dpcov.errors import UsageError
from dpcov.published.nested import Sums, reconcile
from dpcov.report import render_release
from tests.releases import ledger_in, released_of

NUMBERS = {name: dpcov.Numeric(lower=-6, upper=6) for name in "ab"}
INSIDE = {f"r{place}": f"s{place // 3}" for place in range(6)}


def table(rows=3_000):
    rng = np.random.default_rng(3)
    region = rng.integers(0, 6, rows)
    frame = pd.DataFrame({"a": rng.normal(size=rows) + region / 3})
    frame["b"] = 0.6 * frame["a"] + rng.normal(size=rows)
    frame["region"] = [f"r{place}" for place in region]
    return frame.assign(state=frame["region"].map(INSIDE))


def released(frame, by, seed, **terms):
    labels = tuple(sorted(frame[by].unique()))
    columns = {**NUMBERS, by: dpcov.Categorical(categories=labels)}
    return released_of(columns, frame, seed, by=by, **{"geometry": "schema", "rho": "0.1"} | terms)


@pytest.fixture(scope="module")
def made():
    frame = table()
    return frame, released(frame, "region", 1), released(frame, "state", 2)


def sums(release):
    return release.unit.matrix * release.n_rows


def test_children_sum_to_their_parent(made):
    _, by_region, by_state = made
    regions, states = by_region.nest(by_state, INSIDE)
    assert list(regions) == list(by_region.group_names)
    for name, state in states.items():
        own = [regions[child] for child in regions if INSIDE.get(child, child) == name]
        assert np.allclose(sum(map(sums, own)), sums(state), rtol=1e-12, atol=1e-12)
        assert sum(region.n_rows for region in own) == state.n_rows


def test_groups_say_what_their_guarantee_leaves_out_of_a_given_geometry(made):
    scale = Scale(center=0.0, scale=1.5)
    terms = {"geometry": Geometry(columns=dict.fromkeys("ab", scale), norm_bound=4.0)}
    one, two = released(made[0], "region", 1, **terms), released(made[0], "state", 2, **terms)
    for group in (one.nest(two, INSIDE)[0]["r1"], one.group("r1"), one.group("r1", pooled=True)):
        assert group.manifest.geometry_was_given and "Left out" in group.summary()


def test_errors_shrink_and_are_as_stated(made):
    frame, alone, together, held = made[0], [], [], []
    for seed in range(10, 34, 2):
        one, two = released(frame, "region", seed), released(frame, "state", seed + 1)
        regions, _ = one.nest(two, INSIDE)
        for name in INSIDE:
            rows = frame.loc[frame["region"] == name, ["a", "b"]]
            group, release = one.group(name), regions[name]
            truth = float(rows.cov().iloc[0, 1])
            alone.append((group.covariance_matrix("none")[0, 1] - truth) ** 2)
            together.append((release.covariance_matrix("none")[0, 1] - truth) ** 2)
            interval = correlation_intervals(release, ["a", "b"], sampling=False).rows[0]
            held.append(interval.lower <= rows.corr().iloc[0, 1] <= interval.upper)
    # Of three regions of equal noise, each gives a quarter to the fourth number, the state's.
    assert np.mean(together) < np.mean(alone)
    assert np.mean(held) > 0.85


def test_noise_is_less_by_what_least_squares_says(made):
    _, by_region, by_state = made
    regions, states = by_region.nest(by_state, INSIDE)
    for name, before in (("r1", by_region), ("s0", by_state)):
        after = (regions | states)[name]
        alone = before.group(name)
        ratio = after.unit.noise.diagonal * after.n_rows**2
        ratio /= alone.unit.noise.diagonal * alone.n_rows**2
        assert ratio == pytest.approx(0.75, abs=0.03)
        # Intervals know the noise on the number of rows.
        law = moment_law(after)
        stated = float(after.manifest.statistics.noise.row_count_variance) / after.n_rows**2
        assert stated > 0
        count = law.noise_of_pairs(np.eye(1, len(law.moment)))(0)[0, 0, 0]
        assert count == pytest.approx(stated)


entries = st.floats(-1e6, 1e6)
# None, or one whose square is a number.
variances = st.just(0.0) | st.floats(1e-9, 1e6)


@st.composite
def families(draw):
    def one():
        moment = np.array([[draw(entries), draw(entries)], [0.0, draw(entries)]])
        moment[1, 0] = moment[0, 1]
        return Sums(moment, draw(variances), draw(st.floats(-50, 1e6)), draw(variances))

    return [one() for _ in range(draw(st.integers(1, 5)))], one()


@given(families())
@settings(max_examples=200)
def test_least_squares_adds_up_and_never_adds_noise(family):
    children, parent = family
    found, above = reconcile(children, parent)
    assert np.array_equal(sum((each.moment for each in found[1:]), found[0].moment), above.moment)
    assert sum(each.count for each in found) == above.count
    for before, after in zip([*children, parent], [*found, above], strict=True):
        assert after.variance <= before.variance * (1 + 1e-12)
        assert after.count_variance <= before.count_variance * (1 + 1e-12)
    backward, _ = reconcile(children[::-1], parent)
    for one, other in zip(found, backward[::-1], strict=True):
        assert np.allclose(one.moment, other.moment, rtol=1e-9, atol=1e-6)


@given(families())
@settings(max_examples=50)
def test_it_is_the_least_squares_solution(family):
    children, parent = family
    children = [Sums(c.moment, c.variance + 1, c.count, 1.0) for c in children]
    found, above = reconcile(children, parent)
    # Nothing along a direction that keeps the sum: residuals over variances are equal.
    pull = [(n.moment - o.moment) / o.variance for n, o in zip(found, children, strict=True)]
    assert np.allclose(pull, pull[0], rtol=1e-6, atol=1e-6)
    missing = (parent.moment - above.moment) - parent.variance * pull[0]
    assert np.allclose(missing, 0.0, rtol=1e-6, atol=1e-3)


def test_regions_that_are_nearly_empty_do_not_add_rows_to_their_state():
    """Noisy numbers below one became one, and the state's number was their sum."""
    zero = np.zeros((1, 1))
    children = [Sums(zero, 1.0, count, 100.0) for count in (-30.0, -10.0, 5.0, 900.0)]
    found, above = reconcile(children, Sums(zero, 1.0, 870.0, 100.0))
    assert above.count == 869
    assert sum(each.count for each in found) == 869 and all(each.count >= 1 for each in found)
    drowned, total = reconcile(children[:2], Sums(zero, 1.0, -5.0, 100.0))
    assert [each.count for each in drowned] == [1, 1] and total.count == 2


def test_empty_regions_of_a_release_do_not_add_rows_to_their_state():
    frame = table(2_000)
    empty = tuple(f"r{place}" for place in range(6, 60))
    labels = dpcov.Categorical(categories=(*INSIDE, *empty))
    terms = {"rho": "0.02", "geometry": "schema"}
    by_region = released_of({**NUMBERS, "region": labels}, frame, 5, by="region", **terms)
    by_state = released(frame, "state", 6, **terms)
    _, states = by_region.nest(by_state, INSIDE | dict.fromkeys(empty, "s1"))
    off = states["s1"].n_rows - by_state.group("s1").n_rows
    assert abs(off) < 4 * float(by_state.statistics.noise.row_count_variance) ** 0.5


def test_the_guarantee_is_that_of_both(made, tmp_path):
    _, by_region, by_state = made
    regions, states = by_region.nest(by_state, INSIDE)
    for release in (regions["r1"], states["s0"]):
        assert release.guarantee.promise.rho == pytest.approx(0.2)
        assert any("not private" in warning for warning in release.manifest.warnings)
    regions["r1"].save(tmp_path / "r1.dpcov")
    again = dpcov.load(tmp_path / "r1.dpcov")
    assert np.array_equal(again.covariance_matrix(), regions["r1"].covariance_matrix())
    assert by_state.fingerprint[:12] in again.summary(details=True)


def test_the_number_of_rows_of_a_group_is_not_said_to_be_public(made):
    """It is protected, and the same page said both."""
    _, by_region, by_state = made
    regions, _ = by_region.nest(by_state, INSIDE)
    told = " ".join(regions["r1"].summary().split())
    assert "(the exact number is protected)" in told
    assert "not how many rows the whole table has" in told
    assert "number of rows of the whole table is public" in render_release(regions["r1"]).decode()
    assert "not how many rows the table has" in " ".join(by_region.summary().split())


def test_both_charges_are_stated(made, tmp_path):
    paid = {"ledger": ledger_in(tmp_path, "people"), "dataset": "people"}
    one, other = (released(made[0], by, 7 + len(by), **paid) for by in ("region", "state"))
    for level in one.nest(other, INSIDE):
        for release in level.values():
            told = "entry 1 of dataset people, entry 2 of dataset people"
            assert told in " ".join(release.summary(details=True).split())
            assert release.manifest.is_charged
    regions, _ = one.nest(other, INSIDE)
    regions["r1"].save(tmp_path / "r1.dpcov")
    assert [each.entry for each in dpcov.load(tmp_path / "r1.dpcov").manifest.charges] == [1, 2]
    both = one.combine(released(made[0], "region", 9, **paid)).group("r1", pooled=True)
    assert sorted(each.entry for each in both.manifest.charges) == [1, 3]


def test_one_of_them_may_have_no_ledger(made, tmp_path):
    """It was refused as if the tables were different."""
    frame, by_region, _ = made
    paid = {"ledger": ledger_in(tmp_path, "people"), "dataset": "people"}
    by_state = released(frame, "state", 4, **paid)
    _, states = by_region.nest(by_state, INSIDE)
    assert [each.entry for each in states["s0"].manifest.charges] == [1]


def test_what_does_not_go_together_is_refused(made):
    frame, by_region, by_state = made
    with pytest.raises(UsageError, match="holds 'r5'"):
        by_region.nest(by_state, {k: v for k, v in INSIDE.items() if k != "r5"})
    with pytest.raises(UsageError, match="'r0' is a group of the second release"):
        by_state.nest(by_region, INSIDE)
    with pytest.raises(UsageError, match="'s7' is no group"):
        by_region.nest(by_state, {**INSIDE, "r5": "s7"})
    with pytest.raises(UsageError, match="No group lies in 's1'"):
        by_region.nest(by_state, dict.fromkeys(INSIDE, "s0"))
    with pytest.raises(UsageError, match="'r9' lies in 's0', but is no group"):
        by_region.nest(by_state, {**INSIDE, "r9": "s0"})
    with pytest.raises(UsageError, match="rows more or fewer than it has"):
        by_region.nest(by_state, {**INSIDE, "r0": "s1"})
    with pytest.raises(UsageError, match="no second noise"):
        by_state.nest(by_state, {})
    with pytest.raises(UsageError, match="Give releases"):
        by_region.nest("by-state.dpcov", INSIDE)
    with pytest.raises(UsageError, match="Give the group"):
        by_region.nest(by_state, 3)
    with pytest.raises(UsageError, match="by=COLUMN"):
        by_region.group("r1").nest(by_state, INSIDE)
    with pytest.raises(UsageError, match="different tables"):
        by_region.nest(released(frame[:2_000], "state", 5), INSIDE)
    with pytest.raises(UsageError, match="in the geometry of the other"):
        by_region.nest(released(frame, "state", 5, geometry="private"), INSIDE)


def test_a_group_that_adds_up_is_not_averaged_with_what_it_was_made_of(made):
    _, by_region, by_state = made
    regions, _ = by_region.nest(by_state, INSIDE)
    with pytest.raises(UsageError, match="repeats their noise"):
        regions["r1"].combine(by_region.group("r1"))


def test_who_combines_groups_that_lie_inside_others_is_told_of_nest(made):
    with pytest.raises(
        UsageError, match=r"schemas differ in 'region', 'state'\. .* add up by nest\."
    ):
        made[1].combine(made[2])

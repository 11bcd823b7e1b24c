"""Public groups: one matrix per category at the price of one release."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpcov
from dpcov.data.exact.moments import Moments, MomentsSpec
from dpcov.errors import DpcovError, UsageError
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.gaussian import ROW_COUNT_WEIGHT
from dpcov.mechanisms.stratified import Stratified
from dpcov.mechanisms.stratified_rules import trace_weight
from dpcov.published.file.columns import OTHER

SITES = ("north", "south")


def table(n_rows=4000):
    rng = np.random.default_rng(5)
    site = rng.choice([*SITES, "elsewhere"], p=[0.5, 0.4, 0.1], size=n_rows)
    shift = np.where(site == "north", 0.5, -0.5)
    a = np.clip(shift + rng.normal(size=n_rows) * 0.2, -1, 1)
    return pa.table({"a": a, "b": rng.uniform(-1, 1, n_rows), "site": site})


NUMBER = dpcov.Numeric(lower=-1, upper=1)
COLUMNS = {"a": NUMBER, "b": NUMBER, "site": dpcov.Categorical(categories=SITES)}
SCHEMA = dpcov.Schema(columns=COLUMNS)


def release(by="site", **options):
    budget, entropy = dpcov.Budget(rho=10), dpcov.SeededEntropy(3)
    return dpcov.release(table(), schema=SCHEMA, budget=budget, by=by, entropy=entropy, **options)


def beside(rows, labels, **terms):
    usual = {"norm_bound": 2, "budget": dpcov.Budget(rho=1), "categories": ["0", "1"]}
    return dpcov.second_moment(rows, groups=labels, mechanism="stratified", **(usual | terms))


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_every_group_has_its_own_mean_covariance_and_number(neighbors):
    made, frame = release(neighbors=neighbors), table().to_pandas()
    assert made.group_names == (*SITES, OTHER)
    assert made.feature_names == ("a", "b")
    for name in SITES:
        rows = frame[frame.site == name]
        part = made.group(name)
        assert part.n_rows == pytest.approx(len(rows), abs=10)
        np.testing.assert_allclose(part.mean(), rows[["a", "b"]].mean(), atol=0.02)
        np.testing.assert_allclose(part.covariance(), np.cov(rows[["a", "b"]].T), atol=0.02)
    assert made.group(OTHER).n_rows == pytest.approx((frame.site == "elsewhere").sum(), abs=10)
    np.testing.assert_allclose(made.mean(), frame[["a", "b"]].mean(), atol=0.02)


def test_groups_survive_the_file(tmp_path):
    made = release()
    made.save(tmp_path / "groups.dpcov")
    loaded = dpcov.load(tmp_path / "groups.dpcov")
    assert loaded == made
    north, loaded_north = made.group("north"), loaded.group("north")
    np.testing.assert_array_equal(loaded_north.covariance(), north.covariance())
    loaded_north.save(tmp_path / "north.dpcov")
    assert dpcov.load(tmp_path / "north.dpcov").n_rows == north.n_rows


def test_labels_of_an_array():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(3000, 3)) * [1, 2, 3], rng.integers(0, 2, 3000)
    terms = {"norm_bound": 8, "budget": dpcov.Budget(rho=5), "entropy": dpcov.SeededEntropy(1)}
    made = beside(X, labels, **terms)
    truth = X[labels == 1].T @ X[labels == 1] / (labels == 1).sum()
    np.testing.assert_allclose(made.group("1").second_moment(), truth, atol=0.4)


def test_groups_of_dates_are_days():
    days, listed = np.array(["2020-01-01", "2020-01-02"] * 50, "datetime64[D]"), ["2020-01-01"]
    terms = {"categories": listed, "budget": dpcov.Budget(rho=1e3)}
    made = beside(np.ones((100, 1)), days, entropy=dpcov.SeededEntropy(1), **terms)
    assert made.group("2020-01-01").n_rows == pytest.approx(50, abs=2)
    for other in ("datetime64[ns]", "datetime64[us]", "datetime64[M]", "timedelta64[ns]"):
        wrong = days.astype("int64").astype(other) if "delta" in other else days.astype(other)
        with pytest.raises(UsageError, match="dates are days"):
            beside(np.ones((100, 1)), wrong, **terms)


@pytest.mark.parametrize("made", [np.asarray, pd.Series, pd.Categorical, pa.array])
def test_groups_of_single_precision_are_as_they_are_written(made):
    groups = made(np.array([0.1, 3] * 50, np.float32))
    terms = {"categories": ["0.1"], "budget": dpcov.Budget(rho=1e3)}
    release = beside(np.ones((100, 1)), groups, entropy=dpcov.SeededEntropy(1), **terms)
    assert release.group("0.1").n_rows == pytest.approx(50, abs=2)


def test_groups_may_be_a_column_of_an_arrow_table():
    groups = pa.table({"site": [*SITES, None] * 50})["site"]
    terms = {"categories": SITES, "budget": dpcov.Budget(rho=1e3)}
    release = beside(np.ones((150, 1)), groups, entropy=dpcov.SeededEntropy(1), **terms)
    assert release.group("south").n_rows == pytest.approx(50, abs=2)


def test_a_row_that_changes_its_group_stays_within_the_sensitivity():
    problem = Problem(n_features=2, neighbors="replace-one", n_rows=1, n_groups=2)
    mechanism = Stratified(shells=3)
    spec = mechanism.moments_spec(problem)
    assert spec == MomentsSpec(shells=3, groups=2, normalized=True)
    one, two = Moments(2, spec), Moments(2, spec)
    one.add(np.array([[1.0, 0.0]]), np.array([0]))
    two.add(np.array([[0.0, 0.5]]), np.array([1]))
    unit = 4**spec.bits
    shift = Fraction(0)
    for before, after in zip(one.strata, two.strata, strict=True):
        change = before.sscp.to_float() - after.sscp.to_float()
        shift += Fraction(float(np.sum(change**2)))
        shift += trace_weight(2) * Fraction(float(np.trace(change))) ** 2
        shift += ROW_COUNT_WEIGHT * unit**2 * (before.n_rows - after.n_rows) ** 2
    attained = 2 * (1 + trace_weight(2) + ROW_COUNT_WEIGHT) * unit**2
    assert shift == attained
    calibration = mechanism.calibrate(problem, dpcov.Budget(rho=1))
    assert calibration.diagonal_variance >= attained / 2


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: release(mechanism="gaussian"),
        lambda: release(by="a"),
        lambda: release(by="nowhere"),
        lambda: release().group("moon"),
        lambda: beside(np.eye(3), [0, 1, 1], categories=None),
    ],
)
def test_wrong_groups_are_refused(wrong):
    with pytest.raises(DpcovError):
        wrong()


def test_groups_beside_rows_that_have_no_fixed_places_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4\n")
    for rows in (tmp_path / "x.csv", dpcov.Query("SELECT 1 AS a, 2 AS b", db="duckdb://")):
        with pytest.raises(UsageError, match="put the groups into a column"):
            beside(rows, [0, 1])


@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 1, 1], [], [[0], [1], [1]], 7])
def test_every_row_has_one_group(labels):
    for rows in (np.eye(3), pd.DataFrame(np.eye(3)).rename(columns=str)):
        with pytest.raises(DpcovError):
            beside(rows, labels)
    assert beside(np.eye(3), [0, 1, 1]).manifest.groups == ("0", "1", "(other)")

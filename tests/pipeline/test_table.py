from functools import partial

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.data import gather
from dpcov.errors import DataError, DpcovError, LedgerError, UsageError


def schema(bound=1):
    return dpcov.Schema(
        columns=dict.fromkeys(("x0", "x1"), dpcov.Numeric(lower=-bound, upper=bound))
    )


RHO = dpcov.Budget(rho=1)
ROWS = np.random.default_rng(0).uniform(0.85, 0.95, size=(20_000, 2))


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        ("gaussian", {"clip": 0.5}),
        *((n, {}) for n in ("gaussian", "stratified", "separate", "adaptive")),
    ],
)
def test_means_are_right_whether_or_not_rows_are_shortened(mechanism, options):
    options |= {"mechanism": mechanism, "entropy": dpcov.SeededEntropy(2)}
    made = dpcov.release(ROWS, schema=schema(), budget=dpcov.Budget(rho=100), **options)
    np.testing.assert_allclose(made.mean(), ROWS.mean(axis=0), atol=0.005)
    np.testing.assert_allclose(made.covariance(), np.cov(ROWS.T), atol=0.0005)


def test_the_rows_are_not_changed_by_a_release():
    rows = np.asfortranarray(ROWS)
    before = rows.copy()
    dpcov.second_moment(rows, norm_bound=1.0, budget=RHO)
    dpcov.release(rows, schema=schema(), budget=RHO)
    np.testing.assert_array_equal(rows, before)


def test_a_release_is_charged_for_the_rows_of_a_person_that_it_protects(tmp_path):
    ledger = dpcov.Ledger(tmp_path / "ledger")
    ledger.create("people", RHO, "replace-one")
    paid = {"budget": dpcov.Budget(rho="0.1"), "ledger": ledger, "dataset": "people"}
    three = dpcov.Schema(columns=schema().columns, rows_per_person=3)
    dpcov.release(ROWS, schema=three, **paid)
    for other in (
        partial(dpcov.release, schema=schema()),
        partial(dpcov.second_moment, norm_bound=1.0),
    ):
        with pytest.raises(LedgerError, match="3 rows per person"):
            other(ROWS, **paid)
    dpcov.second_moment(ROWS, norm_bound=1.0, rows_per_person=3, **paid)
    assert [entry.spend.rows_per_person for entry in ledger.entries("people")] == [3, 3]


@pytest.mark.parametrize(
    "bound", [0.0, -1.0, 1e-160, 1e160, float("inf"), float("nan"), True, "1", None]
)
def test_a_norm_bound_whose_square_is_no_number_is_refused_before_anything_is_spent(
    bound, tmp_path
):
    ledger = dpcov.Ledger(tmp_path / "ledger")
    ledger.create("people", RHO, "replace-one")
    paid = {"budget": RHO, "ledger": ledger, "dataset": "people"}
    with pytest.raises(dpcov.errors.BudgetError, match="norm_bound must"):
        dpcov.second_moment(ROWS, norm_bound=bound, **paid)
    assert ledger.entries("people") == ()


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_estimates_are_finite_in_the_largest_and_smallest_units(scale):
    made = dpcov.release(ROWS * scale, schema=schema(scale), budget=RHO)
    for estimate in (made.covariance_matrix(), made.second_moment()):
        assert np.isfinite(estimate).all()
        assert estimate.any()


@pytest.mark.parametrize("bound", [1e-70, 1e70])
def test_a_release_within_the_largest_and_smallest_norm_bounds_can_be_read(bound):
    made = dpcov.second_moment(ROWS * bound, norm_bound=bound, budget=RHO)
    assert np.isfinite(made.second_moment()).all()
    assert str(made.summary()) and repr(made) and made.diagnose() is not None
    for beyond in (bound * bound, bound**3):
        with pytest.raises(dpcov.errors.BudgetError, match="norm_bound must"):
            dpcov.second_moment(ROWS, norm_bound=beyond, budget=RHO)


@pytest.mark.parametrize("geometry", ["schema", "private"])
def test_a_matrix_without_room_is_refused_before_anything_is_spent(tmp_path, geometry):
    """A survey has room; the matrices of all groups, which are asked for later, have not."""
    ledger = dpcov.Ledger(tmp_path / "ledger")
    ledger.create("people", RHO, "replace-one")
    groups = tuple(f"g{place}" for place in range(200))
    columns = {f"c{place}": dpcov.Numeric(lower=-9, upper=9) for place in range(40)}
    rows = {name: np.zeros(1000) for name in columns} | {"g": ["g1"] * 1000}
    with pytest.raises(UsageError, match="Gathering needs up to"):
        dpcov.release(
            pd.DataFrame(rows),
            schema=dpcov.Schema(columns=columns | {"g": dpcov.Categorical(categories=groups)}),
            **{"budget": RHO, "ledger": ledger, "dataset": "people"},
            **{"by": "g", "geometry": geometry, "threads": 1, "memory_limit": 0.3},
        )
    assert ledger.entries("people") == ()


@pytest.mark.parametrize("made", [dpcov.release, dpcov.survey])
def test_another_number_of_rows_than_was_stated_is_refused_and_spends_nothing(tmp_path, made):
    ledger = dpcov.Ledger(tmp_path / "ledger")
    ledger.create("people", dpcov.Budget(epsilon=1, delta="1e-6"), "replace-one")
    account = {"ledger": ledger, "dataset": "people"}
    with pytest.raises(DataError, match="number of rows that was stated as public") as told:
        made(
            ROWS,
            schema=schema(),
            budget=dpcov.Budget(epsilon=1, delta="1e-6"),
            n_rows=19_999,
            **account,
        )
    assert told.value.__notes__ == ["No budget was spent and nothing was released."]
    assert ledger.entries("people") == ()


def test_what_no_column_decides_is_refused_before_the_table_is_opened(tmp_path, monkeypatch):
    """A workbook is held as a whole for the names that patterns stand for."""

    def opened(*_):
        raise AssertionError("the table is opened")

    monkeypatch.setattr(gather, "open_source", opened)
    dpcov.Ledger(tmp_path / "ledger").create("people", RHO, "replace-one")
    (tmp_path / "there.dpcov").write_bytes(b"")
    some = {"schema": dpcov.Schema(columns={"x*": dpcov.Numeric(lower=0, upper=1)}), "budget": RHO}
    account = {"ledger": tmp_path / "ledger", "dataset": "people"}
    late = {"output": tmp_path / "new.dpcov", **account}
    refused = {
        "BudgetError": [{"budget": 1}, {"neighbors": "like"}],
        "UsageError": [{"dataset": "people"}, {"ledger": tmp_path / "ledger"}],
        "LedgerError": [account | {"dataset": "others"}],
        "NoLedgerError": [account | {"ledger": tmp_path / "none"}],
        "ReleaseError": [{"output": tmp_path / "there.dpcov"}, {"output": tmp_path / "a" / "b"}],
    }
    for made in (dpcov.release, dpcov.survey):
        for kind, each in refused.items():
            for wrong in each:
                with pytest.raises(DpcovError) as told:
                    made(tmp_path / "t.xlsx", **some | wrong)
                assert type(told.value).__name__ == kind
                assert told.value.__notes__ == ["No budget was spent and nothing was released."]
        with pytest.raises(AssertionError, match="the table is opened"):
            made(tmp_path / "t.xlsx", **some | late)
        assert not (tmp_path / "new.dpcov").exists()

from fractions import Fraction

import numpy as np
import pytest

import dpcov
from dpcov.privacy.guarantee import PureDP

BUDGETS = [dpcov.Budget(rho=1), dpcov.Budget(epsilon=1), dpcov.Budget(epsilon=1, delta="1e-6")]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove-one"])
def test_it_is_zero_and_promises_everything(budget, neighbors):
    made = dpcov.second_moment(
        np.eye(3), norm_bound=1, budget=budget, mechanism="zero", neighbors=neighbors
    )
    assert made.guarantee.promise == PureDP(epsilon=Fraction(0))
    for post in ("none", "psd", "clip", "projection"):
        assert not made.second_moment(post).any()
    assert made.expected_error() is None


def test_an_empty_account_can_still_pay_for_it(tmp_path):
    ledger = dpcov.Ledger(tmp_path / "ledger.sqlite")
    ledger.create("people", dpcov.Budget(rho="1e-9"), "replace-one")
    made = dpcov.second_moment(
        np.eye(3),
        norm_bound=1,
        budget=dpcov.Budget(rho=1),
        mechanism="zero",
        ledger=ledger,
        dataset="people",
    )
    assert ledger.entries("people") == ()
    assert made.manifest.spent is None


def test_the_promise_survives_the_file(tmp_path):
    made = dpcov.second_moment(np.eye(3), norm_bound=1, budget=BUDGETS[0], mechanism="zero")
    made.save(tmp_path / "zero.dpcov")
    loaded = dpcov.load(tmp_path / "zero.dpcov")
    assert loaded.guarantee.promise == PureDP(epsilon=Fraction(0))
    assert "depends on the table" in loaded.summary()
    assert "costs nothing" in loaded.summary()

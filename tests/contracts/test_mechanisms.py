"""What every registered mechanism must do; a new registry row is tested by adding nothing but its budgets here."""

import dataclasses
import inspect
import math
from pathlib import Path

import numpy as np
import pytest

import dpcov
from dpcov.errors import BudgetError, DataError, DpcovError, LedgerError, NumericError, UsageError
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.registry import MECHANISMS, find_mechanism, make_mechanism, names
from dpcov.noise.entropy import SeededEntropy, SystemEntropy
from dpcov.privacy.convert import pure_to_zcdp, zcdp_epsilon
from dpcov.privacy.guarantee import NEIGHBORS, ZCDP, ApproxDP, PureDP
from tests.statistical.goodness import assert_mean_square, mean_square_samples

BUDGETS = {
    PureDP: dpcov.Budget(epsilon=2),
    ZCDP: dpcov.Budget(rho="0.5"),
    ApproxDP: dpcov.Budget(epsilon=1, delta="1e-6"),
}
TOO_SMALL = {
    PureDP: dpcov.Budget(epsilon="1e-200"),
    ZCDP: dpcov.Budget(rho="1e-200"),
    ApproxDP: dpcov.Budget(epsilon="1e-200", delta="1e-200"),
}
TOTALS = {
    PureDP: dpcov.Budget(epsilon=50),
    ZCDP: dpcov.Budget(rho=50),
    ApproxDP: dpcov.Budget(epsilon=50, delta="1e-3"),
}
X = np.random.default_rng(0).normal(size=(500, 4)) / 4
EVERY = [pytest.param(mechanism, id=mechanism.name) for mechanism in MECHANISMS]
CASES = [
    pytest.param(mechanism, neighbors, kind, id=f"{mechanism.name}-{neighbors}-{kind.__name__}")
    for mechanism in MECHANISMS
    for neighbors in mechanism.relations
    for kind in mechanism.promises
]

every_mechanism = pytest.mark.parametrize("mechanism", EVERY)
every_case = pytest.mark.parametrize(("mechanism", "neighbors", "kind"), CASES)


def release(mechanism, neighbors, kind, data=X, **options):
    options = {"norm_bound": 1.0, "budget": BUDGETS[kind], **options}
    return dpcov.second_moment(data, mechanism=mechanism.name, neighbors=neighbors, **options)


def first_case(mechanism):
    return mechanism, mechanism.relations[0], mechanism.promises[0]


class Unread:
    """Rows that must not be looked at; only their public shape may be asked for."""

    shape = (500, 4)
    ndim = 2

    def __init__(self):
        self.read = False


class UnreadSource(dpcov.data.sources.Source if hasattr(dpcov, "data") else object):
    pass


class EntropySpy:
    """System randomness that records, at every draw, what the ledger said."""

    private = True

    def __init__(self, ledger):
        self.ledger = ledger
        self.seen = []
        self.source = SystemEntropy()

    def words(self, count):
        self.seen.append([entry.state for entry in self.ledger.entries("people")])
        return self.source.words(count)


@pytest.fixture
def ledger_for(tmp_path):
    def make(neighbors, kind):
        ledger = dpcov.Ledger(tmp_path / "ledger.sqlite")
        ledger.create("people", TOTALS[kind], neighbors)
        return ledger

    return make

"""An account for whatever a contract releases."""

import pytest

import dpcov
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP

TOTALS = {
    PureDP: dpcov.Budget(epsilon=50),
    ZCDP: dpcov.Budget(rho=50),
    ApproxDP: dpcov.Budget(epsilon=50, delta="1e-3"),
}


@pytest.fixture
def ledger_for(tmp_path):
    def make(neighbors, kind, totals=TOTALS):
        ledger = dpcov.Ledger(tmp_path / "ledger.sqlite")
        ledger.create("people", totals[kind], neighbors)
        return ledger

    return make

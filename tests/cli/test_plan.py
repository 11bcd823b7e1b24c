"""``dpcov plan`` and the options of mechanisms."""

import pytest

import dpcov
from dpcov.errors import BudgetError, UsageError
from dpcov.pipeline.plan import predict

PLAN = "plan --rows 2000 --features 16 "


def test_the_table_has_a_row_per_mechanism_and_a_column_per_trace(desk, monkeypatch):
    monkeypatch.setattr(predict, "_ENOUGH_VALUES", 32)  # two releases each
    told = desk.done(PLAN + "--rho 0.5 --trace 0.5 --trace 0.02")
    assert told.count("which is large") == 1
    table, _, legend = told.partition("1 is the error")
    lines = {line.split()[0]: line.split()[1:] for line in table.splitlines() if line.strip()}
    assert lines["trace"] == ["0.5", "0.02"]
    assert lines["zero"] == ["1", "1"]
    assert 0 < float(lines["auto"][1]) < float(lines["gaussian"][1])
    assert "auto chose stratified" in legend


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("", UsageError),
        ("--rho 1 --epsilon 1", BudgetError),
        ("--rho 1 --trace 2", UsageError),
        ("--rho 1 --neighbors next-door", BudgetError),
        ("--rho 1 --rows-per-person 0", UsageError),
    ],
)
def test_wrong_usage_is_explained(desk, arguments, error):
    result = desk.run(PLAN + arguments)
    assert result.exit_code == error.exit_code
    assert "Error:" in result.output


def test_options_reach_the_mechanism(desk):
    command = "release --epsilon 2 --no-ledger --mechanism laplace --overwrite --option"
    arguments = (desk.data, *desk.fixed)
    desk.done(f"{command} sensitivity=paper", *arguments)
    assert dpcov.load(desk.output).manifest.mechanism.options["sensitivity"] == "paper"
    assert desk.run(f"{command} sensitivity=-nonsense", *arguments).exit_code == 2

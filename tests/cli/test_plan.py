"""``dpcov plan`` and ``dpcov mechanisms``: the tables, and that what they describe can be drawn."""

import dataclasses

import pytest

import dpcov
from dpcov.errors import BudgetError, UsageError
from dpcov.mechanisms.registry import MECHANISMS, names
from dpcov.pipeline.plan import predict

BUDGETS = {"PureDP": "--epsilon 2", "ZCDP": "--rho 1", "ApproxDP": "--epsilon 1 --delta 1e-6"}
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


def test_the_table_has_one_line_for_every_mechanism(desk):
    lines = desk.done("mechanisms").splitlines()
    assert lines[0].split() == ["NAME", "GUARANTEE", "RELATION", "NUMERICS", "PAPER", "SUMMARY"]
    assert tuple(line.split()[0] for line in lines[1 : len(MECHANISMS) + 1]) == names()
    (gaussian,) = [line for line in lines if line.startswith("gaussian ")]
    for fact in ("rho | epsilon,delta", "both", "exact"):
        assert fact in gaussian


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=names())
def test_every_mechanism_is_described_and_can_be_released(desk, mechanism):
    text = desk.done("mechanisms", mechanism.name)
    for field in dataclasses.fields(mechanism):
        assert f"{field.name}={field.default}" in text
    assert mechanism.paper in text
    budget = BUDGETS[mechanism.promises[0].__name__]
    command = f"release {budget} --no-ledger --mechanism {mechanism.name}"
    desk.done(command, desk.data, *desk.fixed)
    assert dpcov.load(desk.output).manifest.mechanism.name == mechanism.name


def test_options_reach_the_mechanism(desk):
    command = "release --epsilon 2 --no-ledger --mechanism laplace --overwrite --option"
    arguments = (desk.data, *desk.fixed)
    desk.done(f"{command} sensitivity=paper", *arguments)
    assert dpcov.load(desk.output).manifest.mechanism.options["sensitivity"] == "paper"
    assert desk.run(f"{command} sensitivity=-nonsense", *arguments).exit_code == 2

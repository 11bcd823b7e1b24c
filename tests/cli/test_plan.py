import sys

import pytest

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


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG\r"), ("svg", b"<?xml")])
def test_the_figure_is_drawn_and_not_overwritten(desk, kind, start, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(predict, "_ENOUGH_VALUES", 1)
    figure = desk.folder / f"plan.{kind}"
    command = f"{PLAN} --rho 1 --trace 0.1 --plot {figure}"
    desk.done(command)
    assert figure.read_bytes().startswith(start)
    assert desk.run(command).exit_code == UsageError.exit_code
    desk.done(command, "--overwrite")


def test_a_missing_matplotlib_is_named_before_anything_is_computed(desk, monkeypatch):
    for module in ("matplotlib.backends.backend_agg", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    result = desk.run(PLAN + "--rho 1 --plot", desk.folder / "plan.png")
    assert result.exit_code == UsageError.exit_code
    assert "dpcov[plots]" in result.output
    assert "relative error" not in result.output


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("", UsageError),
        ("--rho 1 --epsilon 1", BudgetError),
        ("--rho 1 --trace 2", UsageError),
        ("--rho 1 --spectrum curly", UsageError),
        ("--rho 1 --plot plan.gif", UsageError),
        ("--rho 1 --neighbors next-door", BudgetError),
        ("--rho 1 --rows-per-person 0", UsageError),
    ],
)
def test_wrong_usage_is_explained(desk, arguments, error):
    result = desk.run(PLAN + arguments)
    assert result.exit_code == error.exit_code
    assert "Error:" in result.output

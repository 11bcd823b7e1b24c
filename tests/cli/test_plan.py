import sys

import pytest

from dpcov.errors import BudgetError, UsageError

PLAN = ("plan", "--rows", "2000", "--features", "16")


def test_the_table_has_a_row_per_mechanism_and_a_column_per_trace(desk):
    result = desk.run(*PLAN, "--rho", "0.5", "--trace", "0.5", "--trace", "0.02")
    assert result.exit_code == 0
    table, _, legend = result.output.partition("1 is the error")
    lines = {line.split()[0]: line.split()[1:] for line in table.splitlines() if line.strip()}
    assert lines["trace"] == ["0.5", "0.02"]
    assert lines["zero"] == ["1", "1"]
    assert 0 < float(lines["auto"][1]) < float(lines["gaussian"][1])
    assert "auto chose stratified" in legend


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_figure_is_drawn_and_not_overwritten(desk, tmp_path, kind):
    pytest.importorskip("matplotlib")
    figure = tmp_path / f"plan.{kind}"
    arguments = (*PLAN, "--epsilon", "1", "--trace", "0.1", "--plot", str(figure))
    assert desk.run(*arguments).exit_code == 0
    assert figure.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml")
    assert desk.run(*arguments).exit_code == UsageError.exit_code
    assert desk.run(*arguments, "--overwrite").exit_code == 0


def test_a_missing_matplotlib_is_named_before_anything_is_computed(desk, tmp_path, monkeypatch):
    for module in ("matplotlib.backends.backend_agg", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    result = desk.run(*PLAN, "--rho", "1", "--plot", str(tmp_path / "plan.png"))
    assert result.exit_code == UsageError.exit_code
    assert "dpcov[plots]" in result.output
    assert "relative error" not in result.output


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), UsageError),
        (("--rho", "1", "--epsilon", "1"), BudgetError),
        (("--rho", "1", "--trace", "2"), UsageError),
        (("--rho", "1", "--spectrum", "curly"), UsageError),
        (("--rho", "1", "--plot", "plan.gif"), UsageError),
        (("--rho", "1", "--neighbors", "next-door"), BudgetError),
        (("--rho", "1", "--rows-per-person", "0"), UsageError),
    ],
)
def test_wrong_usage_is_explained(desk, arguments, error):
    result = desk.run(*PLAN, *arguments)
    assert result.exit_code == error.exit_code
    assert "Error:" in result.output

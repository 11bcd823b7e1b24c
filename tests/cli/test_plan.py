"""``dpcov plan`` and the options of mechanisms."""

from fractions import Fraction

import pytest

import dpcov
from dpcov.errors import BudgetError, UsageError
from dpcov.pipeline.plan import page as plan_page
from dpcov.pipeline.plan import predict

PLAN = "plan --rows 2000 --features 16 "


def test_the_table_has_a_row_per_mechanism_and_a_column_per_trace(desk, monkeypatch):
    monkeypatch.setattr(predict, "_ENOUGH_VALUES", 32)  # two releases each
    told = desk.done(PLAN + "--rho 0.5 --geometry schema --trace 0.5 --trace 0.02")
    assert told.count("which is large") == 1
    table, _, legend = told.partition("1 is the error")
    lines = {line.split()[0]: line.split()[1:] for line in table.splitlines() if line.strip()}
    assert lines["trace"] == ["0.5", "0.02"]
    assert lines["zero"] == ["1", "1"]
    assert 0 < float(lines["auto"][1]) < float(lines["gaussian"][1])
    assert "auto chose stratified" in legend


def test_a_private_geometry_is_assumed_where_a_survey_would_be_made(desk, monkeypatch):
    monkeypatch.setattr(predict, "_ENOUGH_VALUES", 16)  # one release each
    told = desk.done("plan --rows 20000 --features 16 --rho 0.1")
    assert "A private geometry is assumed" in told
    table = {line.split()[0]: line.split()[1:] for line in told.split("1 is")[0].splitlines()[2:-1]}
    assert table["trace"] == ["0.46"]
    assert 0 < float(table["auto"][0]) < 0.2
    few = desk.done("plan --rows 100 --features 16 --rho 0.1")
    assert "So few rows get no survey" in few
    assert "A private geometry" not in few
    assert "trace" in few and " 0.03 " in few
    page = desk.folder / "plan.html"
    monkeypatch.setattr(plan_page, "FACTORS", (Fraction(1, 1000), 1))
    desk.done("plan --rows 20000 --features 16 --rho 0.1 --html", page)
    assert "private geometry" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("", UsageError),
        ("--rho 1 --epsilon 1", BudgetError),
        ("--rho 1 --geometry schema --trace 2", UsageError),
        ("--rho 1 --trace 0.5", UsageError),
        ("--rho 1 --geometry neither", UsageError),
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

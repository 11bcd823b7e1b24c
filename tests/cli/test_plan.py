"""``dpcov plan`` and the options of mechanisms."""

import inspect
import re
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import dpcov
from dpcov.cli import options
from dpcov.errors import BudgetError, UsageError
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.registry import MECHANISMS
from dpcov.pipeline.plan import predict
from dpcov.pipeline.plan.rehearsal import Rehearsal, needed_epsilon

PLAN = "plan --rows 2000 --features 16 "
TERMS = "--epsilon 1 --delta 1e-6"
COMPARE = PLAN + "--mechanisms "


def test_the_table_has_a_row_per_mechanism_and_a_column_per_trace(desk, monkeypatch):
    monkeypatch.setattr(predict, "_ENOUGH_VALUES", 32)  # two releases each
    told = desk.done(COMPARE + "--rho 0.5 --geometry schema --trace 0.5 --trace 0.02")
    assert told.count("which is large") == 1
    table, _, legend = told.partition("1 is the error")
    lines = {line.split()[0]: line.split()[1:] for line in table.splitlines() if line.strip()}
    assert lines["trace"] == ["0.5", "0.02"]
    assert lines["zero"] == ["1", "1"]
    assert 0 < float(lines["auto"][1]) < float(lines["gaussian"][1])
    assert "auto chose stratified" in legend


def test_every_rehearsal_of_what_would_help_is_a_step(desk, monkeypatch):
    told = []
    showing = contextmanager(lambda what: iter([lambda *steps: told.append(steps)]))
    monkeypatch.setattr(options, "steps_progress", showing)
    # Of five columns and an intercept each of the first three is left out once.
    desk.done("plan --rows 5000 --features 6 --rho 1")
    assert told == [(1, 2), (2, 2), (3, 5), (4, 5), (5, 5)]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("--rows 10 --delta 0.5", "delta = 0.5 is not below one over the number of rows, 10"),
        ("--rows 10 --delta 0.05", ""),
        ("--rows 100 --delta 0.002 --neighbors add-remove-one", "0.001 or less"),
    ],
)
def test_a_delta_that_a_release_refuses_is_warned_of(desk, more, told):
    said = desk.done(f"plan --features 3 --epsilon 1 {more}")
    assert told in said
    assert ("A release will refuse this" in said) == bool(told)


def test_a_dry_run_warns_of_a_delta_unless_it_is_accepted(desk):
    terms = "release --dry-run --rows 10 --epsilon 1 --delta 0.5"
    assert "A release will refuse this" in desk.done(f"{terms} --schema", desk.schema)
    told = desk.done(f"{terms} --accept-large-delta --schema", desk.schema)
    assert "refuse" not in told


@pytest.mark.parametrize(("rows", "features", "gains"), [(3000, 9, True), (40_000, 25, False)])
def test_what_to_leave_out_is_said_where_the_numbers_shown_differ(desk, rows, features, gains):
    told = desk.done(f"plan --rows {rows} --features {features} --epsilon 1 --delta 1e-6")
    assert ("instead of" in told) == gains


def test_what_would_show_is_said_where_nothing_does(desk):
    few = f"plan --rows 500 {TERMS}"
    told = desk.done(f"{few} --features 20")
    assert "None of 19 columns can be used" in told
    assert re.search(
        r"^With a quarter of the columns: ±0.\d\d where nothing shows now\.$", told, re.M
    )
    weighted = desk.schema.read_text() + '\n[weights]\ncolumn = "age"\nupper = 120\n'
    desk.schema.write_text(weighted)
    told = desk.done(f"{few} --schema", desk.schema)
    assert re.search(r"^Without the weights: ±0.\d\d ", told, re.M)
    assert "weights an eighth of their upper on average" in told
    needed = r"±0.05 takes epsilon [\d.]+, or ([\d,]+) rows"
    eighth, half = (
        int(
            re.search(needed, desk.done(f"plan --rows 20000 {TERMS} {more}--schema", desk.schema))[
                1
            ].replace(",", "")
        )
        for more in ("", "--mean-weight 60 ")
    )
    assert half < eighth / 2


def test_a_private_geometry_is_assumed_where_a_survey_would_be_made(desk, monkeypatch):
    monkeypatch.setattr(predict, "_ENOUGH_VALUES", 16)  # one release each
    told = desk.done("plan --rows 20000 --features 16 --mechanisms --rho 0.1")
    assert "A private geometry is assumed" in told
    table = {line.split()[0]: line.split()[1:] for line in told.split("1 is")[0].splitlines()[2:-1]}
    assert table["trace"] == ["0.46"]
    assert 0 < float(table["auto"][0]) < 0.2
    few = desk.done("plan --rows 100 --features 16 --mechanisms --rho 0.1")
    assert "So few rows get no survey" in few
    assert "A private geometry" not in few
    assert "trace" in few and " 0.03 " in few


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("", UsageError),
        ("--rho 1 --epsilon 1", BudgetError),
        ("--rho 1 --mechanisms --geometry schema --trace 2", UsageError),
        ("--rho 1 --trace 0.5", UsageError),
        ("--rho 1 --mechanisms --html plan.html", UsageError),
        ("--rho 1 --spread 2", UsageError),
        ("--rho 1 --spread 0", UsageError),
        ("--rho 1 --mean-weight 1", UsageError),
        ("--rho 1 --mechanisms --mean-weight 1", UsageError),
        ("--rho 1 --mechanisms --spread 0.1", UsageError),
        ("--rho 1 --schema nowhere.toml", UsageError),
        ("--rho 1 --geometry neither", UsageError),
        ("--rho 1 --neighbors next-door", UsageError),
    ],
)
def test_wrong_usage_is_explained(desk, arguments, error):
    result = desk.run(PLAN + arguments)
    assert result.exit_code == error.exit_code
    assert "Error" in result.output


def test_a_plan_says_what_could_be_read_in_the_readers_terms(desk):
    told = desk.done("plan --rows 20000 --epsilon 1 --delta 1e-6 --schema", desk.schema)
    assert "columns can be used; their correlations are within ±" in told
    budget = dpcov.Budget(epsilon=1, delta="1e-6")
    rehearsal = Rehearsal(schema=dpcov.Schema.from_toml(desk.schema), n_rows=20_000)
    planned = rehearsal.at(budget)
    factor = rehearsal.needed(budget, 0.05, planned)
    # Rehearsals know no more than two digits.
    epsilon, rows = float(needed_epsilon(budget, factor)), float(f"{20_000 * factor:.2g}")
    assert f"\n±0.05 takes epsilon {epsilon:.2g}, or {rows:,.0f} rows.\n" in told
    assert "Rehearsed on made-up rows; no data were read." in told
    lines = [line for line in told.splitlines() if line.startswith("● ")]
    assert [line.split()[1] for line in lines] == ["age", "sex=F", "sex=M", "ill"]
    for line, (verdict, *cells) in zip(lines, planned.cells, strict=True):
        assert line.split()[2:] == " ".join([*cells, verdict.partition(" ")[2]]).split()
    for word in ("Frobenius", "trace", "gaussian"):
        assert word not in told


def test_number_and_schema_must_be_given(desk):
    for arguments in ("--rows 100", "--features 5"):
        assert desk.run(f"plan {arguments} --rho 1").exit_code == UsageError.exit_code
    # A schema says it, and what it says counts.
    both = desk.run("plan --rows 100 --rho 1 --rows-per-person 3 --schema", desk.schema)
    assert both.exit_code == UsageError.exit_code and "rows_per_person" in both.output


def test_public_rows_are_rehearsed_and_said_to_be(desk):
    rng, public = np.random.default_rng(0), desk.folder / "public.csv"
    columns = {"age": rng.normal(50, 3, 3000), "sex": rng.choice(["F", "M"], 3000)}
    columns["ill"] = rng.random(3000) < 0.1
    pyarrow.csv.write_csv(pa.table(columns), public)
    told = desk.done("plan --rho 0.5 --schema", desk.schema, "--table", public)
    spread = desk.run("plan --rho 0.5 --spread 0.1 --schema", desk.schema, "--table", public)
    assert spread.exit_code == 2 and "Leave --spread and --mean-weight out" in spread.output
    assert "and 3,000 rows" in told
    assert "Rehearsed on public rows" in told


@pytest.mark.parametrize("command", ["plan", "release --dry-run"])
def test_a_plan_of_groups_tells_of_one_of_them(desk, command):
    """The column of groups has most levels, and is none that could be left out."""
    column = 'type = "numeric"\nlower = 0\nupper = 1\n'
    text = "".join(f"[columns.x{place}]\n{column}" for place in range(3))
    text += '[columns.ward]\ntype = "categorical"\ncategories = ["a", "b", "c", "d"]\n'
    desk.schema.write_text(f'missing = "never"\n{text}')
    run = f"{command} --rows 20000 --rho 0.5 --schema {desk.schema}"
    typical = r"within ±([\d.]+) \(typical\)"
    one, whole = desk.done(f"{run} --by ward"), desk.done(run)
    assert "of one group" in one and "of one group" not in whole
    # A group has a part of the rows, and all of the noise.
    assert float(re.search(typical, one)[1]) > 2 * float(re.search(typical, whole)[1])
    assert "ward" not in one


def test_names_are_cut_and_stay_on_their_line(desk):
    column = 'type = "numeric"\nlower = 0\nupper = 1\n'
    names = ("a\\nb", "L" * 500, "c")
    text = "".join(f'[columns."{name}"]\n{column}' for name in names)
    desk.schema.write_text(f"wildcards = false\n{text}")
    lines = desk.done(f"plan --rows 200 --rho 0.5 --schema {desk.schema}").splitlines()
    assert any(line[1:].startswith("  a b  ") for line in lines)
    assert "L" * 40 not in "".join(lines)


def test_a_dry_run_reads_nothing_spends_nothing_and_writes_nothing(desk):
    desk.data.unlink()
    public = desk.folder / "g.toml"
    public.write_text("[columns]")
    before = sorted(desk.folder.iterdir())
    run = f"release {desk.data} --schema {desk.schema} --rho 0.5 --dry-run"
    assert "found its geometry itself" in desk.done(f"{run} --rows 3000 --geometry", public)
    assert desk.run(f"{run} --rows 3000 --geometry absent.dpcov").exit_code not in (0, 1)
    told = desk.done(f"{run} --rows 3000")
    assert "columns can be used" in told
    assert "no data were read" in told
    assert sorted(desk.folder.iterdir()) == before
    assert desk.run(run).exit_code == UsageError.exit_code
    assert desk.run(f"release {desk.data} --schema {desk.schema} --rho 1").exit_code == 2


def test_mechanisms_are_listed_and_described(desk):
    told = desk.done("mechanisms")
    listed = [
        line for line in told.splitlines() if line.endswith(tuple(x.summary for x in MECHANISMS))
    ]
    assert [line.split()[0] for line in listed] == [each.name for each in MECHANISMS]
    assert "docs/mechanisms.md" in told
    told = desk.done("mechanisms gaussian")
    assert "Options    bits=20" in told and inspect.getdoc(Gaussian) in told


def test_options_reach_the_mechanism(desk):
    command = "release --epsilon 2 --no-ledger --mechanism laplace --overwrite --option"
    arguments = (desk.data, *desk.fixed)
    desk.done(f"{command} sensitivity=paper", *arguments)
    assert dpcov.load(desk.output).manifest.mechanism.options["sensitivity"] == "paper"
    assert desk.run(f"{command} sensitivity=-nonsense", *arguments).exit_code == 2

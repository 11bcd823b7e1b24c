"""Exit codes, unforeseen errors and progress."""

import json
import re
import shlex
import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import dpcov
from dpcov import errors
from dpcov.analysis import difference_intervals
from dpcov.analysis.intervals.table import COLUMNS
from dpcov.cli import main
from dpcov.cli.main import app
from dpcov.cli.options import parse_options, rows_progress, steps_progress
from dpcov.privacy.convert import zcdp_rho


def test_every_exit_code_is_documented(desk):
    text = " ".join(desk.done("--help").split()).partition("Exit codes")[2]
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.DpcovError):
            assert re.search(rf"\b{kind.exit_code} \w+", text), kind
    assert f"{main.INTERNAL_ERROR} internal error" in text
    assert f"{main.INTERRUPTED} interrupted" in text


@pytest.mark.parametrize(
    "arguments",
    [
        *("show", "show x --no-such-option", "nothing", "release data.csv"),
        *("", "schema", "ledger", "moments"),
    ],
)
def test_wrong_usage_is_told_and_exits_with_two(arguments, desk):
    result = desk.run(arguments)
    assert result.exit_code in (0, 2)
    assert "Usage" in result.output
    assert desk.untouched()


def test_the_parsers_own_errors_pass_the_handler_that_seals_all_others(tmp_path):
    run = [sys.executable, "-m", "dpcov", "show", "x", "--no-such-option"]
    result = subprocess.run(run, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert result.returncode == 2
    assert "Usage" in result.stderr
    assert "Internal error" not in result.stderr


@pytest.mark.parametrize(
    ("name", "read"), [("s.csv", pyarrow.csv.read_csv), ("s.parquet", pyarrow.parquet.read_table)]
)
def test_synthetic_rows_are_written_and_read_back(desk, name, read):
    desk.release()
    output = desk.folder / name
    told = desk.done("sample --rows 70 --seed 1", desk.output, "-o", output)
    assert told == f"Wrote {output}: 70 synthetic rows; they describe nobody.\n"
    rows = read(output)
    assert (rows.num_rows, rows.column_names) == (70, ["age", "sex", "ill"])
    assert desk.run("sample", desk.output, "-o", output).exit_code == 7
    negative = desk.run("sample --seed -1", desk.output, "-o", desk.folder / "new.csv")
    assert negative.exit_code == 2
    with pytest.raises(errors.UsageError, match="seed must be a whole number, 0 or more"):
        dpcov.load(desk.output).sample(3, seed=-1)
    assert desk.run("sample", desk.output, "-o", desk.folder / "s.xls").exit_code == 2


def test_releases_are_combined_and_one_twice_is_refused(desk):
    desk.release()
    first, both = desk.folder / "first.dpcov", desk.folder / "both.dpcov"
    desk.output.rename(first)
    desk.release()
    told = desk.done("combine", first, desk.output, "-o", both)
    assert "of 2 releases" in told and told.count(" % of release ") == 2
    assert "whoever is in one of these tables" not in told and " columns can be used" in told
    assert desk.run("combine", first, desk.output, "-o", both).exit_code == 7
    desk.done("combine", first, desk.output, "-o", both, "--overwrite")
    assert "Made of" in desk.done("show", both)
    united = desk.folder / "united.dpcov"
    told = desk.done("combine --disjoint", first, desk.output, "-o", united)
    assert "whoever is in one of these tables" in told
    assert "WARNING: 2 of these releases were charged to an account called" in told
    result = desk.run("combine", both, first, "-o", desk.folder / "c.dpcov")
    assert result.exit_code == 2 and "twice" in result.output
    assert not (desk.folder / "c.dpcov").exists()


def test_two_years_are_compared_and_what_differs_comes_first(desk):
    later = desk.folder / "later.csv"
    rows = [f"x,{20 + n % 70},{'FM'[n % 2]},{str(n % 70 > 35).lower()}" for n in range(3000)]
    later.write_text("\n".join(["name,age,sex,ill", *rows, ""]))
    desk.release()
    first = desk.output.rename(desk.folder / "first.dpcov")
    assert desk.release(data=later, rho="1").exit_code == 0
    told = desk.done("compare", first, desk.output)
    summary, _, _, heads, line, *_ = told.splitlines()
    assert re.match(r"Intervals that exclude zero: [12] of 3\. .* at most about 5 of 100 ", summary)
    # Two levels that hold all rows said everything twice, and pairs of them four times.
    assert told.endswith("since the column's other level says the same: 'sex=F'.\n")
    assert line.startswith("age, ill") and "privacy_std" in heads
    table = difference_intervals(dpcov.load(first), dpcov.load(desk.output), ["age", "ill"])
    one = desk.done("compare", first, desk.output, "--column", "age", "--column", "ill")
    assert one.endswith(f"\n\n{table}\n")
    read = json.loads(desk.done("compare --json", first, desk.output))
    named = [each["fingerprint"] for each in read["releases"]]
    assert named == [dpcov.load(path).fingerprint for path in (first, desk.output)]
    assert read["level"] == 0.95 and read["rows"][0]["name"] == "age, ill"
    (same,) = [row for row in read["rows"] if row["name"] == table.names[0]]
    assert {name: same[name] for name in COLUMNS} == dict(table.to_frame().iloc[0])
    means = desk.done("compare --what means --level 0.5", first, desk.output)
    assert "differences of means (second less first), 50 % intervals" in means
    alike = desk.done("compare --what means --column sex --level 0.999", first, desk.output)
    assert alike.startswith("Intervals that exclude zero: 0 of 2. ") and "about 0.1 of" in alike
    assert desk.run("compare", first, first).exit_code == 2
    assert desk.run("compare --what x", first, desk.output).exit_code == 2
    assert desk.run("compare --level 2", first, desk.output).exit_code == 2


def test_two_groups_of_one_release_are_compared(desk):
    desk.release("--by", "sex", "--geometry", "schema")
    chosen = "compare --what means --column age --json --group F"
    told = json.loads(desk.done(f"{chosen} --second-group M", desk.output, desk.output))
    release = dpcov.load(desk.output)
    groups = [release.group(name) for name in ("F", "M")]
    (line,) = difference_intervals(*groups, "age", what="means").rows
    assert told["rows"][0]["estimate"] == line.estimate
    assert desk.run(chosen, desk.output, desk.output).exit_code == 2


def test_a_total_is_divided_among_releases_without_a_table(desk):
    told = desk.done("plan --rho 1 --releases 4")
    lines = [line.split() for line in told.splitlines() if line.startswith("release ")]
    equal = [("(0.25)-zCDP", "2.00", so_far) for so_far in ("2.00", "1.41", "1.15", "1.00")]
    growing = [("(0.1)-zCDP", "3.16", "3.16"), ("(0.2)-zCDP", "2.24", "1.83")]
    growing += [("(0.3)-zCDP", "1.83", "1.29"), ("(0.4)-zCDP", "1.58", "1.00")]
    assert [(line[2], line[4], line[-1]) for line in lines] == equal + growing
    assert desk.run("plan --rho 1 --releases 1").exit_code == 2
    others = "--html p.html", "--rows 9", "--mechanisms", "--trace 0.5", "--geometry schema"
    for more in (*others, "--neighbors add-remove-one", "--overwrite"):
        assert "Leave other" in desk.run(f"plan --rho 1 --releases 4 {more}").output


@pytest.mark.parametrize("option", ["--curator me", "--link x", "--justification x"])
def test_a_checklist_refuses_what_it_does_not_hold(desk, option):
    command = f"record a.dpcov --kind checklist -o c.md {option}"
    desk.assert_refused(desk.run(command), 2, "registry entry")


@pytest.mark.parametrize("command", ["export", "release", "plan", "survey", "audit"])
def test_the_help_of_a_command_ends_with_an_example(desk, command):
    told = " ".join(desk.done(f"{command} -h", env={"COLUMNS": "400"}).split())
    assert f"Example: dpcov {command} " in told
    assert (".R, .jl or .do" in told) == (command == "export")


def test_a_pooled_group_needs_a_name(desk):
    desk.release("--by", "sex", "--geometry", "schema")
    chosen = ("export", desk.output, "--pooled", "-o")
    result = desk.run(*chosen, desk.folder / "m.csv")
    assert result.exit_code == 2 and "--group" in result.output
    desk.done(*chosen, desk.folder / "m.csv", "--group", "F")


def test_groups_inside_groups_add_up(desk):
    desk.release("--by", "sex", "--geometry", "schema")
    above, inside, out = (desk.folder / name for name in ("s.dpcov", "in.csv", "f.dpcov"))
    desk.output.rename(above)
    desk.release("--by", "sex", "--geometry", "schema")
    inside.write_text("region,state\n F , F\nM,M\n")
    chosen = ("nest", desk.output, above, "--inside", inside, "-o", out)
    told = desk.done(*chosen, "--group", "F")
    assert "F, (" in told and " columns can be used" in told
    assert "adds up" in desk.done("show", out, "--details")
    result = desk.run(*chosen, "--overwrite", "--group", "Q")
    assert result.exit_code == 2 and "has a group" in result.output
    for lines, words in (
        (b"region,state\nF,M\nM,F\n", "Both releases have a group 'F'"),
        (b"F\nM,M,M\n", "two columns"),
        (b"region,state\nF,M\nM,M\nF,F\n", "says twice what holds 'F'"),
        (b"\xff,F\nF,F\n", "no CSV file"),
        (b"region,state\n" + b"F" * 200_000, "no CSV file"),
    ):
        inside.write_bytes(lines)
        result = desk.run(*chosen, "--overwrite", "--group", "F")
        assert result.exit_code == 2 and words in result.output
    # A group of one release alone.
    desk.output.unlink()
    for file, upper, lower in ((desk.schema, '"F", "M"', '"f", "m"'), (desk.data, ",M,", ",m,")):
        file.write_text(file.read_text().replace(upper, lower).replace(",F,", ",f,"))
    desk.release("--by", "sex", "--geometry", "schema")
    inside.write_text("region,state\nf,F\nm,M\n")
    for group in ("f", "M"):
        assert f"{group}, (" in desk.done(*chosen, "--overwrite", "--group", group)
    inside.unlink()
    result = desk.run(*chosen, "--overwrite", "--group", "F")
    assert result.exit_code == 2
    assert "in.csv: no such file or directory. Check the path" in result.output


_BROKEN = """
import sys
import dpcov.published.release
def broken(path):
    raise RuntimeError("zebra4711")
dpcov.published.release.Release.load = broken
sys.argv = ["dpcov", "show", "x"]
from dpcov.cli.main import run
run()
"""


@pytest.mark.parametrize("debug", ["", "1"])
def test_unforeseen_errors_are_sealed(debug, monkeypatch):
    monkeypatch.setenv("DPCOV_DEBUG", debug)
    result = subprocess.run([sys.executable, "-c", _BROKEN], capture_output=True, text=True)
    assert ("zebra4711" in result.stderr) == bool(debug)
    told = "Internal error (RuntimeError at <string>:5)"
    assert debug or (result.returncode == 70 and told in result.stderr)


def test_a_closed_pipe_is_no_internal_error(desk):
    desk.release()
    script = f"{sys.executable} -m dpcov show {desk.output} --json | true"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert "Internal error" not in result.stderr
    assert "Traceback" not in result.stderr


def test_options_of_a_mechanism_are_read_as_toml_scalars():
    read = parse_options(["bits=18", "x=0.5", "y=true", "z=word", 'w="18"'])
    assert read == {"bits": 18, "x": 0.5, "y": True, "z": "word", "w": "18"}
    for text in ("9" * 5000, "[" * 5000):
        assert parse_options([f"bits={text}"]) == {"bits": text}
    for wrong in ("bits", "=3", "a b=3"):
        with pytest.raises(errors.UsageError, match="NAME=VALUE"):
            parse_options([wrong])


@pytest.mark.parametrize("show_rows", [True, False])
def test_progress_counts_rows_only_where_their_number_is_public(show_rows, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with rows_progress(show_rows=show_rows, quiet=False) as tell:
        tell(4711)
        tell(1)
        time.sleep(0.3)
    shown = capsys.readouterr().err
    assert "Reading" in shown
    assert ("4,712 rows, counted every time" in shown) == show_rows
    with steps_progress("Rehearsing") as tell:
        tell(1, 2)
        time.sleep(0.3)
    assert "Rehearsing" in capsys.readouterr().err


def test_a_command_needs_no_error_stream(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with rows_progress(show_rows=True, quiet=False) as tell:
        assert tell is None


def test_a_ledger_can_fix_its_composition_and_never_shows_more_than_is_left(desk):
    rule = ("--dataset", "d", "--epsilon", "1", "--composition", "zcdp")
    book = desk.folder / "rule.sqlite"
    desk.done("ledger create", book, *rule, "--delta", "1e-6")
    shown = desk.done("ledger show", book, "--dataset", "d")
    left = Fraction(shown.split("left ")[1].split()[0])
    assert left <= zcdp_rho(Fraction(1), Fraction("1e-6"))
    wrong = desk.run("ledger create", desk.folder / "other.sqlite", *rule)
    assert wrong.exit_code == errors.LedgerError.exit_code


HEAVY = {"pyarrow", "scipy", "pandas", "polars", "narwhals", "cryptography", "sklearn"}


@pytest.mark.parametrize(
    ("action", "more"), [("import dpcov", set()), ("from dpcov.cli.main import app", {"numpy"})]
)
def test_nothing_heavy_is_imported_at_the_start(action, more):
    script = [sys.executable, "-c", f"import sys; {action}; print(*sys.modules)"]
    loaded = subprocess.check_output(script, text=True).split()
    assert "dpcov" in loaded
    assert not {name.partition(".")[0] for name in loaded} & (HEAVY | more)


QUERY = "--sql 'SELECT * FROM t' --schema s.toml --rho 0.1 --no-ledger"
ROWS = "rows.csv --schema s.toml --rho 0.1 --no-ledger"
PAID = "rows.csv --schema s.toml --rho 0.1 --ledger ledger.sqlite --dataset people"


@pytest.mark.parametrize(
    "command",
    [
        "report a.dpcov --ledger ledger.sqlite -o ./there/../ledger.sqlite",
        "report a.dpcov -o a.dpcov",
        "record a.dpcov --curator me --intended-use it --ledger ledger.sqlite -o ledger.sqlite",
        "record a.dpcov --curator me --intended-use it -o a.dpcov",
        "combine a.dpcov b.dpcov -o b.dpcov",
        "export a.dpcov -o a.dpcov --what mean",
        f"release {QUERY} --db sqlite:///rows.db -o rows.db",
        f"release {QUERY} --db-env ROWS -o ./rows.db",
        f"release {QUERY} --db duckdb:///rows.db -o rows.db",
        f"survey {QUERY} --db sqlite:///rows.db -o rows.db",
        "schema resolve s.toml --sql 'SELECT 1 AS a' --db sqlite:///rows.db -o rows.db",
        "schema draft rows.csv -o rows.csv",
        "schema draft --codebook book.json -o book.json",
        f"release {ROWS} --geometry geo.toml -o geo.toml",
        f"release {ROWS} --geometry a.dpcov -o a.dpcov",
        f"release {ROWS} -o ./there/../rows.csv",
        f"release {ROWS} -o s.toml",
        f"survey {ROWS} -o s.toml",
        "plan --schema s.toml --rows 50 --rho 1 --html s.toml",
        "moments merge c.moments d.moments --key k -o ./d.moments",
        *(f"release {PAID} -o ledger.sqlite{end}" for end in ("", "-journal", "-wal", "-shm")),
    ],
)
def test_nothing_that_a_command_reads_is_written_over(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"x": np.linspace(-1, 1, 50), "y": np.linspace(-1, 1, 50) ** 2})
    column = dpcov.Numeric(lower=-1, upper=1)
    schema = dpcov.Schema(columns={"x": column, "y": column})
    book = dpcov.Ledger("ledger.sqlite")
    book.create("people", dpcov.Budget(rho=1), "replace-one")
    monkeypatch.setenv("ROWS", "sqlite:///rows.db")
    (tmp_path / "there").mkdir()
    for name in ("rows.db", "rows.csv", "s.toml", "geo.toml", "book.json"):
        (tmp_path / name).write_text("never opened")
    terms = {"schema": schema, "budget": dpcov.Budget(rho=0.1), "ledger": book}
    for name in ("a.dpcov", "b.dpcov"):
        dpcov.release(rows, **terms, dataset="people", output=name)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}
    run = CliRunner().invoke(app, [*shlex.split(command), "--overwrite"])
    assert run.exit_code != 0
    assert "is read here, and would be lost" in run.output
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.*")} == before


@pytest.mark.parametrize(
    ("door", "names"),
    [(dpcov.release, ("data", "schema", "geometry")), (dpcov.survey, ("data", "schema"))],
)
def test_nothing_that_a_call_reads_is_written_over(door, names, tmp_path):
    budget = dpcov.Budget(rho=1)
    schema = dpcov.Schema(columns={"x": dpcov.Numeric(lower=-1, upper=1)})
    for name in names:
        path, given = tmp_path / f"{name}.toml", {"data": pa.table({"x": [0.5]}), "schema": schema}
        path.write_text("kept")
        with pytest.raises(errors.UsageError, match="is read here"):
            door(**given | {name: path}, budget=budget, output=path, overwrite=True)
        assert path.read_text() == "kept"


@pytest.mark.parametrize("door", [dpcov.release, dpcov.survey])
def test_nothing_is_written_over_the_ledger_that_pays(door, tmp_path):
    path = tmp_path / "book.dpcov"
    book = dpcov.Ledger(path)
    book.create("people", dpcov.Budget(rho=1), "replace-one")
    rows = pa.table({"x": np.linspace(-1, 1, 50)})
    schema = dpcov.Schema(columns={"x": dpcov.Numeric(lower=-1, upper=1)})
    terms = {"schema": schema, "budget": dpcov.Budget(rho=0.1), "dataset": "people"}
    for output in (path, f"{path}-journal"):
        with pytest.raises(errors.UsageError, match="is the ledger"):
            door(rows, **terms, ledger=path, output=output, overwrite=True)
    assert book.entries("people") == ()


def test_what_needs_means_says_on_the_command_line_what_to_do(desk, tmp_path):
    """Of rows without an intercept."""
    made = dpcov.second_moment(np.ones((500, 2)), norm_bound=2.0, budget=dpcov.Budget(rho=1))
    (tmp_path / "m.dpcov").write_bytes(made.to_bytes())
    for command, name in (("export", "c.csv"), ("sample", "s.csv")):
        refused = desk.run(command, tmp_path / "m.dpcov", "-o", tmp_path / name)
        assert "dpcov export --what second-moment" in refused.output
    desk.done("export", tmp_path / "m.dpcov", "--what", "second-moment", "-o", tmp_path / "c.csv")


@pytest.mark.parametrize("command", ["release", "survey"])
def test_every_refusal_before_the_charge_says_once_that_nothing_is_spent(desk, tmp_path, command):
    (tmp_path / "there").write_bytes(b"x")
    account = f"--ledger {desk.ledger} --dataset patients"
    wrong = {
        "is read here": f"{account} -o {desk.data}",
        "one of the two": f"-o {tmp_path}/new",
        "exists already": f"{account} -o {tmp_path}/there",
        "does not exist; create it": f"{account} -o {tmp_path}/no/new",
        "no account of this name": f"--ledger {desk.ledger} --dataset others -o {tmp_path}/new",
        "State the budget": f"{account} -o {tmp_path}/new",
    }
    for words, given in wrong.items():
        rho = "" if "State" in words else "--rho 0.5"
        refused = desk.run(f"{command} {desk.data} --schema {desk.schema} {given} {rho}")
        told = " ".join(refused.output.split())
        assert refused.exit_code and words in told
        assert told.count("No budget was spent") == 1

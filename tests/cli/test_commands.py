import re
import subprocess
import sys
import time
from fractions import Fraction

import pytest

from dpcov.cli import main
from dpcov.cli.options import parse_options
from dpcov.cli.progress import rows_progress, steps_progress
from dpcov.errors import (
    BudgetError,
    DataError,
    DpcovError,
    LedgerError,
    NumericError,
    ReleaseError,
    SchemaError,
    UsageError,
)
from dpcov.privacy.convert import zcdp_rho

COMMANDS = [
    ("demo",),
    ("plan",),
    ("release",),
    ("mechanisms",),
    ("show",),
    ("export",),
    ("schema", "draft"),
    ("schema", "check"),
    ("ledger", "create"),
    ("ledger", "list"),
    ("ledger", "show"),
    ("ledger", "verify"),
    ("record",),
    ("audit",),
    ("report",),
    ("sample",),
    ("moments", "key"),
    ("moments", "checkpoint"),
    ("moments", "merge"),
]


def dpcov_process(*arguments, **options):
    run = [sys.executable, "-m", "dpcov", *map(str, arguments)]
    return subprocess.run(run, capture_output=True, text=True, timeout=60, **options)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_command_has_help_with_an_example(desk, command, option):
    result = desk.run(*command, option)
    assert result.exit_code == 0
    text = re.sub(r"\s+", " ", result.output)
    assert f"Example: dpcov {' '.join(command)}" in text
    assert "Usage" in text


def test_no_command_is_missing_above(desk):
    listed = desk.run("--help").output
    groups = ("schema", "ledger", "moments")
    for group in ("", *groups):
        text = desk.run(*group.split(), "--help").output
        found = set(re.findall(r"^│ (\w+) {2,}", text.partition("Commands")[2], re.MULTILINE))
        known = {command[-1] for command in COMMANDS if list(command[:-1]) == group.split()}
        assert found - set(groups) == known
    for group in groups:
        assert group in listed


def test_every_exit_code_is_documented(desk):
    text = re.sub(r"\s+", " ", desk.run("--help").output)
    for kind in (
        DpcovError,
        UsageError,
        SchemaError,
        DataError,
        BudgetError,
        LedgerError,
        ReleaseError,
        NumericError,
    ):
        assert re.search(rf"\b{kind.exit_code} \w+", text.partition("Exit codes")[2])
    assert f"{main.INTERNAL_ERROR} internal error" in text
    assert f"{main.INTERRUPTED} interrupted" in text


def test_the_version_is_printed(desk):
    result = desk.run("--version")
    assert result.exit_code == 0
    assert re.fullmatch(r"dpcov \d+\.\d+\.\d+\n", result.output)


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "x.dpcov", "--what", "magic", "-o", "x.csv"),
        ("export", "x.dpcov", "--post", "magic", "-o", "x.csv"),
        ("export", "x.dpcov", "--format", "xlsx", "-o", "x.csv"),
        ("show",),
        ("show", "x", "--no-such-option"),
        ("nothing",),
        ("release", "data.csv"),
    ],
)
def test_wrong_usage_is_told_and_exits_with_two(arguments, tmp_path):
    """As a process: the parser's own errors pass through the handler that seals all others."""
    result = dpcov_process(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert "Usage" in result.stderr
    assert "Internal error" not in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("group", [(), ("schema",), ("ledger",)])
def test_a_group_alone_shows_its_commands(desk, group):
    result = desk.run(*group)
    assert result.exit_code in (0, 2)
    assert "Usage" in result.output


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
    assert debug or (result.returncode == 70 and "RuntimeError at <string>:5" in result.stderr)


def test_a_closed_pipe_is_no_internal_error(desk):
    desk.release()
    script = f"{sys.executable} -m dpcov show {desk.output} --json | true"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert "Internal error" not in result.stderr
    assert "Traceback" not in result.stderr


def test_options_of_a_mechanism_are_read_as_toml_scalars():
    assert parse_options(["bits=18", "x=0.5", "y=true", "z=word", 'w="18"']) == {
        "bits": 18,
        "x": 0.5,
        "y": True,
        "z": "word",
        "w": "18",
    }
    for wrong in ("bits", "=3", "a b=3"):
        with pytest.raises(UsageError, match="NAME=VALUE"):
            parse_options([wrong])


@pytest.mark.parametrize("show_rows", [True, False])
def test_progress_counts_rows_only_where_their_number_is_public(show_rows, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with rows_progress(show_rows=show_rows, quiet=False) as progress:
        progress(4711)
        progress(1)
        time.sleep(0.3)
    shown = capsys.readouterr().err
    assert "Gathering" in shown
    assert ("4,712 rows" in shown) == show_rows


@pytest.mark.parametrize("quiet", [True, False])
def test_nobody_who_does_not_watch_is_shown_progress(quiet, capsys):
    with (
        rows_progress(show_rows=True, quiet=quiet) as progress,
        steps_progress("Predicting") as steps,
    ):
        assert progress is None and steps is None
    assert capsys.readouterr().err == ""


def test_steps_whose_number_is_known_have_a_bar(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with steps_progress("Predicting") as progress:
        progress(3, 4)
        time.sleep(0.3)
    shown = capsys.readouterr().err
    assert "Predicting" in shown
    assert "75%" in shown


def test_a_ledger_can_fix_its_composition_and_never_shows_more_than_is_left(desk):
    made = desk.run(
        *("ledger", "create", str(desk.folder / "rule.sqlite"), "--dataset", "d"),
        *("--epsilon", "1", "--delta", "1e-6", "--composition", "zcdp"),
    )
    assert made.exit_code == 0
    shown = desk.run("ledger", "show", str(desk.folder / "rule.sqlite"), "--dataset", "d")
    left = Fraction(shown.output.split("left ")[1].split()[0])
    assert left <= zcdp_rho(Fraction(1), Fraction("1e-6"))
    wrong = desk.run(
        *("ledger", "create", str(desk.folder / "other.sqlite"), "--dataset", "d"),
        *("--epsilon", "1", "--composition", "zcdp"),
    )
    assert wrong.exit_code == LedgerError.exit_code

"""Everything a person can get wrong: a message, an exit code, nothing spent, nothing written."""

import errno
import logging
import os
import traceback

import pytest

import dpcov
from dpcov.errors import DpcovError

USAGE, SCHEMA, DATA, BUDGET, LEDGER, RELEASE = 2, 3, 4, 5, 6, 7

SCHEMAS = {
    "unfilled bounds": ("lower = 0\nupper = 120", "lower = nan\nupper = nan", "age"),
    "inverted bounds": ("lower = 0", "lower = 200", "lower is above upper"),
    "repeated category": ('["F", "M"]', '["F", "F"]', "more than once"),
    "unknown field": ("lower = 0", "lower = 0\nlowest = 0", "lowest"),
    "no TOML": ("[columns.age]", "[columns.age", "TOML"),
    "no rows per person": ('title = "patients"', "rows_per_person = 0", "rows_per_person"),
}


def test_what_went_wrong_is_said_beside_what_is_printed(desk):
    """On standard error: what a program reads from standard output holds no words of it."""
    result = desk.run("release", "none.csv", *desk.fixed, "--rho", "1", "--no-ledger")
    assert result.stdout == "" and "Error: There is no file" in result.stderr


@pytest.mark.parametrize(("old", "new", "words"), SCHEMAS.values(), ids=SCHEMAS.keys())
def test_schemas_that_cannot_be_used(desk, old, new, words):
    assert old in desk.schema.read_text()
    desk.schema.write_text(desk.schema.read_text().replace(old, new))
    desk.assert_refused(desk.release(), SCHEMA, words)
    desk.assert_refused(desk.run("schema check", desk.schema), SCHEMA, words)


def test_a_name_in_a_refusal_steers_no_terminal(desk):
    named = desk.schema.read_text().replace(
        "[columns.age]", '[columns."\\u001b]0;\\u0007\\u202eage"]'
    )
    assert "u001b" in named
    desk.schema.write_text(named)
    result = desk.release()
    desk.assert_refused(result, DATA, "'?]0;??age'")
    assert not set("\x1b\x07\u202e") & set(result.output)


TABLES = {
    "empty": (lambda rows: b"", "empty"),
    "names only": (lambda rows: [rows[0], ""], "no rows"),
    "no names": (lambda rows: rows[1:], ""),
    "a column less": (lambda rows: [row.rpartition(",")[0] for row in rows], "ill"),
    "a column renamed": (lambda rows: [rows[0].replace("age", "Age"), *rows[1:]], "age"),
    "text where a number belongs": (lambda rows: [*rows, "x,zebra4711,F,true"], "age"),
    "text where a truth belongs": (lambda rows: [*rows, "x,31,F,zebra4711"], "ill"),
    "a field more": (lambda rows: [*rows, "zebra4711,31,F,true,zebra4711"], "fields"),
    "a field less": (lambda rows: [*rows, "zebra4711,31337.25"], "fields"),
    "wrong encoding": (lambda rows: "\n".join([*rows, "x,2,Fä4711,"]).encode("latin-1"), "UTF-8"),
    "an open quotation mark": (lambda rows: [*rows, '"zebra4711,20,F,true', "x,20,F,true"], ""),
    "bytes": (lambda rows: bytes(range(256)) * 40, ""),
    "semicolons": (lambda rows: [row.replace(",", ";") for row in rows], "semicolons"),
}


def spoil(desk, change):
    content = change(desk.data.read_text().splitlines())
    content = content if isinstance(content, bytes) else "\n".join(content).encode()
    desk.data.write_bytes(content)
    return content


@pytest.mark.parametrize(("change", "words"), TABLES.values(), ids=TABLES.keys())
def test_tables_that_cannot_be_read(desk, change, words, caplog):
    content = spoil(desk, change)
    refused = desk.release()
    desk.assert_refused(refused, DATA, words)
    assert "No budget was spent" in refused.output
    desk.assert_refused(desk.release(data="-", input=content), DATA)
    # No value hides in messages, notes, chained errors, formatted tracebacks and log records.
    caplog.set_level(logging.DEBUG)
    with pytest.raises(DpcovError) as caught:
        dpcov.release(str(desk.data), schema=desk.schema, budget=dpcov.Budget(rho=1))
    text = "".join(traceback.format_exception(caught.value)) + caplog.text
    error = caught.value
    while error is not None:
        text += repr(error) + str(error.args) + "".join(getattr(error, "__notes__", ()))
        error = error.__cause__ or error.__context__
    assert "4711" not in text
    assert "31337" not in text


def test_paths_that_lead_nowhere(desk):
    desk.assert_refused(desk.release(data=desk.folder), DATA, "directory")
    desk.assert_refused(desk.release(data=desk.folder / "absent.csv"), DATA, "no file")
    absent = desk.release("-o", desk.folder / "absent" / "x.dpcov")
    desk.assert_refused(absent, RELEASE, "create it first")
    desk.assert_refused(desk.release("-o", desk.folder), RELEASE, "directory")
    for name in ("x.csv", "x.CSV.gz", "x.zip"):
        result = desk.release("-o", desk.folder / name)
        desk.assert_refused(result, USAGE, "called as a table is, and a release is none")


BUDGETS = {
    "--rho 0": "greater than zero",
    "--rho nan": "finite",
    "--rho much": "decimal",
    "--rho 100000": "protects nobody",
    "--rho 1e999999999": "too large",
    "--rho 1e-999999999": "smaller",
    "--rho 1e-30": "Use a larger one",
    "--epsilon 1 --delta 1": "delta",
    "--epsilon 1 --delta 0": "Leave it out for a guarantee in epsilon alone.",
    "--delta 1e-6": "epsilon",
    "--rho 1 --epsilon 1": "either",
    "--epsilon 1 --mechanism gaussian": "gaussian",
    "": "budget",
}


@pytest.mark.parametrize(("arguments", "words"), BUDGETS.items(), ids=BUDGETS.keys())
def test_budgets_that_cannot_be_used(desk, arguments, words):
    refused = desk.release(*arguments.split(), rho=None)
    desk.assert_refused(refused, BUDGET if arguments else USAGE, words)


def test_an_overspend_is_refused_before_the_data_are_touched(desk):
    desk.assert_refused(desk.release(rho="3", data=desk.folder / "absent.csv"), LEDGER)


OPTIONS = {
    "--neighbors add-remove-one": (LEDGER, "replace-one"),
    "--neighbors somebody": (USAGE, "replace-one"),
    "--dataset strangers": (LEDGER, "Its accounts: patients."),
    "--no-ledger": (USAGE, "one of the two"),
    "--rows 7": (DATA, "Correct that number"),
    "--rows 0": (USAGE, "'--rows'"),
    "--rows 301 --neighbors add-remove-one": (USAGE, "private"),
    "--seed -3 --not-private": (USAGE, "--seed"),
    "--seed 1": (USAGE, "--not-private"),
    "--mechanism magic": (USAGE, "gaussian"),
    "--option magic=1": (USAGE, "bits"),
    "--option bits=99": (USAGE, "bits"),
    "--option bits": (USAGE, "NAME=VALUE"),
    "--option mechanism=x": (USAGE, "own, listed by --help"),
    "--option data=x": (USAGE, "own, listed by --help"),
    "--option name=x": (USAGE, "own, listed by --help"),
    "--option data=x --dry-run --rows 9": (USAGE, "own, listed by --help"),
    "--by age": (SCHEMA, "categorical or boolean: sex, ill."),
    "--geometry absent.toml": (SCHEMA, "Check the path, or say schema or private."),
    "--engine abacus": (USAGE, "local, dask, spark, device"),
    "--memory-limit 0.001": (USAGE, "GiB of memory"),
    "--memory-limit 0": (USAGE, "above 0"),
    "-o -": (RELEASE, "name a file"),
}


@pytest.mark.parametrize(("arguments", "refusal"), OPTIONS.items(), ids=OPTIONS.keys())
def test_options_that_contradict_ledger_data_or_reason(desk, arguments, refusal, monkeypatch):
    monkeypatch.chdir(desk.folder)
    desk.assert_refused(desk.release(*arguments.split()), *refusal)


def test_a_ledger_is_named_or_declined(desk):
    fixed = ("release --rho 1", desk.data, *desk.fixed)
    desk.assert_refused(desk.run(*fixed), USAGE, "--no-ledger")
    desk.assert_refused(desk.run(*fixed, "--ledger", desk.ledger), USAGE, "--dataset")
    both = desk.run(*fixed, "--no-ledger", "--dataset", "patients")
    desk.assert_refused(both, USAGE, "needs a ledger")
    absent = desk.run(*fixed, "--ledger", desk.folder / "no", "--dataset", "x")
    desk.assert_refused(absent, LEDGER, "ledger create")


@pytest.mark.parametrize("content", [b"", b"hello", bytes(5000)])
def test_a_damaged_ledger_is_refused(desk, content):
    desk.ledger.write_bytes(content)
    desk.assert_refused(desk.release(), LEDGER)
    assert desk.ledger.read_bytes() == content


def test_an_existing_output_is_kept(desk):
    desk.output.write_bytes(b"mine")
    desk.before = desk.names()
    desk.assert_refused(desk.release(), RELEASE, "--overwrite")
    assert desk.output.read_bytes() == b"mine"


PERMISSIONS = {
    "data": (0o000, DATA, "permission"),
    "schema": (0o000, SCHEMA, "cannot be read"),
    "ledger": (0o444, LEDGER, "writ"),
}


@pytest.mark.parametrize("name", PERMISSIONS)
def test_files_without_permission(shared_desk, name):
    mode, *refusal = PERMISSIONS[name]
    getattr(shared_desk, name).chmod(mode)
    shared_desk.assert_refused(shared_desk.release(), *refusal)


def full(*arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_noticed_before_anything_is_spent(desk, monkeypatch):
    monkeypatch.setattr(os, "posix_fallocate", full)
    desk.assert_refused(desk.release(), RELEASE, "no space left")


def test_a_disk_that_fails_after_the_draw(desk, monkeypatch):
    monkeypatch.setattr(os, "fsync", full)
    result = desk.release()
    monkeypatch.undo()
    desk.assert_sealed(result)
    assert result.exit_code == RELEASE
    assert "The budget IS spent: entry 1 of dataset patients" in result.output
    assert "whole" not in result.output
    assert desk.states() == ["drawn"]
    assert desk.names() == desk.before


def test_a_successful_run_prints_no_value_and_steps_that_can_be_pasted(desk, caplog):
    caplog.set_level(logging.DEBUG)
    result = desk.release("-o", desk.folder / "my patients.dpcov")
    assert result.exit_code == 0, result.output
    assert "dpcov doctor '" in result.output
    for text in (result.output, caplog.text, desk.done("schema draft", desk.data)):
        assert "4711" not in text
        assert "31337" not in text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_is_refused_without_waiting_for_its_writer(desk):
    pipe = desk.folder / "pipe.csv"
    os.mkfifo(pipe)
    desk.before = desk.names()
    desk.assert_refused(desk.release(data=pipe), DATA, "- for CSV on stdin")

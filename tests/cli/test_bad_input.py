"""Everything a person can get wrong: a short message, the documented exit code, nothing spent, nothing written."""

import errno
import gzip
import logging
import os
import traceback

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpcov
from dpcov.errors import DpcovError

USAGE, SCHEMA, DATA, BUDGET, LEDGER, RELEASE = 2, 3, 4, 5, 6, 7

SCHEMAS = {
    "unfilled bounds": ("lower = 0\nupper = 120", "lower = nan\nupper = nan", "age"),
    "one bound missing": ("upper = 120\n", "", "upper"),
    "inverted bounds": ("lower = 0", "lower = 200", "lower is above upper"),
    "equal bounds": ("lower = 0", "lower = 120", "equal"),
    "infinite bound": ("upper = 120", "upper = inf", "finite"),
    "bound is text": ("upper = 120", 'upper = "120"', "age"),
    "no categories": ('["F", "M"]', "[]", "categories"),
    "repeated category": ('["F", "M"]', '["F", "F"]', "more than once"),
    "unknown type": ('"boolean"', '"truth"', "ill"),
    "unknown field": ("lower = 0", "lower = 0\nlowest = 0", "lowest"),
    "no TOML": ("[columns.age]", "[columns.age", "TOML"),
    "huge norm bound": ('title = "patients"', "norm_bound = 99", "norm_bound"),
    "no rows per person": ('title = "patients"', "rows_per_person = 0", "rows_per_person"),
}


@pytest.mark.parametrize(("old", "new", "words"), SCHEMAS.values(), ids=SCHEMAS.keys())
def test_schemas_that_cannot_be_used(desk, old, new, words):
    assert old in desk.schema.read_text()
    desk.schema.write_text(desk.schema.read_text().replace(old, new))
    desk.assert_refused(desk.release(), SCHEMA, words)
    desk.assert_refused(desk.run("schema", "check", desk.schema), SCHEMA, words)


def test_a_schema_that_is_not_there(desk):
    desk.assert_refused(
        desk.run("schema", "check", desk.folder / "absent.toml"), SCHEMA, "no schema file"
    )
    desk.assert_refused(desk.run("schema", "check", desk.folder), SCHEMA)
    desk.schema.write_bytes(b"\xff\xfe\x00")
    desk.assert_refused(desk.release(), SCHEMA, "UTF-8")


def lines(desk):
    return desk.data.read_text().splitlines()


def rewrite(desk, content):
    desk.data.write_bytes(content if isinstance(content, bytes) else "\n".join(content).encode())


TABLES = {
    "empty": (lambda rows: b"", "empty"),
    "blank": (lambda rows: b"\n\n", ""),
    "names only": (lambda rows: [rows[0], ""], "no rows"),
    "no names": (lambda rows: rows[1:], ""),
    "a column less": (lambda rows: [row.rpartition(",")[0] for row in rows], "ill"),
    "a column renamed": (lambda rows: [rows[0].replace("age", "Age"), *rows[1:]], "age"),
    "text where a number belongs": (lambda rows: [*rows, "x,zebra4711,F,true"], "age"),
    "text where a truth belongs": (lambda rows: [*rows, "x,31,F,zebra4711"], "ill"),
    "a field more": (lambda rows: [*rows, "zebra4711,31,F,true,zebra4711"], "fields"),
    "a field less": (lambda rows: [*rows, "zebra4711,31337.25"], "fields"),
    "wrong encoding": (
        lambda rows: "\n".join([*rows, "x,20,Fä4711,true"]).encode("latin-1"),
        "UTF-8",
    ),
    "an open quotation mark": (lambda rows: [*rows, '"zebra4711,20,F,true', "x,20,F,true"], ""),
    "bytes": (lambda rows: bytes(range(256)) * 40, ""),
    "two columns of one name": (
        lambda rows: [rows[0].replace("name", "age"), *rows[1:]],
        "same name",
    ),
}


@pytest.mark.parametrize(("change", "words"), TABLES.values(), ids=TABLES.keys())
def test_tables_that_cannot_be_read(desk, change, words):
    rewrite(desk, change(lines(desk)))
    desk.assert_refused(desk.release(), DATA, words)


@pytest.mark.parametrize("change", [change for change, _ in TABLES.values()], ids=TABLES.keys())
def test_standard_input_is_treated_alike(desk, change):
    rewrite(desk, change(lines(desk)))
    content = desk.data.read_bytes()
    desk.assert_refused(desk.release(data="-", input=content), DATA)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.csv.gz", gzip.compress(b"age,sex,ill\n" + b"20,F,true\n" * 1000, mtime=0)[:-20]),
        ("no.csv.gz", b"age,sex,ill\nzebra4711,F,true\n"),
        ("no.parquet", b"PAR1zebra4711PAR1"),
        ("no.arrow", b"zebra4711"),
        ("no.npy", b"\x93NUMPYzebra4711"),
        ("no.npz", b"PKzebra4711"),
        ("no.xlsx", b"zebra4711"),
    ],
)
def test_files_that_are_not_what_their_name_says(desk, name, content):
    path = desk.folder / name
    path.write_bytes(content)
    desk.before = desk.names()
    desk.assert_refused(desk.release(data=path), DATA)
    desk.assert_refused(desk.run("schema", "draft", path), DATA)


def test_parquet_columns_of_the_wrong_type(desk):
    path = desk.folder / "wrong.parquet"
    pq.write_table(pa.table({"age": ["zebra4711"], "sex": ["F"], "ill": [True]}), path)
    desk.before = desk.names()
    desk.assert_refused(desk.release(data=path), DATA, "age")


def test_a_directory_and_a_file_that_is_not_there(desk):
    desk.assert_refused(desk.release(data=desk.folder), DATA, "directory")
    desk.assert_refused(desk.release(data=desk.folder / "absent.csv"), DATA, "no file")


BUDGETS = {
    "zero": (["--rho", "0"], BUDGET, "greater than zero"),
    "negative": (["--rho=-1"], BUDGET, "greater than zero"),
    "not a number": (["--rho", "nan"], BUDGET, "finite"),
    "infinite": (["--rho", "inf"], BUDGET, "finite"),
    "text": (["--rho", "much"], BUDGET, "decimal"),
    "huge": (["--rho", "100000"], BUDGET, "protects nobody"),
    "beyond reason": (["--rho", "1e999999999"], BUDGET, "too large"),
    "tiny": (["--rho", "1e-999999999"], BUDGET, "smaller"),
    "too small for the lattice": (["--rho", "1e-30"], BUDGET, "larger budget"),
    "delta one": (["--epsilon", "1", "--delta", "1"], BUDGET, "delta"),
    "delta zero": (["--epsilon", "1", "--delta", "0"], BUDGET, "delta"),
    "delta alone": (["--delta", "1e-6"], BUDGET, "epsilon"),
    "two kinds": (["--rho", "1", "--epsilon", "1"], BUDGET, "either"),
    "pure": (["--epsilon", "1", "--mechanism", "gaussian"], BUDGET, "gaussian"),
    "none": ([], USAGE, "budget"),
}


@pytest.mark.parametrize(("arguments", "code", "words"), BUDGETS.values(), ids=BUDGETS.keys())
def test_budgets_that_cannot_be_used(desk, arguments, code, words):
    desk.assert_refused(desk.release(*arguments, rho=None), code, words)


def test_an_overspend_is_refused_before_the_data_are_touched(desk):
    desk.assert_refused(desk.release(rho="3", data=desk.folder / "absent.csv"), LEDGER)


LEDGERS = {
    "other relation": (["--neighbors", "add-remove-one"], LEDGER, "replace-one"),
    "unknown relation": (["--neighbors", "somebody"], BUDGET, "replace-one"),
    "unknown dataset": (["--dataset", "strangers"], LEDGER, "ledger list"),
    "both": (["--no-ledger"], USAGE, "one of the two"),
    "wrong rows": (["--rows", "7"], DATA, "--rows"),
    "zero rows": (["--rows", "0"], USAGE, "1 or more"),
    "private rows": (["--rows", "301", "--neighbors", "add-remove-one"], USAGE, "private"),
    "seed": (["--seed", "1"], USAGE, "--not-private"),
    "unknown mechanism": (["--mechanism", "magic"], USAGE, "gaussian"),
    "unknown option": (["--option", "magic=1"], USAGE, "bits"),
    "wrong option": (["--option", "bits=99"], USAGE, "bits"),
    "option without value": (["--option", "bits"], USAGE, "NAME=VALUE"),
}


@pytest.mark.parametrize(("arguments", "code", "words"), LEDGERS.values(), ids=LEDGERS.keys())
def test_options_that_contradict_ledger_data_or_reason(desk, arguments, code, words):
    desk.assert_refused(desk.release(*arguments), code, words)


def test_a_ledger_is_named_or_declined(desk):
    fixed = ("release", desk.data, "--schema", desk.schema, "--rho", "1", "-o", desk.output)
    desk.assert_refused(desk.run(*fixed), USAGE, "--no-ledger")
    desk.assert_refused(desk.run(*fixed, "--ledger", desk.ledger), USAGE, "--dataset")
    desk.assert_refused(
        desk.run(*fixed, "--no-ledger", "--dataset", "patients"), USAGE, "needs a ledger"
    )
    desk.assert_refused(
        desk.run(*fixed, "--ledger", desk.folder / "no", "--dataset", "x"), LEDGER, "ledger create"
    )


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


def test_a_folder_that_is_not_there(desk):
    desk.assert_refused(
        desk.release("-o", desk.folder / "absent" / "x.dpcov"), RELEASE, "create it first"
    )
    desk.assert_refused(desk.release("-o", desk.folder), RELEASE, "directory")


def test_data_without_permission(shared_desk):
    shared_desk.data.chmod(0o000)
    shared_desk.assert_refused(shared_desk.release(), DATA, "permission")


def test_a_schema_without_permission(shared_desk):
    shared_desk.schema.chmod(0o000)
    shared_desk.assert_refused(shared_desk.release(), SCHEMA, "cannot be read")


def test_a_ledger_that_cannot_be_written(shared_desk):
    shared_desk.ledger.chmod(0o444)
    result = shared_desk.release()
    shared_desk.assert_refused(result, LEDGER, "writ")


def test_an_output_folder_without_permission(shared_desk):
    locked = shared_desk.folder / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    shared_desk.before = shared_desk.names()
    shared_desk.assert_refused(
        shared_desk.release("-o", locked / "x.dpcov"), RELEASE, "permission denied"
    )
    assert list(locked.iterdir()) == []


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
    assert desk.states() == ["drawn"]
    assert desk.names() == desk.before


def test_errors_before_the_reservation_say_that_nothing_was_spent(desk):
    rewrite(desk, lines(desk)[:1])
    assert "No budget was spent" in desk.release().output


@pytest.mark.parametrize("change", [change for change, _ in TABLES.values()], ids=TABLES.keys())
def test_no_value_hides_in_the_exceptions_of_the_library(desk, change, caplog):
    """Messages, notes, chained errors, formatted tracebacks and log records."""
    caplog.set_level(logging.DEBUG)
    rewrite(desk, change(lines(desk)))
    with pytest.raises(DpcovError) as caught:
        dpcov.release(str(desk.data), schema=desk.schema, budget=dpcov.Budget(rho=1))
    text = "".join(traceback.format_exception(caught.value)) + caplog.text
    error = caught.value
    while error is not None:
        text += repr(error) + str(error.args) + "".join(getattr(error, "__notes__", ()))
        error = error.__cause__ or error.__context__
    assert "4711" not in text
    assert "31337" not in text


def test_no_value_hides_in_what_a_successful_run_prints(desk, caplog):
    caplog.set_level(logging.DEBUG)
    result = desk.release()
    assert result.exit_code == 0, result.output
    for text in (result.output, caplog.text, desk.run("schema", "draft", desk.data).output):
        assert "4711" not in text
        assert "31337" not in text


@pytest.mark.parametrize("used", ["data", "schema", "ledger"])
def test_what_a_release_reads_is_never_written_over(desk, used):
    path = getattr(desk, used)
    before = path.read_bytes()
    desk.assert_refused(desk.release("--overwrite", "-o", path), USAGE, "another name")
    other = desk.folder / "." / "absent" / ".." / path.name
    (desk.folder / "absent").mkdir()
    desk.before = desk.names()
    desk.assert_refused(desk.release("--overwrite", "-o", other), USAGE, "another name")
    assert path.read_bytes() == before


@pytest.mark.parametrize(("sign", "words"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_columns_separated_by_something_else(desk, sign, words):
    desk.data.write_text(desk.data.read_text().replace(",", sign))
    desk.assert_refused(desk.release(), DATA, words)
    desk.assert_refused(desk.run("schema", "draft", desk.data), DATA, words)
    tabbed = desk.folder / "commas.tsv"
    tabbed.write_text("name,age\nzebra4711,31337.25\n")
    desk.before = desk.names()
    desk.assert_refused(desk.run("schema", "draft", tabbed), DATA, "commas")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_is_refused_without_waiting_for_its_writer(desk):
    pipe = desk.folder / "pipe.csv"
    os.mkfifo(pipe)
    desk.before = desk.names()
    desk.assert_refused(desk.release(data=pipe), DATA, "- for CSV on standard input")


def test_the_next_steps_can_be_pasted_into_a_shell(desk):
    result = desk.release("-o", desk.folder / "my patients.dpcov")
    assert result.exit_code == 0, result.output
    assert "dpcov show '" in result.output


def test_a_dash_is_no_name_of_an_output(desk, monkeypatch):
    monkeypatch.chdir(desk.folder)
    desk.assert_refused(desk.release("-o", "-"), RELEASE, "name a file")

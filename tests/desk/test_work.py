"""What is decided at the desk is what the command line does."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path

import pytest

import dpcov
from dpcov import Boolean, Categorical, Numeric, Schema
from dpcov.desk.columns import declared, is_unfilled, shown
from dpcov.errors import DpcovError
from dpcov.markup import lines_visible
from dpcov.noise.entropy import SystemEntropy
from tests.desk.conftest import (
    NAMES,
    OPENED,
    TYPED,
    WHO,
    ledger_of,
    opened,
    released,
    send,
    until_done,
    version_of,
)

Work = pytest.importorskip("dpcov.desk.work").Work


def test_nothing_is_written_before_the_release(desk, ready):
    assert sorted(path.name for path in desk.folder.iterdir()) == ["patients.csv"]


def test_a_release_writes_what_its_commands_would_write(desk, ready, tmp_path_factory):
    page = released(desk, ready)
    made = dpcov.Release.load(desk.folder / "patients.dpcov")
    assert made.fingerprint in page and "columns can be used" in page
    assert made.manifest.spent.dataset == "people"
    written = {"patients.csv", "patients.toml", "patients.dpcov", "patients.html", "ledger.sqlite"}
    assert {path.name for path in desk.folder.iterdir()} == written
    status, headers, report = desk.ask(f"{ready}/files/report")
    assert status == 200 and "frame-ancestors" in headers["content-security-policy"]
    assert made.fingerprint in report

    again = tmp_path_factory.mktemp("again")
    (again / "patients.csv").write_bytes((desk.folder / "patients.csv").read_bytes())
    (again / "run.sh").write_text(desk.ask(f"{ready}/files/script")[2])
    places = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": places}
    subprocess.run(["sh", "run.sh"], cwd=again, check=True, env=environment, timeout=200)
    assert {path.name for path in again.iterdir()} == written | {"run.sh"}
    other = dpcov.Release.load(again / "patients.dpcov")
    assert other.manifest.schema_toml == made.manifest.schema_toml
    assert other.guarantee == made.guarantee and other.manifest.n_rows == made.manifest.n_rows


def test_weights_of_rows_are_chosen_and_taken_back(desk, ready):
    assert send(desk, ready, "people", **WHO, weights="age", largest="150")[0] == 303
    page = desk.ask(f"{ready}/people")[2]
    assert '<option value="age" selected>' in page and 'value="150"' in page
    text = unescape(desk.ask(f"{ready}/columns")[2])
    assert '[weights]\ncolumn = "age"\nupper = 150' in text
    # Nothing was changed, so nothing of the column is.
    assert send(desk, ready, "people", **WHO, weights="age", largest="150")[0] == 303
    assert unescape(desk.ask(f"{ready}/columns")[2]).count("[weights]") == 1
    released(desk, ready)
    made = dpcov.Release.load(desk.folder / "patients.dpcov")
    assert "weight" in str(made.summary())
    assert send(desk, ready, "people", **WHO)[0] == 303
    assert "[weights]" not in desk.ask(f"{ready}/columns")[2]


def test_a_desk_that_ends_during_a_release_says_what_is_spent_and_leaves_no_part(
    desk, ready, monkeypatch
):
    words, pauses = SystemEntropy.words, iter([0.2] * 4)

    def slow(self, count):
        time.sleep(next(pauses, 0.0))
        return words(self, count)

    monkeypatch.setattr(SystemEntropy, "words", slow)
    assert send(desk, ready, "begin", "release")[0] == 303
    book, told = ledger_of(desk), list[str]()
    while not book.entries("people"):
        time.sleep(0.01)
    desk.app.close(told.append)
    assert told[0] == "patients.csv is being released. Wait until that has stopped."
    assert "budget IS spent: entry 1" in told[1] or "patients.dpcov is whole" in told[1]
    assert not list(desk.folder.glob(".*.part"))


def test_two_forms_at_the_same_moment_stop_nothing(desk, ready, monkeypatch):
    """A double click: the second waited for a lock in the thread that the first needed to go on."""
    decide = Work.decide_budget

    def slowly(*given):
        time.sleep(0.5)
        return decide(*given)

    monkeypatch.setattr(Work, "decide_budget", slowly)
    form = {"chosen": "2", "delta": "1e-6", "version": version_of(desk, f"{ready}/budget")}
    with ThreadPoolExecutor(2) as both:
        made = [both.submit(desk.post, f"{ready}/budget", **form) for _ in range(2)]
        found = sorted(each.result(timeout=20)[0] for each in made)
    assert found == [303, 409] and desk.ask(f"{ready}/budget")[0] == 200


def test_one_piece_of_work_at_a_time_whatever_is_asked_for(tmp_path):
    """Each may fill the memory: what begins ends what went on, but no release."""
    schema, asked = Schema(columns={"x": Numeric(lower=0, upper=1)}), threading.Event()
    work = Work(data="t.csv", folder=tmp_path, schema=schema, ledger="t.toml")

    def long(tell):
        for _ in range(2_000):
            tell(1, None)
            if asked.wait(0.01):
                return

    work._start("columns", "Checking", long)
    work._start("budget", "Rehearsing", long)
    work.jobs["columns"].wait()
    assert work.jobs["columns"].problem == "Stopped." and work.jobs["budget"].running
    work._start("release", "Releasing", long)
    with pytest.raises(DpcovError, match="It is being released"):
        work._start("columns", "Checking", long)
    asked.set()
    for job in work.jobs.values():
        job.wait()
    assert not work.jobs["release"].problem


def test_two_tables_are_open_side_by_side(desk, ready):
    other = opened(desk)
    assert other != ready
    assert send(
        desk, other, "people", neighbors="add-remove-one", rows_per_person="3", rows="", title=""
    )
    assert "replace-one" in desk.ask(f"{ready}/release")[2]


@pytest.mark.parametrize(
    ("step", "page", "fields", "said"),
    [
        ("columns", None, {"0.lower": "x", "0.upper": "1"}, "Column 'age'"),
        ("columns", None, {"0.lower": "9", "0.upper": "1"}, "lower is above upper"),
        ("columns", None, TYPED | {"0.upper": "300,5"}, "with a point, 0.5"),
        ("columns", None, {"0.type": "date", "0.lower": "1990-01-01"}, "a year, such as 1990"),
        ("check", "columns", {"0.upper": ""}, "fill in upper"),
        ("text", "columns", {"toml": "x = ["}, "not valid TOML"),
        ("people", None, {"neighbors": "replace-one", "rows_per_person": "0"}, "whole number"),
        ("people", None, WHO | {"rows_per_person": "9" * 5000}, "whole number"),
        ("people", None, {"neighbors": "nobody", "rows_per_person": "1"}, "neighbors"),
        ("people", None, WHO | {"neighbors": "add-remove-one", "rows": "2000"}, "is private here"),
        ("people", None, WHO | {"weights": "age", "largest": "all"}, "positive number"),
        ("people", None, WHO | {"weights": "ward", "largest": "8"}, "numeric or ignored"),
        ("budget", None, {"chosen": "-1", "delta": ""}, "epsilon"),
        ("rehearse", "budget", {"expected_rows": "many", "chosen": "1"}, "whole number"),
        ("account", None, {"ledger": "", "dataset": ""}, "Name the ledger"),
        ("account", None, {"ledger": "other.sqlite", "dataset": "x"}, "does not exist yet"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_and_changes_nothing(desk, ready, step, page, fields, said):
    status, _, text = send(desk, ready, step, page, **fields)
    assert status == 422 and said in unescape(text) and 'role="alert"' in text
    # What was typed is still there, to be corrected.
    written = [typed for key, typed in fields.items() if key != "neighbors"]
    assert all(f">\n{typed}<" in text or f'"{typed}"' in text for typed in written)
    assert sorted(path.name for path in desk.folder.iterdir()) == ["patients.csv"]


@pytest.mark.parametrize("name", ["absent.csv", "", "..", "patients.docx", "a\0.csv", "a" * 300])
def test_a_table_that_cannot_be_opened_says_why(desk, name):
    status, _, text = desk.post("/open", data=name, schema="")
    assert status == 422 and 'role="alert"' in text


def test_a_file_that_is_there_is_not_written_over_unasked(desk, ready):
    (desk.folder / "patients.html").write_text("mine")
    status, _, text = send(desk, ready, "begin", "release")
    assert status == 422 and "patients.html exists" in text
    assert (desk.folder / "patients.html").read_text() == "mine"
    assert not (desk.folder / "ledger.sqlite").exists()


def test_a_release_whose_name_another_program_took_meanwhile_is_shown(desk, ready, monkeypatch):
    words = SystemEntropy.words

    def meanwhile(self, count):
        (desk.folder / "patients.dpcov").write_text("theirs")
        (desk.folder / "patients.html").write_text("theirs")
        return words(self, count)

    monkeypatch.setattr(SystemEntropy, "words", meanwhile)
    page = released(desk, ready)
    made = dpcov.Release.load(desk.folder / "patients-2.dpcov")
    assert made.fingerprint in page and "patients-2.dpcov" in page
    assert made.fingerprint in desk.ask(f"{ready}/files/report")[2]
    assert (desk.folder / "patients.dpcov").read_text() == "theirs"


def test_a_schema_that_is_not_filled_in_is_kept_for_a_desk_that_is_started_later(desk):
    work, path = opened(desk), desk.folder / "patients.toml"
    status, headers, _ = send(
        desk, work, "keep", "columns", **TYPED | {"0.upper": "", "1.unit": "g"}
    )
    assert status == 303 and headers["location"].endswith("/columns")
    assert "is written" in desk.ask(f"{work}/columns")[2]
    later = opened(desk, schema="patients.toml")
    page = desk.ask(f"{later}/columns")[2]
    assert "1 thing still" in page and 'value="g"' in page and "is written" not in page
    # It was chosen, so it may be written over; one that was not chosen may not.
    assert send(desk, later, "keep", "columns", **TYPED)[0] == 303
    assert Schema.from_toml(path).columns["age"].upper == 300
    path.write_text("mine")
    status, _, text = send(desk, opened(desk), "keep", "columns", **TYPED)
    assert status == 422 and "patients.toml exists" in text and path.read_text() == "mine"


def test_what_a_refused_attempt_wrote_is_not_in_the_way_of_the_next(desk, ready):
    assert send(desk, ready, "people", **WHO | {"rows": "7"})[0] == 303
    assert "It was not released" in released(desk, ready)
    assert send(desk, ready, "people", **WHO | {"rows": "2000"})[0] == 303
    written = (desk.folder / "patients.toml").read_text()
    (desk.folder / "patients.toml").write_text("mine")
    status, _, text = send(desk, ready, "begin", "release")
    assert status == 422 and "patients.toml exists" in text
    (desk.folder / "patients.toml").write_text(written)
    released(desk, ready)
    assert dpcov.Release.load(desk.folder / "patients.dpcov").n_rows == 2000


def test_no_value_of_a_row_is_on_any_page(desk, ready):
    sentinel = "Zyxwvut-987654"
    rows = (desk.folder / "patients.csv").read_text().splitlines()
    (desk.folder / "secret.csv").write_text(
        "\n".join([rows[0], *rows[1:50], f"{sentinel},1,1,1,x,y"])
    )
    work = opened(desk, "secret.csv")
    send(desk, work, "columns", **TYPED)
    account = {"ledger": "l.sqlite", "dataset": "s", "total_delta": "1e-6"}
    send(desk, work, "account", total_epsilon="1", **account)
    pages = [released(desk, work)]
    assert "It was not released" in pages[0]
    pages += [desk.ask(f"{work}/{step}")[2] for step in ("columns", "people", "budget", "account")]
    assert not any(sentinel in page for page in pages)


def test_the_schema_as_text_is_the_schema(desk, ready):
    columns = {name: Numeric(lower=0, upper=300) for name in NAMES[:4]}
    columns |= {"smoker": Boolean(), "ward": Categorical(categories=("north", "south"))}
    made = Schema(columns=columns, title="as text")
    assert send(desk, ready, "text", "columns", toml=made.dumps())[0] == 303
    assert "as text" in desk.ask(f"{ready}/people")[2]


def test_what_the_page_does_not_ask_for_stays(tmp_path):
    now = Numeric(lower=0, upper=1, missing="indicator")
    assert declared(now, {"upper": "2"}) == Numeric(lower=0, upper=2, missing="indicator")
    assert declared(now, {"type": "ignored", "upper": "2"}).__class__.__name__ == "Ignored"
    with pytest.raises(DpcovError, match="a bound is a number"):
        declared(now, {"lower": "five"})
    with pytest.raises(DpcovError, match="The types of columns are numeric"):
        declared(now, {"type": "complex"})


@pytest.mark.parametrize(
    ("bounds", "unfilled"),
    [({}, True), ({"lower": 0}, True), ({"upper": 1}, True), ({"lower": 0, "upper": 1}, False)],
)
def test_a_number_is_ready_with_both_bounds(bounds, unfilled):
    assert is_unfilled(Numeric(**bounds)) == unfilled


def test_groups_and_public_rows_are_those_of_the_commands(desk, ready):
    assert send(desk, ready, "people", **WHO | {"by": "age"})[0] == 422
    assert send(desk, ready, "people", **WHO | {"rows": "2000", "by": "ward"})[0] == 303
    terms = {"expected_rows": "2000", "chosen": "1", "delta": "1e-6", "public": "patients.csv"}
    assert send(desk, ready, "rehearse", "budget", **terms)[0] == 303
    text = desk.ask(f"{ready}/budget")[2]
    assert "--dry-run" in text and "--by ward" in text and "suspicion about one person" in text
    assert "--rows 2000 --by ward" in desk.ask(f"{ready}/release")[2]
    released(desk, ready)
    made = dpcov.Release.load(desk.folder / "patients.dpcov")
    assert made.group_names[:2] == ("north", "south")


def test_truth_values_may_be_groups(desk, ready):
    assert send(desk, ready, "people", **WHO | {"rows": "2000", "by": "smoker"})[0] == 303
    assert '"smoker" selected' in desk.ask(f"{ready}/people")[2]
    assert "of all groups together" in released(desk, ready)
    made = dpcov.Release.load(desk.folder / "patients.dpcov")
    assert made.group_names[:2] == ("true", "false")


@pytest.mark.parametrize(
    "column",
    [
        Categorical(categories=("01", " x", "a, b"), missing_codes=("09", "9", "none, refused")),
        Numeric(lower=-0.1, upper=123456789.12345679, missing_codes=("99,5", "99.90", "1E5", -9.5)),
        Numeric(lower=1e300, missing_codes=()),
        Boolean(missing_codes=("NA", 9)),
        Categorical(categories=("a\tb", "c"), labels={"c": "\u202ed"}),
        dpcov.Date(lower=1900, format="%d/%m/%Y"),
    ],
)
def test_a_column_that_is_saved_untouched_stays_as_it_was(column):
    asked = ("lower", "upper", "unit", "categories", "missing_codes")
    # A page shows no control codes.
    sent = {name: lines_visible(shown(column, name)) for name in asked}
    assert declared(column, sent) == column


def test_a_missing_code_that_is_typed_is_a_number_only_where_it_is_written_as_one():
    now = Numeric(lower=0, upper=1, missing_codes=(-9.5,))
    typed = "-9.5\n9\n-1\n09\n99,5\n1E5\n2.50\nno answer, refused"
    codes = (-9.5, 9, -1, "09", "99,5", "1E5", "2.50", "no answer, refused")
    assert declared(now, {"missing_codes": typed}).missing_codes == codes
    assert declared(now, {"missing_codes": ""}).missing_codes is None


def test_a_european_file_is_opened_by_its_layout_and_a_codebook(desk):
    rows = "größe;ward;code\n1,5;north;999\n2,5;süd;3\n"
    (desk.folder / "west.csv").write_bytes(rows.encode("latin-1"))
    book = {"fields": [{"name": "code", "type": "integer", "description": "A code"}]}
    book["fields"][0]["constraints"] = {"minimum": 0, "maximum": 10}
    (desk.folder / "book.json").write_text(json.dumps(book))
    layout = {"delimiter": ";", "decimal": ",", "encoding": "latin-1"}
    work = opened(desk, "west.csv", schema="book.json", **layout)
    page = desk.ask(f"{work}/columns")[2]
    assert "größe" in page and "A code" in page and 'value="10"' in page
    said = "--codebook book.json --decimal , --delimiter ';' --encoding latin-1"
    assert said in unescape(page)
    # What the codebook describes comes first.
    typed = {"1.type": "numeric", "1.lower": "0", "1.upper": "9", "1.unit": "m"}
    typed |= {"2.categories": "north\nsüd", "0.missing_codes": "999\nunknown"}
    assert send(desk, work, "columns", **typed)[0] == 303
    assert 'unit = "m"' in (text := unescape(desk.ask(f"{work}/columns")[2]))
    assert 'missing_codes = [999, "unknown"]' in text


def test_next_years_table_is_opened_where_a_column_has_another_name(desk, ready):
    assert send(desk, ready, "people", **WHO | {"rows_per_person": "3"})[0] == 303
    assert send(desk, ready, "keep", "columns", **TYPED)[0] == 303
    later = (desk.folder / "patients.csv").read_text().replace("dose", "dose_mg", 1)
    (desk.folder / "later.csv").write_text(later)
    work = opened(desk, "later.csv", schema="patients.toml")
    page = desk.ask(f"{work}/columns")[2]
    assert "The schema names what the table lacks: dose." in page
    assert "dose_mg" in page and "The schema does not name it." in page
    typed = {"1.type": "numeric", "1.lower": "0", "1.upper": "300"}
    assert send(desk, work, "columns", **typed)[0] == 303
    schema = Schema.from_toml(desk.folder / "patients.toml")
    assert send(desk, work, "keep", "columns")[0] == 303
    made = Schema.from_toml(desk.folder / "later.toml")
    assert list(made.features) == [n.replace("dose", "dose_mg") for n in schema.features]
    assert made.rows_per_person == 3 and made.columns["age"] == schema.columns["age"]
    # Nothing in common: values may stand in place of names.
    (desk.folder / "rows.csv").write_text("berlin,yes\nparis,no\n")
    status, _, page = desk.post("/open", data="rows.csv", schema="patients.toml")
    assert status == 422 and "these columns, which the schema names" in page


def test_lines_that_were_typed_stay_as_they_are_when_something_else_is_refused(desk, ready):
    """Every line but the last got a sign at its end, which the next attempt took for a letter."""
    typed = TYPED | {"5.categories": "east\nwest", "5.missing_codes": "?\nnone", "0.upper": "x"}
    typed["0.type"] = "date"
    status, _, text = send(desk, ready, "columns", **typed)
    assert '<option value="date" selected' in text
    assert status == 422 and "east\nwest</textarea>" in text and "?\nnone</textarea>" in text
    broken = "[columns.age\ntype = 1\n"
    status, _, text = send(desk, ready, "text", "columns", toml=broken)
    assert status == 422 and "\ntype = 1\n</textarea>" in text


def test_how_the_rows_fit_is_told_to_the_person_alone(desk, ready):
    assert send(desk, ready, "columns", **(TYPED | {"0.upper": "5"}))[0] == 303
    assert send(desk, ready, "check", "columns")[0] == 303
    until_done(desk, ready)
    text = desk.ask(f"{ready}/columns")[2]
    assert "FOR THE CUSTODIAN ONLY" in text and "age:" in text
    assert not any(
        "FOR THE CUSTODIAN" in desk.ask(f"{ready}/{step}")[2] for step in ("people", "release")
    )
    assert send(desk, ready, "columns", **TYPED)[0] == 303
    assert "FOR THE CUSTODIAN" not in desk.ask(f"{ready}/columns")[2]
    assert sorted(path.name for path in desk.folder.iterdir()) == ["patients.csv"]


def test_a_semicolon_and_a_decimal_comma_are_said_on_the_page(desk):
    rows = "".join(f"{150 + k % 50},5;{k % 2}\n" for k in range(400))
    (desk.folder / "european.csv").write_text("size;side\n" + rows, encoding="utf-8")
    status, _, text = desk.post("/open", data="european.csv", schema="")
    # What was typed stays, and the place to say it is open.
    assert status == 422 and 'value="european.csv"' in text and "<details open>" in text
    assert "Here it is said in “Delimiter” and “Decimal sign” under" in text
    work = opened(desk, "european.csv", delimiter=";", decimal=",")
    numbers = {f"{place}.{what}": text for place in range(2) for what, text in
               (("type", "numeric"), ("lower", "0"), ("upper", "250"))}  # fmt: skip
    assert send(desk, work, "columns", **numbers)[0] == 303
    account = {"ledger": "l.sqlite", "dataset": "s", "total_delta": "1e-5"}
    send(desk, work, "account", total_epsilon="20", **account)
    assert send(desk, work, "budget", chosen="15", delta="1e-6")[0] == 303
    released(desk, work)
    made = dpcov.Release.load(desk.folder / "european.dpcov")
    assert made.mean_vector()[0] == pytest.approx(175, abs=8)


def test_a_file_with_tabs_is_opened(desk):
    (desk.folder / "tabs.csv").write_text("size\tside\n1\t2\n")
    work = opened(desk, "tabs.csv", delimiter="tab")
    assert "side</bdi>" in (page := unescape(desk.ask(f"{work}/columns")[2]))
    assert 'delimiter = "\\t"' in page
    assert "the word tab" in desk.ask()[2]


def test_the_file_of_a_database_is_in_the_folder(desk):
    with sqlite3.connect(desk.folder / "clinic.sqlite") as base:
        base.execute("CREATE TABLE visits (age REAL, ward TEXT)")
        base.execute("INSERT INTO visits VALUES (50.0, 'north')")
    base.close()
    asked = {"db": "sqlite:///clinic.sqlite", "sql": "SELECT * FROM visits"}
    status, headers, text = desk.post("/query", **asked)
    assert status == 303, text
    work = headers["location"].removeprefix(desk.base)
    assert "ward" in desk.ask(work)[2]
    status, _, text = desk.post("/query", **(asked | {"sql": "SELECT * FROM nothing"}))
    assert status == 422 and "SELECT * FROM nothing" in text and "<details open>" in text


def test_a_zero_character_in_any_name_is_refused(desk, ready):
    asked = ({"data": "patients.csv", "schema": "a\0.toml"}, {"data": "-\0", "part": "\0"})
    assert [desk.post("/open", **each)[0] for each in asked] == [422, 422]
    for db in ("sqlite:///a\0", "duckdb:///a\0", "duckdb://a\0", "\0"):
        assert desk.post("/query", db=db, sql="SELECT 1 AS a")[0] == 422
    assert send(desk, ready, "account", **OPENED | {"ledger": "a\0"})[0] == 422
    budget = {"expected_rows": "2000", "chosen": "1", "delta": "1e-6", "public": "a\0"}
    assert send(desk, ready, "rehearse", "budget", **budget)[0] == 422


def test_an_unforeseen_error_is_a_plain_page_and_no_traceback(capsys, desk, ready, monkeypatch):
    def fail(*given):
        raise RuntimeError("zebra4711")

    monkeypatch.setattr(Work, "decide_people", fail)
    status, _, page = send(desk, ready, "people")
    assert status == 500
    assert "Internal error (RuntimeError" in page and "zebra4711" not in page
    assert desk.ask(f"{ready}/people")[0] == 200
    assert "Traceback" not in capsys.readouterr().err


def test_a_script_has_the_name_of_its_table_in_any_letters(desk, ready):
    rows = (desk.folder / "patients.csv").read_bytes()
    (desk.folder / '表 "1".csv').write_bytes(rows)
    work = opened(desk, '表 "1".csv')
    status, headers, _ = desk.ask(f"{work}/files/script")
    assert status == 200
    assert "filename*=UTF-8''%E8%A1%A8" in headers["content-disposition"]

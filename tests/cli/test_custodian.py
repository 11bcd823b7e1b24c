"""The whole way of a custodian: draft, fill in, check, create a ledger, release, show, export."""

import csv
import json
import re
import tomllib

import numpy as np
import pytest

import dpcov


def fill(schema):
    """Fill in the draft of the desk's table as a person would: in the text."""
    head, *columns = re.split(r"(?m)^(?=\[columns\.)", schema.read_text())
    kept = [column for column in columns if "name" not in tomllib.loads(column)["columns"]]
    text = "".join([head, '[columns.name]\ntype = "ignored"\n\n', *kept])
    for empty, filled in (("lower = nan", "lower = 0"), ("upper = nan", "upper = 120")):
        text = text.replace(empty, filled)
    schema.write_text(text.replace("categories = []", 'categories = ["F", "M"]'))


def test_from_a_table_to_a_covariance(desk):
    schema = desk.folder / "drafted.toml"
    desk.done("schema draft", desk.data, "-o", schema)
    assert "zebra" not in schema.read_text()
    unfinished = desk.run("schema check", schema)
    assert unfinished.exit_code == 3
    assert "age" in unfinished.output
    fill(schema)
    assert "norm bound 2" in desk.done("schema check", schema, "--data", desk.data)

    ledger = desk.folder / "books.sqlite"
    told = desk.done("ledger create --dataset p --epsilon 4 --delta 1e-6", ledger)
    assert told == "Dataset p may spend (4, 1e-6)-DP in total (replace-one neighbors).\n"
    assert desk.done("ledger list", ledger) == "p  total (4, 1e-6)-DP  replace-one\n"

    spending = "release --dataset p --epsilon 1 --delta 1e-7 --rows 301"
    paths = (desk.data, "--schema", schema, "--ledger", ledger, "-o", desk.output)
    assert "dpcov export" in desk.done(spending, *paths)
    assert "committed" in desk.done("ledger show --dataset p", ledger)
    shown = desk.done("show", desk.output)
    assert "(1, 1e-7)-DP" in shown
    assert "301" in shown
    record = json.loads(desk.done("show --json", desk.output))
    spent = record["spent"]
    assert (spent["dataset"], spent["entry"], spent["opened"][:2]) == ("p", 1, "20")

    exported = desk.folder / "covariance.csv"
    desk.done("export", desk.output, "-o", exported)
    with exported.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["", "age", "sex=F", "sex=M", "ill"]
    values = np.array([[float(cell) for cell in row[1:]] for row in rows])
    np.testing.assert_allclose(values, dpcov.load(desk.output).covariance(), rtol=1e-12)


def test_a_seeded_release_is_marked_and_the_same_by_every_engine_option(desk):
    seeded = "release --rho 1 --no-ledger --seed 7 --not-private --overwrite"
    found = []
    for where in ("", " --engine local --threads 3 --memory-limit 1.5"):
        desk.done(seeded + where, desk.data, *desk.fixed)
        found.append(dpcov.load(desk.output).second_moment())
    np.testing.assert_array_equal(*found)
    assert "not private" in desk.done("show", desk.output)


def test_a_release_of_every_month_is_called_differently_by_one_schema(desk):
    told = desk.release("--title", "Loans, May", "--by", "sex")
    assert told.exit_code == 0, told.output
    made = dpcov.load(desk.output)
    assert made.manifest.title == "Loans, May"
    assert dpcov.Schema.from_toml(desk.schema).title != "Loans, May"
    assert f"features of each of {len(made.group_names)} groups." in told.output


def test_add_remove_one_tells_no_exact_number_of_rows(desk):
    private = "release --rho 1 --no-ledger --neighbors add-remove-one --overwrite"

    def stands():
        told = desk.done(private, desk.data, *desk.fixed) + desk.done("show", desk.output)
        told = re.sub(r"[0-9a-f]{64}", "", told.replace(str(desk.folder), ""))
        return re.search(r"(?<![\d.,])301(?![\d.,])", told)

    # The noisy number of rows is the exact one now and then.
    assert not all(stands() for _ in range(12))


def test_the_demo_writes_its_files_and_says_what_they_are(desk, monkeypatch):
    pytest.importorskip("statsmodels")
    empty = desk.folder / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    told = desk.done("demo")
    # What somebody copies for a table of their own keeps an account.
    assert "dpcov ledger create" in told and "--no-ledger" not in told
    files = ["demo-covariance-noise.csv", "demo-covariance.csv", "demo.dpcov"]
    assert sorted(path.name for path in empty.iterdir()) == files
    for words in (*files, "dpcov doctor", "dpcov export", "schema draft"):
        assert words in told
    made = dpcov.load(empty / "demo.dpcov")
    assert made.is_private
    assert made.n_rows == 6366
    lines = (empty / "demo-covariance.csv").read_text().splitlines()
    assert len(lines) == len(made.feature_names) + 1
    before = (empty / "demo.dpcov").read_bytes()
    assert desk.run("demo").exit_code == 7
    assert (empty / "demo.dpcov").read_bytes() == before
    desk.done("demo --overwrite")

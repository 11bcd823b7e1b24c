"""Options reach the calls behind the commands, and what is not asked for goes to standard error."""

import io
import json
import sys
import tomllib
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyarrow.csv import read_csv

import dpcov
from dpcov.audit import suite
from dpcov.cli import options
from dpcov.cli.main import app
from dpcov.errors import NumericError, UsageError
from dpcov.noise.entropy import SeededEntropy

COMMON = "--rows 9 --by sex --accept-large-delta --no-ledger --engine local --threads 2"
COMMON += " --memory-limit 3 --overwrite --seed 7 --not-private --neighbors add-remove-one"
SAME = {
    "n_rows": 9,
    "by": "sex",
    "accept_large_delta": True,
    "ledger": None,
    "dataset": None,
    "engine": "local",
    "threads": 2,
    "memory_limit": 3,
    "overwrite": True,
    "neighbors": "add-remove-one",
}
RHO, PURE = dpcov.Budget(rho="0.1"), dpcov.Budget(epsilon=2, delta="1e-7")
CALLS = [
    ("survey", "--rho 0.1 --for-epsilon 2 --for-delta 1e-7", {"budget": RHO, "coming": PURE}),
    ("survey", "--rho 0.1", {"budget": RHO, "coming": None}),
    ("survey", "--epsilon 2 --delta 1e-7 --for-rho 0.1", {"budget": PURE, "coming": RHO}),
    (
        "release",
        "--epsilon 2 --delta 1e-7 --mechanism gaussian --geometry schema",
        {"budget": PURE, "mechanism": "gaussian", "geometry": "schema"},
    ),
    ("release", "--rho 0.1", {"budget": RHO, "mechanism": "auto", "geometry": None}),
]


@pytest.mark.parametrize(("command", "terms", "expected"), CALLS)
def test_options_reach_the_call(desk, monkeypatch, command, terms, expected):
    told, shown = {}, []

    def record(data, **options):
        told.update(options, data=data)
        raise UsageError("Seen.")

    showing = contextmanager(lambda **how: iter([shown.append(how)]))
    monkeypatch.setattr(options, "rows_progress", showing)
    monkeypatch.setattr(dpcov, command, record)
    for more in ((), ("--quiet",)):
        desk.run(command, desk.data, *desk.fixed, *terms.split(), *COMMON.split(), *more)
    # Under add-remove-one the number of rows is not shown.
    assert shown == [{"show_rows": False, "quiet": quiet} for quiet in (False, True)]
    entropy, files = told.pop("entropy"), {"schema": desk.schema, "output": desk.output}
    assert isinstance(entropy, SeededEntropy) and Path(told.pop("data")) == desk.data
    assert told.pop("progress") is None
    assert told == SAME | files | expected


def test_options_reach_an_audit(desk, monkeypatch):
    told, quiet = {}, []

    def cases_of(chosen, **options):
        told.update(options, names=[each.name for each in chosen])
        return [SimpleNamespace()]

    def audit(cases, effort, **options):
        told.update(options, effort=effort)
        raise UsageError("Seen.")

    monkeypatch.setattr(suite, "cases_of", cases_of)
    monkeypatch.setattr(suite, "audit", audit)
    showing = contextmanager(lambda what, **how: iter([lambda *_: quiet.append(how["quiet"])]))
    monkeypatch.setattr(options, "steps_progress", showing)
    terms = "--quiet --deep --seconds 3 --columns 4 --seed 5 --processes 3 --private-geometry"
    desk.run(f"audit zero {terms} --neighbors add-remove-one --epsilon 2 --delta 1e-7")
    assert (told["names"], told["effort"]) == (["zero"], replace(suite.DEEP, seconds=3))
    assert (told["n_features"], told["seed"], told["processes"]) == (4, 5, 1)
    assert told["private_geometry"] and told["neighbors"] == "add-remove-one"
    assert list(told["budgets"].values()) == [PURE]
    desk.run("audit zero")
    assert (told["effort"], told["budgets"]) == (suite.QUICK, suite.BUDGETS)
    assert quiet == [True, False]


def test_options_reach_the_desk(desk, monkeypatch):
    serve, told = pytest.importorskip("dpcov.desk.serve"), []
    monkeypatch.setattr(serve, "serve", lambda *given, show, browse: told.append((*given, browse)))
    desk.done("desk", desk.folder, "--port", 8123, "--no-browser")
    desk.done("desk", desk.folder)
    folder = desk.folder.resolve()
    assert told == [(folder, 8123, False), (folder, 0, True)]


def test_what_is_written_is_kept_unless_it_may_be_overwritten(desk):
    desk.release("--geometry", "schema")
    said = {"curator": "me", "intended_use": "it", "description": "all", "sector": "health"}
    said |= {"published": "2026-01-02", "link": "https://example.org"}
    record = [
        word for name, value in said.items() for word in (f"--{name.replace('_', '-')}", value)
    ]
    for name, command in {
        "m.csv": ["export"],
        "m.R": ["export", "--to", "r"],
        "s.csv": ["sample"],
        "r.json": ["record", *record],
        "r.md": ["record", "--kind", "checklist"],
    }.items():
        output = desk.folder / name
        output.write_text("kept")
        refused = desk.run(command[0], *command[1:], desk.output, "-o", output)
        assert refused.exit_code != 0 and "--overwrite" in refused.output
        assert output.read_text() == "kept"
        desk.done(command[0], *command[1:], desk.output, "-o", output, "--overwrite")
        assert output.read_text() != "kept"
    assert json.loads((desk.folder / "r.json").read_text())["deployment"] == said


def test_synthetic_rows_of_a_group_are_of_it(desk):
    desk.release("--by", "sex", "--geometry", "schema")
    made, output = dpcov.load(desk.output), desk.folder / "s.csv"
    for more, of in ((), made.group("F")), (("--pooled",), made.group("F", pooled=True)):
        chosen = ("-o", output, "--group", "F", "--overwrite", *more)
        desk.done("sample --rows 9 --seed 1", desk.output, *chosen)
        assert read_csv(output).equals(of.sample(9, seed=1))


def test_a_draft_on_standard_output_is_toml_whatever_is_said_beside_it(desk):
    book = desk.folder / "book.json"
    fields = [{"name": "age", "type": "number"}, {"name": "gone", "type": "number"}]
    book.write_text(json.dumps({"fields": fields}))
    result = desk.run("schema draft", desk.data, "--codebook", book)
    assert set(tomllib.loads(result.stdout)["columns"]) >= {"age", "sex", "ill"}
    assert "The table lacks 1 column of the codebook: gone" in result.stderr


@pytest.mark.parametrize("command", ["release --dry-run", "plan"])
def test_a_rehearsal_needs_a_whole_schema(desk, command):
    desk.schema.write_text("[columns.age]\ntype = 'numeric'\nlower = 0\n")
    refused = desk.run(f"{command} --rho 1 --rows 9 --schema", desk.schema)
    desk.assert_refused(refused, 3, "line 1, `[columns.age]`: Column 'age': fill in upper")


def test_names_of_files_are_told_where_the_screen_has_no_such_letters(desk, monkeypatch):
    output, screen = desk.folder / "z\u0142oty.toml", io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(screen, "cp1252", write_through=True))
    app(["schema", "draft", str(desk.data), "-o", str(output)], standalone_mode=False)
    assert rb"z\u0142oty.toml" in screen.getvalue()


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (MemoryError(), 1, "Not enough memory"),
        (KeyboardInterrupt(), 130, "Interrupted."),
        (PermissionError(13, "Permission denied", "x"), 1, "A path cannot be used"),
        (NumericError("It overflowed."), 8, "It overflowed."),
    ],
)
def test_errors_of_calls_have_words_and_exit_codes(desk, monkeypatch, error, code, words):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(dpcov, "release", fail)
    desk.assert_refused(desk.release(), code, words)

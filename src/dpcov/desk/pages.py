"""The pages on which a person decides: table, columns, people, budget, account.

Contract: they show names and public decisions, never a value of a row.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from dpcov.data.sources import is_table
from dpcov.desk.frame import choice, field, form, frame, problems_box, same_as, subtitle, waiting
from dpcov.desk.work import Work
from dpcov.pipeline.plan.page import slider_of, table_of
from dpcov.privacy.meaning import certainty_in_words
from dpcov.report.html import Child, el, json_block, name_of, note

CODEBOOKS = (".toml", ".json", ".xml", ".sav", ".dta", ".sas7bdat", ".xpt")


_LAYOUT = "How the file is laid out, where it is unusual"
# Names of files that are shown before the rest is counted.
_NAMED = 8


def start(
    base: str,
    folder: Path,
    problems: Sequence[str] = (),
    works: Iterable[Work] = (),
    typed: Mapping[str, str] | None = None,
) -> bytes:
    """Choose a table."""
    ask, typed = partial(field, typed=typed), typed or {}
    if any("delimiter" in each or "encoding" in each for each in problems):
        problems = [*problems, f"Here it is said under: {_LAYOUT}."]
    files = sorted(path.name for path in folder.iterdir() if is_table(path))
    schemas = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in CODEBOOKS)
    listed = el("datalist", [el("option", value=name) for name in files], id="files")
    books = el("datalist", [el("option", value=name) for name in schemas], id="schemas")
    from_file = form(
        f"{base}/open",
        ask(
            "File",
            "data",
            hint=f"A name in {folder}, or a whole path. {_there(files)}",
            list="files",
            required=True,
            autocomplete="off",
        ),
        listed,
        ask(
            "Schema or codebook, if there is one",
            "schema",
            hint="A schema (.toml), a Data Package, CSVW, DDI, or a file of SPSS, Stata or SAS.",
            list="schemas",
            autocomplete="off",
        ),
        books,
        el(
            "details",
            el("summary", _LAYOUT),
            ask("Delimiter", "delimiter", hint="Such as ; between cells."),
            choice(
                "Decimal sign",
                "decimal",
                {"": "a point, as in 1.5", ",": "a comma, as in 1,5"},
                typed.get("decimal", ""),
            ),
            ask("Encoding", "encoding", hint="Such as latin-1 or utf-16; UTF-8 if left out."),
            ask("Line of names", "header", hint="Counted from 1.", inputmode="numeric"),
            ask("Sheet, or file within a zip", "part"),
            open=bool(problems) and "data" in typed,
        ),
        button="Open the file",
    )
    from_base = el(
        "details",
        el("summary", "From a database"),
        form(
            f"{base}/query",
            ask(
                "Database",
                "db",
                hint="sqlite:///FILE, duckdb:///FILE, postgresql://USER@HOST/NAME; no password.",
            ),
            ask(
                "Statement",
                "sql",
                hint="SELECT … FROM …: one row of its result for one row of the table.",
            ),
            button="Open the database",
        ),
        open="sql" in typed,
    )
    going = [
        el("li", el("a", name_of(subtitle(work)), href=f"{base}/{work.name}/columns"))
        for work in works
    ]
    return frame(
        base,
        "Choose a table",
        problems_box(problems),
        el(
            "p",
            "Names and types of the columns are read now. Rows are read when you release.",
            class_="lead",
        ),
        from_file,
        from_base,
        el("section", el("h2", "Tables that are open"), el("ul", going)) if going else None,
    )


def _there(files: Sequence[str]) -> str:
    """Tables of the folder, in words."""
    if not files:
        return "No table is in this folder."
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return f"Tables there: {', '.join(files[:_NAMED])}{more}."


def people(base: str, work: Work, problems: Sequence[str] = ()) -> bytes:
    """Who is protected."""
    ask = partial(field, typed=work.typed)
    relations = {
        "replace-one": "What a person's rows say. The number of rows is published exactly.",
        "add-remove-one": "Also whether a person is in the table. "
        "The number of rows is released with noise.",
    }
    radios = [
        el(
            "p",
            el(
                "input",
                type="radio",
                name="neighbors",
                id=key,
                value=key,
                checked=key == work.neighbors,
            ),
            el("label", text, for_=key),
            class_="radio",
        )
        for key, text in relations.items()
    ]
    listed = {"": "one matrix for everybody"} | {name: name for name in work.groupings}
    groups = (
        choice("A matrix for every category of", "by", listed, work.by) if work.groupings else None
    )
    return frame(
        base,
        "People",
        problems_box(problems),
        form(
            f"{base}/{work.name}/people",
            el("fieldset", el("legend", "What is hidden"), radios),
            ask(
                "Rows per person, at most",
                "rows_per_person",
                str(work.schema.rows_per_person),
                "All rows of one person are protected together. The noise grows with this number.",
                inputmode="numeric",
                required=True,
            ),
            ask(
                "Number of rows, if it is public",
                "rows",
                str(work.rows or ""),
                "A table that has another number is refused. Leave it out where it is private.",
                inputmode="numeric",
            ),
            ask("Title", "title", work.schema.title, "It stands in the file that is published."),
            groups,
            button="Save and go on",
            version=work.version,
        ),
        same_as(work.commands("people")),
        work=work,
        step="people",
    )


def budget(base: str, work: Work, problems: Sequence[str] = ()) -> bytes:
    """What it may cost, and what could be read then."""
    ask = partial(field, typed=work.typed)
    shown: list[Child] = []
    job = work.job if work.step == "budget" else None
    if job is not None and job.running:
        shown = [waiting(base, work)]
    elif job is not None and job.problem:
        shown = [problems_box(job.problem.splitlines(), "It could not be rehearsed")]
    elif work.stops:
        asked = min(work.stops, key=lambda stop: abs(stop.amount - float(work.budget.epsilon or 0)))
        shown = [
            el(
                "section",
                el("h2", "What will be readable"),
                slider_of(work.stops, asked),
                el("div", table_of(asked), class_="sortable"),
            ),
            json_block(
                "plan-data", {"stops": [{**stop.words, "cells": stop.cells} for stop in work.stops]}
            ),
        ]
    expected = str(work.rows or work.expected_rows or "")
    return frame(
        base,
        "Budget",
        problems_box(problems),
        el(
            "p",
            "Small ε protects more. Begin with 1, and see what can be read then.",
            class_="lead",
        ),
        note(certainty_in_words(work.budget.promise)),
        form(
            f"{base}/{work.name}/rehearse",
            ask(
                "Rows, roughly",
                "expected_rows",
                expected,
                "For the rehearsal on made-up rows. It is not published.",
                inputmode="numeric",
                required=True,
            ),
            ask(
                "ε around which to look",
                "epsilon",
                work.epsilon,
                inputmode="decimal",
                required=True,
                id_="around",
            ),
            ask(
                "Public rows like these, if there are any",
                "public",
                work.public,
                "A file with the same columns that is not sensitive, such as an older one.",
            ),
            el("input", type="hidden", name="delta", value=work.delta),
            button="Rehearse",
            version=work.version,
        ),
        shown,
        form(
            f"{base}/{work.name}/budget",
            ask(
                "Epsilon (ε)",
                "chosen",
                work.epsilon,
                "What this release costs.",
                inputmode="decimal",
                required=True,
            ),
            ask(
                "Delta (δ)",
                "delta",
                work.delta,
                "Far below one over the number of people; empty for a pure guarantee.",
                inputmode="decimal",
            ),
            button="Save and go on",
            version=work.version,
        ),
        same_as(work.commands("budget")),
        work=work,
        step="budget",
    )


def account(base: str, work: Work, problems: Sequence[str] = ()) -> bytes:
    """Where the budget is charged."""
    ask = partial(field, typed=work.typed)
    left = work.left()
    told = (
        [el("p", f"Account {work.account}: ", left, class_="lead", id="left")]
        if left is not None
        else [
            el(
                "p",
                f"There is no account {work.account} in {work.ledger} yet. Releasing opens it.",
                class_="lead",
                id="left",
            )
        ]
    )
    return frame(
        base,
        "Account",
        problems_box(problems),
        told,
        form(
            f"{base}/{work.name}/account",
            ask(
                "Ledger",
                "ledger",
                work.ledger,
                "An SQLite file, or postgresql://USER@HOST/NAME.",
                required=True,
            ),
            ask(
                "Dataset",
                "dataset",
                work.account,
                "One name for one group of people.",
                required=True,
            ),
            ask(
                "Total ε, for a new account",
                "total_epsilon",
                work.total_epsilon,
                "What all releases about these people together may cost.",
                inputmode="decimal",
            ),
            ask("Total δ, for a new account", "total_delta", work.total_delta, inputmode="decimal"),
            button="Save and go on",
            version=work.version,
        ),
        same_as(work.commands("account")),
        work=work,
        step="account",
    )
